//! A strict reader for JSON, for the few legal JSON texts that a YAML parser refuses.
//!
//! YAML forbids some characters in strings that JSON allows (DEL and the C1 controls, for example) and keys of
//! more than 1024 characters. This reader delivers the same events to the same builder.

use crate::parse::builder::{Builder, Stop};
use crate::scalar::{PlainKind, plain_kind};
use crate::source::{FileId, Span};
use crate::tree::NodeValue;

/// Reads a text that is one JSON value, or gives up without a word if it is anything else.
pub(crate) fn parse(file: FileId, text: &str) -> Option<Builder<'_>> {
    let content = text.trim_start_matches('\u{feff}').trim_start();
    if !content.starts_with(['{', '[']) {
        return None;
    }
    let mut reader = Reader { text, at: text.len() - content.len(), builder: Builder::new(file, text) };
    match reader.document() {
        Ok(()) | Err(Failure::Limit) => Some(reader.builder),
        Err(Failure::NotJson) => None,
    }
}

enum Failure {
    /// Not JSON after all.
    NotJson,
    /// JSON, but over a limit, which the builder has reported.
    Limit,
}

impl From<Stop> for Failure {
    fn from(Stop: Stop) -> Self {
        Self::Limit
    }
}

struct Reader<'text> {
    text: &'text str,
    at: usize,
    builder: Builder<'text>,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<(), Failure> {
        self.builder.start_document(Span::new(self.at, self.at))?;
        // The builder refuses to open more than a hundred levels, which bounds this recursion.
        self.value()?;
        self.skip_space();
        if self.at != self.text.len() {
            return Err(Failure::NotJson);
        }
        self.builder.end_document();
        Ok(())
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    /// Takes one character if it is the next, blanks before it aside.
    fn take(&mut self, character: char) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(character);
        if found {
            self.at += character.len_utf8();
        }
        found
    }

    fn value(&mut self) -> Result<(), Failure> {
        self.skip_space();
        let start = self.at;
        if self.take('{') {
            self.builder.start_mapping(Span::new(start, self.at), true, 0)?;
            self.members('}', |reader| {
                reader.skip_space();
                reader.string()?;
                if !reader.take(':') {
                    return Err(Failure::NotJson);
                }
                reader.value()
            })
        } else if self.take('[') {
            self.builder.start_sequence(Span::new(start, self.at), true, 0)?;
            self.members(']', Self::value)
        } else if self.rest().starts_with('"') {
            self.string()
        } else {
            self.word()
        }
    }

    /// Reads members separated by commas up to the closing bracket.
    fn members(
        &mut self,
        close: char,
        mut member: impl FnMut(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !self.take(close) {
            loop {
                member(self)?;
                if self.take(close) {
                    break;
                }
                if !self.take(',') {
                    return Err(Failure::NotJson);
                }
            }
        }
        self.builder.end_collection(Span::new(self.at - close.len_utf8(), self.at))?;
        Ok(())
    }

    fn string(&mut self) -> Result<(), Failure> {
        let rest = self.rest();
        if !rest.starts_with('"') {
            return Err(Failure::NotJson);
        }
        let mut escaped = false;
        let end = rest.bytes().enumerate().skip(1).find_map(|(at, byte)| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes.then_some(at + 1)
        });
        let quoted = end.and_then(|end| rest.get(..end)).ok_or(Failure::NotJson)?;
        let text: String = serde_json::from_str(quoted).map_err(|_| Failure::NotJson)?;
        let span = Span::new(self.at, self.at + quoted.len());
        self.at = span.end;
        self.builder.scalar(NodeValue::Scalar { text, plain: false }, span, 0, false)?;
        Ok(())
    }

    /// Reads a number or one of `true`, `false` and `null`.
    fn word(&mut self) -> Result<(), Failure> {
        let rest = self.rest();
        let end = rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default();
        if serde_json::from_str::<serde::de::IgnoredAny>(word).is_err() {
            return Err(Failure::NotJson);
        }
        let value = if plain_kind(word) == PlainKind::Null {
            NodeValue::Null
        } else {
            NodeValue::Scalar { text: word.to_owned(), plain: true }
        };
        let span = Span::new(self.at, self.at + end);
        self.at = span.end;
        self.builder.scalar(value, span, 0, true)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Diagnostics;
    use crate::tree::Node;

    fn read(text: &str) -> Option<(Option<Node>, Diagnostics)> {
        let mut out = Diagnostics::new();
        let documents = parse(FileId(0), text)?.finish(&mut out);
        Some((documents.into_iter().next().map(|document| document.root), out))
    }

    #[test]
    fn values_keep_their_places() {
        let text = "\u{feff} {\"a\": [1, \"\\u00e9\\/\", null], \"b\"\t:\ttrue}\n";
        let (root, out) = read(text).unwrap();
        let root = root.unwrap();
        assert!(out.is_empty());
        assert_eq!(root.span.slice(text), text.trim_start_matches('\u{feff}').trim());
        let items = root.get("a").unwrap().items();
        assert_eq!(items[0].span.slice(text), "1");
        assert_eq!(items[1].as_text(), Some("é/"));
        assert!(items[2].is_null());
        assert_eq!(root.entry("b").unwrap().key_span.slice(text), "\"b\"");
    }

    #[test]
    fn what_is_no_json_is_left_to_yaml() {
        for text in
            ["a: 1", "{a: 1}", "[1,]", "{\"a\":1} x", "[01]", "[\"\\q\"]", "[", "[\"a", "{\"a\" 1}", "[1 2]"]
        {
            assert!(read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn limits_and_duplicates_hold_here_too() {
        let (root, out) = read(&"[".repeat(5000)).unwrap();
        assert!(root.is_none());
        assert_eq!(out.iter().next().unwrap().code, "too-large");
        let (_, out) = read("{\"a\":1,\"a\":2}").unwrap();
        assert_eq!(out.iter().next().unwrap().code, "duplicate-key");
    }
}

//! Walking over a text that is known to be JSON.

use std::borrow::Cow;

use serde_json::{Number, Value};

/// A place in a JSON text. The text has passed [`super::syntax::check`]; should it not have, the walk yields
/// wrong values but ends.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

/// What kind of value is at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Object,
    List,
    Text,
    Boolean,
    Number,
    Null,
}

impl Token {
    /// The word messages have for it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::List => "array",
            Self::Text => "string",
            Self::Boolean => "bool",
            Self::Number => "number",
            Self::Null => "null",
        }
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// The same text at another place.
    pub(super) fn back_at(self, at: usize) -> Self {
        Self { at, ..self }
    }

    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or_default()
    }

    fn space(&mut self) {
        while let b' ' | b'\t' | b'\r' | b'\n' = self.byte() {
            self.at += 1;
        }
    }

    /// The kind of the value that follows.
    pub(super) fn token(&mut self) -> Token {
        self.space();
        match self.byte() {
            b'{' => Token::Object,
            b'[' => Token::List,
            b'"' => Token::Text,
            b't' | b'f' => Token::Boolean,
            b'n' => Token::Null,
            _ => Token::Number,
        }
    }

    /// Steps into an object or list.
    pub(super) fn open(&mut self) {
        self.space();
        self.at += 1;
    }

    /// Is there another item? Steps over the comma in front of it, or over the end (`}` or `]`).
    pub(super) fn more(&mut self) -> bool {
        self.space();
        match self.byte() {
            b',' => {
                self.at += 1;
                self.space();
                true
            }
            b'}' | b']' => {
                self.at += 1;
                false
            }
            0 => false,
            _ => true,
        }
    }

    /// The name of a field; steps behind the colon.
    pub(super) fn key(&mut self) -> Cow<'a, str> {
        let key = self.text_value();
        self.space();
        self.at += 1;
        key
    }

    /// The value as it is written; steps behind it.
    pub(super) fn skip(&mut self) -> &'a str {
        self.space();
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.byte() {
                b'"' => {
                    self.skip_text();
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.saturating_sub(1);
                    self.at += 1;
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                0 => break,
                _ => self.skip_word(),
            }
            if depth == 0 {
                break;
            }
        }
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn skip_word(&mut self) {
        while !matches!(self.byte(), 0 | b',' | b'}' | b']' | b':' | b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
    }

    /// Steps over a text and says whether it has escapes.
    fn skip_text(&mut self) -> bool {
        let mut escaped = false;
        self.at += 1;
        loop {
            match self.byte() {
                b'"' => {
                    self.at += 1;
                    return escaped;
                }
                b'\\' => {
                    escaped = true;
                    self.at += 2;
                }
                0 if self.at >= self.text.len() => return escaped,
                _ => self.at += 1,
            }
        }
    }

    /// A text; steps behind it.
    pub(super) fn text_value(&mut self) -> Cow<'a, str> {
        self.space();
        let start = self.at + 1;
        let escaped = self.skip_text();
        let inside = self.text.get(start..self.at.saturating_sub(1)).unwrap_or_default();
        if escaped { Cow::Owned(unescape(inside)) } else { Cow::Borrowed(inside) }
    }
}

/// Resolves the escapes of a text; halves of characters become the replacement character.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(kind) = rest.chars().next() else { break };
        rest = &rest[kind.len_utf8()..];
        match kind {
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'u' => {
                let first = hex(rest);
                rest = rest.get(4..).unwrap_or_default();
                let second =
                    rest.strip_prefix("\\u").map(hex).filter(|second| (0xdc00..0xe000).contains(second));
                match (first, second) {
                    (0xd800..0xdc00, Some(second)) => {
                        rest = rest.get(6..).unwrap_or_default();
                        let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    _ => out.push(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER)),
                }
            }
            other => out.push(other),
        }
    }
    out.push_str(rest);
    out
}

fn hex(text: &str) -> u32 {
    text.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0xfffd)
}

/// A number of free-form JSON: whole if it is, whatever its notation. None when it is out of range.
pub(super) fn any_number(text: &str) -> Option<Value> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite())?;
    // The limit is the first power of two that 64 bits do not reach.
    if number.fract() == 0.0 && number.abs() < 9_223_372_036_854_775_808.0 {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and within the range")]
        return Some((number as i64).into());
    }
    Number::from_f64(number).map(Value::Number)
}

/// A number that is kept as it is written: one with a fraction keeps it, be it zero.
pub(super) fn raw_number(text: &str) -> Option<Value> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    text.parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_resolved() {
        let text = r#""a\n\u00e9\ud83d\ude00\ud800x\/""#;
        assert_eq!(Cursor::new(text).text_value(), "a\né😀\u{fffd}x/");
    }

    #[test]
    fn numbers_are_whole_when_they_can_be() {
        assert_eq!(any_number("1.0"), Some(1.into()));
        assert_eq!(any_number("1e3"), Some(1000.into()));
        assert_eq!(any_number("0.5"), Some(0.5.into()));
        assert_eq!(any_number("1e400"), None);
        assert!(any_number("9223372036854775808").unwrap().is_f64());
    }
}

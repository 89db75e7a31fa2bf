//! Which lines of a source may be shown. A diagnostic about one field shows a whole line, and what else is on it
//! may be secret, whatever state the document is in.
//!
//! It is decided from the text alone, because a document that cannot be parsed has secrets too. When in doubt
//! nothing is shown: the place is enough to find it.

use std::borrow::Cow;

use crate::diagnostic::{Diagnostic, Location};
use crate::path::FieldPath;
use crate::source::{FileId, SourceMap, Span};

/// Words that stand for secrets, in lower case. The line that has one, and what is indented below it, is not shown.
const WORDS: &[&str] = &[
    "password",
    "passwd",
    "token",
    "kubeconfig",
    "pullsecret",
    "overwritecloudconfig",
    "cloud-config",
    "userdata",
    "authorization",
    "activationkey",
    "private key",
    "certificate-data",
    "client-key",
    "secretkey",
    "headers",
    "inlin",
];

/// Codes of complaints about text that could not be parsed, whose structure is therefore not known.
const UNPARSED: &[&str] =
    &["yaml-syntax", "duplicate-key", "unsupported-tag", "invalid-key", "invalid-merge", "too-large"];

/// Codes of complaints that quote the text they are about.
const QUOTING: &[&str] = &["unknown-field", "invalid-value", "wrong-type", "choose-one", "ambiguous-number"];

/// What may be shown of some texts, found out once.
#[derive(Debug)]
pub(crate) struct Privacy {
    files: Vec<FilePrivacy>,
}

/// What may be shown of one text.
#[derive(Debug, Default)]
struct FilePrivacy {
    /// Lines that hold secrets.
    lines: Vec<Span>,
    /// Documents that hold any.
    documents: Vec<Span>,
}

impl Privacy {
    /// Looks through the texts.
    pub(crate) fn of(sources: &SourceMap) -> Self {
        Self { files: sources.iter().map(|(_, source)| FilePrivacy::of(&source.text)).collect() }
    }

    /// A diagnostic as it may be shown: where its line is private, without the line and without what it quotes.
    pub(crate) fn veiled<'a>(&self, diagnostic: &'a Diagnostic, sources: &SourceMap) -> Cow<'a, Diagnostic> {
        let Some(Location { file, span }) = diagnostic.location else { return Cow::Borrowed(diagnostic) };
        let line = sources.line_of(file, span.start).map_or("", |(_, _, line)| line);
        if !diagnostic.sensitive && self.allows(diagnostic, file, span.start, line) {
            return Cow::Borrowed(diagnostic);
        }
        let mut veiled = diagnostic.clone().sensitive();
        if UNPARSED.contains(&diagnostic.code) || QUOTING.contains(&diagnostic.code) {
            veiled.message = without_quotes(&diagnostic.message);
            let path = diagnostic.path.as_deref().and_then(|path| path.parse::<FieldPath>().ok());
            veiled.path = path
                .and_then(|path| path.parent())
                .map(|path| path.to_string())
                .filter(|path| !path.is_empty());
        }
        Cow::Owned(veiled)
    }

    fn allows(&self, diagnostic: &Diagnostic, file: FileId, offset: usize, line: &str) -> bool {
        let Some(privacy) = self.files.get(file.0) else { return false };
        let spans = if UNPARSED.contains(&diagnostic.code) { &privacy.documents } else { &privacy.lines };
        // The spans are in order and do not overlap.
        let at = spans.partition_point(|span| span.end < offset);
        let is_inside = spans.get(at).is_some_and(|span| span.start <= offset);
        !is_inside && !holds_credentials(line)
    }
}

impl FilePrivacy {
    fn of(text: &str) -> Self {
        let mut privacy = Self::default();
        let mut start = 0;
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            // A line of dashes is also how keys and certificates begin.
            let is_boundary = line.trim_end() == "---" || line.starts_with("--- ");
            if is_boundary {
                privacy.add(text, Span::new(start, offset));
                start = offset;
            }
            offset += line.len();
        }
        privacy.add(text, Span::new(start, offset));
        privacy
    }

    fn add(&mut self, text: &str, document: Span) {
        let content = document.slice(text);
        if is_secret(content) {
            self.lines.push(document);
            self.documents.push(document);
            return;
        }
        let before = self.lines.len();
        let mut below: Option<usize> = None;
        let mut offset = document.start;
        for line in content.split_inclusive('\n') {
            let indentation = line.len() - line.trim_start().len();
            let is_below = below.is_some_and(|outer| indentation > outer || line.trim().is_empty());
            let lower = line.to_lowercase();
            let is_named = WORDS.iter().any(|word| lower.contains(word));
            if is_named || is_below {
                self.lines.push(Span::new(offset, offset + line.len().saturating_sub(1)));
            }
            if is_named && !is_below {
                below = Some(indentation);
            } else if !is_below {
                below = None;
            }
            offset += line.len();
        }
        if self.lines.len() > before {
            self.documents.push(document);
        }
    }
}

/// Whether a document is a Secret, or may be one by a slip of the pen.
fn is_secret(document: &str) -> bool {
    let bare: String = document
        .chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '"' | '\''))
        .collect::<String>()
        .to_lowercase();
    let mut kinds = bare.match_indices("kind:").filter_map(|(at, text)| bare.get(at + text.len()..));
    let names_one = kinds.any(|kind| {
        let kind = kind.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        // Behind an anchor or a tag stands the kind itself.
        let kind = ["k", "str"].iter().find_map(|mark| kind.strip_prefix(mark)).unwrap_or(kind);
        let is_binding = kind.starts_with("secretbinding") || kind.starts_with("secretkeyref");
        (kind.starts_with("sec") || kind.starts_with("s\\u")) && !is_binding
    });
    let holds_data =
        bare.starts_with("data:") || document.contains("\ndata:") || bare.contains("stringdata:");
    names_one || (holds_data && !bare.contains("kind:"))
}

/// Whether a line has an address with a user and a password, with or without a scheme.
fn holds_credentials(line: &str) -> bool {
    let is_login = |word: &str| {
        let parts = word.rsplit_once('@').filter(|(_, host)| !host.is_empty() && !host.starts_with("sha"));
        parts.is_some_and(|(user, _)| user.contains(':'))
    };
    let mut words =
        line.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '{' | '}' | '[' | ']'));
    words.any(is_login) || trellis_model::change::without_credentials(line) != line
}

/// A text with everything it quotes taken out.
fn without_quotes(text: &str) -> String {
    let hide = |text: &str, mark: char| {
        let parts: Vec<&str> = text.split(mark).collect();
        let shown = parts
            .iter()
            .enumerate()
            .map(|(i, part)| if i % 2 == 1 { format!("{mark}(hidden){mark}") } else { (*part).to_owned() });
        shown.collect::<String>()
    };
    hide(&hide(text, '`'), '"')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the line with that text may be shown for a complaint of that code.
    fn shown(text: &str, line: &str, code: &'static str) -> bool {
        let mut sources = SourceMap::new();
        let file = sources.add("a", text);
        Privacy::of(&sources).allows(&Diagnostic::error(code, "m"), file, text.find(line).unwrap(), line)
    }

    #[test]
    fn secrets_are_found_in_any_spelling_and_only_they_are() {
        for secret in [
            "kind: 'Secret'\ndata: {x: y}\n",
            "{\"kind\": \"Secret\", \"data\": {x: y}}\n",
            "kind:\n  Secret\ndata: {x: y}\n",
            "kind: &k Secret\ndata: {x: y}\n",
            "kind: !!str Secret\ndata: {x: y}\n",
            "kind: Secrt\ndata: {x: y}\n",
            "{\"kind\": \"S\\u0065cret\", data: {x: y}}\n",
            "apiVersion: v1\ndata: {x: y}\n",
            "kind: Secret\na: |\n-----BEGIN KEY-----\ndata: {x: y}\n",
        ] {
            let text = format!("kind: Pool\nname: a\n---\n{secret}---\nkind: SecretBinding\nz: 1\n");
            assert!(!shown(&text, "x: y", "e"), "{secret}");
            assert!(shown(&text, "name: a", "e") && shown(&text, "z: 1", "e"), "{secret}");
        }
    }

    #[test]
    fn what_stands_below_a_word_for_secrets_is_private_too() {
        let text = "a: 1\nuserData:\n  inline: |\n    users: x\n  other: y\nb: 2\n";
        assert!(shown(text, "a: 1", "e") && shown(text, "b: 2", "e"));
        assert!(!shown(text, "    users: x", "e") && !shown(text, "  other: y", "e"));
        assert!(!shown(text, "b: 2", "yaml-syntax"), "where it cannot be parsed nothing is known");
    }

    #[test]
    fn lines_with_credentials_are_not_shown() {
        for line in [
            "  Password: x",
            "a: {token: b, c: d}",
            "url: https://u:p@h/x",
            "url: https://h/x?sig=1",
            "\"inline\":\"x\"",
        ] {
            assert!(!shown(line, line, "e"), "{line}");
        }
        for line in ["url: https://h/x", "key: ssh-rsa AAAA me@example.com", "image: r:5000/i@sha256:abc"] {
            assert!(shown(line, line, "e"), "{line}");
        }
    }

    #[test]
    fn quotes_are_taken_out_of_messages() {
        assert_eq!(without_quotes("expected `a`, found `b`"), "expected `(hidden)`, found `(hidden)`");
        assert_eq!(without_quotes("no quotes"), "no quotes");
    }
}

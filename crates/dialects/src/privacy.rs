//! Which lines of a source may be shown. A diagnostic about one field shows a whole line, and what else is on it
//! may be secret, whatever state the document is in.

use crate::source::{FileId, SourceMap, Span};

/// Words that stand for secrets, in lower case. A line that has one is not shown: better too few lines than one
/// too many.
const WORDS: &[&str] = &[
    "password",
    "passwd",
    "token",
    "kubeconfig",
    "pullsecret",
    "overwritecloudconfig",
    "authorization",
    "activationkey",
    "private key",
    "certificate-data",
    "client-key",
    "secretkey",
    "headers",
    "inline:",
];

/// What may be shown of some texts, found out once.
#[derive(Debug)]
pub(crate) struct Privacy {
    /// For each file, where Secrets stand.
    secrets: Vec<Vec<Span>>,
}

impl Privacy {
    /// Looks through the texts.
    pub(crate) fn of(sources: &SourceMap) -> Self {
        Self { secrets: sources.iter().map(|(_, source)| secrets(&source.text)).collect() }
    }

    /// Whether a line of a file may be shown.
    pub(crate) fn allows(&self, file: FileId, offset: usize, line: &str) -> bool {
        let inside = |span: &Span| span.start <= offset && offset <= span.end;
        let is_secret = self.secrets.get(file.0).is_some_and(|secrets| secrets.iter().any(inside));
        let lower = line.to_lowercase();
        !is_secret
            && !WORDS.iter().any(|word| lower.contains(word))
            && trellis_model::change::without_credentials(line) == line
    }
}

/// The documents of a text that are Secrets, also where they cannot be parsed.
fn secrets(text: &str) -> Vec<Span> {
    let mut found = Vec::new();
    let (mut start, mut is_secret, mut offset) = (0, false, 0);
    for line in text.split_inclusive('\n') {
        if line.starts_with("---") {
            found.extend(is_secret.then_some(Span::new(start, offset)));
            (start, is_secret) = (offset, false);
        }
        is_secret |= names_a_secret(line);
        offset += line.len();
    }
    found.extend(is_secret.then_some(Span::new(start, text.len())));
    found
}

/// Whether a line says `kind: Secret`, in YAML or JSON.
fn names_a_secret(line: &str) -> bool {
    line.contains("Secret") && {
        let bare: String = line.chars().filter(|c| !c.is_whitespace() && !matches!(c, '"' | '\'')).collect();
        let mut kinds = bare
            .match_indices("kind:Secret")
            .map(|(at, text)| bare.get(at + text.len()..).unwrap_or_default());
        kinds.any(|rest| rest.is_empty() || rest.starts_with([',', '}', '#']))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_in_any_spelling_and_only_they_are() {
        let mut sources = SourceMap::new();
        let text = "kind: Pool\nname: a\n---\nkind: 'Secret'\ndata: {x: y}\n---\n{\"kind\": \"Secret\", \"a\": 1}\n---\nkind: SecretBinding\nz: 1\n";
        let file = sources.add("a", text);
        let privacy = Privacy::of(&sources);
        let shown = |line: &str| privacy.allows(file, text.find(line).unwrap(), line);
        assert!(shown("name: a") && shown("z: 1"));
        assert!(!shown("data: {x: y}") && !shown("\"a\": 1}"));
    }

    #[test]
    fn lines_with_words_for_secrets_or_credentials_in_an_address_are_not_shown() {
        let mut sources = SourceMap::new();
        let file = sources.add("a", "x");
        let privacy = Privacy::of(&sources);
        for line in [
            "  Password: x",
            "a: {token: b, c: d}",
            "url: https://u:p@h/x",
            "url: https://h/x?sig=1",
            "kubeconfig: |",
        ] {
            assert!(!privacy.allows(file, 0, line), "{line}");
        }
        assert!(privacy.allows(file, 0, "url: https://h/x"));
    }
}

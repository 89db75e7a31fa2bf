//! What there is to say about a place in a text.

use std::collections::HashSet;

use crate::source::{FileId, Span};

/// How bad it is. The worst comes first in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The input cannot be used.
    Error,
    /// The input can be used, but probably does not mean what its author thinks.
    Warning,
    /// Nothing is wrong; the author may still want to know.
    Notice,
}

impl Severity {
    /// The word for it in messages and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

/// A place in one of the texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The text.
    pub file: FileId,
    /// The place in it.
    pub span: Span,
}

impl Location {
    /// A place in a text.
    pub const fn new(file: FileId, span: Span) -> Self {
        Self { file, span }
    }
}

/// One thing to say, built as `Diagnostic::error(code, message).at(location).help(…)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// A stable name for this kind of problem, such as `unknown-field`.
    pub code: &'static str,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Where it is, when it has a place.
    pub location: Option<Location>,
    /// The field it is about, such as `spec.template.spec.versions.kubelet`.
    pub path: Option<String>,
    /// A few words to stand beside the marked place.
    pub label: Option<String>,
    /// How to put it right.
    pub help: Option<String>,
    /// Whether the marked text is secret: then no part of the source is ever shown.
    pub sensitive: bool,
}

impl Diagnostic {
    /// Something to say, with a severity chosen by the caller.
    pub fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity,
            code,
            message: message.into(),
            location: None,
            path: None,
            label: None,
            help: None,
            sensitive: false,
        }
    }

    /// A problem that makes the input unusable.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    /// Something that probably does not mean what its author thinks.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message)
    }

    /// Something worth knowing.
    pub fn notice(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Notice, code, message)
    }

    /// Says where it is.
    #[must_use]
    pub fn at(mut self, location: Location) -> Self {
        self.location = Some(location);
        self
    }

    /// Says which field it is about.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        // The path of the document itself is empty and says nothing.
        self.path = Some(path.into()).filter(|path| !path.is_empty());
        self
    }

    /// Puts a few words beside the marked place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Says how to put it right.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Keeps the source text out of everything that is shown.
    #[must_use]
    pub fn sensitive(mut self) -> Self {
        self.sensitive = true;
        self
    }
}

/// Everything there is to say about a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Nothing to say yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    /// Drops what is no longer true, by its code.
    pub fn drop_all(&mut self, code: &str) {
        self.list.retain(|diagnostic| diagnostic.code != code);
    }

    /// Drops warnings and notices that an error of the same code says at the same field.
    pub(crate) fn drop_repeated_warnings(&mut self) {
        let errors = self.list.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
        let said: std::collections::BTreeSet<_> = errors
            .map(|error| (error.code, error.path.clone(), error.location.map(|at| at.span.start)))
            .collect();
        self.list.retain(|diagnostic| {
            let key = (diagnostic.code, diagnostic.path.clone(), diagnostic.location.map(|at| at.span.start));
            diagnostic.severity == Severity::Error || !said.contains(&key)
        });
    }

    /// Forgets all but the first so many.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.list.truncate(length);
    }

    /// Whether any of them makes the input unusable.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// How many there are of one severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.list.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }

    /// How many there are in all.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them, in the order they were added or last sorted.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// Puts them in the order of the texts (those without a place last) and drops exact repeats.
    pub fn sort(&mut self) {
        let mut seen = HashSet::new();
        self.list.retain(|diagnostic| seen.insert(diagnostic.clone()));
        // `None` sorts before `Some`, hence the flag in front. The sort is stable: at one place the order of
        // discovery stays.
        self.list.sort_by_key(|diagnostic| {
            (diagnostic.location.is_none(), diagnostic.location.map(|place| (place.file, place.span.start)))
        });
    }
}

impl Extend<Diagnostic> for Diagnostics {
    fn extend<T: IntoIterator<Item = Diagnostic>>(&mut self, diagnostics: T) {
        self.list.extend(diagnostics);
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(file: usize, start: usize) -> Location {
        Location::new(FileId(file), Span::new(start, start + 1))
    }

    #[test]
    fn sorting_orders_by_place_and_drops_only_exact_repeats() {
        let mut all = Diagnostics::new();
        all.push(Diagnostic::notice("z", "no place"));
        all.push(Diagnostic::error("b", "second file").at(at(1, 0)));
        all.push(Diagnostic::error("a", "later").at(at(0, 9)));
        all.push(Diagnostic::error("a", "earlier").at(at(0, 2)));
        all.push(Diagnostic::error("a", "later").at(at(0, 9)));
        all.push(Diagnostic::error("a", "later").at(at(0, 9)).help("differs"));
        all.sort();
        let messages: Vec<_> = all.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
        assert_eq!(messages, ["earlier", "later", "later", "second file", "no place"]);
    }

    #[test]
    fn counting_and_errors() {
        let mut all = Diagnostics::new();
        all.extend([Diagnostic::warning("w", "w"), Diagnostic::notice("n", "n")]);
        assert!(!all.has_errors());
        all.push(Diagnostic::error("e", "e"));
        assert!(all.has_errors());
        assert_eq!(
            [Severity::Error, Severity::Warning, Severity::Notice].map(|severity| all.count(severity)),
            [1, 1, 1]
        );
        assert!(Severity::Error < Severity::Warning && Severity::Warning < Severity::Notice);
    }

    #[test]
    fn the_path_of_the_document_itself_is_no_path() {
        assert_eq!(Diagnostic::error("e", "e").path("").path, None);
        assert_eq!(Diagnostic::error("e", "e").path("a.b").path.as_deref(), Some("a.b"));
    }
}

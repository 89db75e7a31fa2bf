//! From texts to an estate and what was said about them.

use trellis_dialects::diagnostic::{Diagnostic, Diagnostics, Severity};
use trellis_dialects::source::SourceMap;
use trellis_model::Estate;
use trellis_model::pool::PoolSpec;

/// What came of some texts.
pub(crate) struct Outcome {
    pub(crate) estate: Estate,
    pub(crate) diagnostics: Diagnostics,
    sources: SourceMap,
}

/// Reads texts together.
pub(crate) fn read(texts: &[&str]) -> Outcome {
    let mut sources = SourceMap::new();
    for (index, text) in texts.iter().enumerate() {
        sources.add(format!("{index}.yaml"), *text);
    }
    let read = trellis_dialects::read::read(&sources);
    Outcome { estate: read.estate, diagnostics: read.diagnostics, sources }
}

impl Outcome {
    /// The pool of that name.
    pub(crate) fn pool(&self, name: &str) -> &PoolSpec {
        let found = self.estate.pools.iter().find(|pool| pool.name.as_str() == name);
        &found.unwrap_or_else(|| panic!("{name}: {}", self.text())).spec
    }

    /// Everything that was said, as `line code` for one severity.
    pub(crate) fn said(&self, severity: Severity) -> Vec<String> {
        let of = self.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity);
        of.map(|diagnostic| {
            let line = diagnostic
                .location
                .map_or(0, |place| self.sources.line_column(place.file, place.span.start).0);
            format!("{line} {}", diagnostic.code)
        })
        .collect()
    }

    pub(crate) fn errors(&self) -> Vec<String> {
        self.said(Severity::Error)
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.said(Severity::Warning)
    }

    pub(crate) fn notices(&self) -> Vec<String> {
        self.said(Severity::Notice)
    }

    /// Everything that was said, in full.
    pub(crate) fn text(&self) -> String {
        let line = |said: &Diagnostic| {
            let help = said.help.as_deref().unwrap_or_default();
            format!("{:?} {}: {} ({help})", said.severity, said.code, said.message)
        };
        self.diagnostics.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

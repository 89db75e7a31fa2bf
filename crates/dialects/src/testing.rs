//! Reading a text and looking at what was said, for tests beside the code.

use serde_json::Value;
use trellis_model::Estate;

use crate::diagnostic::{Diagnostics, Severity};
use crate::source::SourceMap;

/// What came of reading a text.
pub(crate) struct Outcome {
    pub(crate) estate: Estate,
    pub(crate) diagnostics: Diagnostics,
    pub(crate) sources: SourceMap,
}

/// Reads a text.
pub(crate) fn read(text: &str) -> Outcome {
    let mut sources = SourceMap::new();
    sources.add("test.yaml", text);
    let read = crate::read::read(&sources);
    Outcome { estate: read.estate, diagnostics: read.diagnostics, sources }
}

impl Outcome {
    /// Everything that was said, as `severity code line`.
    pub(crate) fn said(&self) -> Vec<String> {
        self.diagnostics
            .iter()
            .map(|d| {
                let line = d.location.map_or(0, |at| self.sources.line_column(at.file, at.span.start).0);
                format!("{} {} {line}", d.severity.name(), d.code)
            })
            .collect()
    }

    /// What was said of one severity.
    pub(crate) fn said_of(&self, severity: &str) -> Vec<String> {
        self.said().into_iter().filter(|text| text.starts_with(severity)).collect()
    }

    /// The estate, after making sure that nothing was wrong.
    pub(crate) fn clean(&self) -> &Estate {
        let errors: Vec<_> = self.diagnostics.iter().filter(|d| d.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        &self.estate
    }
}

/// Documents as one text.
pub(crate) fn text(values: &[Value]) -> String {
    crate::yaml_out::to_yaml_documents(values)
}

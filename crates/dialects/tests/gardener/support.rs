//! From texts to an estate and what was said about them.

use trellis_dialects::check::check;
use trellis_dialects::diagnostic::{Diagnostic, Diagnostics, Severity};
use trellis_dialects::gardener::{self, KINDS};
use trellis_dialects::parse::parse;
use trellis_dialects::path::FieldPath;
use trellis_dialects::reading::{DocumentId, Reading};
use trellis_dialects::source::SourceMap;
use trellis_model::Estate;

/// What came of some texts.
pub(crate) struct Outcome {
    pub(crate) estate: Estate,
    pub(crate) diagnostics: Diagnostics,
    sources: SourceMap,
}

/// Reads texts the way the core does: parse, check, decode, read, validate.
pub(crate) fn read(texts: &[&str]) -> Outcome {
    let mut sources = SourceMap::new();
    let mut diagnostics = Diagnostics::new();
    let mut documents = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let file = sources.add(format!("{index}.yaml"), *text);
        documents.extend(parse(file, text, &mut diagnostics));
    }
    let mut reading = Reading::new(documents, diagnostics);
    let mut objects = Vec::new();
    for index in 0..reading.documents.len() {
        let document = reading.documents[index].clone();
        let field = |name: &str| document.root.get(name).and_then(|node| node.as_text()).unwrap_or_default();
        let kind =
            KINDS.iter().find(|kind| kind.api_version == field("apiVersion") && kind.kind == field("kind"));
        let kind = kind.unwrap_or_else(|| panic!("{} {} is not known", field("apiVersion"), field("kind")));
        let before = reading.diagnostics.count(Severity::Error);
        let root = FieldPath::root();
        let value = check((kind.schema)(), &document.root, document.file, &root, &mut reading.diagnostics);
        if reading.diagnostics.count(Severity::Error) > before {
            continue;
        }
        let id = DocumentId(index);
        objects.extend((kind.decode)(&mut reading.within(id), value).map(|object| (id, object)));
    }
    gardener::read(objects, &mut reading);
    let problems = trellis_model::validate::validate(&reading.estate);
    reading.report(problems);
    reading.diagnostics.sort();
    Outcome { estate: reading.estate, diagnostics: reading.diagnostics, sources }
}

impl Outcome {
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

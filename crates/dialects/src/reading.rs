//! What reading a dialect has in common: typed documents, located complaints, and where each
//! value of the model came from.

use std::fmt::Display;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use trellis_model::validate::PASSWORD_IN_ADDRESS;
use trellis_model::{Estate, Problem, Subject};

use crate::check::check;
use crate::diagnostic::{Diagnostic, Diagnostics, Location, Severity};
use crate::path::FieldPath;
use crate::schema::schema_of;
use crate::tree::{Document, Node};

/// Everything that is collected while documents are read.
#[derive(Debug, Default)]
pub struct Reading {
    /// The documents, in the order they were given.
    pub documents: Vec<Document>,
    /// What there is to say about them.
    pub diagnostics: Diagnostics,
    /// What they describe.
    pub estate: Estate,
    origins: Vec<Origin>,
    /// Where documents do not have the form they should have.
    broken: Vec<(DocumentId, FieldPath)>,
    /// What there is to say about that form.
    structure: Diagnostics,
}

/// Where in the documents a part of the model was read from.
#[derive(Debug)]
struct Origin {
    subject: Subject,
    model_path: String,
    document: DocumentId,
    source: FieldPath,
}

/// The number of a document in a [`Reading`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocumentId(pub usize);

impl Reading {
    /// A reading of these documents, with nothing read yet.
    pub fn new(documents: Vec<Document>, diagnostics: Diagnostics) -> Self {
        Self { documents, diagnostics, ..Self::default() }
    }

    /// Reads on in one document.
    pub fn within(&mut self, document: DocumentId) -> Cx<'_> {
        Cx { reading: self, document }
    }

    /// Holds a part of a document against a schema and decodes it with `decode`.
    ///
    /// Where the form is broken, what is left of it is decoded all the same if that is possible: all
    /// problems are to be found in one run. [`Reading::finish`] drops those that only follow from the form.
    pub(crate) fn decode<T>(
        &mut self,
        id: DocumentId,
        at: &FieldPath,
        schema: &Value,
        decode: impl FnOnce(&mut Cx<'_>, Value) -> Option<T>,
    ) -> Option<T> {
        let document = self.documents.get(id.0)?;
        let mut found = Diagnostics::new();
        let value = check(schema, document.get(at)?, document.file, at, &mut found);
        let errors = found.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
        let paths: Vec<FieldPath> = errors.filter_map(|error| error.path.as_deref()?.parse().ok()).collect();
        let is_broken = found.has_errors();
        self.broken.extend(paths.into_iter().map(|path| (id, path)));
        self.structure.extend(found);
        let before = self.diagnostics.len();
        let decoded = decode(&mut self.within(id), value);
        if is_broken && decoded.is_none() {
            self.diagnostics.truncate(before);
        }
        decoded
    }

    /// Everything there is to say, in the order of the texts.
    pub(crate) fn finish(&mut self) -> Diagnostics {
        let mut said = std::mem::take(&mut self.structure);
        let found = std::mem::take(&mut self.diagnostics);
        said.extend(found.into_iter().filter(|diagnostic| !self.is_consequence(diagnostic)));
        said.sort();
        said
    }

    /// Whether a complaint only follows from the broken form of the field it is about.
    fn is_consequence(&self, diagnostic: &Diagnostic) -> bool {
        let Some(Location { file, span }) = diagnostic.location else { return false };
        let Some(path) = diagnostic.path.as_deref().and_then(|path| path.parse::<FieldPath>().ok()) else {
            return false;
        };
        self.broken.iter().any(|(id, broken)| {
            self.documents.get(id.0).is_some_and(|document| {
                let whole = document.root.span;
                document.file == file && whole.start <= span.start && span.end <= whole.end
            }) && (broken.starts_with(&path) || path.starts_with(broken))
        })
    }

    /// Turns problems of the model into complaints at the places the values came from.
    pub fn report(&mut self, problems: Vec<Problem>) {
        for problem in problems {
            let severity = match problem.severity {
                trellis_model::Severity::Error => Severity::Error,
                trellis_model::Severity::Warning => Severity::Warning,
                trellis_model::Severity::Notice => Severity::Notice,
            };
            let message = format!("{}: {}", problem.subject, problem.message);
            let mut diagnostic = Diagnostic::new(severity, problem.code, message);
            if let Some((location, path)) = self.locate(&problem.subject, &problem.path) {
                diagnostic = diagnostic.at(location).path(&path);
            } else {
                diagnostic = diagnostic.path(&problem.path);
            }
            if let Some(fix) = problem.fix {
                diagnostic = diagnostic.help(fix);
            }
            if problem.code == PASSWORD_IN_ADDRESS {
                diagnostic = diagnostic.sensitive();
            }
            self.diagnostics.push(diagnostic);
        }
    }

    /// Finds where a part of the model came from: the place of the closest field that is known.
    fn locate(&self, subject: &Subject, model_path: &str) -> Option<(Location, FieldPath)> {
        let covers = |origin: &&Origin| {
            origin.subject == *subject
                && model_path.strip_prefix(origin.model_path.as_str()).is_some_and(|rest| {
                    rest.is_empty() || rest.starts_with(['.', '[']) || origin.model_path.is_empty()
                })
        };
        let origin = self.origins.iter().filter(covers).max_by_key(|origin| origin.model_path.len())?;
        let document = self.documents.get(origin.document.0)?;
        // Where the dialect is shaped like the model, the rest of the path leads even closer.
        let rest = model_path.get(origin.model_path.len()..).unwrap_or_default();
        let mut path = follow(document, &origin.source, rest);
        // A whole document is not a place to point at; its name is.
        let name = FieldPath::root().child("metadata").child("name");
        if path == FieldPath::root() && document.get(&name).is_some() {
            path = name;
        }
        let (span, _) = document.locate(&path);
        Some((Location::new(document.file, span), path))
    }
}

/// Goes on from a field along a path of the model, `.disks[name].size`, as far as the document goes along.
fn follow(document: &Document, from: &FieldPath, rest: &str) -> FieldPath {
    let mut path = from.clone();
    for step in rest.split_inclusive(['.', '[', ']']) {
        let name = step.trim_end_matches(['.', '[', ']']);
        if name.is_empty() {
            continue;
        }
        let Some(node) = document.get(&path) else { break };
        let named = |item: &Node| item.get("name").and_then(Node::as_text) == Some(name);
        path = match node.items().iter().position(named) {
            Some(index) => path.index(index),
            None if node.get(name).is_some() => path.child(name),
            None => break,
        };
    }
    path
}

/// One document while it is read: complaints are made at a field, and values are parsed where they stand.
#[derive(Debug)]
pub struct Cx<'a> {
    reading: &'a mut Reading,
    document: DocumentId,
}

impl Cx<'_> {
    /// Which document this is.
    pub fn document(&self) -> DocumentId {
        self.document
    }

    /// All documents that are read together.
    pub fn documents(&self) -> &[Document] {
        &self.reading.documents
    }

    /// The estate that is being built.
    pub fn estate(&mut self) -> &mut Estate {
        &mut self.reading.estate
    }

    /// Complains at a field. An empty `help` is left out.
    pub fn say(
        &mut self,
        severity: Severity,
        code: &'static str,
        at: &FieldPath,
        message: impl Into<String>,
        help: &str,
    ) {
        let mut diagnostic = Diagnostic::new(severity, code, message).path(at);
        if let Some(document) = self.reading.documents.get(self.document.0) {
            let (span, _) = document.locate(at);
            diagnostic = diagnostic.at(Location::new(document.file, span));
        }
        if !help.is_empty() {
            diagnostic = diagnostic.help(help);
        }
        self.reading.diagnostics.push(diagnostic);
    }

    /// Complains that something is wrong at a field.
    pub fn error(&mut self, code: &'static str, at: &FieldPath, message: impl Into<String>, help: &str) {
        self.say(Severity::Error, code, at, message, help);
    }

    /// Warns at a field.
    pub fn warning(&mut self, code: &'static str, at: &FieldPath, message: impl Into<String>, help: &str) {
        self.say(Severity::Warning, code, at, message, help);
    }

    /// Says something worth knowing at a field.
    pub fn notice(&mut self, code: &'static str, at: &FieldPath, message: impl Into<String>, help: &str) {
        self.say(Severity::Notice, code, at, message, help);
    }

    /// Complains at a field whose text must not be shown.
    pub fn hidden(
        &mut self,
        severity: Severity,
        code: &'static str,
        at: &FieldPath,
        message: impl Into<String>,
        help: &str,
    ) {
        let mut diagnostic = Diagnostic::new(severity, code, message).path(at).sensitive();
        if !help.is_empty() {
            diagnostic = diagnostic.help(help);
        }
        if let Some(document) = self.reading.documents.get(self.document.0) {
            let (span, _) = document.locate(at);
            diagnostic = diagnostic.at(Location::new(document.file, span));
        }
        self.reading.diagnostics.push(diagnostic);
    }

    /// Reads a text as a value of the model, and complains at its place if it is none.
    pub fn parse<T>(&mut self, at: &FieldPath, text: &str) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                let name = at.last_key().unwrap_or("value").to_owned();
                self.error("invalid-value", at, format!("`{name}` cannot be read: {error}"), "");
                None
            }
        }
    }

    /// Like [`Cx::parse`] for a value that may be left out; an empty text counts as left out.
    pub fn parse_opt<T>(&mut self, at: &FieldPath, text: Option<&str>) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        text.filter(|text| !text.is_empty()).and_then(|text| self.parse(at, text))
    }

    /// Whether the document says anything at this field.
    pub fn has(&self, at: &FieldPath) -> bool {
        self.reading
            .documents
            .get(self.document.0)
            .is_some_and(|document| document.get(at).is_some_and(|node| !node.is_null()))
    }

    /// Reads a document that is embedded at a field, whose type is known only now.
    pub fn embedded<T: JsonSchema + DeserializeOwned>(&mut self, at: &FieldPath) -> Option<T> {
        self.reading.decode(self.document, at, schema_of::<T>(), |cx, value| cx.decode(at, value))
    }

    /// Decodes a checked value. What the schema could not say is complained about at its place.
    pub fn decode<T: DeserializeOwned>(&mut self, base: &FieldPath, value: Value) -> Option<T> {
        match serde_path_to_error::deserialize(value) {
            Ok(object) => Some(object),
            Err(error) => {
                let path = base.join(&error.path().to_string());
                self.error("invalid-value", &path, error.into_inner().to_string(), "");
                None
            }
        }
    }

    /// Remembers that a part of the model (a field and all below it) was read at a field.
    pub fn origin(&mut self, subject: &Subject, model_path: &str, source: &FieldPath) {
        self.reading.origins.push(Origin {
            subject: subject.clone(),
            model_path: model_path.to_owned(),
            document: self.document,
            source: source.clone(),
        });
    }
}

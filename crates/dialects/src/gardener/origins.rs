//! Where the parts of a cluster or pool were read, while it is still being put together.

use trellis_model::{Estate, Problem, Subject};

use crate::diagnostic::Severity;
use crate::path::FieldPath;
use crate::reading::{DocumentId, Reading};

/// Parts of the model and the fields they were read at. A pool's parts may come from several documents.
#[derive(Debug, Default)]
pub(super) struct Origins(Vec<(String, DocumentId, FieldPath)>);

impl Origins {
    /// Notes that a part of the model was read at a field.
    pub(super) fn add(&mut self, model_path: impl Into<String>, document: DocumentId, at: &FieldPath) {
        self.0.push((model_path.into(), document, at.clone()));
    }

    /// Hands them over, once it is known whose parts they are.
    pub(super) fn register(self, reading: &mut Reading, subject: &Subject) {
        for (model_path, document, at) in self.0 {
            reading.within(document).origin(subject, &model_path, &at);
        }
    }

    /// Says what the model finds wrong with an estate that was only made up to check a document that stands alone.
    /// What the document does not mention is not held against it.
    pub(super) fn say_problems(&self, reading: &mut Reading, made_up: &Estate) {
        for problem in trellis_model::validate::validate(made_up) {
            self.say(reading, &problem);
        }
    }

    fn say(&self, reading: &mut Reading, problem: &Problem) {
        let covers = |model_path: &str| {
            let rest = problem.path.strip_prefix(model_path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let found = self.0.iter().filter(|(path, ..)| covers(path)).max_by_key(|(path, ..)| path.len());
        let Some((_, document, at)) = found else { return };
        let severity = match problem.severity {
            trellis_model::Severity::Error => Severity::Error,
            trellis_model::Severity::Warning => Severity::Warning,
            trellis_model::Severity::Notice => Severity::Notice,
        };
        let help = problem.fix.as_deref().unwrap_or_default();
        reading.within(*document).say(severity, problem.code, at, problem.message.clone(), help);
    }
}

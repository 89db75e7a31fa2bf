//! From documents to pools, and to the clusters the pools imply.

mod cluster;
mod envelope;
mod generations;
mod image;
mod kubeconfig;
mod placement;
mod pool;
mod shape;
mod values;

use trellis_model::Subject;

use super::Object;
use crate::path::FieldPath;
use crate::reading::{Cx, DocumentId, Reading};
use crate::shared::At;

/// Reads the documents of this dialect into the estate.
pub fn read(objects: Vec<(DocumentId, Object)>, reading: &mut Reading) {
    for (document, object) in objects {
        let mut cx = reading.within(document);
        match object {
            Object::MachineDeployment(deployment) => pool::deployment(&mut cx, &deployment),
            Object::MachineSet(set) => pool::set(&mut cx, &set),
            Object::Machine(machine) => pool::machine(&mut cx, &machine),
        }
    }
}

/// A pool while it is read.
struct Reader<'cx, 'reading> {
    cx: &'cx mut Cx<'reading>,
    subject: Subject,
}

impl Reader<'_, '_> {
    /// Remembers where a part of the pool was read.
    fn origin(&mut self, model_path: &str, at: &FieldPath) {
        self.cx.origin(&self.subject, model_path, at);
    }

    /// Reads a text that was read at a field as a value of the model, and remembers where.
    fn parse<T>(&mut self, model_path: &str, text: Option<&At<String>>) -> Option<T>
    where
        T: std::str::FromStr,
        T::Err: std::fmt::Display,
    {
        let text = text.filter(|text| !text.value.is_empty())?;
        self.origin(model_path, &text.at);
        self.cx.parse(&text.at, &text.value)
    }
}

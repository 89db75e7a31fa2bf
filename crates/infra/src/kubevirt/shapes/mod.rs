//! Instancetypes and preferences: shapes of machines that have names.

use serde_json::Value;

use crate::context::Context;
use crate::object::Object as _;

/// Why a machine has no shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// In one word, for the condition `Failure`.
    pub reason: &'static str,
    /// In words.
    pub message: String,
}

/// Remembers what a machine's instancetype and preference are now, as revisions that its status refers to.
pub async fn ensure_revisions(_context: &Context, vm: &Value) -> Result<(), Problem> {
    known(vm)
}

/// The machine with its instancetype and preference applied to the template.
pub async fn expand(_context: &Context, vm: &Value) -> Result<Value, Problem> {
    known(vm)?;
    Ok(vm.clone())
}

/// No shape is known.
fn known(vm: &Value) -> Result<(), Problem> {
    for matcher in ["instancetype", "preference"] {
        let name = vm.text(&format!("/spec/{matcher}/name"));
        if !name.is_empty() {
            let message = format!("{matcher} \"{name}\" not found");
            return Err(Problem { reason: "FailedFindInstancetype", message });
        }
    }
    Ok(())
}

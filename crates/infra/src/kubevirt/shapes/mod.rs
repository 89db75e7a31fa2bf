//! Shapes of machines: instancetypes and preferences, as objects, as revisions, and applied to a machine.
//!
//! A machine that names a shape keeps what it saw first in a revision of its own: later changes of the shape are for
//! machines that come later. The shape is applied when an instance is made; the machine itself is not rewritten.

use serde_json::Value;

use crate::client::ApiError;
use crate::context::Context;

/// Why a shape cannot be applied to a machine.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Problem {
    /// What the machine refers to is not there; the message is what the machine's `Failure` condition says.
    #[error("{0}")]
    Missing(String),
    /// The machine says something that its shape decides; the fields, such as `spec.template.spec.domain.cpu`.
    #[error("VM field(s) {} conflicts with selected instance type", .0.join(", "))]
    Conflict(Vec<String>),
    /// The machine does not have what its preference asks for.
    #[error("failure checking preference requirements: {message}")]
    Requirement {
        /// The field that is not enough.
        field: String,
        /// What is asked for.
        message: String,
    },
    /// The API server did not do what it was asked.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// The machine with its shape applied to the template: the instance is made from this. A machine without a shape
/// comes back as it is.
pub async fn expand(context: &Context, vm: &Value) -> Result<Value, Problem> {
    let _ = context;
    Ok(vm.clone())
}

/// Keeps what the machine's shape looks like now in revisions, unless it has some, and gives the
/// `status.instancetypeRef` and `status.preferenceRef` the machine should have (null where it names none). The caller
/// writes them with the rest of the status. Where the reference policy is `expand`, see [`expand_in_place`].
pub async fn ensure_revisions(context: &Context, vm: &Value) -> Result<Refs, Problem> {
    let _ = (context, vm);
    Ok(Refs::default())
}

/// What a machine's status says of its shape.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refs {
    /// `status.instancetypeRef`, or null.
    pub instancetype: Value,
    /// `status.preferenceRef`, or null.
    pub preference: Value,
}

/// The machine as it is to be written where the cluster's reference policy is to expand shapes into the machines:
/// shape applied, references gone. Nothing where the policy is to keep the reference.
pub async fn expand_in_place(context: &Context, vm: &Value) -> Result<Option<Value>, Problem> {
    let _ = (context, vm);
    Ok(None)
}

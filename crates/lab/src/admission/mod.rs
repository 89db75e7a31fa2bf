//! Admission: what happens to an object between decoding and validation, and whether it may happen at all.
//!
//! [`Admission`] runs the steps of the real server in its order: the built-in rules ([`plugins`]), policies
//! ([`policies`]) and webhooks ([`webhooks`]). What needs to be committed together with the object, the usage of
//! quotas, is computed apart by [`Admission::charge`].

mod chain;
pub(crate) mod configurations;
pub(crate) mod disruption;
pub(crate) mod eviction;
pub(crate) mod matching;
mod patch;
pub(crate) mod plugins;
pub(crate) mod policies;
pub(crate) mod quota;
pub(crate) mod review;
pub(crate) mod security;
pub(crate) mod selector;
#[cfg(test)]
mod testing;
pub(crate) mod webhooks;

use std::sync::Arc;

use serde_json::Value;

use crate::attributes::Attributes;
use crate::json;
use crate::names::Gvk;
use crate::status::Status;

pub(crate) use chain::{Admission, AdmissionParts};
pub(crate) use review::{Operation, Review};

/// Sentences for `Warning` headers, in order and without repetitions.
pub(crate) type Warnings = Vec<String>;

/// Adds a warning, unless it was given already.
pub(crate) fn warn(warnings: &mut Warnings, text: impl Into<String>) {
    let text = text.into();
    if !warnings.contains(&text) {
        warnings.push(text);
    }
}

/// Another way to name what a request is about: the same stored objects in another group or version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Equivalent {
    /// The group of the resource.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its plural name.
    pub resource: String,
    /// The kind its objects have there.
    pub kind: Gvk,
}

/// A JSON patch that could not be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatchFailure {
    /// True if it was a `test` that failed.
    pub by_test: bool,
    /// Why, in words.
    pub message: String,
}

/// What admission needs to know about kinds and cannot know itself.
pub(crate) trait Kinds: Send + Sync {
    /// The other groups and versions that serve the same objects, in the order they were registered. Empty for
    /// a resource of one version.
    fn equivalents(&self, group: &str, version: &str, resource: &str, subresource: &str) -> Vec<Equivalent>;

    /// An object in another version of its kind.
    fn convert(&self, object: &Value, to: &Gvk) -> Result<Value, Status>;

    /// An object of a kind as it is after decoding and defaulting: unknown fields gone, defaults set. Called for
    /// objects that a patch made.
    fn decode(&self, kind: &Gvk, object: Value) -> Result<Value, Status>;

    /// The same, but unknown fields are failures.
    fn decode_strictly(&self, kind: &Gvk, object: Value) -> Result<Value, Status> {
        self.decode(kind, object)
    }

    /// Merges an apply configuration into an object, as server-side apply would, without owners. The failure is
    /// the sentence that follows `error applying patch: `.
    fn merge(&self, kind: &Gvk, object: &Value, configuration: &Value) -> Result<Value, String>;

    /// The resource of a kind and whether its objects are in namespaces; `None` for kinds that are not served.
    fn resource_of(&self, kind: &Gvk) -> Option<(crate::names::GroupResource, bool)>;

    /// The kind of the objects of a resource; `None` for resources that are not served.
    fn kind_of(&self, group: &str, version: &str, resource: &str) -> Option<Gvk> {
        let _ = (group, version, resource);
        None
    }

    /// The type of objects of a kind as expressions know it (see [`policies::typecheck::type_of_shape`]), for
    /// checking the expressions of policies.
    fn type_of(&self, kind: &Gvk) -> Option<crate::cel::Type> {
        let _ = kind;
        None
    }

    /// Applies a JSON patch.
    fn patch(&self, object: &Value, operations: &Value) -> Result<Value, PatchFailure> {
        patch::apply(object, operations)
    }
}

/// The answer of an authorizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// True if the request may be made.
    pub allowed: bool,
    /// Why, or why not.
    pub reason: String,
    /// Set if the question could not be answered.
    pub error: Option<String>,
}

/// Says who may do what.
pub(crate) trait Authorizer: Send + Sync {
    /// Decides about a request.
    fn decide(&self, attributes: &Attributes) -> Decision;
}

/// Allows everything, for servers without authorization and for tests.
#[derive(Debug, Clone, Copy, Default)]
#[cfg(test)]
pub(crate) struct AllowAll;

#[cfg(test)]
impl Authorizer for AllowAll {
    fn decide(&self, _: &Attributes) -> Decision {
        Decision { allowed: true, reason: String::new(), error: None }
    }
}

/// An authorizer that is shared.
pub(crate) type SharedAuthorizer = Arc<dyn Authorizer>;

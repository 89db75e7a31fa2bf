//! Admission: what the emulated components change in what is written, and what they refuse.

use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::User;
use crate::context::Context;
use crate::object::Object as _;

/// What is to be admitted.
#[derive(Debug, Clone)]
pub struct Review {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: String,
    /// Who asks.
    pub user: User,
    /// The resource, such as `virtualmachines`.
    pub resource: String,
    /// The subresource, such as `eviction`; empty for the object itself.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name; empty where the server makes one.
    pub name: String,
    /// The object as it would be; null on deletion.
    pub object: Value,
    /// The object as it is; null on creation.
    pub old: Value,
    /// Whether nothing is to come of it.
    pub dry_run: bool,
}

impl Review {
    fn of(request: &Value) -> Self {
        let text = |pointer: &str| request.text(pointer).to_owned();
        Self {
            operation: text("/operation"),
            user: User::of_review(&request["userInfo"]),
            resource: text("/resource/resource"),
            subresource: text("/subResource"),
            namespace: text("/namespace"),
            name: text("/name"),
            object: request["object"].clone(),
            old: request["oldObject"].clone(),
            dry_run: request.flag("/dryRun"),
        }
    }
}

/// What comes of a review.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// Why it is refused, if it is.
    pub denied: Option<Denial>,
    /// The object as the component wants it, if it changed it.
    pub changed: Option<Value>,
    /// What the user is warned of.
    pub warnings: Vec<String>,
}

/// Why something is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The HTTP code.
    pub code: u16,
    /// The reason in one word.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// All causes.
    pub causes: Vec<Cause>,
}

/// One thing that is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// What kind of thing, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// The field, such as `spec.template.spec.domain.devices.disks[0].name`.
    pub field: String,
    /// What is wrong.
    pub message: String,
}

impl Cause {
    /// A value that cannot be.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: "FieldValueInvalid", field: field.into(), message: message.into() }
    }

    /// A value that is missing.
    pub fn required(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: "FieldValueRequired", field: field.into(), message: message.into() }
    }

    /// A value that is there twice.
    pub fn duplicate(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: "FieldValueDuplicate", field: field.into(), message: message.into() }
    }

    /// A value of which there is no such.
    pub fn not_supported(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: "FieldValueNotSupported", field: field.into(), message: message.into() }
    }
}

/// How many causes a message joins at most.
const TOLD_CAUSES: usize = 10;

impl Verdict {
    /// Nothing to say.
    pub fn fine() -> Self {
        Self::default()
    }

    /// The object is to be changed to this.
    pub fn changed(object: Value) -> Self {
        Self { changed: Some(object), ..Self::default() }
    }

    /// Refused for these causes; fine where there are none.
    pub fn of_causes(causes: Vec<Cause>) -> Self {
        if causes.is_empty() {
            return Self::fine();
        }
        let told: Vec<_> = causes.iter().take(TOLD_CAUSES).map(|cause| cause.message.as_str()).collect();
        let message = told.join(", ");
        let denied = Denial { code: 422, reason: "Invalid", message, causes };
        Self { denied: Some(denied), ..Self::default() }
    }

    /// Refused with a code and words.
    pub fn denied(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let denied = Denial { code, reason, message: message.into(), causes: Vec::new() };
        Self { denied: Some(denied), ..Self::default() }
    }

    /// The same with warnings.
    #[must_use]
    pub fn warning(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    fn response(self, uid: &Value, before: &Value) -> Value {
        let mut response = json!({"uid": uid, "allowed": self.denied.is_none()});
        if let Some(denial) = self.denied {
            response["status"] = json!({
                "status": "Failure", "code": denial.code, "reason": denial.reason, "message": denial.message,
            });
            if !denial.causes.is_empty() {
                let causes: Vec<_> = denial
                    .causes
                    .iter()
                    .map(|cause| json!({"reason": cause.reason, "field": cause.field, "message": cause.message}))
                    .collect();
                response["status"]["details"] = json!({"causes": causes});
            }
        } else if let Some(changed) = self.changed {
            let patch = json_patch::diff(before, &changed);
            if !patch.0.is_empty() {
                use base64::Engine as _;
                let text = serde_json::to_vec(&patch).unwrap_or_default();
                response["patchType"] = "JSONPatch".into();
                response["patch"] = base64::engine::general_purpose::STANDARD.encode(text).into();
            }
        }
        if !self.warnings.is_empty() {
            response["warnings"] = self.warnings.into();
        }
        response
    }
}

/// A webhook.
#[derive(Debug)]
pub struct Hook {
    /// The path it is called at.
    pub path: &'static str,
    /// The configuration it belongs to, such as `virt-api-mutator`.
    pub configuration: &'static str,
    /// Its name there, such as `virtualmachines-mutator.kubevirt.io`.
    pub name: &'static str,
    /// Whether it may change what is written.
    pub mutating: bool,
    /// What it is called for.
    pub rules: &'static [Rule],
    /// Whether the write goes on without it.
    pub ignore_failure: bool,
    /// What it says.
    pub review: for<'c> fn(&'c Context, Review) -> BoxFuture<'c, Verdict>,
}

/// What a webhook is called for.
#[derive(Debug)]
pub struct Rule {
    /// The API group.
    pub group: &'static str,
    /// The versions.
    pub versions: &'static [&'static str],
    /// The resources, with subresources after a slash.
    pub resources: &'static [&'static str],
    /// The operations.
    pub operations: &'static [&'static str],
}

impl Hook {
    /// Answers a review.
    pub(super) async fn answer(&self, context: &Context, mut review: Value) -> Value {
        let request = review["request"].take();
        let verdict = (self.review)(context, Review::of(&request)).await;
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": verdict.response(&request["uid"], &request["object"]),
        })
    }
}

/// All webhooks of all components.
pub fn hooks() -> impl Iterator<Item = &'static Hook> {
    crate::kubevirt::HOOKS.iter().copied().chain([crate::cdi::HOOKS]).flatten()
}

/// The webhook at a path.
pub(super) fn find(path: &str) -> Option<&'static Hook> {
    hooks().find(|hook| hook.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_names_are_unique() {
        let mut seen = std::collections::HashSet::new();
        assert!(hooks().all(|hook| seen.insert(hook.path)));
        let mut seen = std::collections::HashSet::new();
        assert!(hooks().all(|hook| seen.insert((hook.configuration, hook.name))));
    }

    #[test]
    fn a_change_is_told_as_a_patch_and_causes_as_a_status() {
        let before = json!({"spec": {}});
        let changed = Verdict::changed(json!({"spec": {"a": 1}})).response(&json!("u"), &before);
        assert_eq!(changed["patchType"], "JSONPatch");
        let causes = (0..12).map(|n| Cause::invalid("spec.a", format!("bad {n}"))).collect();
        let denied = Verdict::of_causes(causes).response(&json!("u"), &before);
        assert_eq!(denied["status"]["code"], 422);
        assert_eq!(denied["status"]["details"]["causes"].as_array().unwrap().len(), 12);
        assert!(!denied["status"]["message"].as_str().unwrap().contains("bad 10"));
    }
}

//! The approval that definitions in the groups of the Kubernetes community need.

use serde_json::Value;

use crate::{
    gourl,
    status::{FieldProblem, Problem},
};

const ANNOTATION: &str = "api-approved.kubernetes.io";

/// What the annotation of a definition says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approval {
    /// Something it should not say.
    Invalid,
    /// Where it was approved.
    Approved,
    /// That it was not.
    Bypassed,
    /// Nothing.
    Missing,
}

/// True for groups that only the community defines.
pub(crate) fn is_protected_group(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// What a definition says about its approval, and that in words.
pub(crate) fn approval(definition: &Value) -> (Approval, String) {
    let text = definition
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations"))
        .and_then(|annotations| annotations.get(ANNOTATION))
        .and_then(Value::as_str)
        .unwrap_or("");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    if text.is_empty() {
        let words = format!("protected groups must have approval annotation \"{ANNOTATION}\", {see}");
        return (Approval::Missing, words);
    }
    if text.starts_with("unapproved") {
        return (Approval::Bypassed, format!("not approved: {}", crate::gotext::quote(text)));
    }
    if gourl::parse_request(text).is_ok_and(|url| !url.host.is_empty() && !url.scheme.is_empty()) {
        return (Approval::Approved, format!("approved in {text}"));
    }
    let words = format!(
        "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a reason starting with \
         \"unapproved\", {see}"
    );
    (Approval::Invalid, words)
}

/// Definitions in protected groups say whether they are approved.
pub(super) fn check(new: &Value, old: Option<&Value>) -> Vec<FieldProblem> {
    let group = new.pointer("/spec/group").and_then(Value::as_str).unwrap_or("");
    if !is_protected_group(group) {
        return Vec::new();
    }
    let (state, words) = approval(new);
    if old.is_some_and(|old| approval(old).0 == state) {
        return Vec::new();
    }
    let problem = match state {
        Approval::Approved | Approval::Bypassed => return Vec::new(),
        Approval::Missing => Problem::Required(words),
        Approval::Invalid => {
            let value = new["metadata"]["annotations"][ANNOTATION].clone();
            Problem::Invalid(value, words)
        }
    };
    vec![FieldProblem::new(format!("metadata.annotations[{ANNOTATION}]"), problem)]
}

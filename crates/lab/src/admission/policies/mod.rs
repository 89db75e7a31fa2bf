//! Admission policies written in CEL.

pub(crate) mod apply;
mod authorizer;
pub(crate) mod conditions;
mod declared;
pub(crate) mod expression;
pub(crate) mod mutating;
mod params;
mod patches;
mod registered;
pub(crate) mod typecheck;
pub(crate) mod validating;

use super::json::text;
use super::review::Review;

pub(crate) use registered::Policies;

/// How much evaluating the expressions of a policy may cost for one binding and parameter.
const BUDGET: u64 = 10_000_000;
/// How much its conditions may cost.
const BUDGET_OF_CONDITIONS: u64 = 2_500_000;

/// Policies are not asked about policies.
fn is_exempt(review: &Review<'_>) -> bool {
    const POLICIES: [&str; 4] = [
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    ];
    review.attributes.group == "admissionregistration.k8s.io"
        && POLICIES.contains(&review.attributes.resource.as_str())
}

/// The namespace that expressions see: none for namespaces themselves.
fn namespace_of(
    review: &Review<'_>,
    reader: &dyn crate::reader::Reader,
) -> Result<Option<std::sync::Arc<serde_json::Value>>, crate::status::Status> {
    let name = review.namespace();
    if name.is_empty() || review.is_kind("", "Namespace") {
        return Ok(None);
    }
    match reader.get(&crate::names::GroupResource::new("", "namespaces"), "", name) {
        Some(namespace) => Ok(Some(namespace)),
        None => Err(crate::status::Status::not_found("", "namespaces", name)),
    }
}

/// `group/version, Kind=kind`, as Go prints it.
fn shown(kind: &crate::names::Gvk) -> String {
    format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind)
}

/// The kind an `apiVersion` and a `kind` name.
fn kind_of(reference: &serde_json::Value) -> crate::names::Gvk {
    let version = text(&reference["apiVersion"]);
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    crate::names::Gvk::new(group, version, text(&reference["kind"]))
}

#[cfg(test)]
mod tests;

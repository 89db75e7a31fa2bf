//! Fields that a write cannot change: whoever sends them does not come to own them.

use super::set::{Set, Step};
use crate::schema::builtin::BuiltinResource;

/// Kinds whose status can be written together with the metadata, by group and plural name.
const OPEN_METADATA: [(&str, &str); 16] = [
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "replicationcontrollers"),
    ("", "resourcequotas"),
    ("", "services"),
    ("apps", "daemonsets"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("networking.k8s.io", "ingresses"),
    ("policy", "poddisruptionbudgets"),
];

/// What of a write does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reset {
    /// Everything counts.
    Nothing,
    /// These fields and what is in them do not count.
    Fields(&'static [&'static [&'static str]]),
    /// These fields and what is in them do not count, but only for managers who wrote in the same version.
    FieldsOfVersion(&'static [&'static [&'static str]]),
    /// Only what follows one of these patterns counts.
    AllBut(&'static [&'static [Step]]),
}

impl Reset {
    /// What a write to a built-in resource, or one of its subresources, cannot change.
    pub(crate) fn builtin(resource: &BuiltinResource, subresource: &str) -> Self {
        const RESIZE: &[&[Step]] = &[
            &[Step::Field("spec"), Step::Field("containers"), Step::Any, Step::Field("resources")],
            &[Step::Field("spec"), Step::Field("containers"), Step::Any, Step::Field("resizePolicy")],
            &[Step::Field("spec"), Step::Field("initContainers"), Step::Any, Step::Field("resources")],
            &[Step::Field("spec"), Step::Field("initContainers"), Step::Any, Step::Field("resizePolicy")],
        ];
        let has_status = || resource.subresources.iter().any(|sub| sub.name == "status");
        match (resource.group, resource.plural, subresource) {
            ("", "namespaces", "finalize") => Self::Fields(&[&["status"]]),
            ("", "pods", "status") => Self::Fields(&[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ]),
            ("", "pods", "ephemeralcontainers") => {
                Self::AllBut(&[&[Step::Field("spec"), Step::Field("ephemeralContainers")]])
            }
            ("", "pods", "resize") => Self::AllBut(RESIZE),
            ("apps", "deployments", "status") => Self::Fields(&[&["spec"], &["metadata", "labels"]]),
            ("certificates.k8s.io", "certificatesigningrequests", "") => {
                Self::Fields(&[&["spec"], &["status"]])
            }
            ("certificates.k8s.io", "certificatesigningrequests", "status") => {
                Self::Fields(&[&["spec"], &["status", "conditions"]])
            }
            ("certificates.k8s.io", "certificatesigningrequests", "approval") => {
                Self::Fields(&[&["spec"], &["status", "certificate"]])
            }
            (_, _, "") if has_status() => Self::Fields(&[&["status"]]),
            (group, plural, "status") if OPEN_METADATA.contains(&(group, plural)) => {
                Self::Fields(&[&["spec"]])
            }
            (_, _, "status") => Self::Fields(&[&["metadata"], &["spec"]]),
            _ => Self::Nothing,
        }
    }

    /// What a write to a custom resource, or one of its subresources, cannot change.
    pub(crate) fn custom(has_status: bool, subresource: &str) -> Self {
        match subresource {
            "status" => Self::Fields(&[&["metadata"], &["spec"]]),
            "" if has_status => Self::FieldsOfVersion(&[&["status"]]),
            _ => Self::Nothing,
        }
    }

    /// The paths that count. `own` is true for the version of the write.
    pub(super) fn filter<'a>(&self, set: Set<'a>, own: bool) -> Set<'a> {
        match self {
            _ if set.is_empty() => set,
            Self::Fields(fields) => set.recursive_difference(&Set::of_fields(fields)),
            Self::FieldsOfVersion(fields) if own => set.recursive_difference(&Set::of_fields(fields)),
            Self::Nothing | Self::FieldsOfVersion(_) => set,
            Self::AllBut(patterns) => set.matching(patterns),
        }
    }
}

//! What is known about each built-in kind, in a table.

use super::meta::NameRule;
use crate::names::Gvk;

/// What the server does with objects of a kind, whatever they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// True when its objects are in namespaces.
    pub namespaced: bool,
    /// What names may look like.
    pub name: NameRule,
    /// When the generation grows.
    pub generation: Generation,
    /// What writes to the status keep of the rest.
    pub status: Status,
    /// True when an update need not say which revision it changes.
    pub unconditional_update: bool,
    /// True when an update of an object that is not there makes it.
    pub create_on_update: bool,
}

/// When the generation of an object grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// There is none.
    No,
    /// It is one for ever.
    One,
    /// With every change of `spec`.
    Spec,
    /// With every change of `spec`, but it starts at none.
    SpecFromNone,
    /// With every change of `spec` or of the annotations.
    SpecAndAnnotations,
    /// With every change of this field.
    Field(&'static str),
    /// With every change of anything but the metadata, or of the labels.
    AllAndLabels,
}

/// How status and the rest are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The kind has no status of its own: whatever is written is kept.
    No,
    /// Writes to the status keep the spec; metadata may be written either way.
    Spec,
    /// Writes to the status keep the spec and what clients say in the metadata.
    SpecAndMetadata,
    /// Writes to the status keep the spec and the labels.
    SpecAndLabels,
}

use Generation as G;
use NameRule as N;
use Status as S;

/// A line of the table: kind, flags, name, generation, status. Flags: `n` in namespaces, `u` updates without a
/// revision are fine, `c` updates create.
type Line = (&'static str, &'static str, N, G, S);

const CORE: &[Line] = &[
    ("Binding", "n", N::Subdomain, G::No, S::No),
    ("ComponentStatus", "", N::Subdomain, G::No, S::No),
    ("ConfigMap", "nu", N::Subdomain, G::No, S::No),
    ("Endpoints", "nuc", N::Subdomain, G::No, S::No),
    ("Event", "nuc", N::Subdomain, G::No, S::No),
    ("LimitRange", "nuc", N::Subdomain, G::No, S::No),
    ("Namespace", "u", N::Label, G::No, S::Spec),
    ("Node", "u", N::Subdomain, G::No, S::Spec),
    ("PersistentVolume", "u", N::Subdomain, G::No, S::Spec),
    ("PersistentVolumeClaim", "nu", N::Subdomain, G::No, S::Spec),
    ("Pod", "nu", N::Subdomain, G::Spec, S::Spec),
    ("PodTemplate", "nu", N::Subdomain, G::Field("template"), S::No),
    ("ReplicationController", "nu", N::LongName, G::Spec, S::Spec),
    ("ResourceQuota", "nu", N::Subdomain, G::No, S::Spec),
    ("Secret", "nu", N::Subdomain, G::No, S::No),
    ("Service", "nuc", N::Label, G::No, S::Spec),
    ("ServiceAccount", "nu", N::Subdomain, G::No, S::No),
];

const APPS: &[Line] = &[
    ("ControllerRevision", "nu", N::Subdomain, G::No, S::No),
    ("DaemonSet", "nu", N::Subdomain, G::Spec, S::Spec),
    ("Deployment", "nu", N::Subdomain, G::SpecAndAnnotations, S::SpecAndLabels),
    ("ReplicaSet", "nu", N::Subdomain, G::Spec, S::Spec),
    ("StatefulSet", "nu", N::Label, G::Spec, S::Spec),
];

const BATCH: &[Line] =
    &[("CronJob", "nu", N::Subdomain, G::Spec, S::Spec), ("Job", "nu", N::Subdomain, G::Spec, S::Spec)];

const AUTOSCALING: &[Line] = &[("HorizontalPodAutoscaler", "nu", N::Subdomain, G::Spec, S::Spec)];

const POLICY: &[Line] = &[("PodDisruptionBudget", "n", N::PathSegment, G::Spec, S::Spec)];

const RBAC: &[Line] = &[
    ("ClusterRole", "uc", N::PathSegment, G::No, S::No),
    ("ClusterRoleBinding", "uc", N::PathSegment, G::No, S::No),
    ("Role", "nuc", N::PathSegment, G::No, S::No),
    ("RoleBinding", "nuc", N::PathSegment, G::No, S::No),
];

const STORAGE: &[Line] = &[
    ("CSIDriver", "", N::Subdomain, G::SpecFromNone, S::No),
    ("CSINode", "", N::Subdomain, G::No, S::SpecAndMetadata),
    ("CSIStorageCapacity", "n", N::Subdomain, G::No, S::No),
    ("StorageClass", "u", N::Subdomain, G::No, S::No),
    ("VolumeAttachment", "", N::Subdomain, G::No, S::SpecAndMetadata),
    ("VolumeAttributesClass", "u", N::Subdomain, G::No, S::No),
];

const NETWORKING: &[Line] = &[
    ("Ingress", "nu", N::Subdomain, G::Spec, S::Spec),
    ("IngressClass", "u", N::Subdomain, G::Spec, S::No),
    ("IPAddress", "u", N::IpAddress, G::No, S::No),
    ("NetworkPolicy", "nu", N::Subdomain, G::Spec, S::No),
    ("ServiceCIDR", "u", N::Subdomain, G::No, S::SpecAndMetadata),
];

const ADMISSION: &[Line] = &[
    ("MutatingAdmissionPolicy", "", N::Subdomain, G::Spec, S::No),
    ("MutatingAdmissionPolicyBinding", "", N::Subdomain, G::Spec, S::No),
    ("MutatingWebhookConfiguration", "", N::Subdomain, G::Field("webhooks"), S::No),
    ("ValidatingAdmissionPolicy", "", N::Subdomain, G::Spec, S::SpecAndMetadata),
    ("ValidatingAdmissionPolicyBinding", "", N::Subdomain, G::Spec, S::No),
    ("ValidatingWebhookConfiguration", "", N::Subdomain, G::Field("webhooks"), S::No),
];

const CERTIFICATES: &[Line] = &[
    ("CertificateSigningRequest", "u", N::PathSegment, G::No, S::Spec),
    ("ClusterTrustBundle", "", N::Subdomain, G::No, S::No),
    ("PodCertificateRequest", "n", N::Subdomain, G::No, S::SpecAndMetadata),
];

const RESOURCE: &[Line] = &[
    ("DeviceClass", "u", N::LongName, G::Spec, S::No),
    ("DeviceTaintRule", "u", N::Subdomain, G::Spec, S::SpecAndMetadata),
    ("ResourceClaim", "nu", N::Subdomain, G::No, S::SpecAndMetadata),
    ("ResourceClaimTemplate", "nu", N::Subdomain, G::No, S::No),
    ("ResourceSlice", "u", N::Subdomain, G::Spec, S::No),
];

const FLOW_CONTROL: &[Line] = &[
    ("FlowSchema", "u", N::Subdomain, G::Spec, S::SpecAndMetadata),
    ("PriorityLevelConfiguration", "u", N::Subdomain, G::Spec, S::SpecAndMetadata),
];

const GROUPS: &[(&str, &[Line])] = &[
    ("", CORE),
    ("apps", APPS),
    ("batch", BATCH),
    ("autoscaling", AUTOSCALING),
    ("policy", POLICY),
    ("rbac.authorization.k8s.io", RBAC),
    ("storage.k8s.io", STORAGE),
    ("networking.k8s.io", NETWORKING),
    ("admissionregistration.k8s.io", ADMISSION),
    ("certificates.k8s.io", CERTIFICATES),
    ("resource.k8s.io", RESOURCE),
    ("flowcontrol.apiserver.k8s.io", FLOW_CONTROL),
    ("coordination.k8s.io", &[("Lease", "nc", N::Subdomain, G::No, S::No)]),
    ("discovery.k8s.io", &[("EndpointSlice", "nu", N::Subdomain, G::AllAndLabels, S::No)]),
    ("events.k8s.io", &[("Event", "nuc", N::Subdomain, G::No, S::No)]),
    ("node.k8s.io", &[("RuntimeClass", "c", N::Subdomain, G::No, S::No)]),
    ("scheduling.k8s.io", &[("PriorityClass", "u", N::Subdomain, G::One, S::No)]),
    ("storagemigration.k8s.io", &[("StorageVersionMigration", "", N::Subdomain, G::No, S::SpecAndMetadata)]),
    ("apiregistration.k8s.io", &[("APIService", "", N::Subdomain, G::No, S::SpecAndMetadata)]),
    (
        "authentication.k8s.io",
        &[
            ("TokenReview", "", N::Subdomain, G::No, S::No),
            ("SelfSubjectReview", "", N::Subdomain, G::No, S::No),
        ],
    ),
    (
        "authorization.k8s.io",
        &[
            ("LocalSubjectAccessReview", "n", N::Subdomain, G::No, S::No),
            ("SelfSubjectAccessReview", "", N::Subdomain, G::No, S::No),
            ("SelfSubjectRulesReview", "", N::Subdomain, G::No, S::No),
            ("SubjectAccessReview", "", N::Subdomain, G::No, S::No),
        ],
    ),
];

/// What is known about a built-in kind; none for others.
pub fn facts(kind: &Gvk) -> Option<Facts> {
    let &(group, lines) = GROUPS.iter().find(|(group, _)| *group == kind.group)?;
    let &(name, flags, rule, generation, status) = lines.iter().find(|line| line.0 == kind.kind)?;
    Some(Facts {
        group,
        kind: name,
        namespaced: flags.contains('n'),
        name: rule,
        generation,
        status,
        unconditional_update: flags.contains('u'),
        create_on_update: flags.contains('c'),
    })
}

/// The fields a write through the main resource or a subresource cannot change: nobody owns them by it.
///
/// Each is a path of field names, such as `["status", "conditions"]`.
pub fn reset_fields(kind: &Gvk, subresource: &str) -> &'static [&'static [&'static str]] {
    const STATUS: &[&[&str]] = &[&["status"]];
    const SPEC: &[&[&str]] = &[&["spec"]];
    const REST: &[&[&str]] = &[&["metadata"], &["spec"]];
    let Some(facts) = facts(kind) else { return &[] };
    match (facts.kind, subresource) {
        ("Pod", "status") => {
            &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]
        }
        ("Deployment", "status") => &[&["spec"], &["metadata", "labels"]],
        ("CertificateSigningRequest", "") => &[&["spec"], &["status"]],
        ("CertificateSigningRequest", "status") => &[&["spec"], &["status", "conditions"]],
        ("CertificateSigningRequest", "approval") => &[&["spec"], &["status", "certificate"]],
        ("Namespace", "finalize") => STATUS,
        _ => match (facts.status, subresource) {
            (S::No, _) => &[],
            (_, "") => STATUS,
            (S::SpecAndMetadata, "status") => REST,
            (_, "status") => SPEC,
            _ => &[],
        },
    }
}

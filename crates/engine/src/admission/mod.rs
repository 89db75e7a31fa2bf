//! Admission of the kinds that are reconciled: what may be written, what is filled in, and what may not change.
//!
//! There is no second set of rules here. An object is read as the controllers read it, by its dialect and the model's
//! validation, and what that finds is what is refused: every problem at once, each at its field. What may not change
//! is what the model's table of change classes refuses, and what makes a machine the machine it is.
//!
//! Nothing ever holds up a removal: an object that is being deleted, a status, and an update that leaves the spec as
//! it is pass unseen, and a fault that an object had before does not keep anybody from changing the rest of it.
//!
//! - [`review`] answers an AdmissionReview, for webhooks;
//! - [`policies`] are the same rules, as far as CEL can say them, for clusters without a webhook.

mod defaults;
mod kept;
mod read;
mod review;

pub mod policies;

pub use defaults::defaults;
pub use review::{MUTATE, VALIDATE, review};

use serde_json::Value;

use crate::families::{Family, TRELLIS};

/// Why a field is refused, in the API's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Its value cannot be used.
    Invalid,
    /// It may not be changed.
    Forbidden,
}

impl Why {
    /// The API's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Forbidden => "FieldValueForbidden",
        }
    }
}

/// A field that is refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// The field, such as `spec.template.spec.versions.kubelet`.
    pub field: String,
    /// Why.
    pub why: Why,
    /// What is wrong and how to mend it, for people; without secrets.
    pub message: String,
}

/// A kind that admission looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cluster,
    Pool(&'static Family),
    Set(&'static Family),
    Machine(&'static Family),
    HealthCheck(&'static Family),
}

impl Kind {
    fn of(object: &Value) -> Option<Self> {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let family = Family::of(text("apiVersion"))?;
        let kind = text("kind");
        let is = |resource: Option<crate::families::Resource>| resource.is_some_and(|one| one.kind == kind);
        if is(Some(family.machine)) {
            Some(Self::Machine(family))
        } else if is(family.set) {
            Some(Self::Set(family))
        } else if is(family.pool) {
            Some(Self::Pool(family))
        } else if is(family.health_check) {
            Some(Self::HealthCheck(family))
        } else {
            (*family == TRELLIS && kind == "TenantCluster").then_some(Self::Cluster)
        }
    }
}

/// One kind as rules and manifests name it: group, version, plural and kind.
pub type Named = (&'static str, &'static str, &'static str, &'static str);

/// The kinds that admission looks at where machine objects are of these families: theirs, and TenantClusters.
pub fn kinds(families: &[&'static Family]) -> Vec<Named> {
    let mut all = vec![("trellis.dev", "v1alpha1", "tenantclusters", "TenantCluster")];
    for family in families {
        let resources = [family.pool, family.set, Some(family.machine), family.health_check];
        all.extend(resources.into_iter().flatten().map(|resource| {
            let requested = resource.requested();
            (requested.group, requested.version, requested.plural, requested.kind)
        }));
    }
    all
}

/// Everything that is wrong with writing an object, in place of an older one if there is one.
pub fn causes(object: &Value, old: Option<&Value>) -> Vec<Cause> {
    judged(object, old).0
}

/// What is wrong, and what is worth knowing.
fn judged(object: &Value, old: Option<&Value>) -> (Vec<Cause>, Vec<String>) {
    let Some(kind) = Kind::of(object) else { return (Vec::new(), Vec::new()) };
    if is_deleting(object) || old.is_some_and(|old| is_same(kind, object, old)) {
        return (Vec::new(), Vec::new());
    }
    let mut findings = read::findings(kind, object);
    if let Some(old) = old {
        let before = read::findings(kind, old);
        let is_old = |cause: &Cause| {
            before.causes.contains(cause) && at(object, &cause.field) == at(old, &cause.field)
        };
        findings.causes.retain(|cause| !is_old(cause));
        findings.causes.extend(kept::causes(kind, object, old));
    }
    findings.causes.sort();
    findings.causes.dedup();
    (findings.causes, findings.warnings)
}

fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// Whether nothing changes that is looked at: the spec, and what of a MachinePool stands in annotations.
fn is_same(kind: Kind, object: &Value, old: &Value) -> bool {
    let spec = object.get("spec") == old.get("spec");
    let annotations = object.pointer("/metadata/annotations") == old.pointer("/metadata/annotations");
    spec && (annotations || kind != Kind::Pool(&TRELLIS))
}

/// What stands at a field.
fn at<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    use trellis_dialects::path::{FieldPath, Segment};
    let path: FieldPath = field.parse().ok()?;
    path.segments().iter().try_fold(object, |value, segment| match segment {
        Segment::Key(key) => value.get(key),
        Segment::Index(index) => value.get(index),
    })
}

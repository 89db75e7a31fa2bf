//! What the server fills in before it looks at an object any further.
//!
//! These are the defaults of the scheme, together with what converting to the stored form and back does: the
//! `stringData` of a Secret becomes `data`, the singular and plural of addresses agree, annotations that only
//! carry fields of other versions go. Everything here is idempotent: it also runs after admission has changed an
//! object, and on updates.

mod core;
mod others;
mod pod;
pub(super) mod workloads;

use jiff::Timestamp;
use serde_json::Value;

use crate::names::Gvk;

/// Fills in the defaults of an object of this kind. `now` is the time taints without one are said to be added.
///
/// Kinds that are not built in are left alone.
pub fn default(kind: &Gvk, object: &mut Value, now: Timestamp) {
    if !object.is_object() {
        return;
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pod::pod(object),
        ("", name) => core::default(name, object),
        ("apps", name) => workloads::apps(name, object),
        ("batch", name) => workloads::batch(name, object),
        ("autoscaling", name) => workloads::autoscaling(&kind.version, name, object),
        (group, name) => others::default(group, name, object, now),
    }
}

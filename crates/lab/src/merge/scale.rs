//! Managed fields of the `scale` subresource: those of the object it is a view of, as far as they own the number
//! of replicas.

use serde_json::Value;

use super::context::Context;
use super::element::{Element, equal_values};
use super::last_applied;
use super::managed::{self, Manager};
use super::set::Set;
use super::track::{self, failure};
use crate::status::Status;

/// The version of the objects that are exchanged.
const SCALE: &str = "autoscaling/v1";

/// Where the number of replicas is in a version of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplicasPath {
    /// The version, such as `apps/v1`.
    pub api_version: String,
    /// The fields that lead to it, such as `spec` and `replicas`; none when the version has no such subresource.
    pub path: Option<Vec<String>>,
}

/// What is known about a version.
fn find<'a>(paths: &'a [ReplicasPath], api_version: &str) -> Option<&'a ReplicasPath> {
    paths.iter().find(|path| path.api_version == api_version)
}

impl ReplicasPath {
    fn elements(&self) -> Option<Vec<Element<'_>>> {
        Some(self.path.as_ref()?.iter().map(|name| Element::Field(name)).collect())
    }
}

fn set_of<'a>(path: &[Element<'a>]) -> Set<'a> {
    let mut set = Set::new();
    set.insert(path);
    set
}

fn listed(entries: &Value) -> &[Value] {
    entries.as_array().map_or(&[], Vec::as_slice)
}

/// The managed fields of the scale of an object with these managed fields.
pub(crate) fn to_scale(entries: &Value, paths: &[ReplicasPath]) -> Result<Value, String> {
    let mut managers = Vec::new();
    for mut manager in managed::decode(listed(entries))? {
        let path = find(paths, &manager.api_version).and_then(ReplicasPath::elements);
        if path.is_some_and(|path| manager.set.has(&path)) {
            manager.set_to(Set::of_fields(&[&["spec", "replicas"]]));
            manager.api_version = SCALE.into();
            managers.push(manager);
        }
    }
    Ok(managed::encode(managers, Vec::new()).into())
}

/// The managed fields of an object in a version, after its scale was written and has these managed fields.
pub(crate) fn from_scale(
    entries: &Value,
    scale: &Value,
    api_version: &str,
    paths: &[ReplicasPath],
) -> Result<Value, String> {
    let mut of_scale = managed::decode(listed(scale))?;
    let parents = managed::decode(listed(entries))?;
    let times: Vec<Manager<'_>> = parents.clone();
    let mut managers = Vec::new();
    for mut manager in parents {
        let Some(known) = find(paths, &manager.api_version) else { continue };
        if let Some(path) = known.elements().filter(|path| manager.set.has(path)) {
            if let Some(place) = of_scale.iter().position(|other| other.is(&manager)) {
                // Nobody took it.
                of_scale.remove(place);
            } else {
                let set = std::mem::take(&mut manager.set).difference(&set_of(&path));
                manager.set_to(set);
            }
        }
        if !manager.set.is_empty() {
            managers.push(manager);
        }
    }
    let path = find(paths, api_version).and_then(ReplicasPath::elements).unwrap_or_default();
    for mut manager in of_scale {
        if !manager.set.has(&[Element::Field("spec"), Element::Field("replicas")]) {
            continue;
        }
        // The time is that of the object's own entry, which there is none of for whoever just wrote.
        manager.time = times.iter().find(|other| other.is(&manager)).and_then(|other| other.time.clone());
        manager.set_to(set_of(&path));
        manager.api_version = api_version.into();
        managers.push(manager);
    }
    Ok(managed::encode(managers, Vec::new()).into())
}

/// Applies to the scale of a custom resource. The real server cannot convert what comes out, so that this fails
/// unless it changes nothing; conflicts are found before.
pub(crate) fn apply_to_custom_scale(
    context: &Context<'_>,
    force: bool,
    live: &Value,
    applied: &Value,
) -> Result<Value, Status> {
    let why = format!("request to convert CR to an invalid group/version: {SCALE}");
    if listed(&live["metadata"]["managedFields"]).is_empty() {
        return Err(failure(format!(
            "failed to create manager for existing fields: failed to convert live object (/; {SCALE}, \
             Kind=Scale) to proper version: {why}"
        )));
    }
    let mut after = track::apply(context, force, Some(live), applied)?;
    let entries = after["metadata"]["managedFields"].take();
    let mut before = live.clone();
    before["metadata"]["managedFields"] = Value::Null;
    if !equal_values(&before, &after) {
        let object = last_applied::named(applied);
        return Err(failure(format!("failed to convert new object ({object}) to proper version: {why}")));
    }
    after["metadata"]["managedFields"] = entries;
    Ok(after)
}

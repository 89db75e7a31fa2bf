//! What makes an object the one it is: its name, namespace, version, and the fields only the server sets.

use serde_json::{Value, json};

use super::Call;
use crate::clock::seconds;
use crate::registry::Served;
use crate::server::Server;
use crate::status::{FieldProblem, Problem, Status};
use crate::store::Key;

/// What a writer is told whose copy was old.
pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// What a write says about the version it is based on.
pub(super) enum Version {
    /// Nothing: it replaces whatever is there.
    Any,
    /// It is the one that is there.
    Same,
}

/// Compares the version a write is based on with the one that is there.
pub(super) fn check_version(served: &Served, key: &Key, old: &Value, new: &Value) -> Result<Version, Status> {
    let (group, resource) = (&served.resource.group, &served.resource.resource);
    let text = new["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if version_of(new)? == 0 {
        if served.needs_version_on_update() {
            let why = "must be specified for an update".to_owned();
            let problem = FieldProblem::new("metadata.resourceVersion", Problem::Invalid(json!(0), why));
            return Err(Status::invalid(group, resource, &key.name, vec![problem]));
        }
        return Ok(Version::Any);
    }
    if old["metadata"]["resourceVersion"] == text {
        return Ok(Version::Same);
    }
    Err(Status::conflict(group, resource, &key.name, MODIFIED))
}

/// The version an object says it has; zero when it says nothing.
pub(super) fn version_of(object: &Value) -> Result<u64, Status> {
    match object["metadata"]["resourceVersion"].as_str().unwrap_or_default() {
        "" => Ok(0),
        text => text.parse().map_err(|_| {
            Status::new(500, "", format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
        }),
    }
}

/// The uid an object says it has.
pub(super) fn uid_of(object: &Value) -> Option<&str> {
    object["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty())
}

/// What a client is told whose object is another one of the same name.
pub(super) fn uid_mismatch(served: &Served, key: &Key, wanted: &str, found: &str) -> String {
    precondition_failed(served, key, "uid", wanted, found)
}

/// What a client is told whose object has another `uid` or `resourceVersion` than it expects.
pub(super) fn precondition_failed(
    served: &Served,
    key: &Key,
    field: &str,
    wanted: &str,
    found: &str,
) -> String {
    let place = if served.namespaced { format!("{}/{}", key.namespace, key.name) } else { key.name.clone() };
    let field = if field == "uid" { "UID" } else { "ResourceVersion" };
    format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{place}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}",
        stored_under(served)
    )
}

/// Where the real server stores the objects of a resource.
fn stored_under(served: &Served) -> String {
    let (group, resource) = (served.stored_as.group.as_str(), served.stored_as.resource.as_str());
    match (group, resource) {
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => format!("{group}/{resource}"),
        _ if served.custom_version().is_some() => format!("{group}/{resource}"),
        _ => resource.to_owned(),
    }
}

/// Removes what only the server sets.
pub(super) fn wipe_system_fields(object: &mut Value) {
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        for field in
            ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
        {
            metadata.remove(field);
        }
    }
}

/// Sets what only the server sets, and the name where it is to be generated.
pub(super) fn fill_system_fields(server: &Server, object: &mut Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, namespace) = (text(&object["kind"]), text(&object["metadata"]["namespace"]));
    let (mut name, base) = (text(&object["metadata"]["name"]), text(&object["metadata"]["generateName"]));
    if name.is_empty() && !base.is_empty() {
        name = server.generated_name(&kind, &namespace, &base);
        object["metadata"]["name"] = name.as_str().into();
    }
    object["metadata"]["uid"] = server.new_uid(&["uid", &kind, &namespace, &name]).into();
    object["metadata"]["creationTimestamp"] = seconds(server.clock().now()).into();
}

/// Keeps what an update cannot change.
pub(super) fn keep_system_fields(old: &Value, new: &mut Value) {
    let before = &old["metadata"];
    let Some(metadata) = new["metadata"].as_object_mut() else { return };
    if metadata.get("uid").and_then(Value::as_str).unwrap_or_default().is_empty() {
        metadata.insert("uid".to_owned(), before["uid"].clone());
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if !before[field].is_null() {
            metadata.insert(field.to_owned(), before[field].clone());
        }
    }
    let grace = "deletionGracePeriodSeconds";
    if !before[grace].is_null() && !metadata.contains_key(grace) {
        metadata.insert(grace.to_owned(), before[grace].clone());
    }
}

/// The namespace of the object is that of the URL.
pub(super) fn same_namespace(call: &Call, served: &Served, object: &mut Value) -> Result<(), Status> {
    let expected = if served.namespaced { call.attributes.namespace.as_str() } else { "" };
    let found = object["metadata"]["namespace"].as_str().unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    if !served.namespaced {
        // The real server takes objects of the cluster out of whatever namespace they claim.
        object["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
        return Ok(());
    }
    if !found.is_empty() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object["metadata"]["namespace"] = expected.into();
    Ok(())
}

/// The name of the object is that of the URL.
pub(super) fn same_name(object: &Value, key: &Key) -> Result<(), Status> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            key.name
        )));
    }
    if name == key.name {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({})",
        key.name
    )))
}

/// Owner references that are there twice are kept once, with a warning.
pub(super) fn dedup_owners(call: &Call, object: &mut Value, admitted: bool) {
    let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else {
        return;
    };
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut twice = Vec::new();
    for owner in owners.drain(..) {
        if kept.contains(&owner) {
            twice.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    if !twice.is_empty() {
        let when = if admitted { " after mutating admission happens" } else { "" };
        call.warn(format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        ));
    }
}

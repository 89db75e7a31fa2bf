//! The few descriptions that documents have: of the fields that every object has.

use serde_json::{Value, json};

/// Of `metadata`.
pub(super) const METADATA: &str =
    "Standard object's metadata: its name, labels and what the server keeps of it.";
/// Of the `metadata` of lists.
pub(super) const LIST_METADATA: &str = "Standard list metadata: how far the list goes and as of when.";

/// The schema of `apiVersion`.
pub(super) fn api_version() -> Value {
    json!({"type": "string", "description": describe("apiVersion")})
}

/// The schema of `kind`.
pub(super) fn kind() -> Value {
    json!({"type": "string", "description": describe("kind")})
}

/// The description of a field that every object has in the same place.
pub(super) fn of_object(name: &str) -> Option<&'static str> {
    Some(match name {
        "apiVersion" | "kind" => describe(name),
        "metadata" => METADATA,
        "spec" => "What is wanted.",
        "status" => "What was found last.",
        "items" => "The objects of the list.",
        _ => return None,
    })
}

fn describe(name: &str) -> &'static str {
    if name == "apiVersion" {
        "APIVersion defines the group and version whose schema the object is written in."
    } else {
        "Kind is the name of the schema of the object, in CamelCase."
    }
}

/// The description of a field of `ObjectMeta`.
pub(super) fn of_metadata(name: &str) -> Option<&'static str> {
    Some(match name {
        "annotations" => "Annotations are texts that tools keep with the object. They are not searched.",
        "creationTimestamp" => {
            "CreationTimestamp is a timestamp of when the server made the object. Set by the server."
        }
        "deletionGracePeriodSeconds" => {
            "Seconds between the wish to delete the object and its end. Set by the server."
        }
        "deletionTimestamp" => {
            "DeletionTimestamp is when the object ends, once somebody deleted it. Set by the server."
        }
        "finalizers" => {
            "Names of those who have to do something before the object may go. It goes with the last one."
        }
        "generateName" => "The beginning of a name that the server completes, for objects without a name.",
        "generation" => "Counts the changes of what is wanted. Set by the server.",
        "labels" => "Labels are short texts by which objects are selected.",
        "managedFields" => "Who set which fields, for server-side apply. Set by the server.",
        "name" => "The name, unique among the objects of the resource in a namespace. It never changes.",
        "namespace" => "The namespace the object is in; empty for objects of the cluster.",
        "ownerReferences" => "The objects this one belongs to. It is collected when all of them are gone.",
        "resourceVersion" => {
            "Changes with every write; writes that name an older one are refused. Set by the server."
        }
        "selfLink" => "No longer used.",
        "uid" => "Tells the object from earlier ones of the same name. Set by the server.",
        _ => return None,
    })
}

//! Nodes start with a taint, and pods carry the zone and region of the node they are on.

use serde_json::{Value, json};

use super::super::json::{at, items, list, object, text};
use super::super::review::{Operation, Review};
use crate::names::GroupResource;
use crate::reader::Reader;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Nothing is scheduled on a new node until it is ready.
pub(crate) fn taint(review: &mut Review<'_>) {
    if review.operation != Operation::Create || !review.is("", "nodes") {
        return;
    }
    let Some(node) = review.object.as_mut() else { return };
    let known = items(&node["spec"]["taints"])
        .any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule");
    if !known {
        list(at(node, "spec"), "taints").push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}

/// Copies the zone and region of the node to the pod or to the binding.
pub(crate) fn label_topology(review: &mut Review<'_>, reader: &dyn Reader) {
    if review.operation != Operation::Create || !review.is_resource("", "pods") {
        return;
    }
    let Some(subject) = review.object.as_mut() else { return };
    let node = match review.attributes.subresource.as_str() {
        "" => text(&subject["spec"]["nodeName"]),
        "binding" if subject["target"]["kind"] == "Node" => text(&subject["target"]["name"]),
        _ => return,
    };
    if node.is_empty() {
        return;
    }
    let Some(node) = reader.get(&GroupResource::new("", "nodes"), "", node) else { return };
    for key in TOPOLOGY {
        if let Some(Value::String(value)) = node["metadata"]["labels"].get(key) {
            let labels = object(at(at(subject, "metadata"), "labels"));
            labels.insert(key.to_owned(), value.as_str().into());
        }
    }
}

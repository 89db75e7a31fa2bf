//! Runtime classes add overhead and places to pods.

use std::sync::Arc;

use serde_json::Value;

use super::super::json::{at, entries, object, text};
use super::super::review::{Operation, Review};
use super::resources::amounts;
use super::tolerations;
use crate::names::GroupResource;
use crate::reader::Reader;
use crate::status::Status;

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// Adds what the class of a pod asks for.
pub(crate) fn mutate(review: &mut Review<'_>, reader: &dyn Reader) -> Result<(), Status> {
    let Some(class) = class_of(review, reader)? else { return Ok(()) };
    let Some(pod) = &review.object else { return Ok(()) };
    let spec = &pod["spec"];
    let overhead = class["overhead"].get("podFixed").filter(|_| class["overhead"].is_object());
    if class["overhead"].is_object() {
        let given = amounts(&spec["overhead"]);
        if !given.is_empty() && given != amounts(&class["overhead"]["podFixed"]) {
            return Err(review.forbidden(MISMATCH));
        }
    }
    for (key, value) in entries(&class["scheduling"]["nodeSelector"]) {
        let given = spec["nodeSelector"].get(key).and_then(Value::as_str);
        if let Some(given) = given.filter(|given| *given != text(value)) {
            let value = text(value);
            return Err(review.forbidden(&format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {given}"
            )));
        }
    }
    let Some(pod) = review.object.as_mut() else { return Ok(()) };
    let spec = at(pod, "spec");
    if let Some(overhead) = overhead {
        object(spec).insert("overhead".to_owned(), overhead.clone());
    }
    if class["scheduling"].is_object() {
        if let Some(more) = class["scheduling"]["nodeSelector"].as_object().filter(|more| !more.is_empty()) {
            object(at(spec, "nodeSelector")).extend(more.clone());
        }
        let merged = tolerations::merged(&spec["tolerations"], &class["scheduling"]["tolerations"]);
        if !merged.is_empty() {
            object(spec).insert("tolerations".to_owned(), merged.into());
        }
    }
    Ok(())
}

/// Refuses overhead that the class does not give.
pub(crate) fn validate(review: &Review<'_>, reader: &dyn Reader) -> Result<(), Status> {
    if review.operation != Operation::Create || !review.is("", "pods") {
        return Ok(());
    }
    let class = class_of(review, reader)?;
    let Some(pod) = &review.object else { return Ok(()) };
    match class.filter(|class| class["overhead"].is_object()) {
        Some(class) if amounts(&class["overhead"]["podFixed"]) != amounts(&pod["spec"]["overhead"]) => {
            Err(review.forbidden(MISMATCH))
        }
        None if pod["spec"]["overhead"].is_object() => Err(review
            .forbidden("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")),
        _ => Ok(()),
    }
}

fn class_of(review: &Review<'_>, reader: &dyn Reader) -> Result<Option<Arc<Value>>, Status> {
    if review.operation != Operation::Create || !review.is("", "pods") {
        return Ok(None);
    }
    let Some(name) = review.object.as_ref().and_then(|pod| pod["spec"]["runtimeClassName"].as_str()) else {
        return Ok(None);
    };
    match reader.get(&GroupResource::new("node.k8s.io", "runtimeclasses"), "", name) {
        Some(class) => Ok(Some(class)),
        None => Err(review.forbidden(&format!("pod rejected: RuntimeClass {name:?} not found"))),
    }
}

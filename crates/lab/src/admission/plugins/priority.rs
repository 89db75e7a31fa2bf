//! Priority classes become numbers in pods.

use std::sync::Arc;

use serde_json::Value;

use super::super::json::{at, object, text};
use super::super::review::{Operation, Review};
use crate::names::GroupResource;
use crate::reader::Reader;
use crate::status::Status;

/// Sets the priority of a pod.
pub(crate) fn mutate(review: &mut Review<'_>, reader: &dyn Reader) -> Result<(), Status> {
    if !review.is("", "pods") {
        return Ok(());
    }
    match review.operation {
        Operation::Create => set(review, reader),
        Operation::Update => {
            let old = review.old.clone();
            if let (Some(pod), Some(old)) = (review.object.as_mut(), old) {
                for key in ["priority", "preemptionPolicy"] {
                    if pod["spec"][key].is_null() && !old["spec"][key].is_null() {
                        object(at(pod, "spec")).insert(key.to_owned(), old["spec"][key].clone());
                    }
                }
            }
            Ok(())
        }
        Operation::Delete => Ok(()),
    }
}

/// There is one default class at most.
pub(crate) fn validate(review: &Review<'_>, reader: &dyn Reader) -> Result<(), Status> {
    let writes = matches!(review.operation, Operation::Create | Operation::Update);
    let Some(class) =
        review.object.as_ref().filter(|_| writes && review.is("scheduling.k8s.io", "priorityclasses"))
    else {
        return Ok(());
    };
    if class["globalDefault"] != true {
        return Ok(());
    }
    if let Some(default) = default_class(reader)
        && (review.operation == Operation::Create || default["metadata"]["name"] != class["metadata"]["name"])
    {
        return Err(review.forbidden(&format!(
            "PriorityClass {} is already marked as default. Only one default can exist",
            text(&default["metadata"]["name"])
        )));
    }
    Ok(())
}

fn classes() -> GroupResource {
    GroupResource::new("scheduling.k8s.io", "priorityclasses")
}

fn default_class(reader: &dyn Reader) -> Option<Arc<Value>> {
    let number = |class: &Value| class["value"].as_i64().unwrap_or_default();
    reader
        .list(&classes(), None)
        .into_iter()
        .filter(|class| class["globalDefault"] == true)
        .min_by_key(|class| number(class))
}

fn set(review: &mut Review<'_>, reader: &dyn Reader) -> Result<(), Status> {
    let Some(pod) = &review.object else { return Ok(()) };
    let wanted = text(&pod["spec"]["priorityClassName"]);
    let class = if wanted.is_empty() {
        default_class(reader)
    } else {
        let Some(class) = reader.get(&classes(), "", wanted) else {
            return Err(review.forbidden(&format!("no PriorityClass with name {wanted} was found")));
        };
        Some(class)
    };
    let (name, priority, policy) = match &class {
        Some(class) => {
            let priority = class["value"].as_i64().unwrap_or_default();
            (text(&class["metadata"]["name"]), priority, class["preemptionPolicy"].as_str())
        }
        None => ("", 0, Some("PreemptLowerPriority")),
    };
    if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != priority) {
        return Err(review.forbidden(&format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission \
             controller computed {priority} from the given PriorityClass name"
        )));
    }
    let given = pod["spec"]["preemptionPolicy"].as_str();
    if let (Some(given), Some(policy)) = (given, policy)
        && given != policy
    {
        return Err(review.forbidden(&format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        )));
    }
    let (name, policy) = (name.to_owned(), policy.map(str::to_owned));
    let Some(pod) = review.object.as_mut() else { return Ok(()) };
    let spec = object(at(pod, "spec"));
    if !name.is_empty() {
        spec.insert("priorityClassName".to_owned(), name.into());
    }
    spec.insert("priority".to_owned(), priority.into());
    if let Some(policy) = policy {
        spec.insert("preemptionPolicy".to_owned(), policy.into());
    }
    Ok(())
}

//! Pod security: what the labels of a namespace demand of its pods.

mod baseline;
mod levels;
mod restricted;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::json::{items, text};
use super::review::{Operation, Review};
use super::{Warnings, warn};
use crate::names::GroupResource;
use crate::reader::Reader;
use crate::status::Status;

use levels::{Level, LevelVersion, Policy};
use words::Violation;

/// So many pods are looked at when a namespace gets stricter.
const MOST_PODS: usize = 3000;

/// Refuses pods that a namespace does not allow, and warns where that is asked for.
pub(crate) fn validate(
    review: &Review<'_>,
    reader: &dyn Reader,
    warnings: &mut Warnings,
) -> Result<(), Status> {
    if !matches!(review.operation, Operation::Create | Operation::Update) {
        return Ok(());
    }
    if review.is_resource("", "namespaces") {
        return validate_namespace(review, reader, warnings);
    }
    if review.is_resource("", "pods") {
        return validate_pod(review, reader, warnings);
    }
    if let Some(template) = template_of(review)
        && let Some(policy) = policy_of(review, reader)
    {
        evaluate(review, &policy, template, false, warnings)?;
    }
    Ok(())
}

fn validate_pod(review: &Review<'_>, reader: &dyn Reader, warnings: &mut Warnings) -> Result<(), Status> {
    const IGNORED: [&str; 8] =
        ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];
    if IGNORED.contains(&review.attributes.subresource.as_str()) {
        return Ok(());
    }
    let Some(policy) = policy_of(review, reader) else {
        return Err(Status::internal(format!("failed to lookup namespace {:?}", review.namespace())));
    };
    let Some(pod) = &review.object else { return Ok(()) };
    let updates = review.operation == Operation::Update;
    if let Some(old) = review.old.as_deref().filter(|_| updates)
        && !is_significant(pod, old)
    {
        return Ok(());
    }
    evaluate(review, &policy, pod, true, warnings)
}

fn policy_of(review: &Review<'_>, reader: &dyn Reader) -> Option<Policy> {
    let namespace = reader.get(&GroupResource::new("", "namespaces"), "", review.namespace())?;
    Some(Policy::of_labels(&namespace["metadata"]["labels"]).0)
}

/// The pod template of a workload; nothing for other objects and for subresources.
fn template_of<'a>(review: &'a Review<'_>) -> Option<&'a Value> {
    let object = review.object.as_ref().filter(|_| review.attributes.subresource.is_empty())?;
    let path = match (review.attributes.group.as_str(), review.attributes.resource.as_str()) {
        ("", "podtemplates") => "/template",
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => "/spec/template",
        ("batch", "cronjobs") => "/spec/jobTemplate/spec/template",
        _ => return None,
    };
    object.pointer(path).filter(|template| template.is_object())
}

/// Checks a pod, or the template of one.
fn evaluate(
    review: &Review<'_>,
    policy: &Policy,
    pod: &Value,
    enforces: bool,
    warnings: &mut Warnings,
) -> Result<(), Status> {
    if enforces {
        let violations = violations(&policy.enforce, pod);
        if !violations.is_empty() {
            let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, details(&violations));
            let attributes = review.attributes;
            return Err(Status::forbidden(&attributes.group, &attributes.resource, review.name(), &why));
        }
    }
    let violations = violations(&policy.warn, pod);
    if !violations.is_empty() {
        warn(warnings, format!("would violate PodSecurity \"{}\": {}", policy.warn, details(&violations)));
    }
    Ok(())
}

/// Everything about a pod that a level does not allow.
fn violations(demanded: &LevelVersion, pod: &Value) -> Vec<Violation> {
    let minor = demanded.version.minor();
    match demanded.level {
        Level::Privileged => Vec::new(),
        Level::Baseline => baseline::violations(pod, minor, false),
        Level::Restricted => {
            let mut found = baseline::violations(pod, minor, true);
            found.extend(restricted::violations(pod, minor));
            found
        }
    }
}

fn details(violations: &[Violation]) -> String {
    let parts: Vec<String> = violations
        .iter()
        .map(|violation| {
            if violation.detail.is_empty() {
                violation.reason.clone()
            } else {
                format!("{} ({})", violation.reason, violation.detail)
            }
        })
        .collect();
    parts.join(", ")
}

/// True if an update may change what is allowed: other images or other containers.
fn is_significant(pod: &Value, old: &Value) -> bool {
    for key in ["containers", "initContainers"] {
        let images =
            |pod: &Value| items(&pod["spec"][key]).map(|one| text(&one["image"]).to_owned()).collect();
        let (new, known): (Vec<String>, Vec<String>) = (images(pod), images(old));
        if new != known {
            return true;
        }
    }
    items(&pod["spec"]["ephemeralContainers"]).any(|container| {
        items(&old["spec"]["ephemeralContainers"])
            .find(|known| known["name"] == container["name"])
            .is_none_or(|known| known["image"] != container["image"])
    })
}

fn validate_namespace(
    review: &Review<'_>,
    reader: &dyn Reader,
    warnings: &mut Warnings,
) -> Result<(), Status> {
    let Some(namespace) = review.object.as_ref().filter(|_| review.attributes.subresource.is_empty()) else {
        return Ok(());
    };
    let (policy, problems) = Policy::of_labels(&namespace["metadata"]["labels"]);
    let old = review.old.as_deref().filter(|_| review.operation == Operation::Update);
    let Some(old) = old else {
        if problems.is_empty() {
            return Ok(());
        }
        return Err(Status::invalid(&review.kind.group, &review.kind.kind, review.name(), problems));
    };
    let (old_policy, old_problems) = Policy::of_labels(&old["metadata"]["labels"]);
    if !problems.is_empty() && problems != old_problems {
        return Err(Status::invalid(&review.kind.group, &review.kind.kind, review.name(), problems));
    }
    let (demanded, before) = (policy.enforce, old_policy.enforce);
    let not_stricter = demanded == before
        || demanded.level == Level::Privileged
        || (demanded.version == before.version && demanded.level <= before.level);
    if !not_stricter {
        let pods = reader.list(&GroupResource::new("", "pods"), Some(text(&namespace["metadata"]["name"])));
        for text in warnings_of_pods(text(&namespace["metadata"]["name"]), &pods, &demanded) {
            warn(warnings, text);
        }
    }
    Ok(())
}

/// What is said about the pods that a namespace has when it gets stricter.
fn warnings_of_pods(namespace: &str, pods: &[std::sync::Arc<Value>], demanded: &LevelVersion) -> Vec<String> {
    // Pods of one controller are alike: the first of each is looked at before the others.
    let mut seen = BTreeSet::new();
    let (mut first, mut later): (Vec<&Value>, Vec<&Value>) = (Vec::new(), Vec::new());
    for pod in pods {
        let owner = items(&pod["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true);
        match owner.map(|owner| text(&owner["uid"])) {
            Some(uid) if !seen.insert(uid) => later.push(pod),
            _ => first.push(pod),
        }
    }
    first.extend(later);
    let total = first.len();
    first.truncate(MOST_PODS);
    let mut counts: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for pod in &first {
        let found = violations(demanded, pod);
        if found.is_empty() {
            continue;
        }
        let reasons: Vec<&str> = found.iter().map(|violation| violation.reason.as_str()).collect();
        let name = text(&pod["metadata"]["name"]);
        let entry = counts.entry(reasons.join(", ")).or_insert((name, 0));
        entry.0 = entry.0.min(name);
        entry.1 += 1;
    }
    let mut told = Vec::new();
    if first.len() < total {
        let checked = first.len();
        told.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
        ));
    }
    if !counts.is_empty() {
        told.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{demanded}\""
        ));
    }
    let mut lines: Vec<String> = counts
        .into_iter()
        .map(|(reasons, (name, count))| match count {
            1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            more => format!("{name} (and {} other pods): {reasons}", more - 1),
        })
        .collect();
    lines.sort();
    told.extend(lines);
    told
}

#[cfg(test)]
mod tests;

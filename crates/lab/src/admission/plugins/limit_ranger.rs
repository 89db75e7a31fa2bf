//! Limit ranges: defaults for containers, and bounds for containers, pods and claims.

use std::sync::Arc;

use serde_json::Value;

use super::super::json::{at, items, object, text};
use super::super::review::{Operation, Review};
use super::aggregated;
use super::resources::{Amounts, amount_of, amounts, count, of_pod};
use crate::names::GroupResource;
use crate::quantity::Quantity;
use crate::reader::Reader;
use crate::status::Status;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Up to here amounts are compared in thousandths.
const LARGEST_IN_MILLIS: i64 = i64::MAX / 1000;

/// Sets the default requests and limits of containers.
pub(crate) fn mutate(review: &mut Review<'_>, reader: &dyn Reader) {
    if !review.is_kind("", "Pod") {
        return;
    }
    for range in ranges(review, reader) {
        if let Some(pod) = review.object.as_mut() {
            set_defaults(pod, &range);
        }
    }
}

/// Refuses what is out of bounds.
pub(crate) fn validate(review: &Review<'_>, reader: &dyn Reader) -> Result<(), Status> {
    for range in ranges(review, reader) {
        let Some(wanted) = &review.object else { continue };
        let problems = match review.attributes.resource.as_str() {
            "pods" => problems_of_pod(&range, &wanted["spec"]),
            "persistentvolumeclaims" => problems_of_claim(&range, &wanted["spec"]),
            _ => Vec::new(),
        };
        if let Some(why) = aggregated(&problems) {
            return Err(review.forbidden(&why));
        }
    }
    Ok(())
}

/// The limit ranges that count for a request; none if it is not of the kind they are about.
fn ranges(review: &Review<'_>, reader: &dyn Reader) -> Vec<Arc<Value>> {
    if !matches!(review.operation, Operation::Create | Operation::Update) {
        return Vec::new();
    }
    let updates = review.operation == Operation::Update;
    let is_pod = review.is_kind("", "Pod");
    let counts = match review.attributes.subresource.as_str() {
        "resize" => is_pod && updates,
        "" => (is_pod && !updates) || review.is_kind("", "PersistentVolumeClaim"),
        _ => false,
    };
    let is_leaving = review.old.as_ref().is_some_and(|old| !old["metadata"]["deletionTimestamp"].is_null());
    if !counts || is_leaving {
        return Vec::new();
    }
    reader.list(&GroupResource::new("", "limitranges"), Some(review.namespace()))
}

fn of_type<'a>(range: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    items(&range["spec"]["limits"]).filter(move |limit| limit["type"] == kind)
}

fn set_defaults(pod: &mut Value, range: &Value) {
    let mut defaults = [("limits", serde_json::Map::new()), ("requests", serde_json::Map::new())];
    for limit in of_type(range, "Container") {
        for ((_, known), key) in defaults.iter_mut().zip(["default", "defaultRequest"]) {
            if let Some(more) = limit[key].as_object() {
                known.extend(more.clone());
            }
        }
    }
    let mut set = Vec::new();
    for (key, word) in [("containers", "container"), ("initContainers", "init container")] {
        let Some(containers) = at(pod, "spec").get_mut(key).and_then(Value::as_array_mut) else { continue };
        for container in containers {
            let name = text(&container["name"]).to_owned();
            let mut done = Vec::new();
            for (which, wanted) in &defaults {
                let missing: Vec<(&String, &Value)> = wanted
                    .iter()
                    .filter(|(resource, _)| container["resources"][which].get(resource.as_str()).is_none())
                    .collect();
                if missing.is_empty() {
                    continue;
                }
                let names: Vec<&str> = missing.iter().map(|(resource, _)| resource.as_str()).collect();
                let word_of_list = which.trim_end_matches('s');
                done.push(format!("{} {word_of_list} for {word} {name}", names.join(", ")));
                let place = object(at(at(container, "resources"), which));
                place.extend(missing.into_iter().map(|(resource, value)| (resource.clone(), value.clone())));
            }
            // Requests are told before limits.
            set.extend(done.into_iter().rev());
        }
    }
    if !set.is_empty() {
        let told = format!("LimitRanger plugin set: {}", set.join("; "));
        object(at(at(pod, "metadata"), "annotations")).insert(ANNOTATION.to_owned(), told.into());
    }
}

fn problems_of_claim(range: &Value, spec: &Value) -> Vec<String> {
    let kind = "PersistentVolumeClaim";
    let requests = amounts(&spec["resources"]["requests"]);
    let mut problems = Vec::new();
    for limit in of_type(range, kind) {
        for (name, bound) in amounts(&limit["min"]) {
            problems.extend(below(kind, &name, &bound, &requests, &Amounts::new()));
        }
        for (name, bound) in amounts(&limit["max"]) {
            problems.extend(request_above(kind, &name, &bound, &requests));
        }
    }
    problems
}

fn problems_of_pod(range: &Value, spec: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for limit in items(&range["spec"]["limits"]) {
        let kind = text(&limit["type"]);
        let mut check = |requests: &Amounts, limits: &Amounts| {
            for (name, bound) in amounts(&limit["min"]) {
                problems.extend(below(kind, &name, &bound, requests, limits));
            }
            for (name, bound) in amounts(&limit["max"]) {
                problems.extend(above(kind, &name, &bound, requests, limits));
            }
            for (name, bound) in amounts(&limit["maxLimitRequestRatio"]) {
                problems.extend(too_elastic(kind, &name, &bound, requests, limits));
            }
        };
        match kind {
            "Container" => {
                for container in items(&spec["containers"]).chain(items(&spec["initContainers"])) {
                    let resources = &container["resources"];
                    check(&amounts(&resources["requests"]), &amounts(&resources["limits"]));
                }
            }
            "Pod" => check(&of_pod(spec, "requests", false), &of_pod(spec, "limits", false)),
            _ => {}
        }
    }
    problems
}

/// Three amounts in a unit in which they can be compared.
fn comparable(request: &Quantity, limit: &Quantity, bound: &Quantity) -> (i64, i64, i64) {
    let whole = (request.value(), limit.value(), bound.value());
    if whole.0.max(whole.1).max(whole.2) <= LARGEST_IN_MILLIS {
        return (request.milli_value(), limit.milli_value(), bound.milli_value());
    }
    whole
}

fn below(kind: &str, name: &str, bound: &Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let start = format!("minimum {name} usage per {kind} is {bound}");
    let Some(request) = requests.get(name) else { return Some(format!("{start}.  No request is specified")) };
    let limit = limits.get(name);
    let (asked, most, least) = comparable(request, &amount_of(limits, name), bound);
    if asked < least {
        return Some(format!("{start}, but request is {request}"));
    }
    limit.filter(|_| most < least).map(|limit| format!("{start}, but limit is {limit}"))
}

fn request_above(kind: &str, name: &str, bound: &Quantity, requests: &Amounts) -> Option<String> {
    let start = format!("maximum {name} usage per {kind} is {bound}");
    let Some(request) = requests.get(name) else { return Some(format!("{start}.  No request is specified")) };
    let (asked, _, most) = comparable(request, &count(0), bound);
    (asked > most).then(|| format!("{start}, but request is {request}"))
}

fn above(kind: &str, name: &str, bound: &Quantity, requests: &Amounts, limits: &Amounts) -> Option<String> {
    let start = format!("maximum {name} usage per {kind} is {bound}");
    let Some(limit) = limits.get(name) else { return Some(format!("{start}.  No limit is specified")) };
    let request = requests.get(name);
    let (asked, allowed, most) = comparable(&amount_of(requests, name), limit, bound);
    if allowed > most {
        return Some(format!("{start}, but limit is {limit}"));
    }
    request.filter(|_| asked > most).map(|request| format!("{start}, but request is {request}"))
}

#[expect(clippy::cast_precision_loss, reason = "ratios are told and compared as floating point numbers")]
fn too_elastic(
    kind: &str,
    name: &str,
    bound: &Quantity,
    requests: &Amounts,
    limits: &Amounts,
) -> Option<String> {
    let start = format!("{name} max limit to request ratio per {kind} is {bound}");
    let (asked, allowed, _) = comparable(&amount_of(requests, name), &amount_of(limits, name), bound);
    if asked == 0 {
        return Some(format!("{start}, but no request is specified or request is 0"));
    }
    if allowed == 0 {
        return Some(format!("{start}, but no limit is specified or limit is 0"));
    }
    let ratio = allowed as f64 / asked as f64;
    let exceeds = if bound.value() <= LARGEST_IN_MILLIS {
        ratio * 1000.0 > bound.milli_value() as f64
    } else {
        ratio > bound.value() as f64
    };
    exceeds.then(|| format!("{start}, but provided ratio is {ratio:.6}"))
}

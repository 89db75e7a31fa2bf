//! Which pods and claims a scope covers.

use serde_json::{Value, json};

use super::super::json::{entries, items, text};
use super::super::plugins::resources::amounts;
use super::super::selector::Selector;

/// True if a pod is in a scope.
pub(super) fn pod_matches(scope: &Value, pod: &Value) -> bool {
    let spec = &pod["spec"];
    let terminates = spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    match text(&scope["scopeName"]) {
        "Terminating" => terminates,
        "NotTerminating" => !terminates,
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => {
            let class = text(&spec["priorityClassName"]);
            by_name(scope, if class.is_empty() { &[] } else { std::slice::from_ref(&class) })
        }
        "CrossNamespacePodAffinity" => looks_abroad(spec),
        _ => false,
    }
}

/// True if a claim for storage is in a scope.
pub(super) fn claim_matches(scope: &Value, claim: &Value) -> bool {
    if scope["scopeName"] != "VolumeAttributesClass" {
        return false;
    }
    let names: Vec<&str> = [
        &claim["spec"]["volumeAttributesClassName"],
        &claim["status"]["currentVolumeAttributesClassName"],
        &claim["status"]["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
    ]
    .into_iter()
    .map(text)
    .filter(|name| !name.is_empty())
    .collect();
    by_name(scope, &names)
}

/// True if one of the names (or their absence) is what a scope selects.
fn by_name(scope: &Value, names: &[&str]) -> bool {
    let requirement = json!({"matchExpressions": [
        {"key": "name", "operator": scope["operator"], "values": scope["values"]},
    ]});
    let Ok(selector) = Selector::compile(&requirement) else { return false };
    if names.is_empty() {
        return selector.matches(&Value::Null);
    }
    names.iter().any(|name| selector.matches(&json!({"name": name})))
}

/// True if a pod asks for nothing.
fn is_best_effort(pod: &Value) -> bool {
    if let Some(class) = pod["status"]["qosClass"].as_str() {
        return class == "BestEffort";
    }
    let spec = &pod["spec"];
    let asks = |resources: &Value| {
        ["requests", "limits"].iter().any(|key| {
            amounts(&resources[*key])
                .iter()
                .any(|(name, amount)| (name == "cpu" || name == "memory") && !amount.is_zero())
        })
    };
    let whole = &spec["resources"];
    if entries(&whole["requests"]).chain(entries(&whole["limits"])).next().is_some() {
        return !asks(whole);
    }
    let mut containers = items(&spec["containers"]).chain(items(&spec["initContainers"]));
    !containers.any(|container| asks(&container["resources"]))
}

/// True if a pod wants to be near or far from pods of other namespaces.
fn looks_abroad(spec: &Value) -> bool {
    let abroad =
        |term: &Value| items(&term["namespaces"]).next().is_some() || !term["namespaceSelector"].is_null();
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let affinity = &spec["affinity"][*kind];
        items(&affinity["requiredDuringSchedulingIgnoredDuringExecution"]).any(abroad)
            || items(&affinity["preferredDuringSchedulingIgnoredDuringExecution"])
                .any(|term| abroad(&term["podAffinityTerm"]))
    })
}

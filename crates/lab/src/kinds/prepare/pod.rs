//! Pods, and templates of them.

use serde_json::{Map, Value, json};

use super::super::WriteContext;
use super::super::quantity::{Amount, Quantity};
use super::super::view::{Edit, Look};
use super::resources::{pod_limits, pod_requests};
use super::{keep, keep_metadata};
use crate::clock;

pub(super) const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

pub(super) fn create(context: &WriteContext<'_>, pod: &mut Value) {
    pod.put("status", json!({"phase": "Pending"}));
    drop_disabled_annotations(pod);
    drop_disabled(pod.object("spec"));
    if !pod.at("spec").list("schedulingGates").is_empty() {
        pod["status"].put(
            "conditions",
            json!([{
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null, "lastTransitionTime": clock::seconds(context.now),
            }]),
        );
    }
    merge_label_keys(pod);
    apply_app_armor(pod);
    default_resources(pod.object("spec"));
    let class = quality_of_service(pod.at("spec"));
    pod["status"].put("qosClass", class);
}

pub(super) fn update(subresource: &str, old: &Value, new: &mut Value) {
    match subresource {
        "status" => return update_status(old, new),
        "ephemeralcontainers" => {
            let containers = new.at("spec").get("ephemeralContainers").cloned();
            keep(old, new, "spec");
            keep(old, new, "status");
            keep_metadata(old.at("metadata"), new.object("metadata"));
            let spec = new.object("spec");
            match containers {
                Some(containers) => spec.put("ephemeralContainers", containers),
                None => {
                    spec.cut("ephemeralContainers");
                }
            }
        }
        "resize" => {
            resize(old, new);
            keep_resources(old, new);
            if new.at("spec").has("resources") {
                default_resources(new.object("spec"));
            }
        }
        _ => {
            keep(old, new, "status");
            keep_resources(old, new);
        }
    }
    drop_disabled_annotations(new);
    drop_disabled(new.object("spec"));
}

fn keep_resources(old: &Value, new: &mut Value) {
    if !new.at("spec").has("resources") && old.at("spec").has("resources") {
        keep(old.at("spec"), new.object("spec"), "resources");
    }
}

fn update_status(old: &Value, new: &mut Value) {
    keep(old, new, "spec");
    let metadata = new.object("metadata");
    metadata.cut("deletionTimestamp");
    keep(old.at("metadata"), metadata, "ownerReferences");
    let before = old.at("status");
    let status = new.object("status");
    for field in ["qosClass", "resourceClaimStatuses", "extendedResourceClaimStatus"] {
        let missing = !status.has(field) || (field == "qosClass" && status.text(field).is_empty());
        if missing && before.has(field) {
            keep(before, status, field);
        }
    }
    let generation = |value: &Value| value.int("observedGeneration").unwrap_or_default();
    if generation(status) == 0 && generation(before) != 0 {
        keep(before, status, "observedGeneration");
    }
    // Conditions keep the generation of the condition of the same type, in order.
    let mut used: Vec<usize> = Vec::new();
    for condition in status.items("conditions") {
        let matching = before
            .list("conditions")
            .iter()
            .enumerate()
            .find(|(place, old)| !used.contains(place) && old.text("type") == condition.text("type"));
        if let Some((place, old)) = matching {
            used.push(place);
            if generation(condition) == 0 && generation(old) != 0 {
                condition.put("observedGeneration", generation(old));
            }
        }
    }
    for field in ["volumeHealth", "nodeAllocatableResourceClaimStatuses"] {
        status.cut(field);
    }
    for group in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for mount in status.items(group).iter_mut().flat_map(|container| container.items("volumeMounts")) {
            mount.cut("volumeStatus");
        }
    }
}

/// Only resources and resize policies may change, and only while the containers are the same ones.
fn resize(old: &Value, new: &mut Value) {
    let count = |pod: &Value, group: &str| pod.at("spec").list(group).len();
    if ["containers", "initContainers"].iter().any(|group| count(old, group) != count(new, group)) {
        return;
    }
    let resources = new.at("spec").get("resources").cloned();
    let containers = ["containers", "initContainers"].map(|group| {
        let wanted = new.at("spec").list(group);
        let mut kept = old.at("spec").list(group).to_vec();
        for (container, wanted) in kept.iter_mut().zip(wanted) {
            if container.text("name") != wanted.text("name") {
                return (group, wanted_list(new, group));
            }
            keep(wanted, container, "resources");
            keep(wanted, container, "resizePolicy");
        }
        (group, (!kept.is_empty()).then_some(Value::Array(kept)))
    });
    keep(old, new, "spec");
    keep(old, new, "status");
    keep_metadata(old.at("metadata"), new.object("metadata"));
    let spec = new.object("spec");
    match resources {
        Some(resources) => spec.put("resources", resources),
        None => {
            spec.cut("resources");
        }
    }
    for (group, list) in containers {
        if let Some(list) = list {
            spec.put(group, list);
        }
    }
}

fn wanted_list(pod: &Value, group: &str) -> Option<Value> {
    pod.at("spec").get(group).cloned()
}

/// Annotations from before init containers were fields.
fn drop_disabled_annotations(holder: &mut Value) {
    let Some(metadata) = holder.child("metadata") else { return };
    if let Some(annotations) = metadata.child("annotations") {
        for name in [
            "pod.beta.kubernetes.io/init-containers",
            "pod.alpha.kubernetes.io/init-containers",
            "pod.beta.kubernetes.io/init-container-statuses",
            "pod.alpha.kubernetes.io/init-container-statuses",
        ] {
            annotations.cut(name);
        }
        if annotations.as_object().is_some_and(Map::is_empty) {
            metadata.cut("annotations");
        }
    }
}

pub(super) fn drop_disabled_template(template: &mut Value) {
    drop_disabled_annotations(template);
    drop_disabled(template.object("spec"));
}

/// Takes out fields of features that are off.
pub(crate) fn drop_disabled(spec: &mut Value) {
    for field in ["schedulingGroup", "evictionResponders"] {
        spec.cut(field);
    }
    for volume in spec.items("volumes") {
        if let Some(directory) = volume.child("emptyDir") {
            directory.cut("mode");
        }
        for source in ["secret", "configMap", "downwardAPI", "projected"] {
            let Some(source) = volume.child(source) else { continue };
            source.cut("defaultUser");
            drop_users(source);
            for part in source.items("sources") {
                for kind in [
                    "secret",
                    "configMap",
                    "downwardAPI",
                    "serviceAccountToken",
                    "clusterTrustBundle",
                    "podCertificate",
                ] {
                    if let Some(part) = part.child(kind) {
                        part.cut("user");
                        drop_users(part);
                    }
                }
            }
        }
    }
    for container in
        CONTAINERS.iter().filter_map(|group| spec.get(*group).is_some().then_some(*group)).collect::<Vec<_>>()
    {
        for container in spec.items(container) {
            for mount in container.items("volumeMounts") {
                mount.cut("bindMountOptions");
            }
            for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
                let Some(probe) = container.child(probe) else { continue };
                if let Some(get) = probe.child("httpGet") {
                    get.cut("protocol");
                }
                if let Some(grpc) = probe.child("grpc") {
                    grpc.cut("mode");
                }
            }
            if let Some(lifecycle) = container.child("lifecycle") {
                lifecycle.cut("stopSignal");
                for hook in ["postStart", "preStop"] {
                    if let Some(get) = lifecycle.child(hook).and_then(|hook| hook.child("httpGet")) {
                        get.cut("protocol");
                    }
                }
            }
        }
    }
}

fn drop_users(source: &mut Value) {
    for item in source.items("items") {
        item.cut("user");
    }
}

/// Keys whose values are taken from the pod's own labels become parts of the selectors.
fn merge_label_keys(pod: &mut Value) {
    let labels = pod.at("metadata").at("labels").clone();
    let spec = pod.object("spec");
    let extend = |holder: &mut Value, keys: &str, operator: &str| {
        let wanted: Vec<Value> = holder
            .list(keys)
            .iter()
            .filter(|key| labels.has(key.str()))
            .map(|key| json!({"key": key, "operator": operator, "values": [labels.text(key.str())]}))
            .collect();
        if let (false, Some(selector)) = (wanted.is_empty(), holder.child("labelSelector")) {
            let mut all = selector.list("matchExpressions").to_vec();
            all.extend(wanted);
            selector.put("matchExpressions", all);
        }
    };
    if let Some(affinity) = spec.child("affinity") {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let Some(kind) = affinity.child(kind) else { continue };
            for term in kind.items("preferredDuringSchedulingIgnoredDuringExecution") {
                if let Some(term) = term.child("podAffinityTerm") {
                    extend(term, "matchLabelKeys", "In");
                    extend(term, "mismatchLabelKeys", "NotIn");
                }
            }
            for term in kind.items("requiredDuringSchedulingIgnoredDuringExecution") {
                extend(term, "matchLabelKeys", "In");
                extend(term, "mismatchLabelKeys", "NotIn");
            }
        }
    }
    for constraint in spec.items("topologySpreadConstraints") {
        extend(constraint, "matchLabelKeys", "In");
    }
}

/// Annotations from before AppArmor profiles were fields become fields.
fn apply_app_armor(pod: &mut Value) {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let annotations = pod.at("metadata").at("annotations").clone();
    let spec = pod.object("spec");
    if spec.at("os").text("name") == "windows" {
        return;
    }
    let of_pod = spec.at("securityContext").at("appArmorProfile").clone();
    for group in CONTAINERS {
        for container in spec.items(group) {
            let key = format!("{PREFIX}{}", container.text("name"));
            let profile = match annotations.text(&key) {
                "runtime/default" => json!({"type": "RuntimeDefault"}),
                "unconfined" => json!({"type": "Unconfined"}),
                other => match other.strip_prefix("localhost/") {
                    Some(name) if !name.is_empty() && name.len() <= 4095 && name.trim() == name => {
                        json!({"type": "Localhost", "localhostProfile": name})
                    }
                    _ => continue,
                },
            };
            if !container.at("securityContext").has("appArmorProfile") && profile != of_pod {
                container.object("securityContext").put("appArmorProfile", profile);
            }
        }
    }
}

fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// What is asked for the pod as a whole is completed by what its containers ask for.
fn default_resources(spec: &mut Value) {
    let empty = |spec: &Value, list: &str| spec.at("resources").fields(list).is_none_or(Map::is_empty);
    if empty(spec, "requests") && empty(spec, "limits") {
        return;
    }
    let limits = pod_limits(spec);
    for (name, amount) in limits.iter().filter(|(name, _)| name.starts_with("hugepages-")) {
        if !spec.at("resources").at("requests").has(name) {
            spec.object("resources").object("limits").fill(name, amount.to_string());
        }
    }
    for (name, amount) in pod_requests(spec) {
        if is_pod_level(&name) && !name.starts_with("hugepages-") {
            spec.object("resources").object("requests").fill(&name, amount.to_string());
        }
    }
    for (name, amount) in spec.at("resources").fields("limits").cloned().unwrap_or_default() {
        if is_pod_level(&name) {
            spec.object("resources").object("requests").fill(&name, amount);
        }
    }
    let requests = spec.at("resources").fields("requests").cloned().unwrap_or_default();
    for (name, request) in requests {
        let limited_everywhere = CONTAINERS
            .iter()
            .flat_map(|group| spec.list(group))
            .all(|container| container.at("resources").at("limits").has(&name));
        let (true, true, Some(limit)) = (is_pod_level(&name), limited_everywhere, limits.get(&name)) else {
            continue;
        };
        let request = Quantity::or_zero(&request);
        let limit = if request > *limit { &request } else { limit };
        spec.object("resources").object("limits").fill(&name, limit.to_string());
    }
}

/// How sure a pod can be of what it asked for.
pub(crate) fn quality_of_service(spec: &Value) -> &'static str {
    let pod_level = ["requests", "limits"].iter().any(|list| {
        spec.at("resources").fields(list).is_some_and(|list| list.keys().any(|name| is_pod_level(name)))
    });
    if pod_level {
        return class_of(spec.at("resources"));
    }
    let mut class = "";
    for container in spec.list("initContainers").iter().chain(spec.list("containers")) {
        let here = class_of(container.at("resources"));
        if here == "Burstable" || (!class.is_empty() && class != here) {
            return "Burstable";
        }
        class = here;
    }
    if class.is_empty() { "BestEffort" } else { class }
}

fn class_of(resources: &Value) -> &'static str {
    let mut class = "";
    for name in ["cpu", "memory"] {
        let request = Quantity::or_zero(resources.at("requests").at(name));
        let limit = Quantity::or_zero(resources.at("limits").at(name));
        let here = match () {
            () if request != limit => return "Burstable",
            () if request.is_zero() => "BestEffort",
            () => "Guaranteed",
        };
        if !class.is_empty() && class != here {
            return "Burstable";
        }
        class = here;
    }
    // Something else is asked for, such as storage: better than nothing.
    let nothing = ["requests", "limits"].iter().all(|list| resources.fields(list).is_none_or(Map::is_empty));
    if nothing { "BestEffort" } else { class }
}

//! What is particular about the other kinds.

use serde_json::{Map, Value, json};

use super::super::WriteContext;
use super::super::view::{Edit, Look};
use super::keep;
use crate::clock;

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn create(context: &WriteContext<'_>, group: &str, kind: &str, object: &mut Value) {
    match (group, kind) {
        ("", "Namespace") => {
            object.put("status", json!({"phase": "Active"}));
            let spec = object.object("spec");
            let mut finalizers = spec.list("finalizers").to_vec();
            if !finalizers.iter().any(|name| name.str() == "kubernetes") {
                finalizers.push("kubernetes".into());
                spec.put("finalizers", finalizers);
            }
            let name = object.at("metadata").text("name").to_owned();
            object.object("metadata").object("labels").put("kubernetes.io/metadata.name", name);
        }
        ("", "LimitRange") => {
            let metadata = object.object("metadata");
            if metadata.text("name").is_empty() {
                // The real server makes up an identifier; the object has one of its own.
                let name = metadata.text("uid").to_owned();
                metadata.put("name", name);
            }
        }
        ("", "Node") => {
            object.object("spec").cut("configSource");
            object.object("spec").cut("podPreemptionPolicy");
            if let Some(status) = object.child("status") {
                status.cut("config");
            }
        }
        ("", "PersistentVolume") => {
            object.put(
                "status",
                json!({"phase": "Pending", "lastPhaseTransitionTime": clock::seconds(context.now)}),
            );
        }
        ("", "PersistentVolumeClaim") => data_sources(None, object.object("spec")),
        ("", "ServiceAccount") => clean_secrets(object),
        ("apps", "DaemonSet") => {
            let annotations = object.object("metadata").object("annotations");
            let generation: i64 = annotations.text(TEMPLATE_GENERATION).parse().unwrap_or_default();
            annotations.put(TEMPLATE_GENERATION, generation.max(1).to_string());
        }
        ("batch", "Job") => {
            object.object("spec").cut("scheduling");
            if !object.at("spec").flag("manualSelector") {
                select_by_uid(object);
            }
        }
        ("batch", "CronJob") => {
            object.object("spec").object("jobTemplate").object("spec").cut("scheduling");
        }
        ("policy", "PodDisruptionBudget") => clean_selector(object),
        ("coordination.k8s.io", "Lease") => {
            for field in ["strategy", "preferredHolder"] {
                object.object("spec").cut(field);
            }
        }
        ("discovery.k8s.io", "EndpointSlice") => drop_topology(object),
        ("certificates.k8s.io", "CertificateSigningRequest") => requester(context, object.object("spec")),
        ("apiregistration.k8s.io", "APIService") if !object.at("spec").has("service") => {
            object.put(
                "status",
                json!({"conditions": [{
                    "type": "Available", "status": "True", "reason": "Local",
                    "message": "Local APIServices are always available",
                    "lastTransitionTime": clock::seconds(context.now),
                }]}),
            );
        }
        ("resource.k8s.io", kind) => drop_disabled_devices(kind, object),
        _ => {}
    }
}

pub(super) fn update(context: &WriteContext<'_>, group: &str, kind: &str, old: &Value, new: &mut Value) {
    match (group, kind) {
        ("", "Namespace") => {
            keep(old.at("spec"), new.object("spec"), "finalizers");
            let name = new.at("metadata").text("name").to_owned();
            new.object("metadata").object("labels").put("kubernetes.io/metadata.name", name);
        }
        ("", "Node") => {
            if !old.at("spec").has("configSource") {
                new.object("spec").cut("configSource");
            }
            new.object("spec").cut("podPreemptionPolicy");
        }
        ("", "Secret") if new.text("type").is_empty() => keep(old, new, "type"),
        ("", "PersistentVolumeClaim") => data_sources(Some(old.at("spec")), new.object("spec")),
        ("", "ServiceAccount") => clean_secrets(new),
        ("apps", "DaemonSet") => {
            let text = old.at("metadata").at("annotations").text(TEMPLATE_GENERATION);
            let mut generation: i64 = text.parse().unwrap_or_default();
            if !super::same(old.at("spec").at("template"), new.at("spec").at("template")) {
                generation = generation.saturating_add(1);
            }
            new.object("metadata").object("annotations").put(TEMPLATE_GENERATION, generation.to_string());
        }
        ("batch", "Job") => {
            new.object("spec").cut("scheduling");
        }
        ("batch", "CronJob") => {
            new.object("spec").object("jobTemplate").object("spec").cut("scheduling");
        }
        ("policy", "PodDisruptionBudget")
            if !super::same(old.at("spec").at("selector"), new.at("spec").at("selector")) =>
        {
            clean_selector(new);
        }
        ("coordination.k8s.io", "Lease") => {
            for field in ["strategy", "preferredHolder"] {
                if !old.at("spec").has(field) {
                    new.object("spec").cut(field);
                }
            }
        }
        ("discovery.k8s.io", "EndpointSlice") => drop_topology(new),
        ("certificates.k8s.io", "CertificateSigningRequest") => keep(old, new, "spec"),
        ("resource.k8s.io", kind) => {
            drop_disabled_devices(kind, new);
            let (before, after) = (old.at("spec").at("taint"), new.at("spec").at("taint"));
            let retimed = before.text("timeAdded") != after.text("timeAdded");
            if kind == "DeviceTaintRule" && before.text("effect") != after.text("effect") && !retimed {
                new["spec"]["taint"].put("timeAdded", clock::seconds(context.now));
            }
        }
        _ => {}
    }
}

/// What is particular about writes to the status.
pub(super) fn status(context: &WriteContext<'_>, kind: &str, old: &Value, new: &mut Value) {
    let before = old.at("status");
    match kind {
        "DaemonSet" => {
            // Kept with the spec, but shown among the annotations.
            if let Some(generation) = old.at("metadata").at("annotations").get(TEMPLATE_GENERATION) {
                new.object("metadata").object("annotations").put(TEMPLATE_GENERATION, generation.clone());
            }
        }
        "PersistentVolume" => {
            const TIME: &str = "lastPhaseTransitionTime";
            let status = new.object("status");
            if before.text("phase") == status.text("phase") {
                if !status.has(TIME) && before.has(TIME) {
                    keep(before, status, TIME);
                }
            } else if !status.has(TIME) || status.at(TIME) == before.at(TIME) {
                status.put(TIME, clock::seconds(context.now));
            }
        }
        "PersistentVolumeClaim" if !before.has("healthStatus") => {
            new.object("status").cut("healthStatus");
        }
        "Node" if !before.has("config") => {
            new.object("status").cut("config");
        }
        "CSINode" => {
            new.object("status").cut("storageHealth");
        }
        "CertificateSigningRequest" => {
            // Approving and denying is not for those who write certificates.
            for kind in ["Approved", "Denied"] {
                let of = |value: &Value| -> Vec<Value> {
                    value.list("conditions").iter().filter(|one| one.text("type") == kind).cloned().collect()
                };
                let kept = of(before);
                if kept.len() == of(new.at("status")).len() {
                    let conditions = new.object("status").items("conditions");
                    let places = conditions.iter_mut().filter(|one| one.text("type") == kind);
                    for (place, old) in places.zip(kept) {
                        *place = old;
                    }
                }
            }
            condition_times(context, before, new.object("status"));
        }
        "ResourceClaim" => drop_deallocated(before, new.object("status")),
        _ => {}
    }
}

/// An approval or a denial: nothing but the conditions of the status may change.
pub(super) fn approve_certificate(context: &WriteContext<'_>, old: &Value, new: &mut Value) {
    condition_times(context, old.at("status"), new.object("status"));
    let conditions = new.at("status").get("conditions").cloned();
    keep(old, new, "spec");
    keep(old, new, "status");
    let status = new.object("status");
    match conditions {
        Some(conditions) => status.put("conditions", conditions),
        None => {
            status.cut("conditions");
        }
    }
}

fn condition_times(context: &WriteContext<'_>, before: &Value, status: &mut Value) {
    let now = clock::seconds(context.now);
    for condition in status.items("conditions") {
        condition.fill("lastUpdateTime", now.clone());
        if !condition.has("lastTransitionTime") {
            let same = before.list("conditions").iter().find(|old| {
                old.text("type") == condition.text("type")
                    && old.text("status") == condition.text("status")
                    && old.has("lastTransitionTime")
            });
            let time = same.map_or(now.as_str(), |old| old.text("lastTransitionTime")).to_owned();
            condition.put("lastTransitionTime", time);
        }
    }
}

fn requester(context: &WriteContext<'_>, spec: &mut Value) {
    for field in ["username", "uid", "groups", "extra"] {
        spec.cut(field);
    }
    let user = context.user;
    if !user.name.is_empty() {
        spec.put("username", user.name.clone());
    }
    if !user.uid.is_empty() {
        spec.put("uid", user.uid.clone());
    }
    if !user.groups.is_empty() {
        spec.put("groups", user.groups.clone());
    }
    if !user.extra.is_empty() {
        spec.put("extra", json!(user.extra));
    }
}

/// Both ways to name what a claim is filled from say the same.
fn data_sources(old: Option<&Value>, spec: &mut Value) {
    let has_namespace = |spec: &Value| !spec.at("dataSourceRef").text("namespace").is_empty();
    if has_namespace(spec) && !old.is_some_and(|old| old.has("dataSourceRef")) {
        spec.cut("dataSourceRef");
    }
    let in_use = old.is_some_and(|old| old.has("dataSource") || old.has("dataSourceRef"));
    if !in_use && !spec.has("dataSourceRef") {
        let source = spec.at("dataSource");
        let known = matches!(
            (source.text("kind"), source.text("apiGroup")),
            ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
        );
        if !known {
            spec.cut("dataSource");
        }
    }
    let copy = |from: &Value| {
        let mut to = Map::new();
        for field in ["apiGroup", "kind", "name"] {
            // The group is a pointer, and may be set to nothing; the others are always there.
            if from.has(field) {
                to.insert(field.to_owned(), from.at(field).clone());
            }
        }
        Value::Object(to)
    };
    if spec.has("dataSource") && !spec.has("dataSourceRef") {
        let reference = copy(spec.at("dataSource"));
        spec.put("dataSourceRef", reference);
    } else if spec.has("dataSourceRef") && !spec.has("dataSource") && !has_namespace(spec) {
        let source = copy(spec.at("dataSourceRef"));
        spec.put("dataSource", source);
    }
}

/// Only the names of a service account's secrets count.
fn clean_secrets(account: &mut Value) {
    for secret in account.items("secrets") {
        let name = secret.text("name").to_owned();
        *secret = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    }
}

/// A job selects its pods by its own uid, unless told not to.
fn select_by_uid(job: &mut Value) {
    const UID: &str = "batch.kubernetes.io/controller-uid";
    let name = job.at("metadata").text("name").to_owned();
    let uid = job.at("metadata").text("uid").to_owned();
    let none = |labels: &Value| labels.as_object().is_none_or(Map::is_empty);
    // A job without labels shares those of its pods, so that it has what they are given, too.
    let shared = none(job.at("metadata").at("labels"))
        && !none(job.at("spec").at("template").at("metadata").at("labels"));
    let spec = job.object("spec");
    let labels = spec.object("template").object("metadata").object("labels");
    for key in ["job-name", "batch.kubernetes.io/job-name"] {
        labels.fill(key, name.clone());
    }
    for key in ["controller-uid", UID] {
        labels.fill(key, uid.clone());
    }
    let labels = shared.then(|| labels.clone());
    spec.object("selector").object("matchLabels").fill(UID, uid);
    if let Some(labels) = labels {
        job.object("metadata").put("labels", labels);
    }
}

/// A label by which older versions told that nothing or everything is selected.
fn clean_selector(budget: &mut Value) {
    const MARK: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
    let Some(selector) = budget.child("spec").and_then(|spec| spec.child("selector")) else { return };
    let exact = *selector == json!({"matchExpressions": [{"key": MARK, "operator": "Exists"}]})
        || *selector == json!({"matchExpressions": [{"key": MARK, "operator": "DoesNotExist"}]});
    if exact {
        return;
    }
    let kept: Vec<Value> =
        selector.list("matchExpressions").iter().filter(|one| one.text("key") != MARK).cloned().collect();
    if kept.len() != selector.list("matchExpressions").len() {
        if kept.is_empty() {
            selector.cut("matchExpressions");
        } else {
            selector.put("matchExpressions", kept);
        }
    }
}

fn drop_topology(slice: &mut Value) {
    for endpoint in slice.items("endpoints") {
        endpoint.cut("deprecatedTopology");
    }
}

/// Fields of features that are off.
fn drop_disabled_devices(kind: &str, object: &mut Value) {
    match kind {
        "ResourceSlice" => {
            let spec = object.object("spec");
            for field in ["partitionTypeAttribute", "skipNodeOperations"] {
                spec.cut(field);
            }
            for device in spec.items("devices") {
                device.cut("nodeAllocatableResources");
                for counters in device.items("consumesCounters") {
                    counters.cut("compatibilityGroups");
                }
                let attributes = device.child("attributes").and_then(Value::as_object_mut);
                for attribute in attributes.into_iter().flat_map(Map::values_mut) {
                    for field in ["bools", "ints", "strings", "versions"] {
                        attribute.cut(field);
                    }
                }
            }
        }
        "ResourceClaim" | "ResourceClaimTemplate" => {
            let spec = object.object("spec");
            let spec = if kind == "ResourceClaim" { spec } else { spec.object("spec") };
            if let Some(devices) = spec.child("devices") {
                for constraint in devices.items("constraints") {
                    constraint.cut("derivedAttributes");
                }
            }
        }
        _ => {}
    }
}

/// The status of devices a claim does not hold any more goes.
fn drop_deallocated(before: &Value, status: &mut Value) {
    let id =
        |device: &Value| ["driver", "pool", "device", "shareID"].map(|field| device.text(field).to_owned());
    let held = |status: &Value| -> Vec<[String; 4]> {
        status.at("allocation").at("devices").list("results").iter().map(id).collect()
    };
    let still = held(status);
    let gone: Vec<[String; 4]> = held(before).into_iter().filter(|device| !still.contains(device)).collect();
    let kept: Vec<Value> =
        status.list("devices").iter().filter(|device| !gone.contains(&id(device))).cloned().collect();
    if kept.is_empty() {
        status.cut("devices");
    } else {
        status.put("devices", kept);
    }
}

//! Defaults of what runs pods: apps, batch and autoscaling.

use serde_json::{Map, Value, json};

use super::super::view::{Edit, Look};
use super::{core, pod};

/// Annotations that carry fields of an autoscaler other versions cannot say.
pub(in crate::kinds) const AUTOSCALER_ANNOTATIONS: [&str; 6] = [
    "autoscaling.alpha.kubernetes.io/metrics",
    "autoscaling.alpha.kubernetes.io/behavior",
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "autoscaling.alpha.kubernetes.io/conditions",
];

pub(super) fn apps(kind: &str, object: &mut Value) {
    match kind {
        "Deployment" => {
            let spec = object.object("spec");
            spec.fill("replicas", 1);
            let strategy = spec.object("strategy");
            strategy.fill_text("type", "RollingUpdate");
            if strategy.text("type") == "RollingUpdate" {
                let rolling = strategy.object("rollingUpdate");
                rolling.fill("maxUnavailable", "25%");
                rolling.fill("maxSurge", "25%");
            }
            spec.fill("revisionHistoryLimit", 10);
            spec.fill("progressDeadlineSeconds", 600);
            pod::template(spec);
            drop_annotation(object, "deprecated.deployment.rollback.to", str::is_empty);
        }
        "DaemonSet" => {
            let spec = object.object("spec");
            let strategy = spec.object("updateStrategy");
            strategy.fill_text("type", "RollingUpdate");
            if strategy.text("type") == "RollingUpdate" {
                let rolling = strategy.object("rollingUpdate");
                rolling.fill("maxUnavailable", 1);
                rolling.fill("maxSurge", 0);
            }
            spec.fill("revisionHistoryLimit", 10);
            pod::template(spec);
        }
        "StatefulSet" => stateful_set(object.object("spec")),
        "ReplicaSet" => {
            let spec = object.object("spec");
            spec.fill("replicas", 1);
            pod::template(spec);
        }
        _ => {}
    }
}

fn drop_annotation(object: &mut Value, name: &str, when: impl Fn(&str) -> bool) {
    let Some(annotations) = object.child("metadata").and_then(|metadata| metadata.child("annotations"))
    else {
        return;
    };
    if annotations.has(name) && when(annotations.text(name)) {
        annotations.cut(name);
    }
    if annotations.as_object().is_some_and(Map::is_empty) {
        object["metadata"].cut("annotations");
    }
}

fn stateful_set(spec: &mut Value) {
    spec.fill_text("podManagementPolicy", "OrderedReady");
    let strategy = spec.object("updateStrategy");
    if strategy.text("type").is_empty() {
        strategy.put("type", "RollingUpdate");
        strategy.fill("rollingUpdate", json!({}));
    }
    if strategy.text("type") == "RollingUpdate"
        && let Some(rolling) = strategy.child("rollingUpdate")
    {
        rolling.fill("partition", 0);
        rolling.fill("maxUnavailable", 1);
    }
    let retention = spec.object("persistentVolumeClaimRetentionPolicy");
    retention.fill_text("whenDeleted", "Retain");
    retention.fill_text("whenScaled", "Retain");
    spec.fill("replicas", 1);
    spec.fill("revisionHistoryLimit", 10);
    pod::template(spec);
    for claim in spec.items("volumeClaimTemplates") {
        core::claim(claim);
        claim.put("apiVersion", "v1");
        claim.put("kind", "PersistentVolumeClaim");
    }
}

pub(super) fn batch(kind: &str, object: &mut Value) {
    match kind {
        "Job" => {
            let labels =
                object["spec"]["template"]["metadata"]["labels"].as_object().cloned().unwrap_or_default();
            let unlabelled = object.at("metadata").at("labels").as_object().is_none_or(Map::is_empty);
            // The labels that tell a new job's pods from others are its own as well; they come later.
            let settled = object.at("spec").flag("manualSelector")
                || labels.contains_key("batch.kubernetes.io/controller-uid");
            if unlabelled && settled && !labels.is_empty() {
                object.object("metadata").put("labels", labels);
            }
            let spec = object.object("spec");
            if !spec.has("completions") && !spec.has("parallelism") {
                spec.put("completions", 1);
            }
            spec.fill("parallelism", 1);
            let limit = if spec.has("backoffLimitPerIndex") { i32::MAX } else { 6 };
            spec.fill("backoffLimit", limit);
            spec.fill("completionMode", "NonIndexed");
            spec.fill("suspend", false);
            let policy = if spec.has("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
            spec.fill("podReplacementPolicy", policy);
            spec.fill("manualSelector", false);
            job_spec(spec);
        }
        "CronJob" => {
            let spec = object.object("spec");
            spec.fill_text("concurrencyPolicy", "Allow");
            spec.fill("suspend", false);
            spec.fill("successfulJobsHistoryLimit", 3);
            spec.fill("failedJobsHistoryLimit", 1);
            job_spec(spec.object("jobTemplate").object("spec"));
        }
        _ => {}
    }
}

fn job_spec(spec: &mut Value) {
    if let Some(policy) = spec.child("podFailurePolicy") {
        for pattern in policy.items("rules").iter_mut().flat_map(|rule| rule.items("onPodConditions")) {
            pattern.fill_text("status", "True");
        }
    }
    pod::template(spec);
}

pub(super) fn autoscaling(version: &str, kind: &str, object: &mut Value) {
    if kind != "HorizontalPodAutoscaler" {
        return;
    }
    let spec = object.object("spec");
    spec.fill("minReplicas", 1);
    if version != "v2" {
        return;
    }
    if spec.list("metrics").is_empty() {
        spec.put("metrics", json!([default_metric(80)]));
    }
    if let Some(behavior) = spec.child("behavior") {
        let up = behavior.object("scaleUp");
        up.fill("stabilizationWindowSeconds", 0);
        up.fill("selectPolicy", "Max");
        if !up.at("policies").is_array() {
            up.put(
                "policies",
                json!([{"type": "Pods", "value": 4, "periodSeconds": 15},
                       {"type": "Percent", "value": 100, "periodSeconds": 15}]),
            );
        }
        let down = behavior.object("scaleDown");
        down.fill("selectPolicy", "Max");
        if !down.at("policies").is_array() {
            down.put("policies", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
        }
    }
    for name in AUTOSCALER_ANNOTATIONS {
        drop_annotation(object, name, |_| true);
    }
}

/// The metric an autoscaler has when nothing else is said.
pub(in crate::kinds) fn default_metric(percent: i64) -> Value {
    json!({"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

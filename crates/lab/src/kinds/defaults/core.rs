//! Defaults of the core group, pods aside.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::super::view::{Edit, Look};
use super::pod;

pub(super) fn default(kind: &str, object: &mut Value) {
    match kind {
        "PodTemplate" => pod::template(object),
        "ReplicationController" => replication_controller(object),
        "Service" => service(object),
        "Secret" => secret(object),
        "PersistentVolume" => {
            object.object("status").fill_text("phase", "Pending");
            let spec = object.object("spec");
            spec.fill_text("persistentVolumeReclaimPolicy", "Retain");
            spec.fill("volumeMode", "Filesystem");
            volume_spec(spec);
        }
        "PersistentVolumeClaim" => claim(object),
        "Endpoints" => {
            for port in object.items("subsets").iter_mut().flat_map(|subset| subset.items("ports")) {
                port.fill_text("protocol", "TCP");
            }
        }
        "Namespace" => {
            let name = object.at("metadata").text("name").to_owned();
            if !name.is_empty() {
                object.object("metadata").object("labels").put("kubernetes.io/metadata.name", name);
            }
            object.object("status").fill_text("phase", "Active");
        }
        "Node" => node(object),
        "LimitRange" => {
            if let Some(spec) = object.child("spec") {
                spec.items("limits").iter_mut().for_each(limit_range_item);
            }
        }
        "ResourceQuota" => {
            if let Some(spec) = object.child("spec") {
                pod::resource_list(spec.child("hard"));
            }
            if let Some(status) = object.child("status") {
                pod::resource_list(status.child("hard"));
                pod::resource_list(status.child("used"));
            }
        }
        _ => {}
    }
}

/// What persistent volumes have in common with the volumes inside of attachments.
pub(super) fn volume_spec(spec: &mut Value) {
    pod::resource_list(spec.child("capacity"));
    pod::volume_source(spec);
}

/// A claim, also one that is a template of a stateful set.
pub(super) fn claim(claim: &mut Value) {
    let status = claim.object("status");
    status.fill_text("phase", "Pending");
    pod::resource_list(status.child("capacity"));
    pod::resource_list(status.child("allocatedResources"));
    pod::claim_spec(claim.object("spec"));
}

fn replication_controller(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    if !labels.is_empty() {
        let empty = |value: &Value| value.as_object().is_none_or(Map::is_empty);
        if empty(object.at("spec").at("selector")) {
            object.object("spec").put("selector", labels.clone());
        }
        if empty(object.at("metadata").at("labels")) {
            object.object("metadata").put("labels", labels);
        }
    }
    let spec = object.object("spec");
    spec.fill("replicas", 1);
    if spec.has("template") {
        pod::template(spec);
    }
}

fn service(object: &mut Value) {
    let spec = object.object("spec");
    spec.fill_text("sessionAffinity", "None");
    match spec.text("sessionAffinity") {
        "None" => {
            spec.cut("sessionAffinityConfig");
        }
        "ClientIP" if !spec.at("sessionAffinityConfig").at("clientIP").has("timeoutSeconds") => {
            spec.put("sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10_800}}));
        }
        _ => {}
    }
    spec.fill_text("type", "ClusterIP");
    for port in spec.items("ports") {
        port.fill_text("protocol", "TCP");
        let target = port.at("targetPort");
        if target.is_null() || target == &json!(0) || target == &json!("") {
            let number = port.int("port").unwrap_or_default();
            port.put("targetPort", number);
        }
    }
    let kind = spec.text("type").to_owned();
    let external = matches!(kind.as_str(), "LoadBalancer" | "NodePort")
        || (kind == "ClusterIP" && !spec.list("externalIPs").is_empty());
    if external {
        spec.fill_text("externalTrafficPolicy", "Cluster");
    }
    match kind.as_str() {
        "NodePort" | "LoadBalancer" | "ClusterIP" => spec.fill("internalTrafficPolicy", "Cluster"),
        // Left over from another type, it is not shown.
        "ExternalName" => {
            spec.cut("internalTrafficPolicy");
        }
        _ => {}
    }
    if kind == "LoadBalancer" {
        spec.fill("allocateLoadBalancerNodePorts", true);
        if let Some(balancer) = object.child("status").and_then(|status| status.child("loadBalancer")) {
            for ingress in balancer.items("ingress") {
                if !ingress.text("ip").is_empty() {
                    ingress.fill("ipMode", "VIP");
                }
            }
        }
    }
}

fn secret(object: &mut Value) {
    object.fill_text("type", "Opaque");
    // Texts win over bytes of the same name, and are only another way to write them.
    if let Some(Value::Object(texts)) = object.cut("stringData")
        && !texts.is_empty()
    {
        let data = object.object("data");
        for (key, text) in texts {
            data.put(&key, BASE64_STANDARD.encode(text.str()));
        }
    }
}

fn node(object: &mut Value) {
    if let Some(spec) = object.child("spec") {
        let single = spec.text("podCIDR").to_owned();
        let first = spec.list("podCIDRs").first().map(|first| first.str().to_owned());
        match first {
            None if !single.is_empty() => spec.put("podCIDRs", json!([single])),
            Some(first) if single.is_empty() => spec.put("podCIDR", first),
            Some(first) if first != single => spec.put("podCIDRs", json!([single])),
            _ => {}
        }
    }
    if let Some(status) = object.child("status") {
        if let (false, Some(capacity)) = (status.has("allocatable"), status.get("capacity").cloned()) {
            status.put("allocatable", capacity);
        }
        pod::resource_list(status.child("capacity"));
        pod::resource_list(status.child("allocatable"));
    }
}

fn limit_range_item(item: &mut Value) {
    if item.text("type") == "Container" {
        // A missing default is the maximum; a missing default request is the default, or else the minimum.
        for (target, sources) in [("default", &["max"][..]), ("defaultRequest", &["default", "min"][..])] {
            for source in sources {
                for (name, amount) in item.fields(source).cloned().unwrap_or_default() {
                    item.object(target).fill(&name, amount);
                }
            }
        }
    }
    for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        pod::resource_list(item.child(list));
    }
}

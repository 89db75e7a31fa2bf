//! Defaults of the smaller groups.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::view::{Edit, Look};
use super::core;
use crate::clock;

pub(super) fn default(group: &str, kind: &str, object: &mut Value, now: Timestamp) {
    match group {
        "networking.k8s.io" => networking(kind, object),
        "rbac.authorization.k8s.io" => rbac(kind, object),
        "storage.k8s.io" => storage(kind, object),
        "admissionregistration.k8s.io" => admission(kind, object),
        "flowcontrol.apiserver.k8s.io" => flow_control(kind, object),
        "resource.k8s.io" => resource(kind, object, now),
        "discovery.k8s.io" if kind == "EndpointSlice" => {
            for port in object.items("ports") {
                port.fill("name", "");
                port.fill("protocol", "TCP");
            }
        }
        "scheduling.k8s.io" if kind == "PriorityClass" => {
            object.fill("preemptionPolicy", "PreemptLowerPriority");
        }
        "authentication.k8s.io" if kind == "TokenRequest" => {
            object.object("spec").fill("expirationSeconds", 3600);
        }
        "certificates.k8s.io" if kind == "PodCertificateRequest" => {
            object.object("spec").fill("maxExpirationSeconds", 86_400);
        }
        "apiregistration.k8s.io" if kind == "APIService" => {
            if let Some(service) = object.child("spec").and_then(|spec| spec.child("service")) {
                service.fill("port", 443);
            }
        }
        _ => {}
    }
}

fn networking(kind: &str, object: &mut Value) {
    let spec = object.object("spec");
    match kind {
        "NetworkPolicy" => {
            if spec.list("policyTypes").is_empty() {
                let types = if spec.list("egress").is_empty() {
                    json!(["Ingress"])
                } else {
                    json!(["Ingress", "Egress"])
                };
                spec.put("policyTypes", types);
            }
            for direction in ["ingress", "egress"] {
                for port in spec.items(direction).iter_mut().flat_map(|rule| rule.items("ports")) {
                    port.fill("protocol", "TCP");
                }
            }
        }
        "IngressClass" => {
            if let Some(parameters) = spec.child("parameters") {
                parameters.fill("scope", "Cluster");
            }
        }
        _ => {}
    }
}

fn rbac(kind: &str, object: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if kind == "RoleBinding" || kind == "ClusterRoleBinding" {
        object.object("roleRef").fill_text("apiGroup", GROUP);
        for subject in object.items("subjects") {
            if matches!(subject.text("kind"), "User" | "Group") {
                subject.fill_text("apiGroup", GROUP);
            }
        }
    }
}

fn storage(kind: &str, object: &mut Value) {
    match kind {
        "StorageClass" => {
            object.fill("reclaimPolicy", "Delete");
            object.fill("volumeBindingMode", "Immediate");
        }
        "CSIDriver" => {
            let spec = object.object("spec");
            spec.fill("attachRequired", true);
            spec.fill("fsGroupPolicy", "ReadWriteOnceWithFSType");
            for field in [
                "podInfoOnMount",
                "storageCapacity",
                "requiresRepublish",
                "seLinuxMount",
                "preventPodSchedulingIfMissing",
            ] {
                spec.fill(field, false);
            }
            if spec.list("volumeLifecycleModes").is_empty() {
                spec.put("volumeLifecycleModes", json!(["Persistent"]));
            }
        }
        "VolumeAttachment" => {
            let source = object.child("spec").and_then(|spec| spec.child("source"));
            if let Some(inline) = source.and_then(|source| source.child("inlineVolumeSpec")) {
                core::volume_spec(inline);
            }
        }
        _ => {}
    }
}

fn admission(kind: &str, object: &mut Value) {
    match kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            for webhook in object.items("webhooks") {
                webhook.fill("failurePolicy", "Fail");
                webhook.fill("timeoutSeconds", 10);
                match_resources(webhook);
                if kind == "MutatingWebhookConfiguration" {
                    webhook.fill("reinvocationPolicy", "Never");
                }
                if let Some(service) =
                    webhook.child("clientConfig").and_then(|config| config.child("service"))
                {
                    service.fill("port", 443);
                }
                webhook.items("rules").iter_mut().for_each(scope);
            }
        }
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
            let spec = object.object("spec");
            spec.fill("failurePolicy", "Fail");
            if let Some(constraints) = spec.child("matchConstraints") {
                match_resources(constraints);
                constraint_rules(constraints);
            }
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            if let Some(resources) = object.child("spec").and_then(|spec| spec.child("matchResources")) {
                match_resources(resources);
                constraint_rules(resources);
            }
        }
        _ => {}
    }
}

fn match_resources(holder: &mut Value) {
    holder.fill("matchPolicy", "Equivalent");
    holder.fill("namespaceSelector", json!({}));
    holder.fill("objectSelector", json!({}));
}

fn constraint_rules(constraints: &mut Value) {
    for rules in ["resourceRules", "excludeResourceRules"] {
        constraints.items(rules).iter_mut().for_each(scope);
    }
}

fn scope(rule: &mut Value) {
    rule.fill("scope", "*");
}

fn flow_control(kind: &str, object: &mut Value) {
    let Some(spec) = object.child("spec") else { return };
    let number = |holder: &mut Value, field: &str, default: i64| {
        if holder.int(field).unwrap_or_default() == 0 {
            holder.put(field, default);
        }
    };
    match kind {
        "FlowSchema" => number(spec, "matchingPrecedence", 1000),
        "PriorityLevelConfiguration" => {
            if let Some(limited) = spec.child("limited") {
                limited.fill("nominalConcurrencyShares", 30);
                limited.fill("lendablePercent", 0);
                if let Some(queuing) =
                    limited.child("limitResponse").and_then(|response| response.child("queuing"))
                {
                    number(queuing, "handSize", 8);
                    number(queuing, "queues", 64);
                    number(queuing, "queueLengthLimit", 50);
                }
            }
            if let Some(exempt) = spec.child("exempt") {
                exempt.fill("nominalConcurrencyShares", 0);
                exempt.fill("lendablePercent", 0);
            }
        }
        _ => {}
    }
}

fn resource(kind: &str, object: &mut Value, now: Timestamp) {
    match kind {
        "ResourceClaim" => {
            if let Some(spec) = object.child("spec") {
                claim_spec(spec);
            }
            let allocation = object.child("status").and_then(|status| status.child("allocation"));
            if let Some(devices) = allocation.and_then(|allocation| allocation.child("devices")) {
                devices.items("results").iter_mut().for_each(tolerations);
            }
        }
        "ResourceClaimTemplate" => {
            if let Some(spec) = object.child("spec").and_then(|template| template.child("spec")) {
                claim_spec(spec);
            }
        }
        "ResourceSlice" => {
            if let Some(spec) = object.child("spec") {
                for taint in spec.items("devices").iter_mut().flat_map(|device| device.items("taints")) {
                    taint.fill("timeAdded", clock::seconds(now));
                }
            }
        }
        "DeviceTaintRule" => {
            if let Some(taint) = object.child("spec").and_then(|spec| spec.child("taint")) {
                taint.fill("timeAdded", clock::seconds(now));
            }
        }
        _ => {}
    }
}

fn claim_spec(spec: &mut Value) {
    let Some(devices) = spec.child("devices") else { return };
    for request in devices.items("requests") {
        if let Some(exact) = request.child("exactly") {
            device_request(exact);
        }
        request.items("firstAvailable").iter_mut().for_each(device_request);
    }
}

fn device_request(request: &mut Value) {
    request.fill_text("allocationMode", "ExactCount");
    if request.text("allocationMode") == "ExactCount" && request.int("count").unwrap_or_default() == 0 {
        request.put("count", 1);
    }
    tolerations(request);
}

fn tolerations(holder: &mut Value) {
    for toleration in holder.items("tolerations") {
        toleration.fill_text("operator", "Equal");
    }
}

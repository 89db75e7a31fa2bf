//! What the server says in `Warning` headers about objects it accepts.

mod pod;

use std::net::{IpAddr, Ipv6Addr};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::WriteContext;
use super::format;
use super::quantity::{Amount, Quantity};
use super::view::{Look, same};
use crate::names::Gvk;

/// What is said whenever an API that is on its way out is used, by whatever verb.
pub fn deprecation_warning(kind: &Gvk) -> Option<&'static str> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

/// What is said about a deletion that does not say what is to become of those the object owns.
pub fn warning_on_delete(kind: &Gvk) -> Option<&'static str> {
    ((kind.group.as_str(), kind.kind.as_str()) == ("batch", "Job")).then_some(
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
    )
}

/// What is said about an object that is being made.
pub fn warnings_on_create(context: &WriteContext<'_>, object: &Value) -> Vec<String> {
    let mut told = Vec::new();
    let name = object.at("metadata").text("name");
    let kind = (context.kind.group.as_str(), context.kind.kind.as_str());
    match kind {
        ("", "Pod") => {
            pod::app_armor(object, &mut told);
            recommend_label(name, "the Pod's hostname", &mut told);
            pod::template("", object, &mut told);
        }
        ("", "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet")
        | ("batch", "Job" | "CronJob") => {
            recommend_label(name, "Pod names and hostnames", &mut told);
        }
        ("", "ResourceQuota") => quota(object, &mut told),
        ("networking.k8s.io", "Ingress") => {
            const CLASS: &str = "kubernetes.io/ingress.class";
            let annotated = object.at("metadata").at("annotations").has(CLASS);
            if annotated && !object.at("spec").has("ingressClassName") {
                told.push(format!(
                    "annotation {CLASS:?} is deprecated, please use 'spec.ingressClassName' instead"
                ));
            }
        }
        ("discovery.k8s.io", "EndpointSlice") if object.text("addressType") == "FQDN" => {
            told.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        ("storage.k8s.io", "CSIDriver") => tokens(object, &mut told),
        _ => {}
    }
    templates(kind, None, object, &mut told);
    either(kind, None, object, &mut told);
    told
}

/// What is said about an object that is being changed.
pub fn warnings_on_update(context: &WriteContext<'_>, old: &Value, new: &Value) -> Vec<String> {
    let mut told = Vec::new();
    let kind = (context.kind.group.as_str(), context.kind.kind.as_str());
    match (kind, context.subresource) {
        (("", "Pod"), "status") => {
            for list in ["podIPs", "hostIPs"] {
                for (place, entry) in new.at("status").list(list).iter().enumerate() {
                    ip(&format!("status.{list}[{place}].ip"), entry.text("ip"), &mut told);
                }
            }
        }
        (("", "Service") | ("networking.k8s.io", "Ingress"), "status") => {
            for (place, ingress) in new.at("status").at("loadBalancer").list("ingress").iter().enumerate() {
                if !ingress.text("ip").is_empty() {
                    ip(&format!("status.loadBalancer.ingress[{place}]"), ingress.text("ip"), &mut told);
                }
            }
        }
        (("storage.k8s.io", "CSIDriver"), "")
            if !same(old.at("spec").at("tokenRequests"), new.at("spec").at("tokenRequests")) =>
        {
            tokens(new, &mut told);
        }
        (("batch", "CronJob"), "") => {
            templates(kind, Some(old), new, &mut told);
            if new.at("spec").text("schedule").contains("TZ") {
                told.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned());
            }
            return told;
        }
        _ => {}
    }
    if context.subresource.is_empty() {
        templates(kind, Some(old), new, &mut told);
        either(kind, Some(old), new, &mut told);
    }
    told
}

fn recommend_label(name: &str, used_in: &str, told: &mut Vec<String>) {
    let wrong = format::dns1123_label(name);
    if !wrong.is_empty() {
        told.push(format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
}

/// Templates of pods, when they are new or their object has a new generation.
fn templates(kind: (&str, &str), old: Option<&Value>, object: &Value, told: &mut Vec<String>) {
    let generation = |object: &Value| object.at("metadata").int("generation");
    let changed = old.is_none_or(|old| generation(old) != generation(object));
    let spec = object.at("spec");
    match kind {
        ("", "PodTemplate") if changed => pod::template("template", object.at("template"), told),
        ("", "ReplicationController") if changed => {
            let shown = old.unwrap_or(object).at("spec").at("template");
            pod::template("spec.template", shown, told);
        }
        ("apps", "Deployment" | "ReplicaSet") if changed => {
            pod::template("spec.template", spec.at("template"), told);
        }
        ("apps", "DaemonSet")
            if old.is_none_or(|old| !same(old.at("spec").at("template"), spec.at("template"))) =>
        {
            pod::template("spec.template", spec.at("template"), told);
        }
        ("apps", "StatefulSet") => {
            if changed {
                pod::template("spec.template", spec.at("template"), told);
            }
            for (place, claim) in spec.list("volumeClaimTemplates").iter().enumerate() {
                let inner = if old.is_some() { ".Spec" } else { "" };
                claim_sizes(&format!("spec.volumeClaimTemplates[{place}]{inner}"), claim.at("spec"), told);
            }
            if spec.int("revisionHistoryLimit").is_some_and(|limit| limit < 0) {
                told.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned());
            }
        }
        ("batch", "Job") if changed => job("spec", spec, told),
        ("batch", "CronJob") if changed => {
            job("spec.jobTemplate.spec", spec.at("jobTemplate").at("spec"), told);
        }
        _ => {}
    }
}

fn job(at: &str, spec: &Value, told: &mut Vec<String>) {
    let count = |field: &str| spec.int(field).unwrap_or_default();
    if spec.text("completionMode") == "Indexed"
        && count("completions") > 100_000
        && count("parallelism") > 10_000
    {
        told.push(format!("{at}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"));
    }
    pod::template(&format!("{at}.template"), spec.at("template"), told);
}

/// Rules for what webhooks are never asked about.
fn unreachable_rules(object: &Value, told: &mut Vec<String>) {
    const EXCLUDED: [(&str, &str); 6] = [
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ];
    for (hook_place, hook) in object.list("webhooks").iter().enumerate() {
        for (place, rule) in hook.list("rules").iter().enumerate() {
            let wild = |field: &str| rule.list(field).iter().any(|item| item.str() == "*");
            if wild("apiGroups") || wild("resources") {
                continue;
            }
            let mut seen = Vec::new();
            for group in rule.list("apiGroups").iter().map(Look::str) {
                for resource in rule.list("resources").iter().map(Look::str) {
                    if EXCLUDED.contains(&(group, resource)) && !seen.contains(&(group, resource)) {
                        seen.push((group, resource));
                        told.push(format!("webhooks[{hook_place}].rules[{place}]: {resource}.{group} is excluded from admission webhooks; this rule will have no effect"));
                    }
                }
            }
        }
    }
}

/// What is said whether an object is made or changed.
fn either(kind: (&str, &str), old: Option<&Value>, object: &Value, told: &mut Vec<String>) {
    let annotations = object.at("metadata").at("annotations");
    match kind {
        ("", "Service") => service(object, told),
        ("", "Secret") => secret(object, told),
        ("", "Node") => node(object, told),
        ("", "ServiceAccount") => {
            const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
            let before = old.is_some_and(|old| old.at("metadata").at("annotations").has(ENFORCE));
            if annotations.has(ENFORCE) && !before {
                told.push(format!("metadata.annotations[{ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"));
            }
        }
        ("", "PersistentVolume") => volume(object, told),
        ("resource.k8s.io", "ResourceSlice") => {
            let driver = object.at("spec").text("driver");
            if driver.chars().any(char::is_uppercase) {
                told.push(format!(
                    "spec.driver: driver names should be lowercase; {driver:?} contains uppercase characters"
                ));
            }
        }
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => {
            unreachable_rules(object, told);
        }
        ("", "PersistentVolumeClaim") => {
            const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
            if annotations.has(CLASS) {
                told.push(format!("metadata.annotations[{CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"));
            }
            claim_sizes("spec", object.at("spec"), told);
        }
        ("", "Endpoints") => {
            let managed = object.at("metadata").at("labels").text("endpoints.kubernetes.io/managed-by");
            if managed != "endpoint-controller" {
                for (place, subset) in object.list("subsets").iter().enumerate() {
                    for field in ["addresses", "notReadyAddresses"] {
                        for (inner, address) in subset.list(field).iter().enumerate() {
                            ip(&format!("subsets[{place}].{field}[{inner}].ip"), address.text("ip"), told);
                        }
                    }
                }
            }
        }
        ("discovery.k8s.io", "EndpointSlice") => {
            let managed = object.at("metadata").at("labels").text("endpointslice.kubernetes.io/managed-by");
            let own = matches!(
                managed,
                "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io"
            );
            if !own {
                for (place, endpoint) in object.list("endpoints").iter().enumerate() {
                    for (inner, address) in endpoint.list("addresses").iter().enumerate() {
                        ip(&format!("endpoints[{place}].addresses[{inner}]"), address.str(), told);
                    }
                }
            }
        }
        ("networking.k8s.io", "NetworkPolicy") => network_policy(object, told),
        ("node.k8s.io", "RuntimeClass") => {
            for key in object.at("scheduling").fields("nodeSelector").into_iter().flat_map(|map| map.keys()) {
                if let Some(message) = deprecated_label(key) {
                    told.push(format!("scheduling.nodeSelector: {message}"));
                }
            }
        }
        ("storage.k8s.io", "StorageClass") => {
            for (place, topology) in object.list("allowedTopologies").iter().enumerate() {
                for (inner, expression) in topology.list("matchLabelExpressions").iter().enumerate() {
                    if let Some(message) = deprecated_label(expression.text("key")) {
                        told.push(format!(
                            "allowedTopologies[{place}].matchLabelExpressions[{inner}].key: {message}"
                        ));
                    }
                }
            }
        }
        ("storage.k8s.io", "CSIStorageCapacity") => capacity_topology(object.at("nodeTopology"), told),
        _ => {}
    }
}

fn node(object: &Value, told: &mut Vec<String>) {
    let spec = object.at("spec");
    if spec.has("configSource") {
        told.push("spec.configSource: the feature is removed".to_owned());
    }
    if !spec.text("externalID").is_empty() {
        told.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    for (place, network) in spec.list("podCIDRs").iter().enumerate() {
        cidr(&format!("spec.podCIDRs[{place}]"), network.str(), told);
    }
}

fn tokens(driver: &Value, told: &mut Vec<String>) {
    let spec = driver.at("spec");
    if !spec.list("tokenRequests").is_empty() && !spec.has("serviceAccountTokenInSecrets") {
        told.push("spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes".to_owned());
    }
}

fn quota(object: &Value, told: &mut Vec<String>) {
    let hard = object.at("spec").at("hard");
    for name in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let mut request = format!("requests.{name}");
        if !hard.has(&request) && matches!(name, "cpu" | "memory") && hard.has(name) {
            name.clone_into(&mut request);
        }
        let limit = format!("limits.{name}");
        let (asked, allowed) = (Quantity::of(hard.at(&request)), Quantity::of(hard.at(&limit)));
        if let (Some(asked), Some(allowed)) = (asked, allowed)
            && asked > allowed
        {
            told.push(format!("ResourceQuota {request} ({asked}) should be less than {limit} ({allowed})"));
        }
    }
}

fn service(object: &Value, told: &mut Vec<String>) {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    let spec = object.at("spec");
    if object.at("metadata").at("annotations").has(HINTS) {
        told.push(format!(
            "annotation {HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    let address = spec.text("clusterIP");
    if !address.is_empty() && address != "None" {
        for (place, address) in spec.list("clusterIPs").iter().enumerate() {
            ip(&format!("spec.clusterIPs[{place}]"), address.str(), told);
        }
    }
    let kind = spec.text("type");
    let headless = kind == "ClusterIP" && address == "None";
    let external = spec.list("externalIPs");
    if headless {
        if !spec.text("loadBalancerIP").is_empty() {
            told.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if !external.is_empty() {
            told.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if spec.text("sessionAffinity") != "None" {
            told.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    for (place, address) in external.iter().enumerate() {
        ip(&format!("spec.externalIPs[{place}]"), address.str(), told);
    }
    if !external.is_empty() && !headless && kind != "ExternalName" {
        told.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    if !spec.text("loadBalancerIP").is_empty() {
        ip("spec.loadBalancerIP", spec.text("loadBalancerIP"), told);
    }
    for (place, range) in spec.list("loadBalancerSourceRanges").iter().enumerate() {
        cidr(&format!("spec.loadBalancerSourceRanges[{place}]"), range.str(), told);
    }
    if kind == "ExternalName" && !external.is_empty() {
        told.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !spec.text("externalName").is_empty() {
        told.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.text("trafficDistribution") == "PreferClose" {
        told.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
}

/// A certificate that is none at all; whether key and certificate belong together is not looked at.
fn secret(object: &Value, told: &mut Vec<String>) {
    if object.text("type") != "kubernetes.io/tls" {
        return;
    }
    let has_block = |key: &str| {
        let bytes = BASE64_STANDARD.decode(object.at("data").text(key)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains("-----BEGIN ")
    };
    if !has_block("tls.crt") {
        told.push("tls: failed to find any PEM data in certificate input".to_owned());
    } else if !has_block("tls.key") {
        told.push("tls: failed to find any PEM data in key input".to_owned());
    }
}

fn volume(object: &Value, told: &mut Vec<String>) {
    let (spec, annotations) = (object.at("spec"), object.at("metadata").at("annotations"));
    for (key, message) in [
        (
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        (
            "volume.beta.kubernetes.io/mount-options",
            "deprecated since v1.31; use \"mountOptions\" attribute instead",
        ),
    ] {
        if annotations.has(key) {
            told.push(format!("metadata.annotations[{key}]: {message}"));
        }
    }
    if spec.text("persistentVolumeReclaimPolicy") == "Recycle" {
        told.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
    }
    let terms = spec.at("nodeAffinity").at("required").list("nodeSelectorTerms");
    for (place, term) in terms.iter().enumerate() {
        node_term(&format!("spec.nodeAffinity.required.nodeSelectorTerms[{place}]"), term, false, told);
    }
    for (source, shown, message) in [
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ] {
        if spec.has(source) {
            told.push(format!("spec.{shown}: {message}"));
        }
    }
}

/// Sizes of claims are whole bytes.
fn claim_sizes(at: &str, spec: &Value, told: &mut Vec<String>) {
    for list in ["requests", "limits"] {
        fraction(
            &format!("{at}.resources.{list}[storage]"),
            spec.at("resources").at(list).at("storage"),
            told,
        );
    }
}

fn fraction(at: &str, value: &Value, told: &mut Vec<String>) {
    if let Some(quantity) = Quantity::of(value).filter(|quantity| quantity.milli_value() % 1000 != 0) {
        told.push(format!("{at}: fractional byte value \"{quantity}\" is invalid, must be an integer"));
    }
}

fn network_policy(object: &Value, told: &mut Vec<String>) {
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (place, rule) in object.at("spec").list(direction).iter().enumerate() {
            for (inner, peer) in rule.list(peers).iter().enumerate() {
                if !peer.has("ipBlock") {
                    continue;
                }
                let at = format!("spec.{direction}[{place}].{peers}[{inner}].ipBlock");
                let block = peer.at("ipBlock");
                cidr(&format!("{at}.cidr"), block.text("cidr"), told);
                for (last, except) in block.list("except").iter().enumerate() {
                    cidr(&format!("{at}.except[{last}]"), except.str(), told);
                }
            }
        }
    }
}

fn capacity_topology(selector: &Value, told: &mut Vec<String>) {
    for (place, expression) in selector.list("matchExpressions").iter().enumerate() {
        let key = expression.text("key");
        if let Some(message) = deprecated_label(key) {
            told.push(format!("nodeTopology.matchExpressions[{place}].key: {key} is {message}"));
        }
    }
    for label in selector.fields("matchLabels").into_iter().flat_map(|labels| labels.keys()) {
        if let Some(message) = deprecated_label(label) {
            told.push(format!("nodeTopology.matchLabels.{label}: {message}"));
        }
    }
}

/// What is said about the key of a label nodes do not have any more.
fn deprecated_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

fn node_term(at: &str, term: &Value, values: bool, told: &mut Vec<String>) {
    for (place, expression) in term.list("matchExpressions").iter().enumerate() {
        let key = expression.text("key");
        if let Some(message) = deprecated_label(key) {
            told.push(format!("{at}.matchExpressions[{place}].key: {key} is {message}"));
        }
        for (inner, value) in expression.list("values").iter().map(Look::str).enumerate().filter(|_| values) {
            for why in format::label_value(value) {
                told.push(format!(
                    "{at}.matchExpressions[{place}].values[{inner}]: {value} is invalid, {why}"
                ));
            }
        }
    }
}

/// An address that is not written in its usual form.
fn ip(at: &str, text: &str, told: &mut Vec<String>) {
    let Some(parsed) = format::sloppy_ip(text) else { return };
    let canonical = format::canonical_ip(parsed);
    if text.parse::<IpAddr>().is_err() || canonical != parsed {
        told.push(format!("{at}: non-standard IP address {text:?} is invalid: use \"{canonical}\""));
    } else if parsed.is_ipv6() && parsed.to_string() != text {
        told.push(format!(
            "{at}: IPv6 address {text:?} should be in RFC 5952 canonical format (\"{parsed}\")"
        ));
    }
}

/// A network that is not written in its usual form.
fn cidr(at: &str, text: &str, told: &mut Vec<String>) {
    let Some((parsed, bits)) = format::sloppy_cidr(text) else { return };
    let network = format::masked(parsed, bits);
    let before = told.len();
    let whole = if parsed.is_ipv4() { 32 } else { 128 };
    if network != parsed {
        told.push(format!(
            "{at}: CIDR value {text:?} is ambiguous in this context (should be \"{network}/{bits}\" or \"{parsed}/{whole}\"?)"
        ));
    }
    let (address, length) = text.split_once('/').unwrap_or_default();
    let mapped = matches!(parsed, IpAddr::V6(six) if Ipv6Addr::to_ipv4_mapped(&six).is_some());
    if address.parse::<IpAddr>().is_err() || mapped || (length.len() > 1 && length.starts_with('0')) {
        told.push(format!("{at}: non-standard CIDR value {text:?} is invalid: use \"{network}/{bits}\""));
    }
    let canonical = format!("{parsed}/{bits}");
    if told.len() == before && parsed.is_ipv6() && canonical != text {
        told.push(format!(
            "{at}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format (\"{canonical}\")"
        ));
    }
}

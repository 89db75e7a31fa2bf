//! Pods, and templates of them.

mod containers;
pub(super) mod fields;
pub(super) mod resources;
pub(super) mod scheduling;
mod security;
mod status;
mod update;
pub(super) mod volumes;

use std::collections::BTreeSet;

use serde_json::Value;

use super::Check;
use crate::kinds::format::{self, between};
use crate::kinds::meta;
use crate::kinds::view::{Look, Path, Problems};

pub(super) use update::changes_words;

/// What a pod runs, and whose it is.
pub(super) struct Spec<'a> {
    pub(super) value: &'a Value,
    /// The name of the pod; empty for templates.
    pub(super) pod_name: &'a str,
    /// True for pods themselves, false for templates of them.
    pub(super) is_pod: bool,
    /// True for copies of pods the kubelet runs on its own.
    pub(super) mirror: bool,
}

pub(super) const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Does something with each container of a pod.
pub(super) fn each_container(spec: &Value, at: &Path<'_>, mut visit: impl FnMut(&Value, &Path<'_>)) {
    for group in CONTAINERS {
        let list = at.child(group);
        for (place, container) in spec.list(group).iter().enumerate() {
            visit(container, &list.index(place));
        }
    }
}

/// A pod that is being made.
pub(super) fn create(pod: &Value, problems: &mut Problems) {
    metadata_and_spec(pod, problems);
    let (spec, at) = (pod.at("spec"), Path::root("spec"));
    if !spec.list("ephemeralContainers").is_empty() {
        problems.forbidden(&at.child("ephemeralContainers"), "cannot be set on create");
    }
    if !spec.text("nodeName").is_empty() && !spec.list("schedulingGates").is_empty() {
        problems
            .forbidden(&at.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
    security::annotations_match(pod.at("metadata"), spec, &at, problems);
}

/// A pod that is being changed.
pub(super) fn change(check: &Check<'_>, old: &Value, new: &Value, problems: &mut Problems) {
    match check.context.subresource {
        "status" => status::update(old, new, problems),
        "ephemeralcontainers" => update::ephemeral_containers(old, new, problems),
        "resize" => update::resize(old, new, problems),
        _ => update::main(old, new, problems),
    }
}

fn metadata_and_spec(pod: &Value, problems: &mut Problems) {
    let (metadata, spec) = (pod.at("metadata"), pod.at("spec"));
    let at = Path::root("spec");
    let own = Path::root("metadata");
    meta::validate_into(
        metadata,
        true,
        &|name, prefix| meta::NameRule::Subdomain.check(name, prefix),
        &own,
        problems,
    );
    super::finalizer_names(metadata, problems);
    security::annotations(metadata.at("annotations"), spec, &own.child("annotations"), problems);
    let whole = Spec {
        value: spec,
        pod_name: metadata.text("name"),
        is_pod: true,
        mirror: metadata.at("annotations").has("kubernetes.io/config.mirror"),
    };
    check_spec(&whole, &at, problems);
    if spec.text("serviceAccountName").is_empty() {
        let volumes = at.child("volumes");
        for (place, volume) in spec.list("volumes").iter().enumerate() {
            let here = volumes.index(place);
            let here = here.child("projected");
            let here = here.child("sources");
            for (place, source) in volume.at("projected").list("sources").iter().enumerate() {
                if source.has("serviceAccountToken") {
                    problems.forbidden(
                        &here.index(place).child("serviceAccountToken"),
                        "must not be specified when serviceAccountName is not set",
                    );
                }
            }
        }
    }
    if let Some(seconds) = spec.int("terminationGracePeriodSeconds") {
        problems.not_negative(&at.child("terminationGracePeriodSeconds"), seconds);
    }
    for group in ["containers", "initContainers"] {
        let list = at.child(group);
        for (place, container) in spec.list(group).iter().enumerate() {
            containers::padded_image(container, &list.index(place), problems);
        }
    }
}

/// A template of pods.
pub(super) fn template(template: &Value, at: &Path<'_>, problems: &mut Problems) {
    let (metadata, spec) = (template.at("metadata"), template.at("spec"));
    let annotations = at.child("annotations");
    let here = at.child("spec");
    meta::labels(metadata.at("labels"), &at.child("labels"), problems);
    meta::annotations(metadata.at("annotations"), &annotations, problems);
    security::annotations(metadata.at("annotations"), spec, &annotations, problems);
    check_spec(&Spec { value: spec, pod_name: "", is_pod: false, mirror: false }, &here, problems);
    security::annotations_match(metadata, spec, &here, problems);
    if !spec.list("ephemeralContainers").is_empty() {
        problems.forbidden(
            &here.child("ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

fn check_spec(whole: &Spec<'_>, at: &Path<'_>, problems: &mut Problems) {
    let spec = whole.value;
    if !spec.has("terminationGracePeriodSeconds") {
        problems.required(&at.child("terminationGracePeriodSeconds"), "");
    }
    let around = containers::Around {
        spec: whole,
        volumes: volumes::volumes(spec.list("volumes"), whole.pod_name, &at.child("volumes"), problems),
        claims: spec
            .list("resourceClaims")
            .iter()
            .map(|claim| claim.text("name"))
            .filter(|name| !name.is_empty())
            .collect::<BTreeSet<_>>(),
    };
    resources::resource_claims(spec, whole.mirror, &at.child("resourceClaims"), problems);
    containers::regular(&around, &at.child("containers"), problems);
    containers::init(&around, &at.child("initContainers"), problems);
    containers::ephemeral(&around, &at.child("ephemeralContainers"), problems);
    resources::pod_level(spec, &around.claims, at, problems);
    host_network_ports(whole, at, problems);
    for (field, choices) in [
        ("restartPolicy", &["Always", "OnFailure", "Never"][..]),
        ("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"][..]),
    ] {
        match spec.text(field) {
            "" => problems.required(&at.child(field), ""),
            value => problems.one_of(&at.child(field), value, choices),
        }
    }
    meta::labels(spec.at("nodeSelector"), &at.child("nodeSelector"), problems);
    security::of_pod(whole, &at.child("securityContext"), problems);
    if spec.flag("shareProcessNamespace") && spec.flag("hostPID") {
        problems.invalid(
            &at.child("shareProcessNamespace"),
            true,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        );
    }
    scheduling::affinity(spec.at("affinity"), &at.child("affinity"), problems);
    dns_config(spec, &at.child("dnsConfig"), problems);
    gates(spec, at, problems);
    scheduling::spread(
        spec.list("topologySpreadConstraints"),
        &at.child("topologySpreadConstraints"),
        problems,
    );
    security::host_process(spec, at, problems);
    host_users(spec, at, problems);
    names(spec, at, problems);
    scheduling::tolerations(spec.list("tolerations"), &at.child("tolerations"), problems);
    let aliases = at.child("hostAliases");
    for (place, alias) in spec.list("hostAliases").iter().enumerate() {
        let here = aliases.index(place);
        problems.form(&here.child("ip"), alias.text("ip"), format::legacy_ip);
        let list = here.child("hostnames");
        for (place, name) in alias.list("hostnames").iter().enumerate() {
            problems.form(&list.index(place), name.str(), format::dns1123_subdomain);
        }
    }
    let priority = spec.text("priorityClassName");
    if !priority.is_empty() {
        problems.form(&at.child("priorityClassName"), priority, format::dns1123_subdomain);
    }
    if spec.has("runtimeClassName") {
        problems.form(
            &at.child("runtimeClassName"),
            spec.text("runtimeClassName"),
            format::dns1123_subdomain,
        );
    }
    if spec.has("preemptionPolicy") {
        match spec.text("preemptionPolicy") {
            "" => problems.required(&at.child("preemptionPolicy"), ""),
            policy => {
                problems.one_of(&at.child("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
            }
        }
    }
    if spec.has("overhead") {
        let as_limits = serde_json::json!({"limits": spec.at("overhead")});
        resources::requirements(&as_limits, &BTreeSet::new(), &at.child("overhead"), problems);
    }
    security::operating_system(spec, at, problems);
    containers::file_keys(spec, at, problems);
}

fn host_network_ports(whole: &Spec<'_>, at: &Path<'_>, problems: &mut Problems) {
    if !whole.value.flag("hostNetwork") {
        return;
    }
    let list = at.child("containers");
    for (place, container) in whole.value.list("containers").iter().enumerate() {
        let here = list.index(place);
        let here = here.child("ports");
        for (place, port) in container.list("ports").iter().enumerate() {
            let host = port.int("hostPort").unwrap_or_default();
            let differs = host != port.int("containerPort").unwrap_or_default();
            if (whole.is_pod || host != 0) && differs {
                problems.invalid(
                    &here.index(place).child("hostPort"),
                    host,
                    "must match `containerPort` when `hostNetwork` is true",
                );
            }
        }
    }
}

fn dns_config(spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    let config = spec.at("dnsConfig");
    let servers = config.list("nameservers");
    if spec.text("dnsPolicy") == "None" {
        if config.is_null() {
            problems.required(at, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if servers.is_empty() {
            problems.required(
                &at.child("nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            );
            return;
        }
    }
    let here = at.child("nameservers");
    if servers.len() > 3 {
        problems.invalid(&here, servers.to_vec(), "must not have more than 3 nameservers");
    }
    for (place, server) in servers.iter().enumerate() {
        problems.form(&here.index(place), server.str(), format::legacy_ip);
    }
    let searches = config.list("searches");
    let here = at.child("searches");
    if searches.len() > 32 {
        problems.invalid(&here, searches.to_vec(), "must not have more than 32 search paths");
    }
    let length: usize = searches.iter().map(|search| search.str().len() + 1).sum();
    if length > 2049 {
        let why = "must not have more than 2048 characters (including spaces) in the search list";
        problems.invalid(&here, searches.to_vec(), why);
    }
    for (place, search) in searches.iter().map(Look::str).enumerate() {
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            problems.form(&here.index(place), search, format::dns1123_subdomain_with_underscore);
        }
    }
    let options = at.child("options");
    for (place, option) in config.list("options").iter().enumerate() {
        if option.text("name").is_empty() {
            problems.required(&options.index(place), "must not be empty");
        }
    }
}

fn gates(spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    let readiness = at.child("readinessGates");
    for (place, gate) in spec.list("readinessGates").iter().enumerate() {
        let here = readiness.index(place);
        problems.form(&here.child("conditionType"), gate.text("conditionType"), format::qualified_name);
    }
    let scheduling = at.child("schedulingGates");
    let mut seen = BTreeSet::new();
    for (place, gate) in spec.list("schedulingGates").iter().enumerate() {
        let (name, here) = (gate.text("name"), scheduling.index(place));
        problems.form(&here, name, format::qualified_name);
        if !seen.insert(name) {
            problems.duplicate(&here, name);
        }
    }
}

fn host_users(spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    const WHY: &str = "when `hostUsers` is false";
    if spec.at("hostUsers") != &Value::Bool(false) {
        return;
    }
    for (field, told) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.flag(field) {
            problems.forbidden(&at.child(told), WHY);
        }
    }
    each_container(spec, at, |container, here| {
        if !container.list("volumeDevices").is_empty() {
            problems.forbidden(&here.child("volumeDevices"), WHY);
        }
    });
}

fn names(spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    if spec.has("hostnameOverride") {
        let (name, here) = (spec.text("hostnameOverride"), at.child("hostnameOverride"));
        if spec.flag("setHostnameAsFQDN") {
            problems.forbidden(&here, "may not be specified when setHostnameAsFQDN is true");
        }
        if spec.flag("hostNetwork") {
            problems.forbidden(&here, "may not be specified when hostNetwork is true");
        }
        if name.len() > 64 {
            problems.too_long(&here, 64);
        }
        problems.form(&here, name, format::dns1123_subdomain);
    }
    for field in ["serviceAccountName", "nodeName"] {
        if !spec.text(field).is_empty() {
            problems.form(&at.child(field), spec.text(field), format::dns1123_subdomain);
        }
    }
    if let Some(seconds) = spec.int("activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let why = between(1, i64::from(i32::MAX));
        problems.invalid(&at.child("activeDeadlineSeconds"), seconds, why);
    }
    for field in ["hostname", "subdomain"] {
        if !spec.text(field).is_empty() {
            problems.form(&at.child(field), spec.text(field), format::dns1123_label);
        }
    }
}

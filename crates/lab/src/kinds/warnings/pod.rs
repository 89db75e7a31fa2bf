//! What is said about pods and templates of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{claim_sizes, deprecated_label, fraction, ip, node_term};
use crate::kinds::view::Look;

const ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

fn armor_message(prefix: &str, key: &str) -> String {
    format!(
        "{prefix}metadata.annotations[{key}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
    )
}

fn profile_of(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        other => other
            .strip_prefix("localhost/")
            .filter(|name| !name.is_empty() && name.trim() == *name)
            .map(|name| json!({"type": "Localhost", "localhostProfile": name})),
    }
}

/// Pods get their profiles from annotations, and are told so.
pub(super) fn app_armor(pod: &Value, told: &mut Vec<String>) {
    let (spec, annotations) = (pod.at("spec"), pod.at("metadata").at("annotations"));
    if spec.at("os").text("name") == "windows" {
        return;
    }
    let of_pod = spec.at("securityContext").at("appArmorProfile");
    each_container("", spec, |container, _| {
        let key = format!("{ARMOR}{}", container.text("name"));
        if !annotations.has(&key) {
            return;
        }
        let (own, noted) =
            (container.at("securityContext").at("appArmorProfile"), profile_of(annotations.text(&key)));
        // By now the annotation has become a field, unless it says what the pod says anyway.
        let applied = noted.as_ref().is_some_and(|noted| own == noted && noted != of_pod);
        if applied || (noted.is_none() && own.is_null()) {
            told.push(armor_message("", &key));
        }
    });
}

fn each_container(at: &str, spec: &Value, mut visit: impl FnMut(&Value, &str)) {
    for group in ["initContainers", "containers", "ephemeralContainers"] {
        for (place, container) in spec.list(group).iter().enumerate() {
            visit(container, &format!("{at}spec.{group}[{place}]"));
        }
    }
}

/// A template at this path; an empty path for a pod itself.
pub(super) fn template(path: &str, template: &Value, told: &mut Vec<String>) {
    const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
    const USE_SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
    if template.is_null() {
        return;
    }
    let at = if path.is_empty() { String::new() } else { format!("{path}.") };
    let (spec, annotations) = (template.at("spec"), template.at("metadata").at("annotations"));
    placement(&at, spec, told);
    for (key, message) in [
        (
            "scheduler.alpha.kubernetes.io/critical-pod",
            "non-functional in v1.16+; use the \"priorityClassName\" field instead",
        ),
        (
            "security.alpha.kubernetes.io/sysctls",
            "non-functional in v1.11+; use the \"sysctls\" field instead",
        ),
        (
            "security.alpha.kubernetes.io/unsafe-sysctls",
            "non-functional in v1.11+; use the \"sysctls\" field instead",
        ),
    ] {
        if annotations.has(key) {
            told.push(format!("{at}metadata.annotations[{key}]: {message}"));
        }
    }
    volumes(&at, spec, told);
    overlapping_paths(spec.list("volumes"), told);
    repeated(&at, spec, "hostAliases", "ip", told);
    repeated(&at, spec, "imagePullSecrets", "name", told);
    for (place, secret) in spec.list("imagePullSecrets").iter().enumerate() {
        if secret.text("name").is_empty() {
            told.push(format!("{at}spec.imagePullSecrets[{place}].name: invalid empty name \"\""));
        }
    }
    for resource in ["memory", "ephemeral-storage"] {
        fraction(&format!("{at}spec.overhead[{resource}]"), spec.at("overhead").at(resource), told);
    }
    if !spec.at("securityContext").has("seccompProfile") && annotations.has(SECCOMP) {
        told.push(format!("{at}metadata.annotations[{SECCOMP}]: {USE_SECCOMP}"));
    }
    each_container(&at, spec, |container, here| {
        let context = container.at("securityContext");
        let key = format!("container.seccomp.security.alpha.kubernetes.io/{}", container.text("name"));
        if !context.has("seccompProfile") && annotations.has(&key) {
            told.push(format!("{at}metadata.annotations[{key}]: {USE_SECCOMP}"));
        }
        let key = format!("{ARMOR}{}", container.text("name"));
        if !at.is_empty() && !context.has("appArmorProfile") && annotations.has(&key) {
            let of_pod = spec.at("securityContext").at("appArmorProfile");
            let noted = profile_of(annotations.text(&key));
            if of_pod.is_null() || noted.as_ref() != Some(of_pod) {
                told.push(armor_message(&at, &key));
            }
        }
        for resource in ["memory", "ephemeral-storage"] {
            for list in ["limits", "requests"] {
                let value = container.at("resources").at(list).at(resource);
                fraction(&format!("{here}.resources.{list}[{resource}]"), value, told);
            }
        }
        hidden_variables(container, here, told);
    });
    ports(&at, spec, told);
    if spec.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        told.push(format!("{at}spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    null_selectors(&at, spec, told);
    for (place, server) in spec.at("dnsConfig").list("nameservers").iter().enumerate() {
        ip(&format!("{at}spec.dnsConfig.nameservers[{place}]"), server.str(), told);
    }
    for (place, alias) in spec.list("hostAliases").iter().enumerate() {
        ip(&format!("{at}spec.hostAliases[{place}].ip"), alias.text("ip"), told);
    }
}

fn placement(at: &str, spec: &Value, told: &mut Vec<String>) {
    for key in spec.fields("nodeSelector").into_iter().flat_map(|selector| selector.keys()) {
        if let Some(message) = deprecated_label(key) {
            told.push(format!("{at}spec.nodeSelector[{key}]: {message}"));
        }
    }
    let nodes = spec.at("affinity").at("nodeAffinity");
    let base = format!("{at}spec.affinity.nodeAffinity");
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (place, term) in nodes.at(required).list("nodeSelectorTerms").iter().enumerate() {
        node_term(&format!("{base}.{required}.nodeSelectorTerms[{place}]"), term, false, told);
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (place, term) in nodes.list(preferred).iter().enumerate() {
        node_term(&format!("{base}.{preferred}[{place}].preference"), term.at("preference"), true, told);
    }
    for (place, constraint) in spec.list("topologySpreadConstraints").iter().enumerate() {
        let here = format!("{at}spec.topologySpreadConstraints[{place}]");
        let key = constraint.text("topologyKey");
        if let Some(message) = deprecated_label(key) {
            told.push(format!("{here}.topologyKey: {key} is {message}"));
        }
        if !constraint.has("labelSelector") {
            told.push(format!("{here}.labelSelector: a null labelSelector results in matching no pod"));
        }
    }
}

fn volumes(at: &str, spec: &Value, told: &mut Vec<String>) {
    for (place, volume) in spec.list("volumes").iter().enumerate() {
        let here = format!("{at}spec.volumes[{place}]");
        for (source, shown, message) in [
            ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
            ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
            ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
            ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
            ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
            ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
            ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ] {
            if volume.has(source) {
                told.push(format!("{here}.{shown}: {message}"));
            }
        }
        if volume.at("ephemeral").has("volumeClaimTemplate") {
            let template = volume.at("ephemeral").at("volumeClaimTemplate");
            claim_sizes(&format!("{here}.ephemeral.volumeClaimTemplate.spec"), template.at("spec"), told);
        }
        for source in ["cephfs", "rbd"] {
            if volume.has(source) {
                told.push(format!("{here}.{source}: deprecated in v1.28, non-functional in v1.31+"));
            }
        }
    }
}

fn repeated(at: &str, spec: &Value, list: &str, field: &str, told: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (place, item) in spec.list(list).iter().enumerate() {
        if !seen.insert(item.text(field)) {
            told.push(format!("{at}spec.{list}[{place}].{field}: duplicate {field} {:?}", item.text(field)));
        }
    }
}

fn hidden_variables(container: &Value, here: &str, told: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (place, variable) in container.list("env").iter().enumerate() {
        let (name, value) = (variable.text("name"), variable.text("value"));
        if seen.insert(name) {
            continue;
        }
        // A variable that adds to the one before it is meant that way.
        let reference = format!("$({name})");
        if variable.has("valueFrom") || value == reference || !value.contains(&reference) {
            told.push(format!(
                "{here}.env[{place}]: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}

fn ports(at: &str, spec: &Value, told: &mut Vec<String>) {
    let mut all: BTreeMap<String, Vec<(String, i64, String)>> = BTreeMap::new();
    each_container(at, spec, |container, here| {
        for (place, port) in container.list("ports").iter().enumerate() {
            let number = |field: &str| port.int(field).unwrap_or_default();
            let (address, host) = (port.text("hostIP").to_owned(), number("hostPort"));
            let own = format!("{here}.ports[{place}]");
            if !address.is_empty() && host == 0 {
                told.push(format!(
                    "{own}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{address}}}",
                    port.text("name"),
                    number("containerPort"),
                    port.text("protocol"),
                ));
            }
            let others =
                all.entry(format!("{}/{}", number("containerPort"), port.text("protocol"))).or_default();
            for (other_address, other_host, other) in others.iter() {
                let one_unset = address.is_empty() != other_address.is_empty();
                if address == *other_address && host == *other_host {
                    told.push(format!("{own}: duplicate port definition with {other}"));
                } else if host == 0 || *other_host == 0 {
                    told.push(format!("{own}: overlapping port definition with {other}"));
                } else if host == *other_host && one_unset {
                    told.push(format!("{own}: dangerously ambiguous port definition with {other}"));
                }
            }
            others.push((address, host, own));
        }
    });
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    each_container(at, spec, |container, here| {
        for (place, port) in container.list("ports").iter().enumerate() {
            let (name, own) = (port.text("name"), format!("{here}.ports[{place}]"));
            if name.is_empty() {
                continue;
            }
            match names.get(name) {
                Some(other) => told.push(format!("{own}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}")),
                None => {
                    names.insert(name.to_owned(), own);
                }
            }
        }
    });
}

fn null_selectors(at: &str, spec: &Value, told: &mut Vec<String>) {
    const WHY: &str = "a null labelSelector results in matching no pod";
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = spec.at("affinity").at(kind);
        let base = format!("{at}spec.affinity.{kind}");
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (place, term) in affinity.list(required).iter().enumerate() {
            if !term.has("labelSelector") {
                told.push(format!("{base}.{required}[{place}].labelSelector: {WHY}"));
            }
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (place, term) in affinity.list(preferred).iter().enumerate() {
            if !term.at("podAffinityTerm").has("labelSelector") {
                told.push(format!("{base}.{preferred}[{place}].podAffinityTerm.labelSelector: {WHY}"));
            }
        }
    }
}

/// A path in a volume, and what it comes from.
#[derive(Clone, PartialEq, Eq)]
struct Placed {
    path: String,
    source: String,
}

impl Placed {
    fn new(path: &str, source: &str) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    fn shown(&self) -> String {
        if self.source.is_empty() {
            format!("{:?}", self.path)
        } else {
            format!("{:?} ({})", self.path, self.source)
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let inside = |a: &str, b: &str| format!("{a}/").starts_with(&format!("{b}/"));
        !self.path.is_empty()
            && !other.path.is_empty()
            && (inside(&self.path, &other.path) || inside(&other.path, &self.path))
    }
}

fn overlapping_paths(volumes: &[Value], told: &mut Vec<String>) {
    for volume in volumes {
        let name = volume.text("name");
        let mut check = |paths: &[Placed], what: &str| {
            for (place, path) in paths.iter().enumerate() {
                for other in paths[..place].iter().filter(|other| path.overlaps(other)) {
                    told.push(format!(
                        "volume {name:?} ({what}): overlapping paths: {} with {}",
                        path.shown(),
                        other.shown()
                    ));
                }
            }
        };
        let items = |source: &Value, label: &str| -> Vec<Placed> {
            source.list("items").iter().map(|item| Placed::new(item.text("path"), label)).collect()
        };
        if volume.has("configMap") {
            let source = volume.at("configMap");
            check(&items(source, ""), &format!("ConfigMap {:?}", source.text("name")));
        }
        if volume.has("secret") {
            let source = volume.at("secret");
            check(&items(source, ""), &format!("Secret {:?}", source.text("secretName")));
        }
        if volume.has("downwardAPI") {
            check(&items(volume.at("downwardAPI"), ""), "DownwardAPI");
        }
        if volume.has("projected") {
            let mut paths = Vec::new();
            for source in volume.at("projected").list("sources") {
                paths.extend(projected(source, &items));
            }
            check(&paths, "Projected");
        }
    }
}

fn projected(source: &Value, items: &dyn Fn(&Value, &str) -> Vec<Placed>) -> Vec<Placed> {
    if source.has("configMap") {
        let label = format!("ConfigMap {:?}", source.at("configMap").text("name"));
        return items(source.at("configMap"), &label);
    }
    if source.has("secret") {
        let label = format!("Secret {:?}", source.at("secret").text("name"));
        return items(source.at("secret"), &label);
    }
    if source.has("downwardAPI") {
        return items(source.at("downwardAPI"), "DownwardAPI");
    }
    if source.has("serviceAccountToken") {
        return vec![Placed::new(source.at("serviceAccountToken").text("path"), "ServiceAccountToken")];
    }
    let bundle = source.at("clusterTrustBundle");
    if !bundle.is_null() {
        let name = if bundle.has("name") { bundle.text("name") } else { bundle.text("signerName") };
        return vec![Placed::new(bundle.text("path"), &format!("ClusterTrustBundle {name:?}"))];
    }
    let certificate = source.at("podCertificate");
    [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ]
    .iter()
    .filter(|(field, _)| !certificate.text(field).is_empty())
    .map(|(field, label)| Placed::new(certificate.text(field), label))
    .collect()
}

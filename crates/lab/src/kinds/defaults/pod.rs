//! Defaults of pods, and of the templates pods are made from.

use serde_json::{Value, json};

use super::super::quantity::{Amount, Quantity};
use super::super::view::{Edit, Look};

/// Rounds the amounts of a resource list up to thousandths.
pub(super) fn resource_list(list: Option<&mut Value>) {
    for value in list.and_then(Value::as_object_mut).into_iter().flat_map(serde_json::Map::values_mut) {
        if let Some(mut quantity) = Quantity::of(value)
            && !quantity.round_up(-3)
        {
            *value = quantity.to_string().into();
        }
    }
}

/// Rounds the limits and requests of something that has `resources`.
pub(super) fn resources(holder: &mut Value) {
    if let Some(resources) = holder.child("resources") {
        resource_list(resources.child("limits"));
        resource_list(resources.child("requests"));
    }
}

/// The defaults of a pod itself.
pub(super) fn pod(pod: &mut Value) {
    let spec = pod.object("spec");
    if spec.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        spec.put("terminationGracePeriodSeconds", 1);
    }
    for group in ["containers", "initContainers"] {
        spec.items(group).iter_mut().for_each(requests_from_limits);
    }
    spec.fill("enableServiceLinks", true);
    if spec.flag("hostNetwork") {
        for group in ["containers", "initContainers"] {
            for port in spec.items(group).iter_mut().flat_map(|container| container.items("ports")) {
                if port.int("hostPort").unwrap_or_default() == 0 {
                    let number = port.int("containerPort").unwrap_or_default();
                    if number != 0 {
                        port.put("hostPort", number);
                    }
                }
            }
        }
    }
    pod_spec(spec);
    pod_status(pod);
}

fn requests_from_limits(container: &mut Value) {
    let Some(resources) = container.child("resources") else { return };
    let Some(limits) = resources.fields("limits").filter(|limits| !limits.is_empty()).cloned() else {
        return;
    };
    let requests = resources.object("requests");
    for (name, limit) in limits {
        requests.fill(&name, limit);
    }
}

fn pod_status(pod: &mut Value) {
    let Some(status) = pod.child("status") else { return };
    let single = status.text("podIP").to_owned();
    let first = status.list("podIPs").first().map(|item| item.text("ip").to_owned());
    match first {
        None if !single.is_empty() => status.put("podIPs", json!([{"ip": single}])),
        Some(first) if single.is_empty() => status.put("podIP", first),
        Some(first) if first != single => status.put("podIPs", json!([{"ip": single}])),
        _ => {}
    }
    for group in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in status.items(group) {
            resource_list(container.child("allocatedResources"));
            resources(container);
        }
    }
    resource_list(status.child("allocatedResources"));
    resources(status);
}

/// The defaults of the template in `holder.template`.
pub(super) fn template(holder: &mut Value) {
    pod_spec(holder.object("template").object("spec"));
}

/// The defaults of what a pod runs.
pub(super) fn pod_spec(spec: &mut Value) {
    let account = match spec.text("serviceAccountName") {
        "" => spec.text("serviceAccount").to_owned(),
        account => account.to_owned(),
    };
    if !account.is_empty() {
        spec.put("serviceAccountName", account.clone());
        spec.put("serviceAccount", account);
    }
    spec.fill_text("dnsPolicy", "ClusterFirst");
    spec.fill_text("restartPolicy", "Always");
    spec.fill("securityContext", json!({}));
    spec.fill("terminationGracePeriodSeconds", 30);
    spec.fill_text("schedulerName", "default-scheduler");
    spec.items("volumes").iter_mut().for_each(volume);
    for group in ["initContainers", "containers", "ephemeralContainers"] {
        spec.items(group).iter_mut().for_each(container);
    }
    resource_list(spec.child("overhead"));
    resources(spec);
}

fn pull_policy(image: &str) -> &'static str {
    if tag_of(image) == "latest" { "Always" } else { "IfNotPresent" }
}

/// The tag an image is named by; `latest` when it names neither tag nor digest, nothing when it cannot be read.
fn tag_of(image: &str) -> &str {
    if image.is_empty() {
        return "";
    }
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let after_slash = name.rfind('/').map_or(0, |slash| slash + 1);
    if let Some(colon) = name[after_slash..].find(':') {
        let (path, tag) = (&name[..after_slash + colon], &name[after_slash + colon + 1..]);
        return if is_reference(path) && is_tag(tag) { tag } else { "" };
    }
    if !is_reference(name) || digest.is_some() { "" } else { "latest" }
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| matches!(byte, b'.' | b'-') || word(byte))
}

/// The name of an image without tag and digest: small letters, apart from the host before the first slash.
fn is_reference(name: &str) -> bool {
    let mut parts: Vec<&str> = name.split('/').collect();
    if parts.len() > 1
        && (parts[0].contains(['.', ':']) || parts[0] == "localhost" || parts[0] != parts[0].to_lowercase())
    {
        let host = parts.remove(0);
        if host.is_empty()
            || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
        {
            return false;
        }
    }
    name.len() <= 255 && !(name.len() == 64 && is_hex(name)) && parts.iter().all(|part| is_component(part))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Small letters and digits, separated by one dot, one or two underscores or any dashes.
fn is_component(part: &str) -> bool {
    let small = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let separators = part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    part.bytes().next().is_some_and(small)
        && part.bytes().next_back().is_some_and(small)
        && separators.into_iter().all(|between| {
            matches!(between, "" | "." | "_" | "__") || between.bytes().all(|byte| byte == b'-')
        })
}

fn container(container: &mut Value) {
    if container.text("imagePullPolicy").is_empty() {
        let policy = pull_policy(container.text("image"));
        container.put("imagePullPolicy", policy);
    }
    container.fill_text("terminationMessagePath", "/dev/termination-log");
    container.fill_text("terminationMessagePolicy", "File");
    for port in container.items("ports") {
        port.fill_text("protocol", "TCP");
    }
    for variable in container.items("env") {
        let Some(from) = variable.child("valueFrom") else { continue };
        if let Some(field) = from.child("fieldRef") {
            field.fill_text("apiVersion", "v1");
        }
        if let Some(key) = from.child("fileKeyRef") {
            key.fill("optional", false);
        }
    }
    resources(container);
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.child(name) else { continue };
        for (field, number) in
            [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
        {
            if probe.int(field).unwrap_or_default() == 0 {
                probe.put(field, number);
            }
        }
        http_get(probe);
        if let Some(grpc) = probe.child("grpc") {
            grpc.fill("service", "");
        }
    }
    if let Some(lifecycle) = container.child("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = lifecycle.child(hook) {
                http_get(hook);
            }
        }
    }
}

fn http_get(handler: &mut Value) {
    if let Some(get) = handler.child("httpGet") {
        get.fill_text("path", "/");
        get.fill_text("scheme", "HTTP");
    }
}

fn volume(volume: &mut Value) {
    let empty = volume.as_object().is_some_and(|fields| fields.keys().all(|key| key == "name"));
    if empty {
        volume.put("emptyDir", json!({}));
    }
    if let Some(image) = volume.child("image")
        && image.text("pullPolicy").is_empty()
    {
        let policy = pull_policy(image.text("reference"));
        image.put("pullPolicy", policy);
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.child(source) {
            source.fill("defaultMode", 0o644);
            downward_items(source);
            for part in source.items("sources") {
                if let Some(token) = part.child("serviceAccountToken") {
                    token.fill("expirationSeconds", 3600);
                }
                if let Some(downward) = part.child("downwardAPI") {
                    downward_items(downward);
                }
            }
        }
    }
    volume_source(volume);
    if let Some(template) = volume.child("ephemeral").and_then(|source| source.child("volumeClaimTemplate")) {
        claim_spec(template.object("spec"));
    }
}

fn downward_items(source: &mut Value) {
    for item in source.items("items") {
        if let Some(field) = item.child("fieldRef") {
            field.fill_text("apiVersion", "v1");
        }
    }
}

/// Defaults that sources of volumes and of persistent volumes share.
pub(super) fn volume_source(holder: &mut Value) {
    if let Some(path) = holder.child("hostPath") {
        path.fill("type", "");
    }
    if let Some(disk) = holder.child("azureDisk") {
        disk.fill("cachingMode", "ReadWrite");
        disk.fill("fsType", "ext4");
        disk.fill("readOnly", false);
        disk.fill("kind", "Shared");
    }
    if let Some(iscsi) = holder.child("iscsi") {
        iscsi.fill_text("iscsiInterface", "default");
    }
    if let Some(rbd) = holder.child("rbd") {
        rbd.fill_text("pool", "rbd");
        rbd.fill_text("user", "admin");
        rbd.fill_text("keyring", "/etc/ceph/keyring");
    }
    if let Some(io) = holder.child("scaleIO") {
        io.fill_text("storageMode", "ThinProvisioned");
        io.fill_text("fsType", "xfs");
    }
}

/// The defaults of what a claim asks for.
pub(super) fn claim_spec(spec: &mut Value) {
    spec.fill("volumeMode", "Filesystem");
    resources(spec);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_without_a_tag_are_always_pulled() {
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.2", "IfNotPresent"),
            ("registry.example:5000/a/b", "Always"),
            ("registry.example:5000/a/b:v1", "IfNotPresent"),
            ("nginx@sha256:0123", "IfNotPresent"),
            ("NGINX", "IfNotPresent"),
            ("", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }
}

//! Containers of pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::volumes::descending_path;
use super::{Spec, fields, resources, security};
use crate::kinds::format;
use crate::kinds::view::{Look, Path, Problems};

/// What containers refer to.
pub(super) struct Around<'a> {
    pub(super) spec: &'a Spec<'a>,
    pub(super) volumes: BTreeMap<&'a str, &'a Value>,
    pub(super) claims: BTreeSet<&'a str>,
}

/// The containers that run.
pub(super) fn regular(around: &Around<'_>, at: &Path<'_>, problems: &mut Problems) {
    let containers = around.spec.value.list("containers");
    if containers.is_empty() {
        problems.required(at, "");
        return;
    }
    let mut names = BTreeSet::new();
    for (place, container) in containers.iter().enumerate() {
        let here = at.index(place);
        common(container, around, &here, problems);
        if !names.insert(container.text("name")) {
            problems.duplicate(&here.child("name"), container.text("name"));
        }
        lifecycle(container, around, &here, problems);
        probes(container, around, &here, problems);
        restart_policy(container, &here, problems);
    }
    host_ports(containers.iter().enumerate(), at, problems);
}

/// The containers that run before.
pub(super) fn init(around: &Around<'_>, at: &Path<'_>, problems: &mut Problems) {
    let spec = around.spec.value;
    let mut names: BTreeSet<&str> = spec.list("containers").iter().map(|one| one.text("name")).collect();
    for (place, container) in spec.list("initContainers").iter().enumerate() {
        let here = at.index(place);
        common(container, around, &here, problems);
        if container.has("restartPolicy") {
            restart_policy(container, &here, problems);
        } else if !container.list("restartPolicyRules").is_empty() {
            problems.required(
                &here.child("restartPolicy"),
                "must specify restartPolicy when restart rules are used",
            );
        }
        let name = container.text("name");
        if names.contains(name) {
            problems.duplicate(&here.child("name"), name);
        } else if !name.is_empty() {
            names.insert(name);
        }
        host_ports([(0, container)], at, problems);
        let keeps_running = container.text("restartPolicy") == "Always";
        if keeps_running {
            lifecycle(container, around, &here, problems);
            probes(container, around, &here, problems);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.has(field) {
                    problems.forbidden(
                        &here.child(field),
                        "may not be set for init containers without restartPolicy=Always",
                    );
                }
            }
            let policies = here.child("resizePolicy");
            for (place, policy) in container.list("resizePolicy").iter().enumerate() {
                if policy.text("restartPolicy") == "RestartContainer" {
                    problems.invalid(
                        &policies.index(place).child("restartPolicy"),
                        "RestartContainer",
                        "must not be set to 'RestartContainer' for non-sidecar initContainers",
                    );
                }
            }
        }
    }
}

/// The containers that are added later.
pub(super) fn ephemeral(around: &Around<'_>, at: &Path<'_>, problems: &mut Problems) {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let spec = around.spec.value;
    let others: BTreeSet<&str> = spec
        .list("containers")
        .iter()
        .chain(spec.list("initContainers"))
        .map(|one| one.text("name"))
        .collect();
    let mut names = others.clone();
    for (place, container) in spec.list("ephemeralContainers").iter().enumerate() {
        let here = at.index(place);
        common(container, around, &here, problems);
        padded_image(container, &here, problems);
        let name = container.text("name");
        if !names.insert(name) {
            problems.duplicate(&here.child("name"), name);
        }
        let target = container.text("targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            problems.not_found(&here.child("targetContainerName"), target);
        }
        for field in [
            "ports",
            "resources",
            "resizePolicy",
            "restartPolicy",
            "restartPolicyRules",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
        ] {
            let empty = container.at(field).as_object().is_some_and(serde_json::Map::is_empty)
                && field == "resources";
            if container.has(field) && !empty {
                problems.forbidden(&here.child(field), WHY);
            }
        }
        let mounts = here.child("volumeMounts");
        for (place, mount) in container.list("volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.text(field).is_empty() {
                    problems.forbidden(&mounts.index(place).child(field), WHY);
                }
            }
        }
    }
}

/// Images of pods, unlike those of templates, may not have blanks around them.
pub(super) fn padded_image(container: &Value, at: &Path<'_>, problems: &mut Problems) {
    let image = container.text("image");
    if image.trim() != image {
        problems.invalid(&at.child("image"), image, "must not have leading or trailing whitespace");
    }
}

fn common(container: &Value, around: &Around<'_>, at: &Path<'_>, problems: &mut Problems) {
    let name = container.text("name");
    if name.is_empty() {
        problems.required(&at.child("name"), "");
    } else {
        problems.form(&at.child("name"), name, format::dns1123_label);
    }
    problems.need(at, container, "image");
    match container.text("terminationMessagePolicy") {
        "" => problems.required(&at.child("terminationMessagePolicy"), ""),
        policy => {
            problems.one_of(
                &at.child("terminationMessagePolicy"),
                policy,
                &["File", "FallbackToLogsOnError"],
            );
        }
    }
    ports(container.list("ports"), &at.child("ports"), problems);
    fields::env(container.list("env"), &at.child("env"), problems);
    fields::env_from(container.list("envFrom"), &at.child("envFrom"), problems);
    mounts(container, around, &at.child("volumeMounts"), problems);
    devices(container, around, &at.child("volumeDevices"), problems);
    fields::pull_policy(container.text("imagePullPolicy"), &at.child("imagePullPolicy"), problems);
    resources::requirements(container.at("resources"), &around.claims, &at.child("resources"), problems);
    resize_policy(container, around, &at.child("resizePolicy"), problems);
    let host_users = around.spec.value.at("hostUsers") != &Value::Bool(false);
    security::of_container(
        container.at("securityContext"),
        host_users,
        &at.child("securityContext"),
        problems,
    );
}

fn ports(ports: &[Value], at: &Path<'_>, problems: &mut Problems) {
    let mut names = BTreeSet::new();
    for (place, port) in ports.iter().enumerate() {
        let here = at.index(place);
        let name = port.text("name");
        if !name.is_empty() {
            let wrong = format::port_name(name);
            if wrong.is_empty() && !names.insert(name) {
                problems.duplicate(&here.child("name"), name);
            }
            problems.invalid_each(&here.child("name"), name, wrong);
        }
        let number = port.int("containerPort").unwrap_or_default();
        if number == 0 {
            problems.required(&here.child("containerPort"), "");
        } else {
            for why in format::port_number(number) {
                problems.invalid(&here.child("containerPort"), number, why);
            }
        }
        let host = port.int("hostPort").unwrap_or_default();
        if host != 0 {
            for why in format::port_number(host) {
                problems.invalid(&here.child("hostPort"), host, why);
            }
        }
        match port.text("protocol") {
            "" => problems.required(&here.child("protocol"), ""),
            protocol => problems.one_of(&here.child("protocol"), protocol, &["SCTP", "TCP", "UDP"]),
        }
    }
}

fn host_ports<'a>(
    containers: impl IntoIterator<Item = (usize, &'a Value)>,
    at: &Path<'_>,
    problems: &mut Problems,
) {
    let mut used = BTreeSet::new();
    for (place, container) in containers {
        let here = at.index(place);
        let here = here.child("ports");
        for (place, port) in container.list("ports").iter().enumerate() {
            let number = port.int("hostPort").unwrap_or_default();
            let key = format!("{}/{}/{number}", port.text("protocol"), port.text("hostIP"));
            if number != 0 && !used.insert(key.clone()) {
                problems.duplicate(&here.index(place).child("hostPort"), key);
            }
        }
    }
}

fn mounts(container: &Value, around: &Around<'_>, at: &Path<'_>, problems: &mut Problems) {
    let devices = container.list("volumeDevices");
    let mut points = BTreeSet::new();
    for (place, mount) in container.list("volumeMounts").iter().enumerate() {
        let here = at.index(place);
        let (name, path) = (mount.text("name"), mount.text("mountPath"));
        problems.need(&here, mount, "name");
        if !around.volumes.contains_key(name) {
            problems.not_found(&here.child("name"), name);
        }
        problems.need(&here, mount, "mountPath");
        if !points.insert(path) {
            problems.invalid(&here.child("mountPath"), path, "must be unique");
        }
        if devices.iter().any(|device| device.text("name") == name) {
            problems.invalid(&here.child("name"), name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| device.text("devicePath") == path) {
            problems.invalid(
                &here.child("mountPath"),
                path,
                "must not already exist as a path in volumeDevices",
            );
        }
        let (sub, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
        if !sub.is_empty() {
            descending_path(sub, &at.child("subPath"), problems);
        }
        if !expression.is_empty() {
            if !sub.is_empty() {
                problems.invalid(
                    &here.child("subPathExpr"),
                    expression,
                    "subPathExpr and subPath are mutually exclusive",
                );
            }
            descending_path(expression, &at.child("subPathExpr"), problems);
        }
        let propagation = mount.text("mountPropagation");
        if mount.has("mountPropagation") {
            let place = at.child("mountPropagation");
            problems.one_of(&place, propagation, &["Bidirectional", "HostToContainer", "None"]);
            if propagation == "Bidirectional" && !container.at("securityContext").flag("privileged") {
                problems.forbidden(
                    &place,
                    "Bidirectional mount propagation is available only to privileged containers",
                );
            }
        }
        let place = at.child("recursiveReadOnly");
        match mount.text("recursiveReadOnly") {
            "Enabled" | "IfPossible" => {
                if !mount.flag("readOnly") {
                    problems.forbidden(&place, "may only be specified when readOnly is true");
                }
                if !propagation.is_empty() && propagation != "None" {
                    problems.forbidden(
                        &place,
                        "may only be specified when mountPropagation is None or not specified",
                    );
                }
            }
            other if mount.has("recursiveReadOnly") => {
                problems.one_of(&place, other, &["Disabled", "Enabled", "IfPossible"]);
            }
            _ => {}
        }
    }
}

fn devices(container: &Value, around: &Around<'_>, at: &Path<'_>, problems: &mut Problems) {
    let mounts = container.list("volumeMounts");
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (place, device) in container.list("volumeDevices").iter().enumerate() {
        let here = at.index(place);
        let (name, path) = (device.text("name"), device.text("devicePath"));
        problems.need(&here, device, "name");
        if names.contains(name) {
            problems.invalid(&here.child("name"), name, "must be unique");
        }
        match around.volumes.get(name) {
            None => problems.not_found(&here.child("name"), name),
            Some(volume) if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") => problems
                .invalid(
                    &here.child("name"),
                    name,
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                ),
            Some(_) => {}
        }
        problems.need(&here, device, "devicePath");
        if paths.contains(path) {
            problems.invalid(&here.child("devicePath"), path, "must be unique");
        }
        if !path.is_empty() && path.split('/').any(|part| part == "..") {
            problems.invalid(&here.child("devicePath"), path, "can not contain backsteps ('..')");
        } else {
            paths.insert(path);
        }
        if mounts.iter().any(|mount| mount.text("name") == name) {
            problems.invalid(&here.child("name"), name, "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|mount| mount.text("mountPath") == path) {
            problems.invalid(
                &here.child("devicePath"),
                path,
                "must not already exist as a path in volumeMounts",
            );
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn resize_policy(container: &Value, around: &Around<'_>, at: &Path<'_>, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (place, policy) in container.list("resizePolicy").iter().enumerate() {
        let (resource, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        if !seen.insert(resource) {
            problems.duplicate(&at.index(place), resource);
        }
        match resource {
            "" => problems.required(at, ""),
            resource => problems.one_of(at, resource, &["cpu", "memory"]),
        }
        match restart {
            "" => problems.required(at, ""),
            restart => problems.one_of(at, restart, &["NotRequired", "RestartContainer"]),
        }
        if around.spec.value.text("restartPolicy") == "Never" && restart != "NotRequired" {
            problems.invalid(at, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

fn restart_policy(container: &Value, at: &Path<'_>, problems: &mut Problems) {
    let rules = container.list("restartPolicyRules");
    if container.has("restartPolicy") {
        let choices = ["Always", "Never", "OnFailure"];
        problems.one_of(&at.child("restartPolicy"), container.text("restartPolicy"), &choices);
    } else if !rules.is_empty() {
        problems
            .required(&at.child("restartPolicy"), "must specify restartPolicy when restart rules are used");
    }
    let list = at.child("restartPolicyRules");
    if rules.len() > 20 {
        problems.too_many(&list, rules.len(), 20);
    }
    for (place, rule) in rules.iter().enumerate() {
        let here = list.index(place);
        problems.one_of(&here.child("action"), rule.text("action"), &["Restart", "RestartAllContainers"]);
        let codes = here.child("exitCodes");
        if rule.has("exitCodes") {
            let exit = rule.at("exitCodes");
            problems.one_of(&codes.child("operator"), exit.text("operator"), &["In", "NotIn"]);
            if exit.list("values").len() > 255 {
                problems.too_many(&codes.child("values"), exit.list("values").len(), 255);
            }
        } else {
            problems.required(&codes, "must be specified");
        }
    }
}

fn lifecycle(container: &Value, around: &Around<'_>, at: &Path<'_>, problems: &mut Problems) {
    let (lifecycle, here) = (container.at("lifecycle"), at.child("lifecycle"));
    for hook in ["postStart", "preStop"] {
        if lifecycle.has(hook) {
            let kinds = ["exec", "httpGet", "tcpSocket", "sleep"];
            handler(lifecycle.at(hook), &kinds, around, &here.child(hook), problems);
        }
    }
}

fn probes(container: &Value, around: &Around<'_>, at: &Path<'_>, problems: &mut Problems) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if !container.has(name) {
            continue;
        }
        let (probe, here) = (container.at(name), at.child(name));
        handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], around, &here, problems);
        for field in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            problems.not_negative(&here.child(field), probe.int(field).unwrap_or_default());
        }
        let grace = here.child("terminationGracePeriodSeconds");
        if let Some(seconds) = probe.int("terminationGracePeriodSeconds") {
            if seconds <= 0 {
                problems.invalid(&grace, seconds, "must be greater than 0");
            }
            if name == "readinessProbe" {
                problems.invalid(&grace, seconds, "must not be set for readinessProbes");
            }
        }
        let threshold = probe.int("successThreshold").unwrap_or_default();
        if name != "readinessProbe" && threshold != 1 {
            problems.invalid(&here.child("successThreshold"), threshold, "must be 1");
        }
    }
}

fn handler(handler: &Value, kinds: &[&str], around: &Around<'_>, at: &Path<'_>, problems: &mut Problems) {
    let mut seen = false;
    for kind in kinds {
        if !handler.has(kind) {
            continue;
        }
        let (action, here) = (handler.at(kind), at.child(kind));
        if seen {
            problems.forbidden(&here, "may not specify more than 1 handler type");
            continue;
        }
        seen = true;
        match *kind {
            "exec" => {
                if action.list("command").is_empty() {
                    problems.required(&here.child("command"), "");
                }
            }
            "httpGet" => {
                problems.need(&here, action, "path");
                fields::port(action.at("port"), &here.child("port"), problems);
                problems.one_of(&here.child("scheme"), action.text("scheme"), &["HTTP", "HTTPS"]);
                for header in action.list("httpHeaders") {
                    problems.form(&here.child("httpHeaders"), header.text("name"), format::http_header);
                }
            }
            "tcpSocket" | "grpc" => fields::port(action.at("port"), &here.child("port"), problems),
            _ => {
                let seconds = action.int("seconds").unwrap_or_default();
                let grace = around.spec.value.int("terminationGracePeriodSeconds");
                if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
                    let why =
                        format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    problems.invalid(&here, seconds, why);
                }
            }
        }
    }
    if !seen {
        problems.required(at, "must specify a handler type");
    }
}

/// Variables read from files: the files are in volumes that start empty.
pub(super) fn file_keys(spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    super::each_container(spec, at, |container, here| {
        let list = here.child("env");
        for (place, variable) in container.list("env").iter().enumerate() {
            let reference = variable.at("valueFrom").at("fileKeyRef");
            if reference.is_null() {
                continue;
            }
            let name = reference.text("volumeName");
            let here = list.index(place);
            let here = here.child("valueFrom");
            let here = here.child("fileKeyRef");
            let here = here.child("volumeName");
            match spec.list("volumes").iter().find(|volume| volume.text("name") == name) {
                None => problems.not_found(&here, name),
                Some(volume) if !volume.has("emptyDir") => {
                    problems.invalid(&here, name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    });
}

//! What pods and containers may do.

use serde_json::Value;

use super::volumes::descending_path;
use super::{Spec, each_container};
use crate::kinds::view::{Look, Path, Problems};
use crate::kinds::{format, shown};

fn ids(holder: &Value, fields: &[&str], at: &Path<'_>, problems: &mut Problems) {
    for field in fields {
        if let Some(id) = holder.int(field) {
            for why in format::unix_id(id) {
                problems.invalid(&at.child(field), id, why);
            }
        }
    }
}

/// The security context of a pod.
pub(super) fn of_pod(spec: &Spec<'_>, at: &Path<'_>, problems: &mut Problems) {
    let context = spec.value.at("securityContext");
    if context.is_null() {
        return;
    }
    ids(context, &["fsGroup", "runAsUser", "runAsGroup"], at, problems);
    let groups = at.child("supplementalGroups");
    for (place, group) in context.list("supplementalGroups").iter().enumerate() {
        let id = group.as_i64().unwrap_or_default();
        for why in format::unix_id(id) {
            problems.invalid(&groups.index(place), id, why);
        }
    }
    sysctls(spec.value, &at.child("sysctls"), problems);
    for (field, choices) in [("fsGroupChangePolicy", ["Always", "OnRootMismatch"])] {
        if context.has(field) {
            problems.one_of(&at.child(field), context.text(field), &choices);
        }
    }
    seccomp(context.at("seccompProfile"), &at.child("seccompProfile"), problems);
    windows_options(context.at("windowsOptions"), &at.child("windowsOptions"), problems);
    app_armor(context.at("appArmorProfile"), &at.child("appArmorProfile"), problems);
    for (field, choices) in [
        ("supplementalGroupsPolicy", ["Merge", "Strict"]),
        ("seLinuxChangePolicy", ["MountOption", "Recursive"]),
    ] {
        if context.has(field) {
            problems.one_of(&at.child(field), context.text(field), &choices);
        }
    }
}

fn sysctls(spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    const SEGMENT: &str = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let list = spec.at("securityContext").list("sysctls");
    for (place, sysctl) in list.iter().enumerate() {
        let here = at.index(place);
        let here = here.child("name");
        let name = sysctl.text("name");
        if name.is_empty() {
            problems.required(&here, "");
        } else if !is_sysctl(name) {
            let why =
                format!("must have at most 253 characters and match regex ^({SEGMENT}[\\./])*{SEGMENT}$");
            problems.invalid(&here, name, why);
        } else if list[..place].iter().any(|other| other.text("name") == name) {
            problems.duplicate(&here, name);
        }
        let dotted = name.replace('/', ".");
        let in_network = dotted.starts_with("net.");
        let in_ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|start| dotted.starts_with(start))
            || dotted == "kernel.sem";
        if spec.flag("hostNetwork") && in_network {
            problems.invalid(&here, name, "may not be specified when 'hostNetwork' is true");
        } else if spec.flag("hostIPC") && in_ipc {
            problems.invalid(&here, name, "may not be specified when 'hostIPC' is true");
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.split(['.', '/']).all(|part| {
            part.bytes().next().is_some_and(good)
                && part.bytes().next_back().is_some_and(good)
                && part.bytes().all(|byte| good(byte) || matches!(byte, b'-' | b'_'))
        })
}

/// The security context of a container.
pub(super) fn of_container(context: &Value, host_users: bool, at: &Path<'_>, problems: &mut Problems) {
    if context.is_null() {
        return;
    }
    ids(context, &["runAsUser", "runAsGroup"], at, problems);
    if context.has("procMount") {
        let kind = context.text("procMount");
        problems.one_of(&at.child("procMount"), kind, &["Default", "Unmasked"]);
        if host_users && kind == "Unmasked" {
            problems.invalid(&at.child("procMount"), kind, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    seccomp(context.at("seccompProfile"), &at.child("seccompProfile"), problems);
    if context.at("allowPrivilegeEscalation") == &Value::Bool(false) {
        if context.flag("privileged") {
            problems.invalid_shown(
                at,
                &shown::internal("SecurityContext", context),
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            );
        }
        for capability in context.at("capabilities").list("add") {
            if capability.str() == "CAP_SYS_ADMIN" {
                problems.invalid_shown(
                    at,
                    &shown::internal("SecurityContext", context),
                    "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
                );
            }
        }
    }
    windows_options(context.at("windowsOptions"), &at.child("windowsOptions"), problems);
    app_armor(context.at("appArmorProfile"), &at.child("appArmorProfile"), problems);
}

fn seccomp(profile: &Value, at: &Path<'_>, problems: &mut Problems) {
    if profile.is_null() {
        return;
    }
    let kind = profile.text("type");
    if kind.is_empty() {
        problems.required(&at.child("type"), "type is required when seccompProfile is set");
    } else {
        problems.one_of(&at.child("type"), kind, &["Localhost", "RuntimeDefault", "Unconfined"]);
    }
    let place = at.child("localhostProfile");
    if kind == "Localhost" {
        if profile.has("localhostProfile") {
            descending_path(profile.text("localhostProfile"), &place, problems);
        } else {
            problems.required(&place, "must be set when seccomp type is Localhost");
        }
    } else if profile.has("localhostProfile") {
        let shown = format!(
            "{{\"Type\":{},\"LocalhostProfile\":{}}}",
            profile.at("type"),
            profile.at("localhostProfile")
        );
        problems.invalid_shown(&place, &shown, "can only be set when seccomp type is Localhost");
    }
}

fn app_armor(profile: &Value, at: &Path<'_>, problems: &mut Problems) {
    if profile.is_null() {
        return;
    }
    let place = at.child("localhostProfile");
    match profile.text("type") {
        "Localhost" => {
            let name = profile.text("localhostProfile");
            if name.trim() != name {
                problems.invalid(&place, name, "must not be padded with whitespace");
            } else if name.is_empty() {
                problems.required(&place, "must be set when AppArmor type is Localhost");
            }
            if name.len() > 4095 {
                problems.too_long(&place, 4095);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if profile.has("localhostProfile") {
                problems.invalid(
                    &place,
                    profile.text("localhostProfile"),
                    "can only be set when AppArmor type is Localhost",
                );
            }
        }
        "" => problems.required(&at.child("type"), "type is required when appArmorProfile is set"),
        other => {
            problems.unsupported(&at.child("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"]);
        }
    }
}

fn windows_options(options: &Value, at: &Path<'_>, problems: &mut Problems) {
    if options.has("gmsaCredentialSpecName") {
        let name = options.text("gmsaCredentialSpecName");
        problems.form(&at.child("gmsaCredentialSpecName"), name, format::dns1123_subdomain);
    }
    if options.has("gmsaCredentialSpec") {
        let spec = options.text("gmsaCredentialSpec");
        let place = at.child("gmsaCredentialSpec");
        if spec.is_empty() {
            problems.invalid(&place, spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > 64 * 1024 {
            problems.invalid(&place, spec, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if options.has("runAsUserName") {
        let name = options.text("runAsUserName");
        for why in windows_user(name) {
            problems.invalid(&at.child("runAsUserName"), name, why);
        }
    }
}

fn windows_user(name: &str) -> Vec<&'static str> {
    let parts: Vec<&str> = name.split('\\').collect();
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if name.bytes().any(|byte| byte.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    let (domain, user) = match parts.as_slice() {
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => return vec!["runAsUserName cannot contain more than one backslash"],
    };
    let mut wrong = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= 256 {
            wrong.push("runAsUserName's Domain length must be under 256 characters");
        }
        let net_bios = !domain.starts_with('.')
            && (1..=15).contains(&domain.chars().count())
            && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|']);
        let label = |part: &str| part.len() <= 63 && format::is_label_form(&part.to_ascii_lowercase());
        if !net_bios && !domain.split('.').all(label) {
            wrong.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        wrong.push("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        wrong.push("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ') {
        wrong.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        wrong.push("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    wrong
}

/// Containers that are processes of their Windows host: all of a pod's or none.
pub(super) fn host_process(spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    let option =
        |holder: &Value| holder.at("securityContext").at("windowsOptions").at("hostProcess").as_bool();
    let of_pod = option(spec);
    let (mut all, mut on_host) = (0, 0);
    each_container(spec, at, |container, here| {
        all += 1;
        let own = option(container);
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let why = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            let place = here.child("securityContext");
            let place = place.child("windowsOptions");
            problems.invalid(&place.child("hostProcess"), own, why);
        }
        on_host += usize::from(own.or(of_pod).unwrap_or_default());
    });
    if on_host > 0 {
        if on_host != all {
            problems.invalid(
                at,
                "",
                "If pod contains any hostProcess containers then all containers must be HostProcess containers",
            );
        }
        if !spec.flag("hostNetwork") {
            problems.invalid(
                &at.child("hostNetwork"),
                false,
                "hostNetwork must be true if pod contains any hostProcess containers",
            );
        }
    }
}

/// What only makes sense on the other operating system.
pub(super) fn operating_system(spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    if !spec.has("os") {
        return;
    }
    match spec.at("os").text("name") {
        "" => problems.required(&at.child("os").child("name"), ""),
        "linux" => {
            const WHY: &str = "windows options cannot be set for a linux pod";
            if spec.at("securityContext").has("windowsOptions") {
                problems.forbidden(&at.child("securityContext").child("windowsOptions"), WHY);
            }
            each_container(spec, at, |container, here| {
                if container.at("securityContext").has("windowsOptions") {
                    problems.forbidden(&here.child("securityContext").child("windowsOptions"), WHY);
                }
            });
        }
        "windows" => windows(spec, at, problems),
        other => problems.unsupported(&at.child("os"), other, &["linux", "windows"]),
    }
}

fn windows(spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    const WHY: &str = "cannot be set for a windows pod";
    let context = spec.at("securityContext");
    for field in [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ] {
        if context.has(field) {
            problems.forbidden(&at.child("securityContext").child(field), WHY);
        }
    }
    if spec.has("hostUsers") {
        problems.forbidden(&at.child("hostUsers"), WHY);
    }
    for field in ["hostPID", "hostIPC"] {
        if spec.flag(field) {
            problems.forbidden(&at.child(field), WHY);
        }
    }
    if spec.has("shareProcessNamespace") {
        problems.forbidden(&at.child("shareProcessNamespace"), WHY);
    }
    each_container(spec, at, |container, here| {
        for field in [
            "appArmorProfile",
            "seLinuxOptions",
            "seccompProfile",
            "capabilities",
            "readOnlyRootFilesystem",
            "privileged",
            "allowPrivilegeEscalation",
            "procMount",
            "runAsUser",
            "runAsGroup",
        ] {
            if container.at("securityContext").has(field) {
                problems.forbidden(&here.child("securityContext").child(field), WHY);
            }
        }
    });
}

/// Annotations from before profiles were fields have to agree with the fields.
pub(super) fn annotations_match(metadata: &Value, spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    let annotations = metadata.at("annotations");
    let context = at.child("securityContext");
    let of_pod = spec.at("securityContext");
    if of_pod.has("seccompProfile") && annotations.has("seccomp.security.alpha.kubernetes.io/pod") {
        let annotation = annotations.text("seccomp.security.alpha.kubernetes.io/pod");
        matches(
            "seccomp",
            annotation,
            of_pod.at("seccompProfile"),
            &context.child("seccompProfile"),
            problems,
        );
    }
    each_container(spec, at, |container, here| {
        let own = container.at("securityContext");
        let key = format!("container.seccomp.security.alpha.kubernetes.io/{}", container.text("name"));
        let here = here.child("securityContext");
        if own.has("seccompProfile") && annotations.has(&key) {
            let place = here.child("seccompProfile");
            matches("seccomp", annotations.text(&key), own.at("seccompProfile"), &place, problems);
        }
        let key = format!("container.apparmor.security.beta.kubernetes.io/{}", container.text("name"));
        let profile = if own.has("appArmorProfile") { own } else { of_pod }.at("appArmorProfile");
        if spec.at("os").text("name") != "windows" && !profile.is_null() && annotations.has(&key) {
            matches("apparmor", annotations.text(&key), profile, &here.child("appArmorProfile"), problems);
        }
    });
}

fn matches(what: &str, annotation: &str, profile: &Value, at: &Path<'_>, problems: &mut Problems) {
    let good = match profile.text("type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => {
            annotation == "runtime/default" || (what == "seccomp" && annotation == "docker/default")
        }
        "Localhost" => annotation.starts_with("localhost/"),
        _ => true,
    };
    if !good {
        problems.forbidden(&at.child("type"), format!("{what} type in annotation and field must match"));
    } else if profile.text("type") == "Localhost"
        && annotation.strip_prefix("localhost/") != profile.at("localhostProfile").as_str()
    {
        problems.forbidden(
            &at.child("localhostProfile"),
            format!("{what} profile in annotation and field must match"),
        );
    }
}

/// The annotations of pods that are checked by themselves.
pub(super) fn annotations(annotations: &Value, spec: &Value, at: &Path<'_>, problems: &mut Problems) {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
    if annotations.has(MIRROR) && spec.text("nodeName").is_empty() {
        problems.invalid(
            &at.key(MIRROR),
            annotations.text(MIRROR),
            "must set spec.nodeName if mirror pod annotation is set",
        );
    }
    let tolerations = annotations.text(TOLERATIONS);
    if !tolerations.is_empty() {
        match serde_json::from_str::<Vec<Value>>(tolerations) {
            Ok(list) => super::scheduling::tolerations(&list, &at.child(TOLERATIONS), problems),
            Err(error) => problems.invalid(at, TOLERATIONS, error.to_string()),
        }
    }
    if annotations.has(COST) {
        let cost = annotations.text(COST);
        let digits = cost.strip_prefix('-').unwrap_or(cost);
        let canonical = cost == "0" || digits.starts_with(|c: char| ('1'..='9').contains(&c));
        if !canonical || cost.parse::<i32>().is_err() {
            problems.invalid(&at.key(COST), cost, "must be a 32bit integer");
        }
    }
    for (key, value) in annotations.as_object().into_iter().flatten() {
        let value = value.str();
        if key == "seccomp.security.alpha.kubernetes.io/pod"
            || key.starts_with("container.seccomp.security.alpha.kubernetes.io/")
        {
            match value.strip_prefix("localhost/") {
                Some(path) => descending_path(path, &at.child(key), problems),
                None if matches!(value, "runtime/default" | "docker/default" | "unconfined") => {}
                None => problems.invalid(&at.child(key), value, "must be a valid seccomp profile"),
            }
        }
    }
    for (key, value) in annotations.as_object().into_iter().flatten() {
        let value = value.str();
        if let Some(name) = key.strip_prefix("container.apparmor.security.beta.kubernetes.io/") {
            let mut found = false;
            each_container(spec, at, |container, _| found |= container.text("name") == name);
            if !found {
                problems.invalid(&at.key(key), name, "container not found");
            }
            let known =
                matches!(value, "" | "runtime/default" | "unconfined") || value.starts_with("localhost/");
            if !known {
                problems.invalid(&at.key(key), value, format!("invalid AppArmor profile name: {value:?}"));
            }
        }
    }
}

//! The baseline level: no known ways out of a container.

use serde_json::Value;

use super::super::json::{entries, items, text};
use super::words::{Violation, containers, distinct, failing, has_own_users, named, plural, quoted, setters};

const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Kernel settings that are safe, and since which version they count as such.
const SAFE_SYSCTLS: [(&str, u32); 14] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_notsent_lowat", 37),
];

/// The violations, in the order of the real server. The restricted level has its own words for some of them.
pub(super) fn violations(pod: &Value, minor: u32, is_restricted: bool) -> Vec<Violation> {
    let mut found = Vec::new();
    found.extend(app_armor(pod));
    if !(is_restricted && minor >= 22) {
        found.extend(capabilities(pod));
    }
    found.extend(host_namespaces(pod));
    if !is_restricted {
        found.extend(host_paths(pod));
    }
    found.extend(host_ports(pod));
    if minor >= 34 {
        found.extend(probe_hosts(pod));
    }
    found.extend(privileged(pod));
    let may_mount_proc = minor >= 35 && (is_restricted || has_own_users(pod));
    if !may_mount_proc {
        found.extend(proc_mount(pod));
    }
    found.extend(se_linux(pod, minor));
    if minor < 19 {
        found.extend(seccomp_annotations(pod));
    } else if !is_restricted {
        found.extend(seccomp(pod));
    }
    found.extend(sysctls(pod, minor));
    found.extend(host_process(pod));
    found
}

fn app_armor(pod: &Value) -> Option<Violation> {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let profile = |subject: &'_ Value| {
        subject.pointer("/securityContext/appArmorProfile/type").map(text).map(str::to_owned)
    };
    let is_bad = |profile: &str| !matches!(profile, "RuntimeDefault" | "Localhost");
    let of_pod = profile(&pod["spec"]).filter(|profile| is_bad(profile));
    let bad = failing(pod, |container| profile(container).is_some_and(|profile| is_bad(&profile)));
    let of_containers: Vec<String> =
        containers(pod).filter_map(profile).filter(|profile| is_bad(profile)).collect();
    let values = distinct(of_pod.iter().chain(&of_containers).map(String::as_str));
    let annotations: Vec<String> = entries(&pod["metadata"]["annotations"])
        .filter(|(key, value)| {
            let value = text(value);
            let is_good = value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
            key.starts_with(PREFIX) && !is_good
        })
        .map(|(key, value)| format!("{key}={:?}", text(value)))
        .collect();
    let mut who: Vec<String> = setters(of_pod.is_some(), &bad).into_iter().collect();
    if !annotations.is_empty() {
        who.push(plural("annotation", "annotations", annotations.len()).to_owned());
    }
    if who.is_empty() {
        return None;
    }
    let all: Vec<&str> = values.into_iter().chain(annotations.iter().map(String::as_str)).collect();
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", all.len());
    let detail = format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(&all));
    Some(Violation::new(reason, detail))
}

/// Capabilities that a container adds beyond the allowed ones.
pub(super) fn added<'a>(container: &'a Value, allowed: &'a [&str]) -> impl Iterator<Item = &'a str> {
    items(&container["securityContext"]["capabilities"]["add"])
        .map(text)
        .filter(move |capability| !allowed.contains(capability))
}

fn capabilities(pod: &Value) -> Option<Violation> {
    let bad = failing(pod, |container| added(container, &DEFAULT_CAPABILITIES).next().is_some());
    if bad.is_empty() {
        return None;
    }
    let values = distinct(containers(pod).flat_map(|container| added(container, &DEFAULT_CAPABILITIES)));
    let detail =
        format!("{} must not include {} in securityContext.capabilities.add", named(&bad), quoted(values));
    Some(Violation::new("non-default capabilities", detail))
}

fn host_namespaces(pod: &Value) -> Option<Violation> {
    let used: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .iter()
        .filter(|key| pod["spec"][**key] == true)
        .map(|key| format!("{key}=true"))
        .collect();
    (!used.is_empty()).then(|| Violation::new("host namespaces", used.join(", ")))
}

fn host_paths(pod: &Value) -> Option<Violation> {
    let names: Vec<&str> = items(&pod["spec"]["volumes"])
        .filter(|volume| volume["hostPath"].is_object())
        .map(|volume| text(&volume["name"]))
        .collect();
    if names.is_empty() {
        return None;
    }
    let detail = format!("{} {}", plural("volume", "volumes", names.len()), quoted(&names));
    Some(Violation::new("hostPath volumes", detail))
}

fn host_ports(pod: &Value) -> Option<Violation> {
    let ports = |container: &'_ Value| -> Vec<String> {
        items(&container["ports"])
            .filter_map(|port| port["hostPort"].as_i64())
            .filter(|port| *port != 0)
            .map(|port| port.to_string())
            .collect()
    };
    let bad = failing(pod, |container| !ports(container).is_empty());
    if bad.is_empty() {
        return None;
    }
    let all: Vec<String> = containers(pod).flat_map(ports).collect();
    let values: Vec<&str> = distinct(all.iter().map(String::as_str)).into_iter().collect();
    let detail = format!(
        "{} {} {} {}",
        named(&bad),
        plural("uses", "use", bad.len()),
        plural("hostPort", "hostPorts", values.len()),
        values.join(", ")
    );
    Some(Violation::new("hostPort", detail))
}

fn probe_hosts(pod: &Value) -> Option<Violation> {
    let hosts = |container: &'_ Value| -> Vec<String> {
        const PLACES: [&str; 5] = [
            "/livenessProbe",
            "/readinessProbe",
            "/startupProbe",
            "/lifecycle/postStart",
            "/lifecycle/preStop",
        ];
        PLACES
            .iter()
            .filter_map(|place| container.pointer(place))
            .flat_map(|probe| [text(&probe["httpGet"]["host"]), text(&probe["tcpSocket"]["host"])])
            .filter(|host| !host.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let bad: Vec<&str> =
        distinct(failing(pod, |container| !hosts(container).is_empty())).into_iter().collect();
    if bad.is_empty() {
        return None;
    }
    let all: Vec<String> = containers(pod).flat_map(hosts).collect();
    let values = distinct(all.iter().map(String::as_str));
    let detail = format!(
        "{} {} {} {}",
        named(&bad),
        plural("uses", "use", bad.len()),
        plural("probe or lifecycle host", "probe or lifecycle hosts", values.len()),
        quoted(values)
    );
    Some(Violation::new("probe or lifecycle host", detail))
}

fn privileged(pod: &Value) -> Option<Violation> {
    let bad = failing(pod, |container| container["securityContext"]["privileged"] == true);
    (!bad.is_empty()).then(|| {
        Violation::new("privileged", format!("{} must not set securityContext.privileged=true", named(&bad)))
    })
}

/// Other ways to mount `/proc` than the usual one.
pub(super) fn proc_mount(pod: &Value) -> Option<Violation> {
    let mount = |container: &'_ Value| container["securityContext"]["procMount"].as_str().map(str::to_owned);
    let is_bad = |mount: &String| mount != "Default";
    let bad = failing(pod, |container| mount(container).is_some_and(|mount| is_bad(&mount)));
    if bad.is_empty() {
        return None;
    }
    let all: Vec<String> = containers(pod).filter_map(mount).filter(is_bad).collect();
    let values = distinct(all.iter().map(String::as_str));
    let detail = format!("{} must not set securityContext.procMount to {}", named(&bad), quoted(values));
    Some(Violation::new("procMount", detail))
}

fn se_linux(pod: &Value, minor: u32) -> Option<Violation> {
    let allows = |kind: &str| {
        matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || (minor >= 31 && kind == "container_engine_t")
    };
    let options = |subject: &'_ Value| subject["securityContext"]["seLinuxOptions"].clone();
    let is_bad = |options: &Value| {
        !allows(text(&options["type"]))
            || !text(&options["user"]).is_empty()
            || !text(&options["role"]).is_empty()
    };
    let of_pod = options(&pod["spec"]);
    let bad = failing(pod, |container| is_bad(&options(container)));
    let who = setters(is_bad(&of_pod), &bad)?;
    let all: Vec<Value> = std::iter::once(of_pod).chain(containers(pod).map(options)).collect();
    let types = distinct(all.iter().map(|options| text(&options["type"])).filter(|kind| !allows(kind)));
    let mut wrong = Vec::new();
    if !types.is_empty() {
        wrong.push(format!("{} {}", plural("type", "types", types.len()), quoted(types)));
    }
    for key in ["user", "role"] {
        if all.iter().any(|options| !text(&options[key]).is_empty()) {
            wrong.push(format!("{key} may not be set"));
        }
    }
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", wrong.join("; "));
    Some(Violation::new("seLinuxOptions", detail))
}

fn seccomp_annotations(pod: &Value) -> Option<Violation> {
    let annotations = &pod["metadata"]["annotations"];
    let for_pod = "seccomp.security.alpha.kubernetes.io/pod".to_owned();
    let keys = std::iter::once(for_pod).chain(containers(pod).map(|container| {
        format!("container.seccomp.security.alpha.kubernetes.io/{}", text(&container["name"]))
    }));
    let mut bad: Vec<String> = keys
        .filter_map(|key| {
            let value = annotations.get(&key)?.as_str()?;
            let is_good =
                matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
            (!is_good).then(|| format!("{key}={value:?}"))
        })
        .collect();
    bad.sort();
    bad.dedup();
    if bad.is_empty() {
        return None;
    }
    let detail = format!("forbidden {} {}", plural("annotation", "annotations", bad.len()), bad.join(", "));
    Some(Violation::new("seccompProfile", detail))
}

/// The seccomp profile something sets.
pub(super) fn seccomp_of(subject: &Value) -> Option<&str> {
    let profile = &subject["securityContext"]["seccompProfile"];
    profile.is_object().then(|| text(&profile["type"]))
}

/// True for profiles that confine.
pub(super) fn confines(profile: &str) -> bool {
    matches!(profile, "RuntimeDefault" | "Localhost")
}

/// Profiles that are set and do not confine.
pub(super) fn seccomp(pod: &Value) -> Option<Violation> {
    let is_bad = |subject: &'_ Value| seccomp_of(subject).is_some_and(|profile| !confines(profile));
    let who = setters(is_bad(&pod["spec"]), &failing(pod, is_bad))?;
    let subjects = std::iter::once(&pod["spec"]).chain(containers(pod));
    let values = distinct(subjects.filter_map(seccomp_of).filter(|profile| !confines(profile)));
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(values));
    Some(Violation::new("seccompProfile", detail))
}

fn sysctls(pod: &Value, minor: u32) -> Option<Violation> {
    let is_safe = |name: &str| SAFE_SYSCTLS.iter().any(|(known, since)| *known == name && minor >= *since);
    let bad: Vec<&str> = items(&pod["spec"]["securityContext"]["sysctls"])
        .map(|sysctl| text(&sysctl["name"]))
        .filter(|name| !is_safe(name))
        .collect();
    (!bad.is_empty()).then(|| Violation::new("forbidden sysctls", bad.join(", ")))
}

fn host_process(pod: &Value) -> Option<Violation> {
    let is_bad = |subject: &'_ Value| subject["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let who = setters(is_bad(&pod["spec"]), &failing(pod, is_bad))?;
    Some(Violation::new(
        "hostProcess",
        format!("{who} must not set securityContext.windowsOptions.hostProcess=true"),
    ))
}

//! The restricted level: best practice.

use serde_json::Value;

use super::super::json::{entries, items, text};
use super::baseline::{added, confines, proc_mount, seccomp, seccomp_of};
use super::words::{Violation, containers, distinct, failing, has_own_users, named, plural, quoted, setters};

/// What the restricted level adds to the baseline, in the order of the real server.
pub(super) fn violations(pod: &Value, minor: u32) -> Vec<Violation> {
    let is_windows = minor >= 25 && pod["spec"]["os"]["name"] == "windows";
    let may_be_root = minor >= 35 && has_own_users(pod);
    let mut found = Vec::new();
    if minor >= 8 && !is_windows {
        found.extend(escalation(pod));
    }
    if minor >= 22 && !is_windows {
        found.extend(capabilities(pod));
    }
    if minor >= 35 {
        found.extend(proc_mount(pod));
    }
    found.extend(volumes(pod));
    if !may_be_root {
        found.extend(non_root(pod));
    }
    if minor >= 23 && !may_be_root {
        found.extend(user(pod));
    }
    if minor >= 19 && !is_windows {
        found.extend(profile(pod));
    }
    found
}

fn escalation(pod: &Value) -> Option<Violation> {
    let bad = failing(pod, |container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    (!bad.is_empty()).then(|| {
        Violation::new(
            "allowPrivilegeEscalation != false",
            format!("{} must set securityContext.allowPrivilegeEscalation=false", named(&bad)),
        )
    })
}

fn capabilities(pod: &Value) -> Option<Violation> {
    const ALLOWED: [&str; 1] = ["NET_BIND_SERVICE"];
    let keeping = failing(pod, |container| {
        items(&container["securityContext"]["capabilities"]["drop"]).all(|capability| capability != "ALL")
    });
    let adding = failing(pod, |container| added(container, &ALLOWED).next().is_some());
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", named(&keeping)));
    }
    if !adding.is_empty() {
        let values = distinct(containers(pod).flat_map(|container| added(container, &ALLOWED)));
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            named(&adding),
            quoted(values)
        ));
    }
    (!details.is_empty()).then(|| Violation::new("unrestricted capabilities", details.join("; ")))
}

fn volumes(pod: &Value) -> Option<Violation> {
    const ALLOWED: [&str; 9] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    let kind = |volume: &'_ Value| {
        let mut sources = entries(volume).filter(|(key, value)| *key != "name" && value.is_object());
        sources.next().map_or("unknown".to_owned(), |(key, _)| key.clone())
    };
    let bad: Vec<&Value> =
        items(&pod["spec"]["volumes"]).filter(|volume| !ALLOWED.contains(&kind(volume).as_str())).collect();
    if bad.is_empty() {
        return None;
    }
    let kinds: Vec<String> = bad.iter().map(|volume| kind(volume)).collect();
    let kinds = distinct(kinds.iter().map(String::as_str));
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", bad.len()),
        quoted(bad.iter().map(|volume| text(&volume["name"]))),
        plural("uses", "use", bad.len()),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        quoted(&kinds)
    );
    Some(Violation::new("restricted volume types", detail))
}

fn non_root(pod: &Value) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let wish = |subject: &'_ Value| subject["securityContext"]["runAsNonRoot"].as_bool();
    let of_pod = wish(&pod["spec"]);
    let explicit = failing(pod, |container| wish(container) == Some(false));
    if let Some(who) = setters(of_pod == Some(false), &explicit) {
        return Some(Violation::new(
            REASON,
            format!("{who} must not set securityContext.runAsNonRoot=false"),
        ));
    }
    let implicit = failing(pod, |container| wish(container).is_none() && of_pod != Some(true));
    (!implicit.is_empty()).then(|| {
        let who = named(&implicit);
        Violation::new(REASON, format!("pod or {who} must set securityContext.runAsNonRoot=true"))
    })
}

fn user(pod: &Value) -> Option<Violation> {
    let is_root = |subject: &'_ Value| subject["securityContext"]["runAsUser"].as_i64() == Some(0);
    let who = setters(is_root(&pod["spec"]), &failing(pod, is_root))?;
    Some(Violation::new("runAsUser=0", format!("{who} must not set runAsUser=0")))
}

fn profile(pod: &Value) -> Option<Violation> {
    if let Some(bad) = seccomp(pod) {
        return Some(bad);
    }
    let for_all = seccomp_of(&pod["spec"]).is_some_and(confines);
    let silent = failing(pod, |container| !for_all && seccomp_of(container).is_none());
    (!silent.is_empty()).then(|| {
        Violation::new(
            "seccompProfile",
            format!(
                "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
                named(&silent)
            ),
        )
    })
}

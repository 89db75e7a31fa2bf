//! The status of pods.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use crate::kinds::format::{self, between};
use crate::kinds::view::{Look, Path, Problems};

const STATUS: Path<'static> = Path::root("status");

pub(super) fn update(old: &Value, new: &Value, problems: &mut Problems) {
    super::update::annotations(old, new, problems);
    let (before, after) = (old.at("status"), new.at("status"));
    conditions(after, problems);
    let nominated = after.text("nominatedNodeName");
    if !nominated.is_empty() && nominated != before.text("nominatedNodeName") {
        let here = STATUS.child("nominatedNodeName");
        problems.form(&here, nominated, format::dns1123_subdomain);
        if !old.at("spec").text("nodeName").is_empty() {
            problems.forbidden(&here, "may not be set on pods that are already bound to a node");
        }
    }
    let generation = after.int("observedGeneration").unwrap_or_default();
    if generation < 0 {
        problems.invalid(&STATUS.child("observedGeneration"), generation, "must be a non-negative integer");
    }
    if before.text("qosClass") != after.text("qosClass") {
        problems.invalid(&STATUS.child("qosClass"), after.text("qosClass"), "field is immutable");
    }
    transitions(old, before, after, problems);
    resource_claims(new, problems);
    addresses(before, after, "podIPs", problems);
    single_matches(after, "podIP", "podIPs", problems);
    if let Some(first) = after.list("hostIPs").first() {
        if first.text("ip") != after.text("hostIP") {
            let list = STATUS.child("hostIPs");
            let here = list.index(0);
            problems.invalid(&here.child("ip"), first.text("ip"), "must be equal to `hostIP`");
        }
        addresses(before, after, "hostIPs", problems);
    }
    let windows = new.at("spec").at("os").text("name") == "windows";
    for group in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        users(after.list(group), windows, &STATUS.child(group), problems);
    }
    for (group, containers) in
        [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
    {
        allocated(after, group, new.at("spec").list(containers), problems);
    }
    let list = STATUS.child("ephemeralContainerStatuses");
    for (place, status) in after.list("ephemeralContainerStatuses").iter().enumerate() {
        if !status.list("allocatedResourcesStatus").is_empty() {
            let here = list.index(place);
            problems.forbidden(
                &here.child("allocatedResourcesStatus"),
                "must not be specified in container status",
            );
        }
    }
}

fn conditions(status: &Value, problems: &mut Problems) {
    let list = STATUS.child("conditions");
    for (place, condition) in status.list("conditions").iter().enumerate() {
        let here = list.index(place);
        let generation = condition.int("observedGeneration").unwrap_or_default();
        if generation < 0 {
            problems.invalid(&here.child("observedGeneration"), generation, "must be a non-negative integer");
        }
        let kind = condition.text("type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            problems.form(&here.child("Type"), kind, format::qualified_name);
        }
    }
}

/// A container that ended does not run again, unless the pod says that it does.
fn transitions(pod: &Value, before: &Value, after: &Value, problems: &mut Problems) {
    let spec = pod.at("spec");
    let restarts_all =
        ["containers", "initContainers"].iter().flat_map(|group| spec.list(group)).any(|container| {
            container
                .list("restartPolicyRules")
                .iter()
                .any(|rule| rule.text("action") == "RestartAllContainers")
        });
    for (group, containers) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ] {
        if restarts_all && !containers.is_empty() {
            continue;
        }
        let list = STATUS.child(group);
        for (place, old) in before.list(group).iter().enumerate() {
            let Some(code) = old.at("state").at("terminated").as_object() else { continue };
            let code = code.get("exitCode").and_then(Value::as_i64).unwrap_or_default();
            let name = old.text("name");
            let back = after
                .list(group)
                .iter()
                .any(|new| new.text("name") == name && !new.at("state").has("terminated"));
            let container = spec.list(containers).iter().find(|one| one.text("name") == name);
            if back && !container.is_some_and(|container| restarts(container, spec, code)) {
                let here = list.index(place);
                problems.forbidden(&here.child("state"), "may not be transitioned to non-terminated state");
            }
        }
    }
}

fn restarts(container: &Value, spec: &Value, code: i64) -> bool {
    let own = container.text("restartPolicy");
    if !own.is_empty() {
        let applies = |rule: &&Value| {
            let codes = rule.at("exitCodes");
            let named = codes.list("values").iter().any(|value| value.as_i64() == Some(code));
            match codes.text("operator") {
                "In" => named,
                "NotIn" => !named,
                _ => false,
            }
        };
        if container.list("restartPolicyRules").iter().find(applies).is_some() {
            return true;
        }
    }
    match if own.is_empty() { spec.text("restartPolicy") } else { own } {
        "OnFailure" => code != 0,
        "Never" => false,
        _ => true,
    }
}

fn resource_claims(pod: &Value, problems: &mut Problems) {
    let list = STATUS.child("resourceClaimStatuses");
    let mut seen = BTreeSet::new();
    for (place, status) in pod.at("status").list("resourceClaimStatuses").iter().enumerate() {
        let here = list.index(place);
        let name = status.text("name");
        if !pod.at("spec").list("resourceClaims").iter().any(|claim| claim.text("name") == name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            problems.invalid(&here.child("name"), name, why);
        }
        if !seen.insert(name) {
            problems.duplicate(&here.child("name"), name);
        }
        if status.has("resourceClaimName") {
            let name = status.text("resourceClaimName");
            problems.form(&here.child("resourceClaimName"), name, format::dns1123_subdomain);
        }
    }
}

fn addresses(before: &Value, after: &Value, field: &str, problems: &mut Problems) {
    let (list, here) = (after.list(field), STATUS.child(field));
    for (place, entry) in list.iter().enumerate() {
        let ip = entry.text("ip");
        if !before.list(field).iter().any(|old| old.text("ip") == ip) {
            problems.form(&here.index(place), ip, format::legacy_ip);
        }
    }
    if list.len() > 1 {
        let unreadable = list.iter().position(|entry| format::sloppy_ip(entry.text("ip")).is_none());
        if let Some(place) = unreadable {
            let why = format!(
                "failed to check for dual stack with error:invalid IP[{place}]: {}",
                list[place].text("ip")
            );
            problems.told(&here, "InternalError", format!("Internal error: {why}"));
        }
        let families: Vec<Option<bool>> = list
            .iter()
            .map(|entry| format::sloppy_ip(entry.text("ip")).map(|ip: IpAddr| ip.is_ipv4()))
            .collect();
        let both = families.contains(&Some(true)) && families.contains(&Some(false));
        if !both || list.len() > 2 {
            let shown: Vec<String> =
                list.iter().map(|entry| format!("{{\"IP\":{}}}", entry.at("ip"))).collect();
            problems.invalid_shown(
                &here,
                &format!("[{}]", shown.join(",")),
                "may specify no more than one IP for each IP family",
            );
        }
    }
}

/// The singular and the plural are set by defaults, so this only sees what those could not settle.
fn single_matches(status: &Value, single: &str, plural: &str, problems: &mut Problems) {
    let here = STATUS.child(plural);
    match status.list(plural).first() {
        Some(first) if first.text("ip") != status.text(single) => {
            let place = here.index(0);
            problems.invalid(&place.child("ip"), first.text("ip"), format!("must be equal to `{single}`"));
        }
        _ => {}
    }
}

fn users(statuses: &[Value], windows: bool, at: &Path<'_>, problems: &mut Problems) {
    for (place, status) in statuses.iter().enumerate() {
        let user = status.at("user").at("linux");
        if user.is_null() {
            continue;
        }
        let here = at.index(place);
        let here = here.child("user");
        let here = here.child("linux");
        if windows {
            problems.forbidden(&here, "cannot be set for a windows pod");
            continue;
        }
        let uid = user.int("uid").unwrap_or_default();
        if !(0..=i64::from(u32::MAX)).contains(&uid) {
            problems.invalid(&here.child("uid"), uid, between(0, i64::from(u32::MAX)));
        }
        let gid = user.int("gid").unwrap_or_default();
        for why in format::unix_id(gid) {
            problems.invalid(&here.child("gid"), gid, why);
        }
        let groups = here.child("supplementalGroups");
        for (place, group) in user.list("supplementalGroups").iter().enumerate() {
            let id = group.as_i64().unwrap_or_default();
            for why in format::unix_id(id) {
                problems.invalid(&groups.index(place), id, why);
            }
        }
    }
}

fn allocated(status: &Value, group: &str, containers: &[Value], problems: &mut Problems) {
    let list = STATUS.child(group);
    for (place, container_status) in status.list(group).iter().enumerate() {
        let here = list.index(place);
        let here = here.child("allocatedResourcesStatus");
        let container = containers.iter().find(|one| one.text("name") == container_status.text("name"));
        for (place, resource) in container_status.list("allocatedResourcesStatus").iter().enumerate() {
            let here = here.index(place);
            let name = resource.text("name");
            if let Some(resources) = container.map(|container| container.at("resources")) {
                let claim = name.strip_prefix("claim:");
                let found = match claim {
                    Some(claim) => resources.list("claims").iter().any(|one| match one.text("request") {
                        "" => one.text("name") == claim,
                        request => format!("{}/{request}", one.text("name")) == claim,
                    }),
                    None => resources.at("requests").has(name),
                };
                if !found {
                    let why = if claim.is_some() {
                        "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty"
                    } else {
                        "must match one of the container's resource requests"
                    };
                    problems.invalid(&here.child("name"), name, why);
                }
            }
            let mut seen = BTreeSet::new();
            let items = here.child("resources");
            for (place, item) in resource.list("resources").iter().enumerate() {
                let here = items.index(place);
                problems.one_of(
                    &here.child("health"),
                    item.text("health"),
                    &["Healthy", "Unhealthy", "Unknown"],
                );
                if !seen.insert(item.text("resourceID")) {
                    problems.duplicate(&here.child("resourceID"), item.text("resourceID"));
                }
            }
        }
    }
}

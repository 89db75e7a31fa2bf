//! Services.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::Check;
use super::pod::fields;
use super::storage::one_of_each_family;
use crate::kinds::format;
use crate::kinds::meta;
use crate::kinds::prepare::needs_health_check_port;
use crate::kinds::view::{Look, Path, Problems};

const SPEC: Path<'static> = Path::root("spec");
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

fn headless(spec: &Value) -> bool {
    matches!(spec.list("clusterIPs"), [only] if only.str() == "None")
}

fn reachable_from_outside(spec: &Value) -> bool {
    matches!(spec.text("type"), "LoadBalancer" | "NodePort")
        || (spec.text("type") == "ClusterIP" && !spec.list("externalIPs").is_empty())
}

/// A service; `old` when it is being changed.
pub(super) fn service(service: &Value, old: Option<&Value>, problems: &mut Problems) {
    let spec = service.at("spec");
    topology_annotations(service, problems);
    let kind = spec.text("type");
    if spec.list("ports").is_empty() && !headless(spec) && kind != "ExternalName" {
        problems.required(&SPEC.child("ports"), "");
    }
    let addresses = SPEC.child("clusterIPs");
    match kind {
        "LoadBalancer" | "NodePort" if headless(spec) => {
            problems.invalid(
                &addresses.index(0),
                "None",
                format!("may not be set to 'None' for {kind} services"),
            );
        }
        "ExternalName" => external_name(spec, problems),
        _ => {}
    }
    let list = SPEC.child("ports");
    let mut names = BTreeSet::new();
    for (place, port) in spec.list("ports").iter().enumerate() {
        one_port(port, spec.list("ports").len() > 1, &mut names, &list.index(place), problems);
    }
    meta::labels(spec.at("selector"), &SPEC.child("selector"), problems);
    session_affinity(spec, problems);
    cluster_addresses(spec, old.map(|old| old.at("spec")), problems);
    let list = SPEC.child("externalIPs");
    for (place, ip) in spec.list("externalIPs").iter().enumerate() {
        let here = list.index(place);
        let kept = old.is_some_and(|old| old.at("spec").list("externalIPs").contains(ip));
        let wrong = if kept { Vec::new() } else { format::legacy_ip(ip.str()) };
        if wrong.is_empty() {
            endpoint_ip(ip.str(), &here, problems);
        }
        problems.invalid_each(&here, ip.str(), wrong);
    }
    match kind {
        "" => problems.required(&SPEC.child("type"), ""),
        kind => problems.one_of(
            &SPEC.child("type"),
            kind,
            &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        ),
    }
    unique_ports(spec, problems);
    source_ranges(service, old, problems);
    balancer_fields(spec, old, problems);
    traffic_policies(spec, problems);
}

fn topology_annotations(service: &Value, problems: &mut Problems) {
    const OLD: &str = "service.kubernetes.io/topology-aware-hints";
    const NEW: &str = "service.kubernetes.io/topology-mode";
    let annotations = service.at("metadata").at("annotations");
    if annotations.has(OLD) && annotations.has(NEW) && annotations.text(OLD) != annotations.text(NEW) {
        let metadata = Path::root("metadata");
        let why = format!("must match annotations[{OLD}] when both are specified");
        problems.invalid(&metadata.child("annotations").key(NEW), annotations.text(NEW), why);
    }
}

fn external_name(spec: &Value, problems: &mut Problems) {
    const WHY: &str = "may not be set for ExternalName services";
    for field in ["clusterIPs", "ipFamilies"] {
        if !spec.list(field).is_empty() {
            problems.forbidden(&SPEC.child(field), WHY);
        }
    }
    if spec.has("ipFamilyPolicy") {
        problems.forbidden(&SPEC.child("ipFamilyPolicy"), WHY);
    }
    let name = spec.text("externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => problems.required(&SPEC.child("externalName"), ""),
        name => problems.form(&SPEC.child("externalName"), name, format::dns1123_subdomain),
    }
}

fn one_port<'a>(
    port: &'a Value,
    need_name: bool,
    names: &mut BTreeSet<&'a str>,
    at: &Path<'_>,
    problems: &mut Problems,
) {
    let name = port.text("name");
    if name.is_empty() {
        if need_name {
            problems.required(&at.child("name"), "");
        }
    } else {
        problems.form(&at.child("name"), name, format::dns1123_label);
        if !names.insert(name) {
            problems.duplicate(&at.child("name"), name);
        }
    }
    let number = port.int("port").unwrap_or_default();
    for why in format::port_number(number) {
        problems.invalid(&at.child("port"), number, why);
    }
    match port.text("protocol") {
        "" => problems.required(&at.child("protocol"), ""),
        protocol => problems.one_of(&at.child("protocol"), protocol, &["SCTP", "TCP", "UDP"]),
    }
    fields::port(port.at("targetPort"), &at.child("targetPort"), problems);
    if port.has("appProtocol") {
        problems.form(&at.child("appProtocol"), port.text("appProtocol"), format::qualified_name);
    }
}

fn session_affinity(spec: &Value, problems: &mut Problems) {
    const WHY: &str = "when session affinity type is ClientIP";
    let here = SPEC.child("sessionAffinityConfig");
    let config = spec.at("sessionAffinityConfig");
    match spec.text("sessionAffinity") {
        "" => problems.required(&SPEC.child("sessionAffinity"), ""),
        "None" => {
            if !config.is_null() {
                problems.forbidden(&here, "must not be set when session affinity is None");
            }
        }
        "ClientIP" => {
            let client = here.child("clientIP");
            if config.is_null() {
                problems.required(&here, WHY);
            } else if !config.has("clientIP") {
                problems.required(&client, WHY);
            } else {
                match config.at("clientIP").int("timeoutSeconds") {
                    None => problems.required(&client.child("timeoutSeconds"), WHY),
                    Some(seconds) if !(1..=86_400).contains(&seconds) => problems.invalid(
                        &client.child("timeoutSeconds"),
                        seconds,
                        "must be greater than 0 and less than 86400",
                    ),
                    Some(_) => {}
                }
            }
        }
        other => problems.unsupported(&SPEC.child("sessionAffinity"), other, &["ClientIP", "None"]),
    }
}

/// What is wrong with the addresses of a service; `old` is how it was before.
pub(in crate::kinds) fn cluster_addresses(spec: &Value, old: Option<&Value>, problems: &mut Problems) {
    if spec.text("type") == "ExternalName" {
        return;
    }
    let (single, all) = (spec.text("clusterIP"), spec.list("clusterIPs"));
    let here = SPEC.child("clusterIPs");
    if single.is_empty() {
        if !all.is_empty() {
            problems.invalid(&here, all.to_vec(), "must be empty when `clusterIP` is not specified");
        }
    } else if all.is_empty() {
        problems.required(&here, "");
    } else if all[0].str() != single {
        problems.invalid(&here, all.to_vec(), "first value must match `clusterIP`");
    }
    let families = SPEC.child("ipFamilies");
    let mut seen = BTreeSet::new();
    for (place, family) in spec.list("ipFamilies").iter().map(Look::str).enumerate() {
        problems.one_of(&families.index(place), family, &["IPv4", "IPv6"]);
        if !seen.insert(family) {
            problems.duplicate(&families.index(place), family);
        }
    }
    if spec.has("ipFamilyPolicy") {
        let choices = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        problems.one_of(&SPEC.child("ipFamilyPolicy"), spec.text("ipFamilyPolicy"), &choices);
    }
    let mut bad = false;
    for (place, ip) in all.iter().enumerate() {
        if place == 0 && ip.str() == "None" {
            if all.len() > 1 {
                bad = true;
                problems.invalid(&here, all.to_vec(), "'None' must be the first and only value");
            }
            continue;
        }
        if !old.is_some_and(|old| old.list("clusterIPs").contains(ip)) {
            let wrong = format::legacy_ip(ip.str());
            bad |= !wrong.is_empty();
            problems.invalid_each(&here.index(place), ip.str(), wrong);
        }
    }
    if all.len() > 2 {
        problems.invalid(&here, all.to_vec(), "may only hold up to 2 values");
    }
    if bad {
        return;
    }
    let parsed: Vec<IpAddr> = all.iter().filter_map(|ip| format::sloppy_ip(ip.str())).collect();
    let both = parsed.iter().any(IpAddr::is_ipv4) && parsed.iter().any(IpAddr::is_ipv6);
    if all.len() > 1 && !both {
        problems.invalid(&here, all.to_vec(), "may specify no more than one IP for each IP family");
    }
    if headless(spec) {
        return;
    }
    for (place, (ip, family)) in all.iter().zip(spec.list("ipFamilies")).enumerate() {
        let six = format::sloppy_ip(ip.str()).is_some_and(|ip| ip.is_ipv6());
        let wrong = (family.str() == "IPv4" && six) || (family.str() == "IPv6" && !six);
        if wrong {
            let why = format!("expected an {} value as indicated by `ipFamilies[{place}]`", family.str());
            problems.invalid(&here.index(place), ip.str(), why);
        }
    }
}

/// An address something can be reached at.
pub(super) fn endpoint_ip(text: &str, at: &Path<'_>, problems: &mut Problems) {
    let Some(ip) = format::sloppy_ip(text) else {
        problems.invalid(at, text, "must be a valid IP address");
        return;
    };
    let ip = format::canonical_ip(ip);
    let (link_local, local_multicast) = match ip {
        IpAddr::V4(four) => (four.is_link_local(), four.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(six) => (six.segments()[0] & 0xffc0 == 0xfe80, six.segments()[0] & 0xff0f == 0xff02),
    };
    if ip.is_unspecified() {
        problems.invalid(at, text, format!("may not be unspecified ({text})"));
    }
    if ip.is_loopback() {
        problems.invalid(at, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if link_local {
        problems.invalid(at, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if local_multicast {
        problems.invalid(at, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

fn unique_ports(spec: &Value, problems: &mut Problems) {
    let list = SPEC.child("ports");
    let ports = spec.list("ports");
    if spec.text("type") == "ClusterIP" {
        for (place, port) in ports.iter().enumerate() {
            if port.int("nodePort").unwrap_or_default() != 0 {
                let here = list.index(place);
                problems.forbidden(&here.child("nodePort"), "may not be used when `type` is 'ClusterIP'");
            }
        }
    }
    let mut used = BTreeSet::new();
    for (place, port) in ports.iter().enumerate() {
        let number = port.int("nodePort").unwrap_or_default();
        if number != 0 && !used.insert((port.text("protocol"), number)) {
            let here = list.index(place);
            problems.duplicate(&here.child("nodePort"), number);
        }
    }
    let mut used = BTreeSet::new();
    for (place, port) in ports.iter().enumerate() {
        let number = port.int("port").unwrap_or_default();
        if !used.insert((port.text("protocol"), number)) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}",
                json!(port.text("protocol"))
            );
            problems.told(&list.index(place), "FieldValueDuplicate", format!("Duplicate value: {shown}"));
        }
    }
}

fn source_ranges(service: &Value, old: Option<&Value>, problems: &mut Problems) {
    const WHY: &str = "may only be used when `type` is 'LoadBalancer'";
    let spec = service.at("spec");
    let ranges = spec.list("loadBalancerSourceRanges");
    let annotations = service.at("metadata").at("annotations");
    let balancer = spec.text("type") == "LoadBalancer";
    if !ranges.is_empty() {
        let here = SPEC.child("LoadBalancerSourceRanges");
        if !balancer {
            problems.forbidden(&here, WHY);
        }
        for (place, range) in ranges.iter().map(|range| range.str().trim()).enumerate() {
            let mut before = old.into_iter().flat_map(|old| old.at("spec").list("loadBalancerSourceRanges"));
            if !before.any(|one| one.str().trim() == range) {
                problems.form(&here.index(place), range, format::legacy_cidr);
            }
        }
    } else if annotations.has(SOURCE_RANGES) {
        let metadata = Path::root("metadata");
        let list = metadata.child("annotations");
        let here = list.key(SOURCE_RANGES);
        if !balancer {
            problems.forbidden(&here, WHY);
        }
        let text = annotations.text(SOURCE_RANGES);
        let unchanged =
            old.is_some_and(|old| old.at("metadata").at("annotations").text(SOURCE_RANGES) == text);
        if !unchanged && !text.trim().is_empty() {
            for range in text.trim().split(',') {
                problems.form(&here, range.trim(), format::legacy_cidr);
            }
        }
    }
}

fn balancer_fields(spec: &Value, old: Option<&Value>, problems: &mut Problems) {
    const WHY: &str = "may only be used when `type` is 'LoadBalancer'";
    let balancer = spec.text("type") == "LoadBalancer";
    let allocate = "allocateLoadBalancerNodePorts";
    if spec.has(allocate) && !balancer {
        problems.forbidden(&SPEC.child(allocate), WHY);
    }
    if balancer && !spec.has(allocate) {
        problems.required(&Path::root(allocate), "");
    }
    let here = SPEC.child("loadBalancerClass");
    if let Some(old) = old.map(|old| old.at("spec")) {
        let changed = old.at("loadBalancerClass") != spec.at("loadBalancerClass");
        if balancer && old.text("type") == "LoadBalancer" && changed {
            problems.invalid(&here, spec.at("loadBalancerClass").clone(), "may not change once set");
        }
    }
    if spec.has("loadBalancerClass") {
        if balancer {
            problems.form(&here, spec.text("loadBalancerClass"), format::qualified_name);
        } else {
            problems.forbidden(&here, WHY);
        }
    }
}

fn traffic_policies(spec: &Value, problems: &mut Problems) {
    let (external, here) = (spec.text("externalTrafficPolicy"), SPEC.child("externalTrafficPolicy"));
    if !reachable_from_outside(spec) {
        if !external.is_empty() {
            problems.invalid(&here, external, "may only be set for externally-accessible services");
        }
    } else if external.is_empty() {
        problems.required(&here, "");
    } else {
        problems.one_of(&here, external, &["Cluster", "Local"]);
    }
    let (port, here) =
        (spec.int("healthCheckNodePort").unwrap_or_default(), SPEC.child("healthCheckNodePort"));
    if !needs_health_check_port(spec) {
        if port != 0 {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            problems.invalid(&here, port, why);
        }
    } else if port == 0 {
        problems.required(&here, "");
    } else {
        for why in format::port_number(port) {
            problems.invalid(&here, port, why);
        }
    }
    let here = SPEC.child("internalTrafficPolicy");
    if spec.has("internalTrafficPolicy") {
        problems.one_of(&here, spec.text("internalTrafficPolicy"), &["Cluster", "Local"]);
    } else if matches!(spec.text("type"), "NodePort" | "LoadBalancer" | "ClusterIP") {
        problems.required(&here, "");
    }
    if spec.has("trafficDistribution") {
        let choices = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        problems.one_of(&SPEC.child("trafficDistribution"), spec.text("trafficDistribution"), &choices);
    }
}

pub(super) fn update(check: &Check<'_>, old: &Value, new: &Value, problems: &mut Problems) {
    if check.context.subresource == "status" {
        let at = Path::root("status");
        balancer_status(old.at("status"), new, &at.child("loadBalancer"), problems);
        return;
    }
    let (before, after) = (old.at("spec"), new.at("spec"));
    if before.text("type") != "ExternalName" && after.text("type") != "ExternalName" {
        address_changes(before, after, problems);
        family_changes(before, after, problems);
    }
    if needs_health_check_port(before)
        && needs_health_check_port(after)
        && before.int("healthCheckNodePort") != after.int("healthCheckNodePort")
    {
        problems.forbidden(&SPEC.child("healthCheckNodePort"), "field is immutable");
    }
    service(new, Some(old), problems);
}

fn address_changes(before: &Value, after: &Value, problems: &mut Problems) {
    const WHY: &str = "may not change once set";
    if headless(before) && headless(after) {
        return;
    }
    let (old, new) = (before.list("clusterIPs"), after.list("clusterIPs"));
    let here = SPEC.child("clusterIPs");
    let shown = || if new.is_empty() { Value::Null } else { Value::from(new.to_vec()) };
    if old.len() == new.len() {
        for (place, (old, ip)) in old.iter().zip(new).enumerate() {
            if old != ip {
                problems.invalid(&here.index(place), shown(), WHY);
            }
        }
        return;
    }
    if new.is_empty() {
        problems.invalid(&here.index(0), shown(), "primary clusterIP can not be unset");
    }
    if let (Some(old), Some(new)) = (old.first(), new.first())
        && old != new
    {
        problems.invalid(&here.index(0), shown(), WHY);
    }
    if old.len() > new.len() && new.len() == 1 && after.text("ipFamilyPolicy") != "SingleStack" {
        problems.invalid(
            &SPEC.child("ipFamilyPolicy"),
            after.at("ipFamilyPolicy").clone(),
            "must be set to 'SingleStack' when releasing the secondary clusterIP",
        );
    }
}

fn family_changes(before: &Value, after: &Value, problems: &mut Problems) {
    const WHY: &str = "may not change once set";
    if headless(before) || headless(after) {
        return;
    }
    let (old, new) = (before.list("ipFamilies"), after.list("ipFamilies"));
    let list = SPEC.child("ipFamilies");
    let here = list.index(0);
    if old.len() == new.len() {
        for (old, family) in old.iter().zip(new) {
            if old != family {
                problems.invalid(&here, new.to_vec(), WHY);
            }
        }
        return;
    }
    if old.len() > new.len() && after.list("clusterIPs").is_empty() {
        problems.invalid(&here, new.to_vec(), "primary ipFamily can not be unset");
    }
    if let (Some(old), Some(new)) = (old.first(), new.first())
        && old != new
    {
        problems.invalid(&here, after.list("clusterIPs").to_vec(), WHY);
    }
    if old.len() > new.len() && new.len() == 1 && after.text("ipFamilyPolicy") != "SingleStack" {
        problems.invalid(
            &SPEC.child("ipFamilyPolicy"),
            after.at("ipFamilyPolicy").clone(),
            "must be set to 'SingleStack' when releasing the secondary ipFamily",
        );
    }
}

fn balancer_status(before: &Value, service: &Value, at: &Path<'_>, problems: &mut Problems) {
    let ingresses = service.at("status").at("loadBalancer").list("ingress");
    let list = at.child("ingress");
    if service.at("spec").text("type") != "LoadBalancer" && !ingresses.is_empty() {
        problems.forbidden(&list, "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    for (place, ingress) in ingresses.iter().enumerate() {
        let here = list.index(place);
        let (ip, name) = (ingress.text("ip"), ingress.text("hostname"));
        let kept = before.at("loadBalancer").list("ingress").iter().any(|old| old.text("ip") == ip);
        if !ip.is_empty() && !kept {
            problems.form(&here.child("ip"), ip, format::legacy_ip);
        }
        let mode = here.child("ipMode");
        match (ingress.has("ipMode"), ip.is_empty()) {
            (false, false) => problems.required(&mode, "must be specified when `ip` is set"),
            (true, true) => problems.forbidden(&mode, "may not be specified when `ip` is not set"),
            (true, false) => problems.one_of(&mode, ingress.text("ipMode"), &["Proxy", "VIP"]),
            (false, true) => {}
        }
        if !name.is_empty() {
            problems.form(&here.child("hostname"), name, format::dns1123_subdomain);
            if format::sloppy_ip(name).is_some() {
                problems.invalid(&here.child("hostname"), name, "must be a DNS name, not an IP address");
            }
        }
    }
}

/// True when a list of networks has no more than one of each family.
pub(super) fn one_network_of_each_family(networks: &[Value]) -> bool {
    let parsed: Vec<IpAddr> =
        networks.iter().filter_map(|network| format::sloppy_cidr(network.str())).map(|(ip, _)| ip).collect();
    one_of_each_family(&parsed)
}

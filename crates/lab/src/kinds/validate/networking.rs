//! Policies of the network, ingresses and their classes, addresses and networks of services.

use serde_json::Value;

use super::batch::domain_path;
use super::{Check, own_metadata};
use crate::kinds::view::{Look, Path, Problems};
use crate::kinds::{format, meta, shown};

const SPEC: Path<'static> = Path::root("spec");

pub(super) fn check(check: &Check<'_>, object: &Value, old: Option<&Value>, problems: &mut Problems) {
    own_metadata(check, object, problems);
    let spec = object.at("spec");
    match (check.facts.kind, check.context.subresource, old) {
        ("NetworkPolicy", ..) => policy(spec, problems),
        ("Ingress", "status", _) => balancer_status(object.at("status").at("loadBalancer"), problems),
        ("Ingress", ..) => {
            ingress(spec, problems);
            if old.is_none() {
                matching_class(object, problems);
            }
        }
        ("IngressClass", ..) => {
            if let Some(old) = old {
                let (before, after) = (old.at("spec").text("controller"), spec.text("controller"));
                problems.immutable(&SPEC.child("controller"), &after.into(), &before.into());
            }
            ingress_class(spec, problems);
        }
        ("IPAddress", ..) => {
            parent(spec, problems);
            if let Some(old) = old {
                let before = old.at("spec").at("parentRef");
                problems.immutable_unshown(&SPEC.child("parentRef"), spec.at("parentRef"), before);
            }
        }
        ("ServiceCIDR", "", None) => networks(spec, problems),
        ("ServiceCIDR", "", Some(old)) => networks_update(old.at("spec"), spec, problems),
        _ => {}
    }
}

fn policy(spec: &Value, problems: &mut Problems) {
    meta::label_selector(spec.at("podSelector"), &SPEC.child("podSelector"), problems);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let list = SPEC.child(direction);
        for (place, rule) in spec.list(direction).iter().enumerate() {
            let at = list.index(place);
            let ports = at.child("ports");
            for (place, port) in rule.list("ports").iter().enumerate() {
                policy_port(port, &ports.index(place), problems);
            }
            let list = at.child(peers);
            for (place, peer) in rule.list(peers).iter().enumerate() {
                policy_peer(peer, &list.index(place), problems);
            }
        }
    }
    let (types, at) = (spec.list("policyTypes"), SPEC.child("policyTypes"));
    if types.len() > 2 {
        problems.invalid(&at, spec.at("policyTypes").clone(), "may not specify more than two policyTypes");
        return;
    }
    for (place, kind) in types.iter().enumerate() {
        problems.one_of(&at.index(place), kind.str(), &["Ingress", "Egress"]);
    }
}

fn policy_port(port: &Value, at: &Path<'_>, problems: &mut Problems) {
    if port.has("protocol") {
        problems.one_of(&at.child("protocol"), port.text("protocol"), &["TCP", "UDP", "SCTP"]);
    }
    let (end, here) = (port.int("endPort"), at.child("endPort"));
    match (port.at("port"), end) {
        (Value::Null, Some(end)) => {
            problems.invalid(&here, end, "may not be specified when `port` is not specified");
        }
        (Value::String(name), end) => {
            if let Some(end) = end {
                problems.invalid(&here, end, "may not be specified when `port` is non-numeric");
            }
            problems.form(&at.child("port"), name, format::port_name);
        }
        (Value::Number(number), end) => {
            let number = number.as_i64().unwrap_or_default();
            for sentence in format::port_number(number) {
                problems.invalid(&at.child("port"), number, sentence);
            }
            if let Some(end) = end {
                if end < number {
                    problems.invalid(&here, end, "must be greater than or equal to `port`");
                }
                for sentence in format::port_number(end) {
                    problems.invalid(&here, end, sentence);
                }
            }
        }
        _ => {}
    }
}

fn policy_peer(peer: &Value, at: &Path<'_>, problems: &mut Problems) {
    let mut selectors = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if peer.has(field) {
            selectors += 1;
            meta::label_selector(peer.at(field), &at.child(field), problems);
        }
    }
    if peer.has("ipBlock") {
        block(peer.at("ipBlock"), &at.child("ipBlock"), problems);
        if selectors > 0 {
            problems.forbidden(at, "may not specify both ipBlock and another peer");
        }
    } else if selectors == 0 {
        problems.required(at, "must specify a peer");
    }
}

fn block(block: &Value, at: &Path<'_>, problems: &mut Problems) {
    let whole = block.text("cidr");
    if whole.is_empty() {
        problems.declared(|problems| problems.required(&at.child("cidr"), ""));
        return;
    }
    problems.form(&at.child("cidr"), whole, format::legacy_cidr);
    let Some((network, bits)) = format::sloppy_cidr(whole) else { return };
    let list = at.child("except");
    for (place, part) in block.list("except").iter().enumerate() {
        problems.form(&list.index(place), part.str(), format::legacy_cidr);
        let Some((inside, inside_bits)) = format::sloppy_cidr(part.str()) else { continue };
        let contained = inside.is_ipv4() == network.is_ipv4()
            && format::masked(inside, bits) == format::masked(network, bits)
            && inside_bits > bits;
        if !contained {
            problems.invalid(&list.index(place), part.str(), "must be a strict subset of `cidr`");
        }
    }
}

/// The class is said in a field or, as it was in old times, in an annotation; not in both.
fn matching_class(object: &Value, problems: &mut Problems) {
    const ANNOTATION: &str = "kubernetes.io/ingress.class";
    let class = object.at("metadata").at("annotations").at(ANNOTATION);
    let spec = object.at("spec");
    if class.is_string() && spec.has("ingressClassName") && class.str() != spec.text("ingressClassName") {
        let annotations = Path::root("annotations");
        problems.invalid(
            &annotations.child(ANNOTATION),
            class.str(),
            "must match `ingressClassName` when both are specified",
        );
    }
}

fn ingress(spec: &Value, problems: &mut Problems) {
    let (rules, standard) = (spec.list("rules"), spec.at("defaultBackend"));
    if rules.is_empty() && standard.is_null() {
        problems.invalid(&SPEC, Value::Null, "either `defaultBackend` or `rules` must be specified");
    }
    if !standard.is_null() {
        backend(standard, &SPEC.child("defaultBackend"), problems);
    }
    let list = SPEC.child("rules");
    for (place, rule) in rules.iter().enumerate() {
        let at = list.index(place);
        let name = rule.text("host");
        if !name.is_empty() {
            if format::sloppy_ip(name).is_some() {
                problems.invalid(&at.child("host"), name, "must be a DNS name, not an IP address");
            }
            host(name, &at.child("host"), problems);
        }
        if rule.has("http") {
            let http = at.child("http");
            let list = http.child("paths");
            let paths = rule.at("http").list("paths");
            if paths.is_empty() {
                problems.required(&list, "");
            }
            for (place, path) in paths.iter().enumerate() {
                http_path(path, &list.index(place), problems);
            }
        }
    }
    let list = SPEC.child("tls");
    for (place, tls) in spec.list("tls").iter().enumerate() {
        let at = list.index(place);
        let hosts = at.child("hosts");
        for (place, name) in tls.list("hosts").iter().enumerate() {
            host(name.str(), &hosts.index(place), problems);
        }
        let secret = tls.text("secretName");
        if !secret.is_empty() {
            problems.form(&at.child("secretName"), secret, format::dns1123_subdomain);
        }
    }
    if spec.has("ingressClassName") {
        let class = spec.text("ingressClassName");
        problems.form(&SPEC.child("ingressClassName"), class, format::dns1123_subdomain);
    }
}

fn host(name: &str, at: &Path<'_>, problems: &mut Problems) {
    let form = if name.contains('*') { format::wildcard_subdomain } else { format::dns1123_subdomain };
    problems.form(at, name, form);
}

fn http_path(path: &Value, at: &Path<'_>, problems: &mut Problems) {
    if !path.has("pathType") {
        problems.required(&at.child("pathType"), "pathType must be specified");
        return;
    }
    let (text, here) = (path.text("path"), at.child("path"));
    match path.text("pathType") {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                problems.invalid(&here, text, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.contains(part) {
                    problems.invalid(&here, text, format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if text.ends_with(end) {
                    problems.invalid(&here, text, format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                problems.invalid(&here, text, "must be an absolute path");
            }
        }
        other => {
            problems.unsupported(
                &at.child("pathType"),
                other,
                &["Exact", "ImplementationSpecific", "Prefix"],
            );
        }
    }
    backend(path.at("backend"), &at.child("backend"), problems);
}

fn backend(backend: &Value, at: &Path<'_>, problems: &mut Problems) {
    let (service, resource) = (backend.at("service"), backend.at("resource"));
    if !service.is_null() && !resource.is_null() {
        problems.invalid(at, "", "cannot set both resource and service backends");
    } else if !resource.is_null() {
        let here = at.child("resource");
        api_group(resource, &here, problems);
        for field in ["kind", "name"] {
            match resource.text(field) {
                "" => problems.required(&here.child(field), ""),
                text => problems.form(&here.child(field), text, format::path_segment),
            }
        }
    } else if service.is_null() {
        problems.invalid(at, "", "resource or service backend is required");
    } else {
        let here = at.child("service");
        match service.text("name") {
            "" => problems.required(&here.child("name"), ""),
            name => problems.form(&here.child("name"), name, format::dns1123_label),
        }
        let (port, here) = (service.at("port"), here.child("port"));
        match (port.text("name"), port.int("number").unwrap_or_default()) {
            ("", 0) => problems.required(at, "port name or number is required"),
            ("", number) => {
                for sentence in format::port_number(number) {
                    problems.invalid(&here.child("number"), number, sentence);
                }
            }
            (name, 0) => problems.form(&here.child("name"), name, format::port_name),
            _ => problems.invalid(at, "", "cannot set both port name & port number"),
        }
    }
}

fn api_group(reference: &Value, at: &Path<'_>, problems: &mut Problems) {
    if reference.has("apiGroup") {
        problems.form(&at.child("apiGroup"), reference.text("apiGroup"), format::dns1123_subdomain);
    }
}

/// Names the schema asks for.
fn named(reference: &Value, fields: &[&str], at: &Path<'_>, problems: &mut Problems) {
    for field in fields {
        match reference.text(field) {
            "" => problems.declared(|problems| problems.required(&at.child(field), "")),
            text => problems.form(&at.child(field), text, format::path_segment),
        }
    }
}

fn balancer_status(balancer: &Value, problems: &mut Problems) {
    let status = Path::root("status");
    let at = status.child("loadBalancer");
    let list = at.child("ingress");
    for (place, ingress) in balancer.list("ingress").iter().enumerate() {
        let here = list.index(place);
        let (ip, name) = (ingress.text("ip"), ingress.text("hostname"));
        if !ip.is_empty() {
            problems.form(&here.child("ip"), ip, format::legacy_ip);
        }
        if !name.is_empty() {
            problems.form(&here.child("hostname"), name, format::dns1123_subdomain);
            if format::sloppy_ip(name).is_some() {
                problems.invalid(&here.child("hostname"), name, "must be a DNS name, not an IP address");
            }
        }
    }
}

fn ingress_class(spec: &Value, problems: &mut Problems) {
    let (controller, here) = (spec.text("controller"), SPEC.child("controller"));
    if controller.len() > 250 {
        problems.too_long(&here, 250);
    }
    domain_path(controller, &here, problems);
    let (parameters, at) = (spec.at("parameters"), SPEC.child("parameters"));
    if parameters.is_null() {
        return;
    }
    api_group(parameters, &at, problems);
    named(parameters, &["kind", "name"], &at, problems);
    let here = at.child("namespace");
    match (parameters.at("scope").as_str(), parameters.at("namespace").as_str()) {
        (None, _) => problems.required(&at.child("scope"), ""),
        (Some("Namespace"), None) => problems.required(&here, "`parameters.scope` is set to 'Namespace'"),
        (Some("Namespace"), Some(name)) => problems.form(&here, name, format::dns1123_label),
        (Some("Cluster"), Some(_)) => problems.forbidden(&here, "`parameters.scope` is set to 'Cluster'"),
        (Some("Cluster"), None) => {}
        (Some(other), _) => problems.unsupported(&at.child("scope"), other, &["Cluster", "Namespace"]),
    }
}

fn parent(spec: &Value, problems: &mut Problems) {
    let (parent, at) = (spec.at("parentRef"), SPEC.child("parentRef"));
    if parent.is_null() {
        problems.declared(|problems| problems.required(&at, ""));
        return;
    }
    let group = parent.text("group");
    if !group.is_empty() {
        problems.form(&at.child("group"), group, format::dns1123_subdomain);
    }
    named(parent, &["resource", "name"], &at, problems);
    problems.form(&at.child("namespace"), parent.text("namespace"), format::path_segment);
}

fn networks(spec: &Value, problems: &mut Problems) {
    let (networks, at) = (spec.list("cidrs"), SPEC.child("cidrs"));
    match networks.len() {
        0 => {
            problems.required(&at, "at least one CIDR required");
            return;
        }
        1 | 2 => {}
        _ => {
            let shown = shown::internal("networking.ServiceCIDRSpec", spec);
            problems.invalid_shown(&at, &shown, "may only hold up to 2 values");
            return;
        }
    }
    for (place, network) in networks.iter().enumerate() {
        problems.form(&at.index(place), network.str(), format::strict_cidr);
    }
    let family = |network: &Value| format::sloppy_cidr(network.str()).map(|(ip, _)| ip.is_ipv4());
    if let [one, other] = networks
        && family(one).is_some()
        && family(one) == family(other)
    {
        problems.invalid(
            &at,
            spec.at("cidrs").clone(),
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
        );
    }
}

fn networks_update(before: &Value, after: &Value, problems: &mut Problems) {
    let (old, new, at) = (before.list("cidrs"), after.list("cidrs"), SPEC.child("cidrs"));
    if old.len() == new.len() {
        for (place, (old, new)) in old.iter().zip(new).enumerate() {
            problems.immutable(&at.index(place), new, old);
        }
    } else if let ([old], [new, _]) = (old, new) {
        problems.immutable(&at.index(0), new, old);
        networks(after, problems);
    } else {
        problems.invalid(&at, after.at("cidrs").clone(), "field is immutable");
    }
}

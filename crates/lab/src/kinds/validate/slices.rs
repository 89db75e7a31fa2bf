//! Slices of endpoints.

use std::collections::BTreeSet;

use serde_json::Value;

use super::service::endpoint_ip;
use super::{Check, own_metadata};
use crate::kinds::view::{Look, Path, Problems, same};
use crate::kinds::{format, meta};

pub(super) fn check(check: &Check<'_>, slice: &Value, old: Option<&Value>, problems: &mut Problems) {
    own_metadata(check, slice, problems);
    let (kind, at) = (slice.text("addressType"), Path::root("addressType"));
    problems.declared(|problems| {
        if kind.is_empty() {
            problems.required(&at, "");
        } else {
            problems.one_of(&at, kind, &["FQDN", "IPv4", "IPv6"]);
        }
    });
    ports(slice.list("ports"), problems);
    if old.is_none_or(|old| !same(old.at("endpoints"), slice.at("endpoints"))) {
        endpoints(slice.list("endpoints"), kind, problems);
    }
    if let Some(old) = old {
        problems.declared(|problems| {
            problems.immutable_unshown(&at, slice.at("addressType"), old.at("addressType"));
        });
    }
}

fn ports(ports: &[Value], problems: &mut Problems) {
    let list = Path::root("ports");
    if ports.len() > 20_000 {
        problems.too_many(&list, ports.len(), 20_000);
        return;
    }
    let mut names = BTreeSet::new();
    for (place, port) in ports.iter().enumerate() {
        let at = list.index(place);
        let name = port.text("name");
        if !name.is_empty() {
            problems.form(&at.child("name"), name, format::dns1123_label);
        }
        if !names.insert(name) {
            problems.duplicate(&at.child("name"), name);
        }
        if port.has("protocol") {
            problems.one_of(&at.child("protocol"), port.text("protocol"), &["SCTP", "TCP", "UDP"]);
        } else {
            problems.required(&at.child("protocol"), "");
        }
        if port.has("appProtocol") {
            problems.form(&at.child("appProtocol"), port.text("appProtocol"), format::qualified_name);
        }
    }
}

fn endpoints(endpoints: &[Value], kind: &str, problems: &mut Problems) {
    let list = Path::root("endpoints");
    if endpoints.len() > 1000 {
        problems.too_many(&list, endpoints.len(), 1000);
        return;
    }
    for (place, endpoint) in endpoints.iter().enumerate() {
        let at = list.index(place);
        addresses(endpoint.list("addresses"), kind, &at.child("addresses"), problems);
        if endpoint.has("nodeName") {
            problems.form(&at.child("nodeName"), endpoint.text("nodeName"), format::dns1123_subdomain);
        }
        let (topology, here) = (endpoint.at("deprecatedTopology"), at.child("deprecatedTopology"));
        let count = topology.as_object().map(serde_json::Map::len).unwrap_or_default();
        if count > 16 {
            problems.too_many(&here, count, 16);
        }
        meta::labels(topology, &here, problems);
        if endpoint.has("hostname") {
            problems.form(&at.child("hostname"), endpoint.text("hostname"), format::dns1123_label);
        }
        hints(endpoint.at("hints"), &at.child("hints"), problems);
    }
}

fn addresses(addresses: &[Value], kind: &str, at: &Path<'_>, problems: &mut Problems) {
    problems.declared(|problems| {
        if addresses.is_empty() {
            problems.required(at, "");
        } else if addresses.len() > 100 {
            problems.too_many(at, addresses.len(), 100);
        }
    });
    for (place, address) in addresses.iter().enumerate() {
        let (address, here) = (address.str(), at.index(place));
        match kind {
            "IPv4" | "IPv6" => {
                let wrong =
                    if kind == "IPv4" { format::legacy_ip(address) } else { format::strict_ip(address) };
                if wrong.is_empty() {
                    let is_four = format::sloppy_ip(address).is_some_and(|ip| ip.is_ipv4());
                    if is_four != (kind == "IPv4") {
                        problems.invalid(at, address, format!("must be an {kind} address"));
                    }
                    endpoint_ip(address, &here, problems);
                } else {
                    problems.invalid_each(&here, address, wrong);
                }
            }
            "FQDN" => domain_name(address, &here, problems),
            _ => {}
        }
    }
}

fn domain_name(name: &str, at: &Path<'_>, problems: &mut Problems) {
    if name.is_empty() {
        problems.required(at, "");
        return;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let wrong = format::dns1123_subdomain(name);
    if !wrong.is_empty() {
        problems.invalid(at, name, wrong.join(","));
    } else if !name.contains('.') {
        problems.invalid(at, name, "should be a domain with at least two segments separated by dots");
    } else if let Some((label, wrong)) = name
        .split('.')
        .map(|label| (label, format::dns1123_label(label)))
        .find(|(_, wrong)| !wrong.is_empty())
    {
        problems.invalid(at, label, wrong.join(","));
    }
}

fn hints(hints: &Value, at: &Path<'_>, problems: &mut Problems) {
    type Form = fn(&str) -> Vec<String>;
    let forms: [(&str, Form); 2] =
        [("forZones", format::label_value), ("forNodes", format::dns1123_subdomain)];
    for (field, form) in forms {
        let (items, list) = (hints.list(field), at.child(field));
        if items.len() > 8 {
            problems.too_many(&list, items.len(), 8);
            return;
        }
        let mut names = BTreeSet::new();
        for (place, item) in items.iter().enumerate() {
            let (name, item_at) = (item.text("name"), list.index(place));
            let here = item_at.child("name");
            if !names.insert(name) {
                problems.duplicate(&here, name);
            }
            problems.form(&here, name, form);
        }
    }
}

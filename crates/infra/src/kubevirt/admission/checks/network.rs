//! Networks and the interfaces on them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names::is_pci_address;
use super::{Cause, Config, Field};
use crate::object::Object as _;

/// The address of the bridge inside of a pod.
const RESERVED_MAC: &str = "02:00:00:00:00:00";

/// The ways to bind an interface.
const BINDINGS: &[&str] = &["bridge", "masquerade", "sriov", "passtBinding", "slirp", "macvtap", "passt"];

pub(super) fn check(field: &Field, spec: &Value, config: &Config, causes: &mut Vec<Cause>) {
    primary(field, spec, causes);
    sources(field, spec, causes);
    names(field, spec, causes);
    for (index, interface) in spec.list("/domain/devices/interfaces").iter().enumerate() {
        let place = field.child("domain.devices.interfaces").index(index);
        let network = spec.list("/networks").iter().find(|network| network["name"] == interface["name"]);
        let network = network.unwrap_or(&Value::Null);
        form(&place, interface, causes);
        if network["pod"].is_object() {
            ports(&place, interface, causes);
        }
        binding(&place, interface, network, config, causes);
    }
}

/// At most one network is the one a machine is reached by.
fn primary(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let networks = spec.list("/networks");
    let pods = networks.iter().filter(|network| network["pod"].is_object()).count();
    let defaults = networks.iter().filter(|network| network.flag("/multus/default")).count();
    if pods > 1 {
        let place = field.child("interfaces");
        let message = format!("more than one interface is connected to a pod network in {place}");
        causes.push(Cause::duplicate(place, message));
    }
    if defaults > 1 {
        causes
            .push(Cause::invalid(field.child("networks"), "Multus CNI should only have one default network"));
    }
    if pods > 0 && defaults > 0 {
        causes.push(Cause::invalid(
            field.child("networks"),
            "Pod network cannot be defined when Multus default network is defined",
        ));
    }
}

fn sources(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    for (index, network) in spec.list("/networks").iter().enumerate() {
        let place = field.child("networks").index(index);
        let count =
            ["pod", "multus", "resourceClaim"].iter().filter(|source| network[**source].is_object()).count();
        if count == 0 {
            causes.push(Cause::required(place.clone(), "should have a network type"));
        } else if count > 1 {
            causes.push(Cause::required(place.clone(), "should have only one network type"));
        }
        if network["multus"].is_object() && network.text("/multus/networkName").is_empty() {
            causes.push(Cause::required(place, "CNI delegating plugin must have a networkName"));
        }
    }
}

/// Networks and interfaces belong together by name.
fn names(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let (networks, interfaces) = (spec.list("/networks"), spec.list("/domain/devices/interfaces"));
    let has = |list: &[Value], name: &Value| list.iter().any(|one| one["name"] == *name);
    let mut seen = BTreeSet::new();
    for (index, network) in networks.iter().enumerate() {
        let place = field.child("networks").index(index).child("name");
        let name = network.text("/name");
        if !seen.insert(name) {
            let message =
                format!("Network with name \"{name}\" already exists, every network must have a unique name");
            causes.push(Cause::duplicate(place.clone(), message));
        }
        if !has(interfaces, &network["name"]) {
            let message = format!("{place} '{name}' not found.");
            causes.push(Cause::required(place, message));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, interface) in interfaces.iter().enumerate() {
        let place = field.child("domain.devices.interfaces").index(index).child("name");
        let name = interface.text("/name");
        if !seen.insert(name) {
            let message = "Only one interface can be connected to one specific network";
            causes.push(Cause::duplicate(place.clone(), message));
        }
        if !has(networks, &interface["name"]) {
            let message = format!("{place} '{name}' not found.");
            causes.push(Cause::invalid(place, message));
        }
    }
}

fn form(place: &Field, interface: &Value, causes: &mut Vec<Cause>) {
    let name = interface.text("/name");
    let named = place.child("name");
    if name.is_empty()
        || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    {
        causes.push(Cause::invalid(
            named.clone(),
            "Network interface name can only contain alphabetical characters, numbers, dashes (-) or underscores (_)",
        ));
    }
    let model = interface.text("/model");
    if !matches!(model, "" | "e1000" | "e1000e" | "igb" | "ne2k_pci" | "pcnet" | "rtl8139" | "virtio") {
        let message = format!("interface {named} uses model {model} that is not supported.");
        causes.push(Cause::not_supported(place.child("model"), message));
    }
    let mac = interface.text("/macAddress");
    if !mac.is_empty() {
        match mac_bytes(mac) {
            None => {
                let message = format!("interface {named} has malformed MAC address ({mac}).");
                causes.push(Cause::invalid(place.child("macAddress"), message));
            }
            Some(bytes) if bytes > 6 => {
                let message = format!("interface {named} has MAC address ({mac}) that is too long.");
                causes.push(Cause::invalid(place.child("macAddress"), message));
            }
            Some(_) => {}
        }
    }
    let address = interface.text("/pciAddress");
    if !address.is_empty() && !is_pci_address(address) {
        let message = format!("interface {named} has malformed PCI address ({address}).");
        causes.push(Cause::invalid(place.child("pciAddress"), message));
    }
    let state = interface.text("/state");
    if !matches!(state, "" | "up" | "down" | "absent") {
        let message = format!("logical {name} interface state value is unsupported: {state}");
        causes.push(Cause::invalid(place.child("state"), message));
    }
}

/// How many bytes a hardware address has; nothing where it is none.
fn mac_bytes(text: &str) -> Option<usize> {
    let separator = if text.contains('-') { '-' } else { ':' };
    let parts: Vec<&str> = text.split(separator).collect();
    let fine = parts.iter().all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    (fine && matches!(parts.len(), 6 | 8 | 20)).then_some(parts.len())
}

fn ports(place: &Field, interface: &Value, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, port) in interface.list("/ports").iter().enumerate() {
        let place = place.child("ports").index(index);
        let name = port.text("/name");
        if !name.is_empty() && !seen.insert(name) {
            let message = format!("Duplicate name of the port: {name}");
            causes.push(Cause::duplicate(place.child("name"), message));
        }
        if !name.is_empty() && !is_port_name(name) {
            let message = format!("Invalid name of the port: {name}");
            causes.push(Cause::invalid(place.child("name"), message));
        }
        match port.number("/port").unwrap_or_default() {
            0 => causes.push(Cause::required(place.clone(), "Port field is mandatory.")),
            1..=65535 => {}
            _ => causes.push(Cause::invalid(place.clone(), "Port field must be in range 0 < x < 65536.")),
        }
        if !matches!(port.text("/protocol"), "" | "TCP" | "UDP") {
            let message = "Unknown protocol, only TCP or UDP allowed";
            causes.push(Cause::invalid(place.child("protocol"), message));
        }
    }
}

fn is_port_name(name: &str) -> bool {
    name.len() <= 15
        && super::names::label(name).is_empty()
        && name.bytes().any(|byte| byte.is_ascii_lowercase())
        && !name.contains("--")
}

fn binding(place: &Field, interface: &Value, network: &Value, config: &Config, causes: &mut Vec<Cause>) {
    let name = interface.text("/name");
    let bound: Vec<&&str> = BINDINGS.iter().filter(|binding| interface[**binding].is_object()).collect();
    if interface["binding"].is_object() && !bound.is_empty() {
        let message =
            format!("logical {name} interface cannot have both binding plugin and interface binding method");
        causes.push(Cause::invalid(place.child("binding"), message));
    } else if bound.len() > 1 {
        let message = format!("logical {name} interface cannot have more than one interface binding method");
        causes.push(Cause::invalid(place.clone(), message));
    } else if bound.is_empty() && interface["binding"].is_null() && interface.text("/state") != "absent" {
        let message = format!("logical {name} interface must have an interface binding method");
        causes.push(Cause::required(place.clone(), message));
    }
    let on_pod = network["pod"].is_object();
    if interface["masquerade"].is_object() {
        if !on_pod {
            let message = "Masquerade interface only implemented with pod network";
            causes.push(Cause::invalid(place.child("name"), message));
        }
        if interface.text("/macAddress").eq_ignore_ascii_case(RESERVED_MAC) {
            causes.push(Cause::invalid(
                place.child("macAddress"),
                "The requested MAC address is reserved for the in-pod bridge. Please choose another one.",
            ));
        }
    }
    if interface["bridge"].is_object() && on_pod && !config.bridge_on_pod_network() {
        let message = "Bridge on pod network configuration is not enabled under kubevirt-config";
        causes.push(Cause::invalid(place.child("name"), message));
    }
    if interface["passtBinding"].is_object() && !on_pod {
        let message = "Passt network binding is only supported with pod network";
        causes.push(Cause::invalid(place.child("name"), message));
    }
}

/// Bindings that old machines may have, but new ones may not.
pub fn discontinued(field: &Field, spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, interface) in spec.list("/domain/devices/interfaces").iter().enumerate() {
        for (binding, told) in [
            ("slirp", "Slirp interface support has been discontinued since v1.3"),
            ("macvtap", "Macvtap network binding support has been discontinued since v1.3"),
            ("passt", "Passt network binding support has been discontinued since v1.3"),
        ] {
            if interface[binding].is_object() {
                let place = field.child("domain.devices.interfaces").index(index).child(binding);
                causes.push(Cause::invalid(place, told));
            }
        }
    }
    causes
}

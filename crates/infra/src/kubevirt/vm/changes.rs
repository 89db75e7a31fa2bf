//! What a change of a machine means for its running instance: it follows, or it has to wait for a restart.

use serde_json::{Map, Value, json};

use crate::kubevirt::instance::is_hotplugged;
use crate::kubevirt::names::GENERATION_ANNOTATION;
use crate::kubevirt::vmi::networks;
use crate::object::{Object as _, escaped};
use crate::quantity;

/// The fields of an instance's specification that simply follow the machine's.
const FOLLOWING: &[&str] = &["nodeSelector", "affinity", "tolerations"];

/// Why a running instance cannot follow its machine, in KubeVirt's words; nothing where it can. `old` and `new` are
/// the specifications of the template when the instance was made, and now, both with their shapes applied.
pub fn restart_reason(old: &Value, new: &Value, vmi: &Value) -> Option<&'static str> {
    if let Some(reason) = processors_reason(old, new, vmi) {
        return Some(reason);
    }
    if let Some(reason) = memory_reason(old, new, vmi) {
        return Some(reason);
    }
    let moves = networks_change(new, vmi) && !vmi.condition_holds("LiveMigratable");
    (moves || settled(old, new, Side::Old) != settled(new, old, Side::New))
        .then_some("a non-live-updatable field was changed in the template spec")
}

/// Whether an instance gets other networks than it has: they reach it with its next pod, and so by a migration.
fn networks_change(new: &Value, vmi: &Value) -> bool {
    let (now, then) = (vmi.at("/spec"), interfaces(new, vmi));
    let then = json!({"domain": {"devices": {"interfaces": then.0}}, "networks": then.1});
    networks::annotation(&json!({"spec": now})) != networks::annotation(&json!({"spec": then}))
}

fn processors_reason(old: &Value, new: &Value, vmi: &Value) -> Option<&'static str> {
    let sockets = |spec: &Value| spec.number("/domain/cpu/sockets").unwrap_or(1);
    let (before, after) = (sockets(old), sockets(new));
    if before == after {
        return None;
    }
    if !vmi.condition_holds("LiveMigratable") {
        return Some("CPU sockets updated in template spec. Hotplug is only available for migratable VMs");
    }
    if after < before {
        return Some("Reduction of CPU socket count requires a restart");
    }
    let most = vmi.number("/spec/domain/cpu/maxSockets").unwrap_or_default();
    (after > most).then_some(
        "CPU sockets updated in template spec to a value higher than what's available; increase the maxSockets value",
    )
}

fn memory_reason(old: &Value, new: &Value, vmi: &Value) -> Option<&'static str> {
    let guest = |spec: &Value| quantity::whole(spec.at("/domain/memory/guest"));
    let (before, after) = (guest(old), guest(new));
    if before == after {
        return None;
    }
    if !vmi.condition_holds("LiveMigratable") {
        return Some("memory updated in template spec. Hotplug is only available for migratable VMs");
    }
    if after < quantity::whole(vmi.at("/status/memory/guestAtBoot")) {
        return Some("memory updated in template spec to a value lower than what the VM started with");
    }
    (after > quantity::whole(vmi.at("/spec/domain/memory/maxGuest"))).then_some(
        "memory updated in template spec to a value higher than what's available; increase the maxGuest value",
    )
}

/// Which of two specifications is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Old,
    New,
}

/// A specification without what may change while the machine runs. `other` is what it is compared with: what is only
/// on one side and can be plugged in or out does not count.
fn settled(spec: &Value, other: &Value, side: Side) -> Value {
    let mut spec = spec.clone();
    for path in ["/domain/cpu/sockets", "/domain/memory/guest"] {
        spec.unset(path);
    }
    for name in FOLLOWING {
        spec.unset(&format!("/{name}"));
    }
    let plugged = |side: &Value| -> Vec<String> {
        let volumes = side.list("/volumes").iter().filter(|volume| is_hotplugged(volume));
        volumes.map(|volume| volume.text("/name").to_owned()).collect()
    };
    let names = [plugged(&spec), plugged(other)].concat();
    retain(&mut spec, "/volumes", |volume| !names.iter().any(|name| volume["name"] == *name));
    retain(&mut spec, "/domain/devices/disks", |disk| !names.iter().any(|name| disk["name"] == *name));
    settle_interfaces(&mut spec, other, side);
    // A list that lost its last element is as good as none.
    prune(&mut spec);
    spec
}

/// Interfaces on additional networks are added, and the state of a link changes. One that is to go is `absent` first:
/// it cannot simply be left out.
fn settle_interfaces(spec: &mut Value, other: &Value, side: Side) {
    let is_secondary = |name: &Value| {
        spec.list("/networks").iter().any(|network| network["name"] == *name && network["multus"].is_object())
    };
    let known = |name: &Value| other.list("/networks").iter().any(|network| network["name"] == *name);
    let come: Vec<Value> = spec
        .list("/domain/devices/interfaces")
        .iter()
        .map(|interface| interface["name"].clone())
        .filter(|name| side == Side::New && is_secondary(name) && !known(name))
        .collect();
    retain(spec, "/networks", |network| !come.contains(&network["name"]));
    retain(spec, "/domain/devices/interfaces", |interface| !come.contains(&interface["name"]));
    if let Some(interfaces) = spec.pointer_mut("/domain/devices/interfaces").and_then(Value::as_array_mut) {
        for interface in interfaces {
            interface.unset("/state");
        }
    }
    if let Some(networks) = spec.pointer_mut("/networks").and_then(Value::as_array_mut) {
        for network in networks {
            network.unset("/multus/networkName");
        }
    }
}

fn retain(spec: &mut Value, pointer: &str, keep: impl Fn(&Value) -> bool) {
    if let Some(list) = spec.pointer_mut(pointer).and_then(Value::as_array_mut) {
        list.retain(|one| keep(one));
    }
}

/// Removes what is empty, which is the same as what is not there.
fn prune(value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        map.values_mut().for_each(prune);
        map.retain(|_, one| !(one.is_null() || one.as_array().is_some_and(Vec::is_empty)));
    } else if let Some(list) = value.as_array_mut() {
        list.iter_mut().for_each(prune);
    }
}

/// The merge patch that makes a running instance follow its machine; nothing where it does. `new` is the
/// specification of the template now, with its shape applied. Whoever calls has made sure that it can follow.
pub fn follow(new: &Value, vmi: &Value, generation: i64) -> Option<Value> {
    let mut spec = Map::new();
    for name in FOLLOWING {
        if !same(&new[*name], &vmi["spec"][*name]) {
            spec.insert((*name).to_owned(), new[*name].clone());
        }
    }
    let mut patch = json!({});
    if let Some(sockets) = new.number("/domain/cpu/sockets")
        && vmi.number("/spec/domain/cpu/sockets").is_some_and(|now| now != sockets)
    {
        patch.set("/spec/domain/cpu/sockets", sockets.into());
    }
    let guest = new.at("/domain/memory/guest");
    let now = vmi.at("/spec/domain/memory/guest");
    if !guest.is_null() && !now.is_null() && quantity::of(guest) != quantity::of(now) {
        patch.set("/spec/domain/memory/guest", guest.clone());
    }
    for (name, value) in spec {
        patch.set(&format!("/spec/{name}"), value);
    }
    let (interfaces, networks) = interfaces(new, vmi);
    if interfaces != vmi.list("/spec/domain/devices/interfaces") {
        patch.set("/spec/domain/devices/interfaces", interfaces.into());
    }
    if networks != vmi.list("/spec/networks") {
        patch.set("/spec/networks", networks.into());
    }
    if vmi.annotation(GENERATION_ANNOTATION) != generation.to_string() {
        patch.set(
            &format!("/metadata/annotations/{}", escaped(GENERATION_ANNOTATION)),
            generation.to_string().into(),
        );
    }
    patch.as_object().is_some_and(|patch| !patch.is_empty()).then_some(patch)
}

/// The interfaces and networks of an instance as its machine wants them: links as they are there, networks by the
/// attachment they have there, and those on additional networks that are new.
fn interfaces(new: &Value, vmi: &Value) -> (Vec<Value>, Vec<Value>) {
    let named = |list: &[Value], name: &Value| list.iter().find(|one| one["name"] == *name).cloned();
    let wished = new.list("/domain/devices/interfaces");
    let mut interfaces = vmi.list("/spec/domain/devices/interfaces").to_vec();
    let mut networks = vmi.list("/spec/networks").to_vec();
    for interface in &mut interfaces {
        let Some(wish) = named(wished, &interface["name"]) else { continue };
        match wish.text("/state") {
            "" => interface.unset("/state"),
            state => interface.set("/state", state.into()),
        }
    }
    for network in networks.iter_mut().filter(|network| network["multus"].is_object()) {
        let wish = named(new.list("/networks"), &network["name"]).unwrap_or_default();
        if wish["multus"].is_object() {
            network["multus"]["networkName"] = wish["multus"]["networkName"].clone();
        }
    }
    for network in new.list("/networks").iter().filter(|network| network["multus"].is_object()) {
        let interface = named(wished, &network["name"]).filter(|interface| interface["state"] != "absent");
        if let Some(interface) = interface.filter(|_| named(&networks, &network["name"]).is_none()) {
            interfaces.push(interface);
            networks.push(network.clone());
        }
    }
    (interfaces, networks)
}

/// Whether two values mean the same: what is empty is as good as what is not there.
fn same(one: &Value, other: &Value) -> bool {
    let (mut one, mut other) = (json!({"it": one}), json!({"it": other}));
    prune(&mut one);
    prune(&mut other);
    let empty =
        |value: &Value| value.at("/it").as_object().is_some_and(Map::is_empty) || value.at("/it").is_null();
    one == other || (empty(&one) && empty(&other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Value {
        json!({
            "domain": {
                "cpu": {"sockets": 2, "cores": 1}, "memory": {"guest": "2Gi"},
                "devices": {
                    "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                    "interfaces": [{"name": "default", "masquerade": {}}],
                },
            },
            "networks": [{"name": "default", "pod": {}}],
            "volumes": [{"name": "root", "dataVolume": {"name": "root"}}],
        })
    }

    fn vmi() -> Value {
        let mut spec = spec();
        spec.set("/domain/cpu/maxSockets", 8.into());
        spec.set("/domain/memory/maxGuest", "8Gi".into());
        json!({
            "metadata": {"annotations": {"kubevirt.io/vm-generation": "1"}},
            "spec": spec,
            "status": {
                "memory": {"guestAtBoot": "2Gi"},
                "conditions": [{"type": "LiveMigratable", "status": "True"}],
            },
        })
    }

    fn changed(pointer: &str, value: Value) -> Value {
        let mut new = spec();
        new.set(pointer, value);
        new
    }

    #[test]
    fn what_may_change_while_it_runs() {
        for (pointer, value) in [
            ("/domain/cpu/sockets", json!(4)),
            ("/domain/memory/guest", json!("4Gi")),
            ("/nodeSelector", json!({"zone": "a"})),
            ("/affinity", json!({"nodeAffinity": {}})),
            ("/tolerations", json!([{"key": "a", "operator": "Exists"}])),
        ] {
            let new = changed(pointer, value.clone());
            assert_eq!(restart_reason(&spec(), &new, &vmi()), None, "{pointer}");
            let patch = follow(&new, &vmi(), 2).unwrap();
            assert_eq!(patch.at(&format!("/spec{pointer}")), &value);
            assert_eq!(patch.annotation(GENERATION_ANNOTATION), "2");
        }
        assert_eq!(follow(&spec(), &vmi(), 1), None);
    }

    #[test]
    fn what_needs_a_restart() {
        for (pointer, value) in [
            ("/domain/cpu/cores", json!(2)),
            ("/domain/cpu/sockets", json!(1)),
            ("/domain/cpu/sockets", json!(16)),
            ("/domain/memory/guest", json!("1Gi")),
            ("/domain/memory/guest", json!("16Gi")),
            ("/hostname", json!("other")),
            ("/volumes", json!([{"name": "root", "dataVolume": {"name": "another"}}])),
            ("/terminationGracePeriodSeconds", json!(1)),
        ] {
            assert!(
                restart_reason(&spec(), &changed(pointer, value.clone()), &vmi()).is_some(),
                "{pointer} {value}"
            );
        }
    }

    #[test]
    fn what_cannot_move_cannot_grow() {
        let mut fixed = vmi();
        fixed.unset("/status/conditions");
        let reason = restart_reason(&spec(), &changed("/domain/cpu/sockets", json!(4)), &fixed).unwrap();
        assert!(reason.contains("migratable"), "{reason}");
        assert!(restart_reason(&spec(), &changed("/domain/memory/guest", json!("4Gi")), &fixed).is_some());
    }

    #[test]
    fn links_follow() {
        let mut down = spec();
        down.set("/domain/devices/interfaces/0/state", "down".into());
        assert_eq!(restart_reason(&spec(), &down, &vmi()), None);
        let mut instance = json!({"spec": spec()});
        let patch = follow(&down, &instance, 1).unwrap();
        assert_eq!(patch.text("/spec/domain/devices/interfaces/0/state"), "down");
        instance["spec"] = down;
        let patch = follow(&spec(), &instance, 1).unwrap();
        assert!(patch.at("/spec/domain/devices/interfaces/0/state").is_null());
        assert_eq!(patch.text("/spec/domain/devices/interfaces/0/name"), "default");
    }

    #[test]
    fn disks_and_interfaces_are_plugged_in() {
        let mut new = spec();
        let volume =
            json!({"name": "data", "persistentVolumeClaim": {"claimName": "data", "hotpluggable": true}});
        new["volumes"].as_array_mut().unwrap().push(volume);
        let disks = new.pointer_mut("/domain/devices/disks").unwrap().as_array_mut().unwrap();
        disks.push(json!({"name": "data", "disk": {"bus": "scsi"}}));
        new["networks"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "blue", "multus": {"networkName": "blue"}}));
        let interfaces = new.pointer_mut("/domain/devices/interfaces").unwrap().as_array_mut().unwrap();
        interfaces.push(json!({"name": "blue", "bridge": {}}));
        assert_eq!(restart_reason(&spec(), &new, &vmi()), None);
        let patch = follow(&new, &vmi(), 1).unwrap();
        assert_eq!(patch.at("/spec/networks"), new.at("/networks"));
        assert_eq!(patch.at("/spec/domain/devices/interfaces"), new.at("/domain/devices/interfaces"));
        let mut fixed = vmi();
        fixed.unset("/status/conditions");
        assert!(restart_reason(&spec(), &new, &fixed).is_some(), "what cannot move gets no interface");
        assert!(restart_reason(&new, &spec(), &vmi()).is_some(), "an interface cannot simply be left out");
        // Another attachment behind a network it has, and an interface that is to go.
        let mut plugged = vmi();
        plugged["spec"]["networks"] = new["networks"].clone();
        plugged["spec"]["domain"]["devices"]["interfaces"] = new["domain"]["devices"]["interfaces"].clone();
        let mut other = new.clone();
        other.set("/networks/1/multus/networkName", "green".into());
        assert_eq!(restart_reason(&new, &other, &plugged), None);
        assert_eq!(follow(&other, &plugged, 1).unwrap().text("/spec/networks/1/multus/networkName"), "green");
        let mut gone = new.clone();
        gone.set("/domain/devices/interfaces/1/state", "absent".into());
        assert_eq!(restart_reason(&new, &gone, &plugged), None);
        let patch = follow(&gone, &plugged, 1).unwrap();
        assert_eq!(patch.text("/spec/domain/devices/interfaces/1/state"), "absent");
    }
}

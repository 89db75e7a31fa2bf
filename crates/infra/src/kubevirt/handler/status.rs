//! What virt-handler says of an instance. Everything here is pure.

use serde_json::{Value, json};

use super::plan::specified_interfaces;
use crate::kubevirt::instance::{claim_of, guest_memory, phase, set_phase};
use crate::kubevirt::vmi::networks::{is_primary, network_of, pod_interface};
use crate::kubevirt::vmi::resources;
use crate::kubevirt::vmi::status::Find;
use crate::object::{Condition, Object as _, drop_condition};
use crate::quantity;
use crate::world::machine::{Agent, Interface, Plan, State};

/// How many interfaces only the guest knows of are told at most.
const GUEST_INTERFACES: usize = 10;

/// What the status depends on.
pub struct Facts<'a> {
    /// What the machine is made of.
    pub plan: &'a Plan,
    /// How it is.
    pub state: &'a State,
    /// What its agent tells.
    pub agent: Option<&'a Agent>,
    /// Whether what was added to it while it ran has reached the guest.
    pub settled: bool,
    /// Finds a claim by its name.
    pub claim: Find<'a>,
    /// The time.
    pub now: &'a str,
}

/// Says what a handler knows of an instance before its machine runs: whether it could be moved. False if it was said.
pub fn accepted(vmi: &mut Value, claim: Find<'_>, now: &str) -> bool {
    if !vmi.condition("LiveMigratable").is_null() {
        return false;
    }
    migratable(vmi, claim, now);
    true
}

/// Brings the status of an instance whose machine runs up to date. What an agent tells comes after it was said that the
/// machine runs: nobody who watches sees both at once, however fast the guest is.
pub fn running(vmi: &mut Value, facts: &Facts<'_>) {
    let spec = vmi.at("/spec").clone();
    let facts = &Facts { agent: facts.agent.filter(|_| phase(vmi) == "Running"), ..*facts };
    set_phase(vmi, "Running", facts.now);
    drop_condition(vmi, "Synchronized");
    shape(vmi, &spec, facts.settled);
    let interfaces = interfaces(vmi, facts);
    if !interfaces.is_empty() {
        vmi.set("/status/interfaces", interfaces.into());
    }
    volumes(vmi, facts.plan);
    paused(vmi, *facts.state == State::Paused, facts.now);
    agent(vmi, facts);
    migratable(vmi, facts.claim, facts.now);
}

/// Takes back what only a running machine has.
pub fn ended(vmi: &mut Value, phase: &str, now: &str) {
    set_phase(vmi, phase, now);
    for kind in ["AgentConnected", "Paused"] {
        drop_condition(vmi, kind);
    }
    if vmi.condition_holds("Ready") {
        Condition::new("Ready", false, "GuestNotRunning", "Guest VM is not reported as running")
            .put(vmi, now);
    }
    vmi.unset("/status/guestOSInfo");
}

/// Processors, memory and the type of machine, as they were when it started.
fn shape(vmi: &mut Value, spec: &Value, settled: bool) {
    let one = |name: &str| spec.number(&format!("/domain/cpu/{name}")).unwrap_or(1);
    if settled || vmi.at("/status/currentCPUTopology").is_null() {
        let topology = json!({"cores": one("cores"), "sockets": one("sockets"), "threads": one("threads")});
        vmi.set("/status/currentCPUTopology", topology);
    }
    let guest = quantity::bytes(guest_memory(spec));
    if vmi.at("/status/memory/guestAtBoot").is_null() {
        vmi.set("/status/memory/guestAtBoot", guest.clone().into());
    }
    if settled || vmi.at("/status/memory/guestCurrent").is_null() {
        vmi.set("/status/memory/guestCurrent", guest.clone().into());
        vmi.set("/status/memory/guestRequested", guest.into());
        vmi.set("/status/memory/memoryOverhead", quantity::bytes(resources::overhead(spec)).into());
    }
    let machine = match spec.text("/domain/machine/type") {
        "" => "q35",
        given => given,
    };
    vmi.set("/status/machine/type", machine.into());
}

fn interfaces(vmi: &Value, facts: &Facts<'_>) -> Vec<Value> {
    let seen = facts.agent.map(|agent| agent.interfaces.as_slice()).unwrap_or_default();
    let mut entries: Vec<(bool, Value)> = facts
        .plan
        .interfaces
        .iter()
        .map(|interface| (!interface.network.is_empty(), entry(vmi, interface, seen)))
        .collect();
    // The one every pod has comes first, whatever the specification says.
    entries.sort_by_key(|(secondary, _)| *secondary);
    let mut entries: Vec<Value> = entries.into_iter().map(|(_, entry)| entry).collect();
    let own = |mac: &str| facts.plan.interfaces.iter().any(|interface| interface.mac == mac);
    let others = seen.iter().filter(|(name, mac, _)| name != "lo" && !own(mac)).take(GUEST_INTERFACES);
    entries.extend(others.map(|(name, mac, addresses)| {
        let mut entry = json!({"interfaceName": name, "mac": mac, "infoSource": "guest-agent"});
        put_addresses(&mut entry, addresses);
        entry
    }));
    entries
}

/// Whether the link of an interface is to be down.
pub(super) fn is_down(vmi: &Value, name: &str) -> bool {
    specified_interfaces(vmi).iter().any(|one| one["name"] == name && one["state"] == "down")
}

/// What is told of an interface of the specification.
fn entry(vmi: &Value, interface: &Interface, seen: &[(String, String, Vec<std::net::IpAddr>)]) -> Value {
    let primary = interface.network.is_empty();
    let guest = seen.iter().find(|(_, mac, _)| *mac == interface.mac);
    let mut sources = vec!["domain"];
    if guest.is_some() {
        sources.push("guest-agent");
    }
    if !primary {
        sources.push("multus-status");
    }
    let down = is_down(vmi, &interface.name);
    let mut entry = json!({
        "name": interface.name, "mac": interface.mac, "infoSource": sources.join(", "), "queueCount": 1,
        "podInterfaceName": if primary { "eth0".to_owned() } else { pod_interface(&interface.name) },
        "linkState": if down { "down" } else { "up" },
    });
    if let Some((name, _, _)) = guest {
        entry["interfaceName"] = name.as_str().into();
    }
    let addresses = match guest {
        // What the guest sees behind masquerade is not what others reach it by.
        Some((_, _, addresses)) if !primary && !addresses.is_empty() => addresses,
        _ => &interface.addresses,
    };
    put_addresses(&mut entry, addresses);
    entry
}

fn put_addresses(entry: &mut Value, addresses: &[std::net::IpAddr]) {
    if let Some(first) = addresses.first() {
        entry["ipAddress"] = first.to_string().into();
        entry["ipAddresses"] = addresses.iter().map(ToString::to_string).collect();
    }
}

/// The targets and sizes of the disks the machine was started with.
fn volumes(vmi: &mut Value, plan: &Plan) {
    let Some(entries) = vmi.pointer_mut("/status/volumeStatus").and_then(Value::as_array_mut) else { return };
    for entry in entries.iter_mut().filter(|entry| !entry["hotplugVolume"].is_object()) {
        let Some(disk) = plan.disks.iter().find(|disk| entry["name"] == disk.name) else { continue };
        entry["target"] = disk.target.as_str().into();
        // A device that grew is larger at once; a file stays as large as it was made.
        let device = if super::plan::is_block(entry) {
            let capacity = quantity::whole(entry.at("/persistentVolumeClaimInfo/capacity/storage"));
            u64::try_from(capacity).unwrap_or_default()
        } else {
            0
        };
        let size = disk.size.max(device);
        if size > 0 {
            entry["size"] = size.into();
        }
    }
}

fn paused(vmi: &mut Value, held: bool, now: &str) {
    if held {
        Condition::new("Paused", true, "PausedByUser", "VMI was paused by user").put(vmi, now);
    } else {
        drop_condition(vmi, "Paused");
    }
}

fn agent(vmi: &mut Value, facts: &Facts<'_>) {
    if let Some(agent) = facts.agent {
        Condition::new("AgentConnected", true, "", "").put(vmi, facts.now);
        let os = if agent.os.is_object() { agent.os.clone() } else { json!({}) };
        vmi.set("/status/guestOSInfo", os);
    } else {
        drop_condition(vmi, "AgentConnected");
        vmi.set("/status/guestOSInfo", json!({}));
    }
}

/// Why something cannot be moved: in one word, and in words.
type Obstacle = (&'static str, String);

fn migratable(vmi: &mut Value, claim: Find<'_>, now: &str) {
    let disks = disk_obstacle(vmi, claim);
    let others = interface_obstacle(vmi).or_else(|| device_obstacle(vmi));
    let block = !vmi.list("/spec/volumes").iter().all(|volume| claim_of(volume).is_some());
    vmi.set(
        "/status/migrationMethod",
        if block || disks.is_some() { "BlockMigration" } else { "LiveMigration" }.into(),
    );
    for (kind, obstacle) in [
        // What else is in the way is in the way of both.
        ("LiveMigratable", others.clone().or(disks)),
        ("StorageLiveMigratable", others),
    ] {
        match obstacle {
            Some((reason, message)) => Condition::new(kind, false, reason, &message).put(vmi, now),
            None => Condition::new(kind, true, "", "").put(vmi, now),
        };
    }
}

/// Claims that only one host can have keep a machine where it is.
fn disk_obstacle(vmi: &Value, claim: Find<'_>) -> Option<Obstacle> {
    for volume in vmi.list("/spec/volumes") {
        if volume["hostDisk"].is_object() && !volume.flag("/hostDisk/shared") {
            return Some((
                "DisksNotLiveMigratable",
                "cannot migrate VMI with non-shared HostDisk".to_owned(),
            ));
        }
        let Some(name) = claim_of(volume) else { continue };
        let modes = claim(name).map(|claim| claim["spec"]["accessModes"].clone()).unwrap_or_default();
        let shared = modes.as_array().is_some_and(|modes| modes.iter().any(|mode| mode == "ReadWriteMany"));
        if !shared {
            let message = format!(
                "cannot migrate VMI: PVC {name} is not shared, live migration requires that all PVCs must be \
                 shared (using ReadWriteMany access mode)"
            );
            return Some(("DisksNotLiveMigratable", message));
        }
    }
    None
}

fn interface_obstacle(vmi: &Value) -> Option<Obstacle> {
    let allowed =
        vmi.at("/metadata/annotations").get("kubevirt.io/allow-pod-bridge-network-live-migration").is_some();
    let bridged = specified_interfaces(vmi).iter().any(|interface| {
        let network = network_of(vmi.at("/spec"), interface);
        interface["bridge"].is_object() && !network.is_null() && is_primary(network)
    });
    (bridged && !allowed).then(|| {
        let message = "cannot migrate VMI which does not use masquerade, bridge with \
                       kubevirt.io/allow-pod-bridge-network-live-migration VM annotation or a migratable plugin to \
                       connect to the pod network";
        ("InterfaceNotLiveMigratable", message.to_owned())
    })
}

fn device_obstacle(vmi: &Value) -> Option<Obstacle> {
    if ["gpus", "hostDevices"]
        .iter()
        .any(|list| !vmi.list(&format!("/spec/domain/devices/{list}")).is_empty())
    {
        let message = "VMI uses a PCI host devices".to_owned();
        return Some(("HostDeviceNotLiveMigratable", message));
    }
    (vmi.text("/spec/domain/cpu/model") == "host-passthrough").then(|| {
        let message = "VMI uses host-passthrough CPU mode which requires identical hosts".to_owned();
        ("CPUModeLiveMigratable", message)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::world::machine::{Disk, Drive, Place};

    fn vmi() -> Value {
        json!({
            "metadata": {"name": "one", "namespace": "a"},
            "spec": {
                "domain": {
                    "cpu": {"sockets": 2, "cores": 1, "threads": 1}, "memory": {"guest": "1Gi"},
                    "devices": {"interfaces": [{"name": "blue", "bridge": {}}, {"name": "default", "masquerade": {}}]},
                },
                "networks": [{"name": "blue", "multus": {"networkName": "blue"}}, {"name": "default", "pod": {}}],
                "volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": "root"}}],
            },
            "status": {"volumeStatus": [{"name": "root", "target": ""}]},
        })
    }

    fn plan() -> Plan {
        Plan {
            vmi: vmi(),
            pod: Place::default(),
            drive: Drive::default(),
            disks: vec![Disk {
                name: "root".to_owned(),
                target: "vda".to_owned(),
                size: 7,
                ..Disk::default()
            }],
            interfaces: vec![
                Interface {
                    name: "blue".to_owned(),
                    mac: "02:02".to_owned(),
                    network: "a/blue".to_owned(),
                    addresses: vec![],
                },
                Interface {
                    name: "default".to_owned(),
                    mac: "02:01".to_owned(),
                    network: String::new(),
                    addresses: vec!["10.0.0.1".parse().unwrap()],
                },
            ],
        }
    }

    fn told(state: &State, agent: Option<&Agent>, modes: &Value) -> Value {
        let claim = Arc::new(json!({"spec": {"accessModes": modes}}));
        let mut vmi = vmi();
        let facts = Facts {
            plan: &plan(),
            state,
            agent,
            settled: false,
            claim: &|_| Some(Arc::clone(&claim)),
            now: "1",
        };
        // Each step is a write of its own: first that it could be moved, then that it runs, then what its agent tells.
        assert!(accepted(&mut vmi, facts.claim, "1") && !accepted(&mut vmi, facts.claim, "1"));
        assert!(vmi.at("/status/phase").is_null());
        running(&mut vmi, &facts);
        assert!(vmi.condition("AgentConnected").is_null());
        running(&mut vmi, &facts);
        vmi
    }

    #[test]
    fn a_device_is_as_large_as_its_claim() {
        let mut vmi = vmi();
        let info = json!({"volumeMode": "Block", "capacity": {"storage": "2Ki"}});
        vmi.set("/status/volumeStatus", json!([{"name": "root", "persistentVolumeClaimInfo": info}]));
        volumes(&mut vmi, &plan());
        assert_eq!(vmi.number("/status/volumeStatus/0/size"), Some(2048));
        vmi.set("/status/volumeStatus/0/persistentVolumeClaimInfo/volumeMode", "Filesystem".into());
        volumes(&mut vmi, &plan());
        assert_eq!(vmi.number("/status/volumeStatus/0/size"), Some(7));
    }

    #[test]
    fn a_machine_without_an_agent() {
        let vmi = told(&State::Running, None, &json!(["ReadWriteMany"]));
        assert_eq!(vmi.text("/status/phase"), "Running");
        assert_eq!(vmi.text("/status/interfaces/0/name"), "default");
        assert_eq!(vmi.text("/status/interfaces/0/ipAddress"), "10.0.0.1");
        assert_eq!(vmi.text("/status/interfaces/0/infoSource"), "domain");
        assert_eq!(vmi.text("/status/interfaces/0/podInterfaceName"), "eth0");
        assert!(vmi.at("/status/interfaces/1/ipAddress").is_null());
        assert_eq!(vmi.at("/status/volumeStatus"), &json!([{"name": "root", "target": "vda", "size": 7}]));
        assert_eq!(vmi.at("/status/currentCPUTopology"), &json!({"sockets": 2, "cores": 1, "threads": 1}));
        assert_eq!(vmi.text("/status/memory/guestAtBoot"), "1Gi");
        assert!(vmi.condition("AgentConnected").is_null() && vmi.condition("Paused").is_null());
        assert!(vmi.condition_holds("LiveMigratable"));
        assert_eq!(vmi.text("/status/migrationMethod"), "LiveMigration");
    }

    #[test]
    fn an_agent_tells_more() {
        let agent = Agent {
            os: json!({"name": "Fedora"}),
            interfaces: vec![
                ("lo".to_owned(), String::new(), vec![]),
                ("eth0".to_owned(), "02:01".to_owned(), vec!["10.0.2.2".parse().unwrap()]),
                ("eth1".to_owned(), "02:02".to_owned(), vec!["192.168.0.9".parse().unwrap()]),
                ("cni0".to_owned(), "aa:aa".to_owned(), vec!["10.1.0.1".parse().unwrap()]),
            ],
            ..Agent::default()
        };
        let vmi = told(&State::Running, Some(&agent), &json!(["ReadWriteMany"]));
        assert!(vmi.condition_holds("AgentConnected"));
        assert_eq!(vmi.text("/status/guestOSInfo/name"), "Fedora");
        assert_eq!(vmi.text("/status/interfaces/0/ipAddress"), "10.0.0.1");
        assert_eq!(vmi.text("/status/interfaces/0/infoSource"), "domain, guest-agent");
        assert_eq!(vmi.text("/status/interfaces/1/ipAddress"), "192.168.0.9");
        assert_eq!(vmi.text("/status/interfaces/2/interfaceName"), "cni0");
        assert_eq!(vmi.list("/status/interfaces").len(), 3);
    }

    #[test]
    fn a_machine_that_is_held() {
        let vmi = told(&State::Paused, None, &json!(["ReadWriteMany"]));
        assert_eq!(vmi.condition("Paused")["reason"], "PausedByUser");
    }

    #[test]
    fn what_keeps_a_machine_where_it_is() {
        let vmi = told(&State::Running, None, &json!(["ReadWriteOnce"]));
        assert_eq!(vmi.condition("LiveMigratable")["reason"], "DisksNotLiveMigratable");
        assert!(vmi.condition_holds("StorageLiveMigratable"));
        let mut bridged = vmi;
        bridged.set("/spec/domain/devices/interfaces", json!([{"name": "default", "bridge": {}}]));
        assert_eq!(interface_obstacle(&bridged).unwrap().0, "InterfaceNotLiveMigratable");
        bridged.set_annotation("kubevirt.io/allow-pod-bridge-network-live-migration", "");
        assert_eq!(interface_obstacle(&bridged), None);
    }

    #[test]
    fn the_end_takes_back_what_only_runs() {
        let mut vmi = told(&State::Paused, None, &json!(["ReadWriteMany"]));
        Condition::new("Ready", true, "", "").put(&mut vmi, "1");
        ended(&mut vmi, "Succeeded", "2");
        assert_eq!(vmi.condition("Ready")["reason"], "GuestNotRunning");
        assert!(vmi.condition("Paused").is_null() && vmi.at("/status/guestOSInfo").is_null());
        assert_eq!(vmi.text("/status/phaseTransitionTimestamps/1/phase"), "Succeeded");
    }
}

//! Runs of virtual machines.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use jiff::Timestamp;
use serde::Deserialize;

use super::meta::{Condition, MadeBy, Meta, WireCondition, WireMeta, or_default, time, words};
use super::seen;

/// A run of a virtual machine, as far as it is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualMachineInstance {
    /// Name, identity and age.
    pub meta: Meta,
    /// The virtual machine it is a run of.
    pub owner: Option<MadeBy>,
    /// Where it is in its life.
    pub phase: Phase,
    /// When it began to run.
    pub running_since: Option<Timestamp>,
    /// The host it is on.
    pub host: Option<Box<str>>,
    /// The host somebody wants it to leave.
    pub evacuate: Option<Box<str>>,
    /// The firmware's identifier, as the guest sees it.
    pub firmware_uuid: Option<Box<str>>,
    /// Its interfaces, the primary one first.
    pub interfaces: Vec<Interface>,
    /// What a guest behind masquerade sees as its own addresses: the same for all of them, and of use to nobody else.
    pub hidden: Vec<IpAddr>,
    /// Whether it can move while it runs; why not; nothing while that is not known.
    pub migratable: Option<Result<(), Box<Condition>>>,
    /// It is held.
    pub paused: bool,
    /// Why no host was found.
    pub unschedulable: Option<Box<Condition>>,
    /// Why it is not as it is to be.
    pub not_synchronized: Option<Box<Condition>>,
    /// Its volumes are not ready.
    pub volumes_not_ready: Option<Box<Condition>>,
    /// Why it is not ready; kept only for runs that have ended, to say why.
    pub not_ready: Option<Box<Condition>>,
    /// How its latest move went.
    pub migration: Option<Box<MigrationReport>>,
}

/// An interface and its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name in the machine's spec; empty for those that only the guest knows of.
    pub name: Box<str>,
    /// Its addresses as reported.
    pub addresses: Vec<Box<str>>,
}

/// How a move went, as the run tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    /// The move's uid.
    pub uid: Box<str>,
    /// Why it failed.
    pub failure: Option<Box<str>>,
}

words! {
    /// Where a run is in its life.
    Phase {
        /// It waits for its volumes.
        Pending = "Pending",
        /// A host is looked for.
        Scheduling = "Scheduling",
        /// A host was found.
        Scheduled = "Scheduled",
        /// It runs.
        Running = "Running",
        /// It ended as it was asked to.
        Succeeded = "Succeeded",
        /// It ended otherwise.
        Failed = "Failed",
        /// It waits for a machine that moves in from elsewhere.
        WaitingForSync = "WaitingForSync",
        /// Its host does not say.
        Unknown = "Unknown",
    }
}

/// How many interfaces, and addresses of each, are kept: a guest may report any number.
const MOST: usize = 64;

#[derive(Deserialize)]
pub(crate) struct Wire {
    metadata: WireMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Deserialize, Default)]
struct Spec {
    #[serde(default, deserialize_with = "or_default")]
    domain: Domain,
    #[serde(default, deserialize_with = "or_default")]
    networks: Vec<WireNetwork>,
}

#[derive(Deserialize, Default)]
struct Domain {
    #[serde(default, deserialize_with = "or_default")]
    firmware: Firmware,
    #[serde(default, deserialize_with = "or_default")]
    devices: Devices,
}

#[derive(Deserialize, Default)]
struct Devices {
    #[serde(default, deserialize_with = "or_default")]
    interfaces: Vec<WireBinding>,
}

#[derive(Deserialize)]
struct WireBinding {
    #[serde(default)]
    masquerade: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct WireNetwork {
    #[serde(default)]
    pod: Option<PodNetwork>,
}

#[derive(Deserialize)]
struct PodNetwork {
    #[serde(default, rename = "vmNetworkCIDR")]
    v4: Option<Box<str>>,
    #[serde(default, rename = "vmIPv6NetworkCIDR")]
    v6: Option<Box<str>>,
}

#[derive(Deserialize, Default)]
struct Firmware {
    #[serde(default)]
    uuid: Option<Box<str>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    phase: Phase,
    #[serde(default)]
    node_name: Option<Box<str>>,
    #[serde(default)]
    evacuation_node_name: Option<Box<str>>,
    #[serde(default, deserialize_with = "or_default")]
    interfaces: Vec<WireInterface>,
    #[serde(default, deserialize_with = "or_default")]
    conditions: Vec<WireCondition>,
    #[serde(default, deserialize_with = "or_default")]
    phase_transition_timestamps: Vec<Transition>,
    #[serde(default)]
    migration_state: Option<WireMigration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireInterface {
    #[serde(default)]
    name: Option<Box<str>>,
    #[serde(default)]
    ip_address: Option<Box<str>>,
    #[serde(default, deserialize_with = "or_default")]
    ip_addresses: Vec<Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Transition {
    #[serde(default)]
    phase: Phase,
    #[serde(default, deserialize_with = "time")]
    phase_transition_timestamp: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMigration {
    #[serde(default)]
    migration_uid: Option<Box<str>>,
    #[serde(default)]
    failed: Option<bool>,
    #[serde(default)]
    failure_reason: Option<Box<str>>,
}

fn not_empty(text: Option<Box<str>>) -> Option<Box<str>> {
    text.filter(|text| !text.is_empty())
}

/// What a guest sees as its own addresses if an interface of it is masqueraded: the second of the network it is given.
fn hidden(spec: &Spec) -> Vec<IpAddr> {
    if !spec.domain.devices.interfaces.iter().any(|interface| interface.masquerade.is_some()) {
        return Vec::new();
    }
    let pod = spec.networks.iter().find_map(|network| network.pod.as_ref());
    let second = |text: Option<&Box<str>>, otherwise: IpAddr| match text.map(|text| text.parse::<IpNet>()) {
        None => Some(otherwise),
        Some(Ok(IpNet::V4(net))) => Some(Ipv4Addr::from(u32::from(net.network()).checked_add(2)?).into()),
        Some(Ok(IpNet::V6(net))) => Some(Ipv6Addr::from(u128::from(net.network()).checked_add(2)?).into()),
        Some(Err(_)) => None,
    };
    let v4 = second(pod.and_then(|pod| pod.v4.as_ref()), Ipv4Addr::new(10, 0, 2, 2).into());
    let v6 = second(pod.and_then(|pod| pod.v6.as_ref()), Ipv6Addr::new(0xfd10, 0, 2, 0, 0, 0, 0, 2).into());
    v4.into_iter().chain(v6).collect()
}

fn interface(wire: WireInterface) -> Interface {
    let mut addresses: Vec<Box<str>> = Vec::new();
    for address in wire.ip_address.into_iter().chain(wire.ip_addresses) {
        if addresses.len() < MOST && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Interface { name: wire.name.unwrap_or_default(), addresses }
}

impl VirtualMachineInstance {
    pub(crate) fn narrowed(wire: Wire) -> Self {
        let Wire { mut metadata, spec, status } = wire;
        let running =
            status.phase_transition_timestamps.iter().rev().find(|step| step.phase == Phase::Running);
        let mut instance = Self {
            owner: metadata.owner("VirtualMachine"),
            meta: metadata.narrowed(),
            phase: status.phase,
            running_since: running.and_then(|step| step.phase_transition_timestamp),
            host: not_empty(status.node_name),
            evacuate: not_empty(status.evacuation_node_name),
            hidden: hidden(&spec),
            firmware_uuid: spec.domain.firmware.uuid,
            interfaces: status.interfaces.into_iter().take(MOST).map(interface).collect(),
            migratable: None,
            paused: false,
            unschedulable: None,
            not_synchronized: None,
            volumes_not_ready: None,
            not_ready: None,
            migration: status.migration_state.and_then(|state| {
                let failed = state.failed.unwrap_or_default();
                let failure = not_empty(state.failure_reason);
                let failure = failure.or_else(|| failed.then(|| "the move failed".into()));
                Some(Box::new(MigrationReport { uid: not_empty(state.migration_uid)?, failure }))
            }),
        };
        let ended = matches!(instance.phase, Phase::Failed | Phase::Succeeded);
        for condition in status.conditions {
            match &*condition.kind {
                "LiveMigratable" if condition.holds() => instance.migratable = Some(Ok(())),
                "LiveMigratable" if condition.fails() => {
                    instance.migratable = Some(Err(condition.said().into()));
                }
                "Paused" => instance.paused = condition.holds(),
                "PodScheduled" if condition.fails() => instance.unschedulable = Some(condition.said().into()),
                "Synchronized" if condition.fails() => {
                    instance.not_synchronized = Some(condition.said().into());
                }
                "DataVolumesReady" if condition.fails() => {
                    instance.volumes_not_ready = Some(condition.said().into());
                }
                "Ready" if ended && condition.fails() => instance.not_ready = Some(condition.said().into()),
                _ => {}
            }
        }
        instance
    }

    /// The hosts that something must be known of to say how it is.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.host
            .iter()
            .chain(self.evacuate.as_ref().filter(|name| Some(*name) != self.host.as_ref()))
            .map(|name| &**name)
    }
}

seen!(
    VirtualMachineInstance from Wire, machine(this) { Some(this.owner.as_ref().map_or(&this.meta.name, |owner| &owner.name)) },
    "kubevirt.io", "v1", "VirtualMachineInstance", "virtualmachineinstances", Cluster
);

//! Runs, their hosts, addresses and moves.

use std::net::IpAddr;

use trellis_platform::{
    Address, AddressKind, Evacuation, HostSeen, HostState, Instance, InstanceState, MigrationSeen,
    MigrationState, Wish,
};

use super::MachineObjects;
use super::words::{no_host, shortened};
use crate::seen::{MadeBy, Migration, MigrationPhase, Phase, VirtualMachineInstance};

/// How many addresses are shown: a guest may report any number.
const MOST_ADDRESSES: usize = 64;

/// A run.
pub(super) fn instance(
    instance: &VirtualMachineInstance,
    seen: &MachineObjects<'_>,
    wish: Option<&Wish>,
) -> Instance {
    Instance {
        uid: instance.meta.uid.to_string(),
        created: instance.meta.created,
        state: state(instance, seen),
        running_since: instance.running_since,
        host: instance.host.as_deref().map(|name| host(name, seen)),
        addresses: addresses(instance, wish),
        migratable: instance
            .migratable
            .as_ref()
            .map(|can| can.as_ref().copied().map_err(|why| shortened(why.text()))),
        evacuation: evacuation(instance, seen),
        migration: migration(instance, &seen.migrations),
    }
}

fn state(instance: &VirtualMachineInstance, seen: &MachineObjects<'_>) -> InstanceState {
    let no_place = || {
        let pods = || {
            let of_run = |owner: Option<&MadeBy>| owner.is_none_or(|owner| owner.uid == instance.meta.uid);
            let mut pods = seen.pods.iter().filter(|pod| of_run(pod.owner.as_ref()));
            pods.find_map(|pod| pod.unschedulable.as_ref())
        };
        instance.unschedulable.as_ref().or_else(pods).map(|condition| no_host(condition.text()))
    };
    match instance.phase {
        Phase::Unset | Phase::Pending | Phase::WaitingForSync => match no_place() {
            Some(why) => InstanceState::Scheduling(Some(why)),
            None => InstanceState::Pending,
        },
        Phase::Scheduling => InstanceState::Scheduling(no_place()),
        Phase::Scheduled => InstanceState::Starting,
        Phase::Running if instance.paused => InstanceState::Paused,
        Phase::Running => InstanceState::Running,
        Phase::Succeeded => InstanceState::Succeeded,
        Phase::Failed => InstanceState::Failed(failure(instance)),
        Phase::Unknown | Phase::Other => InstanceState::Unknown,
    }
}

/// Why a run failed. What the platform keeps of it is little.
fn failure(instance: &VirtualMachineInstance) -> String {
    let conditions = [&instance.not_synchronized, &instance.volumes_not_ready, &instance.not_ready];
    let mut told = conditions.into_iter().flatten().map(|condition| condition.text());
    told.find(|text| !text.is_empty()).map_or("it ended unexpectedly".to_owned(), shortened)
}

fn host(name: &str, seen: &MachineObjects<'_>) -> HostSeen {
    let unknown = |state| HostSeen { name: name.to_owned(), state, zone: None, region: None };
    let Some(hosts) = &seen.hosts else { return unknown(HostState::NotAllowedToLook) };
    let Some(host) = hosts.iter().find(|host| *host.meta.name == *name) else {
        let is_proven = seen.gone_hosts.contains(&name);
        return unknown(if is_proven { HostState::Gone } else { HostState::NotSeen });
    };
    let state = match host.silent_since {
        _ if host.out_of_service => HostState::OutOfService,
        Some(since) => HostState::Silent(since),
        None => HostState::Ready,
    };
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    HostSeen { name: name.to_owned(), state, zone: text(&host.zone), region: text(&host.region) }
}

/// Addresses of the interfaces the machine was made with, in order. Those that only the guest knows of belong to
/// what runs inside it (bridges, overlay networks), and addresses that wander between machines to none of them.
fn addresses(instance: &VirtualMachineInstance, wish: Option<&Wish>) -> Vec<Address> {
    let wandering: Vec<IpAddr> = wish.map_or_else(Vec::new, |wish| {
        let network = &wish.cluster.spec.network;
        let vips = network.api_vips.iter().chain(&network.ingress_vips);
        vips.filter_map(|vip| vip.to_string().parse().ok()).collect()
    });
    let mut addresses: Vec<Address> = Vec::new();
    let reported = instance.interfaces.iter().filter(|interface| !interface.name.is_empty());
    for text in reported.flat_map(|interface| &interface.addresses) {
        let Some(ip) = text.parse::<IpAddr>().ok().filter(|ip| is_reachable(*ip) && !wandering.contains(ip))
        else {
            continue;
        };
        let address = Address { kind: AddressKind::InternalIp, address: ip.to_string() };
        if addresses.len() < MOST_ADDRESSES && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// Whether an address means anything outside of the machine.
fn is_reachable(ip: IpAddr) -> bool {
    let local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(local || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast())
}

/// Who wants it off its host. A run that has left the host in question owes nothing.
fn evacuation(instance: &VirtualMachineInstance, seen: &MachineObjects<'_>) -> Option<Evacuation> {
    let name = instance.evacuate.as_deref()?;
    if instance.host.as_deref().is_some_and(|host| host != name) {
        return None;
    }
    // Without knowing the host, the wish is taken at its word.
    let host = seen.hosts.as_ref().and_then(|hosts| hosts.iter().find(|host| *host.meta.name == *name));
    Some(Evacuation { host: name.to_owned(), host_cordoned: host.is_none_or(|host| host.cordoned) })
}

/// The move that goes on, else the latest. Those of an earlier run say nothing of this one.
fn migration(instance: &VirtualMachineInstance, migrations: &[&Migration]) -> Option<MigrationSeen> {
    let of_this_run = |migration: &&&Migration| match &migration.instance_uid {
        Some(uid) => *uid == instance.meta.uid,
        None => migration.instance == instance.meta.name && migration.meta.created >= instance.meta.created,
    };
    let latest = migrations
        .iter()
        .filter(of_this_run)
        .max_by_key(|migration| (!migration.is_over(), migration.meta.created, &migration.meta.name))?;
    let report = instance.migration.as_ref().filter(|report| report.uid == latest.meta.uid);
    let state = match latest.phase {
        MigrationPhase::Succeeded => MigrationState::Succeeded,
        MigrationPhase::Failed => {
            let told = latest.failure.as_deref().or_else(|| report?.failure.as_deref());
            MigrationState::Failed(shortened(told.unwrap_or("the platform does not say why")))
        }
        MigrationPhase::Unset => MigrationState::Going(MigrationPhase::Pending.as_str().to_owned()),
        phase => MigrationState::Going(phase.as_str().to_owned()),
    };
    Some(MigrationSeen {
        name: latest.meta.name.to_string(),
        ours: latest.is_ours(),
        state,
        created: latest.meta.created,
    })
}

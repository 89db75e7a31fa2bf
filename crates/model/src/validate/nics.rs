//! Rules for the network interfaces of a pool's machines.

use std::collections::BTreeSet;

use crate::cluster::Cluster;
use crate::names::MacAddress;
use crate::network::{Binding, Nic, NicNetwork};
use crate::pool::{Pool, UpdateStrategy};
use crate::problem::Problems;

pub(super) fn check(cluster: Option<&Cluster>, pool: &Pool, problems: &mut Problems<'_>) {
    let nics = &pool.spec.template.nics;
    let mut names = BTreeSet::new();
    for nic in nics {
        let path = format!("template.nics[{}]", nic.name);
        if !names.insert(&nic.name) {
            problems.error("duplicate-nic", path.clone(), "two interfaces have this name", "rename one");
        }
        check_nic(cluster, pool, nic, &path, problems);
    }
    let on_pods = nics.iter().filter(|nic| matches!(nic.network, NicNetwork::Pod(_))).count();
    if on_pods > 1 {
        problems.error(
            "two-pod-nics",
            "template.nics",
            "a machine can have one interface on the pod network, not more",
            "put the others on machine networks",
        );
    }
}

fn check_nic(cluster: Option<&Cluster>, pool: &Pool, nic: &Nic, path: &str, problems: &mut Problems<'_>) {
    let on_pod_network = matches!(nic.network, NicNetwork::Pod(_));
    match (nic.binding, on_pod_network) {
        (Binding::Masquerade, false) => problems.error(
            "masquerade-off-pod-network",
            format!("{path}.binding"),
            "Masquerade is only possible on the pod network",
            "use Bridge or SRIOV",
        ),
        (Binding::Sriov, true) => problems.error(
            "sriov-on-pod-network",
            format!("{path}.binding"),
            "the pod network has no virtual functions",
            "use Masquerade or Bridge",
        ),
        _ => {}
    }
    if let (NicNetwork::Machine(name), Some(cluster)) = (&nic.network, cluster) {
        let networks = &cluster.spec.network.machine_networks;
        if !networks.iter().any(|network| network.name == *name) {
            let known: Vec<&str> = networks.iter().map(|network| network.name.as_str()).collect();
            problems.error(
                "unknown-network",
                format!("{path}.network"),
                format!("the cluster has no network {name}"),
                &format!("it has {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") }),
            );
        }
    }
    let replicas =
        pool.spec.autoscaling.map_or(pool.spec.replicas, |bounds| bounds.max.max(pool.spec.replicas));
    check_mac(pool, nic, replicas, path, problems);
    let Some(addresses) = &nic.addresses else { return };
    // A surge machine needs an address beside those of the replicas it replaces.
    let most = replicas.saturating_add(pool.spec.update.max_surge.of(replicas, true));
    if addresses.address_of(most.saturating_sub(1)).is_none() {
        problems.error(
            "too-few-addresses",
            format!("{path}.addresses.first"),
            format!(
                "{} and on has too few addresses for {most} machines, those of an update included",
                addresses.first.0
            ),
            "begin earlier or use a larger network",
        );
    }
    for (field, address) in addresses
        .gateway
        .iter()
        .map(|a| ("gateway", a))
        .chain(addresses.nameservers.iter().map(|a| ("nameservers", a)))
    {
        if !super::cluster::is_usable(*address) {
            problems.error(
                "unusable-address",
                format!("{path}.addresses.{field}"),
                format!("{address} is no address of a host"),
                "",
            );
        }
    }
    for (field, address) in [("gateway", addresses.gateway.as_ref())]
        .into_iter()
        .chain(addresses.nameservers.iter().map(|server| ("nameservers", Some(server))))
    {
        let Some(address) = address else { continue };
        if let Some(taken) =
            (0..most).find(|n| addresses.address_of(*n).is_some_and(|net| net.addr() == address.0))
        {
            problems.error(
                "address-taken-twice",
                format!("{path}.addresses.{field}"),
                format!("{address} is also the address of machine {taken} of the pool"),
                "begin the machines' addresses elsewhere",
            );
        }
    }
    if let Some(gateway) = addresses.gateway
        && !addresses.first.0.contains(&gateway.0)
    {
        problems.error(
            "gateway-outside-network",
            format!("{path}.addresses.gateway"),
            format!("the gateway {gateway} lies outside {}", addresses.first.0.trunc()),
            "choose an address of the same network",
        );
    }
}

fn check_mac(pool: &Pool, nic: &Nic, replicas: u32, path: &str, problems: &mut Problems<'_>) {
    if nic.mac.is_some() && replicas > 1 {
        problems.error(
            "one-mac-for-many",
            format!("{path}.mac"),
            format!("{replicas} machines cannot share one hardware address"),
            "leave it out: Trellis derives one for each machine where one is needed",
        );
    }
    let update = &pool.spec.update;
    if nic.mac.is_some() && update.strategy == UpdateStrategy::RollingUpdate && !update.max_surge.is_zero() {
        problems.warning(
            "mac-during-update",
            format!("{path}.mac"),
            "while the machine is replaced, the old and the new one would have the same hardware address",
            "set maxSurge to 0 and maxUnavailable to 1",
        );
    }
    if nic.mac.as_ref().is_some_and(MacAddress::is_multicast) {
        problems.error(
            "multicast-mac",
            format!("{path}.mac"),
            "this is the hardware address of a group, not of an interface",
            "use one whose second digit is 2, 6, a or e",
        );
    }
}

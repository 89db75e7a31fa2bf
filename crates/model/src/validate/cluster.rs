//! Rules for clusters.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::cluster::{Cluster, Platform};
use crate::network::{Address, Binding, Cidr, NetworkSource, Networking};
use crate::problem::Problems;

pub(super) fn check(cluster: &Cluster, problems: &mut Problems<'_>) {
    let network = &cluster.spec.network;
    if !check_counts(network, problems) {
        return;
    }
    check_ranges(network, problems);
    check_vips(cluster, problems);
    check_machine_networks(network, problems);
    for (name, flavor) in &cluster.spec.flavors {
        super::machine::check_compute(&flavor.compute, &format!("flavors.{name}.compute"), problems);
    }
    if let (Platform::Ovirt(_), false) = (&cluster.spec.platform, network.machine_networks.is_empty()) {
        problems.error(
            "networks-on-ovirt",
            "network.machineNetworks",
            "machine networks are made of network attachment definitions, which oVirt does not have",
            "name the engine's network in platform.ovirt.networkName",
        );
    }
}

/// The most networks and ranges of each kind a cluster can have. More is a slip, and costs time to look at.
const MAX_ENTRIES: usize = 32;

/// Whether lists are of a size that is worth looking into.
fn check_counts(network: &Networking, problems: &mut Problems<'_>) -> bool {
    let counts = [
        ("network.machineNetworks", network.machine_networks.len()),
        ("network.pods", network.pods.len()),
        ("network.services", network.services.len()),
        ("network.nodes", network.nodes.len()),
        ("network.allowedEgress", network.allowed_egress.len()),
    ];
    for (path, count) in counts.into_iter().filter(|(_, count)| *count > MAX_ENTRIES) {
        problems.error(
            "too-many",
            path,
            format!("{count} are more than the {MAX_ENTRIES} a cluster can have"),
            "",
        );
    }
    counts.iter().all(|(_, count)| *count <= MAX_ENTRIES)
}

fn check_ranges(network: &Networking, problems: &mut Problems<'_>) {
    let named = |name: &'static str, ranges: Vec<Cidr>| ranges.into_iter().map(move |range| (name, range));
    let all: Vec<(&str, Cidr)> = named("pods", network.pods.iter().map(|p| p.cidr).collect())
        .chain(named("services", network.services.clone()))
        .chain(named("nodes", network.nodes.clone()))
        .collect();
    for (i, (name, range)) in all.iter().enumerate() {
        for (other_name, other) in &all[..i] {
            if range.overlaps(*other) {
                problems.error(
                    "ranges-overlap",
                    format!("network.{name}"),
                    format!("{name} {range} overlaps {other_name} {other}"),
                    "choose ranges that share no address",
                );
            }
        }
    }
    for range in &network.pods {
        let Some(prefix) = range.node_prefix else { continue };
        let net = range.cidr.net();
        if prefix < net.prefix_len() || prefix > net.max_prefix_len() {
            problems.error(
                "node-prefix",
                "network.pods",
                format!("a node cannot get a /{prefix} out of {}", range.cidr),
                "choose a prefix length between that of the range and that of one address",
            );
        }
    }
}

fn check_vips(cluster: &Cluster, problems: &mut Problems<'_>) {
    let network = &cluster.spec.network;
    let lists = [("network.apiVips", &network.api_vips), ("network.ingressVips", &network.ingress_vips)];
    for (path, vips) in lists {
        for vip in vips {
            if !network.nodes.is_empty() && !network.nodes.iter().any(|range| range.contains(vip.0)) {
                problems.error(
                    "vip-outside-nodes",
                    path,
                    format!("{vip} lies in none of the machines' address ranges"),
                    "choose a free address inside network.nodes, or add its range there",
                );
            }
        }
        if let [first, second] = vips.as_slice()
            && first.0.is_ipv4() == second.0.is_ipv4()
        {
            problems.error(
                "vip-families",
                path,
                format!("{first} and {second} are of one address family"),
                "give one address, or one IPv4 and one IPv6 address",
            );
        }
        if vips.len() > 2 {
            problems.error(
                "too-many-vips",
                path,
                "there are more than two addresses",
                "give one of each family",
            );
        }
    }
    for vip in network.api_vips.iter().filter(|vip| network.ingress_vips.contains(vip)) {
        problems.error(
            "same-vip-twice",
            "network.ingressVips",
            format!("{vip} is the address of the API and of ingress"),
            "choose two different addresses",
        );
    }
    if network.api_vips.is_empty() != network.ingress_vips.is_empty() {
        problems.error(
            "one-vip-missing",
            if network.api_vips.is_empty() { "network.apiVips" } else { "network.ingressVips" },
            "there is an address for one of API and ingress, but not for the other",
            "give both or neither",
        );
    }
    let unreachable = match &cluster.spec.platform {
        Platform::Kubevirt(_) => !network.uses_pod_network() && network.default_network().is_none(),
        Platform::Ovirt(ovirt) => !ovirt.user_managed_load_balancer,
    };
    if unreachable && network.api_vips.is_empty() {
        problems.warning(
            "no-vip",
            "network.apiVips",
            "the machines are not on the pod network, and no address is given for the API",
            "give two free addresses of the machines' network in apiVips and ingressVips",
        );
    }
}

fn check_machine_networks(network: &Networking, problems: &mut Problems<'_>) {
    let mut seen = BTreeSet::new();
    let defaults = network.machine_networks.iter().filter(|network| network.default).count();
    for machine_network in &network.machine_networks {
        let path = format!("network.machineNetworks[{}]", machine_network.name);
        if !seen.insert(&machine_network.name) {
            problems.error(
                "duplicate-network",
                path.clone(),
                "there are two networks of this name",
                "rename one",
            );
        }
        if machine_network.binding == Binding::Masquerade {
            problems.error(
                "masquerade-off-pod-network",
                format!("{path}.binding"),
                "Masquerade is only possible on the pod network",
                "use Bridge or SRIOV",
            );
        }
        if machine_network.default && defaults > 1 {
            problems.error(
                "two-default-networks",
                format!("{path}.default"),
                "more than one network is to take the pod network's place",
                "set default on one network only",
            );
        }
        if let (true, NetworkSource::Tenant(tenant)) = (machine_network.default, &machine_network.source) {
            for subnet in tenant.config.subnets() {
                if !network.nodes.is_empty() && !network.nodes.iter().any(|nodes| nodes.overlaps(*subnet)) {
                    problems.error(
                        "nodes-outside-default-network",
                        "network.nodes",
                        format!(
                            "the machines get their addresses from {subnet} of network {}, which is not in {}",
                            machine_network.name,
                            network.nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                        ),
                        "make the nodes' range the same as that of the default network",
                    );
                }
            }
        }
    }
    if network.podless() {
        problems.error(
            "no-network",
            "network.attachPodNetwork",
            "the machines are on no network at all",
            "attach the pod network or add a machine network",
        );
    }
    if network.pod_network_binding == Binding::Sriov {
        problems.error(
            "sriov-on-pod-network",
            "network.podNetworkBinding",
            "the pod network has no virtual functions",
            "use Masquerade or Bridge",
        );
    }
}

impl Networking {
    /// Whether machines that list no interfaces would have none.
    fn podless(&self) -> bool {
        !self.uses_pod_network() && self.machine_networks.is_empty()
    }
}

/// Whether an address can be given to a machine or a service.
pub(super) fn is_usable(address: Address) -> bool {
    !address.0.is_unspecified()
        && !address.0.is_multicast()
        && address.0 != IpAddr::from([255, 255, 255, 255])
}

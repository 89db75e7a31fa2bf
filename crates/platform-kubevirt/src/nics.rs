//! Network interfaces, and the networks they are on.

use trellis_api::kubevirt::{Empty, Interface, MultusNetwork, Network};
use trellis_model::Cluster;
use trellis_model::network::{Binding, MachineNetwork, NetworkSource, Nic, NicNetwork, SharedNetwork};

use crate::machine::Machine;
use crate::names;

/// Lets a machine with a bridge on the pod network move between hosts. Its address changes on the way.
pub(crate) const ALLOW_BRIDGE_MIGRATION: (&str, &str) =
    ("kubevirt.io/allow-pod-bridge-network-live-migration", "true");

/// The networks of a machine, in the order of its interfaces.
pub(crate) fn networks(machine: &Machine<'_>) -> Vec<Network> {
    let nics = &machine.template().nics;
    // KubeVirt refuses a machine with two default networks: the pod network is one, and a network
    // that takes its place is one only for the first interface on it.
    let mut has_default = nics.iter().any(on_pod_network);
    let mut networks: Vec<Network> = nics.iter().filter_map(|nic| network(machine, nic)).collect();
    for multus in networks.iter_mut().filter_map(|network| network.multus.as_mut()) {
        multus.default &= !has_default;
        has_default |= multus.default;
    }
    networks
}

fn network(machine: &Machine<'_>, nic: &Nic) -> Option<Network> {
    let name = nic.name.to_string();
    let multus = match &nic.network {
        NicNetwork::Pod(_) => {
            return Some(Network { name, pod: Some(Empty {}), multus: None });
        }
        NicNetwork::Machine(wanted) => {
            let network = machine.resolved.networks.iter().find(|network| network.name == *wanted)?;
            MultusNetwork { network_name: attachment(machine.cluster, network), default: network.default }
        }
        NicNetwork::Shared(shared) => {
            MultusNetwork { network_name: shared_attachment(machine.cluster, shared), default: false }
        }
        NicNetwork::OvirtProfile(_) => return None,
    };
    Some(Network { name, pod: None, multus: Some(multus) })
}

/// `<namespace>/<name>` of the definition of a cluster's network.
fn attachment(cluster: &Cluster, network: &MachineNetwork) -> String {
    match &network.source {
        NetworkSource::Shared(shared) => shared_attachment(cluster, shared),
        NetworkSource::Tenant(_) => {
            format!("{}/{}", cluster.infra_namespace(), names::tenant_network(cluster, &network.name))
        }
    }
}

fn shared_attachment(cluster: &Cluster, shared: &SharedNetwork) -> String {
    let namespace = shared.namespace.as_ref().map_or(cluster.infra_namespace(), |n| n.as_str());
    format!("{namespace}/{}", shared.name)
}

/// The interfaces of a machine.
pub(crate) fn interfaces(machine: &Machine<'_>) -> Vec<Interface> {
    let interface = |nic: &Nic| Interface {
        name: nic.name.to_string(),
        mac_address: mac_address(machine, nic),
        masquerade: (nic.binding == Binding::Masquerade).then_some(Empty {}),
        bridge: (nic.binding == Binding::Bridge).then_some(Empty {}),
        sriov: (nic.binding == Binding::Sriov).then_some(Empty {}),
    };
    machine.template().nics.iter().map(interface).collect()
}

/// The hardware address of an interface where it must be known beforehand: the guest finds the
/// interfaces of its network data by it.
pub(crate) fn mac_address(machine: &Machine<'_>, nic: &Nic) -> Option<String> {
    match &nic.mac {
        Some(mac) => Some(mac.clone().to_string()),
        None => has_static_addresses(&machine.template().nics)
            .then(|| names::mac_address(machine.cluster, machine.name(), &nic.name)),
    }
}

/// Whether any interface has fixed addresses, so that the guest needs network data.
pub(crate) fn has_static_addresses(nics: &[Nic]) -> bool {
    nics.iter().any(|nic| nic.addresses.is_some())
}

/// Whether an interface is on the pod network.
pub(crate) fn on_pod_network(nic: &Nic) -> bool {
    matches!(nic.network, NicNetwork::Pod(_))
}

/// Whether a machine has a bridge on the pod network.
pub(crate) fn bridges_pod_network(nics: &[Nic]) -> bool {
    nics.iter().any(|nic| on_pod_network(nic) && nic.binding == Binding::Bridge)
}

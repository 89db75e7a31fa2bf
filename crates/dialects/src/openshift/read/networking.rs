//! How a cluster is connected.

use std::str::FromStr;

use trellis_api::openshift::install::{ClusterNetwork, Networking as Settings};
use trellis_model::network::{Cidr, NetworkPlugin, Networking, PodRange};

use crate::path::FieldPath;
use crate::shared::Reader;

/// Plugins by their name in manifests.
pub(in super::super) const PLUGINS: &[(&str, NetworkPlugin)] = &[
    ("OVNKubernetes", NetworkPlugin::OvnKubernetes),
    ("OpenShiftSDN", NetworkPlugin::OpenshiftSdn),
    ("Calico", NetworkPlugin::Calico),
    ("Cilium", NetworkPlugin::Cilium),
    ("Flannel", NetworkPlugin::Flannel),
    ("None", NetworkPlugin::None),
];

/// The ranges of a cluster that names none.
const PODS: (&str, u8) = ("10.128.0.0/14", 23);
const SERVICES: &str = "172.30.0.0/16";

/// Reads how a cluster is connected, apart from what depends on its platform.
pub(super) fn networking(reader: &mut Reader<'_, '_>, settings: Option<&Settings>) -> Networking {
    let at = FieldPath::root().child("networking");
    let default = Settings::default();
    let settings = settings.unwrap_or(&default);
    let pods_old = (!settings.cluster_networks.is_empty()).then_some(&settings.cluster_networks);
    let pods = moved(
        reader,
        &at,
        ("clusterNetworks", pods_old),
        ("clusterNetwork", !settings.cluster_network.is_empty()),
    );
    let (pods_key, pods) = match pods {
        Some(old) => ("clusterNetworks", old),
        None => ("clusterNetwork", &settings.cluster_network),
    };
    let services = moved(
        reader,
        &at,
        ("serviceCIDR", settings.service_cidr.as_ref()),
        ("serviceNetwork", !settings.service_network.is_empty()),
    );
    let machines = moved(
        reader,
        &at,
        ("machineCIDR", settings.machine_cidr.as_ref()),
        ("machineNetwork", !settings.machine_network.is_empty()),
    );
    let plugin = moved(
        reader,
        &at,
        ("type", settings.old_type.as_ref()),
        ("networkType", settings.network_type.is_some()),
    );
    let plugin = match plugin {
        Some(old) => (at.child("type"), Some(old)),
        None => (at.child("networkType"), settings.network_type.as_ref()),
    };

    let mut network = Networking::default();
    reader.origin("network.pods", &at.child(pods_key));
    network.pods = pod_ranges(reader, &at.child(pods_key), pods);
    reader.origin(
        "network.services",
        &at.child(if services.is_some() { "serviceCIDR" } else { "serviceNetwork" }),
    );
    network.services = match services {
        Some(old) => range(reader, &at.child("serviceCIDR"), old).into_iter().collect(),
        None => ranges(reader, &at.child("serviceNetwork"), settings.service_network.iter()),
    };
    if settings.service_network.is_empty() && services.is_none() {
        network.services.extend(Cidr::from_str(SERVICES).ok());
    }
    reader.origin(
        "network.nodes",
        &at.child(if machines.is_some() { "machineCIDR" } else { "machineNetwork" }),
    );
    network.nodes = match machines {
        Some(old) => range(reader, &at.child("machineCIDR"), old).into_iter().collect(),
        None => {
            let mut nodes = Vec::new();
            for (index, machine) in settings.machine_network.iter().enumerate() {
                nodes.extend(range(
                    reader,
                    &at.child("machineNetwork").index(index).child("cidr"),
                    &machine.cidr,
                ));
            }
            nodes
        }
    };
    reader.origin("network.plugin", &plugin.0);
    network.plugin = plugin_of(reader, &plugin.0, plugin.1);
    network
}

/// A field that moved: warned about, and not used when its successor is there too.
fn moved<'a, T: ?Sized>(
    reader: &mut Reader<'_, '_>,
    at: &FieldPath,
    (old, value): (&str, Option<&'a T>),
    (new, is_there): (&str, bool),
) -> Option<&'a T> {
    let value = value?;
    let (message, value) = if is_there {
        (format!("`{old}` is not used: `{new}`, which took its place, is there too"), None)
    } else {
        (format!("`{old}` is now called `{new}`, and is read as that"), Some(value))
    };
    reader.cx.warning("deprecated-field", &at.child(old), message, &format!("write `{new}`"));
    value
}

fn pod_ranges(reader: &mut Reader<'_, '_>, at: &FieldPath, pods: &[ClusterNetwork]) -> Vec<PodRange> {
    if pods.is_empty() {
        return PODS.0.parse().map(|cidr| PodRange { cidr, node_prefix: Some(PODS.1) }).into_iter().collect();
    }
    let mut out = Vec::new();
    for (index, pod) in pods.iter().enumerate() {
        let at = at.index(index);
        let cidr = range(reader, &at.child("cidr"), &pod.cidr);
        let mut node_prefix = pod.host_prefix;
        if let Some(length) = pod.host_subnet_length {
            let message =
                "`hostSubnetLength` is now called `hostPrefix`, and counts the other bits of an address";
            let prefix = cidr.and_then(|cidr| cidr.net().max_prefix_len().checked_sub(length));
            let help = prefix
                .map_or_else(|| "write `hostPrefix`".to_owned(), |n| format!("write `hostPrefix: {n}`"));
            reader.cx.warning("deprecated-field", &at.child("hostSubnetLength"), message, &help);
            node_prefix = node_prefix.or(prefix);
        }
        out.extend(cidr.map(|cidr| PodRange { cidr, node_prefix }));
    }
    out
}

fn ranges<'a>(
    reader: &mut Reader<'_, '_>,
    at: &FieldPath,
    texts: impl Iterator<Item = &'a String>,
) -> Vec<Cidr> {
    let mut out = Vec::new();
    for (index, text) in texts.enumerate() {
        out.extend(range(reader, &at.index(index), text));
    }
    out
}

fn range(reader: &mut Reader<'_, '_>, at: &FieldPath, text: &str) -> Option<Cidr> {
    if let Ok(cidr) = text.parse() {
        return Some(cidr);
    }
    let message = format!("`{text}` is not an address range");
    reader.cx.error("invalid-value", at, message, "write for example 10.0.0.0/16 or fd00::/48");
    None
}

fn plugin_of(reader: &mut Reader<'_, '_>, at: &FieldPath, name: Option<&String>) -> Option<NetworkPlugin> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Some(NetworkPlugin::OvnKubernetes) };
    let known = PLUGINS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    if known.is_none() {
        let names: Vec<&str> = PLUGINS.iter().map(|(name, _)| *name).collect();
        let message = format!("Trellis does not install the network plugin `{name}`: the tenant brings it");
        reader.cx.warning("unknown-plugin", at, message, &format!("Trellis installs {}", names.join(", ")));
    }
    Some(known.map_or(NetworkPlugin::None, |(_, plugin)| *plugin))
}

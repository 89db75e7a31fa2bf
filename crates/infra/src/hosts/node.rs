//! What a host looks like as a `Node`.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::client::Identity;
use crate::context::Context;
use crate::events::Recorder;
use crate::kinds::NODE;
use crate::object::Object as _;
use crate::quantity;
use crate::settings::Settings;

/// The version of Kubernetes the kubelets say they are.
const KUBELET_VERSION: &str = "v1.37.0";
/// What every host keeps back for itself, in bytes.
const RESERVED_MEMORY: i128 = 1 << 30;
/// How large the disk of a host is.
const DISK: &str = "500Gi";
/// What makes no interrupt of its own: one address of each host network is the router's.
const FIRST_HOST: u32 = 10;

/// The label for the rack of a host.
pub(crate) const RACK: &str = "topology.trellis.dev/rack";

/// The name of a host by its number.
pub fn name_of(index: usize) -> String {
    format!("host-{:04}", index + 1)
}

/// The node of a host by its number, as its kubelet registers it.
pub(crate) fn of(settings: &Settings, index: usize, now: &str) -> Value {
    let name = name_of(index);
    let networks = pod_networks(settings, index);
    let mut node = json!({
        "metadata": {
            "name": name,
            "labels": labels(settings, index),
            "annotations": {
                "kubevirt.io/heartbeat": now,
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {"providerID": format!("lab://{name}")},
        "status": {
            "capacity": capacity(settings, 0),
            "allocatable": capacity(settings, RESERVED_MEMORY),
            "addresses": addresses(settings, index),
            "conditions": conditions(now),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": node_info(&name),
            "images": [],
        },
    });
    if let Some(first) = networks.first() {
        node["spec"]["podCIDR"] = first.to_string().into();
        node["spec"]["podCIDRs"] = networks.iter().map(ToString::to_string).collect();
    }
    node
}

fn labels(settings: &Settings, index: usize) -> Value {
    let zones = settings.zones.max(1);
    let zone = index % zones;
    let rack = index / zones % settings.racks.max(1);
    let zone_name =
        format!("{}-{}", settings.region, char::from(b'a' + u8::try_from(zone % 26).unwrap_or_default()));
    let zone_name = if zones > 26 { format!("{zone_name}{}", zone / 26) } else { zone_name };
    let mut labels = json!({
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name_of(index),
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "lab.metal",
        "topology.kubernetes.io/region": settings.region,
        "topology.kubernetes.io/zone": zone_name,
        "cpumanager": "false",
        "kubevirt.io/schedulable": "true",
        "kubevirt.io/ksm-enabled": "false",
        "kubevirt.io/node-labeller": "true",
        "cpu-vendor.node.kubevirt.io/Intel": "true",
        "host-model-cpu.node.kubevirt.io/Skylake-Server": "true",
        "hyperv.node.kubevirt.io/base": "true",
    });
    labels[RACK] = format!("{zone_name}-rack-{}", rack + 1).into();
    for machine in ["q35", "pc-q35-rhel9.6.0", "pc"] {
        labels[format!("machine-type.node.kubevirt.io/{machine}")] = "true".into();
    }
    for model in
        ["Nehalem", "SandyBridge", "IvyBridge", "Haswell", "Broadwell", "Skylake-Client", "Skylake-Server"]
    {
        labels[format!("cpu-model.node.kubevirt.io/{model}")] = "true".into();
        labels[format!("cpu-model-migration.node.kubevirt.io/{model}")] = "true".into();
    }
    for feature in ["apic", "avx2", "vmx", "x2apic"] {
        labels[format!("cpu-feature.node.kubevirt.io/{feature}")] = "true".into();
    }
    labels
}

fn capacity(settings: &Settings, reserved: i128) -> Value {
    let capacity = &settings.capacity;
    let memory = quantity::milli(&capacity.memory).unwrap_or_default() / 1000;
    // A host that is smaller than what is kept back keeps nothing back.
    let memory = if memory > 4 * reserved { memory - reserved } else { memory };
    json!({
        "cpu": capacity.cpu,
        "memory": quantity::bytes(memory),
        "pods": capacity.pods.to_string(),
        "ephemeral-storage": DISK,
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "devices.kubevirt.io/kvm": capacity.kvm.to_string(),
        "devices.kubevirt.io/tun": capacity.kvm.to_string(),
        "devices.kubevirt.io/vhost-net": capacity.kvm.to_string(),
    })
}

fn addresses(settings: &Settings, index: usize) -> Value {
    let mut addresses = Vec::new();
    if let Some(address) =
        nth(&settings.host_network, FIRST_HOST.saturating_add(u32::try_from(index).unwrap_or(u32::MAX)))
    {
        addresses.push(json!({"type": "InternalIP", "address": address.to_string()}));
    }
    addresses.push(json!({"type": "Hostname", "address": name_of(index)}));
    Value::Array(addresses)
}

/// Tells that a host is ready, as its kubelet does when it becomes so.
pub(crate) async fn tell_ready(context: &Context, node: &Value) {
    let message = format!("Node {} status is now: NodeReady", node.name());
    let recorder = Recorder::new(&context.client(Identity::KUBELET), context.clock, "kubelet");
    recorder.normal(&NODE, node, "NodeReady", &message).await;
}

/// The conditions of a host on which all is well.
pub(crate) fn conditions(now: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    json!([
        condition("NetworkUnavailable", "False", "RouteCreated", "the network of the host is set up"),
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available"
        ),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ])
}

fn node_info(name: &str) -> Value {
    json!({
        "architecture": "amd64", "operatingSystem": "linux", "osImage": "Trellis lab host",
        "kernelVersion": "6.12.0-lab", "containerRuntimeVersion": "cri-o://1.37.0",
        "kubeletVersion": KUBELET_VERSION, "kubeProxyVersion": "",
        "machineID": identity(name, "machine"), "systemUUID": identity(name, "system"),
        "bootID": identity(name, "boot"),
    })
}

/// Something that looks like a UUID and is always the same for one name.
fn identity(name: &str, what: &str) -> String {
    use std::hash::Hasher as _;
    let half = |which: u64| {
        let mut hash = crate::stages::Fnv::new(which);
        hash.write(name.as_bytes());
        hash.write(what.as_bytes());
        hash.finish()
    };
    let text = format!("{:016x}{:016x}", half(1), half(2));
    format!("{}-{}-4{}-a{}-{}", &text[..8], &text[8..12], &text[13..16], &text[17..20], &text[20..])
}

/// The networks the pods of a host are in: an equal share of each pod network.
fn pod_networks(settings: &Settings, index: usize) -> Vec<IpNet> {
    let hosts = settings.hosts.max(index + 1).max(2);
    let bits = u8::try_from(usize::BITS - (hosts - 1).leading_zeros()).unwrap_or_default();
    settings.pod_networks.iter().filter_map(|network| share(network, bits, index)).collect()
}

/// The `index`-th of the parts a network is divided into by so many bits, or by more for parts of a usual size.
fn share(network: &IpNet, bits: u8, index: usize) -> Option<IpNet> {
    let usual = if network.addr().is_ipv4() { 24 } else { 64 };
    let prefix = (network.prefix_len() + bits).max(usual).max(network.prefix_len());
    let prefix = prefix.min(network.max_prefix_len());
    let size = u32::from(network.max_prefix_len() - prefix);
    let offset = u128::try_from(index).ok()?.checked_shl(size)?;
    let first = match network.network() {
        IpAddr::V4(first) => {
            IpAddr::from(first.to_bits().checked_add(u32::try_from(offset).ok()?)?.to_be_bytes())
        }
        IpAddr::V6(first) => IpAddr::from(first.to_bits().checked_add(offset)?.to_be_bytes()),
    };
    network.contains(&first).then(|| IpNet::new(first, prefix).ok())?
}

/// The `index`-th address of a network.
pub(crate) fn nth(network: &IpNet, index: u32) -> Option<IpAddr> {
    let address = match network.network() {
        IpAddr::V4(first) => IpAddr::from(first.to_bits().checked_add(index)?.to_be_bytes()),
        IpAddr::V6(first) => IpAddr::from(first.to_bits().checked_add(u128::from(index))?.to_be_bytes()),
    };
    network.contains(&address).then_some(address)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn hosts_are_spread_over_zones_and_racks() {
        let settings = Settings { hosts: 8, zones: 2, racks: 2, ..Settings::default() };
        let places: Vec<(String, String)> = (0..8)
            .map(|index| {
                let node = of(&settings, index, "now");
                (node.label("topology.kubernetes.io/zone").to_owned(), node.label(RACK).to_owned())
            })
            .collect();
        assert_eq!(places[0], ("lab-a".to_owned(), "lab-a-rack-1".to_owned()));
        assert_eq!(places[1].0, "lab-b");
        assert_eq!(places[2].1, "lab-a-rack-2");
        assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn no_two_of_many_hosts_share_addresses() {
        let settings = Settings { hosts: 8000, ..Settings::default() };
        let mut seen = BTreeSet::new();
        for index in 0..8000 {
            let node = of(&settings, index, "now");
            assert!(seen.insert(node.text("/spec/podCIDR").to_owned()), "{}", node.name());
            assert!(seen.insert(node.text("/status/addresses/0/address").to_owned()), "{}", node.name());
        }
        assert!(!seen.contains(""));
    }

    #[test]
    fn a_host_keeps_some_memory_back() {
        let node = of(&Settings::default(), 0, "now");
        assert_eq!(node.text("/status/capacity/memory"), "128Gi");
        assert_eq!(node.text("/status/allocatable/memory"), "127Gi");
    }
}

//! The networks of an instance, as its pod is told of them.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::object::Object as _;

/// The annotation with the additional networks of a pod.
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// The annotation with the network that takes the place of the cluster's.
pub const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";
/// The annotation in which Multus tells what came of it.
pub const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// What an additional interface is called inside the pod: a hash of the network's name in the instance.
pub fn pod_interface(network: &str) -> String {
    let digest = Sha256::digest(network.as_bytes());
    let mut name = "pod".to_owned();
    for byte in digest.iter().take(6) {
        // Writing to a string does not fail.
        let _ = write!(name, "{byte:02x}");
    }
    name.truncate(14);
    name
}

/// Whether a network is the one every pod has.
pub fn is_primary(network: &Value) -> bool {
    network["pod"].is_object() || network.flag("/multus/default")
}

/// The network of an interface.
pub fn network_of<'a>(spec: &'a Value, interface: &Value) -> &'a Value {
    spec.list("/networks").iter().find(|network| network["name"] == interface["name"]).unwrap_or(&Value::Null)
}

/// The namespace and name of a network attachment, which may be written without the namespace.
pub fn attachment<'a>(vmi: &'a Value, network: &'a Value) -> (&'a str, &'a str) {
    let full = network.text("/multus/networkName");
    full.split_once('/').unwrap_or((vmi.namespace(), full))
}

/// The additional networks as their annotation lists them; nothing where there are none.
pub fn annotation(vmi: &Value) -> Option<String> {
    let interfaces = vmi.list("/spec/domain/devices/interfaces");
    let mut entries = Vec::new();
    for network in vmi.list("/spec/networks") {
        if !network["multus"].is_object() || network.flag("/multus/default") {
            continue;
        }
        let interface = interfaces.iter().find(|one| one["name"] == network["name"]);
        if interface.is_some_and(|one| one["state"] == "absent") {
            continue;
        }
        let (namespace, name) = attachment(vmi, network);
        let mut entry = format!("{{\"name\":{},\"namespace\":{}", json!(name), json!(namespace));
        if let Some(mac) = interface.and_then(|one| one["macAddress"].as_str()) {
            let _ = write!(entry, ",\"mac\":{}", json!(mac));
        }
        let _ = write!(entry, ",\"interface\":{}}}", json!(pod_interface(network.text("/name"))));
        entries.push(entry);
    }
    (!entries.is_empty()).then(|| format!("[{}]", entries.join(",")))
}

/// Whether a pod is on other additional networks than its instance wants. What the instance was told by hand is left
/// alone.
pub fn differ(vmi: &Value, pod: &Value) -> bool {
    let wanted = annotation(vmi).unwrap_or_default();
    (!wanted.is_empty() || vmi.annotation(NETWORKS).is_empty()) && pod.annotation(NETWORKS) != wanted
}

/// The network that takes the place of the cluster's, if one does.
pub fn default_network(vmi: &Value) -> Option<String> {
    let network = vmi.list("/spec/networks").iter().find(|network| network.flag("/multus/default"))?;
    let (namespace, name) = attachment(vmi, network);
    Some(format!("{namespace}/{name}"))
}

/// The ports the interfaces say they are for.
pub fn ports(vmi: &Value) -> Vec<Value> {
    let interfaces = vmi.list("/spec/domain/devices/interfaces").iter();
    interfaces
        .flat_map(|interface| interface.list("/ports"))
        .map(|port| {
            let protocol = match port.text("/protocol") {
                "" => "TCP",
                given => given,
            };
            let mut own = json!({"containerPort": port["port"], "protocol": protocol});
            if port["name"].is_string() {
                own["name"] = port["name"].clone();
            }
            own
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_called_after_their_network() {
        assert_eq!(pod_interface("blue").len(), 14);
        assert_eq!(pod_interface("blue"), "pod16477688c0e");
    }

    #[test]
    fn only_additional_networks_are_listed() {
        let vmi = json!({
            "metadata": {"namespace": "a"},
            "spec": {"networks": [{"name": "default", "pod": {}}]},
        });
        assert_eq!(annotation(&vmi), None);
        let vmi = json!({
            "metadata": {"namespace": "a"},
            "spec": {"networks": [{"name": "n", "multus": {"networkName": "vlan", "default": true}}]},
        });
        assert_eq!(annotation(&vmi), None);
        assert_eq!(default_network(&vmi).as_deref(), Some("a/vlan"));
    }
}

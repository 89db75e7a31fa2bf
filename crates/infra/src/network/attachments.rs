//! Additional networks of pods: what Multus reads from a pod's annotation, does, and writes back.

use std::hash::Hasher as _;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::addresses::{self, AddressError};
use super::ends::Port;
use super::fabric::Fabric;
use super::segments;
use crate::object::Object as _;
use crate::stages::Fnv;

/// The annotation with the networks a pod wants.
pub const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// The annotation with the networks a pod has.
pub const STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
/// What the pod network is called in the status.
const POD_NETWORK: &str = "lab-pod-network";

/// Why a pod is not on a network it wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The annotation cannot be read.
    #[error("parsePodNetworkAnnotation: failed to parse pod Network Attachment Selection Annotation: {0}")]
    Malformed(String),
    /// There is no such network.
    #[error(
        "cannot find a network-attachment-definition ({name}) in namespace ({namespace}): \
         network-attachment-definitions.k8s.cni.cncf.io \"{name}\" not found"
    )]
    Missing {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// There is no address.
    #[error(transparent)]
    Address(#[from] AddressError),
}

/// A network a pod wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// The namespace of the network attachment.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The interface in the pod.
    pub interface: String,
    /// The hardware address; may be empty.
    pub mac: String,
    /// The addresses it asks for.
    pub addresses: Vec<IpAddr>,
}

/// The networks a pod wants, in order: a JSON list, or names such as `namespace/name@interface` with commas between.
pub fn requests(pod: &Value) -> Result<Vec<Request>, AttachError> {
    let text = pod.annotation(NETWORKS).trim();
    let mut requests = if text.starts_with(['[', '{']) {
        let list: Value =
            serde_json::from_str(text).map_err(|error| AttachError::Malformed(error.to_string()))?;
        list.as_array().into_iter().flatten().map(from_json).collect::<Result<Vec<_>, _>>()?
    } else {
        text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(from_words).collect()
    };
    for (place, request) in requests.iter_mut().enumerate() {
        if request.namespace.is_empty() {
            pod.namespace().clone_into(&mut request.namespace);
        }
        if request.interface.is_empty() {
            request.interface = format!("net{}", place + 1);
        }
    }
    Ok(requests)
}

fn from_json(one: &Value) -> Result<Request, AttachError> {
    if one.text("/name").is_empty() {
        return Err(AttachError::Malformed("missing network name".to_owned()));
    }
    let addresses = one.list("/ips").iter().filter_map(Value::as_str).map(|text| {
        let bare = text.split('/').next().unwrap_or_default();
        bare.parse().map_err(|_| AttachError::Malformed(format!("failed to parse IP address {text}")))
    });
    Ok(Request {
        namespace: one.text("/namespace").to_owned(),
        name: one.text("/name").to_owned(),
        interface: one.text("/interface").to_owned(),
        mac: one.text("/mac").to_owned(),
        addresses: addresses.collect::<Result<_, _>>()?,
    })
}

fn from_words(text: &str) -> Request {
    let (name, interface) = text.split_once('@').unwrap_or((text, ""));
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    Request {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        interface: interface.to_owned(),
        ..Request::default()
    }
}

/// What a pod has according to its status it keeps, also after a restart of this program.
fn remember(pod: &Value, requests: &mut [Request]) {
    let had: Value = serde_json::from_str(pod.annotation(STATUS)).unwrap_or_default();
    let had = had.as_array().map(Vec::as_slice).unwrap_or_default();
    for request in requests {
        let network = format!("{}/{}", request.namespace, request.name);
        let Some(status) = had.iter().find(|one| one.text("/name") == network) else { continue };
        if request.mac.is_empty() {
            status.text("/mac").clone_into(&mut request.mac);
        }
        if request.addresses.is_empty() {
            let addresses = status.list("/ips").iter().filter_map(|one| one.as_str()?.parse().ok());
            request.addresses = addresses.collect();
        }
    }
}

/// A hardware address that depends on the pod and the network alone.
fn mac_of(pod: &str, network: &str) -> String {
    let mut hash = Fnv::new(0);
    hash.write(pod.as_bytes());
    hash.write(network.as_bytes());
    let digits: Vec<String> =
        hash.finish().to_be_bytes().iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    // Locally administered, not a group.
    format!("02:{}", digits.join(":"))
}

impl Fabric {
    /// Plugs a pod, which is already on the pod network, into the additional networks its annotation wants. Gives the
    /// value of the [`STATUS`] annotation; nothing where the pod wants no networks.
    ///
    /// On a failure the pod is on none of them, and may try again.
    pub fn attach(&self, pod: &Value) -> Result<Option<String>, AttachError> {
        let mut requests = requests(pod)?;
        if requests.is_empty() {
            return Ok(None);
        }
        remember(pod, &mut requests);
        let mut statuses = vec![self.primary(pod.uid())];
        for request in &requests {
            match self.attach_one(pod.uid(), request) {
                Ok(status) => statuses.push(status),
                Err(failure) => {
                    for request in &requests {
                        self.unplug_from(pod.uid(), &format!("{}/{}", request.namespace, request.name));
                    }
                    return Err(failure);
                }
            }
        }
        Ok(Some(Value::Array(statuses).to_string()))
    }

    fn attach_one(&self, pod: &str, request: &Request) -> Result<Value, AttachError> {
        let network = format!("{}/{}", request.namespace, request.name);
        let attachment = self.directory().and_then(|directory| directory.network(&network));
        let missing =
            || AttachError::Missing { namespace: request.namespace.clone(), name: request.name.clone() };
        let attachment: Arc<Value> = attachment.ok_or_else(missing)?;
        let segment = segments::segment(&network, Some(&attachment));
        let mac = Some(request.mac.clone()).filter(|mac| !mac.is_empty());
        let mac = mac.unwrap_or_else(|| mac_of(pod, &network));
        // Held until the port is in, so that no address is given away twice.
        let mut plugs = self.plugs.write();
        let taken = |address| plugs.holder(&segment, address).is_some_and(|holder| holder != pod);
        let assigned = addresses::assign(&attachment, &request.addresses, &taken)?;
        let port = Port {
            pod: pod.to_owned(),
            network: network.clone(),
            mac: mac.clone(),
            addresses: assigned.iter().map(ipnet::IpNet::addr).collect(),
        };
        let node = plugs.node(pod).to_owned();
        plugs.plug(port, segment, Some(node));
        drop(plugs);
        let ips: Vec<String> = assigned.iter().map(|net| net.addr().to_string()).collect();
        let mut status = json!({"name": network, "interface": request.interface, "mac": mac, "dns": {}});
        if !ips.is_empty() {
            status["ips"] = ips.into();
        }
        Ok(status)
    }

    fn primary(&self, pod: &str) -> Value {
        let plugs = self.plugs.read();
        let port = plugs.port(pod, "").map(|plugged| plugged.port.clone()).unwrap_or_default();
        let ips: Vec<String> = port.addresses.iter().map(ToString::to_string).collect();
        json!({
            "name": POD_NETWORK, "interface": "eth0", "ips": ips, "mac": port.mac, "default": true, "dns": {},
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(text: &str) -> Value {
        json!({"metadata": {"namespace": "a", "annotations": {NETWORKS: text}}})
    }

    #[test]
    fn both_forms_of_the_annotation_are_read() {
        let words = requests(&wants("blue, b/red@eth7")).unwrap();
        let places: Vec<_> =
            words.iter().map(|one| format!("{}/{}@{}", one.namespace, one.name, one.interface)).collect();
        assert_eq!(places, ["a/blue@net1", "b/red@eth7"]);
        let list = r#"[{"name": "blue", "namespace": "c", "interface": "pod1", "mac": "02:00:00:00:00:01", "ips": ["10.1.0.5/24"]}]"#;
        let listed = requests(&wants(list)).unwrap();
        assert_eq!(listed[0].addresses, [IpAddr::from([10, 1, 0, 5])]);
        assert_eq!((listed[0].namespace.as_str(), listed[0].interface.as_str()), ("c", "pod1"));
        assert_eq!(requests(&json!({"metadata": {}})).unwrap(), []);
        assert!(requests(&wants("[{")).is_err());
        assert!(requests(&wants(r#"[{"namespace": "x"}]"#)).is_err());
    }
}

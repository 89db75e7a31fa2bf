//! Which EndpointSlices a service should have, as a pure function.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::selector::{has_all_of, labels_at};
use crate::kinds::SERVICE;
use crate::object::{Object as _, owned_by};

/// Who keeps the slices.
pub const MANAGER: &str = "endpointslice-controller.k8s.io";
/// The label that says who keeps a slice.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label that says whose a slice is.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label of slices of services without an address.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
/// How many endpoints fit into a slice.
const MOST: usize = 100;

/// What has to be written.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A new slice.
    Create(Value),
    /// A slice that is different.
    Update(Value),
    /// A slice that goes.
    Delete(Arc<Value>),
}

/// Whether a service has its endpoints kept for it.
pub fn is_kept(service: &Value) -> bool {
    service.text("/spec/type") != "ExternalName"
        && service.at("/spec/selector").as_object().is_some_and(|selector| !selector.is_empty())
}

/// Whether a service selects a pod.
pub fn selects(service: &Value, pod: &Value) -> bool {
    is_kept(service)
        && service.namespace() == pod.namespace()
        && has_all_of(service.at("/spec/selector"), pod.at("/metadata/labels"))
}

/// Whether a pod is ready.
pub fn is_ready(pod: &Value) -> bool {
    pod.condition_holds("Ready")
}

/// Whether a pod can be an endpoint at all: it has an address and is not over.
pub fn is_candidate(pod: &Value) -> bool {
    !pod.is_over() && !pod.text("/status/podIP").is_empty()
}

/// The families of a service's addresses.
fn families(service: &Value) -> Vec<&str> {
    let families: Vec<&str> = service.list("/spec/ipFamilies").iter().filter_map(Value::as_str).collect();
    if families.is_empty() { vec!["IPv4"] } else { families }
}

/// The address of a pod in a family.
pub fn address_of<'a>(pod: &'a Value, family: &str) -> Option<&'a str> {
    let listed = pod.list("/status/podIPs").iter().map(|one| one.text("/ip"));
    let mut all = listed.chain([pod.text("/status/podIP")]);
    all.find(|text| text.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4() == (family == "IPv4")))
}

/// The ports of a service as they are in one pod: named ones are looked up there.
pub fn ports_of(service: &Value, pod: &Value) -> Vec<Value> {
    let ports = service.list("/spec/ports").iter().filter_map(|port| {
        let protocol = Some(port.text("/protocol")).filter(|text| !text.is_empty()).unwrap_or("TCP");
        let number = match &port["targetPort"] {
            Value::String(name) => named_port(pod, name, protocol)?,
            target => target.as_i64().filter(|number| *number != 0).or(port.number("/port"))?,
        };
        let mut one = json!({"name": port.text("/name"), "port": number, "protocol": protocol});
        if port["appProtocol"].is_string() {
            one["appProtocol"] = port["appProtocol"].clone();
        }
        Some(one)
    });
    ports.collect()
}

fn named_port(pod: &Value, name: &str, protocol: &str) -> Option<i64> {
    let sidecars =
        pod.list("/spec/initContainers").iter().filter(|one| one.text("/restartPolicy") == "Always");
    let containers = pod.list("/spec/containers").iter().chain(sidecars);
    let mut ports = containers.flat_map(|container| container.list("/ports"));
    let found = ports.find(|port| {
        let spoken = Some(port.text("/protocol")).filter(|text| !text.is_empty()).unwrap_or("TCP");
        port.text("/name") == name && spoken == protocol
    });
    found.and_then(|port| port.number("/containerPort"))
}

/// A pod as an endpoint.
fn endpoint(service: &Value, pod: &Value, address: &str, zone: &str) -> Value {
    let (serving, terminating) = (is_ready(pod), pod.is_deleting());
    let ready = service.flag("/spec/publishNotReadyAddresses") || (serving && !terminating);
    let mut endpoint = json!({
        "addresses": [address],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": {"kind": "Pod", "namespace": pod.namespace(), "name": pod.name(), "uid": pod.uid()},
    });
    for (name, text) in [("nodeName", pod.text("/spec/nodeName")), ("zone", zone)] {
        if !text.is_empty() {
            endpoint[name] = text.into();
        }
    }
    if let Some(hostname) = hostname(service, pod) {
        endpoint["hostname"] = hostname.into();
    }
    endpoint
}

/// The name of a pod under a service that is its subdomain.
pub fn hostname<'a>(service: &Value, pod: &'a Value) -> Option<&'a str> {
    let hostname = pod.text("/spec/hostname");
    (!hostname.is_empty() && pod.text("/spec/subdomain") == service.name()).then_some(hostname)
}

/// The endpoints that go together: those of one family and with the same ports.
type Groups = BTreeMap<(String, String), (Value, BTreeMap<String, Value>)>;

/// What has to be written so that the slices of a service say what its pods are. `zone` is that of a host.
pub fn plan(
    service: &Value,
    pods: &[Arc<Value>],
    slices: &[Arc<Value>],
    zone: &dyn Fn(&str) -> String,
) -> Vec<Change> {
    let mut groups = Groups::new();
    for family in families(service) {
        for pod in pods.iter().filter(|pod| selects(service, pod) && is_candidate(pod)) {
            let Some(address) = address_of(pod, family) else { continue };
            let ports = Value::Array(ports_of(service, pod));
            let group = groups.entry((family.to_owned(), ports.to_string())).or_default();
            let endpoint = endpoint(service, pod, address, &zone(pod.text("/spec/nodeName")));
            group.0 = ports;
            group.1.insert(pod.name().to_owned(), endpoint);
        }
    }
    for family in families(service) {
        // Somebody who watches learns that there are none.
        if !groups.keys().any(|(of, _)| of == family) {
            groups.insert((family.to_owned(), "[]".to_owned()), (json!([]), BTreeMap::new()));
        }
    }
    let mut changes = Vec::new();
    let mut used = BTreeSet::new();
    for ((family, _), (ports, endpoints)) in groups {
        let old: Vec<&Arc<Value>> = slices
            .iter()
            .filter(|slice| {
                let same = *slice.at("/ports") == ports || (slice["ports"].is_null() && ports == json!([]));
                slice.text("/addressType") == family && same && !slice.is_deleting()
            })
            .collect();
        used.extend(old.iter().map(|slice| slice.uid().to_owned()));
        changes.extend(fill(service, &family, &ports, endpoints, &old));
    }
    let unused = slices.iter().filter(|slice| !used.contains(slice.uid()) && !slice.is_deleting());
    changes.extend(unused.map(|slice| Change::Delete(Arc::clone(slice))));
    reused(changes)
}

/// A slice that would go becomes one that would be made: who watches sees a change, and its name stays.
fn reused(changes: Vec<Change>) -> Vec<Change> {
    let (mut made, mut rest): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| matches!(change, Change::Create(_)));
    for change in &mut rest {
        let Change::Delete(old) = change else { continue };
        let same =
            |made: &Change| matches!(made, Change::Create(new) if new["addressType"] == old["addressType"]);
        let Some(place) = made.iter().position(same) else { continue };
        if let Change::Create(new) = made.remove(place) {
            let mut wanted = (**old).clone();
            for field in ["ports", "endpoints"] {
                wanted[field] = new[field].clone();
            }
            wanted.set("/metadata/labels", new["metadata"]["labels"].clone());
            *change = Change::Update(wanted);
        }
    }
    made.extend(rest);
    made
}

/// Puts endpoints where they are already, the others where there is space, and the rest into new slices.
fn fill(
    service: &Value,
    family: &str,
    ports: &Value,
    mut endpoints: BTreeMap<String, Value>,
    old: &[&Arc<Value>],
) -> Vec<Change> {
    let mut kept: Vec<Vec<Value>> = old
        .iter()
        .map(|slice| {
            let there = slice.list("/endpoints").iter();
            there.filter_map(|one| endpoints.remove(one.text("/targetRef/name"))).collect()
        })
        .collect();
    let mut rest = endpoints.into_values();
    for list in &mut kept {
        let space = MOST.saturating_sub(list.len());
        list.extend(rest.by_ref().take(space));
    }
    let rest: Vec<Value> = rest.collect();
    let mut changes = Vec::new();
    let mut left = usize::from(!rest.is_empty());
    for (place, (slice, list)) in old.iter().zip(kept).enumerate() {
        // The last one stays even without endpoints, as a sign that there are none.
        let last = place + 1 == old.len() && left == 0;
        if list.is_empty() && !last {
            changes.push(Change::Delete(Arc::clone(slice)));
            continue;
        }
        left += 1;
        let mut wanted = (***slice).clone();
        dress(&mut wanted, service);
        wanted["endpoints"] = Value::Array(list);
        if wanted != ***slice {
            changes.push(Change::Update(wanted));
        }
    }
    let lists = if rest.is_empty() && old.is_empty() { vec![Vec::new()] } else { chunks(&rest) };
    for list in lists {
        let mut slice = json!({
            "metadata": {"namespace": service.namespace(), "generateName": format!("{}-", service.name())},
            "addressType": family, "ports": ports, "endpoints": list,
        });
        dress(&mut slice, service);
        slice.set("/metadata/ownerReferences", json!([owned_by(&SERVICE, service)]));
        changes.push(Change::Create(slice));
    }
    changes
}

fn chunks(endpoints: &[Value]) -> Vec<Vec<Value>> {
    endpoints.chunks(MOST).map(<[Value]>::to_vec).collect()
}

/// Labels of a slice: those of the service, and who keeps it.
fn dress(slice: &mut Value, service: &Value) {
    slice.set("/metadata/labels", json!({}));
    for (name, value) in labels_at(service, "/metadata/labels") {
        slice.set_label(&name, &value);
    }
    slice.set_label(MANAGED_BY, MANAGER);
    slice.set_label(SERVICE_NAME, service.name());
    if service.text("/spec/clusterIP") == "None" {
        slice.set_label(HEADLESS, "");
    }
}

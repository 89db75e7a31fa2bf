//! What is there in the end, without what may differ from run to run.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::making::MACHINE;
use crate::trace::{Place, Snapshot, State};

/// What is there in the end: how many objects of each kind look like this.
pub type End = BTreeMap<String, usize>;

/// Fields that differ from run to run and mean nothing: what chance, time or an order of names makes of them.
const MEANINGLESS: [&str; 24] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "observedGeneration",
    "lastTransitionTime",
    "lastHeartbeatTime",
    "lastProbeTime",
    "macAddress",
    "firmware",
    "ownerReferences",
    "cdi.kubevirt.io/storage.clone.token",
    "kubevirt.io/created-by",
    "clusterIP",
    "clusterIPs",
    "nodePort",
    "kubernetes.io/hostname",
    "trellis.dev/machine-uid",
    "trellis.dev/vm-uid",
    "trellis.dev/applied",
    "trellis.dev/ordinal",
    "trellis.dev/unused-since",
    "message",
];

/// The parts of an object that its end is compared by.
fn parts(resource: &str) -> &'static [&'static str] {
    match resource {
        "machines" => &["metadata", "spec", "phase", "conditions"],
        "machinepools" => &["metadata", "spec", "counts", "conditions"],
        "virtualmachines" | "datavolumes" | "networkpolicies" | "services" => &["metadata", "spec"],
        "secrets" => &["metadata", "keys"],
        "nodes" => &["metadata", "taints", "conditions"],
        "controllerrevisions" => &["metadata", "data", "revision"],
        // Whether there is one, and no more.
        _ => &[],
    }
}

/// What is there in the end.
pub fn end_of(state: &State) -> End {
    let machines: BTreeSet<&str> =
        state.all(Place::World, "machines").map(|machine| machine.name()).collect();
    let mut end = End::new();
    for object in state.everything() {
        // Hosts, pods and what serves them are the world's own; certificates are asked for as often as it takes.
        let own = match (object.place, object.resource) {
            (_, "pods" | "certificatesigningrequests" | "persistentvolumes") | (Place::World, "nodes") => {
                false
            }
            (_, "secrets" | "services") => !object.label("trellis.dev/cluster").is_empty(),
            _ => true,
        };
        if own {
            *end.entry(normal(object, &machines)).or_default() += 1;
        }
    }
    end
}

fn normal(object: &Snapshot, machines: &BTreeSet<&str>) -> String {
    let json = object.json();
    let mut kept = Map::new();
    for part in parts(object.resource) {
        let value = match *part {
            "metadata" => {
                let metadata = &json["metadata"];
                let chosen = ["labels", "annotations", "finalizers"];
                chosen
                    .iter()
                    .map(|name| ((*name).to_owned(), metadata[*name].clone()))
                    .collect::<Map<_, _>>()
                    .into()
            }
            "phase" => json["status"]["phase"].clone(),
            "counts" => ["replicas", "updatedReplicas", "availableReplicas"]
                .map(|name| json["status"][name].clone())
                .into_iter()
                .collect(),
            "conditions" => {
                let all = json["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let told: BTreeSet<String> =
                    all.iter().map(|one| format!("{}={}", one["type"], one["status"])).collect();
                told.into_iter().collect()
            }
            "keys" => json["data"].as_object().map(|data| data.keys().cloned().collect()).unwrap_or_default(),
            "taints" => json["spec"]["taints"].clone(),
            other => json[other].clone(),
        };
        kept.insert((*part).to_owned(), value);
    }
    let mut kept = Value::Object(kept);
    clean(&mut kept);
    let mut text = format!("{:?} {} {kept}", object.place, object.resource);
    // Longer names first: one may begin with another.
    let mut names: Vec<&&str> = machines.iter().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    for name in names {
        text = text.replace(*name, "MACHINE");
    }
    text
}

fn clean(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !MEANINGLESS.contains(&name.as_str()));
            fields.values_mut().for_each(clean);
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        _ => {}
    }
}

/// How an end differs from another, in words.
pub fn differences(wanted: &End, found: &End) -> Vec<String> {
    let keys: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
    let count = |end: &End, key: &String| end.get(key).copied().unwrap_or_default();
    keys.into_iter()
        .filter(|key| count(wanted, key) != count(found, key))
        .map(|key| format!("{} instead of {} of {key}", count(found, key), count(wanted, key)))
        .collect()
}

/// What is left of machines that are gone.
pub fn left_over(state: &State) -> Vec<String> {
    let is_machine = |name: &str| state.named(Place::World, "machines", name).is_some();
    let mut left = Vec::new();
    for object in state.everything() {
        let of = match (object.place, object.resource) {
            (Place::Tenant, "nodes") => object.name(),
            (Place::World, "machines") => continue,
            (Place::World, _) => object.label(MACHINE),
            _ => continue,
        };
        if !of.is_empty() && !is_machine(of) {
            left.push(format!("{object:?}"));
        }
    }
    left
}

//! What a pod asks for: the sums over its containers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::json::{entries, items};
use crate::quantity::{Notation, Quantity};

/// Amounts by resource.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// Reads an amount as objects carry it: a text or a number.
pub(crate) fn amount(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// So many whole ones.
pub(crate) fn count(number: i64) -> Quantity {
    Quantity::new(number, Notation::DecimalSi)
}

/// Two amounts together.
pub(crate) fn sum(one: &Quantity, other: &Quantity) -> Quantity {
    let mut sum = one.clone();
    sum.add(other);
    sum
}

/// The amount of a resource; nothing where it is not there.
pub(crate) fn amount_of(list: &Amounts, name: &str) -> Quantity {
    list.get(name).cloned().unwrap_or_else(|| count(0))
}

/// Reads a resource list.
pub(crate) fn amounts(list: &Value) -> Amounts {
    entries(list).filter_map(|(name, value)| Some((name.clone(), amount(value)?))).collect()
}

/// The `requests` or the `limits` of a pod: what its containers need at their peak. With pod-level resources those
/// decide; overhead counts only if asked for.
pub(crate) fn of_pod(spec: &Value, key: &str, with_overhead: bool) -> Amounts {
    let mut sums = Amounts::new();
    for container in items(&spec["containers"]) {
        add(&mut sums, &amounts(&container["resources"][key]));
    }
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for container in items(&spec["initContainers"]) {
        let mut wanted = amounts(&container["resources"][key]);
        if container["restartPolicy"] == "Always" {
            add(&mut sums, &wanted);
            add(&mut sidecars, &wanted);
            wanted = sidecars.clone();
        } else {
            add(&mut wanted, &sidecars);
        }
        raise(&mut peak, &wanted);
    }
    raise(&mut sums, &peak);
    for (name, quantity) in amounts(&spec["resources"][key]) {
        if is_pod_level(&name) {
            sums.insert(name, quantity);
        }
    }
    if with_overhead {
        let overhead = amounts(&spec["overhead"]);
        if key == "requests" {
            add(&mut sums, &overhead);
        } else {
            // Overhead only adds to limits that are there.
            for (name, quantity) in overhead {
                if let Some(limit) = sums.get_mut(&name).filter(|limit| !limit.is_zero()) {
                    limit.add(&quantity);
                }
            }
        }
    }
    sums
}

/// Resources that can be set for a pod as a whole.
fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}

/// Adds amounts to sums.
pub(crate) fn add(sums: &mut Amounts, more: &Amounts) {
    for (name, quantity) in more {
        match sums.get_mut(name) {
            Some(known) => known.add(quantity),
            None => {
                sums.insert(name.clone(), quantity.clone());
            }
        }
    }
}

fn raise(peak: &mut Amounts, wanted: &Amounts) {
    for (name, quantity) in wanted {
        if peak.get(name).is_none_or(|known| quantity > known) {
            peak.insert(name.clone(), quantity.clone());
        }
    }
}

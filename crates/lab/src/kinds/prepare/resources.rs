//! What a pod asks for, all containers together.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::quantity::{Amount, Quantity};
use super::super::view::Look;

/// Amounts by the name of the resource.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// What all containers of a pod ask for together.
pub(crate) fn pod_requests(spec: &Value) -> Amounts {
    all(spec, "requests")
}

/// What all containers of a pod may use together.
pub(crate) fn pod_limits(spec: &Value) -> Amounts {
    all(spec, "limits")
}

/// The amounts of a list.
pub(crate) fn amounts(list: &Value) -> Amounts {
    list.as_object()
        .into_iter()
        .flatten()
        .map(|(name, amount)| (name.clone(), Quantity::or_zero(amount)))
        .collect()
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = total.get(name).map_or_else(|| amount.clone(), |before| before.plus(amount));
        total.insert(name.clone(), sum);
    }
}

fn raise(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if total.get(name).is_none_or(|before| amount > before) {
            total.insert(name.clone(), amount.clone());
        }
    }
}

/// Init containers run one after the other before the rest; those that keep running count all along.
fn all(spec: &Value, list: &str) -> Amounts {
    let of = |container: &Value| amounts(container.at("resources").at(list));
    let mut total = Amounts::new();
    for container in spec.list("containers") {
        add(&mut total, &of(container));
    }
    let mut running = Amounts::new();
    let mut starting = Amounts::new();
    for container in spec.list("initContainers") {
        let mut here = of(container);
        if container.text("restartPolicy") == "Always" {
            add(&mut total, &here);
            add(&mut running, &here);
            here = running.clone();
        } else {
            add(&mut here, &running);
        }
        raise(&mut starting, &here);
    }
    raise(&mut total, &starting);
    total
}

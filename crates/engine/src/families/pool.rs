//! Sets and pools as what plans look at.

use serde::Deserialize;
use serde_json::Value;
use trellis_api::trellis::PoolProgress;
use trellis_model::pool::Role;

use super::object::{HistoryObject, Object};
use super::reading::Reading;
use super::table::{Family, TRELLIS, keys};
use crate::pools::autoscale::within;
use crate::pools::{Mark, Member, PoolWish, SetSeen};

/// What a pool (or a set that belongs to none) is to be.
///
/// Paused by annotation counts like paused in the spec: scaling goes on, updating does not.
pub fn pool_wish(family: &Family, pool: &Object, reading: &Reading) -> PoolWish {
    let spec = &reading.pool.spec;
    let mut update = spec.update.clone();
    update.paused |= family.paused.iter().any(|key| pool.metadata.annotations.is_on(key));
    // The bounds of our own kind are bounds for everybody; elsewhere they are the autoscaler's alone.
    let replicas = match spec.autoscaling {
        Some(bounds) if *family == TRELLIS => within(bounds, spec.replicas),
        _ => spec.replicas,
    };
    PoolWish {
        replicas,
        update,
        delete_policy: spec.delete_policy,
        revision: reading.revision.to_string(),
        zones: spec.template.placement.zones.iter().map(|zone| zone.as_str().to_owned()).collect(),
        control_plane: spec.role == Role::ControlPlane,
    }
}

/// A set with its machines. The revision is the one its template has in the model, not the one it was named after: a
/// controller that hashes otherwise makes no rollout.
pub fn set_seen(family: &Family, set: &Object, reading: &Reading, members: Vec<Member>) -> SetSeen {
    SetSeen {
        name: set.metadata.name().to_string(),
        revision: reading.revision.to_string(),
        number: number_of(family, set),
        wished: set_size(set),
        members,
    }
}

/// A revision of a MachinePool with its machines; nothing is stored of how many there are to be.
pub fn history_seen(history: &HistoryObject, reading: &Reading, members: Vec<Member>) -> SetSeen {
    SetSeen {
        name: history.metadata.name().to_string(),
        revision: reading.revision.to_string(),
        number: history.number.try_into().unwrap_or_default(),
        wished: members.iter().filter(|member| member.stays()).count().try_into().unwrap_or(u32::MAX),
        members,
    }
}

/// How far a pool had come, from its status: it outlives whoever wrote it.
pub fn mark(pool: &Object) -> Option<Mark> {
    let progress: PoolProgress = serde_json::from_value(pool.status_json().remove("progress")?).ok()?;
    let PoolProgress { revision, replicas, available, left, at, done } = progress;
    Some(Mark { revision, replicas, available, left, at: at.0, done })
}

/// How many machines a set was told to have: one, if nothing is said.
pub fn set_size(set: &Object) -> u32 {
    #[derive(Deserialize)]
    struct Spec {
        replicas: Option<u32>,
    }
    set.spec_as::<Spec>().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// The place of a set, or of its pool's newest one, in the history; zero if nobody gave it one.
pub fn number_of(family: &Family, object: &Object) -> u64 {
    let number = family.revision_number.and_then(|key| object.metadata.annotations.get(key));
    number.and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// The label selector of a pool's or set's machines, as the scale subresource wants it: `key=value,…`.
pub(super) fn selector(pool: &Object) -> Option<String> {
    let spec = pool.spec_json();
    let selector = spec.get("selector")?;
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let mut terms: Vec<String> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    for rule in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| rule.get(key).and_then(Value::as_str);
        let values = rule.get("values").and_then(Value::as_array).into_iter().flatten();
        let values: Vec<&str> = values.filter_map(Value::as_str).collect();
        let key = text("key")?;
        terms.push(match text("operator")? {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    Some(terms.join(","))
}

/// The selector of the machines of a MachinePool.
pub(super) fn own_selector(pool: &Object) -> String {
    #[derive(Deserialize)]
    struct Spec {
        cluster: String,
    }
    let cluster = pool.spec_as::<Spec>().map(|spec| spec.cluster).unwrap_or_default();
    format!("{}={cluster},{}={}", keys::CLUSTER, keys::POOL, pool.metadata.name())
}

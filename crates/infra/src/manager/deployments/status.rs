//! What a deployment says of itself.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::Room;
use crate::clock::seconds;
use crate::object::{Object as _, drop_condition};

/// Puts a condition, unless one says the same already.
pub(super) fn put(deployment: &mut Value, kind: &str, status: &str, reason: &str, message: &str, now: &str) {
    let old = deployment.condition(kind).clone();
    if old["status"] == status && old["reason"] == reason {
        return;
    }
    let since = if old["status"] == status { old["lastTransitionTime"].clone() } else { now.into() };
    drop_condition(deployment, kind);
    let mut conditions = deployment.list("/status/conditions").to_vec();
    conditions.push(json!({
        "type": kind, "status": status, "lastUpdateTime": now, "lastTransitionTime": since,
        "reason": reason, "message": message,
    }));
    deployment.set("/status/conditions", conditions.into());
}

fn sum(sets: &[Arc<Value>], pointer: &str) -> i64 {
    sets.iter().filter_map(|set| set.number(pointer)).sum()
}

/// The numbers and whether there are enough, from the sets.
pub(super) fn count(deployment: &mut Value, new: Option<&Value>, all: &[Arc<Value>], now: &str) {
    let available = sum(all, "/status/availableReplicas");
    let unavailable = (sum(all, "/spec/replicas") - available).max(0);
    let updated = new.and_then(|new| new.number("/status/replicas")).unwrap_or_default();
    let (conditions, collisions) =
        (deployment.at("/status/conditions").clone(), deployment.at("/status/collisionCount").clone());
    let mut status = json!({
        "observedGeneration": deployment.generation(),
        "terminatingReplicas": sum(all, "/status/terminatingReplicas"),
    });
    for (name, number) in [
        ("replicas", sum(all, "/status/replicas")),
        ("updatedReplicas", updated),
        ("readyReplicas", sum(all, "/status/readyReplicas")),
        ("availableReplicas", available),
        ("unavailableReplicas", unavailable),
    ] {
        if number > 0 {
            status[name] = number.into();
        }
    }
    for (name, value) in [("conditions", conditions), ("collisionCount", collisions)] {
        if !value.is_null() {
            status[name] = value;
        }
    }
    deployment["status"] = status;
    let room = Room::of(deployment);
    if available >= room.replicas - room.unavailable {
        let message = "Deployment has minimum availability.";
        put(deployment, "Available", "True", "MinimumReplicasAvailable", message, now);
    } else {
        let message = "Deployment does not have minimum availability.";
        put(deployment, "Available", "False", "MinimumReplicasUnavailable", message, now);
    }
}

/// Whether everything is as wanted.
pub(super) fn is_complete(deployment: &Value) -> bool {
    let wanted = deployment.number("/spec/replicas").unwrap_or(1);
    ["updatedReplicas", "replicas", "availableReplicas"]
        .iter()
        .all(|name| deployment["status"][name].as_i64().unwrap_or_default() == wanted)
        && deployment.number("/status/observedGeneration").unwrap_or_default() >= deployment.generation()
}

/// Whether a new status is nearer to the end than an old one.
fn is_nearer(old: &Value, new: &Value) -> bool {
    let number = |deployment: &Value, name: &str| deployment["status"][name].as_i64().unwrap_or_default();
    let outdated =
        |deployment: &Value| number(deployment, "replicas") - number(deployment, "updatedReplicas");
    number(new, "updatedReplicas") > number(old, "updatedReplicas")
        || outdated(new) < outdated(old)
        || number(new, "readyReplicas") > number(old, "readyReplicas")
        || number(new, "availableReplicas") > number(old, "availableReplicas")
}

/// How long a rollout may make no progress; for ever where there is nothing.
fn deadline(deployment: &Value) -> Option<Duration> {
    let seconds = deployment.number("/spec/progressDeadlineSeconds")?;
    (seconds < i64::from(i32::MAX)).then(|| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

/// Says how the rollout goes; gives when to look again because it may have taken too long by then.
pub(super) fn progress(
    old: &Value,
    deployment: &mut Value,
    new: Option<&Value>,
    at: Timestamp,
) -> Option<Duration> {
    let now = seconds(at);
    let deadline = deadline(deployment)?;
    let number = |name: &str| deployment["status"][name].as_i64().unwrap_or_default();
    let reason = deployment.condition("Progressing").text("/reason").to_owned();
    if number("replicas") == number("updatedReplicas") && reason == "NewReplicaSetAvailable" {
        return None;
    }
    let subject = new.map_or_else(
        || format!("Deployment \"{}\"", deployment.name()),
        |new| format!("ReplicaSet \"{}\"", new.name()),
    );
    if is_complete(deployment) {
        let message = format!("{subject} has successfully progressed.");
        put(deployment, "Progressing", "True", "NewReplicaSetAvailable", &message, &now);
        return None;
    }
    if is_nearer(old, deployment) {
        let message = format!("{subject} is progressing.");
        let since = deployment.condition("Progressing").clone();
        drop_condition(deployment, "Progressing");
        put(deployment, "Progressing", "True", "ReplicaSetUpdated", &message, &now);
        if since["status"] == "True"
            && let Some(last) = deployment
                .pointer_mut("/status/conditions")
                .and_then(Value::as_array_mut)
                .and_then(|all| all.last_mut())
        {
            last["lastTransitionTime"] = since["lastTransitionTime"].clone();
        }
        return Some(deadline);
    }
    if deployment.flag("/spec/paused") || deployment.condition("Progressing").is_null() {
        return None;
    }
    let since: Timestamp = deployment.condition("Progressing").text("/lastUpdateTime").parse().unwrap_or(at);
    let passed = Duration::try_from(at.duration_since(since)).unwrap_or_default();
    if reason == "ProgressDeadlineExceeded" {
        return None;
    }
    if passed > deadline {
        let message = format!("{subject} has timed out progressing.");
        put(deployment, "Progressing", "False", "ProgressDeadlineExceeded", &message, &now);
        return None;
    }
    Some(deadline.saturating_sub(passed) + Duration::from_secs(1))
}

/// Takes over what the sets say of failures.
pub(super) fn failures(deployment: &mut Value, new: Option<&Value>, all: &[Arc<Value>], now: &str) {
    let failing = new
        .map(|new| new.condition("ReplicaFailure"))
        .filter(|one| !one.is_null())
        .or_else(|| all.iter().map(|set| set.condition("ReplicaFailure")).find(|one| !one.is_null()));
    match failing {
        Some(failure) => {
            let (status, reason) = (failure.text("/status"), failure.text("/reason"));
            put(deployment, "ReplicaFailure", status, reason, failure.text("/message"), now);
        }
        None => {
            drop_condition(deployment, "ReplicaFailure");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(wanted: i64, available: i64) -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"name": "web-1"}, "spec": {"replicas": wanted},
            "status": {"replicas": wanted, "readyReplicas": available, "availableReplicas": available},
        }))
    }

    #[test]
    fn a_rollout_progresses_completes_or_times_out() {
        let start = Timestamp::UNIX_EPOCH;
        let mut deployment = json!({
            "metadata": {"name": "web", "generation": 1},
            "spec": {"replicas": 2, "progressDeadlineSeconds": 10},
        });
        let old = deployment.clone();
        let sets = [set(2, 0)];
        count(&mut deployment, Some(&sets[0]), &sets, "0");
        assert_eq!(deployment.condition("Available")["status"], "False");
        assert_eq!(progress(&old, &mut deployment, Some(&sets[0]), start), Some(Duration::from_secs(10)));
        assert_eq!(deployment.condition("Progressing")["reason"], "ReplicaSetUpdated");
        let late = start + Duration::from_secs(11);
        let mut stuck = deployment.clone();
        assert_eq!(progress(&deployment, &mut stuck, Some(&sets[0]), late), None);
        assert_eq!(stuck.condition("Progressing")["reason"], "ProgressDeadlineExceeded");
        let sets = [set(2, 2)];
        count(&mut deployment, Some(&sets[0]), &sets, "5");
        progress(&old, &mut deployment, Some(&sets[0]), late);
        assert_eq!(deployment.condition("Progressing")["reason"], "NewReplicaSetAvailable");
        assert!(deployment.condition_holds("Available"));
    }
}

//! ReplicaSets: as many equal pods as wanted; and what ReplicationControllers have in common with them.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::pods::{self, Available, BURST, Hand, count};
use crate::client::ApiError;
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{Kind, POD, REPLICA_SET, REPLICATION_CONTROLLER};
use crate::object::{Condition, Key, Object as _, drop_condition};

/// Keeps as many pods as a ReplicaSet wants.
#[derive(Debug)]
pub(super) struct Replicas {
    keeper: Keeper,
}

impl Replicas {
    pub(super) fn new(context: &Context) -> Self {
        Self { keeper: Keeper::new(context, &REPLICA_SET, Self::NAME) }
    }
}

impl Controller for Replicas {
    const NAME: &'static str = "replicaset-controller";

    fn watches(&self) -> Vec<Watch> {
        self.keeper.hand.watches(&POD)
    }

    async fn look(&self, key: &Key) -> Looked {
        self.keeper.look(key).await
    }
}

/// Keeps as many pods as an owner of equal pods wants.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) hand: Hand,
}

impl Keeper {
    /// A keeper for owners of a kind, whose events come from `component`.
    pub(super) fn new(context: &Context, kind: &'static Kind, component: &'static str) -> Self {
        Self { hand: Hand::new(context, kind, component) }
    }

    async fn scale(&self, set: &Value, active: &[Arc<Value>]) -> Result<(), (&'static str, ApiError)> {
        let wanted = usize::try_from(wanted(set)).unwrap_or_default();
        for _ in active.len()..wanted.min(active.len() + BURST) {
            let pod = pods::from_template(self.hand.kind, set, set.at("/spec/template"));
            self.hand.make(set, pod).await.map_err(|failure| ("FailedCreate", failure))?;
        }
        let surplus = active.len().saturating_sub(wanted).min(BURST);
        if surplus > 0 {
            for pod in pods::least_useful(active).into_iter().take(surplus) {
                self.hand.take(set, &pod).await.map_err(|failure| ("FailedDelete", failure))?;
            }
        }
        Ok(())
    }

    /// Does the next step for one owner.
    pub(super) async fn look(&self, key: &Key) -> Looked {
        let kind = self.hand.kind;
        let Some(set) = self.hand.client.cache(kind).get(key) else { return Ok(Next::Done) };
        let members = self.hand.claim(&POD, &set).await?;
        let active: Vec<Arc<Value>> = members.iter().filter(|pod| pods::is_active(pod)).cloned().collect();
        let scaled = if set.is_deleting() { Ok(()) } else { self.scale(&set, &active).await };
        let failed = scaled.as_ref().err().map(|(reason, failure)| (*reason, failure.message.as_str()));
        let mut new = (*set).clone();
        let terminating = members.iter().filter(|pod| pod.is_deleting() && !pod.is_over()).count();
        let next = note(&mut new, &active, terminating, failed, self.hand.clock.now());
        if *kind == REPLICATION_CONTROLLER {
            // It was there before anyone counted those that go.
            new.unset("/status/terminatingReplicas");
        }
        if new["status"] != set["status"] {
            self.hand.client.replace_status(kind, &new).await?;
        }
        scaled.map_err(|(_, failure)| failure)?;
        Ok(next.map_or(Next::Done, Next::After))
    }
}

/// How many pods a set wants.
fn wanted(set: &Value) -> i64 {
    set.number("/spec/replicas").unwrap_or(1)
}

/// Puts numbers and conditions into the status of a set; says when a pod becomes available.
fn note(
    set: &mut Value,
    active: &[Arc<Value>],
    terminating: usize,
    failed: Option<(&str, &str)>,
    now: Timestamp,
) -> Option<Duration> {
    let min_ready = set.number("/spec/minReadySeconds").unwrap_or_default();
    let states: Vec<Available> = active.iter().map(|pod| pods::available(pod, min_ready, now)).collect();
    let labels = set.at("/spec/template/metadata/labels").clone();
    let labeled = active
        .iter()
        .filter(|pod| crate::network::selector::has_all_of(&labels, pod.at("/metadata/labels")))
        .count();
    let ready = states.iter().filter(|state| **state != Available::No).count();
    let available = states.iter().filter(|state| **state == Available::Now).count();
    let conditions = set.at("/status/conditions").clone();
    let mut status = json!({
        "replicas": active.len(), "terminatingReplicas": terminating, "observedGeneration": set.generation(),
    });
    for (name, number) in
        [("fullyLabeledReplicas", labeled), ("readyReplicas", ready), ("availableReplicas", available)]
    {
        if number > 0 {
            status[name] = count(number).into();
        }
    }
    if !conditions.is_null() {
        status["conditions"] = conditions;
    }
    set["status"] = status;
    if let Some((reason, message)) = failed {
        Condition::new("ReplicaFailure", true, reason, message).put(set, &crate::clock::seconds(now));
    } else {
        drop_condition(set, "ReplicaFailure");
        if set.list("/status/conditions").is_empty() {
            set.unset("/status/conditions");
        }
    }
    let waits = states.into_iter().filter_map(|state| match state {
        Available::In(left) => Some(left),
        _ => None,
    });
    waits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_noted_and_forgotten() {
        let mut set = json!({"metadata": {"generation": 2}, "spec": {}, "status": {}});
        let now = Timestamp::UNIX_EPOCH;
        note(&mut set, &[], 0, Some(("FailedCreate", "no")), now);
        assert_eq!(set.condition("ReplicaFailure")["reason"], "FailedCreate");
        note(&mut set, &[], 1, None, now);
        let wanted = json!({"replicas": 0, "terminatingReplicas": 1, "observedGeneration": 2});
        assert_eq!(set["status"], wanted);
    }
}

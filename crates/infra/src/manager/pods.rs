//! What all controllers of workloads do with the objects they own.

use std::hash::Hasher as _;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::client::{ApiError, Client, Identity, Result};
use crate::clock::Clock;
use crate::context::Context;
use crate::controller::Watch;
use crate::events::Recorder;
use crate::kinds::{Kind, POD, REPLICATION_CONTROLLER};
use crate::network::selector::{Labels, has_all, labels_at, picks};
use crate::object::{Key, Object as _, owned_by};
use crate::stages::Fnv;

/// How many pods are made or taken away in one look, however many are wanted; those make for the next one.
pub(super) const BURST: usize = 500;

/// The hand of one controller: who it is, and what it owns things in the name of.
#[derive(Debug, Clone)]
pub(super) struct Hand {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    /// The kind of the owners.
    pub(super) kind: &'static Kind,
}

impl Hand {
    /// The hand of a controller whose events come from `component`.
    pub(super) fn new(context: &Context, kind: &'static Kind, component: &'static str) -> Self {
        let client = context.client(Identity::CONTROLLER_MANAGER);
        let recorder = Recorder::new(&client, context.clock, component);
        Self { client, clock: context.clock, recorder, kind }
    }

    /// The objects of a kind that belong to an owner. Those nobody owns and the selector picks become its own; its
    /// own that the selector no longer picks are let go.
    pub(super) async fn claim(&self, kind: &'static Kind, owner: &Value) -> Result<Vec<Arc<Value>>> {
        let cache = self.client.cache(kind);
        let mut claimed = Vec::new();
        let mut asked = None;
        if owner.is_deleting() {
            return Ok(cache.controlled_by(owner.uid()));
        }
        for object in cache.list(owner.namespace()) {
            let own = object.is_controlled_by(owner.uid());
            if !own && object.controller().is_some() {
                continue;
            }
            match (own, wants(self.kind, owner, &labels_at(&object, "/metadata/labels"))) {
                (true, true) => claimed.push(object),
                (true, false) => self.let_go(kind, owner, &object).await?,
                (false, true) if !object.is_deleting() && self.may_adopt(owner, &mut asked).await? => {
                    claimed.extend(self.adopt(kind, owner, &object).await?);
                }
                (false, _) => {}
            }
        }
        Ok(claimed)
    }

    /// Whether an owner is still there to adopt anything, asked of the server once: an owner that goes and leaves its
    /// objects behind has to leave them alone, and the cache may not know yet that it goes.
    async fn may_adopt(&self, owner: &Value, asked: &mut Option<bool>) -> Result<bool> {
        if let Some(answer) = asked {
            return Ok(*answer);
        }
        let now = self.client.get(self.kind, &Key::of(owner)).await?;
        let answer = now.is_some_and(|now| now.uid() == owner.uid() && !now.is_deleting());
        Ok(*asked.insert(answer))
    }

    async fn adopt(&self, kind: &'static Kind, owner: &Value, object: &Value) -> Result<Option<Arc<Value>>> {
        let mut owners = object.list("/metadata/ownerReferences").to_vec();
        owners.push(owned_by(self.kind, owner));
        Ok(self.set_owners(kind, object, owners).await?.map(Arc::new))
    }

    async fn let_go(&self, kind: &'static Kind, owner: &Value, object: &Value) -> Result {
        let mut owners = object.list("/metadata/ownerReferences").to_vec();
        owners.retain(|one| one["uid"] != owner.uid());
        self.set_owners(kind, object, owners).await?;
        Ok(())
    }

    async fn set_owners(
        &self,
        kind: &'static Kind,
        object: &Value,
        owners: Vec<Value>,
    ) -> Result<Option<Value>> {
        let metadata = json!({
            "uid": object.uid(), "resourceVersion": object["metadata"]["resourceVersion"],
            "ownerReferences": owners,
        });
        match self.client.merge(kind, &Key::of(object), &json!({"metadata": metadata})).await {
            Err(failure) if failure.is_not_found() => Ok(None),
            written => written.map(Some),
        }
    }

    /// Makes a pod for an owner, and tells.
    pub(super) async fn make(&self, owner: &Value, pod: Value) -> Result<Value> {
        match self.client.create(&POD, pod).await {
            Ok(made) => {
                let message = format!("Created pod: {}", made.name());
                self.recorder.normal(self.kind, owner, "SuccessfulCreate", &message).await;
                Ok(made)
            }
            Err(failure) => {
                if !is_ending(&failure) {
                    let message = format!("Error creating: {failure}");
                    self.recorder.warning(self.kind, owner, "FailedCreate", &message).await;
                }
                Err(failure)
            }
        }
    }

    /// Deletes a pod of an owner, and tells.
    pub(super) async fn take(&self, owner: &Value, pod: &Value) -> Result {
        match self.client.delete(&POD, &Key::of(pod), pod.uid()).await {
            Ok(()) => {
                let message = format!("Deleted pod: {}", pod.name());
                self.recorder.normal(self.kind, owner, "SuccessfulDelete", &message).await;
                Ok(())
            }
            Err(failure) => {
                let message = format!("Error deleting: {failure}");
                self.recorder.warning(self.kind, owner, "FailedDelete", &message).await;
                Err(failure)
            }
        }
    }

    /// The owners: each of them, those of changed objects, and those that may want what nobody owns.
    pub(super) fn watches(&self, owned: &'static Kind) -> Vec<Watch> {
        let (owners, objects) = (self.client.cache(self.kind), self.client.cache(owned));
        let (candidates, kind) = (Arc::clone(&owners), self.kind);
        vec![
            Watch::each(&owners),
            Watch::owners(&objects, self.kind.kind),
            Watch::mapped(&objects, move |change| {
                let object = change.object();
                if object.controller().is_some() {
                    // Whoever owned it before has to know that it is gone.
                    let before = change.before.as_ref().and_then(|before| before.controller());
                    let lost = before.filter(|owner| !object.is_controlled_by(owner.text("/uid")));
                    return lost
                        .map(|owner| Key::new(object.namespace(), owner.text("/name")))
                        .into_iter()
                        .collect();
                }
                let labels = labels_at(object, "/metadata/labels");
                let mut able = candidates.list(object.namespace());
                able.retain(|owner| wants(kind, owner, &labels));
                able.iter().map(|owner| Key::of(owner)).collect()
            }),
        ]
    }
}

/// Whether the selector of an owner picks something with these labels. That of a replication controller is older than
/// `LabelSelector`: only labels, and without any it picks nothing.
fn wants(kind: &Kind, owner: &Value, labels: &Labels) -> bool {
    let selector = owner.at("/spec/selector");
    if *kind == REPLICATION_CONTROLLER {
        let wanted = labels_at(selector, "");
        return !wanted.is_empty() && has_all(&wanted, labels);
    }
    picks(selector, labels)
}

/// Whether something was refused because its namespace is about to go.
fn is_ending(failure: &ApiError) -> bool {
    failure.code == 403 && failure.message.contains("because it is being terminated")
}

/// A pod as a template describes it, for an owner whose pods have generated names.
pub(super) fn from_template(kind: &Kind, owner: &Value, template: &Value) -> Value {
    let mut metadata = json!({
        "namespace": owner.namespace(), "generateName": format!("{}-", owner.name()),
        "ownerReferences": [owned_by(kind, owner)],
    });
    for name in ["labels", "annotations", "finalizers"] {
        if !template["metadata"][name].is_null() {
            metadata[name] = template["metadata"][name].clone();
        }
    }
    json!({"metadata": metadata, "spec": template["spec"]})
}

/// Whether a pod counts: neither over nor going.
pub(super) fn is_active(pod: &Value) -> bool {
    !pod.is_over() && !pod.is_deleting()
}

/// Whether and when a pod counts as available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Available {
    /// It is.
    Now,
    /// It will be, if it stays ready.
    In(Duration),
    /// It is not ready.
    No,
}

/// Whether a pod has been ready for long enough.
pub(super) fn available(pod: &Value, min_ready: i64, now: Timestamp) -> Available {
    if !pod.condition_holds("Ready") {
        return Available::No;
    }
    let since: Timestamp = pod.condition("Ready").text("/lastTransitionTime").parse().unwrap_or(now);
    let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    let needed = Duration::from_secs(u64::try_from(min_ready).unwrap_or_default());
    if passed >= needed { Available::Now } else { Available::In(needed.saturating_sub(passed)) }
}

/// Pods in the order in which they are given up: not on a node before on one, waiting before running, not ready before
/// ready, cheaper before dearer, on crowded nodes before on others, ready for a short time before for a long one.
pub(super) fn least_useful(pods: &[Arc<Value>]) -> Vec<Arc<Value>> {
    let crowd = |pod: &Value| {
        pods.iter().filter(|other| other["spec"]["nodeName"] == pod["spec"]["nodeName"]).count()
    };
    let mut sorted = pods.to_vec();
    sorted.sort_by_cached_key(|pod| {
        let phase = match pod.text("/status/phase") {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        };
        let cost: i64 =
            pod.annotation("controller.kubernetes.io/pod-deletion-cost").parse().unwrap_or_default();
        let since = pod.condition("Ready").text("/lastTransitionTime").to_owned();
        let restarts: i64 =
            pod.list("/status/containerStatuses").iter().filter_map(|one| one.number("/restartCount")).sum();
        let made = pod.text("/metadata/creationTimestamp").to_owned();
        (
            !pod.text("/spec/nodeName").is_empty(),
            phase,
            (pod.condition_holds("Ready"), cost),
            std::cmp::Reverse((crowd(pod), since, restarts, made)),
            pod.name().to_owned(),
        )
    });
    sorted
}

/// What tells one template from another: a word that fits into names and labels.
pub(super) fn hash_of(template: &Value, collisions: i64) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hash = Fnv::new(u64::try_from(collisions).unwrap_or_default());
    hash.write(template.to_string().as_bytes());
    let number = (hash.finish() >> 32).to_string();
    number.bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

/// A number that may be a share of a total.
pub(super) fn share(value: &Value, total: i64, up: bool) -> i64 {
    match value {
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            if up { (percent * total + 99) / 100 } else { percent * total / 100 }
        }
        value => value.as_i64().unwrap_or_default(),
    }
}

/// A count as JSON has it.
pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_would_be_missed_least_go_first() {
        let pod = |name: &str, node: &str, ready: bool| {
            Arc::new(json!({
                "metadata": {"name": name}, "spec": {"nodeName": node},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
            }))
        };
        let all = [
            pod("alone", "a", true),
            pod("two", "b", true),
            pod("three", "b", true),
            pod("sick", "c", false),
            pod("new", "", false),
        ];
        let names: Vec<_> = least_useful(&all).iter().map(|pod| pod.name().to_owned()).collect();
        assert_eq!(names, ["new", "sick", "three", "two", "alone"]);
    }

    #[test]
    fn a_replication_controller_picks_by_labels_alone() {
        let owner = json!({"spec": {"selector": {"app": "web"}}});
        let labels = |app: &str| labels_at(&json!({"app": app}), "");
        assert!(wants(&REPLICATION_CONTROLLER, &owner, &labels("web")));
        assert!(!wants(&REPLICATION_CONTROLLER, &owner, &labels("db")));
        assert!(!wants(&REPLICATION_CONTROLLER, &json!({"spec": {}}), &labels("web")));
    }

    #[test]
    fn shares_are_rounded_as_asked() {
        assert_eq!(share(&json!("25%"), 3, true), 1);
        assert_eq!(share(&json!("25%"), 3, false), 0);
        assert_eq!(share(&json!(2), 3, false), 2);
    }

    #[test]
    fn a_pod_is_available_after_a_while() {
        let pod = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        let now = "2026-01-01T00:00:04Z".parse().unwrap();
        assert_eq!(available(&pod, 4, now), Available::Now);
        assert_eq!(available(&pod, 10, now), Available::In(Duration::from_secs(6)));
        assert_eq!(available(&json!({}), 0, now), Available::No);
    }

    #[test]
    fn hashes_are_words_for_names() {
        let hash = hash_of(&json!({"a": 1}), 0);
        assert_eq!(hash, hash_of(&json!({"a": 1}), 0));
        assert_ne!(hash, hash_of(&json!({"a": 1}), 1));
        assert!(hash.bytes().all(|letter| letter.is_ascii_alphanumeric()) && hash.len() <= 10);
    }
}

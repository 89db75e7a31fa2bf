//! What pod disruption budgets say: how many pods are healthy, and how many may be disturbed.

use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::agent::Agent;
use super::{Controller, Interest, Next, Queue};
use crate::admission::disruption::{self, Scale};
use crate::clock::seconds;
use crate::crd;
use crate::kinds;
use crate::names::{GroupResource, Gvk};
use crate::selector::LabelSelector;
use crate::server::Server;
use crate::status::Status;
use crate::store::{Change, EventKind, Key, Query, Store};

/// How long a pod may be meant to be disturbed without being deleted.
const DISRUPTION_LIMIT: SignedDuration = SignedDuration::from_mins(2);

/// Something for the controller to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Task {
    /// The status of a budget may be another one.
    Budget(Key),
    /// A pod was meant to be disturbed, and perhaps is no longer.
    Pod(Key),
}

/// Keeps the status of budgets.
#[derive(Debug)]
pub(super) struct Budgets {
    agent: Agent,
    store: Weak<Store>,
}

fn resource() -> GroupResource {
    GroupResource::new("policy", "poddisruptionbudgets")
}

fn pods() -> GroupResource {
    GroupResource::new("", "pods")
}

/// The last time a pod that is not being deleted was meant to be disturbed.
fn meant_to_be_disturbed(pod: &Value) -> Option<Timestamp> {
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let condition = pod["status"]["conditions"].as_array()?.iter().find(|condition| {
        condition["type"] == "DisruptionTarget"
            && condition["status"] == "True"
            && condition["reason"] != "TerminationByKubelet"
    })?;
    if finished || !pod["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    condition["lastTransitionTime"].as_str()?.parse().ok()
}

impl Controller for Budgets {
    type Item = Task;

    fn interest(&self) -> Interest {
        let (store, budgets, pods) = (Weak::clone(&self.store), resource(), pods());
        Box::new(move |change| {
            change.of == budgets
                || (change.of == pods && store.upgrade().is_some_and(|store| store.count(&budgets) > 0))
        })
    }

    fn begin(&mut self, queue: &mut Queue<Task>) {
        let Some(server) = self.agent.server() else { return };
        let all = server.store().list(&resource(), &Query::default(), |_, _| true).records;
        queue.extend(all.iter().map(|record| Task::Budget(record.key.clone())));
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<Task>) {
        let event = &change.event;
        if change.of == resource() {
            if event.kind != EventKind::Deleted {
                queue.add(Task::Budget(event.key.clone()));
            }
            return;
        }
        let Some(server) = self.agent.server() else { return };
        let query = Query { namespace: Some(&event.key.namespace), ..Query::default() };
        let budgets = server.store().list(&resource(), &query, |_, _| true).records;
        queue.extend(budgets.iter().map(|budget| Task::Budget(budget.key.clone())));
        if event.kind != EventKind::Deleted && !budgets.is_empty() {
            queue.add(Task::Pod(event.key.clone()));
        }
    }

    async fn work(&mut self, task: &Task, _: &mut Queue<Task>) -> Result<Next, Status> {
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        match task {
            Task::Budget(key) => self.settle(&server, key).await,
            Task::Pod(key) => self.calm(&server, key).await,
        }
    }
}

impl Budgets {
    pub(super) fn new(agent: Agent, store: &Arc<Store>) -> Self {
        Self { agent, store: Arc::downgrade(store) }
    }

    /// Computes the status of a budget.
    async fn settle(&self, server: &Server, key: &Key) -> Result<Next, Status> {
        let Some(record) = server.store().get(&resource(), key) else { return Ok(Next::Done) };
        let now = server.clock().now();
        let selector = LabelSelector::from_object(&record.parse()["spec"]["selector"]).ok();
        let query = Query { namespace: Some(&key.namespace), ..Query::default() };
        let selected = server.store().list(&pods(), &query, |_, pod| {
            selector.as_ref().is_some_and(|selector| selector.matches(&pod.index.labels))
        });
        let selected: Vec<Arc<Value>> = selected.records.iter().map(|pod| Arc::new(pod.parse())).collect();
        let scale = |controller: &Value| scale_behind(server, &key.namespace, controller);
        let recheck = disruption::compute(&record.parse(), &selected, &scale, now).recheck_at;
        let change = |mut budget: Value| {
            if let Some(status) = disruption::compute(&budget, &selected, &scale, now).status {
                budget["status"] = status;
            }
            Ok(budget)
        };
        self.agent.change(&resource(), key, "status", &change).await?;
        Ok(recheck.map_or(Next::Done, |at| after(at.duration_since(now))))
    }

    /// Takes back that a pod is meant to be disturbed when nobody did it.
    async fn calm(&self, server: &Server, key: &Key) -> Result<Next, Status> {
        let Some(record) = server.store().get(&pods(), key) else { return Ok(Next::Done) };
        let now = server.clock().now();
        let Some(since) = meant_to_be_disturbed(&record.parse()) else { return Ok(Next::Done) };
        let left = DISRUPTION_LIMIT.saturating_sub(now.duration_since(since));
        if left.is_positive() {
            return Ok(after(left));
        }
        let change = |mut pod: Value| {
            if meant_to_be_disturbed(&pod) == Some(since) {
                let conditions = pod["status"]["conditions"].as_array_mut().into_iter().flatten();
                for condition in conditions.filter(|condition| condition["type"] == "DisruptionTarget") {
                    *condition = json!({"type": "DisruptionTarget", "status": "False",
                        "lastProbeTime": null, "lastTransitionTime": seconds(now)});
                }
            }
            Ok(pod)
        };
        self.agent.change(&pods(), key, "status", &change).await?;
        Ok(Next::Done)
    }
}

fn after(wait: SignedDuration) -> Next {
    Next::After(Duration::try_from(wait).unwrap_or_default())
}

/// The object a reference is about, if it is what the reference says.
fn referred(server: &Server, of: &GroupResource, namespace: &str, reference: &Value) -> Option<Value> {
    let key = Key::new(namespace, reference["name"].as_str().unwrap_or_default());
    let record = server.store().get(of, &key)?;
    (reference["uid"] == record.index.uid.as_str()).then(|| record.parse())
}

/// Who stands behind the controller of a pod, and how many pods that wants.
fn scale_behind(server: &Server, namespace: &str, reference: &Value) -> Scale {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&reference["apiVersion"]), text(&reference["kind"]));
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    if kind == "ReplicaSet" && matches!(group, "apps" | "extensions") {
        let set = referred(server, &GroupResource::new("apps", "replicasets"), namespace, reference);
        let owner = set.as_ref().and_then(|set| {
            let owners = set["metadata"]["ownerReferences"].as_array()?;
            owners.iter().find(|owner| owner["controller"] == true && owner["kind"] == "Deployment")
        });
        let deployments = GroupResource::new("apps", "deployments");
        if let Some(found) = owner.and_then(|owner| referred(server, &deployments, namespace, owner)) {
            return Ok(Some((text(&found["metadata"]["uid"]), replicas(&found))));
        }
    }
    let Some(served) = server.registry().by_kind(&Gvk::new(group, version, &kind)) else {
        return Err(format!("no matches for kind {kind:?} in version {api_version:?}"));
    };
    if served.subresource_verbs("scale").is_none() {
        return Err(format!("{} does not implement the scale subresource", served.resource));
    }
    let Some(object) = referred(server, &served.stored_as, namespace, reference) else { return Ok(None) };
    let scale = match server.registry().stored(&served.stored_as) {
        None => return Ok(None),
        Some(stored) => match stored.custom_version() {
            Some(version) => crd::scale_of(version, &object).map_err(|status| status.message)?,
            None => kinds::scale_of(&stored.kind, &object).unwrap_or_default(),
        },
    };
    Ok(Some((text(&object["metadata"]["uid"]), replicas(&scale))))
}

fn replicas(object: &Value) -> i64 {
    object["spec"]["replicas"].as_i64().unwrap_or_default()
}

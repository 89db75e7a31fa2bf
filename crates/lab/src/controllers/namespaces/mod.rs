//! The end of a namespace: everything in it goes, then it goes itself.

mod conditions;
mod remote;

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::agent::Agent;
use super::{Controller, Interest, Next, Queue};
use crate::api::options::{DeleteOptions, Propagation};
use crate::clock::seconds;
use crate::names::GroupResource;
use crate::registry::Served;
use crate::server::Server;
use crate::status::Status;
use crate::store::{Change, EventKind, Key, Query, Record, Store};
use crate::together::side_by_side;

use conditions::{Remains, explained};

/// What a namespace waits with until it is empty.
const FINALIZER: &str = "kubernetes";
/// How many seconds those who have to finalize an object are given.
const FINALIZER_ESTIMATE: i64 = 15;

/// Something for the controller to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Task {
    /// A namespace is ending.
    End(String),
    /// An object was stored although its namespace is ending or gone: whoever wrote it was let in before.
    Late(GroupResource, Key),
}

/// Ends namespaces.
#[derive(Debug)]
pub(super) struct Namespaces {
    agent: Agent,
    store: Weak<Store>,
    ending: HashSet<String>,
}

pub(super) fn resource() -> GroupResource {
    GroupResource::new("", "namespaces")
}

pub(super) fn is_namespace(of: &GroupResource) -> bool {
    of.group.is_empty() && of.resource == "namespaces"
}

impl Controller for Namespaces {
    type Item = Task;

    const LONGEST_WAIT: Duration = Duration::from_mins(1);

    fn interest(&self) -> Interest {
        let (store, namespaces) = (Weak::clone(&self.store), resource());
        Box::new(move |change| {
            let namespace = &change.event.key.namespace;
            match change.event.kind {
                _ if is_namespace(&change.of) => true,
                EventKind::Modified => false,
                EventKind::Deleted => !namespace.is_empty(),
                EventKind::Added => {
                    let stays = |store: Arc<Store>| {
                        let found = store.get(&namespaces, &Key::new("", namespace.as_str()));
                        found.is_some_and(|record| !record.index.deleting)
                    };
                    !namespace.is_empty() && !store.upgrade().is_some_and(stays)
                }
            }
        })
    }

    fn begin(&mut self, queue: &mut Queue<Task>) {
        let Some(server) = self.agent.server() else { return };
        for record in
            server.store().list(&resource(), &Query::default(), |_, record| record.index.deleting).records
        {
            self.ending.insert(record.key.name.clone());
            queue.add(Task::End(record.key.name.clone()));
        }
        for (of, key) in without_namespace(server.store()) {
            queue.add(Task::Late(of, key));
        }
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<Task>) {
        let key = &change.event.key;
        let gone = change.event.kind == EventKind::Deleted;
        if is_namespace(&change.of) {
            if gone {
                self.ending.remove(&key.name);
            } else if change.event.record.index.deleting {
                self.ending.insert(key.name.clone());
                queue.add(Task::End(key.name.clone()));
            }
        } else if gone {
            if self.ending.contains(&key.namespace) {
                queue.add(Task::End(key.namespace.clone()));
            }
        } else {
            queue.add(Task::Late(change.of.clone(), key.clone()));
        }
    }

    async fn work(&mut self, task: &Task, queue: &mut Queue<Task>) -> Result<Next, Status> {
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        match task {
            Task::End(name) => self.end(&server, name).await,
            Task::Late(of, key) => {
                match server.store().get(&resource(), &Key::new("", key.namespace.as_str())) {
                    Some(namespace) if !namespace.index.deleting => {}
                    // It goes with the rest, in good order.
                    Some(namespace) if waits(&namespace.parse()) => {
                        queue.add(Task::End(key.namespace.clone()));
                    }
                    _ => self.agent.delete(of, key, &background()).await?,
                }
                Ok(Next::Done)
            }
        }
    }
}

impl Namespaces {
    pub(super) fn new(agent: Agent, store: &Arc<Store>) -> Self {
        Self { agent, store: Arc::downgrade(store), ending: HashSet::new() }
    }

    /// Deletes what is left; without any rest, lets the namespace go.
    async fn end(&self, server: &Arc<Server>, name: &str) -> Result<Next, Status> {
        let key = Key::new("", name);
        let Some(record) = server.store().get(&resource(), &key) else { return Ok(Next::Done) };
        let namespace = record.parse();
        if !record.index.deleting || !waits(&namespace) {
            return Ok(Next::Done);
        }
        let now = server.clock().now();
        let since = namespace["metadata"]["deletionTimestamp"].as_str().and_then(|text| text.parse().ok());
        let remains = self.clear(server, name, now, since.unwrap_or(now)).await;
        let (uid, time) = (record.index.uid.as_str(), seconds(now));
        let change = |found: Value| {
            Ok(if found["metadata"]["uid"] == uid { explained(found, &remains, &time) } else { found })
        };
        self.agent.change(&resource(), &key, "status", &change).await?;
        if let Some(failure) = remains.unknown.as_ref().or(remains.failures.first()) {
            return Err(Status::internal(failure.as_str()));
        }
        if remains.estimate > 0 {
            let wait = u64::try_from(remains.estimate / 2 + 1).unwrap_or(1);
            return Ok(Next::After(Duration::from_secs(wait)));
        }
        let change =
            |found: Value| Ok(if found["metadata"]["uid"] == uid { finalized(found) } else { found });
        self.agent.change(&resource(), &key, "finalize", &change).await?;
        Ok(Next::Done)
    }

    /// Asks for the deletion of everything in a namespace, pods first; says what is still there.
    async fn clear(
        &self,
        server: &Arc<Server>,
        namespace: &str,
        now: Timestamp,
        since: Timestamp,
    ) -> Remains {
        let mut resources: Vec<Arc<Served>> = server
            .registry()
            .all()
            .into_iter()
            .filter(|served| {
                let own = served.stored_as == served.resource && served.kind == served.storage_kind;
                own && served.namespaced && served.allows("delete")
            })
            .collect();
        resources.sort_by_key(|served| (!served.is_pod(), served.resource.clone()));
        let mut remains = Remains { unknown: server.stale_groups(), ..Remains::default() };
        for served in resources {
            let patience =
                if served.is_pod() { pod_patience(server.store(), namespace, now, since) } else { 0 };
            self.clear_resource(server, &served, namespace, patience, &mut remains).await;
            if served.is_pod() && !remains.objects.is_empty() {
                // Pods may need what else is here to stop in good order.
                remains.pods = true;
                return remains;
            }
        }
        remote::clear(server, self.agent.user(), namespace, &mut remains).await;
        remains
    }

    /// Asks for the deletion of all objects of one resource in a namespace.
    async fn clear_resource(
        &self,
        server: &Server,
        served: &Served,
        namespace: &str,
        patience: i64,
        remains: &mut Remains,
    ) {
        let of = &served.stored_as;
        let query = Query { namespace: Some(namespace), ..Query::default() };
        let list = |deleting_too: bool| {
            let keep = |_: &Key, record: &Record| deleting_too || !record.index.deleting;
            server.store().list(of, &query, keep).records
        };
        let (options, there) = (&background(), list(false));
        // Whatever cannot go keeps nothing else here.
        let tried = side_by_side(&there, |record| async move {
            Ok(self.agent.delete(of, &record.key, options).await.err())
        });
        let failure = tried.await.map_or_else(Some, |failures| failures.into_iter().flatten().next());
        let left = list(true);
        if left.is_empty() && failure.is_none() {
            return;
        }
        remains.objects.extend((!left.is_empty()).then(|| (counted_name(&served.resource), left.len())));
        let finalizers: Vec<&String> = left.iter().flat_map(|record| &record.index.finalizers).collect();
        for finalizer in &finalizers {
            remains.count_finalizer(finalizer);
        }
        let estimate = match patience {
            0 if !finalizers.is_empty() => FINALIZER_ESTIMATE,
            patience => patience,
        };
        remains.estimate = remains.estimate.max(estimate);
        if let Some(status) = failure {
            remains.failures.push(status.message);
        } else if estimate == 0 {
            let (group, version) = (&served.kind.group, &served.kind.version);
            let resource = &served.resource.resource;
            remains.failures.push(format!(
                "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={resource}"
            ));
        }
    }
}

/// True for a namespace that somebody still has to clear.
fn waits(namespace: &Value) -> bool {
    namespace["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

/// What is stored in namespaces that are not there, or that nobody clears any more: the server may have stopped before
/// it was done with what came late.
fn without_namespace(store: &Store) -> Vec<(GroupResource, Key)> {
    let counts = |_: &Key, record: &Record| !record.index.deleting || waits(&record.parse());
    let namespaces = store.list(&resource(), &Query::default(), counts).records;
    let known: HashSet<&str> = namespaces.iter().map(|record| record.key.name.as_str()).collect();
    let lost = |key: &Key, _: &Record| !key.namespace.is_empty() && !known.contains(key.namespace.as_str());
    let mut found = Vec::new();
    for of in store.resources() {
        let records = store.list(&of, &Query::default(), lost).records;
        found.extend(records.iter().map(|record| (of.clone(), record.key.clone())));
    }
    found
}

fn background() -> DeleteOptions {
    DeleteOptions { policy: Some(Propagation::Background), ..DeleteOptions::default() }
}

/// How many seconds the pods of a namespace may take to stop; none once that time is over.
fn pod_patience(store: &Store, namespace: &str, now: Timestamp, since: Timestamp) -> i64 {
    let query = Query { namespace: Some(namespace), ..Query::default() };
    let pods = store.list(&GroupResource::new("", "pods"), &query, |_, _| true).records;
    let patience = pods
        .iter()
        .map(|record| record.parse())
        .filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")))
        .filter_map(|pod| pod["spec"]["terminationGracePeriodSeconds"].as_i64())
        .max();
    patience.filter(|patience| now.duration_since(since).as_secs() < *patience).unwrap_or(0)
}

/// `pods.` and `deployments.apps`, as the real controller names resources here.
fn counted_name(resource: &GroupResource) -> String {
    format!("{}.{}", resource.resource, resource.group)
}

fn finalized(mut namespace: Value) -> Value {
    if let Some(finalizers) = namespace.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        finalizers.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
        finalizers.dedup();
    }
    namespace
}

#[cfg(test)]
mod tests;

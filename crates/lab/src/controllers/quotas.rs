//! What quotas say is used: counted anew when something that counts goes or changes.
//!
//! What comes is charged by the request that creates it, so nothing has to be counted then.

use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::Value;

use super::agent::Agent;
use super::{Controller, Interest, Next, Queue};
use crate::admission::quota;
use crate::names::GroupResource;
use crate::server::Server;
use crate::status::Status;
use crate::store::{Change, EventKind, Key, Query, Record, Store};

/// How often everything is counted anew, whatever happened: a request that was charged may have failed.
const RECOUNT: Duration = Duration::from_mins(5);

/// Counts what is used.
#[derive(Debug)]
pub(super) struct Quotas {
    agent: Agent,
    store: Weak<Store>,
}

fn resource() -> GroupResource {
    GroupResource::new("", "resourcequotas")
}

/// The quotas of a namespace.
fn quotas_of(store: &Store, namespace: &str) -> Vec<Key> {
    let query = Query { namespace: Some(namespace), ..Query::default() };
    store.list(&resource(), &query, |_, _| true).records.iter().map(|record| record.key.clone()).collect()
}

/// True when a change of an object may change what it uses.
fn uses_differently(of: &GroupResource, before: &Record, after: &Record) -> bool {
    let (before, after) = (before.parse(), after.parse());
    let same = |pointer: &str| before.pointer(pointer) == after.pointer(pointer);
    let finished = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    match of.resource.as_str() {
        "pods" => {
            finished(&before) != finished(&after)
                || !same("/spec")
                || !same("/metadata/deletionTimestamp")
                || !same("/status/resources")
                || !same("/status/containerStatuses")
        }
        "persistentvolumeclaims" => !same("/spec") || !same("/status/allocatedResources"),
        _ => !same("/spec"),
    }
}

impl Controller for Quotas {
    type Item = Key;

    fn interest(&self) -> Interest {
        let (store, quotas) = (Weak::clone(&self.store), resource());
        Box::new(move |change| {
            let counts = match change.event.kind {
                _ if change.event.key.namespace.is_empty() => false,
                _ if change.of == quotas => return change.event.kind != EventKind::Deleted,
                EventKind::Deleted => true,
                EventKind::Added => false,
                EventKind::Modified => matches!(
                    (change.of.group.as_str(), change.of.resource.as_str()),
                    ("", "pods" | "services" | "persistentvolumeclaims")
                        | ("resource.k8s.io", "resourceclaims")
                ),
            };
            counts && store.upgrade().is_some_and(|store| store.count(&quotas) > 0)
        })
    }

    fn begin(&mut self, queue: &mut Queue<Key>) {
        let Some(server) = self.agent.server() else { return };
        let all = server.store().list(&resource(), &Query::default(), |_, _| true).records;
        queue.extend(all.iter().map(|record| record.key.clone()));
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<Key>) {
        let Some(server) = self.agent.server() else { return };
        let event = &change.event;
        if change.of == resource() {
            let changed = |before: &Arc<Record>| before.parse()["spec"] != event.record.parse()["spec"];
            if event.before.as_ref().is_none_or(changed) {
                queue.add(event.key.clone());
            }
            return;
        }
        let quotas = quotas_of(server.store(), &event.key.namespace);
        let concerned = match &event.before {
            _ if quotas.is_empty() => false,
            Some(before) if event.kind == EventKind::Modified => {
                uses_differently(&change.of, before, &event.record)
            }
            _ => true,
        };
        if concerned {
            queue.extend(quotas);
        }
    }

    async fn work(&mut self, key: &Key, _: &mut Queue<Key>) -> Result<Next, Status> {
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        if server.store().get(&resource(), key).is_none() {
            return Ok(Next::Done);
        }
        let change = |mut quota: Value| {
            let count = |of: &GroupResource| objects(&server, of, &key.namespace);
            if let Some(status) = quota::recalculate(&quota, &count, server.clock().now()) {
                quota["status"] = status;
            }
            Ok(quota)
        };
        self.agent.change(&resource(), key, "status", &change).await?;
        Ok(Next::After(RECOUNT))
    }
}

/// The objects of a resource in a namespace, if it is served.
fn objects(server: &Server, of: &GroupResource, namespace: &str) -> Option<Vec<Arc<Value>>> {
    let served = server.registry().stored(of)?;
    let query = Query { namespace: Some(namespace), ..Query::default() };
    let records = server.store().list(&served.stored_as, &query, |_, _| true).records;
    Some(records.iter().map(|record| Arc::new(record.parse())).collect())
}

impl Quotas {
    pub(super) fn new(agent: Agent, store: &Arc<Store>) -> Self {
        Self { agent, store: Arc::downgrade(store) }
    }
}

//! Definitions of custom resources: their names are accepted, they are established, and on their end their
//! objects go first.

use std::sync::Arc;

use serde_json::Value;

use super::agent::{Agent, without_finalizer};
use super::{Controller, Interest, Next, Queue};
use crate::api::options::DeleteOptions;
use crate::clock::seconds;
use crate::crd::definition::{self, CLEANUP_FINALIZER, Condition, Termination};
use crate::names::GroupResource;
use crate::registry::{definitions as resource, established};
use crate::server::Server;
use crate::status::Status;
use crate::store::{Change, EventKind, Key, Query, Store};
use crate::together::side_by_side;

/// Keeps the status of definitions.
#[derive(Debug)]
pub(super) struct Definitions {
    agent: Agent,
}

impl Controller for Definitions {
    /// The name of a definition.
    type Item = String;

    fn interest(&self) -> Interest {
        let definitions = resource();
        Box::new(move |change| {
            let own = change.of == definitions;
            own || (change.event.kind == EventKind::Deleted && !change.of.group.is_empty())
        })
    }

    fn begin(&mut self, queue: &mut Queue<String>) {
        let Some(server) = self.agent.server() else { return };
        let all = server.store().list(&resource(), &Query::default(), |_, _| true).records;
        for record in &all {
            queue.add(record.key.name.clone());
        }
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<String>) {
        let Some(server) = self.agent.server() else { return };
        let event = &change.event;
        if change.of != resource() {
            // An object went; the definition may have waited for the last one.
            let name = format!("{}.{}", change.of.resource, change.of.group);
            let definition = server.store().get(&resource(), &Key::new("", name.as_str()));
            queue.extend(definition.filter(|record| record.index.deleting).map(|_| name));
            return;
        }
        if event.kind == EventKind::Deleted {
            // A name that was given up may be what another definition of the group waits for.
            queue.extend(neighbours(server.store(), &event.key.name));
        } else {
            queue.add(event.key.name.clone());
        }
    }

    async fn work(&mut self, name: &String, _: &mut Queue<String>) -> Result<Next, Status> {
        let key = Key::new("", name.as_str());
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        let Some(record) = server.store().get(&resource(), &key) else { return Ok(Next::Done) };
        self.settle(&server, &key).await?;
        if record.index.deleting && record.index.finalizers.iter().any(|found| found == CLEANUP_FINALIZER) {
            self.end(&server, &key, &record.parse()).await?;
        }
        Ok(Next::Done)
    }
}

impl Definitions {
    pub(super) fn new(agent: Agent) -> Self {
        Self { agent }
    }

    /// Accepts the names of a definition, and establishes it if they are accepted.
    async fn settle(&self, server: &Server, key: &Key) -> Result<(), Status> {
        let now = seconds(server.clock().now());
        let change = |mut definition: Value| {
            // Most changes are to definitions that have their names.
            if definition["spec"]["names"] != definition["status"]["acceptedNames"] {
                let records = server.store().list(&resource(), &Query::default(), |other, _| {
                    other != key && group_of(&other.name) == group_of(&key.name)
                });
                let others: Vec<Value> = records.records.iter().map(|record| record.parse()).collect();
                definition::accept_names(&mut definition, others.iter(), &now);
            }
            definition::establish(&mut definition, &now);
            definition::sync_non_structural(&mut definition, &now);
            definition::sync_approval(&mut definition, &now);
            Ok(definition)
        };
        self.agent.change(&resource(), key, "status", &change).await
    }

    /// Deletes the objects of a definition, and lets it go when there are none.
    async fn end(&self, server: &Arc<Server>, key: &Key, definition: &Value) -> Result<(), Status> {
        if !established(definition) {
            return self.progress(server, key, Termination::NeverEstablished).await;
        }
        self.progress(server, key, Termination::InProgress).await?;
        let of = objects_of(definition);
        let left = server.store().list(&of, &Query::default(), |_, record| !record.index.deleting).records;
        // Nobody is asked: the objects cannot stay without their definition.
        let options = DeleteOptions { unasked: true, ..DeleteOptions::default() };
        let deleted = side_by_side(&left, |record| self.agent.delete(&of, &record.key, &options)).await;
        if let Err(status) = deleted {
            self.progress(server, key, Termination::Failed(status.message.clone())).await?;
            return Err(status);
        }
        if server.store().count(&of) > 0 {
            return Ok(());
        }
        self.progress(server, key, Termination::Completed).await
    }

    /// Writes down how far the deletion is; with the end of it the definition is let go.
    async fn progress(&self, server: &Server, key: &Key, progress: Termination) -> Result<(), Status> {
        let now = seconds(server.clock().now());
        let over = matches!(progress, Termination::Completed | Termination::NeverEstablished);
        let condition = Condition::terminating(progress);
        let change = |mut definition: Value| {
            if definition["metadata"]["deletionTimestamp"].is_null() {
                return Ok(definition);
            }
            definition::set_condition(&mut definition, &condition, &now);
            Ok(if over { without_finalizer(definition, CLEANUP_FINALIZER) } else { definition })
        };
        self.agent.change(&resource(), key, "status", &change).await
    }
}

/// The group in the name of a definition.
fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}

/// The definitions of the same group.
fn neighbours(store: &Store, name: &str) -> Vec<String> {
    let others =
        store.list(&resource(), &Query::default(), |other, _| group_of(&other.name) == group_of(name));
    others.records.iter().map(|record| record.key.name.clone()).collect()
}

/// The resource a definition defines.
fn objects_of(definition: &Value) -> GroupResource {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &definition["spec"];
    GroupResource::new(&text(&spec["group"]), &text(&spec["names"]["plural"]))
}

//! The garbage collector: objects whose owners are gone go too, and owners wait for or let go of what they own.
//!
//! It follows the rules of the real one: an owner is told by its uid, looked for where the reference says it
//! is, and a dependent is deleted only when none of its owners is left. What it looks at is chosen like there:
//! a dependent when an owner goes, begins to wait or cannot be what the reference says; an owner that waits
//! when a dependent goes or ceases to block it.

mod owners;

use std::collections::HashSet;

use serde_json::{Value, json};

use super::agent::{Agent, without_finalizer};
use super::{Controller, Interest, Next, Queue};
use crate::api::delete::{FOREGROUND, ORPHAN};
use crate::api::options::{DeleteOptions, Propagation};
use crate::names::GroupResource;
use crate::registry;
use crate::server::Server;
use crate::status::Status;
use crate::store::{Change, EventKind, Key, Owner, Query, Record, Store};
use crate::together::side_by_side;

use owners::{OwnerState, Reference, compare, describe, drops_blocker, state};

/// Who events are from.
const COMPONENT: &str = "garbage-collector-controller";

/// An object to be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Object {
    of: GroupResource,
    key: Key,
    uid: String,
}

/// Something for the collector to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Task {
    /// An object may have to go.
    Collect(Object),
    /// An object names an owner, by its uid, of another namespace.
    Warn(Object, String),
}

/// Collects garbage.
#[derive(Debug)]
pub(super) struct Collector {
    agent: Agent,
    /// Objects with owners of kinds that are not served, which may change.
    unsure: HashSet<Object>,
}

impl Object {
    fn find(store: &Store, uid: &str) -> Option<Self> {
        let (of, key) = store.by_uid(uid)?;
        Some(Self { of, key, uid: uid.to_owned() })
    }

    fn dependents(&self, store: &Store) -> Vec<Self> {
        dependents(store, &self.uid)
    }

    fn record(&self, store: &Store) -> Option<std::sync::Arc<Record>> {
        store.get(&self.of, &self.key).filter(|record| record.index.uid == self.uid)
    }
}

/// The objects that name a uid as an owner.
fn dependents(store: &Store, uid: &str) -> Vec<Object> {
    let found = store.dependents(uid).into_iter().filter(|(of, _)| !is_ignored(of));
    let object = |(of, key): (GroupResource, Key)| {
        let uid = store.get(&of, &key)?.index.uid.clone();
        Some(Object { of, key, uid })
    };
    found.filter_map(object).collect()
}

/// Events are no objects to the collector.
fn is_ignored(of: &GroupResource) -> bool {
    of.resource == "events" && matches!(of.group.as_str(), "" | "events.k8s.io")
}

fn has(record: &Record, finalizer: &str) -> bool {
    record.index.finalizers.iter().any(|found| found == finalizer)
}

/// True when an object is being deleted and waits for the collector in this way.
fn waits(record: &Record, finalizer: &str) -> bool {
    record.index.deleting && has(record, finalizer)
}

/// True when a change makes an object wait that did not before.
fn begins_to_wait(before: Option<&Record>, record: &Record, finalizer: &str) -> bool {
    waits(record, finalizer) && !before.is_some_and(|before| waits(before, finalizer))
}

fn concerns(change: &Change) -> bool {
    if is_ignored(&change.of) {
        return false;
    }
    let (record, before) = (&change.event.record, change.event.before.as_deref());
    change.event.kind == EventKind::Deleted
        || before.map_or(!record.index.owners.is_empty(), |before| before.index.owners != record.index.owners)
        || [ORPHAN, FOREGROUND].iter().any(|finalizer| begins_to_wait(before, record, finalizer))
        || change.of == registry::definitions()
}

impl Controller for Collector {
    type Item = Task;

    fn interest(&self) -> Interest {
        Box::new(concerns)
    }

    fn begin(&mut self, queue: &mut Queue<Task>) {
        let Some(server) = self.agent.server() else { return };
        let mut resources = server.store().resources();
        resources.retain(|of| !is_ignored(of));
        resources.sort();
        for of in resources {
            let concerned = |record: &Record| {
                !record.index.owners.is_empty() || waits(record, ORPHAN) || waits(record, FOREGROUND)
            };
            for record in server.store().list(&of, &Query::default(), |_, record| concerned(record)).records {
                Self::appeared(&server, &of, None, &record, queue);
            }
        }
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<Task>) {
        let Some(server) = self.agent.server() else { return };
        let event = &change.event;
        if event.kind == EventKind::Deleted {
            let owners = event.before.iter().flat_map(|before| &before.index.owners);
            Self::disappeared(server.store(), &event.record.index.uid, owners, queue);
        } else {
            Self::appeared(&server, &change.of, event.before.as_deref(), &event.record, queue);
        }
        if change.of == registry::definitions() {
            for object in self.unsure.drain() {
                queue.add(Task::Collect(object));
            }
        }
    }

    async fn work(&mut self, task: &Task, queue: &mut Queue<Task>) -> Result<Next, Status> {
        match task {
            Task::Collect(object) => self.collect(object, queue).await?,
            Task::Warn(object, owner) => self.warn(object, owner).await,
        }
        Ok(Next::Done)
    }
}

impl Collector {
    pub(super) fn new(agent: Agent) -> Self {
        Self { agent, unsure: HashSet::new() }
    }

    /// Queues what an object that is new or changed calls for.
    fn appeared(
        server: &Server,
        of: &GroupResource,
        before: Option<&Record>,
        record: &Record,
        queue: &mut Queue<Task>,
    ) {
        let store = server.store();
        let object = Object { of: of.clone(), key: record.key.clone(), uid: record.index.uid.clone() };
        let old = before.map_or(&[][..], |before| &before.index.owners);
        let new = &record.index.owners;
        for owner in drops_blocker(old, new) {
            queue.extend_collect(Object::find(store, &owner.uid));
        }
        let mut doubtful = false;
        for owner in new.iter().filter(|owner| !old.iter().any(|old| old.uid == owner.uid)) {
            match compare(server, &object.key, owner) {
                Reference::Fits => {}
                Reference::Doubtful => doubtful = true,
                Reference::OtherNamespace => {
                    doubtful = true;
                    queue.add(Task::Warn(object.clone(), owner.uid.clone()));
                }
            }
        }
        if doubtful {
            queue.add(Task::Collect(object.clone()));
        }
        if begins_to_wait(before, record, ORPHAN) {
            queue.add(Task::Collect(object));
        } else if begins_to_wait(before, record, FOREGROUND) {
            queue.extend_collect(object.dependents(store));
            queue.add(Task::Collect(object));
        }
    }

    /// Queues what the end of an object calls for.
    fn disappeared<'a>(
        store: &Store,
        uid: &str,
        owners: impl Iterator<Item = &'a Owner>,
        queue: &mut Queue<Task>,
    ) {
        queue.extend_collect(dependents(store, uid));
        for owner in owners.filter_map(|owner| Object::find(store, &owner.uid)) {
            if owner.record(store).is_some_and(|record| waits(&record, FOREGROUND)) {
                queue.add(Task::Collect(owner));
            }
        }
    }

    /// Does what one object needs.
    async fn collect(&mut self, object: &Object, queue: &mut Queue<Task>) -> Result<(), Status> {
        self.unsure.remove(object);
        let Some(server) = self.agent.server() else { return Ok(()) };
        let store = server.store();
        let Some(record) = object.record(store) else { return Ok(()) };
        if waits(&record, ORPHAN) {
            return self.orphan(store, object).await;
        }
        if waits(&record, FOREGROUND) {
            return self.wait_for_dependents(store, object, queue).await;
        }
        // What is being deleted goes when it goes; its dependents are looked at then.
        if record.index.deleting || record.index.owners.is_empty() {
            return Ok(());
        }
        self.settle_owners(&server, object, &record).await
    }

    /// Removes the finalizer of an object that no dependent blocks; otherwise sees that those go.
    async fn wait_for_dependents(
        &self,
        store: &Store,
        object: &Object,
        queue: &mut Queue<Task>,
    ) -> Result<(), Status> {
        let blockers: Vec<Object> = object
            .dependents(store)
            .into_iter()
            .filter(|dependent| {
                let blocks = |owner: &Owner| owner.uid == object.uid && owner.blocks;
                dependent.record(store).is_some_and(|record| record.index.owners.iter().any(blocks))
            })
            .collect();
        if blockers.is_empty() {
            return self.drop_finalizer(object, FOREGROUND).await;
        }
        let idle = |blocker: &Object| blocker.record(store).is_some_and(|record| !waits(&record, FOREGROUND));
        queue.extend_collect(blockers.into_iter().filter(idle));
        Ok(())
    }

    /// Decides about a dependent by the state of its owners.
    async fn settle_owners(
        &mut self,
        server: &Server,
        object: &Object,
        record: &Record,
    ) -> Result<(), Status> {
        let owners = &record.index.owners;
        let mut states = Vec::with_capacity(owners.len());
        for owner in owners {
            match state(server, &object.key, owner) {
                OwnerState::Unknown => {
                    self.unsure.insert(object.clone());
                    let what =
                        format!("unable to get REST mapping for {}/{}.", owner.api_version, owner.kind);
                    return Err(Status::internal(what));
                }
                // Nobody can tell which namespace the reference means, and nothing will change that.
                OwnerState::Impossible => return Ok(()),
                known => states.push(known),
            }
        }
        if states.contains(&OwnerState::Solid) {
            let others = owners.iter().zip(&states).filter(|(_, state)| **state != OwnerState::Solid);
            let others: Vec<&str> = others.map(|(owner, _)| owner.uid.as_str()).collect();
            return if others.is_empty() { Ok(()) } else { self.drop_owners(object, &others).await };
        }
        let dependents = object.dependents(server.store());
        let mut version = record.version;
        let policy = if states.contains(&OwnerState::Waiting) && !dependents.is_empty() {
            let waiting = |dependent: &Object| {
                dependent.record(server.store()).is_some_and(|record| waits(&record, FOREGROUND))
            };
            if dependents.iter().any(waiting) && owners.iter().any(|owner| owner.blocks) {
                // Both could wait for each other, so this one ceases to block its owners.
                self.unblock_owners(object).await?;
                let Some(record) = object.record(server.store()) else { return Ok(()) };
                version = record.version;
            }
            Propagation::Foreground
        } else if has(record, ORPHAN) {
            Propagation::Orphan
        } else if has(record, FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        let options = DeleteOptions {
            uid: Some(object.uid.clone()),
            version: Some(version.to_string()),
            policy: Some(policy),
            ..DeleteOptions::default()
        };
        self.agent.delete(&object.of, &object.key, &options).await
    }

    /// Lets the dependents of an object go, then the object.
    async fn orphan(&self, store: &Store, object: &Object) -> Result<(), Status> {
        let owner = [object.uid.as_str()];
        let dependents = object.dependents(store);
        side_by_side(&dependents, |dependent| self.drop_owners(dependent, &owner)).await?;
        self.drop_finalizer(object, ORPHAN).await
    }

    async fn drop_owners(&self, object: &Object, uids: &[&str]) -> Result<(), Status> {
        self.edit_owners(object, &|owners| {
            owners.retain(|owner| !uids.iter().any(|uid| owner["uid"] == *uid));
        })
        .await
    }

    async fn unblock_owners(&self, object: &Object) -> Result<(), Status> {
        let unblock = |owners: &mut Vec<Value>| {
            for owner in owners.iter_mut().filter(|owner| owner["blockOwnerDeletion"] == true) {
                owner["blockOwnerDeletion"] = false.into();
            }
        };
        self.edit_owners(object, &unblock).await
    }

    async fn edit_owners(
        &self,
        object: &Object,
        edit: &(dyn Fn(&mut Vec<Value>) + Sync),
    ) -> Result<(), Status> {
        let change = |mut found: Value| {
            if found["metadata"]["uid"] != object.uid.as_str() {
                return Ok(found);
            }
            if let Some(owners) = found.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut)
            {
                edit(owners);
                if owners.is_empty() {
                    found["metadata"].as_object_mut().map(|metadata| metadata.remove("ownerReferences"));
                }
            }
            Ok(found)
        };
        self.agent.change(&object.of, &object.key, "", &change).await
    }

    async fn drop_finalizer(&self, object: &Object, finalizer: &str) -> Result<(), Status> {
        let change = |found: Value| {
            let same = found["metadata"]["uid"] == object.uid.as_str();
            Ok(if same { without_finalizer(found, finalizer) } else { found })
        };
        self.agent.change(&object.of, &object.key, "", &change).await
    }

    /// Tells whoever looks at an object that it names an owner of another namespace.
    async fn warn(&self, object: &Object, owner: &str) {
        let Some(server) = self.agent.server() else { return };
        let Some(record) = object.record(server.store()) else { return };
        let Some(owner) = record.index.owners.iter().find(|found| found.uid == owner) else { return };
        let found = record.parse();
        let mut about = json!({
            "apiVersion": found["apiVersion"], "kind": found["kind"], "name": object.key.name, "uid": object.uid,
        });
        let namespace = &object.key.namespace;
        if !namespace.is_empty() {
            about["namespace"] = namespace.as_str().into();
        }
        let message =
            format!("ownerRef {} does not exist in namespace {namespace:?}", describe(owner, namespace));
        self.agent.warn(COMPONENT, &about, "OwnerRefInvalidNamespace", &message).await;
    }
}

impl Queue<Task> {
    fn extend_collect(&mut self, objects: impl IntoIterator<Item = Object>) {
        objects.into_iter().for_each(|object| self.add(Task::Collect(object)));
    }
}

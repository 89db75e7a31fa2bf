//! The versioned store: all objects in memory, every write durable before anybody can see it.
//!
//! One number orders all writes: the resource version. A write is checked and ordered under one lock, handed
//! to the engine, and becomes visible when the engine has it on disk: readers wait for the version of what
//! they read, watchers are told only then. Many writers share one commit.
//!
//! The recent events of each resource are kept with the record they replaced. They feed watches, and undone
//! in reverse they give the state at an earlier version, which is what consistent paging needs.

mod compaction;
mod engine;
mod history;
mod record;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, watch};

use crate::clock::Clock;
use crate::names::GroupResource;

pub use engine::StoreError;
pub(crate) use history::line;
pub use history::{Event, EventKind, Retention};
pub(crate) use record::{Draft, leaves_gaps};
pub use record::{Index, Key, Owner, Record};

use compaction::Compactions;
use engine::{Committer, Entry};
use history::History;

/// All objects of one API server.
#[derive(Debug)]
pub struct Store {
    state: RwLock<State>,
    /// How far writes are safe on disk, and whether the disk is lost.
    durable: watch::Sender<Durable>,
    committer: Option<Committer>,
    taps: Mutex<Vec<mpsc::UnboundedSender<Arc<Change>>>>,
    clock: Arc<dyn Clock>,
    retention: Retention,
    compactions: Compactions,
}

/// How far the store is safe on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Durable {
    version: u64,
    /// Why nothing can be written any more, once that happened.
    failure: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    /// The version at which the store was opened: what happened before is known only by its outcome.
    origin: u64,
    collections: HashMap<GroupResource, Collection>,
    /// Where the object of a uid is.
    uids: HashMap<String, (GroupResource, Key)>,
    /// The objects that name a uid as their owner.
    dependents: HashMap<String, HashSet<(GroupResource, Key)>>,
}

#[derive(Debug)]
struct Collection {
    objects: BTreeMap<Key, Arc<Record>>,
    history: History,
    /// Told the newest version that watchers may see.
    published: watch::Sender<u64>,
}

/// Something that happened to an object of a resource.
#[derive(Debug)]
pub struct Change {
    /// The resource.
    pub of: GroupResource,
    /// What happened.
    pub event: Arc<Event>,
}

/// What a write expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing of that name.
    Absent,
    /// Exactly this version.
    Version(u64),
}

/// Why a write was not made.
#[derive(Debug)]
pub enum Refusal {
    /// There is such an object already, or it has another version by now.
    Changed(Arc<Record>),
    /// The object is gone.
    Gone,
}

/// What a list found.
#[derive(Debug)]
pub struct Listing {
    /// The version the list shows.
    pub version: u64,
    /// The objects, by namespace and name.
    pub records: Vec<Arc<Record>>,
    /// Where the next page begins, when there is more.
    pub next: Option<Key>,
    /// How many objects come after this page; counted only without a selector.
    pub remaining: usize,
}

/// What a list asks for.
#[derive(Debug, Default, Clone)]
pub struct Query<'a> {
    /// Only this namespace.
    pub namespace: Option<&'a str>,
    /// Only what comes after this key.
    pub after: Option<Key>,
    /// At most so many; 0 for all.
    pub limit: usize,
}

/// The version asked for is no longer (or not yet) known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfRange {
    /// The history does not reach back that far.
    Expired,
    /// No write has that version yet; the newest there is.
    Future(u64),
}

impl Store {
    /// A store that lives as long as the process.
    pub fn in_memory(clock: Arc<dyn Clock>, retention: Retention) -> Self {
        Self::with(State::default(), None, clock, retention)
    }

    /// A store in a file, with the objects it holds. `fields_of` gives the selectable fields of a stored object.
    pub fn open(
        path: &Path,
        clock: Arc<dyn Clock>,
        retention: Retention,
        fields_of: impl Fn(&GroupResource, &serde_json::Value) -> Vec<(String, String)>,
    ) -> Result<Arc<Self>, StoreError> {
        let (committer, version, stored) = Committer::open(path)?;
        let mut state = State { version, origin: version, ..State::default() };
        for (of, key, body) in stored {
            let object: serde_json::Value = serde_json::from_slice(&body)
                .map_err(|source| StoreError::Damaged { what: format!("{of} {key:?}"), source })?;
            let index = Index::of(&object, fields_of(&of, &object));
            let at = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
            let record = Record::stored(at.unwrap_or(version), key.clone(), &object, body.into(), index);
            state.index(&of, &key, &record);
            state.collection(&of).objects.insert(key, Arc::new(record));
        }
        let store = Arc::new(Self::with(state, Some(committer), clock, retention));
        if let Some(committer) = &store.committer {
            committer.start(&store)?;
        }
        Ok(store)
    }

    fn with(state: State, committer: Option<Committer>, clock: Arc<dyn Clock>, retention: Retention) -> Self {
        let durable = Durable { version: state.version, failure: None };
        Self {
            state: RwLock::new(state),
            durable: watch::Sender::new(durable),
            committer,
            taps: Mutex::default(),
            clock,
            retention,
            compactions: Compactions::default(),
        }
    }

    /// How long the past is kept.
    pub(crate) fn retention(&self) -> &Retention {
        &self.retention
    }

    /// The version of the newest write.
    pub fn version(&self) -> u64 {
        self.state.read().version
    }

    /// The version of the newest write to a resource, or where its history begins.
    pub fn revision(&self, of: &GroupResource) -> u64 {
        self.state.read().collections.get(of).map_or(0, |collection| collection.history.newest())
    }

    /// The object, if it is there.
    pub fn get(&self, of: &GroupResource, key: &Key) -> Option<Arc<Record>> {
        self.state.read().collections.get(of)?.objects.get(key).cloned()
    }

    /// The object with this uid, wherever it is.
    pub fn by_uid(&self, uid: &str) -> Option<(GroupResource, Key)> {
        self.state.read().uids.get(uid).cloned()
    }

    /// The objects that name this uid as an owner.
    pub fn dependents(&self, uid: &str) -> Vec<(GroupResource, Key)> {
        let state = self.state.read();
        let mut found: Vec<_> = state.dependents.get(uid).into_iter().flatten().cloned().collect();
        found.sort();
        found
    }

    /// How many objects a resource has.
    pub fn count(&self, of: &GroupResource) -> usize {
        self.state.read().collections.get(of).map_or(0, |collection| collection.objects.len())
    }

    /// All resources that have or had objects.
    pub fn resources(&self) -> Vec<GroupResource> {
        let own = compaction::resource();
        self.state.read().collections.keys().filter(|of| **of != own).cloned().collect()
    }

    /// The objects of a resource now.
    pub fn list(
        &self,
        of: &GroupResource,
        query: &Query<'_>,
        keep: impl Fn(&Key, &Record) -> bool,
    ) -> Listing {
        let state = self.state.read();
        match state.collections.get(of) {
            Some(collection) => page(&collection.objects, &BTreeMap::new(), state.version, query, keep),
            None => Listing { version: state.version, records: Vec::new(), next: None, remaining: 0 },
        }
    }

    /// The objects of a resource as they were at an earlier version.
    pub fn list_at(
        &self,
        of: &GroupResource,
        version: u64,
        query: &Query<'_>,
        keep: impl Fn(&Key, &Record) -> bool,
    ) -> Result<Listing, OutOfRange> {
        let state = self.state.read();
        if version > state.version {
            return Err(OutOfRange::Future(state.version));
        }
        if self.compactions.have_taken(version) {
            return Err(OutOfRange::Expired);
        }
        let Some(collection) = state.collections.get(of) else {
            return Ok(Listing { version, records: Vec::new(), next: None, remaining: 0 });
        };
        let changed = collection.history.undo_to(version).ok_or(OutOfRange::Expired)?;
        Ok(page(&collection.objects, &changed, version, query, keep))
    }

    /// Writes an object, and returns its record as soon as it is ordered; it is safe after [`Store::settled`].
    pub(crate) fn put(
        &self,
        of: &GroupResource,
        key: &Key,
        expect: Expect,
        draft: Draft,
    ) -> Result<Arc<Record>, Refusal> {
        let mut state = self.state.write();
        let before = state.check(of, key, expect)?;
        state.version += 1;
        let record = Arc::new(draft.finish(key, state.version));
        if let Some(before) = &before {
            state.unindex(of, key, before);
        }
        state.index(of, key, &record);
        state.collection(of).objects.insert(key.clone(), Arc::clone(&record));
        let kind = if before.is_some() { EventKind::Modified } else { EventKind::Added };
        self.ordered(&mut state, of, key, Event::new(kind, key.clone(), Arc::clone(&record), before));
        Ok(record)
    }

    /// Removes an object. `last` is its last state, which the event and the answer carry.
    pub(crate) fn remove(
        &self,
        of: &GroupResource,
        key: &Key,
        expect: u64,
        last: Draft,
    ) -> Result<Arc<Record>, Refusal> {
        let mut state = self.state.write();
        let Some(before) = state.check(of, key, Expect::Version(expect))? else { return Err(Refusal::Gone) };
        state.version += 1;
        let record = Arc::new(last.finish(key, state.version));
        state.unindex(of, key, &before);
        state.collection(of).objects.remove(key);
        let event = Event::new(EventKind::Deleted, key.clone(), Arc::clone(&record), Some(before));
        self.ordered(&mut state, of, key, event);
        Ok(record)
    }

    /// Takes an ordered event into the history and towards the disk. Runs under the lock, so that the order of
    /// the queue is the order of the versions.
    fn ordered(&self, state: &mut State, of: &GroupResource, key: &Key, event: Event) {
        let event = Arc::new(event);
        let now = self.clock.now();
        let collection = state.collection(of);
        collection.history.push(Arc::clone(&event), now, &self.retention);
        let change = Arc::new(Change { of: of.clone(), event });
        if let Some(committer) = &self.committer {
            committer.enqueue(Entry { change, key: key.clone(), published: collection.published.clone() });
        } else {
            let version = change.event.record.version;
            collection.published.send_replace(version);
            self.publish(&[change]);
            self.durable.send_modify(|durable| durable.version = version);
        }
    }

    /// Tells the taps what is safe now.
    fn publish(&self, changes: &[Arc<Change>]) {
        self.taps.lock().retain(|tap| changes.iter().all(|change| tap.send(Arc::clone(change)).is_ok()));
    }

    /// Called by the committer when a batch is on disk.
    fn committed(&self, batch: &[Entry]) {
        let Some(last) = batch.last() else { return };
        let version = last.change.event.record.version;
        self.durable.send_modify(|durable| durable.version = version);
        for entry in batch {
            let version = entry.change.event.record.version;
            entry.published.send_if_modified(|seen| {
                let newer = version > *seen;
                *seen = version.max(*seen);
                newer
            });
        }
        if !self.taps.lock().is_empty() {
            let changes: Vec<_> = batch.iter().map(|entry| Arc::clone(&entry.change)).collect();
            self.publish(&changes);
        }
    }

    /// Called by the committer when the disk is lost: nothing written from now on can become safe.
    fn lost(&self, why: &str) {
        tracing::error!(why, "the store cannot be written any more");
        self.durable.send_modify(|durable| durable.failure = Some(why.into()));
    }

    /// Waits until everything up to `version` is safe on disk. Fails when that can never be.
    pub async fn settled(&self, version: u64) -> Result<(), StoreError> {
        let mut durable = self.durable.subscribe();
        let reached =
            durable.wait_for(|durable| durable.version >= version || durable.failure.is_some()).await;
        match reached {
            Ok(durable) if durable.version >= version => Ok(()),
            Ok(durable) => Err(StoreError::Lost(durable.failure.as_deref().unwrap_or_default().to_owned())),
            Err(_) => Err(StoreError::Lost("the store was closed".to_owned())),
        }
    }

    /// The newest version that is safe on disk.
    pub fn safe_version(&self) -> u64 {
        self.durable.borrow().version
    }

    /// A receiver of every change from now on, in order, each when it is safe.
    pub fn tap(&self) -> mpsc::UnboundedReceiver<Arc<Change>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.taps.lock().push(sender);
        receiver
    }

    /// Told the newest visible version of a resource whenever it grows.
    pub fn subscribe(&self, of: &GroupResource) -> watch::Receiver<u64> {
        if let Some(collection) = self.state.read().collections.get(of) {
            return collection.published.subscribe();
        }
        self.state.write().collection(of).published.subscribe()
    }

    /// The events of a resource after `version` that are visible by now.
    pub fn events_after(&self, of: &GroupResource, version: u64) -> Result<Vec<Arc<Event>>, OutOfRange> {
        let state = self.state.read();
        if version > state.version {
            return Err(OutOfRange::Future(state.version));
        }
        let safe = self.durable.borrow().version;
        match state.collections.get(of) {
            Some(collection) => collection.history.between(version, safe).ok_or(OutOfRange::Expired),
            None => Ok(Vec::new()),
        }
    }

    /// Forgets the history of a resource, as if it had become too old: watches and pages from before expire.
    pub fn compact(&self, of: &GroupResource) {
        let mut state = self.state.write();
        let version = state.version;
        state.collection(of).history.forget(version);
    }
}

impl State {
    /// The collection of a resource; its history begins now if it is new.
    fn collection(&mut self, of: &GroupResource) -> &mut Collection {
        let origin = self.origin;
        self.collections.entry(of.clone()).or_insert_with(|| Collection {
            objects: BTreeMap::new(),
            history: History::beginning_at(origin),
            published: watch::Sender::new(origin),
        })
    }

    /// What is there now, if that is what the write expects.
    fn check(&self, of: &GroupResource, key: &Key, expect: Expect) -> Result<Option<Arc<Record>>, Refusal> {
        let found = self.collections.get(of).and_then(|collection| collection.objects.get(key));
        match (found, expect) {
            (None, Expect::Absent) => Ok(None),
            (Some(record), Expect::Version(version)) if record.version == version => {
                Ok(Some(Arc::clone(record)))
            }
            (Some(record), _) => Err(Refusal::Changed(Arc::clone(record))),
            (None, Expect::Version(_)) => Err(Refusal::Gone),
        }
    }

    fn index(&mut self, of: &GroupResource, key: &Key, record: &Record) {
        self.uids.insert(record.index.uid.clone(), (of.clone(), key.clone()));
        for owner in &record.index.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert((of.clone(), key.clone()));
        }
    }

    fn unindex(&mut self, of: &GroupResource, key: &Key, record: &Record) {
        self.uids.remove(&record.index.uid);
        for owner in &record.index.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(&(of.clone(), key.clone()));
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }
}

/// Cuts one page out of the objects of a resource, with some of them as they were before.
fn page(
    objects: &BTreeMap<Key, Arc<Record>>,
    before: &BTreeMap<Key, Option<Arc<Record>>>,
    version: u64,
    query: &Query<'_>,
    keep: impl Fn(&Key, &Record) -> bool,
) -> Listing {
    let start = match (&query.after, query.namespace) {
        (Some(after), _) => Bound::Excluded(after.clone()),
        (None, Some(namespace)) => Bound::Included(Key::new(namespace, "")),
        (None, None) => Bound::Unbounded,
    };
    let range = (start, Bound::Unbounded);
    let untouched = objects.range(range.clone()).filter(|(key, _)| !before.contains_key(key));
    let restored = before.range(range).filter_map(|(key, record)| Some((key, record.as_ref()?)));
    let mut matching = merged(untouched, restored)
        .take_while(|(key, _)| query.namespace.is_none_or(|namespace| key.namespace == namespace))
        .filter(|(key, record)| keep(key, record));
    if query.limit == 0 {
        let records = matching.map(|(_, record)| Arc::clone(record)).collect();
        return Listing { version, records, next: None, remaining: 0 };
    }
    let mut records = Vec::with_capacity(query.limit.min(1024));
    let mut last = None;
    for (key, record) in matching.by_ref().take(query.limit) {
        records.push(Arc::clone(record));
        last = Some(key.clone());
    }
    let remaining = matching.count();
    Listing { version, records, next: last.filter(|_| remaining > 0), remaining }
}

/// Two sequences sorted by key, as one.
fn merged<'a>(
    left: impl Iterator<Item = (&'a Key, &'a Arc<Record>)>,
    right: impl Iterator<Item = (&'a Key, &'a Arc<Record>)>,
) -> impl Iterator<Item = (&'a Key, &'a Arc<Record>)> {
    let (mut left, mut right) = (left.peekable(), right.peekable());
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (Some((one, _)), Some((other, _))) if one > other => right.next(),
        (None, _) => right.next(),
        _ => left.next(),
    })
}

#[cfg(test)]
mod tests;

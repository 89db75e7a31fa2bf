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
mod news;
mod objects;
mod record;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::names::GroupResource;
use crate::schema::decode;

pub use engine::StoreError;
pub(crate) use history::line;
pub use history::{Event, EventKind, Retention};
pub use news::Subscription;
pub(crate) use record::{DEEP, Draft, leaves_gaps};
pub use record::{Index, Key, Owner, Record};

use compaction::Compactions;
use engine::{Committer, Entry, Opened, Row};
use history::History;
use news::{News, Safety};
use objects::{Objects, Owned, Undone};

/// All objects of one API server.
#[derive(Debug)]
pub struct Store {
    state: RwLock<State>,
    /// What those who wait are told, by whoever makes writes safe.
    told: Arc<Told>,
    committer: Option<Committer>,
    clock: Arc<dyn Clock>,
    retention: Retention,
    compactions: Compactions,
    /// True once there was a deep object.
    deep: AtomicBool,
}

/// Who is told what became of the writes.
#[derive(Debug)]
struct Told {
    /// How far writes are safe on disk, and whether the disk is lost.
    durable: Safety,
    taps: Mutex<Vec<mpsc::UnboundedSender<Arc<Change>>>>,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    /// The version at which the store was opened: what happened before is known only by its outcome.
    origin: u64,
    collections: HashMap<GroupResource, Collection>,
    /// Where the object of a uid is, and which objects it owns.
    owned: Owned,
}

#[derive(Debug)]
struct Collection {
    /// The name of the resource, shared by all that point into it.
    of: Arc<GroupResource>,
    objects: Objects,
    history: History,
    /// Told the newest version that watchers may see.
    published: Arc<News>,
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
    /// Nothing can be written any more.
    Lost(StoreError),
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
        Self::with(State::default(), Arc::new(Told::beginning_at(0)), None, clock, retention)
    }

    /// A store in a file, with the objects it holds. `fields_of` gives the selectable fields of a stored object.
    pub fn open(
        path: &Path,
        clock: Arc<dyn Clock>,
        retention: Retention,
        fields_of: impl Fn(&GroupResource, &serde_json::Value) -> Vec<(String, String)>,
    ) -> Result<Arc<Self>, StoreError> {
        Self::over(Committer::open(path)?, clock, retention, fields_of)
    }

    /// A store on a disk that was opened.
    fn over(
        (mut committer, version, stored): Opened,
        clock: Arc<dyn Clock>,
        retention: Retention,
        fields_of: impl Fn(&GroupResource, &serde_json::Value) -> Vec<(String, String)>,
    ) -> Result<Arc<Self>, StoreError> {
        let mut deep = false;
        let mut state = State { version, origin: version, ..State::default() };
        for Row { version, of, key, body } in stored {
            let object = decode::parse_stored(&body)
                .map_err(|source| StoreError::Damaged { what: format!("{of} {key:?}"), source })?;
            deep |= decode::is_deeper_than(&object, DEEP);
            let index = Index::of(&object, fields_of(&of, &object));
            let record = Record::stored(version, key, &object, body.into(), index);
            state.insert(&of, &Arc::new(record));
        }
        let told = Arc::new(Told::beginning_at(version));
        committer.start(Arc::clone(&told))?;
        let store = Self::with(state, told, Some(committer), clock, retention);
        store.deep.store(deep, Ordering::Relaxed);
        Ok(Arc::new(store))
    }

    fn with(
        state: State,
        told: Arc<Told>,
        committer: Option<Committer>,
        clock: Arc<dyn Clock>,
        retention: Retention,
    ) -> Self {
        Self {
            state: RwLock::new(state),
            told,
            committer,
            clock,
            retention,
            compactions: Compactions::default(),
            deep: AtomicBool::new(false),
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
        self.state.read().owned.by_uid(uid)
    }

    /// The objects that name this uid as an owner.
    pub fn dependents(&self, uid: &str) -> Vec<(GroupResource, Key)> {
        self.state.read().owned.dependents(uid)
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
            Some(collection) => collection.objects.page(&Undone::new(), state.version, query, keep),
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
            // Nobody knows what there was before the store was opened.
            if version < state.origin {
                return Err(OutOfRange::Expired);
            }
            return Ok(Listing { version, records: Vec::new(), next: None, remaining: 0 });
        };
        let changed = collection.history.undo_to(version).ok_or(OutOfRange::Expired)?;
        Ok(collection.objects.page(&changed, version, query, keep))
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
        self.told.durable.not_lost().map_err(Refusal::Lost)?;
        let before = state.check(of, key, expect)?;
        if draft.deep {
            self.deep.store(true, Ordering::Relaxed);
        }
        state.version += 1;
        let record = Arc::new(draft.finish(key, state.version));
        if let Some(before) = &before {
            state.owned.remove(before);
        }
        state.insert(of, &record);
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
        self.told.durable.not_lost().map_err(Refusal::Lost)?;
        let Some(before) = state.check(of, key, Expect::Version(expect))? else { return Err(Refusal::Gone) };
        state.version += 1;
        let record = Arc::new(last.finish(key, state.version));
        state.owned.remove(&before);
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
            committer.enqueue(Entry {
                change,
                key: key.clone(),
                published: Arc::clone(&collection.published),
            });
        } else {
            let version = change.event.record.version;
            self.told.durable.reach(version);
            collection.published.tell(version);
            self.told.publish(&[change]);
        }
    }

    /// Waits until everything up to `version` is safe on disk. Fails when that can never be.
    pub async fn settled(&self, version: u64) -> Result<(), StoreError> {
        self.told.durable.settled(version).await
    }

    /// True when some object is or was a deep one.
    pub(crate) fn holds_deep(&self) -> bool {
        self.deep.load(Ordering::Relaxed)
    }

    /// Fails when nothing can be written any more.
    pub fn usable(&self) -> Result<(), StoreError> {
        self.told.durable.not_lost()
    }

    /// The newest version that is safe on disk.
    pub fn safe_version(&self) -> u64 {
        self.told.durable.version()
    }

    /// A receiver of every change from now on, in order, each when it is safe.
    pub fn tap(&self) -> mpsc::UnboundedReceiver<Arc<Change>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.told.taps.lock().push(sender);
        receiver
    }

    /// Tells the newest visible version of a resource, and wakes whenever it grows.
    pub fn subscribe(&self, of: &GroupResource) -> Subscription {
        if let Some(collection) = self.state.read().collections.get(of) {
            return collection.published.subscribe();
        }
        self.state.write().collection(of).published.subscribe()
    }

    /// The events of a resource after `version` that are visible by now.
    pub fn events_after(&self, of: &GroupResource, version: u64) -> Result<Vec<Arc<Event>>, OutOfRange> {
        let mut events = Vec::new();
        let _all = self.visit_after(of, version, |event| {
            events.push(Arc::clone(event));
            ControlFlow::Continue(())
        })?;
        Ok(events)
    }

    /// Shows each event of a resource after `version` that is visible by now, until whoever looks has enough. Tells
    /// whether that was before the last one. Writers wait meanwhile.
    pub(crate) fn visit_after(
        &self,
        of: &GroupResource,
        version: u64,
        show: impl FnMut(&Arc<Event>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, OutOfRange> {
        let state = self.state.read();
        if version > state.version {
            return Err(OutOfRange::Future(state.version));
        }
        let safe = self.told.durable.version();
        match state.collections.get(of) {
            Some(collection) => collection.history.visit(version, safe, show).ok_or(OutOfRange::Expired),
            None if version < state.origin => Err(OutOfRange::Expired),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    /// Forgets the history of a resource, as if it had become too old: watches and pages from before expire.
    pub fn compact(&self, of: &GroupResource) {
        let mut state = self.state.write();
        let version = state.version;
        state.collection(of).history.forget(version);
    }

    /// Forgets the events that are too old by now, also where nothing is written any more.
    fn forget_old(&self) {
        let now = self.clock.now();
        let mut state = self.state.write();
        state.collections.values_mut().for_each(|collection| collection.history.trim(now, &self.retention));
    }
}

impl Told {
    fn beginning_at(version: u64) -> Self {
        Self { durable: Safety::beginning_at(version), taps: Mutex::default() }
    }

    /// Tells the taps what is safe now.
    fn publish(&self, changes: &[Arc<Change>]) {
        self.taps.lock().retain(|tap| changes.iter().all(|change| tap.send(Arc::clone(change)).is_ok()));
    }

    /// Called by the committer when a batch is on disk.
    fn committed(&self, batch: &[Entry]) {
        let Some(last) = batch.last() else { return };
        self.durable.reach(last.change.event.record.version);
        // Newest first, so that those who watch one resource are woken once for the batch.
        for entry in batch.iter().rev() {
            entry.published.tell(entry.change.event.record.version);
        }
        if !self.taps.lock().is_empty() {
            let changes: Vec<_> = batch.iter().map(|entry| Arc::clone(&entry.change)).collect();
            self.publish(&changes);
        }
    }

    /// Called by the committer when the disk is lost: nothing written from now on can become safe.
    fn lost(&self, why: &str) {
        tracing::error!(why, "the store cannot be written any more");
        self.durable.fail(why);
    }
}

impl State {
    /// The collection of a resource; its history begins now if it is new.
    fn collection(&mut self, of: &GroupResource) -> &mut Collection {
        let origin = self.origin;
        self.collections.entry(of.clone()).or_insert_with(|| Collection::beginning_at(origin, of))
    }

    /// Takes in an object, in the place of an earlier state of it.
    fn insert(&mut self, of: &GroupResource, record: &Arc<Record>) {
        let collection = self.collection(of);
        collection.objects.insert(Arc::clone(record));
        let of = Arc::clone(&collection.of);
        self.owned.insert(&of, record);
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
}

impl Collection {
    fn beginning_at(version: u64, of: &GroupResource) -> Self {
        Self {
            of: Arc::new(of.clone()),
            objects: Objects::default(),
            history: History::beginning_at(version),
            published: News::beginning_at(version),
        }
    }
}

#[cfg(test)]
mod disk_tests;
#[cfg(test)]
mod tests;

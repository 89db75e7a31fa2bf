//! What is known of the objects of a kind: a narrow copy, kept true by a watch.
//!
//! A cache is read without waiting and never asks the server. It is fed by one watch ([`Cache::run`]) and by the
//! answers to own writes ([`Cache::written`], [`Cache::removed`]), which are put in order by resource version: a plan
//! made after a write sees that write, and a late answer never undoes what the watch has told since.

mod index;
mod order;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, watch as signal};
use tokio::time::Instant;

pub use index::Index;

use crate::client::{Health, Pulse, Selection};
use crate::{Key, Narrow, Resource};
use order::Objects;

/// A change of one object: what it was and what it is. An object that was replaced by another of its name is told as two
/// changes.
pub struct Change<T> {
    /// The object before; nothing when it is new.
    pub old: Option<Arc<T>>,
    /// The object now; nothing when it is gone.
    pub new: Option<Arc<T>>,
}

impl<T: Narrow> Change<T> {
    /// The object as it is, or as it was last.
    pub fn latest(&self) -> Option<&Arc<T>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    /// What the object was and is, where they are there.
    pub fn both(&self) -> impl Iterator<Item = &Arc<T>> {
        self.old.iter().chain(&self.new)
    }
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self { old: self.old.clone(), new: self.new.clone() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Change<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Change").field("old", &self.old).field("new", &self.new).finish()
    }
}

/// How long a watch may fail before what it told last is not trusted any more.
const GRACE: Duration = Duration::from_secs(15);

type Listener<T> = Box<dyn Fn(&Change<T>) + Send + Sync>;

/// The objects of a kind, as far as they are known. Copies are cheap and share everything.
pub struct Cache<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    resource: Resource,
    selection: Selection,
    objects: RwLock<Objects<T>>,
    /// Held while a change is made and told, so that listeners hear of changes in their order.
    listeners: Mutex<Vec<Listener<T>>>,
    synced: signal::Sender<bool>,
    born: Instant,
    /// When the server was last heard of, in milliseconds since this was made.
    news: AtomicU64,
    /// Whether it is fed.
    pulse: Pulse,
    unreadable: AtomicU64,
    relists: AtomicU64,
    /// Why the last watch ended, if it failed.
    trouble: Mutex<Option<String>>,
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Cache")
            .field("resource", &self.shared.resource.plural)
            .finish_non_exhaustive()
    }
}

impl<T: Narrow> Cache<T> {
    /// An empty cache, which [`run`](Self::run) fills.
    pub fn new(resource: Resource, selection: Selection) -> Self {
        Self {
            shared: Arc::new(Shared {
                resource,
                selection,
                objects: RwLock::new(Objects::default()),
                listeners: Mutex::default(),
                synced: signal::Sender::new(false),
                born: Instant::now(),
                news: AtomicU64::new(0),
                pulse: Pulse::new(GRACE),
                unreadable: AtomicU64::new(0),
                relists: AtomicU64::new(0),
                trouble: Mutex::default(),
            }),
        }
    }

    /// The kind of the objects.
    pub fn resource(&self) -> &Resource {
        &self.shared.resource
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.shared.objects.read().get(key).cloned()
    }

    /// All objects, in the order of their keys.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.shared.objects.read().iter().cloned().collect()
    }

    /// The objects that a filter picks, in the order of their keys. For what is asked often there is
    /// [`index`](Self::index).
    pub fn filter(&self, pick: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        self.shared.objects.read().iter().filter(|object| pick(object)).cloned().collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.shared.objects.read().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A way to find objects by what `words` says of them, kept up to date from now on.
    pub fn index<W, F>(&self, words: F) -> Index<T, W>
    where
        W: Ord + Clone + Send + Sync + 'static,
        F: Fn(&T) -> Vec<W> + Send + Sync + 'static,
    {
        Index::new(self, words)
    }

    /// Calls `listener` for every object that is there, as if it were new, and then for every change that matters, in
    /// order. It is called while the change is made and has to be quick: naming a key to a queue. It may read caches, but
    /// not write to this one.
    pub fn listen(&self, listener: impl Fn(&Change<T>) + Send + Sync + 'static) {
        let mut listeners = self.shared.listeners.lock();
        for object in self.all() {
            listener(&Change { old: None, new: Some(object) });
        }
        listeners.push(Box::new(listener));
    }

    /// The changes as a stream, beginning with what is there.
    pub fn changes(&self) -> mpsc::UnboundedReceiver<Change<T>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.listen(move |change| {
            // Nobody may be there any more to hear it.
            let _ = sender.send(change.clone());
        });
        receiver
    }

    /// Takes the answer to an own write, unless the watch has told something newer. Only for objects that the selection
    /// of this cache picks.
    pub fn written(&self, object: T) {
        self.apply(|objects| objects.written(Arc::new(object)));
    }

    /// Takes the answer to an own deletion: the object with this uid is gone.
    pub fn removed(&self, key: &Key, uid: &str) {
        self.apply(|objects| objects.removed(key, uid));
    }

    /// Waits until everything was told once.
    pub async fn synced(&self) {
        let mut synced = self.shared.synced.subscribe();
        // The sender lives as long as this cache.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// Whether everything was told once.
    pub fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Why not everything was told yet: nothing once it was, or while nobody has failed at it.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble.lock().clone().filter(|_| !self.is_synced())
    }

    /// Whether it is fed: down while its watch has failed for a while, though the server may answer other requests. What
    /// is known then is what was true once, and nothing may be concluded from what is missing.
    pub fn health(&self) -> signal::Receiver<Health> {
        self.shared.pulse.health()
    }

    /// How long ago the server was last heard of: an event, a bookmark, or a list. A server that is well is heard of
    /// about once a minute.
    pub fn news_age(&self) -> Duration {
        let heard = self.shared.born + Duration::from_millis(self.shared.news.load(Ordering::Relaxed));
        heard.elapsed()
    }

    /// How many objects could not be read and were left as they were known before.
    pub fn unreadable(&self) -> u64 {
        self.shared.unreadable.load(Ordering::Relaxed)
    }

    /// How often everything had to be told anew.
    pub fn relists(&self) -> u64 {
        self.shared.relists.load(Ordering::Relaxed)
    }

    /// How far the watch has come: all that was written up to this version is known.
    pub fn seen(&self) -> u64 {
        self.shared.objects.read().seen()
    }

    fn heard(&self) {
        let passed = self.shared.born.elapsed().as_millis();
        self.shared.news.store(u64::try_from(passed).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.shared.pulse.succeeded();
    }

    /// Makes changes and tells them.
    fn apply(&self, change: impl FnOnce(&mut Objects<T>) -> Vec<Change<T>>) {
        let listeners = self.shared.listeners.lock();
        let changes = change(&mut self.shared.objects.write());
        for change in &changes {
            for listener in listeners.iter() {
                listener(change);
            }
        }
    }
}

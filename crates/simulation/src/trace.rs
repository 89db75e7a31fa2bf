//! Everything that happened to the objects that matter, in order, on all API servers of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use trellis_lab::names::GroupResource;
use trellis_lab::store::{Change as Stored, EventKind, Query, Record, Store};

/// Which API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// That of the infra cluster, where the machine objects are, too.
    World,
    /// That of the tenant.
    Tenant,
}

/// What matters, of which place: everything that controllers make or look at. What beats all the time does not.
const MATTERS: [(Place, &str); 18] = [
    (Place::World, "controllerrevisions"),
    (Place::World, "datavolumes"),
    (Place::World, "machinepools"),
    (Place::World, "machines"),
    (Place::World, "networkpolicies"),
    (Place::World, "nodes"),
    (Place::World, "persistentvolumeclaims"),
    (Place::World, "pods"),
    (Place::World, "secrets"),
    (Place::World, "services"),
    (Place::World, "tenantclusters"),
    (Place::World, "virtualmachineinstancemigrations"),
    (Place::World, "virtualmachineinstances"),
    (Place::World, "virtualmachines"),
    (Place::Tenant, "certificatesigningrequests"),
    (Place::Tenant, "nodes"),
    (Place::Tenant, "pods"),
    (Place::Tenant, "persistentvolumes"),
];

/// One version of an object.
pub struct Snapshot {
    /// Where it is.
    pub place: Place,
    /// The plural of its kind.
    pub resource: &'static str,
    /// The record.
    pub record: Arc<Record>,
    json: OnceLock<Value>,
}

impl fmt::Debug for Snapshot {
    /// Says nothing of the content, which may be a secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.resource, self.record.key.name)
    }
}

impl Snapshot {
    fn new(place: Place, resource: &'static str, record: &Arc<Record>) -> Arc<Self> {
        Arc::new(Self { place, resource, record: Arc::clone(record), json: OnceLock::new() })
    }

    /// The object.
    pub fn json(&self) -> &Value {
        self.json.get_or_init(|| self.record.parse())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.record.key.name
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        &self.record.index.uid
    }

    /// Whether its deletion was asked for.
    pub fn deleting(&self) -> bool {
        self.record.index.deleting
    }

    /// A label of it.
    pub fn label(&self, name: &str) -> &str {
        let labels = &self.record.index.labels;
        labels.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

/// Something that happened to an object.
#[derive(Debug, Clone)]
pub struct Change {
    /// When, since the beginning of the run.
    pub at: Duration,
    /// The object before.
    pub before: Option<Arc<Snapshot>>,
    /// The object after.
    pub after: Option<Arc<Snapshot>>,
}

impl Change {
    /// The object, whether it is still there or not.
    pub fn object(&self) -> Option<&Arc<Snapshot>> {
        self.after.as_ref().or(self.before.as_ref())
    }

    /// The object, if it came into being.
    pub fn made(&self) -> Option<&Arc<Snapshot>> {
        self.after.as_ref().filter(|_| self.before.is_none())
    }

    /// The object as it was, if it is gone now.
    pub fn gone(&self) -> Option<&Arc<Snapshot>> {
        self.before.as_ref().filter(|_| self.after.is_none())
    }

    /// The object, if its deletion has just been asked for, or done at once.
    pub fn doomed(&self) -> Option<&Arc<Snapshot>> {
        let before = self.before.as_ref().filter(|before| !before.deleting())?;
        match &self.after {
            Some(after) if after.deleting() => Some(after),
            Some(_) => None,
            None => Some(before),
        }
    }
}

/// All objects that matter, at one moment.
#[derive(Debug, Clone, Default)]
pub struct State {
    objects: BTreeMap<(Place, &'static str, String, String), Arc<Snapshot>>,
}

impl State {
    /// Takes in a change.
    pub fn apply(&mut self, change: &Change) {
        let Some(object) = change.object() else { return };
        let key = &object.record.key;
        let key = (object.place, object.resource, key.namespace.clone(), key.name.clone());
        match &change.after {
            Some(after) => self.objects.insert(key, Arc::clone(after)),
            None => self.objects.remove(&key),
        };
    }

    /// All objects of a kind.
    pub fn all(&self, place: Place, resource: &'static str) -> impl Iterator<Item = &Arc<Snapshot>> {
        let from = (place, resource, String::new(), String::new());
        self.objects
            .range(from..)
            .take_while(move |((at, of, _, _), _)| (*at, *of) == (place, resource))
            .map(|(_, object)| object)
    }

    /// An object of a kind by its name, in whatever namespace.
    pub fn named(&self, place: Place, resource: &'static str, name: &str) -> Option<&Arc<Snapshot>> {
        self.all(place, resource).find(|object| object.name() == name)
    }

    /// All objects there are.
    pub fn everything(&self) -> impl Iterator<Item = &Arc<Snapshot>> {
        self.objects.values()
    }
}

/// The history of a run. Copies share it.
#[derive(Clone)]
pub struct Trace {
    inner: Arc<Inner>,
}

struct Inner {
    began: Instant,
    taps: Mutex<Vec<(Place, UnboundedReceiver<Arc<Stored>>)>>,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    changes: Vec<Change>,
    state: State,
}

impl fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Trace").finish_non_exhaustive()
    }
}

impl Default for Trace {
    fn default() -> Self {
        let (taps, told) = (Mutex::default(), Mutex::default());
        Self { inner: Arc::new(Inner { began: Instant::now(), taps, told }) }
    }
}

impl Trace {
    /// Follows an API server from now on, beginning with what is there.
    pub fn follow(&self, place: Place, store: &Store) {
        let tap = store.tap();
        let mut told = self.inner.told.lock();
        for of in store.resources() {
            let Some(resource) = matters(place, &of) else { continue };
            let listing = store.list(&of, &Query::default(), |_, _| true);
            for record in &listing.records {
                let after = Some(Snapshot::new(place, resource, record));
                let change = Change { at: self.inner.began.elapsed(), before: None, after };
                told.state.apply(&change);
                told.changes.push(change);
            }
        }
        self.inner.taps.lock().push((place, tap));
    }

    /// How long the run has been going on.
    pub fn now(&self) -> Duration {
        self.inner.began.elapsed()
    }

    /// Takes in what has happened; how much that is by now.
    pub fn drain(&self) -> usize {
        for (place, tap) in self.inner.taps.lock().iter_mut() {
            while let Ok(change) = tap.try_recv() {
                self.take(*place, &change);
            }
        }
        self.inner.told.lock().changes.len()
    }

    /// Takes in what happens when it does. Never ends.
    pub async fn run(&self) {
        std::future::poll_fn(|context| self.poll(context)).await;
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        for (place, tap) in self.inner.taps.lock().iter_mut() {
            while let Poll::Ready(Some(change)) = tap.poll_recv(context) {
                self.take(*place, &change);
            }
        }
        Poll::Pending
    }

    fn take(&self, place: Place, stored: &Stored) {
        let Some(resource) = matters(place, &stored.of) else { return };
        let event = &stored.event;
        let mut told = self.inner.told.lock();
        let key = (place, resource, event.key.namespace.clone(), event.key.name.clone());
        let before = told.state.objects.get(&key).cloned();
        let after = (event.kind != EventKind::Deleted).then(|| Snapshot::new(place, resource, &event.record));
        let change = Change { at: self.inner.began.elapsed(), before, after };
        told.state.apply(&change);
        told.changes.push(change);
    }

    /// Looks at what is there now.
    pub fn look<T>(&self, at: impl FnOnce(&State) -> T) -> T {
        self.drain();
        at(&self.inner.told.lock().state)
    }

    /// Everything that happened.
    pub fn changes(&self) -> Vec<Change> {
        self.drain();
        self.inner.told.lock().changes.clone()
    }
}

/// The name of a resource that matters.
fn matters(place: Place, of: &GroupResource) -> Option<&'static str> {
    let found = MATTERS.iter().find(|(at, name)| *at == place && of.resource == *name);
    found.map(|(_, name)| *name)
}

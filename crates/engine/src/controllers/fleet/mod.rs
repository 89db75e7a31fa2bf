//! Many tenants in one process, shared out among replicas.
//!
//! A [`Fleet`] is told of [`Record`]s by whoever knows them: [`Clusters`] watches TenantClusters, [`mod@file`] reads a file.
//! For each record that is this replica's by the shares ([`Shards`]) it connects to the record's three sites and runs a
//! set of [`Reconciler`]s; [`Machines`] is the one that keeps machines. A record that goes, changes, or moves to another
//! replica has its reconcilers ended before anything else begins: the right to act (a `Pass`) is held by every site that
//! they write through, and given up with the last of them.
//!
//! What is wrong with one record is said of that record, and hurts no other.

mod clusters;
pub mod file;
mod lifetime;
mod machines;
mod record;
mod report;
mod serving;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trellis_runtime::events::{Recorder, Teller};
use trellis_runtime::lease::Shards;
use trellis_runtime::{Clock, Metrics, Site};

pub use clusters::{CLUSTERS, Clusters, Overrides, RESERVED};
pub use lifetime::{CLUSTER_FINALIZER, Lifetime};
pub use machines::Machines;
pub use record::{About, Access, Asked, Record, Records};

/// What runs for each record that is served. Several run side by side for one record.
pub trait Reconciler: Send + Sync + 'static {
    /// Looks after a record until `stop` says so, and has ended everything when it returns.
    fn run(&self, served: Served, stop: CancellationToken) -> BoxFuture<'static, ()>;
}

/// A record that is served, with its sites. Writes through them are refused as soon as another replica may act.
#[derive(Debug, Clone)]
pub struct Served {
    /// What it is called.
    pub name: String,
    /// Its object, where it has one.
    pub about: Option<About>,
    /// What is asked for.
    pub asked: Asked,
    /// Where its machine objects are.
    pub control: Site,
    /// Where its Nodes are; nothing while it has no API server that is known.
    pub tenant: Option<Site>,
    /// Where its VMs are.
    pub infra: Site,
    /// The numbers of this tenant.
    pub metrics: Metrics,
    /// Where a reconciler says how far it is.
    pub progress: watch::Sender<Progress>,
    /// The source of time.
    pub clock: Clock,
}

/// How far the reconcilers of a record are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Progress {
    /// They do their work.
    #[default]
    Working,
    /// They have begun, and have had no time yet to learn what they need.
    Beginning,
    /// They can do nothing before something is known, and why it is not.
    NotSynced(String),
}

/// What a fleet is made of.
pub struct Parts {
    /// Where the records and their Secrets are.
    pub control: Site,
    /// The shares of the replicas.
    pub shards: Shards,
    /// What runs for each record.
    pub reconcilers: Vec<Arc<dyn Reconciler>>,
    /// Where tenants are counted.
    pub metrics: Metrics,
    /// The source of time.
    pub clock: Clock,
}

/// Many tenants in one process. Copies are cheap and share everything.
#[derive(Clone)]
pub struct Fleet {
    inner: Arc<Inner>,
}

struct Inner {
    parts: Parts,
    records: watch::Sender<Option<Records>>,
    /// The names that are served here.
    serving: watch::Sender<Vec<String>>,
    /// Those of them that can do nothing yet, and why.
    idle: parking_lot::Mutex<BTreeMap<String, String>>,
    recorder: Recorder,
    teller: parking_lot::Mutex<Option<Teller>>,
}

/// A record that is served here.
struct Serving {
    record: Arc<Record>,
    stop: CancellationToken,
}

impl Fleet {
    /// A fleet that knows of no records yet.
    pub fn new(parts: Parts) -> Self {
        let (recorder, teller) = Recorder::new(&parts.control, parts.clock, "trellis");
        let inner = Inner {
            records: watch::Sender::new(None),
            serving: watch::Sender::new(Vec::new()),
            idle: parking_lot::Mutex::default(),
            recorder,
            teller: parking_lot::Mutex::new(Some(teller)),
            parts,
        };
        let fleet = Self { inner: Arc::new(inner) };
        let counted = fleet.serving();
        let help = "Tenants that this replica looks after";
        let count = move || i64::try_from(counted.borrow().len()).unwrap_or(i64::MAX);
        fleet.inner.parts.metrics.add_gauge("tenants", help, count);
        fleet
    }

    /// Where records are told of: nothing until they are known.
    pub fn records(&self) -> &watch::Sender<Option<Records>> {
        &self.inner.records
    }

    /// The names of the records that are served here, and when that changes.
    pub fn serving(&self) -> watch::Receiver<Vec<String>> {
        self.inner.serving.subscribe()
    }

    /// Why it cannot do its work yet.
    pub fn not_ready(&self) -> Result<(), String> {
        if self.inner.records.borrow().is_none() {
            return Err("the tenants are not known yet".to_owned());
        }
        if !self.inner.parts.shards.is_member() {
            return Err("the membership among the replicas is not held".to_owned());
        }
        // What is wrong with one tenant is said of it; who can serve none of theirs is not ready.
        let (serving, idle) = (self.inner.serving.borrow(), self.inner.idle.lock());
        match serving.first().and_then(|first| idle.get_key_value(first)) {
            Some((name, why)) if serving.iter().all(|one| idle.contains_key(one)) => {
                Err(format!("{name}: {why}"))
            }
            _ => Ok(()),
        }
    }

    /// Serves the records that are this replica's until `stop` says so; then all are ended. Boxed, so that the controllers
    /// are compiled here, and not anew in every program that runs them.
    pub fn run<'a>(&'a self, stop: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(self.serve(stop))
    }

    async fn serve(&self, stop: &CancellationToken) {
        let inner = &self.inner;
        let mut told = JoinSet::new();
        if let Some(teller) = inner.teller.lock().take() {
            let stop = stop.clone();
            told.spawn(async move { teller.run(&stop).await });
        }
        let (mut records, mut shares) = (inner.records.subscribe(), inner.parts.shards.changes());
        let mut served: BTreeMap<String, Serving> = BTreeMap::new();
        let mut names = HashMap::new();
        let mut tasks = JoinSet::new();
        loop {
            let wanted = record::settled(&records.borrow_and_update().clone().unwrap_or_default());
            shares.borrow_and_update();
            inner.end(&wanted, &served);
            for (name, record) in wanted {
                if served.contains_key(&name) {
                    continue;
                }
                let Some(pass) = inner.parts.shards.enter(&name) else { continue };
                let stop = CancellationToken::new();
                tracing::info!(tenant = name, epoch = pass.epoch(), "it is looked after here");
                let task = serving::serve(Arc::clone(inner), Arc::clone(&record), pass, stop.clone());
                names.insert(tasks.spawn(task).id(), name.clone());
                served.insert(name, Serving { record, stop });
            }
            inner.serving.send_if_modified(|names| {
                let now: Vec<String> = served.keys().cloned().collect();
                let changed = *names != now;
                *names = now;
                changed
            });
            tokio::select! {
                () = stop.cancelled() => break,
                Ok(()) = records.changed() => {}
                Ok(()) = shares.changed() => {}
                Some(ended) = tasks.join_next_with_id() => forget(&ended, &mut names, &mut served),
            }
        }
        for serving in served.values() {
            serving.stop.cancel();
        }
        while tasks.join_next().await.is_some() {}
        inner.serving.send_replace(Vec::new());
        while told.join_next().await.is_some() {}
    }
}

/// Forgets a record that is no longer served.
fn forget(
    ended: &Result<(tokio::task::Id, ()), tokio::task::JoinError>,
    names: &mut HashMap<tokio::task::Id, String>,
    served: &mut BTreeMap<String, Serving>,
) {
    let id = ended.as_ref().map_or_else(tokio::task::JoinError::id, |(id, ())| *id);
    if let Some(name) = names.remove(&id) {
        tracing::info!(tenant = name, "it is no longer looked after here");
        served.remove(&name);
    }
}

impl Inner {
    /// Has those ended that are not this replica's any more, are gone, or have changed.
    fn end(&self, wanted: &BTreeMap<String, Arc<Record>>, served: &BTreeMap<String, Serving>) {
        let is_same = |new: &Arc<Record>, old: &Arc<Record>| Arc::ptr_eq(new, old) || new == old;
        for (name, serving) in served {
            let stays = wanted.get(name).is_some_and(|record| is_same(record, &serving.record));
            if !stays || !self.parts.shards.owns(name) {
                serving.stop.cancel();
            }
        }
    }
}

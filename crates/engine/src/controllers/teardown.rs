//! Takes tenant clusters away: carries out what [`teardown`](crate::install::teardown) plans.
//!
//! What is there is watched, so that the next stage begins as soon as the last thing of this one is gone. Every deletion
//! names the uid of what was seen.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use trellis_runtime::client::{Delete, Error, Propagation};
use trellis_runtime::{Cache, Key, Meta, Resource, Selection, Site, narrow};

use crate::families::{FINALIZER, Object, remove_finalizer};
use crate::install::teardown::{Kind, Plan, RECORD_TYPE, Scope, Thing, plan};
use crate::rights::Place;

/// How long to wait after a failure at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Why a teardown cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum TeardownError {
    /// A kind cannot be looked at: whether something of it is left cannot be known.
    #[error("{} cannot be looked at: {source}", resource.plural)]
    Unseen {
        /// The kind.
        resource: Resource,
        /// What the server said.
        source: Error,
    },
    /// Something may not be deleted.
    #[error("{thing} cannot be deleted: {source}")]
    Refused {
        /// What.
        thing: Thing,
        /// What the server said.
        source: Error,
    },
    /// It took too long.
    #[error("the time is over; {} left: {}", if left.len() == 1 { "one thing is" } else { "these are" }, listed(left))]
    TooLate {
        /// What is still there.
        left: Vec<Thing>,
    },
}

fn listed(things: &[Thing]) -> String {
    things.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What is there of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// What was found.
    pub things: Vec<Thing>,
    /// The kinds that the user may not look at, and what the server said.
    pub unseen: Vec<(Kind, String)>,
}

/// What is told while a teardown goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// How far it is.
    Progress(Plan),
    /// What keeps it from going on; it is tried again.
    Trouble(String),
}

/// An object as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Seen {
    metadata: Meta,
    #[serde(default, rename = "type")]
    sort: Option<Box<str>>,
    #[serde(default)]
    spec: SeenSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct SeenSpec {
    #[serde(default)]
    cluster: Option<Box<str>>,
}

narrow!(Seen);

/// Takes one cluster, or a part of it, away.
#[derive(Debug, Clone)]
pub struct Teardown {
    /// What goes.
    pub scope: Scope,
    /// Where its machines are.
    pub infra: Site,
    /// The namespace they are in.
    pub namespace: String,
    /// Where its machine objects are; nothing where there are none, or they go in another way.
    pub control: Option<Control>,
}

/// Where machine objects are.
#[derive(Debug, Clone)]
pub struct Control {
    /// The server.
    pub site: Site,
    /// The namespace.
    pub namespace: String,
    /// Whether that is another place than that of the machines.
    pub apart: bool,
}

impl Teardown {
    /// What is there now.
    pub async fn inventory(&self) -> Result<Inventory, TeardownError> {
        let places = self.places();
        let found = join_all(places.iter().map(Watched::list)).await;
        let mut inventory = Inventory::default();
        for (place, found) in places.iter().zip(found) {
            match found {
                Ok(objects) => {
                    inventory.things.extend(objects.iter().filter_map(|seen| place.thing(&self.scope, seen)));
                }
                // A kind that is not served has no objects.
                Err(Error::NotFound(_)) => {}
                Err(error @ Error::Forbidden(_)) => {
                    inventory.unseen.push((place.kinds[0], error.to_string()));
                }
                Err(source) => return Err(TeardownError::Unseen { resource: place.resource, source }),
            }
        }
        inventory.things.sort();
        Ok(inventory)
    }

    /// Takes everything away, and returns when nothing is left of what can be seen. `tell` hears how far it is whenever
    /// that changes.
    pub async fn run(
        &self,
        deadline: Option<Instant>,
        mut tell: impl FnMut(Told),
    ) -> Result<(), TeardownError> {
        let mut places = self.places();
        let listed = join_all(places.iter().map(Watched::list)).await;
        let mut listed = listed.into_iter();
        // What is not served or may not be looked at was said by the inventory, and is not waited for.
        places.retain(|_| !matches!(listed.next(), Some(Err(Error::NotFound(_) | Error::Forbidden(_)))));
        let changed = Arc::new(Notify::new());
        for place in &places {
            let changed = Arc::clone(&changed);
            place.cache.listen(move |_| changed.notify_one());
        }
        let watches = join_all(places.iter().map(|place| place.cache.run(&place.site, 0)));
        let work = async {
            join_all(places.iter().map(|place| place.cache.synced())).await;
            self.take_away(&places, &changed, deadline, &mut tell).await
        };
        let over = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = watches => Ok(()),
            ended = work => ended,
            () = over => {
                let left = self.left(&places);
                if left.is_empty() { Ok(()) } else { Err(TeardownError::TooLate { left }) }
            }
        }
    }

    async fn take_away(
        &self,
        places: &[Watched],
        changed: &Notify,
        deadline: Option<Instant>,
        tell: &mut impl FnMut(Told),
    ) -> Result<(), TeardownError> {
        let mut asked = BTreeSet::new();
        let mut wait = AGAIN.0;
        let mut last = None;
        loop {
            let plan = plan(&self.left(places));
            if last.as_ref() != Some(&plan) {
                tell(Told::Progress(plan.clone()));
                last = Some(plan.clone());
            }
            if plan.is_done() {
                return Ok(());
            }
            match self.step(&plan, places, &mut asked).await {
                Ok(()) => {
                    wait = AGAIN.0;
                    changed.notified().await;
                }
                Err(TeardownError::Refused { thing, source }) if source.is_retryable() => {
                    tell(Told::Trouble(format!("{thing} cannot be deleted now: {source}")));
                    tokio::time::sleep(wait.min(remaining(deadline))).await;
                    wait = (wait * 2).min(AGAIN.1);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks what is to go now to go, once for each.
    async fn step(
        &self,
        plan: &Plan,
        places: &[Watched],
        asked: &mut BTreeSet<String>,
    ) -> Result<(), TeardownError> {
        for thing in &plan.delete {
            let Some(place) = places.iter().find(|place| place.kinds.contains(&thing.kind)) else { continue };
            if asked.contains(&thing.uid) {
                continue;
            }
            let propagation = match thing.kind {
                Kind::VirtualMachine | Kind::DataVolume => Propagation::Foreground,
                _ => Propagation::Background,
            };
            let how = Delete { propagation, ..Delete::uid(&thing.uid) };
            let deleted = place.site.delete(&place.resource, &place.key(thing), &how).await;
            let refused = |source| TeardownError::Refused { thing: thing.clone(), source };
            deleted.map_err(refused)?;
            asked.insert(thing.uid.clone());
        }
        for thing in &plan.release {
            let Some(place) = places.iter().find(|place| place.kinds.contains(&thing.kind)) else { continue };
            if !thing.held_by.iter().any(|name| name == FINALIZER) {
                continue;
            }
            release(&place.site, &place.resource, &place.key(thing))
                .await
                .map_err(|source| TeardownError::Refused { thing: thing.clone(), source })?;
        }
        Ok(())
    }

    fn left(&self, places: &[Watched]) -> Vec<Thing> {
        let of = |place: &Watched| {
            let all = place.cache.all();
            all.iter().filter_map(|seen| place.thing(&self.scope, seen)).collect::<Vec<_>>()
        };
        places.iter().flat_map(of).collect()
    }

    /// What is looked at: each kind of object once, where it is.
    fn places(&self) -> Vec<Watched> {
        let kinds = self.scope.kinds();
        let mut places: Vec<Watched> = Vec::new();
        for kind in kinds {
            let resource = kind.resource();
            let is_same =
                |place: &&mut Watched| place.resource == resource && place.kinds[0].place() == kind.place();
            if let Some(same) = places.iter_mut().find(is_same) {
                same.kinds.push(kind);
                continue;
            }
            let (site, namespace) = match (kind.place(), &self.control) {
                (Place::Control, None) => continue,
                // They are among the Secrets of the machines.
                (Place::Control, Some(control)) if kind == Kind::Kept && !control.apart => continue,
                (Place::Control, Some(control)) => (&control.site, &control.namespace),
                _ => (&self.infra, &self.namespace),
            };
            let selection = Selection::namespace(namespace);
            // Pools are people's, and carry no labels of ours.
            let selection =
                if kind == Kind::Pool { selection } else { selection.labels(&self.scope.selector()) };
            places.push(Watched {
                kinds: vec![kind],
                resource,
                site: site.clone(),
                namespace: namespace.clone(),
                cache: Cache::new(resource, selection.clone()),
                selection,
            });
        }
        places
    }
}

/// Objects of one kind at one place.
struct Watched {
    kinds: Vec<Kind>,
    resource: Resource,
    site: Site,
    namespace: String,
    selection: Selection,
    cache: Cache<Seen>,
}

impl Watched {
    async fn list(&self) -> Result<Vec<Seen>, Error> {
        self.site.list(&self.resource, &self.selection).await
    }

    fn key(&self, thing: &Thing) -> Key {
        Key::new(&self.namespace, &thing.name)
    }

    fn thing(&self, scope: &Scope, seen: &Seen) -> Option<Thing> {
        let mut kind = *self.kinds.first()?;
        if kind == Kind::Pool && seen.spec.cluster.as_deref() != Some(scope.cluster()) {
            return None;
        }
        if seen.sort.as_deref() == Some(RECORD_TYPE) && self.kinds.contains(&Kind::Record) {
            kind = Kind::Record;
        }
        Some(Thing {
            kind,
            name: seen.metadata.name().to_owned(),
            uid: seen.metadata.uid.to_string(),
            going: seen.metadata.is_deleting(),
            held_by: seen.metadata.finalizers.iter().map(ToString::to_string).collect(),
        })
    }
}

fn remaining(deadline: Option<Instant>) -> Duration {
    deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()))
}

/// Takes our finalizer off a machine object.
async fn release(site: &Site, resource: &Resource, key: &Key) -> Result<(), Error> {
    let Some(machine) = site.find::<Object>(resource, key).await? else { return Ok(()) };
    let Some(patch) = remove_finalizer(&machine) else { return Ok(()) };
    match site.merge_patch::<Value>(resource, key, &patch).await {
        Ok(_) | Err(Error::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The patch that puts a finalizer onto a TenantCluster, or takes it off; nothing where it is as wished.
pub(crate) fn cluster_finalizer(cluster: &Object, finalizer: &str, wished: bool) -> Option<Value> {
    let had: Vec<&str> = cluster.metadata.finalizers.iter().map(|text| &**text).collect();
    if had.contains(&finalizer) == wished {
        return None;
    }
    let mut finalizers: Vec<&str> = had.into_iter().filter(|name| *name != finalizer).collect();
    if wished {
        finalizers.push(finalizer);
    }
    Some(json!({"metadata": {
        "uid": &*cluster.metadata.uid,
        "resourceVersion": cluster.metadata.resource_version.to_string(),
        "finalizers": finalizers,
    }}))
}

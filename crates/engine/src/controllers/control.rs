//! The control site of a tenant: machine objects of its family, and the Secrets they refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use trellis_runtime::queue::Outcome;
use trellis_runtime::{Cache, Index, Key, Queue, Resource, Selection, Site};

use super::cached::Cached;
use super::work::{COMING, Task, Watches};
use crate::families::user_data::SecretSeen;
use crate::families::{self, Family, HistoryObject, Object, TRELLIS};

const SECRET: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const HISTORY: Resource = Resource::namespaced("apps", "v1", "controllerrevisions", "ControllerRevision");

/// A machine object, set, pool or health check.
pub(crate) type Thing = Arc<Object>;

/// Objects of one kind, found by name and by the uid of what controls them.
pub(crate) struct Things {
    pub(crate) resource: Resource,
    /// Whether the status is written apart from the object.
    status_apart: bool,
    pub(crate) cache: Cache<Object>,
    by_owner: Index<Object, String>,
}

impl Things {
    fn new(of: &families::Resource, namespace: &str) -> Self {
        let (group, version) = of.api_version.split_once('/').unwrap_or(("", of.api_version));
        let resource = Resource::namespaced(group, version, of.plural, of.kind);
        let cache = Cache::new(resource, Selection::namespace(namespace));
        let owner =
            |object: &Object| object.metadata.owner.iter().map(|owner| owner.uid.to_string()).collect();
        let by_owner = cache.index(owner);
        Self { resource, status_apart: of.status_apart, cache, by_owner }
    }

    /// What an object controls.
    pub(crate) fn of_owner(&self, uid: &str) -> Vec<Thing> {
        self.by_owner.get(uid)
    }

    /// One by its name.
    pub(crate) fn get(&self, key: &Key) -> Option<Thing> {
        self.cache.get(key)
    }
}

/// What is counted of machines: no look at one reads all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It is drained because its host is emptied.
    Disrupted,
    /// It has joined its cluster once.
    Joined,
}

fn standing(family: &Family, machine: &Object) -> Vec<Standing> {
    let record = families::machine_seen(family, machine).record;
    let disrupted = record.evacuation_started.is_some() && record.drain_started.is_some();
    let joined = record.joined.is_some() || record.node.is_some();
    let disrupted = disrupted.then_some(Standing::Disrupted);
    disrupted.into_iter().chain(joined.then_some(Standing::Joined)).collect()
}

/// Whether a machine has joined its cluster once.
pub(crate) fn has_joined(family: &Family, machine: &Object) -> bool {
    standing(family, machine).contains(&Standing::Joined)
}

/// The control site of one tenant.
pub(crate) struct Control {
    pub(crate) site: Site,
    pub(crate) family: &'static Family,
    pub(crate) namespace: String,
    pub(crate) machines: Things,
    /// Machines by what others have to know of them.
    pub(crate) standing: Index<Object, Standing>,
    /// Machines by what the firmware of their VMs calls them.
    pub(crate) by_firmware: Index<Object, String>,
    pub(crate) sets: Option<Things>,
    pub(crate) pools: Option<Things>,
    pub(crate) checks: Option<Things>,
    /// Old revisions of our own pools.
    pub(crate) history: Option<Cache<HistoryObject>>,
    secrets: Mutex<BTreeMap<Key, SecretWatch>>,
}

impl Control {
    /// The control site of a family in a namespace.
    pub(crate) fn new(site: Site, family: &'static Family, namespace: &str) -> Self {
        let things = |of: &families::Resource| Things::new(of, namespace);
        let machines = things(&family.machine);
        let standing = machines.cache.index(move |machine: &Object| standing(family, machine));
        let by_firmware = machines.cache.index(move |machine: &Object| {
            let uuid = families::machine_seen(family, machine).record.firmware_uuid;
            uuid.map(|uuid| uuid.to_lowercase()).into_iter().collect()
        });
        Self {
            site,
            by_firmware,
            family,
            namespace: namespace.to_owned(),
            machines,
            standing,
            sets: family.set.as_ref().map(things),
            pools: family.pool.as_ref().map(things),
            checks: family.health_check.as_ref().map(things),
            history: (*family == TRELLIS).then(|| Cache::new(HISTORY, Selection::namespace(namespace))),
            secrets: Mutex::default(),
        }
    }

    /// All kinds that are watched from the beginning.
    pub(crate) fn things(&self) -> impl Iterator<Item = &Things> {
        [Some(&self.machines), self.sets.as_ref(), self.pools.as_ref(), self.checks.as_ref()]
            .into_iter()
            .flatten()
    }

    /// Writes a merge patch to an object, and takes in the answer.
    pub(crate) async fn patch(&self, things: &Things, key: &Key, patch: &Value) -> Result<(), Failed> {
        let written: Object = self.site.merge_patch(&things.resource, key, patch).await?;
        things.cache.written(written);
        Ok(())
    }

    /// Writes a patch of the status, wherever the family keeps it.
    pub(crate) async fn patch_status(&self, things: &Things, key: &Key, patch: &Value) -> Result<(), Failed> {
        if !things.status_apart {
            return self.patch(things, key, patch).await;
        }
        let written: Object = self.site.merge_patch_status(&things.resource, key, patch).await?;
        things.cache.written(written);
        Ok(())
    }

    /// Makes an object; one that is there already is as good, if it belongs to the same.
    pub(crate) async fn create(&self, things: &Things, object: &Value) -> Result<(), Failed> {
        match self.site.create::<Object>(&things.resource, &self.namespace, object).await {
            Ok(made) => {
                things.cache.written(made);
                Ok(())
            }
            Err(trellis_runtime::client::Error::AlreadyExists(message)) => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let named = Selection::namespace(&self.namespace).fields(&format!("metadata.name={name}"));
                let found: Vec<Object> = self.site.list(&things.resource, &named).await?;
                // Gone meanwhile: the next look makes it.
                let Some(found) = found.into_iter().next() else { return Ok(()) };
                let owner = found.metadata.owner.as_ref().map(|owner| owner.uid.to_string());
                if owner != controller_of(object) {
                    let message =
                        format!("{message}; the name is taken by one that belongs to somebody else");
                    return Err(trellis_runtime::client::Error::AlreadyExists(message).into());
                }
                things.cache.written(found);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps a revision of a pool, for going back to it.
    pub(crate) async fn keep(&self, revision: &Value) -> Result<(), Failed> {
        let Some(history) = &self.history else { return Ok(()) };
        match self.site.create::<HistoryObject>(&HISTORY, &self.namespace, revision).await {
            Ok(made) => history.written(made),
            // A revision that is gone back to: its place in the history is new.
            Err(trellis_runtime::client::Error::AlreadyExists(_)) => {
                let name = revision["metadata"]["name"].as_str().unwrap_or_default();
                let key = Key::new(&self.namespace, name);
                let place = serde_json::json!({"revision": revision["revision"]});
                history.written(self.site.merge_patch(&HISTORY, &key, &place).await?);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// A Secret that machines refer to; it is watched from the first time it is asked for, and whoever asked is looked
    /// at again when it changes.
    pub(crate) fn secret(&self, watches: &Watches, key: &Key, machine: &str, queue: &Queue<Task>) -> Found {
        let mut secrets = self.secrets.lock();
        let watch = secrets.entry(key.clone()).or_insert_with(|| {
            let selection =
                Selection::namespace(key.namespace()).fields(&format!("metadata.name={}", key.name()));
            let cache = Cache::new(SECRET, selection);
            let asked: Asked = Asked::default();
            let (names, heard) = (Arc::clone(&asked), queue.clone());
            let again = move || {
                for name in names.lock().iter() {
                    heard.add(&Task::Machine(name.clone()), COMING);
                }
            };
            let first = again.clone();
            cache.listen(move |_| again());
            watches.watch(&cache, &self.site);
            let synced = cache.clone();
            watches.spawn(async move {
                synced.synced().await;
                first();
            });
            SecretWatch { cache, asked }
        });
        watch.asked.lock().insert(machine.to_owned());
        match watch.cache.get(key) {
            Some(secret) => Found::Here(secret),
            None if watch.cache.is_synced() => Found::Absent,
            None => Found::Unknown,
        }
    }
}

/// The uid of what controls an object that is to be made.
fn controller_of(object: &Value) -> Option<String> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let controls = owners.iter().find(|owner| owner["controller"] == true)?;
    controls["uid"].as_str().map(str::to_owned)
}

/// What is known of a Secret.
pub(crate) enum Found {
    /// Nothing yet.
    Unknown,
    /// There is none.
    Absent,
    /// This is it.
    Here(Arc<Cached<Secret>>),
}

/// The machines that asked for a Secret.
type Asked = Arc<Mutex<BTreeSet<String>>>;

/// A Secret that is watched.
struct SecretWatch {
    cache: Cache<Cached<Secret>>,
    asked: Asked,
}

/// A request to the control site failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Failed(#[from] pub(crate) trellis_runtime::client::Error);

impl Failed {
    /// When whoever failed tries again: a server that is busy says when it wants to be asked.
    pub(crate) fn outcome(&self) -> Outcome {
        again(self.0.retry_after())
    }
}

/// The longest a server may put us off.
const LONGEST_PUT_OFF: Duration = Duration::from_mins(2);

/// When it is tried again, if a server said when it wants to be asked.
pub(crate) fn again(asked: Option<Duration>) -> Outcome {
    asked.map_or(Outcome::Retry, |wait| Outcome::After(wait.min(LONGEST_PUT_OFF)))
}

/// A Secret with user data. It is never shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Secret(pub(crate) SecretSeen);

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: Meta,
            #[serde(default)]
            data: Option<BTreeMap<String, String>>,
        }
        #[derive(Deserialize)]
        struct Meta {
            #[serde(default)]
            annotations: Option<BTreeMap<String, String>>,
        }
        let Wire { metadata, data } = Wire::deserialize(deserializer)?;
        let decoded = |(key, text): (String, String)| STANDARD.decode(text).ok().map(|bytes| (key, bytes));
        Ok(Self(SecretSeen {
            annotations: metadata.annotations.unwrap_or_default(),
            data: data.unwrap_or_default().into_iter().filter_map(decoded).collect(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trellis_runtime::client::Error;

    #[test]
    fn a_server_that_is_busy_is_asked_when_it_wants_to_be() {
        let busy = |seconds| Error::TooManyRequests {
            retry_after: Some(Duration::from_secs(seconds)),
            message: "later".to_owned(),
        };
        assert_eq!(Failed(busy(7)).outcome(), Outcome::After(Duration::from_secs(7)));
        assert_eq!(Failed(busy(86_400)).outcome(), Outcome::After(LONGEST_PUT_OFF));
        assert_eq!(Failed(Error::Timeout).outcome(), Outcome::Retry);
    }
}

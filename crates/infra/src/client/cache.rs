//! What is known of the objects of a kind.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::{Client, informer};
use crate::kinds::{self, Kind};
use crate::object::{Key, Object as _};

/// A change of one object: what it was and what it is.
#[derive(Debug, Clone)]
pub struct Change {
    /// The object before; nothing when it is new.
    pub before: Option<Arc<Value>>,
    /// The object now; nothing when it is gone.
    pub after: Option<Arc<Value>>,
}

impl Change {
    /// The object as it is, or as it was last.
    pub fn object(&self) -> &Arc<Value> {
        match (&self.after, &self.before) {
            (Some(object), _) | (None, Some(object)) => object,
            // A change without an object is never made.
            (None, None) => unreachable_object(),
        }
    }

    /// The key of the object.
    pub fn key(&self) -> Key {
        Key::of(self.object())
    }
}

/// A null, for the case that does not happen.
fn unreachable_object() -> &'static Arc<Value> {
    static NULL: std::sync::LazyLock<Arc<Value>> = std::sync::LazyLock::new(|| Arc::new(Value::Null));
    &NULL
}

/// The words an object can be found by in an index.
type Words = fn(&Value) -> Vec<String>;

/// The indexes of a kind by name. All kinds have `owner`: the uid of the controller.
fn indexes_of(kind: &Kind) -> Vec<(&'static str, Words)> {
    let mut indexes: Vec<(&'static str, Words)> = vec![("owner", |object| {
        object
            .controller()
            .and_then(|owner| owner["uid"].as_str())
            .map(ToOwned::to_owned)
            .into_iter()
            .collect()
    })];
    if *kind == kinds::POD {
        indexes.push(("node", |pod| vec![pod.text("/spec/nodeName").to_owned()]));
        indexes.push(("uid", |pod| vec![pod.uid().to_owned()]));
        indexes.push(("claim", |pod| {
            let claims =
                pod.list("/spec/volumes").iter().map(|volume| &volume["persistentVolumeClaim"]["claimName"]);
            claims.filter_map(Value::as_str).map(|claim| format!("{}/{claim}", pod.namespace())).collect()
        }));
    } else if *kind == kinds::VMI {
        indexes.push(("node", |vmi| vec![vmi.text("/status/nodeName").to_owned()]));
        indexes.push(("claim", |vmi| claims(vmi, vmi.at("/spec"))));
    } else if *kind == kinds::VM {
        indexes.push(("claim", |vm| claims(vm, vm.at("/spec/template/spec"))));
    } else if *kind == kinds::ENDPOINT_SLICE {
        indexes.push(("service", |slice| {
            vec![format!("{}/{}", slice.namespace(), slice.label("kubernetes.io/service-name"))]
        }));
    } else if *kind == kinds::SERVICE {
        indexes.push(("address", addresses_of_service));
        indexes.push(("nodePort", |service| {
            let ports = service.list("/spec/ports").iter().filter_map(|port| port.number("/nodePort"));
            ports.map(|port| port.to_string()).collect()
        }));
    } else if *kind == kinds::NODE {
        indexes.push(("address", |node| {
            let addresses = node.list("/status/addresses").iter().map(|one| one.text("/address"));
            addresses.map(ToOwned::to_owned).collect()
        }));
    } else if *kind == kinds::PV {
        indexes.push(("claim", |volume| {
            vec![format!(
                "{}/{}",
                volume.text("/spec/claimRef/namespace"),
                volume.text("/spec/claimRef/name")
            )]
        }));
        indexes.push(("handle", |volume| vec![volume.text("/spec/csi/volumeHandle").to_owned()]));
    } else if *kind == kinds::VOLUME_ATTACHMENT {
        indexes.push(("node", |one| vec![one.text("/spec/nodeName").to_owned()]));
        indexes.push(("volume", |one| vec![one.text("/spec/source/persistentVolumeName").to_owned()]));
    } else if *kind == kinds::MIGRATION {
        indexes.push(("vmi", |migration| {
            vec![format!("{}/{}", migration.namespace(), migration.text("/spec/vmiName"))]
        }));
    }
    indexes
}

/// All addresses a service is reached by.
fn addresses_of_service(service: &Value) -> Vec<String> {
    let spec = service.list("/spec/clusterIPs").iter().chain(service.list("/spec/externalIPs"));
    let balancers = service.list("/status/loadBalancer/ingress").iter().map(|one| &one["ip"]);
    spec.chain(balancers).filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

/// The claims a machine uses, each with its namespace.
fn claims(object: &Value, spec: &Value) -> Vec<String> {
    let claims = crate::kubevirt::instance::claims(spec);
    claims.into_iter().map(|claim| format!("{}/{claim}", object.namespace())).collect()
}

#[derive(Debug, Default)]
struct Known {
    objects: BTreeMap<Key, Arc<Value>>,
    /// Per index and word, who has it.
    found: HashMap<(&'static str, String), BTreeSet<Key>>,
    /// Objects that are gone: the version they went at. What is older about them is no news.
    gone: HashMap<Key, u64>,
}

/// All objects of a kind, as far as is known.
#[derive(Debug)]
pub struct Cache {
    kind: &'static Kind,
    indexes: Vec<(&'static str, Words)>,
    known: RwLock<Known>,
    readers: Mutex<Vec<mpsc::UnboundedSender<Change>>>,
    complete: watch::Sender<bool>,
}

impl Cache {
    pub(crate) fn new(kind: &'static Kind) -> Self {
        Self {
            kind,
            indexes: indexes_of(kind),
            known: RwLock::default(),
            readers: Mutex::default(),
            complete: watch::Sender::new(false),
        }
    }

    /// The kind of the objects.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Waits until everything that was there at the start is known.
    pub async fn complete(&self) {
        // Only fails when the cache is gone, which this call keeps from happening.
        let _ = self.complete.subscribe().wait_for(|complete| *complete).await;
    }

    /// An object.
    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.known.read().objects.get(key).cloned()
    }

    /// All objects, or those of one namespace, by key.
    pub fn list(&self, namespace: &str) -> Vec<Arc<Value>> {
        let known = self.known.read();
        if namespace.is_empty() {
            return known.objects.values().cloned().collect();
        }
        let from = Key::new(namespace, "");
        known
            .objects
            .range(from..)
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.known.read().objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects an index has under a word, by key. See `indexes_of` for the indexes of a kind.
    pub fn find(&self, index: &'static str, word: &str) -> Vec<Arc<Value>> {
        debug_assert!(
            self.indexes.iter().any(|(name, _)| *name == index),
            "{} has no {index}",
            self.kind.kind
        );
        let known = self.known.read();
        let Some(keys) = known.found.get(&(index, word.to_owned())) else { return Vec::new() };
        keys.iter().filter_map(|key| known.objects.get(key).cloned()).collect()
    }

    /// The objects a controller with this uid controls.
    pub fn controlled_by(&self, uid: &str) -> Vec<Arc<Value>> {
        self.find("owner", uid)
    }

    /// All changes from now on; first everything there is, as if it were new.
    pub fn changes(&self) -> mpsc::UnboundedReceiver<Change> {
        let (sender, receiver) = mpsc::unbounded_channel();
        // Held while the objects are read, so that no change is missed or told twice.
        let mut readers = self.readers.lock();
        for object in self.known.read().objects.values() {
            // The receiver is still here.
            let _ = sender.send(Change { before: None, after: Some(Arc::clone(object)) });
        }
        readers.push(sender);
        receiver
    }

    /// Takes in an object as somebody saw it. Old news is passed over.
    pub(crate) fn learn(&self, mut object: Value) {
        object["apiVersion"] = self.kind.api_version().into();
        object["kind"] = self.kind.kind.into();
        let (key, version) = (Key::of(&object), object.version());
        let object = Arc::new(object);
        let readers = self.readers.lock();
        let mut known = self.known.write();
        if known.gone.get(&key).is_some_and(|gone| *gone >= version)
            || known.objects.get(&key).is_some_and(|old| old.version() >= version)
        {
            return;
        }
        let before = self.put(&mut known, &key, Some(&object));
        drop(known);
        tell(readers, &Change { before, after: Some(object) });
    }

    /// Takes in that an object is gone; `version` is that of its last state or of its deletion.
    pub(super) fn forget(&self, key: &Key, version: u64) {
        let readers = self.readers.lock();
        let mut known = self.known.write();
        if known.objects.get(key).is_some_and(|old| old.version() > version) {
            return;
        }
        // Only as a guard against news that overtake each other, which are milliseconds apart.
        if known.gone.len() > 10_000 {
            known.gone.clear();
        }
        known.gone.insert(key.clone(), version);
        let before = self.put(&mut known, key, None);
        drop(known);
        if before.is_some() {
            tell(readers, &Change { before, after: None });
        }
    }

    /// Takes in a whole list at its version: what is not on it is gone.
    pub(crate) fn learn_all(&self, objects: Vec<Value>, version: u64) {
        let listed: BTreeSet<Key> = objects.iter().map(Key::of).collect();
        let missing: Vec<Key> = {
            let known = self.known.read();
            known.objects.keys().filter(|key| !listed.contains(*key)).cloned().collect()
        };
        for key in missing {
            self.forget(&key, version);
        }
        for object in objects {
            self.learn(object);
        }
        self.complete.send_replace(true);
    }

    fn put(&self, known: &mut Known, key: &Key, object: Option<&Arc<Value>>) -> Option<Arc<Value>> {
        let before = match object {
            Some(object) => known.objects.insert(key.clone(), Arc::clone(object)),
            None => known.objects.remove(key),
        };
        for (index, words) in &self.indexes {
            let old = before.as_deref().map(words).unwrap_or_default();
            let new = object.map(|object| words(object)).unwrap_or_default();
            if old == new {
                continue;
            }
            for word in old {
                let place = (*index, word);
                if let Some(keys) = known.found.get_mut(&place) {
                    keys.remove(key);
                    if keys.is_empty() {
                        known.found.remove(&place);
                    }
                }
            }
            for word in new {
                known.found.entry((index, word)).or_default().insert(key.clone());
            }
        }
        before
    }
}

/// Tells everybody who still listens.
fn tell(mut readers: parking_lot::MutexGuard<'_, Vec<mpsc::UnboundedSender<Change>>>, change: &Change) {
    readers.retain(|reader| reader.send(change.clone()).is_ok());
}

/// The caches of a connection, each with the task that feeds it.
#[derive(Debug, Clone, Default)]
pub struct Caches {
    running: Arc<Mutex<HashMap<&'static Kind, Running>>>,
}

#[derive(Debug)]
struct Running {
    cache: Arc<Cache>,
    /// Ends the task when the last client is gone.
    _task: tokio::task::JoinSet<()>,
}

impl Caches {
    pub(super) fn of(&self, kind: &'static Kind, client: &Client) -> Arc<Cache> {
        let mut running = self.running.lock();
        let running = running.entry(kind).or_insert_with(|| {
            let cache = Arc::new(Cache::new(kind));
            let mut task = tokio::task::JoinSet::new();
            // The task must not keep alive the table that ends it.
            let connection = client.inner.clone();
            task.spawn(informer::feed(connection, Arc::clone(&cache), String::new()));
            Running { cache, _task: task }
        });
        Arc::clone(&running.cache)
    }

    /// Takes in what a write came to, if anybody wants to know of that kind.
    pub(super) fn learn(&self, kind: &'static Kind, object: &Value) {
        let cache = self.running.lock().get(kind).map(|running| Arc::clone(&running.cache));
        if let Some(cache) = cache {
            cache.learn(object.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, version: u64, node: &str) -> Value {
        json!({"metadata": {"namespace": "a", "name": name, "resourceVersion": version.to_string()}, "spec": {"nodeName": node}})
    }

    #[test]
    fn old_news_is_passed_over() {
        let cache = Cache::new(&kinds::POD);
        let mut changes = cache.changes();
        cache.learn(pod("p", 5, "n"));
        cache.learn(pod("p", 4, "old"));
        cache.learn(pod("p", 5, "n"));
        assert_eq!(cache.find("node", "n").len(), 1);
        assert!(cache.find("node", "old").is_empty());
        cache.forget(&Key::new("a", "p"), 7);
        cache.learn(pod("p", 6, "n"));
        assert!(cache.is_empty());
        let mut seen = Vec::new();
        while let Ok(change) = changes.try_recv() {
            seen.push((change.before.is_some(), change.after.is_some()));
        }
        assert_eq!(seen, [(false, true), (true, false)]);
    }

    #[test]
    fn a_list_tells_what_is_gone() {
        let cache = Cache::new(&kinds::POD);
        cache.learn(pod("old", 1, "n"));
        cache.learn(pod("newer than the list", 9, "n"));
        cache.learn_all(vec![pod("kept", 3, "m")], 5);
        let names: Vec<_> = cache.list("a").iter().map(|pod| pod.name().to_owned()).collect();
        assert_eq!(names, ["kept", "newer than the list"]);
    }
}

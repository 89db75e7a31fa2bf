//! Templates as clusters, pools and revisions of the model.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use trellis_dialects::read::read;
use trellis_dialects::render;
use trellis_dialects::source::SourceMap;
use trellis_model::canonical::{self, Revision};
use trellis_model::cluster::ClusterSpec;
use trellis_model::pool::PoolSpec;
use trellis_model::validate::validate;
use trellis_model::{Cluster, Estate, Pool};

use super::object::{HistoryObject, Object};
use super::table::{Family, OPENSHIFT, TRELLIS};

/// The label OpenShift names the cluster of a machine in.
pub(crate) const OPENSHIFT_CLUSTER: &str = "machine.openshift.io/cluster-api-cluster";
/// A label nobody has: a selector that asks for its absence selects everything.
const NOBODY: &str = "trellis.dev/nobody";
/// How many templates are remembered; there are as many as there are revisions in use.
const MOST: usize = 4096;
/// The longest message about a template that cannot be read, in characters.
const LONGEST_MESSAGE: usize = 2000;

/// What a template, or one machine's own copy of it, says in the words of the model.
#[derive(Clone, PartialEq, Eq)]
pub struct Reading {
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// The pool; of a single machine, the pool it would be alone.
    pub pool: Arc<Pool>,
    /// What machines made from it have in common.
    pub revision: Revision,
}

impl fmt::Debug for Reading {
    /// Leaves out what the pool holds: user data that is written out must not be shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("cluster", &self.cluster.name)
            .field("pool", &self.pool.name)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// A template cannot be read: every problem of it at once, in words for people and without secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(Arc<str>);

impl Unreadable {
    /// Why, in words for people and without secrets.
    pub(crate) fn new(message: &str) -> Self {
        Self(message.chars().take(LONGEST_MESSAGE).collect::<String>().into())
    }
}

/// Reads templates of one family and one tenant, each of them once: a thousand equal machines are one template.
///
/// It is made anew when the tenant's cluster or a ConfigMap changes that templates refer to.
pub struct Readings {
    family: &'static Family,
    cluster: Option<Arc<Cluster>>,
    config_maps: Vec<Value>,
    known: Mutex<HashMap<String, Result<Arc<Reading>, Unreadable>>>,
}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readings").field("family", &self.family.name).finish_non_exhaustive()
    }
}

impl Readings {
    /// Readings of a tenant whose cluster is known, or else made up from what its templates say, and those ConfigMaps
    /// that KKP's settings refer to, as far as they are at hand. The controllers have none: a template that refers to
    /// one is unreadable to them, and says so.
    pub fn new(family: &'static Family, cluster: Option<Arc<Cluster>>, config_maps: Vec<Value>) -> Self {
        Self { family, cluster, config_maps, known: Mutex::default() }
    }

    /// Reads what one machine is by its own spec: the revision it has, whatever became of its pool. Of our own
    /// family, machines have no template of their own; see [`Readings::history`].
    ///
    /// `pool` is the name of the pool it belongs to; without one it is a pool of itself.
    pub fn machine(&self, machine: &Object, pool: Option<&str>) -> Result<Arc<Reading>, Unreadable> {
        let alone = pool.is_none().then_some(machine.metadata.name());
        self.remember(self.machine_document(machine, pool), alone)
    }

    /// What is read of a machine: the set it would be alone.
    pub(crate) fn machine_document(&self, machine: &Object, pool: Option<&str>) -> Value {
        let meta = &machine.metadata;
        let labels = without(&meta.labels, |key| self.family.adds_label(key));
        let annotations = without(&meta.annotations, |key| self.family.adds_annotation(key));
        json!({
            "apiVersion": self.family.machine.api_version,
            "kind": "MachineSet",
            "metadata": { "name": pool.unwrap_or(meta.name()), "namespace": meta.namespace() },
            "spec": {
                "selector": { "matchExpressions": [{ "key": NOBODY, "operator": "DoesNotExist" }] },
                "template": {
                    "metadata": { "labels": labels, "annotations": annotations },
                    "spec": machine.spec_json(),
                },
            },
        })
    }

    /// Reads a set. `pool` is the name of the pool it belongs to, if it does.
    pub fn set(&self, set: &Object, pool: Option<&str>) -> Result<Arc<Reading>, Unreadable> {
        self.remember(self.set_document(set, pool), None)
    }

    /// What is read of a set: without what its controller put there.
    pub(crate) fn set_document(&self, set: &Object, pool: Option<&str>) -> Value {
        let mut document = self.document(set, self.family.set.map_or("", |set| set.kind));
        if let Some(pool) = pool {
            document["metadata"]["name"] = pool.into();
        }
        for labels in ["/spec/template/metadata/labels", "/spec/selector/matchLabels"] {
            if let Some(Value::Object(labels)) = document.pointer_mut(labels) {
                labels.retain(|key, _| !self.family.adds_label(key));
            }
        }
        if pool.is_some() {
            // Its machines are found by their owner; what selects them beside the revision was its pool's business.
            document["spec"]["selector"] =
                json!({ "matchExpressions": [{ "key": NOBODY, "operator": "DoesNotExist" }] });
        }
        document
    }

    /// Reads a pool: a MachineDeployment or a MachinePool.
    pub fn pool(&self, pool: &Object) -> Result<Arc<Reading>, Unreadable> {
        self.remember(self.pool_document(pool), None)
    }

    /// What is read of a pool.
    pub(crate) fn pool_document(&self, pool: &Object) -> Value {
        self.document(pool, self.family.pool.map_or("", |pool| pool.kind))
    }

    /// Reads an old revision of a MachinePool, with the cluster as it was then.
    pub fn history(&self, history: &HistoryObject) -> Result<Arc<Reading>, Unreadable> {
        #[derive(Deserialize)]
        struct Data {
            cluster: ClusterSpec,
            pool: PoolSpec,
        }
        let key = format!(
            "history {}/{} {}",
            history.metadata.namespace(),
            history.metadata.name(),
            &*history.data
        );
        self.remembered(key, || {
            let unreadable = |what: &str| {
                Unreadable::new(&format!("the ControllerRevision {} {what}", history.metadata.name()))
            };
            // What serde says may quote the text.
            let data: Data = serde_json::from_str(&history.data)
                .map_err(|_| unreadable("does not hold a cluster and a pool"))?;
            let owner = history.metadata.owner.as_ref().map(|owner| &*owner.name);
            let name =
                owner.and_then(|name| name.parse().ok()).ok_or_else(|| unreadable("belongs to no pool"))?;
            let namespace = history.metadata.namespace().parse().ok();
            let cluster = Cluster { name: data.pool.cluster.clone(), namespace: None, spec: data.cluster };
            let pool = Pool { name, namespace, spec: data.pool };
            Ok(Reading {
                revision: Revision::of(&cluster, &pool),
                cluster: Arc::new(cluster),
                pool: Arc::new(pool),
            })
        })
    }

    fn document(&self, object: &Object, kind: &str) -> Value {
        let meta = &object.metadata;
        // Our own kinds have no room for labels and annotations of the object in what is read.
        let (labels, annotations) = if *self.family == TRELLIS {
            (BTreeMap::default(), BTreeMap::default())
        } else {
            (without(&meta.labels, |_| false), without(&meta.annotations, |_| false))
        };
        json!({
            "apiVersion": self.family.machine.api_version,
            "kind": kind,
            "metadata": {
                "name": meta.name(),
                "namespace": meta.namespace(),
                "labels": labels,
                "annotations": annotations,
            },
            "spec": object.spec_json(),
        })
    }

    fn remember(&self, mut document: Value, alone: Option<&str>) -> Result<Arc<Reading>, Unreadable> {
        if *self.family == OPENSHIFT
            && let Some(cluster) = &self.cluster
            && let Some(template) = document.pointer_mut("/spec/template").and_then(Value::as_object_mut)
        {
            name_cluster(template, cluster.name.as_str());
        }
        let key = format!("{} {}", alone.unwrap_or_default(), canonical::hash(&document));
        self.remembered(key, || self.read(&document, alone))
    }

    fn remembered(
        &self,
        key: String,
        read: impl FnOnce() -> Result<Reading, Unreadable>,
    ) -> Result<Arc<Reading>, Unreadable> {
        if let Some(known) = self.known.lock().get(&key) {
            return known.clone();
        }
        let reading = read().map(Arc::new);
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, reading.clone());
        reading
    }

    fn read(&self, document: &Value, alone: Option<&str>) -> Result<Reading, Unreadable> {
        let mut sources = SourceMap::new();
        // Line by line: what may be said of a line is decided by what is on it.
        sources.add("object", serde_json::to_string_pretty(document).unwrap_or_default());
        for map in &self.config_maps {
            sources.add("configmap", serde_json::to_string_pretty(map).unwrap_or_default());
        }
        let mut read = read(&sources);
        let pool = read.estate.pools.pop();
        let implied = pool.as_ref().and_then(|pool| read.estate.cluster(&pool.spec.cluster).cloned());
        let composed = pool.and_then(|pool| self.compose(pool, implied));
        if let Some((cluster, pool)) = &composed
            && self.cluster.is_some()
        {
            let estate = Estate { clusters: vec![(**cluster).clone()], pools: vec![pool.clone()] };
            read.report(validate(&estate));
        }
        if read.diagnostics.has_errors() {
            return Err(problems(&render::to_json(&read.diagnostics, &sources)));
        }
        let Some((cluster, mut pool)) = composed else {
            return Err(Unreadable::new("its TenantCluster is not there, or it belongs to another"));
        };
        pool.spec.machine_name = alone.and_then(|name| name.parse().ok());
        let revision = Revision::of(&cluster, &pool);
        Ok(Reading { cluster, pool: Arc::new(pool), revision })
    }

    /// The pool with its cluster. Whoever knows the tenant's cluster knows better than a template that names one.
    fn compose(&self, mut pool: Pool, implied: Option<Cluster>) -> Option<(Arc<Cluster>, Pool)> {
        match &self.cluster {
            Some(cluster) if *self.family == TRELLIS => {
                (pool.spec.cluster == cluster.name).then(|| (Arc::clone(cluster), pool))
            }
            Some(cluster) => {
                pool.spec.cluster = cluster.name.clone();
                Some((Arc::clone(cluster), pool))
            }
            None => implied.map(|cluster| (Arc::new(cluster), pool)),
        }
    }
}

/// Names the cluster in a template of OpenShift's.
pub(crate) fn name_cluster(template: &mut Map<String, Value>, cluster: &str) {
    put(template, &["metadata", "labels", OPENSHIFT_CLUSTER], cluster);
}

/// What is read of a TenantCluster.
pub(crate) fn cluster_document(object: &Object) -> Value {
    json!({
        "apiVersion": TRELLIS.machine.api_version,
        "kind": "TenantCluster",
        "metadata": { "name": object.metadata.name(), "namespace": object.metadata.namespace() },
        "spec": object.spec_json(),
    })
}

/// Reads a TenantCluster.
pub fn read_cluster(object: &Object) -> Result<Arc<Cluster>, Unreadable> {
    let document = cluster_document(object);
    let mut sources = SourceMap::new();
    sources.add("object", serde_json::to_string_pretty(&document).unwrap_or_default());
    let mut read = read(&sources);
    if read.diagnostics.has_errors() {
        return Err(problems(&render::to_json(&read.diagnostics, &sources)));
    }
    read.estate.clusters.pop().map(Arc::new).ok_or_else(|| Unreadable::new("it is not a TenantCluster"))
}

/// All errors as one message: where, what, and how to mend it. What may not be shown was taken out before.
fn problems(diagnostics: &Value) -> Unreadable {
    let mut said: Vec<String> = Vec::new();
    for diagnostic in diagnostics.as_array().into_iter().flatten() {
        let text = |key: &str| diagnostic.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("severity") != "error" {
            continue;
        }
        let place = if text("path").is_empty() { String::new() } else { format!("{}: ", text("path")) };
        let help = if text("help").is_empty() { String::new() } else { format!(" ({})", text("help")) };
        let message = format!("{place}{}{help}", text("message"));
        if !said.contains(&message) {
            said.push(message);
        }
    }
    Unreadable::new(&said.join("; "))
}

fn without(pairs: &BTreeMap<String, String>, drop: impl Fn(&str) -> bool) -> BTreeMap<&str, &str> {
    pairs.iter().filter(|(key, _)| !drop(key)).map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// Puts a text at a place, unless something else than an object is on the way.
fn put(object: &mut Map<String, Value>, path: &[&str], text: &str) {
    match path {
        [] => {}
        [last] => drop(object.insert((*last).to_owned(), text.into())),
        [first, rest @ ..] => {
            let inner = object.entry(*first).or_insert_with(|| Value::Object(Map::new()));
            if inner.is_null() {
                *inner = Value::Object(Map::new());
            }
            if let Value::Object(inner) = inner {
                put(inner, rest, text);
            }
        }
    }
}

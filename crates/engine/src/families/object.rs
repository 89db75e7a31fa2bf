//! What is kept of a watched object.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use trellis_model::canonical;
use trellis_runtime::Key;

use super::intern::Shared;

static TEXTS: Shared<str> = Shared::new();
static PAIRS: Shared<BTreeMap<String, String>> = Shared::new();

/// The annotation with a whole copy of the object, which says nothing new.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A watched object of any kind of any family, narrowed to what plans and patches look at: two that are equal need
/// not be looked at twice.
///
/// What a machine is (the spec, without what differs from machine to machine of one set) is shared by all machines
/// that are the same; so are labels and annotations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Which object it is.
    pub metadata: Meta,
    /// What it is to be, as canonical JSON, without the provider id.
    pub spec: Text,
    /// The provider id in the spec.
    pub provider_id: Option<Box<str>>,
    /// What was last said of it, as canonical JSON; it belongs to this object alone.
    pub status: Box<str>,
}

/// Which object it is. Two are equal although one is a later view: nothing that matters has changed.
#[derive(Debug, Clone)]
pub struct Meta {
    /// Namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: Arc<str>,
    /// How new this view of it is.
    pub resource_version: u64,
    /// The generation of its spec.
    pub generation: i64,
    /// When it was made.
    pub created: Timestamp,
    /// When somebody asked for its removal.
    pub deleting: Option<Timestamp>,
    /// Its labels.
    pub labels: Pairs,
    /// Its annotations.
    pub annotations: Pairs,
    /// Who still has to do something before it may go.
    pub finalizers: Box<[Text]>,
    /// The object that controls it.
    pub owner: Option<Owner>,
}

impl PartialEq for Meta {
    fn eq(&self, other: &Self) -> bool {
        let parts = |meta: &Self| (meta.generation, meta.created, meta.deleting);
        self.uid == other.uid
            && self.key == other.key
            && parts(self) == parts(other)
            && self.labels == other.labels
            && self.annotations == other.annotations
            && self.finalizers == other.finalizers
            && self.owner == other.owner
    }
}

impl Eq for Meta {}

impl Meta {
    /// Its name.
    pub fn name(&self) -> &str {
        self.key.name()
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        self.key.namespace()
    }
}

/// The object that controls another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its kind.
    pub kind: Text,
    /// Its name.
    pub name: Text,
    /// Its uid.
    pub uid: Text,
}

/// A text that is kept once however many objects have it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<str>);

impl Text {
    /// The one copy of a text.
    pub fn new(text: String) -> Self {
        Self(TEXTS.keep(text))
    }

    /// Whether two are the same copy; equal ones are, unless one is older than the other's last use.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Text {
    /// A spec may hold what must not be shown: only its length is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "text of {} bytes", self.0.len())
    }
}

/// Labels or annotations, kept once however many objects have the same.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pairs(Arc<BTreeMap<String, String>>);

impl Pairs {
    /// The one copy of some pairs.
    pub fn new(pairs: BTreeMap<String, String>) -> Self {
        Self(PAIRS.keep(pairs))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Whether a switch is on: it is there, and does not say `false`.
    pub fn is_on(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| !value.eq_ignore_ascii_case("false"))
    }
}

impl Deref for Pairs {
    type Target = BTreeMap<String, String>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Object {
    /// Narrows an object as a server hands it out.
    pub fn from_json(object: Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value(object)
    }

    /// The spec as a type of the caller's; nothing where it does not have that form.
    pub fn spec_as<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(&self.spec).ok()
    }

    /// The spec as JSON.
    pub fn spec_json(&self) -> Map<String, Value> {
        serde_json::from_str(&self.spec).unwrap_or_default()
    }

    /// The status as JSON.
    pub fn status_json(&self) -> Map<String, Value> {
        serde_json::from_str(&self.status).unwrap_or_default()
    }

    /// Whether a finalizer is on it.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().any(|text| &**text == finalizer)
    }
}

/// An object in the form of the wire.
#[derive(Deserialize)]
struct Wire {
    metadata: WireMeta,
    #[serde(default)]
    spec: Map<String, Value>,
    #[serde(default)]
    status: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMeta {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    generation: i64,
    #[serde(default)]
    creation_timestamp: Option<String>,
    #[serde(default)]
    deletion_timestamp: Option<String>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    finalizers: Option<Vec<String>>,
    #[serde(default)]
    owner_references: Option<Vec<WireOwner>>,
}

#[derive(Deserialize)]
struct WireOwner {
    kind: String,
    name: String,
    uid: String,
    #[serde(default)]
    controller: bool,
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Wire { metadata, mut spec, status } = Wire::deserialize(deserializer)?;
        let provider_id = match spec.remove("providerID") {
            Some(Value::String(id)) if !id.is_empty() => Some(id.into_boxed_str()),
            _ => None,
        };
        let metadata = Meta::try_from(metadata).map_err(D::Error::custom)?;
        // A Machine of KKP names its Node, which is called like the Machine.
        if let Some(Value::Object(node)) = spec.get_mut("metadata")
            && node.get("name").and_then(Value::as_str) == Some(metadata.name())
        {
            node.remove("name");
        }
        Ok(Self {
            metadata,
            spec: Text::new(canonical::text(&spec)),
            provider_id,
            status: canonical::text(&status.unwrap_or_default()).into_boxed_str(),
        })
    }
}

impl TryFrom<WireMeta> for Meta {
    type Error = jiff::Error;

    fn try_from(wire: WireMeta) -> Result<Self, jiff::Error> {
        let owners = wire.owner_references.unwrap_or_default();
        let owner = owners.into_iter().find(|owner| owner.controller);
        let mut annotations = wire.annotations.unwrap_or_default();
        annotations.remove(LAST_APPLIED);
        let created = wire.creation_timestamp.map(|text| text.parse()).transpose()?;
        Ok(Self {
            key: Key::new(&wire.namespace, &wire.name),
            uid: wire.uid.into(),
            resource_version: wire.resource_version.parse().unwrap_or_default(),
            generation: wire.generation,
            created: created.unwrap_or(Timestamp::UNIX_EPOCH),
            deleting: wire.deletion_timestamp.map(|text| text.parse()).transpose()?,
            labels: Pairs::new(wire.labels.unwrap_or_default()),
            annotations: Pairs::new(annotations),
            finalizers: wire.finalizers.unwrap_or_default().into_iter().map(Text::new).collect(),
            owner: owner.map(|owner| Owner {
                kind: Text::new(owner.kind),
                name: Text::new(owner.name),
                uid: Text::new(owner.uid),
            }),
        })
    }
}

/// An old revision of a MachinePool: an `apps/v1` ControllerRevision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryObject {
    /// Which object it is.
    pub metadata: Meta,
    /// Its place in the history: higher is newer.
    pub number: i64,
    /// The cluster and the pool as they were, as canonical JSON.
    pub data: Text,
}

impl<'de> Deserialize<'de> for HistoryObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: WireMeta,
            #[serde(default)]
            revision: i64,
            #[serde(default)]
            data: Value,
        }
        let Wire { metadata, revision, data } = Wire::deserialize(deserializer)?;
        Ok(Self {
            metadata: Meta::try_from(metadata).map_err(D::Error::custom)?,
            number: revision,
            data: Text::new(canonical::text(&data)),
        })
    }
}

trellis_runtime::narrow!(Object);
trellis_runtime::narrow!(HistoryObject);

//! What the server serves: built-in resources, and custom ones as their definitions come and go.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;

use crate::crd::{Conversion, CustomKind, CustomVersion};
use crate::kinds;
use crate::merge;
use crate::names::{GroupResource, Gvk};
use crate::schema::TypeRef;
use crate::schema::builtin::{self, BuiltinResource};
use crate::status::Status;
use crate::store::{Query, Record, Store};

/// A resource in one of the versions it is served in.
#[derive(Debug)]
pub(crate) struct Served {
    /// The kind of its objects in this version.
    pub(crate) kind: Gvk,
    /// The resource.
    pub(crate) resource: GroupResource,
    /// Where its objects are stored: a resource may be another view of one that is.
    pub(crate) stored_as: GroupResource,
    /// The kind its objects are stored as.
    pub(crate) storage_kind: Gvk,
    /// The kind of lists.
    pub(crate) list_kind: String,
    pub(crate) namespaced: bool,
    /// True while the definition of the kind is being deleted.
    pub(crate) terminating: bool,
    /// True when this version looks just like the stored one.
    looks_as_stored: bool,
    /// When the schema became what it is: objects say which one shaped them.
    pub(crate) since: u64,
    pub(crate) source: Source,
}

/// Where the knowledge about a resource comes from.
#[derive(Debug)]
pub(crate) enum Source {
    Builtin(&'static BuiltinResource),
    /// A custom kind, and which of its versions.
    Custom(Arc<CustomKind>, usize),
}

/// How the selectable fields of a custom resource are found in what is stored.
#[derive(Debug, Clone)]
pub(crate) struct CustomFields {
    kind: Arc<CustomKind>,
    /// The version whose form and defaults stored objects get; none where a webhook would have to be asked, and they
    /// keep those of the version they are stored in.
    place: Option<usize>,
    /// True when what was noted as an object was written is what this version shows.
    indexed: bool,
    /// What was shaped then or later knows the present definition.
    since: u64,
}

impl CustomFields {
    /// The fields of an object that the definition says more about than was noted as it was written: it was read
    /// from disk before any definition was, or it is older than what its definition says now.
    pub(crate) fn read_anew(&self, record: &Record) -> Option<Vec<(String, String)>> {
        let noted = |name: &str| record.index.fields.iter().any(|(known, _)| known == name);
        let selectable = || self.kind.versions.iter().flat_map(|version| &version.selectable);
        if self.indexed
            && record.index.shaped_at >= Some(self.since)
            && selectable().all(|field| noted(&field.name))
        {
            return None;
        }
        let mut object = record.parse();
        let version = match self.place {
            Some(place) => self.kind.versions.get(place)?,
            None => self.kind.version(object["apiVersion"].as_str()?.rsplit_once('/')?.1)?,
        };
        object["apiVersion"] = format!("{}/{}", self.kind.group, version.name).into();
        version.shape_stored(&mut object);
        Some(selectable().map(|field| (field.name.clone(), field.value(&object))).collect())
    }
}

/// The fields of an object of a built-in kind that a field selector can ask for besides name and namespace.
pub(crate) fn builtin_fields(kind: &Gvk, object: &Value) -> Vec<(String, String)> {
    kinds::selectable_fields(kind, object)
        .into_iter()
        .filter(|(field, _)| !field.starts_with("metadata."))
        .map(|(field, value)| (field.to_owned(), value))
        .collect()
}

/// The resources of a server.
#[derive(Debug)]
pub(crate) struct Registry {
    store: Arc<Store>,
    builtin: HashMap<String, Arc<Served>>,
    builtin_alike: Alike,
    custom: RwLock<Custom>,
}

/// Resources by what they are stored as: the same objects under several names.
type Alike = HashMap<GroupResource, Vec<Arc<Served>>>;

/// The custom resources as of some version of their definitions.
#[derive(Debug, Default)]
struct Custom {
    revision: u64,
    kinds: HashMap<String, Compiled>,
    served: HashMap<String, Arc<Served>>,
    alike: Alike,
}

/// A definition that was compiled.
#[derive(Debug)]
struct Compiled {
    uid: String,
    terminating: bool,
    generation: u64,
    /// The version of the store when it was.
    since: u64,
    kind: Arc<CustomKind>,
}

/// The resource of definitions.
pub(crate) fn definitions() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

fn path(group: &str, version: &str, resource: &str) -> String {
    [group, version, resource].join("/")
}

/// Orders resources by what they are stored as.
fn alike(served: &HashMap<String, Arc<Served>>) -> Alike {
    let mut alike = Alike::new();
    for one in served.values() {
        alike.entry(one.stored_as.clone()).or_default().push(Arc::clone(one));
    }
    alike
}

impl Registry {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        let builtin: HashMap<String, Arc<Served>> = builtin::resources()
            .iter()
            .map(|resource| {
                (path(resource.group, resource.version, resource.plural), Arc::new(Served::builtin(resource)))
            })
            .collect();
        let builtin_alike = alike(&builtin);
        Self { store, builtin, builtin_alike, custom: RwLock::default() }
    }

    /// The resource of a path, if it is served.
    pub(crate) fn find(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Served>> {
        let path = path(group, version, resource);
        if let Some(served) = self.builtin.get(&path) {
            return Some(Arc::clone(served));
        }
        self.refreshed(|custom| custom.served.get(&path).cloned())
    }

    /// The resource a kind belongs to, if it is served.
    pub(crate) fn by_kind(&self, kind: &Gvk) -> Option<Arc<Served>> {
        let same = |served: &&Arc<Served>| served.kind == *kind;
        self.builtin
            .values()
            .find(same)
            .cloned()
            .or_else(|| self.refreshed(|custom| custom.served.values().find(same).cloned()))
    }

    /// The resource under which objects are stored, in its storage version.
    pub(crate) fn stored(&self, of: &GroupResource) -> Option<Arc<Served>> {
        let same = |served: &&Arc<Served>| {
            served.stored_as == *of && served.resource == *of && served.kind == served.storage_kind
        };
        self.builtin
            .values()
            .find(same)
            .cloned()
            .or_else(|| self.refreshed(|custom| custom.served.values().find(same).cloned()))
    }

    /// Every resource that shows the objects of this one, itself included.
    pub(crate) fn alike(&self, served: &Served) -> Vec<Arc<Served>> {
        if let Some(found) = self.builtin_alike.get(&served.stored_as) {
            return found.clone();
        }
        self.refreshed(|custom| custom.alike.get(&served.stored_as).cloned().unwrap_or_default())
    }

    /// Every resource that is served, custom ones included.
    pub(crate) fn all(&self) -> Vec<Arc<Served>> {
        let mut all: Vec<_> = self.builtin.values().cloned().collect();
        self.refreshed(|custom| all.extend(custom.served.values().cloned()));
        all
    }

    /// Looks at the custom resources, after reading the definitions that changed.
    fn refreshed<T>(&self, look: impl FnOnce(&Custom) -> T) -> T {
        let of = definitions();
        let revision = self.store.revision(&of);
        {
            let custom = self.custom.read();
            if custom.revision == revision {
                return look(&custom);
            }
        }
        let mut custom = self.custom.write();
        // Somebody else may have read newer ones meanwhile.
        let revision = self.store.revision(&of);
        if custom.revision != revision {
            let listing = self.store.list(&of, &Query::default(), |_, _| true);
            custom.rebuild(revision, &listing.records);
        }
        look(&custom)
    }
}

impl Custom {
    fn rebuild(&mut self, revision: u64, definitions: &[Arc<Record>]) {
        let mut kinds = HashMap::new();
        for record in definitions {
            let definition = record.parse();
            if !established(&definition) {
                continue;
            }
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (name, uid) = (text(&definition["metadata"]["name"]), text(&definition["metadata"]["uid"]));
            let generation = definition["metadata"]["generation"].as_u64().unwrap_or_default();
            // Compiling is the expensive part, and most changes are to the status.
            let kept =
                self.kinds.remove(&name).filter(|kept| kept.uid == uid && kept.generation == generation);
            let terminating = record.index.deleting;
            let kept = kept.map(|kept| Compiled { terminating, ..kept });
            let compiled = kept.or_else(|| match CustomKind::compile(&definition) {
                Ok(kind) => {
                    Some(Compiled { uid, terminating, generation, since: revision, kind: Arc::new(kind) })
                }
                Err(status) => {
                    tracing::warn!(name, error = status.message, "a stored definition does not compile");
                    None
                }
            });
            if let Some(compiled) = compiled {
                kinds.insert(name, compiled);
            }
        }
        self.served = kinds
            .values()
            .flat_map(Served::custom)
            .map(|served| {
                let path = path(&served.kind.group, &served.kind.version, &served.resource.resource);
                (path, Arc::new(served))
            })
            .collect();
        self.alike = alike(&self.served);
        self.kinds = kinds;
        self.revision = revision;
    }
}

/// True once the definition's names were accepted and it may be served.
pub(crate) fn established(definition: &Value) -> bool {
    definition["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

impl Served {
    fn builtin(resource: &'static BuiltinResource) -> Self {
        let kind = Gvk::new(resource.group, resource.version, resource.kind);
        let own = GroupResource::new(resource.group, resource.plural);
        // Events are one store under two groups; all else is stored under its own name.
        let storage_kind = kinds::storage_kind(&kind);
        let stored_as = GroupResource::new(&storage_kind.group, resource.plural);
        Self {
            storage_kind,
            list_kind: format!("{}List", resource.kind),
            kind,
            resource: own,
            stored_as,
            namespaced: resource.namespaced,
            terminating: false,
            looks_as_stored: false,
            since: 0,
            source: Source::Builtin(resource),
        }
    }

    /// The versions a custom kind is served in.
    fn custom(compiled: &Compiled) -> Vec<Self> {
        let kind = &compiled.kind;
        let resource = GroupResource::new(&kind.group, &kind.names.plural);
        let stored = kind.storage_version();
        let storage = stored.map(|version| version.name.clone()).unwrap_or_default();
        let served = kind.versions.iter().enumerate().filter(|(_, version)| version.served);
        served
            .map(|(place, version)| Self {
                kind: Gvk::new(&kind.group, &version.name, &kind.names.kind),
                resource: resource.clone(),
                stored_as: resource.clone(),
                storage_kind: Gvk::new(&kind.group, &storage, &kind.names.kind),
                list_kind: kind.names.list_kind.clone(),
                namespaced: kind.namespaced,
                terminating: compiled.terminating,
                looks_as_stored: stored.is_some_and(|stored| stored.raw_schema == version.raw_schema),
                since: compiled.since,
                source: Source::Custom(Arc::clone(kind), place),
            })
            .collect()
    }

    /// The version of the custom kind, where it is one.
    pub(crate) fn custom_version(&self) -> Option<&CustomVersion> {
        match &self.source {
            Source::Builtin(_) => None,
            Source::Custom(kind, place) => kind.versions.get(*place),
        }
    }

    /// The fields a field selector can ask for besides name and namespace, as an object has them.
    pub(crate) fn selectable_fields(&self, object: &Value) -> Vec<(String, String)> {
        match &self.source {
            Source::Builtin(_) => builtin_fields(&self.storage_kind, object),
            Source::Custom(kind, _) => {
                // A version may know fields that the one it is written in does not.
                let mut fields: Vec<(String, String)> = Vec::new();
                for field in kind.versions.iter().flat_map(|version| &version.selectable) {
                    if fields.iter().all(|(known, _)| *known != field.name) {
                        fields.push((field.name.clone(), field.value(object)));
                    }
                }
                fields
            }
        }
    }

    /// How these fields are found in what is stored, for custom resources.
    pub(crate) fn custom_fields(&self) -> Option<CustomFields> {
        let Source::Custom(kind, place) = &self.source else { return None };
        let untouched = kind.conversion == Conversion::None;
        Some(CustomFields {
            kind: Arc::clone(kind),
            place: untouched.then_some(*place),
            indexed: self.kind == self.storage_kind || self.looks_as_stored || !untouched,
            since: self.since,
        })
    }

    /// The shape of its objects for merging.
    pub(crate) fn shape(&self) -> Option<TypeRef<'_>> {
        self.shape_in(&self.kind.api_version())
    }

    /// The shape of its objects in a version such as `apps/v1`.
    pub(crate) fn shape_in(&self, api_version: &str) -> Option<TypeRef<'_>> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        match &self.source {
            Source::Builtin(_) => builtin::kind_of(&Gvk::new(group, version, &self.kind.kind)),
            Source::Custom(kind, _) if kind.group == group => {
                kind.version(version).map(|version| version.types.root())
            }
            Source::Custom(..) => None,
        }
    }
}

/// What the pipeline asks about a resource.
impl Served {
    /// True when the resource does this.
    pub(crate) fn allows(&self, verb: &str) -> bool {
        match &self.source {
            Source::Builtin(resource) => resource.verbs.contains(&verb),
            Source::Custom(..) => true,
        }
    }

    /// Where the number of replicas is in each version, for the managed fields of `scale`.
    pub(crate) fn replicas_paths(&self) -> Vec<merge::ReplicasPath> {
        match &self.source {
            Source::Builtin(_) => vec![merge::ReplicasPath {
                api_version: self.kind.api_version(),
                path: Some(vec!["spec".to_owned(), "replicas".to_owned()]),
            }],
            Source::Custom(kind, _) => {
                kind.versions
                    .iter()
                    .map(|version| merge::ReplicasPath {
                        api_version: format!("{}/{}", kind.group, version.name),
                        path: version.scale.as_ref().map(|scale| {
                            scale.spec_replicas_fields().into_iter().map(str::to_owned).collect()
                        }),
                    })
                    .collect()
            }
        }
    }

    /// The name a field of a selector goes by; or why it cannot be selected by.
    pub(crate) fn selector_field(&self, field: &str) -> Result<String, Status> {
        match self.custom_version() {
            None => {
                let known = kinds::check_field_label(&self.kind, field)?;
                // One store has the events of two groups, under the names of the older one.
                Ok(match known.split_once('.') {
                    Some(("regarding", field)) => format!("involvedObject.{field}"),
                    None if known == "reportingController" => "reportingComponent".to_owned(),
                    _ => known.to_owned(),
                })
            }
            Some(_) if matches!(field, "metadata.name" | "metadata.namespace") => Ok(field.to_owned()),
            Some(version) if version.selectable.iter().any(|known| known.name == field) => {
                Ok(field.to_owned())
            }
            Some(_) => Err(Status::bad_request(format!("field label not supported: {field}"))),
        }
    }

    /// True for the definitions of custom resources.
    pub(crate) fn is_definition(&self) -> bool {
        self.stored_as == definitions()
    }

    pub(crate) fn is_namespace(&self) -> bool {
        self.resource.group.is_empty() && self.resource.resource == "namespaces"
    }

    /// True for the resource whose objects bind pods and are never stored.
    pub(crate) fn is_binding(&self) -> bool {
        self.resource.group.is_empty() && self.resource.resource == "bindings"
    }

    pub(crate) fn is_pod(&self) -> bool {
        self.resource.group.is_empty() && self.resource.resource == "pods"
    }

    /// True when an update has to say which version it is based on.
    pub(crate) fn needs_version_on_update(&self) -> bool {
        match &self.source {
            Source::Builtin(_) => kinds::facts(&self.kind).is_none_or(|facts| !facts.unconditional_update),
            Source::Custom(..) => true,
        }
    }

    /// True when an update of an object that is not there creates it.
    pub(crate) fn creates_on_update(&self) -> bool {
        kinds::facts(&self.kind).is_some_and(|facts| facts.create_on_update)
    }

    /// True when a deletion answers with the object rather than with a status.
    pub(crate) fn returns_deleted(&self) -> bool {
        const RETURNED: &[&str] = &[
            "resourceclaimtemplates",
            "resourceslices",
            "resourceclaims",
            "deviceclasses",
            "devicetaintrules",
            "csidrivers",
            "storageclasses",
            "volumeattachments",
            "csinodes",
            "volumeattributesclasses",
            "resourcequotas",
            "persistentvolumes",
            "serviceaccounts",
            "persistentvolumeclaims",
            "namespaces",
            "pods",
            "services",
            "podtemplates",
        ];
        matches!(self.source, Source::Builtin(_)) && RETURNED.contains(&self.resource.resource.as_str())
    }

    /// True when a deletion that says nothing lets dependents go rather than delete them.
    pub(crate) fn orphans_by_default(&self) -> bool {
        matches!(
            (self.resource.group.as_str(), self.resource.resource.as_str()),
            ("", "replicationcontrollers") | ("batch", "jobs")
        )
    }

    /// False for the one resource whose objects own nothing.
    pub(crate) fn collects_garbage(&self) -> bool {
        self.resource.resource != "events"
    }

    /// What can be done with a subresource; none when there is no such thing.
    pub(crate) fn subresource_verbs(&self, name: &str) -> Option<Vec<&'static str>> {
        match &self.source {
            Source::Builtin(resource) => {
                let found = resource.subresources.iter().find(|subresource| subresource.name == name)?;
                Some(found.verbs.clone())
            }
            Source::Custom(..) => {
                let version = self.custom_version()?;
                let there = match name {
                    "status" => version.status,
                    "scale" => version.scale.is_some(),
                    _ => false,
                };
                there.then(|| vec!["get", "update", "patch"])
            }
        }
    }

    /// What a write through the object or one of its subresources cannot change.
    pub(crate) fn reset(&self, subresource: &str) -> merge::Reset {
        match &self.source {
            Source::Builtin(resource) => merge::Reset::builtin(resource, subresource),
            Source::Custom(..) => {
                let has_status = self.custom_version().is_some_and(|version| version.status);
                merge::Reset::custom(has_status, subresource)
            }
        }
    }

    /// True when objects may gain defaults on reading.
    fn defaults_on_read(&self) -> bool {
        self.custom_version().is_some()
    }

    /// True when an object is as this schema, or one after it, makes it. That it is newer says nothing: its writer may
    /// have begun before the schema changed, and waited for a webhook since.
    fn has_shaped(&self, record: &Record) -> bool {
        record.index.shaped_at >= Some(self.since) && !record.index.gaps
    }

    /// True when the stored bytes are the object in this version.
    pub(crate) fn shows_as_stored(&self, record: &Record) -> bool {
        self.kind == self.storage_kind && (!self.defaults_on_read() || self.has_shaped(record))
    }

    /// True when only `apiVersion` tells this version from the stored one.
    pub(crate) fn differs_in_version_only(&self, record: &Record) -> bool {
        match &self.source {
            Source::Builtin(_) => false,
            Source::Custom(kind, _) => {
                kind.conversion == Conversion::None && self.looks_as_stored && self.has_shaped(record)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::Server;
    use crate::store::{Draft, Expect, Key, Retention};

    fn definition(generation: u64, field: &Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com", "uid": "u", "generation": generation},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "conversion": {"strategy": "None"},
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": field}}}}],
            },
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        })
    }

    #[test]
    fn objects_of_writers_that_began_before_the_schema_changed_are_shaped_on_reading() {
        let store = Arc::new(Store::in_memory(crate::clock::system(), Retention::default()));
        let registry = Registry::new(Arc::clone(&store));
        let defined = |expect, object: Value| {
            let draft = Draft::new(&object, Vec::new(), 0);
            store.put(&definitions(), &Key::new("", "widgets.example.com"), expect, draft).unwrap().version
        };
        let widget = |served: &Served, name: &str| {
            let object = json!({"apiVersion": "example.com/v1", "kind": "Widget",
                "metadata": {"name": name, "namespace": "default", "uid": name}});
            let draft = Server::draft_of(served, &object).unwrap();
            store.put(&served.stored_as, &Key::new("default", name), Expect::Absent, draft).unwrap()
        };
        let version = defined(Expect::Absent, definition(1, &json!({"type": "string"})));
        let before = registry.find("example.com", "v1", "widgets").unwrap();
        assert!(before.shows_as_stored(&widget(&before, "early")));
        defined(Expect::Version(version), definition(2, &json!({"type": "string", "default": "x"})));
        let after = registry.find("example.com", "v1", "widgets").unwrap();
        // It was let in before the change, and waited for a webhook.
        assert!(!after.shows_as_stored(&widget(&before, "slow")));
        assert!(after.shows_as_stored(&widget(&after, "late")));
    }
}

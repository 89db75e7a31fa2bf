//! What can be asked of the server: one operation for every path and method.

use super::model::{Content, Operation, PathItem, Place};
use crate::discovery::{Entry, ResourceDescriptor, Subresource};

/// The name of the type of failures and of most answers to deletions.
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
const RESOURCE_LIST: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList";

/// The media types objects are answered in.
pub(super) const OBJECT: &[&str] =
    &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// The media types lists and watches are answered in.
const LIST: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
/// The media types of custom resources, as they are told.
pub(super) const CUSTOM: &[&str] = &["application/json", "application/yaml"];
const LOG: &[&str] =
    &["text/plain", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// Anything.
pub(super) const ANY: &[&str] = &["*/*"];
const BUILTIN_PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const CUSTOM_PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

const GET_OPTIONS: &[&str] = &["resourceVersion"];
const CREATE_OPTIONS: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const PATCH_OPTIONS: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
const DELETE_QUERY: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];
const LIST_QUERY: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
const DELETE_COLLECTION_QUERY: &[&str] = &[
    "continue",
    "dryRun",
    "fieldSelector",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "labelSelector",
    "limit",
    "orphanDependents",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
];

/// How the documents name the types of a resource.
pub(super) trait TypeNames {
    /// The name of the type of a kind.
    fn of(&self, group: &str, version: &str, kind: &str) -> String;
}

/// A group in the names of operations: `RbacAuthorization` for `rbac.authorization.k8s.io`.
pub(super) fn group_word(group: &str) -> String {
    if group.is_empty() {
        return "Core".to_owned();
    }
    let short = group.strip_suffix(".k8s.io").unwrap_or(group);
    short.split(|c: char| !c.is_alphanumeric()).map(capital).collect()
}

/// The tag of a group: its word, beginning small.
pub(super) fn group_tag(group: &str) -> String {
    let word = group_word(group);
    let mut letters = word.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// A word with its first letter large.
fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The path of a group and version.
pub(super) fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// A discovery document at a path of its own.
pub(super) fn document(path: &str, id: String, tag: String, answer: Option<&str>) -> PathItem {
    let content = Content { media: OBJECT, schema: answer.map(str::to_owned) };
    PathItem {
        path: path.to_owned(),
        operations: vec![Operation {
            method: "get",
            id,
            action: None,
            kind: None,
            tag,
            parameters: Vec::new(),
            body: None,
            responses: vec![(200, content)],
        }],
    }
}

/// All paths of a group and version, sorted.
pub(super) fn paths(entry: &Entry, names: &dyn TypeNames) -> Vec<PathItem> {
    let mut items = Vec::new();
    if !entry.resources.iter().any(|resource| resource.custom) {
        let id = format!("get{}{}APIResources", group_word(&entry.group), capital(&entry.version));
        let tag = format!("{}_{}", group_tag(&entry.group), entry.version);
        let path = format!("{}/", root(&entry.group, &entry.version));
        items.push(document(&path, id, tag, Some(RESOURCE_LIST)));
    }
    for resource in &entry.resources {
        Writer::new(resource, names).resource(&mut items);
    }
    items.sort_by(|left: &PathItem, right| left.path.cmp(&right.path));
    items
}

/// Writes the operations of one resource.
struct Writer<'a> {
    resource: &'a ResourceDescriptor,
    names: &'a dyn TypeNames,
    /// Group and version in the names of operations, such as `AppsV1`.
    word: String,
    tag: String,
    object: String,
}

impl<'a> Writer<'a> {
    fn new(resource: &'a ResourceDescriptor, names: &'a dyn TypeNames) -> Self {
        Self {
            resource,
            names,
            word: format!("{}{}", group_word(&resource.group), capital(&resource.version)),
            tag: format!("{}_{}", group_tag(&resource.group), resource.version),
            object: names.of(&resource.group, &resource.version, &resource.kind),
        }
    }

    fn resource(&self, items: &mut Vec<PathItem>) {
        let resource = self.resource;
        let root = root(&resource.group, &resource.version);
        let plural = &resource.plural;
        let scope = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
        let base = format!("{root}/{scope}{plural}");
        let kind =
            if resource.namespaced { format!("Namespaced{}", resource.kind) } else { resource.kind.clone() };
        let all = format!("{}ForAllNamespaces", resource.kind);
        let can = |verb: &str| resource.verbs.iter().any(|each| each == verb);

        let mut collection = Vec::new();
        if can("deletecollection") {
            collection.push(self.delete_collection(&base, &kind));
        }
        if can("list") {
            collection.push(self.list(&base, &kind));
            if resource.namespaced {
                let path = format!("{root}/{plural}");
                let operation = self.list(&path, &all);
                push(items, path, vec![operation]);
            }
        }
        if can("create") {
            collection.push(self.create(&base, &kind, (&self.object, self.own_kind())));
        }
        let named = format!("{base}/{{name}}");
        push(items, base, collection);
        let mut single = Vec::new();
        if can("delete") {
            single.push(self.delete(&named, &kind));
        }
        single.extend(self.single(&named, &kind, &resource.verbs, (&self.object, self.own_kind())));
        push(items, named.clone(), single);
        if can("watch") && !resource.custom {
            self.watches(items, &root, scope, &kind);
        }
        for sub in &resource.subresources {
            self.subresource(items, &named, &kind, sub);
        }
    }

    fn subresource(&self, items: &mut Vec<PathItem>, named: &str, kind: &str, sub: &Subresource) {
        let (group, version) = if sub.version.is_empty() {
            (&self.resource.group, &self.resource.version)
        } else {
            (&sub.group, &sub.version)
        };
        let path = format!("{named}/{}", sub.name);
        let kind = format!("{kind}{}", capital(&sub.name));
        let told = [group.clone(), version.clone(), sub.kind.clone()];
        if sub.name == "log" {
            push(items, path.clone(), vec![self.log(&path, &kind, &told)]);
            return;
        }
        if sub.kind.ends_with("Options") {
            push(items, path.clone(), self.connect(&path, &kind, "", sub, &told));
            if sub.name == "proxy" {
                let path = format!("{path}/{{path}}");
                push(items, path.clone(), self.connect(&path, &kind, "WithPath", sub, &told));
            }
            return;
        }
        let object = self.names.of(group, version, &sub.kind);
        // The documents of custom resources tell their own kind for every subresource.
        let told = if self.resource.custom { self.own_kind() } else { told };
        let mut operations = Vec::new();
        if sub.verbs.iter().any(|verb| verb == "create") {
            operations.push(self.create(&path, &kind, (&object, told.clone())));
        }
        operations.extend(self.single(&path, &kind, &sub.verbs, (&object, told)));
        push(items, path, operations);
    }

    /// Reading, replacing and patching a single object.
    fn single(
        &self,
        path: &str,
        kind: &str,
        verbs: &[String],
        object: (&str, [String; 3]),
    ) -> Vec<Operation> {
        let (name, told) = object;
        let can = |verb: &str| verbs.iter().any(|each| each == verb);
        let mut operations = Vec::new();
        if can("get") {
            let options = if self.resource.custom { GET_OPTIONS } else { &[] };
            operations.push(self.operation("get", "read", kind, "get", path, &told).query(options).answers(
                &[200],
                self.object_media(),
                name,
            ));
        }
        if can("patch") {
            let codes: &[u16] = if self.resource.custom { &[200] } else { &[200, 201] };
            let patches = if self.resource.custom { CUSTOM_PATCHES } else { BUILTIN_PATCHES };
            operations.push(
                self.operation("patch", "patch", kind, "patch", path, &told)
                    .query(PATCH_OPTIONS)
                    .takes(true, patches, PATCH)
                    .answers(codes, self.object_media(), name),
            );
        }
        if can("update") {
            operations.push(
                self.operation("put", "replace", kind, "put", path, &told)
                    .query(CREATE_OPTIONS)
                    .takes(true, self.body_media(), name)
                    .answers(&[200, 201], self.object_media(), name),
            );
        }
        operations
    }

    fn create(&self, path: &str, kind: &str, object: (&str, [String; 3])) -> Operation {
        let (name, told) = object;
        self.operation("post", "create", kind, "post", path, &told)
            .query(CREATE_OPTIONS)
            .takes(true, self.body_media(), name)
            .answers(&[200, 201, 202], self.object_media(), name)
    }

    fn list(&self, path: &str, kind: &str) -> Operation {
        let list = format!("{}List", self.resource.kind);
        let name = self.names.of(&self.resource.group, &self.resource.version, &list);
        let media = if self.resource.custom { CUSTOM } else { LIST };
        self.operation("get", "list", kind, "list", path, &self.own_kind()).query(LIST_QUERY).answers(
            &[200],
            media,
            &name,
        )
    }

    fn delete(&self, path: &str, kind: &str) -> Operation {
        let answer = if answers_deleted(&self.object) { self.object.as_str() } else { STATUS };
        self.operation("delete", "delete", kind, "delete", path, &self.own_kind())
            .query(DELETE_QUERY)
            .takes(false, self.body_media(), DELETE_OPTIONS)
            .answers(&[200, 202], self.object_media(), answer)
    }

    fn delete_collection(&self, path: &str, kind: &str) -> Operation {
        let mut operation = self
            .operation(
                "delete",
                "delete",
                &format!("Collection{kind}"),
                "deletecollection",
                path,
                &self.own_kind(),
            )
            .answers(&[200], self.object_media(), STATUS);
        if self.resource.custom {
            operation = operation.query(LIST_QUERY);
        } else {
            operation = operation.query(DELETE_COLLECTION_QUERY).takes(false, ANY, DELETE_OPTIONS);
        }
        operation
    }

    /// The old paths for watching.
    fn watches(&self, items: &mut Vec<PathItem>, root: &str, scope: &str, kind: &str) {
        let plural = &self.resource.plural;
        let watch = |path: String, kind: String, action| {
            let operation = self.operation("get", "watch", &kind, action, &path, &self.own_kind());
            let operation = operation.query(LIST_QUERY).answers(&[200], LIST, WATCH_EVENT);
            PathItem { path, operations: vec![operation] }
        };
        let base = format!("{root}/watch/{scope}{plural}");
        items.push(watch(format!("{base}/{{name}}"), kind.to_owned(), "watch"));
        items.push(watch(base, format!("{kind}List"), "watchlist"));
        if self.resource.namespaced {
            let kind = format!("{}ListForAllNamespaces", self.resource.kind);
            items.push(watch(format!("{root}/watch/{plural}"), kind, "watchlist"));
        }
    }

    /// Streams: `exec`, `proxy` and the like, whose options are parameters.
    fn connect(
        &self,
        path: &str,
        kind: &str,
        suffix: &str,
        sub: &Subresource,
        told: &[String; 3],
    ) -> Vec<Operation> {
        let methods: &[&'static str] = if sub.name == "proxy" {
            &["delete", "get", "head", "options", "patch", "post", "put"]
        } else {
            &["get", "post"]
        };
        let options: &[&'static str] = match sub.name.as_str() {
            "exec" => &["command", "container", "stderr", "stdin", "stdout", "tty"],
            "attach" => &["container", "stderr", "stdin", "stdout", "tty"],
            "portforward" => &["ports"],
            _ => &["path"],
        };
        let text = Content { media: ANY, schema: None };
        methods
            .iter()
            .map(|method| {
                let kind = format!("{}{kind}{suffix}", capital(method));
                let mut operation = self.operation(method, "connect", &kind, "connect", path, told);
                operation.parameters.retain(|(name, _)| *name != "pretty");
                operation = operation.query(options);
                operation.responses = vec![(200, text.clone())];
                operation
            })
            .collect()
    }

    fn log(&self, path: &str, kind: &str, told: &[String; 3]) -> Operation {
        let mut operation = self.operation("get", "read", kind, "get", path, told).query(&[
            "container",
            "follow",
            "insecureSkipTLSVerifyBackend",
            "limitBytes",
            "previous",
            "sinceSeconds",
            "stream",
            "tailLines",
            "timestamps",
        ]);
        operation.responses = vec![(200, Content { media: LOG, schema: None })];
        operation
    }

    /// An operation with the parameters of its path.
    fn operation(
        &self,
        method: &'static str,
        verb: &str,
        kind: &str,
        action: &'static str,
        path: &str,
        told: &[String; 3],
    ) -> Operation {
        let (before, after) = match kind.strip_prefix("Collection") {
            Some(kind) if verb == "delete" => ("Collection", kind),
            _ => ("", kind),
        };
        let mut parameters = vec![("pretty", Place::Query)];
        for name in ["name", "namespace", "path"] {
            if path.contains(&format!("{{{name}}}")) {
                parameters.push((name, Place::Path));
            }
        }
        parameters.sort_unstable();
        Operation {
            method,
            id: format!("{verb}{}{before}{after}", self.word),
            action: Some(action),
            kind: Some(told.clone()),
            tag: self.tag.clone(),
            parameters,
            body: None,
            responses: Vec::new(),
        }
    }

    fn own_kind(&self) -> [String; 3] {
        [self.resource.group.clone(), self.resource.version.clone(), self.resource.kind.clone()]
    }

    fn object_media(&self) -> &'static [&'static str] {
        if self.resource.custom { CUSTOM } else { OBJECT }
    }

    fn body_media(&self) -> &'static [&'static str] {
        if self.resource.custom { CUSTOM } else { ANY }
    }
}

fn push(items: &mut Vec<PathItem>, path: String, operations: Vec<Operation>) {
    if !operations.is_empty() {
        items.push(PathItem { path, operations });
    }
}

/// True for the kinds whose deletion answers with the object rather than with a `Status`.
fn answers_deleted(object: &str) -> bool {
    matches!(
        object.strip_prefix("io.k8s.api."),
        Some(
            "core.v1.PersistentVolume"
                | "core.v1.PersistentVolumeClaim"
                | "core.v1.Pod"
                | "core.v1.PodTemplate"
                | "core.v1.ResourceQuota"
                | "core.v1.Service"
                | "core.v1.ServiceAccount"
                | "resource.v1.DeviceClass"
                | "resource.v1.ResourceClaim"
                | "resource.v1.ResourceClaimTemplate"
                | "resource.v1.ResourceSlice"
                | "storage.v1.CSIDriver"
                | "storage.v1.CSINode"
                | "storage.v1.StorageClass"
                | "storage.v1.VolumeAttachment"
                | "storage.v1.VolumeAttributesClass"
        )
    )
}

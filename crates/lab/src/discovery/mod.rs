//! The documents that tell clients which resources there are.
//!
//! There are two forms of the same: one document per group and version, and the aggregated one with everything
//! in it that newer clients ask for. Both are pure functions of a [`Catalogue`].

mod sources;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256, Sha512};

/// The content type of the aggregated form.
pub(crate) const AGGREGATED_MEDIA_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The priorities the APIService of a custom resource's version has: of the group and of the version.
pub(crate) const CUSTOM_PRIORITY: (i32, i32) = (1000, 100);

/// A resource in a version of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceDescriptor {
    /// The group; empty for the core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name, such as `pods`.
    pub plural: String,
    /// The singular name, such as `pod`.
    pub singular: String,
    /// The kind of its objects.
    pub kind: String,
    /// True when its objects are in namespaces.
    pub namespaced: bool,
    /// What can be done with it, in the order it is told.
    pub verbs: Vec<String>,
    /// Abbreviations, such as `po`.
    pub short_names: Vec<String>,
    /// Groups of resources it belongs to, such as `all`.
    pub categories: Vec<String>,
    /// Its subresources, in the order they are told.
    pub subresources: Vec<Subresource>,
    /// The hash of the version it is stored in, if it is stored: see [`storage_version_hash`].
    pub storage_version_hash: Option<String>,
    /// True for custom resources and what other servers serve: the aggregated form then tells the group and
    /// version of the kind even where they are those of the resource.
    pub custom: bool,
}

/// A subresource, such as `status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subresource {
    /// The name after the slash.
    pub name: String,
    /// The group of the kind; with `version` empty the same as that of the resource.
    pub group: String,
    /// The version of the kind; empty when it is that of the resource.
    pub version: String,
    /// The kind of what is read and written.
    pub kind: String,
    /// What can be done with it.
    pub verbs: Vec<String>,
}

/// What custom resources can be asked for, in the order the real server tells it.
pub(crate) const CUSTOM_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The hash clients compare to see whether the stored form of a resource changed.
pub(crate) fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(&digest[..8])
}

/// SHA-512 in large hexadecimal digits, the form of the fingerprints of documents.
pub(crate) fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut digest = Sha512::new();
    for part in parts {
        digest.update(part);
    }
    let half = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value & 15)]);
    digest.finalize().iter().flat_map(|byte| [half(byte >> 4), half(*byte)]).collect()
}

/// The priorities of a built-in group and version: of the group, and of the version in it.
pub(crate) fn builtin_priority(group: &str, version: &str) -> (i32, i32) {
    let of_group = match group {
        "apiregistration.k8s.io" => 20_000,
        "" => 18_000,
        "apps" => 17_800,
        "events.k8s.io" => 17_750,
        "authentication.k8s.io" => 17_700,
        "authorization.k8s.io" => 17_600,
        "autoscaling" => 17_500,
        "batch" => 17_400,
        "certificates.k8s.io" => 17_300,
        "networking.k8s.io" => 17_200,
        "policy" => 17_100,
        "rbac.authorization.k8s.io" => 17_000,
        "storage.k8s.io" => 16_800,
        "admissionregistration.k8s.io" | "apiextensions.k8s.io" => 16_700,
        "scheduling.k8s.io" => 16_600,
        "coordination.k8s.io" => 16_500,
        "node.k8s.io" => 16_300,
        "discovery.k8s.io" | "resource.k8s.io" => 16_200,
        "flowcontrol.apiserver.k8s.io" => 16_100,
        "storagemigration.k8s.io" => 15_800,
        _ => CUSTOM_PRIORITY.0,
    };
    let of_version = match (group, version) {
        ("", _) => 1,
        ("autoscaling", "v2") => 30,
        ("flowcontrol.apiserver.k8s.io" | "resource.k8s.io", "v1") => 21,
        _ => 15,
    };
    (of_group, of_version)
}

/// A version of a group and what is in it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// The group; empty for the core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The priority of the group, as its APIService has it: groups with more come first.
    pub group_priority: i32,
    /// The priority of the version in the group.
    pub version_priority: i32,
    /// True when another server serves it that does not answer.
    pub stale: bool,
    /// The resources.
    pub resources: Vec<ResourceDescriptor>,
}

/// All resources, in the order clients are told of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Catalogue {
    entries: Vec<Entry>,
}

/// An aggregated document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Aggregated {
    /// The document.
    pub document: Value,
    /// Its fingerprint with quotes, for `ETag` and `If-None-Match`. The answer also has `Vary: Accept` and
    /// `Cache-Control: public`.
    pub etag: String,
}

impl Catalogue {
    /// Puts the entries in order.
    pub(crate) fn new(mut entries: Vec<Entry>) -> Self {
        let mut group_priority: std::collections::HashMap<String, i32> = std::collections::HashMap::new();
        for entry in &entries {
            let highest = group_priority.entry(entry.group.clone()).or_insert(entry.group_priority);
            *highest = (*highest).max(entry.group_priority);
        }
        let of_group = |entry: &Entry| group_priority.get(&entry.group).copied().unwrap_or_default();
        entries.sort_by(|left, right| {
            of_group(right)
                .cmp(&of_group(left))
                .then_with(|| left.group.cmp(&right.group))
                .then_with(|| right.version_priority.cmp(&left.version_priority))
                .then_with(|| compare_versions(&right.version, &left.version))
        });
        Self { entries }
    }

    /// The entry of a group and version.
    pub(crate) fn entry(&self, group: &str, version: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.group == group && entry.version == version)
    }

    /// All entries, those with the highest priority first.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// `/api`: the versions of the core. `address` is where clients outside reach the server.
    pub(crate) fn core_versions(&self, address: &str) -> Value {
        let versions: Vec<&str> = self.of_group("").map(|entry| entry.version.as_str()).collect();
        json!({
            "kind": "APIVersions",
            "versions": versions,
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        })
    }

    /// `/apis`: the groups.
    pub(crate) fn groups(&self) -> Value {
        let groups: Vec<Value> =
            self.by_group().filter(|versions| !versions[0].group.is_empty()).map(group_fields).collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    /// `/apis/{group}`: the versions of a group.
    pub(crate) fn group(&self, name: &str) -> Option<Value> {
        let versions = self.by_group().find(|versions| versions[0].group == name && !name.is_empty())?;
        let mut group = group_fields(versions);
        group["kind"] = "APIGroup".into();
        group["apiVersion"] = "v1".into();
        Some(group)
    }

    /// `/api/{version}` and `/apis/{group}/{version}`: the resources.
    pub(crate) fn resources(&self, group: &str, version: &str) -> Option<Value> {
        let entry = self.entry(group, version)?;
        let resources: Vec<Value> = entry.resources.iter().flat_map(plain_resource).collect();
        let mut list = json!({
            "kind": "APIResourceList",
            "groupVersion": group_version(group, version),
            "resources": resources,
        });
        if !group.is_empty() {
            list["apiVersion"] = "v1".into();
        }
        Some(list)
    }

    /// `/api` in the aggregated form.
    pub(crate) fn aggregated_core(&self) -> Aggregated {
        Self::aggregated(self.by_group().filter(|versions| versions[0].group.is_empty()))
    }

    /// `/apis` in the aggregated form.
    pub(crate) fn aggregated_groups(&self) -> Aggregated {
        Self::aggregated(self.by_group().filter(|versions| !versions[0].group.is_empty()))
    }

    fn aggregated<'a>(groups: impl Iterator<Item = &'a [Entry]>) -> Aggregated {
        let items: Vec<Value> = groups.map(aggregated_group).collect();
        let document = json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
        });
        let mut etag = String::from("\"");
        for byte in Sha512::digest(document.to_string()) {
            etag.extend(
                [byte >> 4, byte & 15].map(|half| char::from(b"0123456789ABCDEF"[usize::from(half)])),
            );
        }
        etag.push('"');
        Aggregated { document, etag }
    }

    fn of_group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.group == group)
    }

    fn by_group(&self) -> impl Iterator<Item = &[Entry]> {
        self.entries.chunk_by(|left, right| left.group == right.group)
    }
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// What `APIGroup` and an item of `APIGroupList` have in common.
fn group_fields(versions: &[Entry]) -> Value {
    let told: Vec<Value> = versions
        .iter()
        .map(|entry| json!({"groupVersion": group_version(&entry.group, &entry.version), "version": entry.version}))
        .collect();
    json!({"name": versions[0].group, "preferredVersion": told[0], "versions": told})
}

/// An `APIResource` for the resource, and one for each subresource.
fn plain_resource(resource: &ResourceDescriptor) -> Vec<Value> {
    let mut first = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verbs,
    });
    add_names(&mut first, resource);
    if let Some(hash) = &resource.storage_version_hash {
        first["storageVersionHash"] = hash.as_str().into();
    }
    let mut told = vec![first];
    for subresource in &resource.subresources {
        let mut entry = json!({
            "name": format!("{}/{}", resource.plural, subresource.name), "singularName": "",
            "namespaced": resource.namespaced, "kind": subresource.kind, "verbs": subresource.verbs,
        });
        if !subresource.version.is_empty() {
            if !subresource.group.is_empty() {
                entry["group"] = subresource.group.as_str().into();
            }
            entry["version"] = subresource.version.as_str().into();
        }
        told.push(entry);
    }
    told
}

fn add_names(into: &mut Value, resource: &ResourceDescriptor) {
    if !resource.short_names.is_empty() {
        into["shortNames"] = resource.short_names.clone().into();
    }
    if !resource.categories.is_empty() {
        into["categories"] = resource.categories.clone().into();
    }
}

fn aggregated_group(versions: &[Entry]) -> Value {
    let mut metadata = Map::new();
    if !versions[0].group.is_empty() {
        metadata.insert("name".to_owned(), versions[0].group.as_str().into());
    }
    let versions: Vec<Value> = versions.iter().map(aggregated_version).collect();
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_version(entry: &Entry) -> Value {
    let mut sorted: Vec<&ResourceDescriptor> = entry.resources.iter().collect();
    sorted.sort_by(|left, right| left.plural.cmp(&right.plural));
    let resources: Vec<Value> = sorted.into_iter().map(aggregated_resource).collect();
    let mut version = json!({
        "version": entry.version, "freshness": if entry.stale { "Stale" } else { "Current" },
    });
    if !resources.is_empty() {
        version["resources"] = resources.into();
    }
    version
}

fn aggregated_resource(resource: &ResourceDescriptor) -> Value {
    let own = |kind: &str| {
        let (group, version) =
            if resource.custom { (resource.group.as_str(), resource.version.as_str()) } else { ("", "") };
        json!({"group": group, "version": version, "kind": kind})
    };
    let mut told = json!({
        "resource": resource.plural, "responseKind": own(&resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": resource.verbs,
    });
    add_names(&mut told, resource);
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|sub| {
            let kind = if sub.version.is_empty() {
                own(&sub.kind)
            } else {
                json!({"group": sub.group, "version": sub.version, "kind": sub.kind})
            };
            json!({"subresource": sub.name, "responseKind": kind, "verbs": sub.verbs})
        })
        .collect();
    if !subresources.is_empty() {
        told["subresources"] = subresources.into();
    }
    told
}

/// Orders versions: `v2` before `v1`, both before betas, these before alphas, all before names of another form,
/// which are in alphabetical order. The higher one is `Greater`.
pub(crate) fn compare_versions(left: &str, right: &str) -> Ordering {
    match (version_parts(left), version_parts(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => right.cmp(left),
    }
}

/// How mature, the major and the minor number.
fn version_parts(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let (major, rest) = number(rest)?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stage, rest) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(rest), _) => (1, rest),
        (_, Some(rest)) => (0, rest),
        _ => return None,
    };
    match number(rest)? {
        (minor, "") => Some((stage, major, minor)),
        _ => None,
    }
}

/// The number a text begins with, and the rest.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let value: i64 = digits.parse().ok()?;
    Some((value.unsigned_abs(), rest))
}

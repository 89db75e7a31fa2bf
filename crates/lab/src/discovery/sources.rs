//! Where descriptions of resources come from: what is built in, definitions, and other servers.

use std::sync::Arc;

use serde_json::Value;

use super::{
    CUSTOM_PRIORITY, CUSTOM_VERBS, Entry, ResourceDescriptor, Subresource, builtin_priority,
    storage_version_hash,
};
use crate::schema::builtin::{self, BuiltinResource};

impl Entry {
    /// The built-in groups and versions.
    pub(crate) fn builtin() -> Vec<Self> {
        let mut entries: Vec<Self> = Vec::new();
        for resource in builtin::resources() {
            let described = ResourceDescriptor::builtin(resource);
            match entries.last_mut() {
                Some(last) if last.group == resource.group && last.version == resource.version => {
                    last.resources.push(described);
                }
                _ => {
                    let (group_priority, version_priority) =
                        builtin_priority(resource.group, resource.version);
                    entries.push(Self {
                        group: resource.group.to_owned(),
                        version: resource.version.to_owned(),
                        group_priority,
                        version_priority,
                        stale: false,
                        resources: vec![described],
                    });
                }
            }
        }
        entries
    }

    /// The groups and versions of custom resources, from all CustomResourceDefinitions: those that are
    /// established, in the versions they are served in.
    pub(crate) fn custom(definitions: &[Arc<Value>]) -> Vec<Self> {
        let mut entries: Vec<Self> = Vec::new();
        for definition in definitions {
            for described in ResourceDescriptor::custom(definition) {
                let same =
                    |entry: &&mut Self| entry.group == described.group && entry.version == described.version;
                if let Some(entry) = entries.iter_mut().find(same) {
                    entry.resources.push(described);
                    continue;
                }
                let (group_priority, version_priority) = CUSTOM_PRIORITY;
                entries.push(Self {
                    group: described.group.clone(),
                    version: described.version.clone(),
                    group_priority,
                    version_priority,
                    stale: false,
                    resources: vec![described],
                });
            }
        }
        entries
    }
}

impl ResourceDescriptor {
    /// What a CustomResourceDefinition makes available: one descriptor for each version that is served, none
    /// before it is established.
    pub(crate) fn custom(definition: &Value) -> Vec<Self> {
        let (spec, names) = (&definition["spec"], &definition["status"]["acceptedNames"]);
        let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
        let is = |condition: &str| {
            let conditions = list(&definition["status"]["conditions"]);
            conditions.iter().any(|each| each["type"] == condition && each["status"] == "True")
        };
        if !is("Established") {
            return Vec::new();
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let texts = |value: &Value| -> Vec<String> { list(value).iter().map(text).collect() };
        let versions = list(&spec["versions"]);
        let (group, kind) = (text(&spec["group"]), text(&names["kind"]));
        let stored = versions.iter().find(|each| each["storage"] == true && each["served"] == true);
        let hash = stored.map(|each| storage_version_hash(&group, &text(&each["name"]), &kind));
        let terminating = is("Terminating");
        let may = |verb: &&str| !terminating || !matches!(*verb, "patch" | "create" | "update");
        let subresource = |name: &str, group: &str, version: &str, kind: &str| Subresource {
            name: name.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            verbs: ["get", "patch", "update"].map(str::to_owned).into(),
        };
        let served = versions.iter().filter(|each| each["served"] == true);
        served
            .map(|version| {
                let mut subresources = Vec::new();
                if !version["subresources"]["status"].is_null() {
                    subresources.push(subresource("status", "", "", &kind));
                }
                if !version["subresources"]["scale"].is_null() {
                    subresources.push(subresource("scale", "autoscaling", "v1", "Scale"));
                }
                Self {
                    group: group.clone(),
                    version: text(&version["name"]),
                    plural: text(&names["plural"]),
                    singular: text(&names["singular"]),
                    kind: kind.clone(),
                    namespaced: spec["scope"] == "Namespaced",
                    verbs: CUSTOM_VERBS
                        .iter()
                        .filter(|verb| may(verb))
                        .map(|&verb| verb.to_owned())
                        .collect(),
                    short_names: texts(&names["shortNames"]),
                    categories: texts(&names["categories"]),
                    subresources,
                    storage_version_hash: hash.clone(),
                    custom: true,
                }
            })
            .collect()
    }

    /// A built-in resource.
    pub(crate) fn builtin(resource: &BuiltinResource) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let subresources = resource
            .subresources
            .iter()
            .map(|sub| {
                let same = sub.group == resource.group && sub.version == resource.version;
                Subresource {
                    name: sub.name.to_owned(),
                    group: if same { String::new() } else { sub.group.to_owned() },
                    version: if same { String::new() } else { sub.version.to_owned() },
                    kind: sub.kind.to_owned(),
                    verbs: owned(&sub.verbs),
                }
            })
            .collect();
        Self {
            group: resource.group.to_owned(),
            version: resource.version.to_owned(),
            plural: resource.plural.to_owned(),
            singular: resource.singular.to_owned(),
            kind: resource.kind.to_owned(),
            namespaced: resource.namespaced,
            verbs: owned(&resource.verbs),
            short_names: owned(&resource.short_names),
            categories: owned(&resource.categories),
            subresources,
            storage_version_hash: resource
                .storage
                .map(|(group, version)| storage_version_hash(group, version, resource.kind)),
            custom: false,
        }
    }

    /// Reads an `APIResourceList`, as another server answers for a group and version it serves.
    pub(crate) fn from_list(group: &str, version: &str, list: &Value) -> Vec<Self> {
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let texts = |value: &Value, key: &str| -> Vec<String> {
            let items = value[key].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut found: Vec<Self> = Vec::new();
        for entry in list["resources"].as_array().into_iter().flatten() {
            let name = text(entry, "name");
            let Some((plural, subresource)) = name.split_once('/') else {
                found.push(Self {
                    group: group.to_owned(),
                    version: version.to_owned(),
                    plural: name,
                    singular: text(entry, "singularName"),
                    kind: text(entry, "kind"),
                    namespaced: entry["namespaced"] == true,
                    verbs: texts(entry, "verbs"),
                    short_names: texts(entry, "shortNames"),
                    categories: texts(entry, "categories"),
                    subresources: Vec::new(),
                    storage_version_hash: entry["storageVersionHash"].as_str().map(str::to_owned),
                    custom: true,
                });
                continue;
            };
            if let Some(parent) = found.iter_mut().rev().find(|resource| resource.plural == plural) {
                parent.subresources.push(Subresource {
                    name: subresource.to_owned(),
                    group: text(entry, "group"),
                    version: text(entry, "version"),
                    kind: text(entry, "kind"),
                    verbs: texts(entry, "verbs"),
                });
            }
        }
        found
    }
}

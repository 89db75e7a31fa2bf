//! The OpenAPI documents: what clients read to explain, validate and patch.
//!
//! Nothing is built before somebody asks for it, and what was built is kept until the definitions it was made
//! of change.

mod builtin;
mod custom;
mod gnostic;
mod model;
mod operations;
mod schemas;
#[cfg(test)]
mod tests;
mod v2;
mod v3;
mod words;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha512};

use self::builtin::{BuiltinNames, Everywhere};
pub(crate) use self::gnostic::MEDIA_TYPE as V2_PROTOBUF_MEDIA_TYPE;
use self::model::PathItem;
use self::schemas::Form;
use crate::discovery::{Entry, fingerprint};

/// A document and its fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document {
    /// The text.
    pub body: Bytes,
    /// The fingerprint: the `hash` of its address, and with quotes its `ETag`.
    pub hash: String,
}

/// The documents of a server.
#[derive(Debug, Default)]
pub(crate) struct OpenApi {
    built: Mutex<HashMap<String, Document>>,
}

impl OpenApi {
    /// `/openapi/v3`: where the documents are. `definitions` are all CustomResourceDefinitions; `others` are
    /// documents of other servers, by name and address.
    pub(crate) fn index(definitions: &[Arc<Value>], others: &[(String, String)]) -> Value {
        let mut names: BTreeSet<String> =
            ["api", "apis", "version", ".well-known/openid-configuration", "openid/v1/jwks"]
                .map(str::to_owned)
                .into();
        for entry in builtin::ENTRIES.iter() {
            if !entry.group.is_empty() {
                names.insert(format!("apis/{}", entry.group));
            }
            names.insert(document_name(&entry.group, &entry.version));
        }
        for definition in definitions {
            let group = definition["spec"]["group"].as_str().unwrap_or_default();
            names.extend(
                custom::served_versions(definition).into_iter().map(|each| document_name(group, each)),
            );
        }
        let mut paths: Map<String, Value> = names
            .into_iter()
            .map(|name| {
                let url = format!("/openapi/v3/{name}?hash={}", hash_of(&name, definitions));
                (name, json!({"serverRelativeURL": url}))
            })
            .collect();
        for (name, url) in others {
            paths.insert(name.clone(), json!({"serverRelativeURL": url}));
        }
        json!({"paths": paths})
    }

    /// `/openapi/v3/{name}`: the document of a group and version, such as `apis/apps/v1`.
    pub(crate) fn v3(&self, name: &str, definitions: &[Arc<Value>]) -> Option<Document> {
        let hash = hash_of(name, definitions);
        let key = format!("v3/{name}");
        if let Some(known) = self.built.lock().get(&key).filter(|known| known.hash == hash) {
            return Some(known.clone());
        }
        let document = Document { body: build_v3(name, definitions)?.to_string().into(), hash };
        self.built.lock().insert(key, document.clone());
        Some(document)
    }

    /// `/openapi/v2`: everything in one document.
    pub(crate) fn v2(&self, definitions: &[Arc<Value>]) -> Document {
        self.whole("v2", definitions, |document| document.to_string().into())
    }

    /// `/openapi/v2` in protobuf, which has the same fingerprint.
    pub(crate) fn v2_protobuf(&self, definitions: &[Arc<Value>]) -> Document {
        self.whole("v2.pb", definitions, |document| gnostic::encode(document).into())
    }

    fn whole(&self, key: &str, definitions: &[Arc<Value>], write: impl FnOnce(&Value) -> Bytes) -> Document {
        let hash = hash_of("v2", definitions);
        if let Some(known) = self.built.lock().get(key).filter(|known| known.hash == hash) {
            return known.clone();
        }
        let document = Document { body: write(&v2::document(definitions)), hash };
        self.built.lock().insert(key.to_owned(), document.clone());
        document
    }
}

/// The name of the document of a group and version.
fn document_name(group: &str, version: &str) -> String {
    operations::root(group, version)[1..].to_owned()
}

/// The fingerprint of a document, without building it: it is made of the program and of the definitions in it.
fn hash_of(name: &str, definitions: &[Arc<Value>]) -> String {
    let mut digest = Sha512::new();
    digest.update(env!("CARGO_PKG_VERSION"));
    digest.update(name);
    for definition in definitions {
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        let served = custom::served_versions(definition);
        if name == "v2" || served.iter().any(|version| document_name(group, version) == name) {
            digest.update(definition["spec"].to_string());
            digest.update(served.join(" "));
        }
    }
    fingerprint([digest.finalize().as_slice()])
}

fn build_v3(name: &str, definitions: &[Arc<Value>]) -> Option<Value> {
    let info = json!({"title": "Kubernetes", "version": "1.37"});
    let single = |item: PathItem| {
        let mut schemas = Map::new();
        builtin::add_schemas(wanted(&[&item]), Form::V3, Everywhere::All, &mut schemas);
        v3::document(&info, &[item], schemas, true)
    };
    if let Some(item) = v2::standalone().into_iter().find(|item| item.path.trim_matches('/') == name) {
        return Some(single(item));
    }
    let mut parts = name.split('/');
    let (group, version) = match (parts.next()?, parts.next(), parts.next(), parts.next()) {
        ("api", Some(version), None, None) => ("", version),
        ("apis", Some(group), None, None) => {
            builtin::ENTRIES.iter().find(|entry| entry.group == group && !group.is_empty())?;
            return Some(single(v2::group_item(group)));
        }
        ("apis", Some(group), Some(version), None) => (group, version),
        _ => return None,
    };
    let mut schemas = Map::new();
    if let Some(entry) = builtin::ENTRIES.iter().find(|each| each.group == group && each.version == version) {
        let paths = operations::paths(entry, &BuiltinNames);
        let all: Vec<&PathItem> = paths.iter().collect();
        builtin::add_schemas(wanted(&all), Form::V3, Everywhere::One(group, version), &mut schemas);
        return Some(v3::document(&info, &paths, schemas, true));
    }
    let entry = Entry::custom(definitions)
        .into_iter()
        .find(|entry| entry.group == group && entry.version == version)?;
    let within = || definitions.iter().map(Arc::as_ref).filter(|each| each["spec"]["group"] == group);
    let paths = operations::paths(&entry, &custom::CustomNames::new(within()));
    for definition in within().filter(|each| custom::served_versions(each).contains(&version)) {
        custom::add_schemas(definition, version, Form::V3, &mut schemas);
    }
    let mut names = wanted(&paths.iter().collect::<Vec<_>>());
    names.extend(
        ["ObjectMeta", "ListMeta"].map(|kind| format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}")),
    );
    builtin::add_schemas(names, Form::V3, Everywhere::All, &mut schemas);
    let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
    Some(v3::document(&info, &paths, schemas, false))
}

/// The names of the types that operations refer to.
fn wanted(items: &[&PathItem]) -> BTreeSet<String> {
    let operations = items.iter().flat_map(|item| &item.operations);
    operations
        .flat_map(|operation| {
            let body = operation.body.as_ref().map(|body| &body.content);
            body.into_iter().chain(operation.responses.iter().map(|(_, content)| content))
        })
        .filter_map(|content| content.schema.clone())
        .collect()
}

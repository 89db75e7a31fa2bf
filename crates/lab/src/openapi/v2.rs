//! The document of Swagger 2.0, with everything in it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::builtin::{self, BuiltinNames, Everywhere};
use super::custom;
use super::model::{Content, Operation, PathItem, Place, parameter_type};
use super::operations::{self, ANY};
use super::schemas::Form;
use super::v3::{add_kubernetes, code_word, shared_parameters};
use crate::discovery::Entry;

/// Documents that are at a path of their own: the lists of groups and versions, and what the server tells of
/// itself.
pub(super) fn standalone() -> Vec<PathItem> {
    let meta = |kind: &str| format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}");
    let item =
        |path: &str, id: &str, tag: &str, answer: Option<&str>, media: Option<&'static [&'static str]>| {
            let mut item = operations::document(path, id.to_owned(), tag.to_owned(), answer);
            if let Some(media) = media {
                for operation in &mut item.operations {
                    operation.responses.iter_mut().for_each(|(_, content)| content.media = media);
                }
            }
            item
        };
    let json = Some(&["application/json"][..]);
    vec![
        item("/api/", "getCoreAPIVersions", "core", Some(&meta("APIVersions")), None),
        item("/apis/", "getAPIVersions", "apis", Some(&meta("APIGroupList")), None),
        item("/version/", "getCodeVersion", "version", Some("io.k8s.apimachinery.pkg.version.Info"), json),
        item(
            "/.well-known/openid-configuration/",
            "getServiceAccountIssuerOpenIDConfiguration",
            "WellKnown",
            None,
            json,
        ),
        item(
            "/openid/v1/jwks/",
            "getServiceAccountIssuerOpenIDKeyset",
            "openid",
            None,
            Some(&["application/jwk-set+json"][..]),
        ),
    ]
}

/// The document of a group without its versions.
pub(super) fn group_item(group: &str) -> PathItem {
    let id = format!("get{}APIGroup", operations::group_word(group));
    let answer = Some("io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup");
    operations::document(&format!("/apis/{group}/"), id, operations::group_tag(group), answer)
}

/// The whole document.
pub(super) fn document(definitions: &[Arc<Value>]) -> Value {
    let mut items = standalone();
    let mut schemas = Map::new();
    let mut groups: Vec<&str> = builtin::ENTRIES.iter().map(|entry| entry.group.as_str()).collect();
    groups.dedup();
    items.extend(groups.into_iter().filter(|group| !group.is_empty()).map(group_item));
    for entry in builtin::ENTRIES.iter() {
        items.extend(operations::paths(entry, &BuiltinNames));
    }
    let names = custom::CustomNames::new(definitions.iter().map(Arc::as_ref));
    for entry in Entry::custom(definitions) {
        items.extend(operations::paths(&entry, &names));
    }
    for definition in definitions {
        for version in custom::served_versions(definition) {
            custom::add_schemas(definition, version, Form::V2, &mut schemas);
        }
    }
    let mut wanted = super::wanted(&items.iter().collect::<Vec<_>>());
    wanted.extend(
        ["ObjectMeta", "ListMeta"].map(|kind| format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}")),
    );
    builtin::add_schemas(wanted, Form::V2, Everywhere::All, &mut schemas);
    let paths: Map<String, Value> = items.iter().map(|item| (item.path.clone(), path_item(item))).collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "1.37"},
        "paths": paths,
        "definitions": schemas,
        "securityDefinitions": {
            "BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"},
        },
        "security": [{"BearerToken": []}],
    })
}

fn path_item(item: &PathItem) -> Value {
    let shared = shared_parameters(&item.operations);
    let mut told = Map::new();
    for operation in &item.operations {
        told.insert(operation.method.to_owned(), operation_value(operation, &shared));
    }
    if !shared.is_empty() {
        told.insert("parameters".to_owned(), shared.iter().map(parameter).collect());
    }
    told.into()
}

fn parameter(&(name, place): &(&'static str, Place)) -> Value {
    let mut told = json!({"name": name, "type": parameter_type(name), "uniqueItems": true});
    match place {
        Place::Path => {
            told["in"] = "path".into();
            told["required"] = true.into();
        }
        Place::Query => told["in"] = "query".into(),
    }
    told
}

fn operation_value(operation: &Operation, shared: &[(&'static str, Place)]) -> Value {
    let mut told = json!({
        "operationId": operation.id, "tags": [operation.tag], "schemes": ["https"],
    });
    let produced = operation.responses.first().map_or(&[][..], |(_, content)| content.media);
    told["produces"] = produced.into();
    let consumed = match &operation.body {
        Some(body) => body.content.media,
        // Documents, and custom resources, tell what they answer in for what they take.
        None if operation.action.is_none() || produced == operations::CUSTOM => produced,
        None => ANY,
    };
    if consumed.len() > 1 || consumed == ANY {
        told["consumes"] = consumed.into();
    }
    let mut own: Vec<Value> =
        operation.parameters.iter().filter(|parameter| !shared.contains(parameter)).map(parameter).collect();
    if let Some(body) = &operation.body {
        let mut parameter = json!({"name": "body", "in": "body", "schema": schema(&body.content)});
        if body.required {
            parameter["required"] = true.into();
        }
        own.push(parameter);
    }
    if !own.is_empty() {
        told["parameters"] = own.into();
    }
    let mut responses = Map::new();
    for (code, answer) in &operation.responses {
        responses
            .insert(code.to_string(), json!({"description": code_word(*code), "schema": schema(answer)}));
    }
    responses.insert("401".to_owned(), json!({"description": code_word(401)}));
    told["responses"] = responses.into();
    add_kubernetes(&mut told, operation);
    told
}

fn schema(content: &Content) -> Value {
    match &content.schema {
        Some(name) => Form::V2.reference(name),
        None => json!({"type": "string"}),
    }
}

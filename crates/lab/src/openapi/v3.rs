//! Documents of OpenAPI 3.0, one for each group and version.

use serde_json::{Map, Value, json};

use super::model::{Content, Operation, PathItem, Place, parameter_type};

/// A document: its paths, and the schemas they refer to.
pub(super) fn document(
    info: &Value,
    paths: &[PathItem],
    schemas: Map<String, Value>,
    secured: bool,
) -> Value {
    let paths: Map<String, Value> = paths.iter().map(|item| (item.path.clone(), path_item(item))).collect();
    let mut components = Map::new();
    if !schemas.is_empty() {
        components.insert("schemas".to_owned(), schemas.into());
    }
    if secured {
        let token = json!({"type": "apiKey", "name": "authorization", "in": "header"});
        components.insert("securitySchemes".to_owned(), json!({"BearerToken": token}));
    }
    json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": components})
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

/// The parameters that all operations of a path have; they are told once.
pub(super) fn shared_parameters(operations: &[Operation]) -> Vec<(&'static str, Place)> {
    let Some((first, rest)) = operations.split_first() else { return Vec::new() };
    let everywhere = |parameter: &&(&'static str, Place)| {
        rest.iter().all(|operation| operation.parameters.contains(parameter))
    };
    first.parameters.iter().filter(everywhere).copied().collect()
}

fn parameter(&(name, place): &(&'static str, Place)) -> Value {
    let mut told = json!({"name": name, "schema": {"type": parameter_type(name), "uniqueItems": true}});
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
    let mut told = json!({"operationId": operation.id, "tags": [operation.tag]});
    let own: Vec<Value> =
        operation.parameters.iter().filter(|parameter| !shared.contains(parameter)).map(parameter).collect();
    if !own.is_empty() {
        told["parameters"] = own.into();
    }
    if let Some(body) = &operation.body {
        told["requestBody"] = json!({"content": content(&body.content)});
        if body.required {
            told["requestBody"]["required"] = true.into();
        }
    }
    let mut responses = Map::new();
    for (code, answer) in &operation.responses {
        let response = json!({"description": code_word(*code), "content": content(answer)});
        responses.insert(code.to_string(), response);
    }
    responses.insert("401".to_owned(), json!({"description": code_word(401)}));
    told["responses"] = responses.into();
    add_kubernetes(&mut told, operation);
    told
}

/// What the operation does and to what kind.
pub(super) fn add_kubernetes(told: &mut Value, operation: &Operation) {
    if let Some(action) = operation.action {
        told["x-kubernetes-action"] = action.into();
    }
    if let Some([group, version, kind]) = &operation.kind {
        told["x-kubernetes-group-version-kind"] = json!({"group": group, "version": version, "kind": kind});
    }
}

fn content(content: &Content) -> Value {
    let schema = match &content.schema {
        Some(name) => super::schemas::Form::V3.reference(name),
        None => json!({"type": "string"}),
    };
    content
        .media
        .iter()
        .map(|&media| (media.to_owned(), json!({"schema": schema})))
        .collect::<Map<_, _>>()
        .into()
}

/// The words of a status code.
pub(super) fn code_word(code: u16) -> &'static str {
    match code {
        201 => "Created",
        202 => "Accepted",
        401 => "Unauthorized",
        _ => "OK",
    }
}

//! The `scale` subresource of custom resources.

use serde_json::{Map, Value, json};

use crate::status::{FieldProblem, Problem, Status};

use super::{kind::CustomVersion, metadata::go_type};

/// Where in an object the numbers of its scale are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    /// As written, such as `.spec.replicas`.
    pub spec_replicas: String,
    /// As written, such as `.status.replicas`.
    pub status_replicas: String,
    /// As written; none when there is no selector.
    pub label_selector: Option<String>,
}

impl ScalePaths {
    pub(crate) fn read(scale: &Value) -> Option<Self> {
        let word = |key: &str| scale.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            spec_replicas: word("specReplicasPath")?,
            status_replicas: word("statusReplicasPath")?,
            label_selector: word("labelSelectorPath"),
        })
    }

    /// The fields the wanted number is under: for the bookkeeping of who manages it.
    pub(crate) fn spec_replicas_fields(&self) -> Vec<&str> {
        fields(&self.spec_replicas).collect()
    }
}

fn fields(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

/// The value under a chain of fields; the error is the sentence about what is in the way.
fn nested<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let mut here = object;
    let mut passed = String::new();
    for name in fields(path) {
        if here.is_null() {
            return Ok(None);
        }
        let Some(map) = here.as_object() else {
            let shown = format!("{passed}.{name}");
            return Err(format!(
                "{shown} accessor error: {} is of the type {}, expected map[string]interface{{}}",
                shown_value(here),
                go_type(here)
            ));
        };
        passed.push('.');
        passed.push_str(name);
        match map.get(name) {
            Some(value) => here = value,
            None => return Ok(None),
        }
    }
    Ok(Some(here))
}

/// A value as `%v` writes it.
fn shown_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(shown_value).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, value)| format!("{key}:{}", shown_value(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        scalar => crate::jsonpath::text(scalar),
    }
}

fn nested_whole(object: &Value, path: &str) -> Result<Option<i64>, String> {
    match nested(object, path)? {
        None => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| wrong_type(path, value, "int64")),
    }
}

fn nested_text<'v>(object: &'v Value, path: &str) -> Result<Option<&'v str>, String> {
    match nested(object, path)? {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or_else(|| wrong_type(path, value, "string")),
    }
}

fn wrong_type(path: &str, value: &Value, wanted: &str) -> String {
    let path: String = fields(path).flat_map(|name| [".", name]).collect();
    format!(
        "{path} accessor error: {} is of the type {}, expected {wanted}",
        shown_value(value),
        go_type(value)
    )
}

/// The `Scale` of an object.
pub(crate) fn scale_of(version: &CustomVersion, object: &Value) -> Result<Value, Status> {
    let paths = paths_of(version)?;
    let (scale, found) = read_scale(paths, object).map_err(unforeseen)?;
    if !found {
        let path = &paths.spec_replicas;
        return Err(Status::internal(format!("the spec replicas field \"{path}\" does not exist")));
    }
    Ok(scale)
}

/// The `Scale` of an object, in which a wanted number that is missing is none.
pub(crate) fn scale_seen(version: &CustomVersion, object: &Value) -> Result<Value, Status> {
    read_scale(paths_of(version)?, object).map(|(scale, _)| scale).map_err(unforeseen)
}

/// Stands for a wanted number that is not set.
const NOT_SET: i64 = -2_147_483_648;

/// The `Scale` that a patch is applied to; a wanted number that is missing is out of any range.
pub(crate) fn scale_for_update(version: &CustomVersion, object: &Value) -> Result<Value, Status> {
    let (mut scale, found) = read_scale(paths_of(version)?, object).map_err(unforeseen)?;
    if !found {
        scale["spec"] = json!({"replicas": NOT_SET});
    }
    Ok(scale)
}

/// Writes the wanted number of a `Scale` into an object.
pub(crate) fn apply_scale(version: &CustomVersion, object: &mut Value, scale: &Value) -> Result<(), Status> {
    let paths = paths_of(version)?;
    let path = &paths.spec_replicas;
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    if replicas == NOT_SET {
        return Err(Status::bad_request(format!("the spec replicas field \"{path}\" cannot be empty")));
    }
    let mut here = object;
    let names: Vec<&str> = fields(path).collect();
    let Some((last, parents)) = names.split_last() else { return Ok(()) };
    for name in parents {
        let Some(map) = here.as_object_mut() else { return Err(in_the_way(path)) };
        here = map.entry(*name).or_insert_with(|| Value::Object(Map::new()));
    }
    let Some(map) = here.as_object_mut() else { return Err(in_the_way(path)) };
    map.insert((*last).to_owned(), replicas.into());
    Ok(())
}

fn in_the_way(path: &str) -> Status {
    unforeseen(format!("value cannot be set because {path} is not a map[string]interface{{}}"))
}

/// A failure the real server has no words of its own for.
fn unforeseen(why: String) -> Status {
    Status::new(500, "", why)
}

fn paths_of(version: &CustomVersion) -> Result<&ScalePaths, Status> {
    version.scale.as_ref().ok_or_else(|| Status::internal("could not properly serve the subresource"))
}

fn read_scale(paths: &ScalePaths, object: &Value) -> Result<(Value, bool), String> {
    let wanted = nested_whole(object, &paths.spec_replicas)?;
    let actual = nested_whole(object, &paths.status_replicas)?.unwrap_or(0);
    let selector = match &paths.label_selector {
        Some(path) if !path.is_empty() => nested_text(object, path)?.unwrap_or(""),
        _ => "",
    };
    let mut metadata = Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.get("metadata").and_then(|metadata| metadata.get(key)) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let mut status = json!({"replicas": actual});
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let mut spec = Map::new();
    if let Some(wanted) = wanted.filter(|wanted| *wanted != 0) {
        spec.insert("replicas".to_owned(), wanted.into());
    }
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec, "status": status,
    });
    Ok((scale, wanted.is_some()))
}

/// What is wrong with the numbers and the selector a scale would be read from.
pub(crate) fn check(
    version: &CustomVersion,
    object: &Value,
    with_spec: bool,
    problems: &mut Vec<FieldProblem>,
) {
    let Some(paths) = &version.scale else { return };
    let whole = |path: &str, problems: &mut Vec<FieldProblem>| {
        let problem = match nested_whole(object, path) {
            Err(problem) => (0, problem),
            Ok(Some(number)) if number < 0 => (number, "should be a non-negative integer".to_owned()),
            Ok(Some(number)) if number > i64::from(i32::MAX) => {
                (number, format!("should be less than or equal to {}", i32::MAX))
            }
            Ok(_) => return,
        };
        problems.push(FieldProblem::new(path, Problem::Invalid(problem.0.into(), problem.1)));
    };
    if with_spec {
        whole(&paths.spec_replicas, problems);
    }
    whole(&paths.status_replicas, problems);
    if let Some(path) = &paths.label_selector
        && let Err(problem) = nested_text(object, path)
    {
        problems.push(FieldProblem::new(path.as_str(), Problem::Invalid("".into(), problem)));
    }
}

//! The scale of workloads: how many replicas, seen through one kind for all of them.

use serde_json::{Map, Value, json};

use super::view::{Edit, Look};
use crate::names::Gvk;
use crate::status::{FieldProblem, Problem, Status};

/// The kind of what is read and written at `/scale`.
pub fn scale_kind() -> Gvk {
    Gvk::new("autoscaling", "v1", "Scale")
}

/// True for built-in kinds that have a scale.
pub fn has_scale(kind: &Gvk) -> bool {
    matches!(
        (kind.group.as_str(), kind.kind.as_str()),
        ("", "ReplicationController") | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet")
    )
}

/// The scale of an object; none for kinds that have no scale, or when its selector makes no sense.
pub fn scale_of(kind: &Gvk, object: &Value) -> Option<Value> {
    if !has_scale(kind) {
        return None;
    }
    let (spec, status) = (object.at("spec"), object.at("status"));
    let selector = if kind.group.is_empty() {
        let pairs = spec.fields("selector").into_iter().flatten();
        pairs.map(|(key, value)| format!("{key}={}", value.str())).collect::<Vec<_>>().join(",")
    } else {
        selector_text(spec.at("selector"))?
    };
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if object.at("metadata").has(field) {
            metadata.insert(field.to_owned(), object.at("metadata").at(field).clone());
        }
    }
    let mut scale = json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": metadata,
        "spec": {},
        "status": {"replicas": status.int("replicas").unwrap_or_default()},
    });
    let wanted = spec.int("replicas").unwrap_or_default();
    if wanted != 0 {
        scale["spec"].put("replicas", wanted);
    }
    if !selector.is_empty() {
        scale["status"].put("selector", selector);
    }
    Some(scale)
}

/// A selector in the notation of queries.
pub fn selector_text(selector: &Value) -> Option<String> {
    let mut parts: Vec<(String, String)> = selector
        .fields("matchLabels")
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), format!("{key}={}", value.str())))
        .collect();
    for expression in selector.list("matchExpressions") {
        let key = expression.text("key");
        let mut values: Vec<&str> = expression.list("values").iter().map(Look::str).collect();
        values.sort_unstable();
        let text = match expression.text("operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        };
        parts.push((key.to_owned(), text));
    }
    parts.sort_by(|one, other| one.0.cmp(&other.0));
    Some(parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(","))
}

/// The object as a written scale wants it. The result is checked and stored like any other change of it.
///
/// # Errors
///
/// When the scale is about something else, or asks for fewer than none.
pub fn apply_scale(kind: &Gvk, object: &Value, scale: &Value) -> Result<Value, Status> {
    let (own, wanted) = (object.at("metadata"), scale.at("metadata"));
    let name = own.text("name");
    let resource = format!("{}s", kind.kind.to_lowercase());
    let replicas = scale.at("spec").int("replicas").unwrap_or_default();
    if replicas < 0 {
        let problem = FieldProblem::new(
            "spec.replicas",
            Problem::Invalid(replicas.into(), "must be greater than or equal to 0".to_owned()),
        );
        return Err(Status::invalid("autoscaling", "Scale", wanted.text("name"), vec![problem]));
    }
    let uid = wanted.text("uid");
    if !uid.is_empty() && uid != own.text("uid") {
        // Where controllers are stored has an older name.
        let folder = if kind.group.is_empty() { "controllers" } else { &resource };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /{folder}/{}/{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            own.text("namespace"),
            own.text("uid")
        );
        return Err(Status::conflict(&kind.group, &resource, name, &why));
    }
    let mut changed = object.clone();
    changed.object("spec").put("replicas", replicas);
    let version = wanted.text("resourceVersion");
    if !version.is_empty() {
        changed.object("metadata").put("resourceVersion", version);
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_written_sorted() {
        let selector = json!({"matchLabels": {"z": "1"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "b", "operator": "DoesNotExist"}]});
        assert_eq!(selector_text(&selector).unwrap(), "a in (x,y),!b,z=1");
    }

    #[test]
    fn a_scale_of_none_is_left_out() {
        let kind = Gvk::new("apps", "v1", "Deployment");
        let object = json!({"metadata": {"name": "d"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}}});
        let scale = scale_of(&kind, &object).unwrap();
        assert_eq!(
            (&scale["spec"], &scale["status"]),
            (&json!({}), &json!({"replicas": 0, "selector": "a=b"}))
        );
        let more = apply_scale(&kind, &object, &json!({"metadata": {}, "spec": {"replicas": 3}})).unwrap();
        assert_eq!(more["spec"]["replicas"], 3);
    }
}

//! JSON merge patches (RFC 7386) and JSON patches (RFC 6902), with the habits of the real server.

use serde_json::{Map, Value};

use super::go;
use crate::status::Status;

/// How many operations a JSON patch may have.
const MOST_OPERATIONS: usize = 10_000;

/// How much the copies of a JSON patch may add, in bytes of JSON.
const MOST_COPIED: usize = 3 * 1024 * 1024;

/// How deep a patched object may be: what walks objects does so by recursion.
const DEEPEST: usize = 200;

/// The object with a JSON merge patch applied.
///
/// Where fields are not validated, the patch itself is not looked at beforehand, and something that is no patch fails
/// later, in other words: `ignoring` says so.
pub(crate) fn json_merge(object: &Value, patch: &Value, ignoring: bool) -> Result<Value, Status> {
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Array(_) if ignoring => return Ok(without_nulls(patch)),
        other if ignoring || other.is_null() => return Err(Status::bad_request("Invalid JSON Patch")),
        other => {
            return Err(Status::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                json_kind(other)
            )));
        }
    };
    let mut object = object.clone();
    if let Value::Object(fields) = &mut object {
        merge_fields(fields, patch);
    }
    Ok(object)
}

fn merge_fields(fields: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        match (value, fields.get_mut(name)) {
            (Value::Null, _) => {
                fields.remove(name);
            }
            (Value::Object(patch), Some(Value::Object(inner))) => merge_fields(inner, patch),
            // A list takes the place of an object as it is; everything else loses its nulls.
            (value, Some(Value::Object(_))) => {
                fields.insert(name.clone(), value.clone());
            }
            (value, _) => {
                fields.insert(name.clone(), without_nulls(value));
            }
        }
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, field)| !field.is_null())
            .map(|(name, field)| (name.clone(), without_nulls(field)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

/// The fields of the operations of a JSON patch that mean nothing, as strict decoding names them.
pub(crate) fn json_patch_unknown_fields(patch: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    for (place, operation) in patch.as_array().into_iter().flatten().enumerate() {
        for name in operation.as_object().into_iter().flatten().map(|(name, _)| name) {
            if !matches!(name.as_str(), "op" | "path" | "from" | "value") {
                unknown.push(format!("json patch unknown field {}", go::quote(&format!("[{place}].{name}"))));
            }
        }
    }
    unknown
}

/// The object with a JSON patch applied. Whatever does not work has the same answer. For `ignoring` see
/// [`json_merge`].
pub(crate) fn json_patch(object: &Value, patch: &Value, ignoring: bool) -> Result<Value, Status> {
    // Who looks at it first has names of its own for what it expects.
    let (prefix, list, one) = if ignoring {
        ("", "jsonpatch.Patch", "jsonpatch.Operation")
    } else {
        ("error decoding patch: ", "[]handlers.jsonPatchOp", "handlers.jsonPatchOp")
    };
    let undecodable = |what: &Value, into: &str| {
        let kind = json_kind(what);
        Err(Status::bad_request(format!("{prefix}json: cannot unmarshal {kind} into Go {into}")))
    };
    let operations = match patch {
        Value::Array(operations) => operations.as_slice(),
        Value::Null => &[],
        other => return undecodable(other, &format!("value of type {list}")),
    };
    for operation in operations {
        let fields = match operation {
            Value::Object(fields) => fields,
            Value::Null => continue,
            other => return undecodable(other, &format!("value of type {one}")),
        };
        if ignoring {
            continue;
        }
        for name in ["op", "path", "from"] {
            if let Some(wrong) = fields.get(name).filter(|value| !value.is_string() && !value.is_null()) {
                return undecodable(wrong, &format!("struct field jsonPatchOp.{name} of type string"));
            }
        }
    }
    if operations.len() > MOST_OPERATIONS {
        let count = operations.len();
        return Err(Status::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, \
                 got {count}"
            ),
        ));
    }
    let mut document = object.clone();
    let mut copied = 0;
    for operation in operations {
        operate(&mut document, operation, &mut copied).ok_or_else(|| {
            Status::new(422, "Invalid", "the server rejected our request due to an error in our request")
                .with_empty_details()
        })?;
    }
    Ok(document)
}

fn operate(document: &mut Value, operation: &Value, copied: &mut usize) -> Option<()> {
    let path = operation["path"].as_str();
    let value = || operation.get("value").cloned().unwrap_or_default();
    match operation["op"].as_str()? {
        "add" => {
            let value = value();
            if too_deep_at(path?, &value) {
                return None;
            }
            add(document, path?, value)
        }
        "remove" => remove(document, path?).map(|_| ()),
        "replace" => match path? {
            "" => {
                let value = value();
                (value.is_object() || value.is_array()).then(|| *document = value)
            }
            path => {
                let value = value();
                if too_deep_at(path, &value) {
                    return None;
                }
                let (parent, key) = find(document, path)?;
                match parent {
                    Value::Object(fields) => {
                        fields.insert(key, value);
                    }
                    Value::Array(items) => {
                        let place = index(&key, items.len())?;
                        *items.get_mut(place)? = value;
                    }
                    _ => return None,
                }
                Some(())
            }
        },
        "move" => {
            let value = remove(document, operation["from"].as_str()?)?;
            if too_deep_at(path?, &value) {
                return None;
            }
            add(document, path?, value)
        }
        "copy" => {
            let value = get(document, operation["from"].as_str()?)?.clone();
            *copied += serde_json::to_string(&value).map_or(0, |text| text.len());
            if *copied > MOST_COPIED || too_deep_at(path?, &value) {
                return None;
            }
            add(document, path?, value)
        }
        "test" => {
            let wanted = operation.get("value").unwrap_or(&Value::Null);
            let found = if path?.is_empty() { &*document } else { get(document, path?)? };
            (found == wanted).then_some(())
        }
        _ => None,
    }
}

/// True when a value in this place would make a document that is too deep. Every operation that puts one somewhere has
/// to ask: each may go on where the last one ended.
pub(crate) fn too_deep_at(path: &str, value: &Value) -> bool {
    depth(value) + path.matches('/').count() > DEEPEST
}

/// How many levels of lists and objects are in a value.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The list or object a path ends in, and the last step.
fn find<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    // What stands before the first slash does not matter.
    let (_, steps) = path.split_once('/')?;
    let (parents, last) = match steps.rsplit_once('/') {
        Some((parents, last)) => (Some(parents), last),
        None => (None, steps),
    };
    let mut at = document;
    for step in parents.into_iter().flat_map(|parents| parents.split('/')) {
        let step = unescape(step);
        at = match at {
            Value::Object(fields) => fields.get_mut(&step)?,
            Value::Array(items) => {
                let place = index(&step, items.len())?;
                items.get_mut(place)?
            }
            _ => return None,
        };
    }
    (at.is_object() || at.is_array()).then(|| (at, unescape(last)))
}

fn unescape(step: &str) -> String {
    // One pass: `~01` is `~1`, not `/`.
    let mut out = String::with_capacity(step.len());
    let mut rest = step;
    while let Some(at) = rest.find('~') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let (text, length) = match from.get(..2) {
            Some("~0") => ("~", 2),
            Some("~1") => ("/", 2),
            _ => ("~", 1),
        };
        out.push_str(text);
        rest = from.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// The place a step names in a list of some length; negative numbers count from the end.
fn index(step: &str, length: usize) -> Option<usize> {
    let number: i64 = step.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let place = if number < 0 { number + length } else { number };
    usize::try_from(place).ok()
}

/// The value at a path. A field that is not there is null.
fn get<'a>(document: &'a mut Value, path: &str) -> Option<&'a Value> {
    let (parent, key) = find(document, path)?;
    match parent {
        Value::Object(fields) => Some(fields.get(&key).unwrap_or(&Value::Null)),
        Value::Array(items) => items.get(index(&key, items.len())?),
        _ => None,
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    let (parent, key) = find(document, path)?;
    match parent {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let place = index(&key, items.len() + 1).filter(|place| *place <= items.len())?;
            items.insert(place, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    let (parent, key) = find(document, path)?;
    match parent {
        Value::Object(fields) => fields.remove(&key),
        Value::Array(items) => {
            let place = index(&key, items.len()).filter(|place| *place < items.len())?;
            Some(items.remove(place))
        }
        _ => None,
    }
}

/// The name Go's JSON has for a kind of value.
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merge_patches_drop_nulls_like_the_real_server() {
        let object = json!({"a": {"b": 1, "c": 2}, "l": [1], "n": {"x": 1}});
        let patch = json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [{"z": null}, null],
            "n": [{"z": null}], "new": {"k": [{"q": null}]}});
        assert_eq!(
            json_merge(&object, &patch, false).unwrap(),
            json!({"a": {"c": 2, "d": {"f": 1}}, "l": [{}, null], "n": [{"z": null}], "new": {"k": [{}]}})
        );
        for (wrong, ignoring) in [(json!(null), false), (json!(null), true), (json!("x"), true)] {
            assert_eq!(json_merge(&object, &wrong, ignoring).unwrap_err().message, "Invalid JSON Patch");
        }
        assert_eq!(json_merge(&object, &json!([{"a": null}]), true).unwrap(), json!([{}]));
        assert_eq!(
            json_merge(&object, &json!([]), false).unwrap_err().message,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
    }

    #[test]
    fn json_patches_follow_the_habits_of_the_real_server() {
        let object = json!({"a": {"b/c": 1, "l": [1, 2, 3]}, "x": "y"});
        let after = |operations: Value| json_patch(&object, &operations, false).map_err(|status| status.code);
        assert_eq!(
            after(json!([
                {"op": "replace", "path": "/a/new", "value": 5},
                {"op": "remove", "path": "/a/b~1c"},
                {"op": "add", "path": "/a/l/-", "value": 4},
                {"op": "add", "path": "/a/l/-1", "value": 9},
                {"op": "remove", "path": "/a/l/0"},
                {"op": "move", "from": "/x", "path": "/z"},
                {"op": "copy", "from": "/a/l/-1", "path": "/w"},
                {"op": "test", "path": "/missing", "value": null},
            ])),
            Ok(json!({"a": {"new": 5, "l": [2, 3, 4, 9]}, "z": "y", "w": 9}))
        );
        for wrong in [
            json!([{"op": "test", "path": "/x", "value": "z"}]),
            json!([{"op": "remove", "path": "/nope"}]),
            json!([{"op": "add", "path": "/a/nope/x", "value": 1}]),
            json!([{"op": "add", "path": "/a/l/5", "value": 1}]),
            json!([{"op": "add", "path": "", "value": {}}]),
            json!([{"op": "zap", "path": "/x"}]),
            json!([null]),
        ] {
            assert_eq!(after(wrong.clone()), Err(422), "{wrong}");
        }
        assert_eq!(after(json!([{"op": "add", "path": 5}])), Err(400));
        assert_eq!(after(json!(vec![json!({"op": "test", "path": "/q"}); 10_001])), Err(413));
        assert_eq!(
            json_patch_unknown_fields(&json!([{"op": "add", "foo": 1}])),
            [r#"json patch unknown field "[0].foo""#]
        );
    }

    #[test]
    fn copies_cannot_blow_up_the_server() {
        let mut operations = vec![json!({"op": "add", "path": "/a", "value": {}})];
        operations.extend(vec![json!({"op": "copy", "from": "/a", "path": "/a/a"}); 300]);
        assert!(json_patch(&json!({}), &Value::Array(operations), false).is_err());
    }

    #[test]
    fn operations_that_go_on_where_the_last_one_ended_cannot_either() {
        let value = (0..60).fold(json!(1), |inner, _| json!({"a": inner}));
        for operation in ["add", "replace"] {
            let chain = |links: usize| -> Value {
                let link = |place: usize| json!({"op": operation, "path": format!("/x{}", "/a".repeat(60 * place)), "value": value});
                (0..links).map(link).collect()
            };
            assert!(json_patch(&json!({}), &chain(3), false).is_ok(), "{operation}");
            assert_eq!(json_patch(&json!({}), &chain(4), false).unwrap_err().code, 422, "{operation}");
        }
    }
}

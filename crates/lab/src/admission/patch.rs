//! JSON patches as the real server applies those of webhooks and policies: with the leniency of its library, and
//! failing in its words.

use serde_json::Value;

use super::PatchFailure;
use super::json::text;
use crate::merge;

/// What copies may add up to.
const MOST_COPIED: usize = 3 * 1024 * 1024;

/// Applies the operations to an object.
pub(super) fn apply(object: &Value, operations: &Value) -> Result<Value, PatchFailure> {
    let mut document = object.clone();
    let mut copied = 0;
    for operation in operations.as_array().into_iter().flatten() {
        operate(&mut document, operation, &mut copied).map_err(|failure| match failure {
            Trouble::Test(message) => PatchFailure { by_test: true, message },
            Trouble::Other(message) => PatchFailure { by_test: false, message },
        })?;
    }
    Ok(document)
}

enum Trouble {
    Test(String),
    Other(String),
}

fn other(message: String) -> Trouble {
    Trouble::Other(message)
}

fn operate(document: &mut Value, operation: &Value, copied: &mut usize) -> Result<(), Trouble> {
    let kind = text(&operation["op"]);
    let Some(path) = operation["path"].as_str() else {
        return Err(other(format!("{kind} operation failed to decode path: missing value")));
    };
    let from = text(&operation["from"]);
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match kind {
        "add" => {
            let (place, key) = find(document, path).ok_or_else(|| {
                other(format!("add operation does not apply: doc is missing path: \"{path}\": missing value"))
            })?;
            let value = bounded(path, value())?;
            add(place, &key, value).map_err(|why| other(format!("error in add for path: '{path}': {why}")))
        }
        "remove" => {
            let (place, key) = find(document, path).ok_or_else(|| {
                other(format!(
                    "remove operation does not apply: doc is missing path: \"{path}\": missing value"
                ))
            })?;
            remove(place, &key).map_err(|why| other(format!("error in remove for path: '{path}': {why}")))?;
            Ok(())
        }
        "replace" => replace(document, path, bounded(path, value())?),
        "move" => {
            let (place, key) = find(document, from).ok_or_else(|| {
                other(format!(
                    "move operation does not apply: doc is missing from path: {from}: missing value"
                ))
            })?;
            let told = |why: String| other(format!("error in move for path: '{key}': {why}"));
            let value = bounded(path, remove(place, &key).map_err(told)?)?;
            let (place, key) = find(document, path).ok_or_else(|| {
                other(format!(
                    "move operation does not apply: doc is missing destination path: {path}: missing value"
                ))
            })?;
            add(place, &key, value).map_err(|why| other(format!("error in move for path: '{path}': {why}")))
        }
        "copy" => {
            let (place, key) = find(document, from).ok_or_else(|| {
                other(format!(
                    "copy operation does not apply: doc is missing from path: {from}: missing value"
                ))
            })?;
            let value = get(place, &key)
                .map_err(|why| other(format!("error in copy for from: '{from}': {why}")))?
                .cloned()
                .unwrap_or(Value::Null);
            let value = bounded(path, value)?;
            *copied = copied.saturating_add(value.to_string().len());
            if *copied > MOST_COPIED {
                return Err(other(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the \
                     limit {MOST_COPIED}"
                )));
            }
            let (place, key) = find(document, path).ok_or_else(|| {
                other(format!(
                    "copy operation does not apply: doc is missing destination path: {path}: missing value"
                ))
            })?;
            add(place, &key, value)
                .map_err(|why| other(format!("error while adding value during copy: {why}")))
        }
        "test" => test(document, path, &value()),
        unknown => Err(other(format!("Unexpected kind: {unknown}"))),
    }
}

/// A value that may be put in this place: what walks objects does so by recursion, and operations can go on where the
/// last one ended.
fn bounded(path: &str, value: Value) -> Result<Value, Trouble> {
    if merge::too_deep_at(path, &value) {
        return Err(other(format!("value at path \"{path}\" is nested too deeply")));
    }
    Ok(value)
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), Trouble> {
    if path.is_empty() {
        if !(value.is_object() || value.is_array()) {
            return Err(other("replace operation value must be object or array: %!w(<nil>)".to_owned()));
        }
        *document = value;
        return Ok(());
    }
    let (place, key) = find(document, path).ok_or_else(|| {
        other(format!("replace operation does not apply: doc is missing path: {path}: missing value"))
    })?;
    get(place, &key).map_err(|_| {
        other(format!("replace operation does not apply: doc is missing key: {path}: missing value"))
    })?;
    match place {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) => {
            let index = index(&key, items.len()).map_err(other)?;
            if let Some(item) = items.get_mut(index) {
                *item = value;
            }
        }
        _ => {}
    }
    Ok(())
}

fn test(document: &mut Value, path: &str, wanted: &Value) -> Result<(), Trouble> {
    let failed = || Err(Trouble::Test(format!("testing value {path} failed: test failed")));
    if path.is_empty() {
        return if document == wanted { Ok(()) } else { failed() };
    }
    let (place, key) = find(document, path).ok_or_else(|| {
        other(format!("test operation does not apply: is missing path: {path}: missing value"))
    })?;
    let found = get(place, &key).map_err(|why| other(format!("error in test for path: '{path}': {why}")))?;
    if found.unwrap_or(&Value::Null) == wanted { Ok(()) } else { failed() }
}

/// The object or list that a path leads into, and the key of its last step.
fn find<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut steps = path.split('/').skip(1).peekable();
    let mut place = document;
    loop {
        let key = steps.next()?.replace("~1", "/").replace("~0", "~");
        if steps.peek().is_none() {
            return Some((place, key));
        }
        place = match place {
            Value::Object(fields) => fields.get_mut(&key)?,
            Value::Array(items) => {
                let index = index(&key, items.len()).ok()?;
                items.get_mut(index)?
            }
            _ => return None,
        };
        if !(place.is_object() || place.is_array()) {
            return None;
        }
    }
}

/// An index into a list of so many items; negative ones count from the end.
fn index(key: &str, length: usize) -> Result<usize, String> {
    let number: i64 = key.parse().map_err(|_| format!("strconv.Atoi: parsing {key:?}: invalid syntax"))?;
    let invalid = || format!("Unable to access invalid index: {number}: invalid index referenced");
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let place = if number < 0 { number.saturating_add(length) } else { number };
    if place < 0 || place >= length { Err(invalid()) } else { usize::try_from(place).map_err(|_| invalid()) }
}

fn get<'a>(place: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    match place {
        Value::Array(items) => Ok(items.get(index(key, items.len())?)),
        other => Ok(other.get(key)),
    }
}

fn add(place: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match place {
        Value::Object(fields) => {
            fields.insert(key.to_owned(), value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let place = index(key, items.len() + 1).map_err(|why| {
                if why.starts_with("strconv") {
                    format!("value was not a proper array index: '{key}': {why}")
                } else {
                    why
                }
            })?;
            items.insert(place, value);
        }
        _ => {}
    }
    Ok(())
}

fn remove(place: &mut Value, key: &str) -> Result<Value, String> {
    match place {
        Value::Array(items) => {
            let index = index(key, items.len())?;
            Ok(items.remove(index))
        }
        Value::Object(fields) => fields
            .remove(key)
            .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value")),
        _ => Err("missing value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn failure(operations: &Value) -> String {
        apply(&json!({"metadata": {"name": "x"}, "data": {"a": "1"}, "list": [1]}), operations)
            .unwrap_err()
            .message
    }

    #[test]
    fn failures_are_told_like_by_the_real_server() {
        assert_eq!(
            failure(&json!([{"op": "remove", "path": "/metadata/nope/x"}])),
            "remove operation does not apply: doc is missing path: \"/metadata/nope/x\": missing value"
        );
        assert_eq!(
            failure(&json!([{"op": "remove", "path": "/data/zz"}])),
            "error in remove for path: '/data/zz': Unable to remove nonexistent key: zz: missing value"
        );
        assert_eq!(
            failure(&json!([{"op": "test", "path": "/metadata/name", "value": "zz"}])),
            "testing value /metadata/name failed: test failed"
        );
        assert_eq!(failure(&json!([{"op": "boo", "path": "/foo"}])), "Unexpected kind: boo");
        assert_eq!(
            failure(&json!([{"op": "add", "path": "/list/7", "value": 1}])),
            "error in add for path: '/list/7': Unable to access invalid index: 7: invalid index referenced"
        );
    }

    #[test]
    fn operations_cannot_nest_without_end() {
        let value = (0..60).fold(json!(1), |inner, _| json!({"a": inner}));
        for operation in ["add", "replace"] {
            let link = |place: usize| json!({"op": operation, "path": format!("/list{}", "/a".repeat(60 * place)), "value": value});
            assert!(failure(&(0..4).map(link).collect()).ends_with("is nested too deeply"), "{operation}");
        }
        let copies = vec![json!({"op": "copy", "from": "/data", "path": "/data/a"}); 300];
        assert!(failure(&copies.into()).ends_with("is nested too deeply"));
    }

    #[test]
    fn operations_apply_in_order() {
        let patched = apply(
            &json!({"list": [1, 3], "a": {"b~c/d": 1}}),
            &json!([
                {"op": "add", "path": "/list/1", "value": 2},
                {"op": "add", "path": "/list/-", "value": 4},
                {"op": "remove", "path": "/list/-1"},
                {"op": "copy", "from": "/list/0", "path": "/first"},
                {"op": "move", "from": "/a/b~0c~1d", "path": "/moved"},
                {"op": "replace", "path": "/new", "value": true},
            ]),
        );
        assert_eq!(
            patched.unwrap(),
            json!({"list": [1, 2, 3], "a": {}, "first": 1, "moved": 1, "new": true})
        );
    }
}

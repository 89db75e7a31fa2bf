//! Small steps in JSON that never fail.

use serde_json::{Map, Value};

/// The items of a list; none if it is none.
pub(crate) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The entries of an object; none if it is none.
pub(crate) fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The text, or the empty one.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The object at a place, made if there is none.
pub(crate) fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        // The line above made it one.
        _ => unreachable!("the value was made an object"),
    }
}

/// The list under a key, made if there is none.
pub(crate) fn list<'a>(value: &'a mut Value, key: &str) -> &'a mut Vec<Value> {
    let place = object(value).entry(key).or_insert(Value::Null);
    if !place.is_array() {
        *place = Value::Array(Vec::new());
    }
    match place {
        Value::Array(items) => items,
        // The line above made it one.
        _ => unreachable!("the value was made a list"),
    }
}

/// The value under a key, made (as null) if there is none.
pub(crate) fn at<'a>(value: &'a mut Value, key: &str) -> &'a mut Value {
    object(value).entry(key).or_insert(Value::Null)
}

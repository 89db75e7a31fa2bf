//! Saying what an object has to look like, in part.

use serde_json::Value;

/// Makes sure that `whole` has everything `part` has: objects may have more fields, lists have to have the
/// same items in the same order, and a null means that the field is not there.
#[track_caller]
pub(crate) fn has(whole: &Value, part: &Value) {
    if let Some(difference) = lacks(whole, part, &mut String::new()) {
        panic_with(&difference, whole);
    }
}

#[track_caller]
fn panic_with(difference: &str, whole: &Value) {
    let shown: String = whole.to_string().chars().take(4000).collect();
    assert!(difference.is_empty(), "{difference}\nin {shown}");
}

/// The first thing of `part` that `whole` does not have.
fn lacks(whole: &Value, part: &Value, path: &mut String) -> Option<String> {
    let length = path.len();
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (key, part) in part {
                path.push('.');
                path.push_str(key);
                if let Some(difference) = lacks(whole.get(key).unwrap_or(&Value::Null), part, path) {
                    return Some(difference);
                }
                path.truncate(length);
            }
            None
        }
        (Value::Array(wholes), Value::Array(parts)) if wholes.len() == parts.len() => {
            for (place, (whole, part)) in wholes.iter().zip(parts).enumerate() {
                path.push('[');
                path.push_str(&place.to_string());
                path.push(']');
                if let Some(difference) = lacks(whole, part, path) {
                    return Some(difference);
                }
                path.truncate(length);
            }
            None
        }
        _ if whole == part => None,
        _ => Some(format!("{path} is {whole}, not {part}")),
    }
}

/// The text at a JSON pointer, or nothing.
pub(crate) fn text<'value>(value: &'value Value, pointer: &str) -> &'value str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The names of a list's items, in their order.
pub(crate) fn names(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .map_or_else(Vec::new, |items| items.iter().map(|item| text(item, "/metadata/name")).collect())
}

/// The object's resource version as a number; zero if there is none.
pub(crate) fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").parse().unwrap_or_default()
}

/// The entry of a manager in an object's managed fields.
pub(crate) fn managed<'value>(
    object: &'value Value,
    manager: &str,
    operation: &str,
) -> Option<&'value Value> {
    object["metadata"]["managedFields"]
        .as_array()?
        .iter()
        .find(|entry| entry["manager"] == manager && entry["operation"] == operation)
}

/// The fields of a failure's causes, sorted.
pub(crate) fn cause_fields(status: &Value) -> Vec<&str> {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let mut fields: Vec<&str> = causes.map(|cause| text(cause, "/field")).collect();
    fields.sort_unstable();
    fields
}

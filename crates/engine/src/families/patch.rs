//! Patches of objects: JSON merge patches, each safe to send twice.

use serde_json::{Map, Value, json};
use trellis_model::canonical;

use super::object::Object;
use super::record::PROVIDER_STATUS;
use super::table::FINALIZER;

/// Puts our finalizer on an object, if it is not there.
///
/// A list is replaced as a whole, so that the version it was seen at must still be the present one.
pub fn add_finalizer(object: &Object) -> Option<Value> {
    finalizers(object, &[FINALIZER], &[])
}

/// Takes our finalizer off an object, if it is there.
pub fn remove_finalizer(object: &Object) -> Option<Value> {
    finalizers(object, &[], &[FINALIZER])
}

/// Brings finalizers on and off in one patch.
pub(super) fn finalizers(object: &Object, on: &[&str], off: &[&str]) -> Option<Value> {
    let had: Vec<&str> = object.metadata.finalizers.iter().map(|text| &**text).collect();
    let mut wished: Vec<&str> = had.iter().copied().filter(|text| !off.contains(text)).collect();
    wished.extend(on.iter().filter(|text| !had.contains(text)));
    if wished == had {
        return None;
    }
    Some(json!({ "metadata": {
        "uid": &*object.metadata.uid,
        "resourceVersion": object.metadata.resource_version.to_string(),
        "finalizers": wished,
    } }))
}

/// Writes the provider id into a Machine's spec, if there is none. It never changes once it is there.
pub fn set_provider_id(machine: &Object, id: &str) -> Option<Value> {
    machine
        .provider_id
        .is_none()
        .then(|| json!({ "metadata": { "uid": &*machine.metadata.uid }, "spec": { "providerID": id } }))
}

/// Tells a set how many machines to have, if it has been told otherwise.
pub fn scale(set: &Object, replicas: u32) -> Option<Value> {
    (super::pool::set_size(set) != replicas)
        .then(|| json!({ "metadata": { "uid": &*set.metadata.uid }, "spec": { "replicas": replicas } }))
}

/// Brings annotations of an object to what is wished; without a value they go.
pub fn annotate(object: &Object, wished: &[(&str, Option<String>)]) -> Option<Value> {
    let changes: Map<String, Value> = wished
        .iter()
        .filter(|(key, value)| object.metadata.annotations.get(key) != value.as_deref())
        .map(|(key, value)| ((*key).to_owned(), value.clone().map_or(Value::Null, Value::String)))
        .collect();
    (!changes.is_empty())
        .then(|| json!({ "metadata": { "uid": &*object.metadata.uid, "annotations": changes } }))
}

/// What must change in a status for what we say to stand there. Keys we do not speak of are left; `null` says that
/// a key is not to be there.
pub(super) fn status_difference(
    current: &Map<String, Value>,
    wished: Map<String, Value>,
) -> Map<String, Value> {
    let mut changes = Map::new();
    for (key, wish) in wished {
        let now = current.get(&key);
        let change = match wish {
            // Others write there too.
            Value::Object(wish) if key == PROVIDER_STATUS => {
                let empty = Map::new();
                let inner = status_difference(now.and_then(Value::as_object).unwrap_or(&empty), wish);
                (!inner.is_empty()).then_some(Value::Object(inner))
            }
            wish => difference(now, wish),
        };
        if let Some(change) = change {
            changes.insert(key, change);
        }
    }
    changes
}

/// What must change for a value to be exactly the one wished.
fn difference(current: Option<&Value>, wished: Value) -> Option<Value> {
    match (current, wished) {
        (None | Some(Value::Null), Value::Null) => None,
        (Some(Value::Object(current)), Value::Object(wished)) => {
            let mut changes = Map::new();
            for key in current.keys().filter(|key| !wished.contains_key(*key)) {
                changes.insert(key.clone(), Value::Null);
            }
            for (key, wish) in wished {
                if let Some(change) = difference(current.get(&key), wish) {
                    changes.insert(key, change);
                }
            }
            (!changes.is_empty()).then_some(Value::Object(changes))
        }
        (current, wished) => (current != Some(&wished)).then_some(wished),
    }
}

/// What people read in a status: how far something is, and when that was written.
const WORDS: [&str; 3] = ["message", "errorMessage", "lastUpdated"];

/// Whether two statuses say the same in other words.
pub fn differs_in_words(one: &Object, other: &Object) -> bool {
    fn same(one: &Value, other: &Value) -> bool {
        match (one, other) {
            (Value::Object(one), Value::Object(other)) => {
                let matters = |(key, _): &(&String, &Value)| !WORDS.contains(&key.as_str());
                let mut others = other.iter().filter(matters);
                let alike = one.iter().filter(matters).all(|(key, value)| {
                    others.next().is_some_and(|(other, its)| key == other && same(value, its))
                });
                alike && others.next().is_none()
            }
            (Value::Array(one), Value::Array(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
            }
            (one, other) => one == other,
        }
    }
    one.status != other.status && same(&one.status_json().into(), &other.status_json().into())
}

/// An object as a patch of its status will leave it.
pub fn with_status(object: &Object, patch: &Value) -> Object {
    fn apply(value: &mut Value, patch: &Value) {
        let Value::Object(changes) = patch else {
            value.clone_from(patch);
            return;
        };
        if !value.is_object() {
            *value = Value::Object(Map::new());
        }
        let Value::Object(map) = value else { return };
        for (key, change) in changes {
            if change.is_null() {
                map.remove(key);
            } else {
                apply(map.entry(key.as_str()).or_insert(Value::Null), change);
            }
        }
    }
    let mut status = Value::Object(object.status_json());
    apply(&mut status, &patch["status"]);
    Object { status: canonical::text(&status).into_boxed_str(), ..object.clone() }
}

/// The patch that brings the status of an object to that of another view of it, if they differ.
pub fn status_between(object: &Object, wished: &Object) -> Option<Value> {
    let (current, wished) = (object.status_json().into(), wished.status_json().into());
    let changes = difference(Some(&current), wished)?;
    status_patch(object, changes.as_object()?)
}

/// A status patch of an object, if anything changes.
pub(super) fn status_patch(object: &Object, changes: &Map<String, Value>) -> Option<Value> {
    (!changes.is_empty()).then(|| json!({ "metadata": { "uid": &*object.metadata.uid }, "status": changes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(current: &Value, wished: &Value) -> Value {
        let map = |value: &Value| value.as_object().unwrap().clone();
        Value::Object(status_difference(&map(current), map(wished)))
    }

    #[test]
    fn only_what_differs_is_written_and_what_others_wrote_stays() {
        let current = json!({
            "a": 1, "b": 2, "foreign": true, "node": { "name": "x", "old": 1 },
            "providerStatus": { "vm": "theirs", "trellis": { "host": "h", "gone": 1 } },
        });
        let wished = json!({
            "a": 1, "b": 3, "c": null, "node": { "name": "x" },
            "providerStatus": { "trellis": { "host": "h" } },
        });
        let expected =
            json!({ "b": 3, "node": { "old": null }, "providerStatus": { "trellis": { "gone": null } } });
        assert_eq!(changes(&current, &wished), expected);
        assert_eq!(changes(&json!({ "a": [1] }), &json!({ "a": [1] })), json!({}));
        assert_eq!(changes(&json!({ "a": 1 }), &json!({ "a": null })), json!({ "a": null }));
    }

    fn mk_machine(status: &Value) -> Object {
        Object::from_json(json!({ "metadata": { "name": "m", "uid": "u" }, "status": status })).unwrap()
    }

    #[test]
    fn what_is_said_in_two_steps_is_written_in_one() {
        let written = mk_machine(&json!({ "phase": "a", "gone": 1, "theirs": { "x": 1 } }));
        let first =
            with_status(&written, &json!({ "status": { "phase": "b", "gone": null, "new": { "y": 1 } } }));
        let second =
            with_status(&first, &json!({ "status": { "phase": "c", "new": { "z": 2, "y": null } } }));
        let patch = status_between(&written, &second).unwrap();
        assert_eq!(patch["status"], json!({ "phase": "c", "gone": null, "new": { "z": 2 } }));
        assert_eq!(with_status(&written, &patch), second);
        let back = with_status(&second, &json!({ "status": { "phase": "a", "gone": 1, "new": null } }));
        assert_eq!(status_between(&written, &back), None, "what came and went is not written");
    }

    #[test]
    fn progress_is_a_matter_of_words() {
        let status = |done: &str, reason: &str| {
            mk_machine(
                &json!({ "message": done, "conditions": [{ "type": "Ready", "message": done, "reason": reason }] }),
            )
        };
        let before = status("40 %", "Importing");
        assert!(differs_in_words(&before, &status("50 %", "Importing")));
        assert!(!differs_in_words(&before, &status("50 %", "Failed")));
        assert!(!differs_in_words(&before, &before), "nothing differs");
        assert!(!differs_in_words(&before, &mk_machine(&json!({ "message": "40 %" }))));
    }
}

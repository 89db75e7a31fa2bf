//! Reading and changing objects as plain JSON.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::kinds::Kind;

/// The place of an object within its kind; the namespace is empty for kinds without one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// The key of an object in a namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The key of an object of the cluster.
    pub fn cluster(name: &str) -> Self {
        Self::new("", name)
    }

    /// The key of an object.
    pub fn of(object: &Value) -> Self {
        Self::new(object.namespace(), object.name())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            formatter.write_str(&self.name)
        } else {
            write!(formatter, "{}/{}", self.namespace, self.name)
        }
    }
}

/// What every step on JSON needs. Nothing here fails: what is not there reads as empty.
pub trait Object {
    /// `metadata.name`.
    fn name(&self) -> &str;
    /// `metadata.namespace`.
    fn namespace(&self) -> &str;
    /// `metadata.uid`.
    fn uid(&self) -> &str;
    /// `metadata.resourceVersion` as a number; 0 if there is none.
    fn version(&self) -> u64;
    /// `metadata.generation`.
    fn generation(&self) -> i64;
    /// The value at a JSON pointer, or null.
    fn at(&self, pointer: &str) -> &Value;
    /// The text at a JSON pointer, or nothing.
    fn text(&self, pointer: &str) -> &str;
    /// The whole number at a JSON pointer.
    fn number(&self, pointer: &str) -> Option<i64>;
    /// True when there is a `true` at a JSON pointer.
    fn flag(&self, pointer: &str) -> bool;
    /// The elements of the list at a JSON pointer.
    fn list(&self, pointer: &str) -> &[Value];
    /// A label, or nothing.
    fn label(&self, name: &str) -> &str;
    /// An annotation, or nothing.
    fn annotation(&self, name: &str) -> &str;
    /// Whether the object is being deleted.
    fn is_deleting(&self) -> bool;
    /// Whether the object has come to its end, well or badly: a pod, an instance, a migration.
    fn is_over(&self) -> bool;
    /// Whether a finalizer is there.
    fn has_finalizer(&self, name: &str) -> bool;
    /// The owner that controls the object: an entry of `metadata.ownerReferences`.
    fn controller(&self) -> Option<&Value>;
    /// Whether the object is controlled by the one with this uid.
    fn is_controlled_by(&self, uid: &str) -> bool;
    /// The condition of a type, or null.
    fn condition(&self, kind: &str) -> &Value;
    /// Whether the condition of a type is `True`.
    fn condition_holds(&self, kind: &str) -> bool;

    /// Sets the value at a JSON pointer; objects on the way are made where they are missing.
    fn set(&mut self, pointer: &str, value: Value);
    /// Removes what is at a JSON pointer.
    fn unset(&mut self, pointer: &str);
    /// Sets a label.
    fn set_label(&mut self, name: &str, value: &str);
    /// Sets an annotation.
    fn set_annotation(&mut self, name: &str, value: &str);
    /// Adds a finalizer; false if it was there.
    fn add_finalizer(&mut self, name: &str) -> bool;
    /// Removes a finalizer; false if it was not there.
    fn remove_finalizer(&mut self, name: &str) -> bool;
}

impl Object for Value {
    fn name(&self) -> &str {
        self["metadata"]["name"].as_str().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    fn uid(&self) -> &str {
        self["metadata"]["uid"].as_str().unwrap_or_default()
    }

    fn version(&self) -> u64 {
        self["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    fn generation(&self) -> i64 {
        self["metadata"]["generation"].as_i64().unwrap_or_default()
    }

    fn at(&self, pointer: &str) -> &Value {
        self.pointer(pointer).unwrap_or(&Value::Null)
    }

    fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    fn number(&self, pointer: &str) -> Option<i64> {
        self.at(pointer).as_i64()
    }

    fn flag(&self, pointer: &str) -> bool {
        self.at(pointer).as_bool().unwrap_or_default()
    }

    fn list(&self, pointer: &str) -> &[Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }

    fn label(&self, name: &str) -> &str {
        self["metadata"]["labels"][name].as_str().unwrap_or_default()
    }

    fn annotation(&self, name: &str) -> &str {
        self["metadata"]["annotations"][name].as_str().unwrap_or_default()
    }

    fn is_deleting(&self) -> bool {
        self["metadata"]["deletionTimestamp"].is_string()
    }

    fn is_over(&self) -> bool {
        matches!(self.text("/status/phase"), "Succeeded" | "Failed")
    }

    fn has_finalizer(&self, name: &str) -> bool {
        self.list("/metadata/finalizers").iter().any(|one| one == name)
    }

    fn controller(&self) -> Option<&Value> {
        self.list("/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true)
    }

    fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| owner["uid"] == uid)
    }

    fn condition(&self, kind: &str) -> &Value {
        self.list("/status/conditions").iter().find(|one| one["type"] == kind).unwrap_or(&Value::Null)
    }

    fn condition_holds(&self, kind: &str) -> bool {
        self.condition(kind)["status"] == "True"
    }

    fn set(&mut self, pointer: &str, value: Value) {
        let mut place = self;
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let is_index = place.is_array();
            if is_index {
                let Some(next) = step.parse().ok().and_then(|index: usize| place.get_mut(index)) else {
                    return;
                };
                place = next;
                continue;
            }
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            place = &mut place[step.as_str()];
        }
        *place = value;
    }

    fn unset(&mut self, pointer: &str) {
        let Some((parent, last)) = pointer.rsplit_once('/') else { return };
        let last = last.replace("~1", "/").replace("~0", "~");
        if let Some(parent) = self.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.remove(&last);
        }
    }

    fn set_label(&mut self, name: &str, value: &str) {
        self.set(&format!("/metadata/labels/{}", escaped(name)), value.into());
    }

    fn set_annotation(&mut self, name: &str, value: &str) {
        self.set(&format!("/metadata/annotations/{}", escaped(name)), value.into());
    }

    fn add_finalizer(&mut self, name: &str) -> bool {
        if self.has_finalizer(name) {
            return false;
        }
        match self.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
            Some(list) => list.push(name.into()),
            None => self.set("/metadata/finalizers", json!([name])),
        }
        true
    }

    fn remove_finalizer(&mut self, name: &str) -> bool {
        let Some(list) = self.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) else {
            return false;
        };
        let before = list.len();
        list.retain(|one| one != name);
        list.len() != before
    }
}

/// A name as one step of a JSON pointer.
pub fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// An owner reference to an object that controls its dependant.
pub fn owned_by(kind: &Kind, owner: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(), "kind": kind.kind, "name": owner.name(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// A condition to be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition<'a> {
    /// The type.
    pub kind: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// The reason, in one word; may be empty.
    pub reason: &'a str,
    /// The message; may be empty.
    pub message: &'a str,
}

impl<'a> Condition<'a> {
    /// A condition that holds or not.
    pub fn new(kind: &'a str, holds: bool, reason: &'a str, message: &'a str) -> Self {
        Self { kind, status: if holds { "True" } else { "False" }, reason, message }
    }

    /// Puts the condition into `status.conditions`; the transition time changes only with the status. True if
    /// anything changed. Conditions of KubeVirt's own objects have a time of the last probe, which is null as a rule.
    pub fn put(&self, object: &mut Value, now: &str) -> bool {
        let mut new = json!({"type": self.kind, "status": self.status, "lastTransitionTime": now});
        let has_probe_time = object.text("/apiVersion").starts_with("kubevirt.io/");
        if has_probe_time {
            new["lastProbeTime"] = Value::Null;
        }
        for (name, text) in [("reason", self.reason), ("message", self.message)] {
            if !text.is_empty() {
                new[name] = text.into();
            }
        }
        if !object["status"]["conditions"].is_array() {
            object.set("/status/conditions", json!([]));
        }
        let Some(list) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) else {
            return false;
        };
        match list.iter_mut().find(|one| one["type"] == self.kind) {
            None => {
                list.push(new);
                true
            }
            Some(old) => {
                if old["status"] == new["status"] {
                    new["lastTransitionTime"] = old["lastTransitionTime"].clone();
                }
                // Whatever else is in the old one, such as a probe time, stays.
                let mut merged = old.clone();
                if has_probe_time && merged.get("lastProbeTime").is_none() {
                    merged["lastProbeTime"] = Value::Null;
                }
                for name in ["status", "lastTransitionTime", "reason", "message"] {
                    match new.get(name) {
                        Some(value) => merged[name] = value.clone(),
                        None => merged.unset(&format!("/{name}")),
                    }
                }
                let changed = merged != *old;
                *old = merged;
                changed
            }
        }
    }
}

/// Removes the condition of a type from `status.conditions`; false if it was not there.
pub fn drop_condition(object: &mut Value, kind: &str) -> bool {
    let Some(list) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) else {
        return false;
    };
    let before = list.len();
    list.retain(|one| one["type"] != kind);
    list.len() != before
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_reads_as_empty() {
        let object = json!({"metadata": {"name": "a"}});
        assert_eq!((object.name(), object.namespace(), object.version()), ("a", "", 0));
        assert_eq!(object.text("/spec/nodeName"), "");
        assert!(object.list("/spec/volumes").is_empty());
        assert!(!object.condition_holds("Ready"));
    }

    #[test]
    fn paths_are_made_on_the_way() {
        let mut object = json!({"list": [{"a": 1}]});
        object.set("/status/phase", "Running".into());
        object.set("/list/0/a", 2.into());
        object.set_label("kubevirt.io/nodeName", "n");
        assert_eq!(object["status"]["phase"], "Running");
        assert_eq!(object["list"][0]["a"], 2);
        assert_eq!(object.label("kubevirt.io/nodeName"), "n");
        object.unset("/metadata/labels/kubevirt.io~1nodeName");
        assert_eq!(object.label("kubevirt.io/nodeName"), "");
    }

    #[test]
    fn the_transition_time_changes_with_the_status_only() {
        let mut object = json!({});
        assert!(Condition::new("Ready", false, "A", "").put(&mut object, "1"));
        assert!(Condition::new("Ready", false, "B", "words").put(&mut object, "2"));
        assert_eq!(object.condition("Ready")["lastTransitionTime"], "1");
        assert!(Condition::new("Ready", true, "", "").put(&mut object, "3"));
        assert_eq!(
            object.condition("Ready"),
            &json!({"type": "Ready", "status": "True", "lastTransitionTime": "3"})
        );
        assert!(!Condition::new("Ready", true, "", "").put(&mut object, "4"));
        assert!(drop_condition(&mut object, "Ready"));
    }

    #[test]
    fn finalizers_come_and_go_once() {
        let mut object = json!({});
        assert!(object.add_finalizer("a") && !object.add_finalizer("a"));
        assert!(object.remove_finalizer("a") && !object.remove_finalizer("a"));
    }
}

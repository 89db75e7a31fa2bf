//! Lists and objects as tables, the way `kubectl get` shows them.
//!
//! The columns and the words in the cells are those of the real server. Rows have a cell for every column, also
//! for those that only the wide form shows.

mod columns;
mod human;
mod machinery;
mod network;
mod pods;
mod storage;
#[cfg(test)]
mod tests;
mod text;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) use self::human::human_duration;
use crate::names::Gvk;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    /// The heading.
    pub name: String,
    /// The OpenAPI type of the cells: `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// The OpenAPI format of the cells, such as `name`; often empty.
    pub format: String,
    /// What the column is about.
    pub description: String,
    /// 0 for columns that are always shown, more for those only the wide form has.
    pub priority: i32,
}

impl Column {
    /// An entry of `columnDefinitions`.
    pub(crate) fn to_value(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format, "description": self.description,
            "priority": self.priority,
        })
    }
}

/// The columns of a built-in kind.
pub(crate) fn columns(kind: &Gvk) -> Vec<Column> {
    columns::parse(columns::written(&kind.group, &kind.kind))
}

/// The cells of one object. Kinds with several versions show more when the object is in the stored version.
pub(crate) fn row(kind: &Gvk, object: &Value, now: Timestamp) -> Vec<Value> {
    let of = Object { object, now };
    let name = kind.kind.as_str();
    match kind.group.as_str() {
        "" => match name {
            "Pod" => Some(pods::pod(of)),
            "PodTemplate" | "ReplicationController" => workloads::cells(name, of),
            "Service" | "Endpoints" => network::cells(name, of),
            "PersistentVolume" | "PersistentVolumeClaim" => storage::cells(name, of),
            _ => machinery::cells(name, of),
        },
        "apps" | "batch" | "policy" | "autoscaling" => workloads::cells(name, of),
        "networking.k8s.io" | "discovery.k8s.io" => network::cells(name, of),
        "storage.k8s.io" | "resource.k8s.io" => storage::cells(name, of),
        _ => machinery::cells(name, of),
    }
    .unwrap_or_else(|| vec![of.name(), of.created_at()])
}

/// The cells of the objects of a list.
pub(crate) fn rows(kind: &Gvk, objects: &[&Value], now: Timestamp) -> Vec<Vec<Value>> {
    let mut rows: Vec<Vec<Value>> = objects.iter().map(|object| row(kind, object, now)).collect();
    if kind.kind == "StorageClass"
        && kind.group == "storage.k8s.io"
        && let Some(place) = storage::default_class(objects)
        && let Some(Value::String(name)) = rows[place].first_mut()
    {
        // Which class is the default can be told only among all of them.
        name.push_str(" (default)");
    }
    rows
}

/// The `conditions` of a row: Pods that have ended are marked, so that clients can hide them.
pub(crate) fn conditions(kind: &Gvk, object: &Value) -> Vec<Value> {
    if kind.kind != "Pod" || !kind.group.is_empty() {
        return Vec::new();
    }
    let phase = object["status"]["phase"].as_str().unwrap_or_default();
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": phase, "message": message})]
}

/// The cells of a `Status`.
pub(crate) fn status_row(status: &Value) -> Vec<Value> {
    ["status", "reason", "message"].map(|key| status[key].as_str().unwrap_or_default().into()).into()
}

/// An object that is shown, and when.
#[derive(Debug, Clone, Copy)]
struct Object<'a> {
    object: &'a Value,
    now: Timestamp,
}

impl<'a> Object<'a> {
    /// What is at a place, such as `/spec/nodeName`; null when nothing is.
    fn at(self, pointer: &str) -> &'a Value {
        self.object.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// The text at a place; empty when there is none.
    fn text(self, pointer: &str) -> &'a str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    /// The text at a place, or other words when there is none.
    fn text_or(self, pointer: &str, otherwise: &'a str) -> &'a str {
        match self.text(pointer) {
            "" => otherwise,
            text => text,
        }
    }

    /// The whole number at a place; 0 when there is none.
    fn number(self, pointer: &str) -> i64 {
        self.at(pointer).as_i64().unwrap_or_default()
    }

    /// True when that is at a place.
    fn flag(self, pointer: &str) -> bool {
        self.at(pointer) == true
    }

    /// The list at a place; empty when there is none.
    fn list(self, pointer: &str) -> &'a [Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }

    /// How many entries the list or map at a place has.
    fn count(self, pointer: &str) -> usize {
        match self.at(pointer) {
            Value::Array(list) => list.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        }
    }

    fn name(self) -> Value {
        self.text("/metadata/name").into()
    }

    /// How long ago the moment at a place is.
    fn since(self, pointer: &str) -> String {
        human::since(self.text(pointer), self.now)
    }

    /// The age of the object.
    fn age(self) -> Value {
        self.since("/metadata/creationTimestamp").into()
    }

    /// When the object was created, for columns of type `date`.
    fn created_at(self) -> Value {
        self.text_or("/metadata/creationTimestamp", "0001-01-01T00:00:00Z").into()
    }

    /// True when somebody wants it deleted.
    fn is_going(self) -> bool {
        !self.at("/metadata/deletionTimestamp").is_null()
    }

    /// The `status` of the condition of this type.
    fn condition(self, kind: &str) -> Option<&'a Value> {
        self.list("/status/conditions").iter().find(|condition| condition["type"] == kind)
    }
}

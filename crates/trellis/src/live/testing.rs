//! Objects for the tests of this module.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_engine::families::{Family, Object};

use super::find::{Kind, Sort, Thing};

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn kind(family: &'static Family, sort: Sort) -> Kind {
    Kind::all(None, &[sort]).into_iter().find(|kind| kind.family == family).unwrap()
}

/// A thing whose uid is its name, made at the beginning of 2026 in generation 1 and namespace `n`.
pub(crate) fn thing(kind: Kind, name: &str, owner: Option<&str>, spec: Value, status: Value) -> Thing {
    let owners: Vec<Value> = owner
        .map(|owner| json!({"kind": "X", "name": owner, "uid": owner, "controller": true}))
        .into_iter()
        .collect();
    let mut object = json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": name, "ownerReferences": owners, "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
    });
    object["spec"] = spec;
    object["status"] = status;
    Thing { kind, object: Arc::new(Object::from_json(object).unwrap()) }
}

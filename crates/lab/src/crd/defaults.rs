//! The defaults of a schema: bringing them into shape, and checking them when a definition is written.

use serde_json::{Map, Value};

use super::{
    metadata::{self, Malformed},
    path::Path,
    schema::{Additional, Schema},
    shape::{self, Unknown},
};

/// A step from the root of an object to a default.
#[derive(Debug, Clone)]
pub(crate) enum Segment {
    Field(String),
    Index,
}

/// Puts a value at the end of a chain of steps.
pub(crate) fn surround(value: Value, segments: &[Segment]) -> Value {
    segments.iter().rev().fold(value, |inner, segment| match segment {
        Segment::Index => Value::Array(vec![inner]),
        Segment::Field(name) => {
            let mut fields = Map::new();
            fields.insert(name.clone(), inner);
            Value::Object(fields)
        }
    })
}

/// Takes the value at the end of a chain of steps out again, if it is still there.
fn extract(value: Value, segments: &[Segment]) -> Option<Value> {
    segments.iter().try_fold(value, |outer, segment| match (segment, outer) {
        (Segment::Field(name), Value::Object(mut fields)) => fields.remove(name),
        (Segment::Index, Value::Array(items)) => items.into_iter().next(),
        _ => None,
    })
}

/// Drops from the defaults of a schema what it does not know, including unknown metadata of embedded resources.
pub(crate) fn prune(schema: &mut Schema) {
    if !schema.below.defaults {
        return;
    }
    let whole = schema.clone();
    prune_below(schema, &whole, &mut Vec::new());
}

fn prune_below(schema: &mut Schema, whole: &Schema, segments: &mut Vec<Segment>) {
    if !schema.below.defaults {
        return;
    }
    if let Some(default) = schema.default.take() {
        let mut object = surround(default, segments);
        let mut nobody = None;
        // Malformed parts are dropped, so there is no failure.
        let _ =
            metadata::coerce_embedded(&mut object, whole, true, Malformed::Drop, &Path::Root, &mut nobody);
        shape::prune(&mut object, Some(whole), true, &mut Unknown::new(false));
        schema.default = extract(object, segments).filter(|default| !default.is_null());
    }
    if let Some(Additional::Schema(below)) = &mut schema.additional {
        segments.push(Segment::Field("*".to_owned()));
        prune_below(below, whole, segments);
        segments.pop();
    }
    if let Some(items) = &mut schema.items {
        segments.push(Segment::Index);
        prune_below(items, whole, segments);
        segments.pop();
    }
    for (name, property) in &mut schema.properties {
        segments.push(Segment::Field(name.clone()));
        prune_below(property, whole, segments);
        segments.pop();
    }
}

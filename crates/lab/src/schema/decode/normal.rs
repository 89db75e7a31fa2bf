//! The form in which a typed server writes objects: what is always there is there, what is left out when empty
//! is left out.

use serde_json::{Map, Value};

use crate::schema::{Field, Instead, Omit, Shape, TypeRef};

/// Brings a value into the form a typed server writes. Values that do not fit the type stay as they are.
pub fn normalise(of: TypeRef<'_>, value: &mut Value) {
    match (of.shape(), value) {
        (Shape::Object { fields, .. }, Value::Object(object)) => {
            for field in fields {
                if let Some(value) = object.get_mut(&field.name) {
                    normalise(of.at(field.of), value);
                    if value.is_null() && field.omit == Omit::Missing {
                        object.remove(&field.name);
                    }
                }
            }
            complete(of, fields, object);
        }
        (Shape::Map { values, .. }, Value::Object(map)) => {
            for value in map.values_mut() {
                normalise(of.at(*values), value);
            }
        }
        (Shape::List { items, .. }, Value::Array(list)) => {
            for value in list {
                normalise(of.at(*items), value);
            }
        }
        (Shape::SchemaOr { schema, .. }, value @ Value::Object(_)) => normalise(of.at(*schema), value),
        (Shape::SchemaOr { schema, instead: Instead::List }, Value::Array(list)) => {
            for value in list {
                normalise(of.at(*schema), value);
            }
        }
        _ => {}
    }
}

/// Writes the fields of an object that are always written, and drops those that are left out.
pub(super) fn complete(of: TypeRef<'_>, fields: &[Field], object: &mut Map<String, Value>) {
    for field in fields.iter().filter(|field| field.omit == Omit::Zero) {
        if object.get(&field.name).is_some_and(is_zero) {
            object.remove(&field.name);
        }
    }
    fill(of, fields, object);
}

/// Writes the fields of an object that are always written.
pub(super) fn fill(of: TypeRef<'_>, fields: &[Field], object: &mut Map<String, Value>) {
    for field in fields {
        let zero = match field.omit {
            Omit::Zero | Omit::Missing => continue,
            Omit::Null if object.contains_key(&field.name) => continue,
            Omit::Null => Value::Null,
            Omit::Never => match object.get(&field.name) {
                // Lists and maps are the same whether empty or missing: storage does not tell.
                Some(value) if !(value.is_null() || is_empty(value) && is_collection(of.at(field.of))) => {
                    continue;
                }
                _ => zero(of.at(field.of)),
            },
        };
        object.insert(field.name.clone(), zero);
    }
}

/// What is written for a field that is always written and was not set.
pub(super) fn zero(of: TypeRef<'_>) -> Value {
    match of.shape() {
        Shape::String => Value::String(String::new()),
        Shape::Boolean | Shape::SchemaOr { instead: Instead::Boolean, .. } => Value::Bool(false),
        Shape::Integer(_) | Shape::Number | Shape::IntOrString => 0.into(),
        Shape::Quantity => Value::String("0".to_owned()),
        Shape::Duration => Value::String("0s".to_owned()),
        Shape::Time
        | Shape::MicroTime
        | Shape::Bytes
        | Shape::Any(_)
        | Shape::SchemaOr { .. }
        | Shape::Map { .. }
        | Shape::List { .. } => Value::Null,
        Shape::Object { fields, .. } => {
            let mut object = Map::new();
            complete(of, fields, &mut object);
            Value::Object(object)
        }
    }
}

/// What a key of a map has when its value was not set: storage knows no missing bytes or messages there.
pub(super) fn zero_in_map(of: TypeRef<'_>) -> Value {
    match of.shape() {
        Shape::Bytes => Value::String(String::new()),
        Shape::List { .. } if of.facts().is_some_and(|facts| facts.message) => Value::Array(Vec::new()),
        _ => zero(of),
    }
}

fn is_collection(of: TypeRef<'_>) -> bool {
    matches!(of.shape(), Shape::Map { .. } | Shape::List { .. })
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

pub(super) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        other => is_empty(other),
    }
}

//! The object of a kind before anybody wrote to it.

use serde_json::{Map, Value};

use crate::schema::{Omit, Shape, TypeRef};

/// Structures that contain each other without a pointer in between do not exist; this bounds mistakes.
const DEEPEST: usize = 32;

/// The value a typed server has for an object of which nothing was set: structures that are always there, with
/// the fields that are always written.
pub(super) fn empty(of: TypeRef<'_>) -> Value {
    zero(of, DEEPEST)
}

fn zero(of: TypeRef<'_>, depth: usize) -> Value {
    match of.shape() {
        Shape::Object { .. } if depth == 0 => Value::Object(Map::new()),
        Shape::Object { fields, .. } => {
            let mut object = Map::new();
            for field in fields {
                let inner = of.at(field.of);
                let value = match field.omit {
                    Omit::Never => zero(inner, depth - 1),
                    Omit::Zero if matches!(inner.shape(), Shape::Object { .. }) => zero(inner, depth - 1),
                    Omit::Null => Value::Null,
                    Omit::Zero | Omit::Missing => continue,
                };
                object.insert(field.name.clone(), value);
            }
            Value::Object(object)
        }
        Shape::String => "".into(),
        Shape::Boolean => false.into(),
        Shape::Integer(_) | Shape::Number | Shape::IntOrString => 0.into(),
        Shape::Quantity => "0".into(),
        Shape::Duration => "0s".into(),
        Shape::Time
        | Shape::MicroTime
        | Shape::Bytes
        | Shape::Any(_)
        | Shape::SchemaOr { .. }
        | Shape::Map { .. }
        | Shape::List { .. } => Value::Null,
    }
}

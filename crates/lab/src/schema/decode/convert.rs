//! Bringing a value, such as the result of a strategic merge, into the form of a type.
//!
//! The API does this without going through text, and has other words for what is wrong.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::typed::Decoder;
use super::words::go_type;
use super::{Decoded, bytes, normal};
use crate::schema::{Shape, TypeRef, Width};

/// Converts a value; unknown fields are dropped and told, sorted. The failure is the message.
pub(super) fn convert(of: TypeRef<'_>, value: Value) -> Result<Decoded, String> {
    let mut converter = Converter { path: String::new(), problems: Vec::new() };
    let value = converter.value(of, value)?;
    converter.problems.sort();
    Ok(Decoded { value, problems: converter.problems })
}

struct Converter {
    path: String,
    problems: Vec<String>,
}

impl Converter {
    fn value(&mut self, of: TypeRef<'_>, value: Value) -> Result<Value, String> {
        if value.is_null() {
            return Ok(normal::zero(of));
        }
        match (of.shape(), value) {
            (Shape::Object { fields, .. }, Value::Object(mut from)) => {
                let mut object = Map::new();
                let length = self.path.len();
                for field in fields {
                    let Some(value) = from.remove(&field.name).filter(|value| !value.is_null()) else {
                        continue;
                    };
                    self.step(&field.name);
                    let value = self.value(of.at(field.of), value)?;
                    self.path.truncate(length);
                    object.insert(field.name.clone(), value);
                }
                for unknown in from.keys() {
                    self.step(unknown);
                    self.problems.push(format!("unknown field \"{}\"", self.path));
                    self.path.truncate(length);
                }
                normal::complete(of, fields, &mut object);
                Ok(Value::Object(object))
            }
            (Shape::Object { .. }, other) => Err(format!("cannot restore struct from: {}", kind(&other))),
            (Shape::Map { values, .. }, Value::Object(from)) => {
                let mut map = Map::new();
                for (key, value) in from {
                    let value = match value {
                        Value::Null => normal::zero_in_map(of.at(*values)),
                        value => self.value(of.at(*values), value)?,
                    };
                    map.insert(key, value);
                }
                Ok(Value::Object(map))
            }
            (Shape::Map { .. }, other) => Err(format!("cannot restore map from {}", kind(&other))),
            (Shape::List { items, .. }, Value::Array(from)) => {
                let mut list = Vec::with_capacity(from.len());
                let length = self.path.len();
                for (index, value) in from.into_iter().enumerate() {
                    let _ = write!(self.path, "[{index}]");
                    list.push(self.value(of.at(*items), value)?);
                    self.path.truncate(length);
                }
                Ok(Value::Array(list))
            }
            (Shape::List { .. }, other) => Err(format!("cannot restore slice from {}", kind(&other))),
            (Shape::Bytes, Value::String(text)) => match bytes::decode(&text) {
                Ok(decoded) => Ok(Value::String(bytes::encode(&decoded))),
                Err(problem) => Err(format!("error decoding from json: {problem}")),
            },
            (Shape::Bytes, other) if !other.is_array() => {
                Err(format!("cannot restore slice from {}", kind(&other)))
            }
            (Shape::String | Shape::Boolean | Shape::Integer(_) | Shape::Number | Shape::Duration, value) => {
                simple(of, value)
            }
            // Types with a notation of their own read it themselves.
            (_, value) => Decoder::new(&value.to_string()).typed(of),
        }
    }

    fn step(&mut self, name: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
    }
}

fn simple(of: TypeRef<'_>, value: Value) -> Result<Value, String> {
    let cannot = |from: &str| Err(format!("cannot convert {from} to {}", go_type(of)));
    let unrecognized = |kind: &str| Err(format!("unrecognized type: {kind}"));
    match (of.shape(), value) {
        (Shape::String | Shape::Duration, value @ Value::String(_))
        | (Shape::Boolean, value @ Value::Bool(_))
        | (Shape::Number, value @ Value::Number(_)) => Ok(value),
        (Shape::String | Shape::Duration, Value::Number(number)) if !number.is_f64() => cannot("int64"),
        (Shape::String | Shape::Duration, _) => unrecognized("string"),
        (Shape::Boolean, _) => unrecognized("bool"),
        (Shape::Number, _) => unrecognized("float64"),
        (Shape::Integer(Width::W64), Value::Number(number)) => match number.as_i64() {
            Some(whole) => Ok(whole.into()),
            None => cannot("float64"),
        },
        (Shape::Integer(Width::W32), Value::Number(number)) => match number.as_i64() {
            // What does not fit is cut off, without a word.
            #[expect(clippy::cast_possible_truncation, reason = "see above")]
            Some(whole) => Ok((whole as i32).into()),
            None => cannot("float64"),
        },
        (Shape::Integer(Width::W32), _) => unrecognized("int32"),
        _ => unrecognized("int64"),
    }
}

/// The kind of a value in Go.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

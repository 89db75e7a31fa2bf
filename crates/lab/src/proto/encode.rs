//! From JSON to protobuf.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::decode::is_message;
use super::wire::{put_bytes, put_fixed64, put_message, put_number};
use super::{MAGIC, time};
use crate::schema::{Embedding, Field, Instead, Omit, Shape, TypeRef};

/// A whole body: the envelope, and in it the object, whose `apiVersion` and `kind` go into the envelope.
pub(crate) fn encode(value: &Value, of: TypeRef<'_>) -> Vec<u8> {
    enveloped(
        value["apiVersion"].as_str().unwrap_or_default(),
        value["kind"].as_str().unwrap_or_default(),
        &encode_message(value, of),
    )
}

/// A message in the envelope.
pub(crate) fn enveloped(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + api_version.len() + kind.len() + 24);
    out.extend_from_slice(&MAGIC);
    put_message(&mut out, 1, |out| {
        put_bytes(out, 1, api_version.as_bytes());
        put_bytes(out, 2, kind.as_bytes());
    });
    put_bytes(&mut out, 2, message);
    put_bytes(&mut out, 3, b"");
    put_bytes(&mut out, 4, b"");
    out
}

/// An object without the envelope, as it is an item of a list.
pub(crate) fn encode_message(value: &Value, of: TypeRef<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    put_object(&mut out, value.as_object(), of);
    out
}

/// A frame of a watch: `object` is a whole body.
pub(crate) fn watch_event(event_type: &str, object: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(object.len() + event_type.len() + 24);
    event.extend_from_slice(&[0; 4]);
    put_bytes(&mut event, 1, event_type.as_bytes());
    put_message(&mut event, 2, |out| put_bytes(out, 1, object));
    let length = u32::try_from(event.len() - 4).unwrap_or(u32::MAX);
    event[..4].copy_from_slice(&length.to_be_bytes());
    event
}

/// Writes the fields of an object in the order of their numbers. Without a value all that is always written is.
fn put_object(out: &mut Vec<u8>, value: Option<&Map<String, Value>>, of: TypeRef<'_>) {
    let Shape::Object { fields, .. } = of.shape() else { return };
    let mut ordered: Vec<([u32; 3], &Field)> = fields
        .iter()
        .filter_map(|field| {
            let proto = field.proto?;
            let path = match proto.within {
                [0, _] => [proto.number, 0, 0],
                [outer, 0] => [outer, proto.number, 0],
                [outer, inner] => [outer, inner, proto.number],
            };
            Some((path, field))
        })
        .collect();
    ordered.sort_unstable_by_key(|(path, _)| *path);
    put_level(out, &ordered, 0, value, of);
}

/// Writes fields that share the first `level` numbers of their paths.
fn put_level(
    out: &mut Vec<u8>,
    fields: &[([u32; 3], &Field)],
    level: usize,
    value: Option<&Map<String, Value>>,
    of: TypeRef<'_>,
) {
    for group in fields.chunk_by(|(left, _), (right, _)| left[level] == right[level]) {
        let (path, field) = &group[0];
        // A field that is not the last of its path is an embedded structure, which is always written.
        if level < 2 && path[level + 1] != 0 {
            put_message(out, path[level], |out| put_level(out, group, level + 1, value, of));
        } else {
            let given = value.and_then(|value| value.get(&field.name)).filter(|given| !given.is_null());
            put_field(out, path[level], given, field, of.at(field.of));
        }
    }
}

fn put_field(out: &mut Vec<u8>, number: u32, given: Option<&Value>, field: &Field, of: TypeRef<'_>) {
    match (of.shape(), given) {
        (Shape::List { .. }, Some(_)) if is_message(of) => put_value(out, number, given, of),
        (Shape::List { items, .. }, Some(Value::Array(list))) => {
            for item in list {
                put_value(out, number, Some(item), of.at(*items));
            }
        }
        (Shape::Map { values, .. }, Some(Value::Object(map))) => {
            put_entries(out, number, map, of.at(*values));
        }
        // An empty list, map or text of bytes is not written, and neither is a pointer to nothing.
        (Shape::List { .. } | Shape::Map { .. }, _) | (Shape::Bytes, None) => {}
        (_, None) if matches!(field.omit, Omit::Missing | Omit::Null) => {}
        _ => put_value(out, number, given, of),
    }
}

fn put_entries(out: &mut Vec<u8>, number: u32, map: &Map<String, Value>, values: TypeRef<'_>) {
    for (key, value) in map {
        put_message(out, number, |out| {
            put_bytes(out, 1, key.as_bytes());
            put_value(out, 2, Some(value), values);
        });
    }
}

/// Writes one value, the zero value where there is none.
fn put_value(out: &mut Vec<u8>, number: u32, given: Option<&Value>, of: TypeRef<'_>) {
    let text = || given.and_then(Value::as_str).unwrap_or_default();
    match of.shape() {
        Shape::String => put_bytes(out, number, text().as_bytes()),
        Shape::Boolean => put_number(out, number, given.and_then(Value::as_bool).unwrap_or(false).into()),
        Shape::Integer(_) => put_number(out, number, whole(given)),
        Shape::Number => {
            put_fixed64(out, number, given.and_then(Value::as_f64).unwrap_or_default().to_bits());
        }
        Shape::Bytes => put_bytes(out, number, &STANDARD.decode(text()).unwrap_or_default()),
        Shape::IntOrString => put_message(out, number, |out| {
            put_number(out, 1, given.is_some_and(Value::is_string).into());
            put_number(out, 2, whole(given));
            put_bytes(out, 3, text().as_bytes());
        }),
        Shape::Quantity => put_message(out, number, |out| match given {
            Some(Value::Number(amount)) => put_bytes(out, 1, amount.to_string().as_bytes()),
            Some(Value::String(amount)) => put_bytes(out, 1, amount.as_bytes()),
            _ => put_bytes(out, 1, b"0"),
        }),
        Shape::Time | Shape::MicroTime => put_message(out, number, |out| {
            if let Some((seconds, nanos)) = time::seconds_and_nanos(text()) {
                let nanos = if matches!(of.shape(), Shape::Time) { 0 } else { nanos };
                put_number(out, 1, seconds.cast_unsigned());
                put_number(out, 2, i64::from(nanos).cast_unsigned());
            }
        }),
        Shape::Duration => put_message(out, number, |out| {
            put_number(out, 1, time::duration_nanos(text()).unwrap_or_default().cast_unsigned());
        }),
        Shape::Any(Embedding::None) => {}
        Shape::Any(_) => put_message(out, number, |out| {
            if let Some(given) = given {
                put_bytes(out, 1, given.to_string().as_bytes());
            }
        }),
        Shape::SchemaOr { schema, instead } => put_message(out, number, |out| {
            put_schema_or(out, given.unwrap_or(&Value::Null), of.at(*schema), *instead);
        }),
        Shape::Object { .. } => {
            put_message(out, number, |out| put_object(out, given.and_then(Value::as_object), of));
        }
        // A list or a map in a list or a map is a message of its own.
        Shape::List { items, .. } => put_message(out, number, |out| {
            for item in given.and_then(Value::as_array).into_iter().flatten() {
                put_value(out, 1, Some(item), of.at(*items));
            }
        }),
        Shape::Map { values, .. } => put_message(out, number, |out| {
            if let Some(map) = given.and_then(Value::as_object) {
                put_entries(out, 1, map, of.at(*values));
            }
        }),
    }
}

fn put_schema_or(out: &mut Vec<u8>, value: &Value, schema: TypeRef<'_>, instead: Instead) {
    match (instead, value) {
        (Instead::Boolean, Value::Object(_)) => {
            put_number(out, 1, 1);
            put_value(out, 2, Some(value), schema);
        }
        (Instead::Boolean, _) => put_number(out, 1, (value == true).into()),
        (_, Value::Object(_)) => put_value(out, 1, Some(value), schema),
        (Instead::List, Value::Array(schemas)) => {
            for one in schemas {
                put_value(out, 2, Some(one), schema);
            }
        }
        (Instead::Texts, Value::Array(texts)) => {
            for one in texts {
                put_bytes(out, 2, one.as_str().unwrap_or_default().as_bytes());
            }
        }
        _ => {}
    }
}

/// A whole number as a varint; negative ones take the form of 64 bits.
fn whole(given: Option<&Value>) -> u64 {
    given.and_then(Value::as_i64).unwrap_or_default().cast_unsigned()
}

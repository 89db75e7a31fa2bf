//! The body of a request, as an object.

use std::sync::atomic::Ordering;

use serde_json::Value;

use super::Call;
use super::negotiate::{self, Format};
use super::strategy;
use crate::names::Gvk;
use crate::proto;
use crate::registry::Served;
use crate::schema::builtin;
use crate::schema::decode::{self, Expected, FieldValidation, Media};
use crate::status::Status;

/// Where managed fields are.
const MANAGERS: &str = "/metadata/managedFields";
/// Where the labels of what a workload makes are.
pub(crate) const TEMPLATE_LABELS: &str = "/spec/template/metadata/labels";

/// The object a write sends, in the form of its kind, with its defaults.
pub(crate) fn object(call: &Call, served: &Served, validation: FieldValidation) -> Result<Value, Status> {
    let expected = Expected { kind: &served.kind, accepts: |_, _| false };
    let media = match negotiate::input(&call.headers)? {
        Format::Json => Media::Json,
        Format::Yaml => Media::Yaml,
        Format::Protobuf => {
            if served.custom_version().is_some() {
                return Err(negotiate::unsupported_body());
            }
            let value = from_protobuf(call, &served.kind)?;
            return strategy::complete(call, served, value, Vec::new(), validation);
        }
    };
    if served.custom_version().is_some() {
        let body = decode::read_custom(&call.body, media, expected, validation)?;
        return strategy::complete(call, served, body.value, body.problems, validation);
    }
    let body = decode::read_builtin(&call.body, media, expected, validation)?;
    call.warn_all(body.warnings());
    let mut object = body.value;
    if is_empty_there(&call.body, media, MANAGERS) {
        // They are to be forgotten.
        object["metadata"]["managedFields"] = Value::Array(Vec::new());
    }
    if is_empty_there(&call.body, media, TEMPLATE_LABELS) {
        call.bare_template.store(true, Ordering::Relaxed);
    }
    // A body that does not say what it is is taken to be what the path says.
    object["kind"] = served.kind.kind.as_str().into();
    object["apiVersion"] = served.kind.api_version().into();
    Ok(strategy::defaulted(served, object, call.now))
}

/// True when a body has something empty at a place. Typed objects leave out what is empty, so that decoding loses
/// the difference to what is missing.
fn is_empty_there(body: &[u8], media: Media, place: &str) -> bool {
    let name = place.rsplit('/').next().unwrap_or_default().as_bytes();
    let is_empty = |after: &[u8]| {
        let mut rest =
            after.iter().filter(|byte| !matches!(byte, b'"' | b'\'' | b':' | b' ' | b'\t' | b'\r' | b'\n'));
        matches!((rest.next(), rest.next()), (Some(b'['), Some(b']')) | (Some(b'{'), Some(b'}')))
    };
    // Hardly any body has such a thing, and all others are not read twice. Only where the first letter fits the
    // word is looked at.
    let suspicious = body.windows(name.len()).enumerate().any(|(start, word)| {
        word.first() == name.first() && word == name && is_empty(&body[start + name.len()..])
    });
    let parse = match media {
        Media::Json => decode::parse_json,
        Media::Yaml => decode::parse_yaml,
    };
    suspicious && parse(body).is_ok_and(|parsed| parsed.value.pointer(place).is_some_and(is_hollow))
}

/// True for lists and maps with nothing in them.
pub(crate) fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// An object of another kind than the resource's, such as a `Scale` or an `Eviction`.
pub(crate) fn other(call: &Call, kind: &Gvk, validation: FieldValidation) -> Result<Value, Status> {
    // Clients of several generations send these; all versions look the same.
    let expected = Expected { kind, accepts: |_, _| true };
    let media = match negotiate::input(&call.headers)? {
        Format::Json => Media::Json,
        Format::Yaml => Media::Yaml,
        Format::Protobuf => return from_protobuf(call, kind),
    };
    let body = decode::read_builtin(&call.body, media, expected, validation)?;
    call.warn_all(body.warnings());
    Ok(body.value)
}

/// The options of a deletion, when the body has them.
pub(crate) fn delete_options(call: &Call) -> Result<Option<Value>, Status> {
    if call.body.is_empty() {
        return Ok(None);
    }
    let kind = Gvk::new("", "v1", "DeleteOptions");
    match negotiate::input(&call.headers)? {
        Format::Protobuf => from_protobuf(call, &kind).map(Some),
        format => {
            let media = if format == Format::Yaml { Media::Yaml } else { Media::Json };
            decode::read_delete_options(&call.body, media).map(Some)
        }
    }
}

fn from_protobuf(call: &Call, expected: &Gvk) -> Result<Value, Status> {
    proto::decode(&call.body, expected, &builtin::kind_of)
        .map_err(|error| error.status(&expected.kind, &call.body))
}

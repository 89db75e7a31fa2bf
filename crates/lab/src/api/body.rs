//! The body of a request, as an object.

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
    if forgets_managers(&call.body, media) {
        object["metadata"]["managedFields"] = Value::Array(Vec::new());
    }
    // A body that does not say what it is is taken to be what the path says.
    object["kind"] = served.kind.kind.as_str().into();
    object["apiVersion"] = served.kind.api_version().into();
    Ok(strategy::defaulted(served, object, call.now))
}

/// True when a body has an empty list of managed fields: they are to be forgotten. Typed objects have no empty
/// lists, so that decoding loses it.
fn forgets_managers(body: &[u8], media: Media) -> bool {
    const NAME: &[u8] = b"managedFields";
    let is_empty_list = |after: &[u8]| {
        let mut rest = after.iter().filter(|byte| !byte.is_ascii_whitespace() && !matches!(byte, b'"' | b'\'' | b':'));
        rest.next() == Some(&b'[') && rest.next() == Some(&b']')
    };
    // Most bodies have a list that is not empty, or none, and are not read twice.
    let suspicious = body
        .windows(NAME.len())
        .enumerate()
        .any(|(place, word)| word == NAME && is_empty_list(&body[place + NAME.len()..]));
    let parse = match media {
        Media::Json => decode::parse_json,
        Media::Yaml => decode::parse_yaml,
    };
    suspicious
        && parse(body).is_ok_and(|parsed| {
            parsed.value["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty)
        })
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

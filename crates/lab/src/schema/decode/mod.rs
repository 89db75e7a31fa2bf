//! From the bytes of a request to an object in the form a typed server keeps.
//!
//! Reading is strict about what it must be and lenient about the rest: unknown and repeated fields are dropped and
//! told, for the caller to refuse, warn about or ignore. Messages are those of the real server, because people
//! read them.

mod body;
mod bytes;
mod convert;
mod cursor;
mod moment;
mod normal;
mod patched;
mod syntax;
#[cfg(test)]
mod tests;
mod typed;
mod words;
mod yaml;

use std::borrow::Cow;

use serde_json::Value;

pub(crate) use self::body::warnings_of;
pub use self::body::{
    Body, Expected, FieldValidation, Media, read_builtin, read_custom, read_delete_options,
};
pub use self::normal::normalise;
pub use self::patched::{PatchedBy, check_named, patch_refused, read_patched};
use self::syntax::DEEPEST_STORED;
use self::typed::Decoder;
use super::TypeRef;

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The value.
    pub value: Value,
    /// Unknown and repeated fields, each as a message such as `unknown field "spec.foo"`.
    pub problems: Vec<String>,
}

/// Reads a JSON text as a value of a type, in the form [`normalise`] gives. The failure is the message of the API,
/// such as `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
///
/// # Errors
/// When the text is not JSON, or a value does not fit.
pub fn decode_json(of: TypeRef<'_>, text: &[u8]) -> Result<Decoded, String> {
    syntax::check(text)?;
    decode_checked(of, &as_text(text))
}

/// Brings a value into the form of a type as if it had come as a text: the result of a merge patch or of a JSON
/// patch, or what a webhook made of an object.
///
/// # Errors
/// When a value does not fit.
pub fn decode(of: TypeRef<'_>, value: &Value) -> Result<Decoded, String> {
    decode_json(of, value.to_string().as_bytes())
}

/// Brings a value into the form of a type without going through text: the result of a strategic merge patch or of
/// server-side apply. The same values fit as for [`decode`], with few exceptions, but the messages differ, and
/// problems are sorted.
///
/// # Errors
/// When a value does not fit.
pub fn convert(of: TypeRef<'_>, value: Value) -> Result<Decoded, String> {
    convert::convert(of, value)
}

/// Reads a JSON text as it is; repeated fields are told.
///
/// # Errors
/// When the text is not JSON.
pub fn parse_json(text: &[u8]) -> Result<Decoded, String> {
    syntax::check(text)?;
    let text = as_text(text);
    let mut decoder = Decoder::new(&text);
    let value = decoder.untyped()?;
    Ok(Decoded { value, problems: decoder.problems })
}

/// Reads a JSON text we wrote ourselves. It may be deeper than `serde_json` goes, which stops at 128 levels.
///
/// # Errors
/// When the text is not JSON.
pub(crate) fn parse_stored(text: &[u8]) -> Result<Value, serde_json::Error> {
    // A list has its objects a few levels further down.
    const DEEPEST: usize = DEEPEST_STORED + 8;
    serde_json::from_slice(text).or_else(|problem| {
        if syntax::check_to(text, DEEPEST).is_err() {
            return Err(problem);
        }
        Decoder::new(&as_text(text)).untyped().map_err(|_| problem)
    })
}

/// True for a value that is nested deeper than anything stored may be.
pub(crate) fn is_too_deep(value: &Value) -> bool {
    is_deeper_than(value, DEEPEST_STORED)
}

/// True for a value of more levels.
pub(crate) fn is_deeper_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| is_deeper_than(item, levels - 1)),
        Value::Object(fields) => {
            levels == 0 || fields.values().any(|field| is_deeper_than(field, levels - 1))
        }
        _ => false,
    }
}

/// Reads the first document of a YAML text; repeated keys are told as one problem.
///
/// # Errors
/// When the text is not YAML, or has no counterpart in JSON.
pub fn parse_yaml(text: &[u8]) -> Result<Decoded, String> {
    // Most YAML is JSON, which is read faster; only YAML knows the lines of repeated keys.
    if text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
        && let Ok(decoded) = parse_json(text)
        && decoded.problems.is_empty()
    {
        return Ok(decoded);
    }
    yaml::parse(&as_text(text))
}

fn decode_checked(of: TypeRef<'_>, text: &str) -> Result<Decoded, String> {
    let mut decoder = Decoder::new(text);
    let value = decoder.typed(of)?;
    Ok(Decoded { value, problems: decoder.problems })
}

/// Bytes that are no text become replacement characters, as in the real server.
fn as_text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

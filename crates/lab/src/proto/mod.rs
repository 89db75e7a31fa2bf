//! Objects in protobuf, as the Go clients send and ask for them.
//!
//! The codec knows no kind: it walks the [schema](crate::schema) of whatever it is given. What it reads becomes
//! the JSON form the rest of the server works with.

mod decode;
mod encode;
#[cfg(test)]
mod tests;
mod time;
pub(crate) mod wire;

use std::fmt;

pub(crate) use self::decode::decode;
pub(crate) use self::encode::{encode, watch_event};
use crate::names::Gvk;
use crate::status::Status;

/// What every body begins with.
const MAGIC: [u8; 4] = *b"k8s\0";

/// How many levels of objects and lists there may be: what the JSON parser allows too.
const DEPTH_LIMIT: usize = 127;

/// Why bytes could not be read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DecodeError {
    /// The kind the bytes claim to be, or the default, as far as that was found out.
    pub kind: Option<Gvk>,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with the bytes, in the words of the reference implementation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Problem {
    /// There are none.
    #[error("empty data")]
    EmptyData,
    /// The beginning is missing.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    /// There is only the beginning.
    #[error("empty body")]
    EmptyBody,
    /// They end too early.
    #[error("unexpected EOF")]
    Truncated,
    /// A varint is longer than ten bytes.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length does not fit.
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    /// A field number nobody can have.
    #[error("proto: illegal tag {0} (wire type {1})")]
    IllegalTag(u64, u64),
    /// An unknown wire type.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u64),
    /// A group ends that did not begin.
    #[error("proto: unexpected end of group")]
    EndGroup,
    /// A field has the wire type of another type.
    #[error("proto: wrong wireType = {0} for field {1}")]
    WrongWireType(u8, String),
    /// Embedded JSON is none, or a moment is out of range.
    #[error("{0}")]
    Value(String),
    /// Objects in objects in objects.
    #[error("exceeded max depth")]
    TooDeep,
    /// There is no such kind.
    #[error("no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\"")]
    NoSuchKind {
        /// The kind.
        kind: String,
        /// The group and version.
        version: String,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(formatter)
    }
}

impl std::error::Error for DecodeError {}

impl DecodeError {
    /// The failure that is sent: `expected` is the kind the request was about, `body` what came.
    pub(crate) fn status(&self, expected: &str, body: &[u8]) -> Status {
        Status::bad_request(match &self.kind {
            Some(Gvk { version, kind, .. }) if !kind.is_empty() => {
                format!("{kind} in version {version:?} cannot be handled as a {expected}: {}", self.problem)
            }
            _ => format!(
                "the object provided is unrecognized (must be of type {expected}): {} ({})",
                self.problem,
                summary(body)
            ),
        })
    }
}

/// The beginning of a body for a message: as text if it looks like JSON, else in hexadecimal.
pub(crate) fn summary(body: &[u8]) -> String {
    let shown = &body[..body.len().min(30)];
    let more = if body.len() > shown.len() { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
            let digits: String = shown.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
            format!("{digits}{more}")
        }
    }
}

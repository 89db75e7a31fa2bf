//! The bodies of requests that create and update objects.

use std::borrow::Cow;

use serde_json::Value;

use super::cursor::{Cursor, Token};
use super::words::go_type;
use super::{as_text, decode_checked, parse_json, syntax, yaml};
use crate::names::Gvk;
use crate::schema::builtin;
use crate::status::Status;

/// How the body of a request is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// What becomes of unknown and repeated fields (`fieldValidation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    /// Nothing.
    Ignore,
    /// They are told in warnings.
    Warn,
    /// The request fails.
    Strict,
}

/// What a request expects in its body.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The kind, which a body that does not name its kind is taken for.
    pub kind: &'a Gvk,
    /// True for versions of the kind that are fine, too; the version of the kind itself always is.
    pub accepts: fn(group: &str, version: &str) -> bool,
}

/// A body that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    /// The object; of a built-in kind in the form a typed server keeps, of a custom one as it is.
    pub value: Value,
    /// The kind it says it is, completed with what was expected.
    pub kind: Gvk,
    /// Unknown and repeated fields. Empty when they are ignored; none are left when they are forbidden, except
    /// for custom resources, whose caller adds the unknown fields and then decides.
    pub problems: Vec<String>,
}

impl Body {
    /// The warnings to send with the response: one for each problem.
    pub fn warnings(&self) -> Vec<String> {
        self.problems.iter().flat_map(|problem| warnings_of(problem)).collect()
    }
}

/// A problem as the warnings it becomes: those of YAML are several in one.
pub(crate) fn warnings_of(problem: &str) -> Vec<String> {
    match problem.strip_prefix("yaml: unmarshal errors:\n") {
        Some(lines) => lines.lines().map(|line| line.trim().to_owned()).collect(),
        None => vec![problem.to_owned()],
    }
}

/// Reads the body of a request about a built-in kind.
///
/// # Errors
/// 400, with the message of the real server.
pub fn read_builtin(
    bytes: &[u8],
    media: Media,
    expected: Expected<'_>,
    validation: FieldValidation,
) -> Result<Body, Status> {
    let kind_name = expected.kind.kind.as_str();
    let unrecognized = |message: String| unrecognized(kind_name, &message, bytes);
    let (text, mut problems) = as_json(bytes, media).map_err(unrecognized)?;
    let (group, version, kind) = interpret(&text).map_err(unrecognized)?;
    let kind = completed(group, version, kind, expected.kind);
    let refuse = |message: String| refused(&kind, kind_name, &message);
    if kind.version.is_empty() {
        return Err(refuse(format!("Object 'apiVersion' is missing in '{}'", as_text(bytes))));
    }
    let Some(of) = builtin::kind_of(&kind) else {
        if builtin::is_known(&kind) {
            // A version that is no longer served: the kind is understood, and refused for its version.
            return Err(if kind.kind == expected.kind.kind {
                wrong_version(&kind, expected.kind)
            } else {
                refuse(unknown_conversion(&format!("{}.{}", kind.version, kind.kind), expected.kind))
            });
        }
        return Err(refuse(unregistered(&kind)));
    };
    let decoded = decode_checked(of, &text).map_err(refuse)?;
    if kind.kind != expected.kind.kind {
        return Err(refuse(unknown_conversion(&go_type(of), expected.kind)));
    }
    problems.extend(decoded.problems);
    match validation {
        FieldValidation::Strict if !problems.is_empty() => return Err(refuse(strict_message(&problems))),
        FieldValidation::Ignore => problems.clear(),
        _ => {}
    }
    accept(&kind, expected)?;
    Ok(Body { value: decoded.value, kind, problems })
}

/// Reads the body of a request about a custom resource: an object that names its kind and version. Repeated fields
/// are told; the caller adds the unknown ones.
///
/// # Errors
/// 400, with the message of the real server.
pub fn read_custom(
    bytes: &[u8],
    media: Media,
    expected: Expected<'_>,
    validation: FieldValidation,
) -> Result<Body, Status> {
    let kind_name = expected.kind.kind.as_str();
    let unrecognized = |message: String| unrecognized(kind_name, &message, bytes);
    let (text, mut problems) = as_json(bytes, media).map_err(unrecognized)?;
    let (group, version, kind) = interpret(&text).map_err(unrecognized)?;
    let named = Gvk { group, version, kind };
    let completed = completed(named.group.clone(), named.version.clone(), named.kind.clone(), expected.kind);
    let decoded = parse_json(text.as_bytes()).map_err(|problem| refused(&completed, kind_name, &problem))?;
    // Unlike above, letter case matters here.
    if decoded.value["kind"].as_str().is_none_or(str::is_empty) {
        let problem = format!("Object 'Kind' is missing in '{}'", as_text(bytes));
        // Strict decoding fails before the kind is taken for the one that is expected.
        return Err(match validation {
            FieldValidation::Ignore => refused(&completed, kind_name, &problem),
            FieldValidation::Warn | FieldValidation::Strict => unrecognized(problem),
        });
    }
    problems.extend(decoded.problems);
    accept(&named, expected)?;
    Ok(Body { value: decoded.value, kind: named, problems })
}

/// Reads the body of a request to delete: `DeleteOptions` of whatever version. Unknown fields are ignored. A body
/// that is there goes before the options in the query.
///
/// # Errors
/// 400, with the message of the real server.
pub fn read_delete_options(bytes: &[u8], media: Media) -> Result<Value, Status> {
    let (text, _) = as_json(bytes, media).map_err(Status::bad_request)?;
    let (group, version, kind) = interpret(&text).map_err(Status::bad_request)?;
    let kind = completed(group, version, kind, &Gvk::new("", "v1", "DeleteOptions"));
    let of = builtin::kind_of(&kind).filter(|_| kind.kind == "DeleteOptions");
    let of = of.ok_or_else(|| Status::bad_request(unregistered(&kind)))?;
    decode_checked(of, &text).map(|decoded| decoded.value).map_err(Status::bad_request)
}

/// A body as a JSON text, and the problems only its notation knows.
fn as_json(bytes: &[u8], media: Media) -> Result<(Cow<'_, str>, Vec<String>), String> {
    match media {
        Media::Json => {
            syntax::check(bytes).map_err(|problem| no_kind(&problem))?;
            Ok((as_text(bytes), Vec::new()))
        }
        Media::Yaml => {
            let decoded = yaml::parse(&as_text(bytes))?;
            Ok((decoded.value.to_string().into(), decoded.problems))
        }
    }
}

pub(super) fn unregistered(kind: &Gvk) -> String {
    format!(
        "no kind {:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
        kind.kind,
        kind.api_version()
    )
}

fn accept(kind: &Gvk, expected: Expected<'_>) -> Result<(), Status> {
    let own = kind.group == expected.kind.group && kind.version == expected.kind.version;
    if own || (expected.accepts)(&kind.group, &kind.version) {
        return Ok(());
    }
    Err(wrong_version(kind, expected.kind))
}

fn wrong_version(kind: &Gvk, expected: &Gvk) -> Status {
    Status::bad_request(format!(
        "the API version in the data ({}) does not match the expected API version ({})",
        kind.api_version(),
        expected.api_version()
    ))
}

/// A body whose kind is known but that is not one of it.
fn refused(kind: &Gvk, expected: &str, message: &str) -> Status {
    Status::bad_request(format!(
        "{} in version {:?} cannot be handled as a {expected}: {message}",
        kind.kind, kind.version
    ))
}

/// A body that does not even say what it is.
fn unrecognized(expected: &str, message: &str, bytes: &[u8]) -> Status {
    let shown = &bytes[..bytes.len().min(30)];
    let summary = match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => as_text(shown).into_owned(),
        Some(_) => crate::gotext::hex(shown),
    };
    let more = if bytes.len() > shown.len() { " ..." } else { "" };
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {expected}): {message} ({summary}{more})"
    ))
}

/// The problems of a strict request in one message.
pub(crate) fn strict_message(problems: &[String]) -> String {
    format!("strict decoding error: {}", problems.join(", "))
}

fn no_kind(problem: &str) -> String {
    format!("couldn't get version/kind; json parse error: {problem}")
}

pub(super) fn unknown_conversion(from: &str, to: &Gvk) -> String {
    // The type inside the server is in a package named after the group, which the full name has as well.
    let package = builtin::kind_of(to)
        .and_then(|of| of.node().name.as_deref())
        .and_then(|name| name.rsplit('.').nth(2))
        .unwrap_or_default();
    format!("converting ({from}) to ({package}.{}): unknown conversion", to.kind)
}

/// The kind with what the body left out.
fn completed(group: String, version: String, kind: String, expected: &Gvk) -> Gvk {
    let kind = if kind.is_empty() { expected.kind.clone() } else { kind };
    if version.is_empty() && (group.is_empty() || group == expected.group) {
        return Gvk { group: expected.group.clone(), version: expected.version.clone(), kind };
    }
    Gvk { group, version, kind }
}

/// The group, version and kind a JSON text says it is. Only here the case of letters does not matter.
pub(super) fn interpret(text: &str) -> Result<(String, String, String), String> {
    let mut cursor = Cursor::new(text);
    let (mut api_version, mut kind) = (String::new(), String::new());
    match cursor.token() {
        Token::Object => {}
        Token::Null => return Ok(Default::default()),
        other => {
            return Err(no_kind(&format!(
                "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                other.name()
            )));
        }
    }
    let mut wrong = None;
    cursor.open();
    while cursor.more() {
        let key = cursor.key();
        let (name, into) = if key.eq_ignore_ascii_case("apiVersion") {
            ("apiVersion", &mut api_version)
        } else if key.eq_ignore_ascii_case("kind") {
            ("kind", &mut kind)
        } else {
            cursor.skip();
            continue;
        };
        match cursor.token() {
            Token::Text => *into = cursor.text_value().into_owned(),
            token => {
                cursor.skip();
                if token != Token::Null && wrong.is_none() {
                    let what = token.name();
                    wrong = Some(format!(
                        "json: cannot unmarshal {what} into Go struct field .{name} of type string"
                    ));
                }
            }
        }
    }
    if let Some(wrong) = wrong {
        return Err(no_kind(&wrong));
    }
    let (group, version) = match api_version.split_once('/') {
        None => ("", api_version.as_str()),
        Some((_, version)) if version.contains('/') => {
            return Err(format!("unexpected GroupVersion string: {api_version}"));
        }
        Some((group, version)) => (group, version),
    };
    Ok((group.to_owned(), version.to_owned(), kind))
}

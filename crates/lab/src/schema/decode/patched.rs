//! What a patch made of an object, on its way back into the form of its type.

use serde_json::{Map, Value};

use super::body::{FieldValidation, interpret, strict_message, unknown_conversion, unregistered};
use super::words::go_type;
use super::{Decoded, convert, decode};
use crate::names::Gvk;
use crate::schema::{TypeRef, builtin};
use crate::status::{FieldProblem, Problem, Status};

/// The kind of patch, which decides how its result is read and shown.
#[derive(Debug, Clone, Copy)]
pub enum PatchedBy<'a> {
    /// A JSON patch or a merge patch: the result goes through text, and is shown in failures. It may call itself
    /// another version of its kind, where this is a way to the one that is asked for.
    Text(fn(Value, &Gvk) -> Option<Value>),
    /// A strategic merge patch: the result is converted. The patch is shown in failures, as Go prints a map:
    /// `map[spec:map[replicas:x]]`.
    Strategic(&'a str),
}

/// Reads the result of a patch of a built-in kind. `problems` are those of the patch itself, such as repeated
/// fields; they are told together with the unknown fields of the result. Gives the object and its warnings.
///
/// # Errors
/// 422 when the result does not fit the type, or has problems and the request is strict.
pub fn read_patched(
    of: TypeRef<'_>,
    expected: &Gvk,
    result: Value,
    by: PatchedBy<'_>,
    mut problems: Vec<String>,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Status> {
    let text = match by {
        PatchedBy::Text(_) => result.to_string(),
        PatchedBy::Strategic(patch) => patch.to_owned(),
    };
    let decoded = match by {
        PatchedBy::Text(way) => decode_named(of, expected, &text, &result, way),
        PatchedBy::Strategic(_) => convert(of, result),
    };
    let mut decoded = decoded.map_err(|message| patch_refused(&text, &message))?;
    // What the patch made is what the path says, whatever it calls itself.
    decoded.value["kind"] = expected.kind.as_str().into();
    decoded.value["apiVersion"] = expected.api_version().into();
    problems.extend(decoded.problems);
    match validation {
        FieldValidation::Strict if !problems.is_empty() => {
            Err(patch_refused(&text, &strict_message(&problems)))
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok((decoded.value, Vec::new())),
        FieldValidation::Warn => Ok((decoded.value, problems)),
    }
}

/// Decodes the result of a patch by the kind it names, which has to be the one that is expected, if in another
/// version.
fn decode_named(
    of: TypeRef<'_>,
    expected: &Gvk,
    text: &str,
    result: &Value,
    way: fn(Value, &Gvk) -> Option<Value>,
) -> Result<Decoded, String> {
    let own_version = result["apiVersion"] == expected.api_version();
    if own_version && result["kind"] == expected.kind.as_str() {
        return decode(of, result);
    }
    let (group, version, kind) = interpret(text)?;
    if version.is_empty() {
        // It is taken for what the server has in memory, whose fields have other names.
        let fields = result.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        let unknown = fields.filter(|name| !matches!(*name, "apiVersion" | "kind"));
        let problems = unknown.map(|name| format!("unknown field \"{name}\"")).collect();
        return Ok(Decoded { value: decode(of, &Value::Object(Map::new()))?.value, problems });
    }
    let kind = if kind.is_empty() { expected.kind.clone() } else { kind };
    let named = Gvk { group, version, kind };
    if named == *expected {
        return decode(of, result);
    }
    let Some(other) = builtin::kind_of(&named) else { return Err(unregistered(&named)) };
    let mut decoded = decode(other, result)?;
    decoded.value["apiVersion"] = named.api_version().into();
    decoded.value["kind"] = named.kind.as_str().into();
    if let Some(value) = way(decoded.value, expected) {
        return Ok(Decoded { value: convert(of, value)?.value, problems: decoded.problems });
    }
    Err(unknown_conversion(&go_type(other), expected))
}

/// Checks that the result of a patch of a custom resource says what it is.
///
/// # Errors
/// When it does not, with the sentence of the real server.
pub fn check_named(text: &str) -> Result<(), String> {
    let (_, _, kind) = interpret(text)?;
    if kind.is_empty() { Err(format!("Object 'Kind' is missing in '{text}'")) } else { Ok(()) }
}

/// The failure of a patch whose result cannot be: 422 about no kind in particular.
pub fn patch_refused(shown: &str, message: &str) -> Status {
    let problem = FieldProblem::new("patch", Problem::Invalid(shown.into(), message.to_owned()));
    Status::invalid("", "", "", vec![problem])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_refused_in_the_words_of_the_real_server() {
        let kind = Gvk::new("apps", "v1", "Deployment");
        let of = builtin::kind_of(&kind).unwrap();
        let by = PatchedBy::Strategic("map[spec:map[bar:2 foo:1]]");
        let result = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"foo": 1, "bar": 2}});
        let failure =
            read_patched(of, &kind, result.clone(), by, Vec::new(), FieldValidation::Strict).unwrap_err();
        assert_eq!(failure.code, 422);
        assert_eq!(
            failure.message,
            " \"\" is invalid: patch: Invalid value: \"map[spec:map[bar:2 foo:1]]\": strict decoding error: \
             unknown field \"spec.bar\", unknown field \"spec.foo\""
        );
        let repeated = vec!["duplicate field \"spec.replicas\"".to_owned()];
        let (_, warnings) =
            read_patched(of, &kind, result, PatchedBy::Text(|_, _| None), repeated, FieldValidation::Warn)
                .unwrap();
        assert_eq!(warnings.len(), 3);
        let wrong = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": "x"}});
        let failure =
            read_patched(of, &kind, wrong, PatchedBy::Text(|_, _| None), Vec::new(), FieldValidation::Ignore)
                .unwrap_err();
        assert!(
            failure.message.ends_with("DeploymentSpec.spec.replicas of type int32"),
            "{}",
            failure.message
        );
    }
}

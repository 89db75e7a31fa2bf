//! What a patch made of an object, on its way back into the form of its type.

use serde_json::Value;

use super::body::{FieldValidation, strict_message};
use super::{convert, decode};
use crate::schema::TypeRef;
use crate::status::{FieldProblem, Problem, Status};

/// The kind of patch, which decides how its result is read and shown.
#[derive(Debug, Clone, Copy)]
pub enum PatchedBy<'a> {
    /// A JSON patch or a merge patch: the result goes through text, and is shown in failures.
    Text,
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
    result: Value,
    by: PatchedBy<'_>,
    mut problems: Vec<String>,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), Status> {
    let text = match by {
        PatchedBy::Text => result.to_string(),
        PatchedBy::Strategic(patch) => patch.to_owned(),
    };
    let decoded = match by {
        PatchedBy::Text => decode(of, &result),
        PatchedBy::Strategic(_) => convert(of, result),
    };
    let decoded = decoded.map_err(|message| patch_refused(&text, &message))?;
    problems.extend(decoded.problems);
    match validation {
        FieldValidation::Strict if !problems.is_empty() => {
            Err(patch_refused(&text, &strict_message(&problems)))
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok((decoded.value, Vec::new())),
        FieldValidation::Warn => Ok((decoded.value, problems)),
    }
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
    use crate::names::Gvk;
    use crate::schema::builtin;

    #[test]
    fn results_are_refused_in_the_words_of_the_real_server() {
        let of = builtin::kind_of(&Gvk::new("apps", "v1", "Deployment")).unwrap();
        let by = PatchedBy::Strategic("map[spec:map[bar:2 foo:1]]");
        let result = json!({"spec": {"foo": 1, "bar": 2}});
        let failure = read_patched(of, result.clone(), by, Vec::new(), FieldValidation::Strict).unwrap_err();
        assert_eq!(failure.code, 422);
        assert_eq!(
            failure.message,
            " \"\" is invalid: patch: Invalid value: \"map[spec:map[bar:2 foo:1]]\": strict decoding error: \
             unknown field \"spec.bar\", unknown field \"spec.foo\""
        );
        let repeated = vec!["duplicate field \"spec.replicas\"".to_owned()];
        let (_, warnings) =
            read_patched(of, result, PatchedBy::Text, repeated, FieldValidation::Warn).unwrap();
        assert_eq!(warnings.len(), 3);
        let wrong = json!({"spec": {"replicas": "x"}});
        let failure =
            read_patched(of, wrong, PatchedBy::Text, Vec::new(), FieldValidation::Ignore).unwrap_err();
        assert!(
            failure.message.ends_with("DeploymentSpec.spec.replicas of type int32"),
            "{}",
            failure.message
        );
    }
}

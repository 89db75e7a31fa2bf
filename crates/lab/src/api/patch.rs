//! The four kinds of patches.

use serde_json::Value;

use super::options::WriteOptions;
use super::{Call, negotiate};
use crate::kinds;
use crate::merge;
use crate::names::Gvk;
use crate::registry::{Served, Source};
use crate::schema::decode::{self, FieldValidation};
use crate::schema::{TypeRef, builtin};
use crate::status::Status;

/// How a patch is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// A merge that knows the lists of built-in kinds.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// A patch as it was sent.
#[derive(Debug)]
pub(crate) struct Patch {
    pub(crate) form: Form,
    pub(crate) value: Value,
    /// What strict decoding finds wrong with the patch itself, such as repeated fields.
    pub(crate) problems: Vec<String>,
    /// True when the client wants nothing to be said about fields.
    ignoring: bool,
}

impl Form {
    /// The form a request says its patch has, if the resource knows it.
    pub(crate) fn of(call: &Call, served: &Served) -> Result<Self, Status> {
        let custom = matches!(served.source, Source::Custom(..));
        match negotiate::content_type(&call.headers) {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            // A kind of patch that this resource does not know.
            "application/strategic-merge-patch+json" | "application/apply-patch+cbor" => Err(Status::new(
                415,
                "UnsupportedMediaType",
                format!(
                    "the body of the request was in an unknown format - accepted media types include: {}",
                    if custom {
                        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
                    } else {
                        "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml"
                    }
                ),
            )),
            _ => {
                Err(Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
                    .with_empty_details())
            }
        }
    }
}

impl Patch {
    /// Reads the patch and the options of a request.
    pub(crate) fn read(call: &Call, served: &Served) -> Result<(Self, WriteOptions), Status> {
        let form = Form::of(call, served)?;
        let options = WriteOptions::read_for_patch(call, form == Form::Apply)?;
        let parsed = if form == Form::Apply {
            let undecodable = |why: String| Status::bad_request(format!("error decoding patch: {why}"));
            let parsed = decode::parse_yaml(&call.body)
                .map_err(|why| undecodable(format!("error converting YAML to JSON: {why}")))?;
            if !parsed.value.is_object() && !parsed.value.is_null() {
                let kind = merge::json_kind(&parsed.value);
                let into = "Go value of type map[string]interface {}";
                return Err(undecodable(format!(
                    "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into {into}"
                )));
            }
            parsed
        } else {
            decode::parse_json(&call.body).map_err(|_| Status::bad_request("invalid JSON patch"))?
        };
        let (value, mut problems) = (parsed.value, parsed.problems);
        if form == Form::Json {
            problems = problems.into_iter().map(|problem| format!("json patch {problem}")).collect();
            problems.extend(merge::json_patch_unknown_fields(&value));
        }
        let ignoring = options.validation == FieldValidation::Ignore;
        Ok((Self { form, value, problems, ignoring }, options))
    }

    /// What the patch makes of a `Scale`.
    pub(crate) fn apply_to_scale(&self, scale: &Value) -> Result<Patched<'_>, Status> {
        let mut left = None;
        let result = match self.form {
            Form::Json => merge::json_patch(scale, &self.value, self.ignoring)?,
            Form::Merge | Form::Apply => merge::json_merge(scale, &self.value, self.ignoring)?,
            Form::Strategic => {
                let shape = builtin::kind_of(&Gvk::new("autoscaling", "v1", "Scale"))
                    .ok_or_else(|| Status::internal("a kind without a shape"))?;
                merge::strategic_merge_with(shape, scale, left.insert(self.value.clone()))?
            }
        };
        Ok(Patched { result, left, problems: &self.problems })
    }

    /// What the patch makes of an object. An apply is merged elsewhere, since it knows owners.
    pub(crate) fn apply(&self, served: &Served, object: &Value) -> Result<Patched<'_>, Status> {
        let mut left = None;
        let result = match self.form {
            Form::Json => merge::json_patch(object, &self.value, self.ignoring)?,
            Form::Merge | Form::Apply => merge::json_merge(object, &self.value, self.ignoring)?,
            Form::Strategic => {
                let shape =
                    served.shape().ok_or_else(|| Status::internal("a built-in kind without a shape"))?;
                merge::strategic_merge_with(shape, object, left.insert(self.value.clone()))?
            }
        };
        Ok(Patched { result, left, problems: &self.problems })
    }

    /// Refuses or warns about what is wrong with a configuration that was applied: only its notation can be, since
    /// fields that are not known cannot be merged.
    pub(crate) fn complain_applied(&self, call: &Call, validation: FieldValidation) -> Result<(), Status> {
        match (self.problems.first(), validation) {
            (None, _) | (_, FieldValidation::Ignore) => Ok(()),
            (Some(problem), FieldValidation::Strict) => Err(Status::bad_request(format!(
                "error strict decoding patch: error converting YAML to JSON: {problem}"
            ))),
            (Some(_), FieldValidation::Warn) => {
                call.warn_all(self.problems.iter().flat_map(|problem| decode::warnings_of(problem)));
                Ok(())
            }
        }
    }
}

/// What a patch made of an object.
#[derive(Debug)]
pub(crate) struct Patched<'a> {
    /// The object, in no form yet.
    pub(crate) result: Value,
    /// What is left of a patch that is used up as it goes.
    left: Option<Value>,
    /// What strict decoding finds wrong with the patch itself.
    pub(crate) problems: &'a [String],
}

impl Patched<'_> {
    /// Reads an object of a built-in kind, which has to fit its shape. Gives the object and the warnings about it.
    pub(crate) fn read(
        self,
        of: TypeRef<'_>,
        expected: &Gvk,
        validation: FieldValidation,
    ) -> Result<(Value, Vec<String>), Status> {
        let problems = match validation {
            FieldValidation::Ignore => Vec::new(),
            FieldValidation::Warn | FieldValidation::Strict => self.problems.to_vec(),
        };
        let shown = self.left.as_ref().map(merge::go_text);
        let by = shown.as_deref().map_or(decode::PatchedBy::Text(converted), decode::PatchedBy::Strategic);
        decode::read_patched(of, expected, self.result, by, problems, validation)
    }
}

/// An object of another version of a kind as one of the version that was asked for, if there is a way.
fn converted(object: Value, to: &Gvk) -> Option<Value> {
    (object["kind"] == to.kind.as_str()).then(|| kinds::convert(object, to).ok())?
}

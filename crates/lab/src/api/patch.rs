//! The four kinds of patches.

use serde_json::Value;

use super::options::WriteOptions;
use super::{Call, negotiate};
use crate::merge;
use crate::registry::{Served, Source};
use crate::schema::decode::{self, FieldValidation};
use crate::status::{FieldProblem, Problem, Status};

/// A patch as it was sent.
#[derive(Debug)]
pub(crate) enum Patch {
    /// RFC 6902.
    Json(Value),
    /// RFC 7386.
    Merge(Value),
    /// A merge that knows the lists of built-in kinds.
    Strategic(Value),
    /// Server-side apply.
    Apply(Value),
}

impl Patch {
    /// Reads the body by its media type.
    pub(crate) fn read(call: &Call, served: &Served, options: &WriteOptions) -> Result<Self, Status> {
        let custom = matches!(served.source, Source::Custom(..));
        let media_type = negotiate::content_type(&call.headers);
        if media_type != "application/apply-patch+yaml" && call.parameters.get("force").is_some() {
            let why = "may not be specified for non-apply patch".to_owned();
            let problem = FieldProblem::new("force", Problem::Forbidden(why));
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", vec![problem]));
        }
        match media_type {
            "application/json-patch+json" => Ok(Self::Json(parse(call, options)?)),
            "application/merge-patch+json" => Ok(Self::Merge(parse(call, options)?)),
            "application/strategic-merge-patch+json" if !custom => Ok(Self::Strategic(parse(call, options)?)),
            "application/apply-patch+yaml" => {
                check_apply(options)?;
                let configuration = decode::parse_yaml(&call.body)
                    .map_err(|why| Status::bad_request(format!("error decoding YAML: {why}")))?;
                duplicate(call, options, &configuration.problems)?;
                Ok(Self::Apply(configuration.value))
            }
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

    /// What the patch makes of a `Scale`.
    pub(crate) fn apply_to_scale(&self, scale: &Value) -> Result<Value, Status> {
        match self {
            Self::Json(patch) => merge::json_patch(scale, patch),
            // A scale has no lists, so all ways of merging are one.
            Self::Merge(patch) | Self::Apply(patch) | Self::Strategic(patch) => {
                merge::json_merge(scale, patch)
            }
        }
    }

    /// What the patch makes of an object. An apply is merged elsewhere, since it knows owners.
    pub(crate) fn apply(&self, served: &Served, object: &Value) -> Result<Value, Status> {
        match self {
            Self::Json(patch) => merge::json_patch(object, patch),
            Self::Merge(patch) | Self::Apply(patch) => merge::json_merge(object, patch),
            Self::Strategic(patch) => {
                let shape =
                    served.shape().ok_or_else(|| Status::internal("a built-in kind without a shape"))?;
                merge::strategic_merge(shape, object, patch)
            }
        }
    }
}

fn parse(call: &Call, options: &WriteOptions) -> Result<Value, Status> {
    let patch = decode::parse_json(&call.body)
        .map_err(|why| Status::bad_request(format!("error decoding patch: {why}")))?;
    duplicate(call, options, &patch.problems)?;
    Ok(patch.value)
}

fn duplicate(call: &Call, options: &WriteOptions, duplicates: &[String]) -> Result<(), Status> {
    match options.validation {
        FieldValidation::Strict if !duplicates.is_empty() => {
            Err(Status::bad_request(format!("strict decoding error: {}", duplicates.join(", "))))
        }
        FieldValidation::Warn => {
            call.warn_all(duplicates);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// An apply needs a manager.
fn check_apply(options: &WriteOptions) -> Result<(), Status> {
    if options.field_manager.is_empty() {
        let problem =
            FieldProblem::new("fieldManager", Problem::Required("is required for apply patch".to_owned()));
        return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", vec![problem]));
    }
    Ok(())
}

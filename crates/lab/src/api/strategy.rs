//! The rules of a kind, whether it is built in or defined by a custom resource definition.

use jiff::Timestamp;
use serde_json::Value;

use super::Call;
use super::patch::Patch;
use crate::admission::configurations;
use crate::crd::{Checked, definition};
use crate::kinds::meta::NameRule;
use crate::kinds::{self, WriteContext};
use crate::merge;
use crate::names::Gvk;
use crate::registry::Served;
use crate::schema::TypeRef;
use crate::schema::decode::{self, FieldValidation};
use crate::server::Server;
use crate::status::{FieldProblem, Status};

/// The rules that hold for one call.
pub(crate) struct Rules<'a> {
    pub(crate) server: &'a Server,
    pub(crate) call: &'a Call,
    pub(crate) served: &'a Served,
    /// The part of the object that is written; empty for the object itself.
    pub(crate) subresource: &'a str,
}

impl Rules<'_> {
    pub(crate) fn context(&self) -> WriteContext<'_> {
        WriteContext {
            kind: &self.served.kind,
            subresource: self.subresource,
            now: self.server.clock().now(),
            user: &self.call.attributes.user,
            namespace: &self.call.attributes.namespace,
        }
    }

    /// Brings what a patch or an apply made into the form of the kind: unknown fields go, what is missing gets
    /// its default.
    pub(crate) fn reshape(&self, object: Value, validation: FieldValidation) -> Result<Value, Status> {
        if self.served.custom_version().is_some() {
            return complete(self.call, self.served, object, Vec::new(), validation);
        }
        let shape = self.shape()?;
        let decoded = decode::convert(shape, object).map_err(|why| cannot_handle(self.served, &why))?;
        complain(self.call, self.served, &decoded.problems, validation)?;
        Ok(defaulted(self.served, decoded.value, self.server.clock().now()))
    }

    /// Brings what a patch made into the form of the kind. What does not fit is the patch's fault.
    pub(crate) fn reshape_patched(
        &self,
        object: Value,
        patch: &Patch,
        validation: FieldValidation,
    ) -> Result<Value, Status> {
        let expected =
            [("kind", self.served.kind.kind.clone()), ("apiVersion", self.served.kind.api_version())];
        for (field, wanted) in &expected {
            let found = object[*field].as_str().unwrap_or_default();
            if found != wanted {
                let why = format!("the {field} of an object cannot be changed from {wanted} to {found}");
                return Err(decode::patch_refused(&object.to_string(), &why));
            }
        }
        if let Some(version) = self.served.custom_version() {
            let mut object = object;
            let shown = object.to_string();
            let unknown = version.decode(&mut object, validation != FieldValidation::Ignore)?;
            let problems: Vec<String> =
                unknown.iter().map(|place| format!("unknown field \"{place}\"")).collect();
            if validation == FieldValidation::Strict && !problems.is_empty() {
                let why = format!("strict decoding error: {}", problems.join(", "));
                return Err(decode::patch_refused(&shown, &why));
            }
            complain(self.call, self.served, &problems, validation)?;
            return Ok(defaulted(self.served, object, self.call.now));
        }
        let shape = self.shape()?;
        let shown;
        let by = match patch {
            Patch::Strategic(patch) => {
                shown = merge::go_text(patch);
                decode::PatchedBy::Strategic(&shown)
            }
            _ => decode::PatchedBy::Text,
        };
        let (object, warnings) = decode::read_patched(shape, object, by, Vec::new(), validation)?;
        warnings.into_iter().for_each(|warning| self.call.warn(warning));
        Ok(defaulted(self.served, object, self.call.now))
    }

    fn shape(&self) -> Result<TypeRef<'_>, Status> {
        self.served.shape().ok_or_else(|| Status::internal("a kind without a shape"))
    }

    /// What was set or reset has the form a typed server writes.
    fn normalise(&self, object: &mut Value) {
        if let Some(shape) = self.served.shape() {
            decode::normalise(shape, object);
        }
    }

    /// What the server sets itself on an object that is created.
    pub(crate) fn prepare_create(&self, object: &mut Value) {
        match self.served.custom_version() {
            None if self.served.is_definition() => definition::prepare_create(object),
            None => {
                kinds::prepare_create(&self.context(), object);
                self.normalise(object);
            }
            Some(version) => version.prepare_create(object),
        }
    }

    /// What a write cannot change, and what changes with it.
    pub(crate) fn prepare_update(&self, old: &Value, new: &mut Value) {
        new["metadata"]["generation"] = old["metadata"]["generation"].clone();
        if new["metadata"]["generation"].is_null() {
            new["metadata"].as_object_mut().map(|metadata| metadata.remove("generation"));
        }
        match self.served.custom_version() {
            None if self.served.is_definition() && self.subresource == "status" => {
                definition::prepare_status_update(new, old);
            }
            None if self.served.is_definition() => definition::prepare_update(new, old),
            None => {
                kinds::prepare_update(&self.context(), old, new);
                self.normalise(new);
            }
            Some(version) if self.subresource == "status" => version.prepare_status_update(new, old),
            Some(version) => version.prepare_update(new, old),
        }
    }

    /// Refuses an object that breaks the rules.
    pub(crate) fn check_create(&self, object: &Value) -> Result<(), Status> {
        let context = self.context();
        let problems = match self.served.custom_version() {
            None if self.served.is_definition() => {
                definition::warnings(object, None).into_iter().for_each(|text| self.call.warn(text));
                let mut problems = kinds::meta::validate(&object["metadata"], false, NameRule::Subdomain);
                problems.extend(definition::validate_create(object));
                problems
            }
            None => {
                kinds::warnings_on_create(&context, object).into_iter().for_each(|text| self.call.warn(text));
                checked_expressions(&self.served.kind, object, None, kinds::validate_create(&context, object))
            }
            Some(version) => {
                let metadata =
                    kinds::meta::validate(&object["metadata"], self.served.namespaced, NameRule::Subdomain);
                self.checked(version.validate_create(object, metadata))
            }
        };
        self.refuse(object, problems)
    }

    /// Refuses a change that breaks the rules.
    pub(crate) fn check_update(&self, old: &Value, new: &Value) -> Result<(), Status> {
        let context = self.context();
        let problems = match self.served.custom_version() {
            None if self.served.is_definition() => {
                let mut problems = kinds::meta::validate_update(&new["metadata"], &old["metadata"]);
                if self.subresource == "status" {
                    problems.extend(definition::validate_status(new));
                } else {
                    definition::warnings(new, Some(old)).into_iter().for_each(|text| self.call.warn(text));
                    problems.extend(definition::validate_update(new, old));
                }
                problems
            }
            None => {
                kinds::warnings_on_update(&context, old, new)
                    .into_iter()
                    .for_each(|text| self.call.warn(text));
                checked_expressions(
                    &self.served.kind,
                    new,
                    Some(old),
                    kinds::validate_update(&context, old, new),
                )
            }
            Some(version) => {
                let mut metadata =
                    kinds::meta::validate(&new["metadata"], self.served.namespaced, NameRule::Subdomain);
                metadata.extend(kinds::meta::validate_update(&new["metadata"], &old["metadata"]));
                self.checked(if self.subresource == "status" {
                    version.validate_status_update(new, old, metadata)
                } else {
                    version.validate_update(new, old, metadata)
                })
            }
        };
        self.refuse(new, problems)
    }

    fn checked(&self, checked: Checked) -> Vec<FieldProblem> {
        checked.warnings.into_iter().for_each(|text| self.call.warn(text));
        checked.problems
    }

    fn refuse(&self, object: &Value, problems: Vec<FieldProblem>) -> Result<(), Status> {
        if problems.is_empty() {
            return Ok(());
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        // The kind is told as the object says it, which may be what is wrong with it.
        let kind = object["kind"].as_str().unwrap_or(&self.served.kind.kind);
        Err(Status::invalid(&self.served.kind.group, kind, name, problems))
    }
}

/// Brings an object that was read as it is into the form of its kind. `problems` are fields that were there twice.
pub(crate) fn complete(
    call: &Call,
    served: &Served,
    mut object: Value,
    mut problems: Vec<String>,
    validation: FieldValidation,
) -> Result<Value, Status> {
    match served.custom_version() {
        None => {
            let shape = served.shape().ok_or_else(|| Status::internal("a kind without a shape"))?;
            let decoded = decode::convert(shape, object).map_err(|why| cannot_handle(served, &why))?;
            problems.extend(decoded.problems);
            object = decoded.value;
        }
        Some(version) => {
            let unknown = version.decode(&mut object, validation != FieldValidation::Ignore)?;
            problems.extend(unknown.iter().map(|place| format!("unknown field \"{place}\"")));
        }
    }
    complain(call, served, &problems, validation)?;
    Ok(defaulted(served, object, call.now))
}

/// The object with its defaults.
pub(crate) fn defaulted(served: &Served, mut object: Value, now: Timestamp) -> Value {
    match served.custom_version() {
        None if served.is_definition() => definition::default_definition(&mut object),
        None => kinds::default(&served.kind, &mut object, now),
        Some(version) => version.default(&mut object),
    }
    object
}

/// Refuses or warns about fields that are unknown or there twice.
fn complain(
    call: &Call,
    served: &Served,
    problems: &[String],
    validation: FieldValidation,
) -> Result<(), Status> {
    match validation {
        _ if problems.is_empty() => Ok(()),
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            problems.iter().for_each(|problem| call.warn(problem));
            Ok(())
        }
        FieldValidation::Strict => {
            Err(cannot_handle(served, &format!("strict decoding error: {}", problems.join(", "))))
        }
    }
}

/// 400 for something that cannot be read as an object of a kind.
fn cannot_handle(served: &Served, why: &str) -> Status {
    let (kind, version) = (&served.kind.kind, &served.kind.version);
    Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
}

/// The problems of an object, with those of the expressions in it.
fn checked_expressions(
    kind: &Gvk,
    object: &Value,
    old: Option<&Value>,
    mut problems: Vec<FieldProblem>,
) -> Vec<FieldProblem> {
    problems.extend(configurations::expression_problems(kind, object, old));
    problems
}

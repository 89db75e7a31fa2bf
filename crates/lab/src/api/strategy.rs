//! The rules of a kind, whether it is built in or defined by a custom resource definition.

use std::sync::atomic::Ordering;

use jiff::Timestamp;
use serde_json::Value;

use super::patch::Patched;
use super::{Call, body};
use crate::admission::configurations;
use crate::crd::{Checked, CustomVersion, definition};
use crate::kinds::meta::NameRule;
use crate::kinds::{self, WriteContext};
use crate::merge;
use crate::registry::Served;
use crate::schema::TypeRef;
use crate::schema::decode::{self, FieldValidation};
use crate::server::Server;
use crate::status::{FieldProblem, Problem, Status};
use crate::store::leaves_gaps;

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
            // Whoever scales an object writes the object itself.
            subresource: if self.subresource == "scale" { "" } else { self.subresource },
            now: self.server.clock().now(),
            user: &self.call.attributes.user,
            namespace: &self.call.attributes.namespace,
        }
    }

    /// Brings what an apply made into the form of the kind, with its defaults. All fields are known, or it would
    /// not have been merged.
    pub(crate) fn reshape_applied(&self, object: Value, configuration: &Value) -> Result<Value, Status> {
        if self.served.custom_version().is_some() {
            return Ok(defaulted(self.served, object, self.call.now));
        }
        self.note_hollow(&object);
        let decoded = decode::convert(self.shape()?, object).map_err(|why| {
            let kind = merge::kind_text(&self.served.kind.api_version(), &self.served.kind.kind);
            let named = merge::named(configuration);
            let failure = format!("unable to convert unstructured object to {kind}: {why}");
            Status::new(
                500,
                "",
                format!("failed to convert new object ({named}) to proper version: {failure}"),
            )
        })?;
        Ok(defaulted(self.served, decoded.value, self.call.now))
    }

    /// Brings what a patch made into the form of the kind. What does not fit is the patch's fault.
    pub(crate) fn reshape_patched(
        &self,
        patched: Patched<'_>,
        validation: FieldValidation,
    ) -> Result<Value, Status> {
        if let Some(version) = self.served.custom_version() {
            let mut object = patched.result;
            let shown = object.to_string();
            decode::check_named(&shown).map_err(|why| decode::patch_refused(&shown, &why))?;
            let unknown = version
                .read(&mut object, validation != FieldValidation::Ignore)
                .map_err(|why| decode::patch_refused(&shown, &why))?;
            let mut problems = patched.problems.to_vec();
            problems.extend(unknown.iter().map(|place| format!("unknown field \"{place}\"")));
            if validation == FieldValidation::Strict && !problems.is_empty() {
                let why = format!("strict decoding error: {}", problems.join(", "));
                return Err(decode::patch_refused(&shown, &why));
            }
            complain(self.call, self.served, &problems, validation)?;
            return Ok(defaulted(self.served, object, self.call.now));
        }
        let shape = self.shape()?;
        self.note_hollow(&patched.result);
        // An empty list of managed fields means that they are to be forgotten; typed objects have no empty lists.
        let forgets = patched.result["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty);
        let (object, warnings) = patched.read(shape, &self.served.kind, validation)?;
        self.call.warn_all(warnings);
        let mut object = defaulted(self.served, object, self.call.now);
        if forgets {
            object["metadata"]["managedFields"] = Value::Array(Vec::new());
        }
        Ok(object)
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
            Some(_) if self.subresource == "status" => CustomVersion::prepare_status_update(new, old),
            Some(version) => version.prepare_update(new, old),
        }
    }

    /// Refuses an object that breaks the rules; what does not can still be warned about.
    pub(crate) fn check_create(&self, object: &Value) -> Result<(), Status> {
        let context = self.context();
        match self.served.custom_version() {
            None if self.served.is_definition() => {
                let mut problems = kinds::meta::validate(&object["metadata"], false, NameRule::Subdomain);
                problems.extend(definition::validate_create(object));
                self.refuse(object, problems)?;
                self.call.warn_all(definition::warnings(object, None));
            }
            None => {
                let mut problems = kinds::validate_create(&context, object);
                problems.extend(configurations::expression_problems(&self.served.kind, object, None));
                self.refuse(object, problems)?;
                self.call.warn_all(kinds::warnings_on_create(&context, object));
            }
            Some(version) => {
                refuse_unnamed(object)?;
                let metadata =
                    kinds::meta::validate(&object["metadata"], self.served.namespaced, NameRule::Subdomain);
                self.refuse_checked(object, version.validate_create(object, metadata))?;
            }
        }
        Ok(())
    }

    /// Refuses a change that breaks the rules; what does not can still be warned about.
    pub(crate) fn check_update(&self, old: &Value, new: &Value) -> Result<(), Status> {
        let context = self.context();
        match self.served.custom_version() {
            None if self.served.is_definition() => {
                let mut problems = self.metadata_problems(old, new);
                problems.extend(kinds::meta::validate_update(&new["metadata"], &old["metadata"]));
                let status = self.subresource == "status";
                problems.extend(if status {
                    definition::validate_status(new)
                } else {
                    definition::validate_update(new, old)
                });
                self.refuse(new, problems)?;
                if !status {
                    self.call.warn_all(definition::warnings(new, Some(old)));
                }
            }
            None => {
                let mut problems = kinds::validate_update(&context, old, new);
                problems.extend(configurations::expression_problems(&self.served.kind, new, Some(old)));
                self.refuse(new, problems)?;
                self.call.warn_all(kinds::warnings_on_update(&context, old, new));
            }
            Some(version) => {
                refuse_unnamed(new)?;
                let metadata = kinds::meta::validate_update(&new["metadata"], &old["metadata"]);
                let mut checked = if self.subresource == "status" {
                    version.validate_status_update(new, old, metadata)
                } else {
                    version.validate_update(new, old, metadata)
                };
                // The real server looks twice: before it asks the kind, and as a part of what the kind says.
                checked.problems.splice(0..0, self.metadata_problems(old, new));
                self.refuse_checked(new, checked)?;
            }
        }
        Ok(())
    }

    /// What is wrong with the metadata of a change, of whatever kind.
    fn metadata_problems(&self, old: &Value, new: &Value) -> Vec<FieldProblem> {
        let mut problems =
            kinds::meta::validate(&new["metadata"], self.served.namespaced, NameRule::Subdomain);
        problems.extend(kinds::meta::validate_update(&new["metadata"], &old["metadata"]));
        problems
    }

    /// Problems that show labels as they were sent: empty, where they were empty.
    fn as_sent(&self, mut problems: Vec<FieldProblem>) -> Vec<FieldProblem> {
        if self.call.bare_template.load(Ordering::Relaxed) {
            for problem in
                problems.iter_mut().filter(|problem| problem.field == "spec.template.metadata.labels")
            {
                if let Problem::Invalid(shown @ Value::Null, _) = &mut problem.kind {
                    *shown = Value::Object(serde_json::Map::new());
                }
            }
        }
        problems
    }

    /// Notes what of an object will be lost once it has the form of its kind.
    fn note_hollow(&self, object: &Value) {
        let bare = object.pointer(body::TEMPLATE_LABELS).is_some_and(body::is_hollow);
        self.call.bare_template.store(bare, Ordering::Relaxed);
    }

    fn refuse_checked(&self, object: &Value, checked: Checked) -> Result<(), Status> {
        self.refuse(object, checked.problems)?;
        self.call.warn_all(checked.warnings);
        Ok(())
    }

    fn refuse(&self, object: &Value, problems: Vec<FieldProblem>) -> Result<(), Status> {
        if problems.is_empty() {
            return Ok(());
        }
        let problems = self.as_sent(problems);
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        // The kind is told as the object says it, which may be what is wrong with it.
        let kind = object["kind"].as_str().unwrap_or(&self.served.kind.kind);
        Err(Status::invalid(&self.served.kind.group, kind, name, problems))
    }
}

/// Refuses a custom resource that does not say of which version it is: the real server takes it for a fault of its
/// own.
fn refuse_unnamed(object: &Value) -> Result<(), Status> {
    match object["apiVersion"].as_str() {
        None | Some("") => {
            Err(Status::internal("Object 'apiVersion' is missing in 'object has no apiVersion field'"))
        }
        Some(_) => Ok(()),
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

/// The object as it is stored: with the defaults of what preparing it set or took away. A custom one is stored as
/// it came out of the write.
pub(crate) fn as_stored(served: &Served, object: Value, now: Timestamp) -> Value {
    if served.custom_version().is_some() { object } else { defaulted(served, object, now) }
}

/// The object as it comes back from where it is stored: a custom one with typed metadata.
pub(crate) fn as_read(served: &Served, mut object: Value) -> Value {
    if let Some(version) = served.custom_version().filter(|_| leaves_gaps(&object["metadata"])) {
        version.shape_stored(&mut object);
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
            call.warn_all(problems);
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

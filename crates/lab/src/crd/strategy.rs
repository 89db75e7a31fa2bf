//! What is done with custom resources on their way in: decoding, defaulting, checking.

use serde_json::{Map, Value};

use crate::status::{FieldProblem, Problem, Status};

use super::{
    kind::CustomVersion,
    lists,
    metadata::{self, Malformed},
    path::Path,
    rules::BUDGET,
    scale, shape, validate,
};

/// What checking an object came to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Checked {
    /// Why it is refused; empty when it is not.
    pub problems: Vec<FieldProblem>,
    /// What its writer should know anyway.
    pub warnings: Vec<String>,
}

impl CustomVersion {
    /// Brings an object a client sent into shape: typed metadata, nothing unknown, no nulls where there may be
    /// none. Returns the places of the unknown fields that were dropped, when `wants_unknown` is set.
    pub(crate) fn decode(&self, object: &mut Value, wants_unknown: bool) -> Result<Vec<String>, Status> {
        self.read(object, wants_unknown).map_err(|problem| self.cannot_handle(&problem))
    }

    /// The same as [`Self::decode`], with the sentence alone about what cannot be read.
    pub(crate) fn read(&self, object: &mut Value, wants_unknown: bool) -> Result<Vec<String>, String> {
        self.shape(object, Malformed::Refuse, wants_unknown)
    }

    /// 400 for a body that cannot be read as an object of this kind.
    pub(crate) fn cannot_handle(&self, problem: &str) -> Status {
        let (kind, version) = (&self.kind, &self.name);
        Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {problem}"
        ))
    }

    /// The failure of strict field validation.
    #[cfg(test)]
    pub(crate) fn strict_failure(&self, unknown: &[String]) -> Status {
        let fields: Vec<String> = unknown.iter().map(|place| format!("unknown field \"{place}\"")).collect();
        self.cannot_handle(&format!("strict decoding error: {}", fields.join(", ")))
    }

    /// Brings an object from storage into the shape of this version: what does not fit is dropped, and defaults are
    /// filled in.
    pub(crate) fn shape_stored(&self, object: &mut Value) {
        self.fit(object);
        self.default(object);
    }

    /// Brings an object that was converted into the shape of this version: what does not fit is dropped.
    pub(crate) fn fit(&self, object: &mut Value) {
        // With malformed parts dropped there is nothing left to fail.
        let _ = self.shape(object, Malformed::Drop, false);
    }

    /// Fills in the defaults of the schema.
    pub(crate) fn default(&self, object: &mut Value) {
        shape::fill_defaults(object, &self.schema);
    }

    fn shape(
        &self,
        object: &mut Value,
        malformed: Malformed,
        wants_unknown: bool,
    ) -> Result<Vec<String>, String> {
        let mut unknown = wants_unknown.then(Vec::new);
        let Value::Object(fields) = object else { return Ok(Vec::new()) };
        if let Some(metadata) = fields.get_mut("metadata") {
            let noted = unknown.as_mut().map(|list| ("metadata", list));
            metadata::coerce(metadata, malformed, noted)?;
        }
        // An object that calls itself something else is refused later, and not touched; of a version that does not
        // exist nothing is known.
        let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = text("apiVersion").rsplit_once('/').unwrap_or_default();
        if text("kind") != self.kind || Some(group) != self.api_version.rsplit_once('/').map(|own| own.0) {
            return Ok(unknown.unwrap_or_default());
        }
        let schema = (version == self.name).then_some(&self.schema);
        // The metadata is typed already; the schema has no more to say about it.
        let metadata = fields.remove("metadata");
        if !self.preserve_unknown_fields {
            let mut pruned = shape::Unknown::new(wants_unknown);
            shape::prune(object, schema, true, &mut pruned);
            if let Some(list) = &mut unknown {
                list.extend(pruned.sorted());
            }
            shape::drop_nulls(object, schema);
        }
        let mut embedded = wants_unknown.then(Vec::new);
        metadata::coerce_embedded(object, &self.schema, false, malformed, &Path::Root, &mut embedded)
            .map_err(|problem| {
                let cause = problem.cause();
                format!("{}: {}", cause.field, cause.message)
            })?;
        if let (Some(list), Some(mut embedded)) = (&mut unknown, embedded) {
            embedded.sort();
            list.extend(embedded);
        }
        if let (Some(metadata), Value::Object(fields)) = (metadata, object) {
            fields.insert("metadata".to_owned(), metadata);
        }
        Ok(unknown.unwrap_or_default())
    }

    /// What a new object starts with: no status where that is a subresource, and the first generation.
    pub(crate) fn prepare_create(&self, object: &mut Value) {
        if let Value::Object(fields) = object {
            if self.status {
                fields.remove("status");
            }
            set_generation(fields, 1);
        }
    }

    /// What an update may not change: the status, where that is a subresource. Any change but one to the metadata
    /// makes a new generation.
    pub(crate) fn prepare_update(&self, new: &mut Value, old: &Value) {
        let Value::Object(fields) = new else { return };
        if self.status {
            match old.get("status") {
                Some(status) => {
                    fields.insert("status".to_owned(), status.clone());
                }
                None => {
                    fields.remove("status");
                }
            }
        }
        let generation = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
        set_generation(fields, if same_content(fields, old) { generation } else { generation + 1 });
    }

    /// What an update of the status may change: only that.
    pub(crate) fn prepare_status_update(new: &mut Value, old: &Value) {
        let Value::Object(fields) = new else { return };
        let status = fields.remove("status");
        let managed = fields
            .get_mut("metadata")
            .and_then(|metadata| metadata.get_mut("managedFields"))
            .map(Value::take);
        *new = old.clone();
        let Value::Object(fields) = new else { return };
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            match managed {
                Some(managed) => metadata.insert("managedFields".to_owned(), managed),
                None => metadata.remove("managedFields"),
            };
        }
        match status {
            Some(status) => fields.insert("status".to_owned(), status),
            None => fields.remove("status"),
        };
    }

    /// Checks a new object. `problems` are those found before, in its metadata.
    pub(crate) fn validate_create(&self, object: &Value, problems: Vec<FieldProblem>) -> Checked {
        let wrong = self.wrong_type(object);
        if !wrong.is_empty() {
            return Checked { problems: wrong, warnings: Vec::new() };
        }
        let mut problems = problems;
        problems.extend(validate::check(object, &self.schema, None, None));
        scale::check(self, object, true, &mut problems);
        metadata::check_all_embedded(object, &self.schema, false, &Path::Root, &mut problems);
        lists::check(object, &self.schema, &Path::Root, &mut problems);
        self.with_rules(object, None, problems)
    }

    /// Checks a change of an object. Problems that were there before, and whose field did not change, are forgiven.
    pub(crate) fn validate_update(&self, new: &Value, old: &Value, problems: Vec<FieldProblem>) -> Checked {
        let wrong = self.wrong_type(new);
        if !wrong.is_empty() {
            return Checked { problems: wrong, warnings: Vec::new() };
        }
        let mut problems = problems;
        problems.extend(validate::check(new, &self.schema, Some(old), None));
        scale::check(self, new, true, &mut problems);
        metadata::check_all_embedded(new, &self.schema, false, &Path::Root, &mut problems);
        self.check_lists(new, old, &mut problems);
        self.with_rules(new, Some(old), problems)
    }

    /// Checks a change of the status of an object.
    pub(crate) fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        problems: Vec<FieldProblem>,
    ) -> Checked {
        let wrong = self.wrong_type(new);
        if !wrong.is_empty() {
            return Checked { problems: wrong, warnings: Vec::new() };
        }
        let mut problems = problems;
        if let (Some(schema), Some(status)) = (self.schema.property("status"), new.get("status")) {
            problems.extend(validate::check(status, schema, old.get("status"), Some("status")));
        }
        scale::check(self, new, false, &mut problems);
        self.check_lists(new, old, &mut problems);
        self.with_rules(new, Some(old), problems)
    }

    /// Lists that had repetitions before may keep them.
    fn check_lists(&self, new: &Value, old: &Value, problems: &mut Vec<FieldProblem>) {
        let mut before = Vec::new();
        lists::check(old, &self.schema, &Path::Root, &mut before);
        if before.is_empty() {
            lists::check(new, &self.schema, &Path::Root, problems);
        }
    }

    fn wrong_type(&self, object: &Value) -> Vec<FieldProblem> {
        let mut problems = Vec::new();
        for (key, wanted) in [("kind", &self.kind), ("apiVersion", &self.api_version)] {
            let found = object.get(key).and_then(Value::as_str).unwrap_or("");
            if found != wanted {
                problems.push(FieldProblem::new(
                    key,
                    Problem::Invalid(found.into(), format!("must be {wanted}")),
                ));
            }
        }
        problems
    }

    /// Applies the rules of the schema, unless something else is so wrong that they would make no sense.
    fn with_rules(&self, new: &Value, old: Option<&Value>, mut problems: Vec<FieldProblem>) -> Checked {
        let Some(rules) = &self.rules else { return Checked { problems, warnings: Vec::new() } };
        let blocked = problems.iter().any(|problem| {
            matches!(
                problem.kind,
                Problem::NotSupported(..)
                    | Problem::Required(_)
                    | Problem::TooLong(_)
                    | Problem::TooLongCharacters(_)
                    | Problem::TooMany(..)
                    | Problem::TypeInvalid(..)
            )
        });
        if blocked {
            let why = "some validation rules were not checked because the object was invalid; correct the existing \
                       errors to complete validation";
            problems
                .push(FieldProblem::new(Path::Root.text(), Problem::Invalid(Value::Null, why.to_owned())));
            return Checked { problems, warnings: Vec::new() };
        }
        let applied = rules.apply(&self.schema, new, old, true, &Path::Root, BUDGET);
        problems.extend(applied.problems);
        Checked { problems, warnings: applied.warnings }
    }
}

fn set_generation(fields: &mut Map<String, Value>, generation: i64) {
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.insert("generation".to_owned(), generation.into());
    }
}

/// True when everything but the metadata is the same.
fn same_content(fields: &Map<String, Value>, old: &Value) -> bool {
    let Some(old) = old.as_object() else { return false };
    let content = |fields: &Map<String, Value>| fields.len() - usize::from(fields.contains_key("metadata"));
    content(fields) == content(old)
        && fields.iter().all(|(key, value)| key == "metadata" || old.get(key) == Some(value))
}

//! The options of writes.

use serde_json::{Map, Value, json};

use super::Call;
use crate::merge;
use crate::schema::decode::FieldValidation;
use crate::status::{FieldProblem, Problem, Status};

/// The options of a create, update or patch.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
    pub(crate) validation: FieldValidation,
    pub(crate) force: bool,
}

impl WriteOptions {
    /// Options of a write the server makes itself, in the name of this field manager.
    pub(crate) fn own(manager: &str) -> Self {
        Self {
            dry_run: false,
            field_manager: manager.to_owned(),
            validation: FieldValidation::Ignore,
            force: false,
        }
    }

    /// Reads and checks the options; `kind` is the name the real server gives them.
    pub(crate) fn read(call: &Call, kind: &str) -> Result<Self, Status> {
        let problems = merge::check_manager(call.parameters.text("fieldManager"));
        Self::read_rest(call, kind, problems)
    }

    /// Reads and checks the options of a patch, some of which depend on whether it is applied.
    pub(crate) fn read_for_patch(call: &Call, applies: bool) -> Result<Self, Status> {
        let parameters = &call.parameters;
        let force = parameters.get("force").map(|_| parameters.flag("force"));
        let problems = merge::check_patch_options(applies, parameters.text("fieldManager"), force);
        Self::read_rest(call, "PatchOptions", problems)
    }

    /// Reads the options, after what is wrong with those that are checked first.
    fn read_rest(call: &Call, kind: &str, mut problems: Vec<FieldProblem>) -> Result<Self, Status> {
        let parameters = &call.parameters;
        let dry_runs: Vec<&str> = parameters.all("dryRun").filter(|value| !value.is_empty()).collect();
        if dry_runs.iter().any(|value| *value != "All") {
            let shown = Value::from(dry_runs.clone());
            problems.push(FieldProblem::new("dryRun", Problem::NotSupported(shown, vec!["All".to_owned()])));
        }
        let validation = match parameters.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let choices = ["", "Ignore", "Strict", "Warn"].map(str::to_owned).to_vec();
                problems
                    .push(FieldProblem::new("fieldValidation", Problem::NotSupported(other.into(), choices)));
                FieldValidation::Warn
            }
        };
        if !problems.is_empty() {
            return Err(Status::invalid("meta.k8s.io", kind, "", problems));
        }
        Ok(Self {
            dry_run: !dry_runs.is_empty(),
            field_manager: parameters.text("fieldManager").to_owned(),
            validation,
            force: parameters.flag("force"),
        })
    }

    /// The options as admission sees them.
    pub(crate) fn to_value(&self, kind: &str) -> Value {
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if !self.field_manager.is_empty() {
            options["fieldManager"] = self.field_manager.as_str().into();
        }
        options
    }

    /// The manager whose fields a write owns: as named, or by the client's program.
    pub(crate) fn manager(&self, call: &Call) -> String {
        let agent = call.headers.get(http::header::USER_AGENT).map(http::HeaderValue::as_bytes);
        merge::manager_name(&self.field_manager, &String::from_utf8_lossy(agent.unwrap_or_default()))
    }
}

/// The options of a deletion.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) grace_seconds: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) policy: Option<Propagation>,
    /// The old way to say orphan or background.
    pub(crate) orphan_dependents: Option<bool>,
    /// True when admission has no say, as in deletions the server makes straight to its store.
    pub(crate) unasked: bool,
}

/// What becomes of the objects an object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Orphan,
    Background,
    Foreground,
}

impl DeleteOptions {
    /// Reads the options off a body, or off the query when there is none.
    pub(crate) fn read(call: &Call, body: Option<&Value>) -> Result<Self, Status> {
        let from_query;
        let options = if let Some(body) = body {
            body
        } else {
            from_query = Self::query(call)?;
            &from_query
        };
        let mut problems = Vec::new();
        let policy = match options["propagationPolicy"].as_str() {
            None => None,
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some(other) => {
                let choices = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned).to_vec();
                problems.push(FieldProblem::new(
                    "propagationPolicy",
                    Problem::NotSupported(other.into(), choices),
                ));
                None
            }
        };
        let orphan_dependents = options["orphanDependents"].as_bool();
        if policy.is_some() && orphan_dependents.is_some() {
            problems.push(FieldProblem::new(
                "propagationPolicy",
                Problem::Invalid(
                    options["propagationPolicy"].clone(),
                    "orphanDependents and deletionPropagation cannot be both set".to_owned(),
                ),
            ));
        }
        let dry_runs: Vec<&Value> = options["dryRun"].as_array().into_iter().flatten().collect();
        if dry_runs.iter().any(|value| *value != "All") {
            let shown = options["dryRun"].clone();
            problems.push(FieldProblem::new("dryRun", Problem::NotSupported(shown, vec!["All".to_owned()])));
        }
        if !problems.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", problems));
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(Self {
            dry_run: !dry_runs.is_empty(),
            grace_seconds: options["gracePeriodSeconds"].as_i64(),
            uid: text(&options["preconditions"]["uid"]),
            version: text(&options["preconditions"]["resourceVersion"]),
            policy,
            orphan_dependents,
            unasked: false,
        })
    }

    /// The options as an object, made of the query.
    fn query(call: &Call) -> Result<Value, Status> {
        let parameters = &call.parameters;
        let mut options = Map::new();
        if let Some(text) = parameters.get("gracePeriodSeconds").filter(|text| !text.is_empty()) {
            let seconds: i64 = text.parse().map_err(|_| {
                Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
            })?;
            options.insert("gracePeriodSeconds".to_owned(), seconds.into());
        }
        if let Some(policy) = parameters.get("propagationPolicy").filter(|text| !text.is_empty()) {
            options.insert("propagationPolicy".to_owned(), policy.into());
        }
        if parameters.get("orphanDependents").is_some() {
            options.insert("orphanDependents".to_owned(), parameters.flag("orphanDependents").into());
        }
        let dry_runs: Vec<&str> = parameters.all("dryRun").filter(|text| !text.is_empty()).collect();
        if !dry_runs.is_empty() {
            options.insert("dryRun".to_owned(), dry_runs.into());
        }
        Ok(options.into())
    }

    /// The options as admission sees them.
    pub(crate) fn to_value(&self) -> Value {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        if let Some(seconds) = self.grace_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if let Some(policy) = self.policy {
            options["propagationPolicy"] = format!("{policy:?}").into();
        }
        if let Some(orphan) = self.orphan_dependents {
            options["orphanDependents"] = orphan.into();
        }
        if self.uid.is_some() || self.version.is_some() {
            let mut preconditions = Map::new();
            for (key, value) in [("uid", &self.uid), ("resourceVersion", &self.version)] {
                if let Some(value) = value {
                    preconditions.insert(key.to_owned(), value.as_str().into());
                }
            }
            options["preconditions"] = preconditions.into();
        }
        options
    }
}

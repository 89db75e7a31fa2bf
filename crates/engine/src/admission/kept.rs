//! What may not change.

use serde_json::Value;
use trellis_model::change::{Class, FieldClass, POOL_FIELDS, diff, rule_for};
use trellis_model::{Problem, Severity, Subject};

use super::read::{document, narrowed, placed, reading};
use super::{Cause, Kind, Why};
use crate::families::{Family, KKP};

/// What of a Machine's spec may change: it does not make it another machine.
pub(super) const LOOSE: &[&str] = &["metadata", "taints", "lifecycleHooks"];
/// The machine-controller's way to change a Machine all the same.
pub(super) const BYPASS: &str = "kubermatic.io/bypass-no-spec-mutation-requirement";
pub(super) const PROVIDER_ID: &str =
    "a provider id is how the Node is known and does not change once it is there";
pub(super) const MACHINE: &str = "a machine stays what it was made as; change its pool, or delete it";
pub(super) const SELECTOR: &str =
    "the selector does not change: machines would be lost from sight; make another pool";

/// What a new version of an object changes that may not change.
pub(super) fn causes(kind: Kind, object: &Value, old: &Value) -> Vec<Cause> {
    match kind {
        Kind::Machine(family) => machine(family, object, old),
        Kind::HealthCheck(_) => Vec::new(),
        Kind::Cluster => classes(kind, object, old),
        Kind::Pool(_) | Kind::Set(_) => {
            let mut causes = classes(kind, object, old);
            if object.pointer("/spec/selector") != old.pointer("/spec/selector") {
                causes.push(forbidden("spec.selector", SELECTOR));
            }
            causes
        }
    }
}

fn forbidden(field: &str, message: &str) -> Cause {
    Cause { field: field.to_owned(), why: Why::Forbidden, message: message.to_owned() }
}

fn machine(family: &Family, object: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let id = |object: &Value| {
        let id = object.pointer("/spec/providerID").and_then(Value::as_str).filter(|id| !id.is_empty());
        id.map(str::to_owned)
    };
    if id(old).is_some() && id(old) != id(object) {
        causes.push(forbidden("spec.providerID", PROVIDER_ID));
    }
    let bypassed = object.pointer("/metadata/annotations").and_then(|all| all.get(BYPASS));
    if *family == KKP && bypassed.and_then(Value::as_str) == Some("true") {
        return causes;
    }
    let spec = |object: &Value| object.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    let (new, old) = (spec(object), spec(old));
    let mut fields: Vec<&String> = new.keys().chain(old.keys()).collect();
    fields.sort();
    fields.dedup();
    for field in fields {
        let may = field == "providerID" || LOOSE.contains(&field.as_str());
        if !may && new.get(field) != old.get(field) {
            causes.push(forbidden(&format!("spec.{field}"), MACHINE));
        }
    }
    causes
}

/// What the model refuses to change, at the fields it was read from.
fn classes(kind: Kind, object: &Value, old: &Value) -> Vec<Cause> {
    let (Some(object), Some(old)) = (narrowed(object), narrowed(old)) else { return Vec::new() };
    let (_, mut read) = reading(&document(kind, &object));
    let (_, before) = reading(&document(kind, &old));
    let mut after = read.estate.clone();
    let mut problems = Vec::new();
    if let (Some(was), Some(is)) = (before.estate.pools.first(), after.pools.first_mut()) {
        let subject = Subject::Pool(is.spec.cluster.clone(), is.name.clone());
        if is.spec.cluster != was.spec.cluster {
            let why = rule_for(&[POOL_FIELDS], "cluster").map_or("", |rule| rule.why);
            problems.push(problem(subject.clone(), "cluster", why));
            // The rest of it is compared all the same.
            is.spec.cluster.clone_from(&was.spec.cluster);
            is.name.clone_from(&was.name);
        }
        let plan = diff(&before.estate, &after);
        let refused = plan.pools.iter().flat_map(|pool| &pool.changes);
        let refused = refused.filter(|change| change.class == Class::Reject);
        problems.extend(refused.map(|change| problem(subject.clone(), &change.path, &change.why)));
    } else if kind == Kind::Cluster {
        let plan = diff(&before.estate, &after);
        let refused = plan.clusters.iter().flat_map(|cluster| &cluster.changes);
        let refused = refused.filter(|change| change.class == Class::Reject);
        problems.extend(refused.map(|change| problem(change.subject.clone(), &change.path, &change.why)));
    }
    let messages: Vec<String> = problems.iter().map(|problem| problem.message.clone()).collect();
    read.report(problems);
    let located = read.diagnostics.iter().filter(|diagnostic| diagnostic.code == CODE);
    let causes = located.map(|diagnostic| {
        let path = diagnostic.path.as_deref().unwrap_or("spec");
        let message = messages.iter().find(|message| diagnostic.message.ends_with(*message));
        forbidden(&placed(path, false), message.unwrap_or(&diagnostic.message))
    });
    causes.collect()
}

const CODE: &str = "may-not-change";

fn problem(subject: Subject, path: &str, why: &str) -> Problem {
    Problem {
        severity: Severity::Error,
        code: CODE,
        subject,
        path: path.to_owned(),
        message: why.to_owned(),
        fix: None,
    }
}

/// The rows of a table of fields that always refuse a change.
pub(super) fn refused(
    rules: &'static [trellis_model::change::FieldRule],
) -> impl Iterator<Item = &'static trellis_model::change::FieldRule> {
    rules.iter().filter(|rule| rule.class == FieldClass::Always(Class::Reject))
}

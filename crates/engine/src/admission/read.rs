//! Objects read as the controllers read them, for what is wrong with them.

use serde_json::{Map, Value, json};
use trellis_dialects::path::FieldPath;
use trellis_dialects::read::{Read, read};
use trellis_dialects::render;
use trellis_dialects::source::SourceMap;

use super::{Cause, Kind, Why};
use crate::families::health::{BadHealthCheck, HealthCheck};
use crate::families::{
    Family, OPENSHIFT, OPENSHIFT_CLUSTER, Object, Readings, TRELLIS, cluster_document, name_cluster,
};

/// The code of what is on a platform that is not ours: somebody else's object.
const FOREIGN: &str = "unsupported-platform";
/// Warnings that only say that an object was looked at alone.
const ALONE: &[&str] = &["cluster-not-here", "unknown-flavor"];
/// A name for an object that gets its own only when it is stored.
const NAMELESS: &str = "x";

/// What an object comes to.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) causes: Vec<Cause>,
    pub(super) warnings: Vec<String>,
}

/// Everything there is to say about an object alone.
pub(super) fn findings(kind: Kind, object: &Value) -> Findings {
    let Some(narrowed) = narrowed(object) else {
        return Findings {
            causes: vec![invalid("metadata", "it does not have the form of an object")],
            ..Findings::default()
        };
    };
    let mut findings = match kind {
        Kind::HealthCheck(_) => Findings { causes: health_check(object), ..Findings::default() },
        // Trellis makes them; their form is the schema's business.
        Kind::Machine(family) if *family == TRELLIS => Findings::default(),
        _ => look(&document(kind, &narrowed), matches!(kind, Kind::Machine(_))),
    };
    if kind == Kind::Pool(&TRELLIS)
        && let Err(bad) = HealthCheck::of_pool(&narrowed)
    {
        let field = match &bad {
            BadHealthCheck::Time { field, .. } | BadHealthCheck::Share { field, .. } => field.as_str(),
            BadHealthCheck::Form(_) | BadHealthCheck::Remedy => "",
        };
        let field = FieldPath::root().child("metadata").child("annotations").child(field).to_string();
        findings.causes.push(invalid(&field, &bad.to_string()));
    }
    findings
}

/// An object as the controllers keep it. One that gets its name when it is stored has one already.
pub(super) fn narrowed(object: &Value) -> Option<Object> {
    let mut object = object.clone();
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    if metadata.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
        let begin = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
        let name = format!("{begin}{NAMELESS}");
        metadata.insert("name".to_owned(), name.into());
    }
    Object::from_json(object).ok()
}

/// The document an object is read as.
pub(super) fn document(kind: Kind, object: &Object) -> Value {
    let readings = |family: &'static Family| Readings::new(family, None, Vec::new());
    let mut document = match kind {
        Kind::Cluster | Kind::HealthCheck(_) => cluster_document(object),
        Kind::Pool(family) => readings(family).pool_document(object),
        Kind::Set(family) => {
            let owner = object.metadata.owner.as_ref().map(|owner| &*owner.name);
            readings(family).set_document(object, owner)
        }
        Kind::Machine(family) => readings(family).machine_document(object, None),
    };
    // Which cluster it is, the controller knows from elsewhere.
    if matches!(kind, Kind::Set(family) | Kind::Machine(family) if *family == OPENSHIFT) {
        let label = document
            .pointer("/spec/template/metadata/labels")
            .and_then(|labels| labels.get(OPENSHIFT_CLUSTER));
        let named = label.is_some_and(Value::is_string);
        if !named
            && let Some(template) = document.pointer_mut("/spec/template").and_then(Value::as_object_mut)
        {
            name_cluster(template, NAMELESS);
        }
    }
    document
}

/// Reads a document, with the rules of the model and, where those are content, of KubeVirt.
pub(super) fn reading(document: &Value) -> (SourceMap, Read) {
    let mut sources = SourceMap::new();
    // Line by line: what may be said of a line is decided by what is on it.
    sources.add("object", serde_json::to_string_pretty(document).unwrap_or_default());
    let mut read = read(&sources);
    if !read.diagnostics.has_errors() {
        let problems = trellis_platform_kubevirt::check(&read.estate);
        read.report(problems);
    }
    (sources, read)
}

fn look(document: &Value, is_machine: bool) -> Findings {
    let (sources, read) = reading(document);
    if read.diagnostics.iter().any(|diagnostic| diagnostic.code == FOREIGN) {
        return Findings::default();
    }
    let mut findings = Findings::default();
    for diagnostic in render::to_json(&read.diagnostics, &sources).as_array().into_iter().flatten() {
        let text = |key: &str| diagnostic.get(key).and_then(Value::as_str).unwrap_or_default();
        let field = placed(text("path"), is_machine);
        let help = if text("help").is_empty() { String::new() } else { format!("; {}", text("help")) };
        let message = format!("{}{help}", text("message"));
        match text("severity") {
            "error" => findings.causes.push(invalid(&field, &message)),
            "warning" if !ALONE.contains(&text("code")) => {
                findings.warnings.push(format!("{field}: {message}"));
            }
            _ => {}
        }
    }
    findings
}

/// A field of the document as a field of the object: a machine is read as the template of a set.
pub(super) fn placed(path: &str, is_machine: bool) -> String {
    match path.strip_prefix("spec.template.").filter(|_| is_machine) {
        Some(rest) => rest.to_owned(),
        None => path.to_owned(),
    }
}

pub(super) fn invalid(field: &str, message: &str) -> Cause {
    Cause { field: field.to_owned(), why: Why::Invalid, message: message.to_owned() }
}

/// What is wrong with a health check: each part is read by itself, so that all of it is found.
fn health_check(object: &Value) -> Vec<Cause> {
    let spec = object.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut causes = Vec::new();
    let mut read_alone = |field: &str, part: Map<String, Value>| {
        let alone = json!({"metadata": {"name": NAMELESS}, "spec": part});
        let bad = Object::from_json(alone).ok().map(|object| HealthCheck::of_object(&object));
        if let Some(Err(bad)) = bad {
            let message = match &bad {
                BadHealthCheck::Form(_) => "it does not have the form it should have".to_owned(),
                BadHealthCheck::Remedy => bad.to_string(),
                BadHealthCheck::Time { field, .. } | BadHealthCheck::Share { field, .. } => {
                    let whole = bad.to_string();
                    whole.strip_prefix(&format!("{field}: ")).map_or(whole.clone(), str::to_owned)
                }
            };
            causes.push(invalid(field, &message));
        }
    };
    for key in ["selector", "maxUnhealthy", "nodeStartupTimeout"] {
        if let Some(value) = spec.get(key) {
            read_alone(&format!("spec.{key}"), Map::from_iter([(key.to_owned(), value.clone())]));
        }
    }
    let conditions = spec.get("unhealthyConditions").and_then(Value::as_array);
    for (index, condition) in conditions.into_iter().flatten().enumerate() {
        let part = Map::from_iter([("unhealthyConditions".to_owned(), json!([condition]))]);
        let timed = condition.get("type").is_some() && condition.get("status").is_some();
        let below = if timed { ".timeout" } else { "" };
        read_alone(&format!("spec.unhealthyConditions[{index}]{below}"), part);
    }
    causes
}

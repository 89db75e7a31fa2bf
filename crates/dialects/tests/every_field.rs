//! Every field of the KKP and OpenShift manifests does something, or Trellis says that it does not.
//!
//! The fixtures hold every field there is. Each is taken away and changed in turn; then the estate is another
//! one, or something else is said.

use serde_json::{Value, json};
use trellis_dialects::check::untyped;
use trellis_dialects::diagnostic::{Diagnostics, Severity};
use trellis_dialects::fields::{Field, fields};
use trellis_dialects::parse::parse;
use trellis_dialects::read::{Dialect, kinds, read};
use trellis_dialects::schema::Treatment;
use trellis_dialects::source::{FileId, SourceMap};
use trellis_dialects::yaml_out::to_yaml_documents;
use trellis_model::Estate;

/// Fields whose value may only be the one it has, and that may be left out.
const FIXED: &[&str] = &["/spec/strategy/type", "/controlPlane/name", "/apiVersion"];

fn documents(fixture: &str) -> Vec<Value> {
    let mut diagnostics = Diagnostics::new();
    let documents = parse(FileId(0), fixture, &mut diagnostics);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    documents.iter().map(|document| untyped(&document.root)).collect()
}

/// The estate, and everything that was said, without places.
fn outcome(documents: &[Value]) -> (Estate, Vec<(Severity, String, String)>) {
    let mut sources = SourceMap::new();
    sources.add("fields.yaml", to_yaml_documents(documents));
    let read = read(&sources);
    let said =
        read.diagnostics.iter().map(|d| (d.severity, d.path.clone().unwrap_or_default(), d.message.clone()));
    (read.estate, said.collect())
}

/// The places of all values that hold no others.
fn leaves(value: &Value, pointer: &str, out: &mut Vec<String>) {
    let step = |key: &str| format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Object(map) => map.iter().for_each(|(key, inner)| leaves(inner, &step(key), out)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, inner)| leaves(inner, &step(&index.to_string()), out));
        }
        _ => out.push(pointer.to_owned()),
    }
}

fn without(document: &Value, pointer: &str) -> Value {
    let mut document = document.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
    let key = key.replace("~1", "/").replace("~0", "~");
    match document.pointer_mut(parent) {
        Some(Value::Object(map)) => drop(map.remove(&key)),
        Some(Value::Array(list)) => drop(list.remove(key.parse().unwrap_or_default())),
        _ => {}
    }
    document
}

fn changed(document: &Value, pointer: &str) -> Value {
    let mut document = document.clone();
    if let Some(value) = document.pointer_mut(pointer) {
        *value = match &*value {
            Value::Bool(flag) => json!(!flag),
            Value::Number(number) => json!(number.as_u64().unwrap_or_default() + 1),
            Value::String(text) => json!(format!("{text}x")),
            other => other.clone(),
        };
    }
    document
}

fn check(name: &str, fixture: &str) {
    let documents = documents(fixture);
    let before = outcome(&documents);
    let mut dead = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        let mut places = Vec::new();
        leaves(document, "", &mut places);
        for place in places {
            let is_alive =
                [without(document, &place), changed(document, &place)].into_iter().any(|variant| {
                    let mut documents = documents.clone();
                    documents[index] = variant;
                    outcome(&documents) != before
                });
            if !is_alive && !FIXED.contains(&place.as_str()) {
                dead.push(format!("{name} {place}"));
            }
        }
    }
    assert!(dead.is_empty(), "without effect:\n{}", dead.join("\n"));
    let errors: Vec<_> = before.1.iter().filter(|said| said.0 == Severity::Error).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
}

/// The keys on the way to a place, without numbers of items.
fn keys(path: &str, between: char) -> Vec<String> {
    let steps = path.split(between).map(|step| step.trim_end_matches("[]"));
    steps
        .filter(|step| !step.is_empty() && *step != "*" && step.parse::<u32>().is_err())
        .map(str::to_owned)
        .collect()
}

/// Fields of a kind that no fixture holds, apart from those that are ignored or refused, and other ways to
/// write the same.
fn uncovered(kind: &str, dialect: Dialect, fixtures: &[&str]) -> Vec<String> {
    let mut places = Vec::new();
    for document in fixtures.iter().flat_map(|fixture| documents(fixture)) {
        leaves(&document, "", &mut places);
    }
    let given: Vec<Vec<String>> = places.iter().map(|place| keys(place, '/')).collect();
    let info = kinds().into_iter().find(|info| info.kind == kind && info.dialect == dialect);
    let table = info.map(|info| fields((info.schema)())).unwrap_or_default();
    let named = |field: &&Field| {
        let other_way = field.path.contains("KeyRef") || field.path.ends_with(".value");
        let untold = matches!(field.treatment, Some((Treatment::Ignored | Treatment::Refused, _)));
        field.fields.is_empty()
            && !other_way
            && !untold
            && field.name != "generateName"
            && field.path != "kind"
    };
    table
        .iter()
        .flat_map(Field::flatten)
        .filter(named)
        .filter(|field| {
            // The pools of an install-config are of one type, so a field need not be in each of them.
            let keys = keys(&field.path, '.');
            let end = &keys[keys.len().saturating_sub(2)..];
            !given.iter().any(|place| place.windows(end.len()).any(|part| part == end))
        })
        .map(|field| format!("{kind} {}", field.path))
        .collect()
}

#[test]
fn the_fixtures_hold_every_field() {
    let kkp =
        [include_str!("fixtures/kkp-every-field.yaml"), include_str!("fixtures/kkp-every-field-flat.yaml")];
    let openshift =
        [include_str!("fixtures/openshift-every-field.yaml"), include_str!("fixtures/openshift-ovirt.yaml")];
    let missing = [
        uncovered("MachineDeployment", Dialect::Kkp, &kkp),
        uncovered("InstallConfig", Dialect::Openshift, &openshift),
        uncovered("MachineSet", Dialect::Openshift, &openshift),
    ]
    .concat();
    assert!(missing.is_empty(), "in no fixture:\n{missing:#?}");
}

#[test]
fn kkp() {
    check("kkp", include_str!("fixtures/kkp-every-field.yaml"));
    check("kkp, flat", include_str!("fixtures/kkp-every-field-flat.yaml"));
}

#[test]
fn openshift() {
    check("openshift", include_str!("fixtures/openshift-every-field.yaml"));
}

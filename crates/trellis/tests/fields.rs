//! Every field of every dialect does something, or Trellis says that it does not.
//!
//! The manifests in `fields/` hold every field there is, with values that are not the defaults. Each field
//! is changed and taken away in turn. Then the objects that machines are made of change; or, for the
//! fields in [`POLICIES`], which no infra object has room for, the cluster's record changes; or a
//! diagnostic names the field. A field that is in no manifest fails the test as well. Fields that are
//! ignored or refused are put into a manifest, and a diagnostic must name them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use trellis_dialects::check::untyped;
use trellis_dialects::diagnostic::{Diagnostics, Severity};
use trellis_dialects::fields::{Field, fields};
use trellis_dialects::parse::parse;
use trellis_dialects::read::{Dialect, KindInfo, kinds, read};
use trellis_dialects::schema::Treatment;
use trellis_dialects::source::{FileId, SourceMap};
use trellis_dialects::yaml_out::to_yaml_documents;
use trellis_model::Estate;
use trellis_model::canonical::Revision;
use trellis_model::change::{Class, Fate, diff, differences};
use trellis_model::image::ImageSource;
use trellis_model::quantity::Bytes;

/// Model fields that controllers act on and that no object of a machine shows: how pools change, what nodes
/// look like, and what is kept for the installer. Their effect is in the cluster's record.
const POLICIES: &[&str] = &[
    "metadata.namespace",
    "spec.update",
    "spec.deletePolicy",
    "spec.autoscaling",
    "spec.nodeLabels",
    "spec.nodeAnnotations",
    "spec.nodeTaints",
    "spec.maintenance",
    "spec.cloudController",
    "spec.version",
    "spec.baseDomain",
    "spec.network.plugin",
    "spec.network.pods",
    "spec.network.services",
    "spec.network.nodes",
    "spec.network.apiVips",
    "spec.network.ingressVips",
    "spec.platform.kubevirt.credentials",
    "spec.flavors.tuned.summary",
];

/// Fields every Kubernetes object has. On most objects they mean nothing to Trellis, which says so in their
/// documentation; a diagnostic for every label would only be noise.
const UNIVERSAL: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata.labels.*",
    "metadata.annotations.*",
    "metadata.generateName",
    "metadata.namespace",
];

/// Whether a field is one every object has, on the object itself or on a template.
fn is_universal(path: &str) -> bool {
    UNIVERSAL.iter().any(|field| path == *field || path.ends_with(&format!(".{field}")))
}

/// Configs that also stand inside a Shoot or CloudProfile, where the same types are tried.
const EMBEDDED: &[&str] =
    &["InfrastructureConfig", "ControlPlaneConfig", "WorkerConfig", "CloudProfileConfig"];

/// What manifests lead to.
struct Outcome {
    objects: Vec<Value>,
    record: Vec<Value>,
    /// Severity, path and message of every diagnostic.
    said: BTreeSet<(Severity, String, String)>,
    failed: bool,
    on_kubevirt: bool,
}

fn outcome(documents: &[Value]) -> Outcome {
    let mut sources = SourceMap::new();
    sources.add("fields.yaml", to_yaml_documents(documents));
    let mut read = read(&sources);
    let on_kubevirt = read.estate.clusters.iter().all(|cluster| cluster.spec.platform.name() == "kubevirt");
    // An install-config has no image of its own; without one nothing could be rendered.
    if let Some(image) = ImageSource::at("https://images.example/any.img") {
        read.estate.fill_in_image(&image);
    }
    let mut objects = Vec::new();
    if !read.diagnostics.has_errors() && on_kubevirt {
        let rendered = trellis_platform_kubevirt::render(&read.estate);
        read.report(rendered.problems);
        objects = rendered.objects.iter().map(trellis_platform_kubevirt::Object::to_json).collect();
    }
    let said = read.diagnostics.iter();
    let said = said.map(|d| (d.severity, d.path.clone().unwrap_or_default(), d.message.clone())).collect();
    let failed = read.diagnostics.has_errors();
    Outcome { objects, record: trellis_dialects::trellis::write(&read.estate), said, failed, on_kubevirt }
}

impl Outcome {
    /// Whether something is said about a field that was not said before.
    fn names(&self, field: &str, before: Option<&Self>) -> bool {
        let quoted = format!("`{field}`");
        self.said.iter().filter(|said| before.is_none_or(|before| !before.said.contains(*said))).any(
            |(_, path, message)| ends_in(path, field) || message.contains(&quoted) || message.contains(field),
        )
    }

    /// Whether something new is said about a value, for fields whose names say little.
    fn mentions(&self, value: &str, before: &Self) -> bool {
        self.said.difference(&before.said).any(|(_, _, message)| message.contains(value))
    }

    /// Whether the record differs in policies only, or in anything on a platform that is not rendered yet.
    fn records_a_policy(&self, before: &Self) -> bool {
        if self.failed || self.record == before.record {
            return false;
        }
        let (mut found, record) =
            (Vec::new(), |outcome: &Self| json!({ "record": by_name(&outcome.record) }));
        differences("", &record(before), &record(self), &mut found);
        !self.on_kubevirt
            || found.iter().all(|difference| {
                let path = difference.path.splitn(3, '.').nth(2).unwrap_or_default();
                POLICIES.iter().any(|policy| {
                    path == *policy
                        || path.starts_with(&format!("{policy}."))
                        || path.starts_with(&format!("{policy}["))
                })
            })
    }
}

/// Documents as a map, so that one more or less does not shift the others.
fn by_name(documents: &[Value]) -> Value {
    let key = |document: &Value| {
        format!("{}/{}", document["kind"], document["metadata"]["name"]).replace(['.', '"'], "")
    };
    documents
        .iter()
        .map(|document| (key(document), document.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn ends_in(path: &str, field: &str) -> bool {
    path.split(['.', '[', ']', '"']).any(|segment| segment == field)
}

/// A manifest file with everything in it.
struct Fixture {
    documents: Vec<Value>,
    before: Outcome,
}

fn fixtures() -> Vec<Fixture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fields");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let load = |file: &std::path::PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let mut diagnostics = Diagnostics::new();
        let documents = parse(FileId(0), &std::fs::read_to_string(file).unwrap(), &mut diagnostics);
        assert!(!diagnostics.has_errors(), "{name} is no YAML");
        let documents: Vec<Value> = documents.iter().map(|document| untyped(&document.root)).collect();
        let before = outcome(&documents);
        assert!(!before.failed, "{name} has errors: {:#?}", before.said);
        Fixture { documents, before }
    };
    files.iter().map(load).collect()
}

/// The kind of a document, as the readers see it.
fn kind_of(document: &Value, all: &[KindInfo]) -> KindInfo {
    let text = |key: &str| document[key].as_str().unwrap_or_default();
    let kind = if text("kind").is_empty() { "InstallConfig" } else { text("kind") };
    *all.iter().find(|info| info.kind == kind && info.api_version == text("apiVersion")).unwrap()
}

/// The place of a field in a document, as a JSON pointer.
struct Place<'a> {
    pointer: String,
    field: &'a Field,
}

/// Finds where the fields of a table are in a document: the innermost values, items of lists one by one.
fn places<'a>(value: &Value, fields: &'a [Field], pointer: &str, out: &mut Vec<Place<'a>>) {
    match value {
        Value::Array(list) => {
            for (i, item) in list.iter().enumerate() {
                places(item, fields, &format!("{pointer}/{i}"), out);
            }
        }
        Value::Object(map) => {
            for (key, inner) in map {
                let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                match fields.iter().find(|field| field.name == *key) {
                    Some(field) => inside(inner, field, &pointer, out),
                    // A map with keys of its own: what is below is the same for each.
                    None => places(inner, fields, &pointer, out),
                }
            }
        }
        _ => {}
    }
}

fn inside<'a>(value: &Value, field: &'a Field, pointer: &str, out: &mut Vec<Place<'a>>) {
    let is_leaf = field.fields.is_empty();
    match value {
        Value::Array(list) if is_leaf && !list.is_empty() => {
            for (i, item) in list.iter().enumerate() {
                inside(item, field, &format!("{pointer}/{i}"), out);
            }
        }
        Value::Object(map) if is_leaf && !map.is_empty() => {
            for (key, item) in map {
                inside(item, field, &format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")), out);
            }
        }
        Value::Object(_) | Value::Array(_) if !is_leaf => {
            let before = out.len();
            places(value, &field.fields, pointer, out);
            if out.len() == before {
                out.push(Place { pointer: pointer.to_owned(), field });
            }
        }
        _ => out.push(Place { pointer: pointer.to_owned(), field }),
    }
}

/// Other values for a field, the last of them nothing at all.
fn variants(value: &Value, field: &Field) -> Vec<Option<Value>> {
    let mut out = Vec::new();
    match value {
        Value::Bool(flag) => out.push(json!(!flag)),
        Value::Number(number) => {
            out.extend(number.as_u64().into_iter().flat_map(|n| [json!(n + 1), json!(n * 2)]));
        }
        Value::String(text) => {
            out.extend(field.allowed.iter().filter(|other| *other != text).map(|other| json!(other)));
            if let Ok(bytes) = text.parse::<Bytes>() {
                out.push(json!(Bytes::new(bytes.get() * 2).to_string()));
            }
            out.push(json!(format!("{text}x")));
            if let Some(last) = text.chars().last().filter(char::is_ascii_digit) {
                out.push(json!(format!(
                    "{}{}",
                    &text[..text.len() - 1],
                    if last == '1' { '2' } else { '1' }
                )));
            }
        }
        _ => {}
    }
    out.into_iter().map(Some).chain([None]).collect()
}

fn replaced(documents: &[Value], index: usize, pointer: &str, new: Option<&Value>) -> Vec<Value> {
    let mut documents = documents.to_vec();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    match (documents[index].pointer_mut(parent).unwrap(), new) {
        (Value::Object(map), Some(value)) => drop(map.insert(key, value.clone())),
        (Value::Object(map), None) => drop(map.remove(&key)),
        (Value::Array(list), Some(value)) => list[key.parse::<usize>().unwrap()] = value.clone(),
        (Value::Array(list), None) => drop(list.remove(key.parse().unwrap())),
        _ => unreachable!("a place is in an object or a list"),
    }
    documents
}

fn has_effect(fixture: &Fixture, index: usize, place: &Place<'_>) -> bool {
    let value = fixture.documents[index].pointer(&place.pointer).unwrap();
    fixture.before.names(&place.field.name, None)
        || variants(value, place.field).iter().any(|variant| {
            let after = outcome(&replaced(&fixture.documents, index, &place.pointer, variant.as_ref()));
            (!after.failed && after.objects != fixture.before.objects)
                || after.records_a_policy(&fixture.before)
                || after.names(&place.field.name, Some(&fixture.before))
                || value
                    .as_str()
                    .is_some_and(|value| value.len() > 2 && after.mentions(value, &fixture.before))
        })
}

fn leaf_fields(kind: &KindInfo) -> Vec<Field> {
    let top = fields((kind.schema)());
    top.iter().flat_map(Field::flatten).filter(|field| field.fields.is_empty()).cloned().collect()
}

fn is(field: &Field, treatment: Treatment) -> bool {
    field.treatment.as_ref().is_some_and(|(of_field, _)| *of_field == treatment)
}

#[test]
fn every_field_has_an_effect_or_a_diagnostic() {
    let (all, fixtures) = (kinds(), fixtures());
    // Whether a field has an effect anywhere: in one manifest it may be overruled by its neighbours.
    let mut covered: BTreeMap<(Dialect, &str, String), bool> = BTreeMap::new();
    for fixture in &fixtures {
        for (index, document) in fixture.documents.iter().enumerate() {
            let kind = kind_of(document, &all);
            let table = fields((kind.schema)());
            let mut found = Vec::new();
            places(document, &table, "", &mut found);
            for place in &found {
                let is_identity = ["apiVersion", "kind"].contains(&place.field.name.as_str());
                let alive = covered.entry((kind.dialect, kind.kind, place.field.path.clone())).or_default();
                *alive = *alive || is_identity || has_effect(fixture, index, place);
            }
        }
    }
    let dead = covered.iter().filter(|((_, _, path), alive)| !**alive && !is_universal(path));
    let dead: Vec<String> =
        dead.map(|((dialect, kind, path), _)| format!("{} {kind} {path}", dialect.as_str())).collect();
    let mut missing = Vec::new();
    for kind in &all {
        for field in leaf_fields(kind) {
            let named = is(&field, Treatment::Ignored) || is(&field, Treatment::Refused);
            let elsewhere = named || is_universal(&field.path) || EMBEDDED.contains(&kind.kind);
            if !elsewhere && !covered.contains_key(&(kind.dialect, kind.kind, field.path.clone())) {
                missing.push(format!("{} {} {}", kind.dialect.as_str(), kind.kind, field.path));
            }
        }
    }
    assert!(
        dead.is_empty() && missing.is_empty(),
        "{} without effect:\n{}\n\n{} in no manifest:\n{}",
        dead.len(),
        dead.join("\n"),
        missing.len(),
        missing.join("\n")
    );
}

/// All places a path of a field table leads to in a document, as JSON pointers.
fn pointers(value: &Value, path: &[&str], pointer: &str, out: &mut Vec<String>) {
    let Some((first, rest)) = path.split_first() else { return out.push(pointer.to_owned()) };
    let (key, lists) = (first.trim_end_matches("[]"), first.matches("[]").count());
    let Some(inner) = value.get(key) else { return };
    let mut found = vec![(format!("{pointer}/{key}"), inner)];
    for _ in 0..lists {
        let items = found.iter().flat_map(|(pointer, list)| {
            list.as_array()
                .into_iter()
                .flatten()
                .enumerate()
                .map(move |(i, item)| (format!("{pointer}/{i}"), item))
        });
        found = items.collect();
    }
    for (pointer, inner) in found {
        pointers(inner, rest, &pointer, out);
    }
}

/// Puts a value at a field wherever its parent is, and says whether it was named; `None` if it is nowhere.
fn is_named_when_given(
    field: &Field,
    kind: &KindInfo,
    fixtures: &[Fixture],
    all: &[KindInfo],
    value: &Value,
) -> Option<bool> {
    let path = field.path.trim_end_matches(['[', ']', '.', '*']);
    let parent: Vec<&str> =
        path.rsplit_once('.').map_or(Vec::new(), |(parent, _)| parent.split('.').collect());
    let mut tried = None;
    for fixture in fixtures {
        for (index, document) in fixture.documents.iter().enumerate() {
            let of = kind_of(document, all);
            let mut found = Vec::new();
            if (of.dialect, of.kind) == (kind.dialect, kind.kind) {
                pointers(document, &parent, "", &mut found);
            }
            let mut given: Vec<_> = found
                .into_iter()
                .map(|pointer| (format!("{pointer}/{}", field.name), value.clone()))
                .collect();
            // Where the parent is nowhere, it is given as well.
            if let (true, [around @ .., last]) = (given.is_empty(), parent.as_slice())
                && (of.dialect, of.kind) == (kind.dialect, kind.kind)
            {
                let mut found = Vec::new();
                pointers(document, around, "", &mut found);
                let nested = json!({ field.name.as_str(): value });
                given.extend(found.into_iter().map(|pointer| (format!("{pointer}/{last}"), nested.clone())));
            }
            for (pointer, value) in given {
                let given = replaced(&fixture.documents, index, &pointer, Some(&value));
                if outcome(&given).names(&field.name, Some(&fixture.before)) {
                    return Some(true);
                }
                tried = Some(false);
            }
        }
    }
    tried
}

#[test]
fn every_field_that_is_ignored_or_refused_is_named() {
    let (all, fixtures) = (kinds(), fixtures());
    let values = [
        json!("x"),
        json!(true),
        json!(1),
        json!({}),
        json!(["x"]),
        json!({ "x": "y" }),
        json!([{ "name": "x" }]),
    ];
    let mut silent = Vec::new();
    for kind in &all {
        for field in leaf_fields(kind) {
            let refused = is(&field, Treatment::Refused);
            if EMBEDDED.contains(&kind.kind) || (!refused && !is(&field, Treatment::Ignored)) {
                continue;
            }
            let values = if refused { &values[..] } else { &values[..1] };
            let named: Vec<Option<bool>> = values
                .iter()
                .map(|value| is_named_when_given(&field, kind, &fixtures, &all, value))
                .collect();
            if !named.contains(&Some(true)) {
                silent.push(format!("{} {} {} {named:?}", kind.dialect.as_str(), kind.kind, field.path));
            }
        }
    }
    assert!(silent.is_empty(), "{} never named:\n{}", silent.len(), silent.join("\n"));
}

/// The estate some documents describe, if they are without errors.
fn estate(documents: &[Value]) -> Option<Estate> {
    let mut sources = SourceMap::new();
    sources.add("fields.yaml", to_yaml_documents(documents));
    let read = read(&sources);
    (!read.diagnostics.has_errors()).then_some(read.estate)
}

#[test]
fn a_plan_replaces_machines_exactly_when_their_revision_changes() {
    let (all, mut rolls, mut keeps) = (kinds(), 0, 0);
    for fixture in fixtures() {
        let Some(old) = estate(&fixture.documents) else { continue };
        for (index, document) in fixture.documents.iter().enumerate() {
            let kind = kind_of(document, &all);
            if kind.dialect != Dialect::Trellis {
                continue;
            }
            let table = fields((kind.schema)());
            let mut found = Vec::new();
            places(document, &table, "", &mut found);
            for place in &found {
                let value = document.pointer(&place.pointer).unwrap();
                for variant in variants(value, place.field) {
                    let edited = replaced(&fixture.documents, index, &place.pointer, variant.as_ref());
                    let Some(new) = estate(&edited) else { continue };
                    for plan in diff(&old, &new).pools.iter().filter(|plan| plan.fate == Fate::Kept) {
                        let revision = |estate: &Estate| {
                            let pool = estate
                                .pools
                                .iter()
                                .find(|p| p.name == plan.name && p.spec.cluster == plan.cluster);
                            estate.cluster(&plan.cluster).map(|cluster| Revision::of(cluster, pool.unwrap()))
                        };
                        if revision(&old).is_none() || revision(&new).is_none() {
                            continue;
                        }
                        let says = plan.changes.iter().any(|change| change.class == Class::Roll);
                        let does = revision(&old) != revision(&new);
                        assert_eq!(says, does, "{} = {variant:?}: {:#?}", place.field.path, plan.changes);
                        if does { rolls += 1 } else { keeps += 1 }
                    }
                }
            }
        }
    }
    assert!(rolls > 100 && keeps > 1000, "{rolls} edits replaced machines, {keeps} did not");
}

#[test]
fn every_field_of_a_foreign_dialect_says_what_trellis_does_with_it() {
    let mut silent = Vec::new();
    for kind in kinds().into_iter().filter(|kind| kind.dialect != Dialect::Trellis) {
        for field in leaf_fields(&kind) {
            let documented = field.treatment.as_ref().is_some_and(|(_, what)| !what.is_empty());
            if !documented || field.about.is_empty() {
                silent.push(format!("{} {} {}", kind.dialect.as_str(), kind.kind, field.path));
            }
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

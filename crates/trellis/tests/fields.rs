//! Every field of every dialect does something, or Trellis says that it does not.
//!
//! The manifests in `fields/` hold every field there is, with values that are not the defaults. Each field
//! is changed and taken away in turn. Then the objects that machines are made of change; or, for the
//! fields in [`POLICIES`], which no infra object has room for, the cluster's record changes; or a
//! diagnostic names the field. A field that is in no manifest fails the test as well.

use std::collections::BTreeSet;

use serde_json::Value;
use trellis_dialects::check::untyped;
use trellis_dialects::diagnostic::Diagnostics;
use trellis_dialects::fields::{Field, fields};
use trellis_dialects::parse::parse;
use trellis_dialects::read::{Dialect, KindInfo, kinds, read};
use trellis_dialects::schema::Treatment;
use trellis_dialects::source::{FileId, SourceMap};
use trellis_dialects::yaml_out::to_yaml_documents;
use trellis_model::quantity::Bytes;

/// Model fields that controllers act on and that no object of a machine shows: how pools change, what nodes
/// look like, and what is kept for the installer. Their effect is in the cluster's record.
const POLICIES: &[&str] = &[
    "update",
    "deletePolicy",
    "autoscaling",
    "nodeLabels",
    "nodeAnnotations",
    "nodeTaints",
    "maintenance",
    "cloudController",
    "version",
    "baseDomain",
    "network.plugin",
    "network.pods",
    "network.services",
    "network.nodes",
    "network.apiVips",
    "network.ingressVips",
    "platform.kubevirt.credentials",
    "namespace",
    "flavors.summary",
    "platform.ovirt",
    "template.ovirt",
];

/// What manifests lead to.
struct Outcome {
    objects: Value,
    record: Vec<Value>,
    messages: BTreeSet<(String, String)>,
    failed: bool,
}

fn outcome(documents: &[Value]) -> Outcome {
    let mut sources = SourceMap::new();
    sources.add("fields.yaml", to_yaml_documents(documents));
    let mut read = read(&sources);
    let mut objects = Vec::new();
    if !read.diagnostics.has_errors() {
        let on_kubevirt = read.estate.clusters.iter().all(|c| c.spec.platform.name() == "kubevirt");
        if on_kubevirt {
            let rendered = trellis_platform_kubevirt::render(&read.estate);
            read.report(rendered.problems);
            objects = rendered.objects.iter().map(trellis_platform_kubevirt::Object::to_json).collect();
        }
    }
    let messages =
        read.diagnostics.iter().map(|d| (d.path.clone().unwrap_or_default(), d.message.clone())).collect();
    Outcome {
        objects: Value::Array(objects),
        record: trellis_dialects::trellis::write(&read.estate),
        messages,
        failed: read.diagnostics.has_errors(),
    }
}

/// One value in a document.
#[derive(Clone)]
struct Leaf {
    pointer: String,
    /// The path as field tables write it.
    path: String,
}

fn leaves(value: &Value, pointer: &str, path: &str, table: &[&Field], out: &mut Vec<Leaf>) {
    let is_field = |path: &str| table.iter().any(|field| field.path == path);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                let named = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let listed = table.iter().map(|f| f.path.as_str()).find(|p| {
                    p.strip_prefix(named.as_str()).is_some_and(|rest| {
                        rest.is_empty() || rest == "[]" || rest == ".*" || rest == "[][]" || rest == ".*[]"
                    })
                });
                let path = match listed {
                    Some(path) => path.trim_end_matches("[]").trim_end_matches(".*").to_owned(),
                    None => format!("{path}.*"),
                };
                leaves(value, &pointer, &path, table, out);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (i, value) in list.iter().enumerate() {
                leaves(value, &format!("{pointer}/{i}"), &format!("{path}[]"), table, out);
            }
        }
        _ => {
            let path =
                if is_field(path) || !path.ends_with(".*") { path.to_owned() } else { path.to_owned() };
            out.push(Leaf { pointer: pointer.to_owned(), path });
        }
    }
}

/// Other values for a field, the last of them nothing at all.
fn variants(value: &Value, field: Option<&Field>) -> Vec<Option<Value>> {
    let mut out = Vec::new();
    match value {
        Value::Bool(flag) => out.push(Some(Value::Bool(!flag))),
        Value::Number(number) => out.extend(number.as_u64().map(|n| Some(Value::from(n + 1)))),
        Value::String(text) => {
            let others =
                field.map(|field| field.allowed.iter().filter(|v| *v != text).cloned().collect::<Vec<_>>());
            out.extend(others.unwrap_or_default().into_iter().map(|v| Some(Value::String(v))));
            if let Ok(bytes) = text.parse::<Bytes>() {
                out.push(Some(Value::String(Bytes::new(bytes.get() * 2).to_string())));
            }
            out.push(Some(Value::String(format!("{text}x"))));
            let last =
                text.chars().last().filter(char::is_ascii_digit).map(|c| if c == '1' { '2' } else { '1' });
            out.extend(last.map(|c| Some(Value::String(format!("{}{c}", &text[..text.len() - 1])))));
        }
        _ => {}
    }
    out.push(None);
    out
}

fn replace(documents: &[Value], index: usize, pointer: &str, new: Option<&Value>) -> Vec<Value> {
    let mut documents = documents.to_vec();
    match new {
        Some(value) => *documents[index].pointer_mut(pointer).unwrap() = value.clone(),
        None => {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            match documents[index].pointer_mut(parent).unwrap() {
                Value::Object(map) => drop(map.remove(&key.replace("~1", "/").replace("~0", "~"))),
                Value::Array(list) => drop(list.remove(key.parse().unwrap())),
                _ => unreachable!(),
            }
        }
    }
    documents
}

/// The kind of a document, as the readers see it.
fn kind_of(document: &Value, all: &[KindInfo]) -> KindInfo {
    let text = |key: &str| document[key].as_str().unwrap_or_default();
    let kind = if text("kind").is_empty() { "InstallConfig" } else { text("kind") };
    *all.iter().find(|info| info.kind == kind && info.api_version == text("apiVersion")).unwrap()
}

/// Whether a field's effect is in the record only.
fn is_policy(before: &Outcome, after: &Outcome) -> bool {
    let mut found = Vec::new();
    let record = |outcome: &Outcome| Value::Array(outcome.record.clone());
    trellis_model::change::differences("", &record(before), &record(after), &mut found);
    let text = serde_json::to_string(&before.record).unwrap();
    let _ = text;
    before.record.len() != after.record.len()
        || before.record.iter().zip(&after.record).all(|(before, after)| {
            let mut found = Vec::new();
            trellis_model::change::differences("", before, after, &mut found);
            found.iter().all(|difference| {
                let path: String = difference.path.replace("spec.", "").replace("metadata.", "");
                let plain = path.split(['[', ']']).step_by(2).collect::<String>();
                let plain = plain
                    .split('.')
                    .filter(|p| *p != "tuned" && *p != "pinned")
                    .collect::<Vec<_>>()
                    .join(".");
                POLICIES.iter().any(|policy| plain == *policy || plain.starts_with(&format!("{policy}.")))
            })
        })
}

fn name_of(path: &str) -> &str {
    path.trim_end_matches("[]")
        .trim_end_matches(".*")
        .trim_end_matches("[]")
        .rsplit('.')
        .next()
        .unwrap_or(path)
}

#[test]
fn every_field_has_an_effect_or_a_diagnostic() {
    let all = kinds();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fields");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut covered: BTreeSet<(Dialect, &str, String)> = BTreeSet::new();
    let mut dead = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        let mut diagnostics = Diagnostics::new();
        let documents: Vec<Value> =
            parse(FileId(0), &text, &mut diagnostics).iter().map(|d| untyped(&d.root)).collect();
        assert!(!diagnostics.has_errors(), "{name} is no YAML");
        let before = outcome(&documents);
        assert!(!before.failed, "{name} has errors: {:#?}", before.messages);
        for (index, document) in documents.iter().enumerate() {
            let kind = kind_of(document, &all);
            let top = fields((kind.schema)());
            let table: Vec<&Field> = top.iter().flat_map(Field::flatten).collect();
            let mut found = Vec::new();
            leaves(document, "", "", &table, &mut found);
            for leaf in found {
                let field = table.iter().find(|field| {
                    field.path == leaf.path
                        || field.path.trim_end_matches("[]").trim_end_matches(".*")
                            == leaf.path.trim_end_matches("[]").trim_end_matches(".*")
                });
                if let Some(field) = field {
                    covered.insert((kind.dialect, kind.kind, field.path.clone()));
                }
                if matches!(leaf.path.as_str(), "apiVersion" | "kind")
                    || leaf.path.ends_with(".apiVersion")
                    || leaf.path.ends_with(".kind")
                {
                    continue;
                }
                let value = document.pointer(&leaf.pointer).unwrap();
                let mut alive = before.messages.iter().any(|(path, message)| {
                    path.contains(name_of(&leaf.path))
                        || message.contains(&format!("`{}`", name_of(&leaf.path)))
                });
                for variant in variants(value, field.copied()) {
                    if alive {
                        break;
                    }
                    let after = outcome(&replace(&documents, index, &leaf.pointer, variant.as_ref()));
                    let said = after.messages.difference(&before.messages).any(|(path, message)| {
                        path.contains(name_of(&leaf.path)) || message.contains(name_of(&leaf.path))
                    });
                    let changed = !after.failed && after.objects != before.objects;
                    let recorded =
                        !after.failed && after.record != before.record && is_policy(&before, &after);
                    alive = said || changed || recorded;
                }
                if !alive {
                    dead.push(format!("{name}: {} {}", kind.kind, leaf.path));
                }
            }
        }
    }
    let mut missing = Vec::new();
    for kind in &all {
        let top = fields((kind.schema)());
        for field in top.iter().flat_map(Field::flatten).filter(|field| field.fields.is_empty()) {
            let ignored = matches!(field.treatment, Some((Treatment::Ignored, _)));
            if !ignored && !covered.contains(&(kind.dialect, kind.kind, field.path.clone())) {
                missing.push(format!("{} {} {}", kind.dialect.as_str(), kind.kind, field.path));
            }
        }
    }
    assert!(
        dead.is_empty() && missing.is_empty(),
        "without effect:\n{}\n\nin no manifest:\n{}",
        dead.join("\n"),
        missing.join("\n")
    );
}

#[test]
fn every_field_of_a_foreign_dialect_says_what_trellis_does_with_it() {
    let mut silent = Vec::new();
    for kind in kinds().into_iter().filter(|kind| kind.dialect != Dialect::Trellis) {
        let top = fields((kind.schema)());
        for field in top.iter().flat_map(Field::flatten).filter(|field| field.fields.is_empty()) {
            let documented = field.treatment.as_ref().is_some_and(|(_, what)| !what.is_empty());
            if !documented || field.about.is_empty() {
                silent.push(format!("{} {} {}", kind.dialect.as_str(), kind.kind, field.path));
            }
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

//! Definitions of custom resources: what they may say, and what becomes of them.

mod approval;
mod default_values;
pub(crate) mod field_path;
pub(crate) mod internal;
mod openapi;
mod spec;
mod status;
mod structural;
pub(crate) mod webhook;

use serde_json::{Map, Value, json};

use crate::status::{FieldProblem, Problem};

use super::{
    formats, names,
    path::Path,
    rules::Known,
    schema::{Kind, Schema, flag, list, text, texts},
};

use internal::Internal;
use spec::{Checker, Options};

pub(crate) use status::{
    CLEANUP_FINALIZER, Condition, Termination, accept_names, establish, is_condition_true, set_condition,
    start_deletion, sync_approval, sync_non_structural,
};

type Fields = Map<String, Value>;

fn spec_of(definition: &Value) -> Fields {
    definition.get("spec").and_then(Value::as_object).cloned().unwrap_or_default()
}

/// Fills in what a definition does not say.
pub(crate) fn default_definition(definition: &mut Value) {
    let Value::Object(fields) = definition else { return };
    if let Some(Value::Object(spec)) = fields.get_mut("spec") {
        if let Value::Object(names) = spec.entry("names").or_insert_with(|| Value::Object(Map::new())) {
            let kind = text(names, "kind").to_owned();
            if text(names, "singular").is_empty() && !kind.is_empty() {
                names.insert("singular".to_owned(), kind.to_lowercase().into());
            }
            if text(names, "listKind").is_empty() && !kind.is_empty() {
                names.insert("listKind".to_owned(), format!("{kind}List").into());
            }
        }
        if spec.get("conversion").is_none_or(Value::is_null) {
            spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
        }
        if let Some(Value::Object(service)) = spec
            .get_mut("conversion")
            .and_then(|conversion| conversion.pointer_mut("/webhook/clientConfig/service"))
        {
            service.entry("port").or_insert_with(|| 443.into());
        }
    }
    let storage = storage_version(&spec_of(definition));
    let stored = definition
        .pointer("/status/storedVersions")
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty());
    if let (false, Some(version)) = (stored, storage) {
        definition["status"]["storedVersions"] = json!([version]);
    }
}

fn storage_version(spec: &Fields) -> Option<String> {
    list(spec, "versions")
        .iter()
        .filter_map(Value::as_object)
        .find(|version| flag(version, "storage"))
        .map(|version| text(version, "name").to_owned())
}

/// The status as a typed server writes it.
fn normal_status(status: &mut Value) {
    if !status.is_object() {
        *status = json!({});
    }
    if let Value::Object(fields) = status {
        for (key, empty) in [("conditions", Value::Null), ("storedVersions", Value::Null)] {
            fields.entry(key).or_insert(empty);
        }
        fields.entry("acceptedNames").or_insert_with(|| json!({"plural": "", "kind": ""}));
    }
}

/// What a new definition starts with: no status but the version objects are stored in.
pub(crate) fn prepare_create(definition: &mut Value) {
    let stored: Vec<Value> = storage_version(&spec_of(definition)).into_iter().map(Value::from).collect();
    definition["status"] =
        json!({"storedVersions": if stored.is_empty() { Value::Null } else { stored.into() }});
    normal_status(&mut definition["status"]);
    definition["metadata"]["generation"] = 1.into();
}

/// What an update may not change: the status. A change of the specification makes a new generation.
pub(crate) fn prepare_update(new: &mut Value, old: &Value) {
    new["status"] = old.get("status").cloned().unwrap_or_default();
    normal_status(&mut new["status"]);
    let generation = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
    let changed = new.get("spec") != old.get("spec");
    new["metadata"]["generation"] = (generation + i64::from(changed)).into();
    if let Some(version) = storage_version(&spec_of(new)) {
        if !new["status"]["storedVersions"].is_array() {
            new["status"]["storedVersions"] = json!([]);
        }
        if let Some(stored) = new["status"]["storedVersions"].as_array_mut()
            && !stored.iter().any(|known| *known == version)
        {
            stored.push(version.into());
        }
    }
}

/// What an update of the status may not change: the specification.
pub(crate) fn prepare_status_update(new: &mut Value, old: &Value) {
    new["spec"] = old.get("spec").cloned().unwrap_or_default();
}

/// Checks a new definition, except for what all objects' metadata has in common.
pub(crate) fn validate_create(definition: &Value) -> Vec<FieldProblem> {
    let spec = spec_of(definition);
    let options = Options::create();
    let mut checker = Checker { options: &options, problems: Vec::new() };
    let name = definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("");
    let empty = Map::new();
    let plural = text(spec.get("names").and_then(Value::as_object).unwrap_or(&empty), "plural");
    let mut wrong = if name.is_empty() { Vec::new() } else { names::dns_subdomain(name) };
    if name != format!("{plural}.{}", text(&spec, "group")) {
        wrong.push("must be spec.names.plural+\".\"+spec.group".to_owned());
    }
    for why in wrong {
        checker.problems.push(FieldProblem::new("metadata.name", Problem::Invalid(name.into(), why)));
    }
    checker.spec(&spec);
    let mut problems = checker.problems;
    problems.extend(validate_status(definition));
    problems.extend(stored_versions(definition, &spec));
    problems.extend(approval::check(definition, None));
    problems.extend(preserve_unknown(&spec, None));
    problems
}

/// Checks a change of a definition, except for what all objects' metadata has in common.
pub(crate) fn validate_update(new: &Value, old: &Value) -> Vec<FieldProblem> {
    let (spec, old_spec) = (spec_of(new), spec_of(old));
    let options = update_options(&spec, &old_spec, old);
    let mut checker = Checker { options: &options, problems: Vec::new() };
    checker.spec(&spec);
    let mut problems = checker.problems;
    let mut immutable = |place: &str, new: &Value, old: &Value| {
        if new != old {
            problems.push(FieldProblem::new(
                place,
                Problem::Invalid(new.clone(), "field is immutable".to_owned()),
            ));
        }
    };
    let at = |spec: &Fields, pointer: &str| {
        Value::Object(spec.clone()).pointer(pointer).cloned().unwrap_or_else(|| "".into())
    };
    if is_condition_true(old, "Established") {
        immutable("spec.scope", &at(&spec, "/scope"), &at(&old_spec, "/scope"));
        immutable("spec.names.kind", &at(&spec, "/names/kind"), &at(&old_spec, "/names/kind"));
    }
    immutable("spec.group", &at(&spec, "/group"), &at(&old_spec, "/group"));
    immutable("spec.names.plural", &at(&spec, "/names/plural"), &at(&old_spec, "/names/plural"));
    problems.extend(validate_status(new));
    problems.extend(stored_versions(new, &spec));
    problems.extend(approval::check(new, Some(old)));
    problems.extend(preserve_unknown(&spec, Some(&old_spec)));
    problems
}

/// Checks a change of the status of a definition.
pub(crate) fn validate_status(definition: &Value) -> Vec<FieldProblem> {
    let options = Options::create();
    let mut checker = Checker { options: &options, problems: Vec::new() };
    if let Some(Value::Object(names)) = definition.pointer("/status/acceptedNames") {
        checker.names(names, &Path::At("status.acceptedNames"));
    }
    checker.problems
}

fn stored_versions(definition: &Value, spec: &Fields) -> Vec<FieldProblem> {
    let place = "status.storedVersions";
    let stored: Vec<&str> = definition
        .pointer("/status/storedVersions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if stored.is_empty() {
        let why = "must have at least one stored version".to_owned();
        return vec![FieldProblem::new(place, Problem::Invalid(Value::Null, why))];
    }
    let mut problems = Vec::new();
    let versions: Vec<&Fields> = list(spec, "versions").iter().filter_map(Value::as_object).collect();
    for version in &versions {
        let name = text(version, "name");
        if flag(version, "storage") && !stored.contains(&name) {
            let why = format!("must have the storage version {name}");
            problems.push(FieldProblem::new(place, Problem::Invalid(stored.clone().into(), why)));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| text(version, "name") == *name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and removes \
                 {name} from status.storedVersions"
            );
            problems
                .push(FieldProblem::new(format!("{place}[{index}]"), Problem::Invalid((*name).into(), why)));
        }
    }
    problems
}

fn preserve_unknown(spec: &Fields, old: Option<&Fields>) -> Vec<FieldProblem> {
    if !flag(spec, "preserveUnknownFields") || old.is_some_and(|old| flag(old, "preserveUnknownFields")) {
        return Vec::new();
    }
    let why =
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
               instead"
            .to_owned();
    vec![FieldProblem::new("spec.preserveUnknownFields", Problem::Invalid(true.into(), why))]
}

/// How strict to be with a change: not stricter than the old definition was.
fn update_options(spec: &Fields, old_spec: &Fields, old: &Value) -> Options {
    let old_internal = Internal::of(old_spec);
    let schemas: Vec<&Value> =
        old_internal.versions.iter().filter_map(|version| Internal::schema(version)).collect();
    let any = |test: &dyn Fn(&Fields) -> bool| schemas.iter().any(|schema| spec::any_node(schema, test));
    let old_versions = texts(
        &old_spec
            .get("conversion")
            .and_then(|conversion| conversion.get("webhook"))
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default(),
        "conversionReviewVersions",
    );
    let is_structural = |schema: &&Value| {
        Schema::read(schema).is_ok()
            && schema.as_object().is_none_or(|fields| structural::check(fields, &Path::Root).is_empty())
    };
    let is_pruned = |schema: &&Value| {
        Schema::read(schema).is_ok_and(|read| {
            let mut pruned = read.clone();
            super::defaults::prune(&mut pruned);
            same_defaults(&read, &pruned)
        })
    };
    let invalid_type = |node: &Fields| matches!(Kind::read(text(node, "type")), Kind::Other(_));
    let loose_set = |node: &Fields| {
        let items = node.get("items").and_then(Value::as_object);
        text(node, "x-kubernetes-list-type") == "set"
            && items.is_some_and(|items| match text(items, "type") {
                "array" => !matches!(text(items, "x-kubernetes-list-type"), "" | "atomic"),
                "object" => text(items, "x-kubernetes-map-type") != "atomic",
                _ => false,
            })
    };
    let version_of = |spec: &Fields, name: &str| {
        list(spec, "versions")
            .iter()
            .find(|version| version.get("name").is_some_and(|known| known == name))
            .cloned()
    };
    let mut unchanged = Vec::new();
    let mut many_selectable = Vec::new();
    for version in list(spec, "versions") {
        let name = version.get("name").and_then(Value::as_str).unwrap_or("");
        let Some(old_version) = version_of(old_spec, name) else { continue };
        if version.get("schema") == old_version.get("schema") {
            unchanged.push(name.to_owned());
        }
        let selectable = |version: &Value| version.get("selectableFields").cloned();
        if selectable(version) == selectable(&old_version)
            && selectable(version)
                .is_some_and(|fields| fields.as_array().is_some_and(|fields| fields.len() > 8))
        {
            many_selectable.push(name.to_owned());
            many_selectable.push(String::new());
        }
    }
    let old_bundle = old_spec
        .get("conversion")
        .and_then(|conversion| conversion.pointer("/webhook/clientConfig/caBundle"))
        .and_then(Value::as_str)
        .unwrap_or("");
    Options {
        recognized_review_version: old_versions.is_empty() || spec::has_known_review_version(&old_versions),
        schema_required: schemas.len() == old_internal.versions.len(),
        structural: schemas.iter().all(is_structural),
        pruned_defaults: schemas.iter().all(is_pruned),
        tightness: openapi::Tightness {
            valid_types: !any(&invalid_type),
            atomic_sets: !any(&loose_set),
            map_keys: !any(&|node| !openapi::loose_keys(node, &Path::Root).is_empty()),
        },
        known: Known::of(&schemas),
        unchanged,
        any_bundle: !is_condition_true(old, "Established")
            || (!old_bundle.is_empty() && !webhook::is_bundle(old_bundle)),
        many_selectable,
    }
}

fn same_defaults(left: &Schema, right: &Schema) -> bool {
    left.default == right.default
        && left.children().zip(right.children()).all(|(left, right)| same_defaults(left, right))
}

/// What the writer of a definition should know, as far as it was not so before.
pub(crate) fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut all = found_warnings(new);
    if let Some(old) = old {
        let known = found_warnings(old);
        all.retain(|warning| !known.contains(warning));
    }
    all
}

fn found_warnings(definition: &Value) -> Vec<String> {
    let spec = spec_of(definition);
    let internal = Internal::of(&spec);
    let (warnings, sets) = (std::cell::RefCell::new(Vec::new()), std::cell::RefCell::new(Vec::new()));
    let look = |node: &Fields| {
        let format = text(node, "format");
        let kind = Kind::read(text(node, "type"));
        if !format.is_empty() && formats::checked(format, &kind, false).is_none() {
            warnings.borrow_mut().push(format!("unrecognized format {}", crate::gotext::quote(format)));
        }
        if text(node, "x-kubernetes-list-type") == "set"
            && let Some(items) = node.get("items").and_then(Value::as_object)
            && let kind @ ("object" | "array") = text(items, "type")
        {
            let warning = format!(
                "x-kubernetes-list-type: set for items of type \"{kind}\" is not supported by server-side apply or \
                 CEL validation rules"
            );
            if !sets.borrow().contains(&warning) {
                sets.borrow_mut().push(warning);
            }
        }
        false
    };
    let count = if internal.one_schema { 1 } else { internal.versions.len() };
    for version in internal.versions.iter().take(count) {
        if let Some(schema) = Internal::schema(version) {
            spec::any_node(schema, &look);
        }
    }
    let mut sets = sets.into_inner();
    sets.sort();
    let mut warnings = warnings.into_inner();
    warnings.extend(sets);
    warnings
}

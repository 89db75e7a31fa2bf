//! The metadata of custom resources and of the resources embedded in them.
//!
//! Custom resources are free-form, but their metadata is typed: what does not fit is refused or dropped, and what
//! is kept is written as a typed server writes it.

use serde_json::{Map, Value};

use crate::{
    gotext::{json, json_float},
    gotime::{Layout, parse_time},
    status::{FieldProblem, Problem},
};

use super::{names, path::Path, schema::Schema};

/// The type of a field.
#[derive(Clone, Copy)]
enum Type {
    Text(&'static str),
    Whole,
    Flag,
    Time,
    TextMap,
    TextList,
    List(&'static Record),
    Anything,
}

/// A typed record.
struct Record {
    name: &'static str,
    fields: &'static [(&'static str, Type)],
    /// The fields that are written even when they are empty.
    always: &'static [&'static str],
}

const TEXT: Type = Type::Text("string");

static OBJECT_META: Record = Record {
    name: "ObjectMeta",
    fields: &[
        ("annotations", Type::TextMap),
        ("creationTimestamp", Type::Time),
        ("deletionGracePeriodSeconds", Type::Whole),
        ("deletionTimestamp", Type::Time),
        ("finalizers", Type::TextList),
        ("generateName", TEXT),
        ("generation", Type::Whole),
        ("labels", Type::TextMap),
        ("managedFields", Type::List(&MANAGED_FIELDS)),
        ("name", TEXT),
        ("namespace", TEXT),
        ("ownerReferences", Type::List(&OWNER_REFERENCE)),
        ("resourceVersion", TEXT),
        ("selfLink", TEXT),
        ("uid", Type::Text("types.UID")),
    ],
    always: &[],
};

static OWNER_REFERENCE: Record = Record {
    name: "OwnerReference",
    fields: &[
        ("apiVersion", TEXT),
        ("blockOwnerDeletion", Type::Flag),
        ("controller", Type::Flag),
        ("kind", TEXT),
        ("name", TEXT),
        ("uid", Type::Text("types.UID")),
    ],
    always: &["apiVersion", "kind", "name", "uid"],
};

static MANAGED_FIELDS: Record = Record {
    name: "ManagedFieldsEntry",
    fields: &[
        ("apiVersion", TEXT),
        ("fieldsType", TEXT),
        ("fieldsV1", Type::Anything),
        ("manager", TEXT),
        ("operation", Type::Text("v1.ManagedFieldsOperationType")),
        ("subresource", TEXT),
        ("time", Type::Time),
    ],
    always: &[],
};

/// What to do with metadata that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Refuse the object: it comes from a client.
    Refuse,
    /// Drop the field: the object is stored already.
    Drop,
}

/// Brings metadata into its typed form. The error is the sentence of the decoder; unknown fields are dropped and,
/// when a list is given, noted there behind the prefix.
pub(crate) fn coerce(
    metadata: &mut Value,
    malformed: Malformed,
    mut unknown: Option<(&str, &mut Vec<String>)>,
) -> Result<(), String> {
    let Value::Object(fields) = metadata else {
        if metadata.is_null() {
            *metadata = Value::Object(Map::new());
            return Ok(());
        }
        return Err(match malformed {
            Malformed::Refuse => {
                format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", name_of(metadata))
            }
            Malformed::Drop => format!("invalid metadata: expected object, got {}", go_type(metadata)),
        });
    };
    let mut noted = unknown.as_mut().map(|(prefix, list)| ((*prefix).to_owned(), &mut **list));
    match malformed {
        Malformed::Refuse => {
            record(fields, &OBJECT_META, "", noted.as_mut().map(|(prefix, list)| (prefix, &mut **list)))
        }
        Malformed::Drop => {
            fields.retain(|key, value| {
                let mut one = Map::new();
                one.insert(key.clone(), value.take());
                let kept = record(&mut one, &OBJECT_META, "", None).is_ok();
                match one.remove(key).filter(|_| kept) {
                    Some(coerced) => {
                        *value = coerced;
                        true
                    }
                    None => false,
                }
            });
            Ok(())
        }
    }
}

/// The place unknown fields are noted at, and the list of them.
type Noted<'n> = Option<(&'n mut String, &'n mut Vec<String>)>;

fn record(
    fields: &mut Map<String, Value>,
    record: &Record,
    place: &str,
    mut noted: Noted<'_>,
) -> Result<(), String> {
    let mut failure = None;
    fields.retain(|key, value| {
        let Ok(index) = record.fields.binary_search_by(|(name, _)| (*name).cmp(key)) else {
            if let Some((prefix, list)) = &mut noted {
                list.push(format!("{prefix}.{key}"));
            }
            return false;
        };
        let kind = record.fields[index].1;
        let below = noted.as_mut().map(|(prefix, list)| (&mut **prefix, &mut **list));
        match field(value, kind, record, place, key, below) {
            Ok(kept) => kept || record.always.contains(&key.as_str()),
            Err(problem) => {
                failure.get_or_insert(problem);
                true
            }
        }
    });
    for name in record.always {
        fields.entry(*name).or_insert_with(|| Value::from(""));
    }
    failure.map_or(Ok(()), Err)
}

/// Checks one field and writes it in its typed form; false when it is empty.
fn field(
    value: &mut Value,
    kind: Type,
    owner: &Record,
    place: &str,
    key: &str,
    noted: Noted<'_>,
) -> Result<bool, String> {
    let wrong = |value: &Value, wanted: &str| {
        let (owner, name) = (owner.name, name_of(value));
        Err(format!(
            "json: cannot unmarshal {name} into Go struct field {owner}.{place}{key} of type {wanted}"
        ))
    };
    if value.is_null() {
        *value = Value::from("");
        return Ok(false);
    }
    match kind {
        Type::Text(name) => match value {
            Value::String(text) => Ok(!text.is_empty()),
            other => wrong(other, name),
        },
        Type::Flag => {
            if value.is_boolean() {
                Ok(true)
            } else {
                wrong(value, "bool")
            }
        }
        Type::Whole => {
            let Some(number) = value.as_number() else { return wrong(value, "int64") };
            if let Some(whole) = super::schema::whole_number(number) {
                *value = whole.into();
                Ok(whole != 0 || key == "deletionGracePeriodSeconds")
            } else {
                let shown = number.as_f64().map_or_else(|| number.to_string(), json_float);
                let owner = owner.name;
                Err(format!(
                    "json: cannot unmarshal number {shown} into Go struct field {owner}.{place}{key} of type int64"
                ))
            }
        }
        Type::Time => {
            let Value::String(text) = value else {
                return Err(format!(
                    "json: cannot unmarshal {} into Go value of type string",
                    name_of(value)
                ));
            };
            let moment = parse_time(text, Layout::Rfc3339)?;
            *text = moment.seconds_text();
            Ok(true)
        }
        Type::TextMap => {
            let Value::Object(entries) = value else { return wrong(value, "map[string]string") };
            for entry in entries.values_mut() {
                text_or_null(entry).or_else(|entry| wrong(entry, "string").map(|_: bool| ()))?;
            }
            Ok(!entries.is_empty())
        }
        Type::TextList => {
            let Value::Array(items) = value else { return wrong(value, "[]string") };
            for item in items.iter_mut() {
                text_or_null(item).or_else(|item| wrong(item, "string").map(|_: bool| ()))?;
            }
            Ok(!items.is_empty())
        }
        Type::List(below) => {
            let Value::Array(items) = value else { return wrong(value, &format!("[]v1.{}", below.name)) };
            let mut noted = noted;
            for (index, item) in items.iter_mut().enumerate() {
                if item.is_null() {
                    *item = Value::Object(Map::new());
                }
                let Value::Object(fields) = item else { return wrong(item, &format!("v1.{}", below.name)) };
                let inside =
                    noted.as_mut().map(|(prefix, list)| (format!("{prefix}.{key}[{index}]"), &mut **list));
                match inside {
                    Some((mut prefix, list)) => {
                        record(fields, below, &format!("{place}{key}."), Some((&mut prefix, list)))?;
                    }
                    None => record(fields, below, &format!("{place}{key}."), None)?,
                }
            }
            Ok(!items.is_empty())
        }
        Type::Anything => Ok(true),
    }
}

/// Null becomes an empty text; anything but text is handed back.
fn text_or_null(value: &mut Value) -> Result<(), &Value> {
    if value.is_null() {
        *value = Value::from("");
    }
    if value.is_string() { Ok(()) } else { Err(value) }
}

/// What the decoder calls a kind of JSON.
fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The type free-form JSON has in Go.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Brings the embedded resources of an object into their typed form; `root` takes the object itself for one.
pub(crate) fn coerce_embedded(
    value: &mut Value,
    schema: &Schema,
    root: bool,
    malformed: Malformed,
    path: &Path<'_>,
    unknown: &mut Option<Vec<String>>,
) -> Result<(), FieldProblem> {
    if !root && !schema.below.embedded {
        return Ok(());
    }
    match value {
        Value::Object(fields) => {
            if root || schema.embedded {
                coerce_resource(fields, malformed, path, unknown)?;
            }
            for (key, value) in fields.iter_mut() {
                if let Some(below) = schema.property(key) {
                    coerce_embedded(value, below, false, malformed, &path.field(key), unknown)?;
                } else if let Some(below) = schema.additional_schema() {
                    coerce_embedded(value, below, false, malformed, &path.key(key), unknown)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = schema.items.as_deref() {
                for (index, item) in items.iter_mut().enumerate() {
                    coerce_embedded(item, below, false, malformed, &path.index(index), unknown)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn coerce_resource(
    fields: &mut Map<String, Value>,
    malformed: Malformed,
    path: &Path<'_>,
    unknown: &mut Option<Vec<String>>,
) -> Result<(), FieldProblem> {
    for key in ["apiVersion", "kind"] {
        match fields.get(key) {
            None | Some(Value::String(_)) => {}
            Some(_) if malformed == Malformed::Drop => {
                fields.remove(key);
            }
            Some(other) => {
                let problem = Problem::Invalid(other.clone(), "must be a string".to_owned());
                return Err(FieldProblem::new(path.field(key).text(), problem));
            }
        }
    }
    if let Some(metadata) = fields.get_mut("metadata") {
        let place = path.field("metadata").text();
        let before = metadata.clone();
        let noted = unknown.as_mut().map(|list| (place.as_str(), list));
        if let Err(problem) = coerce(metadata, malformed, noted) {
            *metadata = before.clone();
            if malformed == Malformed::Refuse {
                return Err(FieldProblem::new(place, Problem::Invalid(before, problem)));
            }
        }
    }
    Ok(())
}

/// What is wrong with the kinds, versions and metadata of embedded resources.
pub(crate) fn check_all_embedded(
    value: &Value,
    schema: &Schema,
    root: bool,
    path: &Path<'_>,
    problems: &mut Vec<FieldProblem>,
) {
    if !root && !schema.below.embedded {
        return;
    }
    match value {
        Value::Object(fields) => {
            if root || schema.embedded {
                check_embedded(fields, path, problems);
            }
            for (key, value) in fields {
                if let Some(below) = schema.property(key) {
                    check_all_embedded(value, below, false, &path.field(key), problems);
                } else if let Some(below) = schema.additional_schema() {
                    check_all_embedded(value, below, false, &path.key(key), problems);
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = schema.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    check_all_embedded(item, below, false, &path.index(index), problems);
                }
            }
        }
        _ => {}
    }
}

/// What is wrong with the kind, version and metadata of an embedded resource.
fn check_embedded(resource: &Map<String, Value>, path: &Path<'_>, problems: &mut Vec<FieldProblem>) {
    let mut add =
        |name: &str, problem: Problem| problems.push(FieldProblem::new(path.field(name).text(), problem));
    let invalid = |value: &Value, why: &str| Problem::Invalid(value.clone(), why.to_owned());
    match resource.get("apiVersion") {
        None => add("apiVersion", Problem::Required(String::new())),
        Some(Value::String(version)) if version.is_empty() => {
            add("apiVersion", invalid(&"".into(), "must not be empty"));
        }
        Some(version @ Value::String(text)) if text.matches('/').count() > 1 => {
            add("apiVersion", invalid(version, &format!("unexpected GroupVersion string: {text}")));
        }
        Some(Value::String(_)) => {}
        Some(other) => add("apiVersion", invalid(other, "must be a string")),
    }
    match resource.get("kind") {
        None => add("kind", Problem::Required(String::new())),
        Some(Value::String(kind)) if kind.is_empty() => add("kind", invalid(&"".into(), "must not be empty")),
        Some(kind @ Value::String(text)) => {
            let wrong = names::dns1035_label(&text.to_lowercase());
            if !wrong.is_empty() {
                let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                add("kind", invalid(kind, &why));
            }
        }
        Some(other) => add("kind", invalid(other, "must be a string")),
    }
    if let Some(metadata) = resource.get("metadata") {
        let mut typed = metadata.clone();
        match coerce(&mut typed, Malformed::Refuse, None) {
            Err(problem) => add("metadata", invalid(metadata, &problem)),
            Ok(()) => {
                if let Value::Object(fields) = &typed {
                    check_fields(fields, &path.field("metadata"), problems);
                }
            }
        }
    }
}

/// What is wrong with the metadata of an embedded resource.
fn check_fields(metadata: &Map<String, Value>, path: &Path<'_>, problems: &mut Vec<FieldProblem>) {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or("");
    let mut add = |place: String, value: &Value, why: String| {
        problems.push(FieldProblem::new(place, Problem::Invalid(value.clone(), why)));
    };
    for (key, prefix) in [("generateName", true), ("name", false)] {
        for why in names::path_segment(text(key), prefix) {
            add(path.field(key).text(), &text(key).into(), why);
        }
    }
    if !text("namespace").is_empty() {
        for why in names::dns_label(text("namespace")) {
            add(path.field("namespace").text(), &text("namespace").into(), why);
        }
    }
    if let Some(generation) = metadata.get("generation")
        && generation.as_i64().is_some_and(|number| number < 0)
    {
        add(path.field("generation").text(), generation, "must be greater than or equal to 0".to_owned());
    }
    let empty = Map::new();
    let labels = path.field("labels").text();
    for (key, value) in metadata.get("labels").and_then(Value::as_object).unwrap_or(&empty) {
        for why in names::qualified_name(key) {
            add(labels.clone(), &key.as_str().into(), why);
        }
        for why in names::label_value(value.as_str().unwrap_or("")) {
            add(labels.clone(), value, why);
        }
    }
    let annotations = metadata.get("annotations").and_then(Value::as_object).unwrap_or(&empty);
    for key in annotations.keys() {
        for why in names::qualified_name(&key.to_lowercase()) {
            add(path.field("annotations").text(), &key.as_str().into(), why);
        }
    }
    for finalizer in metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten() {
        for why in names::qualified_name(finalizer.as_str().unwrap_or("")) {
            add(path.field("finalizers").text(), finalizer, why);
        }
    }
    let total: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if total > 256 * 1024 {
        problems.push(FieldProblem::new(path.field("annotations").text(), Problem::TooLong(256 * 1024)));
    }
    check_owners(metadata, path, problems);
    check_managed(metadata, path, problems);
}

fn check_owners(metadata: &Map<String, Value>, path: &Path<'_>, problems: &mut Vec<FieldProblem>) {
    let Some(Value::Array(owners)) = metadata.get("ownerReferences") else { return };
    let list = path.field("ownerReferences");
    let mut controller: Option<String> = None;
    for (index, owner) in owners.iter().enumerate() {
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or("");
        let place = list.index(index);
        for key in ["apiVersion", "kind", "name", "uid"] {
            if text(key).is_empty() {
                let problem = Problem::Required("must not be empty".to_owned());
                problems.push(FieldProblem::new(place.field(key).text(), problem));
            }
        }
        let version = text("apiVersion");
        if version.matches('/').count() > 1 || version.ends_with('/') {
            let why = "must be <group>/<version> or <version>".to_owned();
            problems.push(FieldProblem::new(
                place.field("apiVersion").text(),
                Problem::Invalid(version.into(), why),
            ));
        }
        if version == "v1" && text("kind") == "Event" {
            let why = "/v1, Kind=Event is disallowed from being an owner".to_owned();
            problems.push(FieldProblem::new(place.text(), Problem::InvalidAs(Some(shown_owner(owner)), why)));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let this = format!("{}/{}", text("kind"), text("name"));
            if let Some(first) = &controller {
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                let shown =
                    Some(format!("[{}]", owners.iter().map(shown_owner).collect::<Vec<_>>().join(",")));
                problems.push(FieldProblem::new(list.text(), Problem::InvalidAs(shown, why)));
            } else {
                controller = Some(this);
            }
        }
    }
}

/// An owner in the order of the server's fields.
fn shown_owner(owner: &Value) -> String {
    let fields: Vec<String> = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"]
        .iter()
        .filter_map(|key| owner.get(key).map(|value| format!("\"{key}\":{}", json(value))))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn check_managed(metadata: &Map<String, Value>, path: &Path<'_>, problems: &mut Vec<FieldProblem>) {
    let list = path.field("managedFields");
    for (index, entry) in
        metadata.get("managedFields").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or("");
        let item = list.index(index);
        let operation = item.field("operation").text();
        match text("operation") {
            "" => {
                problems
                    .push(FieldProblem::new(operation, Problem::Required("must not be empty".to_owned())));
            }
            "Apply" | "Update" => {}
            other => {
                let choices = vec!["Apply".to_owned(), "Update".to_owned()];
                problems.push(FieldProblem::new(operation, Problem::NotSupported(other.into(), choices)));
            }
        }
        let fields_type = text("fieldsType");
        if !fields_type.is_empty() && fields_type != "FieldsV1" {
            let problem = Problem::Invalid(fields_type.into(), "must be `FieldsV1`".to_owned());
            problems.push(FieldProblem::new(item.field("fieldsType").text(), problem));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_that_does_not_fit_is_refused_in_the_words_of_the_decoder() {
        for (metadata, problem) in [
            (
                json!({"labels": {"a": 1}}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
            ),
            (
                json!({"labels": "a", "foo": 1}),
                "json: cannot unmarshal string into Go struct field ObjectMeta.labels of type map[string]string",
            ),
            (
                json!({"creationTimestamp": "zz"}),
                "parsing time \"zz\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"zz\" as \"2006\"",
            ),
            (
                json!({"generation": "x"}),
                "json: cannot unmarshal string into Go struct field ObjectMeta.generation of type int64",
            ),
            (
                json!({"generation": 1.5}),
                "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.generation of type int64",
            ),
            (
                json!({"ownerReferences": [{"apiVersion": 1}]}),
                "json: cannot unmarshal number into Go struct field OwnerReference.ownerReferences.apiVersion of type string",
            ),
            (
                json!({"finalizers": ["a", 1]}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.finalizers of type string",
            ),
            (json!(5), "json: cannot unmarshal number into Go value of type v1.ObjectMeta"),
        ] {
            let mut metadata = metadata;
            assert_eq!(coerce(&mut metadata, Malformed::Refuse, None).unwrap_err(), problem);
        }
    }

    #[test]
    fn metadata_is_written_as_a_typed_server_does() {
        let mut metadata = json!({
            "name": "x", "namespace": "", "labels": {}, "annotations": {"a": null}, "generation": 1.0, "foo": 1,
            "creationTimestamp": "2020-01-01T00:00:00.5+02:00", "ownerReferences": [{"kind": "A", "zz": 1}],
        });
        let mut unknown = Vec::new();
        coerce(&mut metadata, Malformed::Refuse, Some(("metadata", &mut unknown))).unwrap();
        assert_eq!(unknown, ["metadata.foo", "metadata.ownerReferences[0].zz"]);
        assert_eq!(
            metadata,
            json!({
                "name": "x", "annotations": {"a": ""}, "generation": 1, "creationTimestamp": "2019-12-31T22:00:00Z",
                "ownerReferences": [{"apiVersion": "", "kind": "A", "name": "", "uid": ""}],
            })
        );
        let mut stored = json!({"name": "x", "labels": {"a": 1}, "generation": 2});
        coerce(&mut stored, Malformed::Drop, None).unwrap();
        assert_eq!(stored, json!({"name": "x", "generation": 2}));
    }
}

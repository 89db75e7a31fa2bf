//! What the documents say of custom resources, from their definitions.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::operations::TypeNames;
use super::schemas::Form;
use super::words;
use crate::discovery::compare_versions;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The name of the schema of a kind: `com.example.stable.v1.CronTab`.
pub(super) fn model_name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// Names of custom types; lists may have a kind of their own choice.
#[derive(Debug, Default)]
pub(super) struct CustomNames {
    lists: HashMap<String, String>,
}

impl CustomNames {
    /// The names of the kinds of these definitions.
    pub(super) fn new<'a>(definitions: impl Iterator<Item = &'a Value>) -> Self {
        let names = definitions.map(|definition| &definition["spec"]["names"]);
        let lists = names.filter_map(|names| {
            Some((format!("{}List", names["kind"].as_str()?), names["listKind"].as_str()?.to_owned()))
        });
        Self { lists: lists.collect() }
    }
}

impl TypeNames for CustomNames {
    fn of(&self, group: &str, version: &str, kind: &str) -> String {
        if group == "autoscaling" && kind == "Scale" {
            return "io.k8s.api.autoscaling.v1.Scale".to_owned();
        }
        model_name(group, version, self.lists.get(kind).map_or(kind, String::as_str))
    }
}

/// Adds the schemas of the kind and the list of one definition in one version.
pub(super) fn add_schemas(definition: &Value, version: &str, form: Form, into: &mut Map<String, Value>) {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
    let list_kind = spec["names"]["listKind"].as_str().map_or_else(|| format!("{kind}List"), str::to_owned);
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(told) = versions.iter().find(|each| each["name"] == version) else { return };

    let keeps_unknown = spec["preserveUnknownFields"] == true;
    let mut schema = root(&told["schema"]["openAPIV3Schema"], keeps_unknown, form);
    let name = model_name(&group, version, &kind);
    let plural = text(&spec["names"]["plural"]);
    let mut list = json!({
        "description": format!("{list_kind} is a list of {kind}"),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": words::api_version(), "kind": words::kind(),
            "items": {"type": "array", "items": form.reference(&name), "description": format!("List of {plural}.")},
            "metadata": described_reference(LIST_META, words::LIST_METADATA, form),
        },
    });
    let selectable: Vec<Value> = told["selectableFields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|field| field["jsonPath"].as_str())
        .map(|path| json!({"fieldPath": path.strip_prefix('.').unwrap_or(path)}))
        .collect();
    for (schema, kind) in [(&mut schema, &kind), (&mut list, &list_kind)] {
        schema["x-kubernetes-group-version-kind"] =
            json!([{"group": group, "kind": kind, "version": version}]);
        if !selectable.is_empty() {
            schema["x-kubernetes-selectable-fields"] = selectable.clone().into();
        }
    }
    into.insert(name, schema);
    into.insert(model_name(&group, version, &list_kind), list);
}

/// The schema of the whole object, with the fields every object has.
fn root(given: &Value, keeps_unknown: bool, form: Form) -> Value {
    let Value::Object(fields) = given else { return json!({"type": "object"}) };
    if form == Form::V2
        && (keeps_unknown || fields.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)))
    {
        // Clients of this version take every field that is not told for a mistake, so nothing is told.
        return json!({"type": "object"});
    }
    let mut schema = published(fields, form);
    add_type_fields(&mut schema, form);
    schema.into()
}

fn add_type_fields(schema: &mut Map<String, Value>, form: Form) {
    let slot = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = slot {
        properties.insert("apiVersion".to_owned(), words::api_version());
        properties.insert("kind".to_owned(), words::kind());
        properties.insert("metadata".to_owned(), described_reference(OBJECT_META, words::METADATA, form));
    }
}

/// A reference with a description beside it.
fn described_reference(name: &str, description: &str, form: Form) -> Value {
    match form {
        Form::V3 => json!({"allOf": [form.reference(name)], "description": description}),
        Form::V2 => {
            let mut reference = form.reference(name);
            reference["description"] = description.into();
            reference
        }
    }
}

/// A schema as it is published: what is structural, with what the extensions stand for.
fn published(given: &Map<String, Value>, form: Form) -> Map<String, Value> {
    let mut schema = Map::new();
    for (key, value) in given {
        let value = match (key.as_str(), value) {
            (_, Value::Null | Value::Bool(false)) if key != "additionalProperties" && key != "default" => {
                continue;
            }
            (
                "id" | "$schema" | "$ref" | "definitions" | "dependencies" | "patternProperties"
                | "additionalItems",
                _,
            ) => {
                continue;
            }
            ("default" | "allOf" | "anyOf" | "oneOf" | "not", _) if form == Form::V2 => continue,
            ("properties", Value::Object(properties)) => {
                let inside = properties.iter().map(|(name, each)| (name.clone(), nested(each, form)));
                Value::Object(inside.collect())
            }
            ("items" | "additionalProperties" | "not", Value::Object(_)) => nested(value, form),
            ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                list.iter().map(|each| nested(each, form)).collect()
            }
            _ => value.clone(),
        };
        schema.insert(key.clone(), value);
    }
    let on = |key: &str| given.get(key) == Some(&Value::Bool(true));
    if form == Form::V2 {
        simplify(&mut schema, given, on("nullable"), on("x-kubernetes-preserve-unknown-fields"));
    } else if on("x-kubernetes-int-or-string") {
        unfold(&mut schema);
    }
    if on("x-kubernetes-embedded-resource")
        && !(form == Form::V2 && on("x-kubernetes-preserve-unknown-fields"))
    {
        add_type_fields(&mut schema, form);
        let slot = schema.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(required) = slot {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|each| each == name) {
                    required.push(name.into());
                }
            }
        }
    }
    schema
}

fn nested(value: &Value, form: Form) -> Value {
    match value {
        Value::Object(fields) => published(fields, form).into(),
        other => other.clone(),
    }
}

/// Says in the words of OpenAPI that a number or a text is allowed, unless the schema says it already.
fn unfold(schema: &mut Map<String, Value>) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let said_first = schema.get("allOf").is_some_and(|all| all[0]["anyOf"] == either);
    match schema.get("anyOf") {
        Some(any) if *any == either => {}
        _ if said_first => {}
        None => drop(schema.insert("anyOf".to_owned(), either)),
        Some(_) => {
            let slot = schema.entry("allOf").or_insert_with(|| json!([]));
            if let Value::Array(all) = slot {
                all.insert(0, json!({"anyOf": either}));
            }
        }
    }
}

/// Leaves out what clients of the older version misunderstand.
fn simplify(
    schema: &mut Map<String, Value>,
    given: &Map<String, Value>,
    nullable: bool,
    keeps_unknown: bool,
) {
    if nullable {
        schema.remove("type");
        schema.remove("nullable");
    }
    if nullable || keeps_unknown {
        schema.remove("items");
        schema.remove("properties");
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    if (kind == "array" && !schema.contains_key("items")) || (kind == "object" && keeps_unknown) {
        schema.remove("type");
    }
    let is_nullable = |name: &Value| {
        name.as_str()
            .is_some_and(|name| given.get("properties").is_some_and(|each| each[name]["nullable"] == true))
    };
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| !is_nullable(name));
        if required.is_empty()
            || given.get("additionalProperties").is_some_and(|each| each["nullable"] == true)
        {
            schema.remove("required");
        }
    }
}

/// The served versions of an established definition, the preferred ones first.
pub(super) fn served_versions(definition: &Value) -> Vec<&str> {
    let conditions = definition["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    if !conditions.iter().any(|each| each["type"] == "Established" && each["status"] == "True") {
        return Vec::new();
    }
    let versions = definition["spec"]["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let mut served: Vec<&str> = versions
        .iter()
        .filter(|each| each["served"] == true)
        .filter_map(|each| each["name"].as_str())
        .collect();
    served.sort_by(|left, right| compare_versions(right, left));
    served
}

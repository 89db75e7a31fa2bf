//! What a schema in a definition may say.

use serde_json::{Map, Value};

use crate::{
    crd::{
        path::Path,
        rules::{RuleCosts, RuleScope},
        schema::{Schema, flag, list, text, texts},
        shape::is_meta,
    },
    status::{FieldProblem, Problem},
};

use super::{field_path, internal::shown_items};

type Fields = Map<String, Value>;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What was found, rules apart from everything else.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) schema: Vec<FieldProblem>,
    pub(crate) rules: Vec<FieldProblem>,
}

impl Found {
    fn add(&mut self, place: &Path<'_>, problem: Problem) {
        self.schema.push(FieldProblem::new(place.text(), problem));
    }

    fn required(&mut self, place: &Path<'_>, why: &str) {
        self.add(place, Problem::Required(why.to_owned()));
    }

    fn forbidden(&mut self, place: &Path<'_>, why: &str) {
        self.add(place, Problem::Forbidden(why.to_owned()));
    }

    fn invalid(&mut self, place: &Path<'_>, value: impl Into<Value>, why: &str) {
        self.add(place, Problem::Invalid(value.into(), why.to_owned()));
    }

    fn merge(&mut self, other: Found) {
        self.schema.extend(other.schema);
        self.rules.extend(other.rules);
    }
}

/// Where in a schema a node is, and what that means for it.
#[derive(Clone)]
pub(crate) struct Place<'r> {
    /// True at the root of the schema.
    pub(crate) root: bool,
    /// Why there can be no default here.
    pub(crate) no_defaults: Option<String>,
    /// Inside of kind, version or metadata of a resource.
    pub(crate) inside_meta: bool,
    /// The place above that is not the same place in an old object.
    pub(crate) uncorrelatable: Option<String>,
    /// The rules above; none where rules are not looked at.
    pub(crate) rules: Option<RuleScope<'r>>,
}

impl Place<'_> {
    /// The place below, where rules are not looked at.
    fn without_rules(&self) -> Self {
        Self { root: false, rules: None, ..self.clone() }
    }
}

/// Switches that are off where an old definition would not pass them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tightness {
    pub(crate) valid_types: bool,
    pub(crate) atomic_sets: bool,
    pub(crate) map_keys: bool,
}

/// Checks a schema and everything below it.
pub(crate) fn check(
    fields: &Fields,
    path: &Path<'_>,
    place: &Place<'_>,
    tightness: Tightness,
    costs: &mut RuleCosts,
) -> Found {
    let mut found = Found::default();
    keywords(fields, path, place, tightness, &mut found);
    below(fields, path, place, tightness, costs, &mut found);
    extensions(fields, path, tightness, &mut found);
    rules(fields, path, place, costs, &mut found);
    found
}

fn there(fields: &Fields, key: &str) -> bool {
    fields.get(key).is_some_and(|value| !value.is_null())
}

fn object<'v>(fields: &'v Fields, key: &str) -> Option<&'v Fields> {
    fields.get(key).and_then(Value::as_object)
}

fn filled<'v>(fields: &'v Fields, key: &str) -> Option<&'v Fields> {
    object(fields, key).filter(|map| !map.is_empty())
}

fn keywords(fields: &Fields, path: &Path<'_>, place: &Place<'_>, tightness: Tightness, found: &mut Found) {
    let kind = text(fields, "type");
    if tightness.valid_types && !kind.is_empty() && !TYPES.contains(&kind) {
        let choices = TYPES.iter().map(|name| (*name).to_owned()).collect();
        found.add(&path.field("type"), Problem::NotSupported(kind.into(), choices));
    }
    if let Some(reason) = &place.no_defaults
        && there(fields, "default")
    {
        let why = if reason.is_empty() {
            "must not be set".to_owned()
        } else {
            format!("must not be set {reason}")
        };
        found.forbidden(&path.field("default"), &why);
    }
    if !text(fields, "id").is_empty() {
        found.forbidden(&path.field("id"), "id is not supported");
    }
    if there(fields, "additionalItems") {
        found.forbidden(&path.field("additionalItems"), "additionalItems is not supported");
    }
    for key in ["patternProperties", "definitions"] {
        if filled(fields, key).is_some() {
            found.forbidden(&path.field(key), &format!("{key} is not supported"));
        }
    }
    for key in ["dependencies", "$ref"] {
        if there(fields, key) {
            found.forbidden(&path.field(key), &format!("{key} is not supported"));
        }
    }
    if kind == "null" {
        found.forbidden(&path.field("type"), "type cannot be set to null, use nullable as an alternative");
    }
    if !list(fields, "items").is_empty() {
        found.forbidden(&path.field("items"), "items must be a schema object and not an array");
    }
    if place.inside_meta && flag(fields, "x-kubernetes-embedded-resource") {
        found.forbidden(
            &path.field("x-kubernetes-embedded-resource"),
            "must not be used inside of resource meta",
        );
    }
    if flag(fields, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found.forbidden(&path.field("uniqueItems"), why);
    }
}

/// The schemas below.
fn below(
    fields: &Fields,
    path: &Path<'_>,
    place: &Place<'_>,
    tightness: Tightness,
    costs: &mut RuleCosts,
    found: &mut Found,
) {
    let additional = path.field("additionalProperties");
    if there(fields, "additionalProperties") {
        let open = fields.get("additionalProperties") == Some(&Value::Bool(true));
        if filled(fields, "properties").is_some() && !open {
            found.forbidden(&additional, "additionalProperties and properties are mutual exclusive");
        }
        if let Some(schema) = object(fields, "additionalProperties") {
            let mut inner = Place {
                root: false,
                rules: place.rules.as_ref().map(|rules| rules.values(fields, schema)),
                ..place.clone()
            };
            if place.inside_meta {
                inner.no_defaults =
                    Some("inside additionalProperties applying to object metadata".to_owned());
            }
            found.merge(check(schema, &additional, &inner, tightness, costs));
        }
    }
    let properties = path.field("properties");
    let resource = place.root || flag(fields, "x-kubernetes-embedded-resource");
    let map_type = text(fields, "x-kubernetes-map-type");
    for (name, schema) in object(fields, "properties").into_iter().flatten() {
        let Some(schema) = schema.as_object() else { continue };
        let mut inner = Place {
            root: false,
            rules: place.rules.as_ref().map(|rules| rules.field(fields, name, schema)),
            ..place.clone()
        };
        if !matches!(map_type, "" | "granular" | "atomic") {
            inner.uncorrelatable.get_or_insert_with(|| path.text());
        }
        if resource && is_meta(name) {
            inner.inside_meta = true;
            if place.root {
                inner.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        found.merge(check(schema, &properties.key(name), &inner, tightness, costs));
    }
    if let Some(schema) = object(fields, "not") {
        found.merge(check(schema, &path.field("not"), &place.without_rules(), tightness, costs));
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (index, schema) in list(fields, key).iter().enumerate() {
            if let Some(schema) = schema.as_object() {
                found.merge(check(
                    schema,
                    &path.field(key).index(index),
                    &place.without_rules(),
                    tightness,
                    costs,
                ));
            }
        }
    }
    for (name, schema) in object(fields, "definitions").into_iter().flatten() {
        if let Some(schema) = schema.as_object() {
            found.merge(check(
                schema,
                &path.field("definitions").key(name),
                &place.without_rules(),
                tightness,
                costs,
            ));
        }
    }
    let mut inner = Place { root: false, ..place.clone() };
    if text(fields, "x-kubernetes-list-type") != "map" {
        inner.uncorrelatable.get_or_insert_with(|| path.text());
    }
    let items = path.field("items");
    if let Some(schema) = object(fields, "items") {
        inner.rules = place.rules.as_ref().map(|rules| rules.items(fields, schema));
        found.merge(check(schema, &items, &inner, tightness, costs));
    }
    for (index, schema) in list(fields, "items").iter().enumerate() {
        if let Some(schema) = schema.as_object() {
            inner.rules = None;
            found.merge(check(schema, &items.index(index), &inner, tightness, costs));
        }
    }
    for (name, schema) in object(fields, "dependencies").into_iter().flatten() {
        if let Some(schema) = schema.as_object() {
            found.merge(check(
                schema,
                &path.field("dependencies").key(name),
                &place.without_rules(),
                tightness,
                costs,
            ));
        }
    }
}

fn extensions(fields: &Fields, path: &Path<'_>, tightness: Tightness, found: &mut Found) {
    let kind = text(fields, "type");
    let type_place = path.field("type");
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if fields.get(preserve) == Some(&Value::Bool(false)) {
        found.invalid(&path.field(preserve), false, "must be true or undefined");
    }
    let wrong_kind = |found: &mut Found, why: &str| {
        if kind.is_empty() {
            found.required(&type_place, why);
        } else {
            found.invalid(&type_place, kind, why);
        }
    };
    let not_supported = |found: &mut Found, key: &str, value: &str, choices: &[&str]| {
        let choices = choices.iter().map(|choice| (*choice).to_owned()).collect();
        found.add(&path.field(key), Problem::NotSupported(value.into(), choices));
    };
    let map_key = "x-kubernetes-map-type";
    if let Some(map_type) = fields.get(map_key).and_then(Value::as_str) {
        if kind != "object" {
            wrong_kind(found, "must be object if x-kubernetes-map-type is specified");
        }
        if !matches!(map_type, "atomic" | "granular") {
            not_supported(found, map_key, map_type, &["atomic", "granular"]);
        }
    }
    let list_key = "x-kubernetes-list-type";
    let list_type = fields.get(list_key).and_then(Value::as_str);
    let items = object(fields, "items");
    if let Some(list_type) = list_type {
        if kind != "array" {
            wrong_kind(found, "must be array if x-kubernetes-list-type is specified");
        } else if let Some(items) = items.filter(|_| tightness.atomic_sets && list_type == "set") {
            set_items(items, path, found);
        }
        if !matches!(list_type, "atomic" | "set" | "map") {
            not_supported(found, list_key, list_type, &["atomic", "set", "map"]);
        }
    }
    let keys = texts(fields, "x-kubernetes-list-map-keys");
    if !keys.is_empty() {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => found.required(&path.field(list_key), why),
            Some("map") => {}
            Some(other) => found.invalid(&path.field(list_key), other, why),
        }
    }
    if list_type == Some("map") {
        list_map(fields, &keys, path, found);
    }
    if tightness.map_keys {
        found.schema.extend(loose_keys(fields, path));
    }
}

/// The items of a set are compared as a whole.
fn set_items(items: &Fields, path: &Path<'_>, found: &mut Found) {
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = items.get("x-kubernetes-list-type").filter(|value| !value.is_null());
    let below = path.field("items");
    match text(items, "type") {
        "array" if list_type.is_some_and(|list_type| list_type != "atomic") => {
            found.invalid(
                &below.field("x-kubernetes-list-type"),
                list_type.cloned().unwrap_or_default(),
                why,
            );
        }
        "object" if text(items, "x-kubernetes-map-type") != "atomic" => {
            found.invalid(&below.field("x-kubernetes-map-type"), list_type.cloned().unwrap_or_default(), why);
        }
        _ => {}
    }
}

fn list_map(fields: &Fields, keys: &[String], path: &Path<'_>, found: &mut Found) {
    let keys_place = path.field("x-kubernetes-list-map-keys");
    let items_place = path.field("items");
    if keys.is_empty() {
        found.required(&keys_place, "must not be empty if x-kubernetes-list-type is map");
    }
    let items = match fields.get("items") {
        None | Some(Value::Null) => {
            found.required(&items_place, "must have a schema if x-kubernetes-list-type is map");
            return;
        }
        Some(Value::Object(items)) => items,
        other => {
            let why = "must only have a single schema if x-kubernetes-list-type is map".to_owned();
            found.add(&items_place, Problem::InvalidAs(Some(shown_items(other)), why));
            return;
        }
    };
    let kind = text(items, "type");
    if kind != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        found.invalid(&items_place.field("type"), kind, why);
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        match object(items, "properties").and_then(|properties| object(properties, key)) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                found.invalid(&items_place.field("properties").key(key).field("type"), kind, why);
            }
            Some(_) => {}
            None => found.invalid(&keys_place, keys, "entries must all be names of item properties"),
        }
        if keys[..index].contains(key) {
            found.invalid(&keys_place, keys, "must not contain duplicate entries");
        }
    }
}

/// Items and keys of lists that are sets or maps are always there.
pub(crate) fn loose_keys(fields: &Fields, path: &Path<'_>) -> Vec<FieldProblem> {
    let mut found = Found::default();
    let list_type = text(fields, "x-kubernetes-list-type");
    let Some(items) = object(fields, "items").filter(|_| matches!(list_type, "set" | "map")) else {
        return Vec::new();
    };
    let below = path.field("items");
    if flag(items, "nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        found.forbidden(&below.field("nullable"), &why);
    }
    if list_type == "map" {
        let required = texts(items, "required");
        let properties = below.field("properties");
        for key in texts(fields, "x-kubernetes-list-map-keys") {
            let Some(property) = object(items, "properties").and_then(|properties| object(properties, &key))
            else {
                continue;
            };
            let place = properties.key(&key);
            if !required.contains(&key) && !there(property, "default") {
                let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                           property";
                found.required(&place.field("default"), why);
            }
            if flag(property, "nullable") {
                let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                found.forbidden(&place.field("nullable"), why);
            }
        }
    }
    found.schema
}

fn has_line_break(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

fn rules(fields: &Fields, path: &Path<'_>, place: &Place<'_>, costs: &mut RuleCosts, found: &mut Found) {
    let rules = list(fields, "x-kubernetes-validations");
    if rules.is_empty() {
        return;
    }
    let all = path.field("x-kubernetes-validations");
    for (index, rule) in rules.iter().enumerate() {
        if let Some(rule) = rule.as_object() {
            written_rule(rule, fields, &all.index(index), found);
        }
    }
    if let Some(scope) = place.rules.as_ref().filter(|_| found.schema.is_empty()) {
        found.rules.extend(scope.check(fields, &all, place.uncorrelatable.as_deref(), costs));
    }
}

/// The words around the expression of a rule.
fn written_rule(rule: &Fields, fields: &Fields, path: &Path<'_>, found: &mut Found) {
    let (expression, message) = (text(rule, "rule"), text(rule, "message"));
    let message_place = path.field("message");
    if expression.trim().is_empty() {
        found.required(&path.field("rule"), "rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        found.invalid(&message_place, message, "must be non-empty if specified");
    } else if has_line_break(message.trim()) {
        found.invalid(&message_place, message, "must not contain line breaks");
    } else if has_line_break(expression.trim()) && message.trim().is_empty() {
        found.required(&message_place, "message must be specified if rule contains line breaks");
    }
    let message_expression = text(rule, "messageExpression");
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        found.required(&path.field("messageExpression"), why);
    }
    if let Some(reason) = rule.get("reason").and_then(Value::as_str)
        && !REASONS.contains(&reason)
    {
        let choices = REASONS.iter().map(|reason| (*reason).to_owned()).collect();
        found.add(&path.field("reason"), Problem::NotSupported(reason.into(), choices));
    }
    let field = text(rule, "fieldPath");
    let field_place = path.field("fieldPath");
    if !field.is_empty() && field.trim().is_empty() {
        found.invalid(&field_place, field, "must be non-empty if specified");
    }
    if has_line_break(field) {
        found.invalid(&field_place, field, "must not contain line breaks");
    }
    if !field.is_empty()
        && let Ok(schema) = Schema::read(&Value::Object(fields.clone()))
        && field_path::resolve(field, &schema, true).is_err()
    {
        found.invalid(&field_place, field, "must be a valid path");
    }
}

/// The schema at the root of a resource with a status may only say what can be split off for the status.
pub(crate) fn root_with_status(fields: &Fields, path: &Path<'_>, found: &mut Vec<FieldProblem>) {
    const ALLOWED: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
                           MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties \
                           ExternalDocs Example XPreserveUnknownFields XValidations]";
    // In the order in which the server looks at them.
    const ORDER: [(&str, bool); 43] = [
        ("id", false),
        ("$schema", false),
        ("$ref", false),
        ("description", true),
        ("type", true),
        ("nullable", false),
        ("format", true),
        ("title", true),
        ("default", false),
        ("maximum", true),
        ("exclusiveMaximum", true),
        ("minimum", true),
        ("exclusiveMinimum", true),
        ("maxLength", true),
        ("minLength", true),
        ("pattern", true),
        ("maxItems", true),
        ("minItems", true),
        ("uniqueItems", true),
        ("multipleOf", true),
        ("enum", false),
        ("maxProperties", false),
        ("minProperties", false),
        ("required", true),
        ("items", true),
        ("allOf", false),
        ("oneOf", false),
        ("anyOf", false),
        ("not", false),
        ("properties", true),
        ("additionalProperties", false),
        ("patternProperties", false),
        ("dependencies", false),
        ("additionalItems", false),
        ("definitions", false),
        ("externalDocs", true),
        ("example", true),
        ("x-kubernetes-preserve-unknown-fields", true),
        ("x-kubernetes-embedded-resource", false),
        ("x-kubernetes-int-or-string", false),
        ("x-kubernetes-list-map-keys", false),
        ("x-kubernetes-list-type", false),
        ("x-kubernetes-map-type", false),
    ];
    for (key, allowed) in ORDER {
        let set = match fields.get(key) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(false)) => matches!(
                key,
                "x-kubernetes-preserve-unknown-fields"
                    | "additionalProperties"
                    | "additionalItems"
                    | "default"
                    | "example"
            ),
            Some(Value::String(text)) => !text.is_empty() || matches!(key, "default" | "example" | "$ref"),
            Some(Value::Array(items)) => !items.is_empty() || matches!(key, "default" | "example"),
            Some(Value::Object(map)) => {
                !map.is_empty() || !matches!(key, "properties" | "patternProperties" | "definitions")
            }
            Some(_) => true,
        };
        if !set {
            continue;
        }
        let kind = text(fields, "type");
        if key == "type" && kind != "object" {
            let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                       enabled"
                .to_owned();
            found.push(FieldProblem::new(
                path.field("openAPIV3Schema.type").text(),
                Problem::Invalid(kind.into(), why),
            ));
            return;
        }
        if !allowed {
            let why = format!(
                "only {ALLOWED} fields are allowed at the root of the schema if the status subresource is enabled"
            );
            let shown = super::internal::shown_schema(fields);
            found.push(FieldProblem::new(
                path.field("openAPIV3Schema").text(),
                Problem::InvalidAs(Some(shown), why),
            ));
            return;
        }
    }
}

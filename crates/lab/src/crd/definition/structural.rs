//! What makes a schema structural: one spine of types, with nothing about shape hidden in its alternatives.

use serde_json::{Map, Value};

use crate::{
    crd::{
        path::Path,
        schema::{flag, list, text},
    },
    goregex::GoRegex,
    status::{FieldProblem, Problem},
};

type Fields = Map<String, Value>;

/// Where a node is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Which of the alternatives say that a value is a number or a text, and may therefore name types.
#[derive(Clone, Copy, Default)]
struct Skip {
    any_of: bool,
    first_all_of: bool,
}

/// What is not structural about a schema, sorted as the server sorts it.
pub(crate) fn check(schema: &Fields, path: &Path<'_>) -> Vec<FieldProblem> {
    let mut found = Found(Vec::new());
    found.node(schema, Level::Root, path);
    found.complete(schema, Some(schema), path, path);
    let mut sorted: Vec<(String, FieldProblem)> = found
        .0
        .into_iter()
        .map(|problem| {
            let cause = problem.clone().cause();
            (format!("{}: {}", cause.field, cause.message), problem)
        })
        .collect();
    sorted.sort_by(|left, right| left.0.cmp(&right.0));
    sorted.into_iter().map(|(_, problem)| problem).collect()
}

fn object<'v>(fields: &'v Fields, key: &str) -> Option<&'v Fields> {
    fields.get(key).and_then(Value::as_object)
}

fn properties(fields: &Fields) -> impl Iterator<Item = (&String, &Fields)> {
    object(fields, "properties")
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| value.as_object().map(|value| (name, value)))
}

fn there(fields: &Fields, key: &str) -> bool {
    fields.get(key).is_some_and(|value| !value.is_null())
}

/// The first alternative of a node is `integer` and the second `string`, and nothing else.
fn is_int_or_string(alternatives: &[Value]) -> bool {
    let only = |alternative: &Value, name: &str| {
        alternative.as_object().is_some_and(|fields| fields.len() == 1 && text(fields, "type") == name)
    };
    matches!(alternatives, [first, second] if only(first, "integer") && only(second, "string"))
}

struct Found(Vec<FieldProblem>);

impl Found {
    fn add(&mut self, place: &Path<'_>, problem: Problem) {
        self.0.push(FieldProblem::new(place.text(), problem));
    }

    fn required(&mut self, place: &Path<'_>, why: &str) {
        self.add(place, Problem::Required(why.to_owned()));
    }

    fn forbidden(&mut self, place: &Path<'_>, why: &str) {
        self.add(place, Problem::Forbidden(why.to_owned()));
    }

    fn invalid(&mut self, place: &Path<'_>, value: Value, why: &str) {
        self.add(place, Problem::Invalid(value, why.to_owned()));
    }

    /// A node of the spine.
    fn node(&mut self, fields: &Fields, level: Level, path: &Path<'_>) {
        let kind = text(fields, "type");
        let preserve = flag(fields, "x-kubernetes-preserve-unknown-fields");
        let embedded = flag(fields, "x-kubernetes-embedded-resource");
        let int_or_string = flag(fields, "x-kubernetes-int-or-string");
        if kind == "array" && object(fields, "items").is_none() {
            self.required(&path.field("items"), "must be specified");
        }
        if let Some(items) = object(fields, "items") {
            self.node(items, Level::Item, &path.field("items"));
        }
        let below = path.field("properties");
        for (name, property) in properties(fields) {
            self.node(property, Level::Field, &below.key(name));
        }
        let additional = path.field("additionalProperties");
        if there(fields, "additionalProperties") {
            if level == Level::Root {
                self.forbidden(&additional, "must not be used at the root");
            }
            if let Some(schema) = object(fields, "additionalProperties") {
                self.node(schema, Level::Field, &additional);
            }
        }
        let must_be_false = "must be false if x-kubernetes-int-or-string is true";
        if int_or_string && preserve {
            self.invalid(&path.field("x-kubernetes-preserve-unknown-fields"), true.into(), must_be_false);
        }
        if int_or_string && embedded {
            self.invalid(&path.field("x-kubernetes-embedded-resource"), true.into(), must_be_false);
        }
        let skip = Skip {
            any_of: is_int_or_string(list(fields, "anyOf")),
            first_all_of: list(fields, "allOf")
                .first()
                .and_then(Value::as_object)
                .is_some_and(|first| is_int_or_string(list(first, "anyOf"))),
        };
        self.values(fields, skip, path);
        self.kind_of_node(fields, level, path);
        self.resource(fields, level, path);
    }

    fn kind_of_node(&mut self, fields: &Fields, level: Level, path: &Path<'_>) {
        let kind = text(fields, "type");
        let preserve = flag(fields, "x-kubernetes-preserve-unknown-fields");
        let embedded = flag(fields, "x-kubernetes-embedded-resource");
        let int_or_string = flag(fields, "x-kubernetes-int-or-string");
        let place = path.field("type");
        if embedded && kind != "object" {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            if kind.is_empty() {
                self.required(&place, why);
            } else {
                self.invalid(&place, kind.into(), why);
            }
        } else if kind.is_empty() && !int_or_string && !preserve {
            self.required(
                &place,
                match level {
                    Level::Root => "must not be empty at the root",
                    Level::Item => "must not be empty for specified array items",
                    Level::Field => "must not be empty for specified object fields",
                },
            );
        }
        if embedded && there(fields, "additionalProperties") {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            self.forbidden(&path.field("additionalProperties"), why);
        }
        if level == Level::Root && !kind.is_empty() && kind != "object" {
            self.invalid(&place, kind.into(), "must be object at the root");
        }
        if embedded && !preserve && properties(fields).next().is_none() {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                       x-kubernetes-preserve-unknown-fields";
            self.required(&path.field("properties"), why);
        }
    }

    /// What the schema of a resource may say about kind, version and metadata.
    fn resource(&mut self, fields: &Fields, level: Level, path: &Path<'_>) {
        let is_resource = level == Level::Root || flag(fields, "x-kubernetes-embedded-resource");
        let below = path.field("properties");
        let property =
            |name: &str| object(fields, "properties").and_then(|properties| object(properties, name));
        for name in ["kind", "apiVersion"] {
            if let Some(schema) = property(name).filter(|_| is_resource)
                && text(schema, "type") != "string"
            {
                self.invalid(&below.key(name).field("type"), text(schema, "type").into(), "must be string");
            }
        }
        let Some(metadata) = property("metadata") else { return };
        let place = below.key("metadata");
        if is_resource && text(metadata, "type") != "object" {
            self.invalid(&place.field("type"), text(metadata, "type").into(), "must be object");
        }
        if level == Level::Root {
            let names_only = |key: &str| key == "name" || key == "generateName";
            let only_names = metadata.iter().all(|(key, value)| match key.as_str() {
                "type" | "default" => true,
                "properties" => {
                    value.as_object().is_some_and(|properties| properties.keys().all(|key| names_only(key)))
                }
                _ => is_empty(value),
            });
            if !only_names {
                let why = "must not specify anything other than name and generateName, but metadata is implicitly \
                           specified";
                self.forbidden(&place, why);
            }
        }
    }

    /// The checks of values: patterns, and the alternatives below.
    fn values(&mut self, fields: &Fields, skip: Skip, path: &Path<'_>) {
        if !skip.any_of {
            self.alternatives(fields, "anyOf", Skip::default(), path);
        }
        for (index, schema) in list(fields, "allOf").iter().enumerate() {
            let any_of = skip.first_all_of && index == 0;
            if let Some(schema) = schema.as_object() {
                let skip = Skip { any_of, first_all_of: false };
                self.nested(schema, skip, &path.field("allOf").index(index));
            }
        }
        self.alternatives(fields, "oneOf", Skip::default(), path);
        if let Some(schema) = object(fields, "not") {
            self.nested(schema, Skip::default(), &path.field("not"));
        }
        let pattern = text(fields, "pattern");
        if !pattern.is_empty()
            && let Err(problem) = GoRegex::new(pattern)
        {
            let why = format!("must be a valid regular expression, but isn't: {problem}");
            self.invalid(&path.field("pattern"), pattern.into(), &why);
        }
    }

    fn alternatives(&mut self, fields: &Fields, key: &str, skip: Skip, path: &Path<'_>) {
        for (index, schema) in list(fields, key).iter().enumerate() {
            if let Some(schema) = schema.as_object() {
                self.nested(schema, skip, &path.field(key).index(index));
            }
        }
    }

    /// A schema below an alternative: it may check values, but not say what they are.
    fn nested(&mut self, fields: &Fields, skip: Skip, path: &Path<'_>) {
        self.values(fields, skip, path);
        if let Some(items) = object(fields, "items") {
            self.nested(items, Skip::default(), &path.field("items"));
        }
        let below = path.field("properties");
        for (name, property) in properties(fields) {
            self.nested(property, Skip::default(), &below.key(name));
        }
        let empty = "must be empty to be structural";
        let undefined = "must be undefined to be structural";
        let off = "must be false to be structural";
        for (key, why) in [
            ("type", empty),
            ("title", empty),
            ("description", empty),
            ("default", undefined),
            ("additionalProperties", undefined),
            ("nullable", off),
            ("x-kubernetes-preserve-unknown-fields", off),
            ("x-kubernetes-embedded-resource", off),
            ("x-kubernetes-int-or-string", off),
            ("x-kubernetes-list-map-keys", empty),
            ("x-kubernetes-list-type", undefined),
            ("x-kubernetes-map-type", undefined),
            ("x-kubernetes-validations", empty),
        ] {
            let Some(value) = fields.get(key) else { continue };
            let set = match key {
                "default" => !value.is_null(),
                "additionalProperties" => value.is_object() || *value == Value::Bool(true),
                "x-kubernetes-list-type" | "x-kubernetes-map-type" => value.is_string(),
                _ => !is_empty(value),
            };
            if set {
                self.forbidden(&path.field(key), why);
            }
        }
        if object(fields, "properties").is_some_and(|properties| properties.contains_key("metadata")) {
            self.forbidden(&below.key("metadata"), "must not be specified in a nested context");
        }
    }

    /// Every field and item that an alternative checks has to be part of the spine.
    fn complete(&mut self, values: &Fields, spine: Option<&Fields>, spine_path: &Path<'_>, path: &Path<'_>) {
        if let Some(schema) = object(values, "not") {
            self.complete_nested(schema, spine, spine_path, &path.field("not"));
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            for (index, schema) in list(values, key).iter().enumerate() {
                if let Some(schema) = schema.as_object() {
                    self.complete_nested(schema, spine, spine_path, &path.field(key).index(index));
                }
            }
        }
    }

    fn complete_nested(
        &mut self,
        values: &Fields,
        spine: Option<&Fields>,
        spine_path: &Path<'_>,
        path: &Path<'_>,
    ) {
        let Some(spine) = spine else {
            self.required(spine_path, &format!("because it is defined in {path}"));
            return;
        };
        self.complete(values, Some(spine), spine_path, path);
        if let Some(items) = object(values, "items") {
            let below = object(spine, "items");
            self.complete_nested(items, below, &spine_path.field("items"), &path.field("items"));
        }
        let (spine_below, below) = (spine_path.field("properties"), path.field("properties"));
        for (name, property) in properties(values) {
            if let Some(known) = object(spine, "properties").and_then(|properties| object(properties, name)) {
                self.complete_nested(property, Some(known), &spine_below.key(name), &below.key(name));
            } else {
                let why = format!("because it is defined in {}", below.key(name));
                self.required(&spine_below.key(name), &why);
            }
        }
    }
}

/// True for what a typed server does not keep: null, false, and empty text, lists and maps.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

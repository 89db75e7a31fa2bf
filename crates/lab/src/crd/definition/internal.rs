//! Definitions as the server has them in memory, which is how its messages show them.
//!
//! What all versions have in common is at the top there, and values are written with the names of the server's own
//! fields, in their order.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::{
    crd::schema::{flag, list, text},
    gotext::{json, write_json_string},
};

type Fields = Map<String, Value>;

/// The parts of a definition that are at the top, or at each version.
#[derive(Debug)]
pub(crate) struct Internal<'v> {
    /// The versions.
    pub(crate) versions: Vec<&'v Fields>,
    /// Whether the schema is at the top.
    pub(crate) one_schema: bool,
    /// Whether the subresources are at the top.
    pub(crate) one_subresources: bool,
    /// Whether the columns are at the top.
    pub(crate) one_columns: bool,
    /// Whether the selectable fields are at the top.
    pub(crate) one_selectable: bool,
}

impl<'v> Internal<'v> {
    pub(crate) fn of(spec: &'v Fields) -> Self {
        let versions: Vec<&Fields> = list(spec, "versions").iter().filter_map(Value::as_object).collect();
        let same = |key: &str| {
            let present = |version: &&'v Fields| version.get(key).filter(|value| !value.is_null());
            let empty = |value: Option<&Value>| match value {
                Some(Value::Array(items)) => items.is_empty(),
                other => other.is_none(),
            };
            versions.windows(2).all(|pair| {
                let (first, second) = (present(&pair[0]), present(&pair[1]));
                first == second || (empty(first) && empty(second))
            })
        };
        Self {
            one_schema: !versions.is_empty() && same("schema"),
            one_subresources: !versions.is_empty() && same("subresources"),
            one_columns: !versions.is_empty() && same("additionalPrinterColumns"),
            one_selectable: !versions.is_empty() && same("selectableFields"),
            versions,
        }
    }

    /// The schema of a version, wherever it is.
    pub(crate) fn schema(version: &'v Fields) -> Option<&'v Value> {
        version.get("schema")?.get("openAPIV3Schema").filter(|schema| schema.is_object())
    }

    /// Whether a version has the status subresource.
    pub(crate) fn has_status(version: &Fields) -> bool {
        version
            .get("subresources")
            .and_then(|subresources| subresources.get("status"))
            .is_some_and(|status| !status.is_null())
    }

    /// The versions as messages show them.
    pub(crate) fn shown_versions(&self) -> String {
        let versions: Vec<String> = self.versions.iter().map(|version| self.shown_version(version)).collect();
        format!("[{}]", versions.join(","))
    }

    fn shown_version(&self, version: &'v Fields) -> String {
        let mut out = Record::new();
        out.text("Name", text(version, "name"));
        for (key, shown) in [("served", "Served"), ("storage", "Storage"), ("deprecated", "Deprecated")] {
            out.raw(shown, if flag(version, key) { "true" } else { "false" });
        }
        out.optional_json("DeprecationWarning", version.get("deprecationWarning"));
        let schema = version.get("schema").filter(|value| value.is_object() && !self.one_schema);
        out.raw(
            "Schema",
            &schema.map_or_else(null, |_| {
                let mut inner = Record::new();
                inner.raw(
                    "OpenAPIV3Schema",
                    &Self::schema(version).and_then(Value::as_object).map_or_else(null, shown_schema),
                );
                inner.done()
            }),
        );
        let subresources =
            version.get("subresources").and_then(Value::as_object).filter(|_| !self.one_subresources);
        out.raw("Subresources", &subresources.map_or_else(null, shown_subresources));
        let columns = list(version, "additionalPrinterColumns");
        out.raw(
            "AdditionalPrinterColumns",
            &shown_list(columns, self.one_columns, |column| {
                let mut inner = Record::new();
                for (key, shown) in
                    [("name", "Name"), ("type", "Type"), ("format", "Format"), ("description", "Description")]
                {
                    inner.text(shown, text(column, key));
                }
                inner.raw("Priority", &column.get("priority").map_or("0".to_owned(), json));
                inner.text("JSONPath", text(column, "jsonPath"));
                inner.done()
            }),
        );
        out.raw(
            "SelectableFields",
            &shown_list(list(version, "selectableFields"), self.one_selectable, |field| {
                let mut inner = Record::new();
                inner.text("JSONPath", text(field, "jsonPath"));
                inner.done()
            }),
        );
        out.done()
    }
}

fn null() -> String {
    "null".to_owned()
}

fn shown_list(items: &[Value], hidden: bool, shown: impl Fn(&Fields) -> String) -> String {
    if hidden || items.is_empty() {
        return null();
    }
    let items: Vec<String> = items.iter().filter_map(Value::as_object).map(shown).collect();
    format!("[{}]", items.join(","))
}

fn shown_subresources(subresources: &Fields) -> String {
    let mut out = Record::new();
    let set = |key: &str| subresources.get(key).and_then(Value::as_object);
    out.raw("Status", &set("status").map_or_else(null, |_| "{}".to_owned()));
    out.raw(
        "Scale",
        &set("scale").map_or_else(null, |scale| {
            let mut inner = Record::new();
            inner.text("SpecReplicasPath", text(scale, "specReplicasPath"));
            inner.text("StatusReplicasPath", text(scale, "statusReplicasPath"));
            inner.optional_json("LabelSelectorPath", scale.get("labelSelectorPath"));
            inner.done()
        }),
    );
    out.done()
}

/// A rule as messages show it.
pub(crate) fn shown_rule(rule: &Fields) -> String {
    let mut out = Record::new();
    out.text("Rule", text(rule, "rule"));
    out.text("Message", text(rule, "message"));
    out.text("MessageExpression", text(rule, "messageExpression"));
    out.optional_json("Reason", rule.get("reason"));
    out.text("FieldPath", text(rule, "fieldPath"));
    out.optional_json("OptionalOldSelf", rule.get("optionalOldSelf"));
    out.done()
}

/// A schema as messages show it.
pub(crate) fn shown_schema(schema: &Fields) -> String {
    let mut out = Record::new();
    let object = |key: &str| schema.get(key).and_then(Value::as_object);
    let schemas = |key: &str| shown_list(list(schema, key), false, shown_schema);
    let map = |key: &str| {
        object(key).filter(|map| !map.is_empty()).map_or_else(null, |map| {
            let mut inner = Record::new();
            for (name, value) in map {
                inner.raw(name, &value.as_object().map_or_else(null, shown_schema));
            }
            inner.done()
        })
    };
    let or_bool = |key: &str| match schema.get(key) {
        Some(Value::Object(inner)) => format!("{{\"Allows\":true,\"Schema\":{}}}", shown_schema(inner)),
        Some(Value::Bool(allows)) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
        _ => null(),
    };
    let switch = |out: &mut Record, shown: &str, key: &str| {
        out.raw(shown, if flag(schema, key) { "true" } else { "false" });
    };
    out.text("ID", text(schema, "id"));
    out.text("Schema", text(schema, "$schema"));
    out.optional_json("Ref", schema.get("$ref"));
    out.text("Description", text(schema, "description"));
    out.text("Type", text(schema, "type"));
    switch(&mut out, "Nullable", "nullable");
    out.text("Format", text(schema, "format"));
    out.text("Title", text(schema, "title"));
    out.optional_json("Default", schema.get("default"));
    out.optional_json("Maximum", schema.get("maximum"));
    switch(&mut out, "ExclusiveMaximum", "exclusiveMaximum");
    out.optional_json("Minimum", schema.get("minimum"));
    switch(&mut out, "ExclusiveMinimum", "exclusiveMinimum");
    out.optional_json("MaxLength", schema.get("maxLength"));
    out.optional_json("MinLength", schema.get("minLength"));
    out.text("Pattern", text(schema, "pattern"));
    out.optional_json("MaxItems", schema.get("maxItems"));
    out.optional_json("MinItems", schema.get("minItems"));
    switch(&mut out, "UniqueItems", "uniqueItems");
    out.optional_json("MultipleOf", schema.get("multipleOf"));
    out.optional_list("Enum", schema.get("enum"));
    out.optional_json("MaxProperties", schema.get("maxProperties"));
    out.optional_json("MinProperties", schema.get("minProperties"));
    out.optional_list("Required", schema.get("required"));
    out.raw("Items", &shown_items(schema.get("items")));
    for (key, shown) in [("allOf", "AllOf"), ("oneOf", "OneOf"), ("anyOf", "AnyOf")] {
        out.raw(shown, &schemas(key));
    }
    out.raw("Not", &object("not").map_or_else(null, shown_schema));
    out.raw("Properties", &map("properties"));
    out.raw("AdditionalProperties", &or_bool("additionalProperties"));
    out.raw("PatternProperties", &map("patternProperties"));
    out.optional_json("Dependencies", schema.get("dependencies"));
    out.raw("AdditionalItems", &or_bool("additionalItems"));
    out.raw("Definitions", &map("definitions"));
    out.raw(
        "ExternalDocs",
        &object("externalDocs").map_or_else(null, |docs| {
            let mut inner = Record::new();
            inner.text("Description", text(docs, "description"));
            inner.text("URL", text(docs, "url"));
            inner.done()
        }),
    );
    out.optional_json("Example", schema.get("example"));
    out.optional_json("XPreserveUnknownFields", schema.get("x-kubernetes-preserve-unknown-fields"));
    switch(&mut out, "XEmbeddedResource", "x-kubernetes-embedded-resource");
    switch(&mut out, "XIntOrString", "x-kubernetes-int-or-string");
    out.optional_list("XListMapKeys", schema.get("x-kubernetes-list-map-keys"));
    out.optional_json("XListType", schema.get("x-kubernetes-list-type"));
    out.optional_json("XMapType", schema.get("x-kubernetes-map-type"));
    out.raw("XValidations", &shown_list(list(schema, "x-kubernetes-validations"), false, shown_rule));
    out.done()
}

/// The `items` of a schema as messages show them.
pub(crate) fn shown_items(items: Option<&Value>) -> String {
    match items {
        Some(Value::Object(schema)) => {
            format!("{{\"Schema\":{},\"JSONSchemas\":null}}", shown_schema(schema))
        }
        Some(Value::Array(schemas)) => {
            format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", shown_list(schemas, false, shown_schema))
        }
        _ => null(),
    }
}

/// A record that is written field by field.
struct Record(String);

impl Record {
    fn new() -> Self {
        Self("{".to_owned())
    }

    fn raw(&mut self, key: &str, value: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        write_json_string(key, &mut self.0);
        let _ = write!(self.0, ":{value}");
    }

    fn text(&mut self, key: &str, value: &str) {
        let mut quoted = String::new();
        write_json_string(value, &mut quoted);
        self.raw(key, &quoted);
    }

    fn optional_json(&mut self, key: &str, value: Option<&Value>) {
        self.raw(key, &value.map_or_else(null, json));
    }

    fn optional_list(&mut self, key: &str, value: Option<&Value>) {
        let filled = value.filter(|value| value.as_array().is_some_and(|items| !items.is_empty()));
        self.optional_json(key, filled);
    }

    fn done(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

//! Types as OpenAPI schemas.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::words;
use crate::schema::{Embedding, Field, Instead, ListMerge, Patch, Shape, TypeRef, Width};

/// Which version of OpenAPI a document is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

impl Form {
    /// A reference to a named schema.
    pub(super) fn reference(self, name: &str) -> Value {
        json!({"$ref": format!("{}{name}", self.prefix())})
    }

    /// What references begin with.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        }
    }
}

/// The name of a type, if it is one that is referred to rather than written out.
pub(super) fn reference_name(of: TypeRef<'_>) -> Option<&str> {
    Some(match of.shape() {
        Shape::Object { .. } => return of.node().name.as_deref(),
        Shape::Time => "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
        Shape::MicroTime => "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
        Shape::Duration => "io.k8s.apimachinery.pkg.apis.meta.v1.Duration",
        Shape::Quantity => "io.k8s.apimachinery.pkg.api.resource.Quantity",
        Shape::IntOrString => "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        Shape::Any(Embedding::FieldsV1) => "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
        Shape::Any(Embedding::Raw) => match of.facts().and_then(|facts| facts.go_name) {
            Some("v1.JSON") => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
            _ => "io.k8s.apimachinery.pkg.runtime.RawExtension",
        },
        Shape::SchemaOr { instead, .. } => match instead {
            Instead::Boolean => {
                "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool"
            }
            Instead::List => {
                "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray"
            }
            Instead::Texts => {
                "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray"
            }
        },
        _ => return None,
    })
}

/// The schema of a named type that is no object.
pub(super) fn simple(name: &str, form: Form) -> Option<Value> {
    Some(match (name.rsplit('.').next()?, form) {
        ("Time" | "MicroTime", _) => json!({"type": "string", "format": "date-time"}),
        ("Duration", _) | ("Quantity", Form::V2) => json!({"type": "string"}),
        ("Quantity", Form::V3) => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        ("IntOrString", Form::V2) => json!({"type": "string", "format": "int-or-string"}),
        ("IntOrString", Form::V3) => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        ("RawExtension" | "FieldsV1" | "Patch", _) => json!({"type": "object"}),
        ("JSON" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray", _) => {
            json!({})
        }
        _ => return None,
    })
}

/// The schema of an object, and in `found` the names it refers to.
pub(super) fn object(of: TypeRef<'_>, form: Form, found: &mut BTreeSet<String>) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    let Shape::Object { fields, atomic, .. } = of.shape() else { return schema.into() };
    let name = of.node().name.as_deref().unwrap_or_default();
    let is_kind = fields.iter().any(|field| field.name == "apiVersion") && of.field("metadata").is_some();
    let properties: Map<String, Value> = fields
        .iter()
        .map(|field| {
            let mut schema = property(field, of.at(field.of), form, found);
            let words = if name.ends_with(".ObjectMeta") {
                words::of_metadata(&field.name)
            } else if is_kind {
                words::of_object(&field.name)
            } else {
                None
            };
            if let Some(words) = words {
                schema["description"] = words.into();
            }
            (field.name.clone(), schema)
        })
        .collect();
    if !properties.is_empty() {
        schema.insert("properties".to_owned(), properties.into());
    }
    let required: Vec<&str> =
        fields.iter().filter(|field| field.required).map(|field| field.name.as_str()).collect();
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    if *atomic {
        schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    }
    if let Some(unions) = of.facts().and_then(|facts| facts.unions.clone()) {
        schema.insert("x-kubernetes-unions".to_owned(), unions);
    }
    schema.into()
}

/// The schema of a field.
fn property(field: &Field, of: TypeRef<'_>, form: Form, found: &mut BTreeSet<String>) -> Value {
    let mut schema = written(of, form, found);
    if form == Form::V3 && schema.contains_key("$ref") {
        // In this version nothing may stand beside a reference.
        schema = Map::from_iter([("allOf".to_owned(), json!([schema]))]);
    }
    if form == Form::V3
        && let Some(default) = &field.default
    {
        schema.insert("default".to_owned(), default.clone());
    }
    let declared = of.facts().is_some_and(|facts| facts.declared);
    match of.shape() {
        Shape::List { merge, .. } if declared => {
            let kind = match merge {
                ListMerge::Atomic => "atomic",
                ListMerge::Set => "set",
                ListMerge::Map(keys) => {
                    schema.insert("x-kubernetes-list-map-keys".to_owned(), keys.clone().into());
                    "map"
                }
            };
            schema.insert("x-kubernetes-list-type".to_owned(), kind.into());
        }
        Shape::Map { atomic, .. } | Shape::Object { atomic, .. } if declared => {
            let kind = if *atomic { "atomic" } else { "granular" };
            schema.insert("x-kubernetes-map-type".to_owned(), kind.into());
        }
        _ => {}
    }
    if let Some(key) = &field.patch.merge_key {
        schema.insert("x-kubernetes-patch-merge-key".to_owned(), key.as_str().into());
    }
    let strategy = patch_strategy(&field.patch);
    if !strategy.is_empty() {
        schema.insert("x-kubernetes-patch-strategy".to_owned(), strategy.into());
    }
    schema.into()
}

fn patch_strategy(patch: &Patch) -> String {
    [(patch.merge, "merge"), (patch.retain_keys, "retainKeys"), (patch.replace, "replace")]
        .into_iter()
        .filter_map(|(set, word)| set.then_some(word))
        .collect::<Vec<_>>()
        .join(",")
}

/// A reference to the type, or the type written out.
fn written(of: TypeRef<'_>, form: Form, found: &mut BTreeSet<String>) -> Map<String, Value> {
    if let Some(name) = reference_name(of) {
        found.insert(name.to_owned());
        return Map::from_iter([("$ref".to_owned(), format!("{}{name}", form.prefix()).into())]);
    }
    let mut schema = Map::new();
    let mut put = |key: &str, value: Value| schema.insert(key.to_owned(), value);
    match of.shape() {
        Shape::Boolean => drop(put("type", "boolean".into())),
        Shape::Integer(width) => {
            put("type", "integer".into());
            put("format", if *width == Width::W32 { "int32" } else { "int64" }.into());
        }
        Shape::Number => {
            put("type", "number".into());
            put("format", "double".into());
        }
        Shape::Bytes => {
            put("type", "string".into());
            put("format", "byte".into());
        }
        Shape::List { items, .. } => {
            put("type", "array".into());
            put("items", written(of.at(*items), form, found).into());
        }
        Shape::Map { values, .. } => {
            put("type", "object".into());
            put("additionalProperties", written(of.at(*values), form, found).into());
        }
        Shape::Object { .. } | Shape::Any(_) => drop(put("type", "object".into())),
        _ => {
            put("type", "string".into());
            if let Some(facts) = of.facts().filter(|facts| !facts.choices.is_empty()) {
                put("enum", facts.choices.clone().into());
            }
        }
    }
    schema
}

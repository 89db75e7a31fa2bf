//! Schemas as the rules of custom resources see them.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::Value;

use crate::cel::{Decl, DeclKind, ListKind, MAX_REQUEST, Shape, ShapeKind, Type, escape};

use super::schema::{Kind, ListType, Schema};

/// What is known about the values of a schema. None when rules do not see them.
pub(crate) fn declare(schema: &Schema, resource: bool) -> Option<Decl> {
    if schema.int_or_string {
        let max = schema.checks.max_length.map_or(MAX_REQUEST - 2, four_times);
        return Some(Decl::simple(Type::Dyn, max.cast_unsigned(), 1));
    }
    match schema.kind {
        Kind::Array => {
            let item =
                declare(schema.items.as_deref().filter(|_| !resource)?, schema.items.as_deref()?.embedded)?;
            let most =
                schema.checks.max_items.map_or((MAX_REQUEST - 2) / (item.min_size + 1), |max| max.max(0));
            Some(Decl {
                kind: DeclKind::List(Arc::new(item)),
                max_elements: most.cast_unsigned(),
                min_size: 2,
            })
        }
        Kind::Object => match schema.additional_schema() {
            Some(values) => {
                let value = declare(values, values.embedded)?;
                let most = schema
                    .checks
                    .max_properties
                    .map_or((MAX_REQUEST - 2) / (value.min_size + 6), |max| max.max(0));
                Some(Decl {
                    kind: DeclKind::Map(Arc::new(value)),
                    max_elements: most.cast_unsigned(),
                    min_size: 2,
                })
            }
            None => Some(record(schema, resource)),
        },
        Kind::String => Some(text(schema)),
        Kind::Boolean => Some(Decl::simple(Type::Bool, 0, 4)),
        Kind::Number => Some(Decl::simple(Type::Double, 0, 1)),
        Kind::Integer => Some(Decl::simple(Type::Int, 0, 1)),
        Kind::Any | Kind::Other(_) => None,
    }
}

fn four_times(length: i64) -> i64 {
    length.max(0).wrapping_mul(4)
}

fn text(schema: &Schema) -> Decl {
    let max_length = schema.checks.max_length;
    let (of, max, min_size) = match schema.checks.format_name.as_str() {
        "byte" => (Type::Bytes, max_length.map_or(MAX_REQUEST - 2, |max| max.max(0)), 2),
        "duration" => (Type::Duration, 32, 3),
        "date" => (Type::Timestamp, 12, 12),
        "date-time" => (Type::Timestamp, 32, 21),
        _ => {
            let choices = &schema.checks.choices;
            let max = match max_length {
                Some(max) => four_times(max),
                None if choices.is_empty() => MAX_REQUEST - 2,
                None => {
                    let longest = choices.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or(0);
                    i64::try_from(longest).unwrap_or(i64::MAX)
                }
            };
            (Type::String, max, 2)
        }
    };
    Decl::simple(of, max.cast_unsigned(), min_size)
}

fn record(schema: &Schema, resource: bool) -> Decl {
    let mut fields = BTreeMap::new();
    let mut min_size = 2;
    let whole = has_resource_fields(schema);
    let mut add = |name: &str, field: Decl, has_default: bool| {
        if schema.checks.required.iter().any(|required| required == name) && !has_default {
            min_size += i64::try_from(name.len()).unwrap_or(i64::MAX) + field.min_size + 4;
        }
        if let Some(escaped) = escape(name) {
            fields.insert(escaped.into_owned(), Arc::new(field));
        }
    };
    for (name, property) in &schema.properties {
        if resource && !whole && super::shape::is_meta(name) {
            continue;
        }
        if let Some(field) = declare(property, property.embedded) {
            add(name, field, property.default.is_some());
        }
    }
    if resource && !whole {
        let any_text = || Decl::simple(Type::String, (MAX_REQUEST - 2).cast_unsigned(), 2);
        add("kind", any_text(), false);
        add("apiVersion", any_text(), false);
        let metadata = schema.property("metadata");
        let capped = |name: &str, most: i64| {
            let own =
                metadata.and_then(|metadata| metadata.property(name)).and_then(|name| name.checks.max_length);
            Decl::simple(Type::String, four_times(own.map_or(most, |own| own.min(most))).cast_unsigned(), 2)
        };
        let names = [("name", 253), ("generateName", 252)]
            .map(|(name, most)| (name.to_owned(), Arc::new(capped(name, most))));
        let metadata = Decl { kind: DeclKind::Record(names.into()), max_elements: 0, min_size: 2 };
        add("metadata", metadata, false);
    }
    Decl { kind: DeclKind::Record(fields), max_elements: 0, min_size }
}

/// True when a schema itself says what kind, version and name of a resource are.
pub(crate) fn has_resource_fields(schema: &Schema) -> bool {
    let is = |parent: &Schema, name: &str, kind: Kind| {
        parent.property(name).is_some_and(|field| field.kind == kind)
    };
    is(schema, "kind", Kind::String)
        && is(schema, "apiVersion", Kind::String)
        && schema.property("metadata").is_some_and(|metadata| {
            metadata.kind == Kind::Object
                && is(metadata, "name", Kind::String)
                && is(metadata, "generateName", Kind::String)
        })
}

/// How the values of a schema are read by rules.
pub(crate) fn shape(schema: &Schema, resource: bool) -> Shape {
    let kind = if schema.int_or_string {
        ShapeKind::IntOrString
    } else {
        match &schema.kind {
            Kind::Object => object(schema, resource || schema.embedded),
            Kind::Array => match schema.items.as_deref() {
                Some(items) => {
                    let kind = match schema.list_type {
                        Some(ListType::Set) => ListKind::Set,
                        Some(ListType::Map) => ListKind::Map(
                            schema
                                .list_map_keys
                                .iter()
                                .map(|key| escape(key).map_or(key.clone(), Cow::into_owned))
                                .collect(),
                        ),
                        Some(ListType::Atomic) | None => ListKind::Atomic,
                    };
                    ShapeKind::List(Box::new(shape(items, false)), kind)
                }
                None => ShapeKind::BadList,
            },
            Kind::String => match schema.checks.format_name.as_str() {
                "duration" => ShapeKind::Duration,
                "date" => ShapeKind::Date,
                "date-time" => ShapeKind::DateTime,
                "byte" => ShapeKind::Bytes,
                _ => ShapeKind::Text,
            },
            Kind::Number => ShapeKind::Number,
            Kind::Integer => ShapeKind::Integer,
            Kind::Boolean => ShapeKind::Boolean,
            Kind::Any | Kind::Other(_) if schema.preserve_unknown => ShapeKind::Preserved,
            Kind::Any => ShapeKind::Unknown(String::new()),
            Kind::Other(kind) => ShapeKind::Unknown(kind.clone()),
        }
    };
    Shape { nullable: schema.nullable, kind }
}

fn object(schema: &Schema, resource: bool) -> ShapeKind {
    if !resource && schema.properties.is_empty() {
        return match schema.additional_schema() {
            Some(values) => ShapeKind::Map(Box::new(shape(values, false))),
            None => ShapeKind::Closed,
        };
    }
    let mut fields: HashMap<String, Shape> =
        schema.properties.iter().map(|(name, property)| (name.clone(), shape(property, false))).collect();
    if resource && !has_resource_fields(schema) {
        let text = || Shape { nullable: false, kind: ShapeKind::Text };
        fields.insert("kind".to_owned(), text());
        fields.insert("apiVersion".to_owned(), text());
        let names = ["name", "generateName"].map(|name| (name.to_owned(), text()));
        fields
            .insert("metadata".to_owned(), Shape { nullable: false, kind: ShapeKind::Record(names.into()) });
    }
    ShapeKind::Record(fields)
}

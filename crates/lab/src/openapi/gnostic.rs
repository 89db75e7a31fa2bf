//! The document of Swagger 2.0 in protobuf, as the Go clients ask for it.
//!
//! The messages are those of `openapi.v2` of gnostic: maps are lists of named values, and whatever may hold
//! anything is a text of YAML, for which JSON will do.

use serde_json::{Map, Value};

use crate::proto::wire::{put_bytes, put_fixed64, put_message, put_number};

/// The content type of the answer.
pub(crate) const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// A document in protobuf.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 << 20);
    put_text(&mut out, 1, &document["swagger"]);
    put_message(&mut out, 2, |out| {
        put_text(out, 1, &document["info"]["title"]);
        put_text(out, 2, &document["info"]["version"]);
    });
    put_message(&mut out, 8, |out| {
        put_named(out, 2, &document["paths"], |out, item| put_message(out, 2, |out| path_item(out, item)));
    });
    put_message(&mut out, 9, |out| {
        put_named(out, 1, &document["definitions"], |out, each| put_message(out, 2, |out| schema(out, each)));
    });
    for requirement in list(&document["security"]) {
        put_message(&mut out, 12, |out| {
            put_named(out, 1, requirement, |out, scopes| {
                put_message(out, 2, |out| put_texts(out, 1, scopes));
            });
        });
    }
    put_message(&mut out, 13, |out| {
        put_named(out, 1, &document["securityDefinitions"], |out, scheme| {
            put_message(out, 2, |out| {
                put_message(out, 2, |out| {
                    put_text(out, 1, &scheme["type"]);
                    put_text(out, 2, &scheme["name"]);
                    put_text(out, 3, &scheme["in"]);
                    put_text(out, 4, &scheme["description"]);
                });
            });
        });
    });
    out
}

fn path_item(out: &mut Vec<u8>, item: &Value) {
    for (number, method) in
        [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (6, "options"), (7, "head"), (8, "patch")]
    {
        if let Some(told) = item.get(method) {
            put_message(out, number, |out| operation(out, told));
        }
    }
    put_parameters(out, 9, &item["parameters"]);
}

fn operation(out: &mut Vec<u8>, operation: &Value) {
    put_texts(out, 1, &operation["tags"]);
    put_text(out, 3, &operation["description"]);
    put_text(out, 5, &operation["operationId"]);
    put_texts(out, 6, &operation["produces"]);
    put_texts(out, 7, &operation["consumes"]);
    put_parameters(out, 8, &operation["parameters"]);
    put_message(out, 9, |out| {
        put_named(out, 1, &operation["responses"], |out, response| {
            put_message(out, 2, |out| {
                put_message(out, 1, |out| {
                    put_text(out, 1, &response["description"]);
                    if let Some(told) = response.get("schema") {
                        put_message(out, 2, |out| put_message(out, 1, |out| schema(out, told)));
                    }
                });
            });
        });
    });
    put_texts(out, 10, &operation["schemes"]);
    put_extensions(out, 13, operation);
}

fn put_parameters(out: &mut Vec<u8>, number: u32, parameters: &Value) {
    for parameter in list(parameters) {
        put_message(out, number, |out| put_message(out, 1, |out| self::parameter(out, parameter)));
    }
}

/// A parameter of the body, of the query or of the path, each a message of its own.
fn parameter(out: &mut Vec<u8>, parameter: &Value) {
    if parameter["in"] == "body" {
        put_message(out, 1, |out| {
            put_text(out, 2, &parameter["name"]);
            put_text(out, 3, &parameter["in"]);
            put_flag(out, 4, &parameter["required"]);
            put_message(out, 5, |out| schema(out, &parameter["schema"]));
        });
        return;
    }
    let (of_place, of_type, of_unique) = if parameter["in"] == "path" { (4, 5, 19) } else { (3, 6, 20) };
    put_message(out, 2, |out| {
        put_message(out, of_place, |out| {
            put_flag(out, 1, &parameter["required"]);
            put_text(out, 2, &parameter["in"]);
            put_text(out, 4, &parameter["name"]);
            put_text(out, of_type, &parameter["type"]);
            put_flag(out, of_unique, &parameter["uniqueItems"]);
        });
    });
}

fn schema(out: &mut Vec<u8>, told: &Value) {
    for (number, key) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description")] {
        put_text(out, number, &told[key]);
    }
    put_any(out, 5, &told["default"]);
    put_figure(out, 6, &told["multipleOf"]);
    put_figure(out, 7, &told["maximum"]);
    put_flag(out, 8, &told["exclusiveMaximum"]);
    put_figure(out, 9, &told["minimum"]);
    put_flag(out, 10, &told["exclusiveMinimum"]);
    put_whole(out, 11, &told["maxLength"]);
    put_whole(out, 12, &told["minLength"]);
    put_text(out, 13, &told["pattern"]);
    put_whole(out, 14, &told["maxItems"]);
    put_whole(out, 15, &told["minItems"]);
    put_flag(out, 16, &told["uniqueItems"]);
    put_whole(out, 17, &told["maxProperties"]);
    put_whole(out, 18, &told["minProperties"]);
    put_texts(out, 19, &told["required"]);
    for choice in list(&told["enum"]) {
        put_any(out, 20, choice);
    }
    match &told["additionalProperties"] {
        inside @ Value::Object(_) => {
            put_message(out, 21, |out| put_message(out, 1, |out| schema(out, inside)));
        }
        Value::Bool(allowed) => put_message(out, 21, |out| put_number(out, 2, (*allowed).into())),
        _ => {}
    }
    if let Some(kind) = told["type"].as_str() {
        put_message(out, 22, |out| put_bytes(out, 1, kind.as_bytes()));
    }
    if let items @ Value::Object(_) = &told["items"] {
        put_message(out, 23, |out| put_message(out, 1, |out| schema(out, items)));
    }
    if let properties @ Value::Object(_) = &told["properties"] {
        put_message(out, 25, |out| {
            put_named(out, 1, properties, |out, each| put_message(out, 2, |out| schema(out, each)));
        });
    }
    if let documents @ Value::Object(_) = &told["externalDocs"] {
        put_message(out, 29, |out| {
            put_text(out, 1, &documents["description"]);
            put_text(out, 2, &documents["url"]);
        });
    }
    put_any(out, 30, &told["example"]);
    put_extensions(out, 31, told);
}

/// What begins with `x-`.
fn put_extensions(out: &mut Vec<u8>, number: u32, told: &Value) {
    for (name, value) in entries(told).filter(|(name, _)| name.starts_with("x-")) {
        put_message(out, number, |out| {
            put_bytes(out, 1, name.as_bytes());
            put_any(out, 2, value);
        });
    }
}

/// A map: a message for every entry, with the name in field 1 and what `write` adds.
fn put_named(out: &mut Vec<u8>, number: u32, map: &Value, write: impl Fn(&mut Vec<u8>, &Value)) {
    for (name, value) in entries(map) {
        put_message(out, number, |out| {
            put_bytes(out, 1, name.as_bytes());
            write(out, value);
        });
    }
}

/// Anything at all, as YAML.
fn put_any(out: &mut Vec<u8>, number: u32, value: &Value) {
    if !value.is_null() {
        put_message(out, number, |out| put_bytes(out, 2, format!("{value}\n").as_bytes()));
    }
}

fn put_text(out: &mut Vec<u8>, number: u32, value: &Value) {
    if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
        put_bytes(out, number, text.as_bytes());
    }
}

fn put_texts(out: &mut Vec<u8>, number: u32, value: &Value) {
    for text in list(value).iter().filter_map(Value::as_str) {
        put_bytes(out, number, text.as_bytes());
    }
}

fn put_flag(out: &mut Vec<u8>, number: u32, value: &Value) {
    if value == true {
        put_number(out, number, 1);
    }
}

fn put_whole(out: &mut Vec<u8>, number: u32, value: &Value) {
    if let Some(whole) = value.as_i64().filter(|&whole| whole != 0) {
        put_number(out, number, whole.cast_unsigned());
    }
}

fn put_figure(out: &mut Vec<u8>, number: u32, value: &Value) {
    if let Some(figure) = value.as_f64().filter(|&figure| figure != 0.0) {
        put_fixed64(out, number, figure.to_bits());
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

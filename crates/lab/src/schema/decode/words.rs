//! How Go writes things in messages.

use std::fmt::Write as _;

use crate::schema::{Embedding, Instead, Shape, TypeRef, Width};

/// A text in double quotes, as Go quotes it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        escape(&mut out, char, '"');
    }
    out.push('"');
    out
}

/// A byte in single quotes, as messages about syntax show it.
pub(super) fn quoted_char(byte: u8) -> String {
    let mut out = String::from("'");
    escape(&mut out, char::from(byte), '\'');
    out.push('\'');
    out
}

fn escape(out: &mut String, char: char, quote: char) {
    match char {
        '\\' => out.push_str("\\\\"),
        char if char == quote => {
            out.push('\\');
            out.push(char);
        }
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        char if char < ' ' || char == '\u{7f}' => {
            let _ = write!(out, "\\x{:02x}", u32::from(char));
        }
        char if char.is_control()
            || matches!(char, '\u{a0}' | '\u{ad}' | '\u{2028}' | '\u{2029}' | '\u{feff}') =>
        {
            let _ = write!(out, "\\u{:04x}", u32::from(char));
        }
        char => out.push(char),
    }
}

/// The name of a type in Go, such as `[]v1.Container`.
pub(super) fn go_type(of: TypeRef<'_>) -> String {
    if let Some(name) = of.facts().and_then(|facts| facts.go_name) {
        return name.to_owned();
    }
    match of.shape() {
        Shape::String => "string".to_owned(),
        Shape::Boolean => "bool".to_owned(),
        Shape::Integer(Width::W32) => "int32".to_owned(),
        Shape::Integer(Width::W64) => "int64".to_owned(),
        Shape::Number => "float64".to_owned(),
        Shape::IntOrString => "intstr.IntOrString".to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::Time => "v1.Time".to_owned(),
        Shape::MicroTime => "v1.MicroTime".to_owned(),
        Shape::Duration => "v1.Duration".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Any(Embedding::FieldsV1) => "v1.FieldsV1".to_owned(),
        Shape::Any(_) => "runtime.RawExtension".to_owned(),
        Shape::SchemaOr { instead: Instead::Boolean, .. } => "v1.JSONSchemaPropsOrBool".to_owned(),
        Shape::SchemaOr { instead: Instead::List, .. } => "v1.JSONSchemaPropsOrArray".to_owned(),
        Shape::SchemaOr { instead: Instead::Texts, .. } => "v1.JSONSchemaPropsOrStringArray".to_owned(),
        Shape::Map { values, .. } => format!("map[string]{}", go_type(of.at(*values))),
        Shape::List { items, .. } => format!("[]{}", go_type(of.at(*items))),
        Shape::Object { .. } => {
            let name = of.node().name.as_deref().unwrap_or_default();
            // The package is the last part but one: `io.k8s.api.core.v1.Pod` is `v1.Pod`.
            let from = name.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
            name[from..].to_owned()
        }
    }
}

/// The name of a structure without its package.
pub(super) fn go_struct(of: TypeRef<'_>) -> &str {
    of.node().name.as_deref().and_then(|name| name.rsplit('.').next()).unwrap_or_default()
}

/// A text as messages about times quote it.
pub(super) fn time_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        if char.is_ascii() && char >= ' ' {
            if matches!(char, '"' | '\\') {
                out.push('\\');
            }
            out.push(char);
        } else {
            for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('"');
    out
}

//! How the real server prints values: messages and keys of managed fields contain Go's own text forms.

use std::fmt::Write as _;

use serde_json::Value;

use crate::gotext;
pub(super) use crate::gotext::{float, is_print, json_float, quote};

/// Appends a text as JSON, as it is written in managed fields. With `html`, the characters that matter in HTML are
/// escaped as well.
pub(super) fn push_json_text(out: &mut String, text: &str, html: bool) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if html => push_escape(out, character),
            control if control < ' ' => push_escape(out, control),
            other => out.push(other),
        }
    }
    out.push('"');
}

fn push_escape(out: &mut String, character: char) {
    // Writing to a text cannot fail.
    let _ = write!(out, "\\u{:04x}", u32::from(character));
}

/// A value as the `%v` of Go.
pub(super) fn verb(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(verb).collect::<Vec<_>>().join(" "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, field)| format!("{name}:{}", verb(field))).collect();
            format!("map[{}]", fields.join(" "))
        }
        Value::Bool(_) | Value::Number(_) => gotext::shown(value),
    }
}

/// A value as the `%#v` of Go.
pub(super) fn sharp_verb(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(sharp_verb).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, field)| format!("{}:{}", quote(name), sharp_verb(field))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => gotext::shown(value),
    }
}

/// The name of the type of a value as `%s` prints it, which cannot print the type of nothing.
pub(super) fn type_text(value: &Value) -> &'static str {
    if value.is_null() { "%!s(<nil>)" } else { type_name(value) }
}

/// The Go type of a value that was decoded from JSON.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_like_go_prints_them() {
        let value = json!({"b": [1, null, "q", 1.5], "a": true});
        assert_eq!(verb(&value), "map[a:true b:[1 <nil> q 1.5]]");
        assert_eq!(
            sharp_verb(&value),
            r#"map[string]interface {}{"a":true, "b":[]interface {}{1, interface {}(nil), "q", 1.5}}"#
        );
        let mut out = String::new();
        push_json_text(&mut out, "a<b\u{8}\n", true);
        push_json_text(&mut out, "a<b\"", false);
        assert_eq!(out, r#""a\u003cb\u0008\n""a<b\"""#);
    }
}

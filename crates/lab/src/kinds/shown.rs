//! Values as the real server shows them in sentences.
//!
//! Where a whole object is shown, it is in the form the server keeps in memory, which has names of its own and
//! leaves nothing out. `internal.txt` lists those forms: a line per type, `type|Shown:json:type|...`.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::LazyLock;

use serde_json::Value;

use super::difference::unified;
use super::quantity::{Amount, Quantity};
use super::view::Look;

#[derive(Debug)]
struct Field {
    shown: &'static str,
    json: &'static str,
    of: &'static str,
    omit_empty: bool,
}

static TYPES: LazyLock<HashMap<&'static str, Vec<Field>>> = LazyLock::new(|| {
    let field = |text: &'static str| {
        let mut parts = text.splitn(3, ':');
        let (shown, json) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let of = parts.next().unwrap_or_default();
        let omit_empty = of.ends_with('?');
        Field { shown, json, of: of.trim_end_matches('?'), omit_empty }
    };
    include_str!("internal.txt")
        .lines()
        .filter_map(|line| line.split_once('|'))
        .map(|(name, fields)| (name, fields.split('|').map(field).collect()))
        .collect()
});

/// An object of the core group, or of the group before the dot, in one line.
pub(super) fn internal(kind: &str, value: &Value) -> String {
    let mut out = Out { text: String::new(), indent: None };
    out.value(&full(kind), value);
    out.text
}

/// A list of such objects, in one line.
pub(super) fn list(kind: &str, values: &[Value]) -> String {
    let shown: Vec<String> = values.iter().map(|value| internal(kind, value)).collect();
    if shown.is_empty() { "null".to_owned() } else { format!("[{}]", shown.join(",")) }
}

/// What differs between two such objects, as a unified difference of their texts.
pub(super) fn difference(kind: &str, old: &Value, new: &Value) -> String {
    let pretty = |value: &Value| {
        let mut out = Out { text: String::new(), indent: Some(0) };
        out.value(&full(kind), value);
        out.text
    };
    unified(&pretty(old), &pretty(new))
}

/// A name of a type stands for one of the core group; anything else is a type already, such as `[]meta.Condition`.
fn full(kind: &str) -> String {
    let scalar = matches!(kind, "string" | "bool" | "int" | "intstr" | "quantity" | "time" | "any");
    if scalar || kind.contains(['.', '*', '[', ' ']) { kind.to_owned() } else { format!("core.{kind}") }
}

struct Out {
    text: String,
    /// How deep, when every value has a line of its own.
    indent: Option<usize>,
}

impl Out {
    fn value(&mut self, of: &str, value: &Value) {
        if let Some(of) = of.strip_prefix('*') {
            if value.is_null() {
                self.text.push_str("null");
            } else {
                self.value(of, value);
            }
        } else if let Some(of) = of.strip_prefix("[]") {
            match value.as_array().filter(|items| !items.is_empty()) {
                None => self.text.push_str("null"),
                Some(items) => self.many('[', ']', items.iter(), |out, item| out.value(of, item)),
            }
        } else if let Some(of) = of.strip_prefix("map ") {
            match value.as_object().filter(|entries| !entries.is_empty()) {
                None => self.text.push_str("null"),
                Some(entries) => self.many('{', '}', entries.iter(), |out, (key, value)| {
                    out.key(key);
                    out.value(of, value);
                }),
            }
        } else if let Some(fields) = TYPES.get(of) {
            let mut shown = Vec::new();
            gather(fields, value, &mut shown);
            if shown.is_empty() {
                self.text.push_str("{}");
            } else {
                self.many('{', '}', shown.into_iter(), |out, (name, of, value)| {
                    out.key(name);
                    out.value(of, value);
                });
            }
        } else {
            self.scalar(of, value);
        }
    }

    fn scalar(&mut self, of: &str, value: &Value) {
        let text = match of {
            "string" => json(value.str()),
            "bool" => value.as_bool().unwrap_or_default().to_string(),
            "int" | "intstr" if value.is_null() => "0".to_owned(),
            "quantity" => json(&Quantity::or_zero(value).to_string()),
            "string~" | "time" | "any" if value.is_null() => "null".to_owned(),
            _ => safe(&value.to_string()),
        };
        self.text.push_str(&text);
    }

    fn key(&mut self, key: &str) {
        let _ = write!(self.text, "{}:{}", json(key), if self.indent.is_some() { " " } else { "" });
    }

    fn many<T>(
        &mut self,
        open: char,
        close: char,
        items: impl Iterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) {
        self.text.push(open);
        self.indent = self.indent.map(|depth| depth + 1);
        for (place, item) in items.enumerate() {
            if place > 0 {
                self.text.push(',');
            }
            self.line();
            each(self, item);
        }
        self.indent = self.indent.map(|depth| depth.saturating_sub(1));
        self.line();
        self.text.push(close);
    }

    fn line(&mut self) {
        if let Some(depth) = self.indent {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n(' ', depth));
        }
    }
}

/// The fields that are shown; those of embedded objects are among them.
fn gather<'a>(
    fields: &'static [Field],
    value: &'a Value,
    shown: &mut Vec<(&'static str, &'static str, &'a Value)>,
) {
    for field in fields {
        let inner = value.at(field.json);
        if field.shown.is_empty() {
            if let Some(fields) = TYPES.get(field.of) {
                gather(fields, inner, shown);
            }
            continue;
        }
        let empty = match inner {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty() && field.of.starts_with("map "),
            Value::Bool(truth) => !truth && field.of == "bool",
            Value::Number(number) => number.as_i64() == Some(0) && field.of == "int",
        };
        if !(field.omit_empty && empty) {
            shown.push((field.shown, field.of, inner));
        }
    }
}

fn json(text: &str) -> String {
    safe(&Value::from(text).to_string())
}

/// Go writes JSON that is safe inside of HTML.
fn safe(text: &str) -> String {
    text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_shown_in_the_form_of_the_server() {
        assert_eq!(
            internal(
                "NodeSelectorTerm",
                &json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]})
            ),
            "{\"MatchExpressions\":[{\"Key\":\"a\",\"Operator\":\"In\",\"Values\":[\"b\"]}],\"MatchFields\":null}"
        );
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}});
        assert!(
            internal("PodTemplateSpec", &template)
                .starts_with("{\"labels\":{\"a\":\"b\"},\"Spec\":{\"Volumes\":null,")
        );
    }
}

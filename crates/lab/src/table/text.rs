//! Pieces of text that several kinds show.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

/// Labels as `a=b,c=d`; `<none>` without any.
pub(super) fn labels(labels: &Value) -> String {
    let pairs: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// A label selector as it is written in queries; none when it makes no sense.
pub(super) fn selector(selector: &Value) -> Option<String> {
    let mut parts: Vec<(&str, String)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push((key, format!("{key}={}", value.as_str().unwrap_or_default())));
    }
    for requirement in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = requirement["key"].as_str().unwrap_or_default();
        let values: BTreeSet<&str> = strings(&requirement["values"]).into_iter().collect();
        let values = values.into_iter().collect::<Vec<_>>().join(",");
        let written = match requirement["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("Exists") => key.to_owned(),
            Some("DoesNotExist") => format!("!{key}"),
            _ => return None,
        };
        parts.push((key, written));
    }
    parts.sort_by_key(|(key, _)| *key);
    Some(parts.into_iter().map(|(_, written)| written).collect::<Vec<_>>().join(","))
}

/// A label selector for a cell: `<none>` when it selects everything or nothing.
pub(super) fn selector_cell(given: &Value) -> Value {
    match selector(given) {
        None => "<error>".into(),
        Some(text) if text.is_empty() => "<none>".into(),
        Some(text) => text.into(),
    }
}

/// A label selector the way Go prints the structure.
pub(super) fn selector_structure(selector: &Value) -> String {
    let mut labels = String::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let _ = write!(labels, "{key}: {},", value.as_str().unwrap_or_default());
    }
    let mut expressions = String::new();
    for requirement in selector["matchExpressions"].as_array().into_iter().flatten() {
        let _ = write!(
            expressions,
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            requirement["key"].as_str().unwrap_or_default(),
            requirement["operator"].as_str().unwrap_or_default(),
            strings(&requirement["values"]).join(" ")
        );
    }
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

/// The texts of a list.
pub(super) fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The texts of one key of every item of a list, with commas between.
pub(super) fn joined(list: &[Value], key: &str) -> String {
    list.iter().map(|item| item[key].as_str().unwrap_or_default()).collect::<Vec<_>>().join(",")
}

/// The first three of a list and how many more there are; `<unset>` for nothing.
pub(super) fn first_three(list: &[String]) -> String {
    let shown = list.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(",");
    if list.len() > 3 {
        format!("{shown} + {} more...", list.len() - 3)
    } else if shown.is_empty() {
        "<unset>".to_owned()
    } else {
        shown
    }
}

/// A quantity as text; what is missing is zero.
pub(super) fn quantity(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => "0".to_owned(),
    }
}

/// A text that is not empty, or other words.
pub(super) fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

//! Label selectors.

use serde_json::Value;

use crate::object::Object as _;

/// Whether a `LabelSelector` picks these labels. An empty one picks everything, none picks nothing.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    let Some(fields) = selector.as_object() else { return false };
    let equal = fields.get("matchLabels").and_then(Value::as_object);
    let equal = equal.is_none_or(|wanted| wanted.iter().all(|(name, value)| labels[name.as_str()] == *value));
    equal && selector.list("/matchExpressions").iter().all(|one| holds(one, labels))
}

fn holds(expression: &Value, labels: &Value) -> bool {
    let found = &labels[expression.text("/key")];
    match expression.text("/operator") {
        "In" => expression.list("/values").contains(found),
        "NotIn" => !expression.list("/values").contains(found),
        "Exists" => found.is_string(),
        "DoesNotExist" => !found.is_string(),
        _ => false,
    }
}

/// What is wrong with a selector, if anything.
pub fn problem(selector: &Value) -> Option<String> {
    selector.list("/matchExpressions").iter().find_map(|one| match one.text("/operator") {
        "In" | "NotIn" if one.list("/values").is_empty() => Some(
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".to_owned(),
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => None,
        other => Some(format!("\"{other}\" is not a valid label selector operator")),
    })
}

/// The selector as it is written in URLs and in `status.labelSelector`.
pub fn text(selector: &Value) -> String {
    let mut parts: Vec<(String, String)> = Vec::new();
    if let Some(equal) = selector["matchLabels"].as_object() {
        parts.extend(
            equal.iter().map(|(name, value)| {
                (name.clone(), format!("{name}={}", value.as_str().unwrap_or_default()))
            }),
        );
    }
    for one in selector.list("/matchExpressions") {
        let key = one.text("/key");
        let mut values: Vec<&str> = one.list("/values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let part = match one.text("/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        parts.push((key.to_owned(), part));
    }
    parts.sort();
    parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_pick_by_labels_and_expressions() {
        let labels = json!({"app": "web", "tier": "front"});
        for (selector, picked) in [
            (json!({}), true),
            (Value::Null, false),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front"]}]}), true),
            (json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]}), false),
            (json!({"matchExpressions": [{"key": "gone", "operator": "DoesNotExist"}]}), true),
        ] {
            assert_eq!(matches(&selector, &labels), picked, "{selector}");
        }
    }

    #[test]
    fn selectors_are_written_in_order() {
        let selector = json!({
            "matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [{"key": "aa", "operator": "In", "values": ["z", "y"]}],
        });
        assert_eq!(text(&selector), "a=1,aa in (y,z),b=2");
        let odd = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
        assert_eq!(problem(&odd).as_deref(), Some("\"Like\" is not a valid label selector operator"));
        assert_eq!(problem(&selector), None);
    }
}

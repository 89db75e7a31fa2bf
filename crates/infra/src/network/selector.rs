//! Label selectors.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object::Object as _;

/// Labels as they are compared.
pub type Labels = BTreeMap<String, String>;

/// The labels at a JSON pointer.
pub fn labels_at(object: &Value, pointer: &str) -> Labels {
    let fields = object.at(pointer).as_object().into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// Whether a `LabelSelector` picks something with these labels. An empty one picks everything; one with an
/// expression nobody knows picks nothing.
pub fn picks(selector: &Value, labels: &Labels) -> bool {
    let equal = labels_at(selector, "/matchLabels");
    let expressions = selector.list("/matchExpressions");
    has_all(&equal, labels) && expressions.iter().all(|expression| holds(expression, labels))
}

/// Whether all wanted labels are there.
pub fn has_all(wanted: &Labels, labels: &Labels) -> bool {
    wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
}

/// Whether the labels of an object have everything that is wanted, both as they are in JSON: for long lists.
pub fn has_all_of(wanted: &Value, labels: &Value) -> bool {
    wanted.as_object().is_none_or(|wanted| wanted.iter().all(|(name, value)| labels.get(name) == Some(value)))
}

fn holds(expression: &Value, labels: &Labels) -> bool {
    let label = labels.get(expression.text("/key"));
    let listed =
        || expression.list("/values").iter().any(|value| value.as_str() == label.map(String::as_str));
    match expression.text("/operator") {
        "In" => label.is_some() && listed(),
        "NotIn" => label.is_none() || !listed(),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_pick_by_equality_and_by_expressions() {
        let labels = labels_at(&json!({"l": {"app": "a", "tier": "x"}}), "/l");
        let cases = [
            (json!({}), true),
            (json!({"matchLabels": {"app": "a"}}), true),
            (json!({"matchLabels": {"app": "b"}}), false),
            (json!({"matchLabels": {"app": "a", "other": "a"}}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["x", "y"]}]}), true),
            (json!({"matchExpressions": [{"key": "none", "operator": "In", "values": ["x"]}]}), false),
            (json!({"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["x"]}]}), true),
            (json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}), true),
            (json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "Near"}]}), false),
        ];
        for (selector, expected) in cases {
            assert_eq!(picks(&selector, &labels), expected, "{selector}");
        }
    }
}

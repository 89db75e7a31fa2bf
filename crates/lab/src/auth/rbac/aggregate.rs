//! Cluster roles that gather the rules of others.

use std::borrow::Borrow;

use serde_json::Value;

use super::rule::Rule;
use crate::selector::LabelSelector;

/// The rules that a cluster role with an aggregation rule gathers from all cluster roles, in the form in which
/// they are stored. Nothing for a role without one, or whose selectors make no sense.
pub fn aggregate<V: Borrow<Value>>(
    cluster_role: &Value,
    all: impl IntoIterator<Item = V>,
) -> Option<Vec<Value>> {
    if !cluster_role["aggregationRule"].is_object() {
        return None;
    }
    let mut others: Vec<V> = all.into_iter().collect();
    let name = |role: &Value| role["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    others.sort_by_key(|role| name(role.borrow()));
    let own = name(cluster_role);
    let mut gathered: Vec<Rule> = Vec::new();
    for selector in cluster_role["aggregationRule"]["clusterRoleSelectors"].as_array().into_iter().flatten() {
        let selector = LabelSelector::from_object(selector).ok()?;
        for role in others.iter().map(Borrow::borrow) {
            if name(role) == own || !selector.matches_object(&role["metadata"]["labels"]) {
                continue;
            }
            for rule in Rule::read_all(role) {
                if !gathered.contains(&rule) {
                    gathered.push(rule);
                }
            }
        }
    }
    Some(gathered.iter().map(Rule::to_value).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_of_selected_roles_are_gathered_once_by_name() {
        let role = |name: &str, labels: Value, resources: &[&str]| {
            json!({
                "metadata": {"name": name, "labels": labels},
                "rules": [{"apiGroups": [""], "resources": resources, "verbs": ["get"]}],
            })
        };
        let all = [
            role("c", json!({"to": "view"}), &["secrets"]),
            role("b", json!({"to": "view"}), &["pods"]),
            role("d", json!({"to": "view", "not": "this"}), &["nodes"]),
            role("e", json!({}), &["events"]),
            role("f", json!({"to": "view"}), &["pods"]),
            role("view", json!({"to": "view"}), &["old"]),
        ];
        let view = json!({
            "metadata": {"name": "view"},
            "aggregationRule": {"clusterRoleSelectors": [{
                "matchLabels": {"to": "view"},
                "matchExpressions": [{"key": "not", "operator": "DoesNotExist"}],
            }]},
        });
        let gathered = aggregate(&view, &all).unwrap();
        let resources: Vec<&Value> = gathered.iter().map(|rule| &rule["resources"][0]).collect();
        assert_eq!(resources, ["pods", "secrets"]);
        assert_eq!(aggregate(&all[0], &all), None);
        let nothing = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}});
        assert_eq!(aggregate(&nothing, &all), Some(Vec::new()));
    }
}

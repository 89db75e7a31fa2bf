//! Label selectors as objects carry them.

use serde_json::Value;

use super::json::{entries, items, text};

/// A compiled `LabelSelector`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selector {
    /// Absent for a selector that selects nothing.
    requirements: Option<Vec<Requirement>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

impl Selector {
    /// Compiles the selector in a field. A field that is not there selects nothing, an empty one everything.
    pub(crate) fn compile(field: &Value) -> Result<Self, String> {
        if field.is_null() {
            return Ok(Self { requirements: None });
        }
        let mut requirements: Vec<Requirement> = entries(&field["matchLabels"])
            .map(|(key, value)| Requirement {
                key: key.clone(),
                test: Test::In(vec![text(value).to_owned()]),
            })
            .collect();
        for expression in items(&field["matchExpressions"]) {
            let values = || items(&expression["values"]).map(|value| text(value).to_owned()).collect();
            let test = match text(&expression["operator"]) {
                "In" => Test::In(values()),
                "NotIn" => Test::NotIn(values()),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::Absent,
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            requirements.push(Requirement { key: text(&expression["key"]).to_owned(), test });
        }
        Ok(Self { requirements: Some(requirements) })
    }

    /// True if it selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// True if it selects something with these labels (an object of strings, or null for none).
    pub(crate) fn matches(&self, labels: &Value) -> bool {
        let Some(requirements) = &self.requirements else { return false };
        requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key).and_then(Value::as_str);
            match &requirement.test {
                Test::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
                Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| one != value)),
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_absent_selector_selects_nothing_and_an_empty_one_everything() {
        assert!(!Selector::compile(&Value::Null).unwrap().matches(&json!({"a": "b"})));
        assert!(Selector::compile(&json!({})).unwrap().matches(&Value::Null));
        let selector = Selector::compile(&json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["test"]},
                                 {"key": "old", "operator": "DoesNotExist"}],
        }))
        .unwrap();
        assert!(selector.matches(&json!({"app": "web"})));
        assert!(!selector.matches(&json!({"app": "web", "tier": "test"})));
        assert!(!selector.matches(&json!({"app": "web", "old": ""})));
        assert!(Selector::compile(&json!({"matchExpressions": [{"key": "a", "operator": "Is"}]})).is_err());
    }
}

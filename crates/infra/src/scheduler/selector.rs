//! Selectors of labels.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object::Object as _;

/// Labels of a node, a pod or a namespace.
pub(crate) type Labels = BTreeMap<String, String>;

/// The labels of an object.
pub(crate) fn labels_of(object: &Value) -> Labels {
    let labels = object.at("/metadata/labels").as_object().into_iter().flatten();
    labels.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

/// One thing that is required of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// It has one of the values.
    In(String, Vec<String>),
    /// It is missing or has none of the values.
    NotIn(String, Vec<String>),
    /// It is there.
    Exists(String),
    /// It is missing.
    DoesNotExist(String),
    /// It is a number above.
    Above(String, i64),
    /// It is a number below.
    Below(String, i64),
    /// Nothing fulfils it, because it is malformed.
    Never,
}

impl Requirement {
    fn read(expression: &Value) -> Self {
        let key = expression.text("/key").to_owned();
        let values: Vec<String> =
            expression.list("/values").iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect();
        let number = values.first().and_then(|value| value.parse().ok());
        match (expression.text("/operator"), number) {
            ("In", _) => Self::In(key, values),
            ("NotIn", _) => Self::NotIn(key, values),
            ("Exists", _) => Self::Exists(key),
            ("DoesNotExist", _) => Self::DoesNotExist(key),
            ("Gt", Some(number)) => Self::Above(key, number),
            ("Lt", Some(number)) => Self::Below(key, number),
            _ => Self::Never,
        }
    }

    fn holds(&self, labels: &Labels) -> bool {
        let number = |key: &String| labels.get(key).and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::DoesNotExist(key) => !labels.contains_key(key),
            Self::Above(key, limit) => number(key).is_some_and(|number| number > *limit),
            Self::Below(key, limit) => number(key).is_some_and(|number| number < *limit),
            Self::Never => false,
        }
    }
}

/// A label selector: everything has to hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Selector(Vec<Requirement>);

impl Selector {
    /// Reads a label selector; nothing for none, which selects nothing.
    pub(crate) fn read(selector: &Value) -> Option<Self> {
        selector.as_object()?;
        let labels = selector.at("/matchLabels").as_object().into_iter().flatten();
        let equal = labels.map(|(name, value)| {
            Requirement::In(name.clone(), vec![value.as_str().unwrap_or_default().to_owned()])
        });
        let expressions = selector.list("/matchExpressions").iter().map(Requirement::read);
        Some(Self(equal.chain(expressions).collect()))
    }

    /// Requires a label to have a value, too.
    pub(crate) fn and(&mut self, name: &str, value: &str) {
        self.0.push(Requirement::In(name.to_owned(), vec![value.to_owned()]));
    }

    /// Whether labels are selected.
    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.holds(labels))
    }
}

/// One term of a node selector.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NodeTerm {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

impl NodeTerm {
    /// Reads a term of a node selector.
    pub(crate) fn read(term: &Value) -> Self {
        let read = |list: &[Value]| list.iter().map(Requirement::read).collect();
        Self { labels: read(term.list("/matchExpressions")), fields: read(term.list("/matchFields")) }
    }

    /// Whether a node is selected. A term without anything selects nothing.
    pub(crate) fn matches(&self, name: &str, labels: &Labels) -> bool {
        if self.labels.is_empty() && self.fields.is_empty() {
            return false;
        }
        self.labels.iter().all(|requirement| requirement.holds(labels))
            && (self.fields.is_empty() || {
                let fields = Labels::from([("metadata.name".to_owned(), name.to_owned())]);
                self.fields.iter().all(|requirement| requirement.holds(&fields))
            })
    }

    /// The names of the only nodes the term can select, if it names them.
    pub(crate) fn names(&self) -> Option<&[String]> {
        self.fields.iter().find_map(|field| match field {
            Requirement::In(key, values) if key == "metadata.name" => Some(values.as_slice()),
            _ => None,
        })
    }
}

/// Any of some terms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct NodeSelector(pub(crate) Vec<NodeTerm>);

impl NodeSelector {
    /// Reads a node selector; nothing for none, which selects every node.
    pub(crate) fn read(selector: &Value) -> Option<Self> {
        selector.as_object()?;
        Some(Self(selector.list("/nodeSelectorTerms").iter().map(NodeTerm::read).collect()))
    }

    /// Whether a node is selected.
    pub(crate) fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.0.iter().any(|term| term.matches(name, labels))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(list: &[(&str, &str)]) -> Labels {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn selectors_select() {
        let selector = json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["x"]}]});
        let selector = Selector::read(&selector).unwrap();
        assert!(selector.matches(&labels(&[("a", "1")])));
        assert!(!selector.matches(&labels(&[("a", "1"), ("b", "x")])));
        assert!(Selector::read(&json!({})).unwrap().matches(&labels(&[])));
        assert_eq!(Selector::read(&Value::Null), None);
    }

    #[test]
    fn terms_of_nodes_are_alternatives() {
        let selector = json!({"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "cpu", "operator": "Gt", "values": ["4"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
            {},
        ]});
        let selector = NodeSelector::read(&selector).unwrap();
        assert!(selector.matches("m", &labels(&[("cpu", "5")])));
        assert!(!selector.matches("m", &labels(&[("cpu", "4")])));
        assert!(selector.matches("n", &labels(&[])));
    }
}

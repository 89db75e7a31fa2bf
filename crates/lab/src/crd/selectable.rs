//! The fields of custom resources that field selectors can ask for.

use serde_json::Value;

use crate::jsonpath::{self, JsonPath};

/// A field that selectors can ask for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SelectableField {
    /// The name in selectors: `spec.color`.
    pub name: String,
    path: JsonPath,
}

impl SelectableField {
    pub(crate) fn read(field: &Value) -> Option<Self> {
        let path = field.get("jsonPath")?.as_str()?;
        let name = path.strip_prefix('.').unwrap_or(path).to_owned();
        Some(Self { name, path: JsonPath::parse(path).ok()? })
    }

    /// The value an object has, as selectors compare it; empty when it has none.
    pub(crate) fn value(&self, object: &Value) -> String {
        match self.path.first(object).as_deref() {
            None | Some(Value::Null) => String::new(),
            Some(value) => jsonpath::text(value),
        }
    }
}

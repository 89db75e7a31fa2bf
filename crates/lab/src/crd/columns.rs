//! The columns custom resources have in tables.

use serde_json::Value;

use crate::{
    gotime::{Layout, Moment, parse_time},
    jsonpath::{self, JsonPath},
};

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PrinterColumn {
    /// The header.
    pub name: String,
    /// `integer`, `number`, `string`, `boolean` or `date`.
    pub kind: String,
    /// The format of the type.
    pub format: String,
    /// What it shows.
    pub description: String,
    /// Columns above zero are shown on request only.
    pub priority: i32,
    path: JsonPath,
}

/// The columns of a version, behind the name that every kind has.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Columns {
    /// The columns.
    pub columns: Vec<PrinterColumn>,
}

const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is \
                   not guaranteed to be set in happens-before order across separate operations. Clients may not set \
                   this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. \
                   Read-only. Null for lists. More info: \
                   https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

impl Columns {
    /// Reads `additionalPrinterColumns`; without any there is the age.
    pub(crate) fn read(written: &[Value]) -> Self {
        if written.is_empty() {
            let path = JsonPath::parse(".metadata.creationTimestamp").ok();
            let age = path.map(|path| PrinterColumn {
                name: "Age".to_owned(),
                kind: "date".to_owned(),
                format: String::new(),
                description: AGE.to_owned(),
                priority: 0,
                path,
            });
            return Self { columns: age.into_iter().collect() };
        }
        let mut columns = Vec::new();
        for column in written {
            let word = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
            let json_path = word("jsonPath");
            // A path that cannot be read ends the list, as it does with the server.
            let Ok(path) = JsonPath::parse(&json_path) else { break };
            let mut description = word("description");
            if description.is_empty() {
                description = format!("Custom resource definition column (in JSONPath format): {json_path}");
            }
            columns.push(PrinterColumn {
                name: word("name"),
                kind: word("type"),
                format: word("format"),
                description,
                priority: column
                    .get("priority")
                    .and_then(Value::as_i64)
                    .and_then(|priority| i32::try_from(priority).ok())
                    .unwrap_or(0),
                path,
            });
        }
        Self { columns }
    }

    /// The cells of an object, without its name; `age` writes how long ago a moment was.
    pub(crate) fn cells(&self, object: &Value, age: &dyn Fn(Moment) -> String) -> Vec<Value> {
        self.columns.iter().map(|column| column.cell(object, age)).collect()
    }
}

impl PrinterColumn {
    /// The cell of an object; null where there is nothing to show.
    pub(crate) fn cell(&self, object: &Value, age: &dyn Fn(Moment) -> String) -> Value {
        let Some(value) = self.path.first(object) else { return Value::Null };
        match (self.kind.as_str(), value.as_ref()) {
            ("string", value) => jsonpath::text(value).into(),
            ("integer", Value::Number(number)) => whole(number).into(),
            ("number", Value::Number(number)) => number.as_f64().into(),
            ("boolean", Value::Bool(flag)) => (*flag).into(),
            ("date", Value::String(text)) => match parse_time(text, Layout::Rfc3339) {
                Ok(moment) => age(moment).into(),
                Err(_) if text.is_empty() || text == "null" => "<unknown>".into(),
                Err(_) => "<invalid>".into(),
            },
            _ => Value::Null,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the server cuts off fractions too")]
fn whole(number: &serde_json::Number) -> i64 {
    number.as_i64().unwrap_or_else(|| number.as_f64().unwrap_or_default() as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_have_the_type_of_their_column() {
        let columns = Columns::read(&[
            json!({"name": "Text", "type": "string", "jsonPath": ".spec.text"}),
            json!({"name": "Map", "type": "string", "jsonPath": ".spec.map"}),
            json!({"name": "Number", "type": "string", "jsonPath": ".spec.float"}),
            json!({"name": "Whole", "type": "integer", "jsonPath": ".spec.float"}),
            json!({"name": "Wrong", "type": "integer", "jsonPath": ".spec.text"}),
            json!({"name": "Missing", "type": "integer", "jsonPath": ".spec.missing"}),
            json!({"name": "Float", "type": "number", "jsonPath": ".spec.whole"}),
            json!({"name": "Flag", "type": "boolean", "jsonPath": ".spec.flag"}),
            json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1}),
            json!({"name": "Never", "type": "date", "jsonPath": ".spec.text"}),
            json!({"name": "Ready", "type": "string", "jsonPath": ".c[?(@.type==\"Ready\")].status"}),
        ]);
        let object = json!({
            "metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"},
            "spec": {"text": "a", "map": {"b": [1]}, "float": 2.5, "whole": 3, "flag": true},
            "c": [{"type": "Ready", "status": "True"}],
        });
        let cells = columns.cells(&object, &|moment| moment.text());
        assert_eq!(
            Value::from(cells),
            json!([
                "a",
                "{\"b\":[1]}",
                "2.5",
                2,
                null,
                null,
                3.0,
                true,
                "2020-01-01T00:00:00Z",
                "<invalid>",
                "True"
            ])
        );
        assert_eq!(
            columns.columns[0].description,
            "Custom resource definition column (in JSONPath format): .spec.text"
        );
        assert_eq!(Columns::read(&[]).columns[0].name, "Age");
    }
}

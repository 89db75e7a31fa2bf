//! Bringing an object into the shape of its schema: dropping what is unknown, filling in defaults.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::schema::Schema;

/// The fields every resource has, whether its schema names them or not.
pub(crate) fn is_meta(field: &str) -> bool {
    matches!(field, "apiVersion" | "kind" | "metadata")
}

/// Notes the places of unknown fields, when somebody wants to know them.
#[derive(Debug, Default)]
pub(crate) struct Unknown {
    wanted: bool,
    place: String,
    found: Vec<String>,
}

impl Unknown {
    pub(crate) fn new(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }

    pub(crate) fn sorted(mut self) -> Vec<String> {
        self.found.sort();
        self.found
    }

    fn record(&mut self, key: &str) {
        if self.wanted {
            let length = self.push_key(key);
            self.found.push(self.place.clone());
            self.place.truncate(length);
        }
    }

    /// Steps into a field; the length to go back to is returned.
    fn push_key(&mut self, key: &str) -> usize {
        let length = self.place.len();
        if self.wanted {
            if !self.place.is_empty() {
                self.place.push('.');
            }
            self.place.push_str(key);
        }
        length
    }

    fn push_index(&mut self, place: usize) -> usize {
        let length = self.place.len();
        if self.wanted {
            let _ = write!(self.place, "[{place}]");
        }
        length
    }

    fn back(&mut self, length: usize) {
        self.place.truncate(length);
    }
}

/// Drops what the schema does not know; the fields every resource has stay at the root of a resource.
pub(crate) fn prune(value: &mut Value, schema: Option<&Schema>, root: bool, unknown: &mut Unknown) {
    let keeps_meta = root || schema.is_some_and(|schema| schema.embedded);
    if let Some(schema) = schema
        && schema.preserve_unknown
    {
        prune_known(value, schema, keeps_meta, unknown);
        return;
    }
    match value {
        Value::Object(fields) => {
            let Some(schema) = schema else {
                fields.retain(|key, _| {
                    keeps_meta && is_meta(key) || {
                        unknown.record(key);
                        false
                    }
                });
                return;
            };
            fields.retain(|key, value| {
                if keeps_meta && is_meta(key) {
                    return true;
                }
                let below = schema.property(key);
                if below.is_some() || schema.additional.is_some() {
                    // Nothing inside scalars can be unknown.
                    if matches!(value, Value::Object(_) | Value::Array(_)) {
                        let length = unknown.push_key(key);
                        prune(value, below.or_else(|| schema.additional_schema()), false, unknown);
                        unknown.back(length);
                    }
                    return true;
                }
                if !is_meta(key) || !unknown.place.is_empty() {
                    unknown.record(key);
                }
                false
            });
        }
        Value::Array(items) => {
            let below = schema.and_then(|schema| schema.items.as_deref());
            for (place, item) in items.iter_mut().enumerate() {
                let length = unknown.push_index(place);
                prune(item, below, false, unknown);
                unknown.back(length);
            }
        }
        _ => {}
    }
}

/// Goes on pruning below a place that keeps unknown fields, where the schema says more.
fn prune_known(value: &mut Value, schema: &Schema, keeps_meta: bool, unknown: &mut Unknown) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                if keeps_meta && is_meta(key) {
                    continue;
                }
                let below = schema.property(key);
                if below.is_some() || schema.additional.is_some() {
                    let length = unknown.push_key(key);
                    prune(value, below.or_else(|| schema.additional_schema()), false, unknown);
                    unknown.back(length);
                }
            }
        }
        Value::Array(items) => {
            if let Some(below) = schema.items.as_deref() {
                for (place, item) in items.iter_mut().enumerate() {
                    let length = unknown.push_index(place);
                    prune_known(item, below, below.embedded, unknown);
                    unknown.back(length);
                }
            }
        }
        _ => {}
    }
}

/// Drops fields that are null although they may not be, unless a default will take their place.
pub(crate) fn drop_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, value| {
                let below = schema.and_then(|schema| schema.field(key));
                if value.is_null() {
                    return below.is_none_or(|schema| schema.nullable || schema.default.is_some());
                }
                if below.is_some() {
                    drop_nulls(value, below);
                }
                true
            });
        }
        Value::Array(items) => {
            if let Some(below) = schema.and_then(|schema| schema.items.as_deref()) {
                for item in items {
                    drop_nulls(item, Some(below));
                }
            }
        }
        _ => {}
    }
}

/// Fills in defaults.
pub(crate) fn fill_defaults(value: &mut Value, schema: &Schema) {
    if !schema.below.defaults {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                if let Some(default) = &property.default
                    && fields.get(name).is_none_or(|value| value.is_null() && !property.nullable)
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            fill_defaults_below(fields, schema);
        }
        Value::Array(items) => {
            if let Some(below) = schema.items.as_deref() {
                for item in items {
                    fill_null(item, below);
                    fill_defaults(item, below);
                }
            }
        }
        _ => {}
    }
}

fn fill_defaults_below(fields: &mut Map<String, Value>, schema: &Schema) {
    for (key, value) in fields.iter_mut() {
        if let Some(property) = schema.property(key) {
            fill_defaults(value, property);
        } else if let Some(below) = schema.additional_schema() {
            fill_null(value, below);
            fill_defaults(value, below);
        }
    }
}

/// A null that may not be null becomes the default, if there is one.
fn fill_null(value: &mut Value, schema: &Schema) {
    if value.is_null() && !schema.nullable {
        *value = schema.default.clone().unwrap_or(Value::Null);
    }
}

/// Numbers as they come back from storage: a float that is whole becomes a whole number, and one that fits no
/// signed number of 64 bits becomes a float.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "checked to be exact")]
#[cfg(test)]
pub(crate) fn canonical_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|_| number.is_f64()) {
                if float.fract() == 0.0 && float.abs() < 9.2e18 {
                    *value = (float as i64).into();
                }
            } else if number.as_i64().is_none()
                && let Some(big) = number.as_u64()
            {
                *value = (big as f64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(canonical_numbers),
        Value::Object(fields) => fields.values_mut().for_each(canonical_numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::read(&json!({
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "default": {},
                    "properties": {
                        "size": {"type": "integer", "default": 1},
                        "maybe": {"type": "string", "nullable": true, "default": "x"},
                        "free": {
                            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                            "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}},
                        },
                        "map": {"type": "object", "additionalProperties": {"type": "integer", "default": 7}},
                        "list": {"type": "array", "items": {"type": "object", "properties": {
                            "name": {"type": "string"}, "port": {"type": "integer", "default": 80}}}},
                        "any": {"type": "object", "additionalProperties": true},
                    },
                },
            },
        }))
        .unwrap()
    }

    #[test]
    fn unknown_fields_go_and_are_named() {
        let mut object = json!({
            "kind": "X", "zoo": 1, "metadata": {"x": 1},
            "spec": {
                "zz": {"a": 1}, "free": {"b": {"c": 1}, "known": {"a": "x", "b": 1}},
                "map": {"k": {"x": 1}}, "list": [{"name": "a", "b": 1}], "any": {"k": {"x": 1}, "s": 1},
            },
        });
        let mut unknown = Unknown::new(true);
        prune(&mut object, Some(&schema()), true, &mut unknown);
        let found = ["spec.any.k.x", "spec.free.known.b", "spec.list[0].b", "spec.map.k.x", "spec.zz", "zoo"];
        assert_eq!(unknown.sorted(), found);
        assert_eq!(
            object,
            json!({
                "kind": "X", "metadata": {"x": 1},
                "spec": {
                    "free": {"b": {"c": 1}, "known": {"a": "x"}},
                    "map": {"k": {}}, "list": [{"name": "a"}], "any": {"k": {}, "s": 1},
                },
            })
        );
    }

    #[test]
    fn defaults_and_nulls() {
        let mut object = json!({"spec": {
            "size": null, "maybe": null, "map": {"a": null, "b": 1}, "list": [{"name": null}, {}], "free": null,
        }});
        drop_nulls(&mut object, Some(&schema()));
        fill_defaults(&mut object, &schema());
        assert_eq!(
            object,
            json!({"spec": {
                "size": 1, "maybe": null, "map": {"a": 7, "b": 1}, "list": [{"port": 80}, {"port": 80}],
            }})
        );
        let mut empty = json!({});
        fill_defaults(&mut empty, &schema());
        assert_eq!(empty, json!({"spec": {"size": 1, "maybe": "x"}}));
    }

    #[test]
    fn numbers_are_those_of_storage() {
        let mut object = json!([1.0, 1.5, u64::MAX, 3]);
        canonical_numbers(&mut object);
        assert_eq!(object.to_string(), "[1,1.5,1.8446744073709552e+19,3]");
    }
}

//! Which part of an object is which part of the object it replaces.

use std::collections::HashMap;

use serde_json::Value;

use super::schema::{Kind, ListType, Schema};

/// True when a value is the same as before, as far as the schema can tell its parts apart.
///
/// Lists that are maps may have changed their order. Fields without a schema are never the same.
pub(crate) fn unchanged(schema: &Schema, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Array(items), Value::Array(old_items)) => {
            if items.len() != old_items.len() {
                return false;
            }
            match OldItems::new(schema, old).zip(schema.items.as_deref()) {
                Some((earlier, below)) => items
                    .iter()
                    .all(|item| earlier.find(item).is_some_and(|old_item| unchanged(below, item, old_item))),
                None => new == old,
            }
        }
        (Value::Object(fields), Value::Object(old_fields)) => {
            fields.len() == old_fields.len()
                && fields.iter().all(|(key, value)| match (schema.field(key), old_fields.get(key)) {
                    (Some(below), Some(old_value)) => unchanged(below, value, old_value),
                    _ => false,
                })
        }
        _ => new == old,
    }
}

/// The items of an old list that is a map, to be found by their keys.
pub(crate) struct OldItems<'v> {
    keys: &'v [String],
    /// The first item with each key.
    items: HashMap<String, &'v Value>,
}

impl<'v> OldItems<'v> {
    /// The old items, if the list is a map at all.
    pub(crate) fn new(schema: &'v Schema, old: &'v Value) -> Option<Self> {
        let keyed = schema.kind == Kind::Array
            && schema.list_type == Some(ListType::Map)
            && !schema.list_map_keys.is_empty();
        let old = old.as_array().filter(|items| keyed && !items.is_empty())?;
        let keys = schema.list_map_keys.as_slice();
        let mut items = HashMap::with_capacity(old.len());
        for item in old {
            if let Some(key) = key_of(item, keys) {
                items.entry(key).or_insert(item);
            }
        }
        Some(Self { keys, items })
    }

    /// The first old item with the keys of this one.
    pub(crate) fn find(&self, item: &Value) -> Option<&'v Value> {
        self.items.get(&key_of(item, self.keys)?).copied()
    }
}

/// The keys of an item in one text; none when one is missing or no scalar.
fn key_of(item: &Value, keys: &[String]) -> Option<String> {
    let mut text = String::new();
    for name in keys {
        match item.get(name)? {
            Value::String(value) => text.push_str(value),
            Value::Number(number) => {
                text.push('\u{1}');
                text.push_str(&number.to_string());
            }
            Value::Bool(flag) => text.push_str(if *flag { "\u{2}" } else { "\u{3}" }),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        }
        text.push('\0');
    }
    Some(text)
}

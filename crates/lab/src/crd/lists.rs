//! Lists that are sets or maps: no value and no key occurs twice.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::{
    gotext::json,
    status::{FieldProblem, Problem},
};

use super::{
    path::Path,
    schema::{ListType, Schema},
};

/// Finds values and keys that occur twice.
pub(crate) fn check(value: &Value, schema: &Schema, path: &Path<'_>, problems: &mut Vec<FieldProblem>) {
    if !schema.below.keyed_lists {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if let Some(below) = schema.additional_schema() {
                    check(value, below, &path.key(key), problems);
                }
                if let Some(below) = schema.property(key) {
                    check(value, below, &path.field(key), problems);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type {
                Some(ListType::Set) => {
                    for index in repeated(items.iter()) {
                        let problem = Problem::Duplicate(items[index].clone());
                        problems.push(FieldProblem::new(path.index(index).text(), problem));
                    }
                }
                Some(ListType::Map) => check_keys(items, &schema.list_map_keys, path, problems),
                _ => {}
            }
            if let Some(below) = schema.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    check(item, below, &path.index(index), problems);
                }
            }
        }
        _ => {}
    }
}

fn check_keys(items: &[Value], names: &[String], path: &Path<'_>, problems: &mut Vec<FieldProblem>) {
    for (index, item) in items.iter().enumerate() {
        if !item.is_object() && !item.is_null() {
            let why = "must be an object for an array of list-type map".to_owned();
            problems.push(FieldProblem::new(path.index(index).text(), Problem::Invalid(item.clone(), why)));
            return;
        }
    }
    if items.len() < 2 {
        return;
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| {
            let key =
                names.iter().filter_map(|name| item.get(name).map(|value| (name.clone(), value.clone())));
            Value::Object(key.collect::<Map<_, _>>())
        })
        .collect();
    for index in repeated(keys.iter()) {
        problems.push(FieldProblem::new(path.index(index).text(), Problem::Duplicate(keys[index].clone())));
    }
}

/// The places at which something occurs for the second time.
fn repeated<'v>(items: impl ExactSizeIterator<Item = &'v Value>) -> Vec<usize> {
    let mut places = Vec::new();
    if items.len() < 2 {
        return places;
    }
    let mut seen: HashMap<String, u32> = HashMap::with_capacity(items.len());
    for (index, item) in items.enumerate() {
        // Whole numbers and floats differ, as they do for the server.
        let key = match item {
            Value::Number(number) if number.is_f64() => format!("f{}", json(item)),
            other => json(other),
        };
        let times = seen.entry(key).or_insert(0);
        *times += 1;
        if *times == 2 {
            places.push(index);
        }
    }
    places
}

//! Merging lists: scalars as sets, objects by a field that tells them apart.

use serde_json::Value;

use super::order::{self, Items};
use super::{DIRECTIVE, Failure, Object, merge_map, no_merge_key, unknown_directive};
use crate::merge::go;
use crate::schema::TypeRef;

/// The kind of the items of a list, as Go tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoType {
    Nothing,
    Bool,
    Int,
    Float,
    Text,
    List,
    Map,
}

pub(super) fn go_type(value: &Value) -> GoType {
    match value {
        Value::Null => GoType::Nothing,
        Value::Bool(_) => GoType::Bool,
        Value::Number(number) if number.as_i64().is_some() => GoType::Int,
        Value::Number(_) => GoType::Float,
        Value::String(_) => GoType::Text,
        Value::Array(_) => GoType::List,
        Value::Object(_) => GoType::Map,
    }
}

/// The one kind all items of two lists have.
pub(super) fn element_type(original: &[Value], patch: &[Value]) -> Result<GoType, Failure> {
    let mut items = original.iter().chain(patch).map(go_type);
    let Some(first) = items.next() else {
        return Err(Failure::Other("no elements in any of the given slices".to_owned()));
    };
    match first {
        GoType::List => return Err(Failure::Unsupported),
        GoType::Nothing => {
            return Err(Failure::Other("a list that is merged has an item that is null".to_owned()));
        }
        _ => {}
    }
    if items.any(|other| other != first) {
        let shown = |list: &[Value]| go::verb(&Value::Array(list.to_vec()));
        let (original, patch) = (shown(original), shown(patch));
        return Err(Failure::Other(format!("list element types are not identical: [{original} {patch}]")));
    }
    Ok(first)
}

/// Merges two lists, or takes the items of the second out of the first.
pub(super) fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    of: TypeRef<'_>,
    key: Option<&str>,
    delete: bool,
) -> Result<Vec<Value>, Failure> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let key = key.unwrap_or_default();
    if element_type(&original, &patch)? != GoType::Map {
        if delete {
            return Ok(original.into_iter().filter(|item| !patch.contains(item)).collect());
        }
        let merged = deduplicate(original.iter().chain(&patch).cloned().collect());
        if key.is_empty() {
            let (in_patch, others) = merged.into_iter().partition(|item| patch.contains(item));
            return order::arrange(in_patch, others, &patch, &original, Items::Scalars);
        }
        return Err(Failure::Other(format!(
            "expected a map[string]interface {{}}, but received a {}",
            merged.first().map_or("<nil>", go::type_text)
        )));
    }
    if key.is_empty() {
        return Err(Failure::Other("cannot merge lists without merge key for struct".to_owned()));
    }
    let (original, patch) = follow_directives(original, patch, key)?;
    let mut merged = original.clone();
    for item in &patch {
        let Value::Object(item) = item else { continue };
        let value = item.get(key).ok_or_else(|| no_merge_key(item, key))?;
        let found = merged.iter_mut().find(|other| other.get(key) == Some(value));
        match found {
            Some(Value::Object(other)) => *other = merge_map(std::mem::take(other), item.clone(), of)?,
            _ => merged.push(Value::Object(item.clone())),
        }
    }
    let (in_patch, others) = partition(merged, &patch, key)?;
    order::arrange(in_patch, others, &patch, &original, Items::Objects(key))
}

/// Splits items by whether the other list has one with the same key.
pub(super) fn partition(
    items: Vec<Value>,
    by: &[Value],
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Failure> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for item in items {
        let fields = as_map(&item)?;
        let value = fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
        let mut found = false;
        for (place, other) in by.iter().enumerate() {
            let Value::Object(other) = other else {
                return Err(Failure::Other(format!("value for key {place} is not a map")));
            };
            if other.get(key) == Some(value) {
                found = true;
                break;
            }
        }
        if found { with.push(item) } else { without.push(item) }
    }
    Ok((with, without))
}

pub(super) fn as_map(item: &Value) -> Result<&Object, Failure> {
    item.as_object().ok_or_else(|| {
        let kind = go::type_text(item);
        Failure::Other(format!("expected a map[string]interface {{}}, but received a {kind}"))
    })
}

/// Does what the items of a patch say that are directives. Gives what is left of both lists.
fn follow_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Failure> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        let fields = as_map(&item)?;
        match fields.get(DIRECTIVE) {
            None => plain.push(item),
            Some(Value::String(directive)) if directive == "delete" => {
                let value = fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
                original.retain(|other| other.get(key) != Some(value));
            }
            Some(Value::String(directive)) if directive == "replace" => replace = true,
            Some(Value::String(directive)) if directive == "merge" => {
                return Err(Failure::Other("merging lists cannot yet be specified in the patch".to_owned()));
            }
            Some(other) => return Err(unknown_directive(other, fields)),
        }
    }
    Ok(if replace { (plain, Vec::new()) } else { (original, plain) })
}

/// Drops repeated scalars; the last of the list takes the place of a dropped one, which later ordering undoes.
fn deduplicate(mut items: Vec<Value>) -> Vec<Value> {
    let mut at = 0;
    while at + 1 < items.len() {
        let mut other = at + 1;
        while other < items.len() {
            if items[at] == items[other] {
                items.swap_remove(other);
            } else {
                other += 1;
            }
        }
        at += 1;
    }
    items
}

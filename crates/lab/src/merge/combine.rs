//! Merging what is applied into what is there.

use serde_json::{Map, Value};

use super::atom::{Fields, Form, List, Typed};
use super::element::Element;
use crate::schema::TypeRef;

/// The live value with what is applied merged into it. Both fit their type; what is applied has no item twice.
pub(crate) fn combine(of: TypeRef<'_>, live: &Value, applied: &Value) -> Value {
    walk(Typed::root(of), Some(live), Some(applied)).unwrap_or(Value::Null)
}

fn walk(of: Typed<'_>, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    // What is applied decides about the form, where there is something.
    let atom = of.atom();
    let atom = atom.narrow(if applied.is_some() { applied } else { live });
    match (atom.form(), atom.map, atom.list) {
        (Form::Map, Some(map), _) => {
            let (left, right) = (live.and_then(Value::as_object), applied.and_then(Value::as_object));
            let empty = left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty);
            if !map.atomic && !empty {
                return map_items(map, left, right);
            }
        }
        (Form::List, _, Some(list)) => {
            let (left, right) = (live.and_then(Value::as_array), applied.and_then(Value::as_array));
            let empty = left.is_none_or(Vec::is_empty) && right.is_none_or(Vec::is_empty);
            if !list.is_atomic() && !empty {
                return list_items(list, left.map_or(&[], Vec::as_slice), right.map_or(&[], Vec::as_slice));
            }
        }
        _ => {}
    }
    applied.or(live).cloned()
}

fn map_items(
    of: Fields<'_>,
    left: Option<&Map<String, Value>>,
    right: Option<&Map<String, Value>>,
) -> Option<Value> {
    let mut out = Map::new();
    for (name, value) in left.into_iter().flatten() {
        let applied = right.and_then(|right| right.get(name));
        if let Some(merged) = of.typed(name).and_then(|typed| walk(typed, Some(value), applied)) {
            out.insert(name.clone(), merged);
        }
    }
    for (name, value) in right.into_iter().flatten() {
        if left.is_some_and(|left| left.contains_key(name)) {
            continue;
        }
        if let Some(merged) = of.typed(name).and_then(|typed| walk(typed, None, Some(value))) {
            out.insert(name.clone(), merged);
        }
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

/// Items of both lists by number: equal items have equal numbers, also over both lists.
struct Numbered<'a> {
    left: Vec<usize>,
    right: Vec<usize>,
    /// By number: the item of the left list; null when there are several, which are not merged into.
    in_left: Vec<Option<&'a Value>>,
    /// By number: the item of the right list.
    in_right: Vec<Option<&'a Value>>,
}

fn number<'a>(of: List<'a>, left: &'a [Value], right: &'a [Value]) -> Option<Numbered<'a>> {
    let elements: Vec<Element<'a>> =
        left.iter().chain(right).map(|item| of.element(item).ok()).collect::<Option<_>>()?;
    let mut order: Vec<usize> = (0..elements.len()).collect();
    order.sort_by(|one, other| elements[*one].cmp(&elements[*other]));
    let mut numbers = vec![0; elements.len()];
    let mut count = 0;
    for group in order.chunk_by(|one, other| elements[*one] == elements[*other]) {
        for place in group {
            numbers[*place] = count;
        }
        count += 1;
    }
    let right_numbers = numbers.split_off(left.len());
    let mut in_left = vec![None; count];
    for (number, item) in numbers.iter().zip(left) {
        in_left[*number] = Some(if in_left[*number].is_some() { &Value::Null } else { item });
    }
    let mut in_right = vec![None; count];
    for (number, item) in right_numbers.iter().zip(right) {
        in_right[*number] = Some(item);
    }
    Some(Numbered { left: numbers, right: right_numbers, in_left, in_right })
}

/// Merges two lists whose items are told apart by key or value.
///
/// The items of the right list come in its order. The items that only the left list has keep their place before
/// the item that follows them, as far as the order of the right list allows.
fn list_items(of: List<'_>, left: &[Value], right: &[Value]) -> Option<Value> {
    let Some(Numbered { left: lefts, right: rights, in_left, in_right }) = number(of, left, right) else {
        return Some(Value::Array(right.to_vec()));
    };
    let mut out = Vec::with_capacity(left.len().max(right.len()));
    let mut shared = rights.iter().copied().filter(|number| in_left[*number].is_some());
    let mut next_shared = shared.next();
    let mut merged = vec![false; in_right.len()];
    let (mut at_left, mut at_right) = (0, 0);
    while at_left < lefts.len() || at_right < rights.len() {
        if let (Some(&mine), Some(&theirs)) = (lefts.get(at_left), rights.get(at_right)) {
            if mine == theirs {
                merged[mine] = true;
                out.extend(walk(of.items, in_left[mine], in_right[mine]));
                at_left += 1;
                at_right += 1;
                next_shared = shared.next();
                continue;
            }
            if in_right[mine].is_some() && next_shared.is_some_and(|next| next != mine) {
                // Both have it, but the right list wants it later.
                at_left += 1;
                continue;
            }
        }
        if let Some(&mine) = lefts.get(at_left) {
            if in_right[mine].is_none() {
                out.extend(walk(of.items, left.get(at_left), None));
                at_left += 1;
                continue;
            }
            if merged[mine] {
                at_left += 1;
            }
        }
        if let Some(&theirs) = rights.get(at_right) {
            merged[theirs] = true;
            out.extend(walk(of.items, in_left[theirs], in_right[theirs]));
            at_right += 1;
            if next_shared == Some(theirs) {
                next_shared = shared.next();
            }
        }
    }
    (!out.is_empty()).then_some(Value::Array(out))
}

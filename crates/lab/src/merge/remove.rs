//! Taking paths out of a value, or all but some.

use serde_json::{Map, Value};

use super::atom::{Fields, Form, List, Typed};
use super::element::Element;
use super::set::Set;
use crate::schema::TypeRef;

/// The value without the paths of a set and what is in them.
pub(crate) fn remove_items(of: TypeRef<'_>, value: &Value, items: &Set<'_>) -> Value {
    walk(Typed::root(of), value, items, false)
}

fn walk(of: Typed<'_>, value: &Value, items: &Set<'_>, extract: bool) -> Value {
    let atom = of.atom().narrow(Some(value));
    match (atom.form(), atom.map, atom.list, value) {
        (Form::Map, Some(map), _, Value::Object(fields)) => {
            if fields.is_empty() || map.atomic {
                return if extract { value.clone() } else { Value::Null };
            }
            map_items(map, fields, items, extract)
        }
        (Form::List, _, Some(list), Value::Array(entries)) => {
            if entries.is_empty() || list.is_atomic() {
                return if extract { value.clone() } else { Value::Null };
            }
            list_items(list, entries, items, extract)
        }
        (Form::Map | Form::List, ..) => Value::Null,
        (Form::Scalar, ..) => value.clone(),
    }
}

fn map_items(of: Fields<'_>, fields: &Map<String, Value>, items: &Set<'_>, extract: bool) -> Value {
    let mut out = Map::new();
    for (name, value) in fields {
        let element = Element::Field(name);
        let Some(typed) = of.typed(name) else { continue };
        if items.contains(&element) {
            if extract {
                out.insert(name.clone(), walk(typed, value, items, extract));
            }
        } else if let Some(inside) = items.with_prefix(&element) {
            out.insert(name.clone(), walk(typed, value, inside, extract));
        } else if !extract {
            out.insert(name.clone(), value.clone());
        }
    }
    if out.is_empty() { Value::Null } else { Value::Object(out) }
}

fn list_items(of: List<'_>, entries: &[Value], items: &Set<'_>, extract: bool) -> Value {
    let mut out = Vec::new();
    for entry in entries {
        let Ok(element) = of.element(entry) else { continue };
        let (exact, inside) = (items.contains(&element), items.with_prefix(&element));
        if exact && !extract {
            continue;
        }
        match inside {
            Some(inside) => out.push(walk(of.items, entry, inside, extract)),
            None if exact || !extract => out.push(entry.clone()),
            None => {}
        }
    }
    if out.is_empty() { Value::Null } else { Value::Array(out) }
}

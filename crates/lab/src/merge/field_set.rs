//! The paths a value sets: what somebody owns who applies it.

use serde_json::Value;

use super::atom::{Fields, Form, List, Typed};
use super::element::Element;
use super::set::Set;
use crate::schema::TypeRef;

/// The paths of a value.
pub(crate) fn to_field_set<'a>(of: TypeRef<'a>, value: &'a Value) -> Set<'a> {
    walk(Typed::root(of), value).0
}

/// The paths inside a value, and whether the value itself is one.
fn walk<'a>(of: Typed<'a>, value: &'a Value) -> (Set<'a>, bool) {
    let atom = of.atom().narrow(Some(value));
    match (atom.form(), atom.map, atom.list) {
        (Form::Map, Some(map), _) if !map.atomic => (map_items(map, value), false),
        (Form::List, _, Some(list)) if !list.is_atomic() => (list_items(list, value), false),
        _ => (Set::new(), true),
    }
}

fn map_items<'a>(of: Fields<'a>, value: &'a Value) -> Set<'a> {
    let mut set = Set::new();
    for (name, field) in value.as_object().into_iter().flatten() {
        let named = of.named(name);
        let (children, mut member) = match named.map(|(_, typed)| typed).or_else(|| of.typed(name)) {
            Some(typed) => walk(typed, field),
            None => (Set::new(), false),
        };
        // A field of the schema is only owned through what is in it; entries of maps are owned themselves.
        member |=
            named.is_none() || field.is_null() || field.as_object().is_some_and(serde_json::Map::is_empty);
        set.push(Element::Field(name), member, children);
    }
    set
}

fn list_items<'a>(of: List<'a>, value: &'a Value) -> Set<'a> {
    let Value::Array(items) = value else { return Set::new() };
    let mut elements: Vec<(Element<'a>, &'a Value)> =
        items.iter().filter_map(|item| of.element(item).ok().map(|element| (element, item))).collect();
    elements.sort_by(|left, right| left.0.cmp(&right.0));
    let mut set = Set::new();
    for group in elements.chunk_by(|left, right| left.0 == right.0) {
        // Of an item that is there several times only the key is owned, not the fields.
        if let [(element, item), others @ ..] = group {
            let children = if others.is_empty() { walk(of.items, item).0 } else { Set::new() };
            set.push(element.clone(), true, children);
        }
    }
    set
}

/// Adds the fields of the schema that lead to paths of the set: they can be removed with all that is in them.
pub(super) fn with_named_fields<'a>(set: Set<'a>, of: TypeRef<'_>) -> Set<'a> {
    named(set, Some(Typed::root(of)))
}

fn named<'a>(set: Set<'a>, of: Option<Typed<'_>>) -> Set<'a> {
    let atom = of.map(Typed::atom);
    let (map, list) = (atom.and_then(|atom| atom.map), atom.and_then(|atom| atom.list));
    set.map_nodes(|node| {
        if node.children.is_empty() {
            return;
        }
        let children = std::mem::take(&mut node.children);
        let of = match (&node.element, map, list) {
            (Element::Field(name), Some(map), _) => {
                node.member |= map.named(name).is_some();
                map.typed(name)
            }
            (Element::Key(_), _, Some(list)) => Some(list.items),
            _ => None,
        };
        node.children = named(children, of);
    })
}

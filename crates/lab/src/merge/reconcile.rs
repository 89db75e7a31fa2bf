//! Owned paths after the schema changed: what used to be owned piece by piece may now be owned as a whole.

use serde_json::Value;

use super::atom::{Form, Typed};
use super::element::Element;
use super::set::Set;
use crate::schema::TypeRef;

/// The set as it has to be with this schema, or none when it may stay as it is.
pub(super) fn reconcile<'a>(set: &Set<'a>, of: TypeRef<'_>) -> Option<Set<'a>> {
    if !inside(set, Typed::root(of)) {
        return None;
    }
    Some(whole(set.clone(), Typed::root(of)))
}

/// True when stored paths may stay as they are, which they nearly always may.
pub(super) fn stored_fits(stored: &Value, of: TypeRef<'_>) -> bool {
    stored_level_fits(stored, Typed::root(of))
}

fn stored_level_fits(stored: &Value, of: Typed<'_>) -> bool {
    let Value::Object(fields) = stored else { return true };
    if fields.is_empty() {
        return true;
    }
    let atom = of.atom();
    let (map, list) = match (atom.form(), atom.map, atom.list) {
        (Form::Map, Some(map), _) if !map.is_free() => (Some(map), None),
        (Form::List, _, Some(list)) => (None, Some(list)),
        _ => return true,
    };
    fields.iter().filter(|(key, _)| *key != ".").all(|(key, inner)| {
        let of = match (map, list, key.strip_prefix("f:")) {
            (Some(map), _, Some(name)) => map.typed(name),
            (Some(map), _, None) => map.others(),
            (_, Some(list), _) => Some(list.items),
            _ => None,
        };
        let children = inner.as_object().is_some_and(|inner| inner.keys().any(|key| key != "."));
        of.is_none_or(|of| !children || (!is_whole(of) && stored_level_fits(inner, of)))
    })
}

/// True for types of maps and lists that are owned as wholes.
fn is_whole(of: Typed<'_>) -> bool {
    let atom = of.atom();
    match (atom.form(), atom.map, atom.list) {
        (Form::Map, Some(map), _) => !map.is_free() && map.atomic,
        (Form::List, _, Some(list)) => list.is_atomic(),
        _ => false,
    }
}

/// True when a value that is a whole now is owned in pieces. A set that is empty stands for no pieces at all.
fn is_pieces(set: &Set<'_>, member: bool, of: Typed<'_>) -> bool {
    let owned_whole = member && set.is_empty();
    let atom = of.atom();
    match (atom.form(), atom.map, atom.list) {
        (Form::Map, Some(map), _) => !map.is_free() && map.atomic && !set.is_empty(),
        (Form::List, _, Some(list)) => list.is_atomic() && !owned_whole,
        _ => false,
    }
}

/// The types of the steps of a set; none where they are not walked.
fn next<'t>(of: Typed<'t>, element: &Element<'_>) -> Option<Typed<'t>> {
    let atom = of.atom();
    match (atom.form(), atom.map, atom.list, element) {
        (Form::Map, Some(map), _, _) if map.is_free() => None,
        (Form::Map, Some(map), _, Element::Field(name)) => map.typed(name),
        (Form::Map, Some(map), _, _) => map.others(),
        (Form::List, _, Some(list), _) => Some(list.items),
        _ => None,
    }
}

/// True when something inside has to change.
fn inside(set: &Set<'_>, of: Typed<'_>) -> bool {
    set.nodes().iter().any(|node| {
        next(of, &node.element)
            .is_some_and(|of| is_pieces(&node.children, node.member, of) || inside(&node.children, of))
    })
}

fn whole<'a>(set: Set<'a>, of: Typed<'_>) -> Set<'a> {
    set.map_nodes(|node| {
        let Some(of) = next(of, &node.element) else { return };
        let children = std::mem::take(&mut node.children);
        if is_pieces(&children, node.member, of) {
            node.member = true;
        } else {
            node.children = whole(children, of);
        }
    })
}

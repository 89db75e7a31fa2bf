//! What two values of a type differ in.

use serde_json::Value;

use super::atom::{Fields, Form, List, Typed};
use super::element::{Element, equal_values};
use super::set::Set;
use crate::schema::TypeRef;

/// The difference of two values, as paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes<'a> {
    /// What only the old value has.
    pub removed: Set<'a>,
    /// What both have, with different values.
    pub modified: Set<'a>,
    /// What only the new value has.
    pub added: Set<'a>,
}

/// Which of the three sets a path itself belongs to.
#[derive(Debug, Clone, Copy, Default)]
struct Itself {
    removed: bool,
    modified: bool,
    added: bool,
}

/// What the new value has, and has not, that the old one had not, or had.
pub(crate) fn compare<'a>(of: TypeRef<'a>, old: &'a Value, new: &'a Value) -> Changes<'a> {
    let mut changes = Changes::default();
    walk(Typed::root(of), Some(old), Some(new), &mut changes);
    changes
}

impl<'a> Changes<'a> {
    /// True when nothing is different.
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Keeps of each set what a filter keeps.
    pub(super) fn filter(self, keep: impl Fn(Set<'a>) -> Set<'a>) -> Self {
        Self { removed: keep(self.removed), modified: keep(self.modified), added: keep(self.added) }
    }

    fn push(&mut self, element: &Element<'a>, itself: Itself, inside: Changes<'a>) {
        let sets = [
            (&mut self.removed, itself.removed, inside.removed),
            (&mut self.modified, itself.modified, inside.modified),
            (&mut self.added, itself.added, inside.added),
        ];
        for (set, member, children) in sets {
            if member || !children.is_empty() {
                set.push(element.clone(), member, children);
            }
        }
    }
}

/// Compares two values of which at least one is there; puts what differs inside them into `changes`.
fn walk<'a>(
    of: Typed<'a>,
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    changes: &mut Changes<'a>,
) -> Itself {
    let atom = of.atom();
    let (left, right) = (atom.narrow(old), atom.narrow(new));
    let mut itself = Itself::default();
    let mut is_leaf = match (old, new) {
        (_, None) => form(left.form(), left.map, left.list, old, new, changes, &mut itself),
        (Some(_), Some(_)) if !left.same_forms(right) => {
            // The value changed its form: it is looked at in both of them.
            form(left.form(), left.map, left.list, old, new, changes, &mut itself);
            form(right.form(), right.map, right.list, old, new, changes, &mut itself)
        }
        _ => form(right.form(), right.map, right.list, old, new, changes, &mut itself),
    };
    is_leaf |= old.is_some() && new.is_some();
    if !is_leaf {
        itself.added |= old.is_none();
        itself.removed |= old.is_some();
    }
    itself
}

/// Compares two values in one form. True when they were compared as wholes.
fn form<'a>(
    form: Form,
    map: Option<Fields<'a>>,
    list: Option<List<'a>>,
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    changes: &mut Changes<'a>,
    itself: &mut Itself,
) -> bool {
    match (form, map, list) {
        (Form::Map, Some(map), _) => {
            let (left, right) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            // Two empty maps are compared as wholes, which tells an empty one from null.
            let empty =
                left.is_none_or(serde_json::Map::is_empty) && right.is_none_or(serde_json::Map::is_empty);
            if !map.atomic && !empty {
                map_items(map, left, right, changes);
                return false;
            }
        }
        (Form::List, _, Some(list)) => {
            let (left, right) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
            let empty = left.is_none_or(Vec::is_empty) && right.is_none_or(Vec::is_empty);
            if !list.is_atomic() && !empty {
                if left != right {
                    list_items(list, left, right, changes);
                }
                return false;
            }
        }
        _ => {}
    }
    match (old, new) {
        (None, _) => itself.added = true,
        (_, None) => itself.removed = true,
        (Some(old), Some(new)) => itself.modified |= old != new && !equal_values(old, new),
    }
    true
}

type Object = serde_json::Map<String, Value>;

fn map_items<'a>(
    of: Fields<'a>,
    left: Option<&'a Object>,
    right: Option<&'a Object>,
    changes: &mut Changes<'a>,
) {
    let mut left = left.into_iter().flatten().peekable();
    let mut right = right.into_iter().flatten().peekable();
    loop {
        // Both maps are sorted by name.
        let (name, old, new) = match (left.peek(), right.peek()) {
            (Some((name, _)), Some((other, _))) => match name.cmp(other) {
                std::cmp::Ordering::Less => (*name, left.next(), None),
                std::cmp::Ordering::Equal => (*name, left.next(), right.next()),
                std::cmp::Ordering::Greater => (*other, None, right.next()),
            },
            (Some((name, _)), None) => (*name, left.next(), None),
            (None, Some((name, _))) => (*name, None, right.next()),
            (None, None) => return,
        };
        let (old, new) = (old.map(|old| old.1), new.map(|new| new.1));
        // Values that are the same are the same in every type, which is most of what there is.
        if old == new {
            continue;
        }
        let Some(typed) = of.typed(name) else { continue };
        child(typed, &Element::Field(name), old, new, changes);
    }
}

fn child<'a>(
    of: Typed<'a>,
    element: &Element<'a>,
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    changes: &mut Changes<'a>,
) {
    let mut inside = Changes::default();
    let itself = walk(of, old, new, &mut inside);
    changes.push(element, itself, inside);
}

/// The items of a list with what tells them apart, sorted by it.
fn sorted<'a>(of: List<'a>, items: Option<&'a Vec<Value>>) -> Vec<(Element<'a>, &'a Value)> {
    let mut items: Vec<(Element<'a>, &'a Value)> = items
        .into_iter()
        .flatten()
        .filter_map(|item| of.element(item).ok().map(|element| (element, item)))
        .collect();
    items.sort_by(|left, right| left.0.cmp(&right.0));
    items
}

fn list_items<'a>(
    of: List<'a>,
    left: Option<&'a Vec<Value>>,
    right: Option<&'a Vec<Value>>,
    changes: &mut Changes<'a>,
) {
    let (left, right) = (sorted(of, left), sorted(of, right));
    let mut left = left.chunk_by(|one, other| one.0 == other.0).peekable();
    let mut right = right.chunk_by(|one, other| one.0 == other.0).peekable();
    let none: &[(Element<'a>, &'a Value)] = &[];
    loop {
        let (old, new) = match (left.peek(), right.peek()) {
            (Some([(mine, _), ..]), Some([(theirs, _), ..])) => match mine.cmp(theirs) {
                std::cmp::Ordering::Less => (left.next(), None),
                std::cmp::Ordering::Equal => (left.next(), right.next()),
                std::cmp::Ordering::Greater => (None, right.next()),
            },
            (Some(_), _) => (left.next(), None),
            (None, Some(_)) => (None, right.next()),
            (None, None) => return,
        };
        group(of, old.unwrap_or(none), new.unwrap_or(none), changes);
    }
}

/// Compares the items that have the same key.
fn group<'a>(
    of: List<'a>,
    old: &[(Element<'a>, &'a Value)],
    new: &[(Element<'a>, &'a Value)],
    changes: &mut Changes<'a>,
) {
    let Some((element, _)) = old.first().or(new.first()) else { return };
    let (first_old, first_new) = (old.first().map(|item| item.1), new.first().map(|item| item.1));
    match (old.len(), new.len()) {
        (0 | 1, 0 | 1) => child(of.items, element, first_old, first_new, changes),
        // Items that are there several times are one thing, of which only the key is known.
        (2.., 2..) => {
            let same =
                old.len() == new.len() && old.iter().zip(new).all(|(old, new)| equal_values(old.1, new.1));
            if !same {
                changes.modified.push(element.clone(), true, Set::new());
            }
        }
        (2.., _) => {
            if first_new.is_some() {
                child(of.items, element, None, first_new, changes);
            }
            changes.removed.push(element.clone(), true, Set::new());
        }
        (_, _) => {
            if first_old.is_some() {
                child(of.items, element, first_old, None, changes);
            }
            changes.added.push(element.clone(), true, Set::new());
        }
    }
}

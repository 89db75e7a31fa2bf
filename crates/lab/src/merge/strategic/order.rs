//! The order of merged lists.

use serde_json::Value;

use super::lists::{self, GoType, as_map};
use super::{DIRECTIVE, Failure, ORDER, Object, list_of, lookup_list, no_merge_key, without_directives};
use crate::merge::go;
use crate::schema::TypeRef;

/// What the items of a list are told apart by.
#[derive(Debug, Clone, Copy)]
pub(super) enum Items<'a> {
    Scalars,
    Objects(&'a str),
}

impl Items<'_> {
    fn identity(self, item: &Value) -> Option<&Value> {
        match self {
            Items::Scalars => Some(item),
            Items::Objects(key) => item.get(key),
        }
    }

    fn place(self, list: &[Value], item: &Value) -> Option<usize> {
        let wanted = self.identity(item);
        list.iter().position(|other| self.identity(other) == wanted)
    }
}

/// Merges the lists whose order the patch sets, and takes them out of the patch.
pub(super) fn merge_ordered_lists(
    original: &mut Object,
    patch: &mut Object,
    of: TypeRef<'_>,
) -> Result<(), Failure> {
    const MALFORMED: Failure = Failure::Malformed("invalid patch format of setElementOrder list");
    let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(ORDER)).cloned().collect();
    for directive in directives {
        let wanted = match patch.remove(&directive) {
            Some(Value::Array(wanted)) => wanted,
            Some(other) => return Err(not_a_list(&other)),
            None => continue,
        };
        let field = list_of(&directive, ORDER).ok_or(MALFORMED)?;
        let before = list(original.get(field))?;
        let change = list(patch.get(field))?;
        let (items_of, strategy) = lookup_list(of, field)?;
        let key = strategy.merge_key.as_deref().unwrap_or_default();
        check_order(change.as_deref().unwrap_or_default(), &wanted, key)?;
        let merged = match (&before, &change) {
            (Some(before), None) => before.clone(),
            (None, Some(change)) => match without_directives(Value::Array(change.clone())) {
                Some(Value::Array(merged)) => merged,
                _ => continue,
            },
            (Some(before), Some(change)) if strategy.merge => {
                lists::merge(before.clone(), change.clone(), items_of, strategy.merge_key.as_deref(), false)?
            }
            (Some(_), Some(change)) => change.clone(),
            (None, None) => continue,
        };
        let (before, change) = (before.unwrap_or_default(), change.unwrap_or_default());
        let (in_patch, others) = if key.is_empty() {
            merged.into_iter().partition(|item| wanted.contains(item))
        } else {
            lists::partition(merged, &wanted, key)?
        };
        let items = match lists::element_type(&before, &change)? {
            GoType::Map => Items::Objects(key),
            _ => Items::Scalars,
        };
        let seen = match items {
            Items::Objects(key) if strategy.merge => order_after(&before, &change, key),
            _ => before,
        };
        let arranged = arrange(in_patch, others, &wanted, &seen, items)?;
        original.insert(field.to_owned(), Value::Array(arranged));
        patch.remove(field);
    }
    Ok(())
}

/// The order of the live list as the real server sees it when it arranges the merged one: the merge works in the
/// memory of the live list, so that deletions move items up and new items take the free places at the end.
fn order_after(before: &[Value], change: &[Value], key: &str) -> Vec<Value> {
    let mut seen = before.to_vec();
    let mut length = seen.len();
    for item in change.iter().filter(|item| item[DIRECTIVE] == "delete") {
        while let Some(place) = seen[..length].iter().position(|other| other.get(key) == item.get(key)) {
            seen[place..length].rotate_left(1);
            length -= 1;
            if length > 0 {
                seen[length] = seen[length - 1].clone();
            }
        }
    }
    if change.iter().any(|item| item[DIRECTIVE] == "replace") {
        return seen;
    }
    for item in change.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        if length < seen.len() && !seen[..length].iter().any(|other| other.get(key) == item.get(key)) {
            seen[length] = item.clone();
            length += 1;
        }
    }
    seen
}

fn list(value: Option<&Value>) -> Result<Option<Vec<Value>>, Failure> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(other) => Err(not_a_list(other)),
    }
}

fn not_a_list(value: &Value) -> Failure {
    Failure::Other(format!("expected a []interface {{}}, but received a {}", go::type_text(value)))
}

/// Checks that the items of a patch come in the order that it sets.
fn check_order(change: &[Value], wanted: &[Value], key: &str) -> Result<(), Failure> {
    if change.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let deletes = |item: &Value| item.get(DIRECTIVE).is_some_and(|directive| directive == "delete");
    let mut kept = Vec::new();
    for item in change {
        if key.is_empty()
            || !deletes({
                as_map(item)?;
                item
            })
        {
            kept.push(item);
        }
    }
    let (mut at, mut place) = (0, 0);
    while at < kept.len() && place < wanted.len() {
        if kept[at].get(DIRECTIVE).is_some() {
            at += 1;
            continue;
        }
        if same(kept[at], &wanted[place], key)? {
            at += 1;
        }
        place += 1;
    }
    if at < kept.len() && place >= wanted.len() {
        let shown = |list: &[Value]| go::verb(&Value::Array(list.to_vec()));
        return Err(Failure::Other(format!(
            "The order in patch list:\n{}\n doesn't match {ORDER} list:\n{}\n",
            shown(change),
            shown(wanted)
        )));
    }
    Ok(())
}

fn same(left: &Value, right: &Value, key: &str) -> Result<bool, Failure> {
    if key.is_empty() {
        return Ok(left == right);
    }
    let (left, right) = (as_map(left)?, as_map(right)?);
    let mine = left.get(key).ok_or_else(|| no_merge_key(left, key))?;
    let theirs = right.get(key).ok_or_else(|| no_merge_key(right, key))?;
    Ok(mine == theirs)
}

/// Sorts the items of the patch by the order it has, the others by the order of the live list, and puts them
/// together so that as much as possible of the order of the live list is kept.
pub(super) fn arrange(
    in_patch: Vec<Value>,
    others: Vec<Value>,
    patch_order: &[Value],
    live_order: &[Value],
    items: Items<'_>,
) -> Result<Vec<Value>, Failure> {
    let in_patch = sorted(in_patch, patch_order, items)?;
    let others = sorted(others, live_order, items)?;
    let mut out = Vec::with_capacity(in_patch.len() + others.len());
    let (mut left, mut right) = (others.into_iter().peekable(), in_patch.into_iter().peekable());
    while let (Some(mine), Some(theirs)) = (left.peek(), right.peek()) {
        let before = match (items.place(live_order, mine), items.place(live_order, theirs)) {
            (Some(mine), Some(theirs)) => mine < theirs,
            _ => false,
        };
        out.extend(if before { left.next() } else { right.next() });
    }
    out.extend(left);
    out.extend(right);
    Ok(out)
}

fn sorted(list: Vec<Value>, order: &[Value], items: Items<'_>) -> Result<Vec<Value>, Failure> {
    let (mut list, deletions) = match items {
        Items::Scalars => (list, Vec::new()),
        Items::Objects(key) => {
            for item in list.iter().chain(order) {
                let fields = as_map(item)?;
                fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
            }
            list.into_iter()
                .partition(|item| item.get(DIRECTIVE).is_none_or(|directive| directive != "delete"))
        }
    };
    let places: Vec<Option<usize>> = list.iter().map(|item| items.place(order, item)).collect();
    if places.iter().all(Option::is_some) {
        let mut out: Vec<(Option<usize>, Value)> = places.into_iter().zip(list).collect();
        out.sort_by_key(|(place, _)| *place);
        list = out.into_iter().map(|(_, item)| item).collect();
    } else {
        // What is not in the order counts as smaller than everything, one item at a time.
        let mut out: Vec<(Option<usize>, Value)> = Vec::with_capacity(list.len());
        for (place, item) in places.into_iter().zip(list) {
            let smaller = |other: &Option<usize>| match (place, other) {
                (Some(mine), Some(other)) => mine < *other,
                _ => true,
            };
            let at = out.iter().rposition(|(other, _)| !smaller(other)).map_or(0, |last| last + 1);
            out.insert(at, (place, item));
        }
        list = out.into_iter().map(|(_, item)| item).collect();
    }
    list.extend(deletions);
    Ok(list)
}

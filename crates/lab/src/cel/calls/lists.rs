//! Functions of lists and maps.

use std::{cmp::Ordering, sync::Arc};

use crate::cel::{
    ast::op,
    ops,
    value::{Failure, List, Map, Result, Val},
};

use super::Call;

/// Longer lists of numbers cost more than any expression may.
const LONGEST_RANGE: i64 = 10_000_000;

pub(super) fn find(name: &str) -> Option<Call> {
    Some(match name {
        "isSorted" => is_sorted,
        "sum" => sum,
        "min" => |args| extreme(args, "min", Ordering::Greater),
        "max" => |args| extreme(args, "max", Ordering::Less),
        "includes" => includes,
        "slice" => slice,
        "flatten" => |args| match args {
            [Val::List(list)] => flattened(list, 1),
            [Val::List(list), Val::Int(depth)] => flattened(list, *depth),
            _ => Err(Failure::no_overload()),
        },
        "sort" => |args| match args {
            [Val::List(list)] => sorted(list, list),
            _ => Err(Failure::no_overload()),
        },
        op::SORT_BY => |args| match args {
            [Val::List(list), Val::List(keys)] => sorted(list, keys),
            _ => Err(Failure::no_overload()),
        },
        "lists.range" => range,
        "reverse" => |args| match args {
            [Val::List(list)] => {
                let mut items = list.to_vec()?;
                items.reverse();
                Ok(Val::list(items))
            }
            _ => Err(Failure::no_overload()),
        },
        "distinct" => distinct,
        "first" => |args| match args {
            [Val::List(list)] => list.get(0).map_or(Ok(Val::Optional(None)), |item| item.map(Val::some)),
            _ => Err(Failure::no_overload()),
        },
        "last" => |args| match args {
            [Val::List(list)] if list.is_empty() => Ok(Val::Optional(None)),
            [Val::List(list)] => {
                list.get(list.len() - 1).map_or(Ok(Val::Optional(None)), |item| item.map(Val::some))
            }
            _ => Err(Failure::no_overload()),
        },
        "sets.contains" => |args| sets(args, contains_all),
        "sets.intersects" => |args| sets(args, intersects),
        "sets.equivalent" => {
            |args| sets(args, |one, other| contains_all(one, other) && contains_all(other, one))
        }
        op::MAP_INSERT => insert,
        _ => return None,
    })
}

fn items<'a>(args: &[Val<'a>]) -> Result<'a, Vec<Val<'a>>> {
    match args {
        [Val::List(list)] => list.to_vec(),
        _ => Err(Failure::no_overload()),
    }
}

fn is_sorted<'a>(args: &[Val<'a>]) -> Result<'a> {
    let items = items(args)?;
    if !items.iter().all(ops::has_order) {
        return Err(Failure::no_overload());
    }
    let broken =
        items.windows(2).any(|pair| matches!(ops::compare(&pair[0], &pair[1]), Ok(Ordering::Greater)));
    Ok(Val::Bool(!broken))
}

fn sum<'a>(args: &[Val<'a>]) -> Result<'a> {
    let mut total: Option<Val<'a>> = None;
    for item in items(args)? {
        total = Some(match total {
            None => item,
            Some(total) => ops::add(&total, &item)?,
        });
    }
    Ok(total.unwrap_or(Val::Int(0)))
}

/// The item nothing is beyond.
fn extreme<'a>(args: &[Val<'a>], name: &str, replace_when: Ordering) -> Result<'a> {
    let mut best: Option<Val<'a>> = None;
    for item in items(args)? {
        if !ops::has_order(&item) {
            return Err(Failure::no_overload());
        }
        let better = best
            .as_ref()
            .is_none_or(|best| ops::compare(best, &item).is_ok_and(|order| order == replace_when));
        if better {
            best = Some(item);
        }
    }
    best.ok_or_else(|| Failure::new(format!("{name} called on empty list")))
}

fn found_at<'a>(args: &[Val<'a>], reverse: bool) -> Result<'a> {
    let [Val::List(list), wanted] = args else { return Err(Failure::no_overload()) };
    let is_wanted = |place: &usize| matches!(list.get(*place), Some(Ok(item)) if ops::equal(&item, wanted).unwrap_or(false));
    let mut places = 0..list.len();
    let place = if reverse { places.rev().find(is_wanted) } else { places.find(is_wanted) };
    Ok(Val::Int(place.and_then(|place| i64::try_from(place).ok()).unwrap_or(-1)))
}

pub(super) fn index_of<'a>(args: &[Val<'a>]) -> Result<'a> {
    found_at(args, false)
}

pub(super) fn last_index_of<'a>(args: &[Val<'a>]) -> Result<'a> {
    found_at(args, true)
}

fn includes<'a>(args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::List(list), wanted] => {
            let found =
                list.iter().any(|item| item.is_ok_and(|item| ops::equal(&item, wanted).unwrap_or(false)));
            Ok(Val::Bool(found))
        }
        [value, wanted] => Ok(Val::Bool(ops::equal(value, wanted).unwrap_or(false))),
        _ => Err(Failure::no_overload()),
    }
}

fn slice<'a>(args: &[Val<'a>]) -> Result<'a> {
    let [Val::List(list), Val::Int(start), Val::Int(end)] = args else { return Err(Failure::no_overload()) };
    let cannot = |why: &str| Failure::new(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(cannot("negative indexes not supported"));
    };
    if from > to {
        return Err(cannot("start index must be less than or equal to end index"));
    }
    if to > list.len() {
        return Err(cannot(&format!("list is length {}", list.len())));
    }
    let items: Result<'a, Vec<Val<'a>>> = list.iter().skip(from).take(to - from).collect();
    Ok(Val::list(items?))
}

fn flattened<'a>(list: &List<'a>, depth: i64) -> Result<'a> {
    if depth < 0 {
        return Err(Failure::new("level must be non-negative"));
    }
    let mut out = Vec::new();
    flatten_into(list, depth, &mut out)?;
    Ok(Val::list(out))
}

fn flatten_into<'a>(list: &List<'a>, depth: i64, out: &mut Vec<Val<'a>>) -> Result<'a, ()> {
    for item in list.iter() {
        match item? {
            Val::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, out)?,
            other => out.push(other),
        }
    }
    Ok(())
}

fn sorted<'a>(list: &List<'a>, keys: &List<'a>) -> Result<'a> {
    if list.len() != keys.len() {
        let (one, other) = (list.len(), keys.len());
        return Err(Failure::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {one} and \
             {other} elements respectively"
        )));
    }
    let keys = keys.to_vec()?;
    let Some(first) = keys.first() else { return Ok(Val::List(list.clone())) };
    if !ops::has_order(first) {
        return Err(Failure::new("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(Failure::new("list elements must have the same type"));
    }
    let mut pairs: Vec<(Val<'a>, Val<'a>)> = keys.into_iter().zip(list.to_vec()?).collect();
    pairs.sort_by(|one, other| ops::compare(&one.0, &other.0).unwrap_or(Ordering::Equal));
    Ok(Val::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

fn range<'a>(args: &[Val<'a>]) -> Result<'a> {
    let [Val::Int(count)] = args else { return Err(Failure::no_overload()) };
    if *count < 0 {
        return Err(Failure::new(format!("lists.range: size must be non-negative, got {count}")));
    }
    if *count > LONGEST_RANGE {
        return Err(Failure {
            cancelled: true,
            ..Failure::new("operation cancelled: actual cost limit exceeded")
        });
    }
    Ok(Val::list((0..*count).map(Val::Int).collect()))
}

fn distinct<'a>(args: &[Val<'a>]) -> Result<'a> {
    let [Val::List(list)] = args else { return Err(Failure::no_overload()) };
    let mut unique: Vec<Val<'a>> = Vec::new();
    for item in list.iter() {
        let item = item?;
        if !unique.iter().any(|known| ops::equal(&item, known).unwrap_or(false)) {
            unique.push(item);
        }
    }
    Ok(Val::list(unique))
}

fn sets<'a>(args: &[Val<'a>], test: fn(&[Val<'a>], &[Val<'a>]) -> bool) -> Result<'a> {
    let [Val::List(one), Val::List(other)] = args else { return Err(Failure::no_overload()) };
    Ok(Val::Bool(test(&one.to_vec()?, &other.to_vec()?)))
}

fn has<'a>(list: &[Val<'a>], wanted: &Val<'a>) -> bool {
    list.iter().any(|item| ops::equal(item, wanted).unwrap_or(false))
}

fn contains_all<'a>(list: &[Val<'a>], wanted: &[Val<'a>]) -> bool {
    wanted.iter().all(|item| has(list, item))
}

fn intersects<'a>(one: &[Val<'a>], other: &[Val<'a>]) -> bool {
    one.iter().any(|item| has(other, item))
}

/// A map with one more entry, or with all of another map.
pub(crate) fn insert<'a>(args: &[Val<'a>]) -> Result<'a> {
    let Some((Val::Map(Map::Made(entries)), rest)) = args.split_first() else {
        return Err(Failure::no_overload());
    };
    let mut entries = (**entries).clone();
    add_entries(&mut entries, rest)?;
    Ok(Val::Map(Map::Made(Arc::new(entries))))
}

pub(crate) fn add_entries<'a>(
    entries: &mut std::collections::BTreeMap<crate::cel::value::Key<'a>, (Val<'a>, Val<'a>)>,
    new: &[Val<'a>],
) -> Result<'a, ()> {
    let mut add = |key: &Val<'a>, value: Val<'a>| {
        let Some(place) = key.key() else {
            return Err(Failure::new(format!("unsupported key type: {}", key.type_name())));
        };
        if entries.contains_key(&place) {
            return Err(Failure::new(format!("insert failed: key {key} already exists")));
        }
        entries.insert(place, (key.clone(), value));
        Ok(())
    };
    match new {
        [key, value] => add(key, value.clone()),
        [Val::Map(map)] => {
            for key in map.keys() {
                if let Some(value) = map.find(&key) {
                    add(&key, value?)?;
                }
            }
            Ok(())
        }
        _ => Err(Failure::no_overload()),
    }
}

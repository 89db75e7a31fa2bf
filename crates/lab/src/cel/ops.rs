//! Comparing values and calculating with them.

use std::{cmp::Ordering, sync::Arc};

use serde_json::Value;

use super::{
    shape::{ListKind, ShapeKind},
    timestamps,
    value::{Failure, List, Map, Result, Timestamp, Val, whole},
};

/// True when two values are the same. Not all pairs of values can be compared.
pub(crate) fn equal<'a>(one: &Val<'a>, other: &Val<'a>) -> Result<'a, bool> {
    match (one, other) {
        (Val::Null, _) | (_, Val::Null) => Ok(matches!((one, other), (Val::Null, Val::Null))),
        _ => same(one, other),
    }
}

fn same<'a>(one: &Val<'a>, other: &Val<'a>) -> Result<'a, bool> {
    match (one, other) {
        (Val::Null, _) => Ok(matches!(other, Val::Null)),
        (Val::Bool(one), Val::Bool(other)) => Ok(one == other),
        (Val::Text(one), Val::Text(other)) => Ok(**one == **other),
        (Val::Bytes(one), Val::Bytes(other)) => Ok(one == other),
        (Val::Duration(one), Val::Duration(other)) => Ok(one == other),
        (Val::Timestamp(one), Val::Timestamp(other)) => Ok(one.moment == other.moment),
        (Val::Type(one), Val::Type(other)) => Ok(one == other),
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            Ok(numbers(one, other) == Some(Ordering::Equal))
        }
        (Val::Optional(one), Val::Optional(other)) => match (one, other) {
            (Some(one), Some(other)) => same(one, other),
            (None, None) => Ok(true),
            _ => Ok(false),
        },
        (Val::List(one), Val::List(other)) => lists(one, other),
        (Val::Map(one), Val::Map(other)) => maps(one, other),
        (Val::Ip(one), Val::Ip(other)) => Ok(one == other),
        (Val::Cidr(one, bits), Val::Cidr(other, other_bits)) => Ok(one == other && bits == other_bits),
        (Val::Url(one), Val::Url(other)) => Ok(one == other),
        (Val::Quantity(one), Val::Quantity(other)) => Ok(one.compare(other) == Ordering::Equal),
        (Val::Semver(one), Val::Semver(other)) => Ok(one.compare(other) == Ordering::Equal),
        (Val::Format(one), Val::Format(other)) => Ok(one.shown == other.shown),
        (Val::Record(name, fields), Val::Record(other_name, other_fields)) => {
            if name != other_name || !fields.keys().eq(other_fields.keys()) {
                return Ok(false);
            }
            for (field, other) in fields.values().zip(other_fields.values()) {
                if !equal(field, other)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Val::Host(one), Val::Host(other)) => Ok(Arc::ptr_eq(one, other)),
        (Val::Preserved(one), Val::Preserved(other)) => Ok(one == other),
        (Val::List(list), _) if list.is_typed() => Err(Failure::no_overload()),
        (Val::Map(map), _) if map.is_typed() => Err(Failure::no_overload()),
        (
            Val::Ip(_)
            | Val::Cidr(..)
            | Val::Url(_)
            | Val::Quantity(_)
            | Val::Semver(_)
            | Val::Format(_)
            | Val::Host(_),
            _,
        ) => Err(Failure::no_overload()),
        _ => Ok(false),
    }
}

fn lists<'a>(one: &List<'a>, other: &List<'a>) -> Result<'a, bool> {
    if one.len() != other.len() {
        return Ok(false);
    }
    match one {
        List::Json(_, shape, ListKind::Set) if !matches!(shape.kind, ShapeKind::Dynamic) => {
            let set = |list: &List<'a>| {
                let mut keys = list
                    .iter()
                    .map(|item| item.map(|item| item.literal()))
                    .collect::<Result<'a, Vec<_>>>()?;
                keys.sort();
                keys.dedup();
                Ok::<_, Failure>(keys)
            };
            Ok(set(one)? == set(other)?)
        }
        List::Json(items, _, ListKind::Map(keys)) => keyed_lists(one, items, keys, other),
        _ => {
            let typed = one.is_typed();
            for (left, right) in one.iter().zip(other.iter()) {
                let found =
                    if typed { same(&left?, &right?) } else { left.and_then(|left| equal(&left, &right?)) };
                match found {
                    Ok(true) => {}
                    Ok(false) => return Ok(false),
                    // Lists that were made do not mind what cannot be compared.
                    Err(_) if !typed => {}
                    Err(failure) => return Err(failure),
                }
            }
            Ok(true)
        }
    }
}

/// Lists whose items are found by their keys, in whatever order.
fn keyed_lists<'a>(one: &List<'a>, items: &[Value], keys: &[String], other: &List<'a>) -> Result<'a, bool> {
    let key = |field: &dyn Fn(&str) -> Option<String>| -> Vec<Option<String>> {
        keys.iter().map(|name| field(name)).collect()
    };
    let mut places = std::collections::HashMap::new();
    for (place, item) in items.iter().enumerate() {
        places.insert(key(&|name| item.get(name).map(Value::to_string)), place);
    }
    let mut seen = std::collections::HashSet::new();
    for right in other.iter() {
        let right = right?;
        let found = key(&|name| match &right {
            Val::Map(Map::Json(fields, _)) => fields.get(name).map(Value::to_string),
            Val::Map(map) => match map.field(name, None) {
                Some(Ok(Val::Text(text))) => Some(Value::from(&*text).to_string()),
                Some(Ok(value)) => Some(value.to_string()),
                _ => None,
            },
            _ => None,
        });
        let Some(left) = places.get(&found).and_then(|place| one.get(*place)) else { return Ok(false) };
        if !same(&left?, &right)? {
            return Ok(false);
        }
        seen.insert(found);
    }
    Ok(seen.len() == places.len())
}

fn maps<'a>(one: &Map<'a>, other: &Map<'a>) -> Result<'a, bool> {
    if one.len() != other.len() {
        return Ok(false);
    }
    if let Map::Json(fields, shape) = one
        && one.is_typed()
    {
        let known = |key: &str| match &shape.kind {
            ShapeKind::Record(fields) => fields.contains_key(key),
            kind => matches!(kind, ShapeKind::Map(_)),
        };
        for (key, value) in *fields {
            if known(key) {
                match (one.field(key, None), other.field(key, None)) {
                    (None, None) => {}
                    (Some(left), Some(right)) => {
                        if !same(&left?, &right?)? {
                            return Ok(false);
                        }
                    }
                    _ => return Ok(false),
                }
            } else {
                let Map::Json(other_fields, _) = other else { return Err(Failure::no_overload()) };
                if other_fields.get(key).is_some_and(|other| other != value) {
                    return Ok(false);
                }
            }
        }
        return Ok(true);
    }
    for key in one.keys() {
        let (Some(left), Some(right)) = (one.find(&key), other.find(&key)) else { return Ok(false) };
        if let Ok(false) = left.and_then(|left| equal(&left, &right?)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The order of two numbers of whatever types; none when one is not a number.
fn numbers(one: &Val<'_>, other: &Val<'_>) -> Option<Ordering> {
    match (one, other) {
        (Val::Int(one), Val::Int(other)) => Some(one.cmp(other)),
        (Val::Uint(one), Val::Uint(other)) => Some(one.cmp(other)),
        (Val::Int(one), Val::Uint(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (Val::Uint(one), Val::Int(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (Val::Double(one), Val::Double(other)) => one.partial_cmp(other),
        (Val::Double(one), _) => one.partial_cmp(&as_float(other)),
        (_, Val::Double(other)) => as_float(one).partial_cmp(other),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "that is how numbers of different types compare")]
fn as_float(number: &Val<'_>) -> f64 {
    match number {
        Val::Int(number) => *number as f64,
        Val::Uint(number) => *number as f64,
        Val::Double(number) => *number,
        _ => f64::NAN,
    }
}

/// The order of two values.
pub(crate) fn compare<'a>(one: &Val<'a>, other: &Val<'a>) -> Result<'a, Ordering> {
    match (one, other) {
        (Val::Bool(one), Val::Bool(other)) => Ok(one.cmp(other)),
        (Val::Text(one), Val::Text(other)) => Ok((**one).cmp(&**other)),
        (Val::Bytes(one), Val::Bytes(other)) => Ok(one.cmp(other)),
        (Val::Duration(one), Val::Duration(other)) => Ok(one.cmp(other)),
        (Val::Timestamp(one), Val::Timestamp(other)) => Ok(one.moment.cmp(&other.moment)),
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            numbers(one, other).ok_or_else(|| Failure::new("NaN values cannot be ordered"))
        }
        _ => Err(Failure::no_overload()),
    }
}

/// True for values that have an order among their kind.
pub(crate) fn has_order(value: &Val<'_>) -> bool {
    matches!(
        value,
        Val::Bool(_)
            | Val::Text(_)
            | Val::Bytes(_)
            | Val::Duration(_)
            | Val::Timestamp(_)
            | Val::Int(_)
            | Val::Uint(_)
            | Val::Double(_)
    )
}

fn overflow() -> Failure {
    Failure::new("integer overflow")
}

fn unsigned_overflow() -> Failure {
    Failure::new("unsigned integer overflow")
}

/// The sum of two values, or one behind the other.
pub(crate) fn add<'a>(one: &Val<'a>, other: &Val<'a>) -> Result<'a> {
    match (one, other) {
        (Val::Int(one), Val::Int(other)) => one.checked_add(*other).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(one), Val::Uint(other)) => {
            one.checked_add(*other).map(Val::Uint).ok_or_else(unsigned_overflow)
        }
        (Val::Double(one), Val::Double(other)) => Ok(Val::Double(one + other)),
        (Val::Text(one), Val::Text(other)) => {
            let mut text = String::with_capacity(one.len() + other.len());
            text.push_str(one);
            text.push_str(other);
            Ok(Val::text(text))
        }
        (Val::Bytes(one), Val::Bytes(other)) => Ok(Val::Bytes([&**one, &**other].concat().into())),
        (Val::Duration(one), Val::Duration(other)) => {
            one.checked_add(*other).map(Val::Duration).ok_or_else(overflow)
        }
        (Val::Timestamp(at), Val::Duration(nanos)) | (Val::Duration(nanos), Val::Timestamp(at)) => {
            timestamps::after(*at, i128::from(*nanos)).map(Val::Timestamp)
        }
        (Val::List(one), Val::List(other)) => append(one, other),
        _ => Err(Failure::no_overload()),
    }
}

/// One list behind another. Sets and lists that are maps keep what they have.
fn append<'a>(one: &List<'a>, other: &List<'a>) -> Result<'a> {
    let typed = one.is_typed();
    match one {
        List::Json(_, _, ListKind::Set) if typed => {
            let mut items = one.to_vec()?;
            let mut seen: std::collections::HashSet<String> = items.iter().map(Val::literal).collect();
            for item in other.iter() {
                let item = item?;
                if seen.insert(item.literal()) {
                    items.push(item);
                }
            }
            Ok(Val::list(items))
        }
        List::Json(_, _, ListKind::Map(keys)) if typed => {
            let key = |item: &Val<'a>| match item {
                Val::Map(map) => keys
                    .iter()
                    .map(|key| {
                        map.field(key, None).map(|value| {
                            value.map_or_else(|failure| failure.message, |value| value.literal())
                        })
                    })
                    .collect(),
                _ => Vec::new(),
            };
            let mut items = one.to_vec()?;
            let mut places: std::collections::HashMap<Vec<Option<String>>, usize> =
                items.iter().enumerate().map(|(place, item)| (key(item), place)).collect();
            for item in other.iter() {
                let item = item?;
                if let Some(place) = places.get(&key(&item)) {
                    items[*place] = item;
                } else {
                    places.insert(key(&item), items.len());
                    items.push(item);
                }
            }
            Ok(Val::list(items))
        }
        _ if !typed && one.is_empty() => Ok(Val::List(other.clone())),
        _ if !typed && other.is_empty() => Ok(Val::List(one.clone())),
        _ => {
            let mut items = one.to_vec()?;
            items.reserve(other.len());
            for item in other.iter() {
                items.push(item?);
            }
            Ok(Val::list(items))
        }
    }
}

/// The difference of two values.
pub(crate) fn subtract<'a>(one: &Val<'a>, other: &Val<'a>) -> Result<'a> {
    match (one, other) {
        (Val::Int(one), Val::Int(other)) => one.checked_sub(*other).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(one), Val::Uint(other)) => {
            one.checked_sub(*other).map(Val::Uint).ok_or_else(unsigned_overflow)
        }
        (Val::Double(one), Val::Double(other)) => Ok(Val::Double(one - other)),
        (Val::Duration(one), Val::Duration(other)) => {
            one.checked_sub(*other).map(Val::Duration).ok_or_else(overflow)
        }
        (Val::Timestamp(at), Val::Duration(nanos)) => {
            timestamps::after(*at, -i128::from(*nanos)).map(Val::Timestamp)
        }
        (Val::Timestamp(one), Val::Timestamp(other)) => between(*one, *other),
        _ => Err(Failure::no_overload()),
    }
}

fn between<'a>(one: Timestamp, other: Timestamp) -> Result<'a> {
    let nanos = one.moment.total_nanos() - other.moment.total_nanos();
    i64::try_from(nanos).map(Val::Duration).map_err(|_| overflow())
}

pub(crate) fn multiply<'a>(one: &Val<'a>, other: &Val<'a>) -> Result<'a> {
    match (one, other) {
        (Val::Int(one), Val::Int(other)) => one.checked_mul(*other).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(one), Val::Uint(other)) => {
            one.checked_mul(*other).map(Val::Uint).ok_or_else(unsigned_overflow)
        }
        (Val::Double(one), Val::Double(other)) => Ok(Val::Double(one * other)),
        _ => Err(Failure::no_overload()),
    }
}

pub(crate) fn divide<'a>(one: &Val<'a>, other: &Val<'a>) -> Result<'a> {
    match (one, other) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => Err(Failure::new("division by zero")),
        (Val::Int(one), Val::Int(other)) => one.checked_div(*other).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(one), Val::Uint(other)) => Ok(Val::Uint(one / other)),
        (Val::Double(one), Val::Double(other)) => Ok(Val::Double(one / other)),
        _ => Err(Failure::no_overload()),
    }
}

pub(crate) fn modulo<'a>(one: &Val<'a>, other: &Val<'a>) -> Result<'a> {
    match (one, other) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => Err(Failure::new("modulus by zero")),
        (Val::Int(one), Val::Int(other)) => one.checked_rem(*other).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(one), Val::Uint(other)) => Ok(Val::Uint(one % other)),
        _ => Err(Failure::no_overload()),
    }
}

pub(crate) fn negate<'a>(value: &Val<'a>) -> Result<'a> {
    match value {
        Val::Int(number) => number.checked_neg().map(Val::Int).ok_or_else(overflow),
        Val::Double(number) => Ok(Val::Double(-number)),
        Val::Duration(nanos) => nanos.checked_neg().map(Val::Duration).ok_or_else(overflow),
        _ => Err(Failure::no_overload()),
    }
}

/// True when a list has a value, or a map a key.
pub(crate) fn contains<'a>(value: &Val<'a>, within: &Val<'a>) -> Result<'a, bool> {
    match within {
        Val::List(list) => {
            let typed = list.is_typed();
            let mut failure = None;
            for item in list.iter() {
                // Which of the two is asked makes a difference where they cannot be compared.
                let found = if typed {
                    item.and_then(|item| same(&item, value))
                } else {
                    item.and_then(|item| same(value, &item))
                };
                match found {
                    Ok(true) => return Ok(true),
                    Err(found) if typed => failure = failure.or(Some(found)),
                    Ok(false) | Err(_) => {}
                }
            }
            failure.map_or(Ok(false), Err)
        }
        Val::Map(map) => match map.find(value) {
            Some(Err(failure)) => Err(failure),
            found => Ok(found.is_some()),
        },
        _ => Err(Failure::no_overload()),
    }
}

/// The place in a list a value means.
pub(crate) fn place<'a>(index: &Val<'a>) -> Result<'a, i64> {
    match index {
        Val::Int(place) => Ok(*place),
        Val::Uint(_) | Val::Double(_) => {
            let number = match index {
                Val::Uint(number) => Some(i128::from(*number)),
                Val::Double(number) => whole(*number),
                _ => None,
            };
            number
                .and_then(|number| i64::try_from(number).ok())
                .ok_or_else(|| Failure::new(format!("unsupported index value {index} in list")))
        }
        other => Err(Failure::new(format!("unsupported index type '{}' in list", other.type_name()))),
    }
}

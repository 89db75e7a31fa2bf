//! The functions of the language and of the server's libraries.

mod convert;
mod format;
mod lists;
mod net;
mod strings;

use super::{
    ast::op,
    ops, timestamps,
    value::{Failure, Result, Val},
};

pub(crate) use convert::convert;
pub(crate) use lists::add_entries;
pub(crate) use strings::find_all;

/// A function: from its arguments, the receiver first, to its value.
pub(crate) type Call = for<'a> fn(&[Val<'a>]) -> Result<'a>;

/// A function of the language, of texts, lists, and so on, by its name.
pub(crate) fn find(name: &str) -> Option<Call> {
    operator(name)
        .or_else(|| convert::find(name))
        .or_else(|| strings::find(name))
        .or_else(|| lists::find(name))
        .or_else(|| net::find(name))
        .or_else(|| time(name))
        .or_else(|| optional(name))
        .or_else(|| shared(name))
        .or_else(|| super::records::find(name))
}

fn operator(name: &str) -> Option<Call> {
    use std::cmp::Ordering;
    Some(match name {
        op::ADD => |args| binary(args, ops::add),
        op::SUBTRACT => |args| binary(args, ops::subtract),
        op::MULTIPLY => |args| binary(args, ops::multiply),
        op::DIVIDE => |args| binary(args, ops::divide),
        op::MODULO => |args| binary(args, ops::modulo),
        op::NEGATE => |args| match args {
            [value] => ops::negate(value),
            _ => Err(Failure::no_overload()),
        },
        op::NOT => |args| match args {
            [Val::Bool(flag)] => Ok(Val::Bool(!flag)),
            _ => Err(Failure::no_overload()),
        },
        op::LESS => |args| ordered(args, |order| order == Ordering::Less),
        op::LESS_EQUALS => |args| ordered(args, |order| order != Ordering::Greater),
        op::GREATER => |args| ordered(args, |order| order == Ordering::Greater),
        op::GREATER_EQUALS => |args| ordered(args, |order| order != Ordering::Less),
        op::IN => |args| match args {
            [value, within] => ops::contains(value, within).map(Val::Bool),
            _ => Err(Failure::no_overload()),
        },
        "size" => |args| match args {
            [value @ (Val::Text(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_))] => {
                Ok(Val::Int(i64::try_from(value.size()).unwrap_or(i64::MAX)))
            }
            _ => Err(Failure::no_overload()),
        },
        _ => return None,
    })
}

fn binary<'a>(args: &[Val<'a>], operation: fn(&Val<'a>, &Val<'a>) -> Result<'a>) -> Result<'a> {
    match args {
        [one, other] => operation(one, other),
        _ => Err(Failure::no_overload()),
    }
}

fn ordered<'a>(args: &[Val<'a>], test: fn(std::cmp::Ordering) -> bool) -> Result<'a> {
    match args {
        [one, other] => ops::compare(one, other).map(|order| Val::Bool(test(order))),
        _ => Err(Failure::no_overload()),
    }
}

/// Parts of moments and lengths of time.
fn time(name: &str) -> Option<Call> {
    macro_rules! part {
        ($name:literal) => {
            |args| match args {
                [Val::Timestamp(at)] => timestamps::part($name, *at, None),
                [Val::Timestamp(at), Val::Text(zone)] => timestamps::part($name, *at, Some(zone)),
                [Val::Duration(nanos)] => timestamps::duration_part($name, *nanos),
                _ => Err(Failure::no_overload()),
            }
        };
    }
    Some(match name {
        "getFullYear" => part!("getFullYear"),
        "getMonth" => part!("getMonth"),
        "getDayOfYear" => part!("getDayOfYear"),
        "getDate" => part!("getDate"),
        "getDayOfMonth" => part!("getDayOfMonth"),
        "getDayOfWeek" => part!("getDayOfWeek"),
        "getHours" => part!("getHours"),
        "getMinutes" => part!("getMinutes"),
        "getSeconds" => part!("getSeconds"),
        "getMilliseconds" => part!("getMilliseconds"),
        _ => return None,
    })
}

fn optional(name: &str) -> Option<Call> {
    Some(match name {
        "optional.none" => |_| Ok(Val::Optional(None)),
        "optional.of" => |args| match args {
            [value] => Ok(Val::some(value.clone())),
            _ => Err(Failure::no_overload()),
        },
        "optional.ofNonZeroValue" => |args| match args {
            [value] if is_zero(value) => Ok(Val::Optional(None)),
            [value] => Ok(Val::some(value.clone())),
            _ => Err(Failure::no_overload()),
        },
        "hasValue" => |args| match args {
            [Val::Optional(value)] => Ok(Val::Bool(value.is_some())),
            _ => Err(Failure::no_overload()),
        },
        "value" => |args| match args {
            [Val::Optional(Some(value))] => Ok((**value).clone()),
            [Val::Optional(None)] => Err(Failure::new("optional.none() dereference")),
            _ => Err(Failure::no_overload()),
        },
        "optional.unwrap" | "unwrapOpt" => |args| match args {
            [Val::List(list)] => {
                let mut items = Vec::new();
                for item in list.iter() {
                    match item? {
                        Val::Optional(Some(value)) => items.push((*value).clone()),
                        Val::Optional(None) => {}
                        other => {
                            let why = format!("value of type {} is not optional", other.type_name());
                            return Err(Failure::new(why));
                        }
                    }
                }
                Ok(Val::list(items))
            }
            _ => Err(Failure::no_overload()),
        },
        _ => return None,
    })
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null => true,
        Val::Bool(flag) => !flag,
        Val::Int(number) => *number == 0,
        Val::Uint(number) => *number == 0,
        Val::Double(number) => *number == 0.0,
        Val::Text(text) => text.is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::Duration(nanos) => *nanos == 0,
        // The zero of moments is the first day of the first year.
        Val::Timestamp(at) => at.moment.seconds == -62_135_596_800 && at.moment.nanos == 0,
        // Lists and maps of the object are never taken for zero.
        Val::List(list) => !list.is_typed() && list.is_empty(),
        Val::Map(map) => !map.is_typed() && map.is_empty(),
        Val::Optional(value) => value.is_none(),
        _ => false,
    }
}

/// Functions that several types have.
fn shared(name: &str) -> Option<Call> {
    Some(match name {
        "isGreaterThan" => |args| order_of(args).map(|order| Val::Bool(order.is_gt())),
        "isLessThan" => |args| order_of(args).map(|order| Val::Bool(order.is_lt())),
        "compareTo" => |args| order_of(args).map(|order| Val::Int(order as i64)),
        "indexOf" => |args| match args {
            [Val::Text(_), ..] => strings::index_of(args),
            _ => lists::index_of(args),
        },
        "lastIndexOf" => |args| match args {
            [Val::Text(_), ..] => strings::last_index_of(args),
            _ => lists::last_index_of(args),
        },
        "ip" => |args| match args {
            [Val::Cidr(address, _)] => Ok(Val::Ip(*address)),
            _ => net::ip(args),
        },
        _ => return None,
    })
}

fn order_of<'a>(args: &[Val<'a>]) -> Result<'a, std::cmp::Ordering> {
    match args {
        [Val::Quantity(one), Val::Quantity(other)] => Ok(one.compare(other)),
        [Val::Semver(one), Val::Semver(other)] => Ok(one.compare(other)),
        _ => Err(Failure::no_overload()),
    }
}

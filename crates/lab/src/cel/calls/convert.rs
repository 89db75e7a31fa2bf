//! From one type to another.

use std::sync::Arc;

use crate::{
    cel::{
        timestamps,
        value::{Failure, Result, Val, whole},
    },
    gotext, gotime,
};

use super::Call;

pub(super) fn find(name: &str) -> Option<Call> {
    macro_rules! conversion {
        ($name:literal) => {
            |args| match args {
                [value] => convert($name, value),
                _ => Err(Failure::no_overload()),
            }
        };
    }
    Some(match name {
        "bool" => conversion!("bool"),
        "bytes" => conversion!("bytes"),
        "double" => conversion!("double"),
        "duration" => conversion!("duration"),
        "int" => conversion!("int"),
        "string" => conversion!("string"),
        "timestamp" => conversion!("timestamp"),
        "uint" => conversion!("uint"),
        "type" => conversion!("type"),
        "dyn" => conversion!("dyn"),
        _ => return None,
    })
}

/// A value as one of another type.
pub(crate) fn convert<'a>(to: &str, value: &Val<'a>) -> Result<'a> {
    let overflow = || Failure::new("integer overflow");
    let unsigned_overflow = || Failure::new("unsigned integer overflow");
    match (to, value) {
        ("dyn", _)
        | ("bool", Val::Bool(_))
        | ("bytes", Val::Bytes(_))
        | ("double", Val::Double(_))
        | ("duration", Val::Duration(_))
        | ("int", Val::Int(_))
        | ("string", Val::Text(_))
        | ("timestamp", Val::Timestamp(_))
        | ("uint", Val::Uint(_)) => Ok(value.clone()),
        ("type", _) => Ok(Val::Type(value.type_name().into())),
        ("int", Val::Uint(number)) => i64::try_from(*number).map(Val::Int).map_err(|_| overflow()),
        ("int", Val::Double(number)) => truncated(*number)
            .filter(|_| number.abs() < 9_223_372_036_854_775_808.0)
            .and_then(|number| i64::try_from(number).ok())
            .map(Val::Int)
            .ok_or_else(overflow),
        ("int", Val::Duration(nanos)) => Ok(Val::Int(*nanos)),
        ("int", Val::Timestamp(at)) => Ok(Val::Int(at.moment.seconds)),
        ("uint", Val::Int(number)) => u64::try_from(*number).map(Val::Uint).map_err(|_| unsigned_overflow()),
        ("uint", Val::Double(number)) => truncated(*number)
            .filter(|_| *number >= 0.0)
            .and_then(|number| u64::try_from(number).ok())
            .map(Val::Uint)
            .ok_or_else(unsigned_overflow),
        ("double", Val::Int(number)) => Ok(Val::Double(as_double(*number))),
        #[expect(clippy::cast_precision_loss, reason = "as asked")]
        ("double", Val::Uint(number)) => Ok(Val::Double(*number as f64)),
        ("timestamp", Val::Int(seconds)) => timestamps::of_second(*seconds),
        ("string", _) => text(value).ok_or_else(|| no_form(to, value))?.map(Val::text),
        (_, Val::Text(text)) => of_text(to, text),
        _ => Err(no_form(to, value)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "as asked")]
fn as_double(number: i64) -> f64 {
    number as f64
}

fn truncated(number: f64) -> Option<i128> {
    whole(number.trunc())
}

fn no_form(to: &str, value: &Val<'_>) -> Failure {
    Failure::new(format!("no such overload: {to}({})", value.type_name()))
}

/// A value as text; none when it has no such form.
pub(super) fn text<'a>(value: &Val<'a>) -> Option<Result<'a, Arc<str>>> {
    Some(Ok(match value {
        Val::Text(text) => (**text).into(),
        Val::Bool(flag) => flag.to_string().into(),
        Val::Int(number) => number.to_string().into(),
        Val::Uint(number) => number.to_string().into(),
        Val::Double(number) => gotext::float(*number).into(),
        Val::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => return Some(Err(Failure::new("invalid UTF-8 in bytes, cannot convert to string"))),
        },
        Val::Duration(nanos) => timestamps::seconds_text(*nanos).into(),
        Val::Timestamp(at) => at.moment.zoned_text(at.offset).into(),
        Val::Type(name) => name.clone(),
        Val::Ip(address) => address.to_string().into(),
        Val::Cidr(address, bits) => format!("{address}/{bits}").into(),
        _ => return None,
    }))
}

fn of_text<'a>(to: &str, text: &str) -> Result<'a> {
    let signless =
        |text: &str| text.strip_prefix(['+', '-']).unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit());
    let (found, name) = match to {
        "int" => (text.parse().ok().filter(|_| signless(text)).map(Val::Int), "int"),
        "uint" => (text.parse().ok().filter(|_| !text.starts_with('+')).map(Val::Uint), "uint"),
        "double" => (float(text).map(Val::Double), "double"),
        "bool" => {
            let flag = match text {
                "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
                "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
                _ => None,
            };
            (flag.map(Val::Bool), "bool")
        }
        "bytes" => (Some(Val::Bytes(text.as_bytes().into())), "bytes"),
        "duration" => (gotime::parse_duration(text).ok().map(Val::Duration), "google.protobuf.Duration"),
        "timestamp" => match timestamps::of_text(text) {
            Some(found) => return found,
            None => (None, "google.protobuf.Timestamp"),
        },
        other => (None, other),
    };
    found.ok_or_else(|| Failure::new(format!("type conversion error from 'string' to '{name}'")))
}

/// Numbers as Go reads them: with underscores nowhere, and the infinite by name.
fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text).to_ascii_lowercase();
    if matches!(unsigned.as_str(), "inf" | "infinity") {
        return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    if unsigned == "nan" {
        return (text.len() == 3).then_some(f64::NAN);
    }
    if let Some(digits) = unsigned.strip_prefix("0x") {
        return hexadecimal(digits).map(|number| if text.starts_with('-') { -number } else { number });
    }
    let decimal = unsigned.bytes().all(|byte| byte.is_ascii_digit() || b".e+-".contains(&byte));
    text.parse::<f64>().ok().filter(|number| decimal && number.is_finite())
}

/// `1.8p3`: digits of base 16, and a power of two.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, power) = text.split_once('p')?;
    let power: i32 = power.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut number = 0.0;
    for digit in whole.chars() {
        number = number * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let mut scale = 1.0 / 16.0;
    for digit in fraction.chars() {
        number += f64::from(digit.to_digit(16)?) * scale;
        scale /= 16.0;
    }
    let number = number * 2.0_f64.powi(power);
    number.is_finite().then_some(number)
}

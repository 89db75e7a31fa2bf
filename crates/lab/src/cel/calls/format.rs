//! Values filled into a format.

use crate::cel::{
    interpolate::{Clause, interpolate},
    value::{Failure, Result, Val},
};

use super::{convert, strings::quoted};

/// Digits behind the point in lists and maps.
const PRECISION: usize = 6;

type Shown = std::result::Result<String, String>;

pub(super) fn format<'a>(args: &[Val<'a>]) -> Result<'a> {
    let [Val::Text(format), Val::List(values)] = args else { return Err(Failure::no_overload()) };
    let filled = interpolate(format, |index, clause| {
        let value = values.get(index).ok_or_else(|| format!("index {index} out of range"))?;
        let Some(clause) = clause else { return Ok(String::new()) };
        let value = value.map_err(|failure| failure.message)?;
        show(&value, clause).map_err(|why| format!("error during formatting: {why}"))
    });
    filled.map(Val::text).map_err(Failure::new)
}

fn show(value: &Val<'_>, clause: Clause) -> Shown {
    let unfit = || Err(clause.complaint(value.type_name()));
    match (clause, value) {
        (Clause::Text, _) => text(value).unwrap_or_else(unfit),
        (Clause::Decimal, Val::Int(_) | Val::Uint(_)) => Ok(value.to_string()),
        (Clause::Fixed(_) | Clause::Scientific(_), _) => match float(value) {
            Some(number) => Ok(match clause {
                Clause::Scientific(width) => scientific(number, width),
                Clause::Fixed(digits) => fixed(number, digits),
                _ => String::new(),
            }),
            None => unfit(),
        },
        (Clause::Binary, Val::Bool(flag)) => Ok(u8::from(*flag).to_string()),
        (Clause::Binary, Val::Int(number)) => Ok(signed(*number, |size| format!("{size:b}"))),
        (Clause::Binary, Val::Uint(number)) => Ok(format!("{number:b}")),
        (Clause::Octal, Val::Int(number)) => Ok(signed(*number, |size| format!("{size:o}"))),
        (Clause::Octal, Val::Uint(number)) => Ok(format!("{number:o}")),
        (Clause::Hex { upper }, _) => match hexadecimal(value) {
            Some(text) => Ok(if upper { text.to_uppercase() } else { text }),
            None => unfit(),
        },
        _ => unfit(),
    }
}

fn signed(number: i64, show: fn(u64) -> String) -> String {
    format!("{}{}", if number < 0 { "-" } else { "" }, show(number.unsigned_abs()))
}

fn hexadecimal(value: &Val<'_>) -> Option<String> {
    let bytes = crate::gotext::hex;
    Some(match value {
        Val::Int(number) => signed(*number, |size| format!("{size:x}")),
        Val::Uint(number) => format!("{number:x}"),
        Val::Text(text) => bytes(text.as_bytes()),
        Val::Bytes(value) => bytes(value),
        _ => return None,
    })
}

/// A value as text; none when it has no such form.
fn text(value: &Val<'_>) -> Option<Shown> {
    match value {
        Val::List(_) | Val::Map(_) => Some(part(value)),
        Val::Null => Some(Ok("null".to_owned())),
        Val::Ip(_) | Val::Cidr(..) => None,
        _ => convert::text(value).map(|shown| {
            shown.map(|text| text.to_string()).map_err(|failure| {
                format!("could not convert argument {} to string", quoted(&failure.message))
            })
        }),
    }
}

/// A value inside of a list or map.
fn part(value: &Val<'_>) -> Shown {
    match value {
        Val::Text(text) => Ok(quoted(text)),
        Val::Bytes(_) => Ok(format!("b{}", quoted(&text(value).unwrap_or_else(|| Ok(String::new()))?))),
        Val::Timestamp(at) => Ok(format!("timestamp({})", quoted(&at.moment.zoned_text(at.offset)))),
        Val::Duration(nanos) => {
            Ok(format!("duration({})", quoted(&crate::cel::timestamps::seconds_text(*nanos))))
        }
        Val::Double(number) if !number.is_finite() => {
            let sign = if *number > 0.0 { "+" } else { "" };
            let name =
                if number.is_nan() { "NaN".to_owned() } else { format!("{sign}{}", infinite(*number)) };
            Ok(quoted(&name))
        }
        Val::Double(number) => Ok(format!("{number:.PRECISION$}")),
        Val::List(list) => {
            let items: std::result::Result<Vec<String>, String> =
                list.iter().map(|item| part(&item.map_err(|failure| failure.message)?)).collect();
            Ok(format!("[{}]", items?.join(", ")))
        }
        Val::Map(map) => {
            let mut entries = Vec::with_capacity(map.len());
            for key in map.keys() {
                let shown_key = match &key {
                    Val::Text(_) | Val::Bool(_) | Val::Int(_) | Val::Uint(_) => part(&key)?,
                    other => {
                        return Err(format!(
                            "no formatting function for map key of type {}",
                            other.type_name()
                        ));
                    }
                };
                let Some(value) = map.find(&key) else {
                    return Err(format!("could not find key: {}", quoted(&key.to_string())));
                };
                entries.push((shown_key, part(&value.map_err(|failure| failure.message)?)?));
            }
            entries.sort();
            let entries: Vec<String> =
                entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            Ok(format!("{{{}}}", entries.join(", ")))
        }
        Val::Null | Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Type(_) => {
            text(value).unwrap_or_else(|| Ok(String::new()))
        }
        other => Err(format!("no formatting function for {}", other.type_name())),
    }
}

fn infinite(number: f64) -> &'static str {
    if number > 0.0 { "Inf" } else { "-Inf" }
}

/// A floating point number, or the name of one that is not finite.
fn float(value: &Val<'_>) -> Option<f64> {
    match value {
        Val::Double(number) => Some(*number),
        Val::Text(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn special(number: f64) -> Option<&'static str> {
    if number.is_nan() {
        return Some("NaN");
    }
    number.is_infinite().then_some(if number > 0.0 { "∞" } else { "-∞" })
}

/// With a point, and a comma between thousands.
fn fixed(number: f64, digits: u8) -> String {
    if let Some(name) = special(number) {
        return name.to_owned();
    }
    let plain = format!("{:.*}", usize::from(digits), number.abs());
    let (whole, fraction) =
        plain.split_once('.').map_or((plain.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut out = if number.is_sign_negative() { "-".to_owned() } else { String::new() };
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// As a number between one and ten and a power of ten, at least so wide.
fn scientific(number: f64, width: u8) -> String {
    let text = special(number).map_or_else(
        || {
            let plain = format!("{number:.PRECISION$e}");
            let (digits, power) = plain.split_once('e').unwrap_or((&plain, "0"));
            let (sign, power) = power.strip_prefix('-').map_or(("", power), |power| ("⁻", power));
            let raised: String = format!("{power:0>2}").chars().map(superscript).collect();
            format!("{digits}×10{sign}{raised}")
        },
        str::to_owned,
    );
    let missing = usize::from(width).saturating_sub(text.chars().count());
    format!("{}{text}", " ".repeat(missing))
}

fn superscript(digit: char) -> char {
    match digit {
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        other => other,
    }
}

//! Text as Go writes it: quoted strings, numbers and JSON.
//!
//! Messages of the API quote values in the notation of the server's own language, and clients and tests match on
//! them, so they are written the same way here.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// A string in double quotes, as `%q` writes it.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            printable if is_print(printable) => out.push(printable),
            other => {
                let code = u32::from(other);
                let _ = match code {
                    0..=0x7f => write!(out, "\\x{code:02x}"),
                    0x80..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push('"');
    out
}

/// Bytes as pairs of hexadecimal digits, as `%x` writes them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// True for letters, marks, numbers, punctuation, symbols and the ASCII space.
pub(crate) fn is_print(character: char) -> bool {
    if character.is_ascii() {
        return (' '..='~').contains(&character);
    }
    // The standard library knows the same categories but only tells through its escapes; the letter in front
    // keeps combining marks from being escaped.
    let mut text = String::from("a");
    text.push(character);
    text.escape_debug().nth(1) == Some(character) && text.escape_debug().count() == 2
}

/// A floating point number as `%v` writes it.
pub(crate) fn float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    if (-4..6).contains(&decimal_exponent(number)) { plain(number) } else { exponent_form(number) }
}

/// A floating point number as JSON encoding writes it.
pub(crate) fn json_float(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = exponent_form(number);
        // The encoder writes e-9 where the formatter writes e-09.
        return match text.split_once("e-0") {
            Some((mantissa, exponent)) => format!("{mantissa}e-{exponent}"),
            None => text,
        };
    }
    plain(number)
}

/// Digits without an exponent.
fn plain(number: f64) -> String {
    format!("{number}")
}

/// `1.5e+21`, with at least two digits of exponent.
fn exponent_form(number: f64) -> String {
    let text = format!("{number:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// The power of ten of the first digit.
fn decimal_exponent(number: f64) -> i32 {
    if number == 0.0 {
        return 0;
    }
    let text = format!("{number:e}");
    text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// A value as it is quoted in the message of a problem.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Number(number) if number.is_f64() => float(number.as_f64().unwrap_or_default()),
        other => json(other),
    }
}

/// JSON as Go encodes it: keys sorted, and the characters that matter in HTML escaped.
pub(crate) fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&json_number(number)),
        Value::String(text) => write_json_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (place, (key, item)) in fields.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_json_string(key, out);
                out.push(':');
                write_json(item, out);
            }
            out.push('}');
        }
    }
}

fn json_number(number: &Number) -> String {
    if number.is_f64() { json_float(number.as_f64().unwrap_or_default()) } else { number.to_string() }
}

/// A JSON string with its quotes.
pub(crate) fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\x1f' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_are_quoted_like_go_does() {
        assert_eq!(
            quote("a\"b\\c\n\x01é\u{301}\u{200b}\u{e000}"),
            "\"a\\\"b\\\\c\\n\\x01é\u{301}\\u200b\\ue000\""
        );
        assert_eq!(quote("\u{1f600}"), "\"\u{1f600}\"");
    }

    #[test]
    fn floats_are_written_like_go_does() {
        for (number, text, encoded) in [
            (1.0, "1", "1"),
            (1.5, "1.5", "1.5"),
            (1e20, "1e+20", "100000000000000000000"),
            (1e21, "1e+21", "1e+21"),
            (0.000_1, "0.0001", "0.0001"),
            (0.000_01, "1e-05", "0.00001"),
            (1.5e-7, "1.5e-07", "1.5e-7"),
            (1_234_567.0, "1.234567e+06", "1234567"),
        ] {
            assert_eq!((float(number).as_str(), json_float(number).as_str()), (text, encoded));
        }
    }

    #[test]
    fn json_escapes_what_html_would_read() {
        assert_eq!(json(&json!({"b": "<a>", "a": [1.0, null]})), r#"{"a":[1,null],"b":"\u003ca\u003e"}"#);
    }
}

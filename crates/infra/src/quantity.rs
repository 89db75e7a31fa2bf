//! Amounts of resources, as Kubernetes writes them.

use std::fmt::Write as _;

use serde_json::Value;

/// An amount in thousandths, read from a quantity such as `100m`, `2`, `1Gi` or `1e3`; nothing where it is none.
///
/// Thousandths are as exact as the API is; anything finer is rounded up, as there.
pub fn milli(text: &str) -> Option<i128> {
    let digits = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let scale: (i128, i128) = match suffix {
        "n" => (1, 1_000_000),
        "u" => (1, 1_000),
        "m" => (1, 1),
        "" => (1_000, 1),
        "k" => (1_000_000, 1),
        "M" => (1_000_000_000, 1),
        "G" => (1_000_000_000_000, 1),
        "T" => (1_000_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000_000, 1),
        "Ki" => (1_000 << 10, 1),
        "Mi" => (1_000 << 20, 1),
        "Gi" => (1_000 << 30, 1),
        "Ti" => (1_000 << 40, 1),
        "Pi" => (1_000 << 50, 1),
        "Ei" => (1_000 << 60, 1),
        _ => {
            let exponent: u32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (10_i128.checked_pow(exponent)?.checked_mul(1_000)?, 1)
        }
    };
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let parts: i128 = format!("{whole}{fraction}").parse().ok()?;
    let divisor = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?.checked_mul(scale.1)?;
    let scaled = parts.checked_mul(scale.0)?;
    let rounded = scaled / divisor + i128::from(scaled % divisor != 0);
    Some(if negative { -rounded } else { rounded })
}

/// An amount in whole units, rounded up; 0 where there is none.
pub fn whole(value: &Value) -> i128 {
    let milli = of(value);
    milli / 1_000 + i128::from(milli % 1_000 > 0)
}

/// An amount in thousandths from a JSON text or number; 0 where there is none.
pub fn of(value: &Value) -> i128 {
    match value {
        Value::String(text) => milli(text).unwrap_or_default(),
        Value::Number(number) => milli(&number.to_string()).unwrap_or_default(),
        _ => 0,
    }
}

/// A whole amount of bytes in the largest binary unit that is exact.
pub fn bytes(amount: i128) -> String {
    let units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (mut amount, mut unit) = (amount, 0);
    while amount != 0 && amount % 1024 == 0 && unit + 1 < units.len() {
        amount /= 1024;
        unit += 1;
    }
    format!("{amount}{}", units[unit])
}

/// An amount of processors from thousandths: `2` or `100m`.
pub fn cpu(milli: i128) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = if milli % 1_000 == 0 { write!(text, "{}", milli / 1_000) } else { write!(text, "{milli}m") };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_written() {
        for (text, expected) in [
            ("1", 1000),
            ("100m", 100),
            ("1.5", 1500),
            ("1Ki", 1_024_000),
            ("2e3", 2_000_000),
            ("-1", -1000),
            (".5", 500),
            ("1n", 1),
        ] {
            assert_eq!(milli(text), Some(expected), "{text}");
        }
        for text in ["", "Gi", "1x", "a", "."] {
            assert_eq!(milli(text), None, "{text}");
        }
        assert_eq!(bytes(3 << 30), "3Gi");
        assert_eq!(bytes(1500), "1500");
        assert_eq!((cpu(2000), cpu(150)), ("2".to_owned(), "150m".to_owned()));
    }
}

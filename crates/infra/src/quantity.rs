//! Amounts of resources, as Kubernetes writes them.

use std::fmt::Write as _;

use serde_json::Value;

/// The most an amount can be: no more is meant by anything larger, as in the API. Sums and products of such amounts stay
/// far within 128 bits, so that nobody who adds them has to mind.
const MOST_MILLI: i128 = 9_223_372_036_854_775_807_000;

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
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.saturating_pow(exponent.unsigned_abs());
            if exponent < 0 { (1_000, power) } else { (power.saturating_mul(1_000), 1) }
        }
    };
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    // More digits than this are beyond the most, or beyond what any unit makes a thousandth of.
    let fraction = &fraction[..fraction.len().min(15)];
    let rounded = match format!("0{whole}{fraction}").parse::<i128>() {
        Ok(parts) => {
            let divisor = 10_i128.saturating_pow(u32::try_from(fraction.len()).ok()?).saturating_mul(scale.1);
            let scaled = parts.saturating_mul(scale.0);
            scaled / divisor + i128::from(scaled % divisor != 0)
        }
        Err(_) => MOST_MILLI,
    };
    let rounded = rounded.min(MOST_MILLI);
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
            ("5e-1", 500),
            ("1e-400", 1),
        ] {
            assert_eq!(milli(text), Some(expected), "{text}");
        }
        for text in ["", "Gi", "1x", "a", ".", "1e", "1-2", "1.2.3"] {
            assert_eq!(milli(text), None, "{text}");
        }
        assert_eq!(bytes(3 << 30), "3Gi");
        assert_eq!(bytes(1500), "1500");
        assert_eq!((cpu(2000), cpu(150)), ("2".to_owned(), "150m".to_owned()));
    }

    #[test]
    fn nothing_is_more_than_the_most() {
        let most = i128::from(i64::MAX) * 1_000;
        let long = "9".repeat(300);
        for text in ["1e30", "1e400", "99999Ei", "10E", long.as_str()] {
            assert_eq!(milli(text), Some(most), "{text}");
            assert_eq!(milli(&format!("-{text}")), Some(-most), "{text}");
        }
        assert_eq!(milli(&format!("0.{long}")), Some(1_000));
        assert_eq!(milli(&format!("{}1", "0".repeat(300))), Some(1_000));
    }
}

//! What an unquoted YAML scalar means.

/// What an unquoted scalar is under the YAML 1.2 core schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainKind {
    /// Nothing: empty, `~` or `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number, in decimal, `0x` or `0o` notation.
    Integer,
    /// A number with a fraction or an exponent, or one of `.inf` and `.nan`.
    Float,
    /// Anything else.
    Text,
}

/// What an unquoted scalar means.
pub fn plain_kind(text: &str) -> PlainKind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => PlainKind::Null,
        "true" | "True" | "TRUE" => PlainKind::Boolean(true),
        "false" | "False" | "FALSE" => PlainKind::Boolean(false),
        _ if is_integer(text) => PlainKind::Integer,
        _ if is_float(text) => PlainKind::Float,
        _ => PlainKind::Text,
    }
}

/// The truth value that YAML 1.1 readers, kubectl among them, see in words that are text in YAML 1.2.
pub fn yaml_1_1_boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "on" | "y" => Some(true),
        "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

/// Whether a number is written with leading zeros: octal in YAML 1.1, decimal in YAML 1.2.
pub fn has_leading_zero(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    digits.len() > 1 && digits.starts_with('0') && all_digits(digits)
}

/// The value of a whole number, if it is one and fits.
pub fn integer_value(text: &str) -> Option<i128> {
    if !is_integer(text) {
        return None;
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return i128::from_str_radix(digits, 16).ok();
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return i128::from_str_radix(digits, 8).ok();
    }
    text.parse().ok()
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_integer(text: &str) -> bool {
    if let Some(digits) = text.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return !digits.is_empty() && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    }
    all_digits(text.strip_prefix(['-', '+']).unwrap_or(text))
}

fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let exponent_fits =
        exponent.is_none_or(|exponent| all_digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)));
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => all_digits(fraction),
        Some((whole, fraction)) => all_digits(whole) && (fraction.is_empty() || all_digits(fraction)),
        None => all_digits(mantissa),
    };
    exponent_fits && mantissa_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_schema_is_followed() {
        for text in ["", "~", "null", "Null", "NULL"] {
            assert_eq!(plain_kind(text), PlainKind::Null, "{text}");
        }
        for text in ["0", "-1", "+7", "0755", "0x1F", "0o17", "123456789012345678901234567890"] {
            assert_eq!(plain_kind(text), PlainKind::Integer, "{text}");
        }
        for text in ["1.", "1.20", ".5", "1e3", "-1.5E-3", ".inf", "-.INF", ".nan", "12e03"] {
            assert_eq!(plain_kind(text), PlainKind::Float, "{text}");
        }
        for text in [
            "1_000", "12:30:45", "1.2.3", "yes", "tRUE", "0xZZ", "0o8", "-", "+", ".", "e3", "1e", "-.nan",
            "-0x1",
        ] {
            assert_eq!(plain_kind(text), PlainKind::Text, "{text}");
        }
        assert_eq!(plain_kind("True"), PlainKind::Boolean(true));
        assert_eq!(plain_kind("FALSE"), PlainKind::Boolean(false));
    }

    #[test]
    fn whole_numbers_have_values() {
        assert_eq!(integer_value("0x10"), Some(16));
        assert_eq!(integer_value("0o17"), Some(15));
        assert_eq!(integer_value("-12"), Some(-12));
        assert_eq!(integer_value("+12"), Some(12));
        assert_eq!(integer_value("1.0"), None);
        assert_eq!(integer_value(&"9".repeat(60)), None, "too large for any field");
    }

    #[test]
    fn leading_zeros_are_seen() {
        assert!(has_leading_zero("0755") && has_leading_zero("-01") && has_leading_zero("00"));
        assert!(!has_leading_zero("0") && !has_leading_zero("0x1") && !has_leading_zero("0.5"));
    }

    #[test]
    fn the_old_booleans_are_known_in_any_case() {
        assert_eq!(yaml_1_1_boolean("Yes"), Some(true));
        assert_eq!(yaml_1_1_boolean("OFF"), Some(false));
        assert_eq!(yaml_1_1_boolean("true"), None);
    }
}

//! Amounts of resources in expressions.

use std::cmp::Ordering;

use crate::quantity::{Notation, Quantity};

/// An amount. Only those that fit 64 bits and a power of ten can be told to be whole.
#[derive(Debug, Clone)]
pub(crate) struct Amount {
    exact: Quantity,
    small: Option<Small>,
}

/// A number and a power of ten.
#[derive(Debug, Clone, Copy)]
struct Small {
    value: i64,
    scale: i32,
}

impl Small {
    fn times_power(self, power: i32) -> Option<i64> {
        let factor = 10_i64.checked_pow(u32::try_from(power).ok()?)?;
        self.value.checked_mul(factor)
    }

    fn plus(self, other: Self) -> Option<Self> {
        if other.value == 0 {
            return Some(self);
        }
        if self.value == 0 {
            return Some(other);
        }
        let scale = self.scale.min(other.scale);
        let value =
            self.times_power(self.scale - scale)?.checked_add(other.times_power(other.scale - scale)?)?;
        Some(Self { value, scale })
    }
}

impl Amount {
    /// Reads an amount; the error is the sentence about it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let exact: Quantity =
            text.parse().map_err(|error: crate::quantity::QuantityError| error.to_string())?;
        Ok(Self { exact, small: small(text) })
    }

    /// A whole number.
    pub(crate) fn of(value: i64) -> Self {
        Self { exact: Quantity::new(value, Notation::DecimalSi), small: Some(Small { value, scale: 0 }) }
    }

    /// The sum of two amounts, or the difference.
    pub(crate) fn combined(&self, other: &Self, subtract: bool) -> Self {
        let mut exact = self.exact.clone();
        let mut small = other.small;
        if subtract {
            exact.subtract(&other.exact);
            small = small.and_then(|small| Some(Small { value: small.value.checked_neg()?, ..small }));
        } else {
            exact.add(&other.exact);
        }
        Self { exact, small: self.small.and_then(|one| one.plus(small?)) }
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        self.exact.cmp(&other.exact)
    }

    pub(crate) fn sign(&self) -> i64 {
        i64::from(self.exact.is_positive()) - i64::from(self.exact.is_negative())
    }

    /// As a whole number, if it is known to be one.
    pub(crate) fn as_integer(&self) -> Option<i64> {
        let small = self.small?;
        if small.scale < 0 { None } else { small.times_power(small.scale) }
    }

    /// As a floating point number, more or less.
    #[expect(clippy::cast_precision_loss, reason = "as asked")]
    pub(crate) fn as_float(&self) -> f64 {
        match self.small {
            Some(Small { value, scale: 0 }) => value as f64,
            Some(Small { value, scale }) => value as f64 * 10_f64.powi(scale),
            None => self.exact.approximate(),
        }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.exact.fmt(formatter)
    }
}

/// An amount as 64 bits and a power of ten, where its text is short enough for that.
fn small(text: &str) -> Option<Small> {
    if text == "0" {
        return Some(Small { value: 0, scale: 0 });
    }
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|one: char| !one.is_ascii_digit() && one != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let length = |digits: &str| i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let digits = length(whole).saturating_add(length(fraction));
    let binary = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
        .iter()
        .position(|name| *name == suffix)
        .filter(|place| *place > 0);
    let (scale, precision, factor) = if let Some(place) = binary {
        let exponent = i32::try_from(place).ok()? * 10;
        if !fraction.is_empty() {
            return None;
        }
        (0, 15 - length(whole) - exponent * 3 / 10 - 1, 1_i64.checked_shl(u32::try_from(exponent).ok()?)?)
    } else {
        let exponent = match suffix {
            "n" => -9,
            "u" => -6,
            "m" => -3,
            "" => 0,
            "k" => 3,
            "M" => 6,
            "G" => 9,
            "T" => 12,
            "P" => 15,
            "E" => 18,
            other => other.strip_prefix(['e', 'E'])?.parse().ok()?,
        };
        (exponent, 18 - digits, 1)
    };
    let scale = scale - length(fraction);
    if precision < 0 || scale < -9 {
        return None;
    }
    let value = format!("{whole}{fraction}").parse::<i64>().ok()?.checked_mul(factor)?;
    Some(Small { value: if negative { -value } else { value }, scale })
}

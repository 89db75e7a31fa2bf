//! Resource quantities: `500m`, `1.5Gi`, `12e6`.
//!
//! A quantity is an exact decimal number that remembers the notation it came in, and is written in the canonical
//! form of that notation: no fraction, the largest suffix that loses nothing. The rules, with their corners (a
//! text that is canonical enough is kept as it is), are those clients see in stored objects.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use num_bigint::{BigInt, Sign};
use num_traits::{Signed, ToPrimitive, Zero};

/// The finest step of a quantity: whatever is finer is rounded up.
const NANO: i32 = -9;
/// The digits that surely fit 64 bits.
const SAFE_DIGITS: i32 = 18;
/// Beyond this many powers of ten between two numbers the smaller one makes no difference that anybody
/// could use; it is ignored rather than spelled out.
const WIDEST: i64 = 4096;

/// The most digits that are read: nobody means that many, and reading them takes its time.
const LONGEST: usize = 4096;

/// An amount of a resource.
#[derive(Debug, Clone)]
pub(crate) struct Quantity {
    /// The number is `unscaled * 10^exponent`.
    unscaled: BigInt,
    exponent: i32,
    notation: Notation,
    /// The text it came from, when that is written back as it is.
    text: Option<String>,
}

/// How a quantity is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    /// `12e6`.
    DecimalExponent,
    /// `12Mi`.
    BinarySi,
    /// `12M`.
    DecimalSi,
}

/// Why a text is not a quantity, in the words of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuantityError {
    /// The text has the wrong form.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number cannot be read.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The unit is not known.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The parts of a text: the sign, the digits around the point, and the unit.
struct Parts<'a> {
    negative: bool,
    /// Sign, digits and point as they were.
    number: &'a str,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let parts = split(text)?;
        let unit = Unit::read(parts.suffix).ok_or(QuantityError::Suffix)?;
        if let Some(quick) = quick(text, &parts, unit)? {
            return Ok(quick);
        }
        slow(&parts, unit)
    }
}

/// Takes a text apart.
fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let bytes = text.as_bytes();
    let run = |from: usize, keep: &dyn Fn(u8) -> bool| {
        bytes[from..].iter().position(|&byte| !keep(byte)).map_or(bytes.len(), |length| from + length)
    };
    let digit = |byte: u8| byte.is_ascii_digit();
    let negative = bytes.first() == Some(&b'-');
    let start = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let start = run(start, &|byte| byte == b'0');
    if start == bytes.len() {
        return Ok(Parts { negative, number: "0", whole: "0", fraction: "", suffix: "" });
    }
    let point = run(start, &digit);
    let whole = if point == start { "0" } else { &text[start..point] };
    let (fraction, end) = if bytes.get(point) == Some(&b'.') {
        let end = run(point + 1, &digit);
        (&text[point + 1..end], end)
    } else {
        ("", point)
    };
    let mut rest = run(end, &|byte| b"eEinumkKMGTP".contains(&byte));
    if rest < bytes.len() {
        rest += usize::from(matches!(bytes[rest], b'-' | b'+'));
        rest = run(rest, &digit);
    }
    if rest < bytes.len() {
        return Err(QuantityError::Format);
    }
    Ok(Parts { negative, number: &text[..end], whole, fraction, suffix: &text[end..] })
}

/// A unit: a power of two or of ten.
#[derive(Clone, Copy)]
struct Unit {
    exponent: i32,
    notation: Notation,
}

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Unit {
    fn read(suffix: &str) -> Option<Self> {
        if let Some(&(_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
            return Some(Self { exponent, notation: Notation::DecimalSi });
        }
        if let Some(&(_, exponent)) = BINARY.iter().find(|(name, _)| *name == suffix) {
            return Some(Self { exponent, notation: Notation::BinarySi });
        }
        let digits = suffix.strip_prefix(['e', 'E']).filter(|digits| !digits.is_empty())?;
        let exponent: i64 = digits.parse().ok()?;
        // The exponent of the real type has 32 bits, and takes what fits of a longer one.
        #[expect(clippy::cast_possible_truncation, reason = "see above")]
        let exponent = exponent as i32;
        Some(Self { exponent, notation: Notation::DecimalExponent })
    }
}

/// A number that fits 64 bits, whose text is kept when it is canonical already.
fn quick(text: &str, parts: &Parts<'_>, unit: Unit) -> Result<Option<Quantity>, QuantityError> {
    let length = |digits: &str| i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let digits = length(parts.whole).saturating_add(length(parts.fraction));
    let (scale, factor, room) = match unit.notation {
        Notation::DecimalExponent | Notation::DecimalSi => {
            (unit.exponent, 1_i64, SAFE_DIGITS.saturating_sub(digits))
        }
        Notation::BinarySi if parts.fraction.is_empty() => {
            // 2^10 takes about three digits.
            (0, 1_i64 << unit.exponent, 14_i32.saturating_sub(digits) - unit.exponent * 3 / 10)
        }
        Notation::BinarySi => return Ok(None),
    };
    let scale = scale.wrapping_sub(length(parts.fraction));
    if room < 0 || scale < NANO {
        return Ok(None);
    }
    let shifted = format!("{}{}", parts.whole, parts.fraction);
    let value: i64 = shifted.parse().map_err(|_| QuantityError::Number)?;
    let Some(result) = value.checked_mul(factor) else { return Ok(None) };
    let canonical = match unit.notation {
        Notation::BinarySi => value & 7 != 0,
        _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
    };
    Ok(Some(Quantity {
        unscaled: if parts.negative { -result } else { result }.into(),
        exponent: scale,
        notation: unit.notation,
        text: canonical.then(|| text.to_owned()),
    }))
}

/// Any number: rounded up to nano, and for binary units limited to 64 bits.
fn slow(parts: &Parts<'_>, unit: Unit) -> Result<Quantity, QuantityError> {
    let digits = parts.number.trim_start_matches(['+', '-']).replacen('.', "", 1);
    if digits.len() > LONGEST {
        return Err(QuantityError::Number);
    }
    let unscaled = BigInt::parse_bytes(digits.as_bytes(), 10).ok_or(QuantityError::Number)?;
    let fraction = i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
    let mut quantity =
        Quantity { unscaled, exponent: fraction.wrapping_neg(), notation: unit.notation, text: None };
    if unit.notation == Notation::BinarySi {
        quantity.unscaled <<= usize::try_from(unit.exponent).unwrap_or_default();
    } else {
        quantity.exponent = quantity.exponent.wrapping_add(unit.exponent);
    }
    quantity.round_up(NANO);
    if quantity.notation == Notation::BinarySi {
        let most = Quantity::new(i64::MAX, Notation::BinarySi);
        if quantity > most {
            quantity = most;
        } else if quantity.is_positive() && quantity < Quantity::new(1, Notation::DecimalSi) {
            quantity.notation = Notation::DecimalSi;
        }
    }
    if parts.negative {
        quantity.unscaled = -quantity.unscaled;
    }
    Ok(quantity)
}

impl Quantity {
    /// A whole number.
    pub(crate) fn new(value: i64, notation: Notation) -> Self {
        Self { unscaled: value.into(), exponent: 0, notation, text: None }
    }

    /// True for nothing at all.
    pub(crate) fn is_zero(&self) -> bool {
        self.unscaled.is_zero()
    }

    /// True for less than nothing.
    pub(crate) fn is_negative(&self) -> bool {
        self.unscaled.is_negative()
    }

    /// True for more than nothing.
    pub(crate) fn is_positive(&self) -> bool {
        self.unscaled.is_positive()
    }

    /// The number, as close as a floating point number comes.
    pub(crate) fn approximate(&self) -> f64 {
        self.unscaled.to_f64().unwrap_or(f64::NAN) * 10_f64.powi(self.exponent)
    }

    /// The next whole number away from zero, limited to 64 bits.
    pub(crate) fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// The next whole number of thousandths away from zero, limited to 64 bits.
    pub(crate) fn milli_value(&self) -> i64 {
        self.scaled(-3)
    }

    fn scaled(&self, exponent: i32) -> i64 {
        let mut rounded = self.clone();
        rounded.round_up(exponent);
        let over = i64::from(rounded.exponent) - i64::from(exponent);
        let most = if self.is_negative() { i64::MIN } else { i64::MAX };
        match u32::try_from(over) {
            // 64 bits have no more than 19 digits.
            Ok(over) if over < 20 => (rounded.unscaled * BigInt::from(10).pow(over)).to_i64().unwrap_or(most),
            _ if self.is_zero() => 0,
            _ => most,
        }
    }

    /// Rounds away from zero to a power of ten; says whether that changed nothing.
    pub(crate) fn round_up(&mut self, exponent: i32) -> bool {
        if self.exponent >= exponent {
            return true;
        }
        self.text = None;
        let drop = i64::from(exponent) - i64::from(self.exponent);
        let sign = self.unscaled.sign();
        if sign == Sign::NoSign {
            self.exponent = exponent;
            return true;
        }
        let step = BigInt::from(i8::from(sign == Sign::Plus) * 2 - 1);
        let digits = digits(&self.unscaled);
        self.exponent = exponent;
        if drop > digits {
            self.unscaled = step;
            return false;
        }
        let divisor = BigInt::from(10).pow(u32::try_from(drop).unwrap_or_default());
        let remainder = &self.unscaled % &divisor;
        self.unscaled /= divisor;
        if remainder.is_zero() {
            return true;
        }
        self.unscaled += step;
        false
    }

    /// Adds another amount. Zero takes over the notation of what is added to it.
    pub(crate) fn add(&mut self, other: &Self) {
        self.text = None;
        if self.is_zero() {
            self.notation = other.notation;
        }
        (self.unscaled, self.exponent) = combined(self, other, false);
    }

    /// Takes another amount away. Zero takes over the notation of what is taken from it.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.text = None;
        if self.is_zero() {
            self.notation = other.notation;
        }
        (self.unscaled, self.exponent) = combined(self, other, true);
    }
}

fn digits(number: &BigInt) -> i64 {
    // A bit more than log10(2) per bit is at most one digit too many, which no user of this minds.
    i64::try_from(number.bits()).unwrap_or(i64::MAX).saturating_mul(30103) / 100_000 + 1
}

/// The sum or difference.
fn combined(one: &Quantity, other: &Quantity, subtract: bool) -> (BigInt, i32) {
    let signed = if subtract { -&other.unscaled } else { other.unscaled.clone() };
    if signed.is_zero() {
        return (one.unscaled.clone(), one.exponent);
    }
    if one.unscaled.is_zero() {
        return (signed, other.exponent);
    }
    let apart = i64::from(one.exponent) - i64::from(other.exponent);
    let power = |apart: i64| BigInt::from(10).pow(u32::try_from(apart).unwrap_or_default());
    match apart {
        0..=WIDEST => (&one.unscaled * power(apart) + signed, other.exponent),
        _ if apart > WIDEST => (one.unscaled.clone(), one.exponent),
        _ if apart < -WIDEST => (signed, other.exponent),
        _ => (&one.unscaled + signed * power(-apart), one.exponent),
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let difference = combined(self, other, true).0;
        difference.cmp(&BigInt::zero())
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return formatter.write_str(text);
        }
        if self.is_zero() {
            return formatter.write_str("0");
        }
        let mut notation = self.notation;
        if notation == Notation::BinarySi {
            let small = Self::new(1024, Notation::DecimalSi);
            let mut whole = self.clone();
            let exact = whole.round_up(0);
            let magnitude = Self { unscaled: self.unscaled.abs(), ..self.clone() };
            if magnitude < small || !exact {
                notation = Notation::DecimalSi;
            } else {
                return write_binary(formatter, &whole);
            }
        }
        write_decimal(formatter, self, notation)
    }
}

fn write_binary(formatter: &mut fmt::Formatter<'_>, whole: &Quantity) -> fmt::Result {
    let over =
        u32::try_from(whole.exponent).unwrap_or_default().min(u32::try_from(WIDEST).unwrap_or_default());
    let mut number = &whole.unscaled * BigInt::from(10).pow(over);
    let mut times = 0;
    let unit = BigInt::from(1024);
    while (&number % &unit).is_zero() && !number.is_zero() {
        number /= &unit;
        times += 10;
    }
    let suffix = BINARY.iter().find(|(_, exponent)| *exponent == times).map_or("", |(name, _)| name);
    write!(formatter, "{number}{suffix}")
}

fn write_decimal(formatter: &mut fmt::Formatter<'_>, quantity: &Quantity, notation: Notation) -> fmt::Result {
    let mut number = quantity.unscaled.clone();
    let mut exponent = quantity.exponent;
    let ten = BigInt::from(10);
    while (&number % &ten).is_zero() {
        number /= &ten;
        exponent = exponent.wrapping_add(1);
    }
    while exponent % 3 != 0 {
        number *= &ten;
        exponent = exponent.wrapping_sub(1);
    }
    if notation == Notation::DecimalExponent {
        return if exponent == 0 {
            write!(formatter, "{number}")
        } else {
            write!(formatter, "{number}e{exponent}")
        };
    }
    // There is no unit above `E`; the real server writes none then, and so do we.
    let suffix = DECIMAL.iter().find(|(_, power)| *power == exponent).map_or("", |(name, _)| name);
    write!(formatter, "{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the real type makes of a text.
    const FACTS: &str = include_str!("../tests/facts/quantities.txt");

    #[test]
    fn texts_are_read_and_written_like_the_real_server_does() {
        for line in FACTS.lines() {
            let (text, expected) = line.split_once('\t').unwrap();
            let found = match text.parse::<Quantity>() {
                Ok(quantity) => quantity.to_string(),
                Err(problem) => format!("! {problem}"),
            };
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn amounts_are_added_exactly() {
        let of = |text: &str| text.parse::<Quantity>().unwrap();
        let mut sum = of("1Gi");
        sum.add(&of("500m"));
        assert_eq!(sum.to_string(), "1073741824500m");
        sum.subtract(&of("0.5"));
        assert_eq!(sum.to_string(), "1Gi");
        assert!(of("1e3") == of("1k") && of("1k") < of("1Ki") && of("-1") < of("1n"));
        assert!(of("1e2000000000") > of("9Ei"));
    }
}

//! Amounts with units: bytes and CPU time, written the way Kubernetes writes quantities.
//!
//! Two spellings of one amount (`2Gi`, `2048Mi`) are equal, hash alike and print alike.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a text is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not {1}")]
pub struct InvalidQuantity(pub String, pub &'static str);

/// Suffixes and their factor in thousandths of one.
const SUFFIXES: &[(&str, i128)] = &[
    ("Ki", 1_000 << 10),
    ("Mi", 1_000 << 20),
    ("Gi", 1_000 << 30),
    ("Ti", 1_000 << 40),
    ("Pi", 1_000 << 50),
    ("Ei", 1_000 << 60),
    ("m", 1),
    ("k", 1_000_000),
    ("M", 1_000_000_000),
    ("G", 1_000_000_000_000),
    ("T", 1_000_000_000_000_000),
    ("P", 1_000_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000_000),
];

/// Reads a non-negative Kubernetes quantity as thousandths, rounding up as Kubernetes does.
fn parse_thousandths(text: &str) -> Option<i128> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty())
        || fraction.contains('.')
        || whole.len() + fraction.len() > 24
    {
        return None;
    }
    let factor = if suffix.is_empty() {
        1_000
    } else if let Some((_, factor)) = SUFFIXES.iter().find(|(s, _)| *s == suffix) {
        *factor
    } else {
        let exponent: u32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
        1_000_i128.checked_mul(10_i128.checked_pow(exponent)?)?
    };
    let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let value = mantissa.checked_mul(factor)?;
    Some(value / scale + i128::from(value % scale != 0))
}

macro_rules! quantity_impls {
    ($ty:ident) => {
        impl TryFrom<String> for $ty {
            type Error = InvalidQuantity;
            fn try_from(text: String) -> Result<Self, InvalidQuantity> {
                text.parse()
            }
        }
        impl From<$ty> for String {
            fn from(amount: $ty) -> String {
                amount.to_string()
            }
        }
        impl schemars::JsonSchema for $ty {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($ty).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "x-trellis-text": true,
                    "pattern": "^[0-9]+(\\.[0-9]+)?([KMGTPE]i|[mkMGTPE]|[eE][0-9]+)?$"
                })
            }
        }
    };
}

/// A number of bytes: memory or disk.
///
/// ```
/// use trellis_model::quantity::Bytes;
///
/// let memory: Bytes = "2048Mi".parse()?;
/// assert_eq!(memory, Bytes::gibi(2));
/// assert_eq!(memory.to_string(), "2Gi");
/// # Ok::<(), trellis_model::quantity::InvalidQuantity>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bytes(u64);

quantity_impls!(Bytes);

impl Bytes {
    /// That many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// That many mebibytes.
    pub const fn mebi(n: u32) -> Self {
        Self((n as u64) << 20)
    }

    /// That many gibibytes.
    pub const fn gibi(n: u32) -> Self {
        Self((n as u64) << 30)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// This much divided by a percentage: how much is asked for when `percent` of it is promised.
    #[must_use]
    pub fn divided_by_percent(self, percent: u32) -> Self {
        Self(u64::try_from(u128::from(self.0) * 100 / u128::from(percent.max(1))).unwrap_or(u64::MAX))
    }
}

impl std::str::FromStr for Bytes {
    type Err = InvalidQuantity;
    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let invalid = || InvalidQuantity(text.to_owned(), "an amount of bytes such as 2Gi, 512Mi or 16G");
        let thousandths = parse_thousandths(text).ok_or_else(invalid)?;
        let bytes = thousandths / 1000 + i128::from(thousandths % 1000 != 0);
        u64::try_from(bytes).map(Self).map_err(|_| invalid())
    }
}

impl fmt::Display for Bytes {
    /// The shortest exact spelling; binary wins where both are equally short.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.0.to_string();
        let best = SUFFIXES
            .iter()
            .filter(|(suffix, _)| *suffix != "m")
            .filter_map(|(suffix, factor)| {
                let unit = u64::try_from(factor / 1000).ok()?;
                (self.0 != 0 && self.0.is_multiple_of(unit)).then(|| format!("{}{suffix}", self.0 / unit))
            })
            .min_by_key(String::len)
            .filter(|text| text.len() < plain.len())
            .unwrap_or(plain);
        f.write_str(&best)
    }
}

/// An amount of CPU, in thousandths of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MilliCpu(u64);

quantity_impls!(MilliCpu);

impl MilliCpu {
    /// That many thousandths.
    pub const fn new(thousandths: u64) -> Self {
        Self(thousandths)
    }

    /// That many whole CPUs.
    pub const fn whole(cpus: u32) -> Self {
        Self(cpus as u64 * 1000)
    }

    /// The number of thousandths.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether it is a whole number of CPUs.
    pub const fn is_whole(self) -> bool {
        self.0.is_multiple_of(1000)
    }

    /// The number of CPUs, rounded up.
    pub fn ceil(self) -> u32 {
        u32::try_from(self.0.div_ceil(1000)).unwrap_or(u32::MAX)
    }
}

impl std::str::FromStr for MilliCpu {
    type Err = InvalidQuantity;
    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        parse_thousandths(text)
            .and_then(|thousandths| u64::try_from(thousandths).ok())
            .map(Self)
            .ok_or_else(|| InvalidQuantity(text.to_owned(), "an amount of CPU such as 2, 500m or 1.5"))
    }
}

impl fmt::Display for MilliCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_whole() { write!(f, "{}", self.0 / 1000) } else { write!(f, "{}m", self.0) }
    }
}

/// A count or a share of the pool's replicas: `1` or `25%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "CountText", into = "CountText")]
pub enum Count {
    /// That many machines.
    Absolute(u32),
    /// That many hundredths of the replicas.
    Percent(u32),
}

/// How a [`Count`] stands in a document: a number, or a text that ends in `%`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum CountText {
    Number(u32),
    Text(String),
}

impl Count {
    /// How many machines this is of so many replicas. Surge rounds up, unavailability rounds down.
    pub fn of(self, replicas: u32, round_up: bool) -> u32 {
        match self {
            Self::Absolute(n) => n,
            Self::Percent(percent) => {
                let exact = u64::from(replicas) * u64::from(percent);
                let count = if round_up { exact.div_ceil(100) } else { exact / 100 };
                u32::try_from(count).unwrap_or(u32::MAX)
            }
        }
    }

    /// Whether it is nothing whatever the replicas are.
    pub fn is_zero(self) -> bool {
        matches!(self, Self::Absolute(0) | Self::Percent(0))
    }
}

impl std::str::FromStr for Count {
    type Err = InvalidQuantity;
    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let invalid = || InvalidQuantity(text.to_owned(), "a whole number or a percentage such as 25%");
        let bounded = |digits: &str| match digits.parse::<u32>() {
            Ok(n) if digits.bytes().all(|b| b.is_ascii_digit()) => Ok(n),
            _ => Err(invalid()),
        };
        match text.strip_suffix('%') {
            Some(percent) => bounded(percent).map(Self::Percent),
            None => bounded(text).map(Self::Absolute),
        }
    }
}

impl TryFrom<CountText> for Count {
    type Error = InvalidQuantity;
    fn try_from(text: CountText) -> Result<Self, InvalidQuantity> {
        match text {
            CountText::Number(n) => Ok(Self::Absolute(n)),
            CountText::Text(text) => text.parse(),
        }
    }
}

impl From<Count> for CountText {
    fn from(count: Count) -> Self {
        match count {
            Count::Absolute(n) => Self::Number(n),
            Count::Percent(_) => Self::Text(count.to_string()),
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absolute(n) => write!(f, "{n}"),
            Self::Percent(n) => write!(f, "{n}%"),
        }
    }
}

impl schemars::JsonSchema for Count {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Count".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "x-kubernetes-int-or-string": true, "pattern": "^[0-9]+%?$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(text: &str) -> u64 {
        text.parse::<Bytes>().unwrap().get()
    }

    #[test]
    fn kubernetes_spellings_are_read() {
        assert_eq!(bytes("2Gi"), 2 << 30);
        assert_eq!(bytes("2048Mi"), 2 << 30);
        assert_eq!(bytes("16G"), 16_000_000_000);
        assert_eq!(bytes("1.5Gi"), 3 << 29);
        assert_eq!(bytes("1e3"), 1000);
        assert_eq!(bytes("12E3"), 12_000);
        assert_eq!(bytes("2E"), 2_000_000_000_000_000_000);
        assert_eq!(bytes("100m"), 1);
        for bad in ["", "Gi", "2gi", "-1", "1.2.3", "2 Gi", "1e99", "99999999999999999999999Ei", "."] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad:?} should be refused");
        }
    }

    #[test]
    fn amounts_print_in_the_shortest_exact_form() {
        assert_eq!(Bytes::gibi(2).to_string(), "2Gi");
        assert_eq!(Bytes::new(16_000_000_000).to_string(), "16G");
        assert_eq!(Bytes::new(1500).to_string(), "1500");
        assert_eq!(Bytes::new(0).to_string(), "0");
        assert_eq!("1.5".parse::<MilliCpu>().unwrap().to_string(), "1500m");
        assert_eq!("2000m".parse::<MilliCpu>().unwrap().to_string(), "2");
    }

    #[test]
    fn counts_round_as_rollouts_do() {
        let quarter: Count = "25%".parse().unwrap();
        assert_eq!((quarter.of(3, true), quarter.of(3, false)), (1, 0));
        assert_eq!("2".parse::<Count>().unwrap(), Count::Absolute(2));
        for bad in ["", "%", "+1", "-1", "1.5", "x%"] {
            assert!(bad.parse::<Count>().is_err(), "{bad:?} should be refused");
        }
    }

    proptest! {
        #[test]
        fn printing_and_reading_is_the_identity(n in any::<u64>()) {
            prop_assert_eq!(Bytes::new(n).to_string().parse::<Bytes>().unwrap(), Bytes::new(n));
            prop_assert_eq!(MilliCpu::new(n).to_string().parse::<MilliCpu>().unwrap(), MilliCpu::new(n));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,30}") {
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<MilliCpu>();
            let _ = text.parse::<Count>();
        }
    }
}

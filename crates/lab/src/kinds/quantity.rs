//! How the rules of the kinds use quantities.

use serde_json::Value;

use crate::quantity::Notation;
pub(crate) use crate::quantity::Quantity;

/// What the rules need of quantities besides comparing them.
pub(crate) trait Amount: Sized {
    /// The quantity of a text; none when it is not one.
    fn parse(text: &str) -> Option<Self>;
    /// The quantity of a JSON value.
    fn of(value: &Value) -> Option<Self>;
    /// The quantity of a JSON value, nothing when it is missing.
    fn or_zero(value: &Value) -> Self;
    /// So many whole units.
    fn whole(units: i64) -> Self;
    /// Both together.
    #[must_use]
    fn plus(&self, other: &Self) -> Self;
    /// True without a fraction.
    fn is_whole(&self) -> bool;
}

impl Amount for Quantity {
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    fn or_zero(value: &Value) -> Self {
        Self::of(value).unwrap_or_else(|| Self::whole(0))
    }

    fn whole(units: i64) -> Self {
        Self::new(units, Notation::DecimalSi)
    }

    fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        sum.add(other);
        sum
    }

    fn is_whole(&self) -> bool {
        self.clone().round_up(0)
    }
}

//! Numbers as schemas and JSON know them.

use serde_json::{Number, Value};

use super::schema::View;
use crate::scalar::{PlainKind, integer_value, plain_kind};

/// A whole number as JSON, if JSON readers can hold it.
pub(super) fn integer_json(value: i128) -> Option<Value> {
    u64::try_from(value).map(Value::from).or_else(|_| i64::try_from(value).map(Value::from)).ok()
}

/// A number with a fraction as JSON, if it is finite.
pub(super) fn float_json(text: &str) -> Option<Value> {
    text.parse().ok().and_then(Number::from_f64).map(Value::Number)
}

/// An unquoted scalar as JSON by the rules of YAML alone.
pub(super) fn untyped_scalar(text: &str) -> Value {
    match plain_kind(text) {
        PlainKind::Null => Some(Value::Null),
        PlainKind::Boolean(truth) => Some(Value::Bool(truth)),
        PlainKind::Integer => integer_value(text).and_then(integer_json).or_else(|| float_json(text)),
        PlainKind::Float => float_json(text),
        PlainKind::Text => None,
    }
    .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// The smallest and the largest number a schema allows, as far as it says.
pub(super) struct Range {
    least: Option<f64>,
    most: Option<f64>,
    /// The exact limits of the integer type, which floating point cannot hold.
    whole: Option<(i128, i128)>,
}

impl Range {
    pub(super) fn of(view: &View<'_>) -> Self {
        let whole = match view.text("format") {
            Some("uint8") => Some((0, i128::from(u8::MAX))),
            Some("uint16") => Some((0, i128::from(u16::MAX))),
            Some("uint32") => Some((0, i128::from(u32::MAX))),
            Some("uint64" | "uint") => Some((0, i128::from(u64::MAX))),
            Some("int8") => Some((i128::from(i8::MIN), i128::from(i8::MAX))),
            Some("int16") => Some((i128::from(i16::MIN), i128::from(i16::MAX))),
            Some("int32") => Some((i128::from(i32::MIN), i128::from(i32::MAX))),
            Some("int64" | "int") => Some((i128::from(i64::MIN), i128::from(i64::MAX))),
            _ => None,
        };
        Self { least: view.number("minimum"), most: view.number("maximum"), whole }
    }

    pub(super) fn holds(&self, value: f64, exact: Option<i128>) -> bool {
        self.least.is_none_or(|least| value >= least)
            && self.most.is_none_or(|most| value <= most)
            && match (self.whole, exact) {
                (Some((least, most)), Some(exact)) => (least..=most).contains(&exact),
                _ => true,
            }
    }

    /// The rule in words that fit after "must be".
    pub(super) fn rule(&self) -> String {
        let least =
            self.least.map(|least| least.to_string()).or(self.whole.map(|(least, _)| least.to_string()));
        let most = self.most.map(|most| most.to_string()).or(self.whole.map(|(_, most)| most.to_string()));
        match (least, most) {
            (Some(least), Some(most)) => format!("between {least} and {most}"),
            (Some(least), None) => format!("at least {least}"),
            (None, Some(most)) => format!("at most {most}"),
            (None, None) => "smaller".to_owned(),
        }
    }
}

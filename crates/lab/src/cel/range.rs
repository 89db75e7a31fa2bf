//! Sizes and costs that are known to be within a range.

use std::ops::Add;

/// The least and the most something can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    /// The least.
    pub min: u64,
    /// The most; the largest number when nobody knows.
    pub max: u64,
}

impl Range {
    pub(crate) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };
    pub(crate) const ZERO: Self = Self { min: 0, max: 0 };
    /// What a union starts with.
    pub(crate) const NOTHING: Self = Self { min: u64::MAX, max: 0 };

    pub(crate) fn fixed(value: u64) -> Self {
        Self { min: value, max: value }
    }

    pub(crate) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Times a factor, rounded up.
    pub(crate) fn by(self, factor: f64) -> Self {
        Self { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl Add for Range {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }
}

/// The product, rounded up; conversions keep within the bounds of the type.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates"
)]
pub(crate) fn scaled(value: u64, factor: f64) -> u64 {
    (value as f64 * factor).ceil() as u64
}

//! Waiting longer and longer, and chance that a seed decides.

use std::time::Duration;

/// A source of chance that gives the same numbers for the same seed, so that a run can be repeated.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Chance of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Chance of a seed and a name, so that two users of one seed differ.
    pub fn named(seed: u64, name: &str) -> Self {
        Self(hash(seed, name.as_bytes()))
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A duration between `from` and `to`.
    pub fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let span = u64::try_from(to.saturating_sub(from).as_micros()).unwrap_or(u64::MAX);
        if span == 0 { from } else { from + Duration::from_micros(self.roll() % span) }
    }
}

/// Spreads the bits of a number over all of it.
fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// A number that is the same for the same bytes in every process and every version: what is shared out by it must not
/// move when a program is upgraded.
pub(crate) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = seed ^ 0xCBF2_9CE4_8422_2325;
    for byte in bytes {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    }
    mix(state)
}

/// How long to wait after a number of failures: doubling, with a cap, and up to half of it left to chance so that many
/// who failed together do not come back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub cap: Duration,
}

impl Backoff {
    /// The wait after this many failures in a row.
    pub fn after(&self, failures: u32, dice: &mut Dice) -> Duration {
        let doublings = failures.saturating_sub(1).min(30);
        let full = self.first.saturating_mul(1 << doublings).min(self.cap);
        dice.between(full / 2, full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap() {
        let backoff = Backoff { first: Duration::from_millis(10), cap: Duration::from_secs(1) };
        let mut dice = Dice::new(1);
        for (failures, full) in [(1, 10), (2, 20), (3, 40), (7, 640), (8, 1000), (1000, 1000)] {
            let wait = backoff.after(failures, &mut dice);
            let full = Duration::from_millis(full);
            assert!(wait >= full / 2 && wait <= full, "{failures}: {wait:?}");
        }
    }

    #[test]
    fn chance_is_the_seed_s() {
        let rolls = |seed| {
            let mut dice = Dice::named(seed, "x");
            [dice.roll(), dice.roll()]
        };
        assert_eq!(rolls(1), rolls(1));
        assert_ne!(rolls(1), rolls(2));
    }
}

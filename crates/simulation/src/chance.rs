//! Plans by chance: many faults, and trouble around the controllers.

use crate::explore;
use crate::plan::{Fault, Plan};
use crate::tap::Seen;
use crate::trouble::{self, Trouble};

/// A small generator of numbers: what it gives depends on its seed alone.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1))
    }

    /// A number below a bound; 0 where nothing is.
    pub fn below(&mut self, bound: usize) -> usize {
        // The finisher of splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(mixed % bound).unwrap_or_default()
    }
}

/// The plan of a number: up to five faults and up to three troubles.
pub fn plan(undisturbed: &Plan, points: &[Seen], number: u64) -> Plan {
    let mut dice = Dice::new(undisturbed.seed.wrapping_mul(1_000_003).wrapping_add(number));
    let mut plan = undisturbed.clone();
    let singles = explore::single(undisturbed, points);
    let faults = 1 + dice.below(5);
    for _ in 0..faults {
        let chosen: Option<&Fault> =
            singles.get(dice.below(singles.len())).and_then(|plan| plan.faults.first());
        // Only one thing goes wrong at a point.
        if let Some(fault) = chosen.filter(|fault| plan.faults.iter().all(|other| other.at != fault.at)) {
            plan.faults.push(fault.clone());
        }
    }
    for _ in 0..dice.below(4) {
        let kind = trouble::KINDS[dice.below(trouble::KINDS.len())];
        let trouble = Trouble { kind, from: 5 + dice.below(300), lasts: 10 + dice.below(600) };
        if !plan.troubles.iter().any(|other| other.split(':').next() == Some(kind.word())) {
            plan.troubles.push(trouble.to_string());
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_repeat_themselves_and_reach_everything() {
        let rolled = |seed| {
            (0..200).map(|_| ()).scan(Dice::new(seed), |dice, ()| Some(dice.below(6))).collect::<Vec<_>>()
        };
        assert_eq!(rolled(7), rolled(7));
        assert_ne!(rolled(7), rolled(8));
        assert!((0..6).all(|side| rolled(7).contains(&side)));
    }
}

//! Where chance comes from: the machine, or a seed that makes it repeatable.

use std::collections::HashMap;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};

/// A source of chance.
///
/// With a seed, what somebody gets depends on what it is for and on how often that was asked for, and on nothing else:
/// requests that overtake each other change nothing about the uids of objects.
#[derive(Debug)]
pub(crate) enum Chance {
    /// The machine's.
    Machine(Box<Mutex<StdRng>>),
    /// From a seed.
    Seeded {
        seed: u64,
        /// How often each purpose was asked for.
        asked: Mutex<HashMap<String, u64>>,
    },
}

impl Chance {
    /// Chance from a seed, or from the machine.
    pub(super) fn of(seed: Option<u64>) -> Self {
        match seed {
            Some(seed) => Self::Seeded { seed, asked: Mutex::default() },
            None => Self::Machine(Box::new(Mutex::new(StdRng::from_rng(&mut rand::rng())))),
        }
    }

    /// Some bytes for a purpose.
    pub(super) fn bytes(&self, purpose: &[&str]) -> [u8; 16] {
        let mut bytes = [0; 16];
        match self {
            Self::Machine(generator) => generator.lock().fill_bytes(&mut bytes),
            Self::Seeded { seed, asked } => {
                let purpose = purpose.join("\0");
                let mut asked = asked.lock();
                let count = asked.entry(purpose.clone()).or_default();
                let mut digest = Sha256::new();
                digest.update(seed.to_le_bytes());
                digest.update(count.to_le_bytes());
                digest.update(purpose);
                *count += 1;
                bytes.copy_from_slice(&digest.finalize()[..16]);
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_each_purpose_its_own_sequence() {
        let (one, same, other) = (Chance::of(Some(1)), Chance::of(Some(1)), Chance::of(Some(2)));
        let first = one.bytes(&["uid", "a"]);
        same.bytes(&["uid", "b"]);
        assert_eq!(same.bytes(&["uid", "a"]), first);
        assert_ne!(one.bytes(&["uid", "a"]), first);
        assert_ne!(other.bytes(&["uid", "a"]), first);
        let machine = Chance::of(None);
        assert_ne!(machine.bytes(&["x"]), machine.bytes(&["x"]));
    }
}

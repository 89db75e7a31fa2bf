//! Where chance comes from: the machine, or a seed that makes it repeatable.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

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
        /// The version of the store as the server began with it: a folder that is opened again is not given anew what
        /// is in it.
        origin: u64,
        /// How often each purpose was asked for, by the hash of its name: there is one for every object there ever was.
        asked: Mutex<HashMap<u64, u64>>,
        hashes: RandomState,
    },
}

impl Chance {
    /// Chance from a seed, or from the machine, for a server whose store has this version.
    pub(crate) fn of(seed: Option<u64>, origin: u64) -> Self {
        match seed {
            Some(seed) => Self::Seeded { seed, origin, asked: Mutex::default(), hashes: RandomState::new() },
            None => Self::Machine(Box::new(Mutex::new(StdRng::from_rng(&mut rand::rng())))),
        }
    }

    /// Some bytes for a purpose.
    pub(crate) fn bytes(&self, purpose: &[&str]) -> [u8; 16] {
        let mut bytes = [0; 16];
        match self {
            Self::Machine(generator) => generator.lock().fill_bytes(&mut bytes),
            Self::Seeded { seed, origin, asked, hashes } => {
                let purpose = purpose.join("\0");
                let mut asked = asked.lock();
                let count = asked.entry(hashes.hash_one(&purpose)).or_default();
                let mut digest = Sha256::new();
                digest.update(seed.to_le_bytes());
                digest.update(count.to_le_bytes());
                digest.update(purpose);
                if *origin > 0 {
                    digest.update(origin.to_le_bytes());
                }
                *count += 1;
                bytes.copy_from_slice(&digest.finalize()[..16]);
            }
        }
        bytes
    }

    /// A uid for a purpose.
    pub(crate) fn uid(&self, purpose: &[&str]) -> String {
        uuid(self.bytes(purpose))
    }

    /// A number from 0 to 1 for a purpose.
    pub(crate) fn fraction(&self, purpose: &[&str]) -> f64 {
        let [first, second, ..] = self.bytes(purpose);
        f64::from(u16::from_le_bytes([first, second])) / f64::from(u16::MAX)
    }
}

/// A random UUID of these bytes: version 4 of the variant everybody uses.
pub(crate) fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut uuid = String::with_capacity(36);
    for (place, byte) in bytes.into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            uuid.push('-');
        }
        for digit in [byte >> 4, byte & 0x0f] {
            uuid.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_each_purpose_its_own_sequence() {
        let of = |seed| Chance::of(Some(seed), 0);
        let (one, same, other) = (of(1), of(1), of(2));
        let first = one.bytes(&["uid", "a"]);
        same.bytes(&["uid", "b"]);
        assert_eq!(same.bytes(&["uid", "a"]), first);
        assert_ne!(one.bytes(&["uid", "a"]), first);
        assert_ne!(other.bytes(&["uid", "a"]), first);
        // What is opened again has other chances than it had before.
        assert_ne!(Chance::of(Some(1), 7).bytes(&["uid", "a"]), first);
        let machine = Chance::of(None, 0);
        assert_ne!(machine.bytes(&["x"]), machine.bytes(&["x"]));
    }

    #[test]
    fn uids_are_in_their_form() {
        assert_eq!(uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
    }
}

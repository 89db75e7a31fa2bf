//! What the server has seen since it started: who was served, who was refused and why.
//!
//! It is for whoever looks after the cluster, who cannot look into machines: it tells why one does not get on.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How many names are kept: whoever reaches the port can show any.
const MOST: usize = 100;
/// The longest name that is kept.
const LONGEST: usize = 63;

/// What the server has seen since it started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sightings {
    /// The machines that had their configuration, and when.
    pub served: BTreeMap<String, Timestamp>,
    /// Those that showed a token in vain, by the name they gave.
    pub refused: BTreeMap<String, Trouble>,
    /// Those that did not trust the certificate they were shown.
    pub distrusted: Option<Trouble>,
}

/// Something that went wrong, perhaps more than once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    /// What, the last time.
    pub why: String,
    /// How often.
    pub times: u32,
    /// When, the last time.
    pub last: Timestamp,
}

impl Trouble {
    fn again(last: Option<&Self>, why: String, now: Timestamp) -> Self {
        Self { why, times: last.map_or(0, |last| last.times).saturating_add(1), last: now }
    }
}

impl Sightings {
    pub(super) fn serve(&mut self, machine: &str, now: Timestamp) {
        self.refused.remove(machine);
        self.served.insert(machine.to_owned(), now);
    }

    pub(super) fn refuse(&mut self, machine: &str, why: String, now: Timestamp) {
        let known = self.refused.contains_key(machine);
        if !known && (self.refused.len() >= MOST || machine.len() > LONGEST) {
            return;
        }
        let trouble = Trouble::again(self.refused.get(machine), why, now);
        self.refused.insert(machine.to_owned(), trouble);
    }

    pub(super) fn distrust(&mut self, why: String, now: Timestamp) {
        self.distrusted = Some(Trouble::again(self.distrusted.as_ref(), why, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_end_with_success_and_are_bounded() {
        let now = Timestamp::UNIX_EPOCH;
        let mut seen = Sightings::default();
        seen.refuse("m0", "a".to_owned(), now);
        seen.refuse("m0", "b".to_owned(), now);
        assert_eq!(seen.refused["m0"], Trouble { why: "b".to_owned(), times: 2, last: now });
        seen.serve("m0", now);
        assert!(seen.refused.is_empty() && seen.served.contains_key("m0"));
        for number in 0..1000 {
            seen.refuse(&format!("x{number}"), "no".to_owned(), now);
        }
        seen.refuse(&"x".repeat(64), "no".to_owned(), now);
        assert_eq!(seen.refused.len(), MOST);
    }
}

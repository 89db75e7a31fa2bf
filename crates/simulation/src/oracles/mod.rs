//! What must hold in every run, whatever goes wrong: each rule has a name, and is a pure check over what happened.

mod end;
mod making;
mod removing;
mod rolling;

use std::time::Duration;

use crate::tap::{Line, Seen};
use crate::trace::{Change, State};

pub use end::{End, differences, end_of, left_over};

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// When.
    pub at: Duration,
    /// How.
    pub how: String,
}

/// A rule that is asked at every change: what is there after it, and what it was.
pub type Rule = fn(&State, &Change) -> Option<String>;

/// The rules that hold at every step, by name.
pub const RULES: [(&str, Rule); 11] = [
    ("secret-before-vm", making::secret_before_vm),
    ("isolation-before-vm", making::isolation_before_vm),
    ("finalizer-before-vm", making::finalizer_before_vm),
    ("one-vm-per-machine", making::one_vm_per_machine),
    ("surge", rolling::surge),
    ("availability", rolling::availability),
    ("drained-before-stop", removing::drained_before_stop),
    ("node-after-vm", removing::node_after_vm),
    ("finalizer-held", removing::finalizer_held),
    ("fencing", removing::fencing),
    ("proof-before-replacement", removing::proof_before_replacement),
];

/// Asks all rules at every change, and gives what is there in the end.
pub fn judge(changes: &[Change]) -> (State, Vec<Violation>) {
    let mut state = State::default();
    let mut found = Vec::new();
    for change in changes {
        state.apply(change);
        for (rule, check) in RULES {
            if let Some(how) = check(&state, change) {
                found.push(Violation { rule, at: change.at, how });
            }
        }
    }
    (state, found)
}

/// Every delete says which object of a name it means.
pub fn deletes_name_their_object(lines: &[(Duration, usize, Line)]) -> Vec<Violation> {
    let blind = lines.iter().filter_map(|(at, _, line)| match line {
        Line::Seen(Seen { blind: true, point, .. }) => Some((*at, point.to_string())),
        _ => None,
    });
    blind.map(|(at, how)| Violation { rule: "delete-by-uid", at, how }).collect()
}

/// The writes that controllers made between two moments. Leases are renewed for ever.
pub fn writes(lines: &[(Duration, usize, Line)], from: Duration, to: Duration) -> Vec<&Seen> {
    let seen = lines.iter().filter_map(|(at, _, line)| match line {
        Line::Seen(seen) if (from..to).contains(at) => Some(seen),
        _ => None,
    });
    seen.filter(|seen| seen.verb.is_some_and(crate::point::Verb::writes))
        .filter(|seen| !seen.point.what.contains(":leases/"))
        .collect()
}

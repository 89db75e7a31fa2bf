//! When machines that wait for their configuration are given new tokens.
//!
//! A token is good for a quarter of an hour, and a machine may wait longer than that for its image, for a host, or for
//! somebody who serves. Until it runs, its user data is written anew from time to time, so that it always starts with a
//! fresh token. One that runs has read its own; when that has ended unused, the machine gets a new one and starts again.

use jiff::{SignedDuration, Timestamp};
use trellis_bootstrap::tokens::LONGEST;

/// How old a token may be when its machine starts.
const FRESH: SignedDuration = SignedDuration::from_mins(5);
/// How long until it is asked again who was served.
const ASK_AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// A machine that has not joined yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its name.
    pub machine: String,
    /// Since when it runs.
    pub runs_since: Option<Timestamp>,
    /// When its token was made, as far as that is known.
    pub issued: Option<Timestamp>,
    /// Whether it has had its configuration, as far as that is known.
    pub served: Option<bool>,
    /// Whether it is one of the control plane.
    pub is_master: bool,
}

/// What is to be done for a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenStep {
    /// Write a new token into its user data.
    Renew(String),
    /// The same, and start it again.
    Restart(String),
}

/// What is to be done, and when to look again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenPlan {
    /// What is to be done now.
    pub steps: Vec<TokenStep>,
    /// When something will have to be done if nothing changes.
    pub wake: Option<Timestamp>,
}

/// Decides who needs a new token. Those that were made before `opened` are worth nothing to whoever serves.
pub fn plan(machines: &[Waiting], opened: Option<Timestamp>, now: Timestamp) -> TokenPlan {
    let mut plan = TokenPlan::default();
    for one in machines.iter().filter(|one| one.served != Some(true)) {
        let made = one.issued.or(one.runs_since);
        let due = match (one.runs_since, one.issued) {
            _ if made.zip(opened).is_some_and(|(made, opened)| made < opened) => Ok(now),
            (None, Some(issued)) => issued.checked_add(FRESH),
            (None, None) => Ok(now),
            // What was made after it started is for its next start, which is about to come.
            (Some(_), Some(issued)) => issued.checked_add(LONGEST),
            (Some(since), None) => since.checked_add(LONGEST),
        };
        let mut due = due.unwrap_or(now);
        if due <= now && one.runs_since.is_some() && one.is_master && one.served.is_none() {
            // It may be a member of etcd by now, and the others may need it.
            due = now.checked_add(ASK_AGAIN).unwrap_or(now);
        }
        if due > now {
            plan.wake = Some(plan.wake.map_or(due, |wake| wake.min(due)));
            continue;
        }
        let name = one.machine.clone();
        plan.steps.push(match one.runs_since {
            None => TokenStep::Renew(name),
            Some(_) => TokenStep::Restart(name),
        });
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + minutes * 60).unwrap()
    }

    fn plan_at(machines: &[Waiting], minutes: i64) -> TokenPlan {
        plan(machines, Some(at(0)), at(minutes))
    }

    fn one(runs_since: Option<i64>, issued: Option<i64>) -> Waiting {
        Waiting {
            machine: "m0".to_owned(),
            runs_since: runs_since.map(at),
            issued: issued.map(at),
            served: Some(false),
            is_master: true,
        }
    }

    #[test]
    fn a_machine_that_does_not_run_yet_always_has_a_fresh_token() {
        assert_eq!(plan_at(&[one(None, Some(0))], 4), TokenPlan { steps: Vec::new(), wake: Some(at(5)) });
        let renew = [TokenStep::Renew("m0".to_owned())];
        assert_eq!(plan_at(&[one(None, Some(0))], 5).steps, renew);
        assert_eq!(plan_at(&[one(None, None)], 0).steps, renew, "nobody knows how old it is");
    }

    #[test]
    fn a_machine_whose_token_ended_unused_starts_again() {
        assert_eq!(plan_at(&[one(Some(4), Some(0))], 14).wake, Some(at(15)));
        let restart = [TokenStep::Restart("m0".to_owned())];
        assert_eq!(plan_at(&[one(Some(4), Some(0))], 15).steps, restart);
        assert_eq!(plan_at(&[one(Some(4), Some(15))], 15).steps, [], "it was told to already");
        assert_eq!(plan_at(&[one(Some(4), None)], 19).steps, restart);
        let served = Waiting { served: Some(true), ..one(Some(4), Some(0)) };
        assert_eq!(plan_at(&[served], 60), TokenPlan::default());
    }

    #[test]
    fn a_master_that_may_have_been_served_is_not_started_again() {
        let unknown = |is_master| Waiting { served: None, is_master, ..one(Some(4), Some(0)) };
        assert_eq!(plan_at(&[unknown(true)], 15), TokenPlan { steps: Vec::new(), wake: Some(at(16)) });
        // For a worker it may be in vain, and does no harm.
        assert_eq!(plan_at(&[unknown(false)], 15).steps, [TokenStep::Restart("m0".to_owned())]);
        // One that does not run can be given a new token whatever is known.
        let waits = Waiting { served: None, ..one(None, Some(0)) };
        assert_eq!(plan_at(&[waits], 15).steps, [TokenStep::Renew("m0".to_owned())]);
    }

    #[test]
    fn a_token_that_nobody_accepts_any_more_is_replaced_at_once() {
        let early = plan(&[one(Some(4), Some(0)), one(Some(4), Some(6))], Some(at(5)), at(6));
        assert_eq!(early.steps, [TokenStep::Restart("m0".to_owned())]);
        // Whoever does not know when it was made knows when it was read.
        assert_eq!(plan(&[one(Some(4), None)], Some(at(5)), at(6)).steps.len(), 1);
        assert_eq!(plan(&[one(Some(5), None)], Some(at(5)), at(6)).steps.len(), 0);
    }

    #[test]
    fn the_first_to_be_due_wakes() {
        let plan = plan_at(&[one(Some(1), Some(0)), one(None, Some(2)), one(None, Some(0))], 5);
        assert_eq!((plan.steps.len(), plan.wake), (1, Some(at(7))));
    }
}

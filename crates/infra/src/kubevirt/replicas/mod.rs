//! Sets of equal machines: replica sets of instances, and pools of machines.

pub mod pools;
pub mod selector;
pub mod sets;

use serde_json::Value;

use crate::context::{Context, Tasks};
use crate::object::{Condition, Object as _, drop_condition};

/// How many machines are made or taken away at once.
const BURST: usize = 250;

/// Starts the controllers of sets.
pub fn start(context: &Context, tasks: &mut Tasks) {
    tasks.control(sets::Sets::new(context));
    tasks.control(pools::Pools::new(context));
}

/// How many machines a set wants.
fn wanted(set: &Value) -> usize {
    set.number("/spec/replicas").map_or(1, |count| usize::try_from(count).unwrap_or_default())
}

/// What a set is about to do, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// As many are to be made.
    Make(usize),
    /// As many are to be taken away.
    Take(usize),
    /// There are enough.
    Rest,
}

/// The next step of a set that has and wants so many.
fn step(has: usize, wants: usize) -> Step {
    match has.cmp(&wants) {
        std::cmp::Ordering::Less => Step::Make((wants - has).min(BURST)),
        std::cmp::Ordering::Greater => Step::Take((has - wants).min(BURST)),
        std::cmp::Ordering::Equal => Step::Rest,
    }
}

/// Puts numbers, selector and conditions into the status of a set, as it stands after a step that may have failed.
fn note(
    set: &mut Value,
    replicas: usize,
    ready: usize,
    failure: Option<(&str, &str)>,
    paused: (&str, &str),
    now: &str,
) {
    set.set("/status/labelSelector", selector::text(set.at("/spec/selector")).into());
    set.set("/status/replicas", replicas.into());
    set.set("/status/readyReplicas", ready.into());
    match failure {
        Some((reason, message)) => {
            Condition::new("ReplicaFailure", true, reason, message).put(set, now);
        }
        None => {
            drop_condition(set, "ReplicaFailure");
        }
    }
    if set.flag("/spec/paused") {
        Condition::new("ReplicaPaused", true, paused.0, paused.1).put(set, now);
    } else {
        drop_condition(set, "ReplicaPaused");
    }
    if set.list("/status/conditions").is_empty() {
        set.unset("/status/conditions");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sets_move_towards_what_they_want() {
        assert_eq!((step(0, 2), step(3, 2), step(2, 2)), (Step::Make(2), Step::Take(1), Step::Rest));
        assert_eq!(step(0, 1000), Step::Make(250));
        assert_eq!((wanted(&json!({})), wanted(&json!({"spec": {"replicas": 0}}))), (1, 0));
    }

    #[test]
    fn conditions_come_and_go() {
        let mut set = json!({"spec": {"paused": true, "selector": {"matchLabels": {"a": "b"}}}});
        note(&mut set, 2, 1, Some(("FailedCreate", "no")), ("Paused", "words"), "1");
        assert_eq!(set["status"]["labelSelector"], "a=b");
        assert!(set.condition_holds("ReplicaFailure") && set.condition_holds("ReplicaPaused"));
        set["spec"]["paused"] = false.into();
        note(&mut set, 2, 2, None, ("Paused", "words"), "2");
        assert_eq!(set["status"], json!({"labelSelector": "a=b", "replicas": 2, "readyReplicas": 2}));
    }
}

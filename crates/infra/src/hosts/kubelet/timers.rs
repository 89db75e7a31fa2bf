//! When the stages of a pod end.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::object::Object as _;
use crate::stages::{Effect, Outcome, Stages};

/// How often a stage that hangs is looked at.
const AGAIN: Duration = Duration::from_secs(5);

/// Where a pod is in a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Passing {
    /// It is over and well.
    Passed,
    /// It is over and failed.
    Failed(String),
    /// It is not over.
    Wait(Duration),
}

/// The stages that were begun, by uid, and by name and attempt.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    begun: Mutex<HashMap<String, Begun>>,
}

/// The stages of one pod by name and attempt: when they end, and how.
type Begun = HashMap<(&'static str, u64), (Instant, Outcome)>;

impl Timers {
    /// Where a pod is in a stage, which begins with the first question about it.
    pub(crate) fn passing(&self, stages: &Stages, stage: &'static str, pod: &Value, attempt: u64) -> Passing {
        let now = Instant::now();
        let mut begun = self.begun.lock();
        let stages_of_pod = begun.entry(pod.uid().to_owned()).or_default();
        let begin = || {
            let outcome = stages.outcome(stage, pod, attempt);
            (now + outcome.after, outcome)
        };
        let (due, outcome) = stages_of_pod.entry((stage, attempt)).or_insert_with(begin);
        if outcome.effect == Effect::Hang && stages.is_gone(outcome) {
            (*due, *outcome) = begin();
        }
        if *due > now {
            return Passing::Wait(*due - now);
        }
        match &outcome.effect {
            Effect::Pass => Passing::Passed,
            Effect::Fail(message) => Passing::Failed(message.clone()),
            Effect::Hang => Passing::Wait(AGAIN),
        }
    }

    /// How long ago a stage has begun; it begins now if it has not.
    pub(crate) fn since(&self, stage: &'static str, pod: &Value, attempt: u64) -> Duration {
        let now = Instant::now();
        let mut begun = self.begun.lock();
        let stages_of_pod = begun.entry(pod.uid().to_owned()).or_default();
        stages_of_pod.entry((stage, attempt)).or_insert_with(|| (now, Outcome::default())).0.elapsed()
    }

    /// Whether a stage has begun.
    pub(crate) fn has_begun(&self, stage: &'static str, uid: &str, attempt: u64) -> bool {
        self.begun.lock().get(uid).is_some_and(|begun| begun.contains_key(&(stage, attempt)))
    }

    /// Forgets everything about a pod.
    pub(crate) fn forget(&self, uid: &str) {
        self.begun.lock().remove(uid);
    }
}

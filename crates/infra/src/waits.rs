//! Waiting for what is below the API without holding up a controller.
//!
//! A look asks how far a piece of work is; the answer says when to ask again. Work that fails is begun anew, later and
//! later, as controllers do with what they put back into their queues. Work that hangs takes one of the times of its
//! rule and no more, and goes on when the rule is gone.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::stages::{Effect, Outcome, Stages};

/// How long the first failure is waited out; it doubles from there.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait after a failure.
const LONGEST: Duration = Duration::from_mins(5);
/// How often work that hangs is looked at.
const HANGING: Duration = Duration::from_secs(1);

/// How far a piece of work is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Waited {
    /// To be asked again after this long.
    NotYet(Duration),
    /// It is done, and stays so until it is forgotten.
    Passed,
    /// It failed with this message, which is told once.
    Failed(String),
}

#[derive(Debug)]
struct Work {
    due: Instant,
    outcome: Outcome,
}

#[derive(Debug, Default)]
struct Entry {
    attempt: u64,
    work: Option<Work>,
    /// Not begun again before this.
    not_before: Option<Instant>,
}

/// The work that is under way, by an id of the caller's.
#[derive(Debug)]
pub(crate) struct Waits {
    stages: Stages,
    entries: Mutex<HashMap<String, Entry>>,
}

impl Waits {
    /// No work yet.
    pub(crate) fn new(stages: &Stages) -> Self {
        Self { stages: stages.clone(), entries: Mutex::default() }
    }

    /// How long a piece of work has to rest after a failure, if it has to.
    pub(crate) fn resting(&self, id: &str) -> Option<Duration> {
        let at = self.entries.lock().get(id)?.not_before?;
        let left = at.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Whether a piece of work is under way.
    pub(crate) fn is_begun(&self, id: &str) -> bool {
        self.entries.lock().get(id).is_some_and(|entry| entry.work.is_some())
    }

    /// Whether a piece of work makes no progress because a rule lets it hang.
    pub(crate) fn is_hanging(&self, id: &str) -> bool {
        let entries = self.entries.lock();
        let work = entries.get(id).and_then(|entry| entry.work.as_ref());
        work.is_some_and(|work| work.outcome.effect == Effect::Hang)
    }

    /// Begins a stage for an object, or says how far it is.
    pub(crate) fn ask(&self, id: &str, stage: &str, object: &Value) -> Waited {
        if let Some(left) = self.resting(id) {
            return Waited::NotYet(left);
        }
        let now = Instant::now();
        let mut entries = self.entries.lock();
        let entry = entries.entry(id.to_owned()).or_default();
        let begin = || {
            let outcome = self.stages.outcome(stage, object, entry.attempt);
            Work { due: now + outcome.after, outcome }
        };
        let work = match entry.work.take() {
            Some(work) if work.outcome.effect == Effect::Hang && self.stages.is_gone(&work.outcome) => {
                begin()
            }
            Some(work) => work,
            None => begin(),
        };
        let left = work.due.saturating_duration_since(now);
        let waited = match &work.outcome.effect {
            Effect::Hang => Waited::NotYet(HANGING),
            _ if !left.is_zero() => Waited::NotYet(left),
            Effect::Pass => Waited::Passed,
            Effect::Fail(message) => {
                let message = message.clone();
                rest(entry, now);
                return Waited::Failed(message);
            }
        };
        entry.work = Some(work);
        waited
    }

    /// The work failed for a reason of the caller's: how long until it is begun again.
    pub(crate) fn fail(&self, id: &str) -> Duration {
        rest(self.entries.lock().entry(id.to_owned()).or_default(), Instant::now())
    }

    /// Begins a stage for an object, or says how far it is; what is passed is forgotten, and begun anew when it is asked
    /// for again.
    pub(crate) fn pass(&self, id: &str, stage: &str, object: &Value) -> Waited {
        let waited = self.ask(id, stage, object);
        if waited == Waited::Passed {
            self.forget(id);
        }
        waited
    }

    /// Forgets all work but that of these ids.
    pub(crate) fn keep(&self, is_kept: impl Fn(&str) -> bool) {
        self.entries.lock().retain(|id, _| is_kept(id));
    }

    /// Forgets a piece of work.
    pub(crate) fn forget(&self, id: &str) {
        self.entries.lock().remove(id);
    }
}

fn rest(entry: &mut Entry, now: Instant) -> Duration {
    let doubled = u32::try_from(entry.attempt).unwrap_or(u32::MAX);
    let wait = FIRST.saturating_mul(2_u32.saturating_pow(doubled)).min(LONGEST);
    entry.attempt += 1;
    entry.work = None;
    entry.not_before = Some(now + wait);
    wait
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stages::Profile;

    #[tokio::test(start_paused = true)]
    async fn work_fails_rests_hangs_and_passes() {
        let stages = Stages::new(Profile::Instant, 1);
        let waits = Waits::new(&stages);
        let object = json!({});
        stages.add(serde_json::from_value(json!({"name": "h", "stage": "s", "effect": "hang"})).unwrap());
        assert_eq!(waits.ask("a", "s", &object), Waited::NotYet(HANGING));
        stages.remove("h");
        stages.add(
            serde_json::from_value(json!({
                "name": "f", "stage": "s", "effect": {"fail": "no"}, "delay": {"min": 3.0}
            }))
            .unwrap(),
        );
        assert_eq!(waits.ask("a", "s", &object), Waited::NotYet(Duration::from_secs(3)));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(waits.ask("a", "s", &object), Waited::Failed("no".to_owned()));
        assert_eq!(waits.ask("a", "s", &object), Waited::NotYet(FIRST));
        stages.remove("f");
        tokio::time::advance(FIRST).await;
        assert_eq!(waits.ask("a", "s", &object), Waited::Passed);
        assert_eq!(waits.ask("a", "s", &object), Waited::Passed);
        assert_eq!(waits.fail("a"), FIRST * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_takes_one_of_the_times_of_a_rule() {
        let stages = Stages::new(Profile::Instant, 1);
        let waits = Waits::new(&stages);
        let rule = json!({"name": "h", "stage": "s", "effect": "hang", "times": 2});
        stages.add(serde_json::from_value(rule).unwrap());
        for _ in 0..5 {
            assert_eq!(waits.pass("a", "s", &json!({})), Waited::NotYet(HANGING));
            tokio::time::advance(HANGING).await;
        }
        assert_eq!(stages.added()[0].times, Some(1));
        // A rule about something else lets nothing go.
        stages.add(serde_json::from_value(json!({"name": "o", "stage": "o", "effect": "hang"})).unwrap());
        assert_eq!(waits.pass("a", "s", &json!({})), Waited::NotYet(HANGING));
        assert_eq!(stages.added()[0].times, Some(1));
        stages.remove("h");
        assert_eq!(waits.pass("a", "s", &json!({})), Waited::Passed);
        assert!(!waits.is_begun("a"));
        waits.ask("a", "s", &json!({}));
        waits.keep(|id| id != "a");
        assert!(!waits.is_begun("a"));
    }
}

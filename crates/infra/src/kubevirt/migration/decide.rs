//! What virt-controller does next for a migration.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{FINALIZER, is_final, pods};
use crate::object::Object as _;

/// How long a target pod may be without a host.
const UNSCHEDULABLE: Duration = Duration::from_mins(5);
/// How long a target pod may take in all.
const PENDING: Duration = Duration::from_mins(15);
/// How long to wait for room.
pub(super) const NO_ROOM: Duration = Duration::from_secs(5);

/// What the world looks like to one migration.
#[derive(Debug)]
pub(super) struct View<'v> {
    pub(super) migration: &'v Value,
    pub(super) vmi: Option<&'v Value>,
    /// The pod at the target.
    pub(super) pod: Option<&'v Value>,
    /// Whether another migration of the instance has to end first.
    pub(super) is_queued: bool,
    /// Whether the cluster and the host have room for one more.
    pub(super) has_room: bool,
    /// How long to wait after migrations that failed.
    pub(super) backoff: Option<Duration>,
    pub(super) now: Timestamp,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The migration is in another phase.
    Phase(&'static str),
    /// It failed, for a reason.
    Fail(&'static str, String),
    /// A pod at the target.
    MakePod,
    /// The pod at the target is of no use.
    DropPod,
    /// virt-handler takes over.
    HandOver,
    /// virt-handler has to stop.
    Abort,
    /// It is over: nothing holds it any more.
    Release,
    /// Not yet; `true` where the wait is for migrations that failed.
    Wait(Duration, bool),
    Nothing,
}

/// Whether virt-handler works on this migration.
fn is_handed_over(view: &View<'_>) -> bool {
    view.vmi.is_some_and(|vmi| vmi.text("/status/migrationState/migrationUid") == view.migration.uid())
}

/// The next step.
pub(super) fn next(view: &View<'_>) -> Step {
    let migration = view.migration;
    if is_final(migration) {
        return wind_up(view);
    }
    let Some(vmi) = view.vmi else {
        return fail("FailedMigration", "Migration failed because VMI does not exist.");
    };
    if vmi.is_over() || vmi.is_deleting() {
        return fail("FailedMigration", "Migration failed because VMI shutdown during migration.");
    }
    if is_handed_over(view) && vmi.flag("/status/migrationState/completed") {
        return ended(migration, vmi);
    }
    if migration.is_deleting() {
        return if !is_handed_over(view) {
            fail("FailedMigration", "Migration failed because it was canceled.")
        } else if vmi.flag("/status/migrationState/abortRequested") {
            Step::Nothing
        } else {
            Step::Abort
        };
    }
    if !matches!(migration.text("/status/phase"), "" | "Pending") {
        match view.pod {
            None => return fail("FailedMigration", "Migration failed because target pod does not exist"),
            Some(pod) if pod.is_over() || pod.is_deleting() => {
                return fail(
                    "FailedMigration",
                    "Migration failed because target pod shutdown during migration",
                );
            }
            Some(_) => {}
        }
    }
    let state = vmi.at("/status/migrationState");
    match (migration.text("/status/phase"), view.pod) {
        ("", _) => Step::Phase("Pending"),
        ("Pending", Some(_)) => Step::Phase("Scheduling"),
        ("Pending", None) => begin(view),
        ("Scheduling", Some(pod)) if pods::is_ready(pod) => Step::Phase("Scheduled"),
        ("Scheduling", Some(pod)) => late(pod, vmi, view.now),
        ("Scheduled", _) if !is_handed_over(view) => Step::HandOver,
        ("Scheduled", _) => Step::Phase("PreparingTarget"),
        ("PreparingTarget", _) if !state.text("/targetNodeAddress").is_empty() => Step::Phase("TargetReady"),
        ("TargetReady", _) if !state.text("/startTimestamp").is_empty() => Step::Phase("Running"),
        _ => Step::Nothing,
    }
}

fn fail(reason: &'static str, message: &str) -> Step {
    Step::Fail(reason, message.to_owned())
}

/// A migration virt-handler has ended goes through what is left of its phases, each written on its own.
fn ended(migration: &Value, vmi: &Value) -> Step {
    if vmi.flag("/status/migrationState/failed") {
        let why = vmi.text("/status/migrationState/failureReason");
        return Step::Fail("FailedMigration", format!("source node reported migration failed: {why}"));
    }
    match migration.text("/status/phase") {
        "Scheduled" => Step::Phase("PreparingTarget"),
        "PreparingTarget" => Step::Phase("TargetReady"),
        "TargetReady" => Step::Phase("Running"),
        _ => Step::Phase("Succeeded"),
    }
}

fn begin(view: &View<'_>) -> Step {
    if view.is_queued {
        return Step::Nothing;
    }
    if let Some(wait) = view.backoff {
        return Step::Wait(wait, true);
    }
    if view.has_room { Step::MakePod } else { Step::Wait(NO_ROOM, false) }
}

/// A target pod that is not there yet may be too late.
fn late(pod: &Value, vmi: &Value, now: Timestamp) -> Step {
    let made: Option<Timestamp> = pod.text("/metadata/creationTimestamp").parse().ok();
    let age = made.and_then(|made| Duration::try_from(now.duration_since(made)).ok()).unwrap_or_default();
    let scheduled = pod.condition("PodScheduled");
    let unfit = scheduled["status"] == "False" && scheduled["reason"] == "Unschedulable";
    let limit = if unfit { UNSCHEDULABLE } else { PENDING };
    if age >= limit {
        let what = if unfit { "is currently unschedulable" } else { "is not ready in time" };
        return Step::Fail(
            "migrationTargetPodUnschedulable",
            format!("Migration target pod for VMI [{}/{}] {what}.", vmi.namespace(), vmi.name()),
        );
    }
    Step::Wait(limit.saturating_sub(age), false)
}

/// What is left to do when a migration is over.
fn wind_up(view: &View<'_>) -> Step {
    let failed = view.migration.text("/status/phase") == "Failed";
    if failed && view.pod.is_some_and(|pod| !pod.is_deleting() && !pod.is_over()) {
        return Step::DropPod;
    }
    if view.migration.has_finalizer(FINALIZER) { Step::Release } else { Step::Nothing }
}

/// How long the next migration of an instance waits after `failures` in a row, the last of which ended at `ended`.
pub(super) fn backoff(failures: u32, ended: Timestamp, now: Timestamp) -> Option<Duration> {
    const FIRST: u64 = 20;
    const LONGEST: u64 = 300;
    let wait = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST);
    let passed = Duration::try_from(now.duration_since(ended)).unwrap_or_default();
    let left = Duration::from_secs(wait).checked_sub(passed)?;
    (failures > 0 && !left.is_zero()).then_some(left)
}

/// The migration in a phase, with when it got there.
pub(super) fn in_phase(migration: &Value, phase: &str, now: &str) -> Value {
    let mut new = migration.clone();
    new.set("/status/phase", phase.into());
    let entry = json!({"phase": phase, "phaseTransitionTimestamp": now});
    match new.pointer_mut("/status/phaseTransitionTimestamps").and_then(Value::as_array_mut) {
        Some(list) => list.push(entry),
        None => new.set("/status/phaseTransitionTimestamps", json!([entry])),
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:10:00Z".parse().unwrap()
    }

    fn migration(phase: &str) -> Value {
        json!({"metadata": {"uid": "mu", "finalizers": [FINALIZER]}, "status": {"phase": phase}})
    }

    fn vmi(state: &Value) -> Value {
        json!({"metadata": {"namespace": "n", "name": "m"}, "status": {"phase": "Running", "migrationState": state}})
    }

    fn pod(ready: bool) -> Value {
        json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:09:00Z"},
            "status": {"phase": if ready { "Running" } else { "Pending" }, "containerStatuses": [{"ready": ready}]},
        })
    }

    fn step(migration: &Value, vmi: Option<&Value>, pod: Option<&Value>) -> Step {
        let view = View { migration, vmi, pod, is_queued: false, has_room: true, backoff: None, now: now() };
        next(&view)
    }

    #[test]
    fn each_phase_has_its_cause() {
        let plain = vmi(&Value::Null);
        assert_eq!(step(&migration(""), Some(&plain), None), Step::Phase("Pending"));
        assert_eq!(step(&migration("Pending"), Some(&plain), None), Step::MakePod);
        assert_eq!(step(&migration("Pending"), Some(&plain), Some(&pod(false))), Step::Phase("Scheduling"));
        assert!(matches!(step(&migration("Scheduling"), Some(&plain), Some(&pod(false))), Step::Wait(..)));
        assert_eq!(step(&migration("Scheduling"), Some(&plain), Some(&pod(true))), Step::Phase("Scheduled"));
        assert_eq!(step(&migration("Scheduled"), Some(&plain), Some(&pod(true))), Step::HandOver);
        let mut state = json!({"migrationUid": "mu", "targetNode": "b"});
        let taken = vmi(&state);
        assert_eq!(
            step(&migration("Scheduled"), Some(&taken), Some(&pod(true))),
            Step::Phase("PreparingTarget")
        );
        assert_eq!(step(&migration("PreparingTarget"), Some(&taken), Some(&pod(true))), Step::Nothing);
        state["targetNodeAddress"] = "10.0.0.1".into();
        let prepared = vmi(&state);
        assert_eq!(
            step(&migration("PreparingTarget"), Some(&prepared), Some(&pod(true))),
            Step::Phase("TargetReady")
        );
        assert_eq!(step(&migration("TargetReady"), Some(&prepared), Some(&pod(true))), Step::Nothing);
        state["startTimestamp"] = "t".into();
        let started = vmi(&state);
        assert_eq!(step(&migration("TargetReady"), Some(&started), Some(&pod(true))), Step::Phase("Running"));
        assert_eq!(step(&migration("Running"), Some(&started), Some(&pod(true))), Step::Nothing);
        state["completed"] = true.into();
        let done = vmi(&state);
        assert_eq!(step(&migration("TargetReady"), Some(&done), Some(&pod(true))), Step::Phase("Running"));
        assert_eq!(step(&migration("Running"), Some(&done), Some(&pod(true))), Step::Phase("Succeeded"));
        state["failed"] = true.into();
        assert!(matches!(step(&migration("Running"), Some(&vmi(&state)), Some(&pod(true))), Step::Fail(..)));
        assert_eq!(step(&migration("Succeeded"), Some(&done), Some(&pod(true))), Step::Release);
    }

    #[test]
    fn a_migration_fails_with_what_it_needs() {
        assert!(matches!(step(&migration("Pending"), None, None), Step::Fail(..)));
        let plain = vmi(&Value::Null);
        assert!(matches!(step(&migration("Scheduling"), Some(&plain), None), Step::Fail(..)));
        let mut late = pod(false);
        late.set("/metadata/creationTimestamp", "2026-01-01T00:04:00Z".into());
        assert!(matches!(step(&migration("Scheduling"), Some(&plain), Some(&late)), Step::Wait(..)));
        late["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        let Step::Fail(reason, _) = step(&migration("Scheduling"), Some(&plain), Some(&late)) else {
            panic!()
        };
        assert_eq!(reason, "migrationTargetPodUnschedulable");
        assert_eq!(step(&migration("Failed"), Some(&plain), Some(&pod(true))), Step::DropPod);
        assert_eq!(step(&migration("Failed"), Some(&plain), None), Step::Release);
    }

    #[test]
    fn deletion_aborts() {
        let mut deleted = migration("Running");
        deleted.set("/metadata/deletionTimestamp", "t".into());
        let state = json!({"migrationUid": "mu", "startTimestamp": "t"});
        assert_eq!(step(&deleted, Some(&vmi(&state)), Some(&pod(true))), Step::Abort);
        let mut asked = state;
        asked["abortRequested"] = true.into();
        assert_eq!(step(&deleted, Some(&vmi(&asked)), Some(&pod(true))), Step::Nothing);
        deleted.set("/status/phase", "Scheduling".into());
        assert!(matches!(step(&deleted, Some(&vmi(&Value::Null)), Some(&pod(false))), Step::Fail(..)));
    }

    #[test]
    fn room_and_failures_make_it_wait() {
        let plain = vmi(&Value::Null);
        let waiting = migration("Pending");
        let mut view = View {
            migration: &waiting,
            vmi: Some(&plain),
            pod: None,
            is_queued: false,
            has_room: false,
            backoff: None,
            now: now(),
        };
        assert_eq!(next(&view), Step::Wait(NO_ROOM, false));
        view.backoff = Some(Duration::from_secs(7));
        assert_eq!(next(&view), Step::Wait(Duration::from_secs(7), true));
        view.is_queued = true;
        assert_eq!(next(&view), Step::Nothing);
        let ended: Timestamp = "2026-01-01T00:09:50Z".parse().unwrap();
        assert_eq!(backoff(0, ended, now()), None);
        assert_eq!(backoff(1, ended, now()), Some(Duration::from_secs(10)));
        assert_eq!(backoff(3, ended, now()), Some(Duration::from_secs(70)));
        assert_eq!(backoff(30, ended, now()), Some(Duration::from_secs(290)));
    }
}

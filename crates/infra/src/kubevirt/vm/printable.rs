//! The one word people see a machine by.

use std::sync::Arc;

use serde_json::Value;

use super::strategy::Strategy;
use crate::kubevirt::instance::{is_final, is_migrating, is_unprocessed, phase};
use crate::object::Object as _;

/// A volume of a machine: the data volume and the claim of a name, as far as they are there.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    /// The data volume.
    pub volume: Option<Arc<Value>>,
    /// The claim.
    pub claim: Option<Arc<Value>>,
}

/// What the word depends on.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// The machine, with the status it is about to have.
    pub vm: &'a Value,
    /// Its instance.
    pub vmi: Option<&'a Value>,
    /// Its volumes.
    pub disks: &'a [Disk],
    /// Its run strategy.
    pub strategy: Strategy,
}

/// The word and what it takes to be the one.
type Row = (&'static str, fn(&Sight<'_>) -> bool);

/// The words in order: the first that holds is the one.
const ROWS: &[Row] = &[
    ("Terminating", |seen| seen.vm.is_deleting()),
    ("Stopping", |seen| seen.vmi.is_some_and(|vmi| !is_final(vmi) && vmi.is_deleting())),
    ("Migrating", |seen| seen.vmi.is_some_and(|vmi| !is_final(vmi) && is_migrating(vmi))),
    ("Paused", |seen| seen.vmi.is_some_and(|vmi| phase(vmi) == "Running" && vmi.condition_holds("Paused"))),
    ("Running", |seen| seen.vmi.is_some_and(|vmi| phase(vmi) == "Running")),
    ("ErrorPvcNotFound", |seen| seen.is_not_synchronized_for("FailedPvcNotFound")),
    ("DataVolumeError", |seen| seen.volumes().any(is_broken)),
    ("ErrorUnschedulable", |seen| {
        seen.vmi.is_some_and(|vmi| {
            let scheduled = vmi.condition("PodScheduled");
            scheduled["status"] == "False" && scheduled["reason"] == "Unschedulable"
        })
    }),
    ("Provisioning", |seen| seen.volumes().any(is_filling)),
    ("WaitingForVolumeBinding", |seen| seen.is_to_run() && seen.disks.iter().any(is_unbound)),
    ("ErrImagePull", |seen| seen.is_not_synchronized_for("ErrImagePull")),
    ("ImagePullBackOff", |seen| seen.is_not_synchronized_for("ImagePullBackOff")),
    ("Starting", |seen| {
        seen.vmi.is_some_and(|vmi| is_unprocessed(vmi) || matches!(phase(vmi), "Scheduling" | "Scheduled"))
    }),
    ("CrashLoopBackOff", |seen| {
        seen.vmi.is_none_or(is_final)
            && seen.is_to_run()
            && seen.vm.number("/status/startFailure/consecutiveFailCount").is_some_and(|count| count > 0)
    }),
    ("Stopped", |seen| seen.vmi.is_none_or(is_final)),
    ("WaitingForReceiver", |seen| {
        seen.strategy == Strategy::WaitAsReceiver
            && seen.vmi.is_some_and(|vmi| phase(vmi) == "WaitingForSync")
    }),
];

impl Sight<'_> {
    /// The word for `status.printableStatus`.
    pub fn word(&self) -> &'static str {
        ROWS.iter().find(|(_, holds)| holds(self)).map_or("Unknown", |(word, _)| word)
    }

    fn is_not_synchronized_for(&self, reason: &str) -> bool {
        self.vmi.is_some_and(|vmi| {
            let synchronized = vmi.condition("Synchronized");
            synchronized["status"] == "False" && synchronized["reason"] == reason
        })
    }

    fn volumes(&self) -> impl Iterator<Item = &Value> {
        self.disks.iter().filter_map(|disk| disk.volume.as_deref())
    }

    /// Whether there is to be a running instance.
    fn is_to_run(&self) -> bool {
        self.strategy.is_to_run(self.vm, self.vmi)
    }
}

/// Whether something went wrong with filling a volume.
fn is_broken(volume: &Value) -> bool {
    let running = volume.condition("Running");
    volume.text("/status/phase") == "Failed"
        || (running["status"] == "False"
            && matches!(running.text("/reason"), "Error" | "ImagePullFailed" | "ErrImagePull"))
}

/// Whether a volume is being filled.
fn is_filling(volume: &Value) -> bool {
    match volume.text("/status/phase") {
        "Succeeded" | "PendingPopulation" => false,
        "WaitForFirstConsumer" => volume.condition_holds("Bound"),
        _ => true,
    }
}

fn is_unbound(disk: &Disk) -> bool {
    disk.claim.as_ref().is_some_and(|claim| claim.text("/status/phase") != "Bound")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn word(vm: &Value, vmi: Option<&Value>, disks: &[Disk]) -> &'static str {
        Sight { vm, vmi, disks, strategy: Strategy::of(vm) }.word()
    }

    fn always() -> Value {
        json!({"spec": {"runStrategy": "Always"}})
    }

    fn vmi(phase: &str) -> Value {
        json!({"metadata": {}, "status": {"phase": phase}})
    }

    fn unsynchronized(reason: &str) -> Value {
        let conditions = json!([{"type": "Synchronized", "status": "False", "reason": reason}]);
        json!({"status": {"phase": "Pending", "conditions": conditions}})
    }

    fn volume(status: &Value) -> Disk {
        Disk { volume: Some(Arc::new(json!({"status": status}))), claim: None }
    }

    fn claim(phase: &str) -> Disk {
        Disk { volume: None, claim: Some(Arc::new(json!({"status": {"phase": phase}}))) }
    }

    #[test]
    fn what_goes_is_terminating_or_stopping() {
        let gone = json!({"metadata": {"deletionTimestamp": "1"}});
        assert_eq!(word(&gone, Some(&vmi("Running")), &[]), "Terminating");
        let mut stopping = vmi("Running");
        stopping.set("/metadata/deletionTimestamp", "1".into());
        assert_eq!(word(&always(), Some(&stopping), &[]), "Stopping");
        stopping.set("/status/phase", "Succeeded".into());
        assert_eq!(word(&always(), Some(&stopping), &[]), "Stopped");
    }

    #[test]
    fn what_runs_is_migrating_paused_or_running() {
        let mut running = vmi("Running");
        assert_eq!(word(&always(), Some(&running), &[]), "Running");
        running.set("/status/conditions", json!([{"type": "Paused", "status": "True"}]));
        assert_eq!(word(&always(), Some(&running), &[]), "Paused");
        running.set("/status/migrationState", json!({"targetNode": "n"}));
        assert_eq!(word(&always(), Some(&running), &[]), "Migrating");
        running.set("/status/migrationState/completed", true.into());
        assert_eq!(word(&always(), Some(&running), &[]), "Paused");
    }

    #[test]
    fn what_cannot_start_says_why() {
        assert_eq!(word(&always(), Some(&unsynchronized("FailedPvcNotFound")), &[]), "ErrorPvcNotFound");
        assert_eq!(word(&always(), Some(&unsynchronized("ErrImagePull")), &[]), "ErrImagePull");
        assert_eq!(word(&always(), Some(&unsynchronized("ImagePullBackOff")), &[]), "ImagePullBackOff");
        let mut unfit = vmi("Scheduling");
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        unfit.set("/status/conditions", json!([condition]));
        assert_eq!(word(&always(), Some(&unfit), &[]), "ErrorUnschedulable");
        assert_eq!(word(&always(), None, &[volume(&json!({"phase": "Failed"}))]), "DataVolumeError");
        let broken = json!({"phase": "ImportInProgress", "conditions": [
            {"type": "Running", "status": "False", "reason": "Error"},
        ]});
        assert_eq!(word(&always(), None, &[volume(&broken)]), "DataVolumeError");
    }

    #[test]
    fn volumes_are_filled_and_bound_before_the_start() {
        assert_eq!(word(&always(), None, &[volume(&json!({}))]), "Provisioning");
        assert_eq!(word(&always(), None, &[volume(&json!({"phase": "ImportInProgress"}))]), "Provisioning");
        let bound =
            json!({"phase": "WaitForFirstConsumer", "conditions": [{"type": "Bound", "status": "True"}]});
        assert_eq!(word(&always(), None, &[volume(&bound)]), "Provisioning");
        let waiting = [volume(&json!({"phase": "WaitForFirstConsumer"})), claim("Pending")];
        assert_eq!(word(&always(), Some(&vmi("Pending")), &waiting), "WaitingForVolumeBinding");
        let pending = [volume(&json!({"phase": "PendingPopulation"})), claim("Pending")];
        assert_eq!(word(&always(), None, &pending), "WaitingForVolumeBinding");
        assert_eq!(word(&json!({"spec": {"runStrategy": "Halted"}}), None, &pending), "Stopped");
        let ready = [volume(&json!({"phase": "Succeeded"})), claim("Bound")];
        assert_eq!(word(&always(), Some(&vmi("Scheduling")), &ready), "Starting");
    }

    #[test]
    fn what_is_not_there_starts_crashes_or_is_stopped() {
        for phase in ["", "Pending", "Scheduling", "Scheduled"] {
            assert_eq!(word(&always(), Some(&vmi(phase)), &[]), "Starting");
        }
        assert_eq!(word(&always(), None, &[]), "Stopped");
        let mut failing = always();
        failing.set("/status/startFailure", json!({"consecutiveFailCount": 2}));
        assert_eq!(word(&failing, None, &[]), "CrashLoopBackOff");
        assert_eq!(word(&failing, Some(&vmi("Failed")), &[]), "CrashLoopBackOff");
        failing.set("/spec/runStrategy", "Halted".into());
        assert_eq!(word(&failing, None, &[]), "Stopped");
        let receiver = json!({"spec": {"runStrategy": "WaitAsReceiver"}});
        assert_eq!(word(&receiver, Some(&vmi("WaitingForSync")), &[]), "WaitingForReceiver");
        assert_eq!(word(&always(), Some(&vmi("Unknown")), &[]), "Unknown");
    }
}

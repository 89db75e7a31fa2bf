//! The status of a machine, from everything that is known of it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::failures;
use super::printable::{Disk, Sight};
use super::strategy::{self, Strategy};
use crate::clock;
use crate::kubevirt::names::GENERATION_ANNOTATION;
use crate::object::{Condition, Object as _, drop_condition};

/// The conditions a machine has of its own; all others are those of its instance.
const OWN: &[&str] = &["Ready", "Failure", "RestartRequired", "ManualRecoveryRequired", "VolumesChange"];

/// Why a machine is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// In one word.
    pub reason: &'static str,
    /// In words.
    pub message: String,
}

/// What the status depends on.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The instance.
    pub vmi: Option<&'a Value>,
    /// The volumes.
    pub disks: &'a [Disk],
    /// What went wrong this time.
    pub trouble: Option<&'a Trouble>,
    /// Why the instance cannot follow the machine.
    pub restart: Option<&'a str>,
    /// The time.
    pub now: Timestamp,
}

/// Brings the status of a machine up to date. `chance` gives a number for a count of failures.
pub fn update(vm: &mut Value, facts: &Facts<'_>, chance: impl Fn(u64) -> u64) {
    let strategy = Strategy::of(vm);
    let now = clock::seconds(facts.now);
    put_flag(vm, "created", facts.vmi.is_some());
    put_flag(vm, "ready", facts.vmi.is_some_and(|vmi| vmi.condition_holds("Ready")));
    update_generations(vm, facts.vmi);
    // A strategy counts as seen once it had its effect: with an instance, or where none is wanted.
    if facts.vmi.is_some() || matches!(strategy, Strategy::Halted | Strategy::Manual) {
        vm.set("/status/runStrategy", strategy.text().into());
    }
    strategy::drop_done_requests(vm, facts.vmi);
    failures::count(vm, facts.vmi, strategy, facts.now, chance);
    update_conditions(vm, facts, &now);
    let word = Sight { vm, vmi: facts.vmi, disks: facts.disks, strategy }.word();
    vm.set("/status/printableStatus", word.into());
}

/// A flag that is not there when it does not hold.
fn put_flag(vm: &mut Value, name: &str, holds: bool) {
    let pointer = format!("/status/{name}");
    if holds { vm.set(&pointer, true.into()) } else { vm.unset(&pointer) }
}

fn update_generations(vm: &mut Value, vmi: Option<&Value>) {
    let Some(vmi) = vmi else {
        vm.unset("/status/desiredGeneration");
        vm.unset("/status/observedGeneration");
        return;
    };
    vm.set("/status/desiredGeneration", vm.generation().into());
    if let Ok(observed) = vmi.annotation(GENERATION_ANNOTATION).parse::<i64>() {
        vm.set("/status/observedGeneration", observed.into());
    }
}

fn update_conditions(vm: &mut Value, facts: &Facts<'_>, now: &str) {
    if !vm.at("/status/conditions").is_array() {
        vm.set("/status/conditions", json!([]));
    }
    match facts.vmi {
        None => {
            Condition::new("Ready", false, "VMINotExists", "VMI does not exist").put(vm, now);
            drop_condition(vm, "RestartRequired");
        }
        Some(vmi) => {
            mirror(vm, vmi);
            // What was said of the instance before is not true of this one.
            if vmi.condition("Ready").is_null() {
                let message = "VMI is missing the Ready condition";
                Condition::new("Ready", false, "VMIConditionMissing", message).put(vm, now);
            }
        }
    }
    match facts.trouble {
        Some(trouble) => {
            Condition::new("Failure", true, trouble.reason, &trouble.message).put(vm, now);
        }
        None => {
            drop_condition(vm, "Failure");
        }
    }
    if let Some(reason) = facts.restart {
        Condition::new("RestartRequired", true, "RestartRequired", reason).put(vm, now);
    }
}

/// Takes over the conditions of the instance as they are, and drops those it does not have any more.
fn mirror(vm: &mut Value, vmi: &Value) {
    let theirs = vmi.list("/status/conditions");
    let Some(mine) = vm.pointer_mut("/status/conditions").and_then(Value::as_array_mut) else { return };
    mine.retain(|one| {
        OWN.iter().any(|own| one["type"] == *own) || theirs.iter().any(|their| their["type"] == one["type"])
    });
    for their in theirs {
        match mine.iter_mut().find(|one| one["type"] == their["type"]) {
            Some(one) => *one = their.clone(),
            None => mine.push(their.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(vmi: Option<&Value>) -> Facts<'_> {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        Facts { vmi, disks: &[], trouble: None, restart: None, now }
    }

    #[test]
    fn the_instance_shows_in_the_machine() {
        let mut vm = json!({"metadata": {"generation": 4}, "spec": {"runStrategy": "Always"}});
        update(&mut vm, &facts(None), |_| 0);
        assert_eq!(vm.condition("Ready")["reason"], "VMINotExists");
        assert_eq!(vm.text("/status/printableStatus"), "Stopped");
        assert!(vm.at("/status/created").is_null() && vm.at("/status/runStrategy").is_null());

        let vmi = json!({
            "metadata": {"annotations": {"kubevirt.io/vm-generation": "3"}},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "AgentConnected", "status": "True"},
            ]},
        });
        update(&mut vm, &facts(Some(&vmi)), |_| 0);
        assert!(vm.flag("/status/created") && vm.flag("/status/ready"));
        assert!(vm.condition_holds("AgentConnected"));
        assert_eq!(
            (vm.number("/status/observedGeneration"), vm.number("/status/desiredGeneration")),
            (Some(3), Some(4))
        );
        assert_eq!(vm.text("/status/runStrategy"), "Always");

        // The next instance is not ready because the last one was.
        let next = json!({"status": {"phase": "Pending"}});
        update(&mut vm, &facts(Some(&next)), |_| 0);
        let ready = vm.condition("Ready");
        assert_eq!((ready.text("/status"), ready.text("/reason")), ("False", "VMIConditionMissing"));
        assert_eq!(ready["message"], "VMI is missing the Ready condition");
        update(&mut vm, &facts(Some(&vmi)), |_| 0);

        update(&mut vm, &facts(None), |_| 0);
        assert!(vm.at("/status/created").is_null() && vm.at("/status/observedGeneration").is_null());
        // What was last known of the guest stays.
        assert!(vm.condition_holds("AgentConnected"));
    }

    #[test]
    fn trouble_comes_and_goes() {
        let mut vm = json!({"spec": {"runStrategy": "Always"}});
        let trouble = Trouble { reason: "FailedCreate", message: "no".to_owned() };
        update(&mut vm, &Facts { trouble: Some(&trouble), ..facts(None) }, |_| 0);
        assert_eq!(vm.condition("Failure")["message"], "no");
        update(&mut vm, &facts(None), |_| 0);
        assert!(vm.condition("Failure").is_null());
    }

    #[test]
    fn a_restart_is_required_until_it_happened() {
        let mut vm = json!({"spec": {"runStrategy": "Always"}});
        let vmi = json!({"status": {"phase": "Running"}});
        update(&mut vm, &Facts { restart: Some("why"), ..facts(Some(&vmi)) }, |_| 0);
        update(&mut vm, &facts(Some(&vmi)), |_| 0);
        assert!(vm.condition_holds("RestartRequired"));
        update(&mut vm, &facts(None), |_| 0);
        assert!(vm.condition("RestartRequired").is_null());
    }
}

//! When a machine is to run.

use serde_json::{Value, json};

use crate::kubevirt::instance::{is_final, phase};
use crate::object::Object as _;

/// When a machine is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// At all times.
    Always,
    /// Again when it failed.
    RerunOnFailure,
    /// When somebody says so.
    Manual,
    /// Never.
    Halted,
    /// Once.
    Once,
    /// When another cluster sends it.
    WaitAsReceiver,
}

impl Strategy {
    /// The strategy of a machine; `running` is the older way of saying it.
    pub fn of(vm: &Value) -> Self {
        match vm.text("/spec/runStrategy") {
            "Always" => Self::Always,
            "RerunOnFailure" => Self::RerunOnFailure,
            "Manual" => Self::Manual,
            "Once" => Self::Once,
            "WaitAsReceiver" => Self::WaitAsReceiver,
            "" if vm.flag("/spec/running") => Self::Always,
            _ => Self::Halted,
        }
    }

    /// As it is written.
    pub fn text(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::RerunOnFailure => "RerunOnFailure",
            Self::Manual => "Manual",
            Self::Halted => "Halted",
            Self::Once => "Once",
            Self::WaitAsReceiver => "WaitAsReceiver",
        }
    }

    /// Whether there is to be a running instance.
    pub fn is_to_run(self, vm: &Value, vmi: Option<&Value>) -> bool {
        match self {
            Self::Always | Self::Once | Self::WaitAsReceiver => true,
            Self::Halted => false,
            Self::Manual => vmi.is_some_and(|vmi| !is_final(vmi)) || wants_start(vm),
            Self::RerunOnFailure => match vmi {
                Some(vmi) => phase(vmi) != "Succeeded",
                None => wants_start(vm) || vm.text("/status/runStrategy") != self.text(),
            },
        }
    }

    /// The next step for a machine. Whether its volumes are ready and whether it has to wait after a crash is not
    /// asked here.
    pub fn step(self, vm: &Value, vmi: Option<&Value>) -> Step {
        match vmi {
            Some(vmi) if vmi.is_deleting() => Step::Nothing,
            Some(vmi) => self.step_with(vm, vmi),
            None => self.step_without(vm),
        }
    }

    fn step_with(self, vm: &Value, vmi: &Value) -> Step {
        let stop = wants_stop(vm, vmi.uid());
        match self {
            Self::Always if stop || is_final(vmi) => Step::Stop { and_start: false },
            Self::RerunOnFailure if stop || is_final(vmi) => {
                Step::Stop { and_start: phase(vmi) == "Failed" && !stop }
            }
            Self::Manual | Self::Once if stop => Step::Stop { and_start: false },
            Self::Halted => Step::Stop { and_start: false },
            _ => Step::Nothing,
        }
    }

    fn step_without(self, vm: &Value) -> Step {
        let paused = first_request(vm).text("/data/paused") == "true";
        let start = Step::Start { paused: wants_start(vm) && paused };
        match self {
            Self::Always | Self::Once | Self::WaitAsReceiver => start,
            Self::RerunOnFailure => {
                // Another strategy before, or none at all: the switch itself is the wish to run.
                if wants_start(vm) || vm.text("/status/runStrategy") != self.text() {
                    start
                } else {
                    Step::Nothing
                }
            }
            Self::Manual if wants_start(vm) => start,
            Self::Halted if wants_start(vm) => Step::Always,
            Self::Manual | Self::Halted => Step::Nothing,
        }
    }

    /// Whether failed starts are counted: not where nobody tries again by himself.
    pub fn counts_failures(self) -> bool {
        !matches!(self, Self::Manual | Self::Halted)
    }
}

/// What is to be done about the instance of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// An instance is made.
    Start {
        /// Whether it is held before its first step.
        paused: bool,
    },
    /// The instance is deleted.
    Stop {
        /// Whether a wish to start is left behind.
        and_start: bool,
    },
    /// A halted machine that is asked to start is to run at all times.
    Always,
}

/// The request that is acted on: the first.
fn first_request(vm: &Value) -> &Value {
    vm.list("/status/stateChangeRequests").first().unwrap_or(&Value::Null)
}

/// Whether somebody asked to start the machine.
pub fn wants_start(vm: &Value) -> bool {
    first_request(vm)["action"] == "Start"
}

/// Whether somebody asked to stop the instance with this uid.
pub fn wants_stop(vm: &Value, uid: &str) -> bool {
    let request = first_request(vm);
    request["action"] == "Stop" && request["uid"] == uid
}

/// Drops the requests that are done: a stop when the instance it means is gone, a start when there is an instance
/// that lives.
pub fn drop_done_requests(vm: &mut Value, vmi: Option<&Value>) {
    loop {
        let request = first_request(vm);
        let done = match request.text("/action") {
            "Stop" => vmi.is_none_or(|vmi| request["uid"] != vmi.uid()),
            "Start" => vmi.is_some_and(|vmi| !is_final(vmi) && !vmi.is_deleting()),
            _ => false,
        };
        if !done {
            return;
        }
        let rest = vm.list("/status/stateChangeRequests")[1..].to_vec();
        if rest.is_empty() {
            vm.unset("/status/stateChangeRequests");
            return;
        }
        vm.set("/status/stateChangeRequests", rest.into());
    }
}

/// Adds a request to start.
pub fn add_start_request(vm: &mut Value) {
    if !vm.list("/status/stateChangeRequests").iter().any(|request| request["action"] == "Start") {
        let mut requests = vm.list("/status/stateChangeRequests").to_vec();
        requests.push(json!({"action": "Start"}));
        vm.set("/status/stateChangeRequests", requests.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GO: Step = Step::Start { paused: false };
    const STOP: Step = Step::Stop { and_start: false };

    fn vm(strategy: &str) -> Value {
        json!({"spec": {"runStrategy": strategy}, "status": {"runStrategy": strategy}})
    }

    fn asked(strategy: &str, request: &Value) -> Value {
        let mut vm = vm(strategy);
        vm.set("/status/stateChangeRequests", json!([request]));
        vm
    }

    fn vmi(phase: &str) -> Value {
        json!({"metadata": {"uid": "u"}, "status": {"phase": phase}})
    }

    fn step(vm: &Value, vmi: Option<&Value>) -> Step {
        Strategy::of(vm).step(vm, vmi)
    }

    #[test]
    fn without_an_instance() {
        for (strategy, expected) in [
            ("Always", GO),
            ("Once", GO),
            ("WaitAsReceiver", GO),
            ("RerunOnFailure", Step::Nothing),
            ("Manual", Step::Nothing),
            ("Halted", Step::Nothing),
        ] {
            assert_eq!(step(&vm(strategy), None), expected, "{strategy}");
        }
        assert_eq!(step(&json!({"spec": {"running": true}}), None), GO);
        assert_eq!(step(&json!({"spec": {"running": false}}), None), Step::Nothing);
    }

    #[test]
    fn a_new_or_switched_machine_that_reruns_is_started() {
        let mut machine = vm("RerunOnFailure");
        machine.set("/status/runStrategy", "Halted".into());
        assert_eq!(step(&machine, None), GO);
        machine.unset("/status/runStrategy");
        assert_eq!(step(&machine, None), GO);
    }

    #[test]
    fn with_a_start_request() {
        let start = json!({"action": "Start"});
        for strategy in ["RerunOnFailure", "Manual"] {
            assert_eq!(step(&asked(strategy, &start), None), GO, "{strategy}");
        }
        assert_eq!(step(&asked("Halted", &start), None), Step::Always);
        let held = json!({"action": "Start", "data": {"paused": "true"}});
        assert_eq!(step(&asked("Manual", &held), None), Step::Start { paused: true });
    }

    #[test]
    fn with_an_instance_that_ended() {
        for (strategy, succeeded, failed) in [
            ("Always", STOP, STOP),
            ("RerunOnFailure", STOP, Step::Stop { and_start: true }),
            ("Manual", Step::Nothing, Step::Nothing),
            ("Halted", STOP, STOP),
            ("Once", Step::Nothing, Step::Nothing),
        ] {
            assert_eq!(step(&vm(strategy), Some(&vmi("Succeeded"))), succeeded, "{strategy}");
            assert_eq!(step(&vm(strategy), Some(&vmi("Failed"))), failed, "{strategy}");
        }
    }

    #[test]
    fn with_a_stop_request() {
        for strategy in ["Always", "RerunOnFailure", "Manual", "Once", "Halted"] {
            let mine = asked(strategy, &json!({"action": "Stop", "uid": "u"}));
            assert_eq!(step(&mine, Some(&vmi("Running"))), STOP, "{strategy}");
            let other = asked(strategy, &json!({"action": "Stop", "uid": "other"}));
            let expected = if strategy == "Halted" { STOP } else { Step::Nothing };
            assert_eq!(step(&other, Some(&vmi("Running"))), expected, "{strategy}");
        }
    }

    #[test]
    fn what_goes_is_left_alone() {
        let mut going = vmi("Failed");
        going.set("/metadata/deletionTimestamp", "1".into());
        assert_eq!(step(&vm("Always"), Some(&going)), Step::Nothing);
    }

    #[test]
    fn requests_go_when_they_are_done() {
        let mut vm = json!({"status": {"stateChangeRequests": [
            {"action": "Stop", "uid": "u"}, {"action": "Start"},
        ]}});
        drop_done_requests(&mut vm, Some(&vmi("Running")));
        assert_eq!(vm.list("/status/stateChangeRequests").len(), 2);
        drop_done_requests(&mut vm, None);
        assert_eq!(vm.at("/status/stateChangeRequests"), &json!([{"action": "Start"}]));
        drop_done_requests(&mut vm, Some(&vmi("Pending")));
        assert!(vm.at("/status/stateChangeRequests").is_null());
    }
}

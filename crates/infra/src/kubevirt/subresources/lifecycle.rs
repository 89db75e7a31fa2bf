//! Starting, stopping, restarting and migrating machines.

use http::Method;
use serde_json::{Value, json};

use super::{Answer, Asked, Refusal, accepted, dry_run};
use crate::kinds::{MIGRATION, POD, VM, VMI};
use crate::kubevirt::names::{COMPONENT_LABEL, CREATED_BY_LABEL};
use crate::kubevirt::vm::strategy::Strategy;
use crate::object::{Key, Object as _};

/// Nothing runs.
pub(super) const VM_NOT_RUNNING: &str = "VM is not running";

/// What an accepted request changes.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// The machine's own specification: whether it should run.
    Run(bool),
    /// Requests that the controller carries out one after the other.
    Requests(Vec<Value>),
}

fn start_step(vm: &Value, vmi: Option<&Value>, paused: bool) -> Result<Step, String> {
    let phase = vmi.map(|vmi| vmi.text("/status/phase")).unwrap_or_default();
    if !matches!(phase, "" | "Unknown" | "Succeeded" | "Failed") {
        return Err("VM is already running".to_owned());
    }
    if vm.condition_holds("ManualRecoveryRequired") {
        return Err("VM recovery required".to_owned());
    }
    let mut start = json!({"action": "Start"});
    if paused {
        start["data"] = json!({"paused": "true"});
    }
    match Strategy::of(vm).text() {
        "Halted" if paused => Ok(Step::Requests(vec![start])),
        "Halted" => Ok(Step::Run(true)),
        "RerunOnFailure" if phase == "Failed" => {
            Err("RerunOnFailure does not support starting VM from failed state".to_owned())
        }
        "RerunOnFailure" | "Manual" => {
            let stop = vmi.filter(|vmi| vmi.is_over()).map(stop_request);
            Ok(Step::Requests(stop.into_iter().chain([start]).collect()))
        }
        other => Err(format!("{other} does not support manual start requests")),
    }
}

fn stop_step(vm: &Value, vmi: Option<&Value>, grace: Option<i64>) -> Result<Step, String> {
    let live = vmi.filter(|vmi| !vmi.is_over());
    match (Strategy::of(vm).text(), live) {
        ("Halted" | "RerunOnFailure" | "Manual", None) => Err(VM_NOT_RUNNING.to_owned()),
        ("Halted", Some(vmi)) => {
            let old = vmi.number("/spec/terminationGracePeriodSeconds");
            if grace.is_none_or(|grace| old.is_some_and(|old| grace >= old)) {
                let message = "Halted only supports manual stop requests with a shorter graceperiod";
                return Err(message.to_owned());
            }
            Ok(Step::Requests(vec![stop_request(vmi)]))
        }
        ("RerunOnFailure" | "Manual", Some(vmi)) => Ok(Step::Requests(vec![stop_request(vmi)])),
        _ => Ok(Step::Run(false)),
    }
}

fn stop_request(vmi: &Value) -> Value {
    json!({"action": "Stop", "uid": vmi.uid()})
}

/// The patch that makes a machine run or not, whichever of the two fields it uses.
fn run_patch(vm: &Value, run: bool) -> Value {
    let strategy = if run { "Always" } else { "Halted" };
    let old = vm.at("/spec/runStrategy");
    if old.is_null() {
        let old = vm.at("/spec/running");
        let set = if old.is_null() { "add" } else { "replace" };
        json!([
            {"op": "test", "path": "/spec/running", "value": old},
            {"op": set, "path": "/spec/running", "value": run},
        ])
    } else {
        json!([
            {"op": "test", "path": "/spec/runStrategy", "value": old},
            {"op": "replace", "path": "/spec/runStrategy", "value": strategy},
        ])
    }
}

/// The patch of the status that queues requests. A stop alone replaces what is queued; nothing else may.
fn requests_patch(vm: &Value, requests: &[Value]) -> Result<Value, String> {
    if vm.at("/status").as_object().is_none_or(serde_json::Map::is_empty) {
        return Ok(json!([{"op": "add", "path": "/status", "value": {"stateChangeRequests": requests}}]));
    }
    let queued = vm.list("/status/stateChangeRequests");
    let only_stop = matches!(requests, [one] if one["action"] == "Stop");
    if !queued.is_empty() && !only_stop {
        return Err("unable to complete request: stop/start already underway".to_owned());
    }
    let old = vm.at("/status/stateChangeRequests");
    let mut operations = vec![
        json!({"op": "test", "path": "/status/stateChangeRequests", "value": old}),
        json!({
            "op": if old.is_null() { "add" } else { "replace" },
            "path": "/status/stateChangeRequests", "value": requests,
        }),
    ];
    if !vm.at("/status/startFailure").is_null() {
        operations.push(json!({"op": "remove", "path": "/status/startFailure"}));
    }
    Ok(operations.into())
}

impl Asked {
    pub(super) async fn start(&self, body: &Value) -> Answer {
        let vm = self.vm().await?;
        let vmi = self.vmi_if_any().await?;
        let step = start_step(&vm, vmi.as_ref(), body.flag("/paused"));
        self.take(&vm, step, dry_run(body)).await
    }

    pub(super) async fn stop(&self, body: &Value) -> Answer {
        let vm = self.vm().await?;
        let vmi = self.vmi_if_any().await?;
        let grace = body.number("/gracePeriod");
        let step = stop_step(&vm, vmi.as_ref(), grace);
        if let (Some(vmi), Some(grace)) = (vmi.filter(|vmi| !vmi.is_over()), grace) {
            let path = "/spec/terminationGracePeriodSeconds";
            let old = vmi.at(path);
            let set = if old.is_null() { "add" } else { "replace" };
            let patch = json!([
                {"op": "test", "path": path, "value": old}, {"op": set, "path": path, "value": grace},
            ]);
            self.patch(&VMI, "", patch, dry_run(body)).await?;
        }
        self.take(&vm, step, dry_run(body)).await
    }

    pub(super) async fn restart(&self, body: &Value) -> Answer {
        let grace = body.number("/gracePeriodSeconds");
        match grace {
            None | Some(0) => {}
            Some(..0) => return Err(Refusal::bad("gracePeriod has to be greater or equal to 0")),
            Some(_) => {
                return Err(Refusal::bad("For force restart, only gracePeriod=0 is supported for now"));
            }
        }
        let vm = self.vm().await?;
        if vm.condition_holds("ManualRecoveryRequired") {
            return Err(self.vm_conflict("VM recovery required"));
        }
        let strategy = Strategy::of(&vm).text();
        if matches!(strategy, "Halted" | "Once") {
            let message = format!("RunStategy {strategy} does not support manual restart requests");
            return Err(self.vm_conflict(&message));
        }
        let Some(vmi) = self.vmi_if_any().await? else {
            return Err(self.vm_conflict("VM is not running: Halted"));
        };
        let requests = Step::Requests(vec![stop_request(&vmi), json!({"action": "Start"})]);
        let accepted = self.take(&vm, Ok(requests), dry_run(body)).await?;
        if grace == Some(0) && !dry_run(body) {
            self.kill(&vmi).await?;
        }
        Ok(accepted)
    }

    pub(super) async fn migrate(&self, body: &Value) -> Answer {
        let vm = self.vm().await?;
        let vmi = self.vmi().await?;
        if vmi.text("/status/phase") != "Running" {
            return Err(self.vm_conflict(VM_NOT_RUNNING));
        }
        if vm.condition_holds("Paused") {
            return Err(self.vm_conflict("VM is paused"));
        }
        let mut migration = json!({
            "apiVersion": MIGRATION.api_version(), "kind": MIGRATION.kind,
            "metadata": {"namespace": self.place.namespace, "generateName": "kubevirt-migrate-vm-"},
            "spec": {"vmiName": self.place.name},
        });
        if body.at("/addedNodeSelector").is_object() {
            migration["spec"]["addedNodeSelector"] = body["addedNodeSelector"].clone();
        }
        let created = if dry_run(body) {
            let path = format!("{}?dryRun=All", MIGRATION.path(&self.place.namespace, ""));
            self.client.send(Method::POST, &path, Some(("application/json", &migration))).await
        } else {
            self.client.create(&MIGRATION, migration).await
        };
        created.map_err(Refusal::of_api)?;
        Ok(accepted())
    }

    /// Makes the change that was decided on.
    async fn take(&self, vm: &Value, step: Result<Step, String>, dry_run: bool) -> Answer {
        match step.map_err(|why| self.vm_conflict(&why))? {
            Step::Run(run) => self.patch(&VM, "", run_patch(vm, run), dry_run).await?,
            Step::Requests(requests) => {
                let patch = requests_patch(vm, &requests).map_err(Refusal::internal)?;
                self.patch(&VM, "status", patch, dry_run).await?
            }
        };
        Ok(accepted())
    }

    /// Takes away the pods of an instance at once.
    async fn kill(&self, vmi: &Value) -> Result<(), Refusal> {
        let pods = self.client.list(&POD, &self.place.namespace).await.map_err(Refusal::of_api)?;
        let launchers = pods.iter().filter(|pod| {
            pod.label(COMPONENT_LABEL) == "virt-launcher"
                && pod.label(CREATED_BY_LABEL) == vmi.uid()
                && pod.text("/status/phase") == "Running"
        });
        for pod in launchers {
            let deleted = self.client.delete_with(&POD, &Key::of(pod), pod.uid(), Some(0)).await;
            deleted.map_err(Refusal::of_api)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(strategy: &str) -> Value {
        json!({"spec": {"runStrategy": strategy}, "status": {"printableStatus": "Stopped"}})
    }

    fn vmi(phase: &str) -> Value {
        json!({"metadata": {"uid": "u"}, "spec": {"terminationGracePeriodSeconds": 30}, "status": {"phase": phase}})
    }

    #[test]
    fn starting_depends_on_the_strategy_and_on_what_runs() {
        assert_eq!(start_step(&vm("Halted"), None, false), Ok(Step::Run(true)));
        let paused = json!({"action": "Start", "data": {"paused": "true"}});
        assert_eq!(start_step(&vm("Halted"), None, true), Ok(Step::Requests(vec![paused])));
        let start = json!({"action": "Start"});
        assert_eq!(start_step(&vm("Manual"), None, false), Ok(Step::Requests(vec![start.clone()])));
        let again = vec![json!({"action": "Stop", "uid": "u"}), start];
        assert_eq!(start_step(&vm("Manual"), Some(&vmi("Failed")), false), Ok(Step::Requests(again.clone())));
        assert_eq!(
            start_step(&vm("RerunOnFailure"), Some(&vmi("Succeeded")), false),
            Ok(Step::Requests(again))
        );
        for (strategy, phase) in
            [("RerunOnFailure", "Failed"), ("Always", ""), ("Once", ""), ("Halted", "Running")]
        {
            assert!(start_step(&vm(strategy), Some(&vmi(phase)), false).is_err(), "{strategy} {phase}");
        }
    }

    #[test]
    fn stopping_depends_on_the_strategy_and_on_what_runs() {
        assert_eq!(stop_step(&vm("Always"), None, None), Ok(Step::Run(false)));
        assert_eq!(stop_step(&vm("Once"), Some(&vmi("Running")), None), Ok(Step::Run(false)));
        let stop = Step::Requests(vec![json!({"action": "Stop", "uid": "u"})]);
        assert_eq!(stop_step(&vm("Manual"), Some(&vmi("Running")), None), Ok(stop.clone()));
        assert_eq!(stop_step(&vm("Halted"), Some(&vmi("Running")), Some(5)), Ok(stop));
        assert!(stop_step(&vm("Halted"), Some(&vmi("Running")), Some(30)).is_err());
        assert!(stop_step(&vm("Halted"), Some(&vmi("Running")), None).is_err());
        assert!(stop_step(&vm("Manual"), Some(&vmi("Succeeded")), None).is_err());
        assert!(stop_step(&vm("Halted"), None, Some(0)).is_err());
    }

    #[test]
    fn only_a_stop_takes_the_place_of_what_is_queued() {
        let mut queued = vm("Manual");
        queued.set("/status/stateChangeRequests", json!([{"action": "Start"}]));
        assert!(requests_patch(&queued, &[json!({"action": "Start"})]).is_err());
        let patch = requests_patch(&queued, &[json!({"action": "Stop"})]).unwrap();
        assert_eq!(patch[1]["op"], "replace");
        let mut failed = vm("Manual");
        failed.set("/status/startFailure", json!({"consecutiveFailCount": 2}));
        let patch = requests_patch(&failed, &[json!({"action": "Start"})]).unwrap();
        assert_eq!((&patch[1]["op"], &patch[2]["op"]), (&json!("add"), &json!("remove")));
    }

    #[test]
    fn a_machine_keeps_the_field_it_uses() {
        let old = json!({"spec": {"running": false}});
        assert_eq!(
            run_patch(&old, true)[1],
            json!({"op": "replace", "path": "/spec/running", "value": true})
        );
        assert_eq!(run_patch(&vm("Once"), false)[1]["value"], "Halted");
    }
}

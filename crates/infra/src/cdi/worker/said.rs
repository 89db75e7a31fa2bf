//! What a claim is told about the pod that works on it.

use serde_json::Value;

use super::container;
use crate::cdi::names;
use crate::client::{Client, Result};
use crate::kinds::POD;
use crate::object::{Key, Object as _};

/// The reason of a worker that runs.
const RUNNING: &str = "Pod is running";

/// Writes what a pod is doing into the annotations of a claim.
pub(crate) fn put(claim: &mut Value, pod: &Value) {
    let phase = pod.text("/status/phase");
    claim.set_annotation(names::POD_PHASE, if phase.is_empty() { "Pending" } else { phase });
    let restarts = container::restarts(pod);
    let before: i64 = claim.annotation(names::POD_RESTARTS).parse().unwrap_or_default();
    claim.set_annotation(names::POD_RESTARTS, &restarts.max(before).to_string());
    let (running, message, reason) = running(pod);
    claim.set_annotation(names::RUNNING, if running { "true" } else { "false" });
    claim.set_annotation(names::RUNNING_MESSAGE, message);
    claim.set_annotation(names::RUNNING_REASON, reason);
    let scheduled = pod.condition("PodScheduled");
    if scheduled["status"] == "False" && scheduled["reason"] == "Unschedulable" {
        claim.set_annotation(names::POD_SCHEDULABLE, "false");
    } else {
        claim.unset(&format!("/metadata/annotations/{}", crate::object::escaped(names::POD_SCHEDULABLE)));
    }
}

/// Whether the worker runs, what it said, and why it does not.
fn running(pod: &Value) -> (bool, &str, &str) {
    let status = pod.at("/status/containerStatuses/0");
    let state = status.at("/state");
    if state["running"].is_object() {
        return (true, "", RUNNING);
    }
    if state["terminated"].is_object() {
        return (false, state.text("/terminated/message"), state.text("/terminated/reason"));
    }
    let last = status.at("/lastState/terminated");
    if last.is_object() && state["waiting"]["reason"] == "CrashLoopBackOff" {
        return (false, last.text("/message"), last.text("/reason"));
    }
    (false, state.text("/waiting/message"), state.text("/waiting/reason"))
}

/// Removes the worker of a claim that goes.
pub(crate) async fn dismiss(client: &Client, claim: &Value, pod: Option<&Value>) -> Result {
    match pod.filter(|pod| pod.is_controlled_by(claim.uid()) && !pod.is_deleting()) {
        Some(pod) => client.delete(&POD, &Key::of(pod), pod.uid()).await,
        None => Ok(()),
    }
}

/// How the container of a pod failed last, if it did.
pub(crate) fn last_failure(pod: &Value) -> Option<&Value> {
    let status = pod.at("/status/containerStatuses/0");
    let ends = [status.at("/state/terminated"), status.at("/lastState/terminated")];
    ends.into_iter().find(|end| end.is_object() && end["exitCode"] != 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_told_what_its_worker_does() {
        let mut claim = json!({"metadata": {}});
        let mut pod = json!({"status": {"phase": "Running", "containerStatuses": [
            {"restartCount": 2, "state": {"running": {}}}]}});
        put(&mut claim, &pod);
        assert_eq!(claim.annotation(names::RUNNING_REASON), RUNNING);
        assert_eq!(claim.annotation(names::POD_RESTARTS), "2");
        pod["status"]["containerStatuses"][0] = json!({"restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no route"}}});
        put(&mut claim, &pod);
        assert_eq!(claim.annotation(names::RUNNING), "false");
        assert_eq!(claim.annotation(names::RUNNING_MESSAGE), "no route");
        assert_eq!(last_failure(&pod).unwrap()["message"], "no route");
        put(
            &mut claim,
            &json!({"status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}),
        );
        assert_eq!(claim.annotation(names::POD_SCHEDULABLE), "false");
        assert_eq!(claim.annotation(names::POD_RESTARTS), "3");
    }
}

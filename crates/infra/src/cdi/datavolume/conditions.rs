//! The conditions of a DataVolume, from the annotations of its claim.

use serde_json::{Value, json};

use crate::cdi::names;
use crate::object::{Condition, Object as _};

/// Sets the conditions of a DataVolume. `said` is a reason and a message for a volume without a claim.
pub(super) fn put(volume: &mut Value, claim: Option<&Value>, said: Option<(&str, &str)>, now: &str) {
    let ready = match volume.text("/status/phase") {
        "Succeeded" => "True",
        "Unknown" => "Unknown",
        _ => "False",
    };
    bound(volume, claim, said, now);
    let (reason, message) = said.unwrap_or_default();
    let running = running(claim);
    let reason = if running.status == "True" && ready == "False" { "TransferRunning" } else { reason };
    set(volume, &Condition { kind: "Running", ..running.borrowed() }, now);
    set(volume, &Condition { kind: "Ready", status: ready, reason, message }, now);
}

/// Sets a condition, and says when it was last looked at with a change.
fn set(volume: &mut Value, condition: &Condition<'_>, now: &str) {
    if condition.put(volume, now)
        && let Some(list) = volume.pointer_mut("/status/conditions").and_then(Value::as_array_mut)
        && let Some(one) = list.iter_mut().find(|one| one["type"] == condition.kind)
    {
        one["lastHeartbeatTime"] = now.into();
    }
}

fn bound(volume: &mut Value, claim: Option<&Value>, said: Option<(&str, &str)>, now: &str) {
    let Some(claim) = claim else {
        let (reason, message) = said.unwrap_or(("NotFound", "No PVC found"));
        return set(volume, &Condition { kind: "Bound", status: "False", reason, message }, now);
    };
    let own = claim.annotation(names::BOUND);
    let own_reason = claim.annotation(names::BOUND_REASON);
    let own_message = claim.annotation(names::BOUND_MESSAGE);
    let fine = own.is_empty() || own.eq_ignore_ascii_case("true");
    let name = claim.name();
    let prime = claim.annotation(names::PRIME_NAME);
    let prime = if prime.is_empty() { String::new() } else { format!(" [Prime PVC {prime}]") };
    let (status, reason, message) = match claim.text("/status/phase") {
        "Bound" if fine => ("True", "Bound", format!("PVC {name} Bound")),
        "Bound" => ("False", own_reason, own_message.to_owned()),
        "Lost" => ("False", "ClaimLost", "Claim Lost".to_owned()),
        _ if fine => ("False", "Pending", format!("PVC {name}{prime} Pending")),
        _ => ("False", own_reason, format!("target PVC {name} Pending and {own_message}")),
    };
    set(volume, &Condition { kind: "Bound", status, reason, message: &message }, now);
}

struct Running {
    status: &'static str,
    reason: String,
    message: String,
}

impl Running {
    fn borrowed(&self) -> Condition<'_> {
        Condition { kind: "Running", status: self.status, reason: &self.reason, message: &self.message }
    }
}

fn running(claim: Option<&Value>) -> Running {
    let null = json!({});
    let claim = claim.unwrap_or(&null);
    if claim.annotation(names::POD_SCHEDULABLE) == "false" {
        return Running {
            status: "False",
            reason: "Unschedulable".to_owned(),
            message: "Importer pod cannot be scheduled".to_owned(),
        };
    }
    let status = match claim.annotation(names::RUNNING).to_lowercase().as_str() {
        "true" => "True",
        "false" | "" => "False",
        _ => "Unknown",
    };
    Running {
        status,
        reason: claim.annotation(names::RUNNING_REASON).to_owned(),
        message: claim.annotation(names::RUNNING_MESSAGE).to_owned(),
    }
}

/// What is told about a change of the conditions: whether it is bad, the reason and the message.
pub(super) fn told(before: &Value, after: &Value) -> Vec<(bool, String, String)> {
    let mut events = Vec::new();
    let text = |object: &Value, kind: &str, field: &str| object.condition(kind).text(field).to_owned();
    let bound = |object: &Value| (text(object, "Bound", "/reason"), text(object, "Bound", "/message"));
    if bound(before) != bound(after) {
        let (reason, message) = bound(after);
        if !reason.is_empty() {
            events.push((false, reason, message));
        }
    }
    let message = text(after, "Running", "/message");
    let stopped = !after.condition_holds("Ready") && !after.condition_holds("Running");
    if stopped
        && !message.is_empty()
        && message != "scratch space required and none found"
        && message != text(before, "Running", "/message")
    {
        let reason = text(after, "Running", "/reason");
        if !matches!(reason.as_str(), "" | "Completed" | "Pending") {
            events.push((true, reason, message));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(phase: &str) -> Value {
        json!({"metadata": {"name": "d"}, "status": {"phase": phase}})
    }

    #[test]
    fn conditions_follow_the_claim() {
        let mut dv = volume("Pending");
        put(&mut dv, None, None, "1");
        assert_eq!(dv.condition("Bound")["message"], "No PVC found");
        let claim = json!({"metadata": {"name": "d", "annotations": {
            names::RUNNING: "true", names::RUNNING_REASON: "Pod is running"}}, "status": {"phase": "Bound"}});
        let before = dv.clone();
        put(&mut dv, Some(&claim), None, "2");
        assert_eq!(dv.condition("Bound")["message"], "PVC d Bound");
        assert_eq!(dv.condition("Ready")["reason"], "TransferRunning");
        assert_eq!(told(&before, &dv), [(false, "Bound".to_owned(), "PVC d Bound".to_owned())]);
        dv["status"]["phase"] = "Succeeded".into();
        put(&mut dv, Some(&claim), None, "3");
        assert!(dv.condition_holds("Ready"));
    }

    #[test]
    fn a_failing_worker_is_told_once() {
        let (mut before, mut after) = (volume("ImportInProgress"), volume("ImportInProgress"));
        let claim = |message: &str| {
            json!({"metadata": {"name": "d", "annotations": {names::RUNNING: "false",
            names::RUNNING_REASON: "Error", names::RUNNING_MESSAGE: message}}, "status": {"phase": "Pending"}})
        };
        put(&mut before, Some(&claim("")), None, "1");
        put(&mut after, Some(&claim("no route")), None, "2");
        assert_eq!(told(&before, &after), [(true, "Error".to_owned(), "no route".to_owned())]);
        assert!(told(&after, &after).is_empty());
    }
}

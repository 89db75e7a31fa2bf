//! What a kubelet says about a pod. Everything here is pure.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::object::{Condition, Object as _};

/// The two lists of containers of a pod: where they are, and where their status is.
pub(crate) const INIT: (&str, &str) = ("/spec/initContainers", "/status/initContainerStatuses");
/// See [`INIT`].
pub(crate) const MAIN: (&str, &str) = ("/spec/containers", "/status/containerStatuses");

/// The annotation that says with which code the containers of a pod end once they do.
const EXIT: &str = "lab.trellis.dev/exit";

/// With which code the containers of a pod end by themselves: what its annotation says; those of a Job do their work
/// and are done. All others run for ever.
pub(crate) fn exit_of(pod: &Value) -> Option<i64> {
    let of_job = || pod.controller().is_some_and(|owner| owner["kind"] == "Job").then_some(0);
    pod.annotation(EXIT).parse().ok().or_else(of_job)
}

/// Whether a container of the init list goes on beside the others.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

/// The status of a container.
pub(crate) fn entry(pod: &Value, container: &Value, state: &Value, restarts: i64) -> Value {
    let running = state.get("running").is_some();
    let mut entry = json!({
        "name": container["name"], "image": container["image"], "imageID": "", "state": state,
        "lastState": {}, "ready": running, "started": running, "restartCount": restarts,
    });
    if state_started(&entry) {
        entry["imageID"] = image_id(container.text("/image")).into();
        entry["containerID"] = container_id(pod, container.text("/name"), restarts).into();
    }
    entry
}

fn state_started(entry: &Value) -> bool {
    entry["state"].get("waiting").is_none()
}

/// What an image is called once it is there.
fn image_id(image: &str) -> String {
    let name = image.split('@').next().unwrap_or(image);
    let slash = name.rfind('/').map_or(0, |at| at + 1);
    let name = name[slash..].rfind(':').map_or(name, |colon| &name[..slash + colon]);
    format!("{name}@sha256:{}", hex(&[image.as_bytes()]))
}

/// The identity of a container: another one after each start.
pub(crate) fn container_id(pod: &Value, name: &str, restarts: i64) -> String {
    format!("cri-o://{}", hex(&[pod.uid().as_bytes(), name.as_bytes(), &restarts.to_le_bytes()]))
}

fn hex(parts: &[&[u8]]) -> String {
    use std::fmt::Write as _;
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        hash.update([0]);
    }
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A container that waits.
pub(crate) fn waiting(reason: &str, message: &str) -> Value {
    let mut waiting = json!({"reason": reason});
    if !message.is_empty() {
        waiting["message"] = message.into();
    }
    json!({"waiting": waiting})
}

/// A container that runs.
pub(crate) fn running(now: &str) -> Value {
    json!({"running": {"startedAt": now}})
}

/// A container that has ended, from its status while it was running.
pub(crate) fn terminated(entry: &Value, exit: i64, reason: &str, now: &str) -> Value {
    let started = entry.text("/state/running/startedAt");
    json!({"terminated": {
        "exitCode": exit, "reason": reason, "startedAt": if started.is_empty() { now } else { started },
        "finishedAt": now, "containerID": entry["containerID"],
    }})
}

/// The word for how a container ended.
pub(crate) fn reason_of(exit: i64) -> &'static str {
    if exit == 0 { "Completed" } else { "Error" }
}

/// The first thing a kubelet says about a pod: that it knows of it.
pub(crate) fn accept(pod: &mut Value, host: &str, now: &str) {
    pod.set("/status/phase", "Pending".into());
    pod.set("/status/startTime", now.into());
    if !host.is_empty() {
        pod.set("/status/hostIP", host.into());
        pod.set("/status/hostIPs", json!([{"ip": host}]));
    }
    pod.unset("/status/nominatedNodeName");
    let init = !pod.list(INIT.0).is_empty();
    let reason = if init { "PodInitializing" } else { "ContainerCreating" };
    for (containers, statuses) in [INIT, MAIN] {
        let reason = if (containers, statuses) == INIT { "PodInitializing" } else { reason };
        let entries: Vec<Value> = pod
            .list(containers)
            .iter()
            .map(|container| {
                let mut entry = entry(pod, container, &waiting(reason, ""), 0);
                entry["started"] = false.into();
                entry
            })
            .collect();
        if !entries.is_empty() {
            pod.set(statuses, entries.into());
        }
    }
    judge(pod, now);
}

/// The conditions a kubelet is responsible for.
const OWN: &[&str] =
    &["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready", "PodScheduled"];

/// Notes which generation of the pod a status, and the kubelet's own conditions in it, are about.
pub(crate) fn observe(pod: &mut Value) {
    let Some(generation) = pod.number("/metadata/generation").filter(|generation| *generation > 0) else {
        return;
    };
    pod.set("/status/observedGeneration", generation.into());
    let conditions = pod.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if OWN.iter().any(|own| condition["type"] == **own) {
            condition["observedGeneration"] = generation.into();
        }
    }
}

/// Sets all conditions by what the containers and the readiness gates say. True if anything changed.
pub(crate) fn judge(pod: &mut Value, now: &str) -> bool {
    let over = pod.is_over();
    let succeeded = pod.text("/status/phase") == "Succeeded";
    let has_network = !pod.text("/status/podIP").is_empty() && !over;
    let mut changed = Condition::new("PodReadyToStartContainers", has_network, "", "").put(pod, now);

    let incomplete = unfinished_inits(pod);
    changed |= if succeeded || incomplete.is_empty() {
        let reason = if succeeded { "PodCompleted" } else { "" };
        Condition::new("Initialized", true, reason, "").put(pod, now)
    } else {
        let message = format!("containers with incomplete status: [{}]", incomplete.join(" "));
        Condition::new("Initialized", false, "ContainersNotInitialized", &message).put(pod, now)
    };

    let unready = unready(pod);
    let (ready, reason, message) = if succeeded {
        (false, "PodCompleted", String::new())
    } else if pod.text("/status/phase") == "Failed" {
        (false, "PodFailed", String::new())
    } else if unready.is_empty() {
        (true, "", String::new())
    } else {
        (false, "ContainersNotReady", format!("containers with unready status: [{}]", unready.join(" ")))
    };
    changed |= Condition::new("ContainersReady", ready, reason, &message).put(pod, now);

    let closed = if ready { closed_gates(pod) } else { Vec::new() };
    changed |= if closed.is_empty() {
        Condition::new("Ready", ready, reason, &message).put(pod, now)
    } else {
        Condition::new("Ready", false, "ReadinessGatesNotReady", &closed.join(", ")).put(pod, now)
    };
    changed | Condition::new("PodScheduled", true, "", "").put(pod, now)
}

/// The init containers that have not done their work; sidecars have when they run.
fn unfinished_inits(pod: &Value) -> Vec<String> {
    let unfinished = pod.list(INIT.0).iter().filter(|container| {
        let status = status_of(pod, INIT.1, container.text("/name"));
        if is_sidecar(container) {
            return !status.flag("/started") && !pod.is_over();
        }
        status.number("/state/terminated/exitCode") != Some(0)
    });
    unfinished.map(|container| container.text("/name").to_owned()).collect()
}

fn unready(pod: &Value) -> Vec<String> {
    let sidecars = pod.list(INIT.0).iter().filter(|container| is_sidecar(container)).map(|one| (one, INIT.1));
    let all = sidecars.chain(pod.list(MAIN.0).iter().map(|one| (one, MAIN.1)));
    all.filter(|(container, statuses)| !status_of(pod, statuses, container.text("/name")).flag("/ready"))
        .map(|(container, _)| container.text("/name").to_owned())
        .collect()
}

/// What the readiness gates that are not open say.
fn closed_gates(pod: &Value) -> Vec<String> {
    let gates = pod.list("/spec/readinessGates").iter().map(|gate| gate.text("/conditionType"));
    gates
        .filter_map(|gate| match pod.condition(gate).text("/status") {
            "True" => None,
            "" => Some(format!("corresponding condition of pod readiness gate \"{gate}\" does not exist.")),
            status => {
                Some(format!("the status of pod readiness gate \"{gate}\" is not \"True\", but {status}"))
            }
        })
        .collect()
}

/// The status of a container, or null.
pub(crate) fn status_of<'a>(pod: &'a Value, statuses: &str, name: &str) -> &'a Value {
    pod.list(statuses).iter().find(|status| status["name"] == name).unwrap_or(&Value::Null)
}

/// Replaces the status of a container.
pub(crate) fn put_status(pod: &mut Value, statuses: &str, new: Value) {
    if !pod.at(statuses).is_array() {
        pod.set(statuses, json!([]));
    }
    let Some(list) = pod.pointer_mut(statuses).and_then(Value::as_array_mut) else { return };
    match list.iter_mut().find(|old| old["name"] == new["name"]) {
        Some(old) => *old = new,
        None => list.push(new),
    }
}

/// Ends all containers that run, with an exit code, and the pod with them.
pub(crate) fn end(pod: &mut Value, exit: i64, reason: &str, now: &str) {
    for (_, statuses) in [INIT, MAIN] {
        let ended: Vec<Value> = pod
            .list(statuses)
            .iter()
            .map(|status| {
                let mut status = status.clone();
                if status["state"].get("terminated").is_none() {
                    let ran = status["state"].get("running").is_some();
                    let (exit, reason) = if ran { (exit, reason) } else { (137, "ContainerStatusUnknown") };
                    status["state"] = terminated(&status, exit, reason, now);
                    if !ran {
                        status["state"]["terminated"]["message"] =
                            "The container could not be located when the pod was terminated".into();
                    }
                }
                status["ready"] = false.into();
                status["started"] = false.into();
                status
            })
            .collect();
        if !ended.is_empty() {
            pod.set(statuses, ended.into());
        }
    }
    let failed = pod.list(MAIN.1).iter().any(|status| status.number("/state/terminated/exitCode") != Some(0));
    pod.set("/status/phase", if failed { "Failed" } else { "Succeeded" }.into());
    judge(pod, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": {"uid": "u", "name": "p", "namespace": "a"},
            "spec": {"containers": [{"name": "c", "image": "quay.io/a/b:1"}], "readinessGates": [{"conditionType": "gate"}]},
        })
    }

    fn started(pod: &mut Value) {
        let new = entry(pod, &pod["spec"]["containers"][0].clone(), &running("1"), 0);
        put_status(pod, MAIN.1, new);
        pod.set("/status/phase", "Running".into());
        pod.set("/status/podIP", "10.0.0.1".into());
        judge(pod, "1");
    }

    #[test]
    fn a_pod_is_accepted_before_anything_runs() {
        let mut pod = pod();
        accept(&mut pod, "172.30.0.10", "0");
        assert_eq!(pod.text("/status/containerStatuses/0/state/waiting/reason"), "ContainerCreating");
        assert_eq!(pod.condition("Ready").text("/message"), "containers with unready status: [c]");
        assert!(pod.condition_holds("PodScheduled") && pod.condition_holds("Initialized"));
        assert!(!pod.condition_holds("PodReadyToStartContainers"));
    }

    #[test]
    fn a_pod_is_not_ready_before_its_gates_are_open() {
        let mut pod = pod();
        accept(&mut pod, "", "0");
        started(&mut pod);
        assert!(pod.condition_holds("ContainersReady"));
        assert_eq!(pod.condition("Ready")["reason"], "ReadinessGatesNotReady");
        Condition::new("gate", false, "", "").put(&mut pod, "2");
        judge(&mut pod, "2");
        assert_eq!(
            pod.condition("Ready")["message"],
            "the status of pod readiness gate \"gate\" is not \"True\", but False"
        );
        Condition::new("gate", true, "", "").put(&mut pod, "3");
        assert!(judge(&mut pod, "3") && pod.condition_holds("Ready"));
        assert!(!judge(&mut pod, "4"));
    }

    #[test]
    fn the_end_of_a_pod_is_that_of_its_containers() {
        let mut good = pod();
        accept(&mut good, "", "0");
        started(&mut good);
        let mut bad = good.clone();
        end(&mut good, 0, "Completed", "5");
        assert_eq!(good.text("/status/phase"), "Succeeded");
        assert_eq!(good.condition("Ready")["reason"], "PodCompleted");
        end(&mut bad, 137, "Error", "5");
        assert_eq!(bad.text("/status/phase"), "Failed");
        assert_eq!(bad["status"]["containerStatuses"][0]["state"]["terminated"]["startedAt"], "1");
    }

    #[test]
    fn images_are_named_without_their_tag() {
        assert!(image_id("localhost:5000/a/b:1").starts_with("localhost:5000/a/b@sha256:"));
        assert!(image_id("busybox").starts_with("busybox@sha256:"));
    }
}

//! How the container of a worker ends: what a kubelet says about it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::object::Object as _;

/// How a worker ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exit {
    /// The exit code.
    pub code: i64,
    /// What it left as its termination message.
    pub message: String,
}

impl Exit {
    /// It did what it had to.
    pub(crate) fn done(message: impl Into<String>) -> Self {
        Self { code: 0, message: message.into() }
    }

    /// It could not.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }
}

/// The first pause before a failed container is started again; it doubles from there.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// Whether the container of a worker runs.
pub(crate) fn is_running(pod: &Value) -> bool {
    pod.at("/status/containerStatuses/0/state/running").is_object()
}

/// How often the container of a worker was started anew.
pub(crate) fn restarts(pod: &Value) -> i64 {
    pod.number("/status/containerStatuses/0/restartCount").unwrap_or_default()
}

/// How long a container waits before it is started for the `restart`-th time again.
pub(crate) fn pause(restart: i64) -> Duration {
    let doublings = u32::try_from(restart - 1).unwrap_or_default().min(10);
    FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE)
}

/// The pod after its container has ended. One that did its work is complete; one that failed waits until its kubelet
/// starts it anew, and counts.
pub(crate) fn ended(pod: &Value, exit: &Exit, now: &str) -> Value {
    let mut new = pod.clone();
    let started = pod.text("/status/containerStatuses/0/state/running/startedAt");
    let terminated = json!({"terminated": {
        "exitCode": exit.code, "reason": if exit.code == 0 { "Completed" } else { "Error" },
        "message": exit.message, "startedAt": if started.is_empty() { now } else { started },
        "finishedAt": now,
    }});
    let status = "/status/containerStatuses/0";
    new.set(&format!("{status}/ready"), false.into());
    new.set(&format!("{status}/started"), false.into());
    if exit.code == 0 {
        new.set(&format!("{status}/state"), terminated);
        new.set("/status/phase", "Succeeded".into());
        ready(&mut new, false, "PodCompleted", now);
        return new;
    }
    let name = pod.text("/spec/containers/0/name");
    let message = format!(
        "back-off {} restarting failed container={name} pod={}_{}({})",
        go_duration(pause(restarts(pod) + 1)),
        pod.name(),
        pod.namespace(),
        pod.uid()
    );
    new.set(&format!("{status}/lastState"), terminated);
    new.set(
        &format!("{status}/state"),
        json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}}),
    );
    ready(&mut new, false, "ContainersNotReady", now);
    new
}

fn ready(pod: &mut Value, holds: bool, reason: &str, now: &str) {
    for kind in ["Ready", "ContainersReady"] {
        crate::object::Condition::new(kind, holds, reason, "").put(pod, now);
    }
}

/// A duration as Go writes it, in minutes and seconds.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": {"namespace": "n", "name": "p", "uid": "u"}, "spec": {"containers": [{"name": "importer"}]},
            "status": {"phase": "Running", "containerStatuses": [{"restartCount": 0, "state": {"running": {"startedAt": "0"}}}]},
        })
    }

    #[test]
    fn a_failed_container_waits_for_its_kubelet() {
        assert!(is_running(&pod()));
        let failed = ended(&pod(), &Exit::failed("no"), "1");
        assert_eq!(restarts(&failed), 0);
        assert!(!is_running(&failed));
        assert_eq!(failed.text("/status/containerStatuses/0/lastState/terminated/message"), "no");
        assert_eq!(
            failed.text("/status/containerStatuses/0/state/waiting/message"),
            "back-off 10s restarting failed container=importer pod=p_n(u)"
        );
        assert_eq!(failed["status"]["phase"], "Running");
        assert_eq!(
            (pause(1), pause(2), pause(20)),
            (Duration::from_secs(10), Duration::from_secs(20), LONGEST_PAUSE)
        );
    }

    #[test]
    fn a_container_that_is_done_completes_its_pod() {
        let done = ended(&pod(), &Exit::done("Import Complete"), "1");
        assert_eq!(done["status"]["phase"], "Succeeded");
        assert_eq!(done.text("/status/containerStatuses/0/state/terminated/reason"), "Completed");
    }
}

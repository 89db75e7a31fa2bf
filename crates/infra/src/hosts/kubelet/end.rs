//! How a pod is ended.

use std::time::Duration;

use serde_json::Value;

use super::Kubelet;
use super::status::{self, MAIN};
use super::timers::Passing;
use crate::controller::{Looked, Next};
use crate::kinds::POD;
use crate::object::{Key, Object as _};

impl Kubelet {
    /// Stops the containers of a pod that is deleted, and removes it once they have.
    pub(super) async fn stop(&self, pod: &Value) -> Looked {
        if !pod.is_over() {
            let ran = pod.list(MAIN.1).iter().any(|status| status["state"].get("running").is_some());
            let exit = if ran {
                match self.stopping(pod).await {
                    Err(wait) => return Ok(Next::After(wait)),
                    Ok(exit) => exit,
                }
            } else {
                0
            };
            let mut new = pod.clone();
            status::end(&mut new, exit, status::reason_of(exit), &self.now());
            self.say(pod, &new).await?;
        }
        self.context.world.fabric.unplug(pod.uid());
        self.addresses.release(pod.uid());
        self.client.delete_with(&POD, &Key::of(pod), pod.uid(), Some(0)).await?;
        Ok(Next::Done)
    }

    /// The exit code of the containers once they have stopped, or how long to wait until they may have.
    async fn stopping(&self, pod: &Value) -> Result<i64, Duration> {
        if !self.timers.has_begun("killing", pod.uid(), 0) {
            for container in pod.list(MAIN.0) {
                let message = format!("Stopping container {}", container.text("/name"));
                self.recorder.normal(&POD, pod, "Killing", &message).await;
            }
        }
        let since = self.timers.since("killing", pod, 0);
        let grace = pod.number("/metadata/deletionGracePeriodSeconds").unwrap_or_default();
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
        if since >= grace {
            return Ok(137);
        }
        let left = grace.saturating_sub(since);
        // A launcher stays until virt-handler has told how its machine ended: nobody is to find an instance that
        // runs and has no pod.
        if self.machine_in(pod).is_some() {
            return Err(left);
        }
        match self.timers.passing(&self.context.stages, "pod.stop", pod, 0) {
            Passing::Wait(wait) => Err(wait.min(left)),
            Passing::Failed(_) => Ok(1),
            Passing::Passed => Ok(0),
        }
    }
}

//! The pods of a tenant on one of its nodes: they start, end and are stopped.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::node;
use crate::client::{ApiError, Cache, Client};
use crate::controller::{Controller, Looked, Next, Watch};
use crate::guests::Guest;
use crate::hosts::kubelet::status::{self, MAIN};
use crate::hosts::kubelet::timers::{Passing, Timers};
use crate::kinds::POD;
use crate::object::{Key, Object as _};

/// How long to wait before a pod that could not be started is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// Runs what is scheduled to the node.
#[derive(Debug)]
pub(super) struct Pods {
    guest: Guest,
    client: Client,
    cache: Arc<Cache>,
    timers: Timers,
}

impl Pods {
    /// The pods of a cache that has those of the node alone.
    pub(super) fn new(guest: &Guest, client: &Client, cache: &Arc<Cache>) -> Self {
        Self {
            guest: guest.clone(),
            client: client.clone(),
            cache: Arc::clone(cache),
            timers: Timers::default(),
        }
    }

    async fn start(&self, pod: &Value) -> Looked {
        match self.timers.passing(&self.guest.stages, "pod.start", pod, 0) {
            Passing::Wait(left) => return Ok(Next::After(left)),
            Passing::Failed(_) => return Ok(Next::After(AGAIN)),
            Passing::Passed => {}
        }
        let status = node::running_pod(pod, &self.guest);
        settled(self.client.merge_status(&POD, &Key::of(pod), &json!({"status": status})).await)?;
        Ok(Next::Done)
    }

    /// Looks after a pod that runs: it may end by itself.
    async fn go_on(&self, pod: &Value) -> Looked {
        let restarts = pod.number("/status/containerStatuses/0/restartCount").unwrap_or_default();
        let attempt = u64::try_from(restarts).unwrap_or_default();
        let exit = match self.timers.passing(&self.guest.stages, "pod.run", pod, attempt) {
            Passing::Wait(left) => return Ok(Next::After(left)),
            Passing::Failed(_) => status::exit_of(pod).filter(|exit| *exit != 0).unwrap_or(1),
            Passing::Passed => match status::exit_of(pod) {
                Some(exit) => exit,
                None => return Ok(Next::Done),
            },
        };
        let mut new = pod.clone();
        let policy = pod.text("/spec/restartPolicy");
        if policy == "Never" || policy == "OnFailure" && exit == 0 {
            status::end(&mut new, exit, status::reason_of(exit), &self.guest.clock.seconds());
        } else {
            for entry in new.pointer_mut(MAIN.1).and_then(Value::as_array_mut).into_iter().flatten() {
                let now = self.guest.clock.seconds();
                entry["lastState"] = status::terminated(entry, exit, status::reason_of(exit), &now);
                entry["state"] = status::running(&now);
                entry["restartCount"] = (restarts + 1).into();
            }
        }
        settled(self.client.replace_status(&POD, &new).await)?;
        Ok(Next::Done)
    }

    /// Stops the containers of a pod within its grace period, and removes it once they have.
    async fn stop(&self, pod: &Value) -> Looked {
        if !pod.is_over() && pod["status"]["phase"] == "Running" {
            let since = self.timers.since("killing", pod, 0);
            let grace = pod.number("/metadata/deletionGracePeriodSeconds").unwrap_or_default();
            let left = Duration::from_secs(u64::try_from(grace).unwrap_or_default()).saturating_sub(since);
            let exit = match self.timers.passing(&self.guest.stages, "pod.stop", pod, 0) {
                _ if left.is_zero() => 137,
                Passing::Wait(wait) => return Ok(Next::After(wait.min(left))),
                Passing::Failed(_) => 1,
                Passing::Passed => 0,
            };
            let mut new = pod.clone();
            status::end(&mut new, exit, status::reason_of(exit), &self.guest.clock.seconds());
            settled(self.client.replace_status(&POD, &new).await)?;
        }
        self.timers.forget(pod.uid());
        self.client.delete_with(&POD, &Key::of(pod), pod.uid(), Some(0)).await?;
        Ok(Next::Done)
    }
}

/// A pod that is gone has nothing left to be said about it.
fn settled(written: Result<Value, ApiError>) -> Result<(), ApiError> {
    match written {
        Err(failure) if !failure.is_not_found() => Err(failure),
        _ => Ok(()),
    }
}

impl Controller for Pods {
    const NAME: &'static str = "guest-kubelet";

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::each(&self.cache)]
    }

    async fn look(&self, key: &Key) -> Looked {
        self.guest.running().await;
        let Some(pod) = self.cache.get(key) else { return Ok(Next::Done) };
        if pod.is_deleting() {
            return self.stop(&pod).await;
        }
        match pod.text("/status/phase") {
            "" | "Pending" => self.start(&pod).await,
            "Running" => self.go_on(&pod).await,
            _ => Ok(Next::Done),
        }
    }
}

//! What happens to a pod that runs: its containers become ready, end and are started anew.

use std::time::Duration;

use serde_json::{Value, json};

use super::Kubelet;
use super::images::back_off;
use super::status::{self, MAIN};
use super::timers::Passing;
use crate::controller::{Looked, Next};
use crate::kinds::POD;
use crate::object::{Key, Object as _};
use crate::stages::Profile;

/// What is to be said about a container.
enum Turn {
    /// Nothing, until something changes or a while has passed.
    Stay(Option<Duration>),
    /// It is ready now.
    Ready,
    /// It has ended.
    End(i64, String),
    /// It starts anew.
    Restart,
}

impl Kubelet {
    /// Looks after a pod that runs.
    pub(super) async fn go_on(&self, key: &Key, pod: &Value) -> Looked {
        let mut new = pod.clone();
        let mut wait: Option<Duration> = None;
        let mut ended = false;
        if self.has_lost_its_machine(key, pod) {
            status::end(&mut new, 0, "Completed", &self.now());
        } else {
            for container in pod.list(MAIN.0) {
                match self.turn_of(pod, container).await {
                    Turn::Stay(time) => wait = wait.into_iter().chain(time).min(),
                    Turn::Ready => set_ready(&mut new, container),
                    Turn::End(exit, message) => {
                        ended = true;
                        self.end_container(pod, &mut new, container, exit, &message).await;
                    }
                    Turn::Restart => self.restart_container(pod, &mut new, container).await,
                }
            }
            // Others may write about containers they run themselves; their end is theirs to tell.
            if ended {
                finish_if_over(&mut new);
            }
        }
        status::judge(&mut new, &self.now());
        self.say(pod, &new).await?;
        Ok(wait.map_or(Next::Done, Next::After))
    }

    /// Whether a machine has run in a pod and does not any more.
    fn has_lost_its_machine(&self, key: &Key, pod: &Value) -> bool {
        if pod.label("kubevirt.io/created-by").is_empty() {
            return false;
        }
        let machine = self.machine_in(pod);
        let elsewhere = self.context.world.machines.get(pod.label("kubevirt.io/created-by"));
        let has_left = elsewhere.is_some_and(|machine| machine.has_left(pod.uid()));
        let over = machine.as_ref().is_none_or(|machine| machine.state().borrow().is_over());
        let mut held = self.held.lock();
        let Some(held) = held.get_mut(key) else { return false };
        // A machine may come and go between two looks.
        held.had_machine |= machine.is_some() || has_left;
        held.had_machine && over
    }

    async fn turn_of(&self, pod: &Value, container: &Value) -> Turn {
        let now = status::status_of(pod, MAIN.1, container.text("/name"));
        let restarts = now.number("/restartCount").unwrap_or_default();
        let attempt = u64::try_from(restarts).unwrap_or_default();
        if now["state"].get("running").is_some() {
            return match self.ending(pod, attempt) {
                Turn::Stay(None) if !now.flag("/ready") => self.readiness(pod, container, attempt).await,
                turn => turn,
            };
        }
        if now.text("/state/waiting/reason") == "CrashLoopBackOff" {
            let since = self.timers.since("crash.back-off", pod, attempt);
            let left = pause_after(restarts).saturating_sub(since);
            return if left.is_zero() { Turn::Restart } else { Turn::Stay(Some(left)) };
        }
        Turn::Stay(None)
    }

    /// Whether and how a container ends by itself.
    fn ending(&self, pod: &Value, attempt: u64) -> Turn {
        let exit = status::exit_of(pod);
        match (self.timers.passing(&self.context.stages, "pod.run", pod, attempt), exit) {
            (Passing::Wait(left), _) => Turn::Stay(Some(left)),
            (Passing::Failed(message), exit) => {
                Turn::End(exit.filter(|exit| *exit != 0).unwrap_or(1), message)
            }
            (Passing::Passed, Some(exit)) => Turn::End(exit, String::new()),
            // Where nothing is said about its end a container runs for ever.
            (Passing::Passed, None) => Turn::Stay(None),
        }
    }

    /// Whether a container that is probed is ready.
    async fn readiness(&self, pod: &Value, container: &Value, attempt: u64) -> Turn {
        let probe = &container["readinessProbe"];
        if !probe.is_object() {
            return Turn::Stay(None);
        }
        if self.context.stages.profile() == Profile::Realistic {
            let delay =
                u64::try_from(probe.number("/initialDelaySeconds").unwrap_or_default()).unwrap_or_default();
            let left = Duration::from_secs(delay).saturating_sub(self.timers.since("probe", pod, attempt));
            if !left.is_zero() {
                return Turn::Stay(Some(left));
            }
        }
        match self.timers.passing(&self.context.stages, "pod.ready", pod, attempt) {
            Passing::Wait(left) => Turn::Stay(Some(left)),
            Passing::Passed => Turn::Ready,
            Passing::Failed(message) => {
                let message = format!("Readiness probe failed: {message}");
                if !self.timers.has_begun("unhealthy", pod.uid(), attempt) {
                    self.recorder.warning(&POD, pod, "Unhealthy", &message).await;
                    self.timers.since("unhealthy", pod, attempt);
                }
                Turn::Stay(None)
            }
        }
    }

    /// Notes the end of a container, and starts it anew if its pod wants that.
    async fn end_container(&self, pod: &Value, new: &mut Value, container: &Value, exit: i64, message: &str) {
        let mut entry = status::status_of(pod, MAIN.1, container.text("/name")).clone();
        let mut ended = status::terminated(&entry, exit, status::reason_of(exit), &self.now());
        if !message.is_empty() {
            ended["terminated"]["message"] = message.into();
        }
        entry["ready"] = false.into();
        entry["started"] = false.into();
        let policy = pod.text("/spec/restartPolicy");
        if policy == "Never" || policy == "OnFailure" && exit == 0 {
            entry["state"] = ended;
            status::put_status(new, MAIN.1, entry);
            return;
        }
        entry["lastState"] = ended;
        let restarts = entry.number("/restartCount").unwrap_or_default();
        if restarts == 0 {
            entry["state"] = json!({});
            status::put_status(new, MAIN.1, entry);
            self.restart_container(&new.clone(), new, container).await;
            return;
        }
        let (name, pause) = (container.text("/name"), pause_after(restarts).as_secs());
        let place = format!("{}_{}({})", pod.name(), pod.namespace(), pod.uid());
        let pause = if pause < 60 { format!("{pause}s") } else { format!("{}m{}s", pause / 60, pause % 60) };
        let message = format!("back-off {pause} restarting failed container={name} pod={place}");
        entry["state"] = status::waiting("CrashLoopBackOff", &message);
        status::put_status(new, MAIN.1, entry);
        let message = format!("Back-off restarting failed container {name} in pod {place}");
        self.recorder.warning(&POD, pod, "BackOff", &message).await;
    }

    async fn restart_container(&self, pod: &Value, new: &mut Value, container: &Value) {
        let old = status::status_of(pod, MAIN.1, container.text("/name"));
        let restarts = old.number("/restartCount").unwrap_or_default() + 1;
        let mut entry = status::entry(pod, container, &status::running(&self.now()), restarts);
        entry["lastState"] = old["lastState"].clone();
        entry["ready"] = (!container["readinessProbe"].is_object()).into();
        status::put_status(new, MAIN.1, entry);
        let message = format!("Container image \"{}\" already present on machine", container.text("/image"));
        self.recorder.normal(&POD, pod, "Pulled", &message).await;
        self.tell_started(pod, container).await;
    }

    /// Says what became of a pod whose host has lost power in between: it has failed, or starts anew if it wants to.
    pub(super) async fn after_power_loss(&self, key: &Key, pod: &Value) -> Looked {
        let mut new = pod.clone();
        let now = self.now();
        let ran = pod.list(MAIN.1).iter().any(|status| status["state"].get("running").is_some());
        self.timers.forget(pod.uid());
        self.context.world.fabric.unplug(pod.uid());
        if ran && (pod.text("/spec/restartPolicy") == "Never" || pod.is_deleting()) {
            status::end(&mut new, 255, "Unknown", &now);
        } else if ran {
            self.recorder
                .normal(&POD, pod, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
                .await;
            self.addresses.release(pod.uid());
            let addresses = self.addresses_of(pod).unwrap_or_default();
            new.set("/status/podIP", addresses.first().map(ToString::to_string).unwrap_or_default().into());
            new.set("/status/podIPs", addresses.iter().map(|one| json!({"ip": one.to_string()})).collect());
            self.plug(pod, addresses);
            for container in pod.list(MAIN.0) {
                let mut entry = status::status_of(pod, MAIN.1, container.text("/name")).clone();
                entry["lastState"] = status::terminated(&entry, 255, "Unknown", &now);
                status::put_status(&mut new, MAIN.1, entry);
                self.restart_container(&new.clone(), &mut new, container).await;
            }
            status::judge(&mut new, &now);
        }
        self.say(pod, &new).await?;
        let boots = self.context.world.hosts.boots(pod.text("/spec/nodeName"));
        if let Some(held) = self.held.lock().get_mut(key) {
            held.boots = boots;
        }
        Ok(Next::After(Duration::ZERO))
    }
}

/// How long a container that ended waits after so many restarts.
fn pause_after(restarts: i64) -> Duration {
    back_off(u32::try_from(restarts.saturating_sub(1)).unwrap_or_default())
}

fn set_ready(pod: &mut Value, container: &Value) {
    let mut entry = status::status_of(pod, MAIN.1, container.text("/name")).clone();
    entry["ready"] = true.into();
    status::put_status(pod, MAIN.1, entry);
}

/// Ends a pod all of whose containers have ended for good.
fn finish_if_over(pod: &mut Value) {
    let statuses = pod.list(MAIN.1);
    let over =
        !statuses.is_empty() && statuses.iter().all(|status| status["state"].get("terminated").is_some());
    if !over {
        return;
    }
    let failed = statuses.iter().any(|status| status.number("/state/terminated/exitCode") != Some(0));
    pod.set("/status/phase", if failed { "Failed" } else { "Succeeded" }.into());
}

//! What happens to a pod that runs.

use std::time::Duration;

use serde_json::Value;

use super::Kubelet;
use super::status::{self, MAIN};
use crate::controller::{Looked, Next};
use crate::object::{Key, Object as _};

/// How often a machine in a pod is looked at.
const POLL: Duration = Duration::from_secs(1);

impl Kubelet {
    /// Looks after a pod that runs.
    pub(super) async fn go_on(&self, key: &Key, pod: &Value) -> Looked {
        let mut new = pod.clone();
        let next = self.watch_machine(key, pod, &mut new);
        status::judge(&mut new, &self.now());
        self.say(pod, &new).await?;
        Ok(next)
    }

    /// Ends a pod whose machine is over or has moved elsewhere.
    fn watch_machine(&self, key: &Key, pod: &Value, new: &mut Value) -> Next {
        if pod.label("kubevirt.io/created-by").is_empty() {
            return Next::Done;
        }
        let machine = self.machine_in(pod);
        let elsewhere = self.context.world.machines.get(pod.label("kubevirt.io/created-by"));
        let has_left = elsewhere.is_some_and(|machine| machine.has_left(pod.uid()));
        let over = machine.as_ref().is_none_or(|machine| machine.state().borrow().is_over());
        let mut held = self.held.lock();
        let Some(held) = held.get_mut(key) else { return Next::Done };
        // A machine may come and go between two looks.
        held.had_machine |= machine.is_some() || has_left;
        if held.had_machine && over {
            status::end(new, 0, "Completed", &self.now());
            return Next::Done;
        }
        Next::After(POLL)
    }

    /// Says what became of a pod whose host has lost power in between.
    pub(super) async fn after_power_loss(&self, key: &Key, pod: &Value) -> Looked {
        let mut new = pod.clone();
        let ran = pod.list(MAIN.1).iter().any(|status| status["state"].get("running").is_some());
        if ran {
            status::end(&mut new, 255, "Unknown", &self.now());
        }
        self.say(pod, &new).await?;
        let boots = self.context.world.hosts.boots(pod.text("/spec/nodeName"));
        if let Some(held) = self.held.lock().get_mut(key) {
            held.boots = boots;
        }
        Ok(Next::After(Duration::ZERO))
    }
}

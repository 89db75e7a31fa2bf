//! The node lifecycle: what the cluster concludes from the silence of a host, and the taints it warns others with.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::heartbeat;
use crate::client::{Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{LEASE, NODE, POD};
use crate::object::{Condition, Key, Object as _};

/// How long a host may be silent.
pub(crate) const GRACE: Duration = Duration::from_secs(50);

/// Marks and taints nodes.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    context: Context,
    client: Client,
    recorder: Recorder,
    /// The uids of the nodes it has told of.
    registered: Mutex<HashSet<String>>,
}

impl Lifecycle {
    /// The node lifecycle controller.
    pub(crate) fn new(context: &Context) -> Self {
        let identity = Identity::CONTROLLER_MANAGER;
        Self {
            context: context.clone(),
            client: context.client(identity),
            recorder: Recorder::new(&context.client(identity), context.clock, "node-controller"),
            registered: Mutex::default(),
        }
    }

    /// When something was last heard of a host: from its lease or from its own status, whatever is later.
    fn last_heard(&self, node: &Value) -> Timestamp {
        let lease = self.client.cache(&LEASE).get(&Key::new(heartbeat::NAMESPACE, node.name()));
        let renewed = lease.as_ref().map(|lease| moment(lease.text("/spec/renewTime"))).unwrap_or_default();
        let ready = node.condition("Ready");
        // The time in a condition that was set here says when nothing was heard, and not when something was.
        let reported = if ready["status"] == "Unknown" { "" } else { ready.text("/lastHeartbeatTime") };
        let made = moment(node.text("/metadata/creationTimestamp"));
        renewed.max(moment(reported)).max(made)
    }

    /// Tells of a node that is new here.
    async fn register(&self, node: &Value) {
        if self.registered.lock().insert(node.uid().to_owned()) {
            let name = node.name();
            let message = format!("Node {name} event: Registered Node {name} in Controller");
            self.recorder.normal(&NODE, node, "RegisteredNode", &message).await;
        }
    }

    /// Sets all conditions to unknown.
    async fn mark_silent(&self, node: &Value) -> Result {
        let mut new = node.clone();
        let now = self.context.clock.seconds();
        for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
            let message = "Kubelet stopped posting node status.";
            Condition { kind, status: "Unknown", reason: "NodeStatusUnknown", message }.put(&mut new, &now);
        }
        self.client.replace_status(&NODE, &new).await?;
        let message = format!("Node {} status is now: NodeNotReady", node.name());
        self.recorder.normal(&NODE, node, "NodeNotReady", &message).await;
        Ok(())
    }

    /// Sets all pods of a silent host to not ready. One that somebody else writes to does not keep the others from it,
    /// and is tried again.
    async fn mark_pods(&self, node: &str) -> Result {
        let mut marked = Ok(());
        for pod in self.client.cache(&POD).find("node", node) {
            marked = marked.and(self.mark_pod(&pod).await);
        }
        marked
    }

    async fn mark_pod(&self, pod: &Value) -> Result {
        if !pod.condition_holds("Ready") {
            return Ok(());
        }
        let mut new = pod.clone();
        Condition::new("Ready", false, "NodeNotReady", "").put(&mut new, &self.context.clock.seconds());
        match self.client.replace_status(&POD, &new).await {
            Err(failure) if failure.is_not_found() => return Ok(()),
            written => written?,
        };
        self.recorder.warning(&POD, pod, "NodeNotReady", "Node is not ready").await;
        Ok(())
    }
}

impl Controller for Lifecycle {
    const NAME: &'static str = "node-lifecycle";

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::each(&self.client.cache(&NODE)),
            Watch::known(&self.client.cache(&POD)),
            Watch::known(&self.client.cache(&LEASE)),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(node) = self.client.cache(&NODE).get(key) else { return Ok(Next::Done) };
        self.register(&node).await;
        let now = self.context.clock.now();
        let silence = Duration::try_from(now.duration_since(self.last_heard(&node))).unwrap_or_default();
        let ready = node.condition("Ready");
        if silence > GRACE && ready["status"] != "Unknown" {
            self.mark_silent(&node).await?;
            self.mark_pods(&key.name).await?;
            return Ok(Next::Done);
        }
        if ready["status"] == "Unknown" {
            self.mark_pods(&key.name).await?;
        }
        let wanted = wanted_taints(&node);
        if let Some(taints) = with_taints(&node, &wanted, &self.context.clock.seconds()) {
            let patch = json!({"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": taints}});
            self.client.merge(&NODE, key, &patch).await?;
        }
        if silence > GRACE {
            return Ok(Next::Done);
        }
        Ok(Next::After(GRACE.saturating_sub(silence) + Duration::from_millis(1)))
    }
}

fn moment(text: &str) -> Timestamp {
    text.parse().unwrap_or_default()
}

/// The taints this controller is responsible for.
const OURS: &[&str] = &[
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
];

/// The taints a node should have, with their effects, by what it says of itself.
fn wanted_taints(node: &Value) -> Vec<(&'static str, &'static str)> {
    let mut wanted = Vec::new();
    match node.condition("Ready").text("/status") {
        "False" => {
            wanted.push(("node.kubernetes.io/not-ready", "NoSchedule"));
            wanted.push(("node.kubernetes.io/not-ready", "NoExecute"));
        }
        "Unknown" => {
            wanted.push(("node.kubernetes.io/unreachable", "NoSchedule"));
            wanted.push(("node.kubernetes.io/unreachable", "NoExecute"));
        }
        "True" => {}
        _ => wanted.push(("node.kubernetes.io/not-ready", "NoSchedule")),
    }
    for (kind, taint) in [
        ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
        ("DiskPressure", "node.kubernetes.io/disk-pressure"),
        ("PIDPressure", "node.kubernetes.io/pid-pressure"),
        ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
    ] {
        if node.condition_holds(kind) {
            wanted.push((taint, "NoSchedule"));
        }
    }
    if node.flag("/spec/unschedulable") {
        wanted.push(("node.kubernetes.io/unschedulable", "NoSchedule"));
    }
    wanted
}

/// The taints of a node with ours as wanted; nothing where they are so already.
fn with_taints(node: &Value, wanted: &[(&'static str, &'static str)], now: &str) -> Option<Value> {
    let taints = node.list("/spec/taints");
    let is_wanted = |taint: &Value| {
        wanted.iter().any(|(key, effect)| taint["key"] == **key && taint["effect"] == **effect)
    };
    let is_ours = |taint: &Value| OURS.iter().any(|key| taint["key"] == **key);
    let mut new: Vec<Value> =
        taints.iter().filter(|taint| !is_ours(taint) || is_wanted(taint)).cloned().collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| taint["key"] == **key && taint["effect"] == **effect) {
            new.push(json!({"key": key, "effect": effect, "timeAdded": now}));
        }
    }
    (new != taints).then_some(Value::Array(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_follow_the_conditions() {
        let mut node = json!({
            "spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        let taints = with_taints(&node, &wanted_taints(&node), "now");
        assert_eq!(taints, Some(json!([{"key": "mine", "effect": "NoSchedule"}])));
        node.set("/spec/taints", json!([]));
        assert_eq!(with_taints(&node, &wanted_taints(&node), "now"), None);
        node.set("/status/conditions/0/status", "Unknown".into());
        let taints = with_taints(&node, &wanted_taints(&node), "now");
        assert_eq!(
            taints,
            Some(json!([
                {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule", "timeAdded": "now"},
                {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "now"},
            ]))
        );
    }

    #[test]
    fn a_cordoned_node_is_tainted() {
        let node = json!({"spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(wanted_taints(&node), [("node.kubernetes.io/unschedulable", "NoSchedule")]);
    }
}

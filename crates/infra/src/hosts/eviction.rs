//! What becomes of the pods of a node that is tainted or gone: taint eviction and the collection of orphans.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::client::{Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{NODE, POD};
use crate::object::{Condition, Key, Object as _};

/// How long a node has to be gone before its pods are.
const QUARANTINE: Duration = Duration::from_secs(40);
/// The taint by which somebody confirms that a silent host is really off.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Deletes pods for what is the matter with their nodes.
#[derive(Debug)]
pub(crate) struct Eviction {
    context: Context,
    client: Client,
    recorder: Recorder,
    /// Since when nodes are known to be gone.
    gone: Mutex<BTreeMap<String, Instant>>,
}

impl Eviction {
    /// The controller.
    pub(crate) fn new(context: &Context) -> Self {
        let identity = Identity::CONTROLLER_MANAGER;
        let client = context.client(identity);
        let recorder = Recorder::new(&client, context.clock, "taint-eviction-controller");
        Self { context: context.clone(), client, recorder, gone: Mutex::default() }
    }

    /// For how long a node is gone.
    fn gone_for(&self, node: &str) -> Duration {
        let pods = self.client.cache(&POD);
        let mut gone = self.gone.lock();
        if !gone.contains_key(node) {
            // Those without pods are of no interest any more.
            gone.retain(|other, _| !pods.find("node", other).is_empty());
        }
        gone.entry(node.to_owned()).or_insert_with(Instant::now).elapsed()
    }

    /// Deletes a pod because of a taint.
    async fn evict(&self, pod: &Value) -> Result {
        let message = format!("Marking for deletion Pod {}", Key::of(pod));
        self.recorder.normal(&POD, pod, "TaintManagerEviction", &message).await;
        self.disrupt(pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint").await?;
        self.client.delete(&POD, &Key::of(pod), pod.uid()).await
    }

    /// Removes a pod that no kubelet will ever say anything about again.
    async fn collect(&self, pod: &Value, why: &str) -> Result {
        if !pod.is_over() {
            let mut new = pod.clone();
            new.set("/status/phase", "Failed".into());
            self.put_disruption(&mut new, "DeletionByPodGC", why);
            match self.client.replace_status(&POD, &new).await {
                Err(failure) if failure.is_not_found() => return Ok(()),
                written => written?,
            };
        }
        self.client.delete_with(&POD, &Key::of(pod), pod.uid(), Some(0)).await
    }

    async fn disrupt(&self, pod: &Value, reason: &str, message: &str) -> Result {
        let mut new = pod.clone();
        if self.put_disruption(&mut new, reason, message) {
            match self.client.replace_status(&POD, &new).await {
                Err(failure) if failure.is_not_found() => return Ok(()),
                written => written?,
            };
        }
        Ok(())
    }

    fn put_disruption(&self, pod: &mut Value, reason: &str, message: &str) -> bool {
        Condition::new("DisruptionTarget", true, reason, message).put(pod, &self.context.clock.seconds())
    }
}

impl Controller for Eviction {
    const NAME: &'static str = "taint-eviction";

    fn watches(&self) -> Vec<Watch> {
        let pods = self.client.cache(&POD);
        let of_node = std::sync::Arc::clone(&pods);
        vec![
            Watch::each(&pods),
            Watch::mapped(&self.client.cache(&NODE), move |change| {
                let taints = |node: &Option<std::sync::Arc<Value>>| {
                    node.as_ref().map(|node| node.at("/spec/taints").clone())
                };
                // Nodes change every few minutes for their heartbeats; only taints and their end matter here.
                if taints(&change.before) == taints(&change.after) {
                    return Vec::new();
                }
                of_node.find("node", change.object().name()).iter().map(|pod| Key::of(pod)).collect()
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(pod) = self.client.cache(&POD).get(key) else { return Ok(Next::Done) };
        let node = pod.text("/spec/nodeName");
        if node.is_empty() {
            return Ok(Next::Done);
        }
        let now = self.context.clock.now();
        let Some(node) = self.client.cache(&NODE).get(&Key::cluster(node)) else {
            if self.client.get(&NODE, &Key::cluster(node)).await?.is_some() {
                return Ok(Next::After(Duration::from_secs(1)));
            }
            let since = self.gone_for(node);
            if since < QUARANTINE {
                return Ok(Next::After(QUARANTINE.saturating_sub(since)));
            }
            self.collect(&pod, "PodGC: node no longer exists").await?;
            return Ok(Next::Done);
        };
        self.gone.lock().remove(node.name());
        if pod.is_deleting() {
            let out = node.list("/spec/taints").iter().any(|taint| taint["key"] == OUT_OF_SERVICE);
            if out && !node.condition_holds("Ready") {
                self.collect(&pod, "PodGC: node is out of service").await?;
            }
            return Ok(Next::Done);
        }
        match time_left(&pod, &node, now) {
            None => Ok(Next::Done),
            Some(Duration::ZERO) => {
                self.evict(&pod).await?;
                Ok(Next::Done)
            }
            Some(left) => Ok(Next::After(left)),
        }
    }
}

/// How long a pod may stay on a node; for ever where there is nothing.
fn time_left(pod: &Value, node: &Value, now: Timestamp) -> Option<Duration> {
    let taints = node.list("/spec/taints").iter().filter(|taint| taint["effect"] == "NoExecute");
    taints
        .filter_map(|taint| {
            let tolerations = pod.list("/spec/tolerations").iter();
            let mut tolerating = tolerations.filter(|toleration| tolerates(toleration, taint)).peekable();
            if tolerating.peek().is_none() {
                return Some(Duration::ZERO);
            }
            let seconds =
                tolerating.filter_map(|toleration| toleration["tolerationSeconds"].as_i64()).min()?;
            let added: Timestamp = taint.text("/timeAdded").parse().unwrap_or(now);
            let passed = Duration::try_from(now.duration_since(added)).unwrap_or_default();
            let allowed = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            Some(allowed.saturating_sub(passed))
        })
        .min()
}

/// Whether a toleration is about a taint.
pub(crate) fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let (effect, key) = (toleration.text("/effect"), toleration.text("/key"));
    if !effect.is_empty() && taint["effect"] != effect || !key.is_empty() && taint["key"] != key {
        return false;
    }
    match toleration.text("/operator") {
        "Exists" => true,
        "" | "Equal" => !key.is_empty() && toleration.text("/value") == taint.text("/value"),
        _ => false,
    }
}

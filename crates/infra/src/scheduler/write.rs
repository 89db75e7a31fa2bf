//! What the scheduler writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::pod::Pod;
use super::volumes::SELECTED_NODE;
use crate::client::{Client, Identity, Result};
use crate::clock::Clock;
use crate::context::Context;
use crate::events::Recorder;
use crate::kinds::{POD, PV, PVC};
use crate::object::{Condition, Key, Object as _};
use crate::stages::Stages;

/// Writes in the name of the scheduler. Clones are cheap.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    client: Client,
    recorder: Recorder,
    clock: Clock,
    stages: Stages,
}

impl Writer {
    /// A writer.
    pub(crate) fn new(context: &Context) -> Self {
        let client = context.client(Identity::SCHEDULER);
        Self {
            recorder: Recorder::new(&client, context.clock, "default-scheduler"),
            client,
            clock: context.clock,
            stages: context.stages.clone(),
        }
    }

    /// Binds a pod to a node; the message where that fails.
    pub(crate) async fn bind(
        &self,
        pod: &Value,
        node: &str,
        attempt: u64,
    ) -> std::result::Result<(), String> {
        let key = Key::of(pod);
        self.stages.pass("scheduler.bind", pod, attempt).await?;
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"namespace": key.namespace, "name": key.name, "uid": pod.uid()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        self.client.post(&POD, &key, "binding", &binding).await.map_err(|failure| failure.to_string())?;
        let message = format!("Successfully assigned {key} to {node}");
        self.recorder.normal(&POD, pod, "Scheduled", &message).await;
        Ok(())
    }

    /// Says where the volumes of a pod are wanted, and binds those that are there already.
    pub(crate) async fn choose_volumes(
        &self,
        node: &str,
        claims: &[Key],
        existing: &BTreeMap<Key, String>,
    ) -> Result {
        for key in claims {
            let Some(claim) = self.client.cache(&PVC).get(key) else { continue };
            if let Some(volume) = existing.get(key) {
                let patch = json!({
                    "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
                    "spec": {"claimRef": {
                        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": key.namespace,
                        "name": key.name, "uid": claim.uid(),
                        "resourceVersion": claim["metadata"]["resourceVersion"],
                    }},
                });
                self.client.merge(&PV, &Key::cluster(volume), &patch).await?;
            } else if claim.annotation(SELECTED_NODE) != node {
                let patch = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
                self.client.merge(&PVC, key, &patch).await?;
            }
        }
        Ok(())
    }

    /// Says that a pod fits nowhere, and where it may be expected later.
    pub(crate) async fn refuse(&self, pod: &Value, reason: &str, message: &str, nominated: Option<&str>) {
        self.recorder.warning(&POD, pod, "FailedScheduling", message).await;
        let condition = Condition::new("PodScheduled", false, reason, message);
        self.change_status(pod, |new| {
            if let Some(node) = nominated {
                new.set("/status/nominatedNodeName", node.into());
            }
            condition.put(new, &self.clock.seconds());
        })
        .await;
    }

    /// Ends pods so that a more important one has room.
    pub(crate) async fn evict(&self, victims: &[Arc<Pod>], preemptor: &Value, node: &str) {
        for victim in victims {
            let Some(object) = self.client.cache(&POD).get(&victim.key) else { continue };
            let scheduler = preemptor.text("/spec/schedulerName");
            let message = format!("{scheduler}: preempting to accommodate a higher priority pod");
            let condition = Condition::new("DisruptionTarget", true, "PreemptionByScheduler", &message);
            self.change_status(&object, |new| {
                condition.put(new, &self.clock.seconds());
            })
            .await;
            if let Err(failure) = self.client.delete(&POD, &victim.key, &victim.uid).await {
                tracing::debug!(pod = %victim.key, %failure, "a pod could not be preempted");
                continue;
            }
            let message = format!("Preempted by pod {} on node {node}", preemptor.uid());
            self.recorder.normal(&POD, &object, "Preempted", &message).await;
        }
    }

    /// Changes the status of a pod, on top of whatever others have written in between.
    async fn change_status(&self, pod: &Value, change: impl Fn(&mut Value)) {
        let key = Key::of(pod);
        let mut current = self.client.cache(&POD).get(&key).map(|pod| (*pod).clone());
        for _ in 0..3 {
            let Some(old) = current.filter(|current| current.uid() == pod.uid()) else { return };
            let mut new = old.clone();
            change(&mut new);
            if new == old {
                return;
            }
            if let Some(generation) = new.number("/metadata/generation") {
                new.set("/status/observedGeneration", generation.into());
            }
            match self.client.replace_status(&POD, &new).await {
                Err(failure) if failure.is_conflict() => {
                    current = self.client.get(&POD, &key).await.unwrap_or_default();
                }
                Err(failure) => {
                    tracing::debug!(pod = %key, %failure, "a status could not be written");
                    return;
                }
                Ok(_) => return,
            }
        }
    }
}

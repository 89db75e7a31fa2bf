//! The scheduler: which host a pod runs on, and why on none.

use serde_json::{Value, json};

use crate::client::{Client, Identity};
use crate::context::{Context, Tasks};
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{NODE, POD, PVC};
use crate::object::{Key, Object as _};

/// Starts the scheduler.
pub fn start(context: &Context, tasks: &mut Tasks) {
    tasks.control(Scheduler {
        client: context.client(Identity::SCHEDULER),
        recorder: Recorder::new(&context.client(Identity::SCHEDULER), context.clock, "default-scheduler"),
    });
}

#[derive(Debug)]
struct Scheduler {
    client: Client,
    recorder: Recorder,
}

impl Controller for Scheduler {
    const NAME: &'static str = "scheduler";

    fn watches(&self) -> Vec<Watch> {
        let pods = self.client.cache(&POD);
        vec![Watch::mapped(&pods, |change| {
            let waits = change.object().text("/spec/nodeName").is_empty();
            if waits { vec![change.key()] } else { Vec::new() }
        })]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(pod) = self.client.cache(&POD).get(key) else { return Ok(Next::Done) };
        let ours = pod.text("/spec/schedulerName") == "default-scheduler";
        if !ours
            || !pod.text("/spec/nodeName").is_empty()
            || !pod.list("/spec/schedulingGates").is_empty()
            || pod.is_deleting()
        {
            return Ok(Next::Done);
        }
        let pods = self.client.cache(&POD);
        let fits = |node: &Value| {
            let selector = pod.at("/spec/nodeSelector").as_object();
            node.condition_holds("Ready")
                && !node.flag("/spec/unschedulable")
                && node.list("/spec/taints").is_empty()
                && selector.is_none_or(|labels| labels.iter().all(|(name, value)| node.label(name) == value))
        };
        let nodes = self.client.cache(&NODE).list("");
        let node =
            nodes.iter().filter(|node| fits(node)).min_by_key(|node| pods.find("node", node.name()).len());
        let Some(node) = node else { return Ok(Next::After(std::time::Duration::from_secs(1))) };
        for volume in pod.list("/spec/volumes") {
            let claim = Key::new(pod.namespace(), volume.text("/persistentVolumeClaim/claimName"));
            let Some(claim) = self.client.cache(&PVC).get(&claim) else { continue };
            if claim.text("/status/phase") != "Bound" {
                if claim.annotation("volume.kubernetes.io/selected-node").is_empty() {
                    let patch = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node.name()}}});
                    self.client.merge(&PVC, &Key::of(&claim), &patch).await?;
                }
                return Ok(Next::After(std::time::Duration::from_millis(500)));
            }
        }
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"namespace": key.namespace, "name": key.name, "uid": pod.uid()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node.name()},
        });
        self.client.post(&POD, key, "binding", &binding).await?;
        let message = format!("Successfully assigned {key} to {}", node.name());
        self.recorder.normal(&POD, &pod, "Scheduled", &message).await;
        Ok(Next::Done)
    }
}

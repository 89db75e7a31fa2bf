//! virt-controller's part for hosts: one that is not heard of takes no machines.
//!
//! The real one counts the heartbeats of virt-handler, which come once a minute and are forgiven for five. Here they come,
//! too, but what counts is the kubelet's, and what is made of it is the condition `Ready`: the two fall silent together.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::names::SCHEDULABLE_LABEL;
use crate::client::{Cache, Client, Identity};
use crate::context::{Context, Tasks};
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::hosts::GRACE;
use crate::kinds::NODE;
use crate::object::{Key, Object as _};

/// How long a host may be silent.
const SILENCE: Duration = Duration::from_mins(5);

/// Starts the controller of hosts.
pub fn start(context: &Context, tasks: &mut Tasks) {
    let client = context.client(Identity::VIRT_CONTROLLER);
    tasks.control(Nodes {
        recorder: Recorder::new(&client, context.clock, "node-controller"),
        known: client.cache(&NODE),
        context: context.clone(),
        client,
    });
}

struct Nodes {
    context: Context,
    client: Client,
    recorder: Recorder,
    known: Arc<Cache>,
}

/// How long a host was not heard of; nothing where it is.
fn silent_for(node: &Value, now: Timestamp) -> Option<Duration> {
    let ready = node.condition("Ready");
    if ready["status"] != "Unknown" {
        return None;
    }
    let since: Timestamp = ready.text("/lastTransitionTime").parse().ok()?;
    // It was silent for a while already when its condition said so.
    Some(Duration::try_from(now.duration_since(since)).unwrap_or_default() + GRACE)
}

impl Controller for Nodes {
    const NAME: &'static str = "virt-node";

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::mapped(&self.known, |change| {
            // Heartbeats alone are no news.
            let state = |node: &Option<Arc<Value>>| {
                node.as_ref().map(|node| {
                    (node.condition("Ready")["status"].clone(), node.label(SCHEDULABLE_LABEL).to_owned())
                })
            };
            if state(&change.before) == state(&change.after) { Vec::new() } else { vec![change.key()] }
        })]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(node) = self.known.get(key) else { return Ok(Next::Done) };
        let label = node.label(SCHEDULABLE_LABEL);
        let wanted = match silent_for(&node, self.context.clock.now()) {
            Some(silent) if silent < SILENCE => return Ok(Next::After(SILENCE.saturating_sub(silent))),
            Some(_) => "false",
            None if node.condition_holds("Ready") => "true",
            None => return Ok(Next::Done),
        };
        if label.is_empty() || label == wanted {
            return Ok(Next::Done);
        }
        let mut labels = json!({});
        labels[SCHEDULABLE_LABEL] = wanted.into();
        self.client.merge(&NODE, key, &json!({"metadata": {"labels": labels}})).await?;
        if wanted == "false" {
            let message = "virt-handler is not responsive, marking node as unresponsive";
            self.recorder.warning(&NODE, &node, "NodeUnresponsive", message).await;
        }
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_before_it_was_noticed() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let node = |status: &str| {
            let ready =
                json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            json!({"status": {"conditions": [ready]}})
        };
        assert_eq!(silent_for(&node("True"), now), None);
        assert_eq!(silent_for(&node("False"), now), None);
        assert_eq!(silent_for(&node("Unknown"), now), Some(Duration::from_mins(1) + GRACE));
    }
}

//! Flow schemas say whether the priority level they name is there.

use serde_json::{Value, json};

use super::agent::Agent;
use super::{Controller, Interest, Next, Queue};
use crate::clock::seconds;
use crate::server::flow;
use crate::status::Status;
use crate::store::{Change, EventKind, Key, Query};

/// Whom the condition belongs to.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

/// Keeps the status of flow schemas.
#[derive(Debug)]
pub(super) struct Flows {
    agent: Agent,
}

impl Controller for Flows {
    /// The name of a flow schema.
    type Item = String;

    fn interest(&self) -> Interest {
        let (schemas, levels) = (flow::schemas(), flow::levels());
        Box::new(move |change| change.of == *schemas || change.of == *levels)
    }

    fn begin(&mut self, queue: &mut Queue<String>) {
        self.queue_where(queue, |_| true);
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<String>) {
        let name = &change.event.key.name;
        if change.of == *flow::levels() {
            if change.event.kind != EventKind::Modified {
                self.queue_where(queue, |schema| level_of(schema) == name);
            }
        } else if change.event.kind != EventKind::Deleted {
            queue.add(name.clone());
        }
    }

    async fn work(&mut self, name: &String, _: &mut Queue<String>) -> Result<Next, Status> {
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        let key = Key::new("", name.as_str());
        let Some(schema) = server.store().get(flow::schemas(), &key) else { return Ok(Next::Done) };
        let schema = schema.parse();
        let level = level_of(&schema);
        let found = server.store().get(flow::levels(), &Key::new("", level)).is_some();
        let condition = dangling(level, found, &seconds(server.clock().now()));
        if !is_told(&schema, &condition) {
            let configuration = json!({
                "apiVersion": schema["apiVersion"], "kind": schema["kind"], "metadata": {"name": name},
                "status": {"conditions": [condition]},
            });
            self.agent.apply(flow::schemas(), &key, "status", MANAGER, &configuration).await?;
        }
        Ok(Next::Done)
    }
}

impl Flows {
    pub(super) fn new(agent: Agent) -> Self {
        Self { agent }
    }

    fn queue_where(&self, queue: &mut Queue<String>, wanted: impl Fn(&Value) -> bool) {
        let Some(server) = self.agent.server() else { return };
        let all = server.store().list(flow::schemas(), &Query::default(), |_, _| true).records;
        queue.extend(
            all.iter().filter(|record| wanted(&record.parse())).map(|record| record.key.name.clone()),
        );
    }
}

/// The name of the priority level a flow schema leads to.
fn level_of(schema: &Value) -> &str {
    schema["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap_or_default()
}

/// The condition that tells whether a priority level is missing.
fn dangling(level: &str, found: bool, now: &str) -> Value {
    let (status, reason, end) =
        if found { ("False", "Found", "it exists") } else { ("True", "NotFound", "there is no such object") };
    let conjunction = if found { "and" } else { "but" };
    let message = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named {level:?} {conjunction} {end}"
    );
    json!({"type": "Dangling", "status": status, "reason": reason, "message": message, "lastTransitionTime": now})
}

/// True when a flow schema tells a condition already, whenever that was.
fn is_told(schema: &Value, condition: &Value) -> bool {
    let mut told = schema["status"]["conditions"].as_array().into_iter().flatten();
    told.any(|one| ["type", "status", "reason", "message"].iter().all(|field| one[field] == condition[field]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_told_once() {
        let condition = dangling("exempt", true, "2026-01-01T00:00:00Z");
        assert_eq!(
            condition["message"],
            "This FlowSchema references the PriorityLevelConfiguration object named \"exempt\" and it exists"
        );
        let mut schema = json!({"status": {"conditions": [condition]}});
        assert!(is_told(&schema, &dangling("exempt", true, "2026-01-02T00:00:00Z")));
        assert!(!is_told(&schema, &dangling("exempt", false, "2026-01-02T00:00:00Z")));
        schema["status"] = json!({});
        assert!(!is_told(&schema, &condition));
    }
}

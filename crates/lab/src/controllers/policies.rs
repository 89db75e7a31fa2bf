//! Validating policies: whether their expressions fit the types they are about.

use serde_json::{Value, json};

use super::agent::Agent;
use super::{Controller, Interest, Next, Queue};
use crate::admission::policies::typecheck;
use crate::names::GroupResource;
use crate::status::Status;
use crate::store::{Change, EventKind, Key, Query};

/// Whom the status belongs to.
const MANAGER: &str = "kube-controller-manager";

/// Checks the types of policies.
#[derive(Debug)]
pub(super) struct Policies {
    agent: Agent,
}

fn resource() -> GroupResource {
    GroupResource::new("admissionregistration.k8s.io", "validatingadmissionpolicies")
}

impl Policies {
    pub(super) fn new(agent: Agent) -> Self {
        Self { agent }
    }
}

impl Controller for Policies {
    /// The name of a policy.
    type Item = String;

    fn interest(&self) -> Interest {
        let policies = resource();
        Box::new(move |change| change.of == policies)
    }

    fn begin(&mut self, queue: &mut Queue<String>) {
        let Some(server) = self.agent.server() else { return };
        for record in server.store().list(&resource(), &Query::default(), |_, _| true).records {
            queue.add(record.key.name.clone());
        }
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<String>) {
        if change.event.kind != EventKind::Deleted {
            queue.add(change.event.key.name.clone());
        }
    }

    async fn work(&mut self, name: &String, _: &mut Queue<String>) -> Result<Next, Status> {
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        let key = Key::new("", name.as_str());
        let Some(record) = server.store().get(&resource(), &key) else { return Ok(Next::Done) };
        let policy: Value = record.parse();
        if let Some(status) = typecheck::status(&policy, &server.served_kinds()) {
            let applied = json!({
                "apiVersion": policy["apiVersion"], "kind": policy["kind"],
                "metadata": {"name": name}, "status": status,
            });
            self.agent.apply(&resource(), &key, "status", MANAGER, &applied).await?;
        }
        Ok(Next::Done)
    }
}

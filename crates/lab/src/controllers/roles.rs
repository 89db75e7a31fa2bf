//! Cluster roles that gather the rules of others.

use serde_json::{Value, json};

use super::agent::Agent;
use super::{Controller, Interest, Next, Queue};
use crate::auth;
use crate::names::GroupResource;
use crate::status::Status;
use crate::store::{Change, Key, Query};

/// Whom the gathered rules belong to.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Gathers rules.
#[derive(Debug)]
pub(super) struct Roles {
    agent: Agent,
}

fn resource() -> GroupResource {
    GroupResource::new("rbac.authorization.k8s.io", "clusterroles")
}

impl Controller for Roles {
    /// All roles: nobody knows which of them a changed one is gathered by.
    type Item = ();

    fn interest(&self) -> Interest {
        let roles = resource();
        Box::new(move |change| change.of == roles)
    }

    fn begin(&mut self, queue: &mut Queue<()>) {
        queue.add(());
    }

    fn observe(&mut self, _: &Change, queue: &mut Queue<()>) {
        queue.add(());
    }

    async fn work(&mut self, (): &(), _: &mut Queue<()>) -> Result<Next, Status> {
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        let records = server.store().list(&resource(), &Query::default(), |_, _| true).records;
        let roles: Vec<Value> = records.iter().map(|record| record.parse()).collect();
        for role in &roles {
            let Some(rules) = auth::aggregate(role, &roles) else { continue };
            let current = role["rules"].as_array().map_or(&[][..], Vec::as_slice);
            if current != rules {
                self.write(role, rules).await?;
            }
        }
        Ok(Next::Done)
    }
}

impl Roles {
    pub(super) fn new(agent: Agent) -> Self {
        Self { agent }
    }

    async fn write(&self, role: &Value, rules: Vec<Value>) -> Result<(), Status> {
        let name = &role["metadata"]["name"];
        let mut configuration =
            json!({"apiVersion": role["apiVersion"], "kind": "ClusterRole", "metadata": {"name": name}});
        if !rules.is_empty() {
            configuration["rules"] = rules.into();
        }
        let key = Key::new("", name.as_str().unwrap_or_default());
        self.agent.apply(&resource(), &key, "", MANAGER, &configuration).await
    }
}

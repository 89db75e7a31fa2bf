//! Requests for certificates: kubelets get theirs, and what is approved is signed.

use serde_json::Value;

use super::agent::Agent;
use super::{Controller, Interest, Next, Queue};
use crate::auth;
use crate::names::GroupResource;
use crate::status::Status;
use crate::store::{Change, EventKind, Key, Query};

/// Approves and signs.
#[derive(Debug)]
pub(super) struct Certificates {
    agent: Agent,
}

fn resource() -> GroupResource {
    GroupResource::new("certificates.k8s.io", "certificatesigningrequests")
}

impl Controller for Certificates {
    type Item = Key;

    fn interest(&self) -> Interest {
        let requests = resource();
        Box::new(move |change| change.event.kind != EventKind::Deleted && change.of == requests)
    }

    fn begin(&mut self, queue: &mut Queue<Key>) {
        let Some(server) = self.agent.server() else { return };
        let all = server.store().list(&resource(), &Query::default(), |_, _| true).records;
        queue.extend(all.iter().map(|record| record.key.clone()));
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<Key>) {
        queue.add(change.event.key.clone());
    }

    async fn work(&mut self, key: &Key, _: &mut Queue<Key>) -> Result<Next, Status> {
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        let now = server.clock().now();
        let approve =
            |request: Value| Ok(auth::approved_csr(&request, server.authorizer(), now).unwrap_or(request));
        self.agent.change(&resource(), key, "approval", &approve).await?;
        let sign =
            |request: Value| Ok(auth::signed_csr(&request, &server.pki().cluster, now).unwrap_or(request));
        self.agent.change(&resource(), key, "status", &sign).await?;
        Ok(Next::Done)
    }
}

impl Certificates {
    pub(super) fn new(agent: Agent) -> Self {
        Self { agent }
    }
}

//! What every namespace has: a service account named `default`, and the authority clients trust.

use serde_json::{Value, json};

use super::agent::Agent;
use super::namespaces::{self, is_namespace};
use super::{Controller, Interest, Next, Queue};
use crate::names::GroupResource;
use crate::status::Status;
use crate::store::{Change, EventKind, Key, Query};

/// The ConfigMap with the certificate of the authority.
const ROOT_CA: &str = "kube-root-ca.crt";
/// The account pods run under unless they say otherwise.
const DEFAULT: &str = "default";

/// Keeps the default account and the root certificate in every namespace.
#[derive(Debug)]
pub(super) struct Accounts {
    accounts: Agent,
    publisher: Agent,
}

/// The namespace a change is about: a new one, or one whose account or certificate was deleted or changed.
fn namespace_of(change: &Change) -> Option<&str> {
    let event = &change.event;
    let here = match (change.of.resource.as_str(), event.kind) {
        _ if is_namespace(&change.of) => return (event.kind == EventKind::Added).then_some(&event.key.name),
        ("serviceaccounts", EventKind::Deleted) => event.key.name == DEFAULT,
        ("configmaps", EventKind::Deleted | EventKind::Modified) => event.key.name == ROOT_CA,
        _ => false,
    };
    (here && change.of.group.is_empty()).then_some(&event.key.namespace)
}

impl Controller for Accounts {
    type Item = String;

    fn interest(&self) -> Interest {
        Box::new(|change| namespace_of(change).is_some())
    }

    fn begin(&mut self, queue: &mut Queue<String>) {
        let Some(server) = self.accounts.server() else { return };
        let all = server
            .store()
            .list(&namespaces::resource(), &Query::default(), |_, record| !record.index.deleting);
        all.records.iter().for_each(|record| queue.add(record.key.name.clone()));
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<String>) {
        queue.extend(namespace_of(change).map(str::to_owned));
    }

    async fn work(&mut self, namespace: &String, _: &mut Queue<String>) -> Result<Next, Status> {
        let Some(server) = self.accounts.server() else { return Ok(Next::Done) };
        let key = Key::new("", namespace.as_str());
        let there =
            || server.store().get(&namespaces::resource(), &key).is_some_and(|record| !record.index.deleting);
        if !there() {
            return Ok(Next::Done);
        }
        match self.furnish(namespace, &server.authority_pem()).await {
            // It began to end meanwhile.
            Err(_) if !there() => Ok(Next::Done),
            Err(status) => Err(status),
            Ok(()) => Ok(Next::Done),
        }
    }
}

impl Accounts {
    pub(super) fn new(accounts: Agent, publisher: Agent) -> Self {
        Self { accounts, publisher }
    }

    async fn furnish(&self, namespace: &str, authority: &str) -> Result<(), Status> {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DEFAULT}});
        self.accounts.create(&GroupResource::new("", "serviceaccounts"), namespace, account).await?;
        let maps = GroupResource::new("", "configmaps");
        let description = "The authority that signed the certificate of this API server.";
        let annotations = json!({"kubernetes.io/description": description});
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": ROOT_CA, "annotations": annotations},
            "data": {"ca.crt": authority},
        });
        if self.publisher.create(&maps, namespace, map).await? {
            return Ok(());
        }
        let data = json!({"ca.crt": authority});
        let restore = |mut map: Value| {
            let binary = map["binaryData"].as_object().is_some_and(|binary| !binary.is_empty());
            if map["data"] != data || binary {
                map["data"] = data.clone();
                map.as_object_mut().map(|map| map.remove("binaryData"));
                map["metadata"]["annotations"]["kubernetes.io/description"] = description.into();
            }
            Ok(map)
        };
        self.publisher.change(&maps, &Key::new(namespace, ROOT_CA), "", &restore).await
    }
}

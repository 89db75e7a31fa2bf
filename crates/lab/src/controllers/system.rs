//! What the API server keeps of itself in its own API.

use serde_json::{Value, json};

use super::agent::Agent;
use super::{Controller, Interest, Next, Queue};
use crate::clock::seconds;
use crate::kinds::allocation::ServiceNetwork;
use crate::names::GroupResource;
use crate::status::Status;
use crate::store::{Change, EventKind, Key};

/// Where clients inside a cluster would reach the server. Nobody is there: it is an address for documents, since
/// the one the server listens on is of this machine only, and such addresses cannot be stored.
const ADDRESS: &str = "192.0.2.1";
/// The port that goes with it.
const PORT: u16 = 6443;
/// The ConfigMap that tells since when unused tokens are looked for.
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// One of the objects: its resource and where it is.
type Own = (&'static str, &'static str, &'static str, &'static str);

/// Group, resource, namespace and name of everything that is kept; what needs others comes after them.
const ALL: [Own; 9] = [
    ("", "namespaces", "", "default"),
    ("", "namespaces", "", "kube-system"),
    ("", "namespaces", "", "kube-public"),
    ("", "namespaces", "", "kube-node-lease"),
    ("", "configmaps", "kube-system", TRACKING),
    ("networking.k8s.io", "servicecidrs", "", "kubernetes"),
    ("", "services", "default", "kubernetes"),
    ("", "endpoints", "default", "kubernetes"),
    ("discovery.k8s.io", "endpointslices", "default", "kubernetes"),
];

/// Keeps those objects.
#[derive(Debug)]
pub(super) struct System {
    agent: Agent,
}

fn own(change: &Change) -> Option<Own> {
    let (of, key) = (&change.of, &change.event.key);
    let same = |(group, resource, namespace, name): &&Own| {
        key.name == *name && of.resource == *resource && of.group == *group && key.namespace == *namespace
    };
    ALL.iter().find(same).copied()
}

impl Controller for System {
    type Item = Own;

    fn interest(&self) -> Interest {
        Box::new(|change| change.event.kind == EventKind::Deleted && own(change).is_some())
    }

    fn begin(&mut self, queue: &mut Queue<Own>) {
        queue.extend(ALL);
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<Own>) {
        queue.extend(own(change));
    }

    async fn work(&mut self, item: &Own, _: &mut Queue<Own>) -> Result<Next, Status> {
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        let (group, resource, namespace, name) = *item;
        let of = GroupResource::new(group, resource);
        if server.store().get(&of, &Key::new(namespace, name)).is_none() {
            let now = seconds(server.clock().now());
            let mut object = object(resource, &now, server.service_network());
            object["metadata"]["name"] = name.into();
            self.agent.create(&of, namespace, object).await?;
        }
        Ok(Next::Done)
    }
}

impl System {
    pub(super) fn new(agent: Agent) -> Self {
        Self { agent }
    }
}

/// The object of a resource, but for its name.
fn object(resource: &str, now: &str, services: ServiceNetwork) -> Value {
    let port = json!({"name": "https", "port": PORT, "protocol": "TCP"});
    match resource {
        "configmaps" => {
            let day = now.split('T').next().unwrap_or_default();
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"since": day}})
        }
        "servicecidrs" => json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {},
            "spec": {"cidrs": [services.to_string()]}}),
        "services" => json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {"clusterIP": services.first().to_string(), "type": "ClusterIP", "sessionAffinity": "None",
                "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": PORT}]},
        }),
        "endpoints" => json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": ADDRESS}], "ports": [port]}],
        }),
        "endpointslices" => json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"labels": {"kubernetes.io/service-name": "kubernetes"}},
            "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": true}}], "ports": [port],
        }),
        _ => json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {}}),
    }
}

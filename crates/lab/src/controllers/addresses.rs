//! An IPAddress for every address a Service has from the cluster.
//!
//! Whoever writes a Service makes its IPAddresses before answering; the controller removes them, and makes those
//! somebody took away.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::agent::Agent;
use super::{Controller, Interest, Next, Queue};
use crate::api::options::DeleteOptions;
use crate::names::GroupResource;
use crate::server::Server;
use crate::status::Status;
use crate::store::{Change, EventKind, Key, Query, Record};

/// Says who keeps an address.
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
/// The keeper of the addresses of Services.
const ALLOCATOR: &str = "ipallocator.k8s.io";

/// Keeps IPAddresses.
#[derive(Debug)]
pub(super) struct Addresses {
    agent: Agent,
    /// The Services that have an address.
    holders: HashMap<IpAddr, Key>,
}

fn services() -> GroupResource {
    GroupResource::new("", "services")
}

fn addresses() -> GroupResource {
    GroupResource::new("networking.k8s.io", "ipaddresses")
}

/// The addresses of a Service; one without a head has none.
fn addresses_of(service: &Value) -> Vec<IpAddr> {
    let all = service["spec"]["clusterIPs"].as_array().into_iter().flatten();
    all.filter_map(|address| address.as_str()?.parse().ok()).collect()
}

/// Makes the IPAddresses a Service has need of; those that are there stay.
pub(crate) async fn make_of(server: &Arc<Server>, service: &Record) -> Result<(), Status> {
    let agent = Agent::server_itself(&Arc::downgrade(server));
    for address in addresses_of(&service.parse()) {
        agent.create(&addresses(), "", object(address, &service.key)).await?;
    }
    Ok(())
}

impl Controller for Addresses {
    type Item = IpAddr;

    fn interest(&self) -> Interest {
        let (services, addresses) = (services(), addresses());
        Box::new(move |change| change.of == services || change.of == addresses)
    }

    fn begin(&mut self, queue: &mut Queue<IpAddr>) {
        let Some(server) = self.agent.server() else { return };
        let all = |of: &GroupResource| server.store().list(of, &Query::default(), |_, _| true).records;
        for record in all(&services()) {
            for address in addresses_of(&record.parse()) {
                self.holders.insert(address, record.key.clone());
                queue.add(address);
            }
        }
        queue.extend(all(&addresses()).iter().filter_map(|record| record.key.name.parse().ok()));
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<IpAddr>) {
        let event = &change.event;
        if change.of == addresses() {
            queue.extend(event.key.name.parse());
            return;
        }
        for address in event.before.iter().flat_map(|before| addresses_of(&before.parse())) {
            if self.holders.get(&address) == Some(&event.key) {
                self.holders.remove(&address);
            }
            queue.add(address);
        }
        if event.kind != EventKind::Deleted {
            for address in addresses_of(&event.record.parse()) {
                self.holders.insert(address, event.key.clone());
                queue.add(address);
            }
        }
    }

    async fn work(&mut self, address: &IpAddr, _: &mut Queue<IpAddr>) -> Result<Next, Status> {
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        let key = Key::new("", address.to_string());
        let current = server.store().get(&addresses(), &key).map(|record| record.parse());
        match (self.holders.get(address), current) {
            (Some(holder), None) => {
                self.agent.create(&addresses(), "", object(*address, holder)).await?;
            }
            (None, Some(current)) if current["metadata"]["labels"][MANAGED_BY] == ALLOCATOR => {
                self.agent.delete(&addresses(), &key, &DeleteOptions::default()).await?;
            }
            _ => {}
        }
        Ok(Next::Done)
    }
}

impl Addresses {
    pub(super) fn new(agent: Agent) -> Self {
        Self { agent, holders: HashMap::new() }
    }
}

/// The IPAddress of a Service.
fn object(address: IpAddr, holder: &Key) -> Value {
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {
            "name": address.to_string(),
            "labels": {"ipaddress.kubernetes.io/ip-family": family, MANAGED_BY: ALLOCATOR},
        },
        "spec": {"parentRef": {"resource": "services", "namespace": holder.namespace, "name": holder.name}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_without_a_head_have_no_address() {
        let service = |addresses: Value| json!({"spec": {"clusterIPs": addresses}});
        assert!(addresses_of(&service(json!(["None"]))).is_empty());
        assert!(addresses_of(&json!({"spec": {"type": "ExternalName"}})).is_empty());
        let both = addresses_of(&service(json!(["10.96.0.7", "fd00::7"])));
        assert_eq!(both.iter().map(IpAddr::to_string).collect::<Vec<_>>(), ["10.96.0.7", "fd00::7"]);
    }

    #[test]
    fn an_address_tells_its_holder() {
        let address = object(IpAddr::from([10, 96, 0, 7]), &Key::new("shop", "cart"));
        assert_eq!(address["metadata"]["name"], "10.96.0.7");
        assert_eq!(
            address["spec"]["parentRef"],
            json!({"resource": "services", "namespace": "shop", "name": "cart"})
        );
    }
}

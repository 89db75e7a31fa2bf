//! The networks Services get their addresses from, and the addresses they have.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::agent::{Agent, without_finalizer};
use super::{Controller, Interest, Next, Queue};
use crate::api::options::DeleteOptions;
use crate::clock::seconds;
use crate::names::GroupResource;
use crate::server::Server;
use crate::status::Status;
use crate::store::{Change, Key, Query};

/// What a network waits with until no address is from it.
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// Whom its condition belongs to.
const MANAGER: &str = "service-cidr-controller";
/// How long those who choose addresses are given to notice that a network ends.
const GRACE: SignedDuration = SignedDuration::from_secs(10);
/// Who keeps an address.
const KEPT_BY: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
/// Its family.
const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Task {
    /// The network of this name.
    Network(String),
    /// An address a Service has or had.
    Address(String),
}

/// Keeps networks and addresses.
#[derive(Debug)]
pub(super) struct Networks {
    /// Writes addresses, as the API server does.
    itself: Agent,
    /// Keeps networks, unless a controller manager does.
    controller: Option<Agent>,
}

fn networks() -> GroupResource {
    GroupResource::new("networking.k8s.io", "servicecidrs")
}

fn addresses() -> GroupResource {
    GroupResource::new("networking.k8s.io", "ipaddresses")
}

fn services() -> GroupResource {
    GroupResource::new("", "services")
}

/// The addresses a Service has.
fn addresses_of(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let mut found: Vec<&Value> = spec["clusterIPs"].as_array().into_iter().flatten().collect();
    found.push(&spec["clusterIP"]);
    let is_address = |text: &&str| text.parse::<IpAddr>().is_ok();
    let mut found: Vec<String> =
        found.into_iter().filter_map(Value::as_str).filter(is_address).map(str::to_owned).collect();
    found.sort();
    found.dedup();
    found
}

/// The networks a ServiceCIDR is made of.
fn parts(network: &Value) -> Vec<IpNet> {
    let texts = network["spec"]["cidrs"].as_array().into_iter().flatten();
    texts.filter_map(|text| text.as_str()?.parse().ok()).collect()
}

impl Controller for Networks {
    type Item = Task;

    fn interest(&self) -> Interest {
        let all = [networks(), addresses(), services()];
        Box::new(move |change| all.contains(&change.of))
    }

    fn begin(&mut self, queue: &mut Queue<Task>) {
        let Some(server) = self.itself.server() else { return };
        let names = |of: GroupResource| {
            let records = server.store().list(&of, &Query::default(), |_, _| true).records;
            records.iter().map(|record| record.key.name.clone()).collect::<Vec<_>>()
        };
        for record in server.store().list(&services(), &Query::default(), |_, _| true).records {
            queue.extend(addresses_of(&record.parse()).into_iter().map(Task::Address));
        }
        queue.extend(names(addresses()).into_iter().map(Task::Address));
        queue.extend(names(networks()).into_iter().map(Task::Network));
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<Task>) {
        let event = &change.event;
        if change.of == services() {
            let before = event.before.iter().flat_map(|before| addresses_of(&before.parse()));
            let after = addresses_of(&event.record.parse());
            queue.extend(before.chain(after).map(Task::Address));
            return;
        }
        if change.of == addresses() {
            queue.add(Task::Address(event.key.name.clone()));
        }
        // An address or another network may be what one that ends waits for.
        let Some(server) = self.itself.server() else { return };
        let all = server.store().list(&networks(), &Query::default(), |_, record| {
            record.index.deleting || (change.of == networks() && record.key.name == event.key.name)
        });
        queue.extend(all.records.iter().map(|record| Task::Network(record.key.name.clone())));
    }

    async fn work(&mut self, task: &Task, _: &mut Queue<Task>) -> Result<Next, Status> {
        let Some(server) = self.itself.server() else { return Ok(Next::Done) };
        match (task, &self.controller) {
            (Task::Address(address), _) => self.settle_address(&server, address).await,
            (Task::Network(name), Some(controller)) => settle_network(&server, controller, name).await,
            (Task::Network(_), None) => Ok(Next::Done),
        }
    }
}

impl Networks {
    pub(super) fn new(itself: Agent, controller: Option<Agent>) -> Self {
        Self { itself, controller }
    }

    /// Makes the object of an address that a Service has, and deletes that of one it has no more.
    async fn settle_address(&self, server: &Server, address: &str) -> Result<Next, Status> {
        let key = Key::new("", address);
        let has = |fields: &[(String, String)]| {
            fields.iter().any(|(field, value)| field == "spec.clusterIP" && value == address)
        };
        let owners =
            server.store().list(&services(), &Query::default(), |_, record| has(&record.index.fields));
        let wanted = owners.records.first().map(
            |owner| json!({"resource": "services", "namespace": owner.key.namespace, "name": owner.key.name}),
        );
        let record = server.store().get(&addresses(), &key);
        match (wanted, record) {
            (Some(parent), None) => {
                let family = if address.contains(':') { "IPv6" } else { "IPv4" };
                let object = json!({
                    "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
                    "metadata": {"name": address, "labels": {FAMILY: family, KEPT_BY.0: KEPT_BY.1}},
                    "spec": {"parentRef": parent},
                });
                self.itself.create(&addresses(), "", object).await?;
            }
            // Whose address it is cannot be changed; once it is gone it is made anew.
            (wanted, Some(record))
                if is_ours(&record.index.labels)
                    && wanted.as_ref() != record.parse().pointer("/spec/parentRef") =>
            {
                let options =
                    DeleteOptions { uid: Some(record.index.uid.clone()), ..DeleteOptions::default() };
                self.itself.delete(&addresses(), &key, &options).await?;
            }
            _ => {}
        }
        Ok(Next::Done)
    }
}

/// True for addresses of Services, which nobody else keeps.
fn is_ours(labels: &[(String, String)]) -> bool {
    labels.iter().any(|(label, value)| (label.as_str(), value.as_str()) == KEPT_BY)
}

/// Says that a network is ready; or lets it go when all addresses have another one.
async fn settle_network(server: &Server, controller: &Agent, name: &str) -> Result<Next, Status> {
    let key = Key::new("", name);
    let Some(record) = server.store().get(&networks(), &key) else { return Ok(Next::Done) };
    let network = record.parse();
    let now = server.clock().now();
    if !record.index.deleting {
        let protect = |mut network: Value| {
            let finalizers = &mut network["metadata"]["finalizers"];
            match finalizers {
                Value::Array(known) if known.iter().any(|finalizer| finalizer == FINALIZER) => {}
                Value::Array(known) => known.push(FINALIZER.into()),
                none => *none = json!([FINALIZER]),
            }
            Ok(network)
        };
        controller.change(&networks(), &key, "", &protect).await?;
        tell(controller, &network, ("True", "", "Kubernetes Service CIDR is ready"), now).await?;
        return Ok(Next::Done);
    }
    if is_needed(server, name, &network) {
        let message = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";
        tell(controller, &network, ("False", "Terminating", message), now).await?;
        return Ok(Next::Done);
    }
    let since = network["metadata"]["deletionTimestamp"].as_str().and_then(|text| text.parse().ok());
    let left = GRACE.saturating_sub(now.duration_since(since.unwrap_or(now)));
    if left.is_positive() {
        return Ok(Next::After(Duration::try_from(left).unwrap_or_default()));
    }
    controller.change(&networks(), &key, "", &|network| Ok(without_finalizer(network, FINALIZER))).await?;
    Ok(Next::Done)
}

/// Writes the condition of a network, if it is another one.
async fn tell(
    controller: &Agent,
    network: &Value,
    (status, reason, message): (&str, &str, &str),
    now: Timestamp,
) -> Result<(), Status> {
    let known = network["status"]["conditions"].as_array().into_iter().flatten();
    let same =
        |known: &Value| known["status"] == status && known["reason"] == reason && known["message"] == message;
    if known.into_iter().any(|known| known["type"] == "Ready" && same(known)) {
        return Ok(());
    }
    let name = &network["metadata"]["name"];
    let configuration = json!({
        "apiVersion": network["apiVersion"], "kind": "ServiceCIDR", "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": seconds(now)}]},
    });
    let key = Key::new("", name.as_str().unwrap_or_default());
    controller.apply(&networks(), &key, "status", MANAGER, &configuration).await
}

/// True while an address is from this network only.
fn is_needed(server: &Server, name: &str, network: &Value) -> bool {
    let records = server
        .store()
        .list(&networks(), &Query::default(), |key, record| key.name != name && !record.index.deleting);
    let others: Vec<IpNet> = records.records.iter().flat_map(|record| parts(&record.parse())).collect();
    let own = parts(network);
    if own.iter().all(|part| others.iter().any(|other| other.contains(part))) {
        return false;
    }
    let used =
        server.store().list(&addresses(), &Query::default(), |_, record| is_ours(&record.index.labels));
    used.records.iter().filter_map(|record| record.key.name.parse::<IpAddr>().ok()).any(|address| {
        own.iter().any(|part| part.contains(&address)) && !others.iter().any(|other| other.contains(&address))
    })
}

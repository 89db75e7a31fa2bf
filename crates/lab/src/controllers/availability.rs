//! Whether the servers behind APIServices answer, and what they serve.

use std::sync::Weak;
use std::time::Duration;

use serde_json::{Value, json};

use super::agent::Agent;
use super::{Controller, Interest, Next, Queue};
use crate::clock::seconds;
use crate::json::items;
use crate::names::GroupResource;
use crate::server::Server;
use crate::server::aggregate::{api_services, is_remote};
use crate::status::Status;
use crate::store::{Change, EventKind, Key, Query, Store};

/// How often a server is asked again, whatever happens.
const RECHECK: Duration = Duration::from_secs(30);
/// Where an endpoint slice says which Service it is of.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Asks other servers.
#[derive(Debug)]
pub(super) struct Availability {
    agent: Agent,
    server: Weak<Server>,
}

/// What is the matter with an APIService: the status, the reason and the message of its condition.
type Finding = (&'static str, &'static str, String);

/// The namespace and the name of the Service a change may be about.
fn service_of(change: &Change) -> Option<(&str, &str)> {
    let key = &change.event.key;
    let name = match (change.of.group.as_str(), change.of.resource.as_str()) {
        ("", "services" | "endpoints") => key.name.as_str(),
        ("discovery.k8s.io", "endpointslices") => {
            let mut labels = change.event.record.index.labels.iter();
            labels.find(|(label, _)| label == SERVICE_NAME).map(|(_, name)| name.as_str())?
        }
        _ => return None,
    };
    Some((&key.namespace, name))
}

impl Controller for Availability {
    /// The name of an APIService.
    type Item = String;

    const LONGEST_WAIT: Duration = RECHECK;

    fn interest(&self) -> Interest {
        let (services, server) = (api_services(), Weak::clone(&self.server));
        Box::new(move |change| {
            let remote = || server.upgrade().is_some_and(|server| server.has_remote());
            change.of == services || (service_of(change).is_some() && remote())
        })
    }

    fn begin(&mut self, queue: &mut Queue<String>) {
        let Some(server) = self.agent.server() else { return };
        server.count_remote();
        let all = server.store().list(&api_services(), &Query::default(), |_, _| true).records;
        queue.extend(all.iter().map(|record| record.key.name.clone()));
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<String>) {
        let Some(server) = self.agent.server() else { return };
        let name = &change.event.key.name;
        if change.of == api_services() {
            server.count_remote();
            if change.event.kind == EventKind::Deleted {
                server.keep_remote(name, None);
            } else {
                queue.add(name.clone());
            }
        } else if let Some((namespace, name)) = service_of(change) {
            for service in server.remote_services() {
                let reference = &service["spec"]["service"];
                if reference["namespace"] == namespace && reference["name"] == name {
                    queue.extend(service["metadata"]["name"].as_str().map(str::to_owned));
                }
            }
        }
    }

    async fn work(&mut self, name: &String, _: &mut Queue<String>) -> Result<Next, Status> {
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        let key = Key::new("", name.as_str());
        let Some(record) = server.store().get(&api_services(), &key) else { return Ok(Next::Done) };
        let service = record.parse();
        if !is_remote(&service) {
            server.keep_remote(name, None);
            let local = ("True", "Local", "Local APIServices are always available".to_owned());
            self.tell(&server, &key, false, local).await?;
            return Ok(Next::Done);
        }
        if let Some(finding) = unreachable(server.store(), &service)
            && !server.is_mounted(&service)
        {
            server.keep_remote(name, None);
            self.tell(&server, &key, true, finding).await?;
            return Ok(Next::After(RECHECK));
        }
        match server.discover_remote(&service).await {
            Ok(served) => {
                // What is served is known before anybody is told that it is.
                server.keep_remote(name, Some(served));
                self.tell(&server, &key, true, ("True", "Passed", "all checks passed".to_owned())).await?;
                Ok(Next::After(RECHECK))
            }
            Err(why) => {
                server.keep_remote(name, None);
                self.tell(&server, &key, true, ("False", "FailedDiscoveryCheck", why.clone())).await?;
                Err(Status::internal(why))
            }
        }
    }
}

impl Availability {
    pub(super) fn new(agent: Agent, server: &Weak<Server>) -> Self {
        Self { agent, server: Weak::clone(server) }
    }

    /// Writes down what was found out, unless the APIService became one of the other sort.
    async fn tell(&self, server: &Server, key: &Key, remote: bool, finding: Finding) -> Result<(), Status> {
        let (status, reason, message) = finding;
        let wanted = json!({"type": "Available", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": seconds(server.clock().now())});
        let change = |service: Value| {
            Ok(if is_remote(&service) == remote { with_condition(service, &wanted) } else { service })
        };
        self.agent.change(&api_services(), key, "status", &change).await
    }
}

/// The APIService with a condition; the time changes with the status only.
fn with_condition(mut service: Value, wanted: &Value) -> Value {
    let mut wanted = wanted.clone();
    match &mut service["status"]["conditions"] {
        Value::Array(conditions) => {
            match conditions.iter_mut().find(|known| known["type"] == wanted["type"]) {
                Some(known) => {
                    if known["status"] == wanted["status"] {
                        wanted["lastTransitionTime"] = known["lastTransitionTime"].clone();
                    }
                    *known = wanted;
                }
                None => conditions.push(wanted),
            }
        }
        none => *none = json!([wanted]),
    }
    service
}

/// Why a server cannot even be asked.
fn unreachable(store: &Store, service: &Value) -> Option<Finding> {
    let reference = &service["spec"]["service"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&reference["namespace"]), text(&reference["name"]));
    let key = Key::new(namespace.as_str(), name.as_str());
    let Some(found) = store.get(&GroupResource::new("", "services"), &key) else {
        let message = format!("service/{name} in {namespace:?} is not present");
        return Some(("False", "ServiceNotFound", message));
    };
    let found = found.parse();
    if found["spec"]["type"] != "ClusterIP" {
        return None;
    }
    let port = reference["port"].as_i64().unwrap_or(443);
    let ports = found["spec"]["ports"].as_array().into_iter().flatten();
    let Some(port_name) =
        ports.into_iter().find(|known| known["port"] == port).map(|known| text(&known["name"]))
    else {
        let message = format!("service/{name} in {namespace:?} is not listening on port {port}");
        return Some(("False", "ServicePortError", message));
    };
    let query = Query { namespace: Some(&namespace), ..Query::default() };
    let slices = store.list(&GroupResource::new("discovery.k8s.io", "endpointslices"), &query, |_, slice| {
        slice.index.labels.iter().any(|(label, value)| label == SERVICE_NAME && *value == name)
    });
    // Nobody turns endpoints into slices here, so they count as well.
    let endpoints = store.get(&GroupResource::new("", "endpoints"), &key);
    if slices.records.is_empty() && endpoints.is_none() {
        let message = format!("cannot find endpointslices for service/{name} in {namespace:?}");
        return Some(("False", "EndpointsNotFound", message));
    }
    let reachable = slices.records.iter().any(|slice| has_ready_slice(&slice.parse(), &port_name))
        || endpoints.is_some_and(|endpoints| has_ready_subset(&endpoints.parse(), &port_name));
    (!reachable).then(|| {
        let message =
            format!("endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}");
        ("False", "MissingEndpoints", message)
    })
}

fn has_port(ports: &Value, name: &str) -> bool {
    items(ports).any(|port| port["name"].as_str().unwrap_or_default() == name && !port["port"].is_null())
}

fn has_ready_slice(slice: &Value, port: &str) -> bool {
    items(&slice["endpoints"]).any(|endpoint| endpoint["conditions"]["ready"] != false)
        && has_port(&slice["ports"], port)
}

fn has_ready_subset(endpoints: &Value, port: &str) -> bool {
    items(&endpoints["subsets"])
        .any(|subset| items(&subset["addresses"]).next().is_some() && has_port(&subset["ports"], port))
}

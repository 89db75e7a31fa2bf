//! Keeps EndpointSlices, and the older Endpoints, true to the pods behind services.

use std::sync::Arc;

use serde_json::{Value, json};

use super::slices::{self, Change, HEADLESS, MANAGED_BY, MANAGER};
use crate::client::{Cache, Client, Identity, Result};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{ENDPOINT_SLICE, ENDPOINTS, NODE, POD, SERVICE};
use crate::object::{Key, Object as _};

/// Keeps EndpointSlices and Endpoints.
#[derive(Debug)]
pub struct Keeper {
    client: Client,
    services: Arc<Cache>,
    pods: Arc<Cache>,
    slices: Arc<Cache>,
    older: Arc<Cache>,
    nodes: Arc<Cache>,
}

impl Keeper {
    /// A keeper for a cluster.
    pub fn new(context: &Context) -> Self {
        let client = context.client(Identity::CONTROLLER_MANAGER);
        Self {
            services: client.cache(&SERVICE),
            pods: client.cache(&POD),
            slices: client.cache(&ENDPOINT_SLICE),
            older: client.cache(&ENDPOINTS),
            nodes: client.cache(&NODE),
            client,
        }
    }

    async fn keep_slices(&self, service: &Value, pods: &[Arc<Value>]) -> Result {
        let all = self.slices.find("service", &Key::of(service).to_string());
        let own: Vec<_> = all.into_iter().filter(|slice| slice.label(MANAGED_BY) == MANAGER).collect();
        let zone = |node: &str| {
            let node = self.nodes.get(&Key::cluster(node));
            node.map(|node| node.label("topology.kubernetes.io/zone").to_owned()).unwrap_or_default()
        };
        for change in slices::plan(service, pods, &own, &zone) {
            match change {
                Change::Create(slice) => drop(self.client.create(&ENDPOINT_SLICE, slice).await?),
                Change::Update(slice) => drop(self.client.replace(&ENDPOINT_SLICE, &slice).await?),
                Change::Delete(slice) => {
                    self.client.delete(&ENDPOINT_SLICE, &Key::of(&slice), slice.uid()).await?;
                }
            }
        }
        Ok(())
    }

    async fn keep_older(&self, service: &Value, pods: &[Arc<Value>]) -> Result {
        let key = Key::of(service);
        let Some(old) = self.older.get(&key) else {
            let mut new = json!({"metadata": {"namespace": key.namespace, "name": key.name}});
            older(service, pods, &mut new);
            self.client.create_if_absent(&ENDPOINTS, new).await?;
            return Ok(());
        };
        let mut new = (*old).clone();
        older(service, pods, &mut new);
        if new != *old {
            self.client.replace(&ENDPOINTS, &new).await?;
        }
        Ok(())
    }
}

impl Controller for Keeper {
    const NAME: &'static str = "endpointslice-controller";

    fn watches(&self) -> Vec<Watch> {
        let services = Arc::clone(&self.services);
        let of_pods = move |change: &crate::client::Change| {
            let services = services.list(change.object().namespace());
            let states = || [&change.before, &change.after].into_iter().flatten();
            let selecting =
                services.iter().filter(|service| states().any(|pod| slices::selects(service, pod)));
            selecting.map(|service| Key::of(service)).collect()
        };
        vec![
            Watch::each(&self.services),
            Watch::mapped(&self.pods, of_pods),
            Watch::owners(&self.slices, "Service"),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(service) = self.services.get(key) else {
            // The slices go with their owner; the older object has none.
            let older = self.older.get(key).filter(|older| is_kept_here(older));
            if let Some(older) = older {
                self.client.delete(&ENDPOINTS, key, older.uid()).await?;
            }
            return Ok(Next::Done);
        };
        if service.is_deleting() || !slices::is_kept(&service) {
            return Ok(Next::Done);
        }
        let pods = self.pods.list(&key.namespace);
        self.keep_slices(&service, &pods).await?;
        self.keep_older(&service, &pods).await?;
        Ok(Next::Done)
    }
}

/// The label by which Endpoints say who keeps them.
const OLDER_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

fn is_kept_here(older: &Value) -> bool {
    older.label(OLDER_MANAGED_BY) == "endpoint-controller"
}

/// Fills in the Endpoints of a service: one subset per set of ports, the addresses of its first family.
fn older(service: &Value, pods: &[Arc<Value>], object: &mut Value) {
    let family = service.text("/spec/ipFamilies/0");
    let family = if family.is_empty() { "IPv4" } else { family };
    let mut subsets: Vec<(Vec<Value>, Vec<Value>, Vec<Value>)> = Vec::new();
    let selected = pods.iter().filter(|pod| slices::selects(service, pod) && slices::is_candidate(pod));
    let patient = service.flag("/spec/publishNotReadyAddresses");
    for pod in selected.filter(|pod| patient || !pod.is_deleting()) {
        let Some(ip) = slices::address_of(pod, family) else { continue };
        let mut address = json!({
            "ip": ip,
            "targetRef": {"kind": "Pod", "namespace": pod.namespace(), "name": pod.name(), "uid": pod.uid()},
        });
        let hostname = slices::hostname(service, pod).unwrap_or_default();
        for (name, text) in [("nodeName", pod.text("/spec/nodeName")), ("hostname", hostname)] {
            if !text.is_empty() {
                address[name] = text.into();
            }
        }
        let ports = slices::ports_of(service, pod);
        let place = subsets.iter().position(|(known, ..)| *known == ports).unwrap_or_else(|| {
            subsets.push((ports, Vec::new(), Vec::new()));
            subsets.len() - 1
        });
        let (_, ready, waiting) = &mut subsets[place];
        if patient || slices::is_ready(pod) { ready.push(address) } else { waiting.push(address) }
    }
    let subsets: Vec<Value> = subsets.into_iter().map(subset).collect();
    if subsets.is_empty() {
        object.unset("/subsets");
    } else {
        object["subsets"] = subsets.into();
    }
    object.set("/metadata/labels", service.at("/metadata/labels").clone());
    object.set_label(OLDER_MANAGED_BY, "endpoint-controller");
    if service.text("/spec/clusterIP") == "None" {
        object.set_label(HEADLESS, "");
    }
}

fn subset((mut ports, ready, waiting): (Vec<Value>, Vec<Value>, Vec<Value>)) -> Value {
    let mut subset = json!({});
    for port in &mut ports {
        // Here a port without a name has no field for it.
        if port.text("/name").is_empty() {
            port.unset("/name");
        }
    }
    for (name, list) in [("addresses", ready), ("notReadyAddresses", waiting), ("ports", ports)] {
        if !list.is_empty() {
            subset[name] = list.into();
        }
    }
    subset
}

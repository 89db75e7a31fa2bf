//! Tells which drivers a node has, as a kubelet does when the drivers register with it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::classes::DRIVERS;
use crate::client::{Cache, Client, Identity};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{CSI_NODE, NODE};
use crate::object::{Key, Object as _};
use crate::world::World;

/// Makes a `CSINode` for every host and puts the labels of the drivers' topologies on it.
#[derive(Debug)]
pub(super) struct Registrar {
    client: Client,
    nodes: Arc<Cache>,
    csi_nodes: Arc<Cache>,
    world: World,
}

impl Registrar {
    pub(super) fn new(context: &Context) -> Self {
        let client = context.client(Identity::KUBELET);
        Self {
            nodes: client.cache(&NODE),
            csi_nodes: client.cache(&CSI_NODE),
            client,
            world: context.world.clone(),
        }
    }
}

impl Controller for Registrar {
    const NAME: &'static str = "node-driver-registrar";

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::each(&self.nodes), Watch::each(&self.csi_nodes)]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(node) = self.nodes.get(key).filter(|node| !node.is_deleting()) else {
            return Ok(Next::Done);
        };
        // A host that is no host of ours brings its own drivers; one that is silent registers nothing.
        let Some(host) = self.world.hosts.get(&key.name) else { return Ok(Next::Done) };
        if !host.is_heard() {
            return Ok(Next::Done);
        }
        let labels = missing_labels(&node);
        if !labels.is_null() {
            self.client.merge(&NODE, key, &json!({"metadata": {"labels": labels}})).await?;
        }
        if self.csi_nodes.get(key).is_none() {
            self.client.create_if_absent(&CSI_NODE, csi_node(&node)).await?;
        }
        Ok(Next::Done)
    }
}

/// The labels by which the drivers tell the node apart, as far as they are not there: the zone is known from
/// elsewhere, the host is its own place.
fn missing_labels(node: &Value) -> Value {
    let mut labels = Value::Null;
    for driver in DRIVERS.iter().filter(|driver| driver.topology.ends_with("/node")) {
        if node.label(driver.topology) != node.name() {
            labels[driver.topology] = node.name().into();
        }
    }
    labels
}

fn csi_node(node: &Value) -> Value {
    let drivers: Vec<Value> = DRIVERS
        .iter()
        .map(|driver| {
            let keys: &[&str] = if driver.topology.is_empty() { &[] } else { &[driver.topology] };
            json!({"name": driver.name, "nodeID": node.name(), "topologyKeys": keys})
        })
        .collect();
    json!({
        "metadata": {"name": node.name(), "ownerReferences": [{
            "apiVersion": "v1", "kind": "Node", "name": node.name(), "uid": node.uid(),
        }]},
        "spec": {"drivers": drivers},
    })
}

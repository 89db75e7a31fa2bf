//! The objects of the measurement: kinds, a set with its machines, what they boot from.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use trellis_runtime::client::Error;
use trellis_runtime::{Key, Meta, Resource, Selection, Site};

use crate::support::Result;

/// Where the machine objects are.
pub(crate) const CONTROL: &str = "machines";
/// The cluster, and the namespace of its VMs.
pub(crate) const CLUSTER: &str = "bench";
/// The set the machines belong to.
const SET: &str = "workers";
/// How many requests are under way together when objects are made.
const TOGETHER: usize = 32;

pub(crate) const MACHINE: Resource =
    Resource::namespaced("machine.openshift.io", "v1beta1", "machines", "Machine");
const MACHINE_SET: Resource =
    Resource::namespaced("machine.openshift.io", "v1beta1", "machinesets", "MachineSet");
pub(crate) const VM: Resource =
    Resource::namespaced("kubevirt.io", "v1", "virtualmachines", "VirtualMachine");
pub(crate) const VMI: Resource =
    Resource::namespaced("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance");
pub(crate) const NODE: Resource = Resource::cluster("", "v1", "nodes", "Node");
pub(crate) const SECRET: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const NAMESPACE: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
const CRD: Resource =
    Resource::cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition");

/// A Machine, as far as it is waited for.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Machine {
    pub(crate) metadata: Meta,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, PartialEq, Deserialize, Default)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: Box<str>,
    status: Box<str>,
}

impl Machine {
    /// Whether it says that it is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|one| &*one.kind == "Ready" && &*one.status == "True")
    }
}

/// A VM, as far as whoever runs it looks at it.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Vm {
    pub(crate) metadata: Meta,
    pub(crate) spec: Value,
}

trellis_runtime::narrow!(Machine);
trellis_runtime::narrow!(Vm);

/// Makes the kinds, the namespaces, and what machines boot from.
pub(crate) async fn prepare(site: &Site) -> Result {
    let kinds = trellis_infra::crds::all().into_iter().chain(trellis_api::machine_crds::machine_crds());
    for kind in kinds.chain(trellis_api::trellis::crds()) {
        made(site.create::<Value>(&CRD, "", &kind).await)?;
    }
    for name in [CONTROL, CLUSTER] {
        made(site.create::<Value>(&NAMESPACE, "", &json!({"metadata": {"name": name}})).await)?;
    }
    // A kind is served a moment after it was made.
    for kind in [&MACHINE, &MACHINE_SET, &VM, &VMI] {
        while site.list::<Value>(kind, &Selection::namespace(CONTROL)).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
    let data = json!({"ignition": {"version": "3.4.0"}}).to_string();
    let secret = json!({"metadata": {"name": "join"}, "stringData": {"userData": data}});
    made(site.create::<Value>(&SECRET, CONTROL, &secret).await)?;
    Ok(())
}

fn made(outcome: trellis_runtime::client::Result<Value>) -> Result {
    match outcome {
        Ok(_) | Err(Error::AlreadyExists(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What a machine is.
fn spec() -> Value {
    json!({"providerSpec": {"value": {
        "apiVersion": "kubevirtproviderconfig.openshift.io/v1alpha1",
        "kind": "KubevirtMachineProviderSpec",
        "sourcePvcName": "image",
        "ignitionSecretName": "join",
        "requestedCPU": 2,
        "requestedMemory": "4Gi",
        "requestedStorage": "20Gi",
        "storageClassName": "fast",
    }}})
}

/// A set that asks for so many machines, and the machines, so that it makes none of its own.
pub(crate) async fn set_with_machines(site: &Site, from: usize, to: usize) -> Result {
    let labels = json!({
        "machine.openshift.io/cluster-api-cluster": CLUSTER,
        "machine.openshift.io/cluster-api-machineset": SET,
    });
    let key = Key::new(CONTROL, SET);
    let set: Value = if from == 0 {
        let spec = json!({
            "replicas": to, "selector": {"matchLabels": &labels},
            "template": {"metadata": {"labels": &labels}, "spec": spec()},
        });
        let object = json!({"metadata": {"name": SET, "labels": &labels}, "spec": spec});
        site.create(&MACHINE_SET, CONTROL, &object).await?
    } else {
        site.get(&MACHINE_SET, &key).await?
    };
    let owner = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": SET,
        "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    });
    let machines = (from..to).map(|number| {
        json!({
            "metadata": {
                "name": format!("{SET}-{number}"), "labels": &labels, "ownerReferences": [&owner],
                "annotations": {"trellis.dev/ordinal": number.to_string()},
            },
            "spec": spec(),
        })
    });
    stream::iter(machines)
        .map(|machine| async move { site.create::<Value>(&MACHINE, CONTROL, &machine).await })
        .buffer_unordered(TOGETHER)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    if from > 0 {
        site.merge_patch::<Value>(&MACHINE_SET, &key, &json!({"spec": {"replicas": to}})).await?;
    }
    Ok(())
}

/// Makes one machine that belongs to no set.
pub(crate) async fn machine(site: &Site, name: &str) -> Result {
    let labels = json!({"machine.openshift.io/cluster-api-cluster": CLUSTER});
    let machine = json!({"metadata": {"name": name, "labels": labels}, "spec": spec()});
    site.create::<Value>(&MACHINE, CONTROL, &machine).await?;
    Ok(())
}

//! Who plays KubeVirt and the kubelets: every VM runs and has a Node as soon as it is heard of.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use trellis_runtime::client::Error;
use trellis_runtime::{Cache, Key, Site};

use super::objects::{CLUSTER, NODE, VMI, Vm};
use crate::support::Result;

/// How many VMs are started together.
const TOGETHER: usize = 16;

/// Starts every VM there is and every one that comes; ends when it is dropped. Nodes of VMs whose names begin with
/// `waits` are not ready until somebody says so.
pub(crate) fn start(site: &Site, vms: &Cache<Vm>, waits: &'static str) -> JoinSet<()> {
    let (site, vms) = (site.clone(), vms.clone());
    let mut running = JoinSet::new();
    running.spawn(async move {
        let mut changes = vms.changes();
        let places = Arc::new(Semaphore::new(TOGETHER));
        let mut starts = JoinSet::new();
        while let Some(change) = changes.recv().await {
            let (None, Some(vm)) = (change.old, change.new) else { continue };
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let site = site.clone();
            starts.spawn(async move {
                let ready = !vm.metadata.name().starts_with(waits);
                if let Err(failure) = run(&site, &vm, ready).await {
                    eprintln!("{} does not start: {failure}", vm.metadata.name());
                }
                drop(place);
            });
            while starts.try_join_next().is_some() {}
        }
    });
    running
}

async fn run(site: &Site, vm: &Vm, ready: bool) -> Result {
    let name = vm.metadata.name();
    let template = &vm.spec["template"];
    let owner = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": name, "uid": &*vm.metadata.uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    let vmi = json!({
        "metadata": {"name": name, "labels": template["metadata"]["labels"], "ownerReferences": [owner]},
        "spec": template["spec"],
        // The status of this kind is no part of its own.
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    match site.create::<Value>(&VMI, CLUSTER, &vmi).await {
        Ok(_) | Err(Error::AlreadyExists(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let uuid = &template["spec"]["domain"]["firmware"]["uuid"];
    let node = json!({"metadata": {"name": name}, "status": {
        "conditions": [condition(ready)],
        "nodeInfo": {
            "systemUUID": uuid, "kubeletVersion": "v1.34.2", "machineID": "", "bootID": "", "kernelVersion": "",
            "osImage": "", "containerRuntimeVersion": "", "kubeProxyVersion": "", "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }});
    match site.create::<Value>(&NODE, "", &node).await {
        Ok(_) | Err(Error::AlreadyExists(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn condition(ready: bool) -> Value {
    let now = jiff::Timestamp::now().to_string();
    let status = if ready { "True" } else { "False" };
    json!({"type": "Ready", "status": status, "reason": "KubeletReady", "message": "",
        "lastHeartbeatTime": now, "lastTransitionTime": now})
}

/// The kubelet of a machine says that it is ready.
pub(crate) async fn get_ready(site: &Site, name: &str) -> Result {
    let patch = json!({"status": {"conditions": [condition(true)]}});
    site.merge_patch_status::<Value>(&NODE, &Key::new("", name), &patch).await?;
    Ok(())
}

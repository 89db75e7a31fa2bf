//! The Node as its kubelet sees it.

use std::hash::Hasher as _;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::{Boot, Guest, memory, processors};
use super::flags::Flags;
use crate::object::{Condition, Object as _};
use crate::stages::Fnv;
use crate::world::machine::Plan;

/// The version a kubelet is of where its user data does not tell.
const VERSION: &str = "v1.37.1";
/// The address every guest behind masquerade has.
const MASQUERADED: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 2, 2));
/// What a kubelet says while it has no network plugin.
const NO_PLUGIN: &str = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized";

/// The Node a kubelet registers.
pub(super) fn registration(guest: &Guest, flags: &Flags) -> Value {
    let name = flags.node_name(&guest.boot);
    let mut labels = json!({
        "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
    });
    for (label, value) in &flags.labels {
        labels[label.as_str()] = value.as_str().into();
    }
    let mut taints = flags.taints.clone();
    if flags.get("cloud-provider") == "external" {
        taints.push(json!({
            "key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule",
        }));
    }
    let mut node = json!({
        "metadata": {
            "name": name, "labels": labels,
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {},
    });
    if !taints.is_empty() {
        node["spec"]["taints"] = taints.into();
    }
    if !flags.provider_id().is_empty() {
        node["spec"]["providerID"] = flags.provider_id().into();
    }
    report(&mut node, guest, false);
    node
}

/// Writes what the kubelet sees into the node's status.
pub(super) fn report(node: &mut Value, guest: &Guest, has_plugin: bool) {
    let plan = guest.machine.plan();
    let (vmi, now) = (&plan.vmi, guest.clock.seconds());
    let resources = json!({
        "cpu": processors(vmi).to_string(), "memory": memory(vmi), "pods": "110",
        "ephemeral-storage": plan.disks.first().map_or(0, |disk| disk.size).to_string(),
        "hugepages-2Mi": "0", "hugepages-1Gi": "0",
    });
    node.set("/status/capacity", resources.clone());
    node.set("/status/allocatable", resources);
    let hostname = node.name().to_owned();
    let mut addresses: Vec<Value> = addresses(&plan)
        .into_iter()
        .map(|address| json!({"type": "InternalIP", "address": address.to_string()}))
        .collect();
    addresses.push(json!({"type": "Hostname", "address": hostname}));
    node.set("/status/addresses", addresses.into());
    let uuid = vmi.text("/spec/domain/firmware/uuid");
    node.set(
        "/status/nodeInfo",
        json!({
            "machineID": uuid.replace('-', ""), "systemUUID": uuid, "bootID": boot_id(&plan),
            "kernelVersion": super::super::terminal::KERNEL, "osImage": super::super::terminal::OS,
            "containerRuntimeVersion": "containerd://2.1.0", "kubeletVersion": version(&guest.boot),
            "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
        }),
    );
    node.set("/status/daemonEndpoints", json!({"kubeletEndpoint": {"Port": 10250}}));
    for (kind, reason, message) in [
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ] {
        Condition::new(kind, false, reason, message).put(node, &now);
    }
    let (reason, message) = if has_plugin {
        ("KubeletReady", "kubelet is posting ready status")
    } else {
        ("KubeletNotReady", NO_PLUGIN)
    };
    Condition::new("Ready", has_plugin, reason, message).put(node, &now);
    if let Some(conditions) = node.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        for condition in conditions {
            condition["lastHeartbeatTime"] = now.as_str().into();
        }
    }
}

/// Whether two states of a node differ in more than the time.
pub(super) fn differs(one: &Value, other: &Value) -> bool {
    let timeless = |node: &Value| {
        let mut status = node["status"].clone();
        if let Some(conditions) = status["conditions"].as_array_mut() {
            for condition in conditions {
                condition.unset("/lastHeartbeatTime");
            }
        }
        status
    };
    timeless(one) != timeless(other)
}

/// The addresses a guest sees on its interfaces; behind masquerade all see the same.
pub(super) fn addresses(plan: &Plan) -> Vec<IpAddr> {
    let specs = plan.vmi.list("/spec/domain/devices/interfaces");
    let masqueraded =
        |name: &str| specs.iter().any(|one| one["name"] == name && one["masquerade"].is_object());
    let first = plan.interfaces.iter().find(|interface| !interface.addresses.is_empty());
    first.map_or(Vec::new(), |interface| {
        if masqueraded(&interface.name) { vec![MASQUERADED] } else { interface.addresses.clone() }
    })
}

/// What tells one boot of a machine from another.
fn boot_id(plan: &Plan) -> String {
    let half = |part: &str| {
        let mut hash = Fnv::new(0);
        hash.write(plan.vmi.uid().as_bytes());
        hash.write(part.as_bytes());
        hash.finish()
    };
    let (one, two) = (half("boot-a"), half("boot-b"));
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        one >> 32,
        (one >> 16) & 0xffff,
        one & 0xfff,
        two >> 52,
        two & 0xffff_ffff_ffff
    )
}

/// The version of the kubelet that the user data installs, by the addresses and names it mentions.
fn version(boot: &Boot) -> String {
    let texts = boot.files.values().filter_map(|bytes| std::str::from_utf8(bytes).ok());
    let mut lines = boot.lines().chain(texts.flat_map(str::lines)).filter(|line| line.contains("kubelet"));
    let found = lines.find_map(|line| {
        let start = line.find("v1.")?;
        let tail = line.get(start + 1..)?;
        let end = tail.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(tail.len());
        let version = tail.get(..end)?.trim_end_matches('.');
        (version.split('.').count() == 3).then(|| format!("v{version}"))
    });
    found.unwrap_or_else(|| VERSION.to_owned())
}

/// Whether a network plugin runs on the node: a running pod that writes the configuration of networks there.
pub(super) fn has_network_plugin(pods: &[Arc<Value>]) -> bool {
    pods.iter().any(|pod| {
        let writes = pod
            .list("/spec/volumes")
            .iter()
            .any(|volume| volume.text("/hostPath/path").trim_end_matches('/') == "/etc/cni/net.d");
        writes && pod.text("/status/phase") == "Running" && !pod.is_deleting()
    })
}

/// The status of a pod of the tenant that runs.
pub(super) fn running_pod(pod: &Value, guest: &Guest) -> Value {
    let now = guest.clock.seconds();
    let mut status = json!({"status": {
        "phase": "Running", "startTime": now,
        "conditions": pod.list("/status/conditions"),
        "containerStatuses": pod.list("/spec/containers").iter().map(|container| json!({
            "name": container["name"], "image": container["image"], "imageID": "", "ready": true, "started": true,
            "restartCount": 0, "state": {"running": {"startedAt": now}}, "lastState": {},
            "containerID": format!("containerd://{:016x}", {
                let mut hash = Fnv::new(1);
                hash.write(pod.uid().as_bytes());
                hash.write(container.text("/name").as_bytes());
                hash.finish()
            }),
        })).collect::<Vec<_>>(),
    }});
    let addresses = addresses(&guest.machine.plan());
    if let Some(host) = addresses.first() {
        status["status"]["hostIP"] = host.to_string().into();
        status["status"]["hostIPs"] = json!([{"ip": host.to_string()}]);
        if pod.flag("/spec/hostNetwork") {
            status["status"]["podIP"] = host.to_string().into();
            status["status"]["podIPs"] = json!([{"ip": host.to_string()}]);
        }
    }
    for kind in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"] {
        Condition::new(kind, true, "", "").put(&mut status, &now);
    }
    status["status"].take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_a_running_pod_that_writes_network_configurations() {
        let pod = |phase: &str, path: &str| {
            Arc::new(json!({
                "spec": {"volumes": [{"name": "cni", "hostPath": {"path": path}}]}, "status": {"phase": phase},
            }))
        };
        assert!(has_network_plugin(&[pod("Running", "/etc/cni/net.d/")]));
        assert!(!has_network_plugin(&[pod("Pending", "/etc/cni/net.d"), pod("Running", "/var/log")]));
    }

    #[test]
    fn the_version_comes_from_what_is_installed() {
        let mut boot = Boot::default();
        assert_eq!(version(&boot), VERSION);
        boot.commands.push("curl https://dl.k8s.io/v1.33.2/bin/linux/amd64/kubelet".to_owned());
        assert_eq!(version(&boot), "v1.33.2");
    }
}

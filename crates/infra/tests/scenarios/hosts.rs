//! Hosts: nodes and their heartbeats, and the life of pods on them.

use serde_json::{Value, json};
use trellis_infra::kinds::{LEASE, NODE, POD};
use trellis_infra::object::{Key, Object as _};

use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![scenario!(hosts_are_ready_and_send_heartbeats), scenario!(a_pod_runs_and_is_stopped)]
}

/// A pod with one container.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
    })
}

async fn hosts_are_ready_and_send_heartbeats(cx: Cx) -> Result {
    for index in 0..3 {
        let key = Key::cluster(&trellis_infra::hosts::name_of(index));
        let node = cx
            .until(&NODE, &key, |node| node.condition_holds("Ready") && node.list("/spec/taints").is_empty())
            .await?;
        assert_eq!(node.label("kubevirt.io/schedulable"), "true");
        assert_ne!(node.label("topology.kubernetes.io/zone"), "");
        assert_eq!(node.text("/status/allocatable/devices.kubevirt.io~1kvm"), "1k");
        let lease = Key::new("kube-node-lease", &key.name);
        let first = cx.until(&LEASE, &lease, |lease| lease.text("/spec/holderIdentity") == key.name).await?;
        let first = first.text("/spec/renewTime").to_owned();
        cx.until(&LEASE, &lease, |lease| lease.text("/spec/renewTime") > first.as_str()).await?;
    }
    Ok(())
}

async fn a_pod_runs_and_is_stopped(cx: Cx) -> Result {
    let key = cx.key("a");
    let mut history = cx.follow(&POD, &key).await;
    cx.create(&POD, pod("a")).await?;
    let pod = cx.until(&POD, &key, |pod| pod.condition_holds("Ready")).await?;
    assert_eq!(pod.text("/status/phase"), "Running");
    assert!(pod.text("/status/podIP").starts_with("10."));
    assert!(pod.text("/status/hostIP").starts_with("172.30."));
    let states = history.states();
    assert!(
        states.iter().any(|pod| {
            pod.text("/status/containerStatuses/0/state/waiting/reason") == "ContainerCreating"
        }),
        "the container was never waiting"
    );
    cx.client.delete(&POD, &key, "").await?;
    cx.until_gone(&POD, &key).await?;
    assert_eq!(history.texts("/status/phase"), ["Pending", "Running", "Succeeded"]);
    Ok(())
}

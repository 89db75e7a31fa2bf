//! Kubermatic's machine API: MachineDeployments.

use std::sync::Arc;

use serde_json::{Value, json};
use trellis_engine::families::KKP;
use trellis_infra::kinds::{Kind, NODE};
use trellis_infra::object::{Key, Object as _};

use crate::stage::{CLUSTER, CONTROL, KKP_DEPLOYMENT, KKP_MACHINE, KKP_SET, Stage};

crate::everywhere!(a_machine_deployment_comes_scales_rolls_and_goes);

/// The Secret that the operating-system-manager makes for a MachineDeployment.
pub(crate) const BOOTSTRAP: (&str, &str) = ("cloud-init-settings", "workers-machines-bootstrap-config");
/// The annotation with the place of a set in the history.
pub(crate) const REVISION: &str = "machinedeployment.clusters.k8s.io/revision";

pub(crate) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"pool": "workers"}},
        "spec": {
            "metadata": {"labels": {"tier": "front"}},
            "taints": [{"key": "dedicated", "value": "front", "effect": "NoSchedule"}],
            "versions": {"kubelet": "1.34.2"},
            "providerSpec": {"value": {
                "cloudProvider": "kubevirt",
                "operatingSystem": "ubuntu",
                "operatingSystemSpec": {"distUpgradeOnBoot": true},
                "cloudProviderSpec": {
                    "clusterName": CLUSTER,
                    "auth": {"kubeconfig": {"secretKeyRef": {"namespace": "infra", "name": "access", "key": "kubeconfig"}}},
                    "virtualMachine": {"template": {
                        "cpus": "1",
                        "memory": "1Gi",
                        "primaryDisk": {
                            "osImage": format!("docker://registry.example/{image}"),
                            "size": "10Gi",
                            "storageClassName": "replicated",
                        },
                    }},
                },
            }},
        },
    })
}

pub(crate) fn deployment(replicas: u32) -> Value {
    json!({
        "metadata": {"name": "workers"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"pool": "workers"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template("ubuntu:24.04"),
        },
    })
}

pub(crate) fn settled(replicas: i64) -> impl Fn(&Value) -> bool {
    move |pool| {
        ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
            .iter()
            .all(|count| pool.number(&format!("/status/{count}")).unwrap_or_default() == replicas)
            && pool.number("/status/observedGeneration") == pool.number("/metadata/generation")
    }
}

async fn one(stage: &Stage, kind: &'static Kind, name: &str) -> Value {
    stage.world.person.get(kind, &Stage::key(name)).await.unwrap().unwrap()
}

pub(crate) async fn all(stage: &Stage, kind: &'static Kind) -> Vec<Value> {
    stage.world.person.list(kind, CONTROL).await.unwrap()
}

/// What the tools of this ecosystem rely on: the autoscaler, the cloud controller and the CSI driver.
async fn check(stage: &Stage, node: &Arc<Value>) {
    let machine = one(stage, &KKP_MACHINE, node.name()).await;
    let linked = |node: &Value| !node.annotation("cluster.k8s.io/machine").is_empty();
    let node = stage.tenant.until(&NODE, &Key::cluster(node.name()), linked).await.unwrap();
    assert_eq!(node.text("/spec/providerID"), format!("kubevirt://{}", node.name()));
    assert_eq!(machine.text("/spec/providerID"), node.text("/spec/providerID"));
    assert_eq!(node.label("machine-controller/owned-by"), machine.uid());
    assert_eq!(node.annotation("cluster.k8s.io/machine"), format!("{CONTROL}/{}", node.name()));
    assert_eq!(node.label("tier"), "front");
    let taints = node.list("/spec/taints");
    assert!(taints.iter().any(|taint| taint.text("/key") == "dedicated"), "{taints:?}");
    assert_eq!(machine.text("/status/nodeRef/name"), node.name());
    assert_eq!(machine.text("/status/nodeRef/uid"), node.uid());
    assert_eq!(machine.text("/status/phase"), "Running");
    assert_eq!(machine.label("pool"), "workers");
    let set = one(stage, &KKP_SET, machine.text("/metadata/ownerReferences/0/name")).await;
    assert_eq!(machine.label("machine-template-hash"), set.label("machine-template-hash"));
    assert_eq!(set.text("/metadata/ownerReferences/0/name"), "workers");
}

async fn a_machine_deployment_comes_scales_rolls_and_goes() {
    let stage = Stage::start(&KKP).await;
    let person = &stage.world.person;
    stage.store_user_data(BOOTSTRAP.0, BOOTSTRAP.1, "cloud-config").await;
    stage.create(&KKP_DEPLOYMENT, deployment(2)).await;
    for node in &stage.until_nodes(2).await {
        stage.until_running(&KKP_MACHINE, node.name()).await;
        check(&stage, node).await;
    }
    let workers = Stage::key("workers");
    stage.world.until(&KKP_DEPLOYMENT, &workers, settled(2)).await.unwrap();
    // It scales, and the set with it.
    person.merge(&KKP_DEPLOYMENT, &workers, &json!({"spec": {"replicas": 3}})).await.unwrap();
    let before = stage.until_nodes(3).await;
    stage.world.until(&KKP_DEPLOYMENT, &workers, settled(3)).await.unwrap();
    let sets = all(&stage, &KKP_SET).await;
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0].number("/spec/replicas"), Some(3));
    assert_eq!(sets[0].annotation(REVISION), "1");
    // It rolls to a new set, and the old one is kept, empty.
    let image = json!({"spec": {"template": template("ubuntu:26.04")}});
    person.merge(&KKP_DEPLOYMENT, &workers, &image).await.unwrap();
    stage
        .world
        .until(&KKP_DEPLOYMENT, &workers, |pool| {
            settled(3)(pool) && pool.number("/metadata/generation") > Some(2)
        })
        .await
        .unwrap();
    let after = stage.until_nodes(3).await;
    for node in &after {
        assert!(before.iter().all(|old| old.name() != node.name()), "{} is an old one", node.name());
        stage.until_running(&KKP_MACHINE, node.name()).await;
        check(&stage, node).await;
    }
    // Addresses go by numbers: the first new machine came beside three old ones, and has none of theirs.
    let machines = all(&stage, &KKP_MACHINE).await;
    assert!(machines.iter().any(|machine| machine.annotation("trellis.dev/ordinal") == "3"), "{machines:?}");
    let mut sets = all(&stage, &KKP_SET).await;
    sets.sort_by_key(|set| set.annotation(REVISION).to_owned());
    let sizes: Vec<_> =
        sets.iter().map(|set| (set.annotation(REVISION), set.number("/spec/replicas"))).collect();
    assert_eq!(sizes, [("1", Some(0)), ("2", Some(3))]);
    // It goes with everything.
    person.delete(&KKP_DEPLOYMENT, &workers, "").await.unwrap();
    for node in &after {
        stage.tenant.until_gone(&NODE, &Key::cluster(node.name())).await.unwrap();
        stage.world.until_gone(&KKP_MACHINE, &Stage::key(node.name())).await.unwrap();
    }
    for set in &sets {
        stage.world.until_gone(&KKP_SET, &Stage::key(set.name())).await.unwrap();
    }
    assert_eq!(stage.vms().await, Vec::<String>::new());
}

//! OpenShift's machine API: MachineSets whose machines join by Ignition.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use trellis_engine::families::OPENSHIFT;
use trellis_infra::kinds::{DATA_VOLUME, NODE, SECRET};
use trellis_infra::object::{Key, Object as _};

use crate::stage::{CLUSTER, CONTROL, OPENSHIFT_MACHINE, OPENSHIFT_SET, Stage};

crate::everywhere!(a_machine_set_comes_shrinks_by_the_marked_machine_and_goes);

pub(crate) const SET: &str = "blue-worker-0";

pub(crate) fn set(replicas: u32) -> Value {
    json!({
        "metadata": {"name": SET, "labels": {"machine.openshift.io/cluster-api-cluster": CLUSTER}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"machine.openshift.io/cluster-api-machineset": SET}},
            "template": {
                "metadata": {"labels": {
                    "machine.openshift.io/cluster-api-cluster": CLUSTER,
                    "machine.openshift.io/cluster-api-machine-role": "worker",
                    "machine.openshift.io/cluster-api-machine-type": "worker",
                    "machine.openshift.io/cluster-api-machineset": SET,
                }},
                "spec": {
                    "metadata": {"labels": {"node-role.kubernetes.io/infra": ""}},
                    "providerSpec": {"value": {
                        "apiVersion": "kubevirtproviderconfig.openshift.io/v1alpha1",
                        "kind": "KubevirtMachineProviderSpec",
                        "sourcePvcName": "rhcos",
                        "ignitionSecretName": "worker-user-data",
                        "requestedCPU": 1,
                        "requestedMemory": "1Gi",
                        "requestedStorage": "12Gi",
                        "storageClassName": "replicated",
                    }},
                },
            },
        },
    })
}

/// What an installer leaves behind: the image and the user data.
pub(crate) async fn install(stage: &Stage) {
    let person = &stage.world.person;
    let image = json!({
        "metadata": {"namespace": CLUSTER, "name": "rhcos"},
        "spec": {
            "source": {"registry": {"url": "docker://registry.example/rhcos:4.20"}},
            "storage": {"storageClassName": "replicated", "resources": {"requests": {"storage": "10Gi"}}},
        },
    });
    person.create(&DATA_VOLUME, image).await.unwrap();
    let imported = |volume: &Value| volume.text("/status/phase") == "Succeeded";
    stage.world.until(&DATA_VOLUME, &Key::new(CLUSTER, "rhcos"), imported).await.unwrap();
    let secret = json!({
        "metadata": {"namespace": CONTROL, "name": "worker-user-data"},
        "stringData": {"userData": stage.tenant.ignition(), "disableTemplating": "true"},
    });
    person.create(&SECRET, secret).await.unwrap();
}

/// The phases a machine goes through, each once, from now on.
fn phases(stage: &Stage, name: &str) -> Arc<Mutex<Vec<String>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (told, key) = (Arc::clone(&seen), Stage::key(name));
    let cache = stage.world.person.cache(&OPENSHIFT_MACHINE);
    tokio::spawn(async move {
        let mut changes = cache.changes();
        loop {
            if let Some(machine) = cache.get(&key) {
                let phase = machine.text("/status/phase").to_owned();
                let mut told = told.lock().unwrap();
                if !phase.is_empty() && told.last() != Some(&phase) {
                    told.push(phase);
                }
            }
            changes.recv().await;
        }
    });
    seen
}

async fn a_machine_set_comes_shrinks_by_the_marked_machine_and_goes() {
    let stage = Stage::start(&OPENSHIFT).await;
    let person = &stage.world.person;
    install(&stage).await;
    let seen = phases(&stage, &format!("{SET}-0"));
    stage.create(&OPENSHIFT_SET, set(3)).await;
    let nodes = stage.until_nodes(3).await;
    for node in &nodes {
        let machine = stage.until_running(&OPENSHIFT_MACHINE, node.name()).await;
        let linked = |node: &Value| !node.annotation("machine.openshift.io/machine").is_empty();
        let node = stage.tenant.until(&NODE, &Key::cluster(node.name()), linked).await.unwrap();
        assert_eq!(node.text("/spec/providerID"), format!("kubevirt://{CLUSTER}/{}", node.name()));
        assert_eq!(machine.text("/spec/providerID"), node.text("/spec/providerID"));
        assert_eq!(node.annotation("machine.openshift.io/machine"), format!("{CONTROL}/{}", node.name()));
        assert!(node["metadata"]["labels"]["node-role.kubernetes.io/infra"].is_string());
        assert_eq!(machine.text("/status/nodeRef/uid"), node.uid());
        assert_eq!(machine.label("machine.openshift.io/cluster-api-machineset"), SET);
    }
    assert_eq!(*seen.lock().unwrap(), ["Provisioning", "Provisioned", "Running"]);
    let counted = |replicas: i64| {
        move |set: &Value| {
            ["replicas", "readyReplicas", "availableReplicas"]
                .iter()
                .all(|count| set.number(&format!("/status/{count}")).unwrap_or_default() == replicas)
        }
    };
    let key = Stage::key(SET);
    stage.world.until(&OPENSHIFT_SET, &key, counted(3)).await.unwrap();
    // The machine that somebody marked goes first, whatever its age.
    let marked = format!("{SET}-1");
    let mark = json!({"metadata": {"annotations": {"machine.openshift.io/delete-machine": "true"}}});
    person.merge(&OPENSHIFT_MACHINE, &Stage::key(&marked), &mark).await.unwrap();
    person.merge(&OPENSHIFT_SET, &key, &json!({"spec": {"replicas": 2}})).await.unwrap();
    stage.tenant.until_gone(&NODE, &Key::cluster(&marked)).await.unwrap();
    stage.world.until(&OPENSHIFT_SET, &key, counted(2)).await.unwrap();
    let left = stage.until_nodes(2).await;
    assert_eq!(stage.vms().await, [format!("{SET}-0"), format!("{SET}-2")]);
    // Another template holds for new machines only.
    let memory =
        json!({"spec": {"template": {"spec": {"providerSpec": {"value": {"requestedStorage": "13Gi"}}}}}});
    person.merge(&OPENSHIFT_SET, &key, &memory).await.unwrap();
    person.merge(&OPENSHIFT_SET, &key, &json!({"spec": {"replicas": 3}})).await.unwrap();
    let now = stage.until_nodes(3).await;
    for node in &left {
        assert!(now.iter().any(|one| one.uid() == node.uid()), "{} was replaced", node.name());
    }
    // It goes with everything.
    person.delete(&OPENSHIFT_SET, &key, "").await.unwrap();
    for node in &now {
        stage.tenant.until_gone(&NODE, &Key::cluster(node.name())).await.unwrap();
        stage.world.until_gone(&OPENSHIFT_MACHINE, &Stage::key(node.name())).await.unwrap();
    }
    assert_eq!(stage.vms().await, Vec::<String>::new());
}

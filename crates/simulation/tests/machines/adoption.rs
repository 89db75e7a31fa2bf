//! Machines that Kubermatic's own controller made: taken over without a rollout, and handed back.

use std::sync::Arc;

use serde_json::{Value, json};
use trellis_engine::families::{KKP, OPENSHIFT};
use trellis_infra::kinds::{DATA_VOLUME, EVENT, NODE, SECRET, VM, VMI};
use trellis_infra::object::{Key, Object as _};

use crate::kkp::{BOOTSTRAP, REVISION, all, deployment, settled, template};
use crate::openshift;
use crate::stage::{
    CLUSTER, CONTROL, KKP_DEPLOYMENT, KKP_MACHINE, KKP_SET, OPENSHIFT_MACHINE, OPENSHIFT_SET, Stage,
};

crate::everywhere!(
    what_the_machine_controller_made_is_taken_over_and_handed_back,
    what_openshifts_actuator_made_is_taken_over
);

/// The finalizers of Kubermatic's machine-controller.
const THEIRS: [&str; 2] = ["machine-delete-finalizer", "machine-node-delete-finalizer"];
/// What the machine-controller's set hashes its template to; nobody else would.
const THEIR_HASH: &str = "1234567890";
const MACHINE: &str = "workers-1234567890-abcde";

/// Makes what Kubermatic's controllers leave behind of a MachineDeployment of one machine, up to a ready Node.
async fn made_by_others(stage: &Stage) -> Arc<Value> {
    let person = &stage.world.person;
    let owner = |kind: &str, of: &Value| {
        json!([{"apiVersion": "cluster.k8s.io/v1alpha1", "kind": kind, "name": of.name(), "uid": of.uid(),
            "controller": true, "blockOwnerDeletion": true}])
    };
    let mut pool = deployment(1);
    pool["metadata"]["annotations"] = json!({REVISION: "1"});
    let pool = stage.create(&KKP_DEPLOYMENT, pool).await;
    let mut labelled = template("ubuntu:24.04");
    labelled["metadata"]["labels"]["machine-template-hash"] = THEIR_HASH.into();
    let labels = labelled["metadata"]["labels"].clone();
    let set = json!({
        "metadata": {
            "name": format!("workers-{THEIR_HASH}"), "labels": labels, "ownerReferences": owner("MachineDeployment", &pool),
            "annotations": {REVISION: "1", "machinedeployment.clusters.k8s.io/desired-replicas": "1",
                "machinedeployment.clusters.k8s.io/max-replicas": "2"},
        },
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": labelled},
    });
    let set = stage.create(&KKP_SET, set).await;
    let data = stage.tenant.user_data().unwrap();
    let secret = format!("userdata-{MACHINE}-1767225600");
    person
        .create(
            &SECRET,
            json!({"metadata": {"namespace": CLUSTER, "name": secret}, "stringData": {"userdata": data}}),
        )
        .await
        .unwrap();
    person.create(&VM, their_vm(&secret)).await.unwrap();
    let node = stage.until_nodes(1).await.remove(0);
    let mut spec = template("ubuntu:24.04")["spec"].clone();
    spec["providerID"] = format!("kubevirt://{MACHINE}").into();
    let machine = json!({
        "metadata": {
            "name": MACHINE, "labels": labels, "ownerReferences": owner("MachineSet", &set), "finalizers": THEIRS,
        },
        "spec": spec,
        "status": {
            "nodeRef": {"kind": "Node", "name": MACHINE, "uid": node.uid()},
            "phase": "Running",
            "versions": {"kubelet": "1.34.2"},
            "conditions": node["status"]["conditions"],
        },
    });
    let machine = stage.create(&KKP_MACHINE, machine).await;
    let links = json!({
        "metadata": {
            "labels": {"machine-controller/owned-by": machine.uid(), "tier": "front"},
            "annotations": {"cluster.k8s.io/machine": format!("{CONTROL}/{MACHINE}")},
        },
        "spec": {"providerID": format!("kubevirt://{MACHINE}")},
    });
    stage.tenant.person.merge(&NODE, &Key::cluster(MACHINE), &links).await.unwrap();
    node
}

/// The VM as the machine-controller makes it.
fn their_vm(secret: &str) -> Value {
    let labels = json!({"kubevirt.io/vm": MACHINE, "md": "workers", "cluster.x-k8s.io/cluster-name": CLUSTER,
        "cluster.x-k8s.io/role": "worker", "pool": "workers"});
    json!({
        "metadata": {"namespace": CLUSTER, "name": MACHINE, "labels": labels},
        "spec": {
            "runStrategy": "Once",
            "dataVolumeTemplates": [{
                "metadata": {"name": MACHINE},
                "spec": {
                    "source": {"registry": {"url": "docker://registry.example/ubuntu:24.04"}},
                    "storage": {"storageClassName": "replicated", "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "10Gi"}}},
                },
            }],
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {"kubevirt.io/allow-pod-bridge-network-live-migration": "true"},
                },
                "spec": {
                    "evictionStrategy": "External",
                    "terminationGracePeriodSeconds": 30,
                    "networks": [{"name": "default", "pod": {}}],
                    "domain": {
                        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
                        "devices": {
                            "interfaces": [{"name": "default", "bridge": {}}],
                            "disks": [
                                {"name": "datavolumedisk", "disk": {"bus": "virtio"}},
                                {"name": "cloudinitdisk", "disk": {"bus": "virtio"}},
                            ],
                        },
                    },
                    "volumes": [
                        {"name": "datavolumedisk", "dataVolume": {"name": MACHINE}},
                        {"name": "cloudinitdisk", "cloudInitNoCloud": {"secretRef": {"name": secret}}},
                    ],
                },
            },
        },
    })
}

fn finalizers(object: &Value) -> Vec<String> {
    let mut names: Vec<String> =
        object.list("/metadata/finalizers").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    names.sort();
    names
}

async fn what_the_machine_controller_made_is_taken_over_and_handed_back() {
    let stage = Stage::prepare(&KKP).await;
    let person = &stage.world.person;
    stage.store_user_data(BOOTSTRAP.0, BOOTSTRAP.1, "cloud-config").await;
    let node = made_by_others(&stage).await;
    let vmi = person.get(&VMI, &Key::new(CLUSTER, MACHINE)).await.unwrap().unwrap();
    let vm = person.get(&VM, &Key::new(CLUSTER, MACHINE)).await.unwrap().unwrap();
    // We take over.
    let stage = stage.go();
    let (key, workers) = (Stage::key(MACHINE), Stage::key("workers"));
    let person = &stage.world.person;
    let ours =
        |machine: &Value| finalizers(machine) == ["trellis.dev/machine"] && machine.condition_holds("Ready");
    let machine = stage.world.until(&KKP_MACHINE, &key, ours).await.unwrap();
    assert_eq!(machine.annotation("trellis.dev/adopted-from"), "machine-controller");
    assert_eq!(machine.text("/status/phase"), "Running");
    stage.world.until(&KKP_DEPLOYMENT, &workers, settled(1)).await.unwrap();
    // It grows, and nothing was replaced meanwhile: the same set, the same machine, the same run, the same Node.
    person.merge(&KKP_DEPLOYMENT, &workers, &json!({"spec": {"replicas": 2}})).await.unwrap();
    let nodes = stage.until_nodes(2).await;
    stage.world.until(&KKP_DEPLOYMENT, &workers, settled(2)).await.unwrap();
    assert_eq!(all(&stage, &KKP_SET).await.len(), 1);
    assert!(nodes.iter().any(|one| one.uid() == node.uid()));
    let now = person.get(&VMI, &Key::new(CLUSTER, MACHINE)).await.unwrap().unwrap();
    assert_eq!(now.uid(), vmi.uid());
    // It is handed back, the machine that we made, too.
    let back = json!({"metadata": {"annotations": {"trellis.dev/hand-back": "true"}}});
    person.merge(&KKP_DEPLOYMENT, &workers, &back).await.unwrap();
    for node in &nodes {
        let theirs = |machine: &Value| {
            finalizers(machine) == THEIRS && machine["status"]["providerStatus"]["trellis"].is_null()
        };
        let machine = stage.world.until(&KKP_MACHINE, &Stage::key(node.name()), theirs).await.unwrap();
        assert_eq!(machine.annotation("trellis.dev/adopted-from"), "");
    }
    let back = stage
        .world
        .until(&VM, &Key::new(CLUSTER, MACHINE), |vm| vm.label("trellis.dev/cluster").is_empty())
        .await
        .unwrap();
    assert_eq!(back["spec"], vm["spec"]);
    assert_eq!(back["metadata"]["labels"], vm["metadata"]["labels"]);
    // From now on, nothing is done: a size is somebody else's business.
    person.merge(&KKP_DEPLOYMENT, &workers, &json!({"spec": {"replicas": 0}})).await.unwrap();
    stage.quiet(std::time::Duration::from_mins(10)).await;
    assert_eq!(all(&stage, &KKP_MACHINE).await.len(), 2);
    assert_eq!(stage.vms().await.len(), 2);
    assert!(person.get(&DATA_VOLUME, &Key::new(CLUSTER, MACHINE)).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_recognised_stays_with_whoever_made_it() {
    let stage = Stage::start(&KKP).await;
    let machine = |name: &str, spec: &Value| json!({"metadata": {"name": name, "labels": {"pool": "x"}, "finalizers": THEIRS}, "spec": spec});
    let ours = template("ubuntu:24.04")["spec"].clone();
    let mut elsewhere = ours.clone();
    elsewhere["providerSpec"]["value"]["cloudProvider"] = "aws".into();
    stage.create(&KKP_MACHINE, machine("on-aws", &elsewhere)).await;
    // A VM of that name is there, and another cluster has it.
    let mut taken = their_vm("none");
    taken["metadata"] =
        json!({"namespace": CLUSTER, "name": "taken", "labels": {"trellis.dev/cluster": "red"}});
    taken["spec"]["runStrategy"] = "Halted".into();
    stage.world.person.create(&VM, taken).await.unwrap();
    stage.create(&KKP_MACHINE, machine("taken", &ours)).await;
    tokio::time::sleep(std::time::Duration::from_mins(10)).await;
    for name in ["on-aws", "taken"] {
        let kept = stage.world.person.get(&KKP_MACHINE, &Stage::key(name)).await.unwrap().unwrap();
        assert_eq!(finalizers(&kept), THEIRS, "{kept}");
        assert_eq!(kept.annotation("trellis.dev/adopted-from"), "");
    }
    let events = stage.world.person.list(&EVENT, CONTROL).await.unwrap();
    let told: Vec<&str> = events
        .iter()
        .filter(|event| event.text("/reason") == "NotAdopted")
        .map(|event| event.text("/involvedObject/name"))
        .collect();
    assert!(told.contains(&"on-aws") && told.contains(&"taken"), "{told:?}");
}

/// The VM as OpenShift's actuator makes it: a clone of the image, and Ignition from a Secret.
fn actuators_vm(name: &str) -> Value {
    let labels = json!({"machine.openshift.io/cluster-api-cluster": CLUSTER, "kubevirt.io/vm": name});
    let mut vm = their_vm(&format!("{name}-ignition"));
    vm["metadata"] = json!({"namespace": CLUSTER, "name": name, "labels": labels});
    vm["spec"]["runStrategy"] = "Always".into();
    vm["spec"]["dataVolumeTemplates"] = json!([{
        "metadata": {"name": format!("{name}-bootvolume")},
        "spec": {
            "source": {"pvc": {"namespace": CLUSTER, "name": "rhcos"}},
            "storage": {"storageClassName": "replicated", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "12Gi"}}},
        },
    }]);
    vm["spec"]["template"]["metadata"]["labels"] = labels;
    vm["spec"]["template"]["spec"]["volumes"] = json!([
        {"name": "datavolumedisk", "dataVolume": {"name": format!("{name}-bootvolume")}},
        {"name": "cloudinitdisk", "cloudInitConfigDrive": {"secretRef": {"name": format!("{name}-ignition")}}},
    ]);
    vm
}

async fn what_openshifts_actuator_made_is_taken_over() {
    const THEIR: &str = "machine.machine.openshift.io";
    let stage = Stage::prepare(&OPENSHIFT).await;
    let person = &stage.world.person;
    openshift::install(&stage).await;
    let name = format!("{}-abcde", openshift::SET);
    let made = openshift::set(1);
    let set = stage.create(&OPENSHIFT_SET, made.clone()).await;
    let ignition = json!({
        "metadata": {"namespace": CLUSTER, "name": format!("{name}-ignition")},
        "stringData": {"userdata": stage.tenant.ignition()},
    });
    person.create(&SECRET, ignition).await.unwrap();
    person.create(&VM, actuators_vm(&name)).await.unwrap();
    let node = stage.until_nodes(1).await.remove(0);
    let id = format!("kubevirt://{CLUSTER}/{name}");
    let mut spec = made["spec"]["template"]["spec"].clone();
    spec["providerID"] = id.clone().into();
    let owner = json!([{"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": set.name(),
        "uid": set.uid(), "controller": true, "blockOwnerDeletion": true}]);
    let labels = made["spec"]["template"]["metadata"]["labels"].clone();
    let machine = json!({
        "metadata": {"name": name, "labels": labels, "ownerReferences": owner, "finalizers": [THEIR]},
        "spec": spec,
        "status": {"phase": "Running", "nodeRef": {"kind": "Node", "name": name, "uid": node.uid()}},
    });
    stage.create(&OPENSHIFT_MACHINE, machine).await;
    let links = json!({
        "metadata": {"annotations": {"machine.openshift.io/machine": format!("{CONTROL}/{name}")}},
        "spec": {"providerID": id},
    });
    stage.tenant.person.merge(&NODE, &Key::cluster(&name), &links).await.unwrap();
    let vmi = person.get(&VMI, &Key::new(CLUSTER, &name)).await.unwrap().unwrap();
    let stage = stage.go();
    let person = &stage.world.person;
    let ours =
        |machine: &Value| finalizers(machine) == ["trellis.dev/machine"] && machine.condition_holds("Ready");
    let machine = stage.world.until(&OPENSHIFT_MACHINE, &Stage::key(&name), ours).await.unwrap();
    assert_eq!(machine.annotation("trellis.dev/adopted-from"), "machine-api");
    // It grows, and what was there is the same.
    person
        .merge(&OPENSHIFT_SET, &Stage::key(openshift::SET), &json!({"spec": {"replicas": 2}}))
        .await
        .unwrap();
    let nodes = stage.until_nodes(2).await;
    assert!(nodes.iter().any(|one| one.uid() == node.uid()));
    let now = person.get(&VMI, &Key::new(CLUSTER, &name)).await.unwrap().unwrap();
    assert_eq!(now.uid(), vmi.uid());
    // Given back, it has their finalizer and none of ours.
    let back = json!({"metadata": {"annotations": {"trellis.dev/hand-back": "true"}}});
    person.merge(&OPENSHIFT_SET, &Stage::key(openshift::SET), &back).await.unwrap();
    let theirs = |machine: &Value| finalizers(machine) == [THEIR];
    stage.world.until(&OPENSHIFT_MACHINE, &Stage::key(&name), theirs).await.unwrap();
}

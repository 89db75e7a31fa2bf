//! Objects as a server hands them out.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_engine::families::{Family, Object, Readings, TRELLIS, read_cluster};

/// A moment.
pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The moment most tests play at.
pub(crate) fn now() -> Timestamp {
    at("2026-11-16T12:00:00.25Z")
}

/// An object, narrowed.
pub(crate) fn object(value: Value) -> Object {
    Object::from_json(value).unwrap()
}

/// An object with what a server adds.
pub(crate) fn served(mut value: Value, uid: &str) -> Object {
    let metadata = value["metadata"].as_object_mut().unwrap();
    metadata.insert("uid".to_owned(), uid.into());
    metadata.entry("generation").or_insert_with(|| 1.into());
    metadata.insert("creationTimestamp".to_owned(), "2026-11-16T11:00:00Z".into());
    metadata.insert("resourceVersion".to_owned(), "77".into());
    metadata.insert("managedFields".to_owned(), json!([{ "manager": "x" }]));
    object(value)
}

/// What a merge patch makes of an object, as a server applies it.
pub(crate) fn patched(mut value: Value, patch: &Value) -> Value {
    merge(&mut value, patch);
    value
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// A MachineDeployment of KKP.
pub(crate) fn deployment() -> Value {
    json!({
        "apiVersion": "cluster.k8s.io/v1alpha1",
        "kind": "MachineDeployment",
        "metadata": {
            "name": "workers",
            "namespace": "kube-system",
            "annotations": {
                "cluster.k8s.io/cluster-api-autoscaler-node-group-min-size": "2",
                "cluster.k8s.io/cluster-api-autoscaler-node-group-max-size": "5",
                "kubectl.kubernetes.io/last-applied-configuration": "{\"all\": \"of it\"}",
                "machinedeployment.clusters.k8s.io/revision": "3",
            },
        },
        "spec": {
            "replicas": 3,
            "minReadySeconds": 10,
            "selector": { "matchLabels": { "pool": "workers" } },
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": 1 },
            },
            "template": {
                "metadata": { "labels": { "pool": "workers" } },
                "spec": kkp_machine_spec(),
            },
        },
    })
}

/// What a machine of that deployment is.
pub(crate) fn kkp_machine_spec() -> Value {
    json!({
        "metadata": { "labels": { "tier": "front" } },
        "taints": [{ "key": "dedicated", "value": "front", "effect": "NoSchedule" }],
        "versions": { "kubelet": "1.34.2" },
        "providerSpec": { "value": {
            "cloudProvider": "kubevirt",
            "operatingSystem": "ubuntu",
            "operatingSystemSpec": { "distUpgradeOnBoot": false },
            "sshPublicKeys": [],
            "cloudProviderSpec": {
                "clusterName": "demo",
                "auth": { "kubeconfig": {
                    "secretKeyRef": { "namespace": "infra", "name": "access", "key": "kubeconfig" },
                } },
                "virtualMachine": {
                    "template": {
                        "cpus": "2",
                        "memory": "4Gi",
                        "primaryDisk": {
                            "osImage": "docker://registry.example.com/images/ubuntu:24.04",
                            "size": "20Gi",
                            "storageClassName": "fast",
                        },
                    },
                },
            },
        } },
    })
}

/// A Machine as KKP's machine-controller made and ran it.
pub(crate) fn kkp_machine(name: &str) -> Value {
    let mut spec = kkp_machine_spec();
    spec["metadata"]["name"] = name.into();
    spec["providerID"] = format!("kubevirt://{name}").into();
    json!({
        "apiVersion": "cluster.k8s.io/v1alpha1",
        "kind": "Machine",
        "metadata": {
            "name": name,
            "namespace": "kube-system",
            "uid": format!("uid-{name}"),
            "generation": 4,
            "creationTimestamp": "2026-11-16T10:00:00Z",
            "finalizers": ["machine-delete-finalizer", "machine-node-delete-finalizer"],
            "labels": { "pool": "workers", "machine-template-hash": "3186546829" },
            "ownerReferences": [{
                "apiVersion": "cluster.k8s.io/v1alpha1", "kind": "MachineSet", "name": "workers-6f8d7c",
                "uid": "uid-set", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
        "status": {
            "nodeRef": { "apiVersion": "v1", "kind": "Node", "name": name, "uid": format!("node-{name}") },
            "versions": { "kubelet": "1.34.2" },
            "addresses": [{ "type": "InternalIP", "address": "10.0.0.7" }],
            "conditions": [{
                "type": "NodeReady", "status": "True", "reason": "NodeReady", "message": "",
                "lastTransitionTime": "2026-11-16T10:05:00Z", "lastHeartbeatTime": "2026-11-16T10:05:00Z",
            }],
        },
    })
}

/// The MachineSet KKP made for that deployment: named after its own hash.
pub(crate) fn kkp_set() -> Value {
    let mut template = deployment()["spec"]["template"].clone();
    template["metadata"]["labels"]["machine-template-hash"] = "3186546829".into();
    json!({
        "apiVersion": "cluster.k8s.io/v1alpha1",
        "kind": "MachineSet",
        "metadata": {
            "name": "workers-6f8d7c",
            "namespace": "kube-system",
            "labels": { "pool": "workers", "machine-template-hash": "3186546829" },
            "annotations": { "machinedeployment.clusters.k8s.io/revision": "3" },
            "ownerReferences": [{
                "apiVersion": "cluster.k8s.io/v1alpha1", "kind": "MachineDeployment", "name": "workers",
                "uid": "uid-md", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": { "pool": "workers", "machine-template-hash": "3186546829" } },
            "template": template,
        },
    })
}

/// A MachineSet of OpenShift.
pub(crate) fn openshift_set() -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "MachineSet",
        "metadata": {
            "name": "demo-worker-0",
            "namespace": "openshift-machine-api",
            "labels": { "machine.openshift.io/cluster-api-cluster": "demo" },
        },
        "spec": {
            "replicas": 2,
            "deletePolicy": "Newest",
            "selector": { "matchLabels": { "machine.openshift.io/cluster-api-machineset": "demo-worker-0" } },
            "template": {
                "metadata": { "labels": {
                    "machine.openshift.io/cluster-api-cluster": "demo",
                    "machine.openshift.io/cluster-api-machine-role": "worker",
                    "machine.openshift.io/cluster-api-machine-type": "worker",
                    "machine.openshift.io/cluster-api-machineset": "demo-worker-0",
                } },
                "spec": {
                    "metadata": { "labels": { "node-role.kubernetes.io/infra": "" } },
                    "providerSpec": { "value": {
                        "apiVersion": "kubevirtproviderconfig.openshift.io/v1alpha1",
                        "kind": "KubevirtMachineProviderSpec",
                        "sourcePvcName": "demo-source-pvc",
                        "ignitionSecretName": "worker-user-data",
                        "networkName": "mynet",
                        "requestedCPU": 4,
                        "requestedMemory": "8G",
                    } },
                },
            },
        },
    })
}

/// A Machine as OpenShift's actuator made and ran it.
pub(crate) fn openshift_machine(name: &str) -> Value {
    let template = openshift_set()["spec"]["template"].clone();
    let mut labels = template["metadata"]["labels"].clone();
    labels["machine.openshift.io/instance-type"] = "q35".into();
    let mut spec = template["spec"].clone();
    spec["providerID"] = format!("kubevirt://tenant/{name}").into();
    json!({
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "Machine",
        "metadata": {
            "name": name,
            "namespace": "openshift-machine-api",
            "uid": format!("uid-{name}"),
            "generation": 2,
            "creationTimestamp": "2026-11-16T10:00:00Z",
            "finalizers": ["machine.machine.openshift.io"],
            "labels": labels,
            "annotations": { "VmId": format!("vm-{name}"), "machine.openshift.io/instance-state": "vmWasCreatedAndReady" },
            "ownerReferences": [{
                "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": "demo-worker-0",
                "uid": "uid-set", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
        "status": {
            "phase": "Running",
            "nodeRef": { "kind": "Node", "name": name, "uid": format!("node-{name}") },
            "providerStatus": { "created": true, "ready": true },
        },
    })
}

/// A TenantCluster of ours.
pub(crate) fn cluster() -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": "tenants" },
        "spec": {
            "platform": { "kubevirt": { "storage": { "class": "fast" } } },
            "version": "1.34.2",
            "baseDomain": "svc.cluster.local",
        },
    })
}

/// A MachinePool of ours.
pub(crate) fn pool() -> Value {
    json!({
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "MachinePool",
        "metadata": { "name": "workers", "namespace": "tenants" },
        "spec": {
            "cluster": "demo",
            "replicas": 2,
            "machineLabels": { "team": "a" },
            "template": {
                "shape": { "flavor": "standard-4" },
                "image": {
                    "os": "ubuntu",
                    "version": "24.04",
                    "source": { "registry": { "url": "docker://registry.example.com/images/ubuntu:24.04" } },
                },
                "rootDisk": { "size": "40Gi" },
                "placement": { "zones": ["zone-a", "zone-b"] },
                "userData": { "secret": "bootstrap" },
            },
        },
    })
}

/// Readings of a family whose cluster nobody describes.
pub(crate) fn readings(family: &'static Family) -> Readings {
    Readings::new(family, None, Vec::new())
}

/// Readings of our own family.
pub(crate) fn own_readings() -> Readings {
    let cluster = read_cluster(&object(cluster())).unwrap();
    Readings::new(&TRELLIS, Some(Arc::clone(&cluster)), Vec::new())
}

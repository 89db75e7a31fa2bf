//! Objects that are good, what is bad about changed ones, and who has to say so.

use serde_json::{Value, json};

/// An object and where it lives.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) path: &'static str,
    pub(crate) object: Value,
}

const KKP_DEPLOYMENTS: &str = "/apis/cluster.k8s.io/v1alpha1/namespaces/default/machinedeployments";
const KKP_MACHINES: &str = "/apis/cluster.k8s.io/v1alpha1/namespaces/default/machines";
const SETS: &str = "/apis/machine.openshift.io/v1beta1/namespaces/default/machinesets";
const CHECKS: &str = "/apis/machine.openshift.io/v1beta1/namespaces/default/machinehealthchecks";
const POOLS: &str = "/apis/trellis.dev/v1alpha1/namespaces/default/machinepools";
const CLUSTERS: &str = "/apis/trellis.dev/v1alpha1/namespaces/default/tenantclusters";

fn template() -> Value {
    json!({"metadata": {"labels": {"pool": "workers"}}, "spec": {
        "versions": {"kubelet": "1.34.2"},
        "providerSpec": {"value": {
            "cloudProvider": "kubevirt", "operatingSystem": "ubuntu", "operatingSystemSpec": {},
            "cloudProviderSpec": {
                "clusterName": "blue",
                "auth": {"kubeconfig": {"secretKeyRef": {"namespace": "infra", "name": "access", "key": "kubeconfig"}}},
                "virtualMachine": {"template": {"cpus": "1", "memory": "1Gi", "primaryDisk": {
                    "osImage": "docker://registry.example/u:1", "size": "10Gi", "storageClassName": "fast",
                }}},
            },
        }},
    }})
}

pub(crate) fn deployment() -> Sample {
    let object = json!({
        "apiVersion": "cluster.k8s.io/v1alpha1", "kind": "MachineDeployment", "metadata": {"name": "workers"},
        "spec": {"selector": {"matchLabels": {"pool": "workers"}}, "template": template()},
    });
    Sample { path: KKP_DEPLOYMENTS, object }
}

pub(crate) fn machine() -> Sample {
    let mut spec = template()["spec"].take();
    spec["providerID"] = "kubevirt://one".into();
    let object = json!({
        "apiVersion": "cluster.k8s.io/v1alpha1", "kind": "Machine", "metadata": {"name": "one", "labels": {"pool": "workers"}},
        "spec": spec,
    });
    Sample { path: KKP_MACHINES, object }
}

fn set() -> Sample {
    let object = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": {"name": "workers"},
        "spec": {
            "selector": {"matchLabels": {"set": "workers"}},
            "template": {"metadata": {"labels": {"set": "workers"}}, "spec": {"providerSpec": {"value": {
                "apiVersion": "kubevirtproviderconfig.openshift.io/v1alpha1", "kind": "KubevirtMachineProviderSpec",
                "sourcePvcName": "rhcos", "ignitionSecretName": "worker-user-data", "requestedCPU": 1,
                "requestedMemory": "1Gi", "requestedStorage": "12Gi", "storageClassName": "fast",
            }}}},
        },
    });
    Sample { path: SETS, object }
}

fn check() -> Sample {
    let object = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", "metadata": {"name": "check"},
        "spec": {"selector": {}, "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "300s"}]},
    });
    Sample { path: CHECKS, object }
}

pub(crate) fn pool() -> Sample {
    let object = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "MachinePool", "metadata": {"name": "workers"},
        "spec": {"cluster": "blue", "template": {
            "shape": {"custom": {"cpu": {"topology": {"sockets": 1}}, "memory": {"guest": "1Gi"}}},
            "image": {"os": "ubuntu", "source": {"registry": {"url": "docker://registry.example/ubuntu:24.04"}}},
            "rootDisk": {"size": "10Gi"}, "userData": {"secret": "join"},
        }},
    });
    Sample { path: POOLS, object }
}

fn cluster() -> Sample {
    let object = json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TenantCluster", "metadata": {"name": "blue"},
        "spec": {
            "platform": {"kubevirt": {"namespace": "blue"}}, "version": "1.34.2",
            "network": {"services": ["10.96.0.0/16"]},
        },
    });
    Sample { path: CLUSTERS, object }
}

/// Objects that nobody has anything against.
pub(crate) fn good() -> Vec<Sample> {
    vec![deployment(), machine(), set(), check(), pool(), cluster()]
}

/// Who refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The webhook alone: it has to be read to be judged.
    Webhook,
    /// The webhook and the policies.
    Both,
}

/// What is wrong with writing a part of a good object, new or in place of the old one.
pub(crate) struct Bad {
    pub(crate) sample: Sample,
    pub(crate) patch: Value,
    /// It is wrong only as a change.
    pub(crate) as_change: bool,
    pub(crate) by: By,
    /// What is said, by the webhook; a policy names the field with the same words or its own.
    pub(crate) field: &'static str,
    pub(crate) says: &'static str,
}

fn bad(sample: Sample, patch: Value, by: By, field: &'static str, says: &'static str) -> Bad {
    Bad { sample, patch, as_change: false, by, field, says }
}

fn change(sample: Sample, patch: Value, field: &'static str, says: &'static str) -> Bad {
    Bad { sample, patch, as_change: true, by: By::Both, field, says }
}

/// All kinds of bad writes.
pub(crate) fn bad_ones() -> Vec<Bad> {
    let kubelet = |version: &str| json!({"spec": {"template": {"spec": {"versions": {"kubelet": version}}}}});
    let zero = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}});
    vec![
        bad(deployment(), kubelet("new"), By::Webhook, "spec.template.spec.versions.kubelet", "new"),
        bad(deployment(), zero, By::Both, "spec.strategy.rollingUpdate", "spec.strategy.rollingUpdate"),
        bad(
            deployment(),
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
            By::Both,
            "spec.strategy.type",
            "spec.strategy.type",
        ),
        bad(
            deployment(),
            json!({"spec": {"selector": {"matchLabels": {"pool": "others"}}}}),
            By::Both,
            "spec.selector",
            "spec.selector",
        ),
        bad(
            set(),
            json!({"spec": {"template": {"spec": {"providerSpec": {"value": {"requestedMemory": "lots"}}}}}}),
            By::Webhook,
            "spec.template.spec.providerSpec.value.requestedMemory",
            "lots",
        ),
        bad(
            check(),
            json!({"spec": {"maxUnhealthy": "half"}}),
            By::Both,
            "spec.maxUnhealthy",
            "neither a number nor a share",
        ),
        bad(
            check(),
            json!({"spec": {"nodeStartupTimeout": "soon"}}),
            By::Both,
            "spec.nodeStartupTimeout",
            "not a time",
        ),
        bad(
            pool(),
            json!({"spec": {"template": {"image": {"source": {"registry": {"url": "nowhere"}}}}}}),
            By::Webhook,
            "spec.template.image.source.registry.url",
            "nowhere",
        ),
        change(
            deployment(),
            json!({"spec": {"selector": {"matchLabels": {"more": "workers"}}}}),
            "spec.selector",
            "does not change",
        ),
        change(
            machine(),
            json!({"spec": {"providerID": "kubevirt://other"}}),
            "spec.providerID",
            "does not change",
        ),
        change(
            machine(),
            json!({"spec": {"versions": {"kubelet": "1.35.0"}}}),
            "spec.versions",
            "stays what it was made as",
        ),
        change(
            pool(),
            json!({"spec": {"machineName": "one"}}),
            "spec.machineName",
            "a machine cannot be renamed",
        ),
        change(
            cluster(),
            json!({"spec": {"network": {"services": ["10.97.0.0/16"]}}}),
            "spec.network.services",
            "Service addresses are fixed",
        ),
        change(
            cluster(),
            json!({"spec": {"platform": {"kubevirt": {"namespace": "red"}}}}),
            "spec.platform.kubevirt.namespace",
            "a cluster cannot move to another namespace",
        ),
    ]
}

/// A merge patch, carried out.
pub(crate) fn merged(object: &Value, patch: &Value) -> Value {
    let Some(patch) = patch.as_object() else { return patch.clone() };
    let mut merged = object.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            merged.remove(key);
        } else {
            merged.insert(key.clone(), merged_or_new(merged.get(key), value));
        }
    }
    Value::Object(merged)
}

fn merged_or_new(old: Option<&Value>, patch: &Value) -> Value {
    merged(old.unwrap_or(&Value::Null), patch)
}

//! The pods that do CDI's work.

use serde_json::{Value, json};

use super::super::{config, names};
use crate::kinds::PVC;
use crate::object::{Object as _, owned_by};

/// What a worker is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Brings content in.
    Importer,
    /// Takes an upload, from a person or from a cloner.
    Uploader,
    /// Sends the content of a claim to an uploader.
    Cloner,
    /// Makes a claim be bound and grown.
    Preparer,
}

impl Role {
    const ALL: [Self; 4] = [Self::Importer, Self::Uploader, Self::Cloner, Self::Preparer];

    /// The value of the label that tells workers apart.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Importer => "importer",
            Self::Uploader => "cdi-upload-server",
            Self::Cloner => "cdi-clone-source",
            Self::Preparer => "cdi-prep",
        }
    }

    /// What a pod is for, if it is one of CDI's workers.
    pub(crate) fn of(pod: &Value) -> Option<Self> {
        let ours = pod.label(names::APP) == names::APP_VALUE;
        Self::ALL.into_iter().find(|role| ours && pod.label(names::COMPONENT) == role.label())
    }

    fn container(self) -> (&'static str, &'static str) {
        match self {
            Self::Importer => ("importer", "cdi-importer"),
            Self::Uploader => ("cdi-upload-server", "cdi-uploadserver"),
            Self::Cloner => ("cdi-clone-source", "cdi-cloner"),
            Self::Preparer => ("dummy", "cdi-importer"),
        }
    }
}

/// What a worker pod is made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blueprint<'a> {
    /// What it is for.
    pub role: Role,
    /// Its name.
    pub name: &'a str,
    /// The claim it works on.
    pub claim: &'a Value,
    /// Whether it belongs to that claim.
    pub owned: bool,
    /// The claim it may use as scratch space; empty for none.
    pub scratch: &'a str,
    /// The priority class; empty for none.
    pub priority: &'a str,
    /// The node it has to run on; empty for any.
    pub node: &'a str,
    /// The configuration of CDI.
    pub config: &'a Value,
}

/// A worker pod.
pub(crate) fn build(blueprint: &Blueprint<'_>) -> Value {
    let (container, image) = blueprint.role.container();
    let claim = blueprint.claim;
    let mut volumes =
        vec![json!({"name": "cdi-data-vol", "persistentVolumeClaim": {"claimName": claim.name()}})];
    let mut spec = json!({
        "name": container, "image": format!("kubevirt/{image}:{}", config::VERSION),
        "imagePullPolicy": "IfNotPresent",
        "resources": blueprint.config.at("/status/defaultPodResourceRequirements"),
        "terminationMessagePolicy": "File", "terminationMessagePath": "/dev/termination-log",
        "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
            "runAsUser": 107, "seccompProfile": {"type": "RuntimeDefault"},
        },
    });
    if claim["spec"]["volumeMode"] == "Block" {
        spec["volumeDevices"] = json!([{"name": "cdi-data-vol", "devicePath": "/dev/cdi-block-volume"}]);
    } else {
        spec["volumeMounts"] = json!([{"name": "cdi-data-vol", "mountPath": "/data"}]);
    }
    if !blueprint.scratch.is_empty() {
        volumes.push(
            json!({"name": "cdi-scratch-vol", "persistentVolumeClaim": {"claimName": blueprint.scratch}}),
        );
        match spec["volumeMounts"].as_array_mut() {
            Some(mounts) => mounts.push(json!({"name": "cdi-scratch-vol", "mountPath": "/scratch"})),
            None => spec["volumeMounts"] = json!([{"name": "cdi-scratch-vol", "mountPath": "/scratch"}]),
        }
    }
    if matches!(blueprint.role, Role::Importer | Role::Cloner) {
        spec["ports"] = json!([{"name": "metrics", "containerPort": 8443, "protocol": "TCP"}]);
    }
    let mut pod = json!({
        "metadata": {
            "namespace": claim.namespace(), "name": blueprint.name,
            "labels": {
                names::APP: names::APP_VALUE, names::COMPONENT: blueprint.role.label(),
                "prometheus.cdi.kubevirt.io": "true",
            },
            "annotations": {names::CREATED_BY: "yes", "sidecar.istio.io/inject": "false"},
        },
        "spec": {
            "containers": [spec], "volumes": volumes, "restartPolicy": "OnFailure",
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "securityContext": {"fsGroup": 107, "runAsNonRoot": true, "runAsUser": 107},
        },
    });
    if blueprint.owned {
        pod["metadata"]["ownerReferences"] = json!([owned_by(&PVC, claim)]);
    }
    if !blueprint.priority.is_empty() {
        pod["spec"]["priorityClassName"] = blueprint.priority.into();
    }
    if !blueprint.node.is_empty() {
        pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] = blueprint.node.into();
    }
    pod
}

/// The claim a worker works on.
pub(crate) fn claim_of(pod: &Value) -> &str {
    let volumes = pod.list("/spec/volumes");
    let data = volumes.iter().find(|volume| volume["name"] == "cdi-data-vol");
    data.map_or("", |volume| volume.text("/persistentVolumeClaim/claimName"))
}

/// Whether a worker has scratch space.
pub(crate) fn has_scratch(pod: &Value) -> bool {
    pod.list("/spec/volumes").iter().any(|volume| volume["name"] == "cdi-scratch-vol")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_known_by_its_labels_and_claim() {
        let claim =
            json!({"metadata": {"namespace": "n", "name": "c", "uid": "u"}, "spec": {"volumeMode": "Block"}});
        let pod = build(&Blueprint {
            role: Role::Importer,
            name: "importer-c",
            claim: &claim,
            owned: true,
            scratch: "c-scratch",
            priority: "high",
            node: "",
            config: &json!({}),
        });
        assert_eq!(Role::of(&pod), Some(Role::Importer));
        assert_eq!((claim_of(&pod), has_scratch(&pod)), ("c", true));
        assert!(pod.is_controlled_by("u"));
        assert_eq!(pod["spec"]["priorityClassName"], "high");
        assert!(pod["spec"]["containers"][0]["volumeDevices"].is_array());
    }
}

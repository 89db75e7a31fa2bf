//! The pods that hold volumes on a host, for a machine that runs in another pod there.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::claim_of;
use crate::kinds::POD;
use crate::kubevirt::names::{COMPONENT_LABEL, PROVISIONING_ANNOTATION};
use crate::object::{Object as _, owned_by};

/// What such a pod says it is.
pub(super) const HOTPLUG: &str = "hotplug-disk";
/// The instance a pod holds volumes for.
pub(super) const OWNER_NAME: &str = "kubevirt.io/owner-vmi-name";
/// Its uid.
pub(super) const OWNER_UID: &str = "kubevirt.io/owner-vmi-uid";
/// A volume of every such pod: the place the others are handed over at.
const HAND_OVER: &str = "hotplug-disks";

/// Whether a pod holds volumes (and does not only bind them).
pub(super) fn is_attachment(pod: &Value) -> bool {
    pod.label(COMPONENT_LABEL) == HOTPLUG && pod.annotation(PROVISIONING_ANNOTATION) != "true"
}

/// Whether a pod only makes a volume be bound.
pub(super) fn is_trigger(pod: &Value) -> bool {
    pod.label(COMPONENT_LABEL) == HOTPLUG && pod.annotation(PROVISIONING_ANNOTATION) == "true"
}

/// The names of the volumes a pod holds.
pub(super) fn held(pod: &Value) -> BTreeSet<String> {
    let volumes =
        pod.list("/spec/volumes").iter().filter(|volume| volume["persistentVolumeClaim"].is_object());
    volumes.map(|volume| volume.text("/name").to_owned()).collect()
}

/// Whether a pod has its volumes.
pub(super) fn is_ready(pod: &Value) -> bool {
    pod.text("/status/phase") == "Running"
        && pod.list("/status/containerStatuses").iter().all(|status| status["ready"] == true)
}

/// A pod that holds these volumes (each with whether it is a block device) on the host of a launcher.
pub(super) fn attachment(vmi: &Value, launcher: &Value, volumes: &[(&Value, bool)]) -> Value {
    let (mut devices, mut mounts) = (Vec::new(), vec![json!({"name": HAND_OVER, "mountPath": "/path"})]);
    let mut sources = vec![json!({"name": HAND_OVER, "emptyDir": {}})];
    for (volume, block) in volumes {
        let name = volume.text("/name");
        if *block {
            devices.push(json!({"name": name, "devicePath": format!("/path/{name}")}));
        } else {
            mounts.push(json!({"name": name, "mountPath": format!("/{name}")}));
        }
        sources.push(json!({"name": name, "persistentVolumeClaim": {"claimName": claim_of(volume)}}));
    }
    let image = launcher.list("/spec/containers").iter().find(|container| container["name"] == "compute");
    let image = image.map_or("virt-launcher", |container| container.text("/image"));
    let mut container = json!({
        "name": HOTPLUG, "image": image,
        "command": ["/usr/bin/container-disk", "--copy-path", "/path/hp"],
        "resources": {
            "limits": {"cpu": "100m", "memory": "80M"}, "requests": {"cpu": "10m", "memory": "2M"},
        },
        "volumeMounts": mounts,
    });
    if !devices.is_empty() {
        container["volumeDevices"] = devices.into();
    }
    json!({
        "metadata": {
            "namespace": vmi.namespace(), "generateName": "hp-volume-",
            "labels": {COMPONENT_LABEL: HOTPLUG},
            "annotations": {OWNER_NAME: vmi.name(), OWNER_UID: vmi.uid()},
            "ownerReferences": [owned_by(&POD, launcher)],
        },
        "spec": {
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{
                    "key": "kubernetes.io/hostname", "operator": "In",
                    "values": [launcher.text("/spec/nodeName")],
                }]}],
            }}},
            "automountServiceAccountToken": false,
            "containers": [container],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 0,
            "tolerations": launcher.list("/spec/tolerations"),
            "volumes": sources,
        },
    })
}

/// A pod that makes one volume be bound where the machine is.
pub(super) fn trigger(vmi: &Value, launcher: &Value, volume: &Value, block: bool) -> Value {
    let mut pod = attachment(vmi, launcher, &[(volume, block)]);
    pod.set_annotation(PROVISIONING_ANNOTATION, "true");
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_holds_its_volumes_beside_the_launcher() {
        let vmi = json!({"metadata": {"namespace": "a", "name": "m", "uid": "u"}});
        let launcher = json!({"metadata": {"name": "l", "uid": "lu"}, "spec": {"nodeName": "host-1"}});
        let block = json!({"name": "b", "persistentVolumeClaim": {"claimName": "bc"}});
        let file = json!({"name": "f", "dataVolume": {"name": "fc"}});
        let pod = attachment(&vmi, &launcher, &[(&block, true), (&file, false)]);
        assert!(pod.is_controlled_by("lu") && is_attachment(&pod) && !is_trigger(&pod));
        assert_eq!(held(&pod).into_iter().collect::<Vec<_>>(), ["b", "f"]);
        assert_eq!(pod["spec"]["containers"][0]["volumeDevices"][0]["name"], "b");
        assert_eq!(pod["spec"]["volumes"][2]["persistentVolumeClaim"]["claimName"], "fc");
        assert!(is_trigger(&trigger(&vmi, &launcher, &block, true)));
    }
}

//! The pod a machine goes to.

use serde_json::{Value, json};

use super::NAME_ANNOTATION;
use crate::kubevirt::names::{CREATED_BY_LABEL, MIGRATION_LABEL, NODE_NAME_LABEL};
use crate::kubevirt::vmi::networks;
use crate::object::Object as _;

/// Annotations that were made for the source and mean nothing at the target.
const LEFT_BEHIND: &[&str] = &[
    "k8s.v1.cni.cncf.io/network-status",
    "k8s.ovn.org/pod-networks",
    "kubevirt.io/network-info",
    "descheduler.alpha.kubernetes.io/eviction-in-progress",
];

/// A pod like the source's for the target of a migration: anywhere but on the source's host.
pub(super) fn target(source: &Value, migration: &Value, vmi: &Value) -> Value {
    let mut labels = source["metadata"]["labels"].clone();
    labels.unset(&format!("/{}", crate::object::escaped(NODE_NAME_LABEL)));
    let mut annotations = source["metadata"]["annotations"].clone();
    for name in LEFT_BEHIND {
        annotations.unset(&format!("/{}", crate::object::escaped(name)));
    }
    let mut pod = json!({
        "metadata": {
            "namespace": vmi.namespace(), "generateName": format!("virt-launcher-{}-", vmi.name()),
            "labels": labels, "annotations": annotations,
            "ownerReferences": source["metadata"]["ownerReferences"],
        },
        "spec": source["spec"],
    });
    // Networks that came, went or changed since the source was made.
    if networks::differ(vmi, source) {
        match networks::annotation(vmi) {
            Some(wanted) => pod.set_annotation(networks::NETWORKS, &wanted),
            None => {
                pod.unset(&format!("/metadata/annotations/{}", crate::object::escaped(networks::NETWORKS)));
            }
        }
    }
    pod.set_label(MIGRATION_LABEL, migration.uid());
    pod.set_annotation(NAME_ANNOTATION, migration.name());
    let placement = ["tolerations", "affinity", "topologySpreadConstraints"];
    for field in ["nodeName"].iter().chain(&placement) {
        pod.unset(&format!("/spec/{field}"));
    }
    // What was added to the source on its way in is added to this one again; what the instance says now counts.
    for field in placement {
        if !vmi.at(&format!("/spec/{field}")).is_null() {
            pod["spec"][field] = vmi["spec"][field].clone();
        }
    }
    let added = migration.at("/spec/addedNodeSelector").as_object().cloned().unwrap_or_default();
    for (name, value) in added {
        pod["spec"]["nodeSelector"][name] = value;
    }
    keep_away(&mut pod, vmi);
    pod
}

/// Keeps a pod away from the pods of its instance.
fn keep_away(pod: &mut Value, vmi: &Value) {
    let term = json!({
        "labelSelector": {"matchLabels": {CREATED_BY_LABEL: vmi.uid()}},
        "topologyKey": "kubernetes.io/hostname",
    });
    let path = "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    match pod.pointer_mut(path).and_then(Value::as_array_mut) {
        Some(terms) => terms.push(term),
        None => pod.set(path, json!([term])),
    }
}

/// Whether a pod has all its containers.
pub(super) fn is_ready(pod: &Value) -> bool {
    let containers = pod.list("/status/containerStatuses");
    pod.text("/status/phase") == "Running"
        && !containers.is_empty()
        && containers.iter().all(|status| status["ready"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_like_the_source_but_elsewhere() {
        let source = json!({
            "metadata": {
                "name": "virt-launcher-m-x", "uid": "s", "labels": {"app": "a", NODE_NAME_LABEL: "host-1"},
                "annotations": {"kubevirt.io/domain": "m", "k8s.v1.cni.cncf.io/network-status": "[]"},
                "ownerReferences": [{"uid": "u", "controller": true}],
            },
            "spec": {"nodeName": "host-1", "containers": [{"name": "compute"}], "nodeSelector": {"a": "b"},
                "topologySpreadConstraints": [{"labelSelector": {"matchExpressions": [{"key": "k"}]}, "matchLabelKeys": ["k"]}],
            },
            "status": {"phase": "Running"},
        });
        let migration =
            json!({"metadata": {"name": "g", "uid": "mu"}, "spec": {"addedNodeSelector": {"zone": "z"}}});
        let vmi = json!({"metadata": {"namespace": "n", "name": "m", "uid": "u"}, "spec": {
            "topologySpreadConstraints": [{"matchLabelKeys": ["k"]}],
        }});
        let pod = target(&source, &migration, &vmi);
        assert_eq!(pod.label(MIGRATION_LABEL), "mu");
        assert_eq!(pod.annotation(NAME_ANNOTATION), "g");
        assert_eq!((pod.label("app"), pod.label(NODE_NAME_LABEL)), ("a", ""));
        assert_eq!(pod.text("/spec/nodeName"), "");
        assert_eq!(pod["spec"]["nodeSelector"], json!({"a": "b", "zone": "z"}));
        // The server has merged keys into the source's selector, and refuses to do so twice.
        assert_eq!(pod["spec"]["topologySpreadConstraints"], json!([{"matchLabelKeys": ["k"]}]));
        let away =
            &pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(away["labelSelector"]["matchLabels"][CREATED_BY_LABEL], "u");
        assert!(pod["status"].is_null() && pod.annotation("k8s.v1.cni.cncf.io/network-status").is_empty());
    }
}

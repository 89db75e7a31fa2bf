//! Who needs which volume where: the pure part of attaching.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::client::Cache;
use crate::object::{Key, Object as _};

/// The name of the attachment of a volume to a node.
pub fn attachment_name(volume: &Value, node: &str) -> String {
    let (driver, handle) = (volume.text("/spec/csi/driver"), volume.text("/spec/csi/volumeHandle"));
    let hash = Sha256::digest(format!("{handle}{driver}{node}"));
    hash.iter().fold("csi-".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

/// The attachment of a volume to a node.
pub(super) fn attachment(volume: &Value, node: &str) -> Value {
    json!({
        "metadata": {"name": attachment_name(volume, node)},
        "spec": {
            "attacher": volume["spec"]["csi"]["driver"], "nodeName": node,
            "source": {"persistentVolumeName": volume.name()},
        },
    })
}

/// Whether volumes like this one are attached at all.
pub(super) fn is_attachable(volume: &Value, drivers: &Cache) -> bool {
    let driver = volume.text("/spec/csi/driver");
    !driver.is_empty()
        && drivers.get(&Key::cluster(driver)).is_none_or(|driver| driver.at("/spec/attachRequired") != false)
}

/// Whether a volume can be on one node only.
pub(super) fn is_exclusive(volume: &Value) -> bool {
    volume.list("/spec/accessModes").iter().all(|mode| mode == "ReadWriteOnce" || mode == "ReadWriteOncePod")
}

/// Whether a pod needs its volumes on its node.
pub(super) fn needs_volumes(pod: &Value) -> bool {
    !pod.text("/spec/nodeName").is_empty() && !pod.is_over()
}

/// The claims of a pod.
pub(super) fn claims_of(pod: &Value) -> Vec<Key> {
    let names =
        pod.list("/spec/volumes").iter().map(|volume| volume.text("/persistentVolumeClaim/claimName"));
    names.filter(|name| !name.is_empty()).map(|name| Key::new(pod.namespace(), name)).collect()
}

/// Whether a volume may be taken from a node that no pod needs it on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Detach {
    /// At once.
    Now,
    /// The node has not let go of it: only after a long wait, because nobody knows what it still writes.
    ByForce,
}

/// Whether a volume may be taken from a node.
pub(super) fn detach(volume: &Value, node: Option<&Value>) -> Detach {
    let Some(node) = node else { return Detach::Now };
    let taints = node.list("/spec/taints");
    if taints.iter().any(|taint| taint.text("/key") == "node.kubernetes.io/out-of-service") {
        return Detach::Now;
    }
    let name = format!(
        "kubernetes.io/csi/{}^{}",
        volume.text("/spec/csi/driver"),
        volume.text("/spec/csi/volumeHandle")
    );
    let used = node.list("/status/volumesInUse").iter().any(|used| *used == name);
    if used || !node.condition_holds("Ready") { Detach::ByForce } else { Detach::Now }
}

/// What a pod is told whose volume is elsewhere.
pub(super) fn multi_attach(volume: &Value, others: &[&str]) -> String {
    let why = if others.is_empty() {
        "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another \
         node"
            .to_owned()
    } else {
        format!("Volume is already used by pod(s) {}", others.join(", "))
    };
    format!("Waiting for detach for volume \"{}\" {why}", volume.name())
}

/// Whether a change of a node may change what can be taken from it.
pub(super) fn is_news(before: &Value, after: &Value) -> bool {
    before.at("/spec/taints") != after.at("/spec/taints")
        || before.at("/status/volumesInUse") != after.at("/status/volumesInUse")
        || before.condition_holds("Ready") != after.condition_holds("Ready")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_node_keeps_its_volumes_for_a_while() {
        let volume = json!({"spec": {"csi": {"driver": "d", "volumeHandle": "h"}}});
        let mut node = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(detach(&volume, Some(&node)), Detach::Now);
        node.set("/status/volumesInUse", json!(["kubernetes.io/csi/d^h"]));
        assert_eq!(detach(&volume, Some(&node)), Detach::ByForce);
        node.set(
            "/spec/taints",
            json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]),
        );
        assert_eq!(detach(&volume, Some(&node)), Detach::Now);
        node = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        assert_eq!(detach(&volume, Some(&node)), Detach::ByForce);
        assert_eq!(detach(&volume, None), Detach::Now);
    }

    #[test]
    fn an_attachment_has_one_name() {
        let volume = json!({"spec": {"csi": {"driver": "d", "volumeHandle": "h"}}});
        let name = attachment_name(&volume, "n");
        assert_eq!(name.len(), 68);
        assert_ne!(name, attachment_name(&volume, "m"));
    }
}

//! What snapshots and contents are like: the pure part.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::classes::volume_mode;
use crate::clock;
use crate::kinds::VOLUME_SNAPSHOT;
use crate::object::Object as _;
use crate::quantity;

/// The class a snapshot without one gets: the default of the volume's driver.
pub(super) fn default_class<'a>(classes: &'a [Arc<Value>], driver: &str) -> Result<&'a Arc<Value>, String> {
    let defaults: Vec<_> = classes
        .iter()
        .filter(|class| {
            class.annotation("snapshot.storage.kubernetes.io/is-default-class") == "true"
                && class.text("/driver") == driver
        })
        .collect();
    match defaults.as_slice() {
        [] => Err("cannot find default snapshot class".to_owned()),
        [class] => Ok(class),
        many => Err(format!("{} default snapshot classes were found", many.len())),
    }
}

/// What stands against taking a snapshot of a claim, with its volume where it has one.
pub(super) fn source_problem(claim: Option<&Value>, volume: Option<&Value>) -> Option<String> {
    let Some(claim) = claim else {
        return Some("snapshot controller failed to update: cannot get claim from snapshot".to_owned());
    };
    if claim.text("/status/phase") != "Bound" {
        return Some(format!(
            "the PVC {} is not yet bound to a PV, will not attempt to take a snapshot",
            claim.name()
        ));
    }
    match volume {
        None => Some(format!(
            "failed to retrieve PV {} from the API server: not found",
            claim.text("/spec/volumeName")
        )),
        Some(volume) if volume.at("/spec/csi").is_null() => {
            Some(format!("cannot find CSI PersistentVolumeSource for volume {}", volume.name()))
        }
        Some(_) => None,
    }
}

/// The name of the content of a snapshot that is taken.
pub(super) fn content_name(snapshot: &Value) -> String {
    match snapshot.text("/spec/source/volumeSnapshotContentName") {
        "" => format!("snapcontent-{}", snapshot.uid()),
        name => name.to_owned(),
    }
}

/// The content for a snapshot that is to be taken of a volume.
pub(super) fn content(snapshot: &Value, class: &Value, volume: &Value) -> Value {
    json!({
        "metadata": {"name": content_name(snapshot)},
        "spec": {
            "deletionPolicy": class["deletionPolicy"],
            "driver": class["driver"],
            "source": {"volumeHandle": volume["spec"]["csi"]["volumeHandle"]},
            "sourceVolumeMode": volume_mode(volume),
            "volumeSnapshotClassName": class.name(),
            "volumeSnapshotRef": {
                "apiVersion": VOLUME_SNAPSHOT.api_version(), "kind": VOLUME_SNAPSHOT.kind,
                "namespace": snapshot.namespace(), "name": snapshot.name(), "uid": snapshot.uid(),
                "resourceVersion": snapshot["metadata"]["resourceVersion"],
            },
        },
    })
}

/// Whether a content is meant for a snapshot: it names it, and the uid too unless it leaves that open.
pub(super) fn is_for(content: &Value, snapshot: &Value) -> bool {
    let meant = content.at("/spec/volumeSnapshotRef");
    meant.text("/namespace") == snapshot.namespace()
        && meant.text("/name") == snapshot.name()
        && (meant.text("/uid").is_empty() || meant.text("/uid") == snapshot.uid())
}

/// The status of a snapshot, from that of its content.
pub(super) fn status(content: &Value) -> Value {
    let mut status = json!({
        "boundVolumeSnapshotContentName": content.name(),
        "readyToUse": content.flag("/status/readyToUse"),
    });
    if let Some(at) = content.number("/status/creationTime")
        && let Ok(at) = Timestamp::from_nanosecond(at.into())
    {
        status["creationTime"] = clock::seconds(at).into();
    }
    if let Some(size) = content.number("/status/restoreSize") {
        status["restoreSize"] = quantity::bytes(size.into()).into();
    }
    if !content.at("/status/error").is_null() {
        status["error"] = content.at("/status/error").clone();
    }
    status
}

/// Whether a snapshot still needs its claim.
pub(super) fn needs_claim(snapshot: &Value, claim: &str) -> bool {
    !snapshot.is_deleting()
        && snapshot.text("/spec/source/persistentVolumeClaimName") == claim
        && !snapshot.flag("/status/readyToUse")
        && snapshot.at("/status/error").is_null()
}

/// Whether a claim is being made from a snapshot.
pub(super) fn is_restoring(claim: &Value, snapshot: &str) -> bool {
    let source = claim.at("/spec/dataSource");
    claim.text("/status/phase") == "Pending"
        && source.text("/kind") == "VolumeSnapshot"
        && source.text("/name") == snapshot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_follows_the_content() {
        let mut content = json!({"metadata": {"name": "c"}});
        assert_eq!(status(&content), json!({"boundVolumeSnapshotContentName": "c", "readyToUse": false}));
        content["status"] = json!({
            "creationTime": 1_767_225_600_000_000_000_i64, "restoreSize": 1_073_741_824, "readyToUse": true,
        });
        assert_eq!(
            status(&content),
            json!({
                "boundVolumeSnapshotContentName": "c", "readyToUse": true, "creationTime": "2026-01-01T00:00:00Z",
                "restoreSize": "1Gi",
            })
        );
    }

    #[test]
    fn there_has_to_be_one_default_per_driver() {
        let class = |name: &str, driver: &str| {
            let mut class = json!({"metadata": {"name": name}, "driver": driver});
            class.set_annotation("snapshot.storage.kubernetes.io/is-default-class", "true");
            Arc::new(class)
        };
        let classes = [class("a", "x"), class("b", "y"), class("c", "y")];
        assert_eq!(default_class(&classes, "x").map(|class| class.name()), Ok("a"));
        assert!(default_class(&classes, "y").is_err());
        assert!(default_class(&classes, "z").is_err());
    }
}

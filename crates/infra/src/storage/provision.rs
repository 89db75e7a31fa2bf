//! What a new volume is like: the pure part of the provisioner.

use serde_json::{Value, json};

use super::classes::{Driver, class_of, volume_mode};
use crate::object::Object as _;
use crate::quantity;

/// Keeps a volume until its driver has deleted what is behind it.
pub(super) const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// Says which driver made a volume.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Says which node a volume is for.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Sizes are multiples of this many bytes.
const GRAIN: i128 = 1 << 20;

/// What a claim wants to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish<'a> {
    /// Nothing: an empty volume.
    Empty,
    /// A copy of the claim of this name.
    Claim(&'a str),
    /// What the snapshot of this name holds.
    Snapshot(&'a str),
    /// Something that another program brings.
    Populator,
}

/// What a claim wants to begin with.
pub(super) fn wish(claim: &Value) -> Wish<'_> {
    let source = match claim.at("/spec/dataSourceRef") {
        Value::Null => claim.at("/spec/dataSource"),
        source => source,
    };
    if source.is_null() {
        return Wish::Empty;
    }
    match (source.text("/apiGroup"), source.text("/kind")) {
        ("", "PersistentVolumeClaim") => Wish::Claim(source.text("/name")),
        ("snapshot.storage.k8s.io", "VolumeSnapshot") => Wish::Snapshot(source.text("/name")),
        _ => Wish::Populator,
    }
}

/// Where a claim's provisioner is written, or nothing if nobody has been asked yet.
pub(super) fn provisioner_of(claim: &Value) -> &str {
    match claim.annotation("volume.kubernetes.io/storage-provisioner") {
        "" => claim.annotation("volume.beta.kubernetes.io/storage-provisioner"),
        provisioner => provisioner,
    }
}

/// The name of the volume of a claim.
pub(super) fn volume_name(claim: &Value) -> String {
    format!("pvc-{}", claim.uid())
}

/// How many bytes a claim gets.
pub(super) fn size(claim: &Value) -> u64 {
    let wanted = quantity::whole(claim.at("/spec/resources/requests/storage")).max(1);
    let grains = wanted / GRAIN + i128::from(wanted % GRAIN != 0);
    u64::try_from(grains * GRAIN).unwrap_or(u64::MAX)
}

/// What stands against cloning a claim's volume (with the volume, where it has one) into another.
pub(super) fn clone_problem(
    claim: &Value,
    source: Option<&Value>,
    volume: Option<&Value>,
    driver: &Driver,
) -> Option<String> {
    let Wish::Claim(name) = wish(claim) else { return None };
    let Some(source) = source else {
        return Some(format!(
            "error getting handle for DataSource Type PersistentVolumeClaim by Name {name}: error getting PVC {name} \
             (namespace \"{}\") from api server: persistentvolumeclaims \"{name}\" not found",
            claim.namespace()
        ));
    };
    let problem = if source.is_deleting() {
        format!("the PVC DataSource {name} is currently being deleted")
    } else if volume_mode(source) != volume_mode(claim) {
        format!(
            "the source PVC and destination PVCs must have the same volume mode for cloning. Source is {}, but new PVC \
             requested {}",
            volume_mode(source),
            volume_mode(claim)
        )
    } else if source.text("/status/phase") != "Bound" {
        format!("the PVC DataSource {name} must be in Bound phase, it is {}", source.text("/status/phase"))
    } else if quantity::of(claim.at("/spec/resources/requests/storage"))
        < quantity::of(source.at("/status/capacity/storage"))
    {
        format!(
            "error, new PVC request must be greater than or equal in size to the specified PVC data source, requested \
             {} but source is {}",
            quantity::whole(claim.at("/spec/resources/requests/storage")),
            quantity::whole(source.at("/status/capacity/storage"))
        )
    } else {
        match volume {
            None => {
                format!("error getting PV {} from api server: not found", source.text("/spec/volumeName"))
            }
            Some(volume) if volume.text("/spec/csi/driver") != driver.name => format!(
                "the source volume {} for cloning is not of the driver {}",
                volume.name(),
                driver.name
            ),
            Some(_) if !driver.clones => {
                return Some(
                    "CSI driver does not support clone operations: plugin must support clone operations"
                        .to_owned(),
                );
            }
            Some(_) => return None,
        }
    };
    Some(format!("error getting handle for DataSource Type PersistentVolumeClaim by Name {name}: {problem}"))
}

/// What stands against filling a claim from a snapshot (with its content, where it has one).
pub(super) fn restore_problem(
    claim: &Value,
    snapshot: Option<&Value>,
    content: Option<&Value>,
    driver: &Driver,
) -> Option<String> {
    let Wish::Snapshot(name) = wish(claim) else { return None };
    let key = format!("{}/{name}", claim.namespace());
    let problem = match (snapshot, content) {
        (None, _) => format!(
            "error getting snapshot {name} from api server: volumesnapshots.snapshot.storage.k8s.io \"{name}\" not found"
        ),
        (Some(snapshot), _) if snapshot.is_deleting() => {
            format!("snapshot {name} is currently being deleted")
        }
        (Some(snapshot), _) if !snapshot.flag("/status/readyToUse") => {
            format!("snapshot {name} is not Ready")
        }
        (Some(_), None) => format!("snapshot {key} not bound"),
        (Some(_), Some(content)) if content.text("/spec/driver") != driver.name => format!(
            "the VolumeSnapshotContent {} of snapshot {name} is of the driver {}, not {}",
            content.name(),
            content.text("/spec/driver"),
            driver.name
        ),
        (Some(snapshot), Some(content)) => {
            let mode = content.text("/spec/sourceVolumeMode");
            let size = quantity::whole(snapshot.at("/status/restoreSize"));
            let wanted = quantity::whole(claim.at("/spec/resources/requests/storage"));
            if wanted < size {
                format!(
                    "requested volume size {wanted} is less than the size {size} for the source snapshot {name}"
                )
            } else if !mode.is_empty() && mode != volume_mode(claim) && !may_change_mode(content) {
                format!(
                    "requested volume {key} modifies the mode of the source volume but does not have permission to do so"
                )
            } else {
                return None;
            }
        }
    };
    Some(format!("error getting handle for DataSource Type VolumeSnapshot by Name {name}: {problem}"))
}

/// Whether a snapshot may become a volume of another mode.
fn may_change_mode(content: &Value) -> bool {
    content.annotation("snapshot.storage.kubernetes.io/allow-volume-mode-change") == "true"
}

/// The values of a driver's topology key a class allows; nothing where it allows all.
pub(super) fn allowed<'a>(class: &'a Value, key: &str) -> Option<Vec<&'a str>> {
    let terms = class.list("/allowedTopologies");
    if terms.is_empty() {
        return None;
    }
    let expressions = terms.iter().flat_map(|term| term.list("/matchLabelExpressions"));
    let values = expressions.filter(|one| one.text("/key") == key).flat_map(|one| one.list("/values"));
    Some(values.filter_map(Value::as_str).collect())
}

/// The volume for a claim: `place` is the value of the driver's topology key, if it has one.
pub(super) fn volume(
    claim: &Value,
    class: &Value,
    driver: &Driver,
    handle: &str,
    place: Option<&str>,
) -> Value {
    let policy = match class.text("/reclaimPolicy") {
        "" => "Delete",
        policy => policy,
    };
    let mut attributes = class.at("/parameters").clone();
    if !attributes.is_object() {
        attributes = json!({});
    }
    attributes["storage.kubernetes.io/csiProvisionerIdentity"] = format!("1-8081-{}", driver.name).into();
    let mut csi = json!({"driver": driver.name, "volumeHandle": handle, "volumeAttributes": attributes});
    if volume_mode(claim) == "Filesystem" {
        csi["fsType"] = "ext4".into();
    }
    let mut object = json!({
        "metadata": {
            "name": volume_name(claim),
            "annotations": {
                PROVISIONED_BY: driver.name,
                "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
            },
        },
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": {"storage": quantity::bytes(size(claim).into())},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(),
                "name": claim.name(), "uid": claim.uid(),
                "resourceVersion": claim["metadata"]["resourceVersion"],
            },
            "csi": csi,
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": class_of(claim),
            "volumeMode": volume_mode(claim),
        },
    });
    if policy == "Delete" {
        object.add_finalizer(FINALIZER);
    }
    if let Some(place) = place {
        let term =
            json!({"matchExpressions": [{"key": driver.topology, "operator": "In", "values": [place]}]});
        object.set("/spec/nodeAffinity", json!({"required": {"nodeSelectorTerms": [term]}}));
    }
    let attributes = claim.at("/spec/volumeAttributesClassName");
    if !attributes.is_null() {
        object.set("/spec/volumeAttributesClassName", attributes.clone());
    }
    if !class.list("/mountOptions").is_empty() {
        object.set("/spec/mountOptions", class.at("/mountOptions").clone());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::super::classes::driver;
    use super::*;

    fn claim(source: &Value) -> Value {
        json!({
            "metadata": {"namespace": "n", "name": "c", "uid": "u"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "s", "dataSource": source,
                "resources": {"requests": {"storage": "1500000"}},
            },
        })
    }

    #[test]
    fn a_wish_is_read_from_the_newer_field_first() {
        assert_eq!(wish(&claim(&Value::Null)), Wish::Empty);
        let mut both = claim(&json!({"kind": "PersistentVolumeClaim", "name": "a"}));
        assert_eq!(wish(&both), Wish::Claim("a"));
        both.set(
            "/spec/dataSourceRef",
            json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}),
        );
        assert_eq!(wish(&both), Wish::Snapshot("s"));
        both.set(
            "/spec/dataSourceRef",
            json!({"apiGroup": "cdi.kubevirt.io", "kind": "VolumeImportSource", "name": "i"}),
        );
        assert_eq!(wish(&both), Wish::Populator);
    }

    #[test]
    fn a_volume_has_whole_grains_and_a_place() {
        let (class, zonal) = (json!({"reclaimPolicy": "Delete"}), driver("ebs.csi.aws.com").unwrap());
        let made = volume(&claim(&Value::Null), &class, zonal, "h", Some("z"));
        assert_eq!(made.text("/spec/capacity/storage"), "2Mi");
        assert_eq!(made.name(), "pvc-u");
        assert!(made.has_finalizer(FINALIZER));
        assert_eq!(
            made.at("/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values"),
            &json!(["z"])
        );
        let kept = volume(&claim(&Value::Null), &json!({"reclaimPolicy": "Retain"}), zonal, "h", None);
        assert!(!kept.has_finalizer(FINALIZER) && kept.at("/spec/nodeAffinity").is_null());
    }

    #[test]
    fn a_clone_needs_a_source_that_fits() {
        let (rbd, zonal) = (driver("rbd.csi.ceph.com").unwrap(), driver("ebs.csi.aws.com").unwrap());
        let copy = claim(&json!({"kind": "PersistentVolumeClaim", "name": "a"}));
        let mut source = json!({
            "metadata": {"name": "a"}, "spec": {"volumeName": "v"},
            "status": {"phase": "Bound", "capacity": {"storage": "1Mi"}},
        });
        let volume = |driver: &str| json!({"metadata": {"name": "v"}, "spec": {"csi": {"driver": driver}}});
        let (ceph, ebs) = (volume("rbd.csi.ceph.com"), volume("ebs.csi.aws.com"));
        assert_eq!(clone_problem(&copy, Some(&source), Some(&ceph), rbd), None);
        let problem = |source: Option<&Value>, volume, driver| {
            clone_problem(&copy, source, volume, driver).unwrap_or_default()
        };
        assert!(problem(None, None, rbd).contains("not found"));
        assert!(problem(Some(&source), None, rbd).contains("error getting PV v"));
        assert!(problem(Some(&source), Some(&ebs), rbd).contains("not of the driver"));
        assert!(problem(Some(&source), Some(&ebs), zonal).contains("does not support clone"));
        source.set("/status/capacity/storage", "2Mi".into());
        assert!(problem(Some(&source), Some(&ceph), rbd).contains("greater than or equal"));
        source.set("/status/phase", "Pending".into());
        assert!(problem(Some(&source), Some(&ceph), rbd).contains("must be in Bound phase"));
    }

    #[test]
    fn a_class_allows_some_places() {
        let class =
            json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "k", "values": ["a", "b"]}]}]});
        assert_eq!(allowed(&class, "k"), Some(vec!["a", "b"]));
        assert_eq!(allowed(&class, "other"), Some(Vec::new()));
        assert_eq!(allowed(&json!({}), "k"), None);
    }
}

//! Volumes, their classes and drivers, and devices.

use serde_json::Value;

use super::Object;
use super::text::{joined, quantity, strings};

/// The cells of a kind, if it is one of these.
pub(super) fn cells(kind: &str, of: Object<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "PersistentVolume" => volume(of),
        "PersistentVolumeClaim" => claim(of),
        "StorageClass" => vec![
            of.name(),
            of.text("/provisioner").into(),
            of.text_or("/reclaimPolicy", "Delete").into(),
            of.text_or("/volumeBindingMode", "Immediate").into(),
            of.flag("/allowVolumeExpansion").into(),
            of.age(),
        ],
        "VolumeAttributesClass" => vec![of.name(), of.text("/driverName").into(), of.age()],
        "VolumeAttachment" => vec![
            of.name(),
            of.text("/spec/attacher").into(),
            of.text("/spec/source/persistentVolumeName").into(),
            of.text("/spec/nodeName").into(),
            of.flag("/status/attached").into(),
            of.age(),
        ],
        "CSINode" => vec![of.name(), of.count("/spec/drivers").into(), of.age()],
        "CSIDriver" => driver(of),
        "DeviceClass" | "ResourceClaimTemplate" => vec![of.name(), of.age()],
        "ResourceClaim" => vec![of.name(), claim_state(of).into(), of.age()],
        "ResourceSlice" => vec![
            of.name(),
            of.text("/spec/nodeName").into(),
            of.text("/spec/driver").into(),
            of.text("/spec/pool/name").into(),
            of.age(),
        ],
        "DeviceTaintRule" => {
            let added = match of.text("/spec/taint/timeAdded") {
                "" => String::new(),
                _ => of.since("/spec/taint/timeAdded"),
            };
            vec![
                of.name(),
                of.text("/spec/taint/key").into(),
                of.text("/spec/taint/value").into(),
                of.text("/spec/taint/effect").into(),
                added.into(),
                of.age(),
            ]
        }
        _ => return None,
    })
}

/// The place of the class that is used where none is named: among those marked so the youngest, then the first
/// by name.
pub(super) fn default_class(objects: &[&Value]) -> Option<usize> {
    let marked = |object: &Value| {
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
            .iter()
            .any(|key| object["metadata"]["annotations"][*key] == "true")
    };
    let created = |object: &Value| object["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
    let name = |object: &Value| object["metadata"]["name"].as_str().map(str::to_owned);
    (0..objects.len()).filter(|&place| marked(objects[place])).max_by(|&left, &right| {
        let (left, right) = (objects[left], objects[right]);
        created(left).cmp(&created(right)).then_with(|| name(right).cmp(&name(left)))
    })
}

/// `RWO,ROX` and so on, in a fixed order.
fn access_modes(modes: &Value) -> String {
    let given = strings(modes);
    [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .iter()
    .filter(|(long, _)| given.contains(long))
    .map(|(_, short)| *short)
    .collect::<Vec<_>>()
    .join(",")
}

/// The class, which an annotation of old says too.
fn class(of: Object<'_>) -> &str {
    let annotated = of.at("/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
    annotated.as_str().unwrap_or_else(|| of.text("/spec/storageClassName"))
}

fn phase(of: Object<'_>) -> Value {
    if of.is_going() { "Terminating".into() } else { of.text("/status/phase").into() }
}

fn volume(of: Object<'_>) -> Vec<Value> {
    let claim = match of.at("/spec/claimRef") {
        Value::Null => String::new(),
        _ => format!("{}/{}", of.text("/spec/claimRef/namespace"), of.text("/spec/claimRef/name")),
    };
    vec![
        of.name(),
        quantity(of.at("/spec/capacity/storage")).into(),
        access_modes(of.at("/spec/accessModes")).into(),
        of.text("/spec/persistentVolumeReclaimPolicy").into(),
        phase(of),
        claim.into(),
        class(of).into(),
        of.at("/spec/volumeAttributesClassName").as_str().unwrap_or("<unset>").into(),
        of.text("/status/reason").into(),
        of.age(),
        of.at("/spec/volumeMode").as_str().unwrap_or("<unset>").into(),
    ]
}

fn claim(of: Object<'_>) -> Vec<Value> {
    let (mut capacity, mut modes) = (String::new(), String::new());
    if !of.text("/spec/volumeName").is_empty() {
        capacity = quantity(of.at("/status/capacity/storage"));
        modes = access_modes(of.at("/status/accessModes"));
    }
    vec![
        of.name(),
        phase(of),
        of.text("/spec/volumeName").into(),
        capacity.into(),
        modes.into(),
        class(of).into(),
        of.at("/spec/volumeAttributesClassName").as_str().unwrap_or("<unset>").into(),
        of.age(),
        of.at("/spec/volumeMode").as_str().unwrap_or("<unset>").into(),
    ]
}

fn driver(of: Object<'_>) -> Vec<Value> {
    let modes = strings(of.at("/spec/volumeLifecycleModes")).join(",");
    let requests = match of.at("/spec/tokenRequests") {
        Value::Null => "<unset>".to_owned(),
        _ => joined(of.list("/spec/tokenRequests"), "audience"),
    };
    vec![
        of.name(),
        of.at("/spec/attachRequired").as_bool().unwrap_or(true).into(),
        of.flag("/spec/podInfoOnMount").into(),
        of.flag("/spec/storageCapacity").into(),
        requests.into(),
        of.flag("/spec/requiresRepublish").into(),
        if modes.is_empty() { "<none>".into() } else { modes.into() },
        of.age(),
    ]
}

fn claim_state(of: Object<'_>) -> String {
    let mut states = Vec::new();
    if of.is_going() {
        states.push("deleted");
    }
    if of.at("/status/allocation").is_null() {
        if !of.is_going() {
            states.push("pending");
        }
    } else {
        states.push("allocated");
        if of.count("/status/reservedFor") > 0 {
            states.push("reserved");
        }
    }
    states.join(",")
}

//! Which volume a claim gets.

use std::sync::Arc;

use serde_json::Value;

use super::classes::{class_of, volume_mode};
use crate::object::Object as _;
use crate::quantity;

/// Whether a volume is meant for a claim: it names it, and the uid too unless it leaves that open.
pub(super) fn is_for(volume: &Value, claim: &Value) -> bool {
    let meant = volume.at("/spec/claimRef");
    meant.text("/namespace") == claim.namespace()
        && meant.text("/name") == claim.name()
        && (meant.text("/uid").is_empty() || meant.text("/uid") == claim.uid())
}

/// What is wrong with a volume for a claim that names it, or is named by it; nothing if it will do.
pub(super) fn mismatch(volume: &Value, claim: &Value) -> Option<&'static str> {
    let size = |value: &Value| quantity::of(value);
    if size(volume.at("/spec/capacity/storage")) < size(claim.at("/spec/resources/requests/storage")) {
        return Some("requested PV is too small");
    }
    if volume.text("/spec/storageClassName") != class_of(claim) {
        return Some("storageClassName does not match");
    }
    let attributes = "/spec/volumeAttributesClassName";
    if volume.text(attributes) != claim.text(attributes) {
        return Some("volumeAttributesClassName does not match");
    }
    if volume_mode(volume) != volume_mode(claim) {
        return Some("incompatible volumeMode");
    }
    let offered = volume.list("/spec/accessModes");
    if !claim.list("/spec/accessModes").iter().all(|mode| offered.contains(mode)) {
        return Some("incompatible accessMode");
    }
    None
}

/// The volume a claim gets: one that is meant for it, else the smallest free one that will do. A claim that waits for
/// a pod gets no free one: which fits depends on the node.
pub(super) fn best<'a>(volumes: &'a [Arc<Value>], claim: &Value, waits: bool) -> Option<&'a Arc<Value>> {
    let usable = |volume: &&Arc<Value>| !volume.is_deleting() && mismatch(volume, claim).is_none();
    if let Some(meant) = volumes
        .iter()
        .filter(usable)
        .find(|volume| !volume.at("/spec/claimRef").is_null() && is_for(volume, claim))
    {
        return Some(meant);
    }
    if waits {
        return None;
    }
    volumes
        .iter()
        .filter(usable)
        .filter(|volume| {
            volume.at("/spec/claimRef").is_null()
                && volume.text("/status/phase") == "Available"
                && selects(claim.at("/spec/selector"), volume)
        })
        .min_by_key(|volume| (quantity::of(volume.at("/spec/capacity/storage")), volume.name().to_owned()))
}

/// Whether a label selector selects an object; one that is not there selects everything.
pub(super) fn selects(selector: &Value, object: &Value) -> bool {
    let labels = object.at("/metadata/labels");
    let equal = selector["matchLabels"]
        .as_object()
        .is_none_or(|wanted| wanted.iter().all(|(name, value)| labels.get(name) == Some(value)));
    equal
        && selector.list("/matchExpressions").iter().all(|expression| {
            let label = labels.get(expression.text("/key"));
            let among = label.is_some_and(|label| expression.list("/values").contains(label));
            match expression.text("/operator") {
                "In" => among,
                "NotIn" => !among,
                "Exists" => label.is_some(),
                "DoesNotExist" => label.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(name: &str, size: &str) -> Value {
        json!({
            "metadata": {"name": name, "labels": {"tier": name}},
            "spec": {
                "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                "storageClassName": "c", "volumeMode": "Filesystem",
            },
            "status": {"phase": "Available"},
        })
    }

    fn claim() -> Value {
        json!({
            "metadata": {"namespace": "n", "name": "a", "uid": "u"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "c",
                "resources": {"requests": {"storage": "2Gi"}},
            },
        })
    }

    fn chosen(volumes: Vec<Value>, claim: &Value, waits: bool) -> Option<String> {
        let volumes: Vec<_> = volumes.into_iter().map(Arc::new).collect();
        best(&volumes, claim, waits).map(|volume| volume.name().to_owned())
    }

    #[test]
    fn the_smallest_that_fits_is_taken() {
        let volumes = vec![volume("large", "9Gi"), volume("small", "1Gi"), volume("right", "3Gi")];
        assert_eq!(chosen(volumes.clone(), &claim(), false).as_deref(), Some("right"));
        assert_eq!(chosen(volumes.clone(), &claim(), true), None, "a pod has to come first");
        let mut picky = claim();
        picky.set(
            "/spec/selector",
            json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["right"]}]}),
        );
        assert_eq!(chosen(volumes, &picky, false).as_deref(), Some("large"));
    }

    #[test]
    fn what_differs_does_not_fit() {
        for (pointer, value) in [
            ("/spec/storageClassName", json!("other")),
            ("/spec/volumeAttributesClassName", json!("gold")),
            ("/spec/volumeMode", json!("Block")),
            ("/spec/accessModes", json!(["ReadOnlyMany"])),
            ("/status/phase", json!("Released")),
            ("/spec/claimRef", json!({"namespace": "n", "name": "b"})),
            ("/spec/claimRef", json!({"namespace": "n", "name": "a", "uid": "earlier"})),
        ] {
            let mut other = volume("v", "2Gi");
            other.set(pointer, value);
            assert_eq!(chosen(vec![other], &claim(), false), None, "{pointer}");
        }
    }

    #[test]
    fn a_volume_that_names_the_claim_goes_first_even_before_a_pod() {
        let mut meant = volume("meant", "9Gi");
        meant.set("/spec/claimRef", json!({"namespace": "n", "name": "a"}));
        assert_eq!(chosen(vec![volume("v", "2Gi"), meant.clone()], &claim(), true).as_deref(), Some("meant"));
        meant.set("/spec/capacity/storage", json!("1Gi"));
        assert_eq!(chosen(vec![meant], &claim(), false), None);
    }
}

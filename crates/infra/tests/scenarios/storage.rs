//! Storage: claims, volumes, growth, snapshots, attachments.

use serde_json::{Value, json};
use trellis_infra::kinds::{PV, PVC};
use trellis_infra::object::{Key, Object as _};

use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![scenario!(a_claim_is_bound_and_its_volume_deleted)]
}

/// A claim of a class.
fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": size}},
        },
    })
}

async fn a_claim_is_bound_and_its_volume_deleted(cx: Cx) -> Result {
    let key = cx.key("a");
    let mut history = cx.follow(&PVC, &key).await;
    let made = cx.create(&PVC, claim("a", "replicated", "1Gi")).await?;
    let bound = cx.until(&PVC, &key, |claim| claim.text("/status/phase") == "Bound").await?;
    assert_eq!(history.texts("/status/phase"), ["Pending", "Bound"]);
    let volume = Key::cluster(&format!("pvc-{}", made.uid()));
    assert_eq!(bound.text("/spec/volumeName"), volume.name);
    assert_eq!(bound.annotation("pv.kubernetes.io/bind-completed"), "yes");
    assert_eq!(bound.annotation("pv.kubernetes.io/bound-by-controller"), "yes");
    for name in ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"]
    {
        assert_eq!(bound.annotation(name), "rbd.csi.ceph.com");
    }
    assert_eq!(bound.text("/status/capacity/storage"), "1Gi");
    for reason in ["ExternalProvisioning", "Provisioning", "ProvisioningSucceeded"] {
        cx.until_event("a", reason).await?;
    }
    let made = cx.until(&PV, &volume, |volume| volume.text("/status/phase") == "Bound").await?;
    assert_eq!(made.text("/spec/csi/driver"), "rbd.csi.ceph.com");
    assert!(made.has_finalizer("external-provisioner.volume.kubernetes.io/finalizer"));
    assert!(made.has_finalizer("kubernetes.io/pv-protection"));
    let handle = made.text("/spec/csi/volumeHandle");
    let world = &cx.infra.context().world.volumes;
    assert_eq!(world.get(handle).map(|volume| volume.capacity), Some(1 << 30));

    let mut phases = cx.follow(&PV, &volume).await;
    cx.client.delete(&PVC, &key, "").await?;
    cx.until_gone(&PV, &volume).await?;
    assert_eq!(phases.texts("/status/phase"), ["Bound", "Released"]);
    assert_eq!(world.get(handle), None);
    Ok(())
}

//! Snapshots of volumes, and volumes from snapshots.

use serde_json::{Value, json};
use trellis_infra::kinds::{
    EVENT, POD, PVC, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CLASS, VOLUME_SNAPSHOT_CONTENT,
};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::world::volumes::Content;

use super::{bound, claim, class, drop_class, is_pending, outside, pod, settle, volume};
use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

const AS_SOURCE: &str = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
const BOUND: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
const CONTENT: &str = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
const CLAIM: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(a_snapshot_is_taken_restored_and_deleted),
        scenario!(a_claim_stays_until_its_snapshot_is_taken),
        scenario!(no_claim),
        scenario!(no_snapshot_class),
        scenario!(a_driver_fails),
        scenario!(a_snapshot_of_somebody_else),
        scenario!(a_restore_waits_for_its_snapshot),
        // Only where time passes is a snapshot taken before it can be used.
        scenario!(a_snapshot_that_is_uploaded).with(|_| {}),
    ]
}

/// A snapshot of a claim.
fn snapshot(name: &str, of: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"source": {"persistentVolumeClaimName": of}}})
}

/// A claim that begins with what a snapshot holds.
fn restored(name: &str, from: &str, class: &str, size: &str) -> Value {
    let mut restored = claim(name, class, size);
    let source = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": from});
    restored.set("/spec/dataSource", source);
    restored
}

async fn a_snapshot_is_taken_restored_and_deleted(cx: Cx) -> Result {
    let (source, made) = volume(&cx, claim("a", "replicated", "1Gi")).await?;
    let world = &cx.infra.context().world.volumes;
    let old = Content { virtual_size: 1 << 30, digest: "sha256:old".to_owned(), bootable: true };
    world.write(made.text("/spec/csi/volumeHandle"), old.clone());
    let key = cx.key("s");
    let mut history = cx.follow(&VOLUME_SNAPSHOT, &key).await;
    let mut claims = cx.follow(&PVC, &Key::of(&source)).await;
    let made_snapshot = cx.create(&VOLUME_SNAPSHOT, snapshot("s", "a")).await?;
    let ready = cx.until(&VOLUME_SNAPSHOT, &key, |one| one.flag("/status/readyToUse")).await?;
    assert_eq!(ready.text("/spec/volumeSnapshotClassName"), "replicated-snapshots");
    let name = format!("snapcontent-{}", made_snapshot.uid());
    assert_eq!(ready.text("/status/boundVolumeSnapshotContentName"), name);
    assert_eq!(ready.text("/status/restoreSize"), "1Gi");
    assert_ne!(ready.text("/status/creationTime"), "");
    for reason in ["CreatingSnapshot", "SnapshotCreated", "SnapshotReady"] {
        cx.until_event("s", reason).await?;
    }
    cx.until(&VOLUME_SNAPSHOT, &key, |one| one.has_finalizer(AS_SOURCE) && one.has_finalizer(BOUND)).await?;
    assert!(history.states().iter().any(|one| {
        one.text("/status/boundVolumeSnapshotContentName") == name && !one.flag("/status/readyToUse")
    }));
    cx.until(&PVC, &Key::of(&source), |claim| !claim.has_finalizer(CLAIM)).await?;
    assert!(claims.states().iter().any(|claim| claim.has_finalizer(CLAIM)), "the claim was not protected");
    let content = cx.until(&VOLUME_SNAPSHOT_CONTENT, &Key::cluster(&name), |_| true).await?;
    assert!(content.has_finalizer(CONTENT));
    assert_eq!(content.text("/spec/source/volumeHandle"), made.text("/spec/csi/volumeHandle"));

    // What is written later is not in the snapshot.
    let new = Content { digest: "sha256:new".to_owned(), ..old.clone() };
    world.write(made.text("/spec/csi/volumeHandle"), new);
    let (_, copy) = volume(&cx, restored("b", "s", "replicated", "1Gi")).await?;
    assert_eq!(world.get(copy.text("/spec/csi/volumeHandle")).map(|volume| volume.content), Some(old));

    cx.client.delete(&VOLUME_SNAPSHOT, &key, "").await?;
    cx.until_gone(&VOLUME_SNAPSHOT, &key).await?;
    cx.until_gone(&VOLUME_SNAPSHOT_CONTENT, &Key::cluster(&name)).await?;
    assert!(world.snapshot_content(content.text("/status/snapshotHandle")).is_none());
    Ok(())
}

async fn a_claim_stays_until_its_snapshot_is_taken(cx: Cx) -> Result {
    let class = class(&cx, "rbd.csi.ceph.com", json!({})).await?;
    volume(&cx, claim("a", &class, "1Gi")).await?;
    outside(&cx).hang(&class, "snapshot.create");
    cx.create(&VOLUME_SNAPSHOT, snapshot("s", "a")).await?;
    cx.until_event("s", "CreatingSnapshot").await?;
    cx.client.delete(&PVC, &cx.key("a"), "").await?;
    settle(&cx).await?;
    assert!(cx.client.get(&PVC, &cx.key("a")).await?.is_some_and(|claim| claim.has_finalizer(CLAIM)));
    outside(&cx).mend(&class);
    cx.until(&VOLUME_SNAPSHOT, &cx.key("s"), |one| one.flag("/status/readyToUse")).await?;
    cx.until_gone(&PVC, &cx.key("a")).await?;
    drop_class(&cx).await
}

async fn no_claim(cx: Cx) -> Result {
    cx.create(&VOLUME_SNAPSHOT, snapshot("s", "a")).await?;
    let event = cx.until_event("s", "SnapshotContentCreationFailed").await?;
    let failed = cx.until(&VOLUME_SNAPSHOT, &cx.key("s"), |one| one.at("/status/error").is_object()).await?;
    assert_eq!(failed.text("/status/error/message"), event.text("/message"));
    assert!(failed.at("/status/boundVolumeSnapshotContentName").is_null());
    volume(&cx, claim("a", "replicated", "1Gi")).await?;
    let ready = cx.until(&VOLUME_SNAPSHOT, &cx.key("s"), |one| one.flag("/status/readyToUse")).await?;
    assert!(ready.at("/status/error").is_null());
    Ok(())
}

async fn no_snapshot_class(cx: Cx) -> Result {
    volume(&cx, claim("files", "unknown", "1Gi")).await?;
    cx.create(&VOLUME_SNAPSHOT, snapshot("none", "files")).await?;
    let event = cx.until_event("none", "SetDefaultSnapshotClassFailed").await?;
    assert_eq!(
        event.text("/message"),
        "Failed to set default snapshot class with error cannot find default snapshot class"
    );
    volume(&cx, claim("a", "replicated", "1Gi")).await?;
    let mut named = snapshot("s", "a");
    named.set("/spec/volumeSnapshotClassName", cx.namespace.as_str().into());
    cx.create(&VOLUME_SNAPSHOT, named).await?;
    cx.until_event("s", "SnapshotContentCreationFailed").await?;
    let class = json!({
        "metadata": {"name": cx.namespace}, "driver": "rbd.csi.ceph.com", "deletionPolicy": "Retain",
    });
    cx.client.create(&VOLUME_SNAPSHOT_CLASS, class).await?;
    let ready = cx.until(&VOLUME_SNAPSHOT, &cx.key("s"), |one| one.flag("/status/readyToUse")).await?;
    // What is behind stays, as the class wants it.
    let content = Key::cluster(ready.text("/status/boundVolumeSnapshotContentName"));
    cx.client.delete(&VOLUME_SNAPSHOT, &cx.key("s"), "").await?;
    cx.until_gone(&VOLUME_SNAPSHOT, &cx.key("s")).await?;
    let kept = cx.client.get(&VOLUME_SNAPSHOT_CONTENT, &content).await?.unwrap_or_default();
    let world = &cx.infra.context().world.volumes;
    assert!(world.snapshot_content(kept.text("/status/snapshotHandle")).is_some());
    cx.client.delete(&VOLUME_SNAPSHOT_CONTENT, &content, "").await?;
    cx.until_gone(&VOLUME_SNAPSHOT_CONTENT, &content).await?;
    Ok(cx.client.delete(&VOLUME_SNAPSHOT_CLASS, &Key::cluster(&cx.namespace), "").await?)
}

async fn a_driver_fails(cx: Cx) -> Result {
    let class = class(&cx, "rbd.csi.ceph.com", json!({})).await?;
    volume(&cx, claim("a", &class, "1Gi")).await?;
    outside(&cx).fail(&class, "snapshot.create", "rpc error: code = Internal desc = busy");
    cx.create(&VOLUME_SNAPSHOT, snapshot("s", "a")).await?;
    let failed = cx
        .until(&VOLUME_SNAPSHOT, &cx.key("s"), |one| one.text("/status/error/message").ends_with("busy"))
        .await?;
    assert!(!failed.flag("/status/readyToUse"));
    outside(&cx).mend(&class);
    let ready = cx.until(&VOLUME_SNAPSHOT, &cx.key("s"), |one| one.flag("/status/readyToUse")).await?;
    assert!(ready.at("/status/error").is_null());
    drop_class(&cx).await
}

async fn a_snapshot_of_somebody_else(cx: Cx) -> Result {
    let mut given = json!({"metadata": {"name": "s"}});
    given.set("/spec/source/volumeSnapshotContentName", cx.namespace.as_str().into());
    cx.create(&VOLUME_SNAPSHOT, given).await?;
    cx.until_event("s", "SnapshotContentMissing").await?;
    let world = &cx.infra.context().world.volumes;
    let handle = format!("by-hand-{}", cx.namespace);
    let content = json!({"metadata": {"name": cx.namespace}, "spec": {
        "deletionPolicy": "Delete", "driver": "rbd.csi.ceph.com", "source": {"snapshotHandle": handle},
        "volumeSnapshotRef": {"namespace": cx.namespace, "name": "s"},
    }});
    let content = cx.client.create(&VOLUME_SNAPSHOT_CONTENT, content).await?;
    // The storage does not have it yet.
    cx.until(&VOLUME_SNAPSHOT, &cx.key("s"), |one| one.text("/status/error/message").contains("not found"))
        .await?;
    world.make(&handle, 1 << 30);
    world.snapshot(&handle, &handle);
    cx.until(&VOLUME_SNAPSHOT, &cx.key("s"), |one| one.flag("/status/readyToUse")).await?;
    let key = Key::of(&content);
    let bound = cx.until(&VOLUME_SNAPSHOT_CONTENT, &key, |_| true).await?;
    assert_ne!(bound.text("/spec/volumeSnapshotRef/uid"), "");
    cx.client.delete(&VOLUME_SNAPSHOT, &cx.key("s"), "").await?;
    cx.until_gone(&VOLUME_SNAPSHOT_CONTENT, &key).await?;
    assert!(world.snapshot_content(&handle).is_none());
    Ok(())
}

async fn a_restore_waits_for_its_snapshot(cx: Cx) -> Result {
    volume(&cx, claim("a", "replicated", "2Gi")).await?;
    cx.create(&PVC, restored("b", "s", "replicated", "2Gi")).await?;
    let event = cx.until_event("b", "ProvisioningFailed").await?;
    assert!(event.text("/message").contains("\"s\" not found"), "{event}");
    assert!(is_pending(&cx, "b").await?);
    cx.create(&VOLUME_SNAPSHOT, snapshot("s", "a")).await?;
    bound(&cx, "b").await?;
    cx.create(&PVC, restored("small", "s", "replicated", "1Gi")).await?;
    let event = cx.until_event("small", "ProvisioningFailed").await?;
    assert!(event.text("/message").contains("is less than the size"), "{event}");
    // A snapshot somebody restores from stays.
    cx.client.delete(&VOLUME_SNAPSHOT, &cx.key("s"), "").await?;
    cx.until_event("s", "SnapshotDeletePending").await?;
    assert!(cx.client.get(&VOLUME_SNAPSHOT, &cx.key("s")).await?.is_some());
    cx.client.delete(&PVC, &cx.key("small"), "").await?;
    cx.until_gone(&VOLUME_SNAPSHOT, &cx.key("s")).await
}

async fn a_snapshot_that_is_uploaded(cx: Cx) -> Result {
    cx.create(&PVC, claim("a", "zonal", "1Gi")).await?;
    cx.create(&POD, pod("p", "a", ("kubernetes.io/os", "linux"))).await?;
    bound(&cx, "a").await?;
    let key = cx.key("s");
    let mut history = cx.follow(&VOLUME_SNAPSHOT, &key).await;
    cx.create(&VOLUME_SNAPSHOT, snapshot("s", "a")).await?;
    cx.until_event("s", "SnapshotCreated").await?;
    cx.create(&PVC, restored("b", "s", "replicated", "1Gi")).await?;
    let event = cx.until_event("b", "ProvisioningFailed").await?;
    assert!(event.text("/message").contains("snapshot s is not Ready"), "{event}");
    cx.until(&VOLUME_SNAPSHOT, &key, |one| one.flag("/status/readyToUse")).await?;
    let states = history.states();
    assert!(states.iter().any(|one| {
        !one.text("/status/creationTime").is_empty() && one.at("/status/readyToUse") == false
    }));
    // What one storage has taken another cannot read.
    let other = async {
        loop {
            let events = cx.client.list(&EVENT, &cx.namespace).await?;
            let found = events.iter().any(|event| {
                event.text("/involvedObject/name") == "b"
                    && event.text("/message").contains("of the driver ebs.csi.aws.com, not rbd.csi.ceph.com")
            });
            if found {
                return Result::Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(crate::context::PATIENCE, other).await?
}

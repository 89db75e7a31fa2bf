//! Volumes and the nodes they are attached to.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use trellis_infra::kinds::{NODE, POD, PV, PVC, VOLUME_ATTACHMENT};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::storage::{attachment_name, is_attached};
use trellis_infra::world::hosts::Host;

use super::{claim, class, drop_class, outside, pod, settle, volume};
use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(a_volume_follows_its_pod),
        scenario!(a_volume_is_on_one_node_only),
        scenario!(an_attachment_fails),
        scenario!(a_volume_that_is_attached_stays),
        scenario!(a_host_without_power_keeps_its_volume).with(|_| {}),
    ]
}

const FIRST: (&str, &str) = ("kubernetes.io/hostname", "host-0001");
const SECOND: (&str, &str) = ("kubernetes.io/hostname", "host-0002");

/// Where the attachment of a volume to a host is.
fn attachment(volume: &Value, (_, node): (&str, &str)) -> Key {
    Key::cluster(&attachment_name(volume, node))
}

async fn attached(cx: &Cx, volume: &Value, node: (&str, &str)) -> Result<Arc<Value>> {
    cx.until(&VOLUME_ATTACHMENT, &attachment(volume, node), |one| one.flag("/status/attached")).await
}

async fn a_volume_follows_its_pod(cx: Cx) -> Result {
    let (_, made) = volume(&cx, claim("a", "replicated", "1Gi")).await?;
    assert!(!is_attached(cx.infra.context(), &made, FIRST.1));
    let mut history = cx.follow(&VOLUME_ATTACHMENT, &attachment(&made, FIRST)).await;
    cx.create(&POD, pod("p", "a", FIRST)).await?;
    let attachment = attached(&cx, &made, FIRST).await?;
    assert!(is_attached(cx.infra.context(), &made, FIRST.1));
    assert!(!is_attached(cx.infra.context(), &made, SECOND.1));
    assert_eq!(attachment.text("/spec/attacher"), "rbd.csi.ceph.com");
    assert!(attachment.has_finalizer("external-attacher/rbd-csi-ceph-com"));
    assert!(!history.states()[0].flag("/status/attached"));
    cx.until(&PV, &Key::of(&made), |volume| volume.has_finalizer("external-attacher/rbd-csi-ceph-com"))
        .await?;
    let event = cx.until_event("p", "SuccessfulAttachVolume").await?;
    assert!(event.text("/message").starts_with("AttachVolume.Attach succeeded for volume \"pvc-"), "{event}");
    cx.client.delete_with(&POD, &cx.key("p"), "", Some(0)).await?;
    cx.until_gone(&VOLUME_ATTACHMENT, &Key::of(&attachment)).await?;
    cx.client.delete(&PVC, &cx.key("a"), "").await?;
    cx.until_gone(&PV, &Key::of(&made)).await?;
    // Volumes of a driver that does not attach are there at once.
    let (_, files) = volume(&cx, claim("files", "unknown", "1Gi")).await?;
    assert!(is_attached(cx.infra.context(), &files, FIRST.1));
    Ok(())
}

async fn a_volume_is_on_one_node_only(cx: Cx) -> Result {
    let (_, made) = volume(&cx, claim("a", "replicated", "1Gi")).await?;
    cx.create(&POD, pod("first", "a", FIRST)).await?;
    attached(&cx, &made, FIRST).await?;
    cx.create(&POD, pod("second", "a", SECOND)).await?;
    let event = cx.until_event("second", "FailedAttachVolume").await?;
    let words =
        format!("Waiting for detach for volume \"{}\" Volume is already used by pod(s) first", made.name());
    assert_eq!(event.text("/message"), words);
    assert!(cx.client.get(&VOLUME_ATTACHMENT, &attachment(&made, SECOND)).await?.is_none());
    cx.client.delete_with(&POD, &cx.key("first"), "", Some(0)).await?;
    attached(&cx, &made, SECOND).await?;
    assert!(!is_attached(cx.infra.context(), &made, FIRST.1));
    // One that can be shared is on both.
    let mut shared = claim("shared", "replicated", "1Gi");
    shared.set("/spec/accessModes", json!(["ReadWriteMany"]));
    shared.set("/spec/volumeMode", "Block".into());
    let (_, shared) = volume(&cx, shared).await?;
    for (name, node) in [("third", FIRST), ("fourth", SECOND)] {
        let mut pod = pod(name, "shared", node);
        pod.unset("/spec/containers/0/volumeMounts");
        pod.set("/spec/containers/0/volumeDevices", json!([{"name": "data", "devicePath": "/dev/data"}]));
        cx.create(&POD, pod).await?;
        attached(&cx, &shared, node).await?;
    }
    Ok(())
}

async fn an_attachment_fails(cx: Cx) -> Result {
    let class = class(&cx, "rbd.csi.ceph.com", json!({})).await?;
    let (_, made) = volume(&cx, claim("a", &class, "1Gi")).await?;
    outside(&cx).fail(&class, "volume.attach", "rpc error: code = Internal desc = the node does not answer");
    cx.create(&POD, pod("p", "a", FIRST)).await?;
    let failed = cx
        .until(&VOLUME_ATTACHMENT, &attachment(&made, FIRST), |one| one.at("/status/attachError").is_object())
        .await?;
    assert!(!failed.flag("/status/attached"));
    let event = cx.until_event("p", "FailedAttachVolume").await?;
    assert!(event.text("/message").contains("the node does not answer"), "{event}");
    outside(&cx).mend(&class);
    let mended = attached(&cx, &made, FIRST).await?;
    assert!(mended.at("/status/attachError").is_null());
    drop_class(&cx).await
}

async fn a_volume_that_is_attached_stays(cx: Cx) -> Result {
    let class = class(&cx, "rbd.csi.ceph.com", json!({})).await?;
    let (_, made) = volume(&cx, claim("a", &class, "1Gi")).await?;
    cx.create(&POD, pod("p", "a", FIRST)).await?;
    attached(&cx, &made, FIRST).await?;
    outside(&cx).hang(&class, "volume.detach");
    cx.client.delete_with(&POD, &cx.key("p"), "", Some(0)).await?;
    cx.client.delete(&PVC, &cx.key("a"), "").await?;
    cx.until(&PV, &Key::of(&made), |volume| volume.text("/status/phase") == "Released").await?;
    settle(&cx).await?;
    let handle = made.text("/spec/csi/volumeHandle");
    assert!(cx.infra.context().world.volumes.get(handle).is_some(), "an attached volume was deleted");
    outside(&cx).mend(&class);
    cx.until_gone(&PV, &Key::of(&made)).await?;
    drop_class(&cx).await
}

async fn a_host_without_power_keeps_its_volume(cx: Cx) -> Result {
    let world = &cx.infra.context().world;
    let (_, made) = volume(&cx, claim("a", "replicated", "1Gi")).await?;
    cx.create(&POD, pod("first", "a", FIRST)).await?;
    attached(&cx, &made, FIRST).await?;
    world.hosts.set(FIRST.1, Host { powered: false, connected: false });
    cx.until(&NODE, &Key::cluster(FIRST.1), |node| !node.condition_holds("Ready")).await?;
    cx.client.delete_with(&POD, &cx.key("first"), "", Some(0)).await?;
    let start = tokio::time::Instant::now();
    cx.create(&POD, pod("second", "a", SECOND)).await?;
    cx.until_event("second", "FailedAttachVolume").await?;
    // Nobody knows what the host still writes, so it is given time: more than anybody else is.
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(cx.client.get(&VOLUME_ATTACHMENT, &attachment(&made, FIRST)).await?.is_some());
    let long = tokio::time::timeout(Duration::from_mins(2), async {
        while cx.client.get(&VOLUME_ATTACHMENT, &attachment(&made, FIRST)).await?.is_some() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Result::Ok(())
    });
    long.await??;
    assert!(start.elapsed() >= Duration::from_mins(6) - Duration::from_secs(5));
    attached(&cx, &made, SECOND).await?;

    // A host that is known to be off need not be waited for.
    let off = json!({"spec": {"taints": [
        {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"},
    ]}});
    world.hosts.set(SECOND.1, Host { powered: false, connected: false });
    cx.until(&NODE, &Key::cluster(SECOND.1), |node| !node.condition_holds("Ready")).await?;
    cx.client.merge(&NODE, &Key::cluster(SECOND.1), &off).await?;
    let start = tokio::time::Instant::now();
    cx.client.delete_with(&POD, &cx.key("second"), "", Some(0)).await?;
    cx.until_gone(&VOLUME_ATTACHMENT, &attachment(&made, SECOND)).await?;
    assert!(start.elapsed() < Duration::from_mins(1));
    Ok(())
}

//! Claims that grow.

use serde_json::{Value, json};
use trellis_infra::kinds::{POD, PV, PVC};
use trellis_infra::object::{Key, Object as _};

use super::{bound, claim, class, drop_class, outside, pod, settle, volume};
use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(a_block_volume_grows),
        scenario!(a_file_system_grows_on_a_node),
        scenario!(a_class_that_does_not_grow),
        scenario!(no_room_to_grow),
    ]
}

fn size(size: &str) -> Value {
    json!({"spec": {"resources": {"requests": {"storage": size}}}})
}

/// Whether nothing is said about growing any more.
fn is_at_rest(claim: &Value) -> bool {
    ["Resizing", "FileSystemResizePending"].iter().all(|kind| claim.condition(kind).is_null())
}

async fn a_block_volume_grows(cx: Cx) -> Result {
    let mut claim = claim("a", "replicated", "1Gi");
    claim.set("/spec/volumeMode", "Block".into());
    let (claim, made) = volume(&cx, claim).await?;
    let mut history = cx.follow(&PVC, &cx.key("a")).await;
    cx.client.merge(&PVC, &Key::of(&claim), &size("2Gi")).await?;
    let grown = cx.until(&PVC, &cx.key("a"), |claim| claim.text("/status/capacity/storage") == "2Gi").await?;
    assert!(history.states().iter().any(|claim| {
        claim.condition_holds("Resizing")
            && claim.text("/status/allocatedResourceStatuses/storage") == "ControllerResizeInProgress"
            && claim.text("/status/capacity/storage") == "1Gi"
    }));
    assert!(is_at_rest(&grown), "{grown}");
    assert!(grown.at("/status/allocatedResourceStatuses").is_null());
    for reason in ["ExternalExpanding", "Resizing", "VolumeResizeSuccessful"] {
        cx.until_event("a", reason).await?;
    }
    let made = cx.client.get(&PV, &Key::of(&made)).await?.unwrap_or_default();
    assert_eq!(made.text("/spec/capacity/storage"), "2Gi");
    let world = cx.infra.context().world.volumes.get(made.text("/spec/csi/volumeHandle"));
    assert_eq!(world.map(|volume| volume.capacity), Some(2 << 30));
    Ok(())
}

async fn a_file_system_grows_on_a_node(cx: Cx) -> Result {
    let (claim, made) = volume(&cx, claim("a", "replicated", "1Gi")).await?;
    cx.client.merge(&PVC, &Key::of(&claim), &size("2Gi")).await?;
    cx.until(&PVC, &cx.key("a"), |claim| claim.condition_holds("FileSystemResizePending")).await?;
    cx.until_event("a", "FileSystemResizeRequired").await?;
    settle(&cx).await?;
    let waits = cx.client.get(&PVC, &cx.key("a")).await?.unwrap_or_default();
    assert_eq!(waits.text("/status/capacity/storage"), "1Gi", "no node has grown the file system");
    assert_eq!(waits.text("/status/allocatedResourceStatuses/storage"), "NodeResizePending");
    let made = cx.client.get(&PV, &Key::of(&made)).await?.unwrap_or_default();
    assert_eq!(made.text("/spec/capacity/storage"), "2Gi");
    cx.create(&POD, pod("p", "a", ("kubernetes.io/os", "linux"))).await?;
    let grown = cx.until(&PVC, &cx.key("a"), |claim| claim.text("/status/capacity/storage") == "2Gi").await?;
    assert!(is_at_rest(&grown), "{grown}");
    cx.until_event("a", "FileSystemResizeSuccessful").await?;
    Ok(())
}

async fn a_class_that_does_not_grow(cx: Cx) -> Result {
    cx.create(&PVC, claim("a", "local", "1Gi")).await?;
    cx.create(&POD, pod("p", "a", ("kubernetes.io/os", "linux"))).await?;
    bound(&cx, "a").await?;
    let refused = cx.client.merge(&PVC, &cx.key("a"), &size("2Gi")).await;
    let words = refused.err().map(|failure| failure.to_string()).unwrap_or_default();
    assert!(
        words.contains(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support \
             resize"
        ),
        "{words}"
    );
    Ok(())
}

async fn no_room_to_grow(cx: Cx) -> Result {
    let class = class(&cx, "rbd.csi.ceph.com", json!({})).await?;
    outside(&cx).limit(&class, Some(1 << 30));
    let mut claim = claim("a", &class, "1Gi");
    claim.set("/spec/volumeMode", "Block".into());
    volume(&cx, claim).await?;
    cx.client.merge(&PVC, &cx.key("a"), &size("2Gi")).await?;
    let event = cx.until_event("a", "VolumeResizeFailed").await?;
    assert!(event.text("/message").contains("code = ResourceExhausted"), "{event}");
    let waits = cx.client.get(&PVC, &cx.key("a")).await?.unwrap_or_default();
    assert!(waits.condition_holds("Resizing"));
    outside(&cx).limit(&class, Some(2 << 30));
    cx.until(&PVC, &cx.key("a"), |claim| claim.text("/status/capacity/storage") == "2Gi").await?;
    drop_class(&cx).await
}

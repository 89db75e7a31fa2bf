//! Claims that begin with what another has.

use serde_json::{Value, json};
use trellis_infra::kinds::PVC;
use trellis_infra::object::Object as _;
use trellis_infra::world::volumes::Content;

use super::{bound, claim, is_pending, volume};
use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![scenario!(a_claim_is_cloned), scenario!(clones_that_cannot_be)]
}

/// A claim that begins as a copy of another.
fn copy(name: &str, of: &str, class: &str, size: &str) -> Value {
    let mut copy = claim(name, class, size);
    copy.set("/spec/dataSource", json!({"kind": "PersistentVolumeClaim", "name": of}));
    copy
}

async fn a_claim_is_cloned(cx: Cx) -> Result {
    // Before there is anything to copy.
    cx.create(&PVC, copy("b", "a", "replicated", "2Gi")).await?;
    let event = cx.until_event("b", "ProvisioningFailed").await?;
    assert!(event.text("/message").contains("persistentvolumeclaims \"a\" not found"), "{event}");
    assert!(is_pending(&cx, "b").await?);
    let (_, source) = volume(&cx, claim("a", "replicated", "1Gi")).await?;
    let world = &cx.infra.context().world.volumes;
    let content = Content { virtual_size: 1 << 30, digest: "sha256:a".to_owned(), bootable: true };
    world.write(source.text("/spec/csi/volumeHandle"), content.clone());
    bound(&cx, "b").await?;
    let (_, copy) = volume(&cx, copy("c", "a", "replicated", "1Gi")).await?;
    let copied = world.get(copy.text("/spec/csi/volumeHandle")).map(|volume| volume.content);
    assert_eq!(copied, Some(content));
    Ok(())
}

async fn clones_that_cannot_be(cx: Cx) -> Result {
    volume(&cx, claim("a", "replicated", "2Gi")).await?;
    let mut raw = copy("raw", "a", "replicated", "2Gi");
    raw.set("/spec/volumeMode", "Block".into());
    for (copy, words) in [
        (copy("small", "a", "replicated", "1Gi"), "must be greater than or equal in size"),
        (raw, "must have the same volume mode"),
        (copy("elsewhere", "a", "unknown", "2Gi"), "is not of the driver csi.storage.trellis.dev"),
    ] {
        let name = copy.name().to_owned();
        cx.create(&PVC, copy).await?;
        let event = cx.until_event(&name, "ProvisioningFailed").await?;
        assert!(event.text("/message").contains(words), "{event}");
        assert!(is_pending(&cx, &name).await?);
    }
    Ok(())
}

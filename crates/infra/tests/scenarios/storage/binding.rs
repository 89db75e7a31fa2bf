//! Claims and volumes that are there already find each other.

use serde_json::{Value, json};
use trellis_infra::kinds::{PV, PVC};
use trellis_infra::object::{Key, Object};

use super::{bound, claim, is_pending, settle, volume};
use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(the_smallest_that_fits),
        scenario!(many_claims_for_one_volume),
        scenario!(a_volume_for_one_claim),
        scenario!(a_claim_for_one_volume),
        scenario!(a_claim_loses_its_volume),
        scenario!(a_populator_brings_the_volume),
    ]
}

/// A volume that a person made.
fn premade(cx: &Cx, name: &str, size: &str) -> Value {
    json!({
        "metadata": {"name": format!("{}-{name}", cx.namespace), "labels": {"name": name}},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": cx.namespace,
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/srv"},
        },
    })
}

async fn the_smallest_that_fits(cx: Cx) -> Result {
    let names = ["small", "right", "large"];
    for (name, size) in names.into_iter().zip(["1Gi", "3Gi", "9Gi"]) {
        let made = cx.client.create(&PV, premade(&cx, name, size)).await?;
        cx.until(&PV, &Key::of(&made), |volume| volume.text("/status/phase") == "Available").await?;
    }
    let key = Key::cluster(&format!("{}-right", cx.namespace));
    let mut phases = cx.follow(&PV, &key).await;
    let (claim, made) = volume(&cx, claim("a", &cx.namespace, "2Gi")).await?;
    assert_eq!(Key::of(&made), key);
    assert_eq!(claim.text("/status/capacity/storage"), "3Gi");
    let made = cx.until(&PV, &key, |volume| volume.text("/status/phase") == "Bound").await?;
    assert_eq!(made.annotation("pv.kubernetes.io/bound-by-controller"), "yes");
    cx.client.delete(&PVC, &cx.key("a"), "").await?;
    cx.until(&PV, &key, |volume| volume.text("/status/phase") == "Released").await?;
    assert_eq!(phases.texts("/status/phase"), ["Available", "Bound", "Released"]);
    for name in names {
        cx.client.delete(&PV, &Key::cluster(&format!("{}-{name}", cx.namespace)), "").await?;
    }
    Ok(())
}

async fn many_claims_for_one_volume(cx: Cx) -> Result {
    let names = ["a", "b", "c"];
    for name in names {
        cx.create(&PVC, claim(name, &cx.namespace, "1Gi")).await?;
    }
    let one = Key::of(&cx.client.create(&PV, premade(&cx, "one", "1Gi")).await?);
    let got = cx.until(&PV, &one, |volume| volume.text("/status/phase") == "Bound").await?;
    let winner = got.text("/spec/claimRef/name");
    bound(&cx, winner).await?;
    settle(&cx).await?;
    for name in names.into_iter().filter(|name| *name != winner) {
        assert!(is_pending(&cx, name).await?, "{name} and {winner} have one volume");
    }
    cx.client.delete(&PVC, &cx.key(winner), "").await?;
    Ok(cx.client.delete(&PV, &one, "").await?)
}

async fn a_volume_for_one_claim(cx: Cx) -> Result {
    let mut kept = premade(&cx, "kept", "1Gi");
    kept.set("/spec/claimRef", json!({"namespace": cx.namespace, "name": "mine"}));
    let kept = Key::of(&cx.client.create(&PV, kept).await?);
    cx.create(&PVC, claim("other", &cx.namespace, "1Gi")).await?;
    cx.until_event("other", "ProvisioningFailed").await?;
    settle(&cx).await?;
    assert!(is_pending(&cx, "other").await?, "the volume is for another claim");
    let (_, got) = volume(&cx, claim("mine", &cx.namespace, "1Gi")).await?;
    assert_eq!(Key::of(&got), kept);
    cx.client.delete(&PVC, &cx.key("mine"), "").await?;
    Ok(cx.client.delete(&PV, &kept, "").await?)
}

async fn a_claim_for_one_volume(cx: Cx) -> Result {
    let one = Key::of(&cx.client.create(&PV, premade(&cx, "one", "1Gi")).await?);
    let mut first = claim("first", &cx.namespace, "1Gi");
    first.set("/spec/volumeName", one.name.as_str().into());
    let mut second = first.clone();
    second.set("/metadata/name", "second".into());
    let (first, _) = volume(&cx, first).await?;
    // The person chose the volume, not the controller.
    assert_eq!(first.annotation("pv.kubernetes.io/bind-completed"), "yes");
    assert_eq!(first.annotation("pv.kubernetes.io/bound-by-controller"), "");
    cx.create(&PVC, second).await?;
    let event = cx.until_event("second", "FailedBinding").await?;
    assert!(event.text("/message").contains("already bound to a different claim"), "{event}");
    cx.client.delete(&PVC, &cx.key("first"), "").await?;
    Ok(cx.client.delete(&PV, &one, "").await?)
}

async fn a_claim_loses_its_volume(cx: Cx) -> Result {
    let (_, made) = volume(&cx, claim("a", "replicated", "1Gi")).await?;
    let key = Key::of(&made);
    let mut history = cx.follow(&PVC, &cx.key("a")).await;
    cx.client.delete(&PV, &key, "").await?;
    // It is protected while it is bound; only force takes it away.
    cx.until(&PV, &key, Object::is_deleting).await?;
    cx.client.merge(&PV, &key, &json!({"metadata": {"finalizers": null}})).await?;
    cx.until(&PVC, &cx.key("a"), |claim| claim.text("/status/phase") == "Lost").await?;
    assert_eq!(history.texts("/status/phase"), ["Bound", "Lost"]);
    cx.until_event("a", "ClaimLost").await?;
    Ok(())
}

async fn a_populator_brings_the_volume(cx: Cx) -> Result {
    let mut target = claim("target", "replicated", "1Gi");
    let source = json!({"apiGroup": "cdi.kubevirt.io", "kind": "VolumeImportSource", "name": "s"});
    target.set("/spec/dataSourceRef", source);
    let target = cx.create(&PVC, target).await?;
    let event = cx.until_event("target", "Provisioning").await?;
    assert_eq!(event.text("/message"), "Assuming an external populator will provision the volume");
    let (_, prime) = volume(&cx, claim("prime", "replicated", "1Gi")).await?;
    assert!(is_pending(&cx, "target").await?, "nobody brought a volume");
    let key = Key::of(&prime);
    let meant = json!({"spec": {"claimRef": {
        "namespace": cx.namespace, "name": "target", "uid": target.uid(), "resourceVersion": null,
    }}});
    cx.client.merge(&PV, &key, &meant).await?;
    let target = bound(&cx, "target").await?;
    assert_eq!(target.text("/spec/volumeName"), key.name);
    cx.until(&PVC, &cx.key("prime"), |claim| claim.text("/status/phase") == "Lost").await?;
    cx.client.delete(&PVC, &cx.key("prime"), "").await?;
    cx.until_gone(&PVC, &cx.key("prime")).await?;
    settle(&cx).await?;
    assert_eq!(cx.client.get(&PV, &key).await?.unwrap_or_default().text("/status/phase"), "Bound");
    Ok(())
}

//! Claims get volumes from the drivers, and what keeps them from it.

use serde_json::json;
use trellis_infra::kinds::{CSI_DRIVER, CSI_NODE, POD, PV, PVC, RESOURCE_QUOTA, STORAGE_CLASS};
use trellis_infra::object::{Key, Object as _};

use super::{bound, claim, class, drop_class, is_pending, outside, pod, settle, volume};
use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

const SELECTED: &str = "volume.kubernetes.io/selected-node";
const RBD: &str = "rbd.csi.ceph.com";

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(there_are_classes),
        scenario!(a_claim_is_bound_and_freed),
        scenario!(the_default_class_is_taken),
        scenario!(a_default_that_comes_later),
        scenario!(a_claim_waits_for_a_pod),
        scenario!(a_volume_is_where_its_pod_is),
        scenario!(no_host_in_the_zone),
        scenario!(a_node_without_the_driver),
        scenario!(a_shape_the_driver_cannot_do),
        scenario!(no_room),
        scenario!(no_room_on_the_node),
        scenario!(a_class_breaks_and_is_mended),
        scenario!(a_class_hangs),
        scenario!(no_class),
        scenario!(a_volume_is_kept),
        scenario!(a_volume_is_deleted_before_its_claim),
        scenario!(quotas_count),
    ]
}

async fn there_are_classes(cx: Cx) -> Result {
    for (name, mode, default) in [
        ("replicated", "Immediate", "true"),
        ("local", "WaitForFirstConsumer", ""),
        ("zonal", "WaitForFirstConsumer", ""),
        ("unknown", "Immediate", ""),
    ] {
        let class = cx.until(&STORAGE_CLASS, &Key::cluster(name), |_| true).await?;
        assert_eq!(class.text("/volumeBindingMode"), mode, "{name}");
        assert_eq!(class.annotation("storageclass.kubernetes.io/is-default-class"), default, "{name}");
        assert_eq!(class.annotation("storageclass.kubevirt.io/is-default-virt-class"), default, "{name}");
        let driver = class.text("/provisioner").to_owned();
        cx.until(&CSI_DRIVER, &Key::cluster(&driver), |_| true).await?;
        cx.until(&CSI_NODE, &Key::cluster("host-0001"), |node| {
            node.list("/spec/drivers").iter().any(|known| known.text("/name") == driver)
        })
        .await?;
    }
    Ok(())
}

async fn a_claim_is_bound_and_freed(cx: Cx) -> Result {
    let key = cx.key("a");
    let mut history = cx.follow(&PVC, &key).await;
    let made = cx.create(&PVC, claim("a", "replicated", "1Gi")).await?;
    let bound = bound(&cx, "a").await?;
    assert_eq!(history.texts("/status/phase"), ["Pending", "Bound"]);
    let volume = Key::cluster(&format!("pvc-{}", made.uid()));
    assert_eq!(bound.text("/spec/volumeName"), volume.name);
    assert_eq!(bound.annotation("pv.kubernetes.io/bind-completed"), "yes");
    assert_eq!(bound.annotation("pv.kubernetes.io/bound-by-controller"), "yes");
    for name in ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"]
    {
        assert_eq!(bound.annotation(name), RBD);
    }
    assert_eq!(bound.text("/status/capacity/storage"), "1Gi");
    for reason in ["ExternalProvisioning", "Provisioning", "ProvisioningSucceeded"] {
        cx.until_event("a", reason).await?;
    }
    let made = cx.until(&PV, &volume, |volume| volume.text("/status/phase") == "Bound").await?;
    assert_eq!(made.text("/spec/csi/driver"), RBD);
    assert_eq!(made.annotation("pv.kubernetes.io/provisioned-by"), RBD);
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

async fn the_default_class_is_taken(cx: Cx) -> Result {
    let mut claim = claim("a", "", "1Gi");
    claim.unset("/spec/storageClassName");
    let (claim, volume) = volume(&cx, claim).await?;
    assert_eq!(claim.text("/spec/storageClassName"), "replicated");
    assert_eq!(volume.text("/spec/storageClassName"), "replicated");
    Ok(())
}

async fn a_default_that_comes_later(cx: Cx) -> Result {
    let replicated = Key::cluster("replicated");
    let default = |value: &str| json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": value}}});
    cx.client.merge(&STORAGE_CLASS, &replicated, &default("false")).await?;
    let mut claim = claim("a", "", "1Gi");
    claim.unset("/spec/storageClassName");
    // The server hears of the change a moment later.
    let mut attempt = 0;
    let made = loop {
        attempt += 1;
        claim.set("/metadata/name", format!("a{attempt}").into());
        let made = cx.create(&PVC, claim.clone()).await?;
        if made.at("/spec/storageClassName").is_null() {
            break made;
        }
        assert!(attempt < 100, "the class is still the default");
    };
    let event = cx.until_event(made.name(), "FailedBinding").await?;
    assert_eq!(
        event.text("/message"),
        "no persistent volumes available for this claim and no storage class is set"
    );
    settle(&cx).await?;
    assert!(is_pending(&cx, made.name()).await?, "there is no class");
    cx.client.merge(&STORAGE_CLASS, &replicated, &default("true")).await?;
    let claim = bound(&cx, made.name()).await?;
    assert_eq!(claim.text("/spec/storageClassName"), "replicated");
    Ok(())
}

async fn a_claim_waits_for_a_pod(cx: Cx) -> Result {
    cx.create(&PVC, claim("a", "local", "1Gi")).await?;
    cx.until_event("a", "WaitForFirstConsumer").await?;
    settle(&cx).await?;
    assert!(is_pending(&cx, "a").await?, "a volume was made for no pod");
    let mut history = cx.follow(&PVC, &cx.key("a")).await;
    cx.create(&POD, pod("p", "a", ("kubernetes.io/hostname", "host-0002"))).await?;
    let claim = bound(&cx, "a").await?;
    assert_eq!(claim.annotation(SELECTED), "host-0002");
    assert_eq!(
        history.texts(&format!("/metadata/annotations/{}", SELECTED.replace('/', "~1"))),
        ["", "host-0002"]
    );
    let volume = cx.until(&PV, &Key::cluster(claim.text("/spec/volumeName")), |_| true).await?;
    assert_eq!(
        volume.at("/spec/nodeAffinity/required/nodeSelectorTerms"),
        &json!([{"matchExpressions": [{
            "key": "topology.hostpath.csi/node", "operator": "In", "values": ["host-0002"],
        }]}])
    );
    let pod = cx.until(&POD, &cx.key("p"), |pod| pod.text("/status/phase") == "Running").await?;
    assert_eq!(pod.text("/spec/nodeName"), "host-0002");
    Ok(())
}

async fn a_volume_is_where_its_pod_is(cx: Cx) -> Result {
    cx.create(&PVC, claim("a", "zonal", "1Gi")).await?;
    cx.create(&POD, pod("p", "a", ("topology.kubernetes.io/zone", "lab-c"))).await?;
    let claim = bound(&cx, "a").await?;
    let volume = cx.until(&PV, &Key::cluster(claim.text("/spec/volumeName")), |_| true).await?;
    assert_eq!(
        volume.at("/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0"),
        &json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["lab-c"]})
    );
    Ok(())
}

async fn no_host_in_the_zone(cx: Cx) -> Result {
    cx.create(&PVC, claim("a", "zonal", "1Gi")).await?;
    cx.create(&POD, pod("p", "a", ("topology.kubernetes.io/zone", "nowhere"))).await?;
    settle(&cx).await?;
    assert!(is_pending(&cx, "a").await?, "a volume was made in no zone");
    // A class that allows only another zone than the node's gives nothing either.
    let zones =
        json!([{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["lab-a"]}]}]);
    let class = class(
        &cx,
        "ebs.csi.aws.com",
        json!({
            "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": zones,
        }),
    )
    .await?;
    let mut other = claim("b", &class, "1Gi");
    other.set_annotation(SELECTED, "host-0002");
    cx.create(&PVC, other).await?;
    let event = cx.until_event("b", "ProvisioningFailed").await?;
    assert!(event.text("/message").contains("error generating accessibility requirements"), "{event}");
    assert!(is_pending(&cx, "b").await?);
    drop_class(&cx).await
}

async fn a_node_without_the_driver(cx: Cx) -> Result {
    let mut lost = claim("a", "local", "1Gi");
    lost.set_annotation(SELECTED, "host-nowhere");
    cx.create(&PVC, lost).await?;
    let event = cx.until_event("a", "ProvisioningFailed").await?;
    assert!(event.text("/message").contains("node \"host-nowhere\" not found"), "{event}");
    // Another node may do.
    cx.until(&PVC, &cx.key("a"), |claim| claim.annotation(SELECTED).is_empty()).await?;
    Ok(())
}

async fn a_shape_the_driver_cannot_do(cx: Cx) -> Result {
    let mut shared = claim("shared", "replicated", "1Gi");
    shared.set("/spec/accessModes", json!(["ReadWriteMany"]));
    cx.create(&PVC, shared.clone()).await?;
    let event = cx.until_event("shared", "ProvisioningFailed").await?;
    assert_eq!(
        event.text("/message"),
        "failed to provision volume with StorageClass \"replicated\": rpc error: code = InvalidArgument desc = multi \
         node access modes are only supported on rbd `block` type volumes"
    );
    let mut raw = claim("raw", "local", "1Gi");
    raw.set("/spec/volumeMode", "Block".into());
    raw.set_annotation(SELECTED, "host-0001");
    cx.create(&PVC, raw).await?;
    cx.until_event("raw", "ProvisioningFailed").await?;
    assert!(is_pending(&cx, "shared").await? && is_pending(&cx, "raw").await?);
    shared.set("/metadata/name", "block".into());
    shared.set("/spec/volumeMode", "Block".into());
    let (_, made) = volume(&cx, shared).await?;
    assert_eq!(made.at("/spec/csi/fsType"), &json!(null));
    Ok(())
}

async fn no_room(cx: Cx) -> Result {
    let class = class(&cx, RBD, json!({})).await?;
    outside(&cx).limit(&class, Some(3 << 30));
    volume(&cx, claim("a", &class, "2Gi")).await?;
    cx.create(&PVC, claim("b", &class, "2Gi")).await?;
    let event = cx.until_event("b", "ProvisioningFailed").await?;
    assert!(event.text("/message").contains("code = ResourceExhausted"), "{event}");
    assert!(is_pending(&cx, "b").await?);
    // There is room when something goes.
    cx.client.delete(&PVC, &cx.key("a"), "").await?;
    bound(&cx, "b").await?;
    assert_eq!(outside(&cx).free(&class), Some(1 << 30));
    drop_class(&cx).await
}

async fn no_room_on_the_node(cx: Cx) -> Result {
    let class = class(&cx, "ebs.csi.aws.com", json!({"volumeBindingMode": "WaitForFirstConsumer"})).await?;
    outside(&cx).limit(&class, Some(1 << 30));
    let mut large = claim("a", &class, "2Gi");
    large.set_annotation(SELECTED, "host-0001");
    cx.create(&PVC, large).await?;
    cx.until_event("a", "ProvisioningFailed").await?;
    cx.until(&PVC, &cx.key("a"), |claim| claim.annotation(SELECTED).is_empty()).await?;
    outside(&cx).limit(&class, None);
    settle(&cx).await?;
    assert!(is_pending(&cx, "a").await?, "nobody selected a node");
    drop_class(&cx).await
}

async fn a_class_breaks_and_is_mended(cx: Cx) -> Result {
    let class = class(&cx, RBD, json!({})).await?;
    outside(&cx).fail(&class, "volume.provision", "rpc error: code = Internal desc = no monitor answers");
    cx.create(&PVC, claim("a", &class, "1Gi")).await?;
    let event = cx.until_event("a", "ProvisioningFailed").await?;
    assert!(event.text("/message").ends_with("no monitor answers"), "{event}");
    volume(&cx, claim("b", "replicated", "1Gi")).await?;
    assert!(is_pending(&cx, "a").await?);
    outside(&cx).mend(&class);
    bound(&cx, "a").await?;
    drop_class(&cx).await
}

async fn a_class_hangs(cx: Cx) -> Result {
    let class = class(&cx, RBD, json!({})).await?;
    outside(&cx).hang(&class, "volume.provision");
    cx.create(&PVC, claim("a", &class, "1Gi")).await?;
    cx.until_event("a", "Provisioning").await?;
    settle(&cx).await?;
    assert!(is_pending(&cx, "a").await?);
    outside(&cx).mend(&class);
    bound(&cx, "a").await?;
    drop_class(&cx).await
}

async fn no_class(cx: Cx) -> Result {
    cx.create(&PVC, claim("a", &cx.namespace, "1Gi")).await?;
    let event = cx.until_event("a", "ProvisioningFailed").await?;
    assert_eq!(event.text("/message"), format!("storageclass.storage.k8s.io \"{}\" not found", cx.namespace));
    assert!(is_pending(&cx, "a").await?);
    class(&cx, RBD, json!({})).await?;
    bound(&cx, "a").await?;
    drop_class(&cx).await
}

async fn a_volume_is_kept(cx: Cx) -> Result {
    let (_, made) = volume(&cx, claim("a", "replicated", "1Gi")).await?;
    let key = Key::of(&made);
    let policy = json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}});
    cx.client.merge(&PV, &key, &policy).await?;
    cx.until(&PV, &key, |volume| {
        !volume.has_finalizer("external-provisioner.volume.kubernetes.io/finalizer")
    })
    .await?;
    cx.client.delete(&PVC, &cx.key("a"), "").await?;
    cx.until(&PV, &key, |volume| volume.text("/status/phase") == "Released").await?;
    settle(&cx).await?;
    let kept = cx.client.get(&PV, &key).await?.unwrap_or_default();
    assert_eq!(kept.text("/status/phase"), "Released");
    let handle = made.text("/spec/csi/volumeHandle");
    assert!(cx.infra.context().world.volumes.get(handle).is_some());
    cx.client.delete(&PV, &key, "").await?;
    cx.until_gone(&PV, &key).await
}

async fn a_volume_is_deleted_before_its_claim(cx: Cx) -> Result {
    let (_, made) = volume(&cx, claim("a", "replicated", "1Gi")).await?;
    let (key, handle) = (Key::of(&made), made.text("/spec/csi/volumeHandle"));
    cx.client.delete(&PV, &key, "").await?;
    settle(&cx).await?;
    let kept = cx.client.get(&PV, &key).await?.unwrap_or_default();
    assert!(kept.is_deleting() && kept.text("/status/phase") == "Bound", "{kept}");
    cx.client.delete(&PVC, &cx.key("a"), "").await?;
    cx.until_gone(&PV, &key).await?;
    // The policy says that what is behind goes too, whoever was deleted first.
    assert!(cx.infra.context().world.volumes.get(handle).is_none());
    Ok(())
}

async fn quotas_count(cx: Cx) -> Result {
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {
        "requests.storage": "5Gi", "persistentvolumeclaims": "3",
        "replicated.storageclass.storage.k8s.io/requests.storage": "3Gi",
    }}});
    cx.create(&RESOURCE_QUOTA, quota).await?;
    cx.until(&RESOURCE_QUOTA, &cx.key("q"), |quota| quota.at("/status/hard").is_object()).await?;
    volume(&cx, claim("a", "replicated", "2Gi")).await?;
    let refused = cx.create(&PVC, claim("b", "replicated", "2Gi")).await;
    let words = refused.err().map(|failure| failure.to_string()).unwrap_or_default();
    assert!(
        words.contains(
            "exceeded quota: q, requested: replicated.storageclass.storage.k8s.io/requests.storage=2Gi"
        ),
        "{words}"
    );
    volume(&cx, claim("b", "unknown", "2Gi")).await?;
    let refused = cx.create(&PVC, claim("c", "unknown", "2Gi")).await;
    assert!(refused.is_err_and(|failure| {
        failure.to_string().contains("requests.storage=2Gi, used: requests.storage=4Gi")
    }));
    volume(&cx, claim("c", "unknown", "1Gi")).await?;
    assert!(cx.create(&PVC, claim("d", "unknown", "1Mi")).await.is_err());
    Ok(())
}

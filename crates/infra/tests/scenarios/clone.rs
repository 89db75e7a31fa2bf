//! Clones: each way of making one, and what keeps one from being made.

use serde_json::{Value, json};
use trellis_infra::client::Identity;
use trellis_infra::kinds::{
    DATA_VOLUME, NAMESPACE, POD, PVC, STORAGE_CLASS, VOLUME_CLONE_SOURCE, VOLUME_SNAPSHOT,
};
use trellis_infra::object::{Key, Object as _};

use crate::context::{Cx, History, Scenario};
use crate::import::{consumer, content, meanwhile, phases, registry, rule, until_phase, volume};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(a_snapshot_makes_a_clone),
        scenario!(the_storage_makes_a_clone),
        scenario!(a_clone_is_copied),
        scenario!(a_clone_is_copied_into_a_claim_of_its_own),
        scenario!(a_clone_of_a_snapshot),
        scenario!(a_clone_of_a_snapshot_that_is_not_ready),
        scenario!(a_clone_of_equal_size_never_goes_back),
        scenario!(without_a_source_a_clone_waits),
        scenario!(a_source_in_use_is_not_copied),
        scenario!(a_clone_from_elsewhere_needs_a_right),
        scenario!(a_clone_waits_for_its_consumer),
    ]
}

/// A clone of a claim of the scenario's namespace, as large as that or of a size of its own.
fn clone_of(cx: &Cx, name: &str, source: &str, size: Option<&str>) -> Value {
    let mut clone = json!({
        "metadata": {"name": name},
        "spec": {"source": {"pvc": {"namespace": cx.namespace, "name": source}}, "storage": {}},
    });
    if let Some(size) = size {
        clone["spec"]["storage"]["resources"] = json!({"requests": {"storage": size}});
    }
    clone
}

/// A volume with something on it.
async fn golden(cx: &Cx) -> Result {
    cx.create(&DATA_VOLUME, volume("golden", "2Gi", registry())).await?;
    until_phase(cx, &cx.key("golden"), "Succeeded").await?;
    Ok(())
}

/// Whether the phases were these, in this order; others in between are not allowed.
fn went(history: &mut History, expected: &[&str]) {
    let seen = phases(history);
    assert_eq!(seen, expected);
}

/// Nothing that was made on the way is left.
async fn is_tidy(cx: &Cx, key: &Key) -> Result {
    let claim = cx.until(&PVC, key, |claim| claim.list("/metadata/finalizers").len() == 1).await?;
    cx.until_gone(&PVC, &cx.key(&format!("tmp-pvc-{}", claim.uid()))).await?;
    cx.until_gone(&VOLUME_SNAPSHOT, &cx.key(&format!("tmp-snapshot-{}", claim.uid()))).await?;
    cx.until_gone(&POD, &cx.key(&format!("prep-{}", claim.uid()))).await?;
    let volume = cx.until(&DATA_VOLUME, key, |_| true).await?;
    cx.until_gone(&VOLUME_CLONE_SOURCE, &cx.key(&format!("volume-clone-source-{}", volume.uid()))).await
}

async fn a_snapshot_makes_a_clone(cx: Cx) -> Result {
    golden(&cx).await?;
    let key = cx.key("a");
    let mut history = cx.follow(&DATA_VOLUME, &key).await;
    // Larger than its source: it has to grow on the way.
    cx.create(&DATA_VOLUME, clone_of(&cx, "a", "golden", Some("3Gi"))).await?;
    let done = until_phase(&cx, &key, "Succeeded").await?;
    went(
        &mut history,
        &[
            "CloneScheduled",
            "SnapshotForSmartCloneInProgress",
            "CloneFromSnapshotSourceInProgress",
            "PrepClaimInProgress",
            "RebindInProgress",
            "Succeeded",
        ],
    );
    assert_eq!(done.annotation("cdi.kubevirt.io/cloneType"), "snapshot");
    assert_eq!(done.text("/status/progress"), "100.0%");
    assert_eq!(content(&cx, &key).await?, content(&cx, &cx.key("golden")).await?);
    for reason in ["CloneScheduled", "SnapshotForSmartCloneInProgress", "RebindInProgress", "CloneSucceeded"]
    {
        cx.until_event("a", reason).await?;
    }
    is_tidy(&cx, &key).await
}

/// A class like the default one that wants its clones made in some way; gone with the scenario.
async fn class_with(cx: &Cx, strategy: &str) -> Result<String> {
    let name = format!("clones-by-{strategy}");
    let class = cx.client.get(&STORAGE_CLASS, &Key::cluster("replicated")).await?.ok_or("no class")?;
    let mut class = json!({
        "metadata": {"name": name, "annotations": {"cdi.kubevirt.io/clone-strategy": strategy}},
        "provisioner": class["provisioner"], "parameters": class["parameters"],
        "allowVolumeExpansion": true, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
    });
    if class["parameters"].is_null() {
        class.unset("/parameters");
    }
    cx.client.create_if_absent(&STORAGE_CLASS, class).await?;
    let profile = Key::cluster(&name);
    let told = |profile: &Value| profile.text("/status/cloneStrategy") == strategy;
    cx.until(&trellis_infra::kinds::STORAGE_PROFILE, &profile, told).await?;
    Ok(name)
}

async fn the_storage_makes_a_clone(cx: Cx) -> Result {
    golden(&cx).await?;
    let class = class_with(&cx, "csi-clone").await?;
    let key = cx.key("a");
    let mut history = cx.follow(&DATA_VOLUME, &key).await;
    let mut clone = clone_of(&cx, "a", "golden", Some("3Gi"));
    clone["spec"]["storage"]["storageClassName"] = class.as_str().into();
    cx.create(&DATA_VOLUME, clone).await?;
    let done = until_phase(&cx, &key, "Succeeded").await?;
    went(
        &mut history,
        &["CloneScheduled", "CSICloneInProgress", "PrepClaimInProgress", "RebindInProgress", "Succeeded"],
    );
    assert_eq!(done.annotation("cdi.kubevirt.io/cloneType"), "csi-clone");
    assert_eq!(content(&cx, &key).await?, content(&cx, &cx.key("golden")).await?);
    is_tidy(&cx, &key).await?;
    cx.client.delete(&STORAGE_CLASS, &Key::cluster(&class), "").await?;
    Ok(())
}

async fn a_clone_is_copied(cx: Cx) -> Result {
    golden(&cx).await?;
    let key = cx.key("a");
    let mut history = cx.follow(&DATA_VOLUME, &key).await;
    // A device cannot become a file system by a snapshot.
    let mut clone = clone_of(&cx, "a", "golden", Some("2Gi"));
    clone["spec"]["storage"]["volumeMode"] = "Filesystem".into();
    cx.create(&DATA_VOLUME, clone).await?;
    until_phase(&cx, &key, "Succeeded").await?;
    went(&mut history, &["CloneScheduled", "CloneInProgress", "RebindInProgress", "Succeeded"]);
    let claim = cx.until(&PVC, &key, |_| true).await?;
    assert_eq!(
        claim.annotation("cdi.kubevirt.io/cloneFallbackReason"),
        "The volume modes of source and target are incompatible"
    );
    cx.until_event("a", "IncompatibleVolumeModes").await?;
    assert_eq!(content(&cx, &key).await?, content(&cx, &cx.key("golden")).await?);
    is_tidy(&cx, &key).await
}

async fn a_clone_is_copied_into_a_claim_of_its_own(cx: Cx) -> Result {
    golden(&cx).await?;
    let key = cx.key("a");
    let mut history = cx.follow(&DATA_VOLUME, &key).await;
    let mut clone = clone_of(&cx, "a", "golden", Some("2Gi"));
    clone.set_annotation("cdi.kubevirt.io/storage.usePopulator", "false");
    cx.create(&DATA_VOLUME, clone).await?;
    until_phase(&cx, &key, "Succeeded").await?;
    let seen = phases(&mut history);
    assert_eq!(seen.first().map(String::as_str), Some("CloneScheduled"));
    assert!(seen.contains(&"CloneInProgress".to_owned()), "{seen:?}");
    assert_eq!(content(&cx, &key).await?, content(&cx, &cx.key("golden")).await?);
    cx.until(&PVC, &key, |claim| claim.annotation("k8s.io/CloneOf") == "true").await?;
    Ok(())
}

async fn a_clone_of_a_snapshot(cx: Cx) -> Result {
    golden(&cx).await?;
    let spec = json!({"source": {"persistentVolumeClaimName": "golden"}});
    cx.create(&VOLUME_SNAPSHOT, json!({"metadata": {"name": "s"}, "spec": spec})).await?;
    cx.until(&VOLUME_SNAPSHOT, &cx.key("s"), |snapshot| snapshot.flag("/status/readyToUse")).await?;
    let key = cx.key("a");
    let mut history = cx.follow(&DATA_VOLUME, &key).await;
    let source = json!({"snapshot": {"namespace": cx.namespace, "name": "s"}});
    cx.create(&DATA_VOLUME, volume("a", "3Gi", source)).await?;
    until_phase(&cx, &key, "Succeeded").await?;
    went(
        &mut history,
        &[
            "CloneScheduled",
            "CloneFromSnapshotSourceInProgress",
            "PrepClaimInProgress",
            "RebindInProgress",
            "Succeeded",
        ],
    );
    assert_eq!(content(&cx, &key).await?, content(&cx, &cx.key("golden")).await?);
    assert!(cx.client.get(&VOLUME_SNAPSHOT, &cx.key("s")).await?.is_some(), "the source stays");
    Ok(())
}

async fn a_clone_of_a_snapshot_that_is_not_ready(cx: Cx) -> Result {
    golden(&cx).await?;
    let stages = &cx.infra.context().stages;
    stages.add(rule(json!({"name": cx.namespace, "stage": "snapshot.create", "effect": "hang"})));
    let spec = json!({"source": {"persistentVolumeClaimName": "golden"}});
    cx.create(&VOLUME_SNAPSHOT, json!({"metadata": {"name": "s"}, "spec": spec})).await?;
    let key = cx.key("a");
    let mut history = cx.follow(&DATA_VOLUME, &key).await;
    let source = json!({"snapshot": {"namespace": cx.namespace, "name": "s"}});
    // How large it is, is for the snapshot to say.
    let clone = json!({"metadata": {"name": "a"}, "spec": {"source": source, "storage": {}}});
    cx.create(&DATA_VOLUME, clone).await?;
    until_phase(&cx, &key, "CloneScheduled").await?;
    meanwhile(&cx).await?;
    let writes = history.states().len();
    assert!(writes < 10, "{writes} writes while nothing happens");
    assert_eq!(phases(&mut history), ["CloneScheduled"]);
    stages.remove(&cx.namespace);
    until_phase(&cx, &key, "Succeeded").await?;
    assert_eq!(content(&cx, &key).await?, content(&cx, &cx.key("golden")).await?);
    Ok(())
}

async fn a_clone_of_equal_size_never_goes_back(cx: Cx) -> Result {
    golden(&cx).await?;
    let class = class_with(&cx, "csi-clone").await?;
    for (name, class) in [("by-snapshot", "replicated"), ("by-storage", class.as_str())] {
        let key = cx.key(name);
        let mut history = cx.follow(&PVC, &key).await;
        let mut clone = clone_of(&cx, name, "golden", Some("2Gi"));
        clone["spec"]["storage"]["storageClassName"] = class.into();
        cx.create(&DATA_VOLUME, clone).await?;
        until_phase(&cx, &key, "Succeeded").await?;
        let mut seen = history.texts("/metadata/annotations/cdi.kubevirt.io~1clonePhase");
        let steps = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), steps, "a step came twice: {:?}", history.texts("/metadata/annotations"));
    }
    cx.client.delete(&STORAGE_CLASS, &Key::cluster(&class), "").await?;
    Ok(())
}

async fn without_a_source_a_clone_waits(cx: Cx) -> Result {
    cx.create(&DATA_VOLUME, clone_of(&cx, "a", "golden", None)).await?;
    let event = cx.until_event("a", "CloneWithoutSource").await?;
    assert_eq!(event.text("/message"), "The source pvc golden doesn't exist");
    meanwhile(&cx).await?;
    until_phase(&cx, &cx.key("a"), "CloneScheduled").await?;
    assert!(cx.client.get(&PVC, &cx.key("a")).await?.is_none());
    golden(&cx).await?;
    until_phase(&cx, &cx.key("a"), "Succeeded").await?;
    // Its size is that of its source.
    let claim = cx.until(&PVC, &cx.key("a"), |_| true).await?;
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "2Gi");
    Ok(())
}

async fn a_source_in_use_is_not_copied(cx: Cx) -> Result {
    golden(&cx).await?;
    let mut pod = consumer("p", "golden");
    pod["spec"]["containers"][0]["volumeMounts"].take();
    pod["spec"]["containers"][0]["volumeDevices"] = json!([{"name": "v", "devicePath": "/dev/v"}]);
    cx.create(&POD, pod).await?;
    cx.until(&POD, &cx.key("p"), |pod| pod.text("/status/phase") == "Running").await?;
    let key = cx.key("a");
    let mut clone = clone_of(&cx, "a", "golden", Some("2Gi"));
    clone["spec"]["storage"]["volumeMode"] = "Filesystem".into();
    cx.create(&DATA_VOLUME, clone).await?;
    let event = cx.until_event("a", "CloneSourceInUse").await?;
    assert!(event.text("/message").ends_with("/p using PersistentVolumeClaim golden"), "{event}");
    meanwhile(&cx).await?;
    until_phase(&cx, &key, "CloneScheduled").await?;
    cx.client.delete(&POD, &cx.key("p"), "").await?;
    until_phase(&cx, &key, "Succeeded").await?;
    Ok(())
}

async fn a_clone_from_elsewhere_needs_a_right(cx: Cx) -> Result {
    const NOBODY: Identity = Identity { program: "nobody", user: "nobody" };
    golden(&cx).await?;
    let elsewhere = format!("{}-else", cx.namespace);
    cx.client.create_if_absent(&NAMESPACE, json!({"metadata": {"name": elsewhere}})).await?;
    let mut clone = clone_of(&cx, "a", "golden", None);
    clone["metadata"]["namespace"] = elsewhere.as_str().into();
    // The harness acts with all rights; whoever has none is asked about by the webhook itself.
    let refused = without_rights(&cx, NOBODY, &clone).await?;
    let words =
        format!("User nobody has insufficient permissions in clone source namespace {}", cx.namespace);
    assert!(refused.contains(&words), "{refused}");
    cx.client.create(&DATA_VOLUME, clone).await?;
    let key = Key::new(&elsewhere, "a");
    let done = until_phase(&cx, &key, "Succeeded").await?;
    assert!(!done.annotation("cdi.kubevirt.io/storage.clone.token").is_empty());
    assert_eq!(content(&cx, &key).await?, content(&cx, &cx.key("golden")).await?);
    let clone_source = format!("volume-clone-source-{}", done.uid());
    cx.until_gone(&VOLUME_CLONE_SOURCE, &cx.key(&clone_source)).await?;
    cx.client.delete(&NAMESPACE, &Key::cluster(&elsewhere), "").await?;
    Ok(())
}

/// What the webhook says to somebody who may write DataVolumes and nothing else.
async fn without_rights(cx: &Cx, who: Identity, volume: &Value) -> Result<String> {
    use http_body_util::BodyExt as _;
    let (client, server) = tokio::io::duplex(64 * 1024);
    let service = trellis_infra::service::Service::new(cx.infra.context().clone());
    tokio::spawn(service.connection(server));
    let io = hyper_util::rt::TokioIo::new(client);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    tokio::spawn(connection);
    let review = json!({"request": {
        "uid": "u", "operation": "CREATE", "namespace": volume.namespace(), "name": volume.name(),
        "resource": {"resource": "datavolumes"}, "object": volume,
        "userInfo": {"username": who.user, "groups": ["system:authenticated"]},
    }});
    let body = http_body_util::Full::new(hyper::body::Bytes::from(review.to_string()));
    let request = http::Request::post("/datavolume-mutate").header("host", "cdi-api").body(body)?;
    let answer = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
    let answer: Value = serde_json::from_slice(&answer)?;
    Ok(answer.text("/response/status/message").to_owned())
}

async fn a_clone_waits_for_its_consumer(cx: Cx) -> Result {
    let mut source = volume("golden", "1Gi", json!({"blank": {}}));
    source["spec"]["storage"]["storageClassName"] = "zonal".into();
    source.set_annotation("cdi.kubevirt.io/storage.bind.immediate.requested", "true");
    cx.create(&DATA_VOLUME, source).await?;
    until_phase(&cx, &cx.key("golden"), "Succeeded").await?;
    let key = cx.key("a");
    let mut clone = clone_of(&cx, "a", "golden", None);
    clone["spec"]["storage"]["storageClassName"] = "zonal".into();
    cx.create(&DATA_VOLUME, clone).await?;
    until_phase(&cx, &key, "PendingPopulation").await?;
    meanwhile(&cx).await?;
    until_phase(&cx, &key, "PendingPopulation").await?;
    let mut pod = consumer("p", "a");
    pod["spec"]["containers"][0]["volumeMounts"].take();
    pod["spec"]["containers"][0]["volumeDevices"] = json!([{"name": "v", "devicePath": "/dev/v"}]);
    cx.create(&POD, pod).await?;
    until_phase(&cx, &key, "Succeeded").await?;
    cx.until(&POD, &cx.key("p"), |pod| pod.text("/status/phase") == "Running").await?;
    Ok(())
}

//! Imports, uploads, and what repeats them.

#[path = "import/http.rs"]
mod http;
#[path = "import/sources.rs"]
mod sources;
#[path = "import/upload.rs"]
mod upload;

use std::sync::Arc;

use serde_json::{Value, json};
use trellis_infra::kinds::{
    CDI, CDI_CONFIG, DATA_VOLUME, POD, PV, PVC, STORAGE_PROFILE, VOLUME_IMPORT_SOURCE,
};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::stages::Rule;
use trellis_infra::world::hosts::Host;
use trellis_infra::world::volumes::Content;

use crate::context::{Cx, History, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = vec![
        scenario!(the_installation_is_deployed),
        scenario!(classes_have_profiles),
        scenario!(a_populator_imports),
        scenario!(a_claim_is_filled_itself),
        scenario!(a_blank_volume_is_empty),
        scenario!(without_a_profile_there_is_no_claim),
        scenario!(without_a_class_there_is_no_claim),
        scenario!(without_a_consumer_nothing_is_imported),
        scenario!(without_a_consumer_a_claim_of_its_own_waits),
        scenario!(a_request_for_immediate_binding_is_enough),
        scenario!(a_failing_import_is_tried_again),
        scenario!(an_importer_ends_with_its_host).with(|_| {}),
        scenario!(an_import_hangs_as_long_as_its_rule),
        scenario!(an_image_that_does_not_fit_is_refused),
        scenario!(a_volume_deleted_in_between_leaves_nothing),
        scenario!(a_claim_is_adopted_only_if_allowed),
        scenario!(what_cannot_be_is_refused),
    ];
    all.extend(http::scenarios());
    all.extend(sources::scenarios());
    all.extend(upload::scenarios());
    all
}

/// A DataVolume of the default class.
#[allow(clippy::needless_pass_by_value, reason = "literals read better without borrowing")]
pub(crate) fn volume(name: &str, size: &str, source: Value) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"source": source, "storage": {"resources": {"requests": {"storage": size}}}},
    })
}

/// A source in a registry.
pub(crate) fn registry() -> Value {
    json!({"registry": {"url": "docker://images/fedora"}})
}

/// Waits until a DataVolume is in a phase.
pub(crate) async fn until_phase(cx: &Cx, key: &Key, phase: &str) -> Result<Arc<Value>> {
    cx.until(&DATA_VOLUME, key, |volume| volume.text("/status/phase") == phase).await
}

/// The phases so far, without the time before there was one.
pub(crate) fn phases(history: &mut History) -> Vec<String> {
    history.texts("/status/phase").into_iter().filter(|phase| !phase.is_empty()).collect()
}

/// What is on the volume behind a claim.
pub(crate) async fn content(cx: &Cx, key: &Key) -> Result<Content> {
    let claim = cx.until(&PVC, key, |claim| claim.text("/status/phase") == "Bound").await?;
    let volume = Key::cluster(claim.text("/spec/volumeName"));
    let volume = cx.until(&PV, &volume, |_| true).await?;
    let held = cx.infra.context().world.volumes.get(volume.text("/spec/csi/volumeHandle"));
    Ok(held.map(|volume| volume.content).unwrap_or_default())
}

/// Lets everything happen that can: another volume is imported from beginning to end.
pub(crate) async fn meanwhile(cx: &Cx) -> Result {
    cx.create(&DATA_VOLUME, volume("meanwhile", "1Gi", json!({"blank": {}}))).await?;
    until_phase(cx, &cx.key("meanwhile"), "Succeeded").await?;
    cx.client.delete(&DATA_VOLUME, &cx.key("meanwhile"), "").await?;
    cx.until_gone(&DATA_VOLUME, &cx.key("meanwhile")).await
}

/// A rule of the table of stages.
pub(crate) fn rule(value: Value) -> Rule {
    serde_json::from_value(value).expect("a rule")
}

/// A pod that uses a claim.
pub(crate) fn consumer(name: &str, claim: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "image": "pause", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}],
        },
    })
}

async fn the_installation_is_deployed(cx: Cx) -> Result {
    let cdi = cx.until(&CDI, &Key::cluster("cdi"), |cdi| cdi.text("/status/phase") == "Deployed").await?;
    assert_eq!(cdi.text("/status/observedVersion"), "v1.66.0");
    assert!(cdi.condition_holds("Available"));
    let set_up = |config: &Value| config.text("/status/filesystemOverhead/global") == "0.06";
    let config = cx.until(&CDI_CONFIG, &Key::cluster("config"), set_up).await?;
    let requests = config.at("/status/defaultPodResourceRequirements/requests");
    assert_eq!(requests, &json!({"cpu": "100m", "memory": "60M"}));
    Ok(())
}

async fn classes_have_profiles(cx: Cx) -> Result {
    let told = |profile: &Value| profile.condition("Recognized").is_object();
    let replicated = cx.until(&STORAGE_PROFILE, &Key::cluster("replicated"), told).await?;
    assert!(replicated.condition_holds("Recognized"));
    assert_eq!(replicated.text("/status/provisioner"), "rbd.csi.ceph.com");
    let first = replicated.at("/status/claimPropertySets/0");
    assert_eq!(first, &json!({"accessModes": ["ReadWriteMany"], "volumeMode": "Block"}));
    assert_eq!(replicated.text("/status/cloneStrategy"), "snapshot");
    let local = cx.until(&STORAGE_PROFILE, &Key::cluster("local"), told).await?;
    assert_eq!(local.text("/status/cloneStrategy"), "copy");
    let unknown = cx.until(&STORAGE_PROFILE, &Key::cluster("unknown"), told).await?;
    assert!(!unknown.condition_holds("Recognized"));
    assert!(unknown.list("/status/claimPropertySets").is_empty());
    Ok(())
}

async fn a_populator_imports(cx: Cx) -> Result {
    let key = cx.key("a");
    let mut history = cx.follow(&DATA_VOLUME, &key).await;
    let made = cx.create(&DATA_VOLUME, volume("a", "2Gi", registry())).await?;
    let claim = cx.until(&PVC, &key, |_| true).await?;
    assert!(claim.is_controlled_by(made.uid()));
    let source = format!("volume-import-source-{}", made.uid());
    assert_eq!(claim["spec"]["dataSourceRef"]["name"], source.as_str());
    let prime = cx.key(&format!("prime-{}", claim.uid()));
    let mut primes = cx.follow(&PVC, &prime).await;
    let mut pods = cx.follow(&POD, &cx.key(&format!("importer-{}", prime.name))).await;
    let done = until_phase(&cx, &key, "Succeeded").await?;
    assert_eq!(phases(&mut history), ["Pending", "ImportScheduled", "ImportInProgress", "Succeeded"]);
    assert_eq!(done.text("/status/progress"), "100.0%");
    assert_eq!(done.text("/status/claimName"), "a");
    let ready = done.condition("Ready");
    assert_eq!(ready["status"], "True");
    assert_eq!(done.condition("Bound")["message"], "PVC a Bound");
    for reason in ["ImportScheduled", "ImportInProgress", "ImportSucceeded", "Bound"] {
        cx.until_event("a", reason).await?;
    }
    // While the content was made, nobody could use the claim.
    let running = history.states().iter().find(|state| state.text("/status/phase") == "ImportInProgress");
    let running = running.ok_or("it was never in progress")?;
    assert_eq!(running.condition("Bound")["status"], "False");
    assert_eq!(running.condition("Ready")["reason"], "TransferRunning");
    assert!(primes.states().iter().any(|prime| prime.is_controlled_by(claim.uid())));
    assert!(pods.texts("/status/phase").contains(&"Running".to_owned()));
    cx.until_gone(&PVC, &prime).await?;
    cx.until_gone(&VOLUME_IMPORT_SOURCE, &cx.key(&source)).await?;
    let content = content(&cx, &key).await?;
    assert!(content.bootable && content.digest.starts_with("sha256:"), "{content:?}");
    Ok(())
}

async fn a_claim_is_filled_itself(cx: Cx) -> Result {
    let key = cx.key("a");
    let mut history = cx.follow(&DATA_VOLUME, &key).await;
    let mut wanted = volume("a", "1Gi", json!({"blank": {}}));
    wanted.set_annotation("cdi.kubevirt.io/storage.usePopulator", "false");
    cx.create(&DATA_VOLUME, wanted).await?;
    until_phase(&cx, &key, "Succeeded").await?;
    assert_eq!(
        phases(&mut history),
        ["Pending", "PVCBound", "ImportScheduled", "ImportInProgress", "Succeeded"]
    );
    let claim = cx.until(&PVC, &key, |_| true).await?;
    assert!(claim["spec"]["dataSourceRef"].is_null());
    assert_eq!(claim.annotation("cdi.kubevirt.io/storage.import.importPodName"), "importer-a");
    cx.until_gone(&POD, &cx.key("importer-a")).await?;
    Ok(())
}

async fn a_blank_volume_is_empty(cx: Cx) -> Result {
    let key = cx.key("a");
    let mut wanted = volume("a", "1Gi", json!({"blank": {}}));
    wanted["spec"]["storage"]["volumeMode"] = "Filesystem".into();
    wanted["spec"]["priorityClassName"] = "system-node-critical".into();
    cx.create(&DATA_VOLUME, wanted).await?;
    until_phase(&cx, &key, "Succeeded").await?;
    let claim = cx.until(&PVC, &key, |_| true).await?;
    // A file system has to be larger than the disk in it.
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1142278537");
    assert_eq!(claim.annotation("cdi.kubevirt.io/storage.pod.priorityclassname"), "system-node-critical");
    let content = content(&cx, &key).await?;
    assert_eq!((content.bootable, content.digest.as_str()), (false, ""));
    assert!(content.virtual_size >= 1 << 30);
    Ok(())
}

async fn without_a_profile_there_is_no_claim(cx: Cx) -> Result {
    let key = cx.key("a");
    let mut wanted = volume("a", "1Gi", json!({"blank": {}}));
    wanted["spec"]["storage"]["storageClassName"] = "unknown".into();
    cx.create(&DATA_VOLUME, wanted.clone()).await?;
    let event = cx.until_event("a", "ErrClaimNotValid").await?;
    assert!(event.text("/message").contains("StorageProfile unknown"), "{event}");
    meanwhile(&cx).await?;
    let waiting = until_phase(&cx, &key, "Pending").await?;
    assert_eq!(waiting.condition("Bound")["reason"], "ErrClaimNotValid");
    assert!(cx.client.get(&PVC, &key).await?.is_none());
    // With the cause the effect comes.
    wanted["metadata"]["name"] = "b".into();
    wanted["spec"]["storage"]["accessModes"] = json!(["ReadWriteOnce"]);
    wanted["spec"]["storage"]["volumeMode"] = "Filesystem".into();
    cx.create(&DATA_VOLUME, wanted).await?;
    until_phase(&cx, &cx.key("b"), "Succeeded").await?;
    Ok(())
}

async fn without_a_class_there_is_no_claim(cx: Cx) -> Result {
    let key = cx.key("a");
    let mut wanted = volume("a", "1Gi", json!({"blank": {}}));
    wanted["spec"]["storage"]["storageClassName"] = "nowhere".into();
    cx.create(&DATA_VOLUME, wanted).await?;
    let event = cx.until_event("a", "ErrClaimNotValid").await?;
    assert_eq!(event.text("/message"), "storageclass.storage.k8s.io \"nowhere\" not found");
    meanwhile(&cx).await?;
    until_phase(&cx, &key, "Pending").await?;
    assert!(cx.client.get(&PVC, &key).await?.is_none());
    Ok(())
}

async fn without_a_consumer_nothing_is_imported(cx: Cx) -> Result {
    let key = cx.key("a");
    let mut history = cx.follow(&DATA_VOLUME, &key).await;
    let mut wanted = volume("a", "2Gi", registry());
    wanted["spec"]["storage"]["storageClassName"] = "zonal".into();
    cx.create(&DATA_VOLUME, wanted).await?;
    until_phase(&cx, &key, "PendingPopulation").await?;
    meanwhile(&cx).await?;
    until_phase(&cx, &key, "PendingPopulation").await?;
    let claim = cx.until(&PVC, &key, |_| true).await?;
    assert!(cx.client.get(&PVC, &cx.key(&format!("prime-{}", claim.uid()))).await?.is_none());
    // The first consumer decides where the volume is, and then it is filled.
    let mut pod = consumer("p", "a");
    pod["spec"]["containers"][0]["volumeMounts"].take();
    pod["spec"]["containers"][0]["volumeDevices"] = json!([{"name": "v", "devicePath": "/dev/v"}]);
    cx.create(&POD, pod).await?;
    until_phase(&cx, &key, "Succeeded").await?;
    let seen = phases(&mut history);
    let after = seen.iter().skip_while(|phase| *phase != "PendingPopulation").cloned().collect::<Vec<_>>();
    assert_eq!(after, ["PendingPopulation", "ImportScheduled", "ImportInProgress", "Succeeded"]);
    cx.until(&POD, &cx.key("p"), |pod| pod.text("/status/phase") == "Running").await?;
    Ok(())
}

async fn without_a_consumer_a_claim_of_its_own_waits(cx: Cx) -> Result {
    let key = cx.key("a");
    let mut wanted = volume("a", "1Gi", json!({"blank": {}}));
    wanted["spec"]["storage"]["storageClassName"] = "local".into();
    wanted.set_annotation("cdi.kubevirt.io/storage.usePopulator", "false");
    cx.create(&DATA_VOLUME, wanted).await?;
    until_phase(&cx, &key, "WaitForFirstConsumer").await?;
    meanwhile(&cx).await?;
    until_phase(&cx, &key, "WaitForFirstConsumer").await?;
    cx.create(&POD, consumer("p", "a")).await?;
    until_phase(&cx, &key, "Succeeded").await?;
    Ok(())
}

async fn a_request_for_immediate_binding_is_enough(cx: Cx) -> Result {
    let mut wanted = volume("a", "1Gi", json!({"blank": {}}));
    wanted["spec"]["storage"]["storageClassName"] = "local".into();
    wanted.set_annotation("cdi.kubevirt.io/storage.bind.immediate.requested", "true");
    let mut history = cx.follow(&DATA_VOLUME, &cx.key("a")).await;
    cx.create(&DATA_VOLUME, wanted).await?;
    until_phase(&cx, &cx.key("a"), "Succeeded").await?;
    assert!(!phases(&mut history).contains(&"PendingPopulation".to_owned()));
    Ok(())
}

async fn a_failing_import_is_tried_again(cx: Cx) -> Result {
    let url = format!("docker://broken/{}", cx.namespace);
    let endpoint = "/metadata/annotations/cdi.kubevirt.io~1storage.import.endpoint";
    cx.infra.context().stages.add(rule(json!({
        "name": cx.namespace, "stage": "import.copy", "match": [[endpoint, url]], "times": 1,
        "effect": {"fail": "Unable to connect to registry data source: no route to host"},
    })));
    let key = cx.key("a");
    let mut history = cx.follow(&DATA_VOLUME, &key).await;
    cx.create(&DATA_VOLUME, volume("a", "2Gi", json!({"registry": {"url": url}}))).await?;
    let failing = |volume: &Value| volume.condition("Running")["reason"] == "Error";
    let failing = cx.until(&DATA_VOLUME, &key, failing).await?;
    assert_ne!(failing.text("/status/phase"), "Failed");
    let running = failing.condition("Running");
    assert_eq!(running["status"], "False");
    assert!(running.text("/message").ends_with("no route to host"), "{running}");
    let done = until_phase(&cx, &key, "Succeeded").await?;
    assert_eq!(done.number("/status/restartCount"), Some(1));
    assert!(!phases(&mut history).contains(&"Failed".to_owned()));
    Ok(())
}

async fn an_importer_ends_with_its_host(cx: Cx) -> Result {
    let hosts = &cx.infra.context().world.hosts;
    let lost =
        [("off", Host { powered: false, ..Host::UP }), ("unplugged", Host { connected: false, ..Host::UP })];
    for (name, lost) in lost {
        let stuck = cx.rule(json!({"name": name, "stage": "import.copy", "effect": "hang"}))?;
        let key = cx.key(name);
        cx.create(&DATA_VOLUME, volume(name, "2Gi", registry())).await?;
        until_phase(&cx, &key, "ImportInProgress").await?;
        let claim = cx.until(&PVC, &key, |_| true).await?;
        let prime = cx.key(&format!("prime-{}", claim.uid()));
        let importer = cx.key(&format!("importer-{}", prime.name));
        let runs = |pod: &Value| pod.at("/status/containerStatuses/0/state/running").is_object();
        let pod = cx.until(&POD, &importer, runs).await?;
        let node = pod.text("/spec/nodeName");
        let before = content(&cx, &prime).await?;
        hosts.set(node, lost);
        drop(stuck);
        // Long enough for all of the copy, and too short for anybody to give the host up.
        tokio::time::sleep(std::time::Duration::from_secs(35)).await;
        assert_eq!(content(&cx, &prime).await?, before, "{name}: nothing there writes to a volume");
        hosts.set(node, Host::UP);
        let done = until_phase(&cx, &key, "Succeeded").await?;
        assert_eq!(done.number("/status/restartCount").unwrap_or_default() > 0, !lost.powered, "{name}");
        assert_ne!(content(&cx, &key).await?, before);
    }
    Ok(())
}

async fn an_import_hangs_as_long_as_its_rule(cx: Cx) -> Result {
    let name = format!("once in {}", cx.namespace);
    let rule = |name: &str, stage: &str| {
        json!({
            "name": name, "stage": stage, "effect": "hang", "times": 1,
            "match": [["/metadata/namespace", cx.namespace]],
        })
    };
    let stuck = cx.rule(rule(&name, "import.copy"))?;
    cx.create(&DATA_VOLUME, volume("a", "2Gi", registry())).await?;
    until_phase(&cx, &cx.key("a"), "ImportInProgress").await?;
    let long = if cx.infra.context().settings.virtual_start.is_some() { 120 } else { 3 };
    tokio::time::sleep(std::time::Duration::from_secs(long)).await;
    // A rule about something else lets nothing go either.
    let other = cx.rule(rule("something else", "upload.process"))?;
    tokio::time::sleep(std::time::Duration::from_secs(long)).await;
    let held = cx.until(&DATA_VOLUME, &cx.key("a"), |_| true).await?;
    assert_eq!(held.text("/status/phase"), "ImportInProgress");
    drop((stuck, other));
    until_phase(&cx, &cx.key("a"), "Succeeded").await?;
    Ok(())
}

async fn an_image_that_does_not_fit_is_refused(cx: Cx) -> Result {
    let key = cx.key("a");
    cx.create(&DATA_VOLUME, volume("a", "512Mi", registry())).await?;
    let said =
        |volume: &Value| volume.condition("Running").text("/message").contains("larger PVC is required");
    let failing = cx.until(&DATA_VOLUME, &key, said).await?;
    assert_eq!(
        failing.condition("Running").text("/message"),
        "Unable to process data: Virtual image size 1073741824 is larger than the reported available storage \
         536870912. A larger PVC is required."
    );
    assert_ne!(failing.text("/status/phase"), "Failed");
    Ok(())
}

async fn a_volume_deleted_in_between_leaves_nothing(cx: Cx) -> Result {
    let key = cx.key("a");
    let url = format!("docker://slow/{}", cx.namespace);
    let endpoint = "/metadata/annotations/cdi.kubevirt.io~1storage.import.endpoint";
    let stages = &cx.infra.context().stages;
    stages.add(rule(json!({
        "name": cx.namespace, "stage": "import.copy", "match": [[endpoint, url]], "effect": "hang",
    })));
    cx.create(&DATA_VOLUME, volume("a", "2Gi", json!({"registry": {"url": url}}))).await?;
    until_phase(&cx, &key, "ImportInProgress").await?;
    let claim = cx.until(&PVC, &key, |_| true).await?;
    let prime = cx.key(&format!("prime-{}", claim.uid()));
    cx.client.delete(&DATA_VOLUME, &key, "").await?;
    for (kind, key) in [(&DATA_VOLUME, &key), (&PVC, &key), (&PVC, &prime)] {
        cx.until_gone(kind, key).await?;
    }
    cx.until_gone(&POD, &cx.key(&format!("importer-{}", prime.name))).await?;
    stages.remove(&cx.namespace);
    Ok(())
}

async fn a_claim_is_adopted_only_if_allowed(cx: Cx) -> Result {
    let claim = json!({
        "metadata": {"name": "a"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "replicated",
            "resources": {"requests": {"storage": "1Gi"}}},
    });
    cx.create(&PVC, claim).await?;
    cx.until(&PVC, &cx.key("a"), |claim| claim.text("/status/phase") == "Bound").await?;
    let mut wanted = volume("a", "1Gi", json!({"blank": {}}));
    let refused = cx.create(&DATA_VOLUME, wanted.clone()).await;
    let refused = refused.err().ok_or("it was let through")?.to_string();
    assert!(refused.contains(&format!("Destination PVC {}/a already exists", cx.namespace)), "{refused}");
    wanted.set_annotation("cdi.kubevirt.io/allowClaimAdoption", "true");
    let made = cx.create(&DATA_VOLUME, wanted).await?;
    until_phase(&cx, &cx.key("a"), "Succeeded").await?;
    let adopted = cx.until(&PVC, &cx.key("a"), |claim| claim.is_controlled_by(made.uid())).await?;
    assert_eq!(adopted.annotation("cdi.kubevirt.io/storage.populatedFor"), "a");
    Ok(())
}

async fn what_cannot_be_is_refused(cx: Cx) -> Result {
    for (source, message) in [
        (json!({}), "Missing Data volume source"),
        (json!({"blank": {}, "upload": {}}), "Multiple Data volume sources"),
        (json!({"http": {"url": "ftp://a"}}), "Invalid source URL scheme: ftp://a"),
        (json!({"registry": {"url": "http://a"}}), "Illegal registry source URL scheme http://a"),
        (json!({"registry": {"imageStream": "a"}}), "ImageStream is not supported"),
    ] {
        let refused = cx.create(&DATA_VOLUME, volume("a", "1Gi", source)).await;
        let refused = refused.err().ok_or("it was let through")?.to_string();
        assert!(
            refused.contains("admission webhook \"datavolume-validate.cdi.kubevirt.io\" denied"),
            "{refused}"
        );
        assert!(refused.contains(message), "{refused}");
    }
    cx.create(&DATA_VOLUME, volume("a", "1Gi", json!({"blank": {}}))).await?;
    let patch = json!({"spec": {"storage": {"resources": {"requests": {"storage": "2Gi"}}}}});
    let refused = cx.client.merge(&DATA_VOLUME, &cx.key("a"), &patch).await;
    let refused = refused.err().ok_or("it was let through")?.to_string();
    assert!(refused.contains("Cannot update DataVolume Spec"), "{refused}");
    Ok(())
}

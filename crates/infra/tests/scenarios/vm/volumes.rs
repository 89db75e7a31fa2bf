//! Machines that bring their volumes along.

use serde_json::{Value, json};
use trellis_infra::kinds::{DATA_VOLUME, POD, PVC, VM, VMI};
use trellis_infra::object::Object as _;

use super::{add_volume, change, in_order, machine, until_shown};
use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(volumes_are_made_first),
        scenario!(volumes_are_made_even_when_halted),
        scenario!(volumes_can_wait_for_the_start),
        scenario!(a_volume_waits_for_its_consumer),
        scenario!(a_claim_that_is_being_filled_is_waited_for),
        scenario!(volumes_go_with_their_machine),
    ]
}

/// A machine with a blank volume of its own.
fn with_volume(name: &str, strategy: &str, class: &str) -> Value {
    let mut one = machine(name, strategy);
    add_volume(&mut one, "data", &json!({"dataVolume": {"name": format!("{name}-data")}}));
    one.set(
        "/spec/dataVolumeTemplates",
        json!([{
            "metadata": {"name": format!("{name}-data"), "labels": {"mine": "yes"}},
            "spec": {
                "source": {"blank": {}},
                "storage": {
                    "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "storageClassName": class,
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        }]),
    );
    one
}

async fn volumes_are_made_first(cx: Cx) -> Result {
    let key = cx.key("one");
    let mut vms = cx.follow(&VM, &key).await;
    let vm = cx.create(&VM, with_volume("one", "Always", "replicated")).await?;
    let volume = cx.until(&DATA_VOLUME, &cx.key("one-data"), |_| true).await?;
    assert!(volume.is_controlled_by(vm.uid()));
    assert_eq!(volume.label("kubevirt.io/created-by"), vm.uid());
    assert_eq!(volume.label("mine"), "yes");
    cx.until_event("one", "SuccessfulDataVolumeCreate").await?;
    until_shown(&cx, "one", "Running").await?;
    let words = vms.texts("/status/printableStatus");
    assert!(in_order(&words, &["Provisioning", "Starting", "Running"]), "{words:?}");
    let vmi = cx.until(&VMI, &key, |vmi| vmi.condition_holds("DataVolumesReady")).await?;
    let status =
        vmi.list("/status/volumeStatus").iter().find(|one| one["name"] == "data").expect("it is told");
    assert_eq!(status.text("/persistentVolumeClaimInfo/claimName"), "one-data");
    assert_eq!(status.text("/target"), "vdb");
    // A volume of one host keeps the machine there.
    assert_eq!(vmi.condition("LiveMigratable")["reason"], "DisksNotLiveMigratable");
    Ok(())
}

async fn volumes_are_made_even_when_halted(cx: Cx) -> Result {
    cx.create(&VM, with_volume("one", "Halted", "replicated")).await?;
    cx.until(&DATA_VOLUME, &cx.key("one-data"), |volume| volume.text("/status/phase") == "Succeeded").await?;
    until_shown(&cx, "one", "Stopped").await?;
    assert!(cx.client.get(&VMI, &cx.key("one")).await?.is_none());
    Ok(())
}

async fn volumes_can_wait_for_the_start(cx: Cx) -> Result {
    let mut one = with_volume("one", "Halted", "replicated");
    one.set_annotation("kubevirt.io/immediate-data-volume-creation", "false");
    cx.create(&VM, one).await?;
    cx.until(&VM, &cx.key("one"), |vm| vm.text("/status/runStrategy") == "Halted").await?;
    assert!(cx.client.get(&DATA_VOLUME, &cx.key("one-data")).await?.is_none());
    change(&cx, "one", &json!({"runStrategy": "Always"})).await?;
    until_shown(&cx, "one", "Running").await?;
    Ok(())
}

async fn a_volume_waits_for_its_consumer(cx: Cx) -> Result {
    let key = cx.key("one");
    let (mut vms, mut vmis) = (cx.follow(&VM, &key).await, cx.follow(&VMI, &key).await);
    cx.create(&VM, with_volume("one", "Always", "local")).await?;
    until_shown(&cx, "one", "Running").await?;
    let words = vms.texts("/status/printableStatus");
    assert!(in_order(&words, &["WaitingForVolumeBinding", "Running"]), "{words:?}");
    assert!(
        vmis.states()
            .iter()
            .any(|vmi| { vmi.condition_holds("Provisioning") && vmi.text("/status/phase") == "Pending" }),
        "the instance waits for its volume"
    );
    let vmi = cx.until(&VMI, &key, |vmi| vmi.condition("Provisioning").is_null()).await?;
    // What was only there for binding is gone, and the machine runs where its volume is.
    let pods = cx.client.cache(&POD).controlled_by(vmi.uid());
    assert!(
        pods.iter().all(|pod| {
            pod.annotation("kubevirt.io/ephemeral-provisioning").is_empty() || pod.is_deleting()
        })
    );
    let claim = cx.client.get(&PVC, &cx.key("one-data")).await?.expect("it is there");
    let node = claim.annotation("volume.kubernetes.io/selected-node");
    assert!(node.is_empty() || node == vmi.text("/status/nodeName"), "{node}");
    Ok(())
}

async fn a_claim_that_is_being_filled_is_waited_for(cx: Cx) -> Result {
    let name = format!("slow in {}", cx.namespace);
    let stuck = cx.rule(json!({
        "name": name, "stage": "import.blank", "effect": "hang",
        "match": [["/metadata/namespace", cx.namespace]],
    }))?;
    let storage = json!({
        "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "storageClassName": "replicated",
        "resources": {"requests": {"storage": "1Gi"}},
    });
    let volume = json!({"metadata": {"name": "data"}, "spec": {"source": {"blank": {}}, "storage": storage}});
    cx.create(&DATA_VOLUME, volume).await?;
    cx.until(&PVC, &cx.key("data"), |_| true).await?;
    // By the name of the claim, and not by that of the data volume which fills it.
    let mut one = machine("one", "Always");
    add_volume(&mut one, "data", &json!({"persistentVolumeClaim": {"claimName": "data"}}));
    cx.create(&VM, one).await?;
    let vmi = cx.until(&VMI, &cx.key("one"), |vmi| vmi.text("/status/phase") == "Pending").await?;
    let long = if cx.infra.context().settings.virtual_start.is_some() { 60 } else { 3 };
    tokio::time::sleep(std::time::Duration::from_secs(long)).await;
    assert!(cx.client.cache(&POD).controlled_by(vmi.uid()).is_empty(), "nothing runs on half a disk");
    drop(stuck);
    until_shown(&cx, "one", "Running").await?;
    Ok(())
}

async fn volumes_go_with_their_machine(cx: Cx) -> Result {
    cx.create(&VM, with_volume("one", "Always", "replicated")).await?;
    until_shown(&cx, "one", "Running").await?;
    cx.client.delete(&VM, &cx.key("one"), "").await?;
    cx.until_gone(&VM, &cx.key("one")).await?;
    cx.until_gone(&DATA_VOLUME, &cx.key("one-data")).await?;
    cx.until_gone(&PVC, &cx.key("one-data")).await
}

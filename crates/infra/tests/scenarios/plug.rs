//! Volumes that come and go in a hurry.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use trellis_infra::kinds::{VM, VMI};
use trellis_infra::object::Object as _;

use crate::context::{Cx, Scenario};
use crate::machines::machine;
use crate::operate::{VMS, status, volume};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(volumes_that_come_together_have_places_of_their_own),
        scenario!(a_volume_taken_out_early_comes_again),
        scenario!(what_hangs_goes_on_without_its_rule),
    ]
}

async fn volumes_that_come_together_have_places_of_their_own(cx: Cx) -> Result {
    let names = ["one", "two", "three"];
    let held = cx.rule(json!({
        "name": format!("held in {}", cx.namespace), "stage": "hotplug.attach", "effect": "hang",
        "match": [["/metadata/namespace", cx.namespace]],
    }))?;
    let vmi = cx.running(machine("m", "Always")).await?;
    for name in names {
        cx.claim(name).await?;
        cx.put(VMS, "m", "addvolume", &volume(name, name, "")).await?;
    }
    let are_held = |vmi: &Value| {
        names.iter().all(|name| !status(vmi, name).text("/hotplugVolume/attachPodUID").is_empty())
    };
    cx.until(&VMI, &cx.key("m"), are_held).await?;
    // All are mounted in the same moment, and plugged in.
    let _at_once = cx.rule(json!({
        "name": format!("at once in {}", cx.namespace), "stage": "hotplug.attach",
        "match": [["/metadata/namespace", cx.namespace]],
    }))?;
    drop(held);
    let ready = cx
        .until(&VMI, &cx.key("m"), |vmi| names.iter().all(|name| status(vmi, name)["phase"] == "Ready"))
        .await?;
    let targets: BTreeSet<&str> = names.iter().map(|name| status(&ready, name).text("/target")).collect();
    assert_eq!(targets, BTreeSet::from(["sda", "sdb", "sdc"]));
    for disk in cx.below(&vmi)?.plan().disks.iter().filter(|disk| disk.name != "root") {
        assert_eq!(status(&ready, &disk.name).text("/target"), disk.target);
    }
    Ok(())
}

async fn a_volume_taken_out_early_comes_again(cx: Cx) -> Result {
    let vmi = cx.running(machine("m", "Always")).await?;
    cx.claim("data").await?;
    let add = volume("more", "data", "");
    cx.put(VMS, "m", "addvolume", &add).await?;
    // It is on its way into the machine, and nobody has said yet that it is there.
    cx.until(&VMI, &cx.key("m"), |vmi| status(vmi, "more")["phase"] == "MountedToPod").await?;
    cx.put(VMS, "m", "removevolume", &json!({"name": "more"})).await?;
    cx.until(&VMI, &cx.key("m"), |vmi| status(vmi, "more").is_null()).await?;
    cx.put(VMS, "m", "addvolume", &add).await?;
    cx.until(&VMI, &cx.key("m"), |vmi| status(vmi, "more")["phase"] == "Ready").await?;
    assert!(cx.below(&vmi)?.plan().disks.iter().any(|disk| disk.name == "more"));
    Ok(())
}

async fn what_hangs_goes_on_without_its_rule(cx: Cx) -> Result {
    let hang = |stage: &str| {
        cx.rule(json!({
            "name": format!("{stage} hangs in {}", cx.namespace), "stage": stage, "effect": "hang",
            "match": [["/metadata/namespace", cx.namespace]],
        }))
    };
    cx.running(machine("m", "Always")).await?;
    cx.claim("dump").await?;
    let phase = |wanted: &'static str| move |vm: &Value| vm.text("/status/memoryDumpRequest/phase") == wanted;
    let hanging = hang("memory.dump")?;
    cx.put(VMS, "m", "memorydump", &json!({"claimName": "dump"})).await?;
    cx.until(&VM, &cx.key("m"), phase("InProgress")).await?;
    drop(hanging);
    cx.until(&VM, &cx.key("m"), phase("Completed")).await?;
    let hanging = hang("hotplug.attach")?;
    cx.claim("data").await?;
    cx.put(VMS, "m", "addvolume", &volume("more", "data", "")).await?;
    cx.until(&VMI, &cx.key("m"), |vmi| !status(vmi, "more").text("/hotplugVolume/attachPodUID").is_empty())
        .await?;
    drop(hanging);
    cx.until(&VMI, &cx.key("m"), |vmi| status(vmi, "more")["phase"] == "Ready").await?;
    Ok(())
}

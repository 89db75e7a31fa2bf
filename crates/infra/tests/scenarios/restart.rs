//! A lab that ends and is started anew in its folder.

use serde_json::json;
use trellis_infra::kinds::{MIGRATION, NODE, VM, VMI};
use trellis_infra::object::Object as _;

use crate::context::{Cx, Scenario};
use crate::machines::machine;
use crate::operate::{VMS, status, volume};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    // Nothing but a lab can lose the world below its API.
    vec![scenario!(a_lab_goes_on_where_it_was).with(|_| {})]
}

async fn a_lab_goes_on_where_it_was(cx: Cx) -> Result {
    let (still, mover) = (cx.key("still"), cx.key("mover"));
    let before = cx.running(machine("still", "Always")).await?;
    cx.claim("data").await?;
    cx.claim("other").await?;
    for name in ["data", "other"] {
        cx.put(VMS, "still", "addvolume", &volume(name, name, "")).await?;
        cx.until(&VMI, &still, |vmi| status(vmi, name)["phase"] == "Ready").await?;
    }
    let plugged = cx.until(&VMI, &still, |vmi| status(vmi, "data")["phase"] == "Ready").await?;
    cx.running(machine("mover", "Always")).await?;
    cx.until(&VMI, &mover, |vmi| vmi.condition_holds("LiveMigratable")).await?;
    cx.create(&MIGRATION, json!({"metadata": {"name": "move"}, "spec": {"vmiName": "mover"}})).await?;
    let moving =
        cx.until(&VMI, &mover, |vmi| !vmi.text("/status/migrationState/startTimestamp").is_empty()).await?;
    assert!(!moving.flag("/status/migrationState/completed"), "it was too fast for this scenario");

    let cx = cx.restarted().await?;
    // What was being done is done.
    let moved = cx
        .until(&MIGRATION, &cx.key("move"), |one| matches!(one.text("/status/phase"), "Succeeded" | "Failed"))
        .await?;
    assert_eq!(moved.text("/status/phase"), "Succeeded");
    let arrived = cx
        .until(&VMI, &mover, |vmi| {
            vmi.text("/status/nodeName") == moving.text("/status/migrationState/targetNode")
        })
        .await?;
    assert_eq!((arrived.uid(), arrived.text("/status/phase")), (moving.uid(), "Running"));
    // What ran runs, with all its disks at their places.
    let vmi = cx.until(&VMI, &still, |vmi| vmi.condition_holds("AgentConnected")).await?;
    assert_eq!((vmi.uid(), vmi.text("/status/phase")), (before.uid(), "Running"));
    let below = cx.below(&vmi)?;
    let mut state = below.state();
    let complete = state.wait_for(|_| {
        ["root", "data", "other"].iter().all(|name| below.plan().disks.iter().any(|disk| disk.name == *name))
    });
    drop(tokio::time::timeout(crate::context::PATIENCE, complete).await??);
    for name in ["data", "other"] {
        assert_eq!(status(&vmi, name), status(&plugged, name));
        let disks = below.plan().disks;
        let disk = disks.iter().find(|disk| disk.name == name).ok_or("no disk")?;
        assert_eq!(disk.target, status(&plugged, name).text("/target"));
    }
    // And can be worked with.
    cx.put(VMS, "still", "removevolume", &json!({"name": "data"})).await?;
    cx.until(&VMI, &still, |vmi| status(vmi, "data").is_null()).await?;
    cx.put(VMS, "still", "stop", &json!({})).await?;
    cx.until(&VM, &still, |vm| vm.text("/status/printableStatus") == "Stopped").await?;
    assert!(cx.client.list(&NODE, "").await?.iter().all(|node| node.condition_holds("Ready")));
    Ok(())
}

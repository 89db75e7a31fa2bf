//! When a machine runs, by its run strategy.

use serde_json::json;
use trellis_infra::kinds::{VM, VMI};
use trellis_infra::object::Object as _;
use trellis_infra::world::machine::Command;

use super::{add_rule, below, change, drop_rules, machine, request, until_phase, until_shown};
use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(always_starts_again),
        scenario!(reruns_on_failure_only),
        scenario!(manual_waits_to_be_asked),
        scenario!(halted_does_not_run),
        scenario!(once_is_once),
        scenario!(a_crash_loop_waits),
    ]
}

async fn always_starts_again(cx: Cx) -> Result {
    let key = cx.key("one");
    cx.create(&VM, machine("one", "Always")).await?;
    let first = until_phase(&cx, "one", "Running").await?;
    below(&cx, &first).command(Command::Shutdown);
    let second = cx
        .until(&VMI, &key, |vmi| vmi.uid() != first.uid() && vmi.text("/status/phase") == "Running")
        .await?;
    // A crash of what once ran is no failure to start.
    below(&cx, &second).command(Command::Panic("kernel".to_owned()));
    cx.until(&VMI, &key, |vmi| vmi.uid() != second.uid() && vmi.text("/status/phase") == "Running").await?;
    let vm = until_shown(&cx, "one", "Running").await?;
    assert!(vm.at("/status/startFailure").is_null());
    Ok(())
}

async fn reruns_on_failure_only(cx: Cx) -> Result {
    let key = cx.key("one");
    cx.create(&VM, machine("one", "RerunOnFailure")).await?;
    let first = until_phase(&cx, "one", "Running").await?;
    below(&cx, &first).command(Command::Panic("kernel".to_owned()));
    let second = cx
        .until(&VMI, &key, |vmi| vmi.uid() != first.uid() && vmi.text("/status/phase") == "Running")
        .await?;
    below(&cx, &second).command(Command::Shutdown);
    cx.until_gone(&VMI, &key).await?;
    let vm = cx.until(&VM, &key, |vm| !vm.flag("/status/created")).await?;
    assert_eq!(vm.text("/status/printableStatus"), "Stopped");
    assert!(vm.at("/status/stateChangeRequests").is_null());
    request(&cx, "one", &json!({"action": "Start"})).await?;
    until_shown(&cx, "one", "Running").await?;
    Ok(())
}

async fn manual_waits_to_be_asked(cx: Cx) -> Result {
    let key = cx.key("one");
    cx.create(&VM, machine("one", "Manual")).await?;
    let vm = cx.until(&VM, &key, |vm| vm.text("/status/runStrategy") == "Manual").await?;
    assert_eq!(vm.text("/status/printableStatus"), "Stopped");
    assert!(cx.client.get(&VMI, &key).await?.is_none());
    request(&cx, "one", &json!({"action": "Start"})).await?;
    let vmi = until_phase(&cx, "one", "Running").await?;
    cx.until(&VM, &key, |vm| vm.at("/status/stateChangeRequests").is_null()).await?;
    below(&cx, &vmi).command(Command::Shutdown);
    // What has ended is left in place.
    let vmi = until_phase(&cx, "one", "Succeeded").await?;
    until_shown(&cx, "one", "Stopped").await?;
    assert!(!vmi.is_deleting());
    request(&cx, "one", &json!({"action": "Stop", "uid": vmi.uid()})).await?;
    cx.until_gone(&VMI, &key).await
}

async fn halted_does_not_run(cx: Cx) -> Result {
    let key = cx.key("one");
    cx.create(&VM, machine("one", "Halted")).await?;
    cx.until(&VM, &key, |vm| vm.text("/status/runStrategy") == "Halted").await?;
    assert!(cx.client.get(&VMI, &key).await?.is_none());
    change(&cx, "one", &json!({"runStrategy": "Always"})).await?;
    until_shown(&cx, "one", "Running").await?;
    change(&cx, "one", &json!({"runStrategy": "Halted"})).await?;
    cx.until_gone(&VMI, &key).await?;
    // The switch to this strategy is the wish to run.
    change(&cx, "one", &json!({"runStrategy": "RerunOnFailure"})).await?;
    until_shown(&cx, "one", "Running").await?;
    Ok(())
}

async fn once_is_once(cx: Cx) -> Result {
    cx.create(&VM, machine("one", "Once")).await?;
    let vmi = until_phase(&cx, "one", "Running").await?;
    below(&cx, &vmi).command(Command::Panic("kernel".to_owned()));
    let ended = until_phase(&cx, "one", "Failed").await?;
    let vm = until_shown(&cx, "one", "Stopped").await?;
    assert_eq!(ended.uid(), vmi.uid());
    assert!(!ended.is_deleting() && vm.flag("/status/created"));
    Ok(())
}

async fn a_crash_loop_waits(cx: Cx) -> Result {
    let key = cx.key("one");
    add_rule(&cx, "domain.start", "one", &json!({"fail": "no such device"}))?;
    cx.create(&VM, machine("one", "Always")).await?;
    let vm = until_shown(&cx, "one", "CrashLoopBackOff").await?;
    assert_eq!(vm.number("/status/startFailure/consecutiveFailCount"), Some(1));
    let first = vm.text("/status/startFailure/lastFailedVMIUID").to_owned();
    let vm =
        cx.until(&VM, &key, |vm| vm.number("/status/startFailure/consecutiveFailCount") == Some(2)).await?;
    assert_ne!(vm.text("/status/startFailure/lastFailedVMIUID"), first);
    drop_rules(&cx);
    until_shown(&cx, "one", "Running").await?;
    cx.until(&VM, &key, |vm| vm.at("/status/startFailure").is_null()).await?;
    Ok(())
}

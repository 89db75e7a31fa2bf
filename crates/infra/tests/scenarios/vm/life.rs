//! The life of a machine in its order.

use serde_json::{Value, json};
use trellis_infra::kinds::{CONTROLLER_REVISION, KUBEVIRT, POD, VM, VMI};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::world::machine::Command;

use super::{add_rule, below, change, drop_rules, in_order, machine, request, until_phase, until_shown};
use crate::context::{Cx, Scenario};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(is_installed),
        scenario!(starts_in_order),
        scenario!(is_seen_in_every_state_however_fast).on_machine_time(),
        scenario!(runs_before_it_fails_however_fast).on_machine_time(),
        scenario!(is_not_ready_because_its_last_instance_was),
        scenario!(stops_in_order),
        scenario!(is_deleted_with_its_instance),
        scenario!(leaves_its_instance_behind),
        scenario!(leaves_its_services_before_its_guest_is_off),
        scenario!(is_killed_when_it_does_not_listen),
        scenario!(is_held_and_goes_on),
        scenario!(starts_held),
        scenario!(needs_a_restart),
        scenario!(follows_its_machine),
        scenario!(tells_its_address),
    ]
}

async fn is_installed(cx: Cx) -> Result {
    let kubevirt = cx.client.get(&KUBEVIRT, &Key::new("kubevirt", "kubevirt")).await?.expect("it is there");
    assert_eq!(kubevirt.text("/status/phase"), "Deployed");
    assert_eq!(kubevirt.text("/status/observedKubeVirtVersion"), "v1.9.0");
    assert!(kubevirt.condition_holds("Available"));
    Ok(())
}

async fn starts_in_order(cx: Cx) -> Result {
    let key = cx.key("one");
    let (mut vms, mut vmis) = (cx.follow(&VM, &key).await, cx.follow(&VMI, &key).await);
    let made = cx.create(&VM, machine("one", "Always")).await?;
    let vm = cx.until(&VM, &key, |vm| vm.flag("/status/ready")).await?;

    assert!(vm.has_finalizer("kubevirt.io/virtualMachineControllerFinalize"));
    assert_eq!(vm.annotation("kubevirt.io/latest-observed-api-version"), "v1");
    assert_eq!(vm.annotation("kubevirt.io/storage-observed-api-version"), "v1");
    assert_eq!(vm.text("/status/printableStatus"), "Running");
    assert_eq!(vm.text("/status/runStrategy"), "Always");
    assert!(vm.flag("/status/created"));
    assert!(vm.condition_holds("Ready") && vm.condition_holds("LiveMigratable"));
    assert_eq!(vm.number("/status/observedGeneration"), Some(vm.generation()));
    let words = vms.texts("/status/printableStatus");
    assert!(in_order(&words, &["Starting", "Running"]), "{words:?}");

    let mut phases = vmis.texts("/status/phase");
    phases.retain(|phase| !phase.is_empty());
    assert_eq!(phases, ["Pending", "Scheduling", "Scheduled", "Running"]);
    let vmi = cx.until(&VMI, &key, |vmi| vmi.condition_holds("Ready")).await?;
    assert!(vmi.is_controlled_by(made.uid()));
    assert_eq!(vmi.label("app"), "one");
    assert_eq!(vmi.label("of"), "");
    assert_eq!(vmi.label("kubevirt.io/nodeName"), vmi.text("/status/nodeName"));
    let times: Vec<_> =
        vmi.list("/status/phaseTransitionTimestamps").iter().map(|one| one.text("/phase")).collect();
    assert_eq!(times, ["Pending", "Scheduling", "Scheduled", "Running"]);

    let revision =
        format!("revision-start-vm-{}-{}", made.uid(), vmi.annotation("kubevirt.io/vm-generation"));
    assert_eq!(vmi.text("/status/virtualMachineRevisionName"), revision);
    let revision = cx.client.get(&CONTROLLER_REVISION, &cx.key(&revision)).await?.expect("it is remembered");
    assert_eq!(revision.at("/data/spec/template/metadata/labels/app"), "one");
    assert!(revision.is_controlled_by(made.uid()));

    let pods = cx.client.cache(&POD).controlled_by(vmi.uid());
    assert_eq!(pods.len(), 1);
    assert!(pods[0].name().starts_with("virt-launcher-one-"));
    assert_eq!(pods[0].label("app"), "one");
    assert!(pods[0].condition_holds("kubevirt.io/virtual-machine-unpaused"));
    assert_eq!(vmi.text(&format!("/status/activePods/{}", pods[0].uid())), vmi.text("/status/nodeName"));
    for reason in ["SuccessfulCreate", "Created", "Started"] {
        cx.until_event("one", reason).await?;
    }
    cx.until(&POD, &Key::of(&pods[0]), |pod| {
        pod.label("kubevirt.io/nodeName") == vmi.text("/status/nodeName")
            && pod.number("/status/observedGeneration") == Some(pod.generation())
    })
    .await?;
    // Nobody probes: the real ones say so with a null.
    for object in [&vm, &vmi] {
        for condition in object.list("/status/conditions") {
            assert!(condition.get("lastProbeTime").is_some_and(serde_json::Value::is_null), "{condition}");
        }
    }
    Ok(())
}

async fn is_seen_in_every_state_however_fast(cx: Cx) -> Result {
    let key = cx.key("one");
    let mut vmis = cx.follow(&VMI, &key).await;
    cx.create(&VM, machine("one", "Always")).await?;
    cx.until(&VMI, &key, |vmi| vmi.condition_holds("AgentConnected")).await?;
    let mut seen: Vec<String> = vmis
        .states()
        .iter()
        .map(|vmi| {
            let has = |kind: &'static str| if vmi.condition(kind).is_null() { "" } else { kind };
            format!("{} {} {}", vmi.text("/status/phase"), has("LiveMigratable"), has("AgentConnected"))
        })
        .collect();
    seen.dedup();
    let steps = [
        "Pending  ",
        "Scheduling  ",
        "Scheduled  ",
        "Scheduled LiveMigratable ",
        "Running LiveMigratable ",
        "Running LiveMigratable AgentConnected",
    ];
    assert_eq!(seen, steps);
    Ok(())
}

async fn runs_before_it_fails_however_fast(cx: Cx) -> Result {
    let key = cx.key("one");
    let _broken = cx.rule(json!({
        "name": format!("broken in {}", cx.namespace), "stage": "guest.boot", "effect": {"fail": "no root"},
        "match": [["/metadata/namespace", cx.namespace]],
    }))?;
    let mut vmis = cx.follow(&VMI, &key).await;
    cx.create(&VM, machine("one", "Once")).await?;
    let failed = until_phase(&cx, "one", "Failed").await?;
    let mut phases = vmis.texts("/status/phase");
    phases.retain(|phase| !phase.is_empty());
    assert_eq!(phases, ["Pending", "Scheduling", "Scheduled", "Running", "Failed"]);
    assert!(!failed.condition_holds("Ready"), "{failed}");
    for reason in ["Created", "Started", "Stopped"] {
        cx.until_event("one", reason).await?;
    }
    Ok(())
}

async fn is_not_ready_because_its_last_instance_was(cx: Cx) -> Result {
    let key = cx.key("one");
    cx.create(&VM, machine("one", "Always")).await?;
    cx.until(&VM, &key, |vm| vm.condition_holds("Ready")).await?;
    let first = cx.until(&VMI, &key, |vmi| vmi.condition_holds("Ready")).await?;
    let (mut vms, mut vmis) = (cx.follow(&VM, &key).await, cx.follow(&VMI, &key).await);
    below(&cx, &first).command(Command::Panic("for a test".to_owned()));
    cx.until(&VMI, &key, |vmi| vmi.uid() != first.uid() && vmi.condition_holds("Ready")).await?;
    cx.until(&VM, &key, |vm| vm.condition_holds("Ready")).await?;
    let ended = vmis.states().iter().find(|vmi| vmi.text("/status/phase") == "Failed").cloned();
    assert!(ended.is_some_and(|vmi| !vmi.condition_holds("Ready")));
    // Every state of the machine in between: ready only with an instance that is.
    for vm in vms.states() {
        let starts = vm.text("/status/printableStatus") == "Starting";
        assert!(!(starts && vm.condition_holds("Ready")), "{vm}");
    }
    Ok(())
}

async fn stops_in_order(cx: Cx) -> Result {
    let key = cx.key("one");
    cx.create(&VM, machine("one", "Always")).await?;
    until_shown(&cx, "one", "Running").await?;
    let (mut vms, mut vmis) = (cx.follow(&VM, &key).await, cx.follow(&VMI, &key).await);
    change(&cx, "one", &json!({"runStrategy": "Halted"})).await?;
    until_shown(&cx, "one", "Stopped").await?;
    cx.until_gone(&VMI, &key).await?;
    let words = vms.texts("/status/printableStatus");
    // Where nothing takes time it may have stopped before anybody looks.
    let takes_time = cx.infra.context().settings.virtual_start.is_some();
    let steps: &[&str] =
        if takes_time { &["Running", "Stopping", "Stopped"] } else { &["Running", "Stopped"] };
    assert!(in_order(&words, steps), "{words:?}");
    let phases = vmis.texts("/status/phase");
    assert_eq!(phases, ["Running", "Succeeded"]);
    let vm = cx.until(&VM, &key, |vm| !vm.flag("/status/created")).await?;
    assert_eq!(vm.condition("Ready")["reason"], "VMINotExists");
    assert!(!vm.flag("/status/ready"));
    for reason in ["SuccessfulDelete", "ShuttingDown", "Stopped"] {
        cx.until_event("one", reason).await?;
    }
    assert!(cx.client.cache(&POD).list(&cx.namespace).is_empty());
    Ok(())
}

async fn is_deleted_with_its_instance(cx: Cx) -> Result {
    let key = cx.key("one");
    cx.create(&VM, machine("one", "Always")).await?;
    until_shown(&cx, "one", "Running").await?;
    let mut vmis = cx.follow(&VMI, &key).await;
    cx.client.delete(&VM, &key, "").await?;
    until_shown(&cx, "one", "Terminating").await?;
    cx.until_gone(&VM, &key).await?;
    assert!(cx.client.get(&VMI, &key).await?.is_none());
    assert_eq!(vmis.texts("/status/phase").last().map(String::as_str), Some("Succeeded"));
    Ok(())
}

async fn leaves_its_instance_behind(cx: Cx) -> Result {
    let key = cx.key("one");
    cx.create(&VM, machine("one", "Always")).await?;
    until_shown(&cx, "one", "Running").await?;
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"});
    let path = VM.path(&cx.namespace, "one");
    cx.client.send(http::Method::DELETE, &path, Some(("application/json", &options))).await?;
    cx.until_gone(&VM, &key).await?;
    let vmi = cx.until(&VMI, &key, |vmi| vmi.controller().is_none()).await?;
    assert_eq!(vmi.text("/status/phase"), "Running");
    assert!(!vmi.is_deleting());

    // A machine of that name takes it in again.
    let vm = cx.create(&VM, machine("one", "Always")).await?;
    let again = cx.until(&VMI, &key, |vmi| vmi.is_controlled_by(vm.uid())).await?;
    assert_eq!(again.uid(), vmi.uid());
    until_shown(&cx, "one", "Running").await?;
    cx.client.send(http::Method::DELETE, &path, Some(("application/json", &options))).await?;
    cx.until_gone(&VM, &key).await?;

    // Alone, it goes as well.
    cx.client.delete(&VMI, &key, "").await?;
    cx.until_gone(&VMI, &key).await
}

async fn is_killed_when_it_does_not_listen(cx: Cx) -> Result {
    let key = cx.key("deaf");
    let mut machine = machine("deaf", "Always");
    machine.set("/spec/template/spec/terminationGracePeriodSeconds", 7.into());
    add_rule(&cx, "guest.shutdown", "deaf", &json!("hang"))?;
    cx.create(&VM, machine).await?;
    until_shown(&cx, "deaf", "Running").await?;
    let mut vmis = cx.follow(&VMI, &key).await;
    change(&cx, "deaf", &json!({"runStrategy": "Halted"})).await?;
    cx.until_gone(&VMI, &key).await?;
    drop_rules(&cx);
    assert_eq!(vmis.texts("/status/phase"), ["Running", "Failed"]);
    cx.until_event("deaf", "Deleted").await?;
    Ok(())
}

async fn leaves_its_services_before_its_guest_is_off(cx: Cx) -> Result {
    let key = cx.key("deaf");
    let mut machine = machine("deaf", "Always");
    machine.set("/spec/template/spec/terminationGracePeriodSeconds", 7.into());
    add_rule(&cx, "guest.shutdown", "deaf", &json!("hang"))?;
    cx.create(&VM, machine).await?;
    let vmi = cx.until(&VMI, &key, |vmi| vmi.condition_holds("Ready")).await?;
    let pod = cx.launchers(&vmi).await?.remove(0);
    cx.client.delete(&VMI, &key, "").await?;
    // The guest has not begun to listen, and its pod goes already.
    let going = cx.until(&POD, &Key::of(&pod), trellis_infra::object::Object::is_deleting).await?;
    assert_eq!(going.number("/metadata/deletionGracePeriodSeconds"), Some(37));
    let reason = |vmi: &Value| vmi.condition("Ready")["reason"] == "PodTerminating";
    let vmi = cx.until(&VMI, &key, |now| now.uid() == vmi.uid() && reason(now)).await?;
    assert_eq!(vmi.text("/status/phase"), "Running");
    // What it came to was told before its pod was gone.
    let mut vmis = cx.follow(&VMI, &key).await;
    cx.until_gone(&POD, &Key::of(&pod)).await?;
    drop_rules(&cx);
    cx.until(&VMI, &key, |now| now.uid() != vmi.uid()).await?;
    let old: Vec<&str> = vmis
        .states()
        .iter()
        .filter(|state| state.uid() == vmi.uid())
        .map(|state| state.text("/status/phase"))
        .collect();
    assert_eq!(old.last(), Some(&"Failed"), "{old:?}");
    Ok(())
}

async fn is_held_and_goes_on(cx: Cx) -> Result {
    let key = cx.key("one");
    cx.create(&VM, machine("one", "Always")).await?;
    until_shown(&cx, "one", "Running").await?;
    let vmi = until_phase(&cx, "one", "Running").await?;
    below(&cx, &vmi).command(Command::Pause);
    let vmi = cx.until(&VMI, &key, |vmi| vmi.condition_holds("Paused")).await?;
    assert_eq!(vmi.condition("Paused")["reason"], "PausedByUser");
    until_shown(&cx, "one", "Paused").await?;
    // What is held is not ready.
    cx.until(&VMI, &key, |vmi| !vmi.condition_holds("Ready")).await?;
    below(&cx, &vmi).command(Command::Resume);
    until_shown(&cx, "one", "Running").await?;
    cx.until(&VMI, &key, |vmi| vmi.condition_holds("Ready") && vmi.condition("Paused").is_null()).await?;
    Ok(())
}

async fn starts_held(cx: Cx) -> Result {
    cx.create(&VM, machine("one", "Manual")).await?;
    until_shown(&cx, "one", "Stopped").await?;
    request(&cx, "one", &json!({"action": "Start", "data": {"paused": "true"}})).await?;
    until_shown(&cx, "one", "Paused").await?;
    Ok(())
}

async fn needs_a_restart(cx: Cx) -> Result {
    let key = cx.key("one");
    cx.create(&VM, machine("one", "Always")).await?;
    let first = cx.until(&VM, &key, |vm| vm.flag("/status/ready")).await?;
    let before = until_phase(&cx, "one", "Running").await?;
    change(&cx, "one", &json!({"template": {"spec": {"hostname": "other"}}})).await?;
    let vm = cx.until(&VM, &key, |vm| vm.condition_holds("RestartRequired")).await?;
    assert!(vm.generation() > first.generation());
    assert!(vm.number("/status/observedGeneration") < vm.number("/status/desiredGeneration"));
    let vmi = cx.client.get(&VMI, &key).await?.expect("it still runs");
    assert_eq!(vmi.uid(), before.uid());
    assert_eq!(vmi.text("/spec/hostname"), "");
    // After the restart all is well.
    request(&cx, "one", &json!({"action": "Stop", "uid": before.uid()})).await?;
    let vmi = cx
        .until(&VMI, &key, |vmi| vmi.uid() != before.uid() && vmi.text("/status/phase") == "Running")
        .await?;
    assert_eq!(vmi.text("/spec/hostname"), "other");
    let vm = cx.until(&VM, &key, |vm| vm.condition("RestartRequired").is_null()).await?;
    cx.until(&VM, &key, |vm| vm.number("/status/observedGeneration") == Some(vm.generation())).await?;
    assert!(vm.at("/status/stateChangeRequests").is_null());
    Ok(())
}

async fn follows_its_machine(cx: Cx) -> Result {
    let key = cx.key("one");
    cx.create(&VM, machine("one", "Always")).await?;
    cx.until(&VM, &key, |vm| vm.flag("/status/ready")).await?;
    let toleration = json!([{"key": "gpu", "operator": "Exists"}]);
    change(&cx, "one", &json!({"template": {"spec": {"tolerations": toleration}}})).await?;
    let vmi = cx.until(&VMI, &key, |vmi| vmi.at("/spec/tolerations") == &toleration).await?;
    assert_eq!(vmi.text("/status/phase"), "Running");
    let vm =
        cx.until(&VM, &key, |vm| vm.number("/status/observedGeneration") == Some(vm.generation())).await?;
    assert!(vm.condition("RestartRequired").is_null());
    Ok(())
}

async fn tells_its_address(cx: Cx) -> Result {
    cx.create(&VM, machine("one", "Always")).await?;
    let vmi = cx.until(&VMI, &cx.key("one"), |vmi| vmi.condition_holds("Ready")).await?;
    let pods = cx.client.cache(&POD).controlled_by(vmi.uid());
    assert_eq!(vmi.text("/status/interfaces/0/name"), "default");
    assert_eq!(vmi.text("/status/interfaces/0/ipAddress"), pods[0].text("/status/podIP"));
    assert!(!vmi.text("/status/interfaces/0/ipAddress").is_empty());
    assert_eq!(vmi.text("/status/volumeStatus/0/target"), "vda");
    assert_eq!(vmi.text("/status/migrationMethod"), "BlockMigration");
    assert_eq!(vmi.text("/status/memory/guestAtBoot"), "128Mi");
    Ok(())
}

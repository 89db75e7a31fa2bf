//! Live migration, evictions and emptying hosts.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use trellis_infra::client::ApiError;
use trellis_infra::kinds::{MIGRATION, NODE, POD, PVC, STORAGE_CLASS, VM, VMI, VOLUME_ATTACHMENT};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::world::hosts::Host;

use crate::context::{Cx, PATIENCE, Scenario};
use crate::machines::{assert_refused, machine};
use crate::scenario;
use crate::support::Result;

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario!(a_migration_goes_through_its_phases),
        scenario!(a_rule_that_holds_a_migration_once_is_used_up_once),
        scenario!(a_machine_is_migrated_by_its_own_api),
        scenario!(volumes_go_with_their_machine),
        scenario!(a_migration_is_aborted_by_its_deletion),
        scenario!(a_copy_that_fails_leaves_the_machine_where_it_is),
        scenario!(a_target_that_is_lost_ends_the_copy),
        scenario!(a_copy_that_takes_too_long_is_given_up).with(|_| {}),
        scenario!(without_a_fitting_host_a_migration_waits),
        scenario!(a_target_without_a_host_is_given_up).with(|_| {}),
        scenario!(only_so_many_leave_a_host_at_once),
        scenario!(an_eviction_becomes_a_migration),
        scenario!(an_eviction_waits_for_somebody_else),
        scenario!(an_eviction_without_a_strategy_ends_the_pod),
        scenario!(what_cannot_be_migrated_stays),
        scenario!(pods_of_volumes_stay),
        scenario!(a_host_is_drained),
        scenario!(a_taint_empties_a_host),
        scenario!(failures_make_the_next_migration_wait),
    ]
}

const PHASES: [&str; 7] =
    ["Pending", "Scheduling", "Scheduled", "PreparingTarget", "TargetReady", "Running", "Succeeded"];

/// A machine with an eviction strategy.
fn evictable(name: &str, strategy: &str) -> Value {
    let mut machine = machine(name, "Always");
    machine.set("/spec/template/spec/evictionStrategy", strategy.into());
    machine
}

impl Cx {
    /// Makes a machine and waits until it can be migrated.
    async fn migratable(&self, machine: Value) -> Result<Arc<Value>> {
        let name = machine.name().to_owned();
        self.running(machine).await?;
        self.until(&VMI, &self.key(&name), |vmi| vmi.condition_holds("LiveMigratable")).await
    }

    /// Asks for a migration.
    async fn migrate(&self, name: &str, spec: Value) -> Result<Key> {
        let mut spec = spec;
        spec["vmiName"] = name.into();
        let migration = json!({
            "metadata": {"generateName": "go-", "finalizers": ["kubevirt.io/migrationJobFinalize"]}, "spec": spec,
        });
        Ok(Key::of(&self.create(&MIGRATION, migration).await?))
    }

    /// Waits until a migration is in a phase.
    async fn until_phase(&self, key: &Key, phase: &str) -> Result<Arc<Value>> {
        self.until(&MIGRATION, key, |migration| migration.text("/status/phase") == phase).await
    }

    /// Makes the memory of machines of this scenario never arrive, for as long as the guard lives.
    fn stuck_copies(&self) -> Result<crate::machines::RuleGuard> {
        self.rule(json!({
            "name": format!("stuck in {}", self.namespace), "stage": "migration.copy", "effect": "hang",
            "match": [["/metadata/namespace", self.namespace]],
        }))
    }

    /// Evicts a pod, as a drain does.
    async fn evict(&self, pod: &Value) -> std::result::Result<Value, ApiError> {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"namespace": pod.namespace(), "name": pod.name()},
        });
        self.client.post(&POD, &Key::of(pod), "eviction", &eviction).await
    }

    async fn cordon(&self, node: &str, cordoned: bool) -> Result {
        let patch = json!({"spec": {"unschedulable": cordoned}});
        self.client.merge(&NODE, &Key::cluster(node), &patch).await?;
        Ok(())
    }

    /// The migrations of an instance that were made to empty a host.
    async fn until_evacuation(&self, name: &str) -> Result<Key> {
        let cache = self.client.cache(&MIGRATION);
        let mut changes = cache.changes();
        let found = async {
            loop {
                let found = cache.list(&self.namespace).into_iter().find(|migration| {
                    migration.name().starts_with("kubevirt-evacuation-")
                        && migration.text("/spec/vmiName") == name
                });
                if let Some(found) = found {
                    return Key::of(&found);
                }
                changes.recv().await;
            }
        };
        Ok(tokio::time::timeout(PATIENCE, found).await.map_err(|_| "nobody evacuates it")?)
    }

    /// Waits until an instance is elsewhere.
    async fn until_moved(&self, name: &str, from: &str) -> Result<Arc<Value>> {
        let moved = |vmi: &Value| {
            !vmi.text("/status/nodeName").is_empty()
                && vmi.text("/status/nodeName") != from
                && vmi.flag("/status/migrationState/completed")
        };
        self.until(&VMI, &self.key(name), moved).await
    }
}

async fn a_rule_that_holds_a_migration_once_is_used_up_once(cx: Cx) -> Result {
    let vmi = cx.migratable(machine("m", "Always")).await?;
    let from = vmi.text("/status/nodeName").to_owned();
    let name = format!("once in {}", cx.namespace);
    let rule = cx.rule(json!({
        "name": name, "stage": "migration.copy", "effect": "hang", "times": 1,
        "match": [["/metadata/namespace", cx.namespace]],
    }))?;
    let key = cx.migrate("m", json!({})).await?;
    cx.until_phase(&key, "Running").await?;
    // It waits for as long as the rule is there, and is no further use of it.
    let long = if cx.infra.context().settings.virtual_start.is_some() { 60 } else { 3 };
    tokio::time::sleep(std::time::Duration::from_secs(long)).await;
    assert_eq!(cx.until(&MIGRATION, &key, |_| true).await?.text("/status/phase"), "Running");
    // A rule about something else does not let it go.
    let other = cx.rule(json!({"name": "something else", "stage": "guest.boot", "effect": "hang"}))?;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    drop(other);
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(cx.until(&MIGRATION, &key, |_| true).await?.text("/status/phase"), "Running");
    let left = |name: &str| {
        let rules = cx.infra.context().stages.added();
        rules.into_iter().find(|rule| rule.name == name).and_then(|rule| rule.times)
    };
    assert_eq!(left(&name), Some(0));
    drop(rule);
    cx.until_phase(&key, "Succeeded").await?;
    cx.until_moved("m", &from).await?;
    Ok(())
}

async fn a_migration_goes_through_its_phases(cx: Cx) -> Result {
    let vmi = cx.migratable(machine("m", "Always")).await?;
    let source = cx.launchers(&vmi).await?.remove(0);
    let from = vmi.text("/status/nodeName").to_owned();
    let key = cx.migrate("m", json!({})).await?;
    let mut history = cx.follow(&MIGRATION, &key).await;
    let done = cx.until_phase(&key, "Succeeded").await?;
    let mut phases = history.texts("/status/phase");
    phases.retain(|phase| !phase.is_empty());
    assert_eq!(phases, PHASES);
    let stamps: Vec<&str> =
        done.list("/status/phaseTransitionTimestamps").iter().map(|one| one.text("/phase")).collect();
    assert_eq!(stamps, PHASES);
    let moved = cx.until_moved("m", &from).await?;
    let state = moved.at("/status/migrationState");
    assert_eq!(state.text("/migrationUid"), done.uid());
    assert_eq!(
        (state.text("/sourceNode"), state.text("/targetNode")),
        (from.as_str(), moved.text("/status/nodeName"))
    );
    assert_eq!((state.text("/sourcePod"), state.text("/mode")), (source.name(), "PreCopy"));
    assert!(state.flag("/completed") && !state.flag("/failed"));
    assert!(!state.text("/startTimestamp").is_empty() && !state.text("/endTimestamp").is_empty());
    assert_eq!(moved.label("kubevirt.io/nodeName"), moved.text("/status/nodeName"));
    assert_eq!(moved.uid(), vmi.uid());
    let target = cx.client.get(&POD, &cx.key(state.text("/targetPod"))).await?.unwrap_or_default();
    assert_eq!(target.label("kubevirt.io/migrationJobUID"), done.uid());
    assert_eq!(target.annotation("kubevirt.io/migrationJobName"), done.name());
    cx.until(&POD, &Key::of(&source), |pod| pod.text("/status/phase") == "Succeeded").await?;
    let active = json!({target.uid(): target["spec"]["nodeName"]});
    let moved = cx.until(&VMI, &cx.key("m"), |vmi| vmi.at("/status/activePods") == &active).await?;
    assert_eq!(moved.text("/status/phase"), "Running");
    assert_eq!(moved["status"]["interfaces"][0]["ipAddress"], target["status"]["podIP"]);
    let plan = cx.below(&moved)?.plan();
    assert_eq!(
        (plan.pod.pod_uid.as_str(), plan.pod.node.as_str()),
        (target.uid(), target.text("/spec/nodeName"))
    );
    assert_eq!(plan.interfaces[0].addresses[0].to_string(), target.text("/status/podIP"));
    cx.until(&MIGRATION, &key, |migration| migration.list("/metadata/finalizers").is_empty()).await?;
    for (about, reason) in [
        (key.name.as_str(), "SuccessfulCreate"),
        (key.name.as_str(), "SuccessfulHandOver"),
        (key.name.as_str(), "SuccessfulMigration"),
        ("m", "PreparingTarget"),
        ("m", "Migrating"),
        ("m", "Migrated"),
    ] {
        cx.until_event(about, reason).await?;
    }
    Ok(())
}

async fn a_machine_is_migrated_by_its_own_api(cx: Cx) -> Result {
    cx.create(&VM, machine("off", "Halted")).await?;
    let off = cx.put("virtualmachines", "off", "migrate", &Value::Null).await;
    assert_refused(off, 404, "virtualmachineinstance.kubevirt.io");
    let vmi = cx.migratable(machine("m", "Always")).await?;
    let from = vmi.text("/status/nodeName").to_owned();
    cx.put("virtualmachines", "m", "migrate", &json!({"dryRun": ["All"]})).await?;
    assert!(cx.client.list(&MIGRATION, &cx.namespace).await?.is_empty());
    cx.put("virtualmachines", "m", "migrate", &Value::Null).await?;
    cx.until_moved("m", &from).await?;
    let migrations = cx.client.list(&MIGRATION, &cx.namespace).await?;
    assert!(migrations.len() == 1 && migrations[0].name().starts_with("kubevirt-migrate-vm-"));
    Ok(())
}

async fn volumes_go_with_their_machine(cx: Cx) -> Result {
    let vmi = cx.migratable(machine("m", "Always")).await?;
    let from = vmi.text("/status/nodeName").to_owned();
    let classes = cx.client.list(&STORAGE_CLASS, "").await?;
    let shared = classes.iter().find(|class| {
        class.text("/provisioner").starts_with("rbd.") && class.text("/volumeBindingMode") == "Immediate"
    });
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteMany"], "volumeMode": "Block", "storageClassName": shared.map(trellis_infra::object::Object::name),
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    cx.create(&PVC, claim).await?;
    let volume = json!({
        "name": "more", "disk": {"disk": {"bus": "scsi"}},
        "volumeSource": {"persistentVolumeClaim": {"claimName": "data"}},
    });
    cx.put("virtualmachines", "m", "addvolume", &volume).await?;
    let more = |vmi: &Value| {
        let found = vmi.list("/status/volumeStatus").iter().find(|one| one["name"] == "more");
        found.cloned().unwrap_or_default()
    };
    let before = cx.until(&VMI, &cx.key("m"), |vmi| more(vmi)["phase"] == "Ready").await?;
    let key = cx.migrate("m", json!({})).await?;
    cx.until_phase(&key, "Succeeded").await?;
    let moved = cx.until_moved("m", &from).await?;
    let holder = moved.text("/status/migrationState/targetAttachmentPodUID").to_owned();
    assert!(!holder.is_empty() && more(&before)["hotplugVolume"]["attachPodUID"] != holder.as_str());
    let settled = cx
        .until(&VMI, &cx.key("m"), |vmi| more(vmi)["hotplugVolume"]["attachPodUID"] == holder.as_str())
        .await?;
    assert_eq!(more(&settled)["phase"], "Ready");
    assert!(cx.below(&settled)?.plan().disks.iter().any(|disk| disk.name == "more"));
    // Nothing is held where the machine was, and nothing anywhere once it is taken out.
    cx.until_gone(&POD, &cx.key(more(&before).text("/hotplugVolume/attachPodName"))).await?;
    let volume = cx.until(&PVC, &cx.key("data"), |claim| !claim.text("/spec/volumeName").is_empty()).await?;
    let attachments = cx.client.cache(&VOLUME_ATTACHMENT);
    let attached = |node: Option<&str>| {
        attachments.list("").iter().any(|one| {
            one["spec"]["source"]["persistentVolumeName"] == volume["spec"]["volumeName"]
                && node.is_none_or(|node| one.text("/spec/nodeName") == node)
        })
    };
    let detached = async |node: Option<&str>| {
        let mut changes = attachments.changes();
        while attached(node) {
            changes.recv().await;
        }
    };
    tokio::time::timeout(PATIENCE, detached(Some(&from))).await?;
    cx.put("virtualmachines", "m", "removevolume", &json!({"name": "more"})).await?;
    tokio::time::timeout(PATIENCE, detached(None)).await?;
    Ok(())
}

async fn a_migration_is_aborted_by_its_deletion(cx: Cx) -> Result {
    let vmi = cx.migratable(machine("m", "Always")).await?;
    let _stuck = cx.stuck_copies()?;
    let key = cx.migrate("m", json!({})).await?;
    let running = cx.until_phase(&key, "Running").await?;
    let mut history = cx.follow(&MIGRATION, &key).await;
    let migrating = cx.client.get(&VMI, &cx.key("m")).await?.unwrap_or_default();
    let target = migrating.text("/status/migrationState/targetPod").to_owned();
    cx.client.delete(&MIGRATION, &key, running.uid()).await?;
    let stayed = cx.until(&VMI, &cx.key("m"), |vmi| vmi.flag("/status/migrationState/completed")).await?;
    let state = stayed.at("/status/migrationState");
    assert!(state.flag("/failed") && state.flag("/abortRequested"));
    assert_eq!(state.text("/abortStatus"), "Succeeded");
    assert_eq!(stayed["status"]["nodeName"], vmi["status"]["nodeName"]);
    cx.until_gone(&MIGRATION, &key).await?;
    cx.until_gone(&POD, &cx.key(&target)).await?;
    assert_eq!(history.texts("/status/phase").last().map(String::as_str), Some("Failed"));
    assert_eq!(cx.below(&vmi)?.plan().pod.node, vmi.text("/status/nodeName"));
    Ok(())
}

async fn a_copy_that_fails_leaves_the_machine_where_it_is(cx: Cx) -> Result {
    let vmi = cx.migratable(machine("m", "Always")).await?;
    let _broken = cx.rule(json!({
        "name": "broken", "stage": "migration.copy", "effect": {"fail": "internal error: client socket is closed"},
        "match": [["/metadata/namespace", cx.namespace]],
    }))?;
    let key = cx.migrate("m", json!({})).await?;
    cx.until_phase(&key, "Failed").await?;
    let stayed = cx.client.get(&VMI, &cx.key("m")).await?.unwrap_or_default();
    let state = stayed.at("/status/migrationState");
    assert!(state.text("/failureReason").contains("client socket is closed"));
    assert_eq!(
        (stayed.text("/status/phase"), &stayed["status"]["nodeName"]),
        ("Running", &vmi["status"]["nodeName"])
    );
    cx.until_gone(&POD, &cx.key(state.text("/targetPod"))).await?;
    cx.until_event(&key.name, "FailedMigration").await?;
    assert_eq!(cx.launchers(&vmi).await?.len(), 1);
    Ok(())
}

async fn a_target_that_is_lost_ends_the_copy(cx: Cx) -> Result {
    let vmi = cx.migratable(machine("m", "Always")).await?;
    let from = vmi.text("/status/nodeName").to_owned();
    let hosts = &cx.infra.context().world.hosts;
    for lost in [Host { powered: false, ..Host::UP }, Host { connected: false, ..Host::UP }] {
        let stuck = cx.stuck_copies()?;
        let key = cx.migrate("m", json!({})).await?;
        cx.until_phase(&key, "Running").await?;
        let vmi = cx.until(&VMI, &cx.key("m"), |_| true).await?;
        let target = vmi.text("/status/migrationState/targetNode").to_owned();
        hosts.set(&target, lost);
        // Nothing holds the copy any more but the host that is not there.
        drop(stuck);
        let ended = cx.until_phase(&key, "Failed").await?;
        hosts.set(&target, Host::UP);
        let reason = ended.text("/status/migrationState/failureReason");
        assert!(reason.contains("client socket is closed"), "{reason}");
        let stays = cx.until(&VMI, &cx.key("m"), |vmi| vmi.flag("/status/migrationState/failed")).await?;
        assert_eq!((stays.text("/status/phase"), stays.text("/status/nodeName")), ("Running", from.as_str()));
        assert_eq!(cx.below(&stays)?.plan().pod.node, from);
    }
    Ok(())
}

async fn a_copy_that_takes_too_long_is_given_up(cx: Cx) -> Result {
    let vmi = cx.migratable(machine("m", "Always")).await?;
    let slow = json!({
        "name": "slow", "stage": "migration.copy", "delay": {"min": 600.0, "max": 600.0},
        "match": [["/metadata/namespace", cx.namespace]],
    });
    for (rule, words) in [(Some(slow), "not completed after 150 seconds"), (None, "stuck for 150 seconds")] {
        let _rule = rule.map_or_else(|| cx.stuck_copies(), |rule| cx.rule(rule))?;
        let key = cx.migrate("m", json!({})).await?;
        cx.until_phase(&key, "Running").await?;
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(cx.until(&MIGRATION, &key, |_| true).await?.text("/status/phase"), "Running");
        let ended = cx.until_phase(&key, "Failed").await?;
        let reason = ended.text("/status/migrationState/failureReason");
        assert!(reason.contains(words), "{reason}");
    }
    let stays = cx.until(&VMI, &cx.key("m"), |_| true).await?;
    assert_eq!(stays.text("/status/nodeName"), vmi.text("/status/nodeName"));
    Ok(())
}

async fn without_a_fitting_host_a_migration_waits(cx: Cx) -> Result {
    let vmi = cx.migratable(machine("m", "Always")).await?;
    let key = cx.migrate("m", json!({"addedNodeSelector": {"nowhere": "at-all"}})).await?;
    let waiting = cx.until_phase(&key, "Scheduling").await?;
    let target = cx.launchers(&vmi).await?;
    let target = target.iter().find(|pod| pod.label("kubevirt.io/migrationJobUID") == waiting.uid());
    let target = Key::of(target.ok_or("no target pod")?);
    let unfit = |pod: &Value| pod.condition("PodScheduled")["reason"] == "Unschedulable";
    cx.until(&POD, &target, unfit).await?;
    let still = cx.client.get(&MIGRATION, &key).await?.unwrap_or_default();
    assert_eq!(still.text("/status/phase"), "Scheduling");
    cx.client.delete(&MIGRATION, &key, "").await?;
    cx.until_gone(&MIGRATION, &key).await?;
    cx.until_gone(&POD, &target).await?;
    assert_eq!(cx.client.get(&VMI, &cx.key("m")).await?.unwrap_or_default().text("/status/phase"), "Running");
    Ok(())
}

async fn a_target_without_a_host_is_given_up(cx: Cx) -> Result {
    let vmi = cx.migratable(machine("m", "Always")).await?;
    let key = cx.migrate("m", json!({"addedNodeSelector": {"nowhere": "at-all"}})).await?;
    cx.until_phase(&key, "Scheduling").await?;
    // The time a target may take to find a host; nothing happens before.
    tokio::time::sleep(Duration::from_secs(290)).await;
    let still = cx.client.get(&MIGRATION, &key).await?.unwrap_or_default();
    assert_eq!(still.text("/status/phase"), "Scheduling");
    cx.until_phase(&key, "Failed").await?;
    cx.until_event(&key.name, "migrationTargetPodUnschedulable").await?;
    assert_eq!(
        cx.client.get(&VMI, &cx.key("m")).await?.unwrap_or_default()["status"]["nodeName"],
        vmi["status"]["nodeName"]
    );
    Ok(())
}

async fn only_so_many_leave_a_host_at_once(cx: Cx) -> Result {
    let hosts = cx.client.list(&NODE, "").await?;
    let names: Vec<String> = hosts.iter().map(|host| host.name().to_owned()).collect();
    for other in &names[1..] {
        cx.cordon(other, true).await?;
    }
    let outcome = leaving_together(&cx, &names).await;
    for other in &names[1..] {
        cx.cordon(other, false).await?;
    }
    outcome
}

async fn leaving_together(cx: &Cx, hosts: &[String]) -> Result {
    for name in ["a", "b", "c"] {
        let vmi = cx.migratable(machine(name, "Always")).await?;
        assert_eq!(vmi.text("/status/nodeName"), hosts[0]);
    }
    for other in &hosts[1..] {
        cx.cordon(other, false).await?;
    }
    let stuck = cx.stuck_copies()?;
    let mut keys = Vec::new();
    for name in ["a", "b", "c"] {
        keys.push(cx.migrate(name, json!({})).await?);
    }
    cx.until_phase(&keys[0], "Running").await?;
    cx.until_phase(&keys[1], "Running").await?;
    assert_eq!(cx.until_phase(&keys[2], "Pending").await?.text("/status/phase"), "Pending");
    drop(stuck);
    for key in &keys {
        cx.until_phase(key, "Succeeded").await?;
    }
    Ok(())
}

async fn an_eviction_becomes_a_migration(cx: Cx) -> Result {
    for strategy in ["LiveMigrate", "LiveMigrateIfPossible"] {
        let name = strategy.to_lowercase();
        let vmi = cx.migratable(evictable(&name, strategy)).await?;
        let from = vmi.text("/status/nodeName").to_owned();
        let pod = cx.launchers(&vmi).await?.remove(0);
        let stuck = cx.stuck_copies()?;
        let words = format!("Eviction triggered evacuation of VMI \"{}/{name}\"", cx.namespace);
        assert_refused(cx.evict(&pod).await, 429, &words);
        assert_refused(cx.evict(&pod).await, 429, &format!("Evacuation in progress: {words}"));
        let marked = cx.until(&VMI, &cx.key(&name), |vmi| vmi.condition_holds("EvictionRequested")).await?;
        assert_eq!(marked.text("/status/evacuationNodeName"), from);
        let key = cx.until_evacuation(&name).await?;
        let migration = cx.until_phase(&key, "Running").await?;
        assert_eq!(migration.annotation("kubevirt.io/evacuationMigration"), from);
        drop(stuck);
        cx.until_phase(&key, "Succeeded").await?;
        let moved = cx.until_moved(&name, &from).await?;
        assert_eq!(moved.text("/status/evacuationNodeName"), "");
        assert!(moved.condition("EvictionRequested").is_null());
        cx.until_event(&name, "SuccessfulCreateVirtualMachineInstanceMigration").await?;
    }
    Ok(())
}

async fn an_eviction_waits_for_somebody_else(cx: Cx) -> Result {
    let vmi = cx.running(evictable("m", "External")).await?;
    let pod = cx.launchers(&vmi).await?.remove(0);
    let words = format!("Eviction triggered evacuation of VMI \"{}/m\"", cx.namespace);
    assert_refused(cx.evict(&pod).await, 429, &words);
    assert_refused(cx.evict(&pod).await, 429, "Evacuation in progress");
    let marked = cx.until(&VMI, &cx.key("m"), |vmi| vmi.condition_holds("EvictionRequested")).await?;
    let node = marked.text("/status/evacuationNodeName").to_owned();
    assert_eq!(node, pod.text("/spec/nodeName"));
    assert!(cx.client.list(&MIGRATION, &cx.namespace).await?.is_empty());
    let wrong = json!({"evacuationNodeName": "another"});
    assert_refused(cx.put("virtualmachines", "m", "evacuate/cancel", &wrong).await, 500, "");
    cx.put("virtualmachines", "m", "evacuate/cancel", &json!({"evacuationNodeName": node})).await?;
    cx.until(&VMI, &cx.key("m"), |vmi| {
        vmi.text("/status/evacuationNodeName").is_empty() && vmi.condition("EvictionRequested").is_null()
    })
    .await?;
    let pod = cx.client.get(&POD, &Key::of(&pod)).await?.unwrap_or_default();
    assert!(!pod.is_deleting() && pod.text("/status/phase") == "Running");
    Ok(())
}

async fn an_eviction_without_a_strategy_ends_the_pod(cx: Cx) -> Result {
    let vmi = cx.running(machine("m", "Always")).await?;
    let pod = cx.launchers(&vmi).await?.remove(0);
    cx.evict(&pod).await?;
    cx.until(&VMI, &cx.key("m"), |now| now.uid() != vmi.uid() && now.text("/status/phase") == "Running")
        .await?;
    Ok(())
}

async fn what_cannot_be_migrated_stays(cx: Cx) -> Result {
    let bridged = |name: &str, strategy: &str| {
        let mut machine = evictable(name, strategy);
        let interfaces = json!([{"name": "default", "bridge": {}}]);
        machine.set("/spec/template/spec/domain/devices/interfaces", interfaces);
        machine
    };
    cx.running(bridged("m", "LiveMigrate")).await?;
    let fixed = |vmi: &Value| vmi.condition("LiveMigratable")["status"] == "False";
    let vmi = cx.until(&VMI, &cx.key("m"), fixed).await?;
    let pod = cx.launchers(&vmi).await?.remove(0);
    assert_refused(
        cx.evict(&pod).await,
        429,
        "VMI m is configured with an eviction strategy but is not live-migratable",
    );
    assert_eq!(
        cx.client.get(&VMI, &cx.key("m")).await?.unwrap_or_default().text("/status/evacuationNodeName"),
        ""
    );
    cx.running(bridged("may", "LiveMigrateIfPossible")).await?;
    let vmi = cx.until(&VMI, &cx.key("may"), fixed).await?;
    let pod = cx.launchers(&vmi).await?.remove(0);
    cx.evict(&pod).await?;
    Ok(())
}

async fn pods_of_volumes_stay(cx: Cx) -> Result {
    let vmi = cx.running(machine("m", "Always")).await?;
    let launcher = cx.launchers(&vmi).await?.remove(0);
    let holder = json!({
        "metadata": {
            "generateName": "hp-volume-", "labels": {"kubevirt.io": "hotplug-disk"},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": launcher.name(), "uid": launcher.uid(), "controller": true,
            }],
        },
        "spec": {"nodeName": launcher["spec"]["nodeName"], "containers": [{"name": "c", "image": "i"}]},
    });
    let holder = cx.create(&POD, holder).await?;
    assert_refused(cx.evict(&holder).await, 429, "cannot evict hotplug pod");
    Ok(())
}

async fn a_host_is_drained(cx: Cx) -> Result {
    let vmi = cx.migratable(evictable("m", "LiveMigrate")).await?;
    let from = vmi.text("/status/nodeName").to_owned();
    cx.cordon(&from, true).await?;
    let outcome = drained(&cx, &from).await;
    cx.cordon(&from, false).await?;
    outcome?;
    let moved = cx.until_moved("m", &from).await?;
    assert_eq!((moved.uid(), moved.text("/status/phase")), (vmi.uid(), "Running"));
    Ok(())
}

/// Evicts the pods of this scenario on a host again and again until there are none, as `kubectl drain` does.
async fn drained(cx: &Cx, node: &str) -> Result {
    let drain = async {
        loop {
            let mut pods = cx.client.list(&POD, &cx.namespace).await?;
            pods.retain(|pod| {
                pod.text("/spec/nodeName") == node
                    && !matches!(pod.text("/status/phase"), "Succeeded" | "Failed")
            });
            if pods.is_empty() {
                return Ok(());
            }
            for pod in pods {
                match cx.evict(&pod).await {
                    Err(failure) if failure.code != 429 && !failure.is_not_found() => {
                        return Err(failure.into());
                    }
                    _ => {}
                }
            }
            // A drain asks again after a while.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::time::timeout(PATIENCE * 2, drain).await.map_err(|_| "the host is not drained")?
}

async fn a_taint_empties_a_host(cx: Cx) -> Result {
    let vmi = cx.migratable(evictable("m", "LiveMigrate")).await?;
    let other = cx.migratable(machine("stays", "Always")).await?;
    let from = vmi.text("/status/nodeName").to_owned();
    let taints = json!({"spec": {"taints": [{"key": "kubevirt.io/drain", "effect": "NoSchedule"}]}});
    cx.client.merge(&NODE, &Key::cluster(&from), &taints).await?;
    let moved = cx.until_moved("m", &from).await;
    cx.client.merge(&NODE, &Key::cluster(&from), &json!({"spec": {"taints": null}})).await?;
    moved?;
    // Without a strategy nobody moves it.
    let stayed = cx.client.get(&VMI, &cx.key("stays")).await?.unwrap_or_default();
    assert_eq!(stayed["status"]["nodeName"], other["status"]["nodeName"]);
    Ok(())
}

async fn failures_make_the_next_migration_wait(cx: Cx) -> Result {
    let vmi = cx.migratable(evictable("m", "LiveMigrate")).await?;
    let from = vmi.text("/status/nodeName").to_owned();
    let broken = cx.rule(json!({
        "name": "broken once", "stage": "migration.copy", "effect": {"fail": "lost connection"}, "times": 1,
        "match": [["/metadata/namespace", cx.namespace]],
    }))?;
    let pod = cx.launchers(&vmi).await?.remove(0);
    assert_refused(cx.evict(&pod).await, 429, "Eviction triggered");
    let first = cx.until_evacuation("m").await?;
    cx.until_phase(&first, "Failed").await?;
    drop(broken);
    // The evacuation goes on with another migration, which waits before it begins.
    let second = {
        let cache = cx.client.cache(&MIGRATION);
        let mut changes = cache.changes();
        loop {
            let other =
                cache.list(&cx.namespace).into_iter().find(|migration| migration.name() != first.name);
            if let Some(other) = other {
                break Key::of(&other);
            }
            changes.recv().await;
        }
    };
    cx.until_event(&second.name, "MigrationBackoff").await?;
    cx.until_phase(&second, "Succeeded").await?;
    cx.until_moved("m", &from).await?;
    Ok(())
}

//! What becomes of a control plane when something breaks.

use std::time::Duration;

use serde_json::json;
use trellis_infra::kinds::{NODE, SECRET, VM, VMI};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::world::hosts::Host;

use crate::stage::{CLUSTER, MACHINE, POOL, Stage, key};

async fn host_of(stage: &Stage, machine: &str) -> String {
    let vmi = stage.world.person.get(&VMI, &Key::new(CLUSTER, machine)).await.unwrap().unwrap();
    vmi.text("/status/nodeName").to_owned()
}

fn switch_off(stage: &Stage, host: &str) {
    stage.world.infra.context().world.hosts.set(host, Host { powered: false, connected: false });
}

#[tokio::test(start_paused = true)]
async fn a_deleted_machine_waits_for_its_member() {
    let stage = Stage::with(3).await;
    let going = stage.machines().await.remove(0);
    stage.world.person.delete(&MACHINE, &key(&going), "").await.unwrap();
    // It is held while its member is needed.
    let said = |machine: &serde_json::Value| machine.to_string().contains("WaitingForEtcdMember");
    stage.world.until(&MACHINE, &key(&going), said).await.unwrap();
    assert!(stage.world.person.get(&VM, &Key::new(CLUSTER, &going)).await.unwrap().is_some());
    stage.world.until_gone(&MACHINE, &key(&going)).await.unwrap();
    stage.settled(3).await;
    for quorum in stage.quorums() {
        assert!(quorum.holds() && quorum.voting >= 3, "{quorum:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_master_whose_host_dies_is_replaced_after_fencing() {
    let stage = Stage::with(3).await;
    let lost = stage.machines().await.remove(0);
    let host = host_of(&stage, &lost).await;
    switch_off(&stage, &host);
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(
        stage.machines().await.contains(&lost),
        "without proof nothing is touched: {}",
        stage.told().await
    );
    // Somebody says that it is dead.
    let node = stage.world.person.get(&NODE, &Key::cluster(&host)).await.unwrap().unwrap();
    let mut taints = node.list("/spec/taints").to_vec();
    taints.push(
        json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}),
    );
    let taints = json!({"spec": {"taints": taints}});
    stage.world.person.merge(&NODE, &Key::cluster(&host), &taints).await.unwrap();
    stage.world.until_gone(&MACHINE, &key(&lost)).await.unwrap();
    stage.settled(3).await;
    for quorum in stage.quorums() {
        assert!(quorum.holds(), "{quorum:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_nothing_is_touched() {
    let stage = Stage::with(3).await;
    let machines = stage.machines().await;
    for machine in &machines[..2] {
        let host = host_of(&stage, machine).await;
        switch_off(&stage, &host);
    }
    stage.until(|pool| pool.condition("EtcdReady").text("/reason") == "QuorumLost").await;
    let pool = stage.pool().await;
    let said = pool.condition("EtcdReady").text("/message").to_owned();
    assert!(said.contains("of 3 members answer, 2 must"), "{said}");
    stage.world.person.delete(&MACHINE, &key(&machines[2]), "").await.unwrap();
    tokio::time::sleep(Duration::from_hours(2)).await;
    let mut left = stage.machines().await;
    left.sort();
    let mut before = machines.clone();
    before.sort();
    assert_eq!(left, before);
    let kept = stage.world.person.get(&VM, &Key::new(CLUSTER, &machines[2])).await.unwrap();
    assert!(kept.is_some_and(|vm| !vm.is_deleting()), "its member is one of those that are needed");
}

#[tokio::test(start_paused = true)]
async fn an_etcd_that_cannot_be_asked_still_guards_its_masters() {
    let stage = Stage::with(3).await;
    stage.world.person.delete(&SECRET, &key(&format!("{CLUSTER}-etcd")), "").await.unwrap();
    stage.until(|pool| pool.condition("EtcdReady").text("/reason") == "EtcdUnknown").await;
    // Not even the notes are left that say that it was there.
    let notes = json!({"trellis.dev/etcd-formed": null, "trellis.dev/etcd-began-with": null});
    let notes = json!({"metadata": {"annotations": notes}});
    stage.world.person.merge(&POOL, &key("cp"), &notes).await.unwrap();
    let going = stage.machines().await.remove(0);
    stage.world.person.delete(&MACHINE, &key(&going), "").await.unwrap();
    tokio::time::sleep(Duration::from_hours(1)).await;
    let kept = stage.world.person.get(&VM, &Key::new(CLUSTER, &going)).await.unwrap();
    assert!(kept.is_some_and(|vm| !vm.is_deleting()), "it has joined, so it carries a member");
    let pool = stage.pool().await;
    assert_eq!(pool.condition("EtcdReady").text("/reason"), "EtcdUnknown", "{}", stage.told().await);
    for quorum in stage.quorums() {
        assert!(quorum.holds() && quorum.voting >= 3, "{quorum:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_control_plane_of_a_cluster_does_nothing() {
    let stage = Stage::with(3).await;
    let mut before = stage.machines().await;
    let mut second = stage.pool().await;
    second["metadata"] = json!({"namespace": key("").namespace, "name": "another"});
    second["status"].take();
    stage.world.person.create(&POOL, second).await.unwrap();
    let refused =
        |pool: &serde_json::Value| pool.to_string().contains("cp is the control plane of this cluster");
    stage.world.until(&POOL, &key("another"), refused).await.unwrap();
    tokio::time::sleep(Duration::from_hours(1)).await;
    let mut after = stage.machines().await;
    before.sort();
    after.sort();
    assert_eq!(before, after);
    stage.settled(3).await;
}

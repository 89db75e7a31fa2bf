//! Machines that fall ill: who never joins, whose VM somebody takes away, whose VM restarts, whose host is lost.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use trellis_engine::families::TRELLIS;
use trellis_infra::kinds::{NODE, VM, VMI};
use trellis_infra::object::{Key, Object as _};
use trellis_infra::world::hosts::Host;

use crate::families::pool;
use crate::stage::{CLUSTER, CONTROL, MACHINE, POOL, Stage};

/// A stage with a pool of ours whose machines have joined.
pub(crate) async fn with_pool(replicas: u32) -> (Stage, Vec<Arc<Value>>) {
    with_template(replicas, &json!({})).await
}

/// The same with more in the template.
pub(crate) async fn with_template(replicas: u32, more: &Value) -> (Stage, Vec<Arc<Value>>) {
    let stage = Stage::start(&TRELLIS).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    let mut pool = pool(replicas);
    for (name, value) in more.as_object().unwrap() {
        pool["spec"]["template"][name] = value.clone();
    }
    stage.create(&POOL, pool).await;
    let nodes = stage.until_nodes(replicas as usize).await;
    for node in &nodes {
        stage
            .world
            .until(&MACHINE, &Stage::key(node.name()), |one| one.condition_holds("Ready"))
            .await
            .unwrap();
    }
    (stage, nodes)
}

/// The key of the VM and of its run.
pub(crate) fn vm(name: &str) -> Key {
    Key::new(CLUSTER, name)
}

/// The host a machine is on.
pub(crate) async fn host_of(stage: &Stage, name: &str) -> String {
    let run = stage.world.person.get(&VMI, &vm(name)).await.unwrap().unwrap();
    run.text("/status/nodeName").to_owned()
}

/// A machine object as it is.
pub(crate) async fn machine(stage: &Stage, name: &str) -> Option<Value> {
    stage.world.person.get(&MACHINE, &Stage::key(name)).await.unwrap()
}

/// Waits until another machine is in the place of one, and that one is gone with all it had.
async fn until_replaced(stage: &Stage, name: &str, count: usize) -> Vec<Arc<Value>> {
    stage.world.until_gone(&MACHINE, &Stage::key(name)).await.unwrap();
    stage.tenant.until_gone(&NODE, &Key::cluster(name)).await.unwrap();
    let nodes = stage.until_nodes(count).await;
    assert!(nodes.iter().all(|node| node.name() != name));
    nodes
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_never_joins_is_replaced_at_its_deadline() {
    let stage = Stage::start(&TRELLIS).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    let rule = json!({"name": "lost", "stage": "guest.join", "effect": "hang", "times": 1});
    stage.world.infra.context().stages.add(serde_json::from_value(rule).unwrap());
    let begin = tokio::time::Instant::now();
    stage.create(&POOL, pool(2)).await;
    stage.until_ready_nodes(1).await;
    assert!(begin.elapsed() < Duration::from_mins(20));
    let names = stage.vms().await;
    let joined: Vec<String> = stage
        .tenant
        .person
        .list(&NODE, "")
        .await
        .unwrap()
        .iter()
        .map(|node| node.name().to_owned())
        .collect();
    let lost = names.iter().find(|name| !joined.contains(name)).unwrap();
    stage
        .world
        .until(&MACHINE, &Stage::key(lost), |one| one.text("/status/phase") == "Joining")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_mins(15)).await;
    assert!(stage.vms().await.contains(lost), "it has its time");
    stage.world.until_gone(&VM, &vm(lost)).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_mins(20));
    let nodes = stage.until_nodes(2).await;
    assert!(nodes.iter().all(|node| node.name() != lost));
    assert!(nodes.iter().any(|node| node.name() == joined[0]), "the other one stays");
}

#[tokio::test(start_paused = true)]
async fn when_no_guest_joins_none_is_replaced() {
    let stage = Stage::start(&TRELLIS).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    let rule = json!({"name": "lost", "stage": "guest.join", "effect": "hang"});
    stage.world.infra.context().stages.add(serde_json::from_value(rule).unwrap());
    stage.create(&POOL, pool(3)).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let before = stage.vms().await;
    assert_eq!(before.len(), 3);
    tokio::time::sleep(Duration::from_mins(40)).await;
    assert_eq!(stage.vms().await, before, "what all have is no fault of one");
    for name in &before {
        assert_eq!(machine(&stage, name).await.unwrap().text("/status/phase"), "Failed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_vm_somebody_deletes_is_replaced() {
    let (stage, nodes) = with_pool(2).await;
    let name = nodes[0].name();
    stage.world.person.delete(&VM, &vm(name), "").await.unwrap();
    let after = until_replaced(&stage, name, 2).await;
    assert!(after.iter().any(|node| node.uid() == nodes[1].uid()), "the other one stays");
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_a_vm_keeps_its_node_and_its_machine() {
    let (stage, nodes) = with_pool(2).await;
    let name = nodes[0].name();
    let before = machine(&stage, name).await.unwrap();
    let run = stage.world.person.get(&VMI, &vm(name)).await.unwrap().unwrap();
    stage.world.person.delete(&VMI, &vm(name), "").await.unwrap();
    let again = |one: &Value| one.uid() != run.uid() && one.text("/status/phase") == "Running";
    stage.world.until(&VMI, &vm(name), again).await.unwrap();
    tokio::time::sleep(Duration::from_mins(5)).await;
    let after = stage.until_nodes(2).await;
    assert_eq!(after.iter().find(|node| node.name() == name).unwrap().uid(), nodes[0].uid());
    let now = machine(&stage, name).await.unwrap();
    assert_eq!(now.uid(), before.uid());
    assert!(now.condition_holds("Ready"), "{now}");
    assert_eq!(stage.vms().await.len(), 2);
}

/// A host is cut off; gives the machine on it, and the host.
async fn lose_a_host(stage: &Stage, nodes: &[Arc<Value>]) -> (String, String) {
    let name = nodes[0].name().to_owned();
    let host = host_of(stage, &name).await;
    stage.world.infra.context().world.hosts.set(&host, Host { powered: false, connected: false });
    stage
        .world
        .until(&MACHINE, &Stage::key(&name), |one| one.text("/status/phase") == "Unknown")
        .await
        .unwrap();
    (name, host)
}

#[tokio::test(start_paused = true)]
async fn a_lost_host_is_no_proof_until_somebody_vouches_for_it() {
    let (stage, nodes) = with_pool(2).await;
    let before = stage.vms().await;
    let (name, host) = lose_a_host(&stage, &nodes).await;
    tokio::time::sleep(Duration::from_hours(2)).await;
    assert_eq!(stage.vms().await, before, "nothing is replaced without proof");
    let lost = machine(&stage, &name).await.unwrap();
    assert_eq!((lost.text("/status/phase"), lost.is_deleting()), ("Unknown", false), "{lost}");
    let run = stage.world.person.get(&VMI, &vm(&name)).await.unwrap().unwrap();
    let node = stage.world.person.get(&NODE, &Key::cluster(&host)).await.unwrap().unwrap();
    let mut taints = node.list("/spec/taints").to_vec();
    taints.push(
        json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}),
    );
    stage
        .world
        .person
        .merge(&NODE, &Key::cluster(&host), &json!({"spec": {"taints": taints}}))
        .await
        .unwrap();
    until_recovered(&stage, &name, run.uid()).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_taken_out_is_proof() {
    let (stage, nodes) = with_pool(2).await;
    let (name, host) = lose_a_host(&stage, &nodes).await;
    let run = stage.world.person.get(&VMI, &vm(&name)).await.unwrap().unwrap();
    stage.world.person.delete(&NODE, &Key::cluster(&host), "").await.unwrap();
    until_recovered(&stage, &name, run.uid()).await;
}

/// Waits until the run that was lost is gone and two Nodes are ready on hosts that are well.
async fn until_recovered(stage: &Stage, name: &str, run: &str) {
    let begin = tokio::time::Instant::now();
    while stage.world.person.get(&VMI, &vm(name)).await.unwrap().is_some_and(|one| one.uid() == run) {
        assert!(begin.elapsed() < Duration::from_mins(20), "it is not fenced: {}", stage.machines().await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    for node in stage.until_nodes(2).await {
        let key = Stage::key(node.name());
        stage.world.until(&MACHINE, &key, |one| one.condition_holds("Ready")).await.unwrap();
    }
    assert_eq!(stage.vms().await.len(), 2);
}

//! Health checks of each family: who is sick, how many may be replaced, and what is said of it.

use std::time::Duration;

use serde_json::{Value, json};
use trellis_engine::families::{KKP, OPENSHIFT, TRELLIS};
use trellis_infra::kinds::{EVENT, Kind, NODE, VM, VMI};
use trellis_infra::object::{Key, Object as _};

use crate::families::pool;
use crate::health::{machine, vm, with_pool};
use crate::kkp::{BOOTSTRAP, deployment};
use crate::openshift::{self, install};
use crate::stage::{
    CLUSTER, CONTROL, KKP_CHECK, KKP_DEPLOYMENT, KKP_MACHINE, MACHINE, OPENSHIFT_CHECK, OPENSHIFT_MACHINE,
    OPENSHIFT_SET, POOL, Stage,
};

/// A check that replaces machines whose Node has had a stuck kernel for five minutes.
fn check(labels: &Value, max_unhealthy: &Value) -> Value {
    json!({
        "metadata": {"name": "kernels"},
        "spec": {
            "selector": {"matchLabels": labels},
            "unhealthyConditions": [{"type": "KernelDeadlock", "status": "True", "timeout": "5m"}],
            "maxUnhealthy": max_unhealthy,
            "nodeStartupTimeout": "30m",
        },
    })
}

/// Says of a Node, as a problem detector would, whether its kernel is stuck.
async fn stick(stage: &Stage, node: &str, stuck: bool) {
    let key = Key::cluster(node);
    let now = stage.tenant.person.get(&NODE, &key).await.unwrap().unwrap();
    let mut conditions = now.list("/status/conditions").to_vec();
    conditions.retain(|condition| condition["type"] != "KernelDeadlock");
    let status = if stuck { "True" } else { "False" };
    let since = stage.world.infra.context().clock.seconds();
    conditions.push(json!({
        "type": "KernelDeadlock", "status": status, "reason": "AUFSUmountHung", "message": "task blocked",
        "lastTransitionTime": since, "lastHeartbeatTime": since,
    }));
    stage
        .tenant
        .person
        .merge_status(&NODE, &key, &json!({"status": {"conditions": conditions}}))
        .await
        .unwrap();
}

/// The Events of an object of the control site.
async fn reasons(stage: &Stage, name: &str) -> Vec<String> {
    let events = stage.world.person.list(&EVENT, CONTROL).await.unwrap();
    let of = events.iter().filter(|event| event.text("/involvedObject/name") == name);
    of.map(|event| event.text("/reason").to_owned()).collect()
}

fn condition<'v>(object: &'v Value, kind: &str) -> &'v Value {
    let found = object.list("/status/conditions").iter().find(|condition| condition["type"] == kind);
    found.unwrap_or(&Value::Null)
}

/// Waits until a check says so.
async fn until_said(stage: &Stage, kind: &'static Kind, healthy: i64, allowed: &str, reason: &str) {
    let said = |check: &Value| {
        let condition = condition(check, "RemediationAllowed");
        check.number("/status/currentHealthy") == Some(healthy)
            && (condition["status"].as_str(), condition["reason"].as_str()) == (Some(allowed), Some(reason))
    };
    stage.world.until(kind, &Stage::key("kernels"), said).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_check_of_openshift_replaces_who_is_sick_for_long_enough() {
    let stage = Stage::start(&OPENSHIFT).await;
    install(&stage).await;
    stage.create(&OPENSHIFT_SET, openshift::set(3)).await;
    let labels = json!({"machine.openshift.io/cluster-api-machineset": openshift::SET});
    stage.create(&OPENSHIFT_CHECK, check(&labels, &"40%".into())).await;
    let nodes = stage.until_nodes(3).await;
    until_said(&stage, &OPENSHIFT_CHECK, 3, "True", "WithinLimits").await;
    let sick = nodes[1].name();
    stick(&stage, sick, true).await;
    until_said(&stage, &OPENSHIFT_CHECK, 2, "True", "WithinLimits").await;
    tokio::time::sleep(Duration::from_secs(290)).await;
    let now = stage.world.person.get(&OPENSHIFT_MACHINE, &Stage::key(sick)).await.unwrap().unwrap();
    assert!(!now.is_deleting(), "it has its five minutes");
    stage.world.until_gone(&OPENSHIFT_MACHINE, &Stage::key(sick)).await.unwrap();
    let after = stage.until_nodes(3).await;
    for node in nodes.iter().filter(|node| node.name() != sick) {
        assert!(after.iter().any(|one| one.uid() == node.uid()), "{} is well and stays", node.name());
    }
    until_said(&stage, &OPENSHIFT_CHECK, 3, "True", "WithinLimits").await;
    assert!(reasons(&stage, "kernels").await.contains(&"RemediationStarted".to_owned()));
    let said = stage.world.person.get(&OPENSHIFT_CHECK, &Stage::key("kernels")).await.unwrap().unwrap();
    assert_eq!(said.number("/status/expectedMachines"), Some(3));
    assert_eq!(said.number("/status/remediationsAllowed"), Some(1));
    // Nothing is written while nothing happens.
    let version = said.text("/metadata/resourceVersion").to_owned();
    tokio::time::sleep(Duration::from_mins(20)).await;
    let later = stage.world.person.get(&OPENSHIFT_CHECK, &Stage::key("kernels")).await.unwrap().unwrap();
    assert_eq!(later.text("/metadata/resourceVersion"), version);
}

#[tokio::test(start_paused = true)]
async fn a_check_of_kkp_that_sees_too_many_sick_replaces_none() {
    let stage = Stage::start(&KKP).await;
    stage.store_user_data(BOOTSTRAP.0, BOOTSTRAP.1, "cloud-config").await;
    stage.create(&KKP_DEPLOYMENT, deployment(3)).await;
    stage.create(&KKP_CHECK, check(&json!({"pool": "workers"}), &1.into())).await;
    let nodes = stage.until_nodes(3).await;
    until_said(&stage, &KKP_CHECK, 3, "True", "WithinLimits").await;
    let before = stage.vms().await;
    stick(&stage, nodes[0].name(), true).await;
    stick(&stage, nodes[1].name(), true).await;
    until_said(&stage, &KKP_CHECK, 1, "False", "TooManyUnhealthy").await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(stage.vms().await, before, "what two of three have is no fault of one");
    assert!(reasons(&stage, "kernels").await.contains(&"TooManyUnhealthy".to_owned()));
    // One recovers, and the other one is within the limit.
    stick(&stage, nodes[0].name(), false).await;
    stage.world.until_gone(&KKP_MACHINE, &Stage::key(nodes[1].name())).await.unwrap();
    let after = stage.until_nodes(3).await;
    assert!(after.iter().any(|node| node.uid() == nodes[0].uid()), "who recovered stays");
    until_said(&stage, &KKP_CHECK, 3, "True", "WithinLimits").await;
}

/// Holds a VM: its kubelet says nothing any more.
pub(crate) async fn hold(stage: &Stage, name: &str) {
    let path = format!(
        "/apis/subresources.kubevirt.io/v1/namespaces/{CLUSTER}/virtualmachineinstances/{name}/pause"
    );
    // The answer is empty, which is no object.
    let _ = stage.world.person.send(http::Method::PUT, &path, Some(("application/json", &json!({})))).await;
    let paused = |run: &Value| run.condition_holds("Paused");
    stage.world.until(&VMI, &vm(name), paused).await.unwrap();
}

/// The machines of each zone, those whose zone is `of`.
async fn in_zone(stage: &Stage, of: &str) -> Vec<String> {
    let machines = stage.world.person.list(&MACHINE, CONTROL).await.unwrap();
    let of_zone = machines.iter().filter(|machine| machine.text("/spec/zone") == of);
    of_zone.map(|machine| machine.name().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn when_a_zone_is_out_its_machines_stay_and_others_are_looked_after() {
    let stage = Stage::start(&TRELLIS).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    let mut pool = pool(6);
    pool["spec"]["template"]["placement"] = json!({"zones": ["lab-a", "lab-b", "lab-c"]});
    pool["metadata"]["annotations"] = json!({
        "trellis.dev/unhealthy-after": "4m", "trellis.dev/max-unhealthy": "100%",
    });
    stage.create(&POOL, pool).await;
    stage.until_nodes(6).await;
    let allowed = |reason: &'static str| {
        move |pool: &Value| condition(pool, "RemediationAllowed")["reason"].as_str() == Some(reason)
    };
    let key = Stage::key("workers");
    stage.world.until(&POOL, &key, allowed("WithinLimits")).await.unwrap();
    let out = in_zone(&stage, "lab-b").await;
    assert_eq!(out.len(), 2);
    let single = in_zone(&stage, "lab-a").await.remove(0);
    for name in &out {
        hold(&stage, name).await;
    }
    let said = stage.world.until(&POOL, &key, allowed("ZoneOutage")).await.unwrap();
    assert!(condition(&said, "RemediationAllowed")["message"].as_str().unwrap().contains("lab-b"), "{said}");
    hold(&stage, &single).await;
    stage.world.until_gone(&MACHINE, &Stage::key(&single)).await.unwrap();
    tokio::time::sleep(Duration::from_mins(20)).await;
    for name in &out {
        let kept = machine(&stage, name).await.unwrap();
        assert!(!kept.is_deleting(), "{kept}");
        assert!(kept.to_string().contains("zone's trouble"), "{kept}");
    }
    stage.until_ready_nodes(4).await;
    assert!(reasons(&stage, "workers").await.contains(&"ZoneOutage".to_owned()));
    // What the pool says no longer is taken back.
    let none = json!({"metadata": {"annotations": {
        "trellis.dev/unhealthy-after": null, "trellis.dev/max-unhealthy": null,
    }}});
    stage.world.person.merge(&POOL, &key, &none).await.unwrap();
    let silent = |pool: &Value| condition(pool, "RemediationAllowed").is_null();
    stage.world.until(&POOL, &key, silent).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_check_decides_how_long_a_node_may_be_away() {
    let (stage, nodes) = with_pool(3).await;
    let patience = json!({"metadata": {"annotations": {"trellis.dev/unhealthy-after": "25m"}}});
    stage.world.person.merge(&POOL, &Stage::key("workers"), &patience).await.unwrap();
    let held = nodes[0].name();
    hold(&stage, held).await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert!(!machine(&stage, held).await.unwrap().is_deleting(), "it has its time");
    stage.world.until_gone(&MACHINE, &Stage::key(held)).await.unwrap();
    stage.until_nodes(3).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_machine_is_kept_for_debugging_and_does_not_count() {
    let (stage, nodes) = with_pool(2).await;
    let kept = nodes[0].name();
    let keep = json!({"metadata": {"annotations": {"trellis.dev/preserve": "true"}}});
    stage.world.person.merge(&MACHINE, &Stage::key(kept), &keep).await.unwrap();
    stage.world.person.delete(&VM, &vm(kept), "").await.unwrap();
    let failed = |machine: &Value| machine.text("/status/phase") == "Failed";
    stage.world.until(&MACHINE, &Stage::key(kept), failed).await.unwrap();
    stage.until_ready_nodes(2).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    let now = machine(&stage, kept).await.unwrap();
    assert!(!now.is_deleting() && now.to_string().contains("kept for debugging"), "{now}");
    // Whoever has seen enough lets it go.
    let done = json!({"metadata": {"annotations": {"trellis.dev/preserve": null}}});
    stage.world.person.merge(&MACHINE, &Stage::key(kept), &done).await.unwrap();
    stage.world.until_gone(&MACHINE, &Stage::key(kept)).await.unwrap();
    stage.until_nodes(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_check_that_cannot_be_read_says_so_and_does_nothing() {
    let stage = Stage::start(&OPENSHIFT).await;
    stage.create(&OPENSHIFT_CHECK, check(&json!({}), &"many".into())).await;
    let said = |check: &Value| {
        let condition = condition(check, "RemediationAllowed");
        condition["reason"] == "InvalidConfiguration"
            && condition["message"].as_str().is_some_and(|message| message.contains("spec.maxUnhealthy"))
    };
    stage.world.until(&OPENSHIFT_CHECK, &Stage::key("kernels"), said).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pools_of_another_tenant_in_the_namespace_are_not_judged() {
    let stage = Stage::start(&TRELLIS).await;
    let mut other = pool(1);
    other["spec"]["cluster"] = "red".into();
    other["metadata"]["annotations"] = json!({"trellis.dev/unhealthy-after": "4m"});
    stage.create(&POOL, other).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let seen = stage.world.person.get(&POOL, &Stage::key("workers")).await.unwrap().unwrap();
    assert!(condition(&seen, "RemediationAllowed").is_null(), "{seen}");
}

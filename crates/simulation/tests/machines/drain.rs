//! Removals and evacuations empty the Nodes of the tenant first.

use std::time::Duration;

use serde_json::{Value, json};
use trellis_engine::families::TRELLIS;
use trellis_infra::kinds::{DEPLOYMENT, MIGRATION, NODE, POD, POD_DISRUPTION_BUDGET, VM, VMI};
use trellis_infra::object::{Key, Object as _};

use crate::families::pool;
use crate::health::{host_of, machine, vm, with_pool, with_template};
use crate::stage::{CLUSTER, CONTROL, MACHINE, POOL, Stage};

crate::everywhere!(
    a_removal_empties_the_node_and_the_pods_come_back_elsewhere,
    a_machine_that_can_move_leaves_its_host_with_its_node,
    a_machine_that_cannot_move_is_drained_and_replaced,
    a_host_that_takes_work_again_keeps_its_machines
);

/// Starts a Deployment in the tenant and waits for its pods.
async fn deploy(stage: &Stage, replicas: i64) {
    let labels = json!({"app": "web"});
    let deployment = json!({
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
            },
        },
    });
    stage.tenant.person.create(&DEPLOYMENT, deployment).await.unwrap();
    until_deployed(stage, replicas).await;
}

async fn until_deployed(stage: &Stage, replicas: i64) {
    let key = Key::new("default", "web");
    let ready = |one: &Value| one.number("/status/availableReplicas") == Some(replicas);
    stage.tenant.until(&DEPLOYMENT, &key, ready).await.unwrap();
}

/// The pods on a Node: those of the Deployment, and those of the DaemonSet.
async fn pods_on(stage: &Stage, node: &str) -> (usize, usize) {
    let pods = stage.tenant.person.list(&POD, "").await.unwrap();
    let on_node: Vec<&Value> = pods.iter().filter(|pod| pod.text("/spec/nodeName") == node).collect();
    let web = on_node.iter().filter(|pod| pod.label("app") == "web").count();
    (web, on_node.len() - web)
}

/// How far the removal of a machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment {
    cordoned: bool,
    pods: usize,
    daemons: usize,
    vm: bool,
    node: bool,
}

async fn moment(stage: &Stage, name: &str) -> Moment {
    let node = stage.tenant.person.get(&NODE, &Key::cluster(name)).await.unwrap();
    let (pods, daemons) = pods_on(stage, name).await;
    Moment {
        cordoned: node.as_ref().is_none_or(|node| node.flag("/spec/unschedulable")),
        pods,
        daemons,
        vm: stage.world.person.get(&VM, &vm(name)).await.unwrap().is_some(),
        node: node.is_some(),
    }
}

/// All different moments until the machine is gone.
async fn moments(stage: &Stage, name: &str, patience: Duration) -> Vec<Moment> {
    let mut all: Vec<Moment> = Vec::new();
    let begin = tokio::time::Instant::now();
    while machine(stage, name).await.is_some() {
        let now = moment(stage, name).await;
        if all.last() != Some(&now) {
            all.push(now);
        }
        assert!(begin.elapsed() < patience, "it does not go: {all:?} {}", stage.machines().await);
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    all
}

fn assert_order(all: &[Moment]) {
    for one in all {
        if !one.vm {
            assert_eq!((one.cordoned, one.pods), (true, 0), "the VM went before its Node was empty: {all:?}");
        }
        if !one.node {
            assert!(!one.vm, "the Node went before the VM: {all:?}");
        }
    }
    assert!(all.iter().any(|one| one.cordoned && one.node && one.vm), "it was never cordoned: {all:?}");
}

async fn a_removal_empties_the_node_and_the_pods_come_back_elsewhere() {
    let (stage, nodes) = with_pool(2).await;
    deploy(&stage, 4).await;
    let mut name = nodes[0].name();
    if pods_on(&stage, name).await.0 == 0 {
        name = nodes[1].name();
    }
    let before = moment(&stage, name).await;
    assert!(before.pods > 0 && before.daemons > 0, "{before:?}");
    stage.world.person.delete(&MACHINE, &Stage::key(name), "").await.unwrap();
    let all = moments(&stage, name, Duration::from_mins(30)).await;
    assert_order(&all);
    let emptied = all.iter().find(|one| one.pods == 0).unwrap();
    assert!(emptied.daemons > 0, "pods of DaemonSets are left: {all:?}");
    until_deployed(&stage, 4).await;
    stage.until_nodes(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_holds_a_drain_up_until_its_deadline() {
    let (stage, nodes) = with_pool(2).await;
    deploy(&stage, 2).await;
    let mut name = nodes[0].name();
    if pods_on(&stage, name).await.0 == 0 {
        name = nodes[1].name();
    }
    let budget = json!({
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    });
    stage.tenant.person.create(&POD_DISRUPTION_BUDGET, budget).await.unwrap();
    let none = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2,
    }});
    stage
        .tenant
        .person
        .merge_status(&POD_DISRUPTION_BUDGET, &Key::new("default", "web"), &none)
        .await
        .unwrap();
    let begin = tokio::time::Instant::now();
    let before = moment(&stage, name).await.pods;
    stage.world.person.delete(&MACHINE, &Stage::key(name), "").await.unwrap();
    tokio::time::sleep(Duration::from_mins(110)).await;
    let held = moment(&stage, name).await;
    assert_eq!((held.pods, held.cordoned, held.vm), (before, true, true), "{}", stage.machines().await);
    let said = machine(&stage, name).await.unwrap();
    assert_eq!(said.text("/status/phase"), "Draining", "{said}");
    let all = moments(&stage, name, Duration::from_mins(40)).await;
    assert_order(&all);
    assert!(begin.elapsed() >= Duration::from_hours(2));
    until_deployed(&stage, 2).await;
}

/// A disk that only one host at a time may use: its machine cannot move while it runs.
fn of_one_host() -> Value {
    json!({"rootDisk": {"size": "10Gi", "storage": {"accessMode": "ReadWriteOnce"}}})
}

/// Cordons a host and evicts the launcher pods on it, again and again as a drain does; ends when none is left.
async fn drain_host(stage: &Stage, host: &str, patience: Duration) {
    cordon_host(stage, host, true).await;
    let begin = tokio::time::Instant::now();
    loop {
        let pods = stage.world.person.list(&POD, CLUSTER).await.unwrap();
        let launchers: Vec<&Value> = pods
            .iter()
            .filter(|pod| pod.label("kubevirt.io") == "virt-launcher" && pod.text("/spec/nodeName") == host)
            .filter(|pod| !matches!(pod.text("/status/phase"), "Succeeded" | "Failed"))
            .collect();
        if launchers.is_empty() {
            return;
        }
        for pod in launchers {
            let eviction = json!({
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"namespace": pod.namespace(), "name": pod.name()},
            });
            // Refused for as long as the machine is there.
            let _ = stage.world.person.post(&POD, &Key::of(pod), "eviction", &eviction).await;
        }
        assert!(begin.elapsed() < patience, "host {host} is not emptied: {}", stage.machines().await);
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

async fn cordon_host(stage: &Stage, host: &str, cordoned: bool) {
    let patch = json!({"spec": {"unschedulable": cordoned}});
    stage.world.person.merge(&NODE, &Key::cluster(host), &patch).await.unwrap();
}

async fn a_machine_that_can_move_leaves_its_host_with_its_node() {
    let shared = json!({"size": "10Gi", "storage": {"accessMode": "ReadWriteMany"}});
    let (stage, nodes) = with_template(2, &json!({"eviction": "LiveMigrate", "rootDisk": shared})).await;
    let name = nodes[0].name();
    let host = host_of(&stage, name).await;
    let run = stage.world.person.get(&VMI, &vm(name)).await.unwrap().unwrap();
    drain_host(&stage, &host, Duration::from_mins(15)).await;
    assert_ne!(host_of(&stage, name).await, host);
    let moved = stage.world.person.get(&VMI, &vm(name)).await.unwrap().unwrap();
    assert_eq!(moved.uid(), run.uid(), "it is the same run");
    let after = stage.until_nodes(2).await;
    for node in &after {
        assert!(nodes.iter().any(|before| before.uid() == node.uid()), "{} is another", node.name());
        assert!(!node.flag("/spec/unschedulable"));
    }
}

async fn a_machine_that_cannot_move_is_drained_and_replaced() {
    let (stage, nodes) = with_template(3, &of_one_host()).await;
    let name = nodes[0].name();
    let host = host_of(&stage, name).await;
    drain_host(&stage, &host, Duration::from_mins(30)).await;
    stage.world.until_gone(&MACHINE, &Stage::key(name)).await.unwrap();
    let after = stage.until_nodes(3).await;
    for node in &after {
        assert_ne!(host_of(&stage, node.name()).await, host);
    }
    assert!(stage.world.person.list(&MIGRATION, CLUSTER).await.unwrap().is_empty());
}

async fn a_host_that_takes_work_again_keeps_its_machines() {
    let (stage, nodes) = with_template(2, &of_one_host()).await;
    deploy(&stage, 4).await;
    let budget = json!({
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"minAvailable": 4, "selector": {"matchLabels": {"app": "web"}}},
    });
    stage.tenant.person.create(&POD_DISRUPTION_BUDGET, budget).await.unwrap();
    let mut name = nodes[0].name();
    if pods_on(&stage, name).await.0 == 0 {
        name = nodes[1].name();
    }
    let host = host_of(&stage, name).await;
    let drain = drain_host(&stage, &host, Duration::from_hours(2));
    let draining = |one: &Value| one.text("/status/phase") == "Draining";
    let key = Stage::key(name);
    tokio::select! {
        () = drain => panic!("the budget did not hold it up"),
        found = stage.world.until(&MACHINE, &key, draining) => drop(found.unwrap()),
    }
    let cordoned = |node: &Value| node.flag("/spec/unschedulable");
    stage.tenant.until(&NODE, &Key::cluster(name), cordoned).await.unwrap();
    cordon_host(&stage, &host, false).await;
    stage.tenant.until(&NODE, &Key::cluster(name), |node| !cordoned(node)).await.unwrap();
    stage.quiet(Duration::from_mins(10)).await;
    let now = machine(&stage, name).await.unwrap();
    assert!(now.condition_holds("Ready") && !now.is_deleting(), "{now}");
    assert_eq!(stage.until_nodes(2).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn machines_on_one_host_leave_it_one_after_the_other() {
    let stage = Stage::start(&TRELLIS).await;
    let hosts = stage.world.person.list(&NODE, "").await.unwrap();
    let host = hosts[0].name();
    for other in &hosts[1..] {
        cordon_host(&stage, other.name(), true).await;
    }
    stage.store_user_data(CONTROL, "join", "userData").await;
    let mut workers = pool(3);
    workers["spec"]["template"]["rootDisk"] = of_one_host()["rootDisk"].clone();
    stage.create(&POOL, workers).await;
    for node in stage.until_nodes(3).await {
        stage.until_running(&MACHINE, node.name()).await;
        assert_eq!(host_of(&stage, node.name()).await, host);
    }
    for other in &hosts[1..] {
        cordon_host(&stage, other.name(), false).await;
    }
    let nodes = stage.tenant.person.cache(&NODE);
    let mut changes = nodes.changes();
    let most = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = std::sync::Arc::clone(&most);
    tokio::spawn(async move {
        while changes.recv().await.is_some() {
            let cordoned = nodes.list("").iter().filter(|node| node.flag("/spec/unschedulable")).count();
            seen.fetch_max(cordoned, std::sync::atomic::Ordering::Relaxed);
        }
    });
    drain_host(&stage, host, Duration::from_hours(2)).await;
    stage.until_nodes(3).await;
    assert_eq!(most.load(std::sync::atomic::Ordering::Relaxed), 1, "the budget is one at a time");
}

/// The same connection, on which some requests are refused for as long as `refuses` says so.
fn refusing(
    client: kube::Client,
    picks: fn(&http::Request<kube::client::Body>) -> bool,
    refuses: &std::sync::Arc<std::sync::atomic::AtomicBool>,
) -> kube::Client {
    let refuses = std::sync::Arc::clone(refuses);
    let answer = move |request: http::Request<kube::client::Body>| {
        let (client, refuses) = (client.clone(), std::sync::Arc::clone(&refuses));
        async move {
            if picks(&request) && refuses.load(std::sync::atomic::Ordering::Relaxed) {
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": "somebody is against it", "reason": "Forbidden", "code": 403});
                let body = kube::client::Body::from(status.to_string().into_bytes());
                let answer = http::Response::builder().status(403).header("content-type", "application/json");
                return Ok(answer.body(body).unwrap());
            }
            client.send(request).await
        }
    };
    kube::Client::new(tower::service_fn(answer), "default")
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_refused_is_said_and_tried_again() {
    let (stage, nodes) = with_pool(2).await;
    let name = nodes[0].name();
    let refuses = std::sync::Arc::new(true.into());
    let deletes = |request: &http::Request<kube::client::Body>| {
        request.method() == http::Method::DELETE && request.uri().path().contains("/virtualmachines/")
    };
    let client = refusing(stage.sites.infra.client(), deletes, &refuses);
    stage.sites.infra.swap(client, trellis_runtime::client::Leads::Same);
    stage.world.person.delete(&MACHINE, &Stage::key(name), "").await.unwrap();
    let said = |one: &Value| {
        one.pointer("/status").is_some_and(|status| {
            status.to_string().contains("removing its VM: ")
                && status.to_string().contains("somebody is against it")
        })
    };
    stage.world.until(&MACHINE, &Stage::key(name), said).await.unwrap();
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(stage.vms().await.contains(&name.to_owned()));
    refuses.store(false, std::sync::atomic::Ordering::Relaxed);
    stage.world.until_gone(&MACHINE, &Stage::key(name)).await.unwrap();
    stage.until_nodes(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_nobody_may_evict_holds_up_no_other() {
    let (stage, nodes) = with_pool(2).await;
    deploy(&stage, 6).await;
    let name = nodes[0].name();
    let pods = stage.tenant.person.list(&POD, "default").await.unwrap();
    let on_node: Vec<&Value> = pods.iter().filter(|pod| pod.text("/spec/nodeName") == name).collect();
    assert!(on_node.len() > 1, "{}", on_node.len());
    // The first one that is evicted: names are in order.
    let kept = on_node.iter().map(|pod| pod.name()).min().unwrap().to_owned();
    KEPT.set(kept.clone()).unwrap();
    let refuses = std::sync::Arc::new(true.into());
    let evicts = |request: &http::Request<kube::client::Body>| {
        request.uri().path().ends_with(&format!("/{}/eviction", KEPT.get().unwrap()))
    };
    let client = refusing(stage.sites.tenant.client(), evicts, &refuses);
    stage.sites.tenant.swap(client, trellis_runtime::client::Leads::Same);
    stage.world.person.delete(&MACHINE, &Stage::key(name), "").await.unwrap();
    let begin = tokio::time::Instant::now();
    while pods_on(&stage, name).await.0 > 1 {
        assert!(begin.elapsed() < Duration::from_mins(20), "{}", stage.machines().await);
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!(machine(&stage, name).await.is_some());
    refuses.store(false, std::sync::atomic::Ordering::Relaxed);
    stage.world.until_gone(&MACHINE, &Stage::key(name)).await.unwrap();
}

static KEPT: std::sync::OnceLock<String> = std::sync::OnceLock::new();

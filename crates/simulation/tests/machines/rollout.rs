//! How a pool gets from one revision to another, and what changes without one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_engine::families::TRELLIS;
use trellis_infra::kinds::{CONTROLLER_REVISION, NODE, VM, VMI};
use trellis_infra::object::{Key, Object as _};

use crate::stage::{CLUSTER, CONTROL, MACHINE, POOL, Stage};

crate::everywhere!(an_update_is_paused_resumed_and_undone, labels_and_memory_change_without_another_machine);

pub(crate) const OLD: &str = "ubuntu:24.04";
pub(crate) const NEW: &str = "ubuntu:26.04";

pub(crate) fn pool(replicas: u32, update: &Value) -> Value {
    json!({
        "metadata": {"name": "workers"},
        "spec": {
            "cluster": CLUSTER,
            "replicas": replicas,
            "update": update,
            "nodeLabels": {"tier": "web"},
            "template": {
                "shape": {"custom": {"cpu": {"topology": {"sockets": 1}}, "memory": {"guest": "1Gi"}}},
                "image": {"os": "ubuntu", "source": {"registry": {"url": format!("docker://registry.example/{OLD}")}}},
                "rootDisk": {"size": "10Gi"},
                "userData": {"secret": "join"},
            },
        },
    })
}

pub(crate) fn image(name: &str) -> Value {
    let url = format!("docker://registry.example/{name}");
    json!({"spec": {"template": {"image": {"source": {"registry": {"url": url}}}}}})
}

pub(crate) async fn start(replicas: u32, update: &Value) -> Stage {
    let stage = Stage::start(&TRELLIS).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    stage.create(&POOL, pool(replicas, update)).await;
    settled(&stage, i64::from(replicas)).await;
    stage
}

pub(crate) async fn change(stage: &Stage, patch: &Value) {
    stage.world.person.merge(&POOL, &Stage::key("workers"), patch).await.unwrap();
}

/// Waits until the pool has nothing left to do.
pub(crate) async fn settled(stage: &Stage, replicas: i64) {
    let done = |pool: &Value| {
        ["replicas", "updatedReplicas", "availableReplicas"]
            .iter()
            .all(|count| pool.number(&format!("/status/{count}")).unwrap_or_default() == replicas)
            && pool.number("/status/observedGeneration") == pool.number("/metadata/generation")
            && pool.condition_holds("Ready")
    };
    stage.world.until(&POOL, &Stage::key("workers"), done).await.unwrap();
}

pub(crate) async fn machines(stage: &Stage) -> Vec<Value> {
    stage.world.person.list(&MACHINE, CONTROL).await.unwrap()
}

/// The revisions there are machines of.
pub(crate) async fn revisions(stage: &Stage) -> BTreeSet<String> {
    machines(stage).await.iter().map(|machine| machine.text("/spec/revision").to_owned()).collect()
}

/// The one revision all machines have.
async fn revision(stage: &Stage) -> String {
    let all = revisions(stage).await;
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().unwrap()
}

/// The revisions that are kept, with their places in the history.
async fn history(stage: &Stage) -> BTreeMap<String, i64> {
    let kept = stage.world.person.list(&CONTROLLER_REVISION, CONTROL).await.unwrap();
    let place =
        |one: &Value| (one.label("trellis.dev/revision").to_owned(), one.number("/revision").unwrap());
    kept.iter().map(place).collect()
}

pub(crate) fn uids(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(|object| object.uid().to_owned()).collect()
}

async fn an_update_is_paused_resumed_and_undone() {
    let stage = start(1, &json!({"maxSurge": 1, "maxUnavailable": 0, "historyLimit": 1})).await;
    let first = revision(&stage).await;
    let before = uids(&machines(&stage).await);
    // Paused, nothing is replaced, but the pool still grows, the old way.
    change(&stage, &json!({"spec": {"update": {"paused": true}}})).await;
    change(&stage, &image(NEW)).await;
    change(&stage, &json!({"spec": {"replicas": 2}})).await;
    stage.until_nodes(2).await;
    stage.quiet(Duration::from_mins(10)).await;
    assert_eq!(revision(&stage).await, first);
    let grown = uids(&machines(&stage).await);
    assert!(grown.is_superset(&before) && grown.len() == 2, "{grown:?}");
    // Resumed, it goes on.
    change(&stage, &json!({"spec": {"update": {"paused": false}}})).await;
    settled(&stage, 2).await;
    let second = revision(&stage).await;
    assert_ne!(second, first);
    assert!(uids(&machines(&stage).await).is_disjoint(&grown));
    assert_eq!(history(&stage).await, BTreeMap::from([(first.clone(), 1), (second.clone(), 2)]));
    // Set back, it is the first revision again, in a new place.
    change(&stage, &image(OLD)).await;
    settled(&stage, 2).await;
    assert_eq!(revision(&stage).await, first);
    assert_eq!(history(&stage).await, BTreeMap::from([(second.clone(), 2), (first.clone(), 3)]));
    // Of the old revisions, one is kept.
    change(&stage, &image("ubuntu:28.04")).await;
    settled(&stage, 2).await;
    let third = revision(&stage).await;
    let kept = |all: &BTreeMap<String, i64>| all.len() == 2;
    let deadline = tokio::time::Instant::now() + Duration::from_mins(5);
    while !kept(&history(&stage).await) && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(history(&stage).await, BTreeMap::from([(first, 3), (third, 4)]));
}

/// What was seen of an update while it went on.
#[derive(Default)]
struct Watched {
    most: usize,
    least: Option<usize>,
    /// When machines began to go, and when Nodes became ready for the first time, by uid.
    going: BTreeMap<String, Timestamp>,
    ready: BTreeMap<String, Timestamp>,
}

fn watch(stage: &Stage) -> Arc<Mutex<Watched>> {
    let watched = Arc::new(Mutex::new(Watched::default()));
    let told = Arc::clone(&watched);
    let machines = stage.world.person.cache(&MACHINE);
    let nodes = stage.tenant.person.cache(&NODE);
    tokio::spawn(async move {
        let (mut of_machines, mut of_nodes) = (machines.changes(), nodes.changes());
        loop {
            {
                let mut told = told.lock().unwrap();
                let all = machines.list("");
                told.most = told.most.max(all.len());
                for machine in &all {
                    if let Ok(at) = machine.text("/metadata/deletionTimestamp").parse() {
                        told.going.entry(machine.uid().to_owned()).or_insert(at);
                    }
                }
                let ready: Vec<_> =
                    nodes.list("").into_iter().filter(|node| node.condition_holds("Ready")).collect();
                told.least = Some(told.least.map_or(ready.len(), |least| least.min(ready.len())));
                for node in &ready {
                    let at = node.condition("Ready").text("/lastTransitionTime").parse().unwrap();
                    told.ready.entry(node.uid().to_owned()).or_insert(at);
                }
            }
            tokio::select! {
                _ = of_machines.recv() => {}
                _ = of_nodes.recv() => {}
            }
        }
    });
    watched
}

#[tokio::test(start_paused = true)]
async fn an_update_keeps_to_its_bounds_and_waits_until_machines_have_proved_themselves() {
    const WAIT: i64 = 120;
    let update = json!({"maxSurge": 0, "maxUnavailable": 1, "minReadySeconds": WAIT});
    let stage = start(3, &update).await;
    let before: BTreeSet<String> =
        stage.until_nodes(3).await.iter().map(|node| node.uid().to_owned()).collect();
    // Both caches know everything before anything is counted.
    stage.world.until(&MACHINE, &Stage::key(machines(&stage).await[0].name()), |_| true).await.unwrap();
    let watched = watch(&stage);
    change(&stage, &image(NEW)).await;
    settled(&stage, 3).await;
    let watched = watched.lock().unwrap();
    assert_eq!((watched.most, watched.least), (3, Some(2)));
    let mut going: Vec<Timestamp> = watched.going.values().copied().collect();
    going.sort();
    let new = watched.ready.iter().filter(|(uid, _)| !before.contains(*uid));
    let mut ready: Vec<Timestamp> = new.map(|(_, at)| *at).collect();
    ready.sort();
    assert_eq!((going.len(), ready.len()), (3, 3));
    for (ready, next) in ready.iter().zip(going.iter().skip(1)) {
        let waited = next.duration_since(*ready).as_secs();
        assert!((WAIT..WAIT + 10).contains(&waited), "the next went after {waited} s");
    }
}

async fn labels_and_memory_change_without_another_machine() {
    let stage = start(2, &json!({})).await;
    let before = uids(&machines(&stage).await);
    let person = &stage.world.person;
    let runs = uids(&person.list(&VMI, CLUSTER).await.unwrap());
    let nodes = stage.until_nodes(2).await;
    // Labels reach Nodes and leave them; those of others stay.
    for node in &nodes {
        let theirs = json!({"metadata": {"labels": {"theirs": "kept"}}});
        stage.tenant.person.merge(&NODE, &Key::cluster(node.name()), &theirs).await.unwrap();
    }
    change(&stage, &json!({"spec": {"nodeLabels": {"tier": "data", "disk": "fast"}}})).await;
    for node in &nodes {
        let labelled = |node: &Value| {
            node.label("tier") == "data" && node.label("disk") == "fast" && node.label("theirs") == "kept"
        };
        stage.tenant.until(&NODE, &Key::cluster(node.name()), labelled).await.unwrap();
    }
    change(&stage, &json!({"spec": {"nodeLabels": {"tier": null, "disk": "fast"}}})).await;
    for node in &nodes {
        let left = |node: &Value| {
            node["metadata"]["labels"]["tier"].is_null()
                && node.label("disk") == "fast"
                && node.label("theirs") == "kept"
        };
        stage.tenant.until(&NODE, &Key::cluster(node.name()), left).await.unwrap();
    }
    // Memory grows where the machines are.
    let memory = json!({"spec": {"template": {"shape": {"custom": {"memory": {"guest": "2Gi"}}}}}});
    change(&stage, &memory).await;
    for node in &nodes {
        let grown = |vm: &Value| vm.text("/spec/template/spec/domain/memory/guest") == "2Gi";
        stage.world.until(&VM, &Key::new(CLUSTER, node.name()), grown).await.unwrap();
        let shown = |vmi: &Value| vmi.text("/status/memory/guestCurrent") == "2Gi";
        stage.world.until(&VMI, &Key::new(CLUSTER, node.name()), shown).await.unwrap();
    }
    settled(&stage, 2).await;
    assert_eq!(uids(&machines(&stage).await), before);
    assert_eq!(uids(&person.list(&VMI, CLUSTER).await.unwrap()), runs);
    let after: BTreeSet<String> =
        stage.until_nodes(2).await.iter().map(|node| node.uid().to_owned()).collect();
    assert_eq!(after, nodes.iter().map(|node| node.uid().to_owned()).collect());
}

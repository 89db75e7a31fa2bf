//! What is left of machines that are gone: removed with proof, told without.

use std::time::Duration;

use serde_json::{Value, json};
use trellis_engine::controllers::{Leftovers, Settings};
use trellis_engine::families::TRELLIS;
use trellis_infra::kinds::{EVENT, NODE, SECRET, SERVICE, VM};
use trellis_infra::object::{Key, Object as _};
use trellis_simulation::Make;

use crate::checks::hold;
use crate::families::pool;
use crate::health::{vm, with_pool};
use crate::stage::{CLUSTER, CONTROL, MACHINE, POOL, Stage};

/// Labels and annotations of what belongs to a machine.
fn of_machine(name: &str, uid: Option<&str>) -> Value {
    let mut annotations = json!({"trellis.dev/machine-namespace": CONTROL});
    if let Some(uid) = uid {
        annotations["trellis.dev/machine-uid"] = uid.into();
    }
    json!({
        "namespace": CLUSTER, "name": name, "annotations": annotations,
        "labels": {"trellis.dev/cluster": CLUSTER, "trellis.dev/machine": name, "app.kubernetes.io/managed-by": "trellis"},
    })
}

/// A Node that says that it was a machine of ours.
fn node(name: &str, vm: Option<&str>) -> Value {
    let mut annotations = json!({"trellis.dev/machine": format!("{CONTROL}/{name}")});
    if let Some(vm) = vm {
        annotations["trellis.dev/vm-uid"] = vm.into();
    }
    json!({"metadata": {"name": name, "annotations": annotations}, "spec": {"providerID": format!("kubevirt://{name}")}})
}

/// A Secret and a Service of a machine, and a Node: those of `gone` are proven left over, those of `unclear` are not.
async fn leave(stage: &Stage) {
    let person = &stage.world.person;
    for (name, uid) in [("gone", Some("dead")), ("unclear", None)] {
        person.create(&SECRET, json!({"metadata": of_machine(name, uid)})).await.unwrap();
        let spec = json!({"clusterIP": "None", "selector": {"a": "b"}});
        person.create(&SERVICE, json!({"metadata": of_machine(name, uid), "spec": spec})).await.unwrap();
        stage.tenant.person.create(&NODE, node(name, uid)).await.unwrap();
    }
    // What a cluster of the same name in another namespace made is not ours to miss.
    let mut neighbours = of_machine("neighbour", Some("dead"));
    neighbours["annotations"]["trellis.dev/machine-namespace"] = "elsewhere".into();
    person.create(&SECRET, json!({"metadata": neighbours})).await.unwrap();
    // What is not ours is not looked at.
    let others = json!({"metadata": {"namespace": CLUSTER, "name": "others", "labels": {"trellis.dev/cluster": "red", "trellis.dev/machine": "others"}}});
    person.create(&SECRET, others).await.unwrap();
    stage.tenant.person.create(&NODE, json!({"metadata": {"name": "others"}})).await.unwrap();
}

async fn is_there(stage: &Stage, name: &str) -> [bool; 3] {
    let person = &stage.world.person;
    let secret = person.get(&SECRET, &Key::new(CLUSTER, name)).await.unwrap();
    let service = person.get(&SERVICE, &Key::new(CLUSTER, name)).await.unwrap();
    let node = stage.tenant.person.get(&NODE, &Key::cluster(name)).await.unwrap();
    [secret.is_some(), service.is_some(), node.is_some()]
}

/// The Events about something left, as kind and reason.
async fn told(stage: &Stage, name: &str) -> Vec<(String, String)> {
    let mut events = stage.world.person.list(&EVENT, CLUSTER).await.unwrap();
    events.extend(stage.tenant.person.list(&EVENT, "default").await.unwrap());
    let of = events.iter().filter(|event| event.text("/involvedObject/name") == name);
    let ours = of.filter(|event| event.text("/reason").starts_with("Leftover"));
    let word = |event: &Value, place: &str| event.text(place).to_owned();
    let mut all: Vec<(String, String)> =
        ours.map(|event| (word(event, "/involvedObject/kind"), word(event, "/reason"))).collect();
    all.sort();
    all
}

fn each(reason: &str) -> Vec<(String, String)> {
    ["Node", "Secret", "Service"].map(|kind| (kind.to_owned(), reason.to_owned())).to_vec()
}

#[tokio::test(start_paused = true)]
async fn what_is_proven_goes_and_what_is_not_is_told() {
    let (stage, nodes) = with_pool(2).await;
    let before = stage.vms().await;
    leave(&stage).await;
    tokio::time::sleep(Duration::from_mins(14)).await;
    assert_eq!(is_there(&stage, "gone").await, [true; 3], "it has its time");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(is_there(&stage, "gone").await, [false; 3]);
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(is_there(&stage, "unclear").await, [true; 3]);
    assert_eq!(is_there(&stage, "others").await, [true, false, true]);
    assert_eq!(is_there(&stage, "neighbour").await, [true, false, false]);
    assert!(told(&stage, "neighbour").await.is_empty());
    assert_eq!(told(&stage, "gone").await, each("LeftoverRemoved"));
    assert_eq!(told(&stage, "unclear").await, each("LeftoverUnproven"));
    assert!(told(&stage, "others").await.is_empty());
    // Machines that are there, and what they have, are not touched.
    assert_eq!(stage.vms().await, before);
    for node in nodes {
        let now = stage.tenant.person.get(&NODE, &Key::cluster(node.name())).await.unwrap().unwrap();
        assert_eq!(now.uid(), node.uid());
    }
}

#[tokio::test(start_paused = true)]
async fn a_rehearsal_tells_and_removes_nothing() {
    let settings = Settings { leftovers: Leftovers::Report, ..Settings::default() };
    let stage = Stage::start_with(&TRELLIS, Make::default(), settings).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    stage.create(&POOL, pool(1)).await;
    leave(&stage).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(is_there(&stage, "gone").await, [true; 3]);
    assert_eq!(told(&stage, "gone").await, each("LeftoverFound"));
}

#[tokio::test(start_paused = true)]
async fn a_place_without_machines_may_be_the_wrong_one() {
    let stage = Stage::start(&TRELLIS).await;
    leave(&stage).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(is_there(&stage, "gone").await, [true; 3], "nothing says that this is the right place");
    assert_eq!(told(&stage, "gone").await, each("LeftoverUnproven"));
}

#[tokio::test(start_paused = true)]
async fn a_vm_whose_machine_was_torn_away_is_told_and_goes_when_nobody_uses_it() {
    let (stage, nodes) = with_pool(2).await;
    let name = nodes[0].name();
    let orphan = stage.world.person.get(&VM, &vm(name)).await.unwrap().unwrap();
    // Somebody tears the Machine out of the controller's hands: nobody is left to remove its VM.
    let key = Stage::key(name);
    let paused = json!({"metadata": {"annotations": {"trellis.dev/paused": "true"}}});
    stage.world.person.merge(&MACHINE, &key, &paused).await.unwrap();
    stage.world.person.delete(&MACHINE, &key, "").await.unwrap();
    stage.world.person.merge(&MACHINE, &key, &json!({"metadata": {"finalizers": null}})).await.unwrap();
    tokio::time::sleep(Duration::from_mins(40)).await;
    let still = stage.world.person.get(&VM, &vm(name)).await.unwrap().unwrap();
    assert_eq!(still.uid(), orphan.uid(), "its Node is ready, with pods on it");
    assert!(!still.is_deleting());
    let told = told(&stage, name).await;
    assert!(
        told.contains(&("VirtualMachine".to_owned(), "LeftoverUnproven".to_owned())),
        "{told:?} {}",
        stage.machines().await
    );
    // Its Node falls silent: nobody uses it any more.
    hold(&stage, name).await;
    stage.world.until_gone(&VM, &vm(name)).await.unwrap();
    let left = stage.vms().await;
    assert_eq!(left.len(), 2, "{left:?}");
}

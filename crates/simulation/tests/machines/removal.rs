//! Removals that go on although what a machine was made from is gone, and what a Node gets and loses.

use std::time::Duration;

use serde_json::{Value, json};
use trellis_infra::kinds::{DATA_VOLUME, NODE, SECRET, STORAGE_CLASS};
use trellis_infra::object::{Key, Object as _};

use crate::health::with_pool;
use crate::stage::{CLUSTER, CONTROL, MACHINE, POOL, Stage};

#[tokio::test(start_paused = true)]
async fn a_machine_goes_although_image_storage_class_and_template_are_gone() {
    let (stage, nodes) = with_pool(2).await;
    let person = &stage.world.person;
    for class in person.list(&STORAGE_CLASS, "").await.unwrap() {
        person.delete(&STORAGE_CLASS, &Key::of(&class), "").await.unwrap();
    }
    person.delete(&SECRET, &Key::new(CONTROL, "join"), "").await.unwrap();
    // A flavor that nobody has defined: nothing can be made from the pool any more.
    let broken =
        json!({"spec": {"replicas": 0, "template": {"shape": {"custom": null, "flavor": "nowhere"}}}});
    person.merge(&POOL, &Stage::key("workers"), &broken).await.unwrap();
    for image in person.list(&DATA_VOLUME, CLUSTER).await.unwrap() {
        if image.label("trellis.dev/machine").is_empty() {
            person.delete(&DATA_VOLUME, &Key::of(&image), "").await.unwrap();
        }
    }
    for node in &nodes {
        person.delete(&MACHINE, &Stage::key(node.name()), "").await.unwrap();
    }
    for node in &nodes {
        stage.world.until_gone(&MACHINE, &Stage::key(node.name())).await.unwrap();
        assert!(stage.tenant.person.get(&NODE, &Key::cluster(node.name())).await.unwrap().is_none());
    }
    assert_eq!(stage.vms().await, Vec::<String>::new());
    let left = |objects: Vec<Value>| {
        let of_machines = objects.into_iter().filter(|one| !one.label("trellis.dev/machine").is_empty());
        of_machines.map(|one| one.name().to_owned()).collect::<Vec<_>>()
    };
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(left(person.list(&DATA_VOLUME, CLUSTER).await.unwrap()), Vec::<String>::new());
    assert_eq!(left(person.list(&SECRET, CLUSTER).await.unwrap()), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn taints_and_annotations_of_the_pool_come_and_go_and_others_stay() {
    let (stage, nodes) = with_pool(1).await;
    let key = Key::cluster(nodes[0].name());
    let theirs = json!({"metadata": {"annotations": {"example.org/theirs": "kept"}},
        "spec": {"taints": [{"key": "theirs", "effect": "NoSchedule"}]}});
    stage.tenant.person.merge(&NODE, &key, &theirs).await.unwrap();
    let more = json!({"spec": {
        "nodeAnnotations": {"example.org/team": "blue"},
        "nodeTaints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}],
    }});
    let workers = Stage::key("workers");
    stage.world.person.merge(&POOL, &workers, &more).await.unwrap();
    let tainted =
        |node: &Value, key: &str| node.list("/spec/taints").iter().any(|taint| taint.text("/key") == key);
    let has = |node: &Value| {
        node.annotation("example.org/team") == "blue" && tainted(node, "dedicated") && tainted(node, "theirs")
    };
    stage.tenant.until(&NODE, &key, has).await.unwrap();
    let less = json!({"spec": {"nodeAnnotations": null, "nodeTaints": null}});
    stage.world.person.merge(&POOL, &workers, &less).await.unwrap();
    let lost = |node: &Value| {
        node.annotation("example.org/team").is_empty()
            && !tainted(node, "dedicated")
            && tainted(node, "theirs")
            && node.annotation("example.org/theirs") == "kept"
    };
    let after = stage.tenant.until(&NODE, &key, lost).await.unwrap();
    assert_eq!(after.uid(), nodes[0].uid());
}

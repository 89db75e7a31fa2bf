//! What changes while machines run: sockets and data disks; labels and memory are in `rollout`.

use serde_json::{Value, json};
use trellis_infra::kinds::{DATA_VOLUME, VMI};
use trellis_infra::object::{Key, Object as _};

use crate::rollout::{change, machines, settled, start, uids};
use crate::stage::{CLUSTER, Stage};

crate::everywhere!(sockets_and_disks_change_without_another_machine);

/// Waits until the runs of all machines are as wanted.
async fn until_runs(stage: &Stage, names: &[String], wanted: impl Fn(&Value) -> bool) {
    for name in names {
        stage.world.until(&VMI, &Key::new(CLUSTER, name), &wanted).await.unwrap();
    }
}

fn plugged(run: &Value, disk: &str) -> bool {
    run.list("/status/volumeStatus")
        .iter()
        .any(|volume| volume.text("/name") == disk && volume.text("/phase") == "Ready")
}

async fn sockets_and_disks_change_without_another_machine() {
    let stage = start(2, &json!({})).await;
    let person = &stage.world.person;
    let before = uids(&machines(&stage).await);
    let runs = person.list(&VMI, CLUSTER).await.unwrap();
    let names: Vec<String> = runs.iter().map(|run| run.name().to_owned()).collect();
    change(
        &stage,
        &json!({"spec": {"template": {"shape": {"custom": {"cpu": {"topology": {"sockets": 2}}}}}}}),
    )
    .await;
    until_runs(&stage, &names, |run| run.number("/status/currentCPUTopology/sockets") == Some(2)).await;
    // A disk more, and one disk less again.
    change(&stage, &json!({"spec": {"template": {"dataDisks": [{"name": "scratch", "size": "1Gi"}]}}})).await;
    until_runs(&stage, &names, |run| plugged(run, "scratch")).await;
    let disks = person.list(&DATA_VOLUME, CLUSTER).await.unwrap();
    for name in &names {
        let of = |disk: &&Value| disk.label("trellis.dev/machine") == name;
        assert_eq!(disks.iter().filter(of).count(), 2, "{name}");
    }
    change(&stage, &json!({"spec": {"template": {"dataDisks": null}}})).await;
    until_runs(&stage, &names, |run| {
        !run.list("/status/volumeStatus").iter().any(|one| one.text("/name") == "scratch")
    })
    .await;
    settled(&stage, 2).await;
    assert_eq!(uids(&machines(&stage).await), before);
    assert_eq!(uids(&person.list(&VMI, CLUSTER).await.unwrap()), uids(&runs));
    assert_eq!(stage.until_nodes(2).await.len(), 2);
}

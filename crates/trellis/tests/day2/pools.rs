//! The life of a pool in the hands of people, with controllers that are killed on the way.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use trellis_runtime::{Key, Resource};

use crate::stage::{CLUSTER, CONTROL, NODES, POOLS, Stage, eventually};

const DEPLOYMENTS: Resource =
    Resource::namespaced("cluster.k8s.io", "v1alpha1", "machinedeployments", "MachineDeployment");
const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
/// How long a command may wait.
const TIMEOUT: [&str; 2] = ["--timeout", "4m"];

fn status(stage: &Stage, pool: &str) -> String {
    stage.infra.trellis(&["rollout", "status", pool, TIMEOUT[0], TIMEOUT[1]]).well()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_ours_grows_rolls_stops_and_goes_back() {
    let stage = Stage::start().await;
    stage.pool("workers", 2).await;
    let before = stage.infra.trellis(&["get", "pools"]).well();
    assert!(before.contains("no controller has looked at it yet"), "{before}");
    let _controller = stage.controller("trellis", "one");
    assert!(status(&stage, "workers").ends_with("all 2 machines are available and up to date\n"));
    let machines = stage.machines();
    assert_eq!(machines.len(), 2);
    for machine in &machines {
        assert_eq!(
            (&machine["phase"], &machine["pool"]),
            (&json!("Running"), &json!("workers")),
            "{machine}"
        );
        assert_eq!((&machine["cluster"], &machine["upToDate"]), (&json!(CLUSTER), &json!(true)), "{machine}");
        assert_eq!(machine["node"], machine["name"]);
        assert!(machine["host"].as_str().unwrap().starts_with("host-"), "{machine}");
    }
    let table = stage.infra.trellis(&["get", "machines", "-o", "wide"]).well();
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.starts_with("NAME ") && table.contains(" Running ") && !table.contains('\x1b'), "{table}");
    assert_eq!(stage.infra.trellis(&["get", "machines", "--cluster", "red"]).well(), "");
    let selected =
        stage.infra.trellis(&["get", "machines", "-l", "trellis.dev/pool=other", "-o", "json"]).json();
    assert_eq!(selected, json!({"machines": []}));
    // It grows, and only from what was meant.
    let scale =
        ["scale", "workers", "--replicas", "3", "--current-replicas", "2", "--wait", TIMEOUT[0], TIMEOUT[1]];
    let said = stage.infra.trellis(&scale).well();
    assert!(said.starts_with("machinepool/workers scaled: 2 → 3 machines\n"), "{said}");
    assert!(said.ends_with("machinepool/workers: all 3 machines are available and up to date\n"), "{said}");
    assert_eq!(stage.infra.trellis(&scale).code, 5);
    // It rolls.
    let old: Vec<Value> = stage.machines().iter().map(|machine| machine["name"].clone()).collect();
    stage.image("workers", "26.04").await;
    status(&stage, "workers");
    assert!(
        stage.machines().iter().all(|machine| !old.contains(&machine["name"]) && machine["upToDate"] == true)
    );
    let history = stage.infra.trellis(&["rollout", "history", "workers", "-o", "json"]).json();
    let revisions = history["revisions"].as_array().unwrap();
    assert_eq!(revisions.len(), 2, "{history}");
    assert_eq!((&revisions[0]["machines"], &revisions[1]["machines"]), (&json!(0), &json!(3)), "{history}");
    assert_eq!(revisions[1]["changed"], json!(["template.image.source.registry.url"]));
    let history = stage.infra.trellis(&["rollout", "history", "workers"]).well();
    assert!(history.contains("template.image.source.registry.url"), "{history}");
    // It stops, and does not go back while it is stopped.
    let said = stage.infra.trellis(&["rollout", "pause", "workers"]).well();
    assert!(said.contains("paused: updating has stopped"), "{said}");
    assert!(stage.infra.trellis(&["rollout", "pause", "workers"]).well().contains("is paused already"));
    stage.image("workers", "28.04").await;
    let paused = eventually("the pool says that it is paused", async || {
        let pools = stage.infra.trellis(&["get", "pools", "-o", "json"]).json();
        Some(pools["pools"][0].clone()).filter(|pool| pool["state"] == "Paused")
    })
    .await;
    assert_eq!((&paused["paused"], &paused["updated"]), (&json!(true), &json!(0)), "{paused}");
    let said = stage.infra.trellis(&["rollout", "status", "workers", "--timeout", "1s"]).refused(11);
    assert!(said.contains("rollout resume"), "{said}");
    assert!(stage.infra.trellis(&["rollout", "undo", "workers"]).refused(5).contains("resume it first"));
    stage.infra.trellis(&["rollout", "resume", "workers"]).well();
    status(&stage, "workers");
    // It goes back, to the first of all.
    let first = revisions[0]["number"].as_u64().unwrap().to_string();
    let said = stage.infra.trellis(&["rollout", "undo", "workers", "--to-revision", &first]).well();
    assert_eq!(said, format!("machinepool/workers goes back to revision {first}\n"));
    status(&stage, "workers");
    let machines = stage.machines();
    assert!(machines.iter().all(|machine| machine["revision"] == revisions[0]["revision"]), "{machines:?}");
    assert_eq!(machines.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_killed_in_the_middle_of_an_update_is_followed_by_another() {
    let stage = Stage::start().await;
    stage.pool("workers", 3).await;
    let mut programs = ["one", "two"].map(|host| stage.controller("trellis", host));
    status(&stage, "workers");
    assert_eq!(programs.iter().filter(|program| program.acts()).count(), 1, "one of the two acts");
    // Every machine is looked at for a while before the next one follows: there is a middle.
    let slow = json!({"spec": {"update": {"minReadySeconds": 5}}});
    stage.infra.site.merge_patch::<Value>(&POOLS, &Key::new(CONTROL, "workers"), &slow).await.unwrap();
    stage.image("workers", "26.04").await;
    // As soon as the first new machine is there, whoever acts is gone without a word. The machines tell: what the pool
    // says of its progress is not written at every step.
    eventually("machines of two revisions", async || {
        let machines = stage.machines();
        let revisions: BTreeSet<String> = machines.iter().map(|one| one["revision"].to_string()).collect();
        (revisions.len() == 2).then_some(())
    })
    .await;
    let first = programs.iter().position(crate::stage::Program::acts).unwrap();
    programs[first].kill();
    status(&stage, "workers");
    assert!(programs[1 - first].acts(), "the other one has taken over");
    let machines = stage.machines();
    assert_eq!(machines.len(), 3, "{machines:?}");
    assert!(machines.iter().all(|machine| machine["upToDate"] == true && machine["phase"] == "Running"));
    // Nothing is left of the old ones in the tenant either.
    eventually("as many Nodes as machines", async || {
        let nodes: Vec<Value> =
            stage.tenant.site.list(&NODES, &trellis_runtime::Selection::default()).await.unwrap();
        (nodes.len() == 3).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_deployment_rolls_and_goes_back_by_its_sets() {
    let stage = Stage::start().await;
    let data = json!({
        "metadata": {"name": format!("workers-{CONTROL}-bootstrap-config")},
        "stringData": {"cloud-config": "#cloud-config\n{}\n"},
    });
    stage.infra.site.create::<Value>(&SECRETS, "cloud-init-settings", &data).await.unwrap();
    let template = json!({
        "metadata": {"labels": {"pool": "workers"}},
        "spec": {
            "versions": {"kubelet": "1.34.2"},
            "providerSpec": {"value": {
                "cloudProvider": "kubevirt",
                "operatingSystem": "ubuntu",
                "cloudProviderSpec": {
                    "clusterName": CLUSTER,
                    "auth": {"kubeconfig": {"secretKeyRef": {"namespace": "infra", "name": "access", "key": "kubeconfig"}}},
                    "virtualMachine": {"template": {
                        "cpus": "1", "memory": "1Gi",
                        "primaryDisk": {
                            "osImage": "docker://registry.example/ubuntu:24.04", "size": "10Gi",
                            "storageClassName": "replicated",
                        },
                    }},
                },
            }},
        },
    });
    let deployment = json!({"metadata": {"name": "workers"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"pool": "workers"}}, "template": template,
    }});
    stage.infra.site.create::<Value>(&DEPLOYMENTS, CONTROL, &deployment).await.unwrap();
    let _controller = stage.controller("kkp", "one");
    assert!(status(&stage, "md/workers").starts_with("machinedeployment/workers: "));
    let key = Key::new(CONTROL, "workers");
    let version = json!({"spec": {"template": {"spec": {"versions": {"kubelet": "1.35.0"}}}}});
    stage.infra.site.merge_patch::<Value>(&DEPLOYMENTS, &key, &version).await.unwrap();
    status(&stage, "workers");
    let table = stage.infra.trellis(&["get", "machines"]).well();
    assert_eq!(table.matches(" new ").count(), 2, "{table}");
    let history = stage.infra.trellis(&["rollout", "history", "workers"]).well();
    assert!(history.contains("template.spec.versions.kubelet"), "{history}");
    // A set of it is no pool of its own.
    let sets = stage.infra.trellis(&["rollout", "history", "workers", "-o", "json"]).json();
    let set = format!("machineset/{}", sets["revisions"][1]["object"].as_str().unwrap());
    let said = stage.infra.trellis(&["scale", &set, "--replicas", "5"]).refused(5);
    assert!(said.contains("belongs to machinedeployment/workers"), "{said}");
    stage.infra.trellis(&["rollout", "undo", "workers"]).well();
    status(&stage, "workers");
    let back: Value = stage.infra.site.get(&DEPLOYMENTS, &key).await.unwrap();
    assert_eq!(back["spec"]["template"]["spec"]["versions"]["kubelet"], "1.34.2");
    assert_eq!(back["spec"]["template"]["metadata"]["labels"], json!({"pool": "workers"}));
    let said =
        stage.infra.trellis(&["scale", "workers", "--replicas", "1", "--wait", "--timeout", "4m"]).well();
    assert!(said.contains("2 → 1"), "{said}");
    assert_eq!(stage.machines().len(), 1);
}

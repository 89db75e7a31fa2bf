//! Emptying Nodes of a tenant and hosts of the infra cluster.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use trellis_runtime::client::Error;
use trellis_runtime::{Key, Resource, Selection};

use crate::stage::{Lab, NODES, PODS, Said, Stage, eventually};

const BUDGETS: Resource = Resource::namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget");
const INSTANCES: Resource =
    Resource::namespaced("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance");

const SETS: Resource = Resource::namespaced("apps", "v1", "replicasets", "ReplicaSet");
const DAEMONS: Resource = Resource::namespaced("apps", "v1", "daemonsets", "DaemonSet");

/// A pod on a Node, which ends at once when it is told to: no kubelet is there to end it.
async fn pod(lab: &Lab, node: &str, name: &str, owner: Option<&Resource>, more: &Value) {
    let mut owners = Vec::new();
    if let Some(resource) = owner {
        // One that is not there would be noticed, and its pods collected.
        let labels = json!({"app": name});
        let template = json!({
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "registry.example/web:1"}]},
        });
        let object = json!({
            "metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template},
        });
        let _ = lab.site.create::<Value>(resource, "default", &object).await;
        let made: Value = lab.site.get(resource, &Key::new("default", name)).await.unwrap();
        owners.push(json!({
            "apiVersion": "apps/v1", "kind": resource.kind, "name": name, "uid": made["metadata"]["uid"], "controller": true,
        }));
    }
    let mut pod = json!({
        "metadata": {"name": name, "labels": {"app": name}, "ownerReferences": owners},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "registry.example/web:1"}],
        },
    });
    for (key, value) in more.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    // A namespace gets its service account a moment later.
    eventually("a pod is accepted", async || match lab.site.create::<Value>(&PODS, "default", &pod).await {
        Ok(_) | Err(Error::AlreadyExists(_)) => Some(()),
        Err(Error::Forbidden(_)) => None,
        Err(error) => panic!("{error}"),
    })
    .await;
    // Budgets are asked about pods that are ready; others may always go.
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    lab.site.merge_patch_status::<Value>(&PODS, &Key::new("default", name), &ready).await.unwrap();
}

/// A budget that lets so many go; the lab's controller works out what that means.
async fn budget(lab: &Lab, allowed: u32) {
    let key = Key::new("default", "web");
    let spec = json!({"minAvailable": 1 - allowed, "selector": {"matchLabels": {"app": "web"}}});
    let budget = json!({"metadata": {"name": "web"}, "spec": spec});
    lab.site.apply::<Value>(&BUDGETS, &key, &budget, true).await.unwrap();
    eventually("the budget is worked out", async || {
        let budget: Value = lab.site.get(&BUDGETS, &key).await.unwrap();
        let seen = budget["status"]["observedGeneration"] == budget["metadata"]["generation"];
        (seen && budget["status"]["disruptionsAllowed"] == allowed).then_some(())
    })
    .await;
}

async fn pods(lab: &Lab) -> Vec<String> {
    let all: Vec<Value> = lab.site.list(&PODS, &Selection::namespace("default")).await.unwrap();
    all.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn is_cordoned(lab: &Lab, node: &str) -> bool {
    let node: Value = lab.site.get(&NODES, &Key::cluster(node)).await.unwrap();
    node["spec"]["unschedulable"] == true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_emptied_as_its_budgets_allow() {
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::start(folder.path(), "tenant", &["--api-only"]).await;
    lab.site.create::<Value>(&NODES, "", &json!({"metadata": {"name": "n1"}})).await.unwrap();
    pod(&lab, "n1", "web", Some(&SETS), &json!({})).await;
    pod(&lab, "n1", "agent", Some(&DAEMONS), &json!({})).await;
    pod(&lab, "n1", "lone", None, &json!({"volumes": [{"name": "v", "emptyDir": {}}]})).await;
    budget(&lab, 0).await;
    // Everything that speaks against it comes at once, and nothing was done.
    let said = lab.trellis(&["drain", "n1"]).refused(5);
    for flag in ["--ignore-daemonsets", "--force", "--delete-emptydir-data"] {
        assert!(said.contains(flag), "{flag} is not in {said}");
    }
    assert!(!is_cordoned(&lab, "n1").await);
    let flags = ["drain", "node/n1", "--ignore-daemonsets", "--force", "--delete-emptydir-data"];
    let with =
        |more: &[&'static str]| flags.iter().copied().chain(more.iter().copied()).collect::<Vec<&str>>();
    let said = lab.trellis(&with(&["--dry-run"])).well();
    assert_eq!(said, "node/n1 would lose default/lone, default/web\n");
    // A budget holds it up: that is said, and the time passes.
    let said = lab.trellis(&with(&["--timeout", "2s"])).refused(11);
    assert!(
        said.contains("default/web may not be evicted") && said.ends_with("it stays cordoned\n"),
        "{said}"
    );
    assert!(is_cordoned(&lab, "n1").await);
    assert_eq!(pods(&lab).await, ["agent", "web"], "the others are gone all the same");
    // It goes on as soon as the budget lets it.
    let mut drain = lab.command(&with(&["--timeout", "3m", "-o", "json"]));
    let drain = drain.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    budget(&lab, 1).await;
    let said = tokio::task::spawn_blocking(move || drain.wait_with_output().unwrap()).await.unwrap();
    let said = Said::of(&said).well();
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.last().unwrap(), &json!({"type": "done", "node": "n1"}));
    assert!(lines.iter().any(|line| line["podsRefused"] == 1), "{lines:?}");
    assert_eq!(pods(&lab).await, ["agent"]);
    assert_eq!(lab.trellis(&["uncordon", "n1"]).well(), "node/n1 uncordoned\n");
    assert!(!is_cordoned(&lab, "n1").await);
    assert_eq!(lab.trellis(&["uncordon", "n1"]).well(), "node/n1 is not cordoned\n");
    // Without eviction no budget is asked.
    pod(&lab, "n1", "web", Some(&SETS), &json!({})).await;
    budget(&lab, 0).await;
    lab.trellis(&with(&["--disable-eviction", "--timeout", "1m"])).well();
    assert_eq!(pods(&lab).await, ["agent"]);
}

fn flag(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_are_drained_in_their_tenant_and_hosts_by_moving_their_vms() {
    let stage = Stage::start().await;
    stage.pool("workers", 2).await;
    let _controller = stage.controller("trellis", "one");
    stage.infra.trellis(&["rollout", "status", "workers", "--timeout", "4m"]).well();
    let machines = stage.machines();
    let name = machines[0]["name"].as_str().unwrap();
    // Where its Node is, is not known without its tenant.
    let said = stage.infra.trellis(&["drain", name]).refused(2);
    assert!(
        said.contains("there is no TenantCluster blue") && said.contains("--tenant-kubeconfig"),
        "{said}"
    );
    pod(&stage.tenant, name, "web", Some(&SETS), &json!({})).await;
    let machine = format!("machine/{name}");
    let tenant = stage.tenant.kubeconfig.clone();
    let said = stage
        .infra
        .trellis(&["drain", &machine, "--tenant-kubeconfig", flag(&tenant), "--timeout", "2m"])
        .well();
    assert!(said.ends_with(&format!("node/{name} drained\n")), "{said}");
    assert!(is_cordoned(&stage.tenant, name).await && pods(&stage.tenant).await.is_empty());
    stage.infra.trellis(&["uncordon", &machine, "--tenant-kubeconfig", flag(&tenant)]).well();
    assert!(!is_cordoned(&stage.tenant, name).await);
    // Its host: the VM leaves it alive.
    let host = machines[0]["host"].as_str().unwrap();
    let key = Key::new(crate::stage::CLUSTER, name);
    let before: Value = stage.infra.site.get(&INSTANCES, &key).await.unwrap();
    let said = stage.infra.trellis(&["drain", "--host", host, "--timeout", "4m"]).well();
    assert!(said.ends_with(&format!("host/{host} drained\n")), "{said}");
    let after: Value = stage.infra.site.get(&INSTANCES, &key).await.unwrap();
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"], "it is the same run");
    assert_ne!(after["status"]["nodeName"], host);
    assert!(is_cordoned(&stage.infra, host).await);
    assert_eq!(
        stage.infra.trellis(&["uncordon", "--host", host]).well(),
        format!("host/{host} uncordoned\n")
    );
    eventually("the machine says where it is now", async || {
        stage
            .machines()
            .iter()
            .any(|machine| machine["name"] == name && machine["host"] != host)
            .then_some(())
    })
    .await;
}

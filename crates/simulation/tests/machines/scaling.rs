//! How many machines there are: the scale subresource, autoscalers, marked machines and zones.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trellis_engine::families::{Family, KKP, TRELLIS};
use trellis_infra::kinds::{Kind, NODE, VMI};
use trellis_infra::object::{Key, Object as _};

use crate::families::pool;
use crate::kkp::{BOOTSTRAP, deployment};
use crate::rollout::settled;
use crate::stage::{CLUSTER, CONTROL, KKP_DEPLOYMENT, KKP_MACHINE, MACHINE, POOL, Stage};

crate::everywhere!(
    an_autoscaler_starts_a_pool_of_ours_from_none,
    an_autoscaler_starts_a_machine_deployment_from_none,
    a_marked_machine_of_ours_goes_first,
    a_marked_machine_of_a_machine_deployment_goes_first,
    zones_are_filled_and_emptied_evenly,
);

const HINT: &str = "capacity.cluster-autoscaler.kubernetes.io";

/// A stage with the pool `workers`, and the kinds of it and of its machines.
struct Pools {
    stage: Stage,
    pool: &'static Kind,
    machine: &'static Kind,
}

impl Pools {
    async fn start(family: &'static Family, object: Value) -> Self {
        let stage = Stage::start(family).await;
        let (pool, machine) = if *family == TRELLIS {
            stage.store_user_data(CONTROL, "join", "userData").await;
            (&POOL, &MACHINE)
        } else {
            stage.store_user_data(BOOTSTRAP.0, BOOTSTRAP.1, "cloud-config").await;
            (&KKP_DEPLOYMENT, &KKP_MACHINE)
        };
        stage.create(pool, object).await;
        Self { stage, pool, machine }
    }

    /// What `kubectl scale` and autoscalers ask and say.
    async fn scale(&self, replicas: Option<u32>) -> Value {
        let (group, plural) = (self.pool.group, self.pool.plural);
        let path = format!("/apis/{group}/{}/namespaces/{CONTROL}/{plural}/workers/scale", self.pool.version);
        let patch = replicas.map(|replicas| json!({"spec": {"replicas": replicas}}));
        let (method, body) = match &patch {
            Some(patch) => (http::Method::PATCH, Some(("application/merge-patch+json", patch))),
            None => (http::Method::GET, None),
        };
        self.stage.world.person.send(method, &path, body).await.unwrap()
    }

    async fn start_from_none(&self, labels: &str) {
        let told = |pool: &Value| {
            let hint = |what: &str| pool.annotation(&format!("{HINT}/{what}")).to_owned();
            hint("cpu") == "1" && hint("memory") == "1Gi" && hint("labels").contains(labels)
        };
        let stage = &self.stage;
        stage.world.until(self.pool, &Stage::key("workers"), told).await.unwrap();
        assert!(stage.vms().await.is_empty());
        self.scale(Some(2)).await;
        stage.until_nodes(2).await;
        let counted = |pool: &Value| pool.number("/status/replicas") == Some(2);
        stage.world.until(self.pool, &Stage::key("workers"), counted).await.unwrap();
        let scale = self.scale(None).await;
        assert_eq!(scale.number("/status/replicas"), Some(2), "{scale}");
        // The selector finds the machines, and only them.
        let selector = scale.text("/status/selector");
        assert!(!selector.is_empty(), "{scale}");
        let wanted: Vec<(&str, &str)> =
            selector.split(',').map(|term| term.split_once('=').unwrap()).collect();
        for machine in stage.world.person.list(self.machine, CONTROL).await.unwrap() {
            assert!(wanted.iter().all(|(key, value)| machine.label(key) == *value), "{selector}: {machine}");
        }
    }

    async fn remove_marked(&self, mark: &str) {
        let stage = &self.stage;
        let mut names: Vec<String> =
            stage.until_nodes(3).await.iter().map(|node| node.name().to_owned()).collect();
        names.sort();
        let marked = names.remove(1);
        let patch = json!({"metadata": {"annotations": {mark: "true"}}});
        stage.world.person.merge(self.machine, &Stage::key(&marked), &patch).await.unwrap();
        self.scale(Some(2)).await;
        stage.world.until_gone(self.machine, &Stage::key(&marked)).await.unwrap();
        stage.until_nodes(2).await;
        assert_eq!(stage.vms().await, names);
    }
}

async fn an_autoscaler_starts_a_pool_of_ours_from_none() {
    let mut object = pool(0);
    object["spec"]["autoscaling"] = json!({"min": 0, "max": 3});
    let pools = Pools::start(&TRELLIS, object).await;
    pools.start_from_none("tier=web").await;
    let bound = |bounds: &str| format!("trellis.dev/cluster-api-autoscaler-node-group-{bounds}-size");
    let seen = pools.stage.world.person.get(&POOL, &Stage::key("workers")).await.unwrap().unwrap();
    assert_eq!((seen.annotation(&bound("min")), seen.annotation(&bound("max"))), ("0", "3"));
    // Bounds hold for everybody, and what was said goes with them.
    pools.scale(Some(9)).await;
    pools.stage.until_nodes(3).await;
    let patch = json!({"spec": {"autoscaling": null, "replicas": 1}});
    pools.stage.world.person.merge(&POOL, &Stage::key("workers"), &patch).await.unwrap();
    let silent = |pool: &Value| {
        pool.annotation(&bound("min")).is_empty() && pool.annotation(&format!("{HINT}/cpu")).is_empty()
    };
    pools.stage.world.until(&POOL, &Stage::key("workers"), silent).await.unwrap();
    pools.stage.until_nodes(1).await;
}

async fn an_autoscaler_starts_a_machine_deployment_from_none() {
    let mut object = deployment(0);
    object["metadata"]["annotations"] = json!({
        "cluster.k8s.io/cluster-api-autoscaler-node-group-min-size": "0",
        "cluster.k8s.io/cluster-api-autoscaler-node-group-max-size": "3",
    });
    let pools = Pools::start(&KKP, object).await;
    pools.start_from_none("tier=front").await;
    let seen = pools.stage.world.person.get(&KKP_DEPLOYMENT, &Stage::key("workers")).await.unwrap().unwrap();
    assert_eq!(seen.annotation(&format!("{HINT}/taints")), "dedicated=front:NoSchedule");
}

async fn a_marked_machine_of_ours_goes_first() {
    Pools::start(&TRELLIS, pool(3)).await.remove_marked("trellis.dev/delete-first").await;
}

async fn a_marked_machine_of_a_machine_deployment_goes_first() {
    Pools::start(&KKP, deployment(3)).await.remove_marked("cluster.k8s.io/delete-machine").await;
}

/// How many machines are in each zone.
async fn zones(stage: &Stage) -> BTreeMap<String, usize> {
    let hosts = stage.world.person.list(&NODE, "").await.unwrap();
    let mut counts = BTreeMap::new();
    for run in stage.world.person.list(&VMI, CLUSTER).await.unwrap() {
        let host = hosts.iter().find(|host| host.name() == run.text("/status/nodeName")).unwrap();
        *counts.entry(host.label("topology.kubernetes.io/zone").to_owned()).or_default() += 1;
    }
    counts
}

async fn zones_are_filled_and_emptied_evenly() {
    let stage = Stage::start(&TRELLIS).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    let hosts = stage.world.person.list(&NODE, "").await.unwrap();
    let mut names: Vec<&str> = hosts.iter().map(|host| host.label("topology.kubernetes.io/zone")).collect();
    names.sort_unstable();
    assert_eq!(names.len(), 3);
    let mut object = pool(5);
    object["spec"]["template"]["placement"] = json!({"zones": names});
    stage.create(&POOL, object).await;
    stage.until_nodes(5).await;
    let sizes = |counts: &BTreeMap<String, usize>| {
        let mut sizes: Vec<usize> = counts.values().copied().collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(&zones(&stage).await), [1, 2, 2]);
    for (replicas, wanted) in [(3_u32, [1, 1, 1]), (6, [2, 2, 2]), (4, [1, 1, 2])] {
        let patch = json!({"spec": {"replicas": replicas}});
        stage.world.person.merge(&POOL, &Stage::key("workers"), &patch).await.unwrap();
        stage.until_nodes(replicas as usize).await;
        settled(&stage, i64::from(replicas)).await;
        assert_eq!(sizes(&zones(&stage).await), wanted, "with {replicas} machines");
    }
    // A machine that goes from a zone comes again there.
    let before = zones(&stage).await;
    let gone = stage.until_nodes(4).await[0].name().to_owned();
    stage.world.person.delete(&MACHINE, &Stage::key(&gone), "").await.unwrap();
    stage.world.until_gone(&MACHINE, &Stage::key(&gone)).await.unwrap();
    stage.tenant.until_gone(&NODE, &Key::cluster(&gone)).await.unwrap();
    stage.until_nodes(4).await;
    assert_eq!(sizes(&zones(&stage).await), sizes(&before));
}

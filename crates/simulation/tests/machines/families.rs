//! The life of a pool in each family: it comes up, grows, shrinks, rolls and goes.

use serde_json::{Value, json};
use trellis_engine::families::TRELLIS;
use trellis_infra::kinds::NODE;
use trellis_infra::object::{Key, Object as _};

use crate::stage::{CLUSTER, CONTROL, MACHINE, POOL, Stage};

crate::everywhere!(a_pool_of_ours_comes_grows_rolls_and_goes);

/// A pool of ours.
pub(crate) fn pool(replicas: u32) -> Value {
    json!({
        "metadata": {"name": "workers"},
        "spec": {
            "cluster": CLUSTER,
            "replicas": replicas,
            "nodeLabels": {"tier": "web"},
            "template": {
                "shape": {"custom": {"cpu": {"topology": {"sockets": 1}}, "memory": {"guest": "1Gi"}}},
                "image": {"os": "ubuntu", "source": {"registry": {"url": "docker://registry.example/ubuntu:24.04"}}},
                "rootDisk": {"size": "10Gi"},
                "userData": {"secret": "join"},
            },
        },
    })
}

async fn a_pool_of_ours_comes_grows_rolls_and_goes() {
    let stage = Stage::start(&TRELLIS).await;
    stage.store_user_data(CONTROL, "join", "userData").await;
    stage.create(&POOL, pool(2)).await;
    let nodes = stage.until_nodes(2).await;
    for node in &nodes {
        let linked = |one: &Value| {
            one.label("tier") == "web"
                && one.text("/spec/providerID") == format!("kubevirt://{}", node.name())
        };
        stage.tenant.until(&NODE, &Key::cluster(node.name()), linked).await.unwrap();
        stage.until_running(&MACHINE, node.name()).await;
    }
    // It grows.
    let scale = |replicas: u32| json!({"spec": {"replicas": replicas}});
    stage.world.person.merge(&POOL, &Stage::key("workers"), &scale(3)).await.unwrap();
    let before = stage.until_nodes(3).await;
    // It rolls: other memory means other machines here only if they cannot grow; another image always does.
    let image = json!({"spec": {"template": {"image": {"source": {"registry": {"url": "docker://registry.example/ubuntu:26.04"}}}}}});
    stage.world.person.merge(&POOL, &Stage::key("workers"), &image).await.unwrap();
    let settled = |pool: &Value| {
        pool.number("/status/updatedReplicas") == Some(3)
            && pool.number("/status/availableReplicas") == Some(3)
            && pool.number("/status/replicas") == Some(3)
            && pool.number("/status/observedGeneration") == pool.number("/metadata/generation")
            && pool.condition_holds("Ready")
    };
    stage.world.until(&POOL, &Stage::key("workers"), settled).await.unwrap();
    let after = stage.until_nodes(3).await;
    for node in &before {
        assert!(!after.iter().any(|other| other.name() == node.name()), "{} is still there", node.name());
    }
    // It shrinks to nothing, and nothing is left.
    stage.world.person.merge(&POOL, &Stage::key("workers"), &scale(0)).await.unwrap();
    for node in &after {
        stage.tenant.until_gone(&NODE, &Key::cluster(node.name())).await.unwrap();
        stage.world.until_gone(&MACHINE, &Stage::key(node.name())).await.unwrap();
    }
    assert_eq!(stage.vms().await, Vec::<String>::new());
}

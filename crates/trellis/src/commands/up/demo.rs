//! The demo tenant: what it is made of, how far it is, and whether its nodes are there.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_engine::controllers::fleet::CLUSTERS;
use trellis_engine::families::Object;
use trellis_runtime::client::Error;
use trellis_runtime::{Cache, Key, Resource, Selection, Site};

use super::told::{Step, Told};
use crate::exit::Failure;

/// The tenant cluster that is grown, and the namespace it is in.
pub(in crate::commands) const DEMO: &str = "demo";
/// What it is made of.
const MANIFESTS: &str = include_str!("demo.yaml");

const DEFINITIONS: Resource =
    Resource::cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition");
const NAMESPACES: Resource = Resource::cluster("", "v1", "namespaces", "Namespace");
const POOLS: Resource = Resource::namespaced("trellis.dev", "v1alpha1", "machinepools", "MachinePool");
const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const NODES: Resource = Resource::cluster("", "v1", "nodes", "Node");
const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "leases", "Lease");
/// Where nodes say that they are alive.
const HEARTBEATS: &str = "kube-node-lease";

/// How long a kind that was defined a moment ago may take to be served.
const SERVED: Duration = Duration::from_secs(30);

/// Puts our kinds and the demo tenant onto an infra cluster. What is there stays as it is: it may have been changed since.
pub(super) async fn install(site: &Site) -> Result<(), Error> {
    for crd in trellis_api::trellis::crds() {
        absent(site.create::<Value>(&DEFINITIONS, "", &crd).await)?;
    }
    absent(site.create::<Value>(&NAMESPACES, "", &json!({"metadata": {"name": DEMO}})).await)?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(MANIFESTS).unwrap_or_default();
    for document in documents {
        let resource = if document["kind"] == "TenantCluster" { CLUSTERS } else { POOLS };
        let until = Instant::now() + SERVED;
        loop {
            match site.create::<Value>(&resource, DEMO, &document).await {
                // The kind was defined a moment ago.
                Err(Error::NotFound(_)) if Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                other => break absent(other)?,
            }
        }
    }
    Ok(())
}

/// Whether something was created, or was there already.
fn absent(created: Result<Value, Error>) -> Result<(), Error> {
    match created {
        Ok(_) | Err(Error::AlreadyExists(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Waits until the tenant cluster is there, and says how far it is.
pub(super) async fn grown(site: &Site, told: &mut Told) -> Result<(), Failure> {
    let clusters: Cache<Object> = Cache::new(CLUSTERS, Selection::namespace(DEMO));
    let mut changes = clusters.changes();
    let follow = async {
        while let Some(change) = changes.recv().await {
            let Some(cluster) = change.new else { continue };
            let status = Value::Object(cluster.status_json());
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let found = conditions.into_iter().find(|condition| condition["type"] == "InstallComplete");
            let Some(found) = found else { continue };
            if found["status"] == "True" {
                return Ok(());
            }
            let step = Step::of_reason(found["reason"].as_str().unwrap_or_default());
            told.say(step.unwrap_or(Step::Preparing), found["message"].as_str().unwrap_or_default())?;
        }
        Err(Failure::Lab("the demo tenant is not looked after any more".to_owned()))
    };
    tokio::select! {
        () = clusters.run(site, 0) => Err(Failure::Lab("the infra cluster does not answer any more".to_owned())),
        done = follow => done,
    }
}

/// Waits until all nodes of the tenant are ready and have been heard of since a moment: what a restart finds written is
/// not what is.
pub(super) async fn heard(tenant: &Site, since: Timestamp, told: &mut Told) -> Result<usize, Failure> {
    let nodes: Cache<Object> = Cache::new(NODES, Selection::default());
    let leases: Cache<Object> = Cache::new(LEASES, Selection::namespace(HEARTBEATS));
    let (mut node_changes, mut lease_changes) = (nodes.changes(), leases.changes());
    let follow = async {
        nodes.synced().await;
        leases.synced().await;
        loop {
            let names = |objects: Vec<Arc<Object>>| -> BTreeSet<String> {
                objects.iter().map(|object| object.metadata.name().to_owned()).collect()
            };
            let (ready, alive) =
                (names(nodes.filter(is_ready)), names(leases.filter(|lease| beats(lease, since))));
            let (here, all) = (ready.intersection(&alive).count(), nodes.len());
            if here > 0 && here == all {
                return Ok(all);
            }
            told.say(Step::Nodes, &format!("{here} of {all} nodes are ready"))?;
            let more = tokio::select! {
                change = node_changes.recv() => change.is_some(),
                change = lease_changes.recv() => change.is_some(),
            };
            if !more {
                return Err(Failure::Lab("the tenant cluster does not answer any more".to_owned()));
            }
        }
    };
    tokio::select! {
        () = async { tokio::join!(nodes.run(tenant, 0), leases.run(tenant, 0)); } => {
            Err(Failure::Lab("the tenant cluster does not answer any more".to_owned()))
        }
        done = follow => done,
    }
}

fn is_ready(node: &Object) -> bool {
    let status = Value::Object(node.status_json());
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn beats(lease: &Object, since: Timestamp) -> bool {
    let spec = Value::Object(lease.spec_json());
    spec["renewTime"]
        .as_str()
        .and_then(|time| time.parse::<Timestamp>().ok())
        .is_some_and(|time| time >= since)
}

/// The kubeconfig of the tenant's administrator.
pub(super) async fn kubeconfig(site: &Site) -> Result<String, Error> {
    let key = Key::new(DEMO, &format!("{DEMO}-kubeconfig"));
    let secret: Value = site.get(&SECRETS, &key).await?;
    let data = secret["data"]["value"].as_str().unwrap_or_default();
    Ok(String::from_utf8(STANDARD.decode(data).unwrap_or_default()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_that_was_heard_of_since() {
        let object = |json: Value| Object::from_json(json).unwrap();
        let lease = |time: &str| object(json!({"metadata": {"name": "a"}, "spec": {"renewTime": time}}));
        let since: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert!(beats(&lease("2026-01-01T00:00:00.000001Z"), since));
        assert!(!beats(&lease("2025-12-31T23:59:59.999999Z"), since) && !beats(&lease(""), since));
        let node = |status: &str| {
            object(json!({
                "metadata": {"name": "a"},
                "status": {"conditions": [{"type": "Ready", "status": status}]},
            }))
        };
        assert!(is_ready(&node("True")) && !is_ready(&node("Unknown")));
    }
}

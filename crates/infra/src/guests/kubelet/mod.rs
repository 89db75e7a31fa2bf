//! The kubelet of a guest: joins the machine to its tenant cluster as a Node, and keeps it there.

mod flags;
mod join;
mod node;
mod pods;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::json;

use super::{Boot, Guest, Program};
use crate::client::{ApiError, Cache, Client, Identity};
use crate::controller;
use crate::kinds::{LEASE, NODE, POD};
use crate::object::{Key, Object as _};
use flags::Flags;
use pods::Pods;

pub use join::client_of;

/// Who the kubelet is to its API server: whoever its credentials say.
const KUBELET: Identity = Identity { program: "kubelet", user: "" };
/// How often a heartbeat is sent.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long a heartbeat counts.
const LEASE_SECONDS: i64 = 40;
/// After how many heartbeats the status is written although nothing has changed.
const STATUS_EVERY: u64 = 30;
/// How often it tries to write the status before it gives up.
const STATUS_TRIES: u32 = 5;

/// How long it waits before it asks once more for a certificate that was denied.
const ASK_AGAIN: Duration = Duration::from_mins(15);

/// A kubelet.
#[derive(Debug)]
pub struct Kubelet;

impl Program for Kubelet {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    fn is_started_by(&self, boot: &Boot) -> bool {
        let by_unit = boot.units.keys().any(|unit| unit == "kubelet.service");
        let by_command = |line: &str| {
            line.contains("kubeadm join") || (line.contains("systemctl") && line.contains("kubelet"))
        };
        by_unit || boot.lines().any(by_command)
    }

    fn run(&self, guest: Guest) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async move {
            let vmi = guest.machine.plan().vmi;
            guest.stages.pass("guest.join", &vmi, 0).await?;
            let flags = Flags::of(&guest.boot);
            if join::is_alone(&guest.boot, &flags) {
                guest.log("kubelet", "Standalone mode, no API client");
                return std::future::pending().await;
            }
            let client = Client::new(join::join(&guest, &flags).await?, KUBELET);
            serve(&guest, &flags, &client).await.map_err(|failure| failure.to_string())
        })
    }
}

/// Registers the node and keeps it true for as long as the machine runs.
async fn serve(guest: &Guest, flags: &Flags, client: &Client) -> Result<(), ApiError> {
    register(guest, flags, client).await?;
    let name = flags.node_name(&guest.boot);
    guest.log("kubelet", &format!("Successfully registered node {name}"));
    let (pods, _watching) = client.cache_where(&POD, &format!("spec.nodeName={name}"));
    pods.complete().await;
    let running = controller::run(Arc::new(Pods::new(guest, client, &pods)));
    tokio::select! {
        biased;
        ended = beat(guest, flags, client, &pods) => ended,
        // Goes on for as long as the cache does.
        () = running => Ok(()),
        () = get_serving_certificate(guest, flags, client) => Ok(()),
    }
}

/// Gets the certificate the kubelet serves with, if it was told to ask for one. The node does its work meanwhile, and
/// also without: only those who want to reach its kubelet have to wait.
async fn get_serving_certificate(guest: &Guest, flags: &Flags, client: &Client) {
    while flags.asks_for_serving() {
        match join::serving_certificate(guest, client, &flags.node_name(&guest.boot)).await {
            Ok(_) => {
                guest.log("kubelet", "the serving certificate was issued");
                break;
            }
            Err(why) => guest.log("kubelet", &format!("no serving certificate: {why}")),
        }
        guest.sleep(ASK_AGAIN).await;
    }
    std::future::pending::<()>().await;
}

/// Keeps the node true, and tells that it is alive.
async fn beat(guest: &Guest, flags: &Flags, client: &Client, pods: &Cache) -> Result<(), ApiError> {
    let name = flags.node_name(&guest.boot);
    let mut changes = pods.changes();
    let mut beats = 0;
    let mut next = tokio::time::Instant::now();
    loop {
        guest.running().await;
        let ready = node::has_network_plugin(&pods.list(""));
        // Written when something has changed, and now and then anyway.
        let due = beats % STATUS_EVERY == 0;
        heartbeat(guest, flags, client, ready, due).await?;
        if tokio::time::Instant::now() >= next {
            renew(guest, client, &name).await?;
            beats += 1;
            next += HEARTBEAT;
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(next) => {}
            // A pod may be the network plugin.
            Some(_) = changes.recv() => {}
        }
    }
}

/// Makes the Node, or takes over the one that is there: a machine that restarts is the same node.
async fn register(guest: &Guest, flags: &Flags, client: &Client) -> Result<(), ApiError> {
    let wanted = node::registration(guest, flags);
    match client.create(&NODE, wanted.clone()).await {
        Err(failure) if failure.is_already_there() => {
            let patch = json!({"metadata": {"labels": wanted["metadata"]["labels"]}});
            client.merge(&NODE, &Key::cluster(wanted.name()), &patch).await?;
            Ok(())
        }
        Err(failure) => Err(failure),
        Ok(_) => Ok(()),
    }
}

/// Writes the node's status, if there is anything to say. Where somebody else was faster it looks again, a few times.
async fn heartbeat(
    guest: &Guest,
    flags: &Flags,
    client: &Client,
    ready: bool,
    due: bool,
) -> Result<(), ApiError> {
    let mut told = tell(guest, flags, client, ready, due).await;
    for _ in 1..STATUS_TRIES {
        match told {
            Err(failure) if failure.is_conflict() => told = tell(guest, flags, client, ready, due).await,
            other => return other,
        }
    }
    told
}

async fn tell(guest: &Guest, flags: &Flags, client: &Client, ready: bool, due: bool) -> Result<(), ApiError> {
    let key = Key::cluster(&flags.node_name(&guest.boot));
    let Some(node) = client.get(&NODE, &key).await? else {
        // Somebody deleted it: a real kubelet registers again only when it is started anew.
        return Err(ApiError {
            code: 404,
            reason: "NotFound".to_owned(),
            message: format!("node {key} not found"),
        });
    };
    let mut wanted = node.clone();
    node::report(&mut wanted, guest, ready);
    if due || node::differs(&node, &wanted) {
        client.replace_status(&NODE, &wanted).await?;
    }
    Ok(())
}

/// Renews the lease that says that the node is alive.
async fn renew(guest: &Guest, client: &Client, name: &str) -> Result<(), ApiError> {
    let key = Key::new("kube-node-lease", name);
    let spec = json!({
        "holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": guest.clock.micros(),
    });
    match client.merge(&LEASE, &key, &json!({"spec": spec})).await {
        Err(failure) if failure.is_not_found() => {
            let lease = json!({"metadata": {"namespace": key.namespace, "name": key.name}, "spec": spec});
            client.create_if_absent(&LEASE, lease).await
        }
        other => other.map(|_| ()),
    }
}

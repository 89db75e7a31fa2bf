//! Signs of life: a lease per host, renewed often, and the status of the node, renewed rarely.
//!
//! One task serves all hosts. Their renewals are spread over the interval, so that thousands of hosts are a steady
//! trickle and not a flood every few seconds.

use std::collections::HashMap;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::node;
use crate::client::{Client, Identity, Result};
use crate::context::Context;
use crate::kinds::{LEASE, NODE};
use crate::object::{Key, Object as _};

/// Where the leases are.
pub(crate) const NAMESPACE: &str = "kube-node-lease";
/// How often a lease is renewed.
const INTERVAL: Duration = Duration::from_secs(10);
/// After how many renewals of the lease the status is renewed too: five minutes.
const STATUS: u64 = 30;
/// After how many renewals of the lease virt-handler gives its own sign of life: a minute.
const HANDLER: u64 = 6;
/// How long a lease is good for, in seconds.
const DURATION: i64 = 40;
/// Into how many moments an interval is divided.
const MOMENTS: u32 = 100;
/// How many renewals are under way at the same time.
const TOGETHER: usize = 16;

/// Renews leases and statuses until the task is dropped.
pub(crate) async fn run(context: Context) {
    let client = context.client(Identity::KUBELET);
    let mut leases: HashMap<String, Value> = HashMap::new();
    let mut changes = context.world.hosts.changes();
    let start = Instant::now();
    let mut moment: u32 = 0;
    loop {
        let round = u64::from(moment / MOMENTS);
        let due: Vec<(usize, String)> = context
            .world
            .hosts
            .all()
            .into_iter()
            .enumerate()
            .filter(|(index, (_, host))| host.is_heard() && slot(*index) == moment % MOMENTS)
            .map(|(index, (name, _))| (index, name))
            .collect();
        beat(&context, &client, &mut leases, round, due).await;
        // Nobody looks at the moments in which no host has its turn: in virtual time that would be most of the work.
        loop {
            let next = next_turn(moment, context.world.hosts.all().len());
            tokio::select! {
                biased;
                () = sleep_until(start + INTERVAL / MOMENTS * next) => {
                    moment = next;
                    break;
                }
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    // A host that is back says so at once.
                    let back = silent_but_up(&context);
                    beat(&context, &client, &mut leases, 0, back).await;
                }
            }
        }
    }
}

/// The next moment in which one of so many hosts renews.
fn next_turn(after: u32, hosts: usize) -> u32 {
    let is_turn = |moment: &u32| (0..hosts.min(100)).any(|index| slot(index) == moment % MOMENTS);
    let end = after.saturating_add(MOMENTS);
    (after.saturating_add(1)..=end).find(is_turn).unwrap_or(end)
}

/// The moment of an interval at which a host renews.
fn slot(index: usize) -> u32 {
    // A stride without common factors with the number of moments, so that few hosts are spread, too.
    u32::try_from(index % 100).unwrap_or_default() * 37 % MOMENTS
}

/// Hosts that can be heard, whose node does not say that they are ready.
fn silent_but_up(context: &Context) -> Vec<(usize, String)> {
    let hosts = context.world.hosts.all().into_iter().enumerate();
    hosts
        .filter(|(_, (name, host))| host.is_heard() && !is_ready(context, name))
        .map(|(index, (name, _))| (index, name))
        .collect()
}

/// Whether the node of a host says that it is ready.
fn is_ready(context: &Context, name: &str) -> bool {
    context.client.cache(&NODE).get(&Key::cluster(name)).is_none_or(|node| node.condition_holds("Ready"))
}

/// Whether it is the turn of a host in a round for what is done every so many rounds.
fn is_turn(round: u64, index: usize, every: u64) -> bool {
    round > 0 && (round + u64::try_from(index).unwrap_or_default()).is_multiple_of(every)
}

async fn beat(
    context: &Context,
    client: &Client,
    leases: &mut HashMap<String, Value>,
    round: u64,
    hosts: Vec<(usize, String)>,
) {
    let beats = hosts.into_iter().map(|(index, name)| {
        let lease = leases.remove(&name);
        async move {
            let back = !is_ready(context, &name);
            if back || is_turn(round, index, STATUS) {
                report(context, client, &name).await;
            }
            if back || is_turn(round, index, HANDLER) {
                handler_beat(context, client, &name).await;
            }
            let lease = renew(context, client, &name, lease).await;
            (name, lease)
        }
    });
    let renewed: Vec<(String, Result<Value>)> = stream::iter(beats).buffered(TOGETHER).collect().await;
    for (name, lease) in renewed {
        match lease {
            Ok(lease) => {
                leases.insert(name, lease);
            }
            Err(failure) => tracing::debug!(host = name, %failure, "a lease could not be renewed"),
        }
    }
}

/// Renews a lease as it was written last; looks for it or makes it where that is not known.
async fn renew(context: &Context, client: &Client, name: &str, last: Option<Value>) -> Result<Value> {
    let key = Key::new(NAMESPACE, name);
    let known = match last {
        Some(lease) => Some(lease),
        None => client.get(&LEASE, &key).await?,
    };
    if let Some(mut lease) = known {
        lease.set("/spec/renewTime", context.clock.micros().into());
        match client.replace(&LEASE, &lease).await {
            Ok(lease) => return Ok(lease),
            Err(failure) if failure.is_not_found() => {}
            Err(failure) => return Err(failure),
        }
    }
    let Some(node) = context.client.cache(&NODE).get(&Key::cluster(name)) else {
        return client.create(&LEASE, lease(context, name, None)).await;
    };
    client.create(&LEASE, lease(context, name, Some(&node))).await
}

fn lease(context: &Context, name: &str, node: Option<&Value>) -> Value {
    let mut lease = json!({
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "holderIdentity": name, "leaseDurationSeconds": DURATION, "renewTime": context.clock.micros(),
        },
    });
    if let Some(node) = node {
        lease["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid()}
        ]);
    }
    lease
}

/// Says how the host is, as its kubelet sees it: well, or it could not say anything.
async fn report(context: &Context, client: &Client, name: &str) {
    let nodes = context.client.cache(&NODE);
    let Some(node) = nodes.get(&Key::cluster(name)) else { return };
    let now = context.clock.seconds();
    let mut new = (*node).clone();
    for well in node::conditions(&now).as_array().into_iter().flatten() {
        well_again(&mut new, well);
    }
    match client.replace_status(&NODE, &new).await {
        Ok(_) if !node.condition_holds("Ready") => node::tell_ready(context, &new).await,
        Ok(_) => {}
        Err(failure) => tracing::debug!(host = name, %failure, "a status could not be renewed"),
    }
}

/// virt-handler's sign of life. Nodes without one are not for machines.
async fn handler_beat(context: &Context, client: &Client, name: &str) {
    let patch = json!({"metadata": {"annotations": {"kubevirt.io/heartbeat": context.clock.seconds()}}});
    if let Err(failure) = client.merge(&NODE, &Key::cluster(name), &patch).await {
        tracing::debug!(host = name, %failure, "a sign of life could not be given");
    }
}

/// Puts a condition that says that all is well.
fn well_again(node: &mut Value, well: &Value) {
    let Some(list) = node.pointer_mut("/status/conditions").and_then(Value::as_array_mut) else {
        node.set("/status/conditions", json!([well]));
        return;
    };
    let Some(old) = list.iter_mut().find(|one| one["type"] == well["type"]) else {
        list.push(well.clone());
        return;
    };
    // What somebody set on purpose stays, such as a pressure; what only says that nothing was heard does not.
    if old["status"] != "Unknown" && old["status"] != well["status"] {
        old["lastHeartbeatTime"] = well["lastHeartbeatTime"].clone();
        return;
    }
    let since = if old["status"] == well["status"] {
        &old["lastTransitionTime"]
    } else {
        &well["lastTransitionTime"]
    };
    let since = since.clone();
    *old = well.clone();
    old["lastTransitionTime"] = since;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_hosts_turn_is_missed() {
        for hosts in [1, 3, 100, 8000] {
            let mut moment = 0;
            let mut turns = vec![0];
            while moment < 3 * MOMENTS {
                moment = next_turn(moment, hosts);
                turns.push(moment);
            }
            for index in 0..hosts.min(200) {
                let own: Vec<&u32> = turns.iter().filter(|turn| **turn % MOMENTS == slot(index)).collect();
                assert!(own.len() >= 3, "{index} of {hosts}: {own:?}");
            }
        }
        assert_eq!(next_turn(7, 0), 107);
    }

    #[test]
    fn every_host_has_its_turns() {
        for index in [0, 1, 7] {
            let turns = |every| (0..=60).filter(|round| is_turn(*round, index, every)).count();
            // Ten minutes of renewals every ten seconds.
            assert_eq!((turns(STATUS), turns(HANDLER)), (2, 10));
        }
    }
}

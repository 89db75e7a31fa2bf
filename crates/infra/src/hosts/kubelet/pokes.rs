//! What a kubelet notices that no object tells of: machines that end or move, and hosts that lose power or come back.

use std::collections::BTreeMap;

use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use crate::client::{Cache, Identity};
use crate::context::Context;
use crate::kinds::POD;
use crate::object::Key;
use crate::world::hosts::Host;
use crate::world::machine::{Command, Machine, State};

/// Names the pods of machines whenever something happens to these.
pub(crate) async fn of_machines(context: Context, pokes: UnboundedSender<Key>) {
    let mut added = context.world.machines.added();
    let mut watched = JoinSet::new();
    while let Some(machine) = added.recv().await {
        let pokes = pokes.clone();
        watched.spawn(async move {
            let mut state = machine.state();
            let mut pod = machine.plan().pod.pod;
            loop {
                let now = machine.plan().pod.pod;
                // Both the pod it has left and the one it is in now.
                for key in [std::mem::replace(&mut pod, now.clone()), now] {
                    if pokes.send(key).is_err() {
                        return;
                    }
                }
                let over = state.borrow_and_update().is_over();
                if over || state.changed().await.is_err() {
                    break;
                }
            }
            machine.gone().await;
            // Fails only when nobody looks any more.
            let _ = pokes.send(pod);
        });
        // Those that have ended need not be remembered.
        while watched.try_join_next().is_some() {}
    }
}

/// Names the pods of hosts that are heard again; the machines on hosts without power are over.
pub(crate) async fn of_hosts(context: Context, pokes: UnboundedSender<Key>) {
    let pods = context.client(Identity::KUBELET).cache(&POD);
    let mut changes = context.world.hosts.changes();
    let mut before = seen(&context);
    while changes.changed().await.is_ok() {
        let now = seen(&context);
        for (name, (host, boots)) in &now {
            let (old, old_boots) = before.get(name).copied().unwrap_or((Host::UP, *boots));
            if old_boots != *boots {
                cut_power(&context, name);
            }
            if host.is_heard() && (!old.is_heard() || old_boots != *boots) {
                poke_pods_on(&pods, name, &pokes);
            }
        }
        before = now;
    }
}

fn seen(context: &Context) -> BTreeMap<String, (Host, u64)> {
    let hosts = &context.world.hosts;
    let all = hosts.all().into_iter();
    all.map(|(name, host)| {
        let boots = hosts.boots(&name);
        (name, (host, boots))
    })
    .collect()
}

/// Ends all machines on a host at once.
fn cut_power(context: &Context, host: &str) {
    let mut machines = context.world.machines.on(host);
    machines.sort_by_cached_key(|machine| machine.plan().pod.pod_uid);
    for machine in machines {
        end(&machine);
    }
}

fn end(machine: &Machine) {
    machine.command(Command::Destroy);
    machine.set_state(State::Destroyed);
}

fn poke_pods_on(pods: &Cache, host: &str, pokes: &UnboundedSender<Key>) {
    for pod in pods.find("node", host) {
        // Fails only when nobody looks any more.
        let _ = pokes.send(Key::of(&pod));
    }
}

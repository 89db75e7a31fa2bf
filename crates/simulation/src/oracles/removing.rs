//! What has to have happened before something goes.

use std::sync::Arc;

use trellis_infra::object::Object as _;

use super::making::{MACHINE, MACHINE_UID, is_vm};
use crate::trace::{Change, Place, Snapshot, State};

/// The taint by which somebody vouches that a host is off.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The Node of a machine.
pub(super) fn node_of<'a>(state: &'a State, machine: &str) -> Option<&'a Arc<Snapshot>> {
    state.named(Place::Tenant, "nodes", machine)
}

/// The host a machine runs on.
pub(super) fn host_of<'a>(state: &'a State, machine: &str) -> Option<&'a Arc<Snapshot>> {
    let run = state.named(Place::World, "virtualmachineinstances", machine)?;
    state.named(Place::World, "nodes", run.json().text("/status/nodeName"))
}

/// Whether a pod has to be moved before its Node goes.
fn is_evictable(pod: &Snapshot) -> bool {
    let daemon = pod.record.index.owners.iter().any(|owner| owner.kind == "DaemonSet");
    let over = matches!(pod.json().text("/status/phase"), "Succeeded" | "Failed");
    !daemon && !over && !pod.deleting()
}

/// A VM that serves is taken away only when its Node takes no pods any more and those it had are gone.
pub(super) fn drained_before_stop(state: &State, change: &Change) -> Option<String> {
    let vm = change.doomed().filter(|one| is_vm(one))?;
    let node = node_of(state, vm.name()).filter(|node| node.json().condition_holds("Ready"))?;
    if !node.json().flag("/spec/unschedulable") {
        return Some(format!("VM {} goes while its Node takes pods", vm.name()));
    }
    let pod = state
        .all(Place::Tenant, "pods")
        .find(|pod| pod.json().text("/spec/nodeName") == node.name() && is_evictable(pod))?;
    Some(format!("VM {} goes while the pod {} runs on it", vm.name(), pod.name()))
}

/// A Node goes after the VM it is.
pub(super) fn node_after_vm(state: &State, change: &Change) -> Option<String> {
    let node = change.doomed().filter(|one| one.place == Place::Tenant && one.resource == "nodes")?;
    let vm = state.named(Place::World, "virtualmachines", node.name()).filter(|vm| is_vm(vm))?;
    Some(format!(
        "Node {} goes while its VM is there{}",
        node.name(),
        if vm.deleting() { ", going" } else { "" }
    ))
}

/// A Machine goes after all that it had.
pub(super) fn finalizer_held(state: &State, change: &Change) -> Option<String> {
    let machine = change.gone().filter(|one| one.place == Place::World && one.resource == "machines")?;
    let vm = state
        .all(Place::World, "virtualmachines")
        .find(|vm| vm.json().annotation(MACHINE_UID) == machine.uid());
    let run = state.named(Place::World, "virtualmachineinstances", machine.name());
    let kept = ["datavolumes", "secrets", "services"].into_iter().find_map(|resource| {
        state.all(Place::World, resource).find(|one| one.label(MACHINE) == machine.name() && !one.deleting())
    });
    let left = vm.or(run).or(kept)?;
    Some(format!("Machine {} is gone and its {left:?} is not", machine.name()))
}

/// Whether a host may be running what it ran, although nobody can tell.
fn is_in_doubt(host: &Snapshot) -> bool {
    let vouched = host.json().list("/spec/taints").iter().any(|taint| taint["key"] == OUT_OF_SERVICE);
    !vouched && !host.json().condition_holds("Ready")
}

/// What may still run is not ended by force, so that nothing else writes to its volumes.
pub(super) fn fencing(state: &State, change: &Change) -> Option<String> {
    let object = change.doomed().filter(|one| one.place == Place::World)?;
    let run = match object.resource {
        "virtualmachineinstances" => Some(object),
        "virtualmachines" => state.named(Place::World, "virtualmachineinstances", object.name()),
        _ => None,
    }?;
    let over = matches!(run.json().text("/status/phase"), "Succeeded" | "Failed");
    let host = state.named(Place::World, "nodes", run.json().text("/status/nodeName"))?;
    (!over && is_in_doubt(host))
        .then(|| format!("{object:?} is ended although nothing proves that host {} is off", host.name()))
}

/// A Machine that may still run is not replaced.
pub(super) fn proof_before_replacement(state: &State, change: &Change) -> Option<String> {
    let machine = change.doomed().filter(|one| one.place == Place::World && one.resource == "machines")?;
    let pool = machine.record.index.owners.iter().find(|owner| owner.kind == "MachinePool")?;
    state.named(Place::World, "machinepools", &pool.name).filter(|pool| !pool.deleting())?;
    let host = host_of(state, machine.name()).filter(|host| is_in_doubt(host))?;
    Some(format!("Machine {} goes although nothing proves that host {} is off", machine.name(), host.name()))
}

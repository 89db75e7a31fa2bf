//! What has to be there before a VM is.

use serde_json::Value;
use trellis_infra::object::Object as _;

use crate::trace::{Change, Place, Snapshot, State};

/// The label of the cluster that everything has.
pub(super) const CLUSTER: &str = "trellis.dev/cluster";
/// The label of the machine that all it has has.
pub(super) const MACHINE: &str = "trellis.dev/machine";
/// The annotation that says for which Machine a VM was made.
pub(super) const MACHINE_UID: &str = "trellis.dev/machine-uid";
/// The finalizer that keeps a Machine until all it had is gone.
const FINALIZER: &str = "trellis.dev/machine";

/// A VM of ours that has just been made.
fn made(change: &Change) -> Option<&Snapshot> {
    change.made().map(AsRef::as_ref).filter(|object| is_vm(object))
}

/// Whether an object is a VM of ours.
pub(super) fn is_vm(object: &Snapshot) -> bool {
    object.place == Place::World && object.resource == "virtualmachines" && !object.label(MACHINE).is_empty()
}

/// The Secrets that a VM names.
fn secrets(vm: &Value) -> Vec<&str> {
    let mut names = Vec::new();
    for volume in vm.list("/spec/template/spec/volumes") {
        for source in ["cloudInitConfigDrive", "cloudInitNoCloud"] {
            for reference in ["secretRef", "networkDataSecretRef"] {
                names.push(volume[source][reference].text("/name"));
            }
        }
        names.push(volume["secret"].text("/secretName"));
    }
    names.retain(|name| !name.is_empty());
    names
}

/// What a VM reads at its first boot is there before it.
pub(super) fn secret_before_vm(state: &State, change: &Change) -> Option<String> {
    let vm = made(change)?;
    let missing =
        secrets(vm.json()).into_iter().find(|name| state.named(Place::World, "secrets", name).is_none())?;
    Some(format!("VM {} is made without its Secret {missing}", vm.name()))
}

/// Nobody else reaches a VM from its first moment on.
pub(super) fn isolation_before_vm(state: &State, change: &Change) -> Option<String> {
    let vm = made(change)?;
    let isolated = state.all(Place::World, "networkpolicies").any(|policy| {
        policy.record.key.namespace == vm.record.key.namespace && policy.label(CLUSTER) == vm.label(CLUSTER)
    });
    (!isolated).then(|| format!("VM {} is made before its cluster is isolated", vm.name()))
}

/// A VM is made for a Machine that cannot go without it.
pub(super) fn finalizer_before_vm(state: &State, change: &Change) -> Option<String> {
    let vm = made(change)?;
    // The machine that hands out configurations has no Machine: whoever founds the cluster keeps it.
    let uid = Some(vm.json().annotation(MACHINE_UID)).filter(|uid| !uid.is_empty())?;
    let held = state.all(Place::World, "machines").any(|machine| {
        machine.uid() == uid && machine.record.index.finalizers.iter().any(|one| one == FINALIZER)
    });
    (!held).then(|| format!("VM {} is made for a Machine that nothing holds", vm.name()))
}

/// There are never two VMs for one Machine.
pub(super) fn one_vm_per_machine(state: &State, change: &Change) -> Option<String> {
    let vm = made(change)?;
    let uid = Some(vm.json().annotation(MACHINE_UID)).filter(|uid| !uid.is_empty())?;
    let other = state
        .all(Place::World, "virtualmachines")
        .find(|other| other.uid() != vm.uid() && other.json().annotation(MACHINE_UID) == uid)?;
    Some(format!("VMs {} and {} are of one Machine", vm.name(), other.name()))
}

//! Kubermatic's machine API, `cluster.k8s.io/v1alpha1`, with all three generations of its KubeVirt part.
//!
//! A MachineDeployment becomes a pool that is updated step by step, a MachineSet a pool whose machines are
//! only replaced when they are deleted, a Machine a pool of exactly that machine. There is no document for
//! the cluster itself: one is made up from what its pools say.

mod read;
mod write;

#[cfg(test)]
mod tests;

use trellis_api::kkp as api;

pub use self::read::read;
pub use self::write::write;

/// Annotations of a MachineDeployment with the bounds of the autoscaler.
const AUTOSCALER_MIN: &str = "cluster.k8s.io/cluster-api-autoscaler-node-group-min-size";
const AUTOSCALER_MAX: &str = "cluster.k8s.io/cluster-api-autoscaler-node-group-max-size";

/// The annotation Kube-OVN reads the subnet of a VM from.
const OVN_SUBNET: &str = "ovn.kubernetes.io/logical_switch";

crate::kinds::kinds! {
    /// A pool that is updated step by step.
    MachineDeployment(api::MachineDeployment) = "cluster.k8s.io/v1alpha1" "MachineDeployment";
    /// A pool whose machines are only replaced when they are deleted.
    MachineSet(api::MachineSet) = "cluster.k8s.io/v1alpha1" "MachineSet";
    /// A single machine.
    Machine(api::Machine) = "cluster.k8s.io/v1alpha1" "Machine";
    /// Settings that the others refer to.
    ConfigMap(api::ConfigMap) = "v1" "ConfigMap";
}

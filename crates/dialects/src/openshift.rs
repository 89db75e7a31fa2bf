//! OpenShift's manifests: `install-config.yaml`, which describes a whole cluster, and MachineSet and Machine
//! of `machine.openshift.io/v1beta1`, each on KubeVirt or oVirt.

mod read;
mod write;

#[cfg(test)]
mod tests;

use trellis_api::openshift as api;

pub use self::read::read;
pub use self::write::write;

/// Annotations of a MachineSet with the bounds of the autoscaler.
const AUTOSCALER_MIN: &str = "machine.openshift.io/cluster-api-autoscaler-node-group-min-size";
const AUTOSCALER_MAX: &str = "machine.openshift.io/cluster-api-autoscaler-node-group-max-size";

/// Labels that say what a machine belongs to and what it is for.
const CLUSTER_LABEL: &str = "machine.openshift.io/cluster-api-cluster";
const SET_LABEL: &str = "machine.openshift.io/cluster-api-machineset";
const ROLE_LABEL: &str = "machine.openshift.io/cluster-api-machine-role";
const TYPE_LABEL: &str = "machine.openshift.io/cluster-api-machine-type";

/// The name of the control plane's pool, which is also its role.
const MASTER: &str = "master";
/// The name of the workers' pool, which is also their role.
const WORKER: &str = "worker";

/// The seconds OpenShift gives a machine to shut down: an etcd member takes its time.
const STOP_GRACE_SECONDS: u32 = 600;

/// What a machine is on its platform: API version and kind.
const KUBEVIRT_SPEC: (&str, &str) =
    ("kubevirtproviderconfig.openshift.io/v1alpha1", "KubevirtMachineProviderSpec");
const OVIRT_SPEC: (&str, &str) =
    ("ovirtproviderconfig.machine.openshift.io/v1beta1", "OvirtMachineProviderSpec");

/// The groups an oVirt cluster has when it names none: their names and ranks.
const CONTROL_PLANE_GROUP: (&str, u8) = ("controlplane", 5);
const COMPUTE_GROUP: (&str, u8) = ("compute", 3);

crate::kinds::kinds! {
    /// A whole cluster.
    InstallConfig(api::install::InstallConfig) = "v1" "InstallConfig";
    /// A pool whose machines are only replaced when they are deleted.
    MachineSet(api::MachineSet) = "machine.openshift.io/v1beta1" "MachineSet";
    /// A single machine.
    Machine(api::Machine) = "machine.openshift.io/v1beta1" "Machine";
}

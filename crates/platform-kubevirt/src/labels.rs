//! Labels and annotations of everything that is rendered.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use trellis_model::Cluster;
use trellis_model::pool::Role;

use crate::machine::Machine;

/// Labels as Kubernetes takes them.
pub(crate) type Labels = BTreeMap<String, String>;

/// All of our own labels begin with this.
pub(crate) const OWN_PREFIX: &str = "trellis.dev/";
/// The cluster an object belongs to; on every object.
pub(crate) const CLUSTER: &str = "trellis.dev/cluster";
/// The pool a machine belongs to.
pub(crate) const POOL: &str = "trellis.dev/pool";
/// Whether a machine is of the control plane or a worker.
pub(crate) const ROLE: &str = "trellis.dev/role";
/// The machine an object belongs to.
pub(crate) const MACHINE: &str = "trellis.dev/machine";
/// The revision a machine was made from.
pub(crate) const REVISION: &str = "trellis.dev/revision";
/// The run of a machine that a move was asked for; on the moves we ask for.
pub(crate) const INSTANCE: &str = "trellis.dev/instance";
/// Who keeps an object.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The cluster, in the words of the cloud controller manager, which selects machines by it.
pub(crate) const CLUSTER_API_CLUSTER: &str = "cluster.x-k8s.io/cluster-name";
/// The role, in those words.
pub(crate) const CLUSTER_API_ROLE: &str = "cluster.x-k8s.io/role";
/// The machine, in KubeVirt's words.
pub(crate) const KUBEVIRT_VM: &str = "kubevirt.io/vm";

/// Labels KubeVirt keeps for itself: it refuses a machine that has them, or writes over them.
pub(crate) const KUBEVIRT_OWN: &[&str] = &[
    "kubevirt.io",
    "kubevirt.io/created-by",
    "kubevirt.io/install-strategy",
    "kubevirt.io/migrationJobUID",
    "kubevirt.io/migrationTargetNodeName",
    "kubevirt.io/nodeName",
    "kubevirt.io/schedulable",
    "vm.kubevirt.io/name",
    "vmi.kubevirt.io/id",
];

/// Annotations that begin with this are for CDI and go to the volumes.
const CDI_PREFIX: &str = "cdi.kubevirt.io";
/// The annotation that carried a whole Ignition configuration, readable by anyone who sees the machine.
pub(crate) const IGNITION_DATA: &str = "kubevirt.io/ignitiondata";

/// Whether nobody but us or KubeVirt may set a label.
pub(crate) fn is_reserved(key: &str) -> bool {
    key.starts_with(OWN_PREFIX) || KUBEVIRT_OWN.contains(&key)
}

/// The labels of every object of a cluster.
pub(crate) fn of_cluster(cluster: &Cluster) -> Labels {
    owned([(CLUSTER, cluster.name.as_str()), (MANAGED_BY, "trellis")])
}

/// The labels of every object of a machine.
pub(crate) fn of_machine(machine: &Machine<'_>) -> Labels {
    let mut labels = of_cluster(machine.cluster);
    labels.extend(owned([
        (POOL, machine.pool.name.as_str()),
        (ROLE, machine.pool.spec.role.as_str()),
        (MACHINE, machine.name()),
    ]));
    labels
}

/// The labels of a virtual machine and, the same, of what it starts: only the latter reach the pod.
pub(crate) fn of_vm(machine: &Machine<'_>) -> Labels {
    let spec = &machine.pool.spec;
    let wished = spec.machine_labels.iter().filter(|(key, _)| !is_reserved(key.as_str()));
    let mut labels: Labels = wished.map(|(key, value)| (key.to_string(), value.to_string())).collect();
    // Ours come last, so that nothing wished for replaces them.
    labels.extend(of_machine(machine));
    labels.extend(owned([
        (REVISION, machine.identity.revision.as_str()),
        (CLUSTER_API_CLUSTER, machine.cluster.name.as_str()),
        (CLUSTER_API_ROLE, spec.role.as_str()),
        (KUBEVIRT_VM, machine.name()),
    ]));
    labels
}

/// The annotations wished for a machine: those of the virtual machine, and those of its volumes.
pub(crate) fn annotations(machine: &Machine<'_>) -> (Labels, Labels) {
    let wished = machine.pool.spec.machine_annotations.iter();
    let all = wished.filter(|(key, _)| key.as_str() != IGNITION_DATA);
    all.map(|(key, value)| (key.to_string(), value.clone()))
        .partition(|(key, _)| !key.starts_with(CDI_PREFIX))
}

/// What selects all machines of a cluster.
pub(crate) fn select_cluster(cluster: &Cluster) -> Labels {
    owned([(CLUSTER, cluster.name.as_str())])
}

/// What selects the control plane of a cluster.
pub(crate) fn select_control_plane(cluster: &Cluster) -> Labels {
    owned([(CLUSTER, cluster.name.as_str()), (ROLE, Role::ControlPlane.as_str())])
}

/// Labels as a selector.
pub(crate) fn selector(labels: Labels) -> LabelSelector {
    LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }
}

/// Pairs as labels.
pub(crate) fn owned<const N: usize>(pairs: [(&str, &str); N]) -> Labels {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Metadata of an object in the cluster's namespace.
pub(crate) fn metadata(cluster: &Cluster, name: String, labels: Labels) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(cluster.infra_namespace().to_owned()),
        labels: Some(labels),
        ..ObjectMeta::default()
    }
}

//! What the families call things.

use trellis_api::{kkp, openshift, trellis};

use crate::machines::ProviderIdForm;

/// Our finalizer on Machines of every family.
pub const FINALIZER: &str = "trellis.dev/machine";

/// Labels and annotations of ours, on objects of every family.
pub mod keys {
    /// Label: the cluster an object belongs to.
    pub const CLUSTER: &str = "trellis.dev/cluster";
    /// Label: the pool a machine belongs to.
    pub const POOL: &str = "trellis.dev/pool";
    /// Label: what a machine is for.
    pub const ROLE: &str = "trellis.dev/role";
    /// Label: the revision a machine was made from.
    pub const REVISION: &str = "trellis.dev/revision";
    /// Annotation: the number of a machine in its pool.
    pub const ORDINAL: &str = "trellis.dev/ordinal";
    /// Annotation: the zone of a machine.
    pub const ZONE: &str = "trellis.dev/zone";
    /// Annotation: the object is not to be touched.
    pub const PAUSED: &str = "trellis.dev/paused";
    /// Annotation: a machine is kept although it failed.
    pub const PRESERVE: &str = "trellis.dev/preserve";
    /// Annotation: a machine goes first.
    pub const DELETE_FIRST: &str = "trellis.dev/delete-first";
    /// Annotation: a machine is not drained before it goes.
    pub const SKIP_DRAIN: &str = "trellis.dev/skip-drain";
    /// Annotation: a machine is to be replaced because it is unhealthy.
    pub const UNHEALTHY: &str = "trellis.dev/unhealthy";
    /// Annotation: machines go back to the controller of their family.
    pub const HAND_BACK: &str = "trellis.dev/hand-back";
    /// Annotation: whom a machine was taken over from.
    pub const ADOPTED_FROM: &str = "trellis.dev/adopted-from";
    /// Annotation of a MachinePool: how long a Node may be unhealthy.
    pub const UNHEALTHY_AFTER: &str = "trellis.dev/unhealthy-after";
    /// Annotation of a MachinePool: how many machines may be unhealthy for any to be replaced.
    pub const MAX_UNHEALTHY: &str = "trellis.dev/max-unhealthy";
    /// Annotation of a MachinePool: how long a machine may take to join.
    pub const NODE_STARTUP_TIMEOUT: &str = "trellis.dev/node-startup-timeout";
    /// Annotation of a pool of control-plane machines: the machines its etcd began with. Nobody begins it again.
    pub const ETCD_BEGAN_WITH: &str = "trellis.dev/etcd-began-with";
    /// Annotation of a pool of control-plane machines: its etcd has been seen with members.
    pub const ETCD_FORMED: &str = "trellis.dev/etcd-formed";
    /// Annotation of a control-plane machine: the member of etcd that left, or is about to; it never comes back.
    pub const MEMBER_LEFT: &str = "trellis.dev/etcd-member-left";
    /// Annotation or label of a TenantCluster: the family of its machine objects.
    pub const FAMILY: &str = "trellis.dev/family";
    /// All of ours begin with this.
    pub const PREFIX: &str = "trellis.dev/";
}

/// A kind of object, as requests name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    /// Group and version.
    pub api_version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Its name in paths.
    pub plural: &'static str,
    /// Whether its status is written apart from it. Where not, a status patch goes to the object itself.
    pub status_apart: bool,
}

impl Resource {
    /// The same, for requests and watches.
    pub fn requested(&self) -> trellis_runtime::Resource {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        trellis_runtime::Resource::namespaced(group, version, self.plural, self.kind)
    }
}

/// How a family calls things. There is one value of it for each family.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Its short name.
    pub name: &'static str,
    /// Machines.
    pub machine: Resource,
    /// Sets of equal machines, where the family has them.
    pub set: Option<Resource>,
    /// Pools that roll their machines, where the family has them.
    pub pool: Option<Resource>,
    /// Health checks, where the family has them as objects.
    pub health_check: Option<Resource>,
    /// The finalizers its own controller puts on Machines.
    pub foreign_finalizers: &'static [&'static str],
    /// What its own controller is called.
    pub foreign_controller: &'static str,
    /// Annotations that keep everybody's hands off.
    pub paused: &'static [&'static str],
    /// Annotations that let a machine go first.
    pub delete_first: &'static [&'static str],
    /// Annotations that let a machine go without a drain.
    pub skip_drain: &'static [&'static str],
    /// The label with the revision of a set, on the set and its machines.
    pub hash_label: Option<&'static str>,
    /// The annotation with the number of a revision, on sets and pools.
    pub revision_number: Option<&'static str>,
    /// The annotation with the size its pool had when a set was last sized.
    pub desired_replicas: Option<&'static str>,
    /// The annotation with the size its pool may have meanwhile.
    pub max_replicas: Option<&'static str>,
    /// Labels of Machines that its own controllers add, beginnings included: they are no part of a template.
    pub added_labels: &'static [&'static str],
    /// Annotations of Machines that its own controllers or people add, by their beginnings.
    pub added_annotations: &'static [&'static str],
    /// The annotation of Nodes with namespace and name of their Machine, which autoscalers and consoles look at.
    pub node_machine: &'static str,
    /// The label of Nodes with the uid of their Machine.
    pub node_owner: Option<&'static str>,
    /// How its provider ids are spelled: the cloud controllers and CSI drivers of the family parse them.
    pub provider_id: ProviderIdForm,
}

const fn resource(api_version: &'static str, kind: &'static str, plural: &'static str) -> Resource {
    Resource { api_version, kind, plural, status_apart: true }
}

/// All families.
pub static FAMILIES: [&Family; 3] = [&KKP, &OPENSHIFT, &TRELLIS];

/// Kubermatic's machine API.
pub static KKP: Family = Family {
    name: "kkp",
    // The machine-controller writes the status together with the object, and so must whoever shares it.
    machine: Resource { status_apart: false, ..resource(kkp::API_VERSION, "Machine", "machines") },
    set: Some(resource(kkp::API_VERSION, "MachineSet", "machinesets")),
    pool: Some(resource(kkp::API_VERSION, "MachineDeployment", "machinedeployments")),
    health_check: Some(resource(kkp::API_VERSION, "MachineHealthCheck", "machinehealthchecks")),
    foreign_finalizers: &["machine-delete-finalizer", "machine-node-delete-finalizer"],
    foreign_controller: "machine-controller",
    paused: &[keys::PAUSED, "machine-controller.kubermatic.io/initializers"],
    delete_first: &[keys::DELETE_FIRST, "cluster.k8s.io/delete-machine"],
    skip_drain: &[keys::SKIP_DRAIN, "kubermatic.io/skip-eviction"],
    hash_label: Some("machine-template-hash"),
    revision_number: Some("machinedeployment.clusters.k8s.io/revision"),
    desired_replicas: Some("machinedeployment.clusters.k8s.io/desired-replicas"),
    max_replicas: Some("machinedeployment.clusters.k8s.io/max-replicas"),
    added_labels: &["machine-template-hash", keys::PREFIX],
    added_annotations: &[
        keys::PREFIX,
        "cluster.k8s.io/",
        "kubermatic.io/",
        "machine-controller.kubermatic.io/",
        "machinedeployment.clusters.k8s.io/",
    ],
    node_machine: "cluster.k8s.io/machine",
    node_owner: Some("machine-controller/owned-by"),
    provider_id: ProviderIdForm::Name,
};

/// OpenShift's machine API.
pub static OPENSHIFT: Family = Family {
    name: "openshift",
    machine: resource(openshift::API_VERSION, "Machine", "machines"),
    set: Some(resource(openshift::API_VERSION, "MachineSet", "machinesets")),
    pool: None,
    health_check: Some(resource(openshift::API_VERSION, "MachineHealthCheck", "machinehealthchecks")),
    foreign_finalizers: &["machine.machine.openshift.io"],
    foreign_controller: "machine-api",
    paused: &[keys::PAUSED, "cluster.x-k8s.io/paused"],
    delete_first: &[
        keys::DELETE_FIRST,
        "machine.openshift.io/cluster-api-delete-machine",
        "machine.openshift.io/delete-machine",
    ],
    skip_drain: &[keys::SKIP_DRAIN, "machine.openshift.io/exclude-node-draining"],
    hash_label: None,
    revision_number: None,
    desired_replicas: None,
    max_replicas: None,
    added_labels: &[
        keys::PREFIX,
        "machine.openshift.io/instance-type",
        "machine.openshift.io/region",
        "machine.openshift.io/zone",
    ],
    added_annotations: &[keys::PREFIX, "machine.openshift.io/", "cluster.x-k8s.io/", "VmId"],
    node_machine: "machine.openshift.io/machine",
    node_owner: None,
    provider_id: ProviderIdForm::NamespaceAndName,
};

/// Our own kinds.
pub static TRELLIS: Family = Family {
    name: "trellis",
    machine: resource(trellis::API_VERSION, "Machine", "machines"),
    set: None,
    pool: Some(resource(trellis::API_VERSION, "MachinePool", "machinepools")),
    health_check: None,
    foreign_finalizers: &[],
    foreign_controller: "",
    paused: &[keys::PAUSED],
    delete_first: &[keys::DELETE_FIRST],
    skip_drain: &[keys::SKIP_DRAIN],
    hash_label: None,
    revision_number: None,
    desired_replicas: None,
    max_replicas: None,
    added_labels: &[keys::PREFIX],
    added_annotations: &[keys::PREFIX],
    node_machine: "trellis.dev/machine",
    node_owner: None,
    provider_id: ProviderIdForm::Name,
};

impl Family {
    /// All of them.
    pub fn all() -> [&'static Self; 3] {
        [&KKP, &OPENSHIFT, &TRELLIS]
    }

    /// The family whose objects have that group and version.
    pub fn of(api_version: &str) -> Option<&'static Self> {
        Self::all().into_iter().find(|family| family.machine.api_version == api_version)
    }

    /// Whether only controllers and people who steer machines put that label on a Machine.
    pub(super) fn adds_label(&self, key: &str) -> bool {
        self.added_labels.iter().any(|begin| key.starts_with(begin))
    }

    /// Whether only controllers and people who steer machines put that annotation on a Machine.
    pub(super) fn adds_annotation(&self, key: &str) -> bool {
        self.added_annotations.iter().any(|begin| key.starts_with(begin))
    }
}

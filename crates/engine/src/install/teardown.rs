//! Taking a tenant cluster away: in which order, and what is waited for.
//!
//! Whatever carries the label of the cluster goes, and nothing else: other clusters may share the namespace. Dependants
//! go first: nobody may make new machines, then the machines, their volumes, what they read, what they were reached by,
//! and their isolation when there is nothing left to isolate. The record goes last, so that whoever is interrupted finds
//! it again.

use trellis_platform_kubevirt::CLUSTER_LABEL;
use trellis_platform_kubevirt::MACHINE_LABEL;
use trellis_runtime::Resource;

use crate::rights::Place;

/// The type of the Secret that is the record of a cluster.
pub const RECORD_TYPE: &str = "trellis.dev/record";

/// A kind of object that a cluster leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A pool, which would make new machines.
    Pool,
    /// A virtual machine.
    VirtualMachine,
    /// What runs of a virtual machine.
    Instance,
    /// A disk or an image.
    DataVolume,
    /// The storage of a disk.
    Claim,
    /// A Secret.
    Secret,
    /// Who may act with which rights.
    RoleBinding,
    /// Rights.
    Role,
    /// An account of a component.
    ServiceAccount,
    /// A Service.
    Service,
    /// A way in from outside.
    Ingress,
    /// A network.
    Attachment,
    /// A size of machines.
    Instancetype,
    /// A preference of machines.
    Preference,
    /// An isolation.
    NetworkPolicy,
    /// A machine object.
    Machine,
    /// What is kept beside the machine objects, where those are apart from the machines: keys and kubeconfigs.
    Kept,
    /// The record of the cluster.
    Record,
}

impl Kind {
    /// All of them, in the order in which they go.
    pub const ALL: [Self; 18] = [
        Self::Pool,
        Self::VirtualMachine,
        Self::Instance,
        Self::DataVolume,
        Self::Claim,
        Self::Secret,
        Self::RoleBinding,
        Self::Role,
        Self::ServiceAccount,
        Self::Service,
        Self::Ingress,
        Self::Attachment,
        Self::Instancetype,
        Self::Preference,
        Self::NetworkPolicy,
        Self::Machine,
        Self::Kept,
        Self::Record,
    ];

    /// As requests name it.
    pub fn resource(self) -> Resource {
        let of = Resource::namespaced;
        match self {
            Self::Pool => of("trellis.dev", "v1alpha1", "machinepools", "MachinePool"),
            Self::Machine => of("trellis.dev", "v1alpha1", "machines", "Machine"),
            Self::VirtualMachine => of("kubevirt.io", "v1", "virtualmachines", "VirtualMachine"),
            Self::Instance => of("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance"),
            Self::DataVolume => of("cdi.kubevirt.io", "v1beta1", "datavolumes", "DataVolume"),
            Self::Claim => of("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
            Self::Secret | Self::Kept | Self::Record => of("", "v1", "secrets", "Secret"),
            Self::RoleBinding => of("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
            Self::Role => of("rbac.authorization.k8s.io", "v1", "roles", "Role"),
            Self::ServiceAccount => of("", "v1", "serviceaccounts", "ServiceAccount"),
            Self::Service => of("", "v1", "services", "Service"),
            Self::Ingress => of("networking.k8s.io", "v1", "ingresses", "Ingress"),
            Self::Attachment => {
                of("k8s.cni.cncf.io", "v1", "network-attachment-definitions", "NetworkAttachmentDefinition")
            }
            Self::Instancetype => of(
                "instancetype.kubevirt.io",
                "v1beta1",
                "virtualmachineinstancetypes",
                "VirtualMachineInstancetype",
            ),
            Self::Preference => of(
                "instancetype.kubevirt.io",
                "v1beta1",
                "virtualmachinepreferences",
                "VirtualMachinePreference",
            ),
            Self::NetworkPolicy => of("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
        }
    }

    /// Where it is.
    pub fn place(self) -> Place {
        match self {
            Self::Pool | Self::Machine | Self::Kept => Place::Control,
            _ => Place::Infra,
        }
    }

    /// Which kinds go together, and before which others: those of a lower stage are gone before a higher one begins.
    fn stage(self) -> u8 {
        match self {
            Self::Pool => 0,
            Self::VirtualMachine | Self::Instance => 1,
            Self::DataVolume => 2,
            Self::Claim => 3,
            Self::Secret | Self::RoleBinding => 4,
            Self::Role | Self::ServiceAccount | Self::Service | Self::Ingress => 5,
            Self::Attachment | Self::Instancetype | Self::Preference => 6,
            Self::NetworkPolicy => 7,
            Self::Machine => 8,
            Self::Kept => 9,
            Self::Record => 10,
        }
    }
}

/// What is taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Everything of a cluster.
    Cluster(String),
    /// What was made for one machine of a cluster.
    Machine(String, String),
}

impl Scope {
    /// The cluster.
    pub fn cluster(&self) -> &str {
        match self {
            Self::Cluster(cluster) | Self::Machine(cluster, _) => cluster,
        }
    }

    /// The labels of what it is about.
    pub fn selector(&self) -> String {
        match self {
            Self::Cluster(cluster) => format!("{CLUSTER_LABEL}={cluster}"),
            Self::Machine(cluster, machine) => {
                format!("{CLUSTER_LABEL}={cluster},{MACHINE_LABEL}={machine}")
            }
        }
    }

    /// The kinds it is about.
    pub fn kinds(&self) -> Vec<Kind> {
        let of_machine = |kind: &Kind| {
            use Kind::{Claim, DataVolume, Instance, Secret, Service, VirtualMachine};
            matches!(kind, VirtualMachine | Instance | DataVolume | Claim | Secret | Service)
        };
        let all = Kind::ALL.into_iter();
        match self {
            Self::Cluster(_) => all.collect(),
            Self::Machine(..) => all.filter(of_machine).collect(),
        }
    }
}

/// Something that is still there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thing {
    /// What it is.
    pub kind: Kind,
    /// What it is called.
    pub name: String,
    /// Which one of that name it is.
    pub uid: String,
    /// Whether it was asked to go.
    pub going: bool,
    /// Who has to do something before it goes.
    pub held_by: Vec<String>,
}

impl std::fmt::Display for Thing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.kind.resource().kind, self.name)?;
        match (self.going, self.held_by.as_slice()) {
            (true, [_, ..]) => write!(formatter, " (is held by {})", self.held_by.join(", ")),
            _ => Ok(()),
        }
    }
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// What is deleted now.
    pub delete: Vec<Thing>,
    /// What is let go now: only our own finalizer keeps it.
    pub release: Vec<Thing>,
    /// What is waited for before anything else happens: all that is there of this stage.
    pub waiting: Vec<Thing>,
    /// How many things are there after this stage.
    pub later: usize,
}

impl Plan {
    /// Whether nothing is left.
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The kinds of what is waited for.
    pub fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = self.waiting.iter().map(|thing| thing.kind).collect();
        kinds.dedup();
        kinds
    }

    /// How far it is, in words.
    pub fn message(&self) -> String {
        let counted = |kind: Kind| {
            let of_kind: Vec<&Thing> = self.waiting.iter().filter(|thing| thing.kind == kind).collect();
            match of_kind.as_slice() {
                [one] => one.to_string(),
                many => format!("{} {}", many.len(), plural(kind.resource().kind)),
            }
        };
        let parts: Vec<String> = self.kinds().into_iter().map(counted).collect();
        match parts.as_slice() {
            [] => "nothing is left".to_owned(),
            [first @ .., last] if !first.is_empty() => {
                format!("waiting for {} and {last} to go", first.join(", "))
            }
            [one, ..] => format!("waiting for {one} to go"),
        }
    }
}

/// The plural of a kind.
pub fn plural(kind: &str) -> String {
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

/// Decides what comes next from what is there.
pub fn plan(things: &[Thing]) -> Plan {
    let Some(stage) = things.iter().map(|thing| thing.kind.stage()).min() else { return Plan::default() };
    let (now, later): (Vec<&Thing>, Vec<&Thing>) =
        things.iter().partition(|thing| thing.kind.stage() == stage);
    let has_machine =
        |name: &str| now.iter().any(|thing| thing.kind == Kind::VirtualMachine && thing.name == name);
    let is_deleted = |thing: &Thing| match thing.kind {
        // It goes with its virtual machine, and only then without a struggle.
        Kind::Instance => !has_machine(&thing.name),
        _ => true,
    };
    let mut waiting: Vec<Thing> = now.iter().map(|thing| (*thing).clone()).collect();
    waiting.sort();
    Plan {
        delete: waiting.iter().filter(|thing| !thing.going && is_deleted(thing)).cloned().collect(),
        release: waiting.iter().filter(|thing| thing.kind == Kind::Machine).cloned().collect(),
        later: later.len(),
        waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thing(kind: Kind, name: &str) -> Thing {
        Thing { kind, name: name.to_owned(), uid: format!("{kind:?}-{name}"), going: false, held_by: vec![] }
    }

    fn names(things: &[Thing]) -> Vec<&str> {
        things.iter().map(|thing| thing.name.as_str()).collect()
    }

    #[test]
    fn everything_goes_in_order_and_the_record_last() {
        let mut there: Vec<Thing> = Kind::ALL.iter().map(|kind| thing(*kind, "x")).collect();
        there.reverse();
        let mut order = Vec::new();
        while !there.is_empty() {
            let plan = plan(&there);
            assert!(!plan.waiting.is_empty() && plan.later + plan.waiting.len() == there.len());
            order.push(plan.waiting.iter().map(|thing| thing.kind).collect::<Vec<_>>());
            there.retain(|thing| !plan.waiting.contains(thing));
        }
        assert_eq!(order.first().unwrap(), &[Kind::Pool]);
        assert_eq!(order[1], [Kind::VirtualMachine, Kind::Instance]);
        assert_eq!(order.last().unwrap(), &[Kind::Record]);
        let place = |kind| order.iter().position(|stage| stage.contains(&kind)).unwrap();
        assert!(place(Kind::Service) < place(Kind::NetworkPolicy), "isolation outlives what it isolates");
        assert!(place(Kind::NetworkPolicy) < place(Kind::Machine), "machine objects outlive their machines");
        assert!(plan(&there).is_done());
    }

    #[test]
    fn an_instance_goes_with_its_machine_and_alone_only_without_one() {
        let things = [
            thing(Kind::VirtualMachine, "a"),
            thing(Kind::Instance, "a"),
            thing(Kind::Instance, "orphan"),
            thing(Kind::Secret, "s"),
        ];
        let plan = plan(&things);
        assert_eq!(names(&plan.delete), ["a", "orphan"]);
        assert_eq!(plan.waiting.len(), 3);
        assert_eq!(plan.message(), "waiting for VirtualMachine a and 2 VirtualMachineInstances to go");
    }

    #[test]
    fn what_goes_is_waited_for_and_not_deleted_again() {
        let going = Thing {
            going: true,
            held_by: vec!["kubevirt.io/x".to_owned()],
            ..thing(Kind::VirtualMachine, "a")
        };
        let plan = plan(&[going]);
        assert!(plan.delete.is_empty() && !plan.is_done());
        assert_eq!(plan.message(), "waiting for VirtualMachine a (is held by kubevirt.io/x) to go");
    }

    #[test]
    fn machine_objects_are_let_go_when_their_machines_are_gone() {
        let going = Thing { going: true, ..thing(Kind::Machine, "m") };
        assert!(plan(&[going.clone(), thing(Kind::VirtualMachine, "m")]).release.is_empty());
        let last = plan(&[going]);
        assert_eq!((names(&last.release), last.delete.len()), (vec!["m"], 0));
    }

    #[test]
    fn one_machine_takes_nothing_of_the_cluster_with_it() {
        let scope = Scope::Machine("blue".to_owned(), "blue-bootstrap".to_owned());
        assert_eq!(scope.selector(), "trellis.dev/cluster=blue,trellis.dev/machine=blue-bootstrap");
        assert!(!scope.kinds().contains(&Kind::NetworkPolicy) && !scope.kinds().contains(&Kind::Record));
        assert_eq!(Scope::Cluster("blue".to_owned()).selector(), "trellis.dev/cluster=blue");
    }

    #[test]
    fn kinds_in_words() {
        assert_eq!(plural("NetworkPolicy"), "NetworkPolicies");
        assert_eq!(plural("Ingress"), "Ingresses");
        assert_eq!(plural("Secret"), "Secrets");
    }
}

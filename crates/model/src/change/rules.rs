//! Every field and what changing it does.

use crate::machine::{MachineTemplate, Shape};

/// What a change does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Applied to what runs.
    InPlace,
    /// A setting of the cluster that pools fall back to: what it does is said at each pool it reaches.
    ThroughPools,
    /// Machines are replaced.
    Roll,
    /// Not possible.
    Reject,
}

/// The class of a field, which for some depends on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldClass {
    /// Always the same.
    Always(Class),
    /// In place where the machine can grow while it runs, else a roll.
    GrowsInPlace,
}

impl FieldClass {
    /// The class for a machine that can or cannot grow in place.
    pub fn of(self, can_grow: bool) -> Class {
        match self {
            Self::Always(class) => class,
            Self::GrowsInPlace if can_grow => Class::InPlace,
            Self::GrowsInPlace => Class::Roll,
        }
    }
}

/// A field, or all fields below it, and what changing it does.
#[derive(Debug)]
pub struct FieldRule {
    /// The field's path in the spec.
    pub path: &'static str,
    /// What changing it does.
    pub class: FieldClass,
    /// Why, as a sentence for the person who changed it.
    pub why: &'static str,
}

const fn rule(path: &'static str, class: Class, why: &'static str) -> FieldRule {
    FieldRule { path, class: FieldClass::Always(class), why }
}

use Class::{InPlace, Reject, Roll, ThroughPools};

/// What changing each field of a cluster does.
pub static CLUSTER_FIELDS: &[FieldRule] = &[
    rule("platform", Reject, "a cluster cannot move to another platform"),
    rule("platform.kubevirt.namespace", Reject, "a cluster cannot move to another namespace"),
    rule("platform.kubevirt.storage", ThroughPools, "see the pools that do not say otherwise"),
    rule("platform.kubevirt.credentials", InPlace, "the new credentials are used from now on"),
    rule("platform.ovirt.clusterId", Reject, "a cluster cannot move to other hosts of the engine"),
    rule("platform.ovirt.storageDomainId", ThroughPools, "see the pools that do not say otherwise"),
    rule("platform.ovirt.networkName", ThroughPools, "see the pools that do not say otherwise"),
    rule("platform.ovirt.vnicProfileId", ThroughPools, "see the pools that do not say otherwise"),
    rule("platform.ovirt.affinityGroups", InPlace, "groups are changed on the engine"),
    rule(
        "platform.ovirt.userManagedLoadBalancer",
        Reject,
        "the way to the API is fixed when the cluster is made",
    ),
    rule("version", ThroughPools, "see the pools that do not say otherwise"),
    rule("baseDomain", Reject, "the domain is in every certificate of the cluster"),
    rule("network.plugin", Reject, "a running cluster cannot change its network plugin"),
    rule("network.pods", Reject, "pod addresses are fixed when the cluster is made"),
    rule("network.services", Reject, "Service addresses are fixed when the cluster is made"),
    rule("network.nodes", Reject, "node addresses are fixed when the cluster is made"),
    rule("network.attachPodNetwork", ThroughPools, "see the pools that do not say otherwise"),
    rule("network.podNetworkBinding", ThroughPools, "see the pools that do not say otherwise"),
    rule("network.machineNetworks", ThroughPools, "see the pools that do not say otherwise"),
    rule("network.apiVips", Reject, "the API's address is in every kubeconfig and certificate"),
    rule("network.ingressVips", Reject, "the ingress address is fixed when the cluster is made"),
    rule("network.publish", InPlace, "the API's Service is changed"),
    rule("network.allowedEgress", InPlace, "the isolation is changed"),
    rule("sshKeys", ThroughPools, "see the pools that do not say otherwise"),
    rule("flavors", ThroughPools, "see the pools that do not say otherwise"),
    rule("cloudController", InPlace, "the cloud controller manager is restarted with it"),
    rule("maintenance", InPlace, "it holds from now on"),
];

/// What changing each field of a pool does.
pub static POOL_FIELDS: &[FieldRule] = &[
    rule("cluster", Reject, "a pool cannot move to another cluster"),
    rule("role", Reject, "workers cannot become a control plane, nor the other way round"),
    rule("machineName", Reject, "a machine cannot be renamed"),
    rule("replicas", InPlace, "machines are added or removed"),
    rule("autoscaling", InPlace, "the autoscaler keeps to the new bounds"),
    rule("update", InPlace, "it holds for the next update"),
    rule("deletePolicy", InPlace, "it holds for the next machine that is removed"),
    rule("machineLabels", InPlace, "machines and VMs are relabelled"),
    rule("machineAnnotations", InPlace, "machines and VMs are annotated anew"),
    rule("nodeLabels", InPlace, "nodes are relabelled"),
    rule("nodeAnnotations", InPlace, "nodes are annotated anew"),
    rule("nodeTaints", InPlace, "nodes are tainted anew"),
    rule("kubeletVersion", Roll, "machines are replaced by machines with the other kubelet"),
    rule("template.shape", Roll, "a machine keeps the shape it was made with"),
    FieldRule {
        path: "template.shape.custom.cpu.topology.sockets",
        class: FieldClass::GrowsInPlace,
        why: "sockets are added while the machine runs if it can move to another host, up to four times as many; else, and to take them away, at its next start",
    },
    FieldRule {
        path: "template.shape.custom.memory.guest",
        class: FieldClass::GrowsInPlace,
        why: "memory is added while the machine runs if it can move to another host, up to four times as much; else, and to take it away, at its next start",
    },
    rule("template.preference", Roll, "a machine keeps the devices it was made with"),
    rule("template.image.os", Roll, "machines boot from another image"),
    rule("template.image.version", Roll, "machines boot from another image"),
    rule("template.image.source", Roll, "machines boot from another image"),
    rule("template.image.source.http.secret", InPlace, "it is used for the next import"),
    rule("template.image.source.http.certConfigMap", InPlace, "it is used for the next import"),
    rule("template.image.source.http.headers", InPlace, "they are used for the next import"),
    rule("template.image.source.http.headerSecrets", InPlace, "they are used for the next import"),
    rule("template.image.source.registry.secret", InPlace, "it is used for the next import"),
    rule("template.image.source.registry.pullMethod", InPlace, "it is used for the next import"),
    rule("template.image.virtualSize", InPlace, "it holds for the next golden volume"),
    rule("template.image.delivery", InPlace, "it holds for the next machine that is made"),
    rule("template.rootDisk", Roll, "the root disk is made when the machine is"),
    rule("template.dataDisks", InPlace, "disks are plugged and unplugged while the machine runs"),
    rule("template.nics", Roll, "interfaces are made when the machine is"),
    rule("template.placement", InPlace, "it holds for new machines and for the next move of old ones"),
    rule(
        "template.placement.zones",
        InPlace,
        "new machines are dealt out over all zones; those there are stay where they are",
    ),
    rule("template.placement.region", Roll, "machines are made anew in the other region"),
    rule("template.devices", Roll, "a machine keeps the devices it was made with"),
    rule("template.dns", Roll, "name resolution is fixed when the machine starts"),
    rule("template.eviction", InPlace, "it holds from the machine's next start"),
    rule("template.firmware", Roll, "the firmware belongs to what is installed on the disk"),
    rule("template.architecture", Roll, "machines boot from another image"),
    rule("template.userData", Roll, "user data is read at first boot only"),
    rule("template.sshKeys", Roll, "keys are read at first boot only"),
    rule("template.stopGraceSeconds", InPlace, "it holds from the machine's next start"),
    rule("template.ovirt", Roll, "the machine is made anew on the engine"),
];

/// What machines get from their cluster beside their template: part of what makes a revision.
pub(crate) static INHERITED_FIELDS: &[FieldRule] = &[
    rule("flavor", Roll, "a machine keeps the shape it was made with"),
    rule("networks", Roll, "interfaces are made when the machine is"),
    rule("engine", Roll, "disks and interfaces are made when the machine is"),
];

/// Whether CPUs and memory can be added to a machine while it runs.
pub fn grows_in_place(template: &MachineTemplate) -> bool {
    match &template.shape {
        Shape::Custom(compute) => compute.cpu.dedicated.is_none() && compute.memory.hugepages.is_none(),
        _ => false,
    }
}

/// The rule for a field: that of the longest path it lies below.
pub fn rule_for<'a>(rules: &[&'a [FieldRule]], path: &str) -> Option<&'a FieldRule> {
    let plain = without_item_names(path);
    let covers = |rule: &&FieldRule| {
        plain.strip_prefix(rule.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    rules.iter().flat_map(|rules| rules.iter()).filter(covers).max_by_key(|rule| rule.path.len())
}

/// `a.disks[x].size` as `a.disks.size`.
fn without_item_names(path: &str) -> String {
    let mut depth = 0_usize;
    let mut plain = String::with_capacity(path.len());
    for c in path.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain
}

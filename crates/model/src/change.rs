//! What a change of a cluster or pool does to running machines.
//!
//! Every field has a class, in [`CLUSTER_FIELDS`] or [`POOL_FIELDS`]; a test walks the types and fails
//! for a field without one. [`diff`] compares two estates and explains itself.

use serde_json::Value;

use crate::canonical::Revision;
use crate::cluster::Cluster;
use crate::machine::{MachineTemplate, Shape};
use crate::names::{ClusterName, PoolName};
use crate::pool::{Pool, UpdateStrategy};
use crate::{Estate, Subject};

/// What a change does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Applied to what runs.
    InPlace,
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

use Class::{InPlace, Reject, Roll};

/// What changing each field of a cluster does.
pub static CLUSTER_FIELDS: &[FieldRule] = &[
    rule("platform", Reject, "a cluster cannot move to another platform"),
    rule("platform.kubevirt.namespace", Reject, "a cluster cannot move to another namespace"),
    rule("platform.kubevirt.storage", Roll, "disks are made anew on the other storage"),
    rule("platform.kubevirt.credentials", InPlace, "the new credentials are used from now on"),
    rule("platform.ovirt.clusterId", Reject, "a cluster cannot move to other hosts of the engine"),
    rule("platform.ovirt.storageDomainId", Roll, "disks are made anew on the other storage domain"),
    rule("platform.ovirt.networkName", Roll, "interfaces are made when the machine is"),
    rule("platform.ovirt.vnicProfileId", Roll, "interfaces are made when the machine is"),
    rule("platform.ovirt.affinityGroups", InPlace, "groups are changed on the engine"),
    rule(
        "platform.ovirt.userManagedLoadBalancer",
        Reject,
        "the way to the API is fixed when the cluster is made",
    ),
    rule("version", Roll, "machines are replaced by machines with the other kubelet"),
    rule("baseDomain", Reject, "the domain is in every certificate of the cluster"),
    rule("network.plugin", Reject, "a running cluster cannot change its network plugin"),
    rule("network.pods", Reject, "pod addresses are fixed when the cluster is made"),
    rule("network.services", Reject, "Service addresses are fixed when the cluster is made"),
    rule("network.nodes", Reject, "node addresses are fixed when the cluster is made"),
    rule("network.attachPodNetwork", Roll, "interfaces are made when the machine is"),
    rule("network.podNetworkBinding", Roll, "interfaces are made when the machine is"),
    rule("network.machineNetworks", Roll, "interfaces are made when the machine is"),
    rule("network.apiVips", Reject, "the API's address is in every kubeconfig and certificate"),
    rule("network.ingressVips", Reject, "the ingress address is fixed when the cluster is made"),
    rule("network.publish", InPlace, "the API's Service is changed"),
    rule("network.allowedEgress", InPlace, "the isolation is changed"),
    rule("sshKeys", Roll, "keys are read at first boot only"),
    rule("flavors", Roll, "a machine keeps the shape it was made with"),
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
        why: "sockets are added while the machine runs, and taken away at its next start; pinned CPUs need a new machine",
    },
    FieldRule {
        path: "template.shape.custom.memory.guest",
        class: FieldClass::GrowsInPlace,
        why: "memory is added while the machine runs, and taken away at its next start; pinned CPUs and huge pages need a new machine",
    },
    rule("template.preference", Roll, "a machine keeps the devices it was made with"),
    rule("template.image.os", Roll, "machines boot from another image"),
    rule("template.image.version", Roll, "machines boot from another image"),
    rule("template.image.source", Roll, "machines boot from another image"),
    rule("template.image.virtualSize", InPlace, "it holds for the next golden volume"),
    rule("template.image.delivery", InPlace, "it holds for the next machine that is made"),
    rule("template.rootDisk", Roll, "the root disk is made when the machine is"),
    rule("template.dataDisks", InPlace, "disks are plugged and unplugged while the machine runs"),
    rule("template.nics", Roll, "interfaces are made when the machine is"),
    rule("template.placement", InPlace, "it holds for new machines and for the next move of old ones"),
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

/// Whether CPUs and memory can be added to a machine while it runs.
pub fn grows_in_place(template: &MachineTemplate) -> bool {
    match &template.shape {
        Shape::Custom(compute) => compute.cpu.dedicated.is_none() && compute.memory.hugepages.is_none(),
        _ => false,
    }
}

/// The rule for a field: that of the longest path it lies below.
pub fn rule_for<'a>(rules: &'a [FieldRule], path: &str) -> Option<&'a FieldRule> {
    let plain = without_item_names(path);
    let covers = |rule: &&FieldRule| {
        plain.strip_prefix(rule.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    rules.iter().filter(covers).max_by_key(|rule| rule.path.len())
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

/// Fields whose values are never shown.
const HIDDEN: &[&str] = &["template.userData.inline", "template.image.source.http.headers"];

/// A value of a field as people see it: what may hold secrets is hidden.
pub fn shown(path: &str, value: &Value) -> String {
    let mut value = value.clone();
    for hidden in HIDDEN {
        if path == *hidden || path.starts_with(&format!("{hidden}.")) {
            return "(hidden)".to_owned();
        }
        if let Some(below) = hidden.strip_prefix(path).and_then(|rest| rest.strip_prefix('.'))
            && let Some(secret) = value.pointer_mut(&format!("/{}", below.replace('.', "/")))
        {
            *secret = Value::String("(hidden)".to_owned());
        }
    }
    match value {
        Value::String(text) => text,
        other => crate::canonical::text(&other),
    }
}

/// One difference between two estates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What it is in.
    pub subject: Subject,
    /// The field of the spec.
    pub path: String,
    /// The value before; none where there was none.
    pub old: Option<String>,
    /// The value after; none where there is none.
    pub new: Option<String>,
    /// What it does.
    pub class: Class,
    /// Why, as a sentence.
    pub why: String,
}

/// What happens to a cluster or pool as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is new.
    Created,
    /// It is no longer there.
    Removed,
    /// It was there and is there.
    Kept,
}

/// What happens to one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterPlan {
    /// Its name.
    pub name: ClusterName,
    /// What happens to it as a whole.
    pub fate: Fate,
    /// What changes.
    pub changes: Vec<Change>,
}

/// What happens to one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPlan {
    /// Its cluster.
    pub cluster: ClusterName,
    /// Its name.
    pub name: PoolName,
    /// What happens to it as a whole.
    pub fate: Fate,
    /// How many machines it had and has.
    pub replicas: (u32, u32),
    /// What changes in the pool, and what changes in its cluster that rolls the pool.
    pub changes: Vec<Change>,
    /// How many machines are replaced.
    pub replaced: u32,
    /// The pool's machines would have to be replaced, but its update strategy leaves that to others.
    pub waits_for_delete: bool,
}

/// What happens between two estates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// What happens to clusters, by name.
    pub clusters: Vec<ClusterPlan>,
    /// What happens to pools, by cluster and name.
    pub pools: Vec<PoolPlan>,
}

impl Plan {
    /// All changes that cannot be made.
    pub fn refused(&self) -> impl Iterator<Item = &Change> {
        self.clusters
            .iter()
            .flat_map(|cluster| &cluster.changes)
            .chain(self.pools.iter().flat_map(|pool| &pool.changes))
            .filter(|change| change.class == Reject)
    }

    /// Whether nothing happens at all.
    pub fn is_empty(&self) -> bool {
        self.clusters.iter().all(|c| c.fate == Fate::Kept && c.changes.is_empty())
            && self.pools.iter().all(|p| p.fate == Fate::Kept && p.changes.is_empty())
    }
}

/// Compares two estates: what differs, and what each difference does.
pub fn diff(old: &Estate, new: &Estate) -> Plan {
    let clusters = pair_up(&old.clusters, &new.clusters, |cluster| cluster.name.clone());
    let pools = pair_up(&old.pools, &new.pools, |pool| (pool.spec.cluster.clone(), pool.name.clone()));
    let clusters: Vec<ClusterPlan> = clusters
        .into_iter()
        .map(|(name, old, new)| {
            let changes = match (old, new) {
                (Some(old), Some(new)) => cluster_changes(old, new),
                _ => Vec::new(),
            };
            ClusterPlan { name, fate: fate(old, new), changes }
        })
        .collect();
    let pools = pools
        .into_iter()
        .map(|((cluster, name), old_pool, new_pool)| {
            let of_cluster = clusters.iter().find(|plan| plan.name == cluster);
            pool_plan(cluster, name, (old, old_pool), (new, new_pool), of_cluster)
        })
        .collect();
    Plan { clusters, pools }
}

fn fate<T>(old: Option<&T>, new: Option<&T>) -> Fate {
    match (old, new) {
        (None, _) => Fate::Created,
        (_, None) => Fate::Removed,
        _ => Fate::Kept,
    }
}

/// Lays two lists side by side by key, in key order.
fn pair_up<'a, T, K: Ord>(
    old: &'a [T],
    new: &'a [T],
    key: impl Fn(&T) -> K,
) -> Vec<(K, Option<&'a T>, Option<&'a T>)> {
    let mut pairs = std::collections::BTreeMap::<K, (Option<&T>, Option<&T>)>::new();
    for item in old {
        pairs.entry(key(item)).or_default().0 = Some(item);
    }
    for item in new {
        pairs.entry(key(item)).or_default().1 = Some(item);
    }
    pairs.into_iter().map(|(key, (old, new))| (key, old, new)).collect()
}

fn cluster_changes(old: &Cluster, new: &Cluster) -> Vec<Change> {
    let subject = Subject::Cluster(new.name.clone());
    let mut changes = compare(&subject, CLUSTER_FIELDS, true, &old.spec, &new.spec);
    for change in changes.iter_mut().filter(|change| change.path == "version") {
        if new.spec.version < old.spec.version {
            change.class = Reject;
            "Kubernetes cannot go back to an older version".clone_into(&mut change.why);
        }
    }
    changes
}

fn pool_plan(
    cluster: ClusterName,
    name: PoolName,
    (old_estate, old): (&Estate, Option<&Pool>),
    (new_estate, new): (&Estate, Option<&Pool>),
    of_cluster: Option<&ClusterPlan>,
) -> PoolPlan {
    let replicas = (old.map_or(0, |pool| pool.spec.replicas), new.map_or(0, |pool| pool.spec.replicas));
    let mut plan = PoolPlan {
        cluster,
        name,
        fate: fate(old, new),
        replicas,
        changes: Vec::new(),
        replaced: 0,
        waits_for_delete: false,
    };
    let (Some(old), Some(new)) = (old, new) else { return plan };
    let subject = Subject::Pool(plan.cluster.clone(), plan.name.clone());
    let can_grow = grows_in_place(&old.spec.template) && grows_in_place(&new.spec.template);
    plan.changes = compare(&subject, POOL_FIELDS, can_grow, &old.spec, &new.spec);
    refuse_losing_data(&mut plan.changes, old, new);

    let revision =
        |estate: &Estate, pool: &Pool| estate.cluster(&pool.spec.cluster).map(|c| Revision::of(c, pool));
    if revision(old_estate, old) != revision(new_estate, new) {
        let rolls_all = of_cluster.into_iter().flat_map(|plan| &plan.changes).filter(|c| c.class == Roll);
        plan.changes.extend(rolls_all.cloned());
        plan.waits_for_delete = new.spec.update.strategy == UpdateStrategy::OnDelete;
        if !plan.waits_for_delete && plan.changes.iter().all(|change| change.class != Reject) {
            plan.replaced = old.spec.replicas.min(new.spec.replicas);
        }
    }
    plan
}

/// A data disk that changes its storage or shrinks would come back empty: that is never done silently.
fn refuse_losing_data(changes: &mut [Change], old: &Pool, new: &Pool) {
    for disk in &new.spec.template.data_disks {
        let Some(before) = old.spec.template.data_disks.iter().find(|d| d.name == disk.name) else {
            continue;
        };
        let path = format!("template.dataDisks[{}]", disk.name);
        for change in changes.iter_mut().filter(|change| change.path.starts_with(&path)) {
            if change.path.starts_with(&format!("{path}.storage")) || disk.size < before.size {
                change.class = Reject;
                "the disk would be made anew and its data lost; add a disk under another name instead"
                    .clone_into(&mut change.why);
            } else if change.path == format!("{path}.size") {
                "the volume is expanded".clone_into(&mut change.why);
            } else {
                "it holds from the machine's next start".clone_into(&mut change.why);
            }
        }
    }
}

fn compare(
    subject: &Subject,
    rules: &[FieldRule],
    can_grow: bool,
    old: &impl serde::Serialize,
    new: &impl serde::Serialize,
) -> Vec<Change> {
    let json = |spec: Result<Value, _>| spec.unwrap_or(Value::Null);
    let mut found = Vec::new();
    differences("", &json(serde_json::to_value(old)), &json(serde_json::to_value(new)), &mut found);
    let change = |Difference { path, old, new }: Difference| {
        let rule = rule_for(rules, &path);
        Change {
            subject: subject.clone(),
            old: old.map(|value| shown(&path, &value)),
            new: new.map(|value| shown(&path, &value)),
            // Every field has a rule (there is a test for it); what has none is treated most carefully.
            class: rule.map_or(Reject, |rule| rule.class.of(can_grow)),
            why: rule.map_or("", |rule| rule.why).to_owned(),
            path,
        }
    };
    found.into_iter().map(change).collect()
}

/// A place where two JSON values differ.
#[derive(Debug, PartialEq)]
pub struct Difference {
    /// The dotted path; items of named lists by name, `disks[a].size`.
    pub path: String,
    /// The value on the left, if there is one.
    pub old: Option<Value>,
    /// The value on the right, if there is one.
    pub new: Option<Value>,
}

/// Finds where two JSON values differ, as deep down as possible.
pub fn differences(path: &str, old: &Value, new: &Value, out: &mut Vec<Difference>) {
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let path = join(key);
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => differences(&path, a, b, out),
                    (a, b) => out.push(Difference { path, old: a.cloned(), new: b.cloned() }),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a != b => match (by_name(a), by_name(b)) {
            (Some(by_a), Some(by_b)) if !by_a.keys().eq(by_b.keys()) || a.len() == b.len() => {
                let names: std::collections::BTreeSet<&&str> = by_a.keys().chain(by_b.keys()).collect();
                let before = out.len();
                for name in names {
                    let path = format!("{path}[{name}]");
                    match (by_a.get(*name), by_b.get(*name)) {
                        (Some(a), Some(b)) => differences(&path, a, b, out),
                        (a, b) => out.push(Difference {
                            path,
                            old: a.map(|v| (*v).clone()),
                            new: b.map(|v| (*v).clone()),
                        }),
                    }
                }
                if out.len() == before {
                    // Same items in another order, which matters in these lists.
                    out.push(Difference {
                        path: path.to_owned(),
                        old: Some(old.clone()),
                        new: Some(new.clone()),
                    });
                }
            }
            _ => {
                out.push(Difference {
                    path: path.to_owned(),
                    old: Some(old.clone()),
                    new: Some(new.clone()),
                });
            }
        },
        (a, b) if a != b => {
            out.push(Difference { path: path.to_owned(), old: Some(a.clone()), new: Some(b.clone()) });
        }
        _ => {}
    }
}

/// A list of objects by their `name`, if all have one and no two the same.
fn by_name(list: &[Value]) -> Option<std::collections::BTreeMap<&str, &Value>> {
    let mut items = std::collections::BTreeMap::new();
    for item in list {
        if items.insert(item.get("name")?.as_str()?, item).is_some() {
            return None;
        }
    }
    (!items.is_empty()).then_some(items)
}

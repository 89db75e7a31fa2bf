//! What happens between two estates.

use serde::Serialize;
use serde_json::Value;

use super::differences::{Difference, differences, shown};
use super::rules::{
    CLUSTER_FIELDS, Class, FieldRule, INHERITED_FIELDS, POOL_FIELDS, grows_in_place, rule_for,
};
use crate::cluster::{Cluster, ClusterSpec, Platform};
use crate::names::{ClusterName, PoolName};
use crate::placement::Locality;
use crate::pool::{Pool, UpdateStrategy};
use crate::resolve::{MachineView, resolve};
use crate::version::KubernetesVersion;
use crate::{Estate, Subject};

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
    /// What changes for its machines, what they get from the cluster included.
    pub changes: Vec<Change>,
    /// How many machines are replaced.
    pub replaced: u32,
    /// Why machines that would have to be replaced are not.
    pub held_back: Option<HeldBack>,
}

/// Why machines of an old revision are left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBack {
    /// The pool's update strategy leaves it to whoever deletes machines.
    OnDelete,
    /// The pool's updates are paused.
    Paused,
    /// Another change of the pool or of its cluster is refused, so nothing is done at all.
    Refused,
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
            .filter(|change| change.class == Class::Reject)
    }

    /// Whether nothing happens at all.
    pub fn is_empty(&self) -> bool {
        self.clusters.iter().all(|c| c.fate == Fate::Kept && c.changes.is_empty())
            && self.pools.iter().all(|p| p.fate == Fate::Kept && p.changes.is_empty())
    }
}

/// Compares two estates: what differs, and what each difference does.
///
/// ```
/// use trellis_model::{Estate, change::diff};
///
/// assert!(diff(&Estate::default(), &Estate::default()).is_empty());
/// ```
pub fn diff(old: &Estate, new: &Estate) -> Plan {
    let clusters = pair_up(&old.clusters, &new.clusters, |cluster| cluster.name.clone());
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
    let pools = pair_up(&old.pools, &new.pools, |pool| (pool.spec.cluster.clone(), pool.name.clone()));
    let pools = pools
        .into_iter()
        .map(|((cluster, name), old_pool, new_pool)| {
            let of_cluster = clusters.iter().find(|plan| plan.name == cluster);
            let is_refused =
                of_cluster.is_some_and(|plan| plan.changes.iter().any(|c| c.class == Class::Reject));
            let mut plan = PoolPlan {
                fate: fate(old_pool, new_pool),
                replicas: (
                    old_pool.map_or(0, |pool| pool.spec.replicas),
                    new_pool.map_or(0, |pool| pool.spec.replicas),
                ),
                cluster,
                name,
                changes: Vec::new(),
                replaced: 0,
                held_back: None,
            };
            if let (Some(before), Some(after)) = (old_pool, new_pool) {
                plan.changes = pool_changes((old, before), (new, after));
                settle(&mut plan, after, is_refused);
            }
            plan
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
    let mut changes = compare(&subject, &[CLUSTER_FIELDS], true, &with_namespace(old), &with_namespace(new));
    for change in changes.iter_mut().filter(|change| change.path == "version") {
        if let Some(why) = refused_version(old.spec.version, new.spec.version) {
            change.class = Class::Reject;
            why.clone_into(&mut change.why);
        }
    }
    changes
}

/// The spec with its namespace written out: leaving it out means the same.
fn with_namespace(cluster: &Cluster) -> ClusterSpec {
    let mut spec = cluster.spec.clone();
    if let Platform::Kubevirt(kubevirt) = &mut spec.platform {
        kubevirt.namespace = cluster.infra_namespace().parse().ok();
    }
    spec
}

/// Why Kubernetes cannot go from one version to another, if it cannot.
fn refused_version(old: Option<KubernetesVersion>, new: Option<KubernetesVersion>) -> Option<&'static str> {
    let old = old?;
    let Some(new) = new else {
        return Some("a cluster that says its version cannot stop saying it");
    };
    if new < old {
        Some("Kubernetes cannot go back to an older version")
    } else if old.minors_behind(new) > 1 || old.major != new.major {
        Some("Kubernetes goes one minor version at a time")
    } else {
        None
    }
}

/// What changes for the machines of a pool: their template with everything filled in, and what they get
/// from the cluster beside it.
fn pool_changes((old_estate, old): (&Estate, &Pool), (new_estate, new): (&Estate, &Pool)) -> Vec<Change> {
    let subject = Subject::Pool(new.spec.cluster.clone(), new.name.clone());
    let view = |estate: &Estate, pool: &Pool| MachineView::of(estate.cluster(&pool.spec.cluster), pool);
    let (old_view, new_view) = (view(old_estate, old), view(new_estate, new));
    let can_grow = grows_in_place(&old.spec.template) && grows_in_place(&new.spec.template);
    let mut changes = compare(&subject, &[POOL_FIELDS], can_grow, &old_view.spec, &new_view.spec);
    changes.extend(compare(
        &subject,
        &[INHERITED_FIELDS],
        can_grow,
        &old_view.inherited,
        &new_view.inherited,
    ));
    guard_data(&mut changes, (old_estate, old), (new_estate, new));
    guard_zones(&mut changes, &old.spec.template.placement.zones, &new.spec.template.placement.zones);
    changes
}

/// Decides how many machines are replaced, or why none are.
fn settle(plan: &mut PoolPlan, new: &Pool, is_refused: bool) {
    if plan.changes.iter().all(|change| change.class != Class::Roll) {
        return;
    }
    let refused = is_refused || plan.changes.iter().any(|change| change.class == Class::Reject);
    plan.held_back = match &new.spec.update {
        _ if refused => Some(HeldBack::Refused),
        update if update.strategy == UpdateStrategy::OnDelete => Some(HeldBack::OnDelete),
        update if update.paused => Some(HeldBack::Paused),
        _ => None,
    };
    if plan.held_back.is_none() {
        plan.replaced = plan.replicas.0.min(plan.replicas.1);
    }
}

/// A data disk that changes its storage or shrinks would come back empty: that is never done silently.
fn guard_data(
    changes: &mut [Change],
    (old_estate, old): (&Estate, &Pool),
    (new_estate, new): (&Estate, &Pool),
) {
    let disks = |estate: &Estate, pool: &Pool| match estate.cluster(&pool.spec.cluster) {
        Some(cluster) => resolve(cluster, pool).template.data_disks,
        None => pool.spec.template.data_disks.clone(),
    };
    let (before, after) = (disks(old_estate, old), disks(new_estate, new));
    for change in changes.iter_mut().filter(|change| change.path.starts_with("template.dataDisks")) {
        let named = |name: &str| change.path.starts_with(&format!("template.dataDisks[{name}]"));
        let was = before.iter().find(|disk| named(disk.name.as_str()));
        let is = after.iter().find(|disk| named(disk.name.as_str()));
        let (class, why) = match (was, is) {
            (Some(was), Some(is)) if was.storage != is.storage && change.path.contains("].storage") => (
                Class::Reject,
                "the disk would be made anew and its data lost; add a disk under another name instead",
            ),
            (Some(was), Some(is)) if is.size < was.size && change.path.ends_with("].size") => {
                (Class::Reject, "a disk cannot shrink; add a smaller one under another name instead")
            }
            (Some(_), Some(_)) if change.path.ends_with("].size") => {
                (Class::InPlace, "the volume is expanded")
            }
            (Some(_), Some(_)) => (Class::InPlace, "it holds from the machine's next start"),
            (Some(_), None) => {
                (Class::InPlace, "the disk is unplugged, and its volume is deleted with all its data")
            }
            (None, Some(_)) => (Class::InPlace, "a blank disk is plugged into the running machines"),
            (None, None) => continue,
        };
        change.class = class;
        why.clone_into(&mut change.why);
    }
}

/// Machines cannot leave the zone their volumes are in.
fn guard_zones(changes: &mut [Change], old: &[Locality], new: &[Locality]) {
    if old.is_empty() || old.iter().all(|zone| new.contains(zone)) {
        return;
    }
    for change in changes.iter_mut().filter(|change| change.path.starts_with("template.placement.zones")) {
        change.class = Class::Reject;
        "machines and their volumes cannot leave a zone; make a pool in the other zones and remove this one"
            .clone_into(&mut change.why);
    }
}

fn compare(
    subject: &Subject,
    rules: &[&[FieldRule]],
    can_grow: bool,
    old: &impl Serialize,
    new: &impl Serialize,
) -> Vec<Change> {
    let json = |spec: Result<Value, _>| spec.unwrap_or(Value::Null);
    let mut found = Vec::new();
    differences("", &json(serde_json::to_value(old)), &json(serde_json::to_value(new)), &mut found);
    let mut fine = Vec::new();
    for difference in found {
        refine(difference, rules, can_grow, &mut fine);
    }
    let change = |Difference { path, old, new }: Difference| {
        let rule = rule_for(rules, &path);
        Change {
            subject: subject.clone(),
            old: old.map(|value| shown(&path, &value)),
            new: new.map(|value| shown(&path, &value)),
            // Every field has a rule (there is a test for it); what has none is treated most carefully.
            class: rule.map_or(Class::Reject, |rule| rule.class.of(can_grow)),
            why: rule.map_or("", |rule| rule.why).to_owned(),
            path,
        }
    };
    fine.into_iter().map(change).collect()
}

/// Splits a difference of a whole object into those of its fields, where these have classes of their own and
/// the object as a whole does not replace machines.
fn refine(difference: Difference, rules: &[&[FieldRule]], can_grow: bool, out: &mut Vec<Difference>) {
    let Difference { path, old, new } = &difference;
    let rolls = rule_for(rules, path).is_some_and(|rule| rule.class.of(can_grow) == Class::Roll);
    let has_finer =
        rules.iter().flat_map(|rules| rules.iter()).any(|rule| rule.path.starts_with(&format!("{path}.")));
    let fields =
        |value: &Option<Value>| value.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
    let (old_fields, new_fields) = (fields(old), fields(new));
    if rolls || !has_finer || (old_fields.is_empty() && new_fields.is_empty()) {
        return out.push(difference);
    }
    let names: std::collections::BTreeSet<&String> = old_fields.keys().chain(new_fields.keys()).collect();
    for name in names {
        let (old, new) = (old_fields.get(name).cloned(), new_fields.get(name).cloned());
        refine(Difference { path: format!("{path}.{name}"), old, new }, rules, can_grow, out);
    }
}

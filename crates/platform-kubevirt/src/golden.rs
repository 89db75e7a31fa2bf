//! Golden volumes: one import for each image and kind of storage, shared by pools, and collected when unused.
//!
//! An image that a pool has delivered to each machine apart (`delivery: PerMachine`), or that is a volume somebody
//! else keeps, has none.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use trellis_model::{Cluster, Pool};
use trellis_platform::{ImageState, VolumeState};

use crate::call::{Call, Propagation, Verb};
use crate::check::{is_ours, is_renderable};
use crate::machine::PoolOf;
use crate::object::Object;
use crate::observe::volume_state;
use crate::seen::{CloneStrategy, DataVolume, Seen as _, StorageProfile, VolumeSource};
use crate::{annotations, images};

/// The golden volume that a pool's machines are cloned from; none where each machine imports its image itself, or
/// clones a volume of somebody else.
pub fn golden_name(cluster: &Cluster, pool: &Pool) -> Option<String> {
    images::golden_name(cluster, &PoolOf::new(cluster, pool).resolved.template)
}

/// Where a golden volume is in its making.
pub fn image_state(seen: Option<&DataVolume>) -> ImageState {
    let Some(volume) = seen else { return ImageState::Missing };
    match volume_state(volume) {
        VolumeState::Ready => ImageState::Ready,
        VolumeState::Failed(why) => ImageState::Failed(why),
        VolumeState::Filling { progress, .. } => ImageState::Importing(progress),
        VolumeState::Waiting(_) => ImageState::Importing(None),
    }
}

/// How machines get their disks from a golden volume. CDI chooses; this says what it will choose.
pub fn clone_method(profile: Option<&StorageProfile>) -> &'static str {
    match profile.map(|profile| profile.clone_strategy) {
        None => "unknown: not allowed to look",
        Some(CloneStrategy::Copy) => "copy of every byte",
        Some(CloneStrategy::CsiClone) => "clone by the storage",
        // What CDI takes where nothing is said.
        Some(CloneStrategy::Snapshot | CloneStrategy::Unset) => "clone of a snapshot",
        Some(CloneStrategy::Other) => "unknown",
    }
}

/// A golden volume and who uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoldenUse {
    /// Its name.
    pub name: String,
    /// How many pools make machines from it.
    pub pools: usize,
    /// How many disks of machines were made from it.
    pub disks: usize,
    /// Where it is in its making.
    pub state: ImageState,
    /// Since when nobody uses it.
    pub unused_since: Option<Timestamp>,
}

/// What to do about the golden volumes of a cluster.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GoldenPlan {
    /// All there are and all there are to be, by name.
    pub uses: Vec<GoldenUse>,
    /// What to do.
    pub calls: Vec<Call>,
    /// When the next one can be collected.
    pub deadline: Option<Timestamp>,
}

/// Imports what pools need, and collects what nobody has used for as long as `grace`.
///
/// `volumes` are all volumes of the cluster, those of machines included: they tell what was made from what. Since
/// when a golden volume is unused is written on itself, so that a restart does not begin to count anew.
pub fn golden_plan(
    cluster: &Cluster,
    pools: &[&Pool],
    volumes: &[&DataVolume],
    now: Timestamp,
    grace: Duration,
) -> GoldenPlan {
    if !is_ours(cluster) {
        return GoldenPlan::default();
    }
    let pools: Vec<PoolOf<'_>> =
        pools.iter().map(|pool| PoolOf::new(cluster, pool)).filter(is_renderable).collect();
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for name in pools.iter().filter_map(|pool| images::golden_name(cluster, &pool.resolved.template)) {
        *wanted.entry(name).or_default() += 1;
    }
    let golden: BTreeMap<&str, &DataVolume> = volumes
        .iter()
        .filter(|volume| is_golden(cluster, volume))
        .map(|volume| (&*volume.meta.name, *volume))
        .collect();
    let mut plan = GoldenPlan::default();
    for volume in images::golden_volumes(cluster, &pools) {
        let name = volume.metadata.name.clone().unwrap_or_default();
        if !golden.contains_key(name.as_str()) {
            plan.uses.push(GoldenUse {
                pools: wanted.get(&name).copied().unwrap_or_default(),
                disks: clones(cluster, volumes, &name),
                state: ImageState::Missing,
                unused_since: None,
                name: name.clone(),
            });
            let body = Object::DataVolume(Box::new(volume)).to_json();
            let call = Call::new(Verb::Create, DataVolume::WATCHED, cluster.infra_namespace(), name);
            plan.calls.push(call.with(body));
        }
    }
    for (name, volume) in golden {
        let uses = GoldenUse {
            name: name.to_owned(),
            pools: wanted.get(name).copied().unwrap_or_default(),
            disks: clones(cluster, volumes, name),
            state: image_state(Some(volume)),
            unused_since: volume.unused_since,
        };
        if volume.meta.deleting.is_none() {
            plan.keep_or_collect(cluster, volume, &uses, now, grace);
        }
        plan.uses.push(uses);
    }
    plan.uses.sort_by(|a, b| a.name.cmp(&b.name));
    plan
}

impl GoldenPlan {
    fn keep_or_collect(
        &mut self,
        cluster: &Cluster,
        volume: &DataVolume,
        uses: &GoldenUse,
        now: Timestamp,
        grace: Duration,
    ) {
        let namespace = cluster.infra_namespace();
        let is_used = uses.pools > 0 || uses.disks > 0;
        let mark = |since: Option<Timestamp>| {
            let body = json!({ "metadata": {
                "uid": &*volume.meta.uid,
                "annotations": { annotations::UNUSED_SINCE: since.map(|since| since.to_string()) },
            } });
            Call::new(Verb::MergePatch, DataVolume::WATCHED, namespace, &*volume.meta.name).with(body)
        };
        // A time so far off that it cannot be counted to never comes.
        let ends = |since: Timestamp| since.checked_add(grace).ok();
        match volume.unused_since {
            Some(_) if is_used => self.calls.push(mark(None)),
            None if is_used => {}
            Some(since) if ends(since).is_some_and(|end| end <= now) => {
                let call = Call::delete(DataVolume::WATCHED, namespace, &volume.meta.name, &volume.meta.uid);
                self.calls.push(Call { propagation: Some(Propagation::Background), ..call });
            }
            Some(since) => self.deadline = self.deadline.into_iter().chain(ends(since)).min(),
            None => {
                self.calls.push(mark(Some(now)));
                self.deadline = self.deadline.into_iter().chain(ends(now)).min();
            }
        }
    }
}

/// Whether a volume is a golden one of this cluster: it holds an image and belongs to no machine.
fn is_golden(cluster: &Cluster, volume: &DataVolume) -> bool {
    volume.meta.cluster.as_deref() == Some(cluster.name.as_str())
        && volume.machine().is_none()
        && volume.source == VolumeSource::Image
}

/// How many volumes were made from one.
fn clones(cluster: &Cluster, volumes: &[&DataVolume], name: &str) -> usize {
    let from = |volume: &&&DataVolume| match &volume.source {
        VolumeSource::Clone(namespace, source) => {
            **source == *name && namespace.as_deref().is_none_or(|n| n == cluster.infra_namespace())
        }
        _ => false,
    };
    volumes.iter().filter(from).count()
}

//! Records from TenantClusters.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;
use trellis_runtime::{Cache, Change, Resource, Selection, Site};

use super::record::{Access, Record, Records};
use crate::families::{Family, Object};

/// TenantClusters as the server has them.
pub const CLUSTERS: Resource =
    Resource::namespaced("trellis.dev", "v1alpha1", "tenantclusters", "TenantCluster");

/// What counts whatever TenantClusters say.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The family of machine objects.
    pub family: Option<&'static Family>,
    /// How the VMs are reached.
    pub infra: Option<Access>,
    /// How the Nodes are reached.
    pub tenant: Option<Access>,
    /// The group of replicas this is one of: it serves what is reserved for that group, too.
    pub group: Option<String>,
}

/// The annotation of a TenantCluster that reserves it for one group of replicas: `trellis create cluster` and
/// `trellis destroy cluster` write it for as long as they do the work of a controller themselves.
pub const RESERVED: &str = "trellis.dev/reserved-for";

/// Records from the TenantClusters of a control site.
#[derive(Debug)]
pub struct Clusters {
    cache: Cache<Object>,
    overrides: Overrides,
}

impl Clusters {
    /// The TenantClusters that a selection picks.
    pub fn new(selection: Selection, overrides: Overrides) -> Self {
        Self { cache: Cache::new(CLUSTERS, selection), overrides }
    }

    /// Tells of records as long as it runs. Never ends.
    pub async fn run(&self, control: &Site, records: &watch::Sender<Option<Records>>) {
        tokio::select! {
            () = self.cache.run(control, 0) => {}
            () = self.tell(records) => {}
        }
    }

    async fn tell(&self, records: &watch::Sender<Option<Records>>) {
        let mut changes = self.cache.changes();
        self.cache.synced().await;
        let mut known = BTreeMap::new();
        loop {
            let mut any = records.borrow().is_none();
            while let Ok(change) = changes.try_recv() {
                any |= self.take_in(&change, &mut known);
            }
            if any {
                records.send_replace(Some(Arc::new(known.clone())));
            }
            let Some(change) = changes.recv().await else { return };
            if self.take_in(&change, &mut known) {
                records.send_replace(Some(Arc::new(known.clone())));
            }
        }
    }

    /// Takes in a change; whether it matters.
    fn take_in(&self, change: &Change<Object>, known: &mut BTreeMap<String, Arc<Record>>) -> bool {
        let name = |object: &Object| format!("{}/{}", object.metadata.namespace(), object.metadata.name());
        match (&change.old, &change.new) {
            (Some(old), Some(new)) if is_same(old, new) => false,
            (_, Some(new)) if self.is_others(new) => known.remove(&name(new)).is_some(),
            (_, Some(new)) => {
                let record = Record::of_cluster(new, &self.overrides);
                known.insert(record.name.clone(), Arc::new(record));
                true
            }
            (Some(old), None) => known.remove(&name(old)).is_some(),
            (None, None) => false,
        }
    }
}

impl Clusters {
    /// Whether it is reserved for a group that this is none of.
    fn is_others(&self, cluster: &Object) -> bool {
        let reserved = cluster.metadata.annotations.get(RESERVED);
        reserved.is_some_and(|group| self.overrides.group.as_deref() != Some(group))
    }
}

/// Whether all that is different is what was said of it.
fn is_same(old: &Object, new: &Object) -> bool {
    old.spec == new.spec
        && old.metadata.uid == new.metadata.uid
        && old.metadata.deleting.is_some() == new.metadata.deleting.is_some()
        && old.metadata.annotations == new.metadata.annotations
        && old.metadata.labels == new.metadata.labels
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(annotations: &Value, deleting: Option<&str>) -> Arc<Object> {
        let metadata = json!({
            "namespace": "n", "name": "blue", "uid": "u", "annotations": annotations, "deletionTimestamp": deleting,
        });
        let object = json!({"metadata": metadata, "spec": {"platform": {"kubevirt": {}}}});
        Arc::new(Object::from_json(object).unwrap())
    }

    #[test]
    fn what_is_reserved_for_others_is_no_record_until_it_is_free() {
        let of = |group: Option<&str>| {
            let overrides = Overrides { group: group.map(str::to_owned), ..Overrides::default() };
            Clusters::new(Selection::default(), overrides)
        };
        let (reserved, free) = (cluster(&json!({RESERVED: "mine"}), None), cluster(&json!({}), None));
        let changed = |clusters: &Clusters,
                       known: &mut BTreeMap<_, _>,
                       old: Option<&Arc<Object>>,
                       new: &Arc<Object>| {
            clusters.take_in(&Change { old: old.cloned(), new: Some(Arc::clone(new)) }, known)
        };
        for (group, is_mine) in [(None, false), (Some("theirs"), false), (Some("mine"), true)] {
            let (clusters, mut known) = (of(group), BTreeMap::new());
            assert_eq!(changed(&clusters, &mut known, None, &reserved), is_mine);
            assert_eq!(known.len(), usize::from(is_mine));
            assert!(changed(&clusters, &mut known, Some(&reserved), &free));
            assert_eq!(known.len(), 1);
            assert!(changed(&clusters, &mut known, Some(&free), &reserved));
            assert_eq!(known.len(), usize::from(is_mine), "others let it go");
        }
    }

    #[test]
    fn a_cluster_that_is_deleted_is_another_record() {
        let (clusters, mut known) =
            (Clusters::new(Selection::default(), Overrides::default()), BTreeMap::new());
        let there = cluster(&json!({}), None);
        let going = cluster(&json!({}), Some("2026-01-01T00:00:00Z"));
        clusters.take_in(&Change { old: None, new: Some(Arc::clone(&there)) }, &mut known);
        assert!(clusters.take_in(&Change { old: Some(there), new: Some(going) }, &mut known));
        assert!(known["n/blue"].about.as_ref().unwrap().deleting);
    }
}

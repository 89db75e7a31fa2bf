//! The tenant site: Nodes, and while one is drained its pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use trellis_runtime::client::{self, Delete, Evicted};
use trellis_runtime::{Cache, Index, Key, Resource, Selection, Site};

use super::cached::Cached;
use super::nodes::{CORDONED_FOR, Node, Pod, VmName};
use super::work::Watches;
use crate::machines::{OwnedNodeMeta, PodSeen, Refusal};

pub(crate) const NODE: Resource = Resource::cluster("", "v1", "nodes", "Node");
const POD: Resource = Resource::namespaced("", "v1", "pods", "Pod");

/// The tenant site of one tenant.
pub(crate) struct Guests {
    pub(crate) site: Site,
    pub(crate) nodes: Cache<Cached<Node>>,
    /// Nodes by what their firmware calls their machine.
    by_system: Index<Cached<Node>, String>,
    drains: Mutex<BTreeMap<String, Drain>>,
}

/// A Node that is drained.
struct Drain {
    pods: Cache<Cached<Pod>>,
    refusals: BTreeMap<String, Refusal>,
    watch: AbortHandle,
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Guests {
    /// The tenant site.
    pub(crate) fn new(site: Site) -> Self {
        Self::some(site, Selection::default())
    }

    fn some(site: Site, selection: Selection) -> Self {
        let nodes = Cache::new(NODE, selection);
        let system = |node: &Cached<Node>| node.seen.system_uuid.clone();
        let by_system =
            nodes.index(move |node| Some(system(node)).filter(|uuid| !uuid.is_empty()).into_iter().collect());
        Self { site, nodes, by_system, drains: Mutex::default() }
    }

    /// The tenant site, of which only one Node is looked at.
    pub(crate) fn of_node(site: Site, node: &str) -> Self {
        Self::some(site, Selection::default().fields(&format!("metadata.name={node}")))
    }

    /// A Node by its name.
    pub(crate) fn node(&self, name: &str) -> Option<Arc<Cached<Node>>> {
        self.nodes.get(&Key::new("", name))
    }

    /// The Node whose system has this identifier, whatever it is called.
    pub(crate) fn node_of_system(&self, uuid: &str) -> Option<Arc<Cached<Node>>> {
        self.by_system.get(&uuid.to_lowercase()).into_iter().next()
    }

    /// Begins to look at the pods of a Node; `told` is called whenever there is news.
    pub(crate) fn attend(
        &self,
        node: &str,
        watches: &Watches,
        told: impl Fn() + Send + Sync + Clone + 'static,
    ) {
        self.attend_some(node, "", watches, told);
    }

    /// The same for those pods of a Node whose labels fit.
    pub(crate) fn attend_some(
        &self,
        node: &str,
        labels: &str,
        watches: &Watches,
        told: impl Fn() + Send + Sync + Clone + 'static,
    ) {
        self.drains.lock().entry(node.to_owned()).or_insert_with(|| {
            let selection = Selection::default().fields(&format!("spec.nodeName={node}")).labels(labels);
            let pods: Cache<Cached<Pod>> = Cache::new(POD, selection);
            let (cache, site, first) = (pods.clone(), self.site.clone(), told.clone());
            pods.listen(move |_| told());
            let synced = pods.clone();
            let watch = watches.spawn(async move {
                tokio::select! {
                    () = cache.run(&site, 0) => {}
                    () = async {
                        synced.synced().await;
                        first();
                        std::future::pending::<()>().await;
                    } => {}
                }
            });
            Drain { pods, refusals: BTreeMap::new(), watch }
        });
    }

    /// Looks at a Node's pods no longer.
    pub(crate) fn leave(&self, node: &str) {
        self.drains.lock().remove(node);
    }

    /// The pods of a Node, once all are known.
    pub(crate) fn pods(&self, node: &str) -> Option<Vec<PodSeen>> {
        let drains = self.drains.lock();
        let drain = drains.get(node)?;
        if !drain.pods.is_synced() {
            return None;
        }
        let told = |pod: &Arc<Cached<Pod>>| {
            let mut seen = pod.0.clone();
            seen.refused = drain.refusals.get(&seen.uid).cloned();
            seen
        };
        Some(drain.pods.all().iter().map(told).collect())
    }

    /// Asks for the eviction of a pod, and remembers a refusal.
    pub(crate) async fn evict(&self, node: &str, key: &Key, uid: &str, now: Timestamp) -> client::Result<()> {
        let evicted = self.site.evict(key, uid, None).await.or_else(refused)?;
        let mut drains = self.drains.lock();
        let Some(drain) = drains.get_mut(node) else { return Ok(()) };
        match evicted {
            Evicted::Accepted => drop(drain.refusals.remove(uid)),
            Evicted::Gone => drain.pods.removed(key, uid),
            Evicted::Refused { reason, .. } => {
                let times = drain.refusals.get(uid).map_or(0, |refusal| refusal.times).saturating_add(1);
                drain.refusals.insert(uid.to_owned(), Refusal { why: reason, at: now, times });
            }
        }
        Ok(())
    }

    /// Deletes a pod.
    pub(crate) async fn delete_pod(
        &self,
        node: &str,
        key: &Key,
        uid: &str,
        force: bool,
    ) -> client::Result<()> {
        let how = Delete { grace: force.then_some(0), ..Delete::uid(uid) };
        let deleted = self.site.delete(&POD, key, &how).await?;
        if !matches!(deleted, client::Deleted::Going(_))
            && let Some(drain) = self.drains.lock().get(node)
        {
            drain.pods.removed(key, uid);
        }
        Ok(())
    }

    /// Makes a Node refuse pods, for a VM that is to go or because people want it, or take them again.
    pub(crate) async fn cordon(
        &self,
        name: &str,
        uid: &str,
        cordoned: bool,
        vm_uid: Option<&str>,
    ) -> client::Result<()> {
        let patch = serde_json::json!({
            "metadata": {"uid": uid, "annotations": {CORDONED_FOR: vm_uid}},
            "spec": {"unschedulable": cordoned.then_some(true)},
        });
        self.patch(name, &patch).await
    }

    /// Links a Node to its machine.
    pub(crate) async fn link(
        &self,
        name: &str,
        provider_id: Option<&str>,
        vm: VmName<'_>,
        wish: &OwnedNodeMeta,
        before: &OwnedNodeMeta,
    ) -> client::Result<()> {
        let Some(node) = self.node(name) else { return Ok(()) };
        let patch = node.link(&node.version(), provider_id, vm, wish, before);
        self.patch(name, &patch).await
    }

    /// Removes a Node.
    pub(crate) async fn delete_node(&self, name: &str, uid: &str) -> client::Result<()> {
        let key = Key::new("", name);
        if !matches!(self.site.delete(&NODE, &key, &Delete::uid(uid)).await?, client::Deleted::Going(_)) {
            self.nodes.removed(&key, uid);
        }
        Ok(())
    }

    async fn patch(&self, name: &str, patch: &serde_json::Value) -> client::Result<()> {
        let written = self.site.merge_patch(&NODE, &Key::new("", name), patch).await?;
        self.nodes.written(written);
        Ok(())
    }
}

/// What it means that an eviction failed. Whoever refuses one pod, or fails over it (more than one budget is about it, a
/// webhook is down), says nothing about the others: it has a pause of its own.
fn refused(error: client::Error) -> client::Result<Evicted> {
    match error {
        client::Error::Forbidden(_)
        | client::Error::Quota(_)
        | client::Error::Invalid(_)
        | client::Error::Conflict(_)
        | client::Error::ServerFailed(_)
        | client::Error::Other { .. } => {
            Ok(Evicted::Refused { reason: error.to_string(), retry_after: None })
        }
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_fails_over_one_pod_holds_up_no_other() {
        let budgets = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        let failed = client::Error::ServerFailed(budgets.to_owned());
        assert!(matches!(refused(failed), Ok(Evicted::Refused { reason, .. }) if reason.contains(budgets)));
        for error in [client::Error::Unavailable("no route".to_owned()), client::Error::Timeout] {
            assert_eq!(refused(error.clone()), Err(error), "nobody has answered");
        }
    }
}

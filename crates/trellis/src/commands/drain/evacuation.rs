//! The VMs of a host that is emptied, and how far each is.

use serde_json::Value;
use tokio::task::JoinSet;
use trellis_engine::families::Object;
use trellis_runtime::client::Verb;
use trellis_runtime::{Cache, Resource, Selection};

use crate::exit::Failure;
use crate::live::Connected;
use crate::live::connect::Asked;
use crate::live::table::{Cell, Style, Table};

const INSTANCES: Resource =
    Resource::namespaced("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance");

/// The VMs that were on a host when it was looked at first, watched.
pub(super) struct Evacuation {
    host: String,
    /// Namespace and name of those that were there.
    began: Vec<trellis_runtime::Key>,
    instances: Cache<Object>,
    _watch: JoinSet<()>,
}

impl Evacuation {
    /// Begins to watch the VMs of a host.
    pub(super) async fn watch(connected: &Connected, host: &str) -> Result<Self, Failure> {
        connected.require(Asked::new(Verb::Watch, &INSTANCES, "", "")).await?;
        let listed = connected.site.list::<Object>(&INSTANCES, &Selection::default()).await;
        listed.map_err(|error| connected.explain(error, Asked::new(Verb::List, &INSTANCES, "", "")))?;
        let instances = Cache::<Object>::new(INSTANCES, Selection::default());
        let (feed, site) = (instances.clone(), connected.site.clone());
        let mut watch = JoinSet::new();
        watch.spawn(async move { feed.run(&site, 0).await });
        instances.synced().await;
        let there = instances.filter(|instance| on(instance, host));
        let began = there.iter().map(|instance| instance.metadata.key.clone()).collect();
        Ok(Self { host: host.to_owned(), began, instances, _watch: watch })
    }

    /// Each VM and how far it is.
    pub(super) fn table(&self) -> Table {
        let rows = self
            .began
            .iter()
            .map(|key| {
                let instance = self.instances.get(key);
                let (state, style) = state(&self.host, instance.as_deref());
                vec![format!("  {}/{}", key.namespace(), key.name()).into(), Cell::styled(state, style)]
            })
            .collect();
        Table { titles: vec!["  VM", "WHY"], rows }
    }
}

fn on(instance: &Object, host: &str) -> bool {
    instance.status_json().get("nodeName").and_then(Value::as_str) == Some(host)
}

/// How far a VM is on its way from a host.
fn state(host: &str, instance: Option<&Object>) -> (String, Style) {
    let Some(instance) = instance else { return ("gone from the host".to_owned(), Style::Good) };
    let status = Value::Object(instance.status_json());
    let text = |path: &str| status.pointer(path).and_then(Value::as_str).unwrap_or_default();
    if text("/nodeName") != host {
        return (format!("moved to {}", text("/nodeName")), Style::Good);
    }
    if instance.metadata.deleting.is_some() {
        return ("shutting down; its machine is replaced".to_owned(), Style::Busy);
    }
    let migration = status.pointer("/migrationState");
    let ended = !text("/migrationState/endTimestamp").is_empty();
    if let Some(migration) = migration.filter(|_| !ended) {
        let target = migration.get("targetNode").and_then(Value::as_str).unwrap_or("another host");
        return (format!("moving to {target}"), Style::Busy);
    }
    if migration.is_some_and(|migration| migration["failed"] == true) {
        let why = text("/migrationState/failureReason");
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        return (format!("a move failed{why}; it is tried again"), Style::Bad);
    }
    if text("/evacuationNodeName") == host {
        return ("asked to leave".to_owned(), Style::Busy);
    }
    ("running here".to_owned(), Style::Plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_way_of_a_vm_is_told() {
        let said = |status: Value| {
            let object = Object::from_json(json!({"metadata": {"name": "vm"}, "status": status})).unwrap();
            state("h1", Some(&object)).0
        };
        assert_eq!(said(json!({"nodeName": "h1"})), "running here");
        assert_eq!(said(json!({"nodeName": "h1", "evacuationNodeName": "h1"})), "asked to leave");
        let moving =
            json!({"nodeName": "h1", "evacuationNodeName": "h1", "migrationState": {"targetNode": "h2"}});
        assert_eq!(said(moving), "moving to h2");
        let failed = json!({"nodeName": "h1", "migrationState": {"failed": true, "endTimestamp": "x", "failureReason": "slow"}});
        assert_eq!(said(failed), "a move failed: slow; it is tried again");
        let moved = json!({"nodeName": "h2", "migrationState": {"endTimestamp": "x", "completed": true}});
        assert_eq!(said(moved), "moved to h2");
        assert_eq!(state("h1", None).0, "gone from the host");
    }
}

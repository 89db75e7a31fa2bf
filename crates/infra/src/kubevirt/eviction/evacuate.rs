//! Emptying a host: migrations for what has to leave it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{DRAIN_TAINT, migrates};
use crate::client::{Client, Identity};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::events::Recorder;
use crate::kinds::{MIGRATION, NODE, POD, VMI};
use crate::kubevirt::migration::{EVACUATION_ANNOTATION, PER_CLUSTER, PER_NODE, is_final, is_running};
use crate::kubevirt::names::COMPONENT_LABEL;
use crate::object::{Condition, Key, Object as _, drop_condition};

/// How long to wait for room.
const NO_ROOM: Duration = Duration::from_secs(5);
/// How often those that cannot leave are told of again.
const REMIND: Duration = Duration::from_mins(1);

/// What is to be done for a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Plan {
    /// Instances to migrate now.
    migrate: Vec<Key>,
    /// Instances that cannot be migrated.
    stuck: Vec<Key>,
    /// Whether there is more to do than there is room for.
    later: bool,
}

/// Whether a host is to be emptied of everything.
fn is_draining(node: &Value) -> bool {
    let is_drain = |taint: &Value| taint["key"] == DRAIN_TAINT && taint["effect"] == "NoSchedule";
    node.list("/spec/taints").iter().any(is_drain)
}

/// Decides who leaves a host. `pods` says how many pods of an instance are not over.
fn plan(
    node: &Value,
    instances: &[Arc<Value>],
    migrations: &[Arc<Value>],
    pods: impl Fn(&Value) -> usize,
) -> Plan {
    let everybody = is_draining(node);
    let open: Vec<&Arc<Value>> = migrations.iter().filter(|migration| !is_final(migration)).collect();
    let of = |migration: &Value, vmi: &Value| {
        migration.namespace() == vmi.namespace() && migration.text("/spec/vmiName") == vmi.name()
    };
    let (mut able, mut stuck) = (Vec::new(), Vec::new());
    for vmi in instances {
        let marked = vmi.text("/status/evacuationNodeName") == node.name();
        let over = vmi.is_over() || vmi.is_deleting();
        if over || !(everybody || marked) || !migrates(vmi) {
            continue;
        }
        if !vmi.condition_holds("LiveMigratable") {
            stuck.push(Key::of(vmi));
        } else if !open.iter().any(|migration| of(migration, vmi)) && pods(vmi) <= 1 {
            able.push(Key::of(vmi));
        }
    }
    let running = open.iter().filter(|migration| is_running(migration)).count();
    let leaving = open
        .iter()
        .filter(|migration| is_running(migration) && instances.iter().any(|vmi| of(migration, vmi)))
        .count();
    let room = PER_CLUSTER.saturating_sub(running).min(PER_NODE.saturating_sub(leaving));
    let later = able.len() > room;
    able.truncate(room);
    stuck.truncate(room - able.len());
    Plan { migrate: able, stuck, later }
}

/// What an instance says about being asked to leave; nothing where it says so already.
fn asked_to_leave(vmi: &Value, now: &str) -> Option<Value> {
    let mut new = vmi.clone();
    let changed = if vmi.text("/status/evacuationNodeName").is_empty() {
        drop_condition(&mut new, "EvictionRequested")
    } else {
        let message = "VMI eviction was requested";
        Condition::new("EvictionRequested", true, "EvictionRequested", message).put(&mut new, now)
    };
    changed.then_some(new)
}

/// Empties hosts.
#[derive(Debug)]
pub(super) struct Evacuate {
    context: Context,
    client: Client,
    recorder: Recorder,
}

impl Evacuate {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            client: context.client(Identity::VIRT_CONTROLLER),
            recorder: context.recorder(Identity::VIRT_CONTROLLER),
        }
    }

    /// How many pods of an instance are not over.
    fn pods(&self, vmi: &Value) -> usize {
        let pods = self.client.cache(&POD).controlled_by(vmi.uid());
        let lives = |pod: &&Arc<Value>| pod.label(COMPONENT_LABEL) == "virt-launcher" && !pod.is_over();
        pods.iter().filter(lives).count()
    }
}

impl Controller for Evacuate {
    const NAME: &'static str = "evacuation";

    fn watches(&self) -> Vec<Watch> {
        let instances = self.client.cache(&VMI);
        let node_of = move |key: &Key| -> Vec<Key> {
            let vmi = instances.get(key);
            let node = vmi.map(|vmi| vmi.text("/status/nodeName").to_owned()).unwrap_or_default();
            if node.is_empty() { Vec::new() } else { vec![Key::cluster(&node)] }
        };
        let of_migration = node_of.clone();
        vec![
            Watch::each(&self.client.cache(&NODE)),
            Watch::mapped(&self.client.cache(&VMI), |change| {
                let node = change.object().text("/status/nodeName");
                if node.is_empty() { Vec::new() } else { vec![Key::cluster(node)] }
            }),
            Watch::mapped(&self.client.cache(&MIGRATION), move |change| {
                let migration = change.object();
                of_migration(&Key::new(migration.namespace(), migration.text("/spec/vmiName")))
            }),
            Watch::mapped(&self.client.cache(&POD), move |change| {
                let pod = change.object();
                match pod.annotation(crate::kubevirt::names::DOMAIN_ANNOTATION) {
                    "" => Vec::new(),
                    name => node_of(&Key::new(pod.namespace(), name)),
                }
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(node) = self.client.cache(&NODE).get(key) else { return Ok(Next::Done) };
        let instances = self.client.cache(&VMI).find("node", node.name());
        if instances.is_empty() {
            return Ok(Next::Done);
        }
        for vmi in &instances {
            if let Some(new) = asked_to_leave(vmi, &self.context.clock.seconds()) {
                self.client.replace(&VMI, &new).await?;
            }
        }
        let migrations = self.client.cache(&MIGRATION).list("");
        let plan = plan(&node, &instances, &migrations, |vmi| self.pods(vmi));
        for key in &plan.stuck {
            if let Some(vmi) = self.client.cache(&VMI).get(key) {
                let reason = "FailedCreateVirtualMachineInstanceMigration";
                self.recorder.normal(&VMI, &vmi, reason, "VirtualMachineInstance is not migrateable").await;
            }
        }
        for key in &plan.migrate {
            let Some(vmi) = self.client.cache(&VMI).get(key) else { continue };
            let migration = json!({
                "metadata": {
                    "namespace": key.namespace, "generateName": "kubevirt-evacuation-",
                    "annotations": {EVACUATION_ANNOTATION: node.name()},
                },
                "spec": {"vmiName": key.name},
            });
            match self.client.create(&MIGRATION, migration).await {
                Ok(migration) => {
                    let message = format!("Created Migration {}", migration.name());
                    let reason = "SuccessfulCreateVirtualMachineInstanceMigration";
                    self.recorder.normal(&VMI, &vmi, reason, &message).await;
                }
                Err(failure) => {
                    let message = format!("Error creating a Migration: {failure}");
                    let reason = "FailedCreateVirtualMachineInstanceMigration";
                    self.recorder.warning(&VMI, &vmi, reason, &message).await;
                    return Err(failure);
                }
            }
        }
        Ok(if plan.later {
            Next::After(NO_ROOM)
        } else if plan.stuck.is_empty() {
            Next::Done
        } else {
            Next::After(REMIND)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vmi(name: &str, strategy: &str, migratable: bool, marked: bool) -> Arc<Value> {
        let status = if migratable { "True" } else { "False" };
        Arc::new(json!({
            "metadata": {"namespace": "n", "name": name}, "spec": {"evictionStrategy": strategy},
            "status": {
                "phase": "Running", "nodeName": "a", "evacuationNodeName": if marked { "a" } else { "" },
                "conditions": [{"type": "LiveMigratable", "status": status}],
            },
        }))
    }

    fn migration(name: &str, phase: &str) -> Arc<Value> {
        Arc::new(
            json!({"metadata": {"namespace": "n"}, "spec": {"vmiName": name}, "status": {"phase": phase}}),
        )
    }

    fn node(draining: bool) -> Value {
        let taints = if draining { json!([{"key": DRAIN_TAINT, "effect": "NoSchedule"}]) } else { json!([]) };
        json!({"metadata": {"name": "a"}, "spec": {"taints": taints}})
    }

    fn names(keys: &[Key]) -> Vec<&str> {
        keys.iter().map(|key| key.name.as_str()).collect()
    }

    #[test]
    fn those_marked_leave_and_all_leave_a_draining_host() {
        let all = [
            vmi("marked", "LiveMigrate", true, true),
            vmi("other", "LiveMigrate", true, false),
            vmi("external", "External", true, true),
            vmi("none", "", true, true),
        ];
        assert_eq!(names(&plan(&node(false), &all, &[], |_| 1).migrate), ["marked"]);
        assert_eq!(names(&plan(&node(true), &all, &[], |_| 1).migrate), ["marked", "other"]);
        assert!(plan(&node(true), &all, &[], |_| 2).migrate.is_empty());
    }

    #[test]
    fn no_more_leave_at_once_than_there_is_room_for() {
        let all: Vec<_> =
            ["1", "2", "3", "4"].iter().map(|name| vmi(name, "LiveMigrate", true, true)).collect();
        let first = plan(&node(false), &all, &[], |_| 1);
        assert_eq!((names(&first.migrate), first.later), (vec!["1", "2"], true));
        let one = [migration("1", "Running")];
        assert_eq!(names(&plan(&node(false), &all, &one, |_| 1).migrate), ["2"]);
        let many: Vec<_> = (0..5).map(|number| migration(&format!("x{number}"), "Running")).collect();
        assert!(plan(&node(false), &all, &many, |_| 1).migrate.is_empty());
    }

    #[test]
    fn those_that_cannot_leave_are_told_of() {
        let all =
            [vmi("stuck", "LiveMigrate", false, true), vmi("free", "LiveMigrateIfPossible", false, true)];
        let plan = plan(&node(false), &all, &[], |_| 1);
        assert_eq!((names(&plan.stuck), names(&plan.migrate)), (vec!["stuck"], vec![]));
    }

    #[test]
    fn being_asked_to_leave_is_a_condition() {
        let marked = vmi("m", "External", false, true);
        let said = asked_to_leave(&marked, "now").unwrap();
        assert!(said.condition_holds("EvictionRequested"));
        assert_eq!(asked_to_leave(&said, "later"), None);
        let mut calm = said;
        calm.unset("/status/evacuationNodeName");
        assert!(asked_to_leave(&calm, "later").is_some());
    }
}

//! virt-controller's part for instances that have to move before a change reaches their guest.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::instance::{is_migrating, phase};
use crate::client::{Cache, Client, Identity};
use crate::clock::Clock;
use crate::context::{Context, Tasks};
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{MIGRATION, VMI};
use crate::object::{Key, Object as _};

/// The conditions that ask for a migration.
const ASKING: &[&str] = &["HotVCPUChange", "HotMemoryChange", "MigrationRequired"];

/// Starts the controller.
pub fn start(context: &Context, tasks: &mut Tasks) {
    let client = context.client(Identity::VIRT_CONTROLLER);
    let (vmis, migrations) = (client.cache(&VMI), client.cache(&MIGRATION));
    tasks.control(Updates { client, vmis, migrations, clock: context.clock });
}

struct Updates {
    client: Client,
    vmis: Arc<Cache>,
    migrations: Arc<Cache>,
    clock: Clock,
}

/// How long the host an instance came to has for telling what it has there.
const SETTLING: SignedDuration = SignedDuration::from_secs(5);

/// How long to wait until it is certain that the last migration did not bring what is asked for.
fn settles(vmi: &Value, now: Timestamp) -> Option<Duration> {
    let ended: Timestamp = vmi.text("/status/migrationState/endTimestamp").parse().ok()?;
    let left = SETTLING.checked_sub(now.duration_since(ended))?;
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

/// Whether an instance is to be moved for a change to reach its guest.
fn is_to_move(vmi: &Value) -> bool {
    phase(vmi) == "Running"
        && !vmi.is_deleting()
        && !is_migrating(vmi)
        && vmi.condition_holds("LiveMigratable")
        && ASKING.iter().any(|kind| vmi.condition_holds(kind))
}

impl Controller for Updates {
    const NAME: &'static str = "workload-update";

    fn watches(&self) -> Vec<Watch> {
        let asking = |vmi: &Arc<Value>| ASKING.iter().any(|kind| vmi.condition_holds(kind));
        vec![
            Watch::mapped(&self.vmis, move |change| {
                change.after.as_ref().filter(|vmi| asking(vmi)).map(|vmi| Key::of(vmi)).into_iter().collect()
            }),
            Watch::mapped(&self.migrations, |change| {
                let migration = change.object();
                vec![Key::new(migration.namespace(), migration.text("/spec/vmiName"))]
            }),
        ]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(vmi) = self.vmis.get(key).filter(|vmi| is_to_move(vmi)) else { return Ok(Next::Done) };
        let busy = self.migrations.find("vmi", &key.to_string()).iter().any(|migration| !migration.is_over());
        if busy {
            return Ok(Next::Done);
        }
        if let Some(wait) = settles(&vmi, self.clock.now()) {
            return Ok(Next::After(wait));
        }
        let migration = json!({
            "metadata": {
                "generateName": "kubevirt-workload-update-", "namespace": vmi.namespace(),
                "annotations": {"kubevirt.io/workloadUpdateMigration": ""},
            },
            "spec": {"vmiName": vmi.name()},
        });
        self.client.create(&MIGRATION, migration).await?;
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_just_come_is_not_moved_again_at_once() {
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        let ended = |at: &str| json!({"status": {"migrationState": {"endTimestamp": at}}});
        assert_eq!(settles(&ended("2026-01-01T00:00:09Z"), now), Some(Duration::from_secs(4)));
        assert_eq!(settles(&ended("2026-01-01T00:00:05Z"), now), None);
        assert_eq!(settles(&json!({}), now), None);
    }

    #[test]
    fn only_what_runs_and_can_move_is_moved() {
        let mut vmi = json!({"status": {"phase": "Running", "conditions": [
            {"type": "LiveMigratable", "status": "True"}, {"type": "HotVCPUChange", "status": "True"},
        ]}});
        assert!(is_to_move(&vmi));
        vmi.set("/status/migrationState", json!({"sourceNode": "a"}));
        assert!(!is_to_move(&vmi));
        vmi.set("/status/migrationState/completed", true.into());
        assert!(is_to_move(&vmi));
        vmi.set("/status/conditions/0/status", "False".into());
        assert!(!is_to_move(&vmi));
    }
}

//! Live migrations: a machine goes on at another host.
//!
//! virt-controller finds room and makes a pod at the target; virt-handler on both hosts prepares, copies and switches.
//! They tell each other by the instance's `status.migrationState`; the migration object shows how far they are.

mod control;
mod decide;
mod handle;
mod pods;
mod policy;

use serde_json::Value;

use crate::context::{Context, Tasks};
use crate::object::Object as _;

/// Holds a migration until it is over.
pub const FINALIZER: &str = "kubevirt.io/migrationJobFinalize";
/// The migration a target pod was made for, by name.
pub const NAME_ANNOTATION: &str = "kubevirt.io/migrationJobName";
/// The host an instance is about to go to.
pub const TARGET_LABEL: &str = "kubevirt.io/migrationTargetNodeName";
/// A migration that was made to empty a host.
pub const EVACUATION_ANNOTATION: &str = "kubevirt.io/evacuationMigration";

/// How many migrations run at once in a cluster.
pub const PER_CLUSTER: usize = 5;
/// How many migrations leave a host at once.
pub const PER_NODE: usize = 2;

/// Starts the controllers.
pub fn start(context: &Context, tasks: &mut Tasks) {
    tasks.control(control::Control::new(context));
    tasks.control(handle::Handle::new(context));
}

/// Whether a migration is over.
pub fn is_final(migration: &Value) -> bool {
    migration.is_over()
}

/// Whether a migration has more than a place in the queue.
pub fn is_running(migration: &Value) -> bool {
    !matches!(migration.text("/status/phase"), "" | "Pending" | "Succeeded" | "Failed")
}

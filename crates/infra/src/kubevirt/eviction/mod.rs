//! Emptying hosts: evictions of launcher pods become migrations, or wait for somebody else to act.

mod admit;
mod evacuate;

use serde_json::Value;

use crate::context::{Context, Tasks};
use crate::object::Object as _;
use crate::service::admission::{Hook, Rule};

/// A host with this taint is to be emptied.
pub const DRAIN_TAINT: &str = "kubevirt.io/drain";

/// The webhook that is asked about evictions.
pub const HOOKS: &[Hook] = &[Hook {
    path: "/launcher-eviction-validate",
    configuration: "virt-api-validator",
    name: "virt-launcher-eviction-interceptor.kubevirt.io",
    mutating: false,
    rules: &[Rule { group: "", versions: &["v1"], resources: &["pods/eviction"], operations: &["*"] }],
    ignore_failure: true,
    review: |context, review| Box::pin(admit::review(context, review)),
}];

/// Starts the controllers.
pub fn start(context: &Context, tasks: &mut Tasks) {
    tasks.control(evacuate::Evacuate::new(context));
}

/// What an instance wants when its host is to be emptied; empty where it wants nothing.
pub fn strategy(vmi: &Value) -> &str {
    vmi.text("/spec/evictionStrategy")
}

/// Whether an instance is to be migrated when its host is to be emptied.
fn migrates(vmi: &Value) -> bool {
    match strategy(vmi) {
        "LiveMigrate" => true,
        "LiveMigrateIfPossible" => vmi.condition_holds("LiveMigratable"),
        _ => false,
    }
}

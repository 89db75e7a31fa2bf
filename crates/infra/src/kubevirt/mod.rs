//! KubeVirt: virtual machines, their instances and launcher pods, migrations, and the API to operate them.

pub mod admission;
pub mod eviction;
pub mod handler;
pub mod hotplug;
pub mod install;
pub mod instance;
pub mod migration;
pub mod names;
pub mod replicas;
pub mod shapes;
pub mod subresources;
pub mod uuid;
pub mod vm;
pub mod vmi;

use crate::context::{Context, Tasks};
use crate::service::admission::Hook;

pub use install::install;

/// The webhooks of KubeVirt, by the part they belong to.
pub const HOOKS: &[&[Hook]] = &[
    // One line per part.
    admission::HOOKS,
    eviction::HOOKS,
];

/// Starts the controllers of one part.
type Start = fn(&Context, &mut Tasks);

/// What is started, by the part it belongs to.
const PARTS: &[Start] = &[
    // One line per part.
    admission::start,
    replicas::start,
    vm::start,
    vmi::start,
    hotplug::start,
    migration::start,
    eviction::start,
    handler::start,
];

/// Starts KubeVirt's controllers.
pub fn start(context: &Context, tasks: &mut Tasks) {
    for part in PARTS {
        part(context, tasks);
    }
}

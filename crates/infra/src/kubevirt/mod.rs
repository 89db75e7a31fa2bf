//! KubeVirt: virtual machines, their instances and launcher pods, migrations, and the API to operate them.

pub mod install;
pub mod names;
pub mod shapes;
pub mod subresources;

use crate::context::{Context, Tasks};
use crate::service::admission::Hook;

pub use install::install;

/// The webhooks of KubeVirt, by the part they belong to.
pub const HOOKS: &[&[Hook]] = &[
    // One line per part.
];

/// Starts the controllers of one part.
type Start = fn(&Context, &mut Tasks);

/// What is started, by the part it belongs to.
const PARTS: &[Start] = &[
    // One line per part.
];

/// Starts KubeVirt's controllers.
pub fn start(context: &Context, tasks: &mut Tasks) {
    for part in PARTS {
        part(context, tasks);
    }
}

//! KubeVirt: virtual machines, their instances and launcher pods, migrations, and the API to operate them.

pub mod shapes;
pub mod subresources;

use crate::context::{Context, Tasks};
use crate::service::admission::Hook;

/// The webhooks of KubeVirt.
pub const HOOKS: &[Hook] = &[];

/// Starts KubeVirt's controllers.
pub fn start(_context: &Context, _tasks: &mut Tasks) {}

//! CDI: volumes with content.

pub mod upload;

use crate::context::{Context, Tasks};
use crate::service::admission::Hook;

/// The webhooks of CDI.
pub const HOOKS: &[Hook] = &[];

/// Starts CDI's controllers.
pub fn start(_context: &Context, _tasks: &mut Tasks) {}

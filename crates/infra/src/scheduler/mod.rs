//! The scheduler: which host a pod runs on, and why on none.

use crate::context::{Context, Tasks};

/// Starts the scheduler.
pub fn start(_context: &Context, _tasks: &mut Tasks) {}

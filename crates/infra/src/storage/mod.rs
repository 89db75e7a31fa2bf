//! Storage: classes, volumes, claims, snapshots.

use crate::client::Result;
use crate::context::{Context, Tasks};

/// Makes the classes of storage.
pub async fn install(_context: &Context) -> Result {
    Ok(())
}

/// Starts the provisioner, the binder and the snapshot controller.
pub fn start(_context: &Context, _tasks: &mut Tasks) {}

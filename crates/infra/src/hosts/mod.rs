//! Hosts: nodes with their heartbeats and kubelets.

use crate::client::Result;
use crate::context::{Context, Tasks};

/// Makes the hosts of the settings.
pub async fn install(_context: &Context) -> Result {
    Ok(())
}

/// Starts the kubelets and the node lifecycle.
pub fn start(_context: &Context, _tasks: &mut Tasks) {}

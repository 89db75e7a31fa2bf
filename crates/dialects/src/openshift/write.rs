//! From clusters and pools to documents. What they have no words for is left out.

mod install;
mod machines;
mod sizes;

use serde_json::Value;
use trellis_model::pool::{Role, UpdateStrategy};
use trellis_model::{Cluster, Estate, Pool};

/// Writes an install-config for each cluster with a control plane, and machines for all pools that no
/// install-config holds.
pub fn write(estate: &Estate) -> Vec<Value> {
    let mut documents = Vec::new();
    let mut installed: Vec<&Pool> = Vec::new();
    for cluster in &estate.clusters {
        let pools: Vec<&Pool> = estate.pools.iter().filter(|pool| fits(cluster, pool)).collect();
        let (masters, workers): (Vec<&Pool>, Vec<&Pool>) =
            pools.into_iter().partition(|pool| pool.spec.role == Role::ControlPlane);
        if let Some(control) = masters.first() {
            documents.push(install::install_config(cluster, control, &workers));
            installed.push(control);
            installed.extend(workers);
        }
    }
    for pool in &estate.pools {
        if !installed.iter().any(|other| std::ptr::eq(*other, pool)) {
            documents.push(machines::document(estate.cluster(&pool.spec.cluster), pool));
        }
    }
    documents
}

/// Whether an install-config can hold the pool at all.
fn fits(cluster: &Cluster, pool: &Pool) -> bool {
    let spec = &pool.spec;
    spec.cluster == cluster.name
        && spec.machine_name.is_none()
        && spec.update.strategy == UpdateStrategy::RollingUpdate
}

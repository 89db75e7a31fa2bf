//! What a machine of a pool has, for an autoscaler that starts from none.

use trellis_model::resolve::resolve;
use trellis_model::{Cluster, Pool};
use trellis_platform::Capacity;

/// What one machine of a pool has. Nothing where an instance type of the infra cluster says it, or nothing does.
pub fn capacity(cluster: &Cluster, pool: &Pool) -> Option<Capacity> {
    let resolved = resolve(cluster, pool);
    let compute = resolved.compute()?;
    Some(Capacity {
        milli_cpus: u64::from(compute.cpu.guest_cpus()?) * 1000,
        memory_bytes: compute.memory.guest_bytes()?.get(),
    })
}

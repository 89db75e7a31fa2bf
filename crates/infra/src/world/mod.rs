//! What is below the API: hosts with power and cables, bytes on disks, running machines and their network.
//!
//! Nothing in here talks to an API server, and no client sees it; the emulated components look at it and act on it,
//! as the real ones do with kernels, switches and storage arrays.

pub mod hosts;
pub mod images;
pub mod machine;
pub mod store;
pub mod transfers;
pub mod volumes;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::network::fabric::Fabric;

/// Everything that is physical. Clones share it.
#[derive(Debug, Clone)]
pub struct World {
    /// The hosts.
    pub hosts: Arc<hosts::Hosts>,
    /// What is on the volumes.
    pub volumes: Arc<volumes::Volumes>,
    /// What can be had from outside.
    pub images: Arc<images::Images>,
    /// Bytes on their way.
    pub transfers: Arc<transfers::Transfers>,
    /// The running machines.
    pub machines: Arc<machine::Machines>,
    /// The network between them.
    pub fabric: Arc<Fabric>,
    /// How many machines were made before they had a name.
    nameless: Arc<AtomicU64>,
}

impl World {
    /// The turn of a machine that has no name yet: another one for each.
    pub fn next_nameless(&self) -> u64 {
        self.nameless.fetch_add(1, Ordering::Relaxed)
    }

    /// A world whose disks are what a store holds. Everything else begins anew, as after a power cut.
    pub fn in_store(store: Arc<dyn store::Store>) -> Result<Self, store::StoreError> {
        Ok(Self { volumes: Arc::new(volumes::Volumes::in_store(store)?), ..Self::default() })
    }
}

impl Default for World {
    fn default() -> Self {
        let hosts = Arc::<hosts::Hosts>::default();
        // What is on a host without power or cable is not on the network.
        let fabric = Arc::new(Fabric::new(&hosts));
        Self {
            hosts,
            volumes: Arc::default(),
            images: Arc::default(),
            transfers: Arc::default(),
            machines: Arc::default(),
            fabric,
            nameless: Arc::default(),
        }
    }
}

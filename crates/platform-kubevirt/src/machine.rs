//! One machine that is to be rendered, with everything looked up.

use trellis_model::canonical::Revision;
use trellis_model::machine::MachineTemplate;
use trellis_model::resolve::{ResolvedPool, resolve};
use trellis_model::{Cluster, Pool};

use crate::names;

/// A machine of a pool.
pub(crate) struct Machine<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) pool: &'a Pool,
    pub(crate) resolved: &'a ResolvedPool,
    pub(crate) revision: &'a Revision,
    /// Its number in the pool, from zero.
    pub(crate) ordinal: u32,
    pub(crate) name: String,
}

impl Machine<'_> {
    /// What it is made of.
    pub(crate) fn template(&self) -> &MachineTemplate {
        &self.resolved.template
    }
}

/// A pool with what its machines have in common looked up once.
pub(crate) struct PoolOf<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) pool: &'a Pool,
    pub(crate) resolved: ResolvedPool,
    revision: Revision,
}

impl<'a> PoolOf<'a> {
    /// Looks up what the pool leaves to its cluster.
    pub(crate) fn new(cluster: &'a Cluster, pool: &'a Pool) -> Self {
        Self { cluster, pool, resolved: resolve(cluster, pool), revision: Revision::of(cluster, pool) }
    }

    /// The machine with that number.
    pub(crate) fn machine(&self, ordinal: u32) -> Machine<'_> {
        let name = names::machine_name(self.cluster, self.pool, &self.revision, ordinal);
        let Self { cluster, pool, resolved, revision } = self;
        Machine { cluster, pool, resolved, revision, ordinal, name }
    }

    /// All machines of the pool, by number.
    pub(crate) fn machines(&self) -> impl Iterator<Item = Machine<'_>> {
        (0..self.pool.spec.replicas).map(|ordinal| self.machine(ordinal))
    }
}

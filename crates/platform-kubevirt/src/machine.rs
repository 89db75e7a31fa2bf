//! One machine that is to be rendered, with everything looked up.

use trellis_model::canonical::Revision;
use trellis_model::machine::MachineTemplate;
use trellis_model::resolve::{ResolvedPool, resolve};
use trellis_model::{Cluster, Pool};
use trellis_platform::MachineIdentity;

use crate::names;

/// The identity of a machine that is made now, with that number.
pub fn fresh_identity(cluster: &Cluster, pool: &Pool, ordinal: u32) -> MachineIdentity {
    of_revision(cluster, pool, Revision::of(cluster, pool), ordinal)
}

fn of_revision(cluster: &Cluster, pool: &Pool, revision: Revision, ordinal: u32) -> MachineIdentity {
    let name = names::machine_name(cluster, pool, &revision, ordinal);
    let zone = pool.spec.template.placement.zone_of(ordinal).cloned();
    MachineIdentity { name, ordinal, revision, zone }
}

/// A machine of a pool.
pub(crate) struct Machine<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) pool: &'a Pool,
    pub(crate) resolved: &'a ResolvedPool,
    pub(crate) identity: MachineIdentity,
    /// Its user data, where the pool says only where it is kept.
    pub(crate) user_data: Option<&'a str>,
}

impl Machine<'_> {
    /// What it is made of.
    pub(crate) fn template(&self) -> &MachineTemplate {
        &self.resolved.template
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.identity.name
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

    /// A machine of the pool.
    pub(crate) fn machine<'b>(
        &'b self,
        identity: MachineIdentity,
        user_data: Option<&'b str>,
    ) -> Machine<'b> {
        let Self { cluster, pool, resolved, .. } = self;
        Machine { cluster, pool, resolved, identity, user_data }
    }

    /// The machine that would be made now with that number.
    pub(crate) fn fresh(&self, ordinal: u32) -> Machine<'_> {
        let revision = self.revision.clone();
        self.machine(of_revision(self.cluster, self.pool, revision, ordinal), None)
    }

    /// All machines of the pool as they would be made now, by number.
    pub(crate) fn machines(&self) -> impl Iterator<Item = Machine<'_>> {
        (0..self.pool.spec.replicas).map(|ordinal| self.fresh(ordinal))
    }
}

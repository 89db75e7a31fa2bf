//! Which machine is meant, and what it is to be.

use std::fmt;
use std::sync::Arc;

use trellis_model::canonical::Revision;
use trellis_model::placement::Locality;
use trellis_model::{Cluster, Pool};

/// Which machine is meant: decided when it is made, recorded, and passed in ever after. A machine keeps its
/// name, its revision and its zone although its pool changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineIdentity {
    /// Its name.
    pub name: String,
    /// Its number in the pool, from zero; addresses are dealt out by it.
    pub ordinal: u32,
    /// The revision it was made from.
    pub revision: Revision,
    /// The zone it is in.
    pub zone: Option<Locality>,
}

/// The Machine object a virtual machine is made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its namespace.
    pub namespace: String,
    /// Its uid.
    pub uid: String,
}

/// What a machine is to be: everything a platform needs to make it or to bring it up to date.
#[derive(Clone)]
pub struct Wish {
    /// The cluster it belongs to.
    pub cluster: Arc<Cluster>,
    /// The pool it belongs to, in the state its revision stands for, with the present values of what changes in place.
    pub pool: Arc<Pool>,
    /// Which machine it is.
    pub identity: MachineIdentity,
    /// The object it is made for; the machine carries its uid, so that it is recognised although that object is gone
    /// or another one has its name.
    pub owner: Option<Owner>,
    /// What the guest reads at first boot, where the pool only names the place it is kept in. Never shown.
    pub user_data: Option<Arc<str>>,
}

impl fmt::Debug for Wish {
    /// Leaves out the user data: it holds tokens and keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wish")
            .field("cluster", &self.cluster.name)
            .field("pool", &self.pool.name)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

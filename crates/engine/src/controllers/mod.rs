//! The shells around the plans: they observe through watches, plan, and execute.
//!
//! A [`Tenant`] serves one tenant: its three sites, the caches that know them, and one queue of what has to be looked
//! at. A [`fleet`] runs many of them in one process, and shares them out among replicas.

mod adoption;
mod cached;
mod certificates;
mod cluster;
mod control;
mod drain;
pub mod fleet;
mod founder;
mod guests;
mod health;
mod hints;
mod infra;
mod machine;
mod masters;
mod nodes;
mod phases;
mod pool;
mod saying;
mod sweep;
mod teardown;
mod tenant;
mod voices;
mod work;

pub use drain::{DrainProgress, NodeDrain};
pub use founder::{GivenPlugin, Growing};
pub use masters::{EtcdBirth, MasterUserData, NewMaster};
pub use sweep::Leftovers;
pub use teardown::{Control as MachineObjects, Inventory, Teardown, TeardownError, Told};
pub use tenant::{Settings, Spec, Tenant};

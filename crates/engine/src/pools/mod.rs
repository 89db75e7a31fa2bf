//! A pool: how many machines of which revision there are, and which go.
//!
//! Everything here is a pure function over plain data. The [`rollout`] plan decides how many machines each revision of
//! a pool is to have, the [`set`] plan which machines of one revision are made and which go, [`control_plane`] both for
//! machines that carry etcd, one step at a time. [`checkup`] says which machines are sick, [`remedy`] which of them may be
//! replaced now, and [`autoscale`] speaks with the cluster autoscaler.

pub mod autoscale;
pub mod checkup;
pub mod control_plane;
pub mod remedy;
pub mod report;
pub mod rollout;
pub mod set;

mod seen;

pub use report::{Counts, Mark, NotYet};
pub use rollout::{Bounds, RolloutPlan, Sizing};
pub use seen::{MachineState, Member, PoolWish, SetSeen};
pub use set::{NewMember, SetPlan, SetWish, Starts};

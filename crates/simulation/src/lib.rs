//! Worlds to try the controllers in; the one place that knows the lab and the controllers both. For tests only.
//!
//! A [`World`] is an emulated infra cluster on an API server of its own, which is also where the machine objects
//! live, and [`Tenant`]s whose API servers machines reach through the infra cluster's network. Under tokio's paused
//! time all of it is in virtual time, and from one seed. Both can also be made beside API servers that somebody else
//! started ([`Outside`]), on the machine's own time.
//!
//! On top of that, [`run`] plays a [`scenario`] by a [`plan`]: what goes wrong at which [`point`]. What must hold all the
//! same are the [`oracles`].

mod cast;
pub mod chance;
pub mod explore;
mod failure;
pub mod oracles;
pub mod plan;
mod plane;
pub mod point;
pub mod run;
pub mod scenario;
pub mod stage;
pub mod tap;
mod tenant;
mod timeline;
pub mod trace;
pub mod trouble;
mod wire;
mod world;

pub use failure::{Failure, Result};
pub use plane::{Authority, Pair, Plane, Spoil};
pub use tenant::{Tenant, plug_in};
pub use world::{Make, Outside, Server, World};

//! Growing a tenant cluster from nothing: what is decided, as plain data.
//!
//! All keys are made before the first machine. The members of the control plane are known by name as soon as their
//! Machines exist; then a bootstrap machine is made that hands a configuration to each of them, for a token. When every
//! member has its Node, the bootstrap machine goes: that is the hand-over. From then on the members hand configurations
//! out, to workers and to members that come later.
//!
//! [`plan`] says what comes next from what is there; [`founding`] is what is decided once and kept; [`tokens`] says who
//! needs a new token; [`milestones`] how long each part may take, and why one is not reached; [`network_plugin`] what a
//! tenant is given to connect its pods. The controller
//! ([`controllers`](crate::controllers)) carries it out.

pub mod assets;
pub mod founding;
pub mod milestones;
pub mod network_plugin;
mod plan;
pub mod privacy;
mod shelf;
pub mod survey;
pub mod teardown;
pub mod tokens;

pub use founding::{Founding, FoundingError};
pub use milestones::Milestone;
pub use plan::{Facts, Plan, Presence, Progress, Stage, Step, plan};
pub use shelf::SharedSecret;

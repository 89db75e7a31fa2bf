//! One machine: where it is in its life, and what is to be done next.
//!
//! [`plan`] is one pure function over an [`Input`]; each part of a life has a module of its own. Nothing is decided
//! from what was attempted: a step that took effect shows in the next observation, and one that did not is planned
//! again. What must be known later although it can no longer be seen is in the [`Record`].

mod draft;
mod drain;
mod evacuation;
mod facts;
mod fencing;
mod input;
mod joining;
mod life;
mod node_drain;
mod plan;
pub mod reasons;
mod removal;
mod running;
mod seen;
mod status;
mod step;
#[cfg(test)]
mod testing;
mod text;

pub use facts::owns;
pub use input::{Blocked, Deadlines, Input, ProviderIdForm, Rights};
pub use node_drain::{DrainMark, NodeDrainPlan, drain_node};
pub use plan::{MachinePlan, plan};
pub use seen::{
    Attached, Flags, MachineSeen, NodeReady, NodeSeen, OwnedNodeMeta, PodSeen, Record, Refusal, SiteHealth,
    Sites,
};
pub use status::{MachineStatus, Phase, conditions};
pub use step::Step;

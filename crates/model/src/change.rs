//! What a change of a cluster or pool does to running machines.
//!
//! Every field has a class, in [`CLUSTER_FIELDS`] or [`POOL_FIELDS`]; a test walks the types and fails
//! for a field without one. [`diff`] compares two estates and explains itself. What it says replaces machines is
//! exactly what changes their [revision](crate::canonical::Revision): both look at the same view of a pool by the
//! same rules, and a test tries every field.

mod differences;
mod plan;
mod rules;

pub use differences::{Difference, differences, shown, without_credentials};
pub use plan::{Change, ClusterPlan, Fate, HeldBack, Plan, PoolPlan, diff};
pub(crate) use rules::INHERITED_FIELDS;
pub use rules::{CLUSTER_FIELDS, Class, FieldClass, FieldRule, POOL_FIELDS, grows_in_place, rule_for};

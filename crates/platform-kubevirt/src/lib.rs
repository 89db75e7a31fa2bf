//! From the model to KubeVirt objects: pure functions, no client, no clock.
//!
//! - [`render`] turns an estate into the objects of the infra cluster, in the order they are created;
//! - [`render_cluster`] and [`render_machine`] are its two halves, for a controller that makes machines
//!   one by one;
//! - [`check`] finds what KubeVirt, CDI or Kubernetes would refuse, or what would not work as intended,
//!   and [`missing`] what must still be said before there can be machines.
//!
//! ```
//! use trellis_model::Estate;
//! use trellis_platform_kubevirt::render;
//!
//! let rendered = render(&Estate::default());
//! assert!(rendered.objects.is_empty() && rendered.problems.is_empty());
//! ```
//!
//! The other half sees and acts, and is as pure: somebody else watches and sends.
//!
//! - [`seen`] has the objects of the infra cluster as far as they are looked at, and how to watch them;
//! - [`observe`] says what is so of a machine;
//! - [`calls`] turns an action into requests, and [`failure`] an error into what it means;
//! - [`golden_plan`] keeps the golden volumes, and [`capacity`] tells autoscalers what a machine has.
//!
//! The same estate always gives the same bytes: names are derived, lists keep the model's order, and
//! nothing is random.

mod act;
mod annotations;
mod applied;
mod call;
mod capacity;
mod check;
mod compute;
mod disks;
mod flavors;
mod golden;
mod images;
mod isolation;
mod labels;
mod machine;
mod names;
mod network_data;
mod networks;
mod nics;
mod object;
mod observe;
mod placement;
mod render;
pub mod seen;
mod services;
mod user_data;
mod vm;

pub use act::{ApiError, Context, calls, failure, hand_back, is_done};
pub use call::{Call, FIELD_MANAGER, Propagation, Verb};
pub use capacity::capacity;
pub use check::{check, missing};
pub use golden::{GoldenPlan, GoldenUse, clone_method, golden_name, golden_plan, image_state};
pub use machine::fresh_identity;
pub use names::endpoint as endpoint_service;
pub use object::Object;
pub use observe::{MachineObjects, observe};
pub use placement::BOOTSTRAP_POOL;
pub use render::{Rendered, render, render_cluster, render_machine};
pub use trellis_platform::MachineIdentity;
pub use user_data::machine_domain;

/// The label of everything that is made for a cluster: its name.
pub const CLUSTER_LABEL: &str = labels::CLUSTER;
/// The label of everything that is made for one machine, with its name.
pub const MACHINE_LABEL: &str = labels::MACHINE;

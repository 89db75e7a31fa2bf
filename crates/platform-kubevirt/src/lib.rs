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
//! The same estate always gives the same bytes: names are derived, lists keep the model's order, and
//! nothing is random.

mod check;
mod compute;
mod disks;
mod flavors;
mod images;
mod isolation;
mod labels;
mod machine;
mod names;
mod network_data;
mod networks;
mod nics;
mod object;
mod placement;
mod render;
mod services;
mod user_data;
mod vm;

pub use check::{check, missing};
pub use machine::MachineIdentity;
pub use object::Object;
pub use render::{Rendered, render, render_cluster, render_machine};

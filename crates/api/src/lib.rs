//! Serde types of every Kubernetes object Trellis speaks. No clients, no decisions.
//!
//! - What Trellis renders: [`kubevirt`], [`instancetype`], [`cdi`] and [`multus`], beside the built-in
//!   kinds of `k8s-openapi`;
//! - what it reads: one module for each manifest language, with their [`common`] pieces (and
//!   [`machine_api`], which two of them share), and Trellis's [own kinds](trellis);
//! - what it installs: the definitions of its own kinds, and of the [foreign machine kinds](machine_crds) where
//!   their own controllers are not there to bring them.

pub mod cdi;
pub mod common;
pub mod gardener;
pub mod instancetype;
pub mod kkp;
pub mod kubevirt;
pub mod machine_api;
pub mod machine_crds;
pub mod multus;
pub mod openshift;
pub mod trellis;

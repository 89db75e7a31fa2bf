//! Serde types of every Kubernetes object Trellis speaks. No clients, no decisions.
//!
//! - What Trellis renders: [`kubevirt`], [`instancetype`], [`cdi`] and [`multus`], beside the built-in
//!   kinds of `k8s-openapi`;
//! - what it reads: one module for each manifest language, with their [`common`] pieces, and Trellis's
//!   [own kinds](trellis).

pub mod cdi;
pub mod common;
pub mod gardener;
pub mod instancetype;
pub mod kubevirt;
pub mod multus;
pub mod trellis;

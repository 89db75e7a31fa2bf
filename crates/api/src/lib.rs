//! Serde types of every Kubernetes object Trellis speaks. No clients, no decisions.
//!
//! - [`common`]: what the foreign manifest languages share;
//! - one module for each language or group of kinds.

pub mod common;
pub mod gardener;

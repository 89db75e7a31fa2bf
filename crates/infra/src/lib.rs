//! An infra cluster that behaves like a real one with KubeVirt, CDI and Multus.
//!
//! Everything here is an ordinary client of a Kubernetes API server: the lab's own, or a real one. What the real
//! components would learn from the machines below them (is the host up, has the guest booted, what is on the disk)
//! they learn here from the [`world`], which no API shows. This crate shares nothing with the engine: it is an
//! independent witness, and works on plain JSON.

pub mod cdi;
pub mod client;
pub mod clock;
pub mod context;
pub mod control;
pub mod controller;
pub mod crds;
pub mod events;
pub mod guests;
pub mod hosts;
mod infra;
pub mod kinds;
pub mod kubevirt;
pub mod logs;
pub mod manager;
pub mod network;
pub mod object;
pub mod quantity;
mod roles;
pub mod scheduler;
pub mod service;
pub mod settings;
pub mod stages;
pub mod storage;
mod waits;
pub mod world;

pub use infra::{Infra, InfraError};
pub use settings::Settings;

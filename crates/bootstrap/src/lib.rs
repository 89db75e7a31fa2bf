//! What the machines of a tenant cluster boot with, and the server that hands it to them.
//!
//! Everything is a pure function of what is known of a cluster ([`Site`]), its keys and certificates ([`Bundle`]), a
//! source of chance and the time:
//!
//! 1. [`Bundle::new`] makes the authorities; [`Bundle::ensure_master`] and [`Bundle::ensure_node`] what machines need.
//! 2. [`render::master`], [`render::worker`] and [`render::bootstrap`] say what is on a machine, for every operating
//!    system alike; [`render::user_data`] writes it as Ignition or cloud-init.
//! 3. [`render::stub`] is what masters and workers are given instead: where to get the rest, with a [`tokens::Token`].
//! 4. [`server::Server`] hands it out.
//!
//! A seed gives the same keys, numbers and tokens again. Signatures have chance of their own, so that two certificates
//! of the same key differ in their last bytes.

mod cloud_init;
mod ignition;
mod kubeadm;
mod kubeconfig;
pub mod machine;
pub mod names;
mod node;
pub mod pki;
pub mod render;
mod secret;
pub mod server;
pub mod site;
mod static_pods;
mod system;
pub mod tokens;
mod unit;
pub mod version;
pub mod vip;
mod yaml;

pub use names::Names;
pub use pki::Bundle;
pub use secret::Secret;
pub use site::Site;

/// The time of the machine's clock. Everything else in this crate is told the time.
pub fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

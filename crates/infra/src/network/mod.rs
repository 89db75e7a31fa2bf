//! The network: services, endpoints, addresses, policies, and the fabric that carries bytes.

pub mod fabric;

use crate::context::{Context, Tasks};

/// Starts what gives addresses and endpoints to services, and keeps the fabric informed.
pub fn start(_context: &Context, _tasks: &mut Tasks) {}

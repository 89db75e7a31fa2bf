//! Machines of all families, from their objects to Nodes of the tenant and back, on the emulated infra cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a step that fails fails the test"
)]

#[path = "../../../lab/tests/support/mod.rs"]
#[allow(dead_code, reason = "each test target uses its own part")]
mod support;

mod admission;
mod adoption;
mod certificates;
mod checks;
mod drain;
mod families;
mod health;
mod identity;
mod images;
mod in_place;
mod kkp;
mod kstatus;
mod leftovers;
mod openshift;
mod real;
mod removal;
mod rights;
mod rollout;
mod scaling;
mod sites;
mod stage;
mod stuck;
mod trouble;

//! What is installed, on the lab and, where `TRELLIS_CONFORMANCE=real` asks for it, on the real Kubernetes.

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
mod manifests;
mod objects;
mod server;
mod webhook;

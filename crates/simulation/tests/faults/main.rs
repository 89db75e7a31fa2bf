//! The harness that has everything go wrong: that it bites, that its runs can be repeated, and the failures that really
//! happened elsewhere.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a step that fails fails the test"
)]

mod broken;
mod happened;
mod repeatable;

//! Control planes made of guests: they come up from user data alone, are changed one machine at a time, and never lose
//! the quorum of their etcd to a change.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a step that fails fails the test"
)]

mod change;
mod corruption;
mod etcd;
mod install;
mod rise;
mod stage;
mod tokens;
mod trouble;

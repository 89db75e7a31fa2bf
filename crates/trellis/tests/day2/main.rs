//! The commands of day 2 as people meet them: the built program against labs and controllers that are processes of their
//! own, over sockets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod drain;
mod errors;
mod pools;
mod stage;
mod view;

//! What machines boot with, held against those who read it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test are a test")]

mod certificates;
mod control_plane;
mod programs;
mod rendering;
mod serving;
mod site;
mod strings;

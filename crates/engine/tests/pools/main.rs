//! Pools in a small simulated world in virtual time: what the plans promise is asserted at each instant.

#![expect(clippy::unwrap_used, reason = "the helpers of a test are a test")]

mod broken;
mod control_plane;
mod makespan;
mod rolling;
mod world;

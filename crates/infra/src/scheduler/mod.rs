//! The scheduler: which host a pod runs on, and why on none.
//!
//! Deciding is pure: `cluster` is what is known, `filter` and `score` judge nodes by it, `pick` and
//! `preempt` choose. Around that, `run` feeds changes in, and `write` tells the API server.

mod affinity;
mod cluster;
mod feeds;
mod filter;
mod pick;
mod pod;
mod preempt;
mod queue;
mod resources;
mod run;
mod score;
mod selector;
mod spread;
mod volumes;
mod write;

use crate::context::{Context, Tasks};

/// Starts the scheduler.
pub fn start(context: &Context, tasks: &mut Tasks) {
    tasks.spawn(run::run(context.clone()));
}

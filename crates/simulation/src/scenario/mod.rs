//! What happens in a run: what is there before, what people and the world do, and when it is over.
//!
//! A new controller joins by a scenario of its own here, not by a harness.

mod install;
mod pools;

use std::time::Duration;

use futures::future::BoxFuture;

use crate::failure::Result;
use crate::stage::Stage;
use crate::trace::State;

/// What happens in a run.
pub trait Scenario: Send + Sync {
    /// What plans call it.
    fn name(&self) -> &'static str;

    /// What it is about, for people.
    fn about(&self) -> &'static str;

    /// Whether every point of it is tried whenever all tests run.
    fn is_core(&self) -> bool {
        false
    }

    /// How many hosts it needs.
    fn hosts(&self) -> usize {
        2
    }

    /// Whether the tenant is yet to be grown, control plane and all.
    fn grows(&self) -> bool {
        false
    }

    /// Makes what is there before, undisturbed.
    fn prepare<'a>(&'a self, stage: &'a Stage) -> BoxFuture<'a, Result>;

    /// What people and the world do.
    fn act<'a>(&'a self, stage: &'a Stage) -> BoxFuture<'a, Result>;

    /// Whether all that was to come of it has.
    fn is_over(&self, state: &State) -> bool;

    /// How long it may take however much goes wrong.
    fn patience(&self) -> Duration {
        Duration::from_hours(3)
    }
}

/// All scenarios.
pub fn all() -> Vec<Box<dyn Scenario>> {
    let mut all = pools::all();
    all.push(Box::new(install::Install));
    all
}

/// A scenario by its name.
pub fn named(name: &str) -> Option<Box<dyn Scenario>> {
    all().into_iter().find(|scenario| scenario.name() == name)
}

//! Reconcilers and their plans.
//!
//! A reconciler is `observe → plan → execute`. Everything that decides is a pure function over plain data with the
//! time passed in: [`pools`] decides how many machines of which revision there are, [`machines`] what the next step of
//! one machine is, [`leftovers`] what is left of machines that are gone, and [`certificates`] which kubelets may serve.
//! [`families`] is the edge where objects become that data and decisions become objects. Nothing in a plan waits; what has to happen later has a [`Deadline`] by name.

pub mod admission;
pub mod certificates;
pub mod controllers;
pub mod etcd;
pub mod families;
pub mod install;
pub mod leftovers;
pub mod machines;
pub mod pools;
pub mod preflight;
pub mod rights;

// What tests inside and outside of this crate share names it the same way.
#[cfg(test)]
extern crate self as trellis_engine;

use jiff::Timestamp;

/// A moment at which something must be looked at again because then something is late, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadline {
    /// When.
    pub at: Timestamp,
    /// What will be late then, as a word for events and metrics: `FirstBoot`, `Drain`.
    pub of: &'static str,
}

impl Deadline {
    /// The earlier of two moments, either of which may not exist.
    pub fn earlier(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(if other.at < one.at { other } else { one }),
            (one, other) => one.or(other),
        }
    }
}

/// Something that happened to an object and is worth an Event of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// Something is wrong.
    pub warning: bool,
    /// One word in `CamelCase`.
    pub reason: &'static str,
    /// For people; never holds a secret.
    pub message: String,
}

/// What holds for an object, and why: as in `status.conditions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What is spoken of.
    pub kind: &'static str,
    /// Whether it holds; not known when left out.
    pub holds: Option<bool>,
    /// One word in `CamelCase`.
    pub reason: &'static str,
    /// For people; never holds a secret.
    pub message: String,
}

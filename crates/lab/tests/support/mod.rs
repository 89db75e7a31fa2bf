//! What the test targets share: the servers under test, and a client that hides nothing.

pub(crate) mod certificates;
pub(crate) mod client;
pub(crate) mod json;
pub(crate) mod lab;
pub(crate) mod parts;
pub(crate) mod program;
pub(crate) mod real;
pub(crate) mod target;

/// Why something could not be done, for the person who reads the test's output.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The result of a step.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

//! The one error type of the chores: a sentence for the person who ran them.

use std::fmt;

/// What went wrong, in words meant for people.
#[derive(Debug)]
pub(crate) struct Failure(String);

/// The result of a step of a chore.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure that says `message`.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Says what was being attempted when a lower layer failed.
pub(crate) trait Attempt<T> {
    /// Turns an error into "cannot `what`: error".
    fn attempt(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> Attempt<T> for std::result::Result<T, E> {
    fn attempt(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure(format!("cannot {}: {error}", what())))
    }
}

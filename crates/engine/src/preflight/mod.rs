//! Before anything is made: whether the infra cluster can carry what is asked for.
//!
//! [`gather`] asks the infra cluster, [`judge`] decides. What the user may not look at is no failure: it is unknown,
//! and says so.

mod capacity;
mod facts;
mod gather;
mod image;
mod judge;
mod network;
mod rights;
mod storage;

pub use facts::{Asked, Attachment, Class, Facts, Ground, Host, Installation, Quota, Right, Rights, Taken};
pub use gather::{gather, ground};
pub use image::{ImageFacts, probe};
pub use judge::judge;
pub use rights::needed;

/// What came of one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is as it must be.
    Passed,
    /// It could not be found out.
    Unknown,
    /// It works, but not as well as it could.
    Warning,
    /// It cannot work like this.
    Failed,
}

impl Verdict {
    /// The word for tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Failed => "FAILED",
        }
    }
}

/// One question and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it is about, in a word or two.
    pub about: String,
    /// What came of it.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it; empty where nothing has to be done.
    pub fix: String,
}

impl Check {
    fn new(about: impl Into<String>, verdict: Verdict, found: impl Into<String>) -> Self {
        Self { about: about.into(), verdict, found: found.into(), fix: String::new() }
    }

    pub(crate) fn passed(about: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(about, Verdict::Passed, found)
    }

    pub(crate) fn warning(about: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(about, Verdict::Warning, found)
    }

    pub(crate) fn failed(about: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(about, Verdict::Failed, found)
    }

    /// What could not be asked.
    pub(crate) fn unknown(about: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(about, Verdict::Unknown, found)
    }

    pub(crate) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: fix.into(), ..self }
    }
}

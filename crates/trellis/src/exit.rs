//! How commands end: documented exit codes, and failures written for people.

use std::io;
use std::process::ExitCode;

use crate::args::Format;

/// How a command ended. Each has an exit code of its own, documented in `docs/reference/exit-codes.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Success,
    /// The manifests have errors; nothing was made of them.
    BadManifest,
    /// A file could not be read, or the output not written.
    Files,
    /// A change cannot be made: a plan says so, or a precondition, or the server.
    Refused,
    /// Something would be lost, and `--strict` asked for that to be a failure.
    Lossy,
    /// An object, or its whole kind, is not on the server.
    NotFound,
    /// The server cannot be reached, or does not know who asks.
    Unreachable,
    /// The user may not do this.
    Forbidden,
    /// What was waited for did not come in time.
    TimedOut,
    /// What was waited for will not come by itself.
    Stalled,
    /// An infra cluster cannot carry what is asked for.
    Unfit,
    /// Somebody ended it before it was done; the same command goes on.
    Interrupted,
    /// Something is left of what was to be taken away.
    Leftovers,
}

impl Exit {
    /// All of them, for the reference.
    pub(crate) const ALL: [Self; 13] = [
        Self::Success,
        Self::BadManifest,
        Self::Files,
        Self::Refused,
        Self::Lossy,
        Self::NotFound,
        Self::Unreachable,
        Self::Forbidden,
        Self::TimedOut,
        Self::Stalled,
        Self::Unfit,
        Self::Interrupted,
        Self::Leftovers,
    ];

    /// The exit code. 1 is a bug, 2 a wrong command line.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::BadManifest => 3,
            Self::Files => 4,
            Self::Refused => 5,
            Self::Lossy => 6,
            Self::NotFound => 8,
            Self::Unreachable => 9,
            Self::Forbidden => 10,
            Self::TimedOut => 11,
            Self::Stalled => 12,
            Self::Unfit => 13,
            Self::Interrupted => 14,
            Self::Leftovers => 15,
        }
    }

    /// What it means, for the reference.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Success => "The command did what was asked.",
            Self::BadManifest => {
                "The manifests have errors (or warnings, with `--strict`). Every one was printed; nothing was made of them."
            }
            Self::Files => "A file could not be read, or the output could not be written.",
            Self::Refused => {
                "A change cannot be made: `plan` found one, a precondition does not hold, or the server refuses it."
            }
            Self::Lossy => {
                "`convert --strict` would lose something, or lacks what the other dialect demands."
            }
            Self::NotFound => "There is no such object on the server, or its kind is not installed there.",
            Self::Unreachable => "The server cannot be reached, or does not accept the credentials.",
            Self::Forbidden => "The user may not do this; the missing right is named.",
            Self::TimedOut => {
                "What was waited for did not come within `--timeout`; the last reason was printed."
            }
            Self::Stalled => {
                "What was waited for will not come by itself: an update exceeded its progress deadline, or its template cannot be used."
            }
            Self::Unfit => {
                "`doctor`, or `create cluster` before it began, found that the infra cluster cannot carry what is asked for."
            }
            Self::Interrupted => {
                "`create cluster` was interrupted. What was made stays, and the same command goes on."
            }
            Self::Leftovers => "`destroy` ended with something left; all of it was listed.",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command could not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A file could not be read.
    #[error("cannot read {name}: {why}")]
    Read {
        /// The file.
        name: String,
        /// Why, with what to do about it.
        why: String,
    },
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Write(#[from] io::Error),
    /// There is nothing to read.
    #[error("there is nothing to read: give manifests with -f FILE, or pipe them in")]
    NoInput,
    /// The lab could not be started.
    #[error("the lab cannot start: {0}")]
    Lab(String),
    /// A lab did not do what it was asked.
    #[error("{0}")]
    Refused(String),
    /// The arguments do not fit together.
    #[error("{0}")]
    Usage(String),
    /// A change cannot be made.
    #[error("{0}")]
    Rejected(String),
    /// An object, or its kind, is not there.
    #[error("{0}")]
    NotFound(String),
    /// The server cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The user may not do this.
    #[error("{0}")]
    Forbidden(String),
    /// What was waited for did not come in time.
    #[error("{0}")]
    TimedOut(String),
    /// What was waited for will not come by itself.
    #[error("{0}")]
    Stalled(String),
    /// Somebody ended it.
    #[error("interrupted: {0}")]
    Interrupted(String),
}

impl Failure {
    /// Prints the failure and gives the exit code. A closed pipe is not one: whoever reads has read enough.
    pub(crate) fn report(self, format: Format) -> ExitCode {
        if matches!(&self, Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe) {
            return Exit::Success.into();
        }
        let text = match format {
            Format::Human => format!("error: {self}\n"),
            Format::Json => format!("{:#}\n", serde_json::json!({ "error": self.to_string() })),
        };
        // Standard error may be closed as well; the exit code still tells.
        let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
        match self {
            Self::NoInput | Self::Usage(_) => ExitCode::from(2),
            Self::Read { .. } | Self::Write(_) | Self::Lab(_) | Self::Refused(_) => Exit::Files.into(),
            Self::Rejected(_) => Exit::Refused.into(),
            Self::NotFound(_) => Exit::NotFound.into(),
            Self::Unreachable(_) => Exit::Unreachable.into(),
            Self::Forbidden(_) => Exit::Forbidden.into(),
            Self::TimedOut(_) => Exit::TimedOut.into(),
            Self::Stalled(_) => Exit::Stalled.into(),
            Self::Interrupted(_) => Exit::Interrupted.into(),
        }
    }
}

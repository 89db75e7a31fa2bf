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
    /// A plan holds a change that cannot be made.
    Refused,
    /// Something would be lost, and `--strict` asked for that to be a failure.
    Lossy,
    /// The command is not part of this build yet.
    NotYet,
}

impl Exit {
    /// All of them, for the reference.
    pub(crate) const ALL: [Self; 6] =
        [Self::Success, Self::BadManifest, Self::Files, Self::Refused, Self::Lossy, Self::NotYet];

    /// The exit code. 1 is a bug, 2 a wrong command line.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::BadManifest => 3,
            Self::Files => 4,
            Self::Refused => 5,
            Self::Lossy => 6,
            Self::NotYet => 7,
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
            Self::Refused => "`plan` found a change that cannot be made.",
            Self::Lossy => {
                "`convert --strict` would lose something, or lacks what the other dialect demands."
            }
            Self::NotYet => "The command is not part of this build yet.",
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
        }
    }
}

//! Programs the clients consist of: found on this machine, or made in the user's cache.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::Result;
use crate::support::parts::cache;

/// A program some scenarios run.
#[derive(Debug)]
pub(crate) enum Tool {
    /// It is here, at this path.
    Here(PathBuf),
    /// It is not, and this is why: its scenarios are skipped.
    Missing(String),
    /// It should be here, but what we wrote of it does not build: its scenarios fail.
    Broken(String),
}

/// For clients that are part of this program.
pub(crate) static BUILT_IN: Tool = Tool::Here(PathBuf::new());

impl Tool {
    /// A tool that is not here. Says so once, since its scenarios only say that they were skipped.
    pub(crate) fn missing(why: String) -> Self {
        eprintln!("skipped: {why}");
        Self::Missing(why)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> Result<&Path> {
        match self {
            Self::Here(path) => Ok(path),
            Self::Missing(why) | Self::Broken(why) => Err(why.as_str().into()),
        }
    }
}

/// A folder of the user's cache that nobody else fills at the same time, as long as the file is open.
pub(crate) fn folder(name: &str) -> Result<(PathBuf, File)> {
    let cache = cache().ok_or("there is no cache: set XDG_CACHE_HOME or HOME")?;
    std::fs::create_dir_all(&cache)?;
    let lock = File::create(cache.join(format!("{name}.lock")))?;
    lock.lock()?;
    Ok((cache.join(name), lock))
}

/// Runs a command to its end, which has to be a good one.
pub(crate) fn run(command: &mut Command) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|failure| format!("{program}: {failure}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("{program} failed: {said}").into())
}

//! A temporary directory that goes away with its owner.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

use crate::failure::{Attempt as _, Result};

/// A fresh directory under the system's temporary directory, removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Creates an empty directory; `purpose` becomes part of its name.
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("trellis-{purpose}-{}-{number}", process::id()));
            match fs::create_dir(&path) {
                // A directory left over by a process that had our id: take the next name.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                created => {
                    created.attempt(|| format!("create the temporary directory {}", path.display()))?;
                    return Ok(Self(path));
                }
            }
        }
    }

    /// Where the directory is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing useful can be done about a temporary directory that does not want to go.
        let _ = fs::remove_dir_all(&self.0);
    }
}

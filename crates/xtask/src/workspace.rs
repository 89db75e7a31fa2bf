//! Where the workspace is, what it holds, and how to call cargo in it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failure::{Attempt as _, Failure, Result};
use crate::process;

/// The workspace the chores work on.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Finds the workspace this program was built from.
    pub(crate) fn find() -> Result<Self> {
        let here = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        match here.ancestors().nth(2) {
            Some(root) if root.join("Cargo.toml").is_file() => Ok(Self { root: root.to_owned() }),
            _ => Err(Failure::new(format!(
                "cannot find the workspace above {}; run the chores as `cargo xtask`",
                here.display()
            ))),
        }
    }

    /// The directory of the workspace's `Cargo.toml`.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A call of the cargo that runs us, in the workspace's root.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut command = Command::new(program);
        command.current_dir(&self.root).args(arguments);
        command
    }

    /// The names of the workspace's crates, sorted.
    pub(crate) fn crates(&self) -> Result<Vec<String>> {
        let said = process::capture(&mut self.cargo(&["metadata", "--format-version", "1", "--no-deps"]))?;
        if !said.success {
            return Err(Failure::new(format!("cannot list the workspace's crates: {}", said.stderr.trim())));
        }
        crate_names(&said.stdout)
    }
}

/// Takes the crates' names from the output of `cargo metadata --no-deps`.
fn crate_names(metadata: &str) -> Result<Vec<String>> {
    let metadata: Value =
        serde_json::from_str(metadata).attempt(|| "read the output of `cargo metadata`".to_owned())?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let mut names: Vec<String> =
        packages.iter().filter_map(|package| package["name"].as_str()).map(str::to_owned).collect();
    names.sort();
    if names.is_empty() {
        return Err(Failure::new("`cargo metadata` lists no crate of the workspace"));
    }
    Ok(names)
}

/// `CARGO_HOME`, or its default place.
pub(crate) fn cargo_home() -> Option<PathBuf> {
    directory("CARGO_HOME").or_else(|| Some(directory("HOME")?.join(".cargo")))
}

/// Where Trellis may keep things between runs: `trellis` in the user's cache directory.
pub(crate) fn cache() -> Option<PathBuf> {
    let caches = directory("XDG_CACHE_HOME").or_else(|| Some(directory("HOME")?.join(".cache")))?;
    Some(caches.join("trellis"))
}

/// The directory a variable names, if it is set and not empty.
fn directory(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_sorted() {
        let names = crate_names(r#"{"packages": [{"name": "xtask"}, {"name": "trellis"}]}"#).unwrap();
        assert_eq!(names, ["trellis", "xtask"]);
    }

    #[test]
    fn a_workspace_without_crates_is_a_failure() {
        assert!(crate_names(r#"{"packages": []}"#).is_err());
        assert!(crate_names("no json").is_err());
    }

    #[test]
    fn finds_its_own_workspace() {
        assert!(Workspace::find().unwrap().root().join("crates/xtask/Cargo.toml").is_file());
    }
}

//! Programs the tiers need: found, added, or explained.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;
use crate::real_parts;
use crate::workspace::{self, Workspace};

/// The version of cargo-deny our `deny.toml` is written for.
const CARGO_DENY: &str = "0.20.2";

/// Something a tier cannot run without.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Need {
    /// A component of the Rust toolchain, and the cargo subcommand that comes with it.
    Component(&'static str, &'static str),
    /// The real Kubernetes programs: cached, named by the environment, or buildable.
    RealParts,
    /// The Go compiler.
    Go,
    /// Programs, each with the Debian package it is in: there, or installed where that is possible.
    Programs(&'static [(&'static str, &'static str)]),
}

impl Need {
    /// Makes sure the need is met; otherwise says why not, in words for the closing table.
    pub(crate) fn meet(self, workspace: &Workspace) -> Result<(), String> {
        match self {
            Self::Component(component, subcommand) => meet_component(workspace, component, subcommand),
            Self::Go if runs(Command::new("go").arg("version")) => Ok(()),
            Self::Go => Err("Go is not installed".to_owned()),
            Self::Programs(programs) => meet_programs(programs),
            Self::RealParts => real_parts::obtain(workspace).map(drop).map_err(|failure| {
                let message = failure.to_string();
                let mut lines = message.lines();
                let first = lines.next().unwrap_or_default().to_owned();
                // What the compiler said does not fit into the table, but somebody wants to read it.
                lines.for_each(|line| eprintln!("{line}"));
                first
            }),
        }
    }
}

/// Looks for a component's subcommand and asks rustup for the component if it is missing.
fn meet_component(workspace: &Workspace, component: &str, subcommand: &str) -> Result<(), String> {
    let works = || runs(&mut workspace.cargo(&[subcommand, "--version"]));
    if works() {
        return Ok(());
    }
    println!("`cargo {subcommand}` is missing; asking rustup for the component `{component}`");
    let why = match process::capture(Command::new("rustup").args(["component", "add", component])) {
        Ok(_) if works() => return Ok(()),
        Ok(said) => said.last_complaint().to_owned(),
        Err(_) => "rustup is not installed".to_owned(),
    };
    Err(format!("`cargo {subcommand}` is missing and could not be added: {why}"))
}

/// Looks for programs and asks apt for the packages of those that are missing.
fn meet_programs(programs: &[(&str, &str)]) -> Result<(), String> {
    let packages = || -> Vec<&str> {
        programs.iter().filter(|(program, _)| !is_installed(program)).map(|(_, package)| *package).collect()
    };
    let missing = packages();
    if missing.is_empty() {
        return Ok(());
    }
    let wanted = missing.join(", ");
    let is_root = process::capture(Command::new("id").arg("-u")).is_ok_and(|said| said.stdout.trim() == "0");
    if !is_root {
        return Err(format!(
            "the Debian packages {wanted} are not installed, and only root could install them"
        ));
    }
    println!("installing the Debian packages {wanted}");
    let mut apt = Command::new("apt-get");
    apt.args(["install", "--yes", "--no-install-recommends"]).args(&missing);
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    match process::stream(&mut apt) {
        Ok(_) if packages().is_empty() => Ok(()),
        Ok(_) => Err(format!("the Debian packages {wanted} could not be installed (see above)")),
        Err(_) => Err(format!("the Debian packages {wanted} are not installed, and there is no apt")),
    }
}

/// True when a program is on the `PATH`, or where programs for administrators are.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).any(|file: PathBuf| file.is_file())
}

/// Finds cargo-deny: our own copy, a suitable one on the `PATH`, or a new copy in the user's cache.
///
/// When there is none to be had, says why in words for the closing table.
pub(crate) fn cargo_deny(workspace: &Workspace) -> Result<PathBuf, String> {
    let Some(cache) = workspace::cache() else {
        return Err("cargo-deny has no place to be installed to: set XDG_CACHE_HOME or HOME".to_owned());
    };
    let root = cache.join("tools");
    let own = root.join("bin/cargo-deny");
    for candidate in [own.as_path(), Path::new("cargo-deny")] {
        if version_of(candidate).is_some_and(|version| suits(&version)) {
            return Ok(candidate.to_owned());
        }
    }

    println!("installing cargo-deny {CARGO_DENY} into {} (once, takes minutes)", root.display());
    let mut install =
        workspace.cargo(&["install", "cargo-deny", "--version", CARGO_DENY, "--locked", "--root"]);
    // Built outside the workspace's target directory: nothing of it is ever used again.
    install.arg(&root).env_remove("CARGO_TARGET_DIR");
    match process::stream(&mut install) {
        Ok(true) if version_of(&own).is_some() => Ok(own),
        Ok(_) => Err(format!("cargo-deny {CARGO_DENY} is not here and could not be installed (see above)")),
        Err(failure) => Err(format!("cargo-deny {CARGO_DENY} could not be installed: {failure}")),
    }
}

/// True when the program starts and exits with zero; a missing program does not.
fn runs(command: &mut Command) -> bool {
    process::capture(command).is_ok_and(|said| said.success)
}

/// The version `program --version` reports, if it runs at all.
fn version_of(program: &Path) -> Option<String> {
    let said = process::capture(Command::new(program).arg("--version")).ok().filter(|said| said.success)?;
    said.stdout.split_whitespace().nth(1).map(str::to_owned)
}

/// True when `version` reads the same `deny.toml` as ours: equal up to the last number.
fn suits(version: &str) -> bool {
    let series = |version: &str| version.rsplit_once('.').map(|(series, _)| series.to_owned());
    series(version).is_some() && series(version) == series(CARGO_DENY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cargo_deny_of_the_same_series_suits() {
        assert!(suits(CARGO_DENY));
        assert!(suits("0.20.9"));
        assert!(!suits("0.19.4"));
        assert!(!suits("1.20.2"));
        assert!(!suits(""));
    }

    #[test]
    fn programs_are_found_where_they_are() {
        assert!(is_installed("sh"));
        assert!(!is_installed("trellis-no-such-program"));
        assert_eq!(meet_programs(&[("sh", "dash")]), Ok(()));
    }

    #[test]
    fn a_missing_program_has_no_version() {
        assert_eq!(version_of(Path::new("trellis-no-such-program")), None);
    }
}

//! The committed references that a program writes: making them, and checking that they are current.

use std::env;
use std::path::Path;
use std::process::Command;

use crate::bench;
use crate::compare::{self, Difference};
use crate::failure::{Failure, Result};
use crate::outcome::Outcome;
use crate::process;
use crate::scratch::Scratch;
use crate::workspace::Workspace;

/// Where generated files are committed, from the workspace's root, and the chore that writes them. Every file in these
/// folders is generated.
const FOLDERS: [(&str, &str); 2] = [("docs/reference", "generate-reference"), ("deploy", "generate-deploy")];

/// Runs `cargo xtask generate [--check]`; true when all is well.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    match arguments {
        [] => write(workspace).map(|()| true),
        [flag] if flag == "--check" => {
            let outcome = check(workspace)?;
            println!("{}", outcome.words());
            Ok(outcome.is_fine())
        }
        _ => Err(Failure::new("usage: cargo xtask generate [--check]")),
    }
}

/// The program to ask instead of building `trellis`, if the environment names one.
pub(crate) fn trellis_from_environment() -> Option<std::ffi::OsString> {
    env::var_os("TRELLIS_BIN").filter(|value| !value.is_empty())
}

/// Brings the committed files up to date.
fn write(workspace: &Workspace) -> Result<()> {
    for (folder, chore) in FOLDERS {
        let fresh = generate(workspace, chore)?;
        let committed = workspace.root().join(folder);
        let differences = compare::compare(fresh.path(), &committed)?;
        compare::apply(&differences, fresh.path(), &committed)?;
        for (file, difference) in &differences {
            let done = if *difference == Difference::Surplus { "removed" } else { "wrote" };
            println!("{done} {folder}/{}", file.display());
        }
        if differences.is_empty() {
            println!("{folder} was up to date");
        }
    }
    Ok(())
}

/// The tier `generated`: the committed files are what the program writes today.
pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    let mut outdated = 0;
    for (folder, chore) in FOLDERS {
        let fresh = generate(workspace, chore)?;
        let differences = compare::compare(fresh.path(), &workspace.root().join(folder))?;
        for (file, difference) in &differences {
            println!("{}  {folder}/{}", difference.word(), file.display());
        }
        outdated += differences.len();
    }
    let folders = FOLDERS.map(|(folder, _)| folder).join(" and ");
    Ok(match outdated {
        0 => Outcome::of(true, format!("{folders} are up to date")),
        1 => Outcome::of(false, format!("1 file of {folders} is out of date: run `cargo xtask generate`")),
        many => Outcome::of(
            false,
            format!("{many} files of {folders} are out of date: run `cargo xtask generate`"),
        ),
    })
}

/// Has the program write files into a fresh directory.
fn generate(workspace: &Workspace, chore: &str) -> Result<Scratch> {
    let scratch = Scratch::new(chore)?;
    let mut command = match trellis_from_environment() {
        Some(program) => Command::new(program),
        // As the tests have it: built with other features, all that is below it would be built once more.
        None => Command::new(bench::built(
            workspace,
            &["test", "--quiet", "--workspace", "--no-run", "--test", "cli"],
            "trellis",
        )?),
    };
    command.current_dir(workspace.root());
    command.args(["internal", chore, "--out"]).arg(scratch.path());
    let said = process::capture(&mut command)?;
    if !said.success {
        return Err(Failure::new(format!("`trellis internal {chore}` failed:\n{}", said.stderr.trim_end())));
    }
    if is_empty(scratch.path()) {
        return Err(Failure::new(format!("`trellis internal {chore}` succeeded but wrote no file")));
    }
    Ok(scratch)
}

/// True when nothing is in the directory.
fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

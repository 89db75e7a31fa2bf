//! The committed references that a program writes: making them, and checking that they are current.

use std::env;
use std::path::Path;
use std::process::Command;

use crate::compare::{self, Difference};
use crate::failure::{Failure, Result};
use crate::outcome::Outcome;
use crate::process;
use crate::scratch::Scratch;
use crate::workspace::Workspace;

/// Where the references are committed, from the workspace's root. Every file in it is generated.
const REFERENCE: &str = "docs/reference";

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

/// Brings the committed references up to date.
fn write(workspace: &Workspace) -> Result<()> {
    let fresh = generate(workspace)?;
    let committed = workspace.root().join(REFERENCE);
    let differences = compare::compare(fresh.path(), &committed)?;
    compare::apply(&differences, fresh.path(), &committed)?;
    for (file, difference) in &differences {
        let done = if *difference == Difference::Surplus { "removed" } else { "wrote" };
        println!("{done} {REFERENCE}/{}", file.display());
    }
    if differences.is_empty() {
        println!("{REFERENCE} was up to date");
    }
    Ok(())
}

/// The tier `generated`: the committed references are what the program writes today.
pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    let fresh = generate(workspace)?;
    let differences = compare::compare(fresh.path(), &workspace.root().join(REFERENCE))?;
    for (file, difference) in &differences {
        println!("{}  {REFERENCE}/{}", difference.word(), file.display());
    }
    Ok(match differences.len() {
        0 => Outcome::of(true, format!("{REFERENCE} is up to date")),
        1 => Outcome::of(false, format!("1 file of {REFERENCE} is out of date: run `cargo xtask generate`")),
        many => Outcome::of(
            false,
            format!("{many} files of {REFERENCE} are out of date: run `cargo xtask generate`"),
        ),
    })
}

/// Has the program write the references into a fresh directory.
fn generate(workspace: &Workspace) -> Result<Scratch> {
    let scratch = Scratch::new("reference")?;
    let mut command = match trellis_from_environment() {
        Some(program) => Command::new(program),
        None => workspace.cargo(&["run", "--quiet", "--package", "trellis", "--"]),
    };
    command.current_dir(workspace.root());
    command.args(["internal", "generate-reference", "--out"]).arg(scratch.path());
    let said = process::capture(&mut command)?;
    if !said.success {
        return Err(Failure::new(format!(
            "`trellis internal generate-reference` failed:\n{}",
            said.stderr.trim_end()
        )));
    }
    if is_empty(scratch.path()) {
        return Err(Failure::new("`trellis internal generate-reference` succeeded but wrote no file"));
    }
    Ok(scratch)
}

/// True when nothing is in the directory.
fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

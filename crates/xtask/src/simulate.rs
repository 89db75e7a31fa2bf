//! `cargo xtask simulate`: the controllers in worlds where everything goes wrong that can.

use crate::failure::Result;
use crate::process;
use crate::workspace::Workspace;

/// The program, optimized, for there are hundreds of worlds.
const PROGRAM: &[&str] = &[
    "run",
    "--quiet",
    "--profile",
    "simulation",
    "--package",
    "trellis-simulation",
    "--bin",
    "simulate",
    "--",
];

/// Runs it with these arguments; false when it found something wrong.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    let mut command = workspace.cargo(PROGRAM);
    command.args(arguments);
    process::stream(&mut command)
}

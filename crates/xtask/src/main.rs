//! Developer chores, run as `cargo xtask <chore>`.

mod bench;
mod compare;
mod counts;
mod dependencies;
mod failure;
mod generate;
mod lab_facts;
mod outcome;
mod process;
mod real_parts;
mod scratch;
mod simulate;
mod suite;
mod table;
mod tiers;
mod tools;
mod trial;
mod workspace;

use std::env;
use std::process::ExitCode;

use failure::{Failure, Result};
use workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask <chore>

chores:
  test      [--only TIER,...] [--skip TIER,...] [--minutes N] [--list]
                                                           run the test suite, tier by tier
  generate  [--check]                                      write (or check) the generated references
  lab-facts [--check] [--server KUBECONFIG]                write (or check) the tables the lab is compiled with
  bench     [--only WORDS,...] [--quick] [--json PATH]      measure the release build
  simulate  [--core] [--scenario NAME] [--faults KIND] [--pairs] [--seeds N] [--plan LINE] [--list]
                                                           have everything go wrong that can, at every point
  real-parts                                               get the real Kubernetes the lab is compared with";

fn main() -> ExitCode {
    let arguments: Vec<String> =
        env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Runs the chore the arguments name; false when it ran and found something wrong.
fn run(arguments: &[String]) -> Result<bool> {
    let Some((chore, rest)) = arguments.split_first() else {
        return Err(Failure::new(format!("no chore given\n{USAGE}")));
    };
    match chore.as_str() {
        "test" => suite::run(&Workspace::find()?, rest),
        "generate" => generate::run(&Workspace::find()?, rest),
        "real-parts" => real_parts::run(&Workspace::find()?, rest),
        "lab-facts" => lab_facts::run(&Workspace::find()?, rest),
        "simulate" => simulate::run(&Workspace::find()?, rest),
        "bench" => bench::run(&Workspace::find()?, rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(true)
        }
        other => Err(Failure::new(format!("there is no chore `{other}`\n{USAGE}"))),
    }
}

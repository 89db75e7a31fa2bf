//! The tables of facts the lab is compiled with: read from the real programs, and checked against them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::failure::{Attempt as _, Failure, Result};
use crate::outcome::Outcome;
use crate::process;
use crate::scratch::Scratch;
use crate::workspace::Workspace;

const USAGE: &str = "usage: cargo xtask lab-facts [--check] [--server KUBECONFIG]";
/// Where the program that prints the facts is, from the workspace's root.
const REAL_PARTS: &str = "real-parts";
/// What is served: the only table that is read from a running server, and what the next ones start from.
const RESOURCES: &str = "crates/lab/data/resources.txt";
/// The other tables, with what the program is asked for each.
const TABLES: [(&str, &[&str]); 5] = [
    ("crates/lab/data/types.txt", &["types", "../crates/lab/data/resources.txt"]),
    ("crates/lab/data/kinds.txt", &["kinds", "../crates/lab/data/resources.txt"]),
    ("crates/lab/data/rbac.json", &["rbac"]),
    ("crates/lab/data/bootstrap.json", &["bootstrap"]),
    ("crates/lab/tests/facts/quantities.txt", &["quantities"]),
];

/// Runs the chore; true when all is well.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    let (mut checking, mut server) = (false, None);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--check" => checking = true,
            "--server" => server = Some(words.next().ok_or_else(|| Failure::new(USAGE))?.as_str()),
            _ => return Err(Failure::new(USAGE)),
        }
    }
    if checking {
        let outcome = check(workspace, server)?;
        println!("{}", outcome.words());
        return Ok(outcome.is_fine());
    }
    for table in outdated(workspace, server, true)? {
        println!("wrote {table}");
    }
    Ok(true)
}

/// Says whether the tables are what the real programs say today. The table of resources is only looked at when
/// there is a server to ask.
pub(crate) fn check(workspace: &Workspace, server: Option<&str>) -> Result<Outcome> {
    let outdated = outdated(workspace, server, false)?;
    Ok(if outdated.is_empty() {
        Outcome::of(true, "the facts of the lab are up to date".to_owned())
    } else {
        Outcome::of(false, format!("{} out of date: run `cargo xtask lab-facts`", outdated.join(", ")))
    })
}

/// The tables that differ from what the program prints; brought up to date when `write`.
fn outdated(workspace: &Workspace, server: Option<&str>, write: bool) -> Result<Vec<&'static str>> {
    let scratch = Scratch::new("facts")?;
    let program = scratch.path().join("facts");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg("./facts").env("GOFLAGS", "-buildvcs=false -mod=readonly");
    build.current_dir(workspace.root().join(REAL_PARTS));
    let said = process::capture(&mut build)?;
    if !said.success {
        return Err(Failure::new(format!(
            "the program that prints the facts does not build:\n{}",
            said.stderr
        )));
    }
    let mut outdated = Vec::new();
    let resources = server.map(|kubeconfig| (RESOURCES, vec!["resources", kubeconfig]));
    let others = TABLES.iter().map(|(table, question)| (*table, question.to_vec()));
    for (table, question) in resources.into_iter().chain(others) {
        let printed = ask(workspace, &program, &question)?;
        let path = workspace.root().join(table);
        if fs::read_to_string(&path).is_ok_and(|committed| committed == printed) {
            continue;
        }
        if write {
            fs::write(&path, printed).attempt(|| format!("write {table}"))?;
        }
        outdated.push(table);
    }
    Ok(outdated)
}

/// What the program prints.
fn ask(workspace: &Workspace, program: &Path, question: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(question).current_dir(workspace.root().join(REAL_PARTS));
    let said = process::capture(&mut command)?;
    if !said.success || said.stdout.is_empty() {
        return Err(Failure::new(format!(
            "`facts {}` failed: {}",
            question.join(" "),
            said.last_complaint()
        )));
    }
    Ok(said.stdout)
}

//! The commands in the README are run, and print what it says they print.
//!
//! `UPDATE_README=1 cargo test -p trellis --test readme` writes what they print now.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

const OPEN: &str = "```console\n";
const CLOSE: &str = "```\n";

/// What a command prints, errors first, in the repository with the binary on the path.
fn run(root: &Path, command: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_trellis")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let output =
        Command::new("sh").arg("-c").arg(command).current_dir(root).env("PATH", path).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    text(output.stderr) + &text(output.stdout)
}

#[test]
fn the_readme_shows_what_really_happens() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let mut shown = String::new();
    let mut rest = readme.as_str();
    let mut commands = 0;
    while let Some(at) = rest.find(OPEN) {
        let (before, block) = rest.split_at(at + OPEN.len());
        let (block, after) = block.split_at(block.find(CLOSE).unwrap());
        shown += before;
        let first = block.lines().next().unwrap();
        match first
            .strip_prefix("$ ")
            .filter(|command| command.contains("trellis ") && !command.contains("alias"))
        {
            Some(command) => {
                commands += 1;
                let printed = run(&root, command);
                let trimmed: Vec<&str> = printed.lines().map(str::trim_end).collect();
                shown += first;
                shown += "\n";
                shown += trimmed.join("\n").trim_end();
                shown += "\n";
            }
            None => shown += block,
        }
        rest = after;
    }
    shown += rest;
    assert!(commands >= 6, "only {commands} commands were found");
    if std::env::var_os("UPDATE_README").is_some() {
        std::fs::write(root.join("README.md"), shown).unwrap();
    } else {
        assert!(
            shown == readme,
            "the README does not show what happens; UPDATE_README=1 writes it anew:\n{shown}"
        );
    }
}

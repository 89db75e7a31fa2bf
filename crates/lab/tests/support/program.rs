//! Programs that end with the test that started them, however it ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::Result;

/// Runs a program until its standard input closes. The kernel closes it when the owner of the other end is
/// gone, even if that was killed, so that no server outlives its test.
const KEEPER: &str =
    r#"exec 3<&0; "$@" 3<&- & child=$!; { read -r _ <&3; kill -9 $child; } 2>&- & wait $child"#;

/// A running program, ended on drop.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    keeper: Child,
    /// Closing this ends the program.
    leash: Option<ChildStdin>,
    log: PathBuf,
}

impl Program {
    /// Starts `program`; what it prints goes to `log`.
    pub(crate) fn start(program: &Path, arguments: &[String], log: PathBuf) -> Result<Self> {
        let output = File::create(&log)?;
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let leash = keeper.stdin.take();
        Ok(Self { path: program.to_owned(), keeper, leash, log })
    }

    /// The id of the program's own process.
    pub(crate) fn process(&self) -> Result<u32> {
        let keeper = self.keeper.id();
        let children = std::fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children"))?;
        // The keeper's other child is the one that waits for the end.
        let own = |process: &str| {
            let runs = std::fs::read_link(format!("/proc/{process}/exe")).ok()?;
            (runs.file_name() == self.path.file_name()).then(|| process.parse().ok())?
        };
        children.split_whitespace().find_map(own).ok_or_else(|| "the program has ended".into())
    }

    /// True when the program has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.keeper.try_wait(), Ok(None))
    }

    /// The end of what the program printed.
    pub(crate) fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.leash.take());
        // The keeper ends right after its child; if it is gone already, so is the child.
        let _ = self.keeper.wait();
    }
}

//! Running other programs: streamed, captured, or against the clock.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::failure::{Attempt as _, Failure, Result};

/// What a captured program left behind.
#[derive(Debug)]
pub(crate) struct Captured {
    /// Whether it exited with zero.
    pub(crate) success: bool,
    /// Its standard output.
    pub(crate) stdout: String,
    /// Its standard error.
    pub(crate) stderr: String,
}

impl Captured {
    /// The last line the program complained with, for a one-line reason.
    pub(crate) fn last_complaint(&self) -> &str {
        self.stderr.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it gave no reason")
    }
}

/// The command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    command.get_args().fold(name, |line, argument| line + " " + &argument.to_string_lossy())
}

/// Says what it runs, and runs it with its output going straight to ours; true when it exits with zero.
pub(crate) fn stream(command: &mut Command) -> Result<bool> {
    let name = shown(command);
    println!("$ {name}");
    let status = command.status().attempt(|| format!("run `{name}`"))?;
    Ok(status.success())
}

/// Like [`stream`], and also hands every line of standard output to `see`.
pub(crate) fn stream_lines(command: &mut Command, mut see: impl FnMut(&str)) -> Result<bool> {
    let name = shown(command);
    println!("$ {name}");
    let mut child = command.stdout(Stdio::piped()).spawn().attempt(|| format!("run `{name}`"))?;
    let Some(pipe) = child.stdout.take() else {
        return Err(Failure::new(format!("cannot read the output of `{name}`")));
    };
    let mut reader = BufReader::new(pipe);
    let mut out = io::stdout().lock();
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).attempt(|| format!("read the output of `{name}`"))? > 0 {
        out.write_all(&line).and_then(|()| out.flush()).attempt(|| "write to standard output".to_owned())?;
        see(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    let status = child.wait().attempt(|| format!("wait for `{name}`"))?;
    Ok(status.success())
}

/// Runs `command` silently but for its standard error, of which every line is handed to `see`.
pub(crate) fn watch_errors(command: &mut Command, mut see: impl FnMut(&str)) -> Result<bool> {
    let name = shown(command);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = quiet.spawn().attempt(|| format!("run `{name}`"))?;
    let Some(pipe) = child.stderr.take() else {
        return Err(Failure::new(format!("cannot read the output of `{name}`")));
    };
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).attempt(|| format!("read the output of `{name}`"))? > 0 {
        see(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    let status = child.wait().attempt(|| format!("wait for `{name}`"))?;
    Ok(status.success())
}

/// Runs `command` to its end and keeps what it printed.
pub(crate) fn capture(command: &mut Command) -> Result<Captured> {
    let output = command.stdin(Stdio::null()).output().attempt(|| format!("run `{}`", shown(command)))?;
    Ok(Captured {
        success: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Runs `command` silently for at most `limit`; true when it exits with zero in time.
///
/// Meant for attempts that may fail, so a program that is missing counts as a failed attempt.
pub(crate) fn succeeds_within(command: &mut Command, limit: Duration) -> bool {
    const GLANCE: Duration = Duration::from_millis(50);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = quiet.spawn() else { return false };
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if start.elapsed() < limit => thread::sleep(GLANCE),
            Ok(None) | Err(_) => {
                // Either may find the process already gone, which is all we want.
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_program_is_given_up_on() {
        let start = Instant::now();
        assert!(!succeeds_within(Command::new("sleep").arg("30"), Duration::from_millis(100)));
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_missing_program_is_a_failed_attempt() {
        assert!(!succeeds_within(&mut Command::new("trellis-no-such-program"), Duration::from_secs(1)));
    }

    #[test]
    fn a_quick_program_succeeds_in_time() {
        assert!(succeeds_within(&mut Command::new("true"), Duration::from_secs(10)));
    }

    #[test]
    fn a_command_is_shown_without_its_directory() {
        assert_eq!(shown(Command::new("/opt/bin/cargo").args(["fmt", "--all"])), "cargo fmt --all");
    }

    #[test]
    fn lines_are_seen_while_streaming() {
        let mut seen = Vec::new();
        let ok =
            stream_lines(Command::new("printf").arg("a\\nb\\n"), |line| seen.push(line.to_owned())).unwrap();
        assert!(ok);
        assert_eq!(seen, ["a", "b"]);
    }
}

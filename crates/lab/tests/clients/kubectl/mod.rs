//! kubectl, as people and scripts use it.

mod apply;
mod auth;
mod create;
mod delete;
mod describe;
mod edit;
mod get;
mod nodes;
mod patch;
mod wait;
mod workloads;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::Suite;
use crate::context::{Cx, Run};
use crate::support::{Result, parts};
use crate::tools::Tool;

/// The minor versions of kubectl that Kubernetes supports with a server of 1.37.
const SUPPORTED: RangeInclusive<u32> = 36..=38;
/// How long one command may take.
const LIMIT: Duration = Duration::from_mins(2);

/// Lists the scenarios of a file.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        /// The scenarios of this file.
        pub(super) fn all() -> Vec<(&'static str, crate::context::Run)> {
            vec![$((stringify!($name), |cx| Box::pin(async move {
                $name(super::Kubectl::new(cx)?).await
            }))),*]
        }
    };
}
use scenarios;

/// All scenarios of kubectl.
pub(crate) fn suite() -> Suite {
    let files: [(&'static str, Vec<(&'static str, Run)>); 11] = [
        ("kubectl_apply", apply::all()),
        ("kubectl_auth", auth::all()),
        ("kubectl_create", create::all()),
        ("kubectl_delete", delete::all()),
        ("kubectl_describe", describe::all()),
        ("kubectl_edit", edit::all()),
        ("kubectl_get", get::all()),
        ("kubectl_nodes", nodes::all()),
        ("kubectl_patch", patch::all()),
        ("kubectl_wait", wait::all()),
        ("kubectl_workloads", workloads::all()),
    ];
    let scenarios = files
        .into_iter()
        .flat_map(|(file, all)| all.into_iter().map(move |(name, run)| (file, name, run)))
        .collect();
    Suite { scenarios, tool }
}

/// The kubectl of the real parts, or one of the machine that is made for such a server.
fn tool() -> &'static Tool {
    static TOOL: OnceLock<Tool> = OnceLock::new();
    TOOL.get_or_init(|| {
        let built = parts::find().map(|parts| parts.join("kubectl")).ok().filter(|program| program.is_file());
        let program = built.unwrap_or_else(|| PathBuf::from("kubectl"));
        match minor_version(&program) {
            Ok(minor) if SUPPORTED.contains(&minor) => Tool::Here(program),
            Ok(minor) => Tool::missing(format!(
                "kubectl here is 1.{minor}, too far from the server's 1.37: run `cargo xtask real-parts`"
            )),
            Err(failure) => {
                Tool::missing(format!("kubectl is not here: run `cargo xtask real-parts` ({failure})"))
            }
        }
    })
}

fn minor_version(program: &Path) -> Result<u32> {
    let output = std::process::Command::new(program).args(["version", "--client", "-o", "json"]).output()?;
    let said: Value = serde_json::from_slice(&output.stdout)?;
    let minor = said["clientVersion"]["minor"].as_str().unwrap_or_default();
    // Some vendors mark their builds, such as `37+`.
    Ok(minor.trim_end_matches('+').parse()?)
}

/// kubectl for one scenario: its namespace is the default, and its home is its own.
struct Kubectl {
    cx: Cx,
    program: PathBuf,
    home: tempfile::TempDir,
}

/// What a command said.
#[derive(Debug)]
struct Said {
    asked: String,
    success: bool,
    stdout: String,
    stderr: String,
}

/// A command that goes on until it is dropped.
struct Running {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Kubectl {
    fn new(cx: Cx) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("trellis-kubectl-").tempdir()?;
        Ok(Self { cx, program: tool().path()?.to_owned(), home })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["--namespace", &self.cx.ns])
            .args(words(line))
            .env_clear()
            .env("KUBECONFIG", &self.cx.target.kubeconfig)
            .env("HOME", self.home.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .current_dir(self.home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs a command line; single quotes keep words together.
    async fn run(&self, line: &str) -> Result<Said> {
        self.finish(line, self.command(line), "").await
    }

    /// Runs a command line with something to read.
    async fn feed(&self, line: &str, input: &str) -> Result<Said> {
        self.finish(line, self.command(line), input).await
    }

    /// Runs a command line with another environment.
    async fn run_with(&self, line: &str, variable: &str, value: &str) -> Result<Said> {
        let mut command = self.command(line);
        command.env(variable, value);
        self.finish(line, command, "").await
    }

    async fn finish(&self, line: &str, mut command: Command, input: &str) -> Result<Said> {
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that needs nothing may be gone before it has read anything.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let output = timeout(LIMIT, child.wait_with_output())
            .await
            .map_err(|_| format!("kubectl {line}: still running after {LIMIT:?}"))??;
        Ok(Said {
            asked: format!("kubectl {line}"),
            success: output.status.success(),
            stdout: String::from_utf8(output.stdout)?,
            stderr: String::from_utf8(output.stderr)?,
        })
    }

    /// What a command that has to succeed prints.
    async fn ok(&self, line: &str) -> Result<String> {
        Ok(self.run(line).await?.ok())
    }

    /// What a command that has to fail complains about.
    async fn fails(&self, line: &str) -> Result<String> {
        Ok(self.run(line).await?.fails())
    }

    /// What a command that has to succeed prints, given something to read.
    async fn ok_with(&self, line: &str, input: &str) -> Result<String> {
        Ok(self.feed(line, input).await?.ok())
    }

    /// An object or list as JSON.
    async fn json(&self, line: &str) -> Result<Value> {
        let text = self.ok(&format!("{line} -o json")).await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Starts a command that goes on.
    fn start(&self, line: &str) -> Result<Running> {
        let mut child = self.command(line).stderr(Stdio::inherit()).spawn()?;
        let stdout = child.stdout.take().ok_or("the command has no output")?;
        Ok(Running { _child: child, lines: BufReader::new(stdout).lines() })
    }

    /// Writes a file into the home of the scenario, and says where.
    fn file(&self, name: &str, text: &str) -> Result<String> {
        let path = self.home.path().join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    }
}

impl Said {
    #[track_caller]
    fn ok(self) -> String {
        assert!(self.success, "{} failed:\n{}{}", self.asked, self.stdout, self.stderr);
        self.stdout
    }

    #[track_caller]
    fn fails(self) -> String {
        assert!(!self.success, "{} succeeded:\n{}{}", self.asked, self.stdout, self.stderr);
        self.stderr
    }
}

impl Running {
    /// Waits for a line that contains `part`.
    async fn until(&mut self, part: &str) -> Result<String> {
        let mut seen = Vec::new();
        loop {
            let line = timeout(Duration::from_secs(30), self.lines.next_line())
                .await
                .map_err(|_| format!("no line with `{part}`, only {seen:?}"))??
                .ok_or_else(|| format!("it ended without a line with `{part}`: {seen:?}"))?;
            if line.contains(part) {
                return Ok(line);
            }
            seen.push(line);
        }
    }
}

/// Splits a command line; single quotes keep words together.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' | '\n' if !quoted => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// The words of each line of a table.
fn cells(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}

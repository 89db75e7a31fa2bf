//! The official Python client, with a script of ours.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::Suite;
use crate::context::Cx;
use crate::support::Result;
use crate::tools::{self, Tool};

/// How long one scenario may take.
const LIMIT: Duration = Duration::from_mins(3);
/// Names a Python that has the client, instead of the one in the user's cache.
const VARIABLE: &str = "TRELLIS_PYTHON";
/// The version of the package `kubernetes`.
const VERSION: &str = "37.0.2";

/// Lists the scenarios of the script.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        /// The scenarios of the script, by their names in it.
        pub(crate) fn suite() -> Suite {
            let scenarios: Vec<(_, _, crate::context::Run)> =
                vec![$(("python", stringify!($name), |cx| Box::pin(run(cx, stringify!($name))))),*];
            Suite { scenarios, tool }
        }
    };
}

scenarios![
    writes,
    refusals,
    patches,
    status_and_scale,
    pages,
    watches,
    watch_ends,
    bookmarks,
    custom_objects,
    dynamic,
    leases,
    leader_election,
    tokens,
    deletions,
    from_files,
];

/// A Python that has the client.
fn tool() -> &'static Tool {
    static TOOL: OnceLock<Tool> = OnceLock::new();
    TOOL.get_or_init(|| match python() {
        Ok(python) => Tool::Here(python),
        Err(failure) => Tool::missing(format!("the Python client is not here: {failure}")),
    })
}

/// The Python of the environment, or one in the user's cache into which the client is installed once.
fn python() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        return Ok(named.into());
    }
    let (folder, _lock) = tools::folder(&format!("python-client-{VERSION}"))?;
    let python = folder.join("bin/python");
    // Written last, so that an installation that was broken off is done again.
    let complete = folder.join("complete");
    if complete.is_file() && python.is_file() {
        return Ok(python);
    }
    let std = |program: &Path| std::process::Command::new(program);
    tools::run(std(Path::new("python3")).args(["-m", "venv", "--clear"]).arg(&folder))?;
    let wanted = format!("kubernetes=={VERSION}");
    tools::run(std(&python).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        &wanted,
    ]))?;
    std::fs::write(complete, VERSION)?;
    Ok(python)
}

async fn run(cx: Cx, name: &str) -> Result {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/client.py");
    let home = tempfile::Builder::new().prefix("trellis-python-").tempdir()?;
    let child = Command::new(tool().path()?)
        .arg(script)
        .arg(&cx.target.kubeconfig)
        .args([&cx.ns, &cx.group, name])
        .env("HOME", home.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = timeout(LIMIT, child.wait_with_output())
        .await
        .map_err(|_| format!("{name}: still running after {LIMIT:?}"))??;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{name} failed:\n{}", String::from_utf8_lossy(&said)).into())
}

//! The official Python client, with a script of ours.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::Suite;
use crate::context::Cx;
use crate::support::Result;
use crate::support::parts::cache;

/// How long one scenario may take.
const LIMIT: Duration = Duration::from_mins(3);
/// Names a Python that has the client, instead of the one in the user's cache.
const VARIABLE: &str = "TRELLIS_PYTHON";

/// Lists the scenarios of the script.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        /// The scenarios of the script, by their names in it.
        pub(crate) fn suite() -> Suite {
            let scenarios: Vec<(_, _, crate::context::Run)> =
                vec![$(("python", stringify!($name), |cx| Box::pin(run(cx, stringify!($name))))),*];
            let missing = python().err().map(|failure| format!("the Python client is not here: {failure}"));
            Suite { scenarios, missing }
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

/// Where a Python with the client is.
fn python() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        return Ok(named.into());
    }
    let python =
        cache().ok_or("there is no cache: set XDG_CACHE_HOME or HOME")?.join("python-client/bin/python");
    if python.is_file() {
        return Ok(python);
    }
    Err(format!("{} is missing; `cargo xtask test` installs it, or set {VARIABLE}", python.display()).into())
}

async fn run(cx: Cx, name: &str) -> Result {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/client.py");
    let home = tempfile::Builder::new().prefix("trellis-python-").tempdir()?;
    let child = Command::new(python()?)
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

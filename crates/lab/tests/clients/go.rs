//! client-go and controller-runtime, with a program of ours.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use libtest_mimic::Trial;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Child;
use tokio::time::timeout;
use trellis_lab::{Lab, Options};

use crate::context::{Cx, Run};
use crate::support::Result;
use crate::tools::{self, Tool};
use crate::{Suite, with};

/// How long one scenario may take.
const LIMIT: Duration = Duration::from_mins(4);

/// Lists the scenarios of the program.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        /// The scenarios of the program, by their names in it.
        pub(crate) fn suite() -> Suite {
            let scenarios: Vec<(_, _, Run)> =
                vec![$(("go", stringify!($name), |cx| Box::pin(run(cx, stringify!($name))))),*];
            Suite { scenarios, tool }
        }
    };
}

scenarios![informers, outage, election, manager, webhooks, dynamic, discovery, protobuf, apply, retrywatch];

/// The program, built by Go.
fn tool() -> &'static Tool {
    static TOOL: OnceLock<Tool> = OnceLock::new();
    TOOL.get_or_init(|| {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go");
        let go = |arguments: &[&str]| {
            let mut command = Command::new("go");
            command.args(arguments).current_dir(&sources);
            command
        };
        // Asks for everything the program is made of, so that what is missing is told from what is wrong.
        if let Err(failure) = tools::run(&mut go(&["list", "-mod=readonly", "-deps", "."])) {
            return Tool::missing(format!("the Go clients cannot be built here: {failure}"));
        }
        build(&go).map_or_else(
            |failure| Tool::Broken(format!("the Go clients do not build: {failure}")),
            Tool::Here,
        )
    })
}

/// Builds the program into the user's cache, where Go sees whether it is up to date.
fn build(go: &dyn Fn(&[&str]) -> Command) -> Result<PathBuf> {
    let (folder, _lock) = tools::folder("go-clients")?;
    let program = folder.join("go-clients");
    std::fs::create_dir_all(&folder)?;
    tools::run(go(&["build", "-mod=readonly", "-o"]).arg(&program).arg("."))?;
    Ok(program)
}

fn start(kubeconfig: &Path, namespace: &str, group: &str, name: &str) -> Result<Child> {
    let child = tokio::process::Command::new(tool().path()?)
        .arg(kubeconfig)
        .args([namespace, group, name])
        .env("KUBE_FEATURE_WatchListClient", "true")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    Ok(child)
}

async fn run(cx: Cx, name: &str) -> Result {
    let definition = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gardens.{}", cx.group);
    cx.delete_at_the_end(definition);
    let child = start(&cx.target.kubeconfig, &cx.ns, &cx.group, name)?;
    let output = timeout(LIMIT, child.wait_with_output())
        .await
        .map_err(|_| format!("{name}: still running after {LIMIT:?}"))??;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{name} failed:\n{}", String::from_utf8_lossy(&said)).into())
}

/// An informer of a lab that is started anew, after which it knows nothing of older versions.
pub(crate) fn restart() -> Trial {
    Trial::ignorable_test("lab::go::restart", || {
        with(tool(), || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            let outcome = runtime.block_on(async { timeout(LIMIT, survive_a_restart()).await });
            outcome.map_err(|_| format!("still running after {LIMIT:?}"))?
        })
    })
}

async fn survive_a_restart() -> Result {
    let directory = tempfile::Builder::new().prefix("trellis-go-").tempdir()?;
    let folder = directory.path().join("lab");
    let options = || Options { folder: Some(folder.clone()), ..Options::default() };
    let mut lab = Lab::start(options()).await?;
    let listening = lab.listen(0).await?;
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, listening.kubeconfig.expose())?;
    let mut child = start(&kubeconfig, "default", "restart.example.com", "restart")?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("it has no output")?).lines();
    let mut answers = child.stdin.take().ok_or("it has no input")?;
    let mut said = String::new();
    while let Some(line) = lines.next_line().await? {
        if line == "RESTART" {
            drop(lab);
            lab = until_started(options(), listening.address.port()).await?;
            answers.write_all(b"done\n").await?;
        } else {
            said.push_str(&line);
            said.push('\n');
        }
    }
    if child.wait().await?.success() {
        return Ok(());
    }
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said).await?;
    }
    Err(format!("restart failed:\n{said}").into())
}

/// Starts a lab on a folder and a port another one may still be about to leave.
async fn until_started(options: Options, port: u16) -> Result<Lab> {
    let mut last = None;
    for _ in 0..100 {
        let again = Options { folder: options.folder.clone(), ..Options::default() };
        match Lab::start(again).await {
            Ok(mut lab) => match lab.listen(port).await {
                Ok(_) => return Ok(lab),
                Err(failure) => last = Some(failure),
            },
            Err(failure) => last = Some(failure),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(last.map_or_else(|| "no attempt was made".into(), Into::into))
}

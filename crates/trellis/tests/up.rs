//! `trellis up` and `trellis down` as a person runs them: processes, real sockets, and a tenant cluster that stays.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a step that fails fails the test"
)]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};
use trellis_runtime::client::{Error, Manners};
use trellis_runtime::credentials::Source;
use trellis_runtime::{Key, Resource, Selection, Site};

const NODES: Resource = Resource::cluster("", "v1", "nodes", "Node");
const NOTES: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const MACHINES: Resource = Resource::namespaced("kubevirt.io", "v1", "virtualmachines", "VirtualMachine");

/// Each runs a whole infra cluster: one at a time is enough for a machine.
async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}

fn trellis(words: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trellis"));
    command.args(words).arg("--dir").arg(dir);
    command
}

fn ended(words: &[&str], dir: &Path) -> Output {
    trellis(words, dir).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A program that ends with its test.
struct Running {
    child: Child,
    progress: Receiver<String>,
    result: Receiver<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(dir: &Path) -> Self {
        let mut command = trellis(&["up"], dir);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let progress = lines(child.stderr.take().unwrap());
        let result = lines(child.stdout.take().unwrap());
        Self { child, progress, result }
    }

    /// Starts it and waits until the tenant cluster is there; with what it has said on the way.
    fn grown(dir: &Path) -> (Self, Vec<String>) {
        let running = Self::start(dir);
        let greeting =
            running.result.iter().find(|line| line.starts_with("The tenant cluster demo is there"));
        let told: Vec<String> = running.progress.try_iter().collect();
        let greeting = greeting.unwrap_or_else(|| panic!("{told:#?}"));
        assert!(greeting.contains("5 nodes"), "{greeting}");
        (running, told)
    }

    /// Ends it as Ctrl-C or `kill` do.
    fn stop(mut self) {
        let killed = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status().unwrap();
        assert!(killed.success() && self.child.wait().unwrap().success());
    }

    /// Ends it as a power cut does.
    fn cut(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

async fn site(path: &Path) -> Site {
    let source = Source::File { path: path.to_owned(), context: None };
    source.connect("test", Manners::default()).await.unwrap().site
}

async fn tenant(dir: &Path) -> Site {
    site(&dir.join("clusters/demo/auth/kubeconfig")).await
}

async fn ready_nodes(tenant: &Site) -> usize {
    let nodes: Vec<Value> = tenant.list(&NODES, &Selection::default()).await.unwrap();
    let is_ready = |node: &&Value| {
        let conditions = node["status"]["conditions"].as_array().unwrap();
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    nodes.iter().filter(is_ready).count()
}

async fn write(tenant: &Site, name: &str) -> Value {
    let note = json!({"metadata": {"name": name}, "data": {"said": name}});
    tenant.create::<Value>(&NOTES, "default", &note).await.unwrap()
}

async fn read(tenant: &Site, name: &str) -> Result<Value, Error> {
    tenant.get(&NOTES, &Key::new("default", name)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_command_grows_a_cluster_that_stays() {
    let _turn = turn().await;
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (running, told) = Running::grown(dir);
    // Whoever has the kubeconfigs in the folder gets in, over real sockets.
    let text = std::fs::read_to_string(dir.join("clusters/demo/auth/kubeconfig")).unwrap();
    let (api, infra) = (tenant(dir).await, site(&dir.join("infra/kubeconfig")).await);
    assert_eq!(ready_nodes(&api).await, 5);
    let machines: Vec<Value> = infra.list(&MACHINES, &Selection::namespace("demo")).await.unwrap();
    assert_eq!(machines.len(), 5, "the bootstrap machine is gone");
    let kept = write(&api, "kept").await;
    // It has said how far it was, and ends when it is told to.
    assert!(told.iter().any(|line| line.contains("machines are available")), "{told:?}");
    running.stop();

    // The next one has the same clusters with all that was in them; nothing is grown anew.
    let (running, told) = Running::grown(dir);
    assert!(!told.iter().any(|line| line.contains("certificates are made")), "{told:?}");
    let again = std::fs::read_to_string(dir.join("clusters/demo/auth/kubeconfig")).unwrap();
    assert_eq!(again, text, "who has the kubeconfig of before gets in, here and below");
    assert_eq!(ready_nodes(&api).await, 5);
    assert_eq!(read(&api, "kept").await.unwrap()["metadata"]["uid"], kept["metadata"]["uid"]);
    let later: Vec<Value> = infra.list(&MACHINES, &Selection::namespace("demo")).await.unwrap();
    let uids = |machines: &[Value]| -> Vec<Value> {
        machines.iter().map(|machine| machine["metadata"]["uid"].clone()).collect()
    };
    assert_eq!(uids(&later), uids(&machines));
    // What was acknowledged a moment before the power went is there too.
    let last = write(&api, "last").await;
    running.cut();
    let (running, _) = Running::grown(dir);
    assert_eq!(read(&api, "last").await.unwrap()["metadata"]["uid"], last["metadata"]["uid"]);
    assert_eq!(read(&api, "kept").await.unwrap()["data"]["said"], "kept");
    write(&api, "afterwards").await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_in_the_middle_it_goes_on() {
    let _turn = turn().await;
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    for moment in ["an infra cluster is up", "waiting for its API", "machines are available"] {
        let running = Running::start(dir);
        let told: Vec<String> = running
            .progress
            .iter()
            .take_while(|line| !line.contains(moment) && !line.contains("nodes are ready"))
            .collect();
        assert!(!told.iter().any(|line| line.starts_with("error")), "{told:?}");
        running.cut();
    }
    let output = ended(&["up", "--once", "--output", "json"], dir);
    assert!(output.status.success(), "{}", said(&output));
    let ready: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(ready["nodes"], 5);
    assert!(ready["seconds"].is_f64() && ready["infraRequests"].is_u64(), "{ready}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_background_until_it_is_told_to_end() {
    let _turn = turn().await;
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("home");
    let output = ended(&["up", "--detach"], &dir);
    assert!(output.status.success(), "{}", said(&output));
    let greeting = String::from_utf8_lossy(&output.stdout).into_owned();
    let pid = std::fs::read_to_string(dir.join("up.pid")).unwrap();
    assert!(greeting.contains(&format!("process {}", pid.trim())), "{greeting}");
    assert_eq!(ready_nodes(&tenant(&dir).await).await, 5);
    assert!(std::fs::read_to_string(dir.join("up.log")).unwrap().contains("nodes are ready"));
    // A second one is told who has the folder.
    for words in [&["up"][..], &["up", "--detach"]] {
        let output = ended(words, &dir);
        assert_eq!(output.status.code(), Some(5));
        assert!(
            said(&output).contains(pid.trim()) && said(&output).contains("trellis down"),
            "{}",
            said(&output)
        );
    }
    std::fs::write(dir.join("mine"), "stays").unwrap();
    let output = ended(&["down"], &dir);
    assert!(output.status.success() && said(&output).contains("stopped"), "{}", said(&output));
    assert!(dir.join("infra/kubeconfig").exists(), "all of it is kept");
    let output = ended(&["down", "--purge"], &dir);
    assert!(output.status.success() && said(&output).contains("nothing ran"), "{}", said(&output));
    let left: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(left, ["mine"]);
    assert_eq!(ended(&["down", "--purge"], &dir).status.code(), Some(8));
}

#[test]
fn what_cannot_work_is_said_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    for (words, wanted) in [
        (&["up", "--api-only"][..], "leave --api-only out"),
        (&["up", "--hosts", "0"], "--hosts"),
        (&["up", "--once", "--detach"], "--detach"),
        (&["up", "--timeout", "soon"], "--timeout"),
        (&["up", "--host-memory", "much"], "--host-memory"),
        (&["down", "--timeout", "soon"], "--timeout"),
    ] {
        let output = ended(words, &home);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(said(&output).contains(wanted), "{words:?}: {}", said(&output));
        assert!(!home.exists());
    }
    let output = ended(&["down"], &home);
    assert_eq!(output.status.code(), Some(8));
    assert!(said(&output).contains("is no folder of `trellis up`") && !home.exists());
}

#[test]
fn a_folder_with_somebody_elses_things_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let infra = folder.path().join("infra");
    std::fs::create_dir(&infra).unwrap();
    std::fs::write(infra.join("mine"), "mine").unwrap();
    for words in [&["up"][..], &["up", "--detach"]] {
        let output = ended(words, folder.path());
        assert_eq!(output.status.code(), Some(5));
        assert!(said(&output).contains("was not made by `trellis up`"), "{}", said(&output));
    }
    for words in [&["down"][..], &["down", "--purge"]] {
        assert_eq!(ended(words, folder.path()).status.code(), Some(8));
    }
    assert_eq!(std::fs::read_to_string(infra.join("mine")).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

//! What is shown while something goes on: lines in a pipe, a table that is drawn anew on a terminal.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use trellis_runtime::Key;
use trellis_runtime::client::Delete;

use crate::stage::{CONTROL, Lab, POOLS, eventually, pool};

/// A lab with a pool that nobody looks after.
async fn lab(folder: &std::path::Path) -> Lab {
    let lab = Lab::start(folder, "lab", &["--api-only"]).await;
    lab.install().await;
    lab.namespace(CONTROL).await;
    lab.site.create::<Value>(&POOLS, CONTROL, &pool("workers", 2)).await.unwrap();
    lab
}

/// Everything a program has said so far.
fn reading(mut from: impl std::io::Read + Send + 'static) -> Arc<Mutex<String>> {
    let said = Arc::new(Mutex::new(String::new()));
    let told = Arc::clone(&said);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            told.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    });
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_gets_a_line_for_every_change() {
    let folder = tempfile::tempdir().unwrap();
    let lab = lab(folder.path()).await;
    let mut command = lab.command(&["get", "pools", "--watch", "-o", "json"]);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let first = next();
    assert_eq!((&first["type"], &first["pool"]["desired"]), (&json!("changed"), &json!(2)), "{first}");
    lab.trellis(&["scale", "workers", "--replicas", "5"]).well();
    assert_eq!(next()["pool"]["desired"], 5);
    let key = Key::new(CONTROL, "workers");
    let there: Value = lab.site.get(&POOLS, &key).await.unwrap();
    lab.site.delete(&POOLS, &key, &Delete::uid(there["metadata"]["uid"].as_str().unwrap())).await.unwrap();
    let gone = next();
    assert_eq!((&gone["type"], &gone["pool"]["name"]), (&json!("gone"), &json!("workers")), "{gone}");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_shows_a_table_that_is_drawn_anew() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no `script` here, which gives a program a terminal");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = lab(folder.path()).await;
    let view = |colour: &str| {
        let line = format!(
            "stty cols 200 rows 30; {colour} exec {} get pools -w -n {CONTROL} --kubeconfig {}",
            env!("CARGO_BIN_EXE_trellis"),
            lab.kubeconfig.display()
        );
        let mut command = Command::new("script");
        command.args(["-qfc", &line, "/dev/null"]).env_remove("NO_COLOR").env("TERM", "xterm");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = reading(child.stdout.take().unwrap());
        (child, said)
    };
    let (mut child, said) = view("");
    let shows = async |text: &str| {
        eventually(text, async || said.lock().unwrap().contains(text).then_some(())).await;
    };
    shows("no controller has looked at it yet").await;
    shows("\x1b[2mNAME").await;
    lab.trellis(&["scale", "workers", "--replicas", "77"]).well();
    shows(" 77 ").await;
    // Two lines are gone over: the titles and the one pool.
    shows("\x1b[2A\r\x1b[J").await;
    // An interrupt ends it, and is no failure.
    child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert!(ended.success(), "{ended}");
    // Whoever wants no colours gets none, and the table is drawn anew all the same.
    let (mut child, said) = view("NO_COLOR=1");
    eventually("a table", async || said.lock().unwrap().contains("\x1b[2A\r\x1b[J").then_some(())).await;
    assert!(!said.lock().unwrap().contains("\x1b[2mNAME"));
    child.kill().unwrap();
    child.wait().unwrap();
}

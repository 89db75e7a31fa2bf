//! `trellis controller` as people start it: bad files, and two replicas on a lab that share its tenants.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn trellis() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trellis"));
    command.env_remove("KUBECONFIG").env_remove("OTEL_EXPORTER_OTLP_ENDPOINT").stdin(Stdio::null());
    command
}

fn controller(arguments: &[&str]) -> Output {
    trellis().arg("controller").args(arguments).output().unwrap()
}

#[test]
fn every_problem_of_a_file_of_tenants_is_told_before_anything_begins() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenants.yaml");
    std::fs::write(&file, "tenants:\n- cluster: Blue\n  namespace: x\n- cluster: red\n  famly: kkp\n")
        .unwrap();
    let output = controller(&["--tenants", file.to_str().unwrap()]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{told}");
    for part in ["tenants.yaml:2:12", "`famly`", "tenants.yaml:5:3", "`namespace`", "3 errors"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    let output = controller(&["--tenants", "/nowhere"]);
    assert_eq!(output.status.code(), Some(4));
    let output = controller(&["--otlp-endpoint", "collector", "--cluster", "blue"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && told.contains("no address of a collector"), "{told}");
}

/// A program that is ended with the test.
struct Running {
    child: Child,
    first: String,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        Self { child, first }
    }

    fn controller(kubeconfig: &Path) -> Self {
        let kubeconfig = kubeconfig.to_str().unwrap();
        Self::start(trellis().args(["controller", "--kubeconfig", kubeconfig, "--listen", "127.0.0.1:0"]))
    }

    /// What is served under a path.
    fn page(&self, path: &str) -> String {
        let address = self.first.rsplit(" on ").next().unwrap().trim().trim_end_matches('.');
        let mut stream =
            TcpStream::connect(address).unwrap_or_else(|error| panic!("{error}: {}", self.first));
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn tenants(&self) -> usize {
        let page = self.page("/metrics");
        let line = page.lines().find_map(|line| line.strip_prefix("trellis_tenants "));
        line.map_or(0, |count| count.parse().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Has Prometheus's own tool check the numbers, where it is installed.
fn accepted(page: &str) {
    let tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut tool) = tool else {
        eprintln!("skipped: promtool is not installed (Debian package prometheus)");
        return;
    };
    let (_, text) = page.split_once("\r\n\r\n").unwrap();
    tool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = tool.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

fn until(what: &str, mut check: impl FnMut() -> bool) {
    let began = Instant::now();
    while !check() {
        assert!(began.elapsed() < Duration::from_secs(90), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_share_the_tenants_of_a_lab() {
    let mut lab = trellis_lab::Lab::start(trellis_lab::Options::default()).await.unwrap();
    let listening = lab.listen(0).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, listening.kubeconfig.expose()).unwrap();
    let client = kube::Client::new(lab.service(), "default");
    let post = async |path: &str, body: &serde_json::Value| {
        for _ in 0..100 {
            let request = http::Request::post(path).header("content-type", "application/json");
            let request = request.body(serde_json::to_vec(body).unwrap()).unwrap();
            if client.request_text(request).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{path} does not take {body}");
    };
    for crd in trellis_api::trellis::crds() {
        post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await;
    }
    for number in 0..12 {
        let cluster = serde_json::json!({
            "apiVersion": "trellis.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {"name": format!("t{number}")}, "spec": {"platform": {"kubevirt": {}}},
        });
        post("/apis/trellis.dev/v1alpha1/namespaces/default/tenantclusters", &cluster).await;
    }
    let shared = tokio::task::spawn_blocking(move || {
        let one = Running::controller(&kubeconfig);
        assert!(one.first.contains("TenantClusters in all namespaces"), "{}", one.first);
        until("one serves all", || one.tenants() == 12);
        until("it is ready", || one.page("/readyz").starts_with("HTTP/1.1 200"));
        let phase = "trellis_machine_phase_seconds_count{tenant=\"default/t7\",phase=\"Joining\"} 0";
        until("numbers are told by tenant", || one.page("/metrics").contains(phase));
        let page = one.page("/metrics");
        let lease =
            "trellis_requests_total{site=\"control\",verb=\"create\",resource=\"leases.coordination.k8s.io\"";
        assert!(page.contains(lease), "no request for the Lease is counted");
        accepted(&page);
        let other = Running::controller(&kubeconfig);
        until("two share", || other.tenants() > 0 && one.tenants() + other.tenants() == 12);
        // It is killed without a word, and the other takes over.
        drop(one);
        until("the other takes over", || other.tenants() == 12);
        // Asked to, it ends by itself, and long before it would be given up on.
        let mut other = other;
        let asked = Instant::now();
        let process = other.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
        assert!(other.child.wait().unwrap().success());
        assert!(asked.elapsed() < Duration::from_secs(25), "it took {:?}", asked.elapsed());
    });
    shared.await.unwrap();
}

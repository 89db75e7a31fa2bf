//! `trellis machine-config-server` as a process, asked the way a machine asks.

#![expect(clippy::unwrap_used, reason = "the helpers of a test are a test")]

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use trellis_bootstrap::server::{folder, shared};
use trellis_bootstrap::site::{Member, Program};
use trellis_bootstrap::tokens::{Bearer, LONGEST, Redeemed};
use trellis_bootstrap::{Bundle, Site, now, pki};
use trellis_lab::{Lab, Options};
use trellis_model::names::MachineName;

/// The server, ended with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes a folder to serve from; gives the token of `m0`, and the authority to trust.
fn write_folder(path: &Path) -> (String, String) {
    let cluster = serde_json::from_value(json!({
        "name": "demo", "namespace": null,
        "spec": {"platform": {"kubevirt": {}}, "baseDomain": "svc.cluster.local"},
    }));
    let pool = serde_json::from_value(json!({
        "name": "masters", "namespace": null,
        "spec": {"cluster": "demo", "role": "control-plane", "template": {
            "shape": {"flavor": "standard-4"}, "image": {"os": "flatcar"}, "rootDisk": {"size": "20Gi"},
        }},
    }));
    let mut site = Site::new(cluster.unwrap(), vec![pool.unwrap()]);
    let machine = MachineName::new("m0").unwrap();
    site.masters = vec![Member::new(machine.clone())];
    site.sources.trellis =
        Some(Program { url: "https://example.com/trellis".to_owned(), sha256: "0".repeat(64) });
    let mut rng = rand::rng();
    let bundle = Bundle::new(&site.names, &mut rng, now()).unwrap();
    let opened = now();
    let bearer = Bearer::Machine { name: machine, pool: site.pools[0].name.clone() };
    let token = bundle.token_key().unwrap().issue(bearer, LONGEST, &mut rng, now());
    for (name, content) in folder::files(&site, &bundle, &Redeemed::opened(opened)) {
        std::fs::write(path.join(name), content.expose()).unwrap();
    }
    let authority = bundle.authority(pki::Authority::MachineConfig).unwrap().certificate.clone();
    (token.expose().to_owned(), authority)
}

/// Starts a server on a folder; where it listens.
fn serve(folder: &Path, more: &[&str]) -> (Server, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trellis"));
    command.args(["machine-config-server", "--listen", "127.0.0.1:0", "--output", "json"]).args(more);
    command.arg("--config").arg(folder).stdout(Stdio::piped());
    let mut server = Server(command.spawn().unwrap());
    let mut said = String::new();
    let mut lines = BufReader::new(server.0.stdout.take().unwrap());
    let address = loop {
        assert_ne!(lines.read_line(&mut said).unwrap(), 0, "{said}");
        if let Ok(value) = serde_json::from_str::<Value>(&said) {
            break value["address"].as_str().unwrap().parse().unwrap();
        }
    };
    (server, address)
}

/// Asks a server for the configuration of `m0`, as `trellis-fetch` does: what it answers, and with what.
fn ask(scratch: &Path, address: SocketAddr, token: &str, authority: &str) -> (String, Vec<u8>) {
    let (trusted, headers, fetched) =
        (scratch.join("ca.crt"), scratch.join("headers"), scratch.join("fetched"));
    std::fs::write(&trusted, authority).unwrap();
    std::fs::write(&headers, format!("Authorization: Bearer {token}\nTrellis-Machine: m0\n")).unwrap();
    let said = Command::new("curl")
        .args(["--silent", "--show-error", "--proto", "=https", "--write-out", "%{http_code}", "--cacert"])
        .arg(&trusted)
        .arg("--header")
        .arg(format!("@{}", headers.display()))
        .arg("--output")
        .arg(&fetched)
        .arg("--connect-to")
        .arg(format!("api-int.demo.svc.cluster.local:22623:{address}"))
        .arg("https://api-int.demo.svc.cluster.local:22623/config/master")
        .output()
        .unwrap();
    let code = String::from_utf8(said.stdout).unwrap() + &String::from_utf8_lossy(&said.stderr);
    (code, std::fs::read(&fetched).unwrap())
}

fn has_curl() -> bool {
    let has = Command::new("curl").arg("--version").output().is_ok();
    if !has {
        eprintln!("skipped: curl is not here");
    }
    has
}

#[test]
fn a_machine_is_served_once() {
    if !has_curl() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let (token, authority) = write_folder(scratch.path());
    let (_server, address) = serve(scratch.path(), &[]);
    let (code, body) = ask(scratch.path(), address, &token, &authority);
    assert_eq!(code, "200");
    let config: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(config["ignition"]["version"], "3.4.0");
    let refused = ("403".to_owned(), b"no\n".to_vec());
    assert_eq!(ask(scratch.path(), address, &token, &authority), refused);
}

/// The kubeconfig of whoever may do everything in a lab.
fn kubeconfig(lab: &Lab, address: SocketAddr) -> String {
    let own = lab.client_certificate("person", &["system:masters"]).unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {
            "server": format!("https://{address}"),
            "certificate-authority-data": STANDARD.encode(lab.authority_pem()),
        }}],
        "users": [{"name": "u", "user": {
            "client-certificate-data": STANDARD.encode(own.certificate),
            "client-key-data": STANDARD.encode(own.key.expose()),
        }}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    kubeconfig.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_that_share_a_ledger_one_serves_a_machine() {
    if !has_curl() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let (token, authority) = write_folder(scratch.path());
    let mut lab = Lab::start(Options::default()).await.unwrap();
    let address = lab.listen(0).await.unwrap().address;
    let path = scratch.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig(&lab, address)).unwrap();
    // Only the keys are on the disk; the rest is in the cluster.
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": shared::NAMESPACE, "name": shared::NAME}, "stringData": {},
    });
    for name in [folder::SITE, folder::LEDGER] {
        let file = scratch.path().join(name);
        secret["stringData"][name] = std::fs::read_to_string(&file).unwrap().into();
        std::fs::remove_file(file).unwrap();
    }
    let more = ["--shared-ledger", path.to_str().unwrap()];
    let servers = [serve(scratch.path(), &more), serve(scratch.path(), &more)];
    let (code, _) = ask(scratch.path(), servers[0].1, &token, &authority);
    assert_eq!(code, "503", "nothing is there to serve from");
    let client = kube::Client::new(lab.service(), "default");
    let url = format!("/api/v1/namespaces/{}/secrets", shared::NAMESPACE);
    let request = http::Request::post(url).header("content-type", "application/json");
    let request = request.body(secret.to_string().into_bytes()).unwrap();
    client.request::<Value>(request).await.unwrap();
    assert_eq!(ask(scratch.path(), servers[0].1, &token, &authority).0, "200");
    assert_eq!(ask(scratch.path(), servers[1].1, &token, &authority).0, "403", "the other one knows");
}

#[test]
fn a_folder_that_cannot_be_served_is_told() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_trellis"));
    let said = command.args(["machine-config-server", "--config"]).arg(scratch.path()).output().unwrap();
    assert_eq!(said.status.code(), Some(4));
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(text.contains("bundle.json: No such file"), "{text}");
}

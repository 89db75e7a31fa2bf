//! A real Kubernetes API server with its store and its controllers, on loopback, for the length of a test.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rcgen::KeyPair;

use super::Result;
use super::certificates::{Authority, Identity};
use super::client::{Client, Credentials};
use super::program::Program;
use super::target::{ALICE_TOKEN, Target};

/// How long the programs may take until they answer.
const PATIENCE: Duration = Duration::from_mins(2);

/// The controllers that act on what the API server stores, where the scenarios count on them. Controllers
/// of workloads are left out: nothing runs here, and they would only write into the objects under test.
const CONTROLLERS: &[&str] = &[
    "certificatesigningrequest-signing-controller",
    "clusterrole-aggregation-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "validatingadmissionpolicy-status-controller",
];

/// The controllers an infra cluster counts on beyond those of an API server alone.
pub(crate) const CLUSTER_CONTROLLERS: &[&str] = &[
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "endpointslice-mirroring-controller",
    "job-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-attach-detach-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
];

/// What an API server needs beyond its own controllers for machines to join it with a token.
pub(crate) const JOINING_CONTROLLERS: &[&str] =
    &["bootstrap-signer-controller", "certificatesigningrequest-approving-controller"];

/// The names the server is known by besides its address; the last one where machines join it.
const NAMES: &[&str] = &["kubernetes.default.svc", "api.blue.example"];

/// The running programs. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct RealCluster {
    // Dropped in this order: who depends on another goes first.
    _controllers: Program,
    _server: Program,
    _store: Program,
}

impl RealCluster {
    /// Starts the programs found in `parts` with all their files in `directory`, and waits until they serve.
    pub(crate) async fn start(directory: &Path, parts: &Path) -> Result<Target> {
        Self::start_with(directory, parts, &[]).await
    }

    /// The same with more controllers.
    pub(crate) async fn start_with(directory: &Path, parts: &Path, more: &[&str]) -> Result<Target> {
        let mut last = None;
        // The ports are free when they are looked for, and somebody else may take one before we do.
        for _ in 0..3 {
            match start_once(directory, parts, more).await {
                Ok(target) => return Ok(target),
                Err(failure) => last = Some(failure),
            }
        }
        Err(last.unwrap_or_else(|| "no attempt was made".into()))
    }
}

/// What the programs are started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Scenarios: objects need not outlive them, and they want to see history end.
    Scenarios,
    /// Measurements: every setting that costs something is the programs' own default.
    Measurements,
}

impl Purpose {
    fn pick<'a>(self, scenarios: &'a str, measurements: &'a str) -> &'a str {
        match self {
            Self::Scenarios => scenarios,
            Self::Measurements => measurements,
        }
    }
}

/// An API server and its store that were just started; they may not answer yet.
pub(crate) struct Launched {
    /// `https://host:port`.
    pub(crate) base: String,
    /// The certificate of the authority that vouches for the server, as PEM.
    pub(crate) authority: String,
    /// A member of `system:masters`.
    pub(crate) admin: Identity,
    pub(crate) server: Program,
    pub(crate) store: Program,
}

/// Starts an API server and its store with all their files in `directory`, which is emptied.
pub(crate) fn launch(directory: &Path, parts: &Path, purpose: Purpose) -> Result<Launched> {
    let _ = std::fs::remove_dir_all(directory);
    std::fs::create_dir_all(directory)?;
    let authority = Authority::new("real-ca")?;
    let admin = authority.client("admin", &["system:masters"])?;
    write_files(directory, &authority)?;
    admin.write(directory, "admin")?;
    let [client_port, peer_port, secure_port] = free_ports()?;
    let store = etcd_arguments(directory, client_port, peer_port, purpose);
    let server = server_arguments(directory, client_port, secure_port, purpose);
    Ok(Launched {
        base: format!("https://127.0.0.1:{secure_port}"),
        authority: authority.certificate,
        admin,
        store: start_part(directory, parts, "etcd", &store)?,
        server: start_part(directory, parts, "kube-apiserver", &server)?,
    })
}

fn start_part(directory: &Path, parts: &Path, name: &str, arguments: &[String]) -> Result<Program> {
    Program::start(&parts.join(name), arguments, directory.join(format!("{name}.log")))
}

async fn start_once(directory: &Path, parts: &Path, more: &[&str]) -> Result<Target> {
    let Launched { base, authority, admin, mut server, mut store } =
        launch(directory, parts, Purpose::Scenarios)?;
    let kubeconfig = write_kubeconfig(directory, &base, "admin")?;
    write_kubeconfig(directory, &base, "controllers")?;
    let target = |running: Option<RealCluster>| Target {
        name: "real",
        base: base.clone(),
        authority: authority.clone(),
        admin: Credentials::Certificate(admin.clone()),
        alice: Credentials::Token(ALICE_TOKEN.to_owned()),
        kubeconfig: kubeconfig.clone(),
        _running: Box::new(running),
    };
    let client = target(None).client(&Credentials::Certificate(admin.clone()))?;
    until_ready(&client, "/readyz", &mut [&mut store, &mut server]).await.map_err(|failure| {
        format!("{failure}\netcd:\n{}\nkube-apiserver:\n{}", store.last_words(), server.last_words())
    })?;
    let [controllers_port] = free_ports()?;
    let arguments = controllers_arguments(directory, controllers_port, more);
    let mut controllers = start_part(directory, parts, "kube-controller-manager", &arguments)?;
    // The default service account is the controllers' doing, so it tells that they are at work.
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    until_ready(&client, account, &mut [&mut server, &mut controllers])
        .await
        .map_err(|failure| format!("{failure}\nkube-controller-manager:\n{}", controllers.last_words()))?;
    Ok(target(Some(RealCluster { _controllers: controllers, _server: server, _store: store })))
}

/// Asks until the answer is 200, as long as the programs live.
async fn until_ready(client: &Client, path: &str, programs: &mut [&mut Program]) -> Result {
    let start = Instant::now();
    loop {
        let said = match client.get(path).await {
            Ok(answer) if answer.status == 200 => return Ok(()),
            Ok(answer) => answer.status.to_string(),
            Err(failure) => failure.to_string(),
        };
        if start.elapsed() > PATIENCE || programs.iter_mut().any(|program| program.has_ended()) {
            return Err(format!("{path} still answers {said}").into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Writes what the programs read: certificates, keys and tokens.
fn write_files(directory: &Path, authority: &Authority) -> Result {
    authority.identity().write(directory, "ca")?;
    authority.server("kube-apiserver", NAMES)?.write(directory, "server")?;
    authority.client("front-proxy", &[])?.write(directory, "proxy")?;
    // The controllers are no subject of any scenario, so they need no fine-grained rights.
    authority
        .client("system:kube-controller-manager", &["system:masters"])?
        .write(directory, "controllers")?;
    let accounts = KeyPair::generate()?;
    std::fs::write(directory.join("accounts.key"), accounts.serialize_pem())?;
    std::fs::write(directory.join("accounts.pub"), accounts.public_key_pem())?;
    std::fs::write(directory.join("tokens.csv"), format!("{ALICE_TOKEN},alice,alice-uid,\"devs\"\n"))?;
    Ok(())
}

fn write_kubeconfig(directory: &Path, base: &str, who: &str) -> Result<PathBuf> {
    let path = directory.join(format!("{who}.kubeconfig"));
    let file = |name: &str| directory.join(name).display().to_string();
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "real",
        "clusters": [{"name": "real", "cluster": {"server": base, "certificate-authority": file("ca.crt")}}],
        "users": [{"name": who, "user": {
            "client-certificate": file(&format!("{who}.crt")), "client-key": file(&format!("{who}.key")),
        }}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": who}}],
    });
    std::fs::write(&path, config.to_string())?;
    Ok(path)
}

/// Ports of loopback nobody listens on.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut listeners = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        // Kept until all are found, so that no port is found twice.
        listeners.push(listener);
    }
    Ok(ports)
}

fn etcd_arguments(directory: &Path, client: u16, peer: u16, purpose: Purpose) -> Vec<String> {
    let client = format!("http://127.0.0.1:{client}");
    let peer = format!("http://127.0.0.1:{peer}");
    flags(&[
        ("data-dir", &directory.join("etcd").display().to_string()),
        ("listen-client-urls", &client),
        ("advertise-client-urls", &client),
        ("listen-peer-urls", &peer),
        ("initial-advertise-peer-urls", &peer),
        ("initial-cluster", &format!("default={peer}")),
        ("unsafe-no-fsync", purpose.pick("true", "false")),
    ])
}

fn server_arguments(directory: &Path, store: u16, secure: u16, purpose: Purpose) -> Vec<String> {
    let file = |name: &str| directory.join(name).display().to_string();
    flags(&[
        ("etcd-servers", &format!("http://127.0.0.1:{store}")),
        ("etcd-compaction-interval", purpose.pick("30s", "5m")),
        ("bind-address", "127.0.0.1"),
        // Nobody goes there; but the server wants an address others could use.
        ("advertise-address", "192.0.2.1"),
        ("secure-port", &secure.to_string()),
        ("tls-cert-file", &file("server.crt")),
        ("tls-private-key-file", &file("server.key")),
        ("client-ca-file", &file("ca.crt")),
        ("token-auth-file", &file("tokens.csv")),
        ("enable-bootstrap-token-auth", "true"),
        ("service-account-issuer", "https://kubernetes.default.svc.cluster.local"),
        ("service-account-key-file", &file("accounts.pub")),
        ("service-account-signing-key-file", &file("accounts.key")),
        ("authorization-mode", "Node,RBAC"),
        ("allow-privileged", "true"),
        ("service-cluster-ip-range", "10.96.0.0/16"),
        ("proxy-client-cert-file", &file("proxy.crt")),
        ("proxy-client-key-file", &file("proxy.key")),
        ("requestheader-client-ca-file", &file("ca.crt")),
        ("requestheader-allowed-names", "front-proxy"),
        ("requestheader-username-headers", "X-Remote-User"),
        ("requestheader-group-headers", "X-Remote-Group"),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
    ])
}

fn controllers_arguments(directory: &Path, secure: u16, more: &[&str]) -> Vec<String> {
    let file = |name: &str| directory.join(name).display().to_string();
    flags(&[
        ("kubeconfig", &file("controllers.kubeconfig")),
        ("controllers", &[CONTROLLERS, more].concat().join(",")),
        ("bind-address", "127.0.0.1"),
        ("secure-port", &secure.to_string()),
        ("leader-elect", "false"),
        ("service-account-private-key-file", &file("accounts.key")),
        ("root-ca-file", &file("ca.crt")),
        ("cluster-signing-cert-file", &file("ca.crt")),
        ("cluster-signing-key-file", &file("ca.key")),
        ("kube-api-qps", "1000"),
        ("kube-api-burst", "2000"),
        ("concurrent-namespace-syncs", "20"),
    ])
}

fn flags(pairs: &[(&str, &str)]) -> Vec<String> {
    pairs.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}

//! The machine config server over real sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use trellis_bootstrap::pki::Authority;
use trellis_bootstrap::server::shared::{Shared, Shelf, Shelved};
use trellis_bootstrap::server::{Fixed, Memory, Pending, Server, Sightings, folder};
use trellis_bootstrap::tokens::{Bearer, LONGEST, Redeemed};
use trellis_bootstrap::{Bundle, Site};
use trellis_model::image::OperatingSystem;

use crate::site::{Known, Mode, name, now, rng, site};

/// A server with its ledger and its clock.
struct Running {
    address: SocketAddr,
    authority: String,
    site: Site,
    bundle: Bundle,
    time: Arc<Mutex<Timestamp>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    async fn start(os: OperatingSystem) -> Self {
        Self::serving(os, |_| {}).await
    }

    /// The same from a site that was changed.
    async fn serving(os: OperatingSystem, change: impl FnOnce(&mut Site)) -> Self {
        let Known { mut site, bundle, .. } = Known::at(site(os, Mode::Pod), Timestamp::now());
        // As the members serve it, which know no bootstrap machine.
        site.bootstrap = None;
        change(&mut site);
        let time = Arc::new(Mutex::new(Timestamp::now()));
        let ledger = Arc::new(Memory::new(Redeemed::opened(*time.lock())));
        let authority = bundle.authority(Authority::MachineConfig).unwrap().certificate.clone();
        let clock = Arc::clone(&time);
        let source = Arc::new(Fixed { site: site.clone(), bundle: bundle.clone() });
        let server = Server::new(source, ledger, Arc::new(move || *clock.lock()), Box::new(rng()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { drop(server.listen(listener).await) });
        Self { address, authority, site, bundle, time, task }
    }

    fn token(&self, machine: &str, pool: usize) -> String {
        let pool = self.site.pools[pool].name.clone();
        self.token_of(Bearer::Machine { name: name(machine), pool })
    }

    fn token_of(&self, bearer: Bearer) -> String {
        // Each is younger than the one before.
        *self.time.lock() += Duration::from_millis(1);
        let now = *self.time.lock();
        self.bundle.token_key().unwrap().issue(bearer, LONGEST, &mut rand::rng(), now).expose().to_owned()
    }

    async fn sightings(&self) -> Sightings {
        let bearer = format!("Bearer {}", self.token_of(Bearer::Keeper));
        let (code, body) =
            self.get("/served", &[("Authorization", &bearer), ("Trellis-Machine", "controller")]).await;
        assert_eq!(code, 200);
        serde_json::from_str(&body).unwrap()
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        self.ask("GET", path, headers).await
    }

    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        ask(self.address, &self.authority, method, path, headers).await.unwrap()
    }

    async fn configuration(&self, role: &str, machine: &str, token: &str) -> (u16, String) {
        let bearer = format!("Bearer {token}");
        self.get(&format!("/config/{role}"), &[("Authorization", &bearer), ("Trellis-Machine", machine)])
            .await
    }
}

async fn ask(
    address: SocketAddr,
    authority: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> std::io::Result<(u16, String)> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let host = ServerName::try_from("api-int.demo.svc.cluster.local").unwrap();
    let stream = TcpStream::connect(address).await?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(host, stream).await?;
    let headers: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let headers = headers.concat();
    stream.write_all(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    // The server closes without saying so when it has said all.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    Ok((head[9..12].parse().unwrap(), body.to_owned()))
}

#[tokio::test]
async fn a_machine_gets_its_configuration_once() {
    let running = Running::start(OperatingSystem::Flatcar).await;
    assert_eq!(running.get("/healthz", &[]).await, (200, "ok\n".to_owned()));
    let token = running.token("m1", 0);
    let (code, body) = running.configuration("master", "m1", &token).await;
    assert_eq!(code, 200);
    let config: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(config["ignition"]["version"], "3.4.0");
    assert!(body.contains("/etc/kubernetes/pki/etcd/peer.key"));
    // The same token again, and a new one: a machine that starts again is given one.
    assert_eq!(running.configuration("master", "m1", &token).await, (403, "no\n".to_owned()));
    let token = running.token("m1", 0);
    assert_eq!(running.configuration("master", "m1", &token).await.0, 200);
    // A worker that nobody knew when the cluster was made.
    let token = running.token("w7", 1);
    let (code, body) = running.configuration("worker", "w7", &token).await;
    assert_eq!(code, 200);
    assert!(body.contains("/etc/kubernetes/kubelet.conf") && !body.contains("ca.key"));
}

#[tokio::test]
async fn cloud_init_machines_get_cloud_init() {
    let running = Running::start(OperatingSystem::Debian).await;
    let token = running.token("w0", 1);
    let (code, body) = running.configuration("worker", "w0", &token).await;
    assert_eq!(code, 200);
    assert!(body.starts_with("#cloud-config\n{"), "{body}");
}

#[tokio::test]
async fn every_refusal_is_the_same() {
    let running = Running::start(OperatingSystem::Flatcar).await;
    let no = |code: u16| (code, "no\n".to_owned());
    assert_eq!(running.get("/config/master", &[]).await, no(401), "without a token");
    let token = running.token("m1", 0);
    let bearer = format!("Bearer {token}");
    let half = running.get("/config/master", &[("Authorization", &bearer)]).await;
    assert_eq!(half, no(401), "without saying who");
    assert_eq!(running.configuration("master", "m1", "wrong").await, no(403));
    assert_eq!(running.configuration("master", "m2", &token).await, no(403), "for another machine");
    assert_eq!(running.configuration("master", "m9", &token).await, no(403), "for a machine nobody knows");
    *running.time.lock() += LONGEST;
    assert_eq!(running.configuration("master", "m1", &token).await, no(403), "too late");
    let token = running.token("w1", 1);
    assert_eq!(running.configuration("master", "w1", &token).await, no(403), "a worker is no master");
    assert_eq!(running.ask("POST", "/config/master", &[]).await.0, 405);
    assert_eq!(running.ask("HEAD", "/config/master", &[]).await.0, 405);
    assert_eq!(running.get("/config/other", &[]).await.0, 404);
    assert_eq!(running.get("/", &[]).await.0, 404);
}

#[tokio::test]
async fn the_bootstrap_machine_serves_those_who_begin_and_uses_up_nobody_elses_token() {
    let bootstrap = site(OperatingSystem::Flatcar, Mode::Pod).bootstrap;
    let running = Running::serving(OperatingSystem::Flatcar, |site| site.bootstrap = bootstrap).await;
    let token = running.token("w0", 1);
    let later = (503, "not now\n".to_owned());
    assert_eq!(running.configuration("worker", "w0", &token).await, later);
    assert_eq!(running.configuration("worker", "w0", &token).await, later, "it is still good");
    let token = running.token("m9", 0);
    assert_eq!(running.configuration("master", "m9", &token).await, later, "it joins later");
    let token = running.token("m0", 0);
    assert_eq!(running.configuration("master", "m0", &token).await.0, 200);
}

#[tokio::test]
async fn who_looks_after_the_cluster_learns_who_was_served_and_nobody_else_does() {
    let running = Running::start(OperatingSystem::Flatcar).await;
    assert_eq!(running.get("/served", &[]).await.0, 401);
    let token = running.token("m0", 0);
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Trellis-Machine", "m0")];
    assert_eq!(running.get("/served", &headers).await, (403, "no\n".to_owned()), "a machine's token");
    let keeper = running.token_of(Bearer::Keeper);
    assert_eq!(running.configuration("master", "m0", &keeper).await.0, 403, "is no configuration's");
    assert_eq!(running.configuration("master", "m0", &token).await.0, 200);
    running.configuration("master", "m1", "wrong").await;
    let other = Bundle::new(&running.site.names, &mut rand::rng(), Timestamp::now()).unwrap();
    let authority = &other.authority(Authority::MachineConfig).unwrap().certificate;
    assert!(ask(running.address, authority, "GET", "/healthz", &[]).await.is_err());
    let seen = running.sightings().await;
    assert_eq!(seen.served.keys().collect::<Vec<_>>(), ["m0"]);
    assert_eq!(seen.refused["m1"].why, "its token is not one of this cluster's");
    assert!(seen.distrusted.unwrap().why.starts_with("TLS alert "));
}

#[tokio::test]
async fn refusals_are_slow_and_good_tokens_do_not_wait_for_them() {
    let running = Arc::new(Running::start(OperatingSystem::Flatcar).await);
    let start = Instant::now();
    let guesses: Vec<_> = (0..6)
        .map(|_| {
            let running = Arc::clone(&running);
            tokio::spawn(async move { running.configuration("master", "m1", "guess").await.0 })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let token = running.token("m2", 0);
    assert_eq!(running.configuration("master", "m2", &token).await.0, 200);
    let served = start.elapsed();
    for guess in guesses {
        assert_eq!(guess.await.unwrap(), 403);
    }
    assert!(start.elapsed() >= Duration::from_secs(1), "six refusals took {:?}", start.elapsed());
    assert!(served < start.elapsed());
}

#[tokio::test]
async fn only_the_right_authority_is_trusted() {
    let running = Running::start(OperatingSystem::Flatcar).await;
    let other = Bundle::new(&running.site.names, &mut rand::rng(), Timestamp::now()).unwrap();
    let authority = &other.authority(Authority::MachineConfig).unwrap().certificate;
    assert!(ask(running.address, authority, "GET", "/healthz", &[]).await.is_err());
}

fn shown(token: &str) -> http::HeaderMap {
    let mut headers = http::HeaderMap::new();
    headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    headers.insert("trellis-machine", "m0".parse().unwrap());
    headers
}

#[tokio::test]
async fn a_folder_remembers_what_was_used() {
    let Known { site, bundle, token, .. } = Known::new(site(OperatingSystem::Flatcar, Mode::Pod));
    let scratch = tempfile::tempdir().unwrap();
    for (name, content) in folder::files(&site, &bundle, &Redeemed::opened(now())) {
        std::fs::write(scratch.path().join(name), content.expose()).unwrap();
    }
    let start = || {
        let folder = Arc::new(folder::Folder::new(scratch.path()));
        Server::new(folder.clone(), folder, Arc::new(now), Box::new(rng()))
    };
    let headers = || shown(token.expose());
    start().check().unwrap();
    let get = http::Method::GET;
    assert_eq!(start().answer(&get, "/config/master", &headers()).await.status(), 200);
    // Another process, the same folder.
    assert_eq!(start().answer(&get, "/config/master", &headers()).await.status(), 403);
    std::fs::write(scratch.path().join(folder::LEDGER), "{").unwrap();
    assert_eq!(start().answer(&get, "/config/master", &headers()).await.status(), 503);
    std::fs::write(scratch.path().join(folder::BUNDLE), "{\"PRIVATE\"").unwrap();
    let told = start().check().unwrap_err().to_string();
    assert!(told.contains("bundle.json") && !told.contains("PRIVATE"), "{told}");
}

/// A Secret in memory, behind which everybody waits for everybody else before the first write.
struct Shelved3 {
    kept: Mutex<Option<Shelved>>,
    together: tokio::sync::Barrier,
    first: std::sync::atomic::AtomicUsize,
}

impl Shelf for Shelved3 {
    fn read(&self) -> Pending<'_, Result<Option<Shelved>, String>> {
        Box::pin(std::future::ready(Ok(self.kept.lock().clone())))
    }

    fn write<'s>(&'s self, ledger: String, version: &'s str) -> Pending<'s, Result<bool, String>> {
        Box::pin(async move {
            if self.first.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 3 {
                self.together.wait().await;
            }
            let mut kept = self.kept.lock();
            let kept = kept.as_mut().unwrap();
            if kept.version != version {
                return Ok(false);
            }
            (kept.ledger, kept.version) = (ledger, format!("{version}1"));
            Ok(true)
        })
    }
}

#[tokio::test]
async fn of_three_servers_one_accepts_a_token() {
    let Known { mut site, bundle, token, .. } = Known::new(site(OperatingSystem::Flatcar, Mode::Pod));
    site.bootstrap = None;
    let shelf = Arc::new(Shelved3 {
        kept: Mutex::new(None),
        together: tokio::sync::Barrier::new(3),
        first: std::sync::atomic::AtomicUsize::new(0),
    });
    let servers: Vec<Server> = (0..3)
        .map(|_| {
            let keys = Fixed { site: site.clone(), bundle: bundle.clone() };
            let shared = Arc::new(Shared::new(keys, shelf.clone()));
            Server::new(shared.clone(), shared, Arc::new(now), Box::new(rng()))
        })
        .collect();
    let get = http::Method::GET;
    let none = http::HeaderMap::new();
    assert_eq!(
        servers[0].answer(&get, "/healthz", &none).await.status(),
        503,
        "before it is told what to serve"
    );
    assert_eq!(servers[0].answer(&get, "/config/master", &shown(token.expose())).await.status(), 503);
    *shelf.kept.lock() = Some(Shelved {
        site: serde_json::to_string(&site).unwrap(),
        ledger: serde_json::to_string(&Redeemed::opened(now())).unwrap(),
        version: "1".to_owned(),
    });
    assert_eq!(servers[0].answer(&get, "/healthz", &none).await.status(), 200);
    let headers = shown(token.expose());
    let answers = [0, 1, 2].map(|number| servers[number].answer(&get, "/config/master", &headers));
    let [one, two, three] = answers;
    let (one, two, three) = tokio::join!(one, two, three);
    let mut codes = [one.status(), two.status(), three.status()];
    codes.sort();
    assert_eq!(codes.map(|code| code.as_u16()), [200, 403, 403]);
    assert_eq!(shelf.kept.lock().as_ref().unwrap().version, "11", "one was written");
    // Another one that opens later does not accept what those before may have accepted.
    let later = now() + Duration::from_secs(1);
    let ledger = Arc::new(Memory::new(Redeemed::opened(later)));
    let source = Arc::new(Fixed { site, bundle });
    let another = Server::new(source, ledger, Arc::new(move || later), Box::new(rng()));
    assert_eq!(another.answer(&get, "/config/master", &headers).await.status(), 403);
}

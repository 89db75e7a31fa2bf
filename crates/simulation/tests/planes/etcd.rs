//! The engine's client of etcd, with the same questions to the real one and to the emulated one.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use trellis_engine::etcd::{Credentials, Dial, Error, Etcd, Wire};
use trellis_simulation::Authority;

use crate::stage::Stage;

/// What both are asked: a cluster of one member, on a machine.
async fn asked(etcd: &Etcd, machine: &str, own_peer: &str) {
    let status = etcd.status(machine).await.unwrap();
    assert!(status.serves() && !status.learner && status.has_caught_up(), "{status:?}");
    let members = etcd.members(machine).await.unwrap();
    assert_eq!(members.len(), 1);
    assert_eq!((members[0].peer_urls.as_slice(), members[0].learner), (&[own_peer.to_owned()][..], false));
    assert!(!members[0].name.is_empty());
    // One that has not started yet is a member without a name.
    let url = "https://other.example:2380";
    let members = etcd.add_learner(machine, url).await.unwrap();
    let added = members.iter().find(|member| member.learner).unwrap();
    assert_eq!((added.name.as_str(), added.machine()), ("", Some("other")));
    let refused = |error: Error| match error {
        Error::Refused { code, message, .. } => (code, message),
        other => panic!("{other}"),
    };
    let twice = refused(etcd.add_learner(machine, url).await.unwrap_err());
    // Within one second the real one says so of the id that it derives from the URL and the time.
    assert!(twice.0 == 9 && twice.1.contains("already exist"), "{twice:?}");
    let second = refused(etcd.add_learner(machine, "https://third.example:2380").await.unwrap_err());
    assert_eq!(second, (9, "etcdserver: too many learner members in cluster".to_owned()));
    let early = refused(etcd.promote(machine, added.id).await.unwrap_err());
    assert_eq!(early.0, 9);
    assert!(early.1.contains("in sync with leader"), "{early:?}");
    let left = etcd.remove(machine, added.id).await.unwrap();
    assert_eq!(left.len(), 1);
    let again = refused(etcd.remove(machine, added.id).await.unwrap_err());
    assert_eq!(again, (5, "etcdserver: member not found".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn the_emulated_one_answers() {
    let stage = Stage::with(1).await;
    // Nobody else changes its members meanwhile.
    stage.stop_looking();
    let machine = stage.machines().await.remove(0);
    let own = format!("https://{machine}.{}:2380", crate::stage::DOMAIN);
    asked(&stage.etcd, &machine, &own).await;
}

/// Everything is on this machine.
struct Loopback(u16);

impl Dial for Loopback {
    fn dial<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, Result<Box<dyn Wire>, String>> {
        Box::pin(async move {
            let stream = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, self.0)).await;
            Ok(Box::new(stream.map_err(|error| error.to_string())?) as Box<dyn Wire>)
        })
    }
}

/// A process that ends with the test, and its folder.
struct Process(Child, PathBuf);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

/// The real etcd, as `cargo xtask real-parts` caches it or the environment names it.
fn real() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = variable("TRELLIS_REAL_PARTS") {
        return Some(folder.join("etcd")).filter(|path| path.is_file());
    }
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?;
    let folders = std::fs::read_dir(cache.join("trellis/real-parts")).ok()?;
    folders.flatten().map(|folder| folder.path().join("etcd")).find(|path| path.is_file())
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn the_real_one_answers_the_same() {
    let Some(program) = real() else {
        eprintln!("skipped: there is no real etcd here; `cargo xtask real-parts` builds it");
        return;
    };
    let authority = Authority::new("etcd-ca").unwrap();
    let server = authority.issue("m0", "", &["m0.etcd.test", "localhost", "127.0.0.1"]).unwrap();
    let client = authority.issue("trellis", "", &[]).unwrap();
    let (clients, peers) = (free_port(), free_port());
    let folder = std::env::temp_dir().join(format!("trellis-etcd-{}-{clients}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [
        ("ca.crt", &authority.pair.certificate),
        ("server.crt", &server.certificate),
        ("server.key", &server.key),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let file = |name: &str| folder.join(name).display().to_string();
    let (client_url, peer_url) =
        (format!("https://127.0.0.1:{clients}"), format!("http://127.0.0.1:{peers}"));
    let child = Command::new(program)
        .args(["--name", "m0", "--data-dir", &file("data"), "--client-cert-auth"])
        .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
        .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
        .args(["--initial-cluster", &format!("m0={peer_url}")])
        .args(["--trusted-ca-file", &file("ca.crt")])
        .args(["--cert-file", &file("server.crt"), "--key-file", &file("server.key")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _process = Process(child, folder.clone());
    let data = [
        ("ca.crt", authority.pair.certificate.clone()),
        ("tls.crt", client.certificate),
        ("tls.key", client.key),
    ];
    let data = data.map(|(key, text)| (key.to_owned(), text.into_bytes())).into();
    let credentials = Credentials::of_secret(&data).unwrap();
    let etcd = Etcd::new(Arc::new(Loopback(clients)), &credentials, "etcd.test").unwrap();
    let mut tries = 0;
    while !etcd.status("m0").await.is_ok_and(|status| status.serves()) {
        tries += 1;
        assert!(tries < 300, "it does not come up: {:?}", etcd.status("m0").await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    asked(&etcd, "m0", &peer_url).await;
    // Who is not named by the certificate is not believed.
    let stranger = etcd.status("m1").await.unwrap_err();
    assert!(matches!(stranger, Error::Unreachable { .. }), "{stranger}");
}

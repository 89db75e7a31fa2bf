//! The servers under load, each in processes of its own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::connection::{Body, Dialer};
use crate::support::Result;
use crate::support::certificates::Identity;
use crate::support::program::Program;
use crate::support::real::{self, Purpose};
use crate::usage::Usage;

/// How long a server may take until it is ready.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often it is asked whether it is.
const GLANCE: Duration = Duration::from_millis(2);

/// Which server, and where its programs are.
#[derive(Debug, Clone)]
pub(crate) enum Which {
    /// The program `trellis`.
    Lab(PathBuf),
    /// The directory with kube-apiserver and etcd.
    Real(PathBuf),
}

/// A running server. It ends when this is dropped.
pub(crate) struct Server {
    pub(crate) dialer: Dialer,
    /// A kubeconfig for a user with all rights.
    pub(crate) kubeconfig: PathBuf,
    /// The processes that do the work.
    pub(crate) processes: Vec<u32>,
    /// From the start of the first program until it said it was ready.
    pub(crate) ready: Duration,
    // The programs go before the directory they write to.
    _programs: Vec<Program>,
    _directory: TempDir,
}

impl Server {
    /// What its processes used until now.
    pub(crate) fn usage(&self) -> Result<Usage> {
        Usage::of(&self.processes)
    }
}

impl Which {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Lab(_) => "lab",
            Self::Real(_) => "real",
        }
    }

    /// Starts a server with an empty store, every write of which is safe on disk when it is answered.
    pub(crate) async fn start(&self) -> Result<Server> {
        // Beside this program, which is on a disk; the folder for temporary files may be in memory.
        let beside = std::env::current_exe()?;
        let beside = beside.parent().ok_or("this program is nowhere")?;
        let directory = tempfile::Builder::new().prefix("load-").tempdir_in(beside)?;
        match self {
            Self::Lab(program) => lab(program, directory).await,
            Self::Real(parts) => real_server(parts, directory).await,
        }
    }
}

async fn lab(program: &Path, directory: TempDir) -> Result<Server> {
    let folder = directory.path().join("lab");
    let arguments =
        ["lab".to_owned(), "--api-only".to_owned(), "--dir".to_owned(), folder.display().to_string()];
    let start = Instant::now();
    let mut running = Program::start(program, &arguments, directory.path().join("lab.log"))?;
    let kubeconfig = folder.join("kubeconfig");
    let dialer = loop {
        match std::fs::read_to_string(&kubeconfig) {
            Ok(text) => break read_kubeconfig(&text)?,
            Err(_) => wait(start, &mut [&mut running]).await?,
        }
    };
    until_ready(&dialer, start, &mut [&mut running]).await?;
    let ready = start.elapsed();
    Ok(Server {
        dialer,
        kubeconfig,
        processes: vec![running.process()?],
        ready,
        _programs: vec![running],
        _directory: directory,
    })
}

async fn real_server(parts: &Path, directory: TempDir) -> Result<Server> {
    let start = Instant::now();
    let real = real::launch(directory.path(), parts, Purpose::Measurements)?;
    let dialer = Dialer::new(&real.base, &real.authority, &real.admin)?;
    let kubeconfig = write_kubeconfig(directory.path(), &real)?;
    let (mut server, mut store) = (real.server, real.store);
    until_ready(&dialer, start, &mut [&mut server, &mut store]).await?;
    let ready = start.elapsed();
    Ok(Server {
        dialer,
        kubeconfig,
        processes: vec![server.process()?, store.process()?],
        ready,
        _programs: vec![server, store],
        _directory: directory,
    })
}

/// Writes a kubeconfig that has everything in it.
fn write_kubeconfig(directory: &Path, real: &real::Launched) -> Result<PathBuf> {
    let path = directory.join("load.kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "real",
        "clusters": [{"name": "real", "cluster": {
            "server": real.base, "certificate-authority-data": BASE64.encode(&real.authority),
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": BASE64.encode(&real.admin.certificate),
            "client-key-data": BASE64.encode(&real.admin.key),
        }}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
    });
    std::fs::write(&path, config.to_string())?;
    Ok(path)
}

/// Asks a server until it says it is ready.
async fn until_ready(dialer: &Dialer, start: Instant, programs: &mut [&mut Program]) -> Result {
    loop {
        if let Ok(mut connection) = dialer.dial().await
            && let Ok(200) = connection.exchange(Method::GET, "/readyz", Body::None).await
        {
            return Ok(());
        }
        wait(start, programs).await?;
    }
}

/// Waits a moment, as long as there is hope.
async fn wait(start: Instant, programs: &mut [&mut Program]) -> Result {
    for program in programs {
        if program.has_ended() || start.elapsed() > PATIENCE {
            return Err(format!("the server does not start:\n{}", program.last_words()).into());
        }
    }
    tokio::time::sleep(GLANCE).await;
    Ok(())
}

/// The ways into a server by a kubeconfig that has everything in it.
fn read_kubeconfig(text: &str) -> Result<Dialer> {
    let config: Value = serde_saphyr::from_str(text)?;
    let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
    let decoded = |value: &Value| -> Result<String> {
        Ok(String::from_utf8(BASE64.decode(value.as_str().unwrap_or_default())?)?)
    };
    let identity = Identity {
        certificate: decoded(&user["client-certificate-data"])?,
        key: decoded(&user["client-key-data"])?,
    };
    let base = cluster["server"].as_str().unwrap_or_default();
    Dialer::new(base, &decoded(&cluster["certificate-authority-data"])?, &identity)
}

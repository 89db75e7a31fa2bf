//! A lab: one API server, in this process, on a socket, or both.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::attributes::User;
use crate::auth::{self, Credential, PkiError, Secret};
use crate::clock::{self, Clock};
use crate::controllers::{self, Controllers};
use crate::faults::FaultPlan;
use crate::kinds::allocation::ServiceNetwork;
use crate::server::{Parts, Server};
use crate::service::{self, LabService};
use crate::store::{Retention, Store, StoreError};

/// Why a lab cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The folder cannot be used.
    #[error("cannot use the folder {folder}: {source}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Somebody else uses the folder.
    #[error("another lab runs in the folder {0}: stop it, or take another folder")]
    InUse(PathBuf),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Keys or certificates cannot be made or read.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// What every cluster begins with could not be stored.
    #[error("the first objects cannot be stored: {0}")]
    Bootstrap(String),
}

/// How a lab is set up.
#[derive(Debug)]
pub struct Options {
    /// Where everything is kept; without it the lab lives as long as the process.
    pub folder: Option<PathBuf>,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// Makes generated names, uids and choices repeatable.
    pub seed: Option<u64>,
    /// Who keeps objects in order.
    pub controllers: Controllers,
    /// Tokens that stand for users.
    pub tokens: Vec<(Secret, User)>,
    /// What goes wrong on purpose.
    pub faults: FaultPlan,
    /// How long the history that watches and pages need is kept.
    pub history: Retention,
    /// Names and addresses clients know the server by, beyond those of loopback and of every cluster.
    pub names: Vec<String>,
    /// The keys and certificates of a cluster that has them already; they go before those of the folder.
    pub pki: Option<auth::Given>,
    /// Where the addresses of Services are from. A store that was begun with another network keeps its ServiceCIDR.
    pub services: ServiceNetwork,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            folder: None,
            clock: clock::system(),
            seed: None,
            controllers: Controllers::Embedded,
            tokens: Vec::new(),
            faults: FaultPlan::default(),
            history: Retention::default(),
            names: Vec::new(),
            pki: None,
            services: ServiceNetwork::default(),
        }
    }
}

/// A running API server. It ends when this is dropped.
#[derive(Debug)]
pub struct Lab {
    server: Arc<Server>,
    tasks: tokio::task::JoinSet<()>,
}

/// Where a lab listens, and how an administrator gets in.
#[derive(Debug, Clone)]
pub struct Listening {
    /// The address.
    pub address: SocketAddr,
    /// A kubeconfig with all rights.
    pub kubeconfig: Secret,
}

impl Lab {
    /// Starts a lab. Has to be called inside a tokio runtime.
    pub async fn start(options: Options) -> Result<Self, LabError> {
        let (folder, which) = (options.folder, options.controllers);
        let parts = Parts {
            clock: options.clock,
            seed: options.seed,
            tokens: options.tokens,
            faults: options.faults,
            history: options.history,
            names: options.names,
            pki: options.pki,
            services: options.services,
        };
        let server = parts.built(folder).await?;
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(controllers::run(Arc::downgrade(&server), which));
        Ok(Self { server, tasks })
    }

    /// The server for code of this process, with all rights.
    pub fn service(&self) -> LabService {
        self.service_as(administrator())
    }

    /// The server for code of this process, in the name of a user.
    pub fn service_as(&self, user: User) -> LabService {
        LabService::new(Arc::clone(&self.server), user)
    }

    /// Puts a server of this process behind a service of the cluster: webhooks and API services that name it get
    /// their connections handed to `serve`, without TLS, whether or not the service has endpoints.
    pub fn mount<F, S>(&self, namespace: &str, name: &str, serve: F)
    where
        F: Fn(DuplexStream) -> S + Send + Sync + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let dock = Arc::new(move |stream| {
            // Ends with its connection, which ends with this server.
            tokio::spawn(serve(stream));
        });
        self.server.mount(namespace, name, dock);
    }

    /// The faults of this server.
    pub fn faults(&self) -> &FaultPlan {
        self.server.faults()
    }

    /// The objects of this server.
    pub fn store(&self) -> &Arc<Store> {
        self.server.store()
    }

    /// The certificate clients trust this server by.
    pub fn authority_pem(&self) -> String {
        self.server.authority_pem()
    }

    /// A certificate and key, as PEM, by which a client is the user with these groups.
    pub fn client_certificate(&self, user: &str, groups: &[&str]) -> Result<Credential, LabError> {
        Ok(self.server.client_certificate(user, groups)?)
    }

    /// A way in for connections that come from no socket.
    pub fn door(&self) -> Result<Door, LabError> {
        let tls = TlsAcceptor::from(Arc::new(auth::server_config(self.server.pki())?));
        Ok(Door { server: Arc::clone(&self.server), tls })
    }

    /// A way in that shows another certificate than the server's own: one of several servers of the same cluster.
    pub fn door_with(&self, serving: &Credential) -> Result<Door, LabError> {
        let tls = TlsAcceptor::from(Arc::new(auth::server_config_with(self.server.pki(), serving)?));
        Ok(Door { server: Arc::clone(&self.server), tls })
    }

    /// Listens on a loopback port; 0 picks a free one. Connections are served until the lab is dropped.
    pub async fn listen(&mut self, port: u16) -> Result<Listening, LabError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listening = |source| LabError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listening)?;
        let address = listener.local_addr().map_err(listening)?;
        self.server.reached_at(address);
        let tls = TlsAcceptor::from(Arc::new(auth::server_config(self.server.pki())?));
        self.tasks.spawn(service::accept(Arc::clone(&self.server), listener, tls));
        let kubeconfig = self.server.administrator_kubeconfig(&address)?;
        Ok(Listening { address, kubeconfig })
    }
}

/// Serves connections that come from anywhere but a socket, such as an emulated network. Clones serve the same lab.
#[derive(Clone)]
pub struct Door {
    server: Arc<Server>,
    tls: TlsAcceptor,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Door").finish_non_exhaustive()
    }
}

impl Door {
    /// Serves one connection to its end, with TLS, as one that came from a socket.
    pub async fn serve(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        if let Err(error) = service::connection(self.server, Box::new(stream), self.tls).await {
            tracing::debug!(%error, "a connection ended");
        }
    }
}

/// The user nothing is forbidden to.
fn administrator() -> User {
    User {
        name: "lab-admin".to_owned(),
        groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
        ..User::default()
    }
}

/// The right to use a folder, which one process has at a time; it ends with this.
#[derive(Debug)]
pub struct Claim {
    _held: std::fs::File,
}

/// Makes a folder that only its owner can use, and claims it. A folder that is there keeps its mode; the files in it
/// are private anyway.
pub fn claim_folder(folder: &Path) -> Result<Claim, LabError> {
    let failed = |source| LabError::Folder { folder: folder.to_owned(), source };
    auth::create_private_folder(folder).map_err(failed)?;
    let lock = auth::open_private_file(&folder.join("lock")).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(Claim { _held: lock }),
        Err(std::fs::TryLockError::WouldBlock) => Err(LabError::InUse(folder.to_owned())),
        Err(std::fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}

#[cfg(test)]
mod tests;

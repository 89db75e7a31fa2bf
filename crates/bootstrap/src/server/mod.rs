//! The machine config server: hands each machine its configuration, over TLS, for a token that works once.
//!
//! Whoever can reach the port learns nothing: there is no configuration without the token of a machine, and every
//! refusal looks the same. Refusals are answered at a bounded rate; machines with good tokens do not wait behind them.

pub mod folder;
pub mod shared;
mod sightings;
mod source;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use parking_lot::Mutex;
use rand::CryptoRng;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::LazyConfigAcceptor;
use trellis_model::image::FirstBoot;
use trellis_model::names::{MachineName, PoolName};
use trellis_model::pool::Role;

use crate::pki::Bundle;
use crate::render;
use crate::tokens::{Bearer, Refusal};
pub use sightings::{Sightings, Trouble};
pub use source::{Fixed, Ledger, Memory, Pending, Source};

/// The header in which a machine says who it is.
pub const MACHINE_HEADER: &str = "Trellis-Machine";

/// How many connections are served together; others wait.
const CONNECTIONS: usize = 128;
/// How long a connection may last.
const LONGEST: Duration = Duration::from_secs(30);
/// How long one may take to say what it wants.
const HEADERS: Duration = Duration::from_secs(5);
/// The time between two refusals, and how many may wait for theirs.
const BETWEEN_REFUSALS: Duration = Duration::from_millis(200);
const WAITING_REFUSALS: u32 = 50;

/// Where whoever looks after the cluster learns who was served.
pub const SIGHTINGS_PATH: &str = "/served";

/// Why the server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// What it serves from cannot be read.
    #[error("what to serve cannot be read: {0}")]
    Source(String),
    /// Its certificate cannot be used.
    #[error("the server's certificate cannot be used: {0}")]
    Certificate(String),
    /// The port cannot be listened on.
    #[error("cannot listen: {0}")]
    Listen(#[from] io::Error),
}

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The server. Copies are cheap and share everything.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

struct Shared {
    source: Arc<dyn Source>,
    ledger: Arc<dyn Ledger>,
    clock: Clock,
    rng: Mutex<Box<dyn CryptoRng + Send>>,
    places: Semaphore,
    next_refusal: Mutex<Instant>,
    sightings: Mutex<Sightings>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    /// A server of what a source knows, to whoever is in the ledger.
    pub fn new(
        source: Arc<dyn Source>,
        ledger: Arc<dyn Ledger>,
        clock: Clock,
        rng: Box<dyn CryptoRng + Send>,
    ) -> Self {
        let shared = Shared {
            source,
            ledger,
            clock,
            rng: Mutex::new(rng),
            places: Semaphore::new(CONNECTIONS),
            next_refusal: Mutex::new(Instant::now()),
            sightings: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Whether it could ever serve: there are certificates, and its own can be used. What else it needs may come later.
    pub fn check(&self) -> Result<(), ServeError> {
        self.tls().map(drop)
    }

    /// Serves whoever connects, for ever. Dropping the future ends it.
    pub async fn listen(&self, listener: TcpListener) -> Result<Infallible, ServeError> {
        self.check()?;
        loop {
            // The semaphore is never closed.
            let Ok(_place) = self.shared.places.acquire().await else { continue };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let server = self.clone();
                    tokio::spawn(async move { server.connection(stream).await });
                }
                // Out of file descriptors, most likely: some will be given back.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Serves one connection, of whatever kind.
    pub async fn connection(&self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let Ok(_place) = self.shared.places.acquire().await else { return };
        // Who takes too long, or hangs up in the middle, is nobody's trouble.
        let _ = tokio::time::timeout(LONGEST, async {
            let Ok(tls) = self.tls() else { return };
            let hello = LazyConfigAcceptor::new(Acceptor::default(), stream);
            let Ok(Ok(hello)) = tokio::time::timeout(HEADERS, hello).await else { return };
            let stream = match tokio::time::timeout(HEADERS, hello.into_stream(tls)).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return self.distrusted(&error),
                Err(_) => return,
            };
            let service = service_fn(|request: Request<hyper::body::Incoming>| async move {
                Ok::<_, Infallible>(
                    self.answer(request.method(), request.uri().path(), request.headers()).await,
                )
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(HEADERS)
                .max_buf_size(16 * 1024)
                .keep_alive(false);
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        })
        .await;
    }

    /// The certificate may have been renewed since the last connection. One that ends soon is signed anew here: masters
    /// have theirs from the day they were made, and the authority with it.
    fn tls(&self) -> Result<Arc<ServerConfig>, ServeError> {
        let mut bundle = self.shared.source.bundle().map_err(ServeError::Source)?;
        let bad = |what: &str| ServeError::Certificate(what.to_owned());
        let renewed = bundle.renew(&mut **self.shared.rng.lock(), (self.shared.clock)());
        renewed.map_err(|error| bad(&error.to_string()))?;
        let own = bundle.machine_config_server().map_err(|error| bad(&error.to_string()))?;
        let chain = CertificateDer::pem_slice_iter(own.certificate.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|_| bad("it is no PEM"))?;
        // The reason is left out: it could quote the key.
        let key = PrivateKeyDer::from_pem_slice(own.key.expose().as_bytes())
            .map_err(|_| bad("its key is no PEM"))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(&error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| bad(&error.to_string()))?;
        Ok(Arc::new(config))
    }

    /// Answers a request.
    pub async fn answer(&self, method: &Method, path: &str, headers: &HeaderMap) -> Response<Full<Bytes>> {
        if *method != Method::GET && *method != Method::HEAD {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        let wanted = match path {
            "/healthz" => return self.health().await,
            "/config/master" => Some(Role::ControlPlane),
            "/config/worker" => Some(Role::Worker),
            SIGHTINGS_PATH => None,
            _ => return plain(StatusCode::NOT_FOUND, "there is nothing here\n"),
        };
        // A question about a configuration uses up its token as the configuration itself does.
        if *method == Method::HEAD {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        let Some(claim) = claim(headers) else {
            tracing::warn!(path, "refused: no token, or no machine");
            return self.refused(StatusCode::UNAUTHORIZED).await;
        };
        let now = (self.shared.clock)();
        let machine = claim.machine;
        let why = match self.serve(wanted, &claim, now).await {
            Ok(response) => {
                tracing::info!(path, machine, "handed out");
                return response;
            }
            Err(why) => why,
        };
        match &why {
            No::Refused(refusal) => tracing::warn!(path, machine, "refused: {refusal}"),
            No::NotNow(why) => tracing::error!(path, machine, "not now: {why}"),
        }
        self.shared.sightings.lock().refuse(machine, why.to_string(), now);
        match why {
            No::Refused(_) => self.refused(StatusCode::FORBIDDEN).await,
            No::NotNow(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "not now\n"),
        }
    }

    /// Whether it serves now: also what is known of the cluster can be read.
    async fn health(&self) -> Response<Full<Bytes>> {
        if self.check().is_ok() && self.shared.source.site().await.is_ok() {
            plain(StatusCode::OK, "ok\n")
        } else {
            plain(StatusCode::SERVICE_UNAVAILABLE, "not ok\n")
        }
    }

    /// Gives what is asked for to whoever has a token for it.
    async fn serve(
        &self,
        wanted: Option<Role>,
        claim: &Claim<'_>,
        now: Timestamp,
    ) -> Result<Response<Full<Bytes>>, No> {
        let bundle = self.shared.source.bundle().map_err(No::NotNow)?;
        let key = bundle.token_key().map_err(|error| No::NotNow(error.to_string()))?;
        let statement = key.check(claim.token, now)?;
        match (wanted, &statement.bearer) {
            (Some(role), Bearer::Machine { name, pool }) if name.as_str() == claim.machine => {
                // What cannot be made must not use up the token.
                let response = self.configuration(bundle, pool, role, name, now).await?;
                self.shared.ledger.redeem(name, statement.issued, now).await?;
                self.shared.sightings.lock().serve(claim.machine, now);
                Ok(response)
            }
            (None, Bearer::Keeper) => {
                let seen = self.shared.sightings.lock().clone();
                let text = serde_json::json!(seen).to_string();
                Ok(response(StatusCode::OK, "application/json", text.into()))
            }
            _ => Err(Refusal::Another.into()),
        }
    }

    async fn configuration(
        &self,
        mut bundle: Bundle,
        pool: &PoolName,
        role: Role,
        machine: &MachineName,
        now: Timestamp,
    ) -> Result<Response<Full<Bytes>>, No> {
        let site = self.shared.source.site().await.map_err(No::NotNow)?;
        let not_here = |what: &str| No::NotNow(format!("{what} is not served here, or not yet"));
        let pool = site.pool(pool).ok_or_else(|| not_here(&format!("the pool {pool}")))?;
        if pool.spec.role != role {
            return Err(Refusal::Another.into());
        }
        if !site.serves(role, machine) {
            return Err(not_here(&format!("the machine {machine}")));
        }
        let config = {
            let mut rng = self.shared.rng.lock();
            let config = render::machine(&site, &mut bundle, pool, machine, &mut **rng, now);
            config.map_err(|error| No::NotNow(error.to_string()))?
        };
        let os = pool.spec.template.image.os;
        let kind = match os.first_boot() {
            FirstBoot::Ignition => "application/vnd.coreos.ignition+json",
            FirstBoot::CloudInit => "text/cloud-config",
        };
        let body = render::user_data(os, &config).expose().to_owned();
        Ok(response(StatusCode::OK, kind, body.into()))
    }

    /// Remembers who had greeted us and hung up when it was shown our certificate. Some say why.
    fn distrusted(&self, error: &io::Error) {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        let why = match cause {
            Some(rustls::Error::AlertReceived(alert)) => format!("TLS alert {alert:?}"),
            _ => "it hung up without a word".to_owned(),
        };
        let now = (self.shared.clock)();
        self.shared.sightings.lock().distrust(why, now);
    }

    /// A refusal, when its turn has come. They all look alike.
    async fn refused(&self, code: StatusCode) -> Response<Full<Bytes>> {
        let turn = {
            let mut next = self.shared.next_refusal.lock();
            let now = Instant::now();
            let turn = (*next).max(now);
            if turn > now + BETWEEN_REFUSALS * WAITING_REFUSALS {
                return plain(StatusCode::TOO_MANY_REQUESTS, "no\n");
            }
            *next = turn + BETWEEN_REFUSALS;
            turn
        };
        tokio::time::sleep_until(turn).await;
        plain(code, "no\n")
    }
}

/// Why nothing is handed out.
#[derive(Debug, thiserror::Error)]
enum No {
    /// Whoever asks has no right to it.
    #[error(transparent)]
    Refused(Refusal),
    /// It may be had later.
    #[error("{0}")]
    NotNow(String),
}

impl From<Refusal> for No {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::OutOfOrder(_) => Self::NotNow(refusal.to_string()),
            other => Self::Refused(other),
        }
    }
}

/// What a machine shows.
struct Claim<'h> {
    /// Who it says it is.
    machine: &'h str,
    /// The token it shows.
    token: &'h str,
}

/// What a machine shows in its headers, if it shows anything.
fn claim(headers: &HeaderMap) -> Option<Claim<'_>> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let token = text(header::AUTHORIZATION.as_str())?.strip_prefix("Bearer ")?;
    Some(Claim { machine: text(MACHINE_HEADER)?, token })
}

fn plain(code: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    response(code, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn response(code: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

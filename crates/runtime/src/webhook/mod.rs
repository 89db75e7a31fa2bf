//! Webhooks: questions of an API server, answered over TLS with a certificate that may change at any time.

mod own;
mod tls;

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use own::{OwnAuthority, keep_trusted};
pub use tls::{Identity, Keys};

/// The largest question: two objects of the largest size a server stores, and what is around them.
pub const LARGEST: usize = 4 << 20;
/// How many are asked at a time.
const TOGETHER: usize = 256;
/// How long greeting and asking may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a webhook cannot be served. The texts hold nothing of keys.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The address is taken.
    #[error("the webhook cannot listen: {0}")]
    Listen(#[from] std::io::Error),
    /// There is no certificate where it should be.
    #[error("{path} cannot be read: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// What is there is no certificate, or its key does not fit.
    #[error("{0} does not hold a certificate and its key")]
    Certificate(String),
    /// A certificate cannot be made, or not be shown.
    #[error("a certificate cannot be made")]
    Make,
    /// The Secret with it cannot be read or written, or the configuration of the webhook cannot be.
    #[error("the server refuses: {0}")]
    Site(#[from] crate::client::Error),
}

/// What answers: the path and the question in, the answer out; nothing for what is no question.
pub type Answer = fn(&str, &Value) -> Option<Value>;

/// A webhook that can be asked.
pub struct Webhook {
    listener: TcpListener,
    keys: Arc<Keys>,
    acceptor: TlsAcceptor,
    answer: Answer,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Webhook").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Webhook {
    /// Listens on an address, with these keys.
    pub async fn listen(address: SocketAddr, keys: Arc<Keys>, answer: Answer) -> Result<Self, WebhookError> {
        let acceptor = TlsAcceptor::from(tls::server_config(Arc::clone(&keys))?);
        Ok(Self { listener: TcpListener::bind(address).await?, keys, acceptor, answer })
    }

    /// Where.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` says so.
    pub async fn run(self, stop: &CancellationToken) {
        let places = Arc::new(Semaphore::new(TOGETHER));
        let mut connections = JoinSet::new();
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            tokio::select! {
                () = stop.cancelled() => return,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        self.keys.look_again();
                        let (acceptor, answer) = (self.acceptor.clone(), self.answer);
                        connections.spawn(async move {
                            let _place = place;
                            if let Ok(Ok(stream)) = timeout(PATIENCE, acceptor.accept(stream)).await {
                                serve(stream, answer).await;
                            }
                        });
                    }
                    // Out of file descriptors, most likely: some will be given back.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
            }
        }
    }
}

/// Answers what is asked on one connection, which is private already.
pub async fn serve(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, answer: Answer) {
    let service = service_fn(move |request: Request<Incoming>| async move {
        let response = match timeout(PATIENCE, reply(request, answer)).await {
            Ok(response) => response,
            Err(_) => plain(StatusCode::REQUEST_TIMEOUT, "it took too long\n"),
        };
        Ok::<_, Infallible>(response)
    });
    // Who hangs up in the middle is nobody's trouble.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

async fn reply(request: Request<Incoming>, answer: Answer) -> Response<Full<Bytes>> {
    if request.method() != Method::POST {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only POST\n");
    }
    let path = request.uri().path().to_owned();
    let Ok(body) = Limited::new(request.into_body(), LARGEST).collect().await else {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "the question is too large\n");
    };
    let body = body.to_bytes();
    // Reading an object takes its time, and others wait.
    let answered = tokio::task::spawn_blocking(move || {
        let asked: Value = serde_json::from_slice(&body).ok()?;
        answer(&path, &asked)
    });
    let Ok(Some(answered)) = answered.await else {
        return plain(StatusCode::BAD_REQUEST, "this is not a question that is answered here\n");
    };
    let mut response = Response::new(Full::from(answered.to_string()));
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn plain(code: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = code;
    response
}

//! The server as a `tower` service, and on a socket.

mod gathered;
mod lingering;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Body as HttpBody;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::api::reply::Body;
use crate::attributes::User;
use crate::server::{Peer, Server, handle};

use gathered::Gathered;
use lingering::Lingering;

/// How many requests one HTTP/2 connection may have open.
const STREAMS: u32 = 2_000;
/// How much a client may send, and we may hold for it, before it is asked to wait.
const WINDOW: u32 = 1 << 20;

/// How large the headers and the URL of a request may be, as in Go.
const HEADERS: u32 = 1 << 20;

/// A server for requests of this process, made in the name of one user.
///
/// It is a `tower::Service` over HTTP requests: `kube::Client::new(lab.service(), "default")` is a client with
/// no socket in between.
#[derive(Debug, Clone)]
pub struct LabService {
    server: Arc<Server>,
    peer: Arc<Peer>,
}

impl LabService {
    pub(crate) fn new(server: Arc<Server>, user: User) -> Self {
        Self { server, peer: Arc::new(Peer::Process(user)) }
    }
}

impl<B> tower::Service<Request<B>> for LabService
where
    B: HttpBody + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(handle(&self.server, &self.peer, request).map(Ok))
    }
}

/// Accepts connections until the task is dropped, and with it all of them. Boxed for the sake of whoever compiles us.
pub(crate) fn accept(server: Arc<Server>, listener: TcpListener, tls: TlsAcceptor) -> BoxFuture<'static, ()> {
    Box::pin(accept_all(server, listener, tls))
}

async fn accept_all(server: Arc<Server>, listener: TcpListener, tls: TlsAcceptor) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Only forgets the ones that are over.
            Some(_) = connections.join_next() => continue,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Too many open files and the like: others may finish meanwhile.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            }
        };
        let (server, tls) = (Arc::clone(&server), tls.clone());
        connections.spawn(async move {
            // Answers are written whole; waiting for more only delays them.
            let served = match stream.set_nodelay(true) {
                Ok(()) => serve(server, stream, tls).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = served {
                tracing::debug!(%error, %from, "a connection ended");
            }
        });
    }
}

/// What a connection is made of.
pub(crate) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Bytes for S {}

/// Serves one connection that comes from anywhere.
pub(crate) fn connection(
    server: Arc<Server>,
    stream: Box<dyn Bytes>,
    tls: TlsAcceptor,
) -> BoxFuture<'static, Result<(), Box<dyn std::error::Error + Send + Sync>>> {
    Box::pin(serve(server, stream, tls))
}

/// Serves one connection.
async fn serve(
    server: Arc<Server>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    tls: TlsAcceptor,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let stream = tls.accept(stream).await?;
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = (!certificates.is_empty()).then(|| server.peer(certificates));
    let peer = Arc::new(Peer::Network(peer));
    let service = hyper::service::service_fn(move |request| {
        handle(&server, &peer, Lingering::wrap(request)).map(Ok::<_, Infallible>)
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http2()
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW * 4)
        .max_header_list_size(HEADERS);
    // HTTP/1.1 puts the answers of a connection together by itself.
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        return builder.serve_connection_with_upgrades(TokioIo::new(Gathered::new(stream)), service).await;
    }
    builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await
}

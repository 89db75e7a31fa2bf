//! Clients that speak HTTP on streams of an emulated network, for what needs a connection of its own.

use std::io::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tower::Layer as _;

use crate::failure::{Failure, Result};

/// A stream of bytes in both directions.
pub(crate) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// How a client comes by its connections.
pub(crate) type Dial = Arc<dyn Fn() -> BoxFuture<'static, Result<Box<dyn Bytes>, Error>> + Send + Sync>;

/// A client with the credentials of a kubeconfig, over connections of its own.
pub(crate) async fn client(kubeconfig: &str, dial: Dial) -> Result<kube::Client> {
    let told = |error: &dyn std::fmt::Display| Failure::Client(error.to_string());
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(|error| told(&error))?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| told(&error))?;
    let connector =
        config.rustls_https_connector_with_connector(Connector(dial)).map_err(|error| told(&error))?;
    let http = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let http = tower::util::MapErr::new(http, tower::BoxError::from);
    let service = tower::util::option_layer(config.auth_layer().map_err(|error| told(&error))?).layer(http);
    Ok(kube::Client::new(config.base_uri_layer().layer(service), "default"))
}

#[derive(Clone)]
struct Connector(Dial);

impl tower::Service<Uri> for Connector {
    type Response = Wire;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Wire, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let dialing = (self.0)();
        Box::pin(async move { Ok(Wire(TokioIo::new(dialing.await?))) })
    }
}

struct Wire(TokioIo<Box<dyn Bytes>>);

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        poller: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.get_mut().0).poll_read(poller, buffer)
    }
}

impl Write for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        poller: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, Error>> {
        Pin::new(&mut self.get_mut().0).poll_write(poller, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, poller: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.get_mut().0).poll_flush(poller)
    }

    fn poll_shutdown(self: Pin<&mut Self>, poller: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(poller)
    }
}

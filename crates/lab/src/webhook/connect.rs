//! Opening connections.

use std::sync::Arc;

use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::failure::CallError;
use super::{Body, trust};

/// The address to dial, the name the server's certificate has to show, and whether to use TLS.
pub(super) fn of_url(url: &str) -> Result<(String, String, bool), CallError> {
    let bad = |why: &str| CallError::Other(format!("Unparsable URL: {why}"));
    let uri: http::Uri = url.parse().map_err(|error: http::uri::InvalidUri| bad(&error.to_string()))?;
    let secure = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(bad("the scheme is neither http nor https")),
    };
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| bad("no host"))?;
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    Ok((format!("{host}:{port}"), bare.to_owned(), secure))
}

/// Connects to `address` (a host and a port) and speaks HTTP/1.1.
pub(super) async fn open(
    address: &str,
    name: &str,
    tls: Option<Arc<ClientConfig>>,
) -> Result<SendRequest<Body>, CallError> {
    let stream = TcpStream::connect(address).await.map_err(|error| CallError::of_dial(address, &error))?;
    // Small requests are sent whole; waiting for more only delays them.
    stream.set_nodelay(true).map_err(|error| CallError::Other(error.to_string()))?;
    match tls {
        None => handshake(stream).await,
        Some(config) => {
            let server = ServerName::try_from(name.to_owned())
                .map_err(|_| CallError::Other(format!("tls: {name} is no name of a server")))?;
            let stream = TlsConnector::from(config)
                .connect(server, stream)
                .await
                .map_err(|error| trust::told(&error, name))?;
            handshake(stream).await
        }
    }
}

/// Speaks HTTP/1.1 on a connection.
pub(super) async fn handshake<S>(stream: S) -> Result<SendRequest<Body>, CallError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| CallError::of_hyper(&error))?;
    // Drives the connection for as long as its sender or an upgrade of it lives.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a webhook ended");
        }
    });
    Ok(sender)
}

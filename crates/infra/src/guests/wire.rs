//! HTTP of guests: over the fabric, never over this machine's own network.

use std::io::{Error, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Poller, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::ignition::Fetch;
use crate::network::fabric::{Fabric, FabricError, Source, Stream};
use crate::object::Object as _;
use crate::stages::Stages;
use crate::world::machine::Machine;

/// The largest thing a guest fetches while it boots.
const LARGEST: usize = 64 << 20;
/// How long Ignition waits before it asks again; the wait doubles up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A machine's way onto the network. Clones share it.
#[derive(Debug, Clone)]
pub struct Network {
    fabric: Arc<Fabric>,
    machine: Arc<Machine>,
    stages: Stages,
}

impl Network {
    pub(super) fn new(fabric: &Arc<Fabric>, machine: &Arc<Machine>, stages: &Stages) -> Self {
        Self { fabric: Arc::clone(fabric), machine: Arc::clone(machine), stages: stages.clone() }
    }

    /// The pod whose network the machine shares at the moment.
    pub fn pod(&self) -> String {
        self.machine.plan().pod.pod_uid
    }

    /// Connects to a port of a host by name or address.
    pub async fn connect(&self, host: &str, port: u16) -> Result<Stream, FabricError> {
        self.fabric.connect_name(&Source::Pod(self.pod()), host, port).await
    }

    /// Listens on a port of the machine.
    pub fn listen(&self, port: u16) -> tokio::sync::mpsc::UnboundedReceiver<Stream> {
        self.fabric.listen(&self.pod(), port)
    }

    /// Gets what is behind a URL, once.
    async fn get(
        &self,
        url: &Uri,
        headers: &[(String, String)],
        authorities: &[Vec<u8>],
    ) -> Result<Vec<u8>, FetchError> {
        let bad = |why: &str| FetchError::Hopeless(why.to_owned());
        let host = url.host().ok_or_else(|| bad("the URL has no host"))?;
        let secure = match url.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad("the scheme is neither http nor https")),
        };
        let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stream = self.connect(bare, port).await.map_err(|error| FetchError::Later(error.to_string()))?;
        if !secure {
            return exchange(stream, url, headers).await;
        }
        let name =
            ServerName::try_from(bare.to_owned()).map_err(|_| bad("the host is no name of a server"))?;
        let config = trusting(authorities).map_err(FetchError::Hopeless)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        exchange(stream.map_err(|error| FetchError::Later(error.to_string()))?, url, headers).await
    }
}

/// Why something could not be fetched.
enum FetchError {
    /// It may be there later.
    Later(String),
    /// It never will.
    Hopeless(String),
}

/// A TLS configuration that trusts the given certificates and no others: a lab has no public ones.
fn trusting(authorities: &[Vec<u8>]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for pem in authorities {
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    url: &Uri,
    headers: &[(String, String)],
) -> Result<Vec<u8>, FetchError> {
    let later = |error: hyper::Error| FetchError::Later(error.to_string());
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(later)?;
    let driving = tokio::spawn(async move {
        // The answer tells what went wrong, if anything.
        let _ = connection.await;
    });
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let mut request = Request::get(path)
        .header("host", authority)
        .header("user-agent", "Ignition/2.21.0")
        .header("accept", "*/*");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request
        .body(Empty::<bytes::Bytes>::new())
        .map_err(|error| FetchError::Hopeless(error.to_string()))?;
    let answer = sender.send_request(request).await.map_err(later)?;
    let code = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), LARGEST).collect().await;
    driving.abort();
    let bytes = body.map_err(|error| FetchError::Later(error.to_string()))?.to_bytes();
    match code {
        200..=299 => Ok(bytes.to_vec()),
        // As Ignition: a server in trouble is asked again, one that refuses is believed.
        500..=599 | 429 => Err(FetchError::Later(format!("the server answers {code}"))),
        _ => Err(FetchError::Hopeless(format!("the server answers {code}"))),
    }
}

impl Fetch for Network {
    fn fetch<'f>(
        &'f self,
        url: &'f str,
        headers: &'f [(String, String)],
        authorities: &'f [Vec<u8>],
    ) -> BoxFuture<'f, Result<Vec<u8>, String>> {
        Box::pin(async move {
            let uri: Uri = url.parse().map_err(|_| "it is no URL".to_owned())?;
            let mut wait = self.stages.pause(FIRST_WAIT);
            loop {
                let said = match tokio::time::timeout(PATIENCE, self.get(&uri, headers, authorities)).await {
                    Ok(Ok(bytes)) => return Ok(bytes),
                    Ok(Err(FetchError::Hopeless(why))) => return Err(why),
                    Ok(Err(FetchError::Later(why))) => why,
                    Err(_) => "it takes too long".to_owned(),
                };
                let place = url.split('?').next().unwrap_or_default();
                tracing::debug!(machine = self.machine.plan().vmi.name(), "GET {place}: {said}");
                self.machine.console.show(&format!("ignition[682]: GET {place}: {said}\r\n"));
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(self.stages.pause(LONGEST_WAIT));
            }
        })
    }
}

/// A connection a guest did not get.
#[derive(Debug, thiserror::Error)]
#[error("dial tcp {host}:{port}: {why}")]
pub struct ConnectError {
    host: String,
    port: u16,
    why: FabricError,
}

/// Makes connections for HTTP clients of a guest.
#[derive(Debug, Clone)]
pub struct Connector(pub Network);

impl tower::Service<Uri> for Connector {
    type Response = Wire;
    type Error = ConnectError;
    type Future = BoxFuture<'static, Result<Wire, ConnectError>>;

    fn poll_ready(&mut self, _: &mut Poller<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let network = self.0.clone();
        Box::pin(async move {
            let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
            let port = uri.port_u16().unwrap_or(443);
            let connected = network.connect(host, port).await;
            let stream = connected.map_err(|why| ConnectError { host: host.to_owned(), port, why })?;
            Ok(Wire(TokioIo::new(stream)))
        })
    }
}

/// A connection of the fabric for an HTTP client.
#[derive(Debug)]
pub struct Wire(TokioIo<Stream>);

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        poller: &mut Poller<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.get_mut().0).poll_read(poller, buffer)
    }
}

impl Write for Wire {
    fn poll_write(self: Pin<&mut Self>, poller: &mut Poller<'_>, bytes: &[u8]) -> Poll<Result<usize, Error>> {
        Pin::new(&mut self.get_mut().0).poll_write(poller, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.get_mut().0).poll_flush(poller)
    }

    fn poll_shutdown(self: Pin<&mut Self>, poller: &mut Poller<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(poller)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        poller: &mut Poller<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize, Error>> {
        Pin::new(&mut self.get_mut().0).poll_write_vectored(poller, parts)
    }
}

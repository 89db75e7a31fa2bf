//! Connections of the load: HTTP/2 over TLS, with as little work of the client's own as possible.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::support::Result;
use crate::support::certificates::Identity;

/// How much a server may send before it has to wait for us.
const WINDOW: u32 = 8 << 20;

/// The ways into a server.
#[derive(Clone)]
pub(crate) struct Dialer {
    address: Arc<str>,
    name: ServerName<'static>,
    tls: TlsConnector,
}

/// One connection; clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    sender: http2::SendRequest<Full<Bytes>>,
    base: Arc<str>,
}

/// The body of a request.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    None,
    Json(Bytes),
    MergePatch(Bytes),
}

impl Dialer {
    /// For the server at `https://host:port`, which `authority` vouches for, in the name of `identity`.
    pub(crate) fn new(base: &str, authority: &str, identity: &Identity) -> Result<Self> {
        let address = base.strip_prefix("https://").ok_or("the server is not reached by https")?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
        let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            address: address.into(),
            name: ServerName::try_from(host.to_owned())?,
            tls: TlsConnector::from(Arc::new(tls)),
        })
    }

    /// Opens a connection.
    pub(crate) async fn dial(&self) -> Result<Connection> {
        let stream = TcpStream::connect(&*self.address).await?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(self.name.clone(), stream).await?;
        let (sender, driver) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(driver);
        Ok(Connection { sender, base: format!("https://{}", self.address).into() })
    }
}

impl Connection {
    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Body,
    ) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri([&*self.base, path].concat())
            // What comes before the slash is the manager of the fields this client writes.
            .header(USER_AGENT, HeaderValue::from_static("load/1.0"))
            .header(ACCEPT, HeaderValue::from_static("application/json"));
        let body = match body {
            Body::None => Bytes::new(),
            Body::Json(bytes) => {
                request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                bytes
            }
            Body::MergePatch(bytes) => {
                request =
                    request.header(CONTENT_TYPE, HeaderValue::from_static("application/merge-patch+json"));
                bytes
            }
        };
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body))?).await?)
    }

    /// Sends a request and reads the answer to its end, without keeping it; the status.
    pub(crate) async fn exchange(&mut self, method: Method, path: &str, body: Body) -> Result<u16> {
        let response = self.send(method, path, body).await?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            frame?;
        }
        Ok(status)
    }

    /// Sends a request that has to be answered with one of `statuses`; the body of the answer.
    pub(crate) async fn expect(
        &mut self,
        method: Method,
        path: &str,
        body: Body,
        statuses: &[u16],
    ) -> Result<Bytes> {
        let response = self.send(method.clone(), path, body).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        if statuses.contains(&status) {
            return Ok(body);
        }
        Err(format!("{method} {path} -> {status}: {}", String::from_utf8_lossy(&body)).into())
    }
}

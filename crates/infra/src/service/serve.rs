//! Serving connections, of this process or over TLS.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::Service;

/// Why the service cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No address could be listened on.
    #[error("cannot listen on loopback: {0}")]
    Listen(#[from] std::io::Error),
    /// No certificate could be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The certificate cannot be used.
    #[error("cannot use the certificate: {0}")]
    Tls(#[from] rustls::Error),
}

impl Service {
    /// Serves one connection to its end, upgrades included.
    pub async fn connection(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let answer = service_fn(move |request| {
            let service = self.clone();
            async move { Ok::<_, Infallible>(service.handle(request).await) }
        });
        let builder = auto::Builder::new(TokioExecutor::new());
        let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), answer).await;
        if let Err(error) = served {
            tracing::debug!(%error, "a connection ended");
        }
    }
}

/// A place the service listens at, beside a real API server.
#[derive(Debug)]
pub struct Listening {
    /// The address.
    pub address: SocketAddr,
    /// The certificate that vouches for it, as PEM.
    pub authority: String,
    /// Ends all connections when it is dropped.
    _tasks: JoinSet<()>,
}

/// Listens on a free loopback port with a certificate for the given names.
pub async fn listen(service: Service, names: &[&str]) -> Result<Listening, ServeError> {
    let (authority, tls) = credentials(names)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let mut tasks = JoinSet::new();
    tasks.spawn(accept(service, listener, tls));
    Ok(Listening { address, authority, _tasks: tasks })
}

async fn accept(service: Service, listener: TcpListener, tls: TlsAcceptor) {
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            biased;
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    continue;
                }
            },
            Some(_) = connections.join_next() => continue,
        };
        let (service, tls) = (service.clone(), tls.clone());
        connections.spawn(async move {
            if let Ok(stream) = tls.accept(stream).await {
                service.connection(stream).await;
            }
        });
    }
}

/// An authority of its own, and what a server with its certificate needs.
fn credentials(names: &[&str]) -> Result<(String, TlsAcceptor), ServeError> {
    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, "infra-services");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = parameters.self_signed(&key)?;
    let authority = certificate.pem();
    let issuer = Issuer::new(parameters, key);
    let server_key = KeyPair::generate()?;
    let mut names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    names.extend(["localhost".to_owned(), "127.0.0.1".to_owned()]);
    let server = CertificateParams::new(names)?.signed_by(&server_key, &issuer)?;
    let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![server.der().clone()], secret)?;
    Ok((authority, TlsAcceptor::from(Arc::new(config))))
}

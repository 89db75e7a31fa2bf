//! Serving connections, of this process or over TLS.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{Access, FrontProxy, Service};

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
    /// The API server does not say how it can be told from others.
    #[error("cannot tell the API server from others: {0}")]
    FrontProxy(String),
}

impl Service {
    /// Serves one connection to its end, upgrades included.
    pub async fn connection(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let answer = service_fn(move |request| self.clone().answered(request).map(Ok::<_, Infallible>));
        let builder = auto::Builder::new(TokioExecutor::new());
        let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), answer).await;
        if let Err(error) = served {
            tracing::debug!(%error, "a connection ended");
        }
    }
}

/// How long a client may go on sending what nobody wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// Lets a client that was answered before all was read send on, so that it comes to see the answer: a connection that is
/// cut in the middle of a write takes it away. One that waits to be asked for its body has nothing to send.
pub(crate) fn linger(headers: &HeaderMap, mut body: Incoming) {
    if body.is_end_stream() || headers.contains_key(header::EXPECT) {
        return;
    }
    tokio::spawn(tokio::time::timeout(
        PATIENCE,
        async move { while let Some(Ok(_)) = body.frame().await {} },
    ));
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

/// Listens on a free loopback port with a certificate for the given names. Who shows that it is the API server gets
/// at everything, others at what the service gives them.
pub async fn listen(
    service: Service,
    names: &[&str],
    front_proxy: Option<FrontProxy>,
) -> Result<Listening, ServeError> {
    let (authority, tls) = credentials(names, front_proxy.as_ref())?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let mut tasks = JoinSet::new();
    tasks.spawn(accept(service, listener, tls, front_proxy.map(Arc::new)));
    Ok(Listening { address, authority, _tasks: tasks })
}

async fn accept(
    service: Service,
    listener: TcpListener,
    tls: TlsAcceptor,
    front_proxy: Option<Arc<FrontProxy>>,
) {
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            biased;
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Such as for want of file descriptors, which does not end by asking again at once.
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    continue;
                }
            },
            Some(_) = connections.join_next() => continue,
        };
        let (service, tls, front_proxy) = (service.clone(), tls.clone(), front_proxy.clone());
        connections.spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let shown = stream.get_ref().1.peer_certificates().and_then(|shown| shown.first());
            let is_server = shown.zip(front_proxy).is_some_and(|(shown, known)| known.is(shown));
            let service = if is_server { service.with(Access::Everything) } else { service };
            service.connection(stream).await;
        });
    }
}

/// An authority of its own, and what a server with its certificate needs.
fn credentials(
    names: &[&str],
    front_proxy: Option<&FrontProxy>,
) -> Result<(String, TlsAcceptor), ServeError> {
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
    let config = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let config = match front_proxy {
        Some(front_proxy) => config.with_client_cert_verifier(front_proxy.verifier(provider)?),
        None => config.with_no_client_auth(),
    };
    let config = config.with_single_cert(vec![server.der().clone()], secret)?;
    Ok((authority, TlsAcceptor::from(Arc::new(config))))
}

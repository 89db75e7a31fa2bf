//! Really fetching something over HTTP, plain or with TLS.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::trust::TrustAll;

/// How often an answer may lead elsewhere.
const REDIRECTS: usize = 10;
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(30);

/// Why something cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// The address is none.
    #[error("Invalid source URL: {0}")]
    Url(String),
    /// Nobody answers.
    #[error("HTTP request errored: Get \"{url}\": {reason}")]
    Unreachable {
        /// What was asked for.
        url: String,
        /// What happened.
        reason: String,
    },
    /// The answer is not what was asked for.
    #[error("expected status code 200, got {code}. Status: {0}", code = .0.as_u16())]
    Status(StatusCode),
    /// It goes round in circles.
    #[error("HTTP request errored: Get \"{0}\": stopped after 10 redirects")]
    Redirects(String),
    /// The answer broke off.
    #[error("unexpected EOF: {0}")]
    Broken(String),
    /// The certificates are none.
    #[error("unable to read the certificates: {0}")]
    Certificates(String),
}

/// How to ask.
#[derive(Debug, Clone, Default)]
pub(super) struct Asking {
    /// User and password.
    pub login: Option<(String, String)>,
    /// Further lines of the head, such as `X-Token: a`.
    pub headers: Vec<String>,
    /// Who vouches for the server, as PEM; those of this machine where there is nothing.
    pub authorities: String,
    /// Whether nobody has to.
    pub trust_all: bool,
}

/// An answer that is being received.
#[derive(Debug)]
pub(super) struct Answer {
    /// How many bytes there are to come, if the server says so.
    pub length: Option<u64>,
    body: Incoming,
}

impl Answer {
    /// The next bytes; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, FetchError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| FetchError::Broken(error.to_string()))?;
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

/// Asks for what is at a URL, and follows where it leads.
pub(super) async fn get(url: &str, asking: &Asking) -> Result<Answer, FetchError> {
    let mut at: Uri = url.parse().map_err(|_| FetchError::Url(url.to_owned()))?;
    for _ in 0..=REDIRECTS {
        let response = send(&at, asking).await?;
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
            let to = to.ok_or(FetchError::Status(status))?;
            at = joined(&at, to).ok_or_else(|| FetchError::Url(to.to_owned()))?;
            continue;
        }
        if status != StatusCode::OK {
            return Err(FetchError::Status(status));
        }
        let length = response.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()).and_then(|length| length.parse().ok());
        return Ok(Answer { length, body: response.into_body() });
    }
    Err(FetchError::Redirects(url.to_owned()))
}

/// Where a reference leads from a place.
fn joined(at: &Uri, to: &str) -> Option<Uri> {
    if to.contains("://") {
        return to.parse().ok();
    }
    let origin = format!("{}://{}", at.scheme_str()?, at.authority()?);
    if to.starts_with('/') {
        return format!("{origin}{to}").parse().ok();
    }
    let directory = at.path().rsplit_once('/').map_or("", |(directory, _)| directory);
    format!("{origin}{directory}/{to}").parse().ok()
}

async fn send(at: &Uri, asking: &Asking) -> Result<http::Response<Incoming>, FetchError> {
    let unreachable = |reason: String| FetchError::Unreachable { url: at.to_string(), reason };
    let host = at.host().ok_or_else(|| FetchError::Url(at.to_string()))?;
    let secure = match at.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(FetchError::Url(at.to_string())),
    };
    let port = at.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let connected = tokio::time::timeout(CONNECT, TcpStream::connect((bare, port))).await;
    let stream = connected
        .map_err(|_| unreachable(format!("dial tcp {host}:{port}: i/o timeout")))?
        .map_err(|error| unreachable(dial_words(host, port, &error)))?;
    let request = request(at, host, asking)?;
    if secure {
        let name = ServerName::try_from(bare.to_owned()).map_err(|error| unreachable(error.to_string()))?;
        let connector = TlsConnector::from(Arc::new(tls(asking)?));
        let stream = connector
            .connect(name, stream)
            .await
            .map_err(|error| unreachable(format!("tls: failed to verify certificate: {error}")))?;
        exchange(stream, request).await.map_err(|error| unreachable(error.to_string()))
    } else {
        exchange(stream, request).await.map_err(|error| unreachable(error.to_string()))
    }
}

/// A failed connection in the words Go has for it.
fn dial_words(host: &str, port: u16, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            format!("dial tcp {host}:{port}: connect: connection refused")
        }
        std::io::ErrorKind::TimedOut => format!("dial tcp {host}:{port}: i/o timeout"),
        _ if error.raw_os_error().is_none() => format!("dial tcp: lookup {host}: no such host"),
        _ => format!("dial tcp {host}:{port}: {error}"),
    }
}

fn request(at: &Uri, host: &str, asking: &Asking) -> Result<Request<Empty<Bytes>>, FetchError> {
    let wrong = |_| FetchError::Url(at.to_string());
    let path = at.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let authority = at.port_u16().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let mut request = Request::get(path).header(header::HOST, authority);
    request = request.header(header::USER_AGENT, "cdi-golang-importer");
    if let Some((user, password)) = &asking.login {
        use base64::Engine as _;
        let login = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        request = request.header(header::AUTHORIZATION, format!("Basic {login}"));
    }
    for line in &asking.headers {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        request = request.header(name.trim(), value.trim());
    }
    request.body(Empty::new()).map_err(wrong)
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Empty<Bytes>>,
) -> Result<http::Response<Incoming>, hyper::Error> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Lives as long as the answer is read.
    tokio::spawn(connection);
    sender.send_request(request).await
}

fn tls(asking: &Asking) -> Result<rustls::ClientConfig, FetchError> {
    let wrong = |error: &dyn std::error::Error| FetchError::Certificates(error.to_string());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?;
    if asking.trust_all {
        let verifier = Arc::new(TrustAll::new(provider));
        return Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth());
    }
    let mut roots = rustls::RootCertStore::empty();
    if asking.authorities.is_empty() {
        // A machine without any authorities trusts nobody.
        let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    } else {
        for certificate in CertificateDer::pem_slice_iter(asking.authorities.as_bytes()) {
            let certificate = certificate.map_err(|error| wrong(&error))?;
            roots.add(certificate).map_err(|error| wrong(&error))?;
        }
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_followed_from_where_they_are() {
        let at: Uri = "http://a:1/b/c?d".parse().unwrap();
        let to = |to: &str| joined(&at, to).unwrap().to_string();
        assert_eq!(to("https://x/y"), "https://x/y");
        assert_eq!(to("/y"), "http://a:1/y");
        assert_eq!(to("y"), "http://a:1/b/y");
    }
}

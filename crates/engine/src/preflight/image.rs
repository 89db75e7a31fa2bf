//! Whether an image is where it is said to be. Asked from here: the importer of the infra cluster may see another
//! network, so that a failure is a warning and no more.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a server may send us on.
const REDIRECTS: usize = 5;

/// What was found where an image is said to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageFacts {
    /// It is there; how large it is, where the server says so.
    There(Option<u64>),
    /// It is not, or the server does not give it out.
    NotThere(String),
    /// It cannot be asked for from here, and why.
    NotAsked(&'static str),
}

/// Asks a server for an image, without fetching it.
pub async fn probe(url: &str) -> ImageFacts {
    let Ok(start) = url.parse::<Uri>() else {
        return ImageFacts::NotThere("it is no URL".to_owned());
    };
    if !matches!(start.scheme_str(), Some("http" | "https")) {
        return ImageFacts::NotAsked("a registry is asked by the importer alone");
    }
    match tokio::time::timeout(PATIENCE, follow(start)).await {
        Ok(Ok(size)) => ImageFacts::There(size),
        Ok(Err(why)) => ImageFacts::NotThere(why),
        Err(_) => ImageFacts::NotThere(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

async fn follow(mut url: Uri) -> Result<Option<u64>, String> {
    for _ in 0..=REDIRECTS {
        let answer = head(&url).await?;
        let status = answer.status();
        if status.is_success() {
            let size = answer.headers().get(header::CONTENT_LENGTH);
            return Ok(size.and_then(|size| size.to_str().ok()?.parse().ok()));
        }
        if !status.is_redirection() {
            return Err(said(status));
        }
        let next = answer.headers().get(header::LOCATION).and_then(|next| next.to_str().ok());
        url = next.and_then(|next| onward(&url, next)).ok_or("it is somewhere else, and not said where")?;
    }
    Err(format!("more than {REDIRECTS} servers send on to another"))
}

fn said(status: StatusCode) -> String {
    let words = status.canonical_reason().map(|words| format!(" {words}")).unwrap_or_default();
    format!("the server answers {}{words}", status.as_u16())
}

/// Where a server sends on to: a whole URL, or a path on the same server.
fn onward(from: &Uri, to: &str) -> Option<Uri> {
    if !to.starts_with('/') {
        return to.parse().ok();
    }
    let mut parts = from.clone().into_parts();
    parts.path_and_query = Some(to.parse().ok()?);
    Uri::from_parts(parts).ok()
}

async fn head(url: &Uri) -> Result<Response<Incoming>, String> {
    let host = url.host().ok_or("the URL has no host")?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let secure = match url.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err("it is at a URL that is neither http nor https".to_owned()),
    };
    let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = TcpStream::connect((bare, port)).await;
    let stream = stream.map_err(|error| format!("{host}:{port} cannot be reached: {error}"))?;
    if !secure {
        return ask(stream, url).await;
    }
    let name = ServerName::try_from(bare.to_owned()).map_err(|_| "the host is no name of a server")?;
    let stream = TlsConnector::from(Arc::new(trust()?)).connect(name, stream).await;
    ask(stream.map_err(|error| format!("{host} cannot be trusted: {error}"))?, url).await
}

/// The authorities this machine trusts.
fn trust() -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    url: &Uri,
) -> Result<Response<Incoming>, String> {
    let broken = |error: hyper::Error| error.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let connection = tokio::spawn(connection);
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let authority = url.authority().map_or("", |authority| authority.as_str());
    // Who is allowed in is written before the host.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let request = Request::builder()
        .method(Method::HEAD)
        .uri(path)
        .header(header::HOST, host)
        .header(header::USER_AGENT, "trellis")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(broken);
    connection.abort();
    answer
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers each path as the table says, and where it is.
    async fn serving(answers: &'static [(&'static str, &'static str)]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 1024];
                let length = stream.read(&mut request).await.unwrap();
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                assert!(request.starts_with("HEAD "), "{request}");
                let answer = answers.iter().find(|(path, _)| request.starts_with(&format!("HEAD {path} ")));
                let answer = answer.map_or("404 Not Found\r\n", |(_, answer)| answer);
                stream.write_all(format!("HTTP/1.1 {answer}\r\n").as_bytes()).await.unwrap();
            }
        });
        format!("http://{address}")
    }

    #[tokio::test]
    async fn an_image_is_found_where_the_server_sends_on_to() {
        let server = serving(&[
            ("/latest", "302 Found\r\nlocation: /v1\r\n"),
            ("/v1", "200 OK\r\ncontent-length: 42\r\n"),
            ("/loop", "302 Found\r\nlocation: /loop\r\n"),
            ("/lost", "302 Found\r\n"),
        ])
        .await;
        assert_eq!(probe(&format!("{server}/latest")).await, ImageFacts::There(Some(42)));
        let missing = |why: &str| ImageFacts::NotThere(why.to_owned());
        assert_eq!(probe(&format!("{server}/none")).await, missing("the server answers 404 Not Found"));
        assert_eq!(probe(&format!("{server}/loop")).await, missing("more than 5 servers send on to another"));
        assert_eq!(
            probe(&format!("{server}/lost")).await,
            missing("it is somewhere else, and not said where")
        );
    }

    #[tokio::test]
    async fn what_cannot_be_asked_says_why() {
        assert!(matches!(probe("docker://r.example/x").await, ImageFacts::NotAsked(_)));
        let ImageFacts::NotThere(why) = probe("http://127.0.0.1:1/x").await else {
            panic!("somebody is there")
        };
        assert!(why.starts_with("127.0.0.1:1 cannot be reached"), "{why}");
        assert_eq!(probe("http://[::1/").await, ImageFacts::NotThere("it is no URL".to_owned()));
    }
}

//! An HTTP client with raw control: any method, path, headers and body go out as they are written.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Result;
use super::certificates::Identity;

/// How long any single request may take.
const LIMIT: Duration = Duration::from_mins(1);
/// How long a client waits that was asked to come again.
const PAUSE: Duration = Duration::from_millis(500);

/// Who is asking.
#[derive(Debug, Clone)]
pub(crate) enum Credentials {
    /// A client certificate.
    Certificate(Identity),
    /// A bearer token.
    Token(String),
    /// Nothing at all.
    Anonymous,
}

/// A client with credentials; clones share one HTTP/2 connection.
#[derive(Clone)]
pub(crate) struct Client {
    shared: Arc<Shared>,
    /// Sent with every request, before the headers of the request itself.
    headers: HeaderMap,
    /// Speaks HTTP/1.1 on a connection of its own for each request.
    plain: bool,
}

struct Shared {
    authority: String,
    name: ServerName<'static>,
    tls: rustls::ClientConfig,
    connection: Mutex<Option<http2::SendRequest<Full<Bytes>>>>,
}

/// A request that is sent when it is awaited.
#[must_use = "a request is sent when it is awaited"]
pub(crate) struct Request {
    client: Client,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// What a server answered.
#[derive(Clone)]
pub(crate) struct Answer {
    /// The request's method and path, for messages.
    asked: String,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    /// A client of the server at `base`, which `authority` (PEM) vouches for.
    pub(crate) fn new(base: &str, authority: &str, credentials: &Credentials) -> Result<Self> {
        let address = base.strip_prefix("https://").ok_or("the server is not reached by https")?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let tls = match credentials {
            Credentials::Certificate(identity) => {
                let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes())?];
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
                builder.with_client_auth_cert(chain, key)?
            }
            _ => builder.with_no_client_auth(),
        };
        let mut headers = HeaderMap::new();
        // What comes before the slash is the manager of the fields this client writes.
        headers.insert(USER_AGENT, HeaderValue::from_static("scenario/1.0"));
        if let Credentials::Token(token) = credentials {
            headers.insert(AUTHORIZATION, format!("Bearer {token}").parse()?);
        }
        let shared = Shared {
            authority: address.to_owned(),
            name: ServerName::try_from(host.to_owned())?,
            tls,
            connection: Mutex::new(None),
        };
        Ok(Self { shared: Arc::new(shared), headers, plain: false })
    }

    /// The same client, with one more header in every request.
    pub(crate) fn with_header(&self, name: &str, value: &str) -> Result<Self> {
        let mut client = self.clone();
        client.headers.append(name.parse::<HeaderName>()?, value.parse()?);
        Ok(client)
    }

    /// The same client, speaking HTTP/1.1.
    pub(crate) fn http1(&self) -> Self {
        Self { plain: true, ..self.clone() }
    }

    pub(crate) fn request(&self, method: Method, path: impl Into<String>) -> Request {
        Request {
            client: self.clone(),
            method,
            path: path.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    pub(crate) fn get(&self, path: impl Into<String>) -> Request {
        self.request(Method::GET, path)
    }

    pub(crate) fn post(&self, path: impl Into<String>, object: &Value) -> Request {
        self.request(Method::POST, path).json(object)
    }

    pub(crate) fn put(&self, path: impl Into<String>, object: &Value) -> Request {
        self.request(Method::PUT, path).json(object)
    }

    pub(crate) fn delete(&self, path: impl Into<String>) -> Request {
        self.request(Method::DELETE, path)
    }

    /// A patch of the form `application/<form>`.
    fn patch(&self, form: &str, path: impl Into<String>, change: &Value) -> Request {
        self.request(Method::PATCH, path).body(form, change.to_string())
    }

    pub(crate) fn merge_patch(&self, path: impl Into<String>, change: &Value) -> Request {
        self.patch("application/merge-patch+json", path, change)
    }

    pub(crate) fn strategic_patch(&self, path: impl Into<String>, change: &Value) -> Request {
        self.patch("application/strategic-merge-patch+json", path, change)
    }

    pub(crate) fn json_patch(&self, path: impl Into<String>, change: &Value) -> Request {
        self.patch("application/json-patch+json", path, change)
    }

    /// A server-side apply; the path has to name the field manager.
    pub(crate) fn apply(&self, path: impl Into<String>, object: &Value) -> Request {
        self.patch("application/apply-patch+yaml", path, object)
    }

    /// Starts a watch and waits for its head; `path` has to ask for it.
    pub(crate) async fn watch(&self, path: impl Into<String>) -> Result<Watch> {
        self.get(path).watch().await
    }

    async fn send(&self, request: &Request) -> Result<http::Response<Incoming>> {
        if self.plain {
            return self.send_plain(request).await;
        }
        // A server may close the connection at any time, after which nothing of the request has reached it.
        for _ in 0..3 {
            match self.send_multiplexed(request).await {
                Err(failure)
                    if failure.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) => {}
                answer => return answer,
            }
        }
        self.send_multiplexed(request).await
    }

    async fn send_multiplexed(&self, request: &Request) -> Result<http::Response<Incoming>> {
        let mut sender = {
            let mut connection = self.shared.connection.lock().await;
            match &*connection {
                Some(sender) if !sender.is_closed() => sender.clone(),
                _ => {
                    let stream = self.shared.connect(b"h2").await?;
                    let (sender, driver) =
                        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
                    tokio::spawn(driver);
                    connection.insert(sender).clone()
                }
            }
        };
        sender.ready().await?;
        let uri = format!("https://{}{}", self.shared.authority, request.path);
        Ok(sender.send_request(request.message(&uri)?).await?)
    }

    async fn send_plain(&self, request: &Request) -> Result<http::Response<Incoming>> {
        let stream = self.shared.connect(b"http/1.1").await?;
        let (mut sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver.with_upgrades());
        let mut message = request.message(&request.path)?;
        message.headers_mut().insert(HOST, self.shared.authority.parse()?);
        Ok(sender.send_request(message).await?)
    }
}

impl Shared {
    async fn connect(&self, protocol: &[u8]) -> Result<TlsStream<TcpStream>> {
        let mut tls = self.tls.clone();
        tls.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let stream = TlsConnector::from(Arc::new(tls)).connect(self.name.clone(), stream).await?;
        if stream.get_ref().1.alpn_protocol() != Some(protocol) {
            return Err(format!("the server does not speak {}", String::from_utf8_lossy(protocol)).into());
        }
        Ok(stream)
    }
}

impl Request {
    /// One more header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            self.headers.append(name, value);
        }
        self
    }

    pub(crate) fn accept(mut self, kinds: &str) -> Self {
        self.headers.remove(ACCEPT);
        self.header("accept", kinds)
    }

    pub(crate) fn json(self, object: &Value) -> Self {
        self.body("application/json", object.to_string())
    }

    /// A body of any form.
    pub(crate) fn body(mut self, form: &str, bytes: impl Into<Bytes>) -> Self {
        self.headers.remove(CONTENT_TYPE);
        self.body = bytes.into();
        self.header("content-type", form)
    }

    /// The body without a word about its form.
    pub(crate) fn without_content_type(mut self) -> Self {
        self.headers.remove(CONTENT_TYPE);
        self
    }

    /// Sends the request and leaves the body of the answer to be read line by line.
    pub(crate) async fn watch(self) -> Result<Watch> {
        let begin = async {
            loop {
                let response = self.client.send(&self).await?;
                if response.status() != 429 {
                    break Result::Ok(response);
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let response =
            timeout(LIMIT, begin).await.map_err(|_| format!("{}: no answer in time", self.shown()))??;
        Ok(Watch {
            asked: self.shown(),
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.into_body(),
            unread: BytesMut::new(),
        })
    }

    /// Asks to go on in another protocol; the head of the answer, and the connection.
    pub(crate) async fn upgrade(self, protocol: &str) -> Result<(HeaderMap, TokioIo<Upgraded>)> {
        let request = self.header("connection", "Upgrade").header("upgrade", protocol);
        let exchange = async {
            let mut response = request.client.send_plain(&request).await?;
            if response.status() != 101 {
                return Err(format!("{}: not upgraded but {}", request.shown(), response.status()).into());
            }
            let connection = hyper::upgrade::on(&mut response).await?;
            Ok((response.headers().clone(), TokioIo::new(connection)))
        };
        timeout(LIMIT, exchange).await.map_err(|_| format!("{}: no answer in time", request.shown()))?
    }

    fn shown(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    fn message(&self, uri: &str) -> Result<http::Request<Full<Bytes>>> {
        let mut message = http::Request::builder().method(self.method.clone()).uri(uri);
        if let Some(headers) = message.headers_mut() {
            headers.extend(self.client.headers.clone());
            for name in self.headers.keys() {
                headers.remove(name);
            }
            headers.extend(self.headers.clone());
            if !headers.contains_key(ACCEPT) {
                headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
            }
        }
        Ok(message.body(Full::new(self.body.clone()))?)
    }
}

/// True for the answer of a server that has lost sight of its storage for a moment and asks to come again, which any
/// client library does.
fn is_restarting(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("storage is (re)initializing")
}

impl IntoFuture for Request {
    type Output = Result<Answer>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let exchange = async {
                let (head, body) = loop {
                    let (head, body) = self.client.send(&self).await?.into_parts();
                    let body = body.collect().await?.to_bytes();
                    if head.status != 429 || !is_restarting(&body) {
                        break (head, body);
                    }
                    tokio::time::sleep(PAUSE).await;
                };
                Ok(Answer { asked: self.shown(), status: head.status.as_u16(), headers: head.headers, body })
            };
            match timeout(LIMIT, exchange).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(failure)) => {
                    let failure: super::Failure = failure;
                    Err(format!("{}: {failure}", self.shown()).into())
                }
                Err(_) => Err(format!("{}: no answer in time", self.shown()).into()),
            }
        })
    }
}

impl Answer {
    /// The body as JSON; null if it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's value, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The texts of all warnings, without their codes and quotes.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let texts = self.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok());
        texts
            .map(|text| text.strip_prefix("299 - \"").and_then(|text| text.strip_suffix('"')).unwrap_or(text))
            .map(|text| text.replace("\\\"", "\""))
            .collect()
    }

    /// The body of an answer that has to have this status.
    #[track_caller]
    pub(crate) fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self}");
        self.json()
    }

    /// The `Status` of a request that has to fail this way.
    #[track_caller]
    pub(crate) fn fails(&self, code: u16, reason: &str) -> Value {
        let status = self.json();
        assert_eq!((self.status, status["reason"].as_str().unwrap_or_default()), (code, reason), "{self}");
        assert_eq!(
            (&status["kind"], &status["apiVersion"], &status["status"], &status["code"]),
            (&"Status".into(), &"v1".into(), &"Failure".into(), &code.into()),
            "{self}"
        );
        status
    }

    /// Like [`fails`](Self::fails), and the message has to be exactly this.
    #[track_caller]
    pub(crate) fn fails_with(&self, code: u16, reason: &str, message: &str) -> Value {
        let status = self.fails(code, reason);
        assert_eq!(status["message"], message, "{self}");
        status
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.text();
        let shown: String = body.chars().take(2000).collect();
        write!(f, "{} -> {}: {shown}", self.asked, self.status)
    }
}

/// A watch that is being read.
pub(crate) struct Watch {
    asked: String,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    unread: BytesMut,
}

impl Watch {
    /// How long an event that has to come may take.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// The next line as JSON, or nothing when the watch has ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>> {
        match timeout(Self::PATIENCE, self.line()).await {
            Ok(Ok(Some(line))) => Ok(Some(serde_json::from_slice(&line)?)),
            Ok(Ok(None)) => Ok(None),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(format!("{}: no event within {:?}", self.asked, Self::PATIENCE).into()),
        }
    }

    /// The next event, which has to come and be of this type; its object.
    pub(crate) async fn expect(&mut self, kind: &str) -> Result<Value> {
        let event = self.next().await?.ok_or_else(|| format!("{}: the watch has ended", self.asked))?;
        if event["type"] != kind {
            return Err(format!("{}: expected {kind}, not {event}", self.asked).into());
        }
        Ok(event["object"].clone())
    }

    /// The next event of this type about the object of this name.
    pub(crate) async fn expect_about(&mut self, kind: &str, name: &str) -> Result<Value> {
        let object = self.expect(kind).await?;
        if object["metadata"]["name"] != name {
            return Err(format!("{}: expected {kind} of {name}, not of {object}", self.asked).into());
        }
        Ok(object)
    }

    /// Makes sure that nothing comes for a while.
    pub(crate) async fn expect_silence(&mut self, while_: Duration) -> Result {
        match timeout(while_, self.line()).await {
            Err(_) => Ok(()),
            Ok(Ok(None)) => Err(format!("{}: the watch has ended", self.asked).into()),
            Ok(Ok(Some(line))) => {
                Err(format!("{}: unexpected {}", self.asked, String::from_utf8_lossy(&line)).into())
            }
            Ok(Err(failure)) => Err(failure),
        }
    }

    /// Everything until the watch ends by itself.
    pub(crate) async fn rest(&mut self) -> Result<Vec<Value>> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await? {
            events.push(event);
        }
        Ok(events)
    }

    async fn line(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
                let mut line = self.unread.split_to(end + 1);
                line.truncate(end);
                return Ok(Some(line.freeze()));
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.unread.extend_from_slice(&data);
                    }
                }
                None if self.unread.is_empty() => return Ok(None),
                // Not ended by a newline: an answer that is no watch, such as a failure.
                None => return Ok(Some(self.unread.split().freeze())),
            }
        }
    }
}

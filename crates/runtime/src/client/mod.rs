//! A client of one API server: typed verbs, counted requests, a health, and a connection that can be replaced.

mod error;
mod health;
mod traffic;
mod verbs;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::Instrument as _;

pub use error::Error;
pub use health::Health;
pub use traffic::{Request, Traffic, Verb};
pub use verbs::{Delete, Deleted, Evicted, Propagation, Selection};

use crate::Resource;
pub(crate) use health::Pulse;

/// Whom managed fields are called after.
pub const FIELD_MANAGER: &str = "trellis";

/// Why a write is refused before it is sent.
const FENCED: &str = "the right to act has gone to another replica";

/// How long after a failure a server is first asked for a sign of life.
const FIRST_SIGN: Duration = Duration::from_millis(100);

/// What a request comes to.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// How a site is dealt with.
#[derive(Debug, Clone, Copy)]
pub struct Manners {
    /// How long to wait for an answer.
    pub timeout: Duration,
    /// How long requests have to fail until the site counts as down.
    pub grace: Duration,
}

impl Default for Manners {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), grace: Duration::from_secs(15) }
    }
}

/// Whether a new connection leads to the same server as the old one. Versions of objects can be compared only within
/// one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leads {
    /// To the same: only the credentials are new.
    Same,
    /// To another, or it is not known.
    Elsewhere,
}

/// Which connection a site has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Era {
    /// Counts the connections.
    pub(crate) connection: u64,
    /// Counts the servers.
    pub(crate) server: u64,
}

/// One API server, as this process sees it. Copies are cheap and share everything.
#[derive(Clone)]
pub struct Site {
    inner: Arc<Inner>,
}

struct Inner {
    name: Box<str>,
    /// What has to hold for anything to be written.
    fence: Option<Fence>,
    traffic: Traffic,
    link: Arc<Link>,
}

/// Says whether whoever uses a site may still write: asked before every write.
pub type Fence = Arc<dyn Fn() -> bool + Send + Sync>;

/// The connection, which views of a site share.
struct Link {
    client: RwLock<kube::Client>,
    era: watch::Sender<Era>,
    manners: Manners,
    /// The requests of all views.
    traffic: Traffic,
    pulse: Pulse,
    /// Held by the one who asks for a sign of life.
    attended: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Site {
    /// Says nothing of the connection, which holds credentials.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Site").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

impl Site {
    /// A site over a connection, with the usual manners. The name is for logs and metrics.
    pub fn new(name: &str, client: kube::Client) -> Self {
        Self::with(name, client, Manners::default())
    }

    /// A site over a connection.
    pub fn with(name: &str, client: kube::Client, manners: Manners) -> Self {
        let link = Link {
            client: RwLock::new(client),
            era: watch::Sender::new(Era { connection: 0, server: 0 }),
            manners,
            traffic: Traffic::default(),
            pulse: Pulse::new(manners.grace),
            attended: tokio::sync::Mutex::default(),
        };
        Self::over(name, None, Arc::new(link))
    }

    /// The same server over the same connection under another name, with requests counted apart, and with writes that
    /// are refused here as soon as the fence says no.
    #[must_use]
    pub fn view(&self, name: &str, fence: Fence) -> Self {
        Self::over(name, Some(fence), Arc::clone(&self.inner.link))
    }

    fn over(name: &str, fence: Option<Fence>, link: Arc<Link>) -> Self {
        Self { inner: Arc::new(Inner { name: name.into(), fence, traffic: Traffic::default(), link }) }
    }

    /// What logs and metrics call it.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The requests that were made.
    pub fn traffic(&self) -> &Traffic {
        &self.inner.traffic
    }

    /// The requests that were made over this connection, whoever's view made them.
    pub fn connection_traffic(&self) -> &Traffic {
        &self.inner.link.traffic
    }

    fn count(&self, request: Request, result: &'static str) {
        self.inner.traffic.count(request, result);
        self.inner.link.traffic.count(request, result);
    }

    /// Whether the server answers, and when that changes.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.inner.link.pulse.health()
    }

    /// Whether the server answers.
    pub fn is_up(&self) -> bool {
        self.inner.link.pulse.health().borrow().is_up()
    }

    /// Takes another connection. Requests under way end on the old one; watches begin anew on the new one.
    pub fn swap(&self, client: kube::Client, leads: Leads) {
        *self.inner.link.client.write() = client;
        self.inner.link.era.send_modify(|era| {
            era.connection += 1;
            if leads == Leads::Elsewhere {
                era.server += 1;
            }
        });
    }

    /// Waits until requests succeed again, where they fail now; for ever, where they do not.
    pub(crate) async fn mended(&self) {
        let mut trouble = self.inner.link.pulse.trouble();
        let in_trouble = *trouble.borrow();
        // The sender lives as long as this site.
        if !in_trouble || trouble.wait_for(|trouble| !*trouble).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Asks the server for a sign of life, ever more slowly up to every few seconds while requests fail and never while
    /// they succeed, so that its health is known although nobody else asks. Never ends.
    pub async fn attend(&self) {
        // One of all who share the connection is enough.
        let _attended = self.inner.link.attended.lock().await;
        let mut trouble = self.inner.link.pulse.trouble();
        let longest = (self.inner.link.pulse.grace() / 5).max(FIRST_SIGN);
        let mut pause = FIRST_SIGN;
        loop {
            if !*trouble.borrow() {
                pause = FIRST_SIGN;
            }
            // The sender lives as long as this site.
            if trouble.wait_for(|trouble| *trouble).await.is_err() {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(longest);
            if *trouble.borrow() {
                let _ = timeout(longest, self.raw(Method::GET, "/version", None)).await.map_err(|_| {
                    self.inner.link.pulse.failed();
                });
            }
        }
    }

    /// The connection as it is now, for what this client does not do.
    pub fn client(&self) -> kube::Client {
        self.inner.link.client.read().clone()
    }

    pub(crate) fn era(&self) -> watch::Receiver<Era> {
        self.inner.link.era.subscribe()
    }

    /// Sends a request that is counted, and reads the answer.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        request: Request,
        resource: &Resource,
        path: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<T> {
        let method = match request.verb {
            Verb::Get | Verb::List | Verb::Watch => Method::GET,
            Verb::Create => Method::POST,
            Verb::Update => Method::PUT,
            Verb::Patch => Method::PATCH,
            Verb::Delete => Method::DELETE,
        };
        let span = tracing::debug_span!(
            "request",
            site = self.name(),
            verb = request.verb.word(),
            resource = request.resource(),
            result = tracing::field::Empty,
        );
        let answer = match &self.inner.fence {
            Some(fence) if !request.verb.is_read() && !fence() => Err(Error::Unavailable(FENCED.to_owned())),
            _ => self.exchange(method, path, body, Some(resource)).instrument(span.clone()).await,
        };
        let answer = answer.and_then(|bytes| {
            serde_json::from_slice(&bytes).map_err(|error| Error::Malformed(place(&error)))
        });
        let result = answer.as_ref().err().map_or("ok", Error::label);
        span.record("result", result);
        self.count(request, result);
        answer
    }

    /// What a server says of itself at a path that is no kind's. Such requests are not counted.
    pub(crate) async fn told<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let answer = self.exchange(Method::GET, path, None, None).await?;
        serde_json::from_slice(&answer).map_err(|error| Error::Malformed(place(&error)))
    }

    /// Opens a watch; what it sends is read from what is returned.
    pub(crate) async fn open(&self, resource: &Resource, path: &str) -> Result<Body> {
        let request = Request::new(Verb::Watch, resource, "");
        let opened = timeout(self.inner.link.manners.timeout, self.opened(resource, path)).await;
        let opened = self.judged(opened.unwrap_or(Err(Error::Timeout)));
        self.count(request, opened.as_ref().err().map_or("ok", Error::label));
        opened
    }

    async fn opened(&self, resource: &Resource, path: &str) -> Result<Body> {
        let answer = self.client().send(build(Method::GET, path, None)?).await?;
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await?.to_bytes();
        Err(Error::refused(parts.status, &parts.headers, &bytes, Some(resource)))
    }

    /// What a watch brought is a sign of life, and so is its absence where something was due.
    pub(crate) fn heard(&self, alive: bool) {
        if alive { self.inner.link.pulse.succeeded() } else { self.inner.link.pulse.failed() }
    }

    /// Sends a request for no kind in particular.
    pub(crate) async fn raw(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Bytes> {
        self.exchange(method, path, body, None).await
    }

    /// Boxed, so that what speaks HTTP is not compiled anew for every kind in every program.
    fn exchange<'a>(
        &'a self,
        method: Method,
        path: &'a str,
        body: Option<(&'static str, Vec<u8>)>,
        resource: Option<&'a Resource>,
    ) -> BoxFuture<'a, Result<Bytes>> {
        Box::pin(self.exchanged(method, path, body, resource))
    }

    async fn exchanged(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Vec<u8>)>,
        resource: Option<&Resource>,
    ) -> Result<Bytes> {
        let request = build(method, path, body)?;
        let exchange = async {
            let (parts, body) = self.client().send(request).await?.into_parts();
            let bytes = body.collect().await?.to_bytes();
            if parts.status.is_success() {
                Ok(bytes)
            } else {
                Err(Error::refused(parts.status, &parts.headers, &bytes, resource))
            }
        };
        let answer = timeout(self.inner.link.manners.timeout, exchange).await.unwrap_or(Err(Error::Timeout));
        self.judged(answer)
    }

    /// Draws the conclusion for the health from an answer.
    fn judged<T>(&self, answer: Result<T>) -> Result<T> {
        match &answer {
            // Who is not let in sees nothing, as if nobody were there.
            Err(Error::Unavailable(_) | Error::ServerFailed(_) | Error::Timeout | Error::Unauthorized) => {
                self.inner.link.pulse.failed();
            }
            // A server that is busy says nothing about the rest.
            Err(Error::TooManyRequests { .. }) => {}
            _ => self.inner.link.pulse.succeeded(),
        }
        answer
    }
}

fn build(method: Method, path: &str, body: Option<(&'static str, Vec<u8>)>) -> Result<http::Request<Body>> {
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(header::ACCEPT, "application/json")
        // Servers compress watches in a way that not all layers below undo.
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::USER_AGENT, concat!("trellis/", env!("CARGO_PKG_VERSION")));
    let mut bytes = Vec::new();
    if let Some((form, content)) = body {
        request = request.header(header::CONTENT_TYPE, form);
        bytes = content;
    }
    request.body(Body::from(bytes)).map_err(|_| Error::Invalid(format!("`{path}` is no path of a request")))
}

/// Where an answer could not be read, without quoting it.
pub(crate) fn place(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Eof => "it ends too early".to_owned(),
        _ => format!("line {}, column {}", error.line(), error.column()),
    }
}

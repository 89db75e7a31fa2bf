//! Calls to servers that extend the API: admission and conversion webhooks, and aggregated API servers.
//!
//! Failures are told in the words of the Go client, because they end up in messages that people and tests read.

mod connect;
mod failure;
mod resolve;
mod trust;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response, Uri, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use parking_lot::Mutex;
use rustls::ClientConfig;
use serde_json::Value;
use tokio::io::DuplexStream;

pub(crate) use failure::CallError;
pub(crate) use resolve::{Endpoints, Resolver};

/// A request body that may stream.
pub(crate) type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// How many idle connections to one server are kept.
const IDLE_CONNECTIONS: usize = 8;
/// How many servers connections and settings are kept for; when there are more, all are forgotten.
const MOST_SERVERS: usize = 128;
/// The longest answer that is read whole.
const LONGEST_ANSWER: usize = 16 * 1024 * 1024;

/// The server to call and how far to trust it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    /// Where it is.
    pub place: Place,
    /// Which certificates are good.
    pub trust: Trust,
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// At a URL. Only scheme, host and port are used to connect.
    Url(String),
    /// Behind a service of the cluster.
    Service {
        /// The namespace of the service.
        namespace: String,
        /// Its name.
        name: String,
        /// The port of the service.
        port: u16,
        /// The path of the endpoint, empty for none.
        path: String,
    },
}

/// Which certificates of a server are good.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Trust {
    /// Those signed by the certificates of a PEM bundle.
    Bundle(Vec<u8>),
    /// Those the machine trusts.
    System,
    /// All.
    Anything,
}

impl Target {
    /// Reads `clientConfig` of a webhook configuration or of a conversion.
    pub(crate) fn of_client_config(config: &Value) -> Result<Self, CallError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let place = if config["service"].is_object() {
            let service = &config["service"];
            let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
            Place::Service {
                namespace: text(&service["namespace"]),
                name: text(&service["name"]),
                port,
                path: text(&service["path"]),
            }
        } else {
            let url = text(&config["url"]);
            if url.is_empty() {
                return Err(CallError::Other(
                    "webhook configuration must have either service or URL".to_owned(),
                ));
            }
            Place::Url(url)
        };
        Ok(Self { place, trust: Trust::of_bundle(&config["caBundle"]) })
    }

    /// The URL the endpoint goes by, as messages quote it, without a query.
    pub(crate) fn url(&self) -> String {
        match &self.place {
            Place::Url(url) => url.split(['?', '#']).next().unwrap_or_default().to_owned(),
            Place::Service { namespace, name, port, path } => {
                let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
                format!("https://{name}.{namespace}.svc:{port}{slash}{path}")
            }
        }
    }
}

impl Trust {
    /// The trust that a `caBundle` field asks for: base64 of PEM, or the machine's where it is empty.
    pub(crate) fn of_bundle(field: &Value) -> Self {
        match field.as_str().and_then(|text| STANDARD.decode(text).ok()) {
            Some(pem) if !pem.is_empty() => Self::Bundle(pem),
            _ => Self::System,
        }
    }
}

/// Takes one connection of this process to a mounted server, and serves it.
pub(crate) type Dock = Arc<dyn Fn(DuplexStream) + Send + Sync>;

/// How much one side of a connection of this process may be ahead of the other.
const AHEAD: usize = 256 * 1024;

/// Calls servers. Connections are kept for the next call where possible.
pub(crate) struct Client {
    resolver: Arc<dyn Resolver>,
    /// Servers of this process, by the namespace and name of the service they are behind.
    mounted: Mutex<HashMap<(String, String), Dock>>,
    identity: Option<trust::Identity>,
    configurations: Mutex<HashMap<Trust, Arc<ClientConfig>>>,
    idle: Mutex<HashMap<Target, Vec<SendRequest<Body>>>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("identity", &self.identity.is_some()).finish_non_exhaustive()
    }
}

impl Client {
    /// A client that finds services through `resolver`.
    pub(crate) fn new(resolver: Arc<dyn Resolver>) -> Self {
        Self {
            resolver,
            mounted: Mutex::default(),
            identity: None,
            configurations: Mutex::new(HashMap::new()),
            idle: Mutex::new(HashMap::new()),
        }
    }

    /// The same client, which shows a certificate to the servers it calls.
    pub(crate) fn with_identity(mut self, certificates: &str, key: &str) -> Result<Self, CallError> {
        self.identity = Some(trust::Identity::from_pem(certificates, key)?);
        Ok(self)
    }

    /// Puts a server of this process behind a service.
    pub(crate) fn mount(&self, namespace: &str, name: &str, dock: Dock) {
        self.mounted.lock().insert((namespace.to_owned(), name.to_owned()), dock);
    }

    /// The server of this process behind a service.
    pub(crate) fn mounted(&self, namespace: &str, name: &str) -> Option<Dock> {
        self.mounted.lock().get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Sends a request and gives the answer while its body still streams. The authority of the request's URI is
    /// replaced by the target's; an upgraded connection can be taken with [`hyper::upgrade::on`].
    pub(crate) async fn call(
        &self,
        target: &Target,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, CallError> {
        let mut sender = self.connect(target).await?;
        sender.send_request(prepared(target, request)?).await.map_err(|error| CallError::of_hyper(&error))
    }

    /// Posts JSON and reads the whole answer, which has to be a success.
    ///
    /// `timeout` is told to the server, as the real client does, and ends the call.
    pub(crate) async fn post(
        &self,
        target: &Target,
        body: &Value,
        timeout: Duration,
    ) -> Result<Response<Bytes>, CallError> {
        let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        let url = format!("{}?timeout={seconds}s", target.url());
        let bytes = serde_json::to_vec(body).map_err(|error| CallError::Other(error.to_string()))?;
        match tokio::time::timeout(timeout, self.exchange(target, &url, bytes.into())).await {
            Err(_) => Err(CallError::Deadline.posting(&url)),
            Ok(Err(error)) => Err(error.posting(&url)),
            Ok(Ok(answer)) => failure::only_success(answer),
        }
    }

    async fn exchange(&self, target: &Target, url: &str, bytes: Bytes) -> Result<Response<Bytes>, CallError> {
        let request = |bytes: Bytes| {
            Request::builder()
                .method(Method::POST)
                .uri(url)
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json, */*")
                .header(header::USER_AGENT, "kube-apiserver-admission")
                .body(full(bytes))
                .map_err(|error| CallError::Other(error.to_string()))
        };
        // A kept connection may have been closed by the other side meanwhile: then the call starts anew.
        let kept = self.idle.lock().get_mut(target).and_then(Vec::pop);
        let mut early = None;
        if let Some(mut sender) = kept
            && sender.ready().await.is_ok()
            && let Ok(response) = sender.send_request(prepared(target, request(bytes.clone())?)?).await
        {
            early = Some((sender, response));
        }
        let (sender, response) = if let Some(both) = early {
            both
        } else {
            let mut sender = self.connect(target).await?;
            let response = sender
                .send_request(prepared(target, request(bytes)?)?)
                .await
                .map_err(|error| CallError::of_hyper(&error))?;
            (sender, response)
        };
        let (parts, body) = response.into_parts();
        let body = http_body_util::Limited::new(body, LONGEST_ANSWER)
            .collect()
            .await
            .map_err(|error| CallError::Other(error.to_string()))?
            .to_bytes();
        let mut idle = self.idle.lock();
        if idle.len() >= MOST_SERVERS && !idle.contains_key(target) {
            idle.clear();
        }
        let kept = idle.entry(target.clone()).or_default();
        if kept.len() < IDLE_CONNECTIONS && !sender.is_closed() {
            kept.push(sender);
        }
        Ok(Response::from_parts(parts, body))
    }

    async fn connect(&self, target: &Target) -> Result<SendRequest<Body>, CallError> {
        let (address, name, secure) = match &target.place {
            Place::Url(url) => connect::of_url(url)?,
            Place::Service { namespace, name, port, .. } => {
                if let Some(dock) = self.mounted(namespace, name) {
                    let (ours, theirs) = tokio::io::duplex(AHEAD);
                    dock(theirs);
                    return connect::handshake(ours).await;
                }
                let address = self.resolver.resolve(namespace, name, *port).map_err(CallError::Other)?;
                (address, format!("{name}.{namespace}.svc"), true)
            }
        };
        let tls = if secure { Some(self.configuration(&target.trust)?) } else { None };
        connect::open(&address, &name, tls).await
    }

    fn configuration(&self, trust: &Trust) -> Result<Arc<ClientConfig>, CallError> {
        if let Some(known) = self.configurations.lock().get(trust) {
            return Ok(Arc::clone(known));
        }
        let built = Arc::new(trust::configuration(trust, self.identity.as_ref())?);
        let mut configurations = self.configurations.lock();
        if configurations.len() >= MOST_SERVERS {
            configurations.clear();
        }
        configurations.insert(trust.clone(), Arc::clone(&built));
        Ok(built)
    }
}

/// A body that is all there.
pub(crate) fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// The request in the form HTTP/1.1 sends it: only the path in the URI, the authority as `Host`.
fn prepared(target: &Target, mut request: Request<Body>) -> Result<Request<Body>, CallError> {
    let base: Uri =
        target.url().parse().map_err(|error| CallError::Other(format!("Unparsable URL: {error}")))?;
    if let Some(authority) = base.authority()
        && let Ok(host) = authority.as_str().parse()
    {
        request.headers_mut().insert(header::HOST, host);
    }
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    *request.uri_mut() =
        path.parse().map_err(|error| CallError::Other(format!("Unparsable URL: {error}")))?;
    Ok(request)
}

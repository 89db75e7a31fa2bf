//! Servers the server under test calls: webhooks, and API servers behind it.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::context::{Cx, config_map};
use crate::support::Result;
use crate::support::certificates::Authority;

/// A request that reached a server of ours.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// With the query.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// What a server of ours answers.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) delay: Duration,
    /// Breaks off in the middle of the body.
    pub(crate) broken: bool,
}

type Answer = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

/// An HTTPS server on loopback.
pub(crate) struct Server {
    pub(crate) port: u16,
    /// The certificate of the authority that vouches for it, as `caBundle` wants it.
    pub(crate) bundle: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Reply {
    pub(crate) fn ok(body: Value) -> Self {
        Self { status: 200, body, delay: Duration::ZERO, broken: false }
    }
}

impl Server {
    /// Starts a server that is also known by `names`.
    pub(crate) async fn start(
        names: &[&str],
        answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Result<Self> {
        let authority = Authority::new("hook-ca")?;
        let identity = authority.server("hook", names)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes())?],
                PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?,
            )?;
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(serve(listener, acceptor, Arc::new(answer), Arc::clone(&seen)));
        Ok(Self { port, bundle: STANDARD.encode(&authority.certificate), seen, task })
    }

    /// Starts an admission webhook: `decide` gets the request and gives the response, without its uid.
    pub(crate) async fn webhook(decide: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Result<Self> {
        Self::start(&[], move |seen| Reply::ok(review(&seen.body, decide(&seen.body["request"])))).await
    }

    /// How webhook configurations refer to this server.
    pub(crate) fn client_config(&self) -> Value {
        json!({"url": format!("https://127.0.0.1:{}/hook", self.port), "caBundle": self.bundle})
    }

    /// Everything that came so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// The admission requests about objects of this name so far.
    pub(crate) fn requests_about(&self, name: &str) -> Vec<Value> {
        let requests = self.seen().into_iter().map(|seen| seen.body["request"].clone());
        requests.filter(|request| request["name"] == name).collect()
    }

    /// Waits until the server under test asks this webhook about ConfigMaps of the scenario's namespace.
    pub(crate) async fn until_asked(&self, cx: &Cx) -> Result {
        for _ in 0..300 {
            cx.admin.post(cx.core("configmaps?dryRun=All"), &config_map("probe", "1")).await?;
            if !self.requests_about("probe").is_empty() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("the webhook is never asked".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The answer to a review, with the uid of its request.
pub(crate) fn review(asked: &Value, mut response: Value) -> Value {
    response["uid"] = asked["request"]["uid"].clone();
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

/// A JSON patch as responses carry it.
pub(crate) fn patch(operations: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, answer: Answer, seen: Arc<Mutex<Vec<Seen>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, answer, seen) = (acceptor.clone(), Arc::clone(&answer), Arc::clone(&seen));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(|request| respond(request, Arc::clone(&answer), Arc::clone(&seen)));
            // A client that goes away in the middle is no concern of ours.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades()
                .await;
        });
    }
}

async fn respond(
    mut request: http::Request<Incoming>,
    answer: Answer,
    seen: Arc<Mutex<Vec<Seen>>>,
) -> std::result::Result<Response<UnsyncBoxBody<Bytes, std::io::Error>>, Infallible> {
    let upgrade = request.headers().get(UPGRADE).cloned().map(|to| (to, hyper::upgrade::on(&mut request)));
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let request = Seen {
        method: head.method.to_string(),
        path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: head.headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let reply = answer(&request);
    seen.lock().push(request);
    tokio::time::sleep(reply.delay).await;
    let whole = Bytes::from(reply.body.to_string());
    let sent = match (reply.status, reply.broken) {
        (101, _) => Bytes::new(),
        (_, true) => whole.slice(..whole.len() / 2),
        (_, false) => whole,
    };
    let end = async move {
        // What was sent before should arrive before the connection breaks.
        tokio::time::sleep(Duration::from_millis(200)).await;
        Err(std::io::Error::other("broken"))
    };
    let end = futures::stream::iter(reply.broken.then_some(end)).then(|end| end);
    let pieces = futures::stream::iter([Ok(Frame::data(sent))]).chain(end);
    let mut response = Response::new(StreamBody::new(pieces).boxed_unsync());
    *response.status_mut() = http::StatusCode::from_u16(reply.status).unwrap_or_default();
    if let Some((to, upgrade)) = upgrade.filter(|_| reply.status == 101) {
        response.headers_mut().insert(UPGRADE, to);
        response.headers_mut().insert(CONNECTION, http::HeaderValue::from_static("Upgrade"));
        tokio::spawn(echo(upgrade));
        return Ok(response);
    }
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Sends back what comes, until there is no more.
async fn echo(upgrade: OnUpgrade) {
    let Ok(stream) = upgrade.await else { return };
    let (mut from, mut to) = tokio::io::split(TokioIo::new(stream));
    // A client that goes away in the middle is no concern of ours.
    let _ = tokio::io::copy(&mut from, &mut to).await;
    let _ = to.shutdown().await;
}

//! Controllers that are broken on purpose, each of which a named rule catches.
//!
//! A broken controller is the real one behind a client that reorders, rewrites or forgets what it sends, or shows it
//! what is not there: what ships has no switch for any of this.

mod forgetting;
mod hasty;
mod lying;
mod reordering;

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use serde_json::Value;
use trellis_simulation::plan::Plan;
use trellis_simulation::run::{Manner, run};
use trellis_simulation::stage::Disguise;

/// A request of a controller on its way.
pub(crate) struct Sent {
    pub(crate) site: &'static str,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
    /// Where it is to go.
    pub(crate) client: kube::Client,
}

/// What a server answers, or a broken client in its place.
pub(crate) type Answer = Response<Streamed>;
/// The body of an answer.
pub(crate) type Streamed = UnsyncBoxBody<Bytes, tower::BoxError>;

impl Sent {
    /// Whether it asks this of objects of this kind.
    pub(crate) fn is(&self, method: &Method, resource: &str) -> bool {
        let path = self.path.split('?').next().unwrap_or_default();
        self.method == *method && path.split('/').any(|part| part == resource)
    }

    /// Its body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The last part of its path.
    pub(crate) fn name(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        path.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// Sends it on.
    pub(crate) async fn forward(&self) -> Answer {
        self.forward_to(&self.path).await
    }

    /// Sends it on to another path.
    pub(crate) async fn forward_to(&self, path: &str) -> Answer {
        let mut request = Request::builder().method(&self.method).uri(path);
        if let Some(headers) = request.headers_mut() {
            *headers = self.headers.clone();
        }
        let request = request.body(Body::from(self.body.to_vec())).unwrap();
        let answer = self.client.send(request).await.unwrap_or_else(|error| {
            let mut answer = Response::new(Body::from(error.to_string().into_bytes()));
            *answer.status_mut() = http::StatusCode::BAD_GATEWAY;
            answer
        });
        answer.map(|body| body.map_err(tower::BoxError::from).boxed_unsync())
    }

    /// Has the server say what it would do, and not do it.
    pub(crate) async fn pretend(&self) -> Answer {
        let joint = if self.path.contains('?') { '&' } else { '?' };
        self.forward_to(&format!("{}{joint}dryRun=All", self.path)).await
    }
}

/// What a broken controller does with what it sends.
pub(crate) trait Breakage: Send + Sync + 'static {
    fn send(self: Arc<Self>, sent: Sent) -> BoxFuture<'static, Answer>;
}

impl<F, R> Breakage for F
where
    F: Fn(Sent) -> R + Send + Sync + 'static,
    R: Future<Output = Answer> + Send + 'static,
{
    fn send(self: Arc<Self>, sent: Sent) -> BoxFuture<'static, Answer> {
        Box::pin(self(sent))
    }
}

/// A client that is broken.
struct Broken<B> {
    breakage: Arc<B>,
    site: &'static str,
    inner: kube::Client,
}

impl<B> Clone for Broken<B> {
    fn clone(&self) -> Self {
        Self { breakage: Arc::clone(&self.breakage), site: self.site, inner: self.inner.clone() }
    }
}

impl<B: Breakage> tower::Service<Request<Body>> for Broken<B> {
    type Response = Answer;
    type Error = tower::BoxError;
    type Future = BoxFuture<'static, Result<Answer, tower::BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), tower::BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let broken = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
            let (site, client) = (broken.site, broken.inner);
            let sent = Sent { site, method: parts.method, path, headers: parts.headers, body, client };
            Ok(broken.breakage.send(sent).await)
        })
    }
}

/// A controller with this breakage.
pub(crate) fn disguise<B: Breakage>(breakage: B) -> Disguise {
    let breakage = Arc::new(breakage);
    Arc::new(move |site, inner| {
        let breakage = Arc::clone(&breakage);
        kube::Client::new(Broken { breakage, site, inner }, "default")
    })
}

/// The rule that catches a broken controller, and that is silent about the correct one in the very same plan.
pub(crate) fn caught<B: Breakage>(line: &str, rule: &str, breakage: B) {
    let plan: Plan = line.parse().unwrap();
    let correct = run(&plan, &Manner::default()).unwrap();
    assert!(correct.violations.is_empty(), "the correct one: {:?}\n{}", correct.violations, correct.timeline);
    let manner = Manner {
        disguise: Some(disguise(breakage)),
        reference: Some(correct.reference),
        // Many of them never come to an end.
        patience: Some(Duration::from_mins(20)),
        ..Manner::default()
    };
    let outcome = run(&plan, &manner).unwrap();
    assert!(outcome.rules().contains(&rule), "not caught: {:?}\n{}", outcome.violations, outcome.timeline);
}

//! What stands between controllers and a site: it numbers what they ask and are told, and makes go wrong what a plan
//! says.
//!
//! "Killed" means that nothing of that controller reaches a server any more, and that it hears nothing; whoever
//! started it is told, and starts another one that knows nothing.

mod book;
mod stale;
mod watching;

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use trellis_lab::store::Store;

pub use book::{Book, Incarnation, LAG, Line, RESYNC, Seen};

use crate::plan::Perturbation;
use crate::point::{Asked, Verb};

/// What an answer is made of: the lab's, ours, or a watch that passes through.
type Answer = Response<Streamed>;
/// The body of an answer.
pub(crate) type Streamed = http_body_util::combinators::UnsyncBoxBody<Bytes, tower::BoxError>;

/// One site, as one controller reaches it.
#[derive(Clone)]
pub struct Tap {
    book: Arc<Book>,
    site: &'static str,
    who: Incarnation,
    inner: kube::Client,
    /// Where versions are looked up, for what is shown from before; without it nothing is.
    store: Option<Arc<Store>>,
}

impl Tap {
    /// A client of a site for one controller.
    pub fn client(
        book: &Arc<Book>,
        site: &'static str,
        who: Incarnation,
        inner: kube::Client,
        store: Option<Arc<Store>>,
    ) -> kube::Client {
        kube::Client::new(Self { book: Arc::clone(book), site, who, inner, store }, "default")
    }

    async fn pass(self, request: Request<Body>) -> Result<Answer, tower::BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let apply = parts
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|form| form.as_bytes().starts_with(b"application/apply-patch"));
        let asked = Asked::read(&parts.method, &parts.uri, apply, &body);
        if !self.book.lives(self.who) {
            return std::future::pending().await;
        }
        let version = self.store.as_ref().map_or(0, |store| store.version());
        let (number, fault) = self.book.asked(self.who, self.site, &asked, &parts.method, &body, version);
        if self.book.parted().borrow().contains(self.site) {
            // Nobody hears it, and nobody answers.
            return std::future::pending().await;
        }
        let request = Request::from_parts(parts, Body::from(body));
        let answer = self.answer(request, &asked, fault).await?;
        self.book.answered(number, answer.status().as_u16());
        if !self.book.lives(self.who) {
            return std::future::pending().await;
        }
        Ok(answer)
    }

    async fn answer(
        &self,
        request: Request<Body>,
        asked: &Asked,
        fault: Option<Perturbation>,
    ) -> Result<Answer, tower::BoxError> {
        match fault {
            // Only events are dropped and cut.
            None | Some(Perturbation::Drop | Perturbation::Cut) => self.forward(request, asked).await,
            Some(Perturbation::CrashBefore) => {
                self.book.kill(self.who);
                std::future::pending().await
            }
            Some(what @ (Perturbation::CrashAfter | Perturbation::CrashStale)) => {
                let before = self.store.as_ref().map(|store| store.version());
                let answer = self.forward(request, asked).await;
                if let (Perturbation::CrashStale, Some(version)) = (what, before) {
                    self.book.lag(self.site, version);
                }
                self.book.kill(self.who);
                drop(answer);
                std::future::pending().await
            }
            Some(Perturbation::Lost) => {
                drop(self.forward(request, asked).await);
                std::future::pending().await
            }
            Some(Perturbation::Refused(code)) => Ok(refusal(code, asked)),
            Some(Perturbation::Stale) => match self.stale_version() {
                Some(version) => self.earlier(request, asked, version).await,
                None => self.forward(request, asked).await,
            },
        }
    }

    /// From when a read shows what it shows, if it is to be late: before the last write of a controller.
    fn stale_version(&self) -> Option<u64> {
        let newest = self.store.as_ref()?.version();
        Some(self.book.last_write(self.site).unwrap_or(newest.saturating_sub(1)).max(1))
    }

    async fn forward(&self, request: Request<Body>, asked: &Asked) -> Result<Answer, tower::BoxError> {
        if asked.verb != Verb::Watch {
            return Ok(self.send(request).await?.map(streamed));
        }
        let path = request.uri().path().to_owned() + selectors(request.uri()).as_str();
        if is_resumption(request.uri()) && self.book.is_expired(self.site, &path) {
            return Ok(refusal(410, asked));
        }
        if let Some(version) = self.book.lagging(self.site)
            && !is_resumption(request.uri())
        {
            return self.earlier(request, asked, version).await;
        }
        let resumes = is_resumption(request.uri());
        let answer = self.send(request).await?;
        if !answer.status().is_success() {
            return Ok(answer.map(streamed));
        }
        Ok(answer.map(|body| watching::told(self.clone(), asked.resource.clone(), path, resumes, body)))
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
        Ok(self.inner.send(request).await?)
    }
}

/// A body as answers have it.
fn streamed(body: Body) -> Streamed {
    body.map_err(tower::BoxError::from).boxed_unsync()
}

/// A body of a few bytes.
fn whole(bytes: impl Into<Bytes>) -> Streamed {
    http_body_util::Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Whether a watch goes on from a version.
fn is_resumption(uri: &http::Uri) -> bool {
    let pairs = uri.query().unwrap_or_default().split('&');
    pairs.filter_map(|pair| pair.strip_prefix("resourceVersion=")).any(|version| version != "0")
}

/// The part of a query that says which objects are meant.
fn selectors(uri: &http::Uri) -> String {
    let pairs = uri.query().unwrap_or_default().split('&');
    let chosen =
        pairs.filter(|pair| pair.starts_with("labelSelector=") || pair.starts_with("fieldSelector="));
    chosen.fold(String::new(), |all, pair| format!("{all}&{pair}"))
}

/// A refusal as a server words it.
fn refusal(code: u16, asked: &Asked) -> Answer {
    let reason = match code {
        409 if asked.verb == Verb::Create && asked.subresource.is_empty() => "AlreadyExists",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let status = status(code, reason);
    let mut answer = Response::new(whole(status.to_string()));
    *answer.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if code == 429 {
        headers.insert(header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    answer
}

/// The object of a refusal.
fn status(code: u16, reason: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "reason": reason, "message": "made to go wrong", "code": code,
    })
}

impl tower::Service<Request<Body>> for Tap {
    type Response = Answer;
    type Error = tower::BoxError;
    type Future = BoxFuture<'static, Result<Answer, tower::BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), tower::BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().pass(request))
    }
}

/// Whether a delete names the object it means by its uid.
pub(crate) fn names_uid(method: &Method, body: &[u8]) -> bool {
    if method != Method::DELETE {
        return true;
    }
    let options: Value = serde_json::from_slice(body).unwrap_or_default();
    options.pointer("/preconditions/uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty())
}

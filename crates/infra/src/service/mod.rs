//! The HTTP service of the emulated components: admission webhooks and aggregated APIs.
//!
//! One service, mounted in two ways: inside the lab's server, which hands it connections of this process, and beside a
//! real one, which calls it over TLS. In both, the same webhook configurations and API services lead to it.

pub(crate) mod access;
pub mod admission;
pub mod install;
pub mod serve;
mod users;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use serde_json::{Value, json};

pub use access::{Access, FrontProxy};
pub(crate) use serve::linger;
pub use users::User;

use crate::context::Context;

/// The body of an answer, which may stream.
pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// A request to an aggregated API, with the user the API server vouches for.
#[derive(Debug)]
pub struct Call {
    /// The user.
    pub user: User,
    /// The request; still with its body, and ready to be upgraded.
    pub request: Request<Incoming>,
}

/// The service of a cluster. Clones share everything.
#[derive(Debug, Clone)]
pub struct Service {
    context: Context,
    access: Access,
}

/// Serves the paths below a prefix.
type Route = (&'static str, for<'c> fn(&'c Context, Call) -> BoxFuture<'c, Response<Body>>);

/// The aggregated APIs and other paths by their beginning.
const ROUTES: &[Route] = &[
    ("/apis/lab.trellis.dev", |context, call| Box::pin(crate::control::serve(context, call))),
    ("/apis/subresources.kubevirt.io", |context, call| {
        Box::pin(crate::kubevirt::subresources::serve(context, call))
    }),
    ("/apis/upload.cdi.kubevirt.io", |context, call| {
        Box::pin(crate::cdi::upload::serve_tokens(context, call))
    }),
    // What a kubelet is asked for by the API server.
    ("/containerLogs/", |context, call| Box::pin(async move { crate::logs::serve(context, &call) })),
    // CDI's proxy for uploads, which has an address of its own beside a real server.
    (access::UPLOADS[0], |context, call| Box::pin(crate::cdi::upload::serve_uploads(context, call))),
    (access::UPLOADS[1], |context, call| Box::pin(crate::cdi::upload::serve_uploads(context, call))),
];

impl Service {
    /// The service of a cluster, for connections of an API server: what they say of users is believed.
    pub fn new(context: Context) -> Self {
        Self { context, access: Access::Everything }
    }

    /// The same for others.
    #[must_use]
    pub fn with(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// Answers a request. Boxed, so that the service is not compiled anew for each kind of connection in each program.
    pub(crate) fn answered(self, request: Request<Incoming>) -> BoxFuture<'static, Response<Body>> {
        Box::pin(async move { self.handle(request).await })
    }

    /// Answers a request.
    pub async fn handle(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        if !self.access.leads_to(&path) {
            return failure(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized");
        }
        if let Some(hook) = admission::find(&path) {
            return self.admit(hook, request).await;
        }
        if access::is_health(&path) {
            return plain(StatusCode::OK, "ok");
        }
        if path == "/apis" && request.method() == Method::GET {
            return answer(StatusCode::OK, &install::groups());
        }
        let route = ROUTES.iter().find(|(prefix, _)| path.starts_with(prefix));
        match route {
            Some((_, serve)) => {
                let user = User::of_proxy(request.headers());
                serve(&self.context, Call { user, request }).await
            }
            None => {
                failure(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
            }
        }
    }

    async fn admit(&self, hook: &admission::Hook, request: Request<Incoming>) -> Response<Body> {
        let Ok(body) = request.into_body().collect().await else {
            return plain(StatusCode::BAD_REQUEST, "the review could not be read");
        };
        match serde_json::from_slice::<Value>(&body.to_bytes()) {
            Ok(review) => answer(StatusCode::OK, &hook.answer(&self.context, review).await),
            Err(error) => plain(StatusCode::BAD_REQUEST, &format!("the review could not be read: {error}")),
        }
    }
}

/// An answer that is all there.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// An answer in JSON.
pub fn answer(code: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(full(body.to_string()));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// An answer of plain text.
pub fn plain(code: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(full(text.to_owned()));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain"));
    response
}

/// An answer with a code and nothing else.
pub fn empty(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = code;
    response
}

/// A failure as API servers tell it.
pub fn failure(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    answer(code, &status)
}

/// The text of a header, or nothing.
fn header_text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

//! The way of a request: who asks, may they, what goes wrong on purpose, and the answer.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{CONNECTION, HeaderName, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt as _;
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;

use super::Server;
use super::room::with_room;
use crate::api::negotiate::{self, Output};
use crate::api::reply::{Body, Reply};
use crate::api::request::{self, Form, Parameters};
use crate::api::{self, Call};
use crate::attributes::{Attributes, User};
use crate::auth;
use crate::faults::{self, Trouble};
use crate::gotime;
use crate::registry::Served;
use crate::status::Status;
use crate::store::Key;
use crate::webhook;

/// How long a request may take, unless it is one that goes on.
const LIMIT: Duration = Duration::from_mins(1);
/// The largest body of a request.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// Who is at the other end of a connection.
#[derive(Debug)]
pub(crate) enum Peer {
    /// A client over the network, and what its certificates say.
    Network(Option<auth::Peer>),
    /// Code of this process, taken for this user.
    Process(User),
}

impl Call {
    /// A call the server makes itself.
    pub(crate) fn inside(
        now: jiff::Timestamp,
        user: &User,
        verb: &str,
        served: &Served,
        key: &Key,
        subresource: &str,
    ) -> Self {
        let attributes = Attributes {
            user: user.clone(),
            verb: verb.to_owned(),
            group: served.kind.group.clone(),
            version: served.kind.version.clone(),
            resource: served.resource.resource.clone(),
            subresource: subresource.to_owned(),
            namespace: if served.is_namespace() { key.name.clone() } else { key.namespace.clone() },
            name: key.name.clone(),
            ..Attributes::default()
        };
        Self {
            method: Method::PUT,
            now,
            attributes,
            form: Form::default(),
            query: String::new(),
            parameters: Parameters::default(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            trouble: Trouble::default(),
            admitted: false,
            bare_template: AtomicBool::default(),
            warnings: Mutex::default(),
        }
    }
}

/// What a request brings along and only one place of the server takes.
struct Arrived {
    body: webhook::Body,
    /// The connection itself, for who takes it over.
    upgrade: Option<OnUpgrade>,
}

/// Answers one request, whatever its body is made of.
pub(crate) fn handle<B>(
    server: &Arc<Server>,
    peer: &Arc<Peer>,
    request: Request<B>,
) -> BoxFuture<'static, Response<Body>>
where
    B: HttpBody + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    boxed(Arc::clone(server), Arc::clone(peer), request.map(passed_on))
}

/// Nearly all of the server is below this. What has a type parameter, and every future that is not boxed where it is made,
/// is compiled anew in each program that uses a lab; so this is neither.
fn boxed(
    server: Arc<Server>,
    peer: Arc<Peer>,
    request: Request<webhook::Body>,
) -> BoxFuture<'static, Response<Body>> {
    Box::pin(async move { respond(&server, &peer, request).await })
}

async fn respond(server: &Arc<Server>, peer: &Peer, request: Request<webhook::Body>) -> Response<Body> {
    let (mut head, body) = request.into_parts();
    let arrived = Arrived { body, upgrade: head.extensions.remove() };
    let parameters = Parameters::parse(head.uri.query().unwrap_or_default());
    let (attributes, form) = request::target(&head.method, head.uri.path(), &parameters);
    let head_only = head.method == Method::HEAD;
    let closes = head.version <= Version::HTTP_11;
    let mut call = Call {
        method: head.method,
        now: server.clock.now(),
        attributes,
        form,
        query: head.uri.query().unwrap_or_default().to_owned(),
        parameters,
        headers: head.headers,
        body: Bytes::new(),
        trouble: Trouble::default(),
        admitted: false,
        bare_template: AtomicBool::default(),
        warnings: Mutex::default(),
    };
    // A failure is told in JSON when the client accepts nothing we have.
    let output = negotiate::output(&call.headers, &call.parameters, false).unwrap_or(Output::PLAIN);
    let output = Output { view: negotiate::View::Object, ..output };
    // A bug in one request is that request's failure, and nobody else's.
    let outcome = AssertUnwindSafe(answer_in_time(server, peer, &mut call, arrived)).catch_unwind().await;
    let outcome = outcome.unwrap_or_else(|_| {
        tracing::error!(
            path = call.attributes.path,
            verb = call.attributes.verb,
            "a request ended in a panic"
        );
        Err(Status::internal("the server has a bug: see its log"))
    });
    let mut reply = outcome.unwrap_or_else(|status| Reply::failure(&status, output));
    reply.warn(&call.warnings.lock());
    if matches!(reply.code, 401 | 403) {
        reply.headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    // Nobody reads on after a body that was too long; HTTP/2 has no word for it, and needs none.
    if reply.code == 413 && closes {
        reply.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    // Only who is known is given a place in a queue.
    if !call.attributes.user.name.is_empty() {
        server.flows.tell(&server.store, &call.attributes, &mut reply.headers);
    }
    if let Ok(mut id) = HeaderValue::try_from(server.new_uid(&["request"])) {
        // No answer has the same one again, so that compression of headers has nothing to remember.
        id.set_sensitive(true);
        reply.headers.insert(HeaderName::from_static("audit-id"), id);
    }
    if head_only {
        reply.body = Body::none();
    }
    reply.into_response()
}

/// Answers a request within the time its client and we allow.
async fn answer_in_time(
    server: &Arc<Server>,
    peer: &Peer,
    call: &mut Call,
    arrived: Arrived,
) -> Result<Reply, Status> {
    let allowed = time_allowed(&call.attributes, call.parameters.text("timeout"))?;
    server.identify(peer, call)?;
    server.authorizer().check(&call.attributes)?;
    // What the fault plan takes of the time is not the server's, and is not in its limit.
    if let Some(trouble) = server.faults().trouble(&call.attributes) {
        call.trouble = trouble;
    }
    if let Some(delay) = call.trouble.delay {
        tokio::time::sleep(delay).await;
    }
    if let Some(time) = call.trouble.timeout_before {
        tokio::time::sleep(time).await;
        return Err(faults::timeout());
    }
    if let Some(code) = call.trouble.fail {
        return Err(faults::failure(code, &call.attributes));
    }
    let outcome = match allowed {
        None => answer(server, call, arrived).await,
        Some(time) => {
            let answered = tokio::time::timeout(time, answer(server, call, arrived)).await;
            answered.unwrap_or_else(|_| Err(faults::timeout()))
        }
    };
    if let Some(time) = call.trouble.timeout_after {
        tokio::time::sleep(time).await;
        return Err(faults::timeout());
    }
    outcome
}

/// How long a request may take, if it may not go on forever. Nobody gets more than our own limit.
fn time_allowed(attributes: &Attributes, asked: &str) -> Result<Option<Duration>, Status> {
    let goes_on = matches!(attributes.verb.as_str(), "watch" | "proxy")
        || matches!(attributes.subresource.as_str(), "attach" | "exec" | "proxy" | "log" | "portforward");
    if goes_on {
        return Ok(None);
    }
    if asked.is_empty() {
        return Ok(Some(LIMIT));
    }
    let asked = gotime::parse_duration(asked).map_err(|why| {
        Status::bad_request(format!("invalid timeout specified in the request URL - {why}"))
    })?;
    // No time at all means that the client does not care.
    let asked = u64::try_from(asked).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos);
    Ok(Some(asked.map_or(LIMIT, |asked| asked.min(LIMIT))))
}

/// Does what a request asks for.
async fn answer(server: &Arc<Server>, call: &mut Call, arrived: Arrived) -> Result<Reply, Status> {
    let outcome = if let Some(service) = server.aggregated(&call.attributes.path) {
        let Arrived { body, upgrade } = arrived;
        server.forward(call, &service, body, upgrade).await
    } else {
        call.body = read_whole(arrived.body).await?;
        let body = call.body.clone();
        let work = pin!(async {
            if call.attributes.is_resource() {
                api::dispatch(server, call).await
            } else {
                server.document(call)
            }
        });
        with_room(server, &body, work).await
    };
    // Whoever is refused, or told what would happen, was told what others have written: that has to be safe, too.
    if call.attributes.is_resource() && (outcome.is_err() || call.parameters.get("dryRun").is_some()) {
        server.settled(server.store().version()).await?;
    }
    outcome
}

/// Reads a body that is not too long.
async fn read_whole(mut body: webhook::Body) -> Result<Bytes, Status> {
    let mut pieces: Vec<Bytes> = Vec::new();
    let mut size = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|why| Status::bad_request(format!("the body cannot be read: {why}")))?;
        let Ok(piece) = frame.into_data() else { continue };
        size += piece.len();
        if size > BODY_LIMIT {
            let message = format!("Request entity too large: limit is {BODY_LIMIT}");
            return Err(Status::new(413, "RequestEntityTooLarge", message));
        }
        pieces.push(piece);
    }
    // Most bodies come in one piece, which is not copied.
    Ok(if pieces.len() > 1 { pieces.concat().into() } else { pieces.pop().unwrap_or_default() })
}

/// A body of which nobody has to know what it is made of, and which is read as it comes.
fn passed_on<B>(body: B) -> webhook::Body
where
    B: HttpBody + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.is_end_stream() {
        return webhook::full(Bytes::new());
    }
    let bytes = |frame: Frame<B::Data>| frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
    body.map_frame(bytes).map_err(Into::into).boxed_unsync()
}

impl Server {
    /// Finds out who asks, and whom they want to be taken for.
    fn identify(&self, peer: &Peer, call: &mut Call) -> Result<(), Status> {
        call.attributes.user = match peer {
            Peer::Process(user) => user.clone(),
            Peer::Network(peer) => {
                let found =
                    self.authenticator.authenticate(&call.headers, peer.as_ref(), self.clock.now())?;
                found.warnings.into_iter().for_each(|warning| call.warn(warning));
                found.user
            }
        };
        if let Some(user) = self.impersonator.impersonate(&call.headers, &call.attributes)? {
            call.attributes.user = user;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(verb: &str, asked: &str) -> Result<Option<Duration>, Status> {
        time_allowed(&Attributes { verb: verb.to_owned(), ..Attributes::default() }, asked)
    }

    #[test]
    fn clients_may_ask_for_less_time_but_not_for_more() {
        assert_eq!(allowed("get", "").unwrap(), Some(LIMIT));
        assert_eq!(allowed("get", "5s").unwrap(), Some(Duration::from_secs(5)));
        assert_eq!(allowed("list", "0s").unwrap(), Some(LIMIT));
        assert_eq!(allowed("list", "-1s").unwrap(), Some(LIMIT));
        assert_eq!(allowed("create", "2h").unwrap(), Some(LIMIT));
        assert_eq!(allowed("watch", "nonsense").unwrap(), None);
    }

    #[test]
    fn nonsense_is_no_time() {
        let refused = allowed("get", "nonsense").unwrap_err();
        assert_eq!(refused.code, 400);
        assert_eq!(
            refused.message,
            "invalid timeout specified in the request URL - time: invalid duration \"nonsense\""
        );
    }
}

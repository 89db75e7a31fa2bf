//! The proxy that takes uploads from outside the cluster.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Method, Response, StatusCode, header};
use hyper::body::Incoming;
use serde_json::Value;

use super::body::{self, Packing};
use super::tokens::possible;
use super::{names, pod_name};
use crate::cdi::{populate, token, worker};
use crate::client::{Client, Identity};
use crate::context::Context;
use crate::kinds::{POD, PVC};
use crate::object::{Key, Object as _};
use crate::service::{Body, Call, empty, linger, plain};

/// How long a server may take to be ready.
const PATIENCE: u32 = 10;
/// How often it is looked at.
const POLL: Duration = Duration::from_secs(1);

/// Takes an upload.
pub async fn serve_uploads(context: &Context, call: Call) -> Response<Body> {
    let (head, mut body) = call.request.into_parts();
    match take(context, &head, &mut body).await {
        Ok(()) => empty(StatusCode::OK),
        Err(refusal) => {
            linger(&head.headers, body);
            *refusal
        }
    }
}

/// Takes an upload, or says why not, be it before any of it was read.
async fn take(context: &Context, head: &Parts, body: &mut Incoming) -> Result<(), Box<Response<Body>>> {
    let path = head.uri.path().trim_end_matches('/');
    let packing = match path.rsplit('/').next().unwrap_or_default() {
        "upload" | "upload-async" => Packing::Plain,
        "upload-form" | "upload-form-async" => Packing::Form,
        "upload-archive" | "upload-archive-alpha" => Packing::Archive,
        _ => return Err(Box::new(empty(StatusCode::NOT_FOUND))),
    };
    let given = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(bearer).ok_or_else(|| Box::new(empty(StatusCode::BAD_REQUEST)))?;
    let grant = token::check(context, token::UPLOAD, given).await;
    let grant = grant.map_err(|_| Box::new(empty(StatusCode::UNAUTHORIZED)))?;
    if grant.operation != "Upload" || grant.resource != token::Resource::claims() {
        return Err(Box::new(empty(StatusCode::BAD_REQUEST)));
    }
    let client = context.client(Identity::CDI_API);
    let key = Key::new(&grant.namespace, &grant.name);
    let server = ready(context, &client, &key).await;
    let server = server.map_err(|message| Box::new(plain(StatusCode::SERVICE_UNAVAILABLE, &message)))?;
    if head.method == Method::HEAD {
        return Ok(());
    }
    if !matches!(head.method, Method::POST | Method::PUT) {
        return Err(Box::new(empty(StatusCode::NOT_FOUND)));
    }
    let failed = |message: String| {
        Box::new(plain(StatusCode::BAD_REQUEST, &format!("Saving stream failed: {message}")))
    };
    let content = body::read(body, &head.headers, packing).await.map_err(failed)?;
    if content.virtual_size > server.room {
        return Err(failed(format!(
            "Virtual image size {} is larger than the reported available storage {}. A larger PVC is required.",
            content.virtual_size, server.room
        )));
    }
    if let Err(message) = context.stages.pass("upload.process", &server.claim, 0).await {
        return Err(Box::new(plain(StatusCode::INTERNAL_SERVER_ERROR, &message)));
    }
    if context.world.transfers.deliver(server.pod.uid(), Ok(content)) {
        Ok(())
    } else {
        Err(Box::new(plain(StatusCode::SERVICE_UNAVAILABLE, "the upload server is busy")))
    }
}

/// The token of an `Authorization` header.
fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(char::is_whitespace)?;
    let token = token.trim_start();
    let plain = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte));
    (scheme.eq_ignore_ascii_case("bearer") && plain && !token.is_empty()).then_some(token)
}

/// A server that takes an upload.
struct Server {
    pod: Arc<Value>,
    claim: Arc<Value>,
    room: u64,
}

async fn ready(context: &Context, client: &Client, key: &Key) -> Result<Server, String> {
    for attempt in 0..=PATIENCE {
        if attempt > 0 {
            tokio::time::sleep(POLL).await;
        }
        let claim = client.cache(&PVC).get(key);
        let Some(claim) = claim else {
            return Err(format!("rejecting Upload Request for PVC {} that doesn't exist", key.name));
        };
        possible(&claim)?;
        if claim.annotation(names::POD_PHASE) == "Succeeded" {
            return Err(format!(
                "rejecting Upload Request for PVC {} that already finished uploading",
                key.name
            ));
        }
        if claim.annotation(names::POD_READY) != "true" {
            continue;
        }
        // A populator takes the upload on the claim beside.
        let target = if populate::source_kind(&claim).is_empty() {
            key.clone()
        } else {
            Key::new(&key.namespace, &populate::prime_name(&claim))
        };
        let pod = client.cache(&POD).get(&Key::new(&target.namespace, &pod_name(&target.name)));
        let room = worker::target(client, &target).map(|target| target.room);
        if let (Some(pod), Some(room)) = (pod, room)
            && context.world.transfers.is_listening(pod.uid())
        {
            return Ok(Server { pod, claim, room });
        }
    }
    Err("timed out waiting for the condition".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bearers_are_let_in() {
        assert_eq!(bearer("Bearer a.b-c"), Some("a.b-c"));
        assert_eq!(bearer("bearer  x"), Some("x"));
        assert_eq!(bearer("Basic x"), None);
        assert_eq!(bearer("Bearer a b"), None);
        assert_eq!(bearer("Bearer"), None);
    }
}

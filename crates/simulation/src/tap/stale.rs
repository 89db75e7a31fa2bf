//! Answers from before: what a server that lags would show.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};

use super::book::LAG;
use super::{Answer, Streamed, Tap, selectors, streamed, whole};
use crate::point::{Asked, Verb};

impl Tap {
    /// Answers a read with what was there at a version.
    pub(super) async fn earlier(
        &self,
        request: Request<Body>,
        asked: &Asked,
        version: u64,
    ) -> Result<Answer, tower::BoxError> {
        let uri = request.uri().clone();
        let query = format!("resourceVersion={version}&resourceVersionMatch=Exact{}", selectors(&uri));
        let collection = match asked.verb {
            Verb::Get => uri.path().rsplit_once('/').map_or(uri.path(), |(collection, _)| collection),
            _ => uri.path(),
        };
        let list = Request::get(format!("{collection}?{query}")).body(Body::empty())?;
        let listed = self.send(list).await?;
        if !listed.status().is_success() {
            // The history does not reach back so far: nobody can be shown what nobody knows.
            return Ok(self.send(request).await?.map(streamed));
        }
        if asked.verb == Verb::List {
            return Ok(listed.map(streamed));
        }
        let bytes = listed.into_body().collect().await?.to_bytes();
        let list: Value = serde_json::from_slice(&bytes)?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        if asked.verb == Verb::Watch {
            return Ok(Response::new(begun(&items, version)));
        }
        let found = items.into_iter().find(|item| item["metadata"]["name"] == asked.name.as_str());
        Ok(match found {
            Some(object) => Response::new(whole(object.to_string())),
            None => absent(asked),
        })
    }
}

/// The answer for an object that is not there.
fn absent(asked: &Asked) -> Answer {
    let mut status = super::status(404, "NotFound");
    status["details"] = json!({"name": asked.name, "kind": asked.resource});
    let mut answer = Response::new(whole(status.to_string()));
    *answer.status_mut() = http::StatusCode::NOT_FOUND;
    answer
}

/// A watch that begins with what was there, says nothing for a while, and ends: whoever goes on from its version is
/// told all that happened since.
fn begun(items: &[Value], version: u64) -> Streamed {
    let mut lines = String::new();
    for item in items {
        lines.push_str(&json!({"type": "ADDED", "object": item}).to_string());
        lines.push('\n');
    }
    let end = json!({"type": "BOOKMARK", "object": {"metadata": {
        "resourceVersion": version.to_string(), "annotations": {"k8s.io/initial-events-end": "true"},
    }}});
    lines.push_str(&end.to_string());
    lines.push('\n');
    let stream = futures::stream::unfold(Some(Bytes::from(lines)), |lines| async move {
        if let Some(lines) = lines {
            return Some((Ok::<_, tower::BoxError>(Frame::data(lines)), None));
        }
        tokio::time::sleep(LAG).await;
        None
    });
    StreamBody::new(stream).boxed_unsync()
}

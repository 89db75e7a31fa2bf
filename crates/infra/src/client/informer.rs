//! Feeding a cache by a list and a watch that never end.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use http::Request;
use kube::core::WatchEvent;
use serde_json::Value;
use tokio::time::Instant;

use super::cache::Cache;
use super::{ApiError, Result};
use crate::kinds::Kind;
use crate::object::{Key, Object as _};

/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_millis(200);
/// How long the server may keep a watch open.
const WATCH: Duration = Duration::from_mins(5);

/// Keeps the cache true until the task is dropped.
pub(super) async fn feed(client: kube::Client, cache: Arc<Cache>, fields: String) {
    loop {
        if let Err(failure) = list_and_watch(&client, &cache, &fields).await {
            tracing::debug!(kind = cache.kind().kind, %failure, "a watch is started anew");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Lists, and watches until the server has lost the thread.
async fn list_and_watch(client: &kube::Client, cache: &Cache, fields: &str) -> Result {
    let kind = cache.kind();
    let base = format!("{}?fieldSelector={}", kind.path("", ""), fields.replace('=', "%3D"));
    let mut list: Value = client.request(get(&base)?).await?;
    let mut version = list.version();
    let Value::Array(items) = list["items"].take() else { return Err(malformed(kind)) };
    cache.learn_all(items, version);
    loop {
        let path = format!(
            "{base}&watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={}",
            WATCH.as_secs()
        );
        let began = Instant::now();
        let events = client.request_events::<Value>(get(&path)?).await?;
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    version = object.version();
                    cache.learn(object);
                }
                WatchEvent::Deleted(object) => {
                    version = object.version();
                    cache.forget(&Key::of(&object), version);
                }
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version.parse().unwrap_or(version);
                }
                WatchEvent::Error(status) => return Err(kube::Error::Api(status).into()),
            }
        }
        // A server that closes every watch at once is not asked again and again without a pause.
        if began.elapsed() < PAUSE {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn get(path: &str) -> Result<Request<Vec<u8>>> {
    Request::get(path).body(Vec::new()).map_err(|error| ApiError::other(&error))
}

fn malformed(kind: &Kind) -> ApiError {
    ApiError { code: 0, reason: String::new(), message: format!("the list of {} has no items", kind.plural) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::Response;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_closes_at_once_is_not_reopened_without_a_pause() {
        let watches = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&watches);
        let server = tower::service_fn(move |request: Request<Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            counted.fetch_add(usize::from(is_watch), Ordering::Relaxed);
            let list = json!({"metadata": {"resourceVersion": "1"}, "items": []}).to_string();
            let body = if is_watch { Vec::new() } else { list.into_bytes() };
            async move { Ok::<_, std::convert::Infallible>(Response::new(Body::from(body))) }
        });
        let cache = Arc::new(Cache::new(&crate::kinds::POD));
        let fed = feed(kube::Client::new(server, "default"), Arc::clone(&cache), String::new());
        assert!(tokio::time::timeout(Duration::from_secs(2), fed).await.is_err());
        let watches = watches.load(Ordering::Relaxed);
        assert!((2..=11).contains(&watches), "{watches} watches in two seconds");
    }
}

//! Feeding a cache by a list and a watch that never end.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use http::Request;
use kube::core::WatchEvent;
use serde_json::Value;

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
    }
}

fn get(path: &str) -> Result<Request<Vec<u8>>> {
    Request::get(path).body(Vec::new()).map_err(|error| ApiError::other(&error))
}

fn malformed(kind: &Kind) -> ApiError {
    ApiError { code: 0, reason: String::new(), message: format!("the list of {} has no items", kind.plural) }
}

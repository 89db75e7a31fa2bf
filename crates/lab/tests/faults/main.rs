//! What goes wrong: because a plan says so, or because of what clients send.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod depth;
mod requests;
mod watches;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use trellis_lab::clock::TokioClock;
use trellis_lab::{Body, Controllers, Lab, Options};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";

/// A server under test.
struct Cluster {
    lab: Lab,
}

impl Cluster {
    /// A server whose time is that of the test, and which nobody else writes to.
    async fn start() -> Self {
        Self::start_in(None).await
    }

    /// The same in a folder.
    async fn start_in(folder: Option<&Path>) -> Self {
        let start = || {
            let clock = Arc::new(TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
            let folder = folder.map(Path::to_owned);
            let controllers = Controllers::Outside;
            Lab::start(Options { folder, clock, seed: Some(1), controllers, ..Options::default() })
        };
        // Tasks of a server that ended may hold its folder for a moment.
        for _ in 0..500 {
            if let Ok(lab) = start().await {
                return Self { lab };
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Self { lab: start().await.unwrap() }
    }

    async fn open(&self, method: Method, path: &str, media_type: &str, body: String) -> http::Response<Body> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media_type)
            .header("accept", JSON)
            .header("user-agent", "test/1")
            .body(Full::new(bytes::Bytes::from(body)))
            .unwrap();
        self.lab.service().oneshot(request).await.unwrap()
    }

    /// The answer to a request, as it was sent.
    async fn text(&self, method: Method, path: &str, media_type: &str, body: String) -> (u16, String) {
        let response = self.open(method, path, media_type, body).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The answer to a request.
    async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (code, text) = self.text(method, path, JSON, body).await;
        (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send(Method::GET, path, &Value::Null).await
    }

    /// Creates a config map, and tells its version.
    async fn create(&self, name: &str, labels: Value) -> u64 {
        let (code, answer) = self.send(Method::POST, MAPS, &config_map(name, "1", &labels)).await;
        assert_eq!(code, 201, "{answer}");
        version(&answer)
    }

    /// Gives a config map other data, and tells its version.
    async fn update(&self, name: &str, data: &str) -> u64 {
        let map = config_map(name, data, &json!({}));
        let (code, answer) = self.send(Method::PUT, &format!("{MAPS}/{name}"), &map).await;
        assert_eq!(code, 200, "{answer}");
        version(&answer)
    }

    /// Watches config maps.
    async fn watch(&self, query: &str) -> Watching {
        let path = format!("{MAPS}?watch=true&{query}");
        let response = self.open(Method::GET, &path, JSON, String::new()).await;
        assert_eq!(response.status().as_u16(), 200);
        Watching { body: response.into_body(), rest: Vec::new() }
    }
}

/// A watch that is read.
struct Watching {
    body: Body,
    rest: Vec<u8>,
}

impl Watching {
    /// The next event; none at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.rest.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// The next event as its word and the name of its object.
    async fn told(&mut self) -> String {
        let event = tokio::time::timeout(Duration::from_secs(5), self.next()).await.unwrap().unwrap();
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        format!("{} {name}", event["type"].as_str().unwrap())
    }

    /// True when nothing comes for a while.
    async fn is_quiet(&mut self) -> bool {
        tokio::time::timeout(Duration::from_secs(5), self.next()).await.is_err()
    }
}

fn config_map(name: &str, data: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"x": data}})
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

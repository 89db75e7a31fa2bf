//! What the controllers do, as a client of the server sees it, in time that only passes when nothing else does.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod garbage;
mod namespaces;
mod services;
mod system;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use trellis_lab::clock::TokioClock;
use trellis_lab::{Lab, Options};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How often it is looked for.
const PAUSE: Duration = Duration::from_millis(10);

/// A server under test.
struct Cluster {
    lab: Lab,
}

impl Cluster {
    /// A server whose time is that of the test.
    async fn start() -> Self {
        let clock = Arc::new(TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let lab = Lab::start(Options { clock, seed: Some(1), ..Options::default() }).await.unwrap();
        Self { lab }
    }

    /// The answer to a request.
    async fn send(&self, method: Method, path: &str, media_type: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media_type)
            .header("accept", "application/json")
            .header("user-agent", "test/1")
            .body(Full::new(bytes::Bytes::from(body)))
            .unwrap();
        let response = self.lab.service().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into()))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send(Method::GET, path, "application/json", &Value::Null).await
    }

    /// An object that is there.
    async fn read(&self, path: &str) -> Value {
        let (code, object) = self.get(path).await;
        assert_eq!(code, 200, "{path}: {object}");
        object
    }

    async fn post(&self, path: &str, object: &Value) -> (u16, Value) {
        self.send(Method::POST, path, "application/json", object).await
    }

    /// Creates an object.
    async fn create(&self, path: &str, object: Value) -> Value {
        let (code, answer) = self.post(path, &object).await;
        assert_eq!(code, 201, "{path}: {answer}");
        answer
    }

    /// Changes an object.
    async fn patch(&self, path: &str, patch: Value) -> Value {
        let (code, answer) = self.send(Method::PATCH, path, "application/merge-patch+json", &patch).await;
        assert_eq!(code, 200, "{path}: {answer}");
        answer
    }

    /// Deletes an object.
    async fn delete(&self, path: &str) -> Value {
        let (code, answer) = self.send(Method::DELETE, path, "application/json", &Value::Null).await;
        assert!((200..300).contains(&code), "{path}: {answer}");
        answer
    }

    /// Waits for the answer to a `GET` to be as wanted.
    async fn until(&self, path: &str, wanted: impl Fn(u16, &Value) -> bool) -> Value {
        let end = tokio::time::Instant::now() + LIMIT;
        loop {
            let (code, object) = self.get(path).await;
            if wanted(code, &object) {
                return object;
            }
            assert!(tokio::time::Instant::now() < end, "{path} stays {code} {object:#}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn until_gone(&self, path: &str) {
        self.until(path, |code, _| code == 404).await;
    }

    /// Lets the controllers do what they have to do.
    async fn quiet(&self) {
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    /// A new namespace; its path for objects of the core.
    async fn namespace(&self, name: &str) -> String {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create("/api/v1/namespaces", namespace).await;
        format!("/api/v1/namespaces/{name}")
    }

    /// Defines `widgets.example.com`, and waits until they are served.
    async fn define_widgets(&self) {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        });
        self.create(DEFINITIONS, definition).await;
        self.until("/apis/example.com/v1/widgets", |code, _| code == 200).await;
    }
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}})
}

/// The status of a condition.
fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default()
}

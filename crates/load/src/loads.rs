//! The loads of requests. Adding one is adding a row to [`LOADS`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::json;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::connection::{Body, Connection, Dialer};
use crate::outcome::Round;
use crate::servers::Server;
use crate::support::Result;
use crate::usage::Usage;

/// How many objects are there to be read and changed.
const SEEDED: usize = 1_000;
/// How many clients prepare what a load needs.
const PREPARING: usize = 32;
/// What objects carry.
const PAYLOAD: usize = 512;
/// The definition of the custom resource.
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A load: clients that all do the same, each on a connection of its own, as fast as they are answered.
#[derive(Debug)]
pub(crate) struct Load {
    /// What the report calls it.
    pub(crate) name: &'static str,
    kind: Kind,
    operation: Operation,
    clients: usize,
}

/// What the objects are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ConfigMap,
    /// A custom resource with a schema.
    Widget,
}

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Create,
    Get,
    Patch,
    Delete,
    /// Lists so many objects at once.
    List(usize),
}

const fn load(name: &'static str, kind: Kind, operation: Operation, clients: usize) -> Load {
    Load { name, kind, operation, clients }
}

/// All loads, in the order they run.
pub(crate) const LOADS: &[Load] = &[
    load("ConfigMap create, 1 client", Kind::ConfigMap, Operation::Create, 1),
    load("ConfigMap create, 16 clients", Kind::ConfigMap, Operation::Create, 16),
    load("ConfigMap create, 64 clients", Kind::ConfigMap, Operation::Create, 64),
    load("ConfigMap get, 1 client", Kind::ConfigMap, Operation::Get, 1),
    load("ConfigMap get, 16 clients", Kind::ConfigMap, Operation::Get, 16),
    load("ConfigMap merge patch, 16 clients", Kind::ConfigMap, Operation::Patch, 16),
    load("ConfigMap delete, 16 clients", Kind::ConfigMap, Operation::Delete, 16),
    load("custom resource create, 16 clients", Kind::Widget, Operation::Create, 16),
    load("custom resource get, 16 clients", Kind::Widget, Operation::Get, 16),
    load("custom resource get, 64 clients", Kind::Widget, Operation::Get, 64),
    load("custom resource merge patch, 16 clients", Kind::Widget, Operation::Patch, 16),
    load("list of 10000 ConfigMaps, 2 clients", Kind::ConfigMap, Operation::List(10_000), 2),
];

/// Where the objects of a load are.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    kind: Kind,
    namespace: Arc<str>,
}

impl Place {
    pub(crate) fn new(kind: Kind, namespace: &str) -> Self {
        Self { kind, namespace: namespace.into() }
    }

    /// The path of the collection.
    pub(crate) fn collection(&self) -> String {
        match self.kind {
            Kind::ConfigMap => format!("/api/v1/namespaces/{}/configmaps", self.namespace),
            Kind::Widget => format!("/apis/load.example.com/v1/namespaces/{}/widgets", self.namespace),
        }
    }

    /// The path of one object.
    pub(crate) fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.collection())
    }

    /// An object of this name, as JSON.
    pub(crate) fn body(&self, name: &str) -> Bytes {
        let metadata = json!({"name": name, "labels": {"app": "load", "part": "bench"}});
        let payload = "x".repeat(PAYLOAD);
        let object = match self.kind {
            Kind::ConfigMap => json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"payload": payload},
            }),
            Kind::Widget => json!({
                "apiVersion": "load.example.com/v1", "kind": "Widget", "metadata": metadata,
                "spec": {"replicas": 3, "image": "registry.example.com/widget:1", "tags": ["a", "b"],
                    "settings": {"payload": payload}},
            }),
        };
        object.to_string().into()
    }

    /// A merge patch that changes something every time.
    fn patch(&self, turn: usize) -> Bytes {
        let patch = match self.kind {
            Kind::ConfigMap => json!({"data": {"turn": turn.to_string()}}),
            Kind::Widget => json!({"spec": {"replicas": turn}}),
        };
        patch.to_string().into()
    }

    /// Makes what objects need before they can be there.
    pub(crate) async fn prepare(&self, connection: &mut Connection) -> Result {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": &*self.namespace}});
        let namespace = Body::Json(namespace.to_string().into());
        connection.expect(Method::POST, "/api/v1/namespaces", namespace, &[201, 409]).await?;
        if self.kind == Kind::ConfigMap {
            return Ok(());
        }
        let definition = Body::Json(widgets().to_string().into());
        connection.expect(Method::POST, DEFINITION, definition, &[201, 409]).await?;
        // A definition is served a moment after it is there.
        for _ in 0..200 {
            if connection.exchange(Method::GET, &self.collection(), Body::None).await? == 200 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("the custom resource is never served".into())
    }
}

fn widgets() -> serde_json::Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["image"], "properties": {
            "replicas": {"type": "integer", "minimum": 0},
            "image": {"type": "string", "minLength": 1},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "settings": {"type": "object", "additionalProperties": {"type": "string"}},
            "paused": {"type": "boolean", "default": false},
        }},
        "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.load.example.com"},
        "spec": {"group": "load.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}]},
    })
}

impl Load {
    /// One round on one server: about `time` of work.
    pub(crate) async fn round(&self, server: &Server, round: usize, time: Duration) -> Result<Round> {
        // Loads of one sort share what is there; each list has exactly what it wants.
        let place = match self.operation {
            Operation::List(count) => Place::new(self.kind, &format!("load-list-{count}")),
            _ => Place::new(self.kind, "load"),
        };
        let dialer = &server.dialer;
        place.prepare(&mut dialer.dial().await?).await?;
        match self.operation {
            Operation::Create | Operation::Delete => {}
            Operation::Get | Operation::Patch => fill(dialer, &place, "seed", SEEDED).await?,
            Operation::List(count) => fill(dialer, &place, "seed", count).await?,
        }
        let clients = self.clients;
        // Spread over the objects, and the same for every server.
        let seeded = |client: usize, turn: usize| format!("seed-{}", (client * 7_919 + turn * 31) % SEEDED);
        let end = End::After(time);
        match self.operation {
            Operation::Create => {
                run(server, clients, end, move |client, turn| {
                    let name = format!("c{clients}-{round}-{client}-{turn}");
                    (Method::POST, place.collection(), Body::Json(place.body(&name)))
                })
                .await
            }
            Operation::Get => {
                run(server, clients, end, move |client, turn| {
                    (Method::GET, place.object(&seeded(client, turn)), Body::None)
                })
                .await
            }
            Operation::Patch => {
                run(server, clients, end, move |client, turn| {
                    let patch = place.patch(round * 10_000_000 + client * 100_000 + turn);
                    (Method::PATCH, place.object(&seeded(client, turn)), Body::MergePatch(patch))
                })
                .await
            }
            Operation::Delete => deletions(server, clients, place, round, time).await,
            Operation::List(_) => {
                let path = format!("{}?resourceVersion=0", place.collection());
                run(server, clients, end, move |_, _| (Method::GET, path.clone(), Body::None)).await
            }
        }
    }
}

/// Deletions need something to delete: about as much as is created in the same time.
async fn deletions(
    server: &Server,
    clients: usize,
    place: Place,
    round: usize,
    time: Duration,
) -> Result<Round> {
    let name = move |client: usize, turn: usize| format!("gone-{round}-{client}-{turn}");
    let filled = place.clone();
    let created = run(server, clients, End::After(time), move |client, turn| {
        (Method::POST, filled.collection(), Body::Json(filled.body(&name(client, turn))))
    })
    .await?;
    // Each client deletes what it created; a margin, since not all created the same number.
    let each = usize::try_from(created.operations)? / clients * 4 / 5;
    run(server, clients, End::Turns(each.max(1)), move |client, turn| {
        (Method::DELETE, place.object(&name(client, turn)), Body::None)
    })
    .await
}

/// Makes sure there are `count` objects.
pub(crate) async fn fill(dialer: &Dialer, place: &Place, stem: &'static str, count: usize) -> Result {
    let mut connection = dialer.dial().await?;
    let last = place.object(&format!("{stem}-{}", count - 1));
    if connection.exchange(Method::GET, &last, Body::None).await? == 200 {
        return Ok(());
    }
    let mut clients = JoinSet::new();
    for client in 0..PREPARING {
        let mut connection = dialer.dial().await?;
        let place = place.clone();
        clients.spawn(async move {
            // The last object comes last, since it stands for all.
            for number in (client..count).step_by(PREPARING) {
                let body = Body::Json(place.body(&format!("{stem}-{number}")));
                connection.expect(Method::POST, &place.collection(), body, &[201, 409]).await?;
            }
            Result::Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    Ok(())
}

/// When clients stop.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    After(Duration),
    /// After so many requests each.
    Turns(usize),
}

impl End {
    fn reached(self, start: Instant, turn: usize) -> bool {
        match self {
            Self::After(time) => start.elapsed() >= time,
            Self::Turns(turns) => turn >= turns,
        }
    }
}

/// Lets clients send requests, one after the other each, and measures the server meanwhile.
pub(crate) async fn run(
    server: &Server,
    clients: usize,
    end: End,
    request: impl Fn(usize, usize) -> (Method, String, Body) + Clone + Send + 'static,
) -> Result<Round> {
    let ready = Arc::new(Barrier::new(clients + 1));
    let mut running = JoinSet::new();
    for client in 0..clients {
        let mut connection = server.dialer.dial().await?;
        let (ready, request) = (Arc::clone(&ready), request.clone());
        running.spawn(async move {
            let mut latencies = Vec::new();
            ready.wait().await;
            let start = Instant::now();
            let mut turn = 0;
            while !end.reached(start, turn) {
                let (method, path, body) = request(client, turn);
                let sent = Instant::now();
                let status = connection.exchange(method.clone(), &path, body).await?;
                if status >= 300 {
                    return Err(format!("{method} {path} is answered with {status}").into());
                }
                latencies.push(u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX));
                turn += 1;
            }
            Result::Ok(latencies)
        });
    }
    let before = Usage::of(&server.processes)?;
    ready.wait().await;
    let start = Instant::now();
    let mut latencies = Vec::new();
    while let Some(ended) = running.join_next().await {
        latencies.append(&mut ended??);
    }
    let time = start.elapsed();
    let after = Usage::of(&server.processes)?;
    let operations = u64::try_from(latencies.len())?;
    Ok(Round { operations, time, server: after.cpu.saturating_sub(before.cpu), latencies })
}

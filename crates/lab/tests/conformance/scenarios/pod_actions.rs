//! What admission has to say about bindings and evictions.

use serde_json::{Value, json};

use super::webhooks::{hook, register};
use crate::context::{Cx, pod};
use crate::hooks::{Server, patch};
use crate::support::Result;
use crate::support::json::has;

scenarios![
    a_binding_is_about_the_pod_of_its_path,
    a_binding_is_what_admission_makes_of_it,
    an_eviction_is_no_deletion_to_admission,
    an_eviction_is_what_admission_makes_of_it,
];

fn binding_of(name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"kind": "Node", "name": node}})
}

fn eviction_of(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
}

/// A pod on a node, which takes its time to go.
async fn placed(cx: &Cx, name: &str) -> Result {
    cx.until_pods_are_admitted().await?;
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = "some-node".into();
    cx.create(cx.core("pods"), &pod).await.map(drop)
}

/// Registers a webhook for what is done to pods, and waits until it is asked.
async fn asked(cx: &Cx, decide: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Result<Server> {
    let server = Server::webhook(decide).await?;
    let rule = |resources: &[&str], operation: &str| json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": resources, "operations": [operation]});
    let rules = json!([
        rule(&["configmaps", "pods/binding", "pods/eviction", "bindings"], "CREATE"),
        rule(&["pods"], "DELETE")
    ]);
    register(cx, "Mutating", "a", &[hook(cx, &server, &rules)]).await?;
    server.until_asked(cx).await?;
    Ok(server)
}

async fn a_binding_is_about_the_pod_of_its_path(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    cx.create(cx.core("pods"), &pod("a")).await?;
    cx.create(cx.core("pods"), &pod("b")).await?;
    let other = cx.admin.post(cx.core("pods/a/binding"), &binding_of("b", "node-1")).await?;
    other.fails_with(400, "BadRequest", "name in URL does not match name in Binding object");
    let nameless = cx.admin.post(cx.core("pods/a/binding"), &binding_of("", "node-1")).await?;
    nameless.fails_with(400, "BadRequest", "name in URL does not match name in Binding object");
    for path in ["pods/a/binding", "bindings"] {
        let mut astray = binding_of("a", "node-1");
        astray["metadata"]["namespace"] = "default".into();
        cx.admin.post(cx.core(path), &astray).await?.fails_with(
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        );
    }
    let found = cx.read(cx.core("pods/a")).await?;
    for (field, named, is) in [
        ("uid", "UID", found["metadata"]["uid"].clone()),
        ("resourceVersion", "ResourceVersion", found["metadata"]["resourceVersion"].clone()),
    ] {
        let mut outdated = binding_of("a", "node-1");
        outdated["metadata"][field] = "1".into();
        cx.admin.post(cx.core("pods/a/binding"), &outdated).await?.fails_with(
            409,
            "Conflict",
            &format!(
                "Operation cannot be fulfilled on pods \"a\": StorageError: invalid object, Code: 4, Key: \
                 /registry/pods/{}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {named} in \
                 precondition: 1, {named} in object meta: {}",
                cx.ns,
                is.as_str().unwrap_or_default()
            ),
        );
    }
    for name in ["a", "b"] {
        has(&cx.read(cx.core(&format!("pods/{name}"))).await?, &json!({"spec": {"nodeName": null}}));
    }
    Ok(())
}

async fn a_binding_is_what_admission_makes_of_it(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let _server = asked(&cx, |request| match request["subResource"].as_str() {
        Some("binding") => {
            let mut response = patch(&json!([
                {"op": "add", "path": "/metadata/labels", "value": {"mutated": "yes"}},
                {"op": "add", "path": "/target/name", "value": "node-2"},
            ]));
            response["warnings"] = json!(["bound elsewhere"]);
            response
        }
        _ => json!({"allowed": true}),
    })
    .await?;
    cx.create(cx.core("pods"), &pod("a")).await?;
    // What is not there is no problem as long as admission adds it.
    let mut binding = binding_of("a", "");
    binding["target"] = json!({"kind": "Node"});
    let answer = cx.admin.post(cx.core("pods/a/binding"), &binding).await?;
    answer.ok(201);
    assert_eq!(answer.warnings(), ["bound elsewhere"]);
    has(
        &cx.read(cx.core("pods/a")).await?,
        &json!({"spec": {"nodeName": "node-2"}, "metadata": {"labels": {"mutated": "yes"}}}),
    );
    Ok(())
}

async fn an_eviction_is_no_deletion_to_admission(cx: Cx) -> Result {
    placed(&cx, "a").await?;
    placed(&cx, "b").await?;
    let server = asked(&cx, |request| match request["operation"].as_str() {
        Some("DELETE") => json!({"allowed": false, "status": {"message": "no pod goes"}}),
        _ => json!({"allowed": true}),
    })
    .await?;
    cx.admin.post(cx.core("pods/a/eviction"), &eviction_of("a")).await?.ok(201);
    has(&cx.read(cx.core("pods/a")).await?, &json!({"metadata": {"deletionGracePeriodSeconds": 30}}));
    let asked = server.requests_about("a");
    assert_eq!(asked.iter().map(|request| &request["operation"]).collect::<Vec<_>>(), ["CREATE"]);
    let refused = cx.admin.delete(cx.core("pods/b")).await?;
    refused.fails_with(400, "", "admission webhook \"hook.example.com\" denied the request: no pod goes");
    Ok(())
}

async fn an_eviction_is_what_admission_makes_of_it(cx: Cx) -> Result {
    placed(&cx, "a").await?;
    let _server = asked(&cx, |request| match request["subResource"].as_str() {
        Some("eviction") => {
            let mut response =
                patch(&json!([{"op": "add", "path": "/deleteOptions", "value": {"gracePeriodSeconds": 7}}]));
            response["warnings"] = json!(["sooner"]);
            response
        }
        _ => json!({"allowed": true}),
    })
    .await?;
    let mut astray = eviction_of("a");
    astray["metadata"]["namespace"] = "default".into();
    cx.admin.post(cx.core("pods/a/eviction"), &astray).await?.fails(400, "BadRequest");
    let answer = cx.admin.post(cx.core("pods/a/eviction"), &eviction_of("a")).await?;
    answer.ok(201);
    assert_eq!(answer.warnings(), ["sooner"]);
    has(&cx.read(cx.core("pods/a")).await?, &json!({"metadata": {"deletionGracePeriodSeconds": 7}}));
    Ok(())
}

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::admission::testing::{Server, admission, attributes, creation, labels_of, serve, shop, webhook};
use crate::names::{GroupResource, Gvk};
use crate::reader::Fixture;

fn mutating() -> GroupResource {
    GroupResource::new("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
}

fn validating() -> GroupResource {
    GroupResource::new("admissionregistration.k8s.io", "validatingwebhookconfigurations")
}

fn patched(patch: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string())})
}

/// A server whose answer depends on the first part of the path.
async fn server() -> Server {
    let calls = Arc::new(AtomicUsize::new(0));
    serve(
        "hook.shop.svc",
        Arc::new(move |path, review: Value| {
            let calls = Arc::clone(&calls);
            Box::pin(async move {
                let path = path.split('?').next().unwrap_or_default().trim_matches('/').to_owned();
                let number = calls.fetch_add(1, Ordering::SeqCst);
                let object = &review["request"]["object"];
                let mut response = match path.as_str() {
                    "deny" => json!({"allowed": false, "status": {"message": "no way", "code": 418, "reason": "Teapot"}}),
                    "silent" => json!({"allowed": false}),
                    "warn" => json!({"allowed": true, "warnings": ["w one", "w two", "w one"]}),
                    "count" => patched(&json!([
                        {"op": "add", "path": "/metadata/labels", "value": object["metadata"]["labels"].as_object().cloned().unwrap_or_default()},
                        {"op": "add", "path": format!("/metadata/labels/call{number}"), "value": "yes"},
                    ])),
                    "once" if object["metadata"]["labels"]["once"].is_null() => patched(&json!([
                        {"op": "add", "path": "/metadata/labels", "value": {"once": "yes"}},
                    ])),
                    "wide" => patched(&json!([{"op": "replace", "path": "/width", "value": 9}])),
                    "untyped" => json!({"allowed": true, "patch": STANDARD.encode("[]")}),
                    "slow" => {
                        tokio::time::sleep(Duration::from_secs(30)).await;
                        json!({"allowed": true})
                    }
                    "broken" => return (500, "boom".to_owned()),
                    "garbage" => return (200, "hello".to_owned()),
                    "echo" => json!({"allowed": false, "status": {"message": review.to_string()}}),
                    _ => json!({"allowed": true}),
                };
                response["uid"] = review["request"]["uid"].clone();
                let answer = json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
                (200, answer.to_string())
            })
        }),
    )
    .await
}

fn map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"}})
}

async fn created(objects: Fixture) -> Result<(Value, Vec<String>), Value> {
    let attributes = attributes("", "v1", "configmaps");
    let kind = Gvk::new("", "v1", "ConfigMap");
    let admission = admission(objects);
    let mut review = creation(&attributes, &kind, map());
    let mut warnings = admission.mutate(&mut review).await.map_err(|status| status.to_value())?;
    warnings.extend(admission.validate(&review).await.map_err(|status| status.to_value())?);
    Ok((review.object.unwrap(), warnings))
}

#[tokio::test]
async fn refusals_carry_the_status_of_the_webhook() {
    let server = server().await;
    let refusal = created(shop().with(validating(), webhook(&server, "deny", &json!({})))).await.unwrap_err();
    assert_eq!(
        refusal,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Teapot", "code": 418,
            "message": "admission webhook \"check.example.com\" denied the request: no way",
        })
    );
    let refusal = created(shop().with(mutating(), webhook(&server, "silent", &json!({})))).await.unwrap_err();
    assert_eq!(
        refusal,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 400,
            "message": "admission webhook \"check.example.com\" denied the request without explanation",
        })
    );
}

#[tokio::test]
async fn the_question_is_that_of_the_real_server() {
    let server = server().await;
    let refusal = created(shop().with(validating(), webhook(&server, "echo", &json!({})))).await.unwrap_err();
    let message = refusal["message"].as_str().unwrap().split_once("request: ").unwrap().1.to_owned();
    let mut review: Value = serde_json::from_str(&message).unwrap();
    assert_eq!(review["request"]["uid"].as_str().unwrap().len(), 36);
    review["request"]["uid"] = Value::Null;
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    assert_eq!(
        review,
        json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": null, "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
                "name": "settings", "namespace": "shop", "operation": "CREATE",
                "userInfo": {"username": "alice", "groups": ["devs"]},
                "object": map(), "oldObject": null, "dryRun": false,
                "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            },
        })
    );
}

#[tokio::test]
async fn failures_are_told_like_those_of_the_real_server() {
    let server = server().await;
    for (path, why) in [
        (
            "broken",
            "failed to call webhook: an error on the server (\"unknown\") has prevented the request from succeeding",
        ),
        (
            "untyped",
            "received invalid webhook response: webhook returned response.patch but not response.patchType",
        ),
    ] {
        let refusal = created(shop().with(mutating(), webhook(&server, path, &json!({})))).await.unwrap_err();
        let told = format!("failed calling webhook \"check.example.com\": {why}");
        assert_eq!(refusal["message"], format!("Internal error occurred: {told}"));
        assert_eq!(refusal["details"]["causes"], json!([{"message": told}]));
        let open = webhook(&server, path, &json!({"failurePolicy": "Ignore"}));
        assert!(created(shop().with(mutating(), open)).await.is_ok());
    }
    let refusal =
        created(shop().with(validating(), webhook(&server, "garbage", &json!({})))).await.unwrap_err();
    assert!(refusal["message"].as_str().unwrap().contains("couldn't get version/kind; json parse error"));
    let slow = webhook(&server, "slow", &json!({"timeoutSeconds": 1}));
    let refusal = created(shop().with(validating(), slow)).await.unwrap_err();
    let url = format!("https://{}/slow?timeout=1s", server.address);
    assert!(
        refusal["message"].as_str().unwrap().ends_with(&format!("Post \"{url}\": context deadline exceeded")),
        "{refusal}"
    );
    let mut stranger = webhook(&server, "allow", &json!({}));
    stranger["webhooks"][0]["clientConfig"]["caBundle"] = Value::Null;
    let refusal = created(shop().with(validating(), stranger)).await.unwrap_err();
    assert!(
        refusal["message"]
            .as_str()
            .unwrap()
            .ends_with("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        "{refusal}"
    );
}

#[tokio::test]
async fn services_are_found_by_their_endpoints() {
    let server = server().await;
    let mut hook = webhook(&server, "warn", &json!({}));
    hook["webhooks"][0]["clientConfig"] = json!({
        "service": {"namespace": "shop", "name": "hook", "path": "/warn", "port": 443}, "caBundle": server.bundle,
    });
    let objects = || shop().with(validating(), hook.clone());
    let refusal = created(objects()).await.unwrap_err();
    assert!(
        refusal["message"]
            .as_str()
            .unwrap()
            .ends_with("Post \"https://hook.shop.svc:443/warn?timeout=5s\": service \"hook\" not found"),
        "{refusal}"
    );
    let service =
        json!({"metadata": {"name": "hook", "namespace": "shop"}, "spec": {"ports": [{"port": 443}]}});
    let slice = json!({
        "metadata": {"name": "hook-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "hook"}},
        "ports": [{"name": "", "port": server.address.port()}],
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}],
    });
    let there = objects()
        .with(GroupResource::new("", "services"), service)
        .with(GroupResource::new("discovery.k8s.io", "endpointslices"), slice);
    assert_eq!(created(there).await.unwrap().1, ["w one", "w two"]);
}

#[tokio::test]
async fn webhooks_that_ask_for_it_are_called_again_after_a_change() {
    let server = server().await;
    let again = webhook(&server, "count", &json!({"reinvocationPolicy": "IfNeeded"}));
    let later = webhook(&server, "once", &json!({}));
    let (object, _) = created(shop().with(mutating(), again).with(mutating(), later)).await.unwrap();
    // Called first and, after the other one changed the object, third.
    let labels = labels_of(&object);
    assert_eq!(labels.keys().collect::<Vec<_>>(), ["call2", "once"]);
    let never = webhook(&server, "count", &json!({}));
    let (object, _) = created(shop().with(mutating(), never)).await.unwrap();
    assert_eq!(labels_of(&object).len(), 1);
}

#[tokio::test]
async fn selectors_rules_and_dry_runs_decide_whether_a_webhook_is_called() {
    let server = server().await;
    for more in [
        json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}),
        json!({"objectSelector": {"matchLabels": {"app": "x"}}}),
        json!({"rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps/*"]}]}),
        json!({"rules": [{"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*/*"]}]}),
        json!({"rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*"], "scope": "Cluster"}]}),
    ] {
        assert!(
            created(shop().with(validating(), webhook(&server, "deny", &more))).await.is_err()
                == (more["rules"][0]["resources"][0] == "configmaps/*"),
            "{more}"
        );
    }
    let attributes = attributes("", "v1", "configmaps");
    let kind = Gvk::new("", "v1", "ConfigMap");
    let noisy = webhook(&server, "allow", &json!({"sideEffects": "Some"}));
    let admission = admission(shop().with(validating(), noisy));
    let mut review = creation(&attributes, &kind, map());
    review.dry_run = true;
    let refusal = admission.validate(&review).await.unwrap_err();
    assert_eq!(refusal.code, 400);
    assert_eq!(refusal.message, "admission webhook \"check.example.com\" does not support dry run");
}

#[tokio::test]
async fn a_webhook_for_another_version_gets_that_version() {
    let server = server().await;
    let rules = json!({"rules": [
        {"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["widgets"]},
    ]});
    let attributes = attributes("example.com", "v1", "widgets");
    let kind = Gvk::new("example.com", "v1", "Widget");
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "size": 3});
    let equivalent = admission(shop().with(mutating(), webhook(&server, "wide", &rules)));
    let mut review = creation(&attributes, &kind, widget.clone());
    equivalent.mutate(&mut review).await.unwrap();
    assert_eq!(review.object.unwrap()["size"], 9);
    let mut exact = webhook(&server, "wide", &rules);
    exact["webhooks"][0]["matchPolicy"] = "Exact".into();
    let mut review = creation(&attributes, &kind, widget);
    admission(shop().with(mutating(), exact)).mutate(&mut review).await.unwrap();
    assert_eq!(review.object.unwrap()["size"], 3);
}

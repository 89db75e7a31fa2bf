//! Admission webhooks, with servers of our own on loopback.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::context::{Cx, config_map, deployment, pod};
use crate::crds::{definition, establish};
use crate::hooks::{Reply, Server, patch, review};
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    mutating,
    what_a_webhook_is_told,
    denial,
    denial_with_a_code,
    warnings,
    failure_policies,
    broken_answers,
    timeout,
    updates_and_deletions,
    validation_sees_the_mutated,
    mutated_objects_are_validated,
    object_selector,
    match_conditions,
    subresources,
    custom_resources_in_another_version,
    dry_run_is_told,
    called_again_if_needed,
    bad_configurations,
    deleting_collections,
    field_managers_of_mutations,
    slow_webhooks_of_services,
];

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// One webhook of a configuration, for the scenario's namespace only.
pub(super) fn hook(cx: &Cx, server: &Server, rules: &Value) -> Value {
    json!({
        "name": "hook.example.com", "clientConfig": server.client_config(), "rules": rules,
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 10,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cx.ns}},
    })
}

/// The rule for ConfigMaps.
fn config_maps(operations: &[&str]) -> Value {
    json!([{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": operations}])
}

/// Registers webhooks of one kind.
pub(super) async fn register(cx: &Cx, kind: &str, name: &str, hooks: &[Value]) -> Result<Value> {
    let collection = format!("{CONFIGURATIONS}/{}webhookconfigurations", kind.to_lowercase());
    cx.delete_at_the_end(format!("{collection}/{}-{name}", cx.unique));
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": format!("{}-{name}", cx.unique)}, "webhooks": hooks});
    cx.create(collection, &object).await
}

async fn mutating(cx: Cx) -> Result {
    let server = Server::webhook(|_| {
        patch(&json!([{"op": "add", "path": "/data/added", "value": "by the webhook"},
            {"op": "add", "path": "/metadata/labels", "value": {"mutated": "yes"}}]))
    })
    .await?;
    let registered = register(&cx, "Mutating", "a", &[hook(&cx, &server, &config_maps(&["CREATE"]))]).await?;
    has(
        &registered["webhooks"],
        &json!([{"failurePolicy": "Fail", "matchPolicy": "Equivalent", "reinvocationPolicy": "Never",
        "objectSelector": {}, "rules": [{"scope": "*"}]}]),
    );
    server.until_asked(&cx).await?;
    let created = cx.config_map("a", "1").await?;
    has(
        &created,
        &json!({"data": {"key": "1", "added": "by the webhook"}, "metadata": {"labels": {"mutated": "yes"}}}),
    );
    assert_eq!(cx.read(cx.core("configmaps/a")).await?, created);
    Ok(())
}

async fn what_a_webhook_is_told(cx: Cx) -> Result {
    let server = Server::webhook(|_| json!({"allowed": true})).await?;
    register(&cx, "Validating", "a", &[hook(&cx, &server, &config_maps(&["*"]))]).await?;
    server.until_asked(&cx).await?;
    cx.admin.post(cx.core("configmaps?fieldManager=me"), &config_map("a", "1")).await?.ok(201);
    // Controllers make ConfigMaps of their own in a new namespace.
    let seen = server.seen().into_iter().find(|seen| seen.body["request"]["name"] == "a");
    let last = seen.ok_or("the webhook is not asked")?;
    assert_eq!((last.method.as_str(), last.path.as_str()), ("POST", "/hook?timeout=10s"));
    assert_eq!(last.headers["content-type"], "application/json");
    has(
        &last.body,
        &json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": null}),
    );
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    let request = &last.body["request"];
    has(
        request,
        &json!({
            "kind": kind, "requestKind": kind, "resource": resource, "requestResource": resource,
            "name": "a", "namespace": cx.ns, "operation": "CREATE", "dryRun": false, "oldObject": null,
            "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"},
            "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a",
            "namespace": cx.ns}, "data": {"key": "1"}},
        }),
    );
    assert_eq!(text(request, "/uid").len(), 36);
    assert_eq!(text(request, "/object/metadata/uid").len(), 36);
    assert!(!text(request, "/object/metadata/creationTimestamp").is_empty());
    assert_eq!(request["object"]["metadata"]["managedFields"][0]["manager"], "me");
    Ok(())
}

async fn denial(cx: Cx) -> Result {
    let server = Server::webhook(
        |request| json!({"allowed": request["name"] == "probe", "status": {"message": "not today"}}),
    )
    .await?;
    register(&cx, "Validating", "a", &[hook(&cx, &server, &config_maps(&["CREATE"]))]).await?;
    server.until_asked(&cx).await?;
    let status = cx.admin.post(cx.core("configmaps"), &config_map("a", "1")).await?.fails(400, "");
    assert_eq!(status["message"], "admission webhook \"hook.example.com\" denied the request: not today");
    cx.admin.get(cx.core("configmaps/a")).await?.fails(404, "NotFound");
    Ok(())
}

async fn denial_with_a_code(cx: Cx) -> Result {
    let server = Server::webhook(|request| match text(request, "/name") {
        "coded" => {
            json!({"allowed": false, "status": {"code": 418, "reason": "Teapot", "message": "short and stout",
            "details": {"causes": [{"field": "data.key", "message": "bad", "reason": "FieldValueInvalid"}]}}})
        }
        "silent" => json!({"allowed": false}),
        _ => json!({"allowed": true}),
    })
    .await?;
    register(&cx, "Validating", "a", &[hook(&cx, &server, &config_maps(&["CREATE"]))]).await?;
    server.until_asked(&cx).await?;
    let status = cx.admin.post(cx.core("configmaps"), &config_map("coded", "1")).await?.fails(418, "Teapot");
    has(
        &status,
        &json!({"message": "admission webhook \"hook.example.com\" denied the request: short and stout",
        "details": {"causes": [{"field": "data.key"}]}}),
    );
    let status = cx.admin.post(cx.core("configmaps"), &config_map("silent", "1")).await?.fails(400, "");
    assert_eq!(
        status["message"],
        "admission webhook \"hook.example.com\" denied the request without explanation"
    );
    Ok(())
}

async fn warnings(cx: Cx) -> Result {
    let server = Server::webhook(|_| json!({"allowed": true, "warnings": ["careful", "really"]})).await?;
    register(&cx, "Validating", "a", &[hook(&cx, &server, &config_maps(&["CREATE"]))]).await?;
    server.until_asked(&cx).await?;
    let answer = cx.admin.post(cx.core("configmaps"), &config_map("a", "1")).await?;
    answer.ok(201);
    assert_eq!(answer.warnings(), ["careful", "really"]);
    Ok(())
}

/// Creates ConfigMaps on trial until the answer has this status.
async fn until_status(cx: &Cx, status: u16) -> Result<Value> {
    for _ in 0..300 {
        let answer = cx.admin.post(cx.core("configmaps?dryRun=All"), &config_map("probe", "1")).await?;
        if answer.status == status {
            return Ok(answer.json());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(format!("never {status}").into())
}

async fn failure_policies(cx: Cx) -> Result {
    let server = Server::webhook(|_| json!({"allowed": true})).await?;
    let mut unreachable = hook(&cx, &server, &config_maps(&["CREATE"]));
    // Port 9 of loopback refuses.
    unreachable["clientConfig"]["url"] = "https://127.0.0.1:9/hook".into();
    let registered = register(&cx, "Validating", "a", &[unreachable]).await?;
    let status = until_status(&cx, 500).await?;
    has(&status, &json!({"reason": "InternalError"}));
    assert!(
        text(&status, "/message").starts_with(
            "Internal error occurred: failed calling webhook \
            \"hook.example.com\": failed to call webhook: Post \"https://127.0.0.1:9/hook?timeout=10s\": "
        ),
        "{status}"
    );
    let path =
        format!("{CONFIGURATIONS}/validatingwebhookconfigurations/{}", text(&registered, "/metadata/name"));
    let patch = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    cx.admin.json_patch(path, &patch).await?.ok(200);
    until_status(&cx, 201).await?;
    Ok(())
}

async fn broken_answers(cx: Cx) -> Result {
    let server = Server::start(&[], |seen| match text(&seen.body, "/request/name") {
        "failing" => Reply { status: 500, ..Reply::ok(json!("broken")) },
        "nonsense" => Reply::ok(json!({"hello": "world"})),
        "wrong-uid" => Reply::ok(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": "x", "allowed": true}})),
        _ => Reply::ok(review(&seen.body, json!({"allowed": true}))),
    })
    .await?;
    register(&cx, "Validating", "a", &[hook(&cx, &server, &config_maps(&["CREATE"]))]).await?;
    server.until_asked(&cx).await?;
    for name in ["failing", "nonsense", "wrong-uid"] {
        let status =
            cx.admin.post(cx.core("configmaps"), &config_map(name, "1")).await?.fails(500, "InternalError");
        let message = text(&status, "/message");
        assert!(
            message.starts_with("Internal error occurred: failed calling webhook \"hook.example.com\": "),
            "{message}"
        );
    }
    Ok(())
}

async fn timeout(cx: Cx) -> Result {
    let server = Server::start(&[], |seen| {
        let delay =
            if text(&seen.body, "/request/name") == "slow" { Duration::from_secs(5) } else { Duration::ZERO };
        Reply { delay, ..Reply::ok(review(&seen.body, json!({"allowed": true}))) }
    })
    .await?;
    let mut slow = hook(&cx, &server, &config_maps(&["CREATE"]));
    slow["timeoutSeconds"] = 1.into();
    register(&cx, "Validating", "a", &[slow]).await?;
    server.until_asked(&cx).await?;
    let start = std::time::Instant::now();
    let status =
        cx.admin.post(cx.core("configmaps"), &config_map("slow", "1")).await?.fails(500, "InternalError");
    assert!(start.elapsed() < Duration::from_secs(4));
    assert!(text(&status, "/message").ends_with("context deadline exceeded"), "{status}");
    Ok(())
}

async fn updates_and_deletions(cx: Cx) -> Result {
    let server = Server::webhook(|_| json!({"allowed": true})).await?;
    register(&cx, "Validating", "a", &[hook(&cx, &server, &config_maps(&["CREATE", "UPDATE", "DELETE"]))])
        .await?;
    server.until_asked(&cx).await?;
    cx.config_map("a", "1").await?;
    cx.admin.put(cx.core("configmaps/a"), &config_map("a", "2")).await?.ok(200);
    cx.admin.merge_patch(cx.core("configmaps/a"), &json!({"data": {"key": "3"}})).await?.ok(200);
    cx.admin.delete(cx.core("configmaps/a")).await?.ok(200);
    let requests = server.requests_about("a");
    let operations: Vec<&str> = requests.iter().map(|request| text(request, "/operation")).collect();
    assert_eq!(operations, ["CREATE", "UPDATE", "UPDATE", "DELETE"]);
    has(
        &requests[1],
        &json!({"object": {"data": {"key": "2"}}, "oldObject": {"data": {"key": "1"}},
            "options": {"kind": "UpdateOptions"}}),
    );
    has(
        &requests[2],
        &json!({"object": {"data": {"key": "3"}}, "oldObject": {"data": {"key": "2"}},
            "options": {"kind": "UpdateOptions"}}),
    );
    has(
        &requests[3],
        &json!({"object": null, "oldObject": {"data": {"key": "3"}}, "options": {"kind": "DeleteOptions"}}),
    );
    Ok(())
}

async fn validation_sees_the_mutated(cx: Cx) -> Result {
    let mutating =
        Server::webhook(|_| patch(&json!([{"op": "add", "path": "/data/added", "value": "x"}]))).await?;
    let validating = Server::webhook(|_| json!({"allowed": true})).await?;
    register(&cx, "Mutating", "m", &[hook(&cx, &mutating, &config_maps(&["CREATE"]))]).await?;
    register(&cx, "Validating", "v", &[hook(&cx, &validating, &config_maps(&["CREATE"]))]).await?;
    mutating.until_asked(&cx).await?;
    validating.until_asked(&cx).await?;
    cx.config_map("a", "1").await?;
    has(&validating.requests_about("a")[0], &json!({"object": {"data": {"added": "x"}}}));
    Ok(())
}

async fn mutated_objects_are_validated(cx: Cx) -> Result {
    let server = Server::webhook(|request| match text(request, "/name") {
        "bad" => patch(&json!([{"op": "add", "path": "/data/not a key", "value": "x"}])),
        "broken" => patch(&json!([{"op": "remove", "path": "/data/missing"}])),
        _ => json!({"allowed": true}),
    })
    .await?;
    register(&cx, "Mutating", "a", &[hook(&cx, &server, &config_maps(&["CREATE"]))]).await?;
    server.until_asked(&cx).await?;
    cx.admin.post(cx.core("configmaps"), &config_map("bad", "1")).await?.fails(422, "Invalid");
    cx.admin.post(cx.core("configmaps"), &config_map("broken", "1")).await?.fails(500, "InternalError");
    Ok(())
}

async fn object_selector(cx: Cx) -> Result {
    let server = Server::webhook(|_| json!({"allowed": false})).await?;
    let mut selecting = hook(&cx, &server, &config_maps(&["CREATE", "UPDATE"]));
    selecting["objectSelector"] = json!({"matchExpressions": [{"key": "watched", "operator": "Exists"}]});
    register(&cx, "Validating", "a", &[selecting]).await?;
    let mut object = config_map("a", "1");
    object["metadata"]["labels"] = json!({"watched": "yes"});
    for attempt in 0.. {
        if cx.admin.post(cx.core("configmaps?dryRun=All"), &object).await?.status == 400 {
            break;
        }
        assert!(attempt < 300, "the webhook is never asked");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cx.config_map("a", "1").await?;
    cx.admin.merge_patch(cx.core("configmaps/a"), &json!({"data": {"key": "2"}})).await?.ok(200);
    // Either side of a change is enough.
    let labels = json!({"metadata": {"labels": {"watched": "yes"}}});
    cx.admin.merge_patch(cx.core("configmaps/a"), &labels).await?.fails(400, "");
    Ok(())
}

async fn match_conditions(cx: Cx) -> Result {
    let server = Server::webhook(|request| json!({"allowed": request["name"] == "probe"})).await?;
    let mut conditional = hook(&cx, &server, &config_maps(&["CREATE"]));
    conditional["matchConditions"] = json!([
        {"name": "not-ours", "expression": "object.metadata.name != 'ours'"},
        {"name": "not-alice", "expression": "request.userInfo.username != 'alice'"},
        {"name": "may-create",
        "expression": "authorizer.group('').resource('configmaps').namespace(request.namespace).check('create').allowed()"},
    ]);
    register(&cx, "Validating", "a", &[conditional]).await?;
    server.until_asked(&cx).await?;
    cx.config_map("ours", "1").await?;
    cx.admin.post(cx.core("configmaps"), &config_map("other", "1")).await?.fails(400, "");
    Ok(())
}

async fn subresources(cx: Cx) -> Result {
    let server = Server::webhook(|_| json!({"allowed": true})).await?;
    let rules = json!([
        {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/*"],
            "operations": ["UPDATE"]},
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "pods/eviction",
        "pods/binding"], "operations": ["CREATE"]},
    ]);
    register(&cx, "Validating", "a", &[hook(&cx, &server, &rules)]).await?;
    server.until_asked(&cx).await?;
    cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    cx.admin
        .merge_patch(cx.apis("apps/v1", "deployments/a"), &json!({"spec": {"replicas": 2}}))
        .await?
        .ok(200);
    cx.admin
        .merge_patch(cx.apis("apps/v1", "deployments/a/scale"), &json!({"spec": {"replicas": 3}}))
        .await?
        .ok(200);
    cx.admin
        .merge_patch(cx.apis("apps/v1", "deployments/a/status"), &json!({"status": {"replicas": 3}}))
        .await?
        .ok(200);
    let requests = server.requests_about("a");
    // The star stands for the resource itself too.
    assert_eq!(requests.len(), 3, "{requests:?}");
    has(
        &requests[0],
        &json!({"subResource": null, "kind": {"kind": "Deployment"}, "object": {"spec": {"replicas": 2}}}),
    );
    has(
        &requests[1],
        &json!({"subResource": "scale", "requestSubResource": "scale",
            "resource": {"resource": "deployments"},
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}, "object": {"kind": "Scale",
        "spec": {"replicas": 3}}}),
    );
    has(
        &requests[2],
        &json!({"subResource": "status", "kind": {"kind": "Deployment"},
            "object": {"status": {"replicas": 3}}}),
    );
    cx.until_pods_are_admitted().await?;
    cx.create(cx.core("pods"), &pod("p")).await?;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    cx.admin.post(cx.core("pods/p/eviction"), &eviction).await?.ok(201);
    has(
        &server.requests_about("p")[0],
        &json!({"subResource": "eviction", "kind": {"group": "policy", "kind": "Eviction"},
            "operation": "CREATE"}),
    );
    Ok(())
}

async fn custom_resources_in_another_version(cx: Cx) -> Result {
    let mut crd = definition(&cx, &json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let mut other = crd["spec"]["versions"][0].clone();
    other["name"] = "v2".into();
    other["storage"] = false.into();
    crd["spec"]["versions"] = json!([crd["spec"]["versions"][0], other]);
    establish(&cx, &crd).await?;
    let server = Server::webhook(|_| json!({"allowed": true})).await?;
    let rules = json!([
        {"apiGroups": [cx.group], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE"]},
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]},
    ]);
    register(&cx, "Validating", "a", &[hook(&cx, &server, &rules)]).await?;
    server.until_asked(&cx).await?;
    // The rule names one version, and equivalent requests in another are shown in that one.
    let mut widget = cx.widget("a", &json!({"x": 1}));
    widget["apiVersion"] = format!("{}/v2", cx.group).into();
    cx.create(cx.apis(&format!("{}/v2", cx.group), "widgets"), &widget).await?;
    has(
        &server.requests_about("a")[0],
        &json!({
            "kind": {"group": cx.group, "version": "v1", "kind": "Widget"}, "requestKind": {"version": "v2"},
            "resource": {"version": "v1", "resource": "widgets"}, "requestResource": {"version": "v2"},
            "object": {"apiVersion": format!("{}/v1", cx.group), "spec": {"x": 1}},
        }),
    );
    Ok(())
}

async fn dry_run_is_told(cx: Cx) -> Result {
    let server = Server::webhook(|_| json!({"allowed": true})).await?;
    register(&cx, "Validating", "a", &[hook(&cx, &server, &config_maps(&["CREATE"]))]).await?;
    server.until_asked(&cx).await?;
    has(&server.requests_about("probe")[0], &json!({"dryRun": true, "options": {"dryRun": ["All"]}}));
    Ok(())
}

async fn called_again_if_needed(cx: Cx) -> Result {
    // The first one counts how often it is called; the second one changes the object after it.
    let first = Server::webhook(|request| {
        let count = request["object"]["data"]["count"].as_str().map_or(0, str::len);
        patch(&json!([{"op": "add", "path": "/data/count", "value": "x".repeat(count + 1)}]))
    })
    .await?;
    let second =
        Server::webhook(|_| patch(&json!([{"op": "add", "path": "/data/second", "value": "was here"}])))
            .await?;
    let mut counting = hook(&cx, &first, &config_maps(&["CREATE"]));
    counting["reinvocationPolicy"] = "IfNeeded".into();
    counting["name"] = "a.example.com".into();
    let mut changing = hook(&cx, &second, &config_maps(&["CREATE"]));
    changing["name"] = "b.example.com".into();
    register(&cx, "Mutating", "a", &[counting, changing]).await?;
    second.until_asked(&cx).await?;
    let created = cx.config_map("a", "1").await?;
    has(&created, &json!({"data": {"count": "xx", "second": "was here"}}));
    Ok(())
}

async fn bad_configurations(cx: Cx) -> Result {
    let server = Server::webhook(|_| json!({"allowed": true})).await?;
    let good = hook(&cx, &server, &config_maps(&["CREATE"]));
    for (change, field) in [
        (json!({"name": "unqualified"}), "webhooks[0].name"),
        (json!({"sideEffects": "Some"}), "webhooks[0].sideEffects"),
        (json!({"admissionReviewVersions": ["v9"]}), "webhooks[0].admissionReviewVersions"),
        (json!({"timeoutSeconds": 31}), "webhooks[0].timeoutSeconds"),
        (json!({"clientConfig": {"url": "http://127.0.0.1/"}}), "webhooks[0].clientConfig.url"),
        (
            json!({"matchConditions": [{"name": "x", "expression": "1 +"}]}),
            "webhooks[0].matchConditions[0].expression",
        ),
    ] {
        let mut hook = good.clone();
        for (key, value) in change.as_object().into_iter().flatten() {
            hook[key] = value.clone();
        }
        let object = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": cx.unique}, "webhooks": [hook]});
        let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations?dryRun=All");
        let status = cx.admin.post(path, &object).await?.fails(422, "Invalid");
        has(&status, &json!({"details": {"causes": [{"field": field}]}}));
    }
    Ok(())
}

async fn deleting_collections(cx: Cx) -> Result {
    let server = Server::webhook(|request| json!({"allowed": request["name"] != "protected"})).await?;
    register(&cx, "Validating", "a", &[hook(&cx, &server, &config_maps(&["CREATE", "DELETE"]))]).await?;
    server.until_asked(&cx).await?;
    // Each object of a collection is asked for on its own.
    for name in ["a", "b"] {
        let mut object = config_map(name, "1");
        object["metadata"]["labels"] = json!({"ours": "yes"});
        cx.create(cx.core("configmaps"), &object).await?;
    }
    cx.admin.delete(cx.core("configmaps?labelSelector=ours")).await?.ok(200);
    for name in ["a", "b"] {
        let requests = server.seen().into_iter().map(|seen| seen.body["request"].clone());
        let deletion = requests
            .filter(|request| request["operation"] == "DELETE")
            .find(|request| request["oldObject"]["metadata"]["name"] == name);
        has(
            &deletion.unwrap_or_default(),
            &json!({"name": null, "object": null, "resource": {"resource": "configmaps"}}),
        );
    }
    Ok(())
}

async fn field_managers_of_mutations(cx: Cx) -> Result {
    let server =
        Server::webhook(|_| patch(&json!([{"op": "add", "path": "/data/added", "value": "x"}]))).await?;
    register(&cx, "Mutating", "a", &[hook(&cx, &server, &config_maps(&["CREATE", "UPDATE"]))]).await?;
    server.until_asked(&cx).await?;
    // What a webhook adds to something applied is nobody's.
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}});
    let applied = cx.admin.apply(cx.core("configmaps/a?fieldManager=one"), &object).await?.ok(201);
    let entries = applied["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    assert_eq!(entries.len(), 1, "{entries:?}");
    has(&entries[0], &json!({"manager": "one", "operation": "Apply"}));
    assert_eq!(entries[0]["fieldsV1"], json!({"f:data": {"f:x": {}}}));
    assert_eq!(applied["data"], json!({"x": "1", "added": "x"}));
    // Applied again it stays, since it is not what was applied that added it.
    let again = cx.admin.apply(cx.core("configmaps/a?fieldManager=one"), &object).await?.ok(200);
    assert_eq!(again, applied);
    // So is what it adds to an update.
    let created = cx.admin.post(cx.core("configmaps?fieldManager=two"), &config_map("b", "1")).await?.ok(201);
    has(&created["metadata"], &json!({"managedFields": [{"manager": "two"}]}));
    assert_eq!(
        created["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:data": {".": {}, "f:key": {}}})
    );
    Ok(())
}

async fn slow_webhooks_of_services(cx: Cx) -> Result {
    const DELAY: Duration = Duration::from_secs(4);
    let server = Server::start(&[], |seen| {
        let slow = seen.body["request"]["name"] == "slow";
        let answer = review(&seen.body, json!({"allowed": !slow}));
        Reply { delay: if slow { DELAY } else { Duration::ZERO }, ..Reply::ok(answer) }
    })
    .await?;
    let mut rules = config_maps(&["CREATE"]);
    rules[0]["resources"] = json!(["configmaps", "services"]);
    register(&cx, "Validating", "a", &[hook(&cx, &server, &rules)]).await?;
    server.until_asked(&cx).await?;
    let service = |name: &str, spec: Value| {
        let mut object =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        object["spec"]["ports"] = json!([{"port": 80}]);
        object
    };
    // Nobody else chooses in this part of the range.
    let chosen = |name: &str| service(name, json!({"clusterIP": "10.96.79.79"}));
    let slow = chosen("slow");
    let slow = async { cx.admin.post(cx.core("services"), &slow).await };
    let others = async {
        while server.requests_about("slow").is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let start = Instant::now();
        cx.create(cx.core("services"), &service("quick", json!({"type": "NodePort"}))).await?;
        // What a write has chosen that is still under way is taken.
        let status = cx.admin.post(cx.core("services"), &chosen("same")).await?.fails(422, "Invalid");
        let message = text(&status, "/details/causes/0/message");
        assert!(message.ends_with("provided IP is already allocated"), "{message}");
        assert!(start.elapsed() < DELAY, "Services wait for each other's webhooks");
        Result::Ok(())
    };
    let (slow, others) = tokio::join!(slow, others);
    others?;
    slow?.fails(400, "");
    // What came to nothing has nothing.
    cx.create(cx.core("services"), &chosen("same")).await?;
    Ok(())
}

//! JSON, merge and strategic patches.

use http::Method;
use serde_json::json;

use crate::context::{Cx, config_map, deployment, pod};
use crate::crds::{definition, establish, with_spec};
use crate::support::Result;
use crate::support::json::{has, text, version};

scenarios![
    json_patch_operations,
    json_patch_moves_and_copies,
    json_patch_test_fails,
    json_patch_of_missing_paths,
    json_patch_escapes,
    json_patch_with_too_many_operations,
    json_patch_must_be_a_list,
    merge_patch_removes_with_null,
    merge_patch_replaces_lists,
    merge_patch_of_the_wrong_type,
    patch_checks_the_version,
    patch_cannot_rename,
    patch_is_validated,
    custom_resources_know_no_strategic_patch,
    custom_resources_take_the_others,
    patch_of_status_touches_status_only,
    kubectl_annotation_patch,
    patches_that_are_none_and_nobody_minds,
    patch_in_another_version,
];

async fn json_patch_operations(cx: Cx) -> Result {
    let path = cx.core("configmaps/a");
    cx.config_map("a", "1").await?;
    let patched = cx
        .admin
        .json_patch(
            path.as_str(),
            &json!([
                {"op": "test", "path": "/data/key", "value": "1"},
                {"op": "add", "path": "/data/more", "value": "2"},
                {"op": "replace", "path": "/data/key", "value": "3"},
                {"op": "add", "path": "/metadata/labels", "value": {"x": "y"}},
            ]),
        )
        .await?
        .ok(200);
    has(&patched, &json!({"data": {"key": "3", "more": "2"}, "metadata": {"labels": {"x": "y"}}}));
    let patched = cx.admin.json_patch(path, &json!([{"op": "remove", "path": "/data/more"}])).await?.ok(200);
    assert_eq!(patched["data"], json!({"key": "3"}));
    Ok(())
}

async fn json_patch_moves_and_copies(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a");
    let mut object = deployment("a");
    object["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["one", "two"]);
    object["metadata"]["annotations"] = json!({"from": "x"});
    cx.create(cx.apis("apps/v1", "deployments"), &object).await?;
    let patched = cx
        .admin
        .json_patch(
            path,
            &json!([
                {"op": "move", "from": "/metadata/annotations/from", "path": "/metadata/annotations/to"},
                {"op": "copy", "from": "/metadata/annotations/to", "path": "/metadata/annotations/also"},
                {"op": "add", "path": "/spec/template/spec/containers/0/args/1", "value": "between"},
                {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "last"},
                {"op": "remove", "path": "/spec/template/spec/containers/0/args/0"},
            ]),
        )
        .await?
        .ok(200);
    assert_eq!(patched["metadata"]["annotations"], json!({"to": "x", "also": "x"}));
    assert_eq!(
        patched["spec"]["template"]["spec"]["containers"][0]["args"],
        json!(["between", "two", "last"])
    );
    Ok(())
}

async fn json_patch_test_fails(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    let answer = cx
        .admin
        .json_patch(
            cx.core("configmaps/a"),
            &json!([
                {"op": "replace", "path": "/data/key", "value": "2"},
                {"op": "test", "path": "/data/key", "value": "1"},
            ]),
        )
        .await?;
    let status = answer.fails(422, "Invalid");
    has(
        &status,
        &json!({
            "message": "the server rejected our request due to an error in our request",
            "details": {},
        }),
    );
    assert_eq!(cx.read(cx.core("configmaps/a")).await?, created);
    Ok(())
}

async fn json_patch_of_missing_paths(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    // The last step of a path may be missing for a replacement, which then adds.
    let patch = json!([{"op": "replace", "path": "/data/new", "value": "2"}]);
    let patched = cx.admin.json_patch(cx.core("configmaps/a"), &patch).await?.ok(200);
    assert_eq!(patched["data"], json!({"key": "1", "new": "2"}));
    for patch in [
        json!([{"op": "replace", "path": "/none/none", "value": "2"}]),
        json!([{"op": "replace", "path": "/metadata/managedFields/7", "value": {}}]),
        json!([{"op": "remove", "path": "/data/none"}]),
        json!([{"op": "add", "path": "/none/at/all", "value": "2"}]),
        json!([{"op": "remove", "path": "/metadata/finalizers/0"}]),
    ] {
        let answer = cx.admin.json_patch(cx.core("configmaps/a"), &patch).await?;
        answer.fails(422, "Invalid");
    }
    Ok(())
}

async fn json_patch_escapes(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let patched = cx
        .admin
        .json_patch(
            cx.core("configmaps/a"),
            &json!([
                {"op": "add", "path": "/metadata/annotations", "value": {"example.com/a": "1"}},
                {"op": "add", "path": "/metadata/annotations/example.com~1b", "value": "2"},
                {"op": "remove", "path": "/metadata/annotations/example.com~1a"},
            ]),
        )
        .await?
        .ok(200);
    assert_eq!(patched["metadata"]["annotations"], json!({"example.com/b": "2"}));
    Ok(())
}

async fn json_patch_with_too_many_operations(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let operation = json!({"op": "add", "path": "/data/x", "value": "y"});
    let patch = json!(vec![operation; 10_001]);
    let answer = cx.admin.json_patch(cx.core("configmaps/a"), &patch).await?;
    answer.fails_with(
        413,
        "RequestEntityTooLarge",
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
    );
    Ok(())
}

async fn json_patch_must_be_a_list(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let answer = cx.admin.json_patch(cx.core("configmaps/a"), &json!({"data": {}})).await?;
    answer.fails(400, "BadRequest");
    let answer = cx
        .admin
        .request(Method::PATCH, cx.core("configmaps/a"))
        .body("application/json-patch+json", "not json")
        .await?;
    answer.fails(400, "BadRequest");
    let answer =
        cx.admin.json_patch(cx.core("configmaps/a"), &json!([{"op": "grow", "path": "/data"}])).await?;
    answer.fails(422, "Invalid");
    Ok(())
}

async fn merge_patch_removes_with_null(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["data"]["gone"] = "soon".into();
    object["metadata"]["labels"] = json!({"x": "y"});
    cx.create(cx.core("configmaps"), &object).await?;
    let patch = json!({"data": {"gone": null, "never": null, "new": "2"}, "metadata": {"labels": null}});
    let patched = cx.admin.merge_patch(cx.core("configmaps/a"), &patch).await?.ok(200);
    assert_eq!(patched["data"], json!({"key": "1", "new": "2"}));
    has(&patched, &json!({"metadata": {"labels": null}}));
    Ok(())
}

async fn merge_patch_replaces_lists(cx: Cx) -> Result {
    cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "other", "image": "i"}]}}}});
    let patched = cx.admin.merge_patch(cx.apis("apps/v1", "deployments/a"), &patch).await?.ok(200);
    has(&patched["spec"]["template"]["spec"], &json!({"containers": [{"name": "other", "image": "i"}]}));
    Ok(())
}

async fn merge_patch_of_the_wrong_type(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    for patch in [json!([]), json!("text"), json!(7)] {
        cx.admin.merge_patch(cx.core("configmaps/a"), &patch).await?.fails(400, "BadRequest");
    }
    let answer = cx.admin.merge_patch(cx.core("configmaps/a"), &json!({"data": "text"})).await?;
    let status = answer.fails(422, "Invalid");
    has(&status, &json!({"details": {"name": null, "kind": null, "causes": [{"field": "patch"}]}}));
    let message = text(&status, "/message");
    assert!(message.starts_with(" \"\" is invalid: patch: Invalid value: \"{"), "{message}");
    let end = "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string";
    assert!(message.ends_with(end), "{message}");
    Ok(())
}

async fn patch_checks_the_version(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    let at = |version: &str, value: &str| {
        json!({"metadata": {"resourceVersion": version},
        "data": {"key": value}})
    };
    let first = text(&created, "/metadata/resourceVersion");
    cx.admin.merge_patch(cx.core("configmaps/a"), &at(first, "2")).await?.ok(200);
    for answer in [
        cx.admin.merge_patch(cx.core("configmaps/a"), &at(first, "3")).await?,
        cx.admin.strategic_patch(cx.core("configmaps/a"), &at(first, "3")).await?,
    ] {
        answer.fails_with(
            409,
            "Conflict",
            "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply \
                your \
             changes to the latest version and try again",
        );
    }
    let uid = json!({"metadata": {"uid": "other"}, "data": {"key": "4"}});
    let status = cx.admin.merge_patch(cx.core("configmaps/a"), &uid).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "metadata.uid",
            "message": "Invalid value: \"other\": field is immutable"}]}}),
    );
    Ok(())
}

async fn patch_cannot_rename(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let answer = cx.admin.merge_patch(cx.core("configmaps/a"), &json!({"metadata": {"name": "b"}})).await?;
    answer.fails_with(400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)");
    let answer = cx.admin.merge_patch(cx.core("configmaps/a"), &json!({"kind": "Secret"})).await?;
    answer.fails(422, "Invalid");
    Ok(())
}

async fn patch_is_validated(cx: Cx) -> Result {
    let created = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let path = cx.apis("apps/v1", "deployments/a");
    let status =
        cx.admin.merge_patch(path.as_str(), &json!({"spec": {"replicas": -1}})).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "spec.replicas"}]}}));
    cx.admin.merge_patch(path.as_str(), &json!({"spec": {"replicas": "x"}})).await?.fails(422, "Invalid");
    cx.admin.strategic_patch(path.as_str(), &json!({"spec": {"template": "x"}})).await?.fails(422, "Invalid");
    assert_eq!(version(&cx.read(path).await?), version(&created));
    Ok(())
}

async fn custom_resources_know_no_strategic_patch(cx: Cx) -> Result {
    establish(&cx, &definition(&cx, &with_spec(&json!({"type": "object"})))).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({}))).await?;
    let answer =
        cx.admin.strategic_patch(cx.a_widget("a"), &json!({"metadata": {"labels": {"x": "y"}}})).await?;
    answer.fails_with(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    );
    Ok(())
}

async fn custom_resources_take_the_others(cx: Cx) -> Result {
    let schema = with_spec(&json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    }}));
    establish(&cx, &definition(&cx, &schema)).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({"list": ["a"], "map": {"x": 1}}))).await?;
    let patch = json!({"spec": {"list": ["b", "c"], "map": {"x": null, "y": 2}}});
    let patched = cx.admin.merge_patch(cx.a_widget("a"), &patch).await?.ok(200);
    has(
        &patched,
        &json!({"metadata": {"generation": 2}, "spec": {"list": ["b", "c"], "map": {"x": null, "y": 2}}}),
    );
    let patch = json!([{"op": "add", "path": "/spec/list/0", "value": "z"}, {"op": "test",
        "path": "/spec/map/y", "value": 2}]);
    let patched = cx.admin.json_patch(cx.a_widget("a"), &patch).await?.ok(200);
    assert_eq!(patched["spec"]["list"], json!(["z", "b", "c"]));
    let status =
        cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"list": [1]}})).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.list[0]", "message":
        "Invalid value: \"integer\": spec.list[0] in body must be of type string: \"integer\""}]}}),
    );
    Ok(())
}

async fn patch_of_status_touches_status_only(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let created = cx.create(cx.core("pods"), &pod("a")).await?;
    let patch = json!({"status": {"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"},
    ]}, "spec": {"activeDeadlineSeconds": 5}});
    let patched = cx.admin.strategic_patch(cx.core("pods/a/status"), &patch).await?.ok(200);
    has(&patched, &json!({"status": {"phase": "Running"}, "spec": {"activeDeadlineSeconds": null}}));
    assert_eq!(patched["metadata"]["generation"], created["metadata"]["generation"]);
    let patch =
        json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Because"}]}});
    let patched = cx.admin.strategic_patch(cx.core("pods/a/status"), &patch).await?.ok(200);
    has(
        &patched["status"],
        &json!({"conditions": [
            {"type": "Ready", "status": "False", "reason": "Because"}, {"type": "Other", "status": "False"},
        ]}),
    );
    Ok(())
}

async fn kubectl_annotation_patch(cx: Cx) -> Result {
    // What `kubectl apply` sends when it works on the client's side.
    let last = "kubectl.kubernetes.io/last-applied-configuration";
    let mut object = deployment("a");
    object["metadata"]["annotations"] = json!({last: "{}"});
    cx.create(cx.apis("apps/v1", "deployments?fieldManager=kubectl-client-side-apply"), &object).await?;
    let patch = json!({"metadata": {"annotations": {last: "{\"x\":1}"}}, "spec": {"replicas": 3,
        "template": {"spec": {
        "$setElementOrder/containers": [{"name": "main"}], "containers": [{"name": "main", "image": "i:2"}],
    }}}});
    let path =
        cx.apis("apps/v1", "deployments/a?fieldManager=kubectl-client-side-apply&fieldValidation=Strict");
    let patched = cx.admin.strategic_patch(path, &patch).await?.ok(200);
    has(
        &patched,
        &json!({"spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "main",
            "image": "i:2"}]}}}}),
    );
    let managers = patched["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    assert_eq!(managers.len(), 1, "{managers:?}");
    has(&managers[0], &json!({"manager": "kubectl-client-side-apply", "operation": "Update"}));
    Ok(())
}

async fn patches_that_are_none_and_nobody_minds(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let path = cx.core("configmaps/a?fieldValidation=Ignore");
    for (wrong, kind) in [(json!({}), "object"), (json!("x"), "string"), (json!(5), "number")] {
        let message = format!("json: cannot unmarshal {kind} into Go value of type jsonpatch.Patch");
        cx.admin.json_patch(path.as_str(), &wrong).await?.fails_with(400, "BadRequest", &message);
    }
    for (wrong, kind) in [(json!([1]), "number"), (json!([[]]), "array"), (json!([true]), "bool")] {
        let message = format!("json: cannot unmarshal {kind} into Go value of type jsonpatch.Operation");
        cx.admin.json_patch(path.as_str(), &wrong).await?.fails_with(400, "BadRequest", &message);
    }
    for wrong in [json!([{"op": 5, "path": "/x"}]), json!([{"op": "add", "path": 5, "value": 1}])] {
        let message = "the server rejected our request due to an error in our request";
        cx.admin.json_patch(path.as_str(), &wrong).await?.fails_with(422, "Invalid", message);
    }
    for wrong in [json!("x"), json!(5), json!(true), json!(null)] {
        cx.admin.merge_patch(path.as_str(), &wrong).await?.fails_with(
            400,
            "BadRequest",
            "Invalid JSON Patch",
        );
    }
    for (wrong, shown) in [(json!([1]), "[1]"), (json!([{"a": null}]), "[{}]")] {
        let status = cx.admin.merge_patch(path.as_str(), &wrong).await?.fails(422, "Invalid");
        let start = format!(
            " \"\" is invalid: patch: Invalid value: \"{shown}\": couldn't get version/kind; json parse error: \
             json: cannot unmarshal array into Go value of type struct"
        );
        assert!(text(&status, "/message").starts_with(&start), "{status}");
    }
    Ok(())
}

async fn patch_in_another_version(cx: Cx) -> Result {
    let newer = cx.apis("autoscaling/v2", "horizontalpodautoscalers");
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"}, "spec": {"maxReplicas": 5,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
        "metrics": [{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 70}}}]}});
    cx.create(newer.as_str(), &scaler).await?;
    let older = json!({"apiVersion": "autoscaling/v1", "spec": {"targetCPUUtilizationPercentage": 50}});
    let answer = cx.admin.merge_patch(format!("{newer}/a"), &older).await?;
    let warned = answer.warnings();
    let patched = answer.ok(200);
    has(
        &patched,
        &json!({"apiVersion": "autoscaling/v2", "spec": {"maxReplicas": 5, "minReplicas": 1, "metrics": [{
            "type": "Resource", "resource": {"target": {"averageUtilization": 50}}}]}}),
    );
    assert_eq!(warned, ["unknown field \"spec.metrics\"", "unknown field \"status.currentMetrics\""]);
    let strict = cx.admin.merge_patch(format!("{newer}/a?fieldValidation=Strict"), &older).await?;
    let status = strict.fails(422, "Invalid");
    let end =
        "strict decoding error: unknown field \"spec.metrics\", unknown field \"status.currentMetrics\"";
    assert!(text(&status, "/message").ends_with(end), "{status}");
    let renamed = json!([{"op": "replace", "path": "/apiVersion", "value": "autoscaling/v1"}]);
    let ignoring = format!("{newer}/a?fieldValidation=Ignore");
    let patched = cx.admin.json_patch(ignoring, &renamed).await?.ok(200);
    has(&patched["spec"], &json!({"metrics": [{"resource": {"target": {"averageUtilization": 80}}}]}));
    let metrics = json!({"apiVersion": "autoscaling/v2", "spec": {"targetCPUUtilizationPercentage": null,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 33}}}]}});
    let path = cx.apis("autoscaling/v1", "horizontalpodautoscalers/a?fieldValidation=Strict");
    let patched = cx.admin.merge_patch(path, &metrics).await?.ok(200);
    has(&patched, &json!({"apiVersion": "autoscaling/v1", "spec": {"targetCPUUtilizationPercentage": 33}}));
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "message": "m",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": cx.ns}, "reason": "R", "type": "Normal"});
    cx.create(cx.core("events"), &event).await?;
    let path = cx.core("events/a?fieldValidation=Ignore");
    // The other version knows no `involvedObject`, so it is gone.
    let mut note = json!({"apiVersion": "events.k8s.io/v1", "note": "n"});
    let status = cx.admin.merge_patch(path.as_str(), &note).await?.fails(422, "Invalid");
    has(&status["details"]["causes"], &json!([{"field": "involvedObject.namespace"}]));
    note["regarding"] = event["involvedObject"].clone();
    let patched = cx.admin.merge_patch(path, &note).await?.ok(200);
    has(&patched, &json!({"message": "n", "involvedObject": {"name": "p"}}));
    Ok(())
}

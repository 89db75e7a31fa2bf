//! Corners of writing to built-in kinds: what is checked first, what is shown, and in which words.

use http::Method;
use serde_json::{Value, json};

use crate::context::{Cx, config_map, deployment};
use crate::support::Result;
use crate::support::json::{text, version};

scenarios![
    creating_what_is_being_deleted,
    the_last_finalizer_shows_the_old_version,
    dry_deletions_show_what_would_be,
    names_are_checked_before_anything_is_read,
    versions_of_what_is_created,
    services_by_their_status,
    patches_that_change_the_kind,
    patches_that_are_no_patches,
    strict_patches,
    strict_applies,
    strategic_patches_of_the_whole_object,
    applied_values_that_do_not_fit,
    empty_lists_of_managers_forget_them,
    scales_without_replicas,
    scales_of_something_else,
    warnings_come_after_validation,
    managers_of_other_versions,
];

async fn creating_what_is_being_deleted(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["finalizers"] = json!(["example.com/f"]);
    cx.create(cx.core("configmaps"), &object).await?;
    cx.admin.delete(cx.core("configmaps/a")).await?.ok(200);
    for query in ["", "?dryRun=All"] {
        cx.admin.post(cx.core(&format!("configmaps{query}")), &config_map("a", "1")).await?.fails_with(
            409,
            "AlreadyExists",
            "object is being deleted: configmaps \"a\" already exists",
        );
    }
    let gone = json!({"metadata": {"finalizers": null}});
    cx.admin.merge_patch(cx.core("configmaps/a"), &gone).await?.ok(200);
    Ok(())
}

async fn the_last_finalizer_shows_the_old_version(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["finalizers"] = json!(["example.com/f"]);
    cx.create(cx.core("configmaps"), &object).await?;
    let deleting = cx.admin.delete(cx.core("configmaps/a")).await?.ok(200);
    let since = version(&deleting);
    let mut watch = cx.admin.watch(cx.core(&format!("configmaps?watch=1&resourceVersion={since}"))).await?;
    let change = json!({"metadata": {"finalizers": null, "labels": {"x": "1"}}});
    let dry = cx.admin.merge_patch(cx.core("configmaps/a?dryRun=All"), &change).await?.ok(200);
    assert_eq!(version(&dry), since);
    let shown = cx.admin.merge_patch(cx.core("configmaps/a"), &change).await?.ok(200);
    assert_eq!(version(&shown), since);
    assert_eq!(shown["metadata"]["labels"], json!({"x": "1"}));
    assert!(shown["metadata"].get("finalizers").is_none(), "{shown}");
    // Whoever watches sees it go as it was.
    let seen = watch.expect_about("DELETED", "a").await?;
    assert_eq!(seen["metadata"]["finalizers"], json!(["example.com/f"]));
    assert!(version(&seen) > since && seen["metadata"].get("labels").is_none(), "{seen}");
    cx.admin.get(cx.core("configmaps/a")).await?.fails(404, "NotFound");
    Ok(())
}

async fn dry_deletions_show_what_would_be(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["finalizers"] = json!(["orphan"]);
    let created = cx.create(cx.core("configmaps"), &object).await?;
    let dry = |policy: &str| cx.core(&format!("configmaps/a?dryRun=All{policy}"));
    let shown = cx.admin.delete(dry("")).await?.ok(200);
    assert_eq!(text(&shown, "/kind"), "ConfigMap");
    assert_eq!(version(&shown), version(&created));
    assert_eq!(shown["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(shown["metadata"]["finalizers"], json!(["orphan"]));
    let shown = cx.admin.delete(dry("&propagationPolicy=Foreground")).await?.ok(200);
    assert_eq!(shown["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    // Nothing would be left to wait for, and nothing is shown.
    let shown = cx.admin.delete(dry("&propagationPolicy=Background")).await?.ok(200);
    assert_eq!(shown, json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}}));
    cx.admin.merge_patch(cx.core("configmaps/a"), &json!({"metadata": {"finalizers": null}})).await?.ok(200);
    let shown = cx.admin.delete(dry("")).await?.ok(200);
    assert_eq!(text(&shown, "/kind"), "Status");
    Ok(())
}

async fn names_are_checked_before_anything_is_read(cx: Cx) -> Result {
    let mut object = config_map("other", "1");
    let path = cx.core("configmaps/missing");
    cx.admin.put(path.as_str(), &object).await?.fails_with(
        400,
        "BadRequest",
        "the name of the object (other) does not match the name on the URL (missing)",
    );
    object["metadata"]["namespace"] = "elsewhere".into();
    let namespace = "the namespace of the provided object does not match the namespace sent on the request";
    cx.admin.put(path.as_str(), &object).await?.fails_with(400, "BadRequest", namespace);
    cx.admin.apply(format!("{path}?fieldManager=m"), &object).await?.fails_with(400, "BadRequest", namespace);
    cx.admin.put(path, &config_map("missing", "1")).await?.fails(404, "NotFound");
    Ok(())
}

async fn versions_of_what_is_created(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["resourceVersion"] = "7".into();
    object["metadata"]["generation"] = 5.into();
    let message = "resourceVersion should not be set on objects to be created";
    cx.admin.post(cx.core("configmaps"), &object).await?.fails_with(500, "", message);
    let dry = cx.admin.post(cx.core("configmaps?dryRun=All"), &object).await?.ok(201);
    assert_eq!(text(&dry, "/metadata/resourceVersion"), "7");
    object["metadata"]["resourceVersion"] = "none".into();
    let created = cx.create(cx.core("configmaps"), &object).await?;
    assert_eq!(created["metadata"]["generation"], 5);
    object["metadata"]["resourceVersion"] = "7".into();
    cx.admin.post(cx.core("configmaps"), &object).await?.fails_with(500, "", message);
    // An update that creates does not mind.
    let mut service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "a", "resourceVersion": "7"}, "spec": {"ports": [{"port": 80}]}});
    cx.admin.put(cx.core("services/a"), &service).await?.ok(201);
    service["metadata"] = json!({"name": "b", "resourceVersion": "none"});
    cx.admin.put(cx.core("services/b"), &service).await?.fails_with(
        500,
        "",
        "strconv.ParseUint: parsing \"none\": invalid syntax",
    );
    service["metadata"] = json!({"name": "b", "uid": "mine"});
    let status = cx.admin.put(cx.core("services/b"), &service).await?.fails(409, "Conflict");
    let key = format!("Key: /registry/services/specs/{}/b,", cx.ns);
    assert!(text(&status, "/message").contains(&key), "{status}");
    Ok(())
}

async fn services_by_their_status(cx: Cx) -> Result {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let path = cx.core("services/a/status?fieldManager=m");
    cx.admin.apply(path.as_str(), &service).await?.fails_with(
        422,
        "Invalid",
        "Service \"a\" is invalid: spec.ports: Required value",
    );
    cx.admin.merge_patch(path.as_str(), &json!({"status": {}})).await?.fails(404, "NotFound");
    service["spec"] = json!({"ports": [{"port": 80}]});
    let created = cx.admin.apply(path, &service).await?.ok(201);
    assert!(created["spec"].get("clusterIP").is_none(), "{created}");
    assert_eq!(created["status"], json!({"loadBalancer": {}}));
    // Other kinds are not made this way.
    let mut object = deployment("a");
    object["status"] = json!({"replicas": 1});
    let path = cx.apis("apps/v1", "deployments/a/status?fieldManager=m");
    cx.admin.apply(path, &object).await?.fails(404, "NotFound");
    Ok(())
}

/// The end of the message about a patch whose result cannot be.
fn refusal(status: &Value) -> &str {
    text(status, "/message").rsplit_once("}\": ").map_or("", |(_, end)| end)
}

async fn patches_that_change_the_kind(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    let path = cx.core("configmaps/a");
    for (change, end) in [
        (
            json!({"kind": "Nope"}),
            "no kind \"Nope\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
        (
            json!({"apiVersion": "v2"}),
            "no kind \"ConfigMap\" is registered for version \"v2\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
        (json!({"apiVersion": "a/b/c"}), "unexpected GroupVersion string: a/b/c"),
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
            "converting (v1.Deployment) to (core.ConfigMap): unknown conversion",
        ),
    ] {
        let status = cx.admin.merge_patch(path.as_str(), &change).await?.fails(422, "Invalid");
        assert_eq!(refusal(&status), end);
    }
    let answer = cx.admin.merge_patch(path.as_str(), &json!({"apiVersion": null})).await?;
    answer.fails(400, "BadRequest");
    assert_eq!(answer.warnings(), [r#"unknown field "data""#, r#"unknown field "metadata""#]);
    // What it calls itself does not matter to a strategic patch, nor that it has no name for itself at all.
    for change in [json!({"kind": "Nope", "apiVersion": "v2"}), json!({"kind": null})] {
        let same = cx.admin.strategic_patch(path.as_str(), &change).await?.ok(200);
        assert_eq!(same, created);
    }
    assert_eq!(cx.admin.merge_patch(path, &json!({"kind": null})).await?.ok(200), created);
    Ok(())
}

async fn patches_that_are_no_patches(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let array = "json: cannot unmarshal array into Go value of type map[string]interface {}";
    for (form, body, message) in [
        ("merge-patch+json", "{", "invalid JSON patch".to_owned()),
        ("json-patch+json", "[}", "invalid JSON patch".to_owned()),
        ("strategic-merge-patch+json", "x", "invalid JSON patch".to_owned()),
        ("merge-patch+json", "[1]", format!("error decoding patch: {array}")),
        ("strategic-merge-patch+json", "[1]", array.to_owned()),
        (
            "apply-patch+yaml",
            "[1]",
            format!("error decoding patch: error unmarshaling JSON: while decoding JSON: {array}"),
        ),
        ("apply-patch+yaml", "{}", "invalid object type: /, Kind=".to_owned()),
    ] {
        let path = cx.core("configmaps/a?fieldManager=m");
        let answer = cx
            .admin
            .request(Method::PATCH, path)
            .body(&format!("application/{form}"), body.to_owned())
            .await?;
        answer.fails_with(400, "BadRequest", &message);
    }
    // Whether it makes sense is looked at when there is something to patch, unless it is applied.
    let missing = cx.core("configmaps/missing?fieldManager=m");
    let send = |form: &str| {
        cx.admin
            .request(Method::PATCH, missing.as_str())
            .body(&format!("application/{form}"), "[1]".to_owned())
    };
    send("merge-patch+json").await?.fails(404, "NotFound");
    send("apply-patch+yaml").await?.fails(400, "BadRequest");
    Ok(())
}

async fn strict_patches(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    for (form, body, problems) in [
        (
            "merge-patch+json",
            r#"{"data": {"a": "1", "a": "2"}, "zz": 1}"#,
            vec![r#"duplicate field "data.a""#, r#"unknown field "zz""#],
        ),
        (
            "strategic-merge-patch+json",
            r#"{"data": {"a": "1", "a": "3"}, "zz": 1}"#,
            vec![r#"duplicate field "data.a""#, r#"unknown field "zz""#],
        ),
        (
            "json-patch+json",
            r#"[{"op": "add", "op": "add", "path": "/data/x", "value": "1", "zz": 1}]"#,
            vec![r#"json patch duplicate field "[0].op""#, r#"json patch unknown field "[0].zz""#],
        ),
    ] {
        let send = |validation: &str| {
            let path = cx.core(&format!("configmaps/a?fieldValidation={validation}"));
            cx.admin.request(Method::PATCH, path).body(&format!("application/{form}"), body.to_owned())
        };
        let status = send("Strict").await?.fails(422, "Invalid");
        let end = format!("strict decoding error: {}", problems.join(", "));
        assert!(text(&status, "/message").ends_with(&end), "{status}");
        let answer = send("Warn").await?;
        answer.ok(200);
        assert_eq!(answer.warnings(), problems);
        let answer = send("Ignore").await?;
        answer.ok(200);
        assert!(answer.warnings().is_empty(), "{:?}", answer.warnings());
    }
    Ok(())
}

async fn strict_applies(cx: Cx) -> Result {
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: '1'\n  a: '2'\n";
    let send = |validation: &str| {
        let path = cx.core(&format!("configmaps/a?fieldManager=m&fieldValidation={validation}"));
        cx.admin.request(Method::PATCH, path).body("application/apply-patch+yaml", body)
    };
    send("Strict").await?.fails_with(
        400,
        "BadRequest",
        "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  \
         line 7: key \"a\" already set in map",
    );
    let answer = send("Warn").await?;
    assert_eq!(answer.ok(201)["data"], json!({"a": "2"}));
    assert_eq!(answer.warnings(), ["line 7: key \"a\" already set in map"]);
    let answer = send("Ignore").await?;
    answer.ok(200);
    assert!(answer.warnings().is_empty(), "{:?}", answer.warnings());
    Ok(())
}

async fn strategic_patches_of_the_whole_object(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let path = cx.core("configmaps/a");
    let nameless = "the name of the object (a based on URL) was undeterminable: name must be provided";
    for change in [json!({"$patch": "replace", "data": {"x": "1"}}), json!({"$patch": "delete"})] {
        cx.admin.strategic_patch(path.as_str(), &change).await?.fails_with(400, "BadRequest", nameless);
    }
    let change = json!({"$patch": "replace", "metadata": {"name": "a"}, "data": {"x": "1"}});
    assert_eq!(cx.admin.strategic_patch(path.as_str(), &change).await?.ok(200)["data"], json!({"x": "1"}));
    cx.admin.strategic_patch(path.as_str(), &json!({"$patch": null})).await?.fails_with(
        500,
        "",
        "unknown patch type: %!s(<nil>) in map: map[$patch:<nil>]",
    );
    let change = json!({"metadata": {"$setElementOrder/finalizers": [], "finalizers": null}});
    cx.admin.strategic_patch(path.as_str(), &change).await?.fails_with(
        500,
        "",
        "expected a []interface {}, but received a %!s(<nil>)",
    );
    // What is shown of a patch is what is left of it.
    let change = json!({"data": {"a": 5}, "metadata": {"labels": {"x": null, "z": "1"}}});
    let status = cx.admin.strategic_patch(path, &change).await?.fails(422, "Invalid");
    let shown = "\"map[data:map[a:5] metadata:map[labels:map[z:1]]]\": cannot convert int64 to string";
    assert!(text(&status, "/message").ends_with(shown), "{status}");
    Ok(())
}

async fn applied_values_that_do_not_fit(cx: Cx) -> Result {
    let start = "failed to convert new object (/a; apps/v1, Kind=Deployment) to proper version: \
                 unable to convert unstructured object to apps/v1, Kind=Deployment:";
    let path = cx.apis("apps/v1", "deployments/a?fieldManager=m");
    for (place, value, end) in [
        ("/spec", json!({"replicas": 1.5}), "cannot convert float64 to int32"),
        (
            "/spec",
            json!({"strategy": {"rollingUpdate": {"maxSurge": true}}}),
            "json: cannot unmarshal bool into Go value of type int32",
        ),
        (
            "/spec/template/spec/containers/0",
            json!({"resources": {"limits": {"cpu": "abc"}}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "/metadata",
            json!({"creationTimestamp": "abc"}),
            "parsing time \"abc\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"abc\" as \"2006\"",
        ),
    ] {
        let mut object = deployment("a");
        if let (Some(Value::Object(there)), Value::Object(more)) = (object.pointer_mut(place), value) {
            there.extend(more);
        }
        cx.admin.apply(path.as_str(), &object).await?.fails_with(500, "", &format!("{start} {end}"));
    }
    let mut object = deployment("a");
    object["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "main", "image": "i"}, {"image": "j"}]);
    let status = cx.admin.apply(path.as_str(), &object).await?.fails(422, "Invalid");
    assert!(
        text(&status, "/message").contains("spec.template.spec.containers[1].name: Required value"),
        "{status}"
    );
    object = deployment("a");
    object["spec"]["replicas"] = 3_000_000_000_i64.into();
    let status = cx.admin.apply(path.as_str(), &object).await?.fails(422, "Invalid");
    assert!(text(&status, "/message").contains("spec.replicas: Invalid value: -1294967296"), "{status}");
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": "!!!"}});
    cx.admin.apply(cx.core("secrets/a?fieldManager=m"), &secret).await?.fails_with(
        500,
        "",
        "failed to convert new object (/a; /v1, Kind=Secret) to proper version: unable to convert unstructured \
         object to /v1, Kind=Secret: error decoding from json: illegal base64 data at input byte 0",
    );
    Ok(())
}

async fn empty_lists_of_managers_forget_them(cx: Cx) -> Result {
    let forget = json!({"metadata": {"managedFields": []}});
    let whole = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "managedFields": []}, "data": {"key": "1"}});
    let path = cx.core("configmaps/a?fieldManager=m");
    for way in 0..4 {
        let created = cx.admin.post(cx.core("configmaps"), &whole).await?.ok(201);
        assert!(created["metadata"].get("managedFields").is_some(), "{created}");
        let operation = json!([{"op": "replace", "path": "/metadata/managedFields", "value": []}]);
        let request = match way {
            0 => cx.admin.merge_patch(path.as_str(), &forget),
            1 => cx.admin.strategic_patch(path.as_str(), &forget),
            2 => cx.admin.json_patch(path.as_str(), &operation),
            _ => cx.admin.put(path.as_str(), &whole),
        };
        let forgotten = request.await?.ok(200);
        assert!(forgotten["metadata"].get("managedFields").is_none(), "{way}: {forgotten}");
        cx.admin.delete(cx.core("configmaps/a")).await?.ok(200);
    }
    Ok(())
}

async fn scales_without_replicas(cx: Cx) -> Result {
    let mut object = deployment("a");
    object["spec"]["replicas"] = 0.into();
    let path = cx.apis("apps/v1", "deployments/a?fieldManager=one");
    let applied = cx.admin.apply(path, &object).await?.ok(201);
    // None is as good as nothing to a scale, so that nobody comes to own it.
    let scale = cx.apis("apps/v1", "deployments/a/scale?fieldManager=two");
    let same = cx.admin.merge_patch(scale, &json!({"spec": {"replicas": 0}})).await?.ok(200);
    assert_eq!(version(&same), version(&applied));
    assert_eq!(cx.read(cx.apis("apps/v1", "deployments/a")).await?, applied);
    Ok(())
}

async fn scales_of_something_else(cx: Cx) -> Result {
    let created = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let path = |query: &str| cx.apis("apps/v1", &format!("deployments/a/scale{query}"));
    let change = json!({"metadata": {"name": "b"}, "spec": {"replicas": 2}});
    let other = "the name of the object (b) does not match the name on the URL (a)";
    cx.admin.merge_patch(path(""), &change).await?.fails_with(400, "BadRequest", other);
    let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "b"},
        "spec": {"replicas": 2}});
    cx.admin.put(path(""), &scale).await?.fails_with(400, "BadRequest", other);
    scale["metadata"] = json!({"name": "a", "uid": "mine"});
    let status = cx.admin.put(path(""), &scale).await?.fails(409, "Conflict");
    let uid = text(&created, "/metadata/uid");
    let end = format!("UID in precondition: mine, UID in object meta: {uid}");
    assert!(text(&status, "/message").ends_with(&end), "{status}");
    let answer = cx.admin.merge_patch(path(""), &json!({"spec": {"zz": 1}})).await?;
    answer.ok(200);
    assert_eq!(answer.warnings(), [r#"unknown field "spec.zz""#]);
    let strict = path("?fieldValidation=Strict");
    cx.admin.merge_patch(strict, &json!({"spec": {"zz": 1}})).await?.fails(422, "Invalid");
    cx.admin.merge_patch(path(""), &json!({"spec": {"replicas": "x"}})).await?.fails(422, "Invalid");
    Ok(())
}

async fn warnings_come_after_validation(cx: Cx) -> Result {
    let mut object = deployment("a");
    object["spec"]["template"]["spec"]["containers"] = json!([
        {"name": "main", "image": "i", "ports": [{"containerPort": 80}]},
        {"name": "side", "image": "i", "ports": [{"containerPort": 80}]},
    ]);
    let warning = "spec.template.spec.containers[1].ports[0]: duplicate port definition with \
                   spec.template.spec.containers[0].ports[0]";
    let answer = cx.admin.post(cx.apis("apps/v1", "deployments"), &object).await?;
    answer.ok(201);
    assert_eq!(answer.warnings(), [warning]);
    let answer = cx
        .admin
        .merge_patch(cx.apis("apps/v1", "deployments/a/scale"), &json!({"spec": {"replicas": 3}}))
        .await?;
    answer.ok(200);
    assert_eq!(answer.warnings(), [warning]);
    object["metadata"]["name"] = "b".into();
    object["spec"]["replicas"] = (-1).into();
    let answer = cx.admin.post(cx.apis("apps/v1", "deployments"), &object).await?;
    answer.fails(422, "Invalid");
    assert!(answer.warnings().is_empty(), "{:?}", answer.warnings());
    Ok(())
}

async fn managers_of_other_versions(cx: Cx) -> Result {
    let scaler = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}});
    let v1 = cx.apis("autoscaling/v1", "horizontalpodautoscalers/a");
    let v2 = cx.apis("autoscaling/v2", "horizontalpodautoscalers/a");
    cx.admin.apply(format!("{v1}?fieldManager=one"), &scaler).await?.ok(201);
    // The same field under another name is still somebody's.
    let change = json!({"spec": {"metrics": [{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 70}}}]}});
    let patched = cx.admin.merge_patch(format!("{v2}?fieldManager=two"), &change).await?.ok(200);
    let owned = |object: &Value, manager: &str| {
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let entry = entries.into_iter().find(|entry| entry["manager"] == manager).unwrap_or_default();
        entry["fieldsV1"]["f:spec"].clone()
    };
    assert_eq!(owned(&patched, "one"), json!({"f:maxReplicas": {}, "f:scaleTargetRef": {}}));
    assert_eq!(owned(&patched, "two"), json!({"f:metrics": {}}));
    let status = cx.admin.apply(format!("{v1}?fieldManager=one"), &scaler).await?.fails(409, "Conflict");
    assert_eq!(
        text(&status, "/message"),
        "Apply failed with 1 conflict: conflict with \"two\" using autoscaling/v2: .spec.metrics"
    );
    Ok(())
}

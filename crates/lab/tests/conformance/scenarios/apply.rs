//! Server-side apply: who owns what, and what happens when two want the same.

use http::Method;
use serde_json::{Value, json};

use crate::context::{Cx, config_map, deployment};
use crate::support::Result;
use crate::support::json::{cause_fields, has, managed, version};

scenarios![
    creates,
    again_changes_nothing,
    needs_a_manager,
    manager_must_be_printable_and_short,
    force_is_for_apply_only,
    body_must_tell_its_type,
    body_must_not_manage_fields,
    yaml_body,
    two_managers_own_their_own,
    same_value_is_shared,
    other_value_conflicts,
    force_takes_over,
    conflict_with_an_updater,
    conflicts_are_all_listed,
    left_out_fields_are_removed,
    left_out_shared_fields_stay,
    left_out_defaults_come_back,
    name_must_match,
    version_is_checked,
    uid_cannot_be_applied,
    status_is_applied_apart,
    status_of_nothing_is_not_created,
    empty_set_gives_everything_up,
    dry_run_decides_but_keeps_nothing,
    fields_of_metadata_are_owned,
    unknown_fields_are_an_error_by_default,
    scale_is_applied,
];

/// Applies a ConfigMap's data as a manager.
fn data(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

async fn creates(cx: Cx) -> Result {
    let path = cx.core("configmaps/a?fieldManager=one");
    let created = cx.admin.apply(path, &data("a", &json!({"x": "1"}))).await?.ok(201);
    has(&created, &json!({"metadata": {"namespace": cx.ns}, "data": {"x": "1"}}));
    let entries = created["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    assert_eq!(entries.len(), 1);
    has(
        &entries[0],
        &json!({
            "manager": "one", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:x": {}}}, "subresource": null,
        }),
    );
    assert_eq!(entries[0]["fieldsV1"], json!({"f:data": {"f:x": {}}}));
    assert!(entries[0]["time"].is_string());
    Ok(())
}

async fn again_changes_nothing(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a?fieldManager=one");
    let created = cx.admin.apply(path.as_str(), &deployment("a")).await?.ok(201);
    let again = cx.admin.apply(path.as_str(), &deployment("a")).await?.ok(200);
    assert_eq!(again, created);
    let forced = cx.admin.apply(format!("{path}&force=true"), &deployment("a")).await?.ok(200);
    assert_eq!(forced, created);
    Ok(())
}

async fn needs_a_manager(cx: Cx) -> Result {
    let answer = cx.admin.apply(cx.core("configmaps/a"), &data("a", &json!({}))).await?;
    let status = answer.fails(422, "Invalid");
    has(
        &status,
        &json!({
            "message": "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required \
                for apply patch",
            "details": {"group": "meta.k8s.io", "kind": "PatchOptions", "causes": [
                {"reason": "FieldValueRequired", "field": "fieldManager",
                    "message": "Required value: is required for apply patch"},
            ]},
        }),
    );
    Ok(())
}

async fn manager_must_be_printable_and_short(cx: Cx) -> Result {
    let long = "m".repeat(129);
    let path = cx.core(&format!("configmaps/a?fieldManager={long}"));
    let status = cx.admin.apply(path, &data("a", &json!({}))).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "fieldManager", "reason": "FieldValueTooLong"}]}}));
    let path = cx.core("configmaps/a?fieldManager=a%07b");
    let status = cx.admin.apply(path, &data("a", &json!({}))).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "fieldManager", "reason": "FieldValueInvalid"}]}}));
    let path = cx.core(&format!("configmaps?fieldManager={long}"));
    cx.admin.post(path, &config_map("b", "1")).await?.fails(422, "Invalid");
    Ok(())
}

async fn force_is_for_apply_only(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let answer =
        cx.admin.merge_patch(cx.core("configmaps/a?force=true"), &json!({"data": {"key": "2"}})).await?;
    let status = answer.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "force", "reason": "FieldValueForbidden",
        "message": "Forbidden: may not be specified for non-apply patch"}]}}),
    );
    Ok(())
}

async fn body_must_tell_its_type(cx: Cx) -> Result {
    let path = cx.core("configmaps/a?fieldManager=one");
    let answer =
        cx.admin.apply(path.as_str(), &json!({"metadata": {"name": "a"}, "data": {"x": "1"}})).await?;
    assert_eq!(answer.status, 400, "{answer}");
    let other = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    let answer = cx.admin.apply(path.as_str(), &other).await?;
    assert_eq!(answer.status, 400, "{answer}");
    let answer =
        cx.admin.request(Method::PATCH, path).body("application/apply-patch+yaml", "{ not: [ yaml").await?;
    answer.fails(400, "BadRequest");
    Ok(())
}

async fn body_must_not_manage_fields(cx: Cx) -> Result {
    let mut object = data("a", &json!({"x": "1"}));
    object["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Apply", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]);
    let answer = cx.admin.apply(cx.core("configmaps/a?fieldManager=one"), &object).await?;
    answer.fails_with(400, "BadRequest", "metadata.managedFields must be nil");
    Ok(())
}

async fn yaml_body(cx: Cx) -> Result {
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: |\n    two\n    lines\n  \
        # a comment\n  z: \"5\"\n";
    let path = cx.core("configmaps/a?fieldManager=one");
    let created =
        cx.admin.request(Method::PATCH, path).body("application/apply-patch+yaml", body).await?.ok(201);
    assert_eq!(created["data"], json!({"x": "two\nlines\n", "z": "5"}));
    Ok(())
}

async fn two_managers_own_their_own(cx: Cx) -> Result {
    cx.admin.apply(cx.core("configmaps/a?fieldManager=one"), &data("a", &json!({"x": "1"}))).await?.ok(201);
    let merged = cx
        .admin
        .apply(cx.core("configmaps/a?fieldManager=two"), &data("a", &json!({"y": "2"})))
        .await?
        .ok(200);
    assert_eq!(merged["data"], json!({"x": "1", "y": "2"}));
    has(
        managed(&merged, "one", "Apply").unwrap_or(&Value::Null),
        &json!({"fieldsV1": {"f:data": {"f:x": {}, "f:y": null}}}),
    );
    has(
        managed(&merged, "two", "Apply").unwrap_or(&Value::Null),
        &json!({"fieldsV1": {"f:data": {"f:y": {}, "f:x": null}}}),
    );
    Ok(())
}

async fn same_value_is_shared(cx: Cx) -> Result {
    let object = data("a", &json!({"x": "1"}));
    cx.admin.apply(cx.core("configmaps/a?fieldManager=one"), &object).await?.ok(201);
    let shared = cx.admin.apply(cx.core("configmaps/a?fieldManager=two"), &object).await?.ok(200);
    for manager in ["one", "two"] {
        assert_eq!(
            managed(&shared, manager, "Apply").map(|entry| &entry["fieldsV1"]),
            Some(&json!({"f:data": {"f:x": {}}}))
        );
    }
    // Both have to let go before it is gone.
    let gone = data("a", &json!({}));
    let kept = cx.admin.apply(cx.core("configmaps/a?fieldManager=one"), &gone).await?.ok(200);
    assert_eq!(kept["data"], json!({"x": "1"}));
    let removed = cx.admin.apply(cx.core("configmaps/a?fieldManager=two"), &gone).await?.ok(200);
    assert_eq!(removed["data"], Value::Null);
    Ok(())
}

async fn other_value_conflicts(cx: Cx) -> Result {
    cx.admin.apply(cx.core("configmaps/a?fieldManager=one"), &data("a", &json!({"x": "1"}))).await?.ok(201);
    let answer =
        cx.admin.apply(cx.core("configmaps/a?fieldManager=two"), &data("a", &json!({"x": "2"}))).await?;
    let status = answer.fails(409, "Conflict");
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Conflict",
                "code": 409,
            "message": "Apply failed with 1 conflict: conflict with \"one\": .data.x",
            "details": {"causes": [
                {"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.x"},
            ]},
        })
    );
    Ok(())
}

async fn force_takes_over(cx: Cx) -> Result {
    cx.admin
        .apply(cx.core("configmaps/a?fieldManager=one"), &data("a", &json!({"x": "1", "z": "3"})))
        .await?
        .ok(201);
    let path = cx.core("configmaps/a?fieldManager=two&force=true");
    let forced = cx.admin.apply(path, &data("a", &json!({"x": "2"}))).await?.ok(200);
    assert_eq!(forced["data"], json!({"x": "2", "z": "3"}));
    assert_eq!(
        managed(&forced, "one", "Apply").map(|entry| &entry["fieldsV1"]),
        Some(&json!({"f:data": {"f:z": {}}}))
    );
    assert_eq!(
        managed(&forced, "two", "Apply").map(|entry| &entry["fieldsV1"]),
        Some(&json!({"f:data": {"f:x": {}}}))
    );
    Ok(())
}

async fn conflict_with_an_updater(cx: Cx) -> Result {
    cx.admin.apply(cx.apis("apps/v1", "deployments/a?fieldManager=one"), &deployment("a")).await?.ok(201);
    let path = cx.apis("apps/v1", "deployments/a?fieldManager=scaler");
    let scaled = cx.admin.merge_patch(path, &json!({"spec": {"replicas": 5}})).await?.ok(200);
    has(
        managed(&scaled, "scaler", "Update").unwrap_or(&Value::Null),
        &json!({"fieldsV1": {"f:spec": {"f:replicas": {}}}}),
    );
    assert!(
        managed(&scaled, "one", "Apply")
            .is_some_and(|entry| entry["fieldsV1"]["f:spec"]["f:replicas"].is_null())
    );
    let answer =
        cx.admin.apply(cx.apis("apps/v1", "deployments/a?fieldManager=one"), &deployment("a")).await?;
    let status = answer.fails(409, "Conflict");
    has(
        &status,
        &json!({
            "message": "Apply failed with 1 conflict: conflict with \"scaler\" using apps/v1: .spec.replicas",
            "details": {"causes": [{"field": ".spec.replicas",
            "message": "conflict with \"scaler\" using apps/v1"}]},
        }),
    );
    // Leaving the field out leaves it to the other.
    let mut object = deployment("a");
    object["spec"].as_object_mut().map(|spec| spec.remove("replicas"));
    let applied =
        cx.admin.apply(cx.apis("apps/v1", "deployments/a?fieldManager=one"), &object).await?.ok(200);
    has(&applied, &json!({"spec": {"replicas": 5}}));
    Ok(())
}

async fn conflicts_are_all_listed(cx: Cx) -> Result {
    cx.admin.apply(cx.core("configmaps/a?fieldManager=one"), &data("a", &json!({"x": "1"}))).await?.ok(201);
    cx.admin
        .apply(cx.core("configmaps/a?fieldManager=two"), &data("a", &json!({"y": "1", "z": "1"})))
        .await?
        .ok(200);
    let object = data("a", &json!({"x": "2", "y": "2", "z": "2"}));
    let status =
        cx.admin.apply(cx.core("configmaps/a?fieldManager=three"), &object).await?.fails(409, "Conflict");
    has(
        &status,
        &json!({
            "message": "Apply failed with 3 conflicts: conflicts with \"one\":\n- .data.x\nconflicts with \
                \"two\":\n- .data.y\n- .data.z",
        }),
    );
    // The causes come in no particular order.
    assert_eq!(cause_fields(&status), [".data.x", ".data.y", ".data.z"]);
    Ok(())
}

async fn left_out_fields_are_removed(cx: Cx) -> Result {
    let path = cx.core("configmaps/a?fieldManager=one");
    cx.admin.apply(path.as_str(), &data("a", &json!({"x": "1", "y": "2"}))).await?.ok(201);
    cx.admin
        .merge_patch(cx.core("configmaps/a?fieldManager=other"), &json!({"data": {"z": "3"}}))
        .await?
        .ok(200);
    let applied = cx.admin.apply(path, &data("a", &json!({"x": "1"}))).await?.ok(200);
    assert_eq!(applied["data"], json!({"x": "1", "z": "3"}));
    Ok(())
}

async fn left_out_shared_fields_stay(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a?fieldManager=one");
    cx.admin.apply(path.as_str(), &deployment("a")).await?.ok(201);
    let two = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"replicas": 1}});
    cx.admin.apply(cx.apis("apps/v1", "deployments/a?fieldManager=two"), &two).await?.ok(200);
    let mut object = deployment("a");
    object["spec"].as_object_mut().map(|spec| spec.remove("replicas"));
    let applied = cx.admin.apply(path, &object).await?.ok(200);
    has(&applied, &json!({"spec": {"replicas": 1}}));
    Ok(())
}

async fn left_out_defaults_come_back(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a?fieldManager=one");
    let mut object = deployment("a");
    object["spec"]["replicas"] = 7.into();
    object["spec"]["revisionHistoryLimit"] = 3.into();
    cx.admin.apply(path.as_str(), &object).await?.ok(201);
    object["spec"].as_object_mut().map(|spec| (spec.remove("replicas"), spec.remove("revisionHistoryLimit")));
    let applied = cx.admin.apply(path, &object).await?.ok(200);
    has(
        &applied,
        &json!({"spec": {"replicas": 1, "revisionHistoryLimit": 10}, "metadata": {"generation": 2}}),
    );
    Ok(())
}

async fn name_must_match(cx: Cx) -> Result {
    let answer = cx.admin.apply(cx.core("configmaps/a?fieldManager=one"), &data("b", &json!({}))).await?;
    answer.fails_with(400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)");
    let mut object = data("a", &json!({}));
    object["metadata"]["namespace"] = "default".into();
    let answer = cx.admin.apply(cx.core("configmaps/a?fieldManager=one"), &object).await?;
    answer.fails(400, "BadRequest");
    // A name in the path is not enough.
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"}});
    let answer = cx.admin.apply(cx.core("configmaps/a?fieldManager=one"), &object).await?;
    answer.fails_with(
        400,
        "BadRequest",
        "the name of the object (a based on URL) was undeterminable: name must be provided",
    );
    Ok(())
}

async fn version_is_checked(cx: Cx) -> Result {
    let path = cx.core("configmaps/a?fieldManager=one");
    let created = cx.admin.apply(path.as_str(), &data("a", &json!({"x": "1"}))).await?.ok(201);
    let mut object = data("a", &json!({"x": "2"}));
    object["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    let applied = cx.admin.apply(path.as_str(), &object).await?.ok(200);
    assert!(version(&applied) > version(&created));
    object["data"]["x"] = "3".into();
    cx.admin.apply(path.as_str(), &object).await?.fails(409, "Conflict");
    Ok(())
}

async fn uid_cannot_be_applied(cx: Cx) -> Result {
    let mut object = data("a", &json!({"x": "1"}));
    object["metadata"]["uid"] = "of-another-time".into();
    let answer = cx.admin.apply(cx.core("configmaps/a?fieldManager=one"), &object).await?;
    answer.fails_with(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object specified uid \
         of-another-time, and no existing object was found",
    );
    Ok(())
}

async fn status_is_applied_apart(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a");
    cx.admin.apply(format!("{path}?fieldManager=one"), &deployment("a")).await?.ok(201);
    let mut object = deployment("a");
    object["status"] = json!({"replicas": 3});
    let applied = cx.admin.apply(format!("{path}/status?fieldManager=one"), &object).await?.ok(200);
    has(&applied, &json!({"status": {"replicas": 3}}));
    let entries = applied["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let status = entries.iter().find(|entry| entry["subresource"] == "status").cloned().unwrap_or_default();
    has(&status, &json!({"manager": "one", "operation": "Apply"}));
    assert_eq!(status["fieldsV1"], json!({"f:status": {"f:replicas": {}}}));
    // What the main resource is applied with does not reach the status.
    object["status"] = json!({"replicas": 9});
    let applied = cx.admin.apply(format!("{path}?fieldManager=one"), &object).await?.ok(200);
    has(&applied, &json!({"status": {"replicas": 3}}));
    Ok(())
}

async fn status_of_nothing_is_not_created(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a/status?fieldManager=one");
    cx.admin.apply(path, &deployment("a")).await?.fails(404, "NotFound");
    Ok(())
}

async fn empty_set_gives_everything_up(cx: Cx) -> Result {
    let path = cx.core("configmaps/a?fieldManager=one");
    cx.admin.apply(path.as_str(), &data("a", &json!({"x": "1"}))).await?.ok(201);
    cx.admin
        .merge_patch(cx.core("configmaps/a?fieldManager=other"), &json!({"data": {"y": "2"}}))
        .await?
        .ok(200);
    let nothing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let applied = cx.admin.apply(path, &nothing).await?.ok(200);
    assert_eq!(applied["data"], json!({"y": "2"}));
    assert!(managed(&applied, "one", "Apply").is_none(), "{applied}");
    Ok(())
}

async fn dry_run_decides_but_keeps_nothing(cx: Cx) -> Result {
    let object = data("a", &json!({"x": "1"}));
    let created = cx.admin.apply(cx.core("configmaps/a?fieldManager=one&dryRun=All"), &object).await?.ok(201);
    has(&created, &json!({"data": {"x": "1"}}));
    cx.admin.get(cx.core("configmaps/a")).await?.fails(404, "NotFound");
    let stored = cx.admin.apply(cx.core("configmaps/a?fieldManager=one"), &object).await?.ok(201);
    let object = data("a", &json!({"x": "2"}));
    let path = cx.core("configmaps/a?fieldManager=two&dryRun=All");
    cx.admin.apply(path.as_str(), &object).await?.fails(409, "Conflict");
    let would = cx.admin.apply(format!("{path}&force=true"), &object).await?.ok(200);
    assert_eq!(would["data"], json!({"x": "2"}));
    assert_eq!(cx.read(cx.core("configmaps/a")).await?, stored);
    Ok(())
}

async fn fields_of_metadata_are_owned(cx: Cx) -> Result {
    let path = cx.core("configmaps/a?fieldManager=one");
    let mut object = data("a", &json!({}));
    object["metadata"]["labels"] = json!({"l": "1"});
    object["metadata"]["annotations"] = json!({"example.com/n": "1"});
    object["metadata"]["finalizers"] = json!(["example.com/f"]);
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "some-uid"}]);
    let created = cx.admin.apply(format!("{path}&dryRun=All"), &object).await?.ok(201);
    assert_eq!(
        managed(&created, "one", "Apply").map(|entry| entry["fieldsV1"].clone()),
        Some(json!({"f:metadata": {
            "f:labels": {"f:l": {}}, "f:annotations": {"f:example.com/n": {}},
            "f:finalizers": {"v:\"example.com/f\"": {}},
            "f:ownerReferences": {"k:{\"uid\":\"some-uid\"}": {}},
        }, "f:data": {}}))
    );
    object["metadata"]
        .as_object_mut()
        .map(|fields| (fields.remove("ownerReferences"), fields.remove("finalizers")));
    cx.admin.apply(path.as_str(), &object).await?.ok(201);
    object["metadata"]["labels"] = json!({});
    let applied = cx.admin.apply(path, &object).await?.ok(200);
    has(&applied, &json!({"metadata": {"labels": null, "annotations": {"example.com/n": "1"}}}));
    Ok(())
}

async fn unknown_fields_are_an_error_by_default(cx: Cx) -> Result {
    let mut object = data("a", &json!({"x": "1"}));
    object["unknown"] = true.into();
    let answer = cx.admin.apply(cx.core("configmaps/a?fieldManager=one"), &object).await?;
    assert_eq!(answer.status, 500, "{answer}");
    Ok(())
}

async fn scale_is_applied(cx: Cx) -> Result {
    cx.admin.apply(cx.apis("apps/v1", "deployments/a?fieldManager=one"), &deployment("a")).await?.ok(201);
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a",
        "namespace": cx.ns},
        "spec": {"replicas": 4}});
    let path = cx.apis("apps/v1", "deployments/a/scale?fieldManager=two");
    let status = cx.admin.apply(path.as_str(), &scale).await?.fails(409, "Conflict");
    has(&status, &json!({"details": {"causes": [{"field": ".spec.replicas"}]}}));
    let scaled = cx.admin.apply(format!("{path}&force=true"), &scale).await?.ok(200);
    has(&scaled, &json!({"kind": "Scale", "spec": {"replicas": 4}}));
    let read = cx.read(cx.apis("apps/v1", "deployments/a")).await?;
    let entry = managed(&read, "two", "Apply").cloned().unwrap_or_default();
    has(&entry, &json!({"subresource": "scale", "apiVersion": "apps/v1"}));
    assert_eq!(entry["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    Ok(())
}

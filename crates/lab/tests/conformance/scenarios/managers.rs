//! Managed fields of those who do not apply.

use serde_json::{Value, json};

use crate::context::{Cx, config_map, deployment};
use crate::crds::{definition, establish, with_spec};
use crate::support::Result;
use crate::support::json::{has, managed};

scenarios![
    updates_are_tracked,
    manager_from_the_user_agent,
    defaults_belong_to_the_creator,
    untouched_fields_keep_their_owner,
    removed_fields_lose_their_owner,
    status_updates_are_apart,
    managed_fields_can_be_cleared,
    managed_fields_can_be_sent_back,
    bad_managed_fields_are_ignored,
    ancient_changes,
    takeover_from_client_side_apply,
    migration_by_json_patch,
    custom_resources_are_tracked,
    no_op_keeps_times,
];

/// The managers of an object with their operations, sorted.
fn managers(object: &Value) -> Vec<(String, String)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let name = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let mut managers: Vec<_> =
        entries.iter().map(|entry| (name(entry, "manager"), name(entry, "operation"))).collect();
    managers.sort();
    managers
}

/// Fields owned by a manager that updates.
fn fields(object: &Value, manager: &str) -> Value {
    managed(object, manager, "Update").map(|entry| entry["fieldsV1"].clone()).unwrap_or_default()
}

async fn updates_are_tracked(cx: Cx) -> Result {
    let created = cx.admin.post(cx.core("configmaps?fieldManager=one"), &config_map("a", "1")).await?.ok(201);
    assert_eq!(fields(&created, "one"), json!({"f:data": {".": {}, "f:key": {}}}));
    let patched = cx
        .admin
        .merge_patch(
            cx.core("configmaps/a?fieldManager=two"),
            &json!({"data": {"more": "2"}, "metadata": {"labels": {"x": "y"}}}),
        )
        .await?
        .ok(200);
    assert_eq!(
        fields(&patched, "two"),
        json!({"f:data": {"f:more": {}}, "f:metadata": {"f:labels": {".": {}, "f:x": {}}}})
    );
    let patched = cx
        .admin
        .merge_patch(cx.core("configmaps/a?fieldManager=three"), &json!({"data": {"key": "other"}}))
        .await?
        .ok(200);
    assert_eq!(fields(&patched, "three"), json!({"f:data": {"f:key": {}}}));
    assert_eq!(fields(&patched, "one"), json!({"f:data": {}}));
    Ok(())
}

async fn manager_from_the_user_agent(cx: Cx) -> Result {
    let client = cx.admin.with_header("x-unused", "1")?;
    let created = client
        .post(cx.core("configmaps"), &config_map("a", "1"))
        .header("user-agent", "my-controller/v1.2.3 (linux/amd64) kubernetes/abc")
        .await?
        .ok(201);
    has(
        &created["metadata"],
        &json!({"managedFields": [{"manager": "my-controller", "operation": "Update"}]}),
    );
    let created = client
        .post(cx.core("configmaps"), &config_map("b", "1"))
        .header("user-agent", "no slash at all")
        .await?
        .ok(201);
    has(&created["metadata"], &json!({"managedFields": [{"manager": "no slash at all"}]}));
    let created =
        client.post(cx.core("configmaps"), &config_map("c", "1")).header("user-agent", "").await?.ok(201);
    has(&created["metadata"], &json!({"managedFields": [{"manager": "unknown"}]}));
    Ok(())
}

async fn defaults_belong_to_the_creator(cx: Cx) -> Result {
    let created = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    assert_eq!(
        fields(&created, "scenario"),
        json!({"f:spec": {
            "f:progressDeadlineSeconds": {}, "f:replicas": {}, "f:revisionHistoryLimit": {}, "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}},
            "f:type": {}},
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {
                    "f:containers": {"k:{\"name\":\"main\"}": {
                        ".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {},
                        "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {},
                    }},
                    "f:dnsPolicy": {}, "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {},
                    "f:terminationGracePeriodSeconds": {},
                },
            },
        }})
    );
    // Who applies owns what was said and no defaults.
    let applied =
        cx.admin.apply(cx.apis("apps/v1", "deployments/b?fieldManager=one"), &deployment("b")).await?.ok(201);
    let entry = managed(&applied, "one", "Apply").cloned().unwrap_or_default();
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}, "f:name": {}}}},
        }}})
    );
    Ok(())
}

async fn untouched_fields_keep_their_owner(cx: Cx) -> Result {
    let mut object =
        cx.admin.post(cx.core("configmaps?fieldManager=one"), &config_map("a", "1")).await?.ok(201);
    object["data"]["other"] = "2".into();
    let replaced = cx.admin.put(cx.core("configmaps/a?fieldManager=two"), &object).await?.ok(200);
    assert_eq!(fields(&replaced, "one"), json!({"f:data": {".": {}, "f:key": {}}}));
    assert_eq!(fields(&replaced, "two"), json!({"f:data": {"f:other": {}}}));
    Ok(())
}

async fn removed_fields_lose_their_owner(cx: Cx) -> Result {
    cx.admin.post(cx.core("configmaps?fieldManager=one"), &config_map("a", "1")).await?.ok(201);
    let patched = cx
        .admin
        .merge_patch(cx.core("configmaps/a?fieldManager=two"), &json!({"data": {"key": null, "other": "2"}}))
        .await?
        .ok(200);
    assert_eq!(fields(&patched, "one"), json!({"f:data": {}}));
    assert_eq!(fields(&patched, "two"), json!({"f:data": {"f:other": {}}}));
    let patched =
        cx.admin.merge_patch(cx.core("configmaps/a?fieldManager=two"), &json!({"data": null})).await?.ok(200);
    assert_eq!(managers(&patched), []);
    Ok(())
}

async fn status_updates_are_apart(cx: Cx) -> Result {
    cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let patched = cx
        .admin
        .merge_patch(cx.apis("apps/v1", "deployments/a/status"), &json!({"status": {"replicas": 1}}))
        .await?
        .ok(200);
    let entries = patched["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    assert_eq!(entries.len(), 2);
    has(&entries[1], &json!({"manager": "scenario", "operation": "Update", "subresource": "status"}));
    assert_eq!(entries[1]["fieldsV1"], json!({"f:status": {"f:replicas": {}}}));
    Ok(())
}

async fn managed_fields_can_be_cleared(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let patched = cx
        .admin
        .merge_patch(cx.core("configmaps/a"), &json!({"metadata": {"managedFields": [{}]}}))
        .await?
        .ok(200);
    assert_eq!(patched["metadata"]["managedFields"], Value::Null);
    // What comes afterwards is told from what was before.
    let applied = cx
        .admin
        .apply(
            cx.core("configmaps/a?fieldManager=one"),
            &json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a"}, "data": {"new": "1"}}),
        )
        .await?
        .ok(200);
    assert_eq!(
        managers(&applied),
        [("before-first-apply".to_owned(), "Update".to_owned()), ("one".to_owned(), "Apply".to_owned())]
    );
    assert_eq!(fields(&applied, "before-first-apply"), json!({"f:data": {".": {}, "f:key": {}}}));
    Ok(())
}

async fn managed_fields_can_be_sent_back(cx: Cx) -> Result {
    // What a client read and sends again is no change of its own.
    let created = cx.admin.post(cx.core("configmaps?fieldManager=one"), &config_map("a", "1")).await?.ok(201);
    let mut object = created.clone();
    object["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
    object["data"]["more"] = "2".into();
    let replaced = cx.admin.put(cx.core("configmaps/a?fieldManager=two"), &object).await?.ok(200);
    assert_eq!(fields(&replaced, "one"), json!({"f:data": {".": {}, "f:key": {}}}));
    // An entry that was changed by hand stays as it was written.
    let mut object = replaced.clone();
    object["metadata"]["managedFields"][0]["manager"] = "renamed".into();
    let replaced = cx.admin.put(cx.core("configmaps/a?fieldManager=two"), &object).await?.ok(200);
    assert_eq!(
        managers(&replaced),
        [("renamed".to_owned(), "Update".to_owned()), ("two".to_owned(), "Update".to_owned())]
    );
    Ok(())
}

async fn bad_managed_fields_are_ignored(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    let mut object = created.clone();
    object["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"k:not json": {}}}}]);
    let replaced = cx.admin.put(cx.core("configmaps/a"), &object).await?.ok(200);
    assert_eq!(replaced["metadata"]["managedFields"], created["metadata"]["managedFields"]);
    Ok(())
}

async fn ancient_changes(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let mut last = Value::Null;
    for number in 0..13 {
        // The oldest are merged, and times are in seconds.
        if number == 4 {
            tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        }
        let patch = json!({"data": {format!("k{number}"): "x"}});
        let path = cx.core(&format!("configmaps/a?fieldManager=m{number}"));
        last = cx.admin.merge_patch(path, &patch).await?.ok(200);
    }
    let managers = managers(&last);
    assert_eq!(managers.len(), 10, "{managers:?}");
    assert_eq!(managers[0].0, "ancient-changes");
    assert_eq!(
        fields(&last, "ancient-changes"),
        json!({"f:data": {".": {}, "f:key": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}})
    );
    assert_eq!(fields(&last, "m12"), json!({"f:data": {"f:k12": {}}}));
    Ok(())
}

async fn takeover_from_client_side_apply(cx: Cx) -> Result {
    let last = "kubectl.kubernetes.io/last-applied-configuration";
    let mut object = config_map("a", "1");
    object["metadata"]["annotations"] = json!({last: config_map("a", "1").to_string()});
    cx.admin.post(cx.core("configmaps?fieldManager=kubectl-client-side-apply"), &object).await?.ok(201);
    // The applier called `kubectl` owns what its older self has applied, so nothing conflicts.
    let applied = cx.admin.apply(cx.core("configmaps/a?fieldManager=kubectl"), &config_map("a", "2")).await?;
    let applied = applied.ok(200);
    assert_eq!(applied["data"], json!({"key": "2"}));
    let recorded: Value =
        serde_json::from_str(applied["metadata"]["annotations"][last].as_str().unwrap_or_default())?;
    has(&recorded, &json!({"data": {"key": "2"}}));
    Ok(())
}

async fn migration_by_json_patch(cx: Cx) -> Result {
    // How kubectl turns its old updates into applied fields.
    let created = cx
        .admin
        .post(cx.core("configmaps?fieldManager=kubectl-client-side-apply"), &config_map("a", "1"))
        .await?
        .ok(201);
    let mut entries = created["metadata"]["managedFields"].clone();
    entries[0]["manager"] = "kubectl".into();
    entries[0]["operation"] = "Apply".into();
    let patch = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion",
        "value": created["metadata"]["resourceVersion"]},
    ]);
    let patched = cx.admin.json_patch(cx.core("configmaps/a"), &patch).await?.ok(200);
    assert_eq!(managers(&patched), [("kubectl".to_owned(), "Apply".to_owned())]);
    let applied = cx
        .admin
        .apply(
            cx.core("configmaps/a?fieldManager=kubectl"),
            &json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a"}, "data": {"new": "2"}}),
        )
        .await?
        .ok(200);
    assert_eq!(applied["data"], json!({"new": "2"}));
    Ok(())
}

async fn custom_resources_are_tracked(cx: Cx) -> Result {
    let schema = with_spec(&json!({"type": "object", "properties": {
        "size": {"type": "integer", "default": 1}, "name": {"type": "string"},
    }}));
    establish(&cx, &definition(&cx, &schema)).await?;
    let created = cx.create(cx.widgets(), &cx.widget("a", &json!({"name": "x"}))).await?;
    assert_eq!(fields(&created, "scenario"), json!({"f:spec": {".": {}, "f:name": {}, "f:size": {}}}));
    let api_version = format!("{}/v1", cx.group);
    has(&created["metadata"], &json!({"managedFields": [{"apiVersion": api_version}]}));
    let scaled =
        cx.admin.merge_patch(cx.a_widget("a?fieldManager=two"), &json!({"spec": {"size": 2}})).await?.ok(200);
    assert_eq!(fields(&scaled, "two"), json!({"f:spec": {"f:size": {}}}));
    let answer =
        cx.admin.apply(cx.a_widget("a?fieldManager=three"), &cx.widget("a", &json!({"size": 3}))).await?;
    has(
        &answer.fails(409, "Conflict"),
        &json!({
            "message": format!("Apply failed with 1 conflict: conflict with \"two\" using {api_version}: \
                .spec.size"),
        }),
    );
    Ok(())
}

async fn no_op_keeps_times(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
    let again = cx.admin.put(cx.core("configmaps/a"), &config_map("a", "1")).await?.ok(200);
    assert_eq!(again, created);
    let path = cx.core("configmaps/b?fieldManager=one");
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"x": "1"}});
    let created = cx.admin.apply(path.as_str(), &object).await?.ok(201);
    tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
    let again = cx.admin.apply(path, &object).await?.ok(200);
    assert_eq!(again, created);
    Ok(())
}

//! Deleting objects, one and many.

use http::Method;
use serde_json::{Value, json};

use crate::context::{Cx, config_map, deployment, pod};
use crate::crds::{definition, establish};
use crate::support::Result;
use crate::support::json::{has, names, text, version};

scenarios![
    answers_a_status,
    some_kinds_answer_the_object,
    preconditions,
    options_in_the_query,
    bad_options,
    finalizers_hold_an_object,
    finalizers_cannot_be_added_later,
    deleting_twice,
    deletion_is_a_change,
    bad_finalizers,
    pods_have_time_to_end,
    pods_can_be_killed,
    grace_can_be_shortened_not_extended,
    pods_that_run_nowhere_go_at_once,
    collection,
    collection_with_selectors,
    collection_with_finalizers,
    collection_of_custom_resources,
    dry_run_keeps_the_object,
    deleted_names_are_free,
    both_policies_at_once,
];

fn options(fields: &Value) -> Value {
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    for (key, value) in fields.as_object().into_iter().flatten() {
        options[key] = value.clone();
    }
    options
}

async fn answers_a_status(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    let status = cx.admin.delete(cx.core("configmaps/a")).await?.ok(200);
    assert_eq!(
        status,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}})
    );
    let created = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let status = cx.admin.delete(cx.apis("apps/v1", "deployments/a")).await?.ok(200);
    has(
        &status,
        &json!({"details": {"name": "a", "group": "apps", "kind": "deployments",
            "uid": created["metadata"]["uid"]}}),
    );
    cx.admin.get(cx.core("configmaps/a")).await?.fails(404, "NotFound");
    cx.admin.delete(cx.core("configmaps/a")).await?.fails_with(404, "NotFound", "configmaps \"a\" not found");
    Ok(())
}

async fn some_kinds_answer_the_object(cx: Cx) -> Result {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
    cx.create(cx.core("serviceaccounts"), &account).await?;
    let deleted = cx.admin.delete(cx.core("serviceaccounts/a")).await?.ok(200);
    has(&deleted, &json!({"kind": "ServiceAccount", "metadata": {"name": "a"}}));
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"ports": [{"port": 1}]}});
    cx.create(cx.core("services"), &service).await?;
    let deleted = cx.admin.delete(cx.core("services/a")).await?.ok(200);
    has(&deleted, &json!({"kind": "Service", "metadata": {"name": "a"}}));
    Ok(())
}

async fn preconditions(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    let uid = text(&created, "/metadata/uid");
    let wrong = options(&json!({"preconditions": {"uid": "other"}}));
    let status = cx.admin.delete(cx.core("configmaps/a")).json(&wrong).await?.fails(409, "Conflict");
    assert_eq!(
        text(&status, "/message"),
        format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (other) does not \
            match the UID in record ({uid}). The object might have been deleted and then recreated"
        )
    );
    let wrong = options(&json!({"preconditions": {"resourceVersion": "1"}}));
    let status = cx.admin.delete(cx.core("configmaps/a")).json(&wrong).await?.fails(409, "Conflict");
    assert_eq!(
        text(&status, "/message"),
        format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition (1) \
                does \
            not match the ResourceVersion in record ({}). The object might have been modified",
            version(&created)
        )
    );
    let right = options(&json!({"preconditions":
        {"uid": uid, "resourceVersion": created["metadata"]["resourceVersion"]}}));
    cx.admin.delete(cx.core("configmaps/a")).json(&right).await?.ok(200);
    Ok(())
}

async fn options_in_the_query(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["finalizers"] = json!(["example.com/f"]);
    cx.create(cx.core("configmaps"), &object).await?;
    let deleted = cx.admin.delete(cx.core("configmaps/a?propagationPolicy=Foreground")).await?.ok(200);
    has(&deleted, &json!({"metadata": {"finalizers": ["example.com/f", "foregroundDeletion"]}}));
    let patch = json!({"metadata": {"finalizers": null}});
    cx.admin.merge_patch(cx.core("configmaps/a"), &patch).await?.ok(200);
    Ok(())
}

async fn bad_options(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let wrong = options(&json!({"propagationPolicy": "Sideways"}));
    let status = cx.admin.delete(cx.core("configmaps/a")).json(&wrong).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"group": "meta.k8s.io", "kind": "DeleteOptions", "causes": [{
            "field": "propagationPolicy", "reason": "FieldValueNotSupported",
            "message": "Unsupported value: \"Sideways\": supported values: \"Foreground\", \"Background\", \
                \"Orphan\", \"nil\"",
        }]}}),
    );
    let answer = cx
        .admin
        .request(Method::DELETE, cx.core("configmaps/a"))
        .body("application/json", "{\"gracePeriodSeconds\": \"x\"}")
        .await?;
    answer.fails(400, "BadRequest");
    cx.admin.delete(cx.core("configmaps/a?dryRun=Some")).await?.fails(422, "Invalid");
    cx.read(cx.core("configmaps/a")).await?;
    Ok(())
}

async fn finalizers_hold_an_object(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]);
    let created = cx.create(cx.core("configmaps"), &object).await?;
    let deleted = cx.admin.delete(cx.core("configmaps/a")).await?.ok(200);
    has(
        &deleted,
        &json!({"kind": "ConfigMap", "metadata": {
            "uid": created["metadata"]["uid"], "deletionGracePeriodSeconds": 0,
            "finalizers": ["example.com/one", "example.com/two"],
        }}),
    );
    assert!(!text(&deleted, "/metadata/deletionTimestamp").is_empty());
    // It can still be changed.
    let patched =
        cx.admin.merge_patch(cx.core("configmaps/a"), &json!({"data": {"key": "2"}})).await?.ok(200);
    has(
        &patched,
        &json!({"data": {"key": "2"},
            "metadata": {"deletionTimestamp": deleted["metadata"]["deletionTimestamp"]}}),
    );
    let patch = json!({"metadata": {"finalizers": ["example.com/two"]}});
    cx.admin.merge_patch(cx.core("configmaps/a"), &patch).await?.ok(200);
    cx.read(cx.core("configmaps/a")).await?;
    let mut last = cx.read(cx.core("configmaps/a")).await?;
    last["metadata"].as_object_mut().map(|metadata| metadata.remove("finalizers"));
    let gone = cx.admin.put(cx.core("configmaps/a"), &last).await?.ok(200);
    has(&gone, &json!({"metadata": {"finalizers": null, "uid": created["metadata"]["uid"]}}));
    cx.admin.get(cx.core("configmaps/a")).await?.fails(404, "NotFound");
    Ok(())
}

async fn finalizers_cannot_be_added_later(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["finalizers"] = json!(["example.com/one"]);
    cx.create(cx.core("configmaps"), &object).await?;
    cx.admin.delete(cx.core("configmaps/a")).await?.ok(200);
    let patch = json!({"metadata": {"finalizers": ["example.com/one", "example.com/two"]}});
    let status = cx.admin.merge_patch(cx.core("configmaps/a"), &patch).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "metadata.finalizers", "reason": "FieldValueForbidden",
        "message": "Forbidden: no new finalizers can be added if the object is being deleted, found new \
            finalizers []string{\"example.com/two\"}"}]}}),
    );
    let patch = json!({"metadata": {"finalizers": []}});
    cx.admin.merge_patch(cx.core("configmaps/a"), &patch).await?.ok(200);
    Ok(())
}

async fn deleting_twice(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["finalizers"] = json!(["example.com/one"]);
    cx.create(cx.core("configmaps"), &object).await?;
    let first = cx.admin.delete(cx.core("configmaps/a")).await?.ok(200);
    let second = cx.admin.delete(cx.core("configmaps/a")).await?.ok(200);
    assert_eq!(first, second);
    cx.admin.merge_patch(cx.core("configmaps/a"), &json!({"metadata": {"finalizers": null}})).await?.ok(200);
    Ok(())
}

async fn deletion_is_a_change(cx: Cx) -> Result {
    let mut object = deployment("a");
    object["metadata"]["finalizers"] = json!(["example.com/one"]);
    let created = cx.create(cx.apis("apps/v1", "deployments"), &object).await?;
    let deleted = cx.admin.delete(cx.apis("apps/v1", "deployments/a")).await?.ok(200);
    assert!(version(&deleted) > version(&created));
    // The end of a deployment is something its controller has to see.
    has(&deleted, &json!({"metadata": {"generation": 2}}));
    Ok(())
}

async fn bad_finalizers(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["finalizers"] = json!(["not a name", "unqualified"]);
    let status = cx.admin.post(cx.core("configmaps"), &object).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [
            {"field": "metadata.finalizers", "reason": "FieldValueInvalid"},
            {"field": "metadata.finalizers[0]", "message":
                "Invalid value: \"not a name\": name is neither a standard finalizer name nor is it fully \
                    qualified"},
            {"field": "metadata.finalizers[1]", "message":
                "Invalid value: \"unqualified\": name is neither a standard finalizer name nor is it fully \
                    qualified"},
        ]}}),
    );
    object["metadata"]["finalizers"] = json!(["orphan", "foregroundDeletion"]);
    let status = cx.admin.post(cx.core("configmaps"), &object).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "metadata.finalizers"}]}}));
    Ok(())
}

/// A pod that has a node, so that its end takes time.
async fn placed_pod(cx: &Cx, name: &str) -> Result<Value> {
    cx.until_pods_are_admitted().await?;
    let mut object = pod(name);
    object["spec"]["nodeName"] = "some-node".into();
    cx.create(cx.core("pods"), &object).await
}

async fn pods_have_time_to_end(cx: Cx) -> Result {
    let created = placed_pod(&cx, "a").await?;
    let deleted = cx.admin.delete(cx.core("pods/a")).await?.ok(200);
    has(&deleted, &json!({"kind": "Pod", "metadata": {"deletionGracePeriodSeconds": 30}}));
    assert!(text(&deleted, "/metadata/deletionTimestamp") > text(&created, "/metadata/creationTimestamp"));
    cx.read(cx.core("pods/a")).await?;
    // Its node says that it is over.
    let deleted =
        cx.admin.delete(cx.core("pods/a")).json(&options(&json!({"gracePeriodSeconds": 0}))).await?.ok(200);
    has(&deleted, &json!({"kind": "Pod", "metadata": {"deletionGracePeriodSeconds": 0}}));
    cx.admin.get(cx.core("pods/a")).await?.fails(404, "NotFound");
    Ok(())
}

async fn pods_can_be_killed(cx: Cx) -> Result {
    placed_pod(&cx, "a").await?;
    cx.admin.delete(cx.core("pods/a?gracePeriodSeconds=0")).await?.ok(200);
    cx.admin.get(cx.core("pods/a")).await?.fails(404, "NotFound");
    Ok(())
}

async fn grace_can_be_shortened_not_extended(cx: Cx) -> Result {
    placed_pod(&cx, "a").await?;
    cx.admin.delete(cx.core("pods/a?gracePeriodSeconds=20")).await?.ok(200);
    let deleted = cx.admin.delete(cx.core("pods/a?gracePeriodSeconds=10")).await?.ok(200);
    has(&deleted, &json!({"metadata": {"deletionGracePeriodSeconds": 10}}));
    let deleted = cx.admin.delete(cx.core("pods/a?gracePeriodSeconds=300")).await?.ok(200);
    has(&deleted, &json!({"metadata": {"deletionGracePeriodSeconds": 10}}));
    let deleted = cx.admin.delete(cx.core("pods/a?gracePeriodSeconds=-5")).await?.ok(200);
    has(&deleted, &json!({"metadata": {"deletionGracePeriodSeconds": 1}}));
    Ok(())
}

async fn pods_that_run_nowhere_go_at_once(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    cx.create(cx.core("pods"), &pod("a")).await?;
    cx.admin.delete(cx.core("pods/a")).await?.ok(200);
    cx.admin.get(cx.core("pods/a")).await?.fails(404, "NotFound");
    // Neither do those that have ended wait.
    placed_pod(&cx, "b").await?;
    cx.admin.merge_patch(cx.core("pods/b/status"), &json!({"status": {"phase": "Succeeded"}})).await?.ok(200);
    cx.admin.delete(cx.core("pods/b")).await?.ok(200);
    cx.admin.get(cx.core("pods/b")).await?.fails(404, "NotFound");
    Ok(())
}

async fn collection(cx: Cx) -> Result {
    let secret = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    for name in ["a", "b", "c"] {
        cx.create(cx.core("secrets"), &secret(name)).await?;
    }
    let deleted = cx.admin.delete(cx.core("secrets")).await?.ok(200);
    has(&deleted, &json!({"kind": "SecretList", "apiVersion": "v1"}));
    assert_eq!(names(&deleted), ["a", "b", "c"]);
    assert_eq!(names(&cx.read(cx.core("secrets")).await?), Vec::<&str>::new());
    let nothing = cx.admin.delete(cx.core("secrets")).await?.ok(200);
    assert_eq!(nothing["items"], json!([]));
    Ok(())
}

async fn collection_with_selectors(cx: Cx) -> Result {
    for (name, label) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {"l": label}}});
        cx.create(cx.core("secrets"), &secret).await?;
    }
    cx.admin.delete(cx.core("secrets?labelSelector=l%3Dx&fieldSelector=metadata.name%3Da")).await?.ok(200);
    assert_eq!(names(&cx.read(cx.core("secrets")).await?), ["b", "c"]);
    cx.admin.delete(cx.core("secrets?labelSelector=l%3Dx")).await?.ok(200);
    assert_eq!(names(&cx.read(cx.core("secrets")).await?), ["c"]);
    Ok(())
}

async fn collection_with_finalizers(cx: Cx) -> Result {
    for name in ["a", "b"] {
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        if name == "a" {
            secret["metadata"]["finalizers"] = json!(["example.com/f"]);
        }
        cx.create(cx.core("secrets"), &secret).await?;
    }
    cx.admin.delete(cx.core("secrets")).await?.ok(200);
    let left = cx.read(cx.core("secrets")).await?;
    assert_eq!(names(&left), ["a"]);
    assert!(!text(&left["items"][0], "/metadata/deletionTimestamp").is_empty());
    Ok(())
}

async fn collection_of_custom_resources(cx: Cx) -> Result {
    establish(&cx, &definition(&cx, &json!({"type": "object"}))).await?;
    for name in ["a", "b"] {
        cx.create(cx.widgets(), &cx.widget(name, &json!({}))).await?;
    }
    let deleted = cx.admin.delete(cx.widgets()).await?.ok(200);
    has(&deleted, &json!({"kind": "WidgetList", "items": [{}, {}]}));
    assert_eq!(cx.read(cx.widgets()).await?["items"], json!([]));
    Ok(())
}

async fn dry_run_keeps_the_object(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    let status = cx.admin.delete(cx.core("configmaps/a?dryRun=All")).await?.ok(200);
    has(&status, &json!({"status": "Success", "details": {"uid": created["metadata"]["uid"]}}));
    let body = options(&json!({"dryRun": ["All"]}));
    cx.admin.delete(cx.core("configmaps/a")).json(&body).await?.ok(200);
    cx.admin.delete(cx.core("configmaps?dryRun=All&labelSelector=none%3Dnone")).await?.ok(200);
    assert_eq!(cx.read(cx.core("configmaps/a")).await?, created);
    Ok(())
}

async fn deleted_names_are_free(cx: Cx) -> Result {
    let first = cx.config_map("a", "1").await?;
    cx.admin.delete(cx.core("configmaps/a")).await?.ok(200);
    let second = cx.config_map("a", "1").await?;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert!(version(&second) > version(&first));
    // Who still holds the old one cannot write to the new one.
    cx.admin.put(cx.core("configmaps/a"), &first).await?.fails(409, "Conflict");
    Ok(())
}

async fn both_policies_at_once(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let both = options(&json!({"propagationPolicy": "Orphan", "orphanDependents": true}));
    let status = cx.admin.delete(cx.core("configmaps/a")).json(&both).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "propagationPolicy", "message":
        "Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set"}]}}),
    );
    Ok(())
}

//! Corners of writing to custom resources, which are stored as they come out of a write.

use serde_json::{Value, json};

use crate::context::Cx;
use crate::crds::{definition, establish, with_spec};
use crate::support::Result;
use crate::support::json::{cause_fields, text, version};

scenarios![
    scales_of_nothing,
    scales_that_are_applied,
    parts_that_are_emptied,
    empty_labels_are_stored,
    lists_nobody_owns,
    patches_of_the_kind,
    updates_without_a_kind,
    metadata_is_checked_twice,
    free_form_parts_are_merged,
    managers_of_retired_versions,
];

/// Widgets with a scale, of these fields.
async fn widgets(cx: &Cx) -> Result {
    let spec = json!({"type": "object", "properties": {
        "n": {"type": "integer"},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "nested": {"type": "object", "properties": {"a": {"type": "string"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let mut crd = definition(cx, &with_spec(&spec));
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    establish(cx, &crd).await?;
    Ok(())
}

fn scale(name: &str, replicas: i64) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name},
        "spec": {"replicas": replicas}})
}

async fn scales_of_nothing(cx: Cx) -> Result {
    widgets(&cx).await?;
    let mut bare = cx.widget("a", &json!({}));
    bare.as_object_mut().map(|fields| fields.remove("spec"));
    cx.create(cx.widgets(), &bare).await?;
    let path = cx.a_widget("a/scale");
    cx.admin.get(path.as_str()).await?.fails_with(
        500,
        "InternalError",
        "Internal error occurred: the spec replicas field \".spec.n\" does not exist",
    );
    cx.admin.merge_patch(path.as_str(), &json!({})).await?.fails_with(
        400,
        "BadRequest",
        "the spec replicas field \".spec.n\" cannot be empty",
    );
    let mut empty = scale("a", 0);
    empty["spec"] = json!({});
    let scaled = cx.admin.put(path.as_str(), &empty).await?.ok(200);
    assert_eq!((&scaled["spec"], &scaled["status"]), (&json!({}), &json!({"replicas": 0})));
    assert_eq!(cx.read(cx.a_widget("a")).await?["spec"], json!({"n": 0}));
    let scaled = cx.admin.merge_patch(path, &json!({"spec": {"replicas": 2}})).await?.ok(200);
    assert_eq!(scaled["spec"], json!({"replicas": 2}));
    Ok(())
}

async fn scales_that_are_applied(cx: Cx) -> Result {
    widgets(&cx).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({"n": 3}))).await?;
    let path = format!("{}?fieldManager=m", cx.a_widget("a/scale"));
    cx.admin.apply(path.as_str(), &scale("a", 3)).await?.ok(200);
    cx.admin.apply(format!("{path}&force=true"), &scale("a", 4)).await?.fails_with(
        500,
        "",
        "failed to convert new object (/a; autoscaling/v1, Kind=Scale) to proper version: request to convert CR to \
         an invalid group/version: autoscaling/v1",
    );
    let missing = format!("{}?fieldManager=m", cx.a_widget("b/scale"));
    cx.admin.apply(missing, &scale("b", 3)).await?.fails(404, "NotFound");
    Ok(())
}

async fn parts_that_are_emptied(cx: Cx) -> Result {
    widgets(&cx).await?;
    let path = format!("{}?fieldManager=m", cx.a_widget("a"));
    let full = json!({"n": 1, "nested": {"a": "1"}, "free": {"x": 1}});
    let mut object = cx.widget("a", &full);
    object["metadata"]["labels"] = json!({"x": "1"});
    cx.admin.apply(path.as_str(), &object).await?.ok(201);
    // What somebody applied goes with what is in it, and leaves a null where it was all there was.
    let status = cx.admin.apply(path.as_str(), &cx.widget("a", &json!({}))).await?.fails(422, "Invalid");
    assert!(
        text(&status, "/message")
            .ends_with("spec: Invalid value: \"null\": spec in body must be of type object: \"null\""),
        "{status}"
    );
    let kept = cx.admin.apply(path.as_str(), &cx.widget("a", &json!({"nested": {"a": "1"}}))).await?.ok(200);
    assert_eq!(kept["spec"], json!({"nested": {"a": "1"}}));
    assert!(kept["metadata"].get("labels").is_none(), "{kept}");
    Ok(())
}

async fn empty_labels_are_stored(cx: Cx) -> Result {
    widgets(&cx).await?;
    let mut object = cx.widget("a", &json!({"n": 1}));
    object["metadata"]["labels"] = json!({});
    let path = format!("{}?fieldManager=m", cx.a_widget("a"));
    let applied = cx.admin.apply(path, &object).await?.ok(201);
    assert!(applied["metadata"].get("labels").is_none(), "{applied}");
    assert_eq!(cx.read(cx.a_widget("a")).await?, applied);
    // Nobody sees them, but they are there until the next write.
    let first = cx.admin.put(cx.a_widget("a"), &applied).await?.ok(200);
    assert!(version(&first) > version(&applied), "{first}");
    let second = cx.admin.put(cx.a_widget("a"), &first).await?.ok(200);
    assert_eq!(version(&second), version(&first));
    Ok(())
}

async fn lists_nobody_owns(cx: Cx) -> Result {
    widgets(&cx).await?;
    let apply = |manager: &str, spec: &Value| {
        cx.admin
            .apply(format!("{}?fieldManager={manager}&force=true", cx.a_widget("a")), &cx.widget("a", spec))
    };
    let created = apply("one", &json!({"set": []})).await?.ok(201);
    assert!(created["metadata"].get("managedFields").is_none(), "{created}");
    let both = apply("two", &json!({"set": ["c"]})).await?.ok(200);
    let owner = |name: &str| {
        let entries = both["metadata"]["managedFields"].as_array().into_iter().flatten();
        entries.into_iter().find(|entry| entry["manager"] == name).map(|entry| entry["fieldsV1"].clone())
    };
    assert_eq!(owner("two"), Some(json!({"f:spec": {"f:set": {"v:\"c\"": {}}}})));
    assert_eq!(owner("before-first-apply"), Some(json!({"f:spec": {".": {}, "f:set": {}}})));
    let status = apply("two", &json!({})).await?.fails(422, "Invalid");
    assert_eq!(cause_fields(&status), ["spec.set"]);
    Ok(())
}

async fn patches_of_the_kind(cx: Cx) -> Result {
    widgets(&cx).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({"n": 1}))).await?;
    let patch = |change: &Value| cx.admin.merge_patch(cx.a_widget("a"), change);
    let status = patch(&json!({"kind": null})).await?.fails(422, "Invalid");
    assert!(text(&status, "/message").contains("Object 'Kind' is missing in '{"), "{status}");
    let status = patch(&json!({"kind": "Other"})).await?.fails(422, "Invalid");
    assert!(
        text(&status, "/message").ends_with("kind: Invalid value: \"Other\": must be Widget"),
        "{status}"
    );
    patch(&json!({"apiVersion": null})).await?.fails_with(
        500,
        "InternalError",
        "Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'",
    );
    let answer = patch(&json!({"apiVersion": format!("{}/v2", cx.group)})).await?;
    assert_eq!(cause_fields(&answer.fails(422, "Invalid")), ["apiVersion"]);
    assert_eq!(answer.warnings(), [r#"unknown field "spec""#]);
    let status = patch(&json!({"metadata": {"labels": {"a": 1}}})).await?.fails(422, "Invalid");
    let end = ": json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string";
    assert!(text(&status, "/message").ends_with(end), "{status}");
    patch(&json!({"metadata": null})).await?.fails(400, "BadRequest");
    Ok(())
}

async fn updates_without_a_kind(cx: Cx) -> Result {
    widgets(&cx).await?;
    let body = json!({"metadata": {"name": "a"}});
    let problem = "Object 'Kind' is missing in '{\"metadata\":{\"name\":\"a\"}}'";
    cx.admin.put(format!("{}?fieldValidation=Ignore", cx.a_widget("a")), &body).await?.fails_with(
        400,
        "BadRequest",
        &format!("Widget in version \"v1\" cannot be handled as a Widget: {problem}"),
    );
    let unrecognized = format!(
        "the object provided is unrecognized (must be of type Widget): {problem} ({{\"metadata\":{{\"name\":\"a\"}}}})"
    );
    cx.admin.put(cx.a_widget("a"), &body).await?.fails_with(400, "BadRequest", &unrecognized);
    Ok(())
}

async fn metadata_is_checked_twice(cx: Cx) -> Result {
    widgets(&cx).await?;
    let mut object = cx.widget("a", &json!({"n": 1}));
    object["metadata"]["finalizers"] = json!(["example.com/f"]);
    cx.create(cx.widgets(), &object).await?;
    cx.admin.delete(cx.a_widget("a")).await?.ok(200);
    let change = json!({"metadata": {"finalizers": ["example.com/f", "example.com/g"]}});
    let status = cx.admin.merge_patch(cx.a_widget("a"), &change).await?.fails(422, "Invalid");
    assert_eq!(cause_fields(&status), ["metadata.finalizers", "metadata.finalizers"]);
    assert_eq!(text(&status, "/message").matches("no new finalizers").count(), 1, "{status}");
    cx.admin.merge_patch(cx.a_widget("a"), &json!({"metadata": {"finalizers": null}})).await?.ok(200);
    Ok(())
}

async fn free_form_parts_are_merged(cx: Cx) -> Result {
    widgets(&cx).await?;
    let apply = |manager: &str, free: &Value| {
        cx.admin.apply(
            format!("{}?fieldManager={manager}", cx.a_widget("a")),
            &cx.widget("a", &json!({"free": free})),
        )
    };
    apply("one", &json!({"x": 1, "deep": {"a": [1]}})).await?.ok(201);
    let both = apply("two", &json!({"y": 2, "deep": {"b": {"c": null}}})).await?.ok(200);
    assert_eq!(both["spec"]["free"], json!({"x": 1, "y": 2, "deep": {"a": [1], "b": {"c": null}}}));
    apply("two", &json!({"x": 2})).await?.fails(409, "Conflict");
    let less = apply("one", &json!({})).await?.ok(200);
    assert_eq!(less["spec"]["free"], json!({"y": 2, "deep": {"b": {"c": null}}}));
    Ok(())
}

async fn managers_of_retired_versions(cx: Cx) -> Result {
    let spec = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    let mut crd = definition(&cx, &with_spec(&spec));
    let older = crd["spec"]["versions"][0].clone();
    let mut newer = older.clone();
    newer["name"] = "v2".into();
    newer["storage"] = false.into();
    crd["spec"]["versions"] = json!([older, newer]);
    let crd = establish(&cx, &crd).await?;
    let path = cx.apis(&format!("{}/v2", cx.group), "widgets/a");
    let mut object = cx.widget("a", &json!({"a": "1"}));
    object["apiVersion"] = format!("{}/v2", cx.group).into();
    cx.admin.apply(format!("{path}?fieldManager=one"), &object).await?.ok(201);
    let retire = json!([{"op": "replace", "path": "/spec/versions/1/served", "value": false}]);
    let name = text(&crd, "/metadata/name");
    let definition = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    cx.admin.json_patch(definition, &retire).await?.ok(200);
    cx.until(path, "the version is not served any more", |status, _| status == 404).await?;
    // Whoever wrote in it still owns what they wrote.
    let conflict = cx
        .admin
        .apply(format!("{}?fieldManager=two", cx.a_widget("a")), &cx.widget("a", &json!({"a": "2"})))
        .await?
        .fails(409, "Conflict");
    assert!(text(&conflict, "/message").contains("conflict with \"one\": .spec.a"), "{conflict}");
    let both = cx
        .admin
        .merge_patch(format!("{}?fieldManager=three", cx.a_widget("a")), &json!({"spec": {"b": "2"}}))
        .await?
        .ok(200);
    assert_eq!(both["metadata"]["managedFields"].as_array().map(Vec::len), Some(2), "{both}");
    Ok(())
}

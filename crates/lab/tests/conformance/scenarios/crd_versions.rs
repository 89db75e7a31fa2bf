//! Several versions of one custom resource.

use serde_json::{Value, json};

use crate::context::Cx;
use crate::crds::{DEFINITIONS, definition, establish, with_spec};
use crate::support::Result;
use crate::support::json::{has, managed, text};

scenarios![
    all_versions_show_one_object,
    each_version_has_its_schema,
    preference,
    deprecated_versions,
    watch_in_another_version,
    apply_through_versions,
    stored_versions_are_remembered,
    columns_of_each_version,
];

/// A widget with versions `v1` (stored), `v1beta1` and `v2alpha1`.
fn versioned(cx: &Cx) -> Value {
    let free = with_spec(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let mut crd = definition(cx, &free);
    let first = crd["spec"]["versions"][0].clone();
    let other = |name: &str| {
        let mut version = first.clone();
        version["name"] = name.into();
        version["storage"] = false.into();
        version
    };
    crd["spec"]["versions"] = json!([other("v1beta1"), first, other("v2alpha1")]);
    crd
}

fn in_version(cx: &Cx, version: &str, path: &str) -> String {
    cx.apis(&format!("{}/{version}", cx.group), path)
}

async fn all_versions_show_one_object(cx: Cx) -> Result {
    establish(&cx, &versioned(&cx)).await?;
    let mut widget = cx.widget("a", &json!({"x": 1}));
    widget["apiVersion"] = format!("{}/v1beta1", cx.group).into();
    let created = cx.create(in_version(&cx, "v1beta1", "widgets"), &widget).await?;
    has(&created, &json!({"apiVersion": format!("{}/v1beta1", cx.group)}));
    let read = cx.read(in_version(&cx, "v2alpha1", "widgets/a")).await?;
    has(
        &read,
        &json!({"apiVersion": format!("{}/v2alpha1", cx.group), "spec": {"x": 1},
        "metadata": {"uid": created["metadata"]["uid"],
        "resourceVersion": created["metadata"]["resourceVersion"]}}),
    );
    let list = cx.read(in_version(&cx, "v1", "widgets")).await?;
    has(&list["items"], &json!([{"apiVersion": format!("{}/v1", cx.group)}]));
    // The path and the body have to agree.
    let answer = cx.admin.post(in_version(&cx, "v1", "widgets"), &widget).await?;
    answer.fails(400, "BadRequest");
    Ok(())
}

async fn each_version_has_its_schema(cx: Cx) -> Result {
    let mut crd = versioned(&cx);
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = with_spec(
        &json!({"type": "object", "properties": {"old": {"type": "string"}, "both": {"type": "integer",
            "maximum": 5}}}),
    );
    crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"] =
        with_spec(&json!({"type": "object", "properties": {"new": {"type": "string", "default": "n"},
            "both": {"type": "integer"}}}));
    establish(&cx, &crd).await?;
    let mut widget = cx.widget("a", &json!({"old": "o", "both": 3}));
    widget["apiVersion"] = format!("{}/v1beta1", cx.group).into();
    let created = cx.create(in_version(&cx, "v1beta1", "widgets"), &widget).await?;
    // What the stored version does not know is gone at once, and its defaults are there.
    assert_eq!(created["spec"], json!({"both": 3}));
    let read = cx.read(in_version(&cx, "v1", "widgets/a")).await?;
    assert_eq!(read["spec"], json!({"both": 3, "new": "n"}));
    widget["metadata"]["name"] = "b".into();
    widget["spec"] = json!({"both": 9});
    cx.admin.post(in_version(&cx, "v1beta1", "widgets"), &widget).await?.fails(422, "Invalid");
    Ok(())
}

async fn preference(cx: Cx) -> Result {
    establish(&cx, &versioned(&cx)).await?;
    let group = cx.read(format!("/apis/{}", cx.group)).await?;
    has(
        &group,
        &json!({"versions": [{"version": "v1"}, {"version": "v1beta1"}, {"version": "v2alpha1"}],
        "preferredVersion": {"version": "v1"}}),
    );
    Ok(())
}

async fn deprecated_versions(cx: Cx) -> Result {
    let mut crd = versioned(&cx);
    crd["spec"]["versions"][0]["deprecated"] = true.into();
    crd["spec"]["versions"][2]["deprecated"] = true.into();
    crd["spec"]["versions"][2]["deprecationWarning"] = "use something else".into();
    establish(&cx, &crd).await?;
    let answer = cx.admin.get(in_version(&cx, "v1beta1", "widgets")).await?;
    assert_eq!(
        answer.warnings(),
        [format!("{}/v1beta1 Widget is deprecated; use {}/v1 Widget", cx.group, cx.group)]
    );
    let answer = cx.admin.get(in_version(&cx, "v2alpha1", "widgets/none")).await?;
    assert_eq!((answer.status, answer.warnings()), (404, vec!["use something else".to_owned()]));
    assert_eq!(cx.admin.get(in_version(&cx, "v1", "widgets")).await?.warnings(), Vec::<String>::new());
    Ok(())
}

async fn watch_in_another_version(cx: Cx) -> Result {
    establish(&cx, &versioned(&cx)).await?;
    let mut watch = cx.admin.watch(format!("{}?watch=1", in_version(&cx, "v1beta1", "widgets"))).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({}))).await?;
    let seen = watch.expect_about("ADDED", "a").await?;
    has(&seen, &json!({"apiVersion": format!("{}/v1beta1", cx.group)}));
    Ok(())
}

async fn apply_through_versions(cx: Cx) -> Result {
    establish(&cx, &versioned(&cx)).await?;
    let one = cx.widget("a", &json!({"x": 1, "y": 1}));
    cx.admin.apply(in_version(&cx, "v1", "widgets/a?fieldManager=one"), &one).await?.ok(201);
    let mut two = cx.widget("a", &json!({"x": 2}));
    two["apiVersion"] = format!("{}/v1beta1", cx.group).into();
    let path = in_version(&cx, "v1beta1", "widgets/a?fieldManager=two");
    let status = cx.admin.apply(path.as_str(), &two).await?.fails(409, "Conflict");
    has(&status, &json!({"message": "Apply failed with 1 conflict: conflict with \"one\": .spec.x"}));
    let forced = cx.admin.apply(format!("{path}&force=true"), &two).await?.ok(200);
    has(
        managed(&forced, "two", "Apply").unwrap_or(&Value::Null),
        &json!({"apiVersion": format!("{}/v1beta1", cx.group)}),
    );
    has(
        managed(&forced, "one", "Apply").unwrap_or(&Value::Null),
        &json!({"apiVersion": format!("{}/v1", cx.group)}),
    );
    Ok(())
}

async fn stored_versions_are_remembered(cx: Cx) -> Result {
    let crd = establish(&cx, &versioned(&cx)).await?;
    let path = format!("{DEFINITIONS}/{}", text(&crd, "/metadata/name"));
    let patch = json!([
        {"op": "replace", "path": "/spec/versions/0/storage", "value": true},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": false},
    ]);
    let changed = cx.admin.json_patch(path.as_str(), &patch).await?.ok(200);
    has(&changed, &json!({"status": {"storedVersions": ["v1", "v1beta1"]}}));
    // A version that may be in the store cannot go.
    let status = cx
        .admin
        .json_patch(path.as_str(), &json!([{"op": "remove", "path": "/spec/versions/1"}]))
        .await?
        .fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "status.storedVersions[0]",
        "message": "Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage version, \
            and must remain in spec.versions until a storage migration ensures no data remains persisted in \
            v1 and removes v1 from status.storedVersions"}]}}),
    );
    let migrated = cx
        .admin
        .merge_patch(format!("{path}/status"), &json!({"status": {"storedVersions": ["v1beta1"]}}))
        .await?
        .ok(200);
    has(&migrated, &json!({"status": {"storedVersions": ["v1beta1"]}}));
    cx.admin.json_patch(path, &json!([{"op": "remove", "path": "/spec/versions/1"}])).await?.ok(200);
    Ok(())
}

async fn columns_of_each_version(cx: Cx) -> Result {
    let mut crd = versioned(&cx);
    crd["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{"name": "X", "type": "integer", "jsonPath": ".spec.x"}]);
    establish(&cx, &crd).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({"x": 5}))).await?;
    let wanted = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = cx.admin.get(in_version(&cx, "v1beta1", "widgets")).accept(wanted).await?.ok(200);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 5]));
    let table = cx.admin.get(in_version(&cx, "v1", "widgets")).accept(wanted).await?.ok(200);
    assert_eq!(table["rows"][0]["cells"][0], "a");
    has(&table["columnDefinitions"], &json!([{"name": "Name"}, {"name": "Age"}]));
    Ok(())
}

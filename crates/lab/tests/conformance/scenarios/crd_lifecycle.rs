//! Definitions of custom resources: how they come to life, change and end.

use serde_json::{Value, json};

use crate::context::Cx;
use crate::crds::{DEFINITIONS, condition, definition, establish, until_served, with_spec};
use crate::support::Result;
use crate::support::json::{has, names, text, version};

scenarios![
    becomes_established,
    defaults_of_a_definition,
    name_must_be_of_its_parts,
    needs_a_structural_schema,
    needs_one_stored_version,
    taken_names,
    short_names_may_be_taken,
    names_that_are_freed,
    cluster_scope,
    deletion_takes_the_objects_along,
    deletion_waits_for_finalizers,
    schema_changes_live,
    scope_and_names_are_fixed,
    status_subresource,
    no_status_subresource,
    scale_subresource,
    scale_needs_paths,
    generation_of_custom_resources,
    protected_groups_need_approval,
    unserved_versions,
    preserved_unknown_fields_at_the_root_are_not_for_v1,
    metadata_is_checked,
    updates_need_a_version,
];

fn path_of(crd: &Value) -> String {
    format!("{DEFINITIONS}/{}", text(crd, "/metadata/name"))
}

async fn becomes_established(cx: Cx) -> Result {
    let crd = definition(&cx, &json!({"type": "object"}));
    let created = cx.create(DEFINITIONS, &crd).await?;
    has(
        &created,
        &json!({"metadata": {"generation": 1}, "status": {"storedVersions": ["v1"],
        "acceptedNames": {"plural": "", "kind": ""}, "conditions": null}}),
    );
    let established = until_served(&cx, &created).await?;
    has(
        &established,
        &json!({"status": {
            "acceptedNames": {"plural": "widgets", "singular": "widget", "kind": "Widget",
                "listKind": "WidgetList"},
            "storedVersions": ["v1"],
            "conditions": [
                {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts",
                    "message": "no conflicts found"},
                {"type": "Established", "status": "True", "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted"},
            ],
        }}),
    );
    let widget = cx.create(cx.widgets(), &cx.widget("a", &json!({}))).await?;
    has(
        &widget,
        &json!({"kind": "Widget", "apiVersion": format!("{}/v1", cx.group), "metadata": {"generation": 1,
            "namespace": cx.ns}}),
    );
    let list = cx.read(cx.widgets()).await?;
    has(
        &list,
        &json!({"kind": "WidgetList", "items": [{"kind": "Widget", "apiVersion": format!("{}/v1",
            cx.group)}]}),
    );
    Ok(())
}

async fn defaults_of_a_definition(cx: Cx) -> Result {
    let mut crd = definition(&cx, &json!({"type": "object"}));
    crd["spec"]["names"] = json!({"plural": "widgets", "kind": "Widget"});
    let created = cx.create(DEFINITIONS, &crd).await?;
    has(
        &created["spec"],
        &json!({"conversion": {"strategy": "None"},
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}}),
    );
    Ok(())
}

async fn name_must_be_of_its_parts(cx: Cx) -> Result {
    let mut crd = definition(&cx, &json!({"type": "object"}));
    crd["metadata"]["name"] = format!("others.{}", cx.group).into();
    let status = cx.admin.post(DEFINITIONS, &crd).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"kind": "CustomResourceDefinition", "group": "apiextensions.k8s.io", "causes": [{
        "field": "metadata.name",
        "message": format!("Invalid value: \"others.{}\": must be spec.names.plural+\".\"+spec.group",
        cx.group)}]}}),
    );
    Ok(())
}

async fn needs_a_structural_schema(cx: Cx) -> Result {
    let crd = definition(&cx, &json!({"properties": {"spec": {"properties": {"x": {}}}}}));
    let status = cx.admin.post(DEFINITIONS, &crd).await?.fails(422, "Invalid");
    // A single version is told about as the field it was in the first version of definitions.
    let root = "spec.validation.openAPIV3Schema";
    has(
        &status,
        &json!({"details": {"causes": [
            {"field": format!("{root}.properties[spec].properties[x].type"), "reason": "FieldValueRequired",
                "message": "Required value: must not be empty for specified object fields"},
            {"field": format!("{root}.properties[spec].type")},
            {"field": format!("{root}.type"), "message": "Required value: must not be empty at the root"},
        ]}}),
    );
    let crd = definition(
        &cx,
        &json!({"type": "object", "properties": {"spec": {"type": "object",
        "anyOf": [{"properties": {"x": {"type": "string"}}}]}}}),
    );
    cx.admin.post(DEFINITIONS, &crd).await?.fails(422, "Invalid");
    let mut crd = definition(&cx, &json!({"type": "object"}));
    crd["spec"]["versions"][0].as_object_mut().map(|version| version.remove("schema"));
    let status = cx.admin.post(DEFINITIONS, &crd).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.versions[0].schema.openAPIV3Schema",
            "message": "Required value"}]}}),
    );
    let crd =
        definition(&cx, &json!({"type": "object", "properties": {"a": {"type": "string", "default": 5}}}));
    let status = cx.admin.post(DEFINITIONS, &crd).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": format!("{root}.properties[a].default")}]}}));
    Ok(())
}

async fn needs_one_stored_version(cx: Cx) -> Result {
    let mut crd = definition(&cx, &json!({"type": "object"}));
    crd["spec"]["versions"][0]["storage"] = false.into();
    let status = cx.admin.post(DEFINITIONS, &crd).await?.fails(422, "Invalid");
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    assert!(
        causes.iter().any(|cause| cause["field"] == "spec.versions"
            && text(cause, "/message").ends_with("must have exactly one version marked as storage version")),
        "{status}"
    );
    let mut crd = definition(&cx, &json!({"type": "object"}));
    let version = crd["spec"]["versions"][0].clone();
    crd["spec"]["versions"] = json!([version, version]);
    cx.admin.post(DEFINITIONS, &crd).await?.fails(422, "Invalid");
    Ok(())
}

async fn taken_names(cx: Cx) -> Result {
    establish(&cx, &definition(&cx, &json!({"type": "object"}))).await?;
    let mut other = definition(&cx, &json!({"type": "object"}));
    other["metadata"]["name"] = format!("gadgets.{}", cx.group).into();
    other["spec"]["names"] =
        json!({"plural": "gadgets", "singular": "gadget", "kind": "Widget", "listKind": "GadgetList"});
    cx.create(DEFINITIONS, &other).await?;
    let refused = cx
        .until(path_of(&other), "the kind is refused", |_, crd| condition(crd, "NamesAccepted") == "False")
        .await?;
    has(
        &refused,
        &json!({"status": {"conditions": [
            {"type": "NamesAccepted", "reason": "KindConflict", "message": "\"Widget\" is already in use"},
            {"type": "Established", "status": "False", "reason": "NotAccepted",
            "message": "not all names are accepted"},
        ]}}),
    );
    assert_eq!(cx.admin.get(cx.apis(&format!("{}/v1", cx.group), "gadgets")).await?.status, 404);
    Ok(())
}

async fn short_names_may_be_taken(cx: Cx) -> Result {
    let mut first = definition(&cx, &json!({"type": "object"}));
    first["spec"]["names"]["shortNames"] = json!(["gw"]);
    establish(&cx, &first).await?;
    let mut other = definition(&cx, &json!({"type": "object"}));
    other["metadata"]["name"] = format!("gadgets.{}", cx.group).into();
    other["spec"]["names"] = json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget",
        "listKind": "GadgetList", "shortNames": ["gw"]});
    cx.create(DEFINITIONS, &other).await?;
    let refused = cx
        .until(path_of(&other), "the short name is refused", |_, crd| {
            condition(crd, "NamesAccepted") == "False"
        })
        .await?;
    has(
        &refused["status"]["conditions"][0],
        &json!({"reason": "ShortNamesConflict", "message": "\"gw\" is already in use"}),
    );
    Ok(())
}

async fn names_that_are_freed(cx: Cx) -> Result {
    let first = establish(&cx, &definition(&cx, &json!({"type": "object"}))).await?;
    let mut other = definition(&cx, &json!({"type": "object"}));
    other["metadata"]["name"] = format!("gadgets.{}", cx.group).into();
    other["spec"]["names"] =
        json!({"plural": "gadgets", "singular": "gadget", "kind": "Widget", "listKind": "GadgetList"});
    cx.create(DEFINITIONS, &other).await?;
    cx.until(path_of(&other), "the kind is refused", |_, crd| condition(crd, "NamesAccepted") == "False")
        .await?;
    cx.admin.delete(path_of(&first)).await?.ok(200);
    cx.until(path_of(&other), "the kind is accepted", |_, crd| condition(crd, "Established") == "True")
        .await?;
    Ok(())
}

async fn cluster_scope(cx: Cx) -> Result {
    let mut crd = definition(&cx, &json!({"type": "object"}));
    crd["spec"]["scope"] = "Cluster".into();
    establish(&cx, &crd).await?;
    let collection = format!("/apis/{}/v1/widgets", cx.group);
    let created = cx.create(collection.as_str(), &cx.widget("a", &json!({}))).await?;
    has(&created, &json!({"metadata": {"namespace": null}}));
    assert_eq!(names(&cx.read(collection).await?), ["a"]);
    assert_eq!(cx.admin.get(cx.widgets()).await?.status, 404);
    Ok(())
}

async fn deletion_takes_the_objects_along(cx: Cx) -> Result {
    let crd = definition(&cx, &json!({"type": "object"}));
    establish(&cx, &crd).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({}))).await?;
    let deleted = cx.admin.delete(path_of(&crd)).await?.ok(200);
    has(
        &deleted,
        &json!({"kind": "CustomResourceDefinition",
        "metadata": {"finalizers": ["customresourcecleanup.apiextensions.k8s.io"]}}),
    );
    cx.until_gone(path_of(&crd)).await?;
    cx.until(cx.widgets(), "the resource is not served", |status, _| status == 404).await?;
    // Made again, it has none of the old objects.
    establish(&cx, &crd).await?;
    assert_eq!(cx.read(cx.widgets()).await?["items"], json!([]));
    Ok(())
}

async fn deletion_waits_for_finalizers(cx: Cx) -> Result {
    let crd = definition(&cx, &json!({"type": "object"}));
    establish(&cx, &crd).await?;
    let mut widget = cx.widget("a", &json!({}));
    widget["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cx.create(cx.widgets(), &widget).await?;
    cx.admin.delete(path_of(&crd)).await?.ok(200);
    let held = cx
        .until(path_of(&crd), "the objects are being deleted", |_, crd| {
            condition(crd, "Terminating") == "True"
        })
        .await?;
    assert!(!text(&held, "/metadata/deletionTimestamp").is_empty());
    // Nothing new is taken, but what is there can be released.
    let answer = cx.admin.post(cx.widgets(), &cx.widget("b", &json!({}))).await?;
    answer.fails_with(
        403,
        "Forbidden",
        &format!(
            "widgets.{} \"b\" is forbidden: create not allowed while custom resource definition is \
                terminating",
            cx.group
        ),
    );
    cx.admin.merge_patch(cx.a_widget("a"), &json!({"metadata": {"finalizers": null}})).await?.ok(200);
    cx.until_gone(path_of(&crd)).await
}

async fn schema_changes_live(cx: Cx) -> Result {
    let schema = |maximum: u32| {
        with_spec(&json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": maximum}}}))
    };
    let crd = establish(&cx, &definition(&cx, &schema(5))).await?;
    cx.admin.post(cx.widgets(), &cx.widget("a", &json!({"n": 7}))).await?.fails(422, "Invalid");
    let patch =
        json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema(9)}]);
    let changed = cx.admin.json_patch(path_of(&crd), &patch).await?.ok(200);
    has(&changed, &json!({"metadata": {"generation": 2}}));
    for attempt in 0.. {
        let answer = cx.admin.post(cx.widgets(), &cx.widget("a", &json!({"n": 7}))).await?;
        if answer.status == 201 {
            break;
        }
        assert!(attempt < 100, "the schema never changes: {answer}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Ok(())
}

async fn scope_and_names_are_fixed(cx: Cx) -> Result {
    let crd = establish(&cx, &definition(&cx, &json!({"type": "object"}))).await?;
    let status = cx
        .admin
        .merge_patch(path_of(&crd), &json!({"spec": {"scope": "Cluster"}}))
        .await?
        .fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.scope",
            "message": "Invalid value: \"Cluster\": field is immutable"}]}}),
    );
    let status = cx
        .admin
        .merge_patch(path_of(&crd), &json!({"spec": {"names": {"kind": "Other"}}}))
        .await?
        .fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "spec.names.kind"}]}}));
    Ok(())
}

async fn status_subresource(cx: Cx) -> Result {
    let mut crd =
        definition(&cx, &with_spec(&json!({"type": "object", "properties": {"n": {"type": "integer"}}})));
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    establish(&cx, &crd).await?;
    let mut widget = cx.widget("a", &json!({"n": 1}));
    widget["status"] = json!({"ready": true});
    let created = cx.create(cx.widgets(), &widget).await?;
    has(&created, &json!({"status": null, "metadata": {"generation": 1}}));
    let patched = cx
        .admin
        .merge_patch(
            cx.a_widget("a/status"),
            &json!({"status": {"ready": true}, "spec": {"n": 5}, "metadata": {"labels": {"x": "y"}}}),
        )
        .await?
        .ok(200);
    has(
        &patched,
        &json!({"status": {"ready": true}, "spec": {"n": 1}, "metadata": {"generation": 1, "labels": null}}),
    );
    let patched = cx
        .admin
        .merge_patch(cx.a_widget("a"), &json!({"status": {"ready": false}, "spec": {"n": 2}}))
        .await?
        .ok(200);
    has(&patched, &json!({"status": {"ready": true}, "spec": {"n": 2}, "metadata": {"generation": 2}}));
    let mut read = cx.read(cx.a_widget("a/status")).await?;
    read["status"]["more"] = "x".into();
    let replaced = cx.admin.put(cx.a_widget("a/status"), &read).await?.ok(200);
    has(&replaced, &json!({"status": {"ready": true, "more": "x"}, "metadata": {"generation": 2}}));
    Ok(())
}

async fn no_status_subresource(cx: Cx) -> Result {
    establish(&cx, &definition(&cx, &with_spec(&json!({"type": "object"})))).await?;
    let mut widget = cx.widget("a", &json!({}));
    widget["status"] = json!({"ready": true});
    let created = cx.create(cx.widgets(), &widget).await?;
    has(&created, &json!({"status": {"ready": true}}));
    let patched = cx.admin.merge_patch(cx.a_widget("a"), &json!({"status": {"ready": false}})).await?.ok(200);
    has(&patched, &json!({"status": {"ready": false}, "metadata": {"generation": 2}}));
    let answer = cx.admin.get(cx.a_widget("a/status")).await?;
    answer.fails_with(404, "NotFound", &format!("widgets.{} \"a\" not found", cx.group));
    Ok(())
}

async fn scale_subresource(cx: Cx) -> Result {
    let mut crd = definition(
        &cx,
        &with_spec(&json!({"type": "object", "properties": {
        "count": {"type": "integer"}, "other": {"type": "integer"}}})),
    );
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count",
            "labelSelectorPath": ".status.selector"}});
    establish(&cx, &crd).await?;
    let created = cx.create(cx.widgets(), &cx.widget("a", &json!({"count": 2}))).await?;
    let status = json!({"status": {"count": 1, "selector": "x=y"}});
    cx.admin.merge_patch(cx.a_widget("a/status"), &status).await?.ok(200);
    let scale = cx.read(cx.a_widget("a/scale")).await?;
    has(
        &scale,
        &json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 2},
        "status": {"replicas": 1, "selector": "x=y"}, "metadata": {"name": "a",
        "uid": created["metadata"]["uid"]}}),
    );
    let mut wanted = scale.clone();
    wanted["spec"]["replicas"] = 7.into();
    let scaled = cx.admin.put(cx.a_widget("a/scale"), &wanted).await?.ok(200);
    has(&scaled, &json!({"spec": {"replicas": 7}}));
    let read = cx.read(cx.a_widget("a")).await?;
    has(&read, &json!({"spec": {"count": 7}, "metadata": {"generation": 2}}));
    cx.admin.put(cx.a_widget("a/scale"), &wanted).await?.fails(409, "Conflict");
    let patched =
        cx.admin.merge_patch(cx.a_widget("a/scale"), &json!({"spec": {"replicas": 3}})).await?.ok(200);
    has(&patched, &json!({"spec": {"replicas": 3}}));
    cx.admin
        .merge_patch(cx.a_widget("a/scale"), &json!({"spec": {"replicas": -3}}))
        .await?
        .fails(422, "Invalid");
    Ok(())
}

async fn scale_needs_paths(cx: Cx) -> Result {
    let mut crd = definition(&cx, &with_spec(&json!({"type": "object"})));
    crd["spec"]["versions"][0]["subresources"] =
        json!({"scale": {"specReplicasPath": ".count", "statusReplicasPath": ".spec.count"}});
    let status = cx.admin.post(DEFINITIONS, &crd).await?.fails(422, "Invalid");
    let root = "spec.subresources.scale";
    has(
        &status,
        &json!({"details": {"causes": [
            {"field": format!("{root}.specReplicasPath"), "message": "Invalid value: \".count\": should be \
                a json path under .spec"},
            {"field": format!("{root}.statusReplicasPath"), "message": "Invalid value: \".spec.count\": \
                should be a json path under .status"},
        ]}}),
    );
    Ok(())
}

async fn generation_of_custom_resources(cx: Cx) -> Result {
    establish(
        &cx,
        &definition(&cx, &json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
    )
    .await?;
    let created = cx.create(cx.widgets(), &cx.widget("a", &json!({"x": 1}))).await?;
    let labelled =
        cx.admin.merge_patch(cx.a_widget("a"), &json!({"metadata": {"labels": {"x": "y"}}})).await?.ok(200);
    has(&labelled, &json!({"metadata": {"generation": 1}}));
    assert!(version(&labelled) > version(&created));
    // Anything that is not metadata counts, whatever it is called.
    let patched = cx.admin.merge_patch(cx.a_widget("a"), &json!({"anything": {"y": 2}})).await?.ok(200);
    has(&patched, &json!({"metadata": {"generation": 2}}));
    Ok(())
}

async fn protected_groups_need_approval(cx: Cx) -> Result {
    let group = format!("{}.k8s.io", cx.unique);
    let mut crd = definition(&cx, &json!({"type": "object"}));
    crd["spec"]["group"] = group.clone().into();
    crd["metadata"]["name"] = format!("widgets.{group}").into();
    let status = cx.admin.post(DEFINITIONS, &crd).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "metadata.annotations[api-approved.kubernetes.io]",
            "reason": "FieldValueRequired"}]}}),
    );
    crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, experimental-only"});
    cx.create(DEFINITIONS, &crd).await?;
    Ok(())
}

async fn unserved_versions(cx: Cx) -> Result {
    let mut crd = definition(&cx, &json!({"type": "object"}));
    let mut old = crd["spec"]["versions"][0].clone();
    old["name"] = "v1alpha1".into();
    old["storage"] = false.into();
    old["served"] = false.into();
    crd["spec"]["versions"] = json!([crd["spec"]["versions"][0], old]);
    establish(&cx, &crd).await?;
    assert_eq!(cx.admin.get(cx.apis(&format!("{}/v1alpha1", cx.group), "widgets")).await?.status, 404);
    let group = cx.read(format!("/apis/{}", cx.group)).await?;
    has(&group, &json!({"versions": [{"version": "v1"}]}));
    Ok(())
}

async fn preserved_unknown_fields_at_the_root_are_not_for_v1(cx: Cx) -> Result {
    let mut crd = definition(&cx, &json!({"type": "object"}));
    crd["spec"]["preserveUnknownFields"] = true.into();
    let status = cx.admin.post(DEFINITIONS, &crd).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.preserveUnknownFields", "message":
        "Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
            spec.versions[*].schema instead"}]}}),
    );
    Ok(())
}

async fn metadata_is_checked(cx: Cx) -> Result {
    let schema = json!({"type": "object", "properties": {"metadata": {"type": "object", "properties":
        {"name": {"type": "string", "maxLength": 3}}}}});
    establish(&cx, &definition(&cx, &schema)).await?;
    let status = cx.admin.post(cx.widgets(), &cx.widget("toolong", &json!({}))).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "metadata.name", "reason": "FieldValueTooLong"}]}}),
    );
    let mut widget = cx.widget("a", &json!({}));
    widget["metadata"]["labels"] = json!({"x": 5});
    let answer = cx.admin.post(cx.widgets(), &widget).await?;
    answer.fails(400, "BadRequest");
    widget["metadata"]["labels"] = json!({"x": "-"});
    cx.admin.post(cx.widgets(), &widget).await?.fails(422, "Invalid");
    widget["metadata"] = json!({"name": "a", "unknown": "x"});
    let answer = cx.admin.post(cx.widgets(), &widget).await?;
    has(&answer.ok(201), &json!({"metadata": {"unknown": null}}));
    let mut widget = cx.widget("b", &json!({}));
    widget["kind"] = "Gadget".into();
    let status = cx.admin.post(cx.widgets(), &widget).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"kind": "Gadget", "causes": [
        {"field": "kind", "message": "Invalid value: \"Gadget\": must be Widget"}]}}),
    );
    Ok(())
}

async fn updates_need_a_version(cx: Cx) -> Result {
    establish(&cx, &definition(&cx, &with_spec(&json!({"type": "object"})))).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({}))).await?;
    let answer = cx.admin.put(cx.a_widget("a"), &cx.widget("a", &json!({}))).await?;
    let status = answer.fails(422, "Invalid");
    has(
        &status,
        &json!({"message": format!(
        "widgets.{} \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an \
            update", cx.group)}),
    );
    Ok(())
}

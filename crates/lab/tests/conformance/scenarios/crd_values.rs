//! What becomes of the values of custom resources: pruning and defaults.

use serde_json::{Value, json};

use super::crd_schema::{refused, with_properties};
use crate::context::Cx;
use crate::crds::{DEFINITIONS, definition, establish, with_spec};
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    pruning,
    preserving,
    preserving_below_and_pruning_again,
    embedded_resources,
    defaults_on_write,
    defaults_on_read,
    defaults_and_null,
    defaults_inside_lists,
];

async fn pruning(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"known": {"type": "object", "properties": {"x": {"type": "string"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"y": {"type": "string"}}}}}),
    )
    .await?;
    let mut widget = cx.widget(
        "a",
        &json!({"known": {"x": "1", "z": 2}, "unknown": {"a": 1},
        "list": [{"y": "1", "z": 2}, {}]}),
    );
    widget["root"] = "unknown".into();
    let created = cx.create(cx.widgets(), &widget).await?;
    assert_eq!(created["spec"], json!({"known": {"x": "1"}, "list": [{"y": "1"}, {}]}));
    assert_eq!(created["root"], Value::Null);
    let patched = cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"again": 1}})).await?.ok(200);
    has(&patched, &json!({"spec": {"again": null}}));
    assert_eq!(patched["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    Ok(())
}

async fn preserving(cx: Cx) -> Result {
    with_properties(&cx, &json!({"free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}))
        .await?;
    let spec = json!({"free": {"a": [1, {"b": null}], "c": 1.5}, "gone": 1});
    let created = cx.create(cx.widgets(), &cx.widget("a", &spec)).await?;
    assert_eq!(created["spec"], json!({"free": {"a": [1, {"b": null}], "c": 1.5}}));
    Ok(())
}

async fn preserving_below_and_pruning_again(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"strict": {"type": "object", "properties": {"x": {"type": "string"}}}}}}),
    )
    .await?;
    let spec = json!({"free": {"any": 1, "strict": {"x": "1", "y": 2}}});
    let created = cx.create(cx.widgets(), &cx.widget("a", &spec)).await?;
    assert_eq!(created["spec"], json!({"free": {"any": 1, "strict": {"x": "1"}}}));
    Ok(())
}

async fn embedded_resources(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"object": {"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true},
        "pruned": {"type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {"data": {"type": "object", "properties": {"other": {"type": "string"}}}}}}),
    )
    .await?;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x",
        "labels": {"a": "b"}, "unknown": 1}, "data": {"k": "v"}});
    let created =
        cx.create(cx.widgets(), &cx.widget("a", &json!({"object": object, "pruned": object}))).await?;
    let metadata = json!({"name": "x", "labels": {"a": "b"}});
    assert_eq!(
        created["spec"]["object"],
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}})
    );
    assert_eq!(
        created["spec"]["pruned"],
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}})
    );
    let said = refused(&cx, &json!({"object": {"apiVersion": "v1"}})).await?;
    assert!(said.iter().any(|said| said.starts_with("spec.object.kind: Required value")), "{said:?}");
    let said = refused(
        &cx,
        &json!({"object": {"apiVersion": "v1", "kind": "X", "metadata": {"labels": {"a": "-"}}}}),
    )
    .await?;
    assert!(
        said.iter().any(|said| said.starts_with("spec.object.metadata.labels: Invalid value")),
        "{said:?}"
    );
    Ok(())
}

async fn defaults_on_write(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({
            "n": {"type": "integer", "default": 5}, "s": {"type": "string", "default": ""},
            "o": {"type": "object", "default": {"inner": {}}, "properties": {
                "inner": {"type": "object", "properties": {"x": {"type": "string", "default": "deep"}}}}},
            "absent": {"type": "object", "properties": {"x": {"type": "string", "default": "never"}}},
            "l": {"type": "array", "default": [1, 2], "items": {"type": "integer"}},
        }),
    )
    .await?;
    let created = cx.create(cx.widgets(), &cx.widget("a", &json!({}))).await?;
    assert_eq!(created["spec"], json!({"n": 5, "s": "", "o": {"inner": {"x": "deep"}}, "l": [1, 2]}));
    let created = cx.create(cx.widgets(), &cx.widget("b", &json!({"n": 0, "absent": {}, "l": []}))).await?;
    has(&created, &json!({"spec": {"n": 0, "absent": {"x": "never"}, "l": []}}));
    // No spec, no defaults inside it.
    let nothing =
        json!({"apiVersion": format!("{}/v1", cx.group), "kind": "Widget", "metadata": {"name": "c"}});
    assert_eq!(cx.create(cx.widgets(), &nothing).await?["spec"], Value::Null);
    Ok(())
}

async fn defaults_on_read(cx: Cx) -> Result {
    let schema = |properties: Value| with_spec(&json!({"type": "object", "properties": properties}));
    let crd = establish(&cx, &definition(&cx, &schema(json!({"a": {"type": "string"}})))).await?;
    let created = cx.create(cx.widgets(), &cx.widget("a", &json!({"a": "x"}))).await?;
    let later = schema(json!({"a": {"type": "string"}, "b": {"type": "string", "default": "new"}}));
    let patch = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": later}]);
    cx.admin.json_patch(format!("{DEFINITIONS}/{}", text(&crd, "/metadata/name")), &patch).await?.ok(200);
    let read =
        cx.until(cx.a_widget("a"), "the default shows", |_, widget| widget["spec"]["b"] == "new").await?;
    assert_eq!(read["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    // The real server starts its storage anew when the definition changes, and says so.
    let list = cx.until(cx.widgets(), "the storage is back", |status, _| status == 200).await?;
    has(&list["items"], &json!([{"spec": {"a": "x", "b": "new"}}]));
    let mut watch = cx.admin.watch(format!("{}?watch=1", cx.widgets())).await?;
    has(&watch.expect("ADDED").await?, &json!({"spec": {"b": "new"}}));
    Ok(())
}

async fn defaults_and_null(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"a": {"type": "string", "default": "x"}, "b": {"type": "string",
        "nullable": true, "default": "y"}}),
    )
    .await?;
    let created = cx.create(cx.widgets(), &cx.widget("a", &json!({"a": null, "b": null}))).await?;
    assert_eq!(created["spec"], json!({"a": "x", "b": null}));
    Ok(())
}

async fn defaults_inside_lists(cx: Cx) -> Result {
    with_properties(
        &cx,
        &json!({"l": {"type": "array", "items": {"type": "object", "properties": {
        "a": {"type": "string", "default": "x"}, "b": {"type": "integer"}}}},
        "m": {"type": "object", "additionalProperties": {"type": "object",
        "properties": {"c": {"type": "integer", "default": 3}}}}}),
    )
    .await?;
    let created = cx
        .create(cx.widgets(), &cx.widget("a", &json!({"l": [{"b": 1}, {"a": "y"}], "m": {"k": {}}})))
        .await?;
    assert_eq!(created["spec"], json!({"l": [{"a": "x", "b": 1}, {"a": "y"}], "m": {"k": {"c": 3}}}));
    Ok(())
}

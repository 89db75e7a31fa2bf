//! The descriptions of the API that kubectl reads.

use serde_json::{Value, json};

use crate::context::Cx;
use crate::crds::{definition, establish, with_spec};
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    index,
    patch_operations_tell_field_validation,
    kinds_are_described,
    merging_is_described,
    documents_are_cached_by_tag,
    custom_resources_are_described,
    version_two_knows_the_kinds,
];

/// The document of a group version, such as `api/v1`.
async fn document(cx: &Cx, name: &str) -> Result<Value> {
    let index = cx.read("/openapi/v3").await?;
    let path = text(&index["paths"][name], "/serverRelativeURL").to_owned();
    assert!(!path.is_empty(), "{name} is not in the index");
    cx.read(path).await
}

async fn index(cx: Cx) -> Result {
    let index = cx.read("/openapi/v3").await?;
    for name in
        ["api/v1", "apis/apps/v1", "apis/batch/v1", "apis/apiextensions.k8s.io/v1", "apis/apps", "version"]
    {
        let path = text(&index["paths"][name], "/serverRelativeURL");
        assert!(path.starts_with(&format!("/openapi/v3/{name}?hash=")), "{name}: {path}");
    }
    cx.read("/openapi/v3/api/v1").await?;
    assert_eq!(cx.admin.get("/openapi/v3/apis/none/v1").await?.status, 404);
    Ok(())
}

async fn patch_operations_tell_field_validation(cx: Cx) -> Result {
    let document = document(&cx, "apis/apps/v1").await?;
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    has(
        patch,
        &json!({
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        }),
    );
    let parameters = patch["parameters"].as_array().cloned().unwrap_or_default();
    for name in ["fieldValidation", "dryRun", "fieldManager", "force"] {
        assert!(
            parameters.iter().any(|entry| entry["name"] == name && entry["in"] == "query"),
            "{name} in {patch}"
        );
    }
    let forms = patch["requestBody"]["content"].as_object().cloned().unwrap_or_default();
    for form in [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ] {
        assert!(forms.contains_key(form), "{form} in {patch}");
    }
    Ok(())
}

async fn kinds_are_described(cx: Cx) -> Result {
    let document = document(&cx, "api/v1").await?;
    let schemas = &document["components"]["schemas"];
    let config_map = &schemas["io.k8s.api.core.v1.ConfigMap"];
    has(
        config_map,
        &json!({
            "type": "object",
            "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "ConfigMap"}],
            "properties": {"data": {"type": "object", "additionalProperties": {"type": "string"}}},
        }),
    );
    // A field of another type refers to its description.
    let metadata = text(config_map, "/properties/metadata/allOf/0/$ref");
    assert_eq!(metadata, "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    assert!(!schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"].is_null());
    Ok(())
}

async fn merging_is_described(cx: Cx) -> Result {
    let document = document(&cx, "api/v1").await?;
    let schemas = &document["components"]["schemas"];
    has(
        &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"],
        &json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge"}),
    );
    has(
        &schemas["io.k8s.api.core.v1.Container"]["properties"]["command"],
        &json!({"x-kubernetes-list-type": "atomic"}),
    );
    has(
        &schemas["io.k8s.api.core.v1.ServiceSpec"]["properties"]["ports"],
        &json!({"x-kubernetes-list-map-keys": ["port", "protocol"], "x-kubernetes-patch-merge-key": "port"}),
    );
    has(
        &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]["finalizers"],
        &json!({"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"}),
    );
    Ok(())
}

async fn documents_are_cached_by_tag(cx: Cx) -> Result {
    let answer = cx.admin.get("/openapi/v3/apis/batch/v1").await?;
    let tag = answer.header("etag").to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 10, "{tag}");
    let again = cx.admin.get("/openapi/v3/apis/batch/v1").header("if-none-match", &tag).await?;
    assert_eq!((again.status, again.body.len()), (304, 0));
    // The address of the index may be kept for good, and an outdated one leads to the present one.
    let index = cx.read("/openapi/v3").await?;
    let path = text(&index["paths"]["apis/batch/v1"], "/serverRelativeURL");
    let answer = cx.admin.get(path).await?;
    assert!(answer.header("cache-control").contains("immutable"), "{:?}", answer.headers);
    let answer = cx.admin.get("/openapi/v3/apis/batch/v1?hash=old").await?;
    assert_eq!((answer.status, answer.header("location")), (301, path));
    Ok(())
}

async fn custom_resources_are_described(cx: Cx) -> Result {
    let schema = with_spec(&json!({"type": "object", "description": "What is wanted.", "properties": {
        "size": {"type": "integer", "description": "How big.", "minimum": 1},
    }, "required": ["size"]}));
    establish(&cx, &definition(&cx, &schema)).await?;
    let name = format!("apis/{}/v1", cx.group);
    cx.until("/openapi/v3", "the group is in the index", |_, index| !index["paths"][&name].is_null()).await?;
    let document = document(&cx, &name).await?;
    let path = format!("/apis/{}/v1/namespaces/{{namespace}}/widgets/{{name}}", cx.group);
    let patch = &document["paths"][&path]["patch"];
    has(
        patch,
        &json!({"x-kubernetes-group-version-kind": {"group": cx.group, "version": "v1", "kind": "Widget"}}),
    );
    let forms = patch["requestBody"]["content"].as_object().cloned().unwrap_or_default();
    let forms: Vec<&String> = forms.keys().collect();
    assert_eq!(
        forms,
        ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
    );
    let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    let widget =
        schemas.values().find(|schema| schema["x-kubernetes-group-version-kind"][0]["kind"] == "Widget");
    has(
        widget.unwrap_or(&Value::Null),
        &json!({"properties": {"spec": {
            "description": "What is wanted.", "required": ["size"],
            "properties": {"size": {"type": "integer", "description": "How big.", "minimum": 1}},
        }, "apiVersion": {"type": "string"}, "kind": {"type": "string"}}}),
    );
    Ok(())
}

async fn version_two_knows_the_kinds(cx: Cx) -> Result {
    let document = cx.read("/openapi/v2").await?;
    has(&document, &json!({"swagger": "2.0"}));
    has(
        &document["definitions"]["io.k8s.api.core.v1.ConfigMap"],
        &json!({"x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "ConfigMap"}]}),
    );
    Ok(())
}

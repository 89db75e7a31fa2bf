//! Namespaces, and how they end.

use serde_json::json;

use crate::context::{Cx, config_map};
use crate::crds::{condition, definition, establish};
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    start_active,
    built_in_ones,
    end_with_their_content,
    wait_for_finalizers,
    take_nothing_new,
    finalize_subresource,
    names_are_labels,
    custom_resources_go_too,
    cannot_be_orphaned,
    some_cannot_be_deleted,
];

async fn start_active(cx: Cx) -> Result {
    let namespace = cx.read(format!("/api/v1/namespaces/{}", cx.ns)).await?;
    has(
        &namespace,
        &json!({
            "metadata": {"labels": {"kubernetes.io/metadata.name": cx.ns}, "generation": null},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        }),
    );
    cx.until(cx.core("serviceaccounts/default"), "the default account", |status, _| status == 200).await?;
    let roots =
        cx.until(cx.core("configmaps/kube-root-ca.crt"), "the roots", |status, _| status == 200).await?;
    assert!(text(&roots, "/data/ca.crt").starts_with("-----BEGIN CERTIFICATE-----"), "{roots}");
    Ok(())
}

async fn built_in_ones(cx: Cx) -> Result {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        has(&cx.read(format!("/api/v1/namespaces/{name}")).await?, &json!({"status": {"phase": "Active"}}));
    }
    let service = cx.read("/api/v1/namespaces/default/services/kubernetes").await?;
    has(
        &service,
        &json!({"metadata": {"labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443}]}}),
    );
    Ok(())
}

async fn end_with_their_content(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    cx.create(cx.apis("apps/v1", "deployments"), &crate::context::deployment("a")).await?;
    let path = format!("/api/v1/namespaces/{}", cx.ns);
    let deleted = cx.admin.delete(path.as_str()).await?.ok(200);
    has(
        &deleted,
        &json!({"kind": "Namespace", "status": {"phase": "Terminating"},
            "spec": {"finalizers": ["kubernetes"]}}),
    );
    assert!(!text(&deleted, "/metadata/deletionTimestamp").is_empty());
    cx.until_gone(path).await?;
    cx.admin.get(cx.core("configmaps/a")).await?.fails(404, "NotFound");
    cx.admin.get(cx.apis("apps/v1", "deployments/a")).await?.fails(404, "NotFound");
    Ok(())
}

async fn wait_for_finalizers(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cx.create(cx.core("configmaps"), &object).await?;
    let path = format!("/api/v1/namespaces/{}", cx.ns);
    cx.admin.delete(path.as_str()).await?.ok(200);
    let waiting = cx
        .until(path.as_str(), "it says what it waits for", |_, namespace| {
            condition(namespace, "NamespaceFinalizersRemaining") == "True"
                && condition(namespace, "NamespaceDeletionDiscoveryFailure") == "False"
        })
        .await?;
    assert_eq!(condition(&waiting, "NamespaceContentRemaining"), "True");
    assert_eq!(condition(&waiting, "NamespaceDeletionContentFailure"), "False");
    let conditions = waiting["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let finalizers = conditions
        .iter()
        .find(|entry| entry["type"] == "NamespaceFinalizersRemaining")
        .cloned()
        .unwrap_or_default();
    has(
        &finalizers,
        &json!({"reason": "SomeFinalizersRemain",
        "message": "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource \
            instances"}),
    );
    cx.admin.merge_patch(cx.core("configmaps/a"), &json!({"metadata": {"finalizers": null}})).await?.ok(200);
    cx.until_gone(path).await
}

async fn take_nothing_new(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cx.create(cx.core("configmaps"), &object).await?;
    cx.admin.delete(format!("/api/v1/namespaces/{}", cx.ns)).await?.ok(200);
    let status = cx.admin.post(cx.core("configmaps"), &config_map("b", "1")).await?.fails(403, "Forbidden");
    has(
        &status,
        &json!({
            "message": format!("configmaps \"b\" is forbidden: unable to create new content in namespace {} \
                because it is being terminated", cx.ns),
            "details": {"name": "b", "kind": "configmaps", "causes": [{
                "reason": "NamespaceTerminating", "field": "metadata.namespace",
                "message": format!("namespace {} is being terminated", cx.ns),
            }]},
        }),
    );
    // What is there can still be changed.
    cx.admin.merge_patch(cx.core("configmaps/a"), &json!({"data": {"key": "2"}})).await?.ok(200);
    cx.admin.merge_patch(cx.core("configmaps/a"), &json!({"metadata": {"finalizers": null}})).await?.ok(200);
    Ok(())
}

async fn finalize_subresource(cx: Cx) -> Result {
    let name = format!("{}-held", cx.unique);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
        "spec": {"finalizers": ["example.com/hold"]}});
    let created = cx.create("/api/v1/namespaces", &namespace).await?;
    assert_eq!(created["spec"]["finalizers"], json!(["example.com/hold", "kubernetes"]));
    let path = format!("/api/v1/namespaces/{name}");
    cx.admin.delete(path.as_str()).await?.ok(200);
    cx.until(path.as_str(), "ours is the last finalizer", |_, namespace| {
        namespace["spec"]["finalizers"] == json!(["example.com/hold"])
    })
    .await?;
    // Only the subresource lets go of it.
    let mut held = cx.read(path.as_str()).await?;
    held["spec"]["finalizers"] = json!([]);
    let replaced = cx.admin.put(path.as_str(), &held).await?.ok(200);
    assert_eq!(replaced["spec"]["finalizers"], json!(["example.com/hold"]));
    let mut held = cx.read(path.as_str()).await?;
    held["spec"]["finalizers"] = json!([]);
    cx.admin.put(format!("{path}/finalize"), &held).await?.ok(200);
    cx.until_gone(path).await
}

async fn names_are_labels(cx: Cx) -> Result {
    let bad = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "with.dots"}});
    let status = cx.admin.post("/api/v1/namespaces", &bad).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"kind": "Namespace", "causes": [{"field": "metadata.name"}]}}));
    // The label that tells the name cannot be changed.
    let path = format!("/api/v1/namespaces/{}", cx.ns);
    let patch = json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}});
    let patched = cx.admin.merge_patch(path, &patch).await?.ok(200);
    has(&patched, &json!({"metadata": {"labels": {"kubernetes.io/metadata.name": cx.ns}}}));
    Ok(())
}

async fn custom_resources_go_too(cx: Cx) -> Result {
    establish(&cx, &definition(&cx, &json!({"type": "object"}))).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({}))).await?;
    let path = format!("/api/v1/namespaces/{}", cx.ns);
    cx.admin.delete(path.as_str()).await?.ok(200);
    cx.until_gone(path).await?;
    cx.admin.get(cx.a_widget("a")).await?.fails(404, "NotFound");
    Ok(())
}

async fn cannot_be_orphaned(cx: Cx) -> Result {
    // A namespace owns its content by holding it, so that deleting it in the foreground is no different.
    let path = format!("/api/v1/namespaces/{}", cx.ns);
    cx.config_map("a", "1").await?;
    cx.admin.delete(format!("{path}?propagationPolicy=Foreground")).await?.ok(200);
    cx.until_gone(path).await
}

async fn some_cannot_be_deleted(cx: Cx) -> Result {
    for name in ["default", "kube-system", "kube-public"] {
        let status = cx.admin.delete(format!("/api/v1/namespaces/{name}")).await?.fails(403, "Forbidden");
        assert_eq!(
            text(&status, "/message"),
            format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted")
        );
    }
    Ok(())
}

//! What becomes of objects whose owners go.

use std::time::Duration;

use serde_json::{Value, json};

use crate::context::{Cx, config_map};
use crate::crds::{definition, establish};
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    background,
    foreground_waits_for_blockers,
    foreground_does_not_wait_for_others,
    orphan,
    several_owners,
    cluster_scoped_owner,
    missing_owner,
    owner_of_another_namespace,
    same_name_other_uid,
    chains,
    custom_resources,
    owners_that_come_back,
    blocking_needs_rights,
];

/// A reference to an object as its owner.
fn owner(object: &Value) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"]})
}

fn owned(name: &str, owners: &[Value]) -> Value {
    let mut object = config_map(name, "1");
    object["metadata"]["ownerReferences"] = owners.to_vec().into();
    object
}

async fn background(cx: Cx) -> Result {
    let parent = cx.config_map("parent", "1").await?;
    cx.create(cx.core("configmaps"), &owned("child", &[owner(&parent)])).await?;
    cx.admin.delete(cx.core("configmaps/parent?propagationPolicy=Background")).await?.ok(200);
    cx.admin.get(cx.core("configmaps/parent")).await?.fails(404, "NotFound");
    cx.until_gone(cx.core("configmaps/child")).await
}

async fn foreground_waits_for_blockers(cx: Cx) -> Result {
    let parent = cx.config_map("parent", "1").await?;
    let mut reference = owner(&parent);
    reference["blockOwnerDeletion"] = true.into();
    let mut child = owned("child", &[reference]);
    child["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cx.create(cx.core("configmaps"), &child).await?;
    let deleted = cx.admin.delete(cx.core("configmaps/parent?propagationPolicy=Foreground")).await?.ok(200);
    has(&deleted, &json!({"metadata": {"finalizers": ["foregroundDeletion"]}}));
    assert!(!text(&deleted, "/metadata/deletionTimestamp").is_empty());
    cx.until(cx.core("configmaps/child"), "the child is being deleted", |_, child| {
        !text(child, "/metadata/deletionTimestamp").is_empty()
    })
    .await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    cx.read(cx.core("configmaps/parent")).await?;
    cx.admin
        .merge_patch(cx.core("configmaps/child"), &json!({"metadata": {"finalizers": null}}))
        .await?
        .ok(200);
    cx.until_gone(cx.core("configmaps/parent")).await?;
    cx.until_gone(cx.core("configmaps/child")).await
}

async fn foreground_does_not_wait_for_others(cx: Cx) -> Result {
    let parent = cx.config_map("parent", "1").await?;
    let mut child = owned("child", &[owner(&parent)]);
    child["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cx.create(cx.core("configmaps"), &child).await?;
    cx.admin.delete(cx.core("configmaps/parent?propagationPolicy=Foreground")).await?.ok(200);
    cx.until_gone(cx.core("configmaps/parent")).await?;
    cx.until(cx.core("configmaps/child"), "the child is being deleted", |_, child| {
        !text(child, "/metadata/deletionTimestamp").is_empty()
    })
    .await?;
    cx.admin
        .merge_patch(cx.core("configmaps/child"), &json!({"metadata": {"finalizers": null}}))
        .await?
        .ok(200);
    Ok(())
}

async fn orphan(cx: Cx) -> Result {
    let parent = cx.config_map("parent", "1").await?;
    let other = cx.config_map("other", "1").await?;
    cx.create(cx.core("configmaps"), &owned("child", &[owner(&parent)])).await?;
    cx.create(cx.core("configmaps"), &owned("shared", &[owner(&parent), owner(&other)])).await?;
    let deleted = cx.admin.delete(cx.core("configmaps/parent?propagationPolicy=Orphan")).await?.ok(200);
    has(&deleted, &json!({"metadata": {"finalizers": ["orphan"]}}));
    cx.until_gone(cx.core("configmaps/parent")).await?;
    has(&cx.read(cx.core("configmaps/child")).await?, &json!({"metadata": {"ownerReferences": null}}));
    has(
        &cx.read(cx.core("configmaps/shared")).await?,
        &json!({"metadata": {"ownerReferences": [{"name": "other"}]}}),
    );
    Ok(())
}

async fn several_owners(cx: Cx) -> Result {
    let one = cx.config_map("one", "1").await?;
    let two = cx.config_map("two", "1").await?;
    cx.create(cx.core("configmaps"), &owned("child", &[owner(&one), owner(&two)])).await?;
    cx.admin.delete(cx.core("configmaps/one")).await?.ok(200);
    // The one that is gone is no owner any more, and the other one keeps the child.
    cx.until(cx.core("configmaps/child"), "one owner is left", |_, child| {
        child["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.len() == 1)
    })
    .await?;
    cx.admin.delete(cx.core("configmaps/two")).await?.ok(200);
    cx.until_gone(cx.core("configmaps/child")).await
}

async fn cluster_scoped_owner(cx: Cx) -> Result {
    let name = format!("{}-role", cx.unique);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": []});
    let role = cx.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await?;
    cx.create(cx.core("configmaps"), &owned("child", &[owner(&role)])).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    cx.read(cx.core("configmaps/child")).await?;
    cx.admin.delete(format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}")).await?.ok(200);
    cx.until_gone(cx.core("configmaps/child")).await
}

async fn missing_owner(cx: Cx) -> Result {
    let nobody = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "no-such-uid"});
    cx.create(cx.core("configmaps"), &owned("child", &[nobody])).await?;
    cx.until_gone(cx.core("configmaps/child")).await
}

async fn owner_of_another_namespace(cx: Cx) -> Result {
    // An owner is looked for in the child's own namespace, where this one is not.
    let elsewhere = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{}-other",
        cx.unique)}});
    cx.create("/api/v1/namespaces", &elsewhere).await?;
    let path = format!("/api/v1/namespaces/{}-other/configmaps", cx.unique);
    let parent = cx.create(path, &config_map("parent", "1")).await?;
    cx.create(cx.core("configmaps"), &owned("child", &[owner(&parent)])).await?;
    cx.until_gone(cx.core("configmaps/child")).await
}

async fn same_name_other_uid(cx: Cx) -> Result {
    let parent = cx.config_map("parent", "1").await?;
    let mut reference = owner(&parent);
    reference["uid"] = "of-another-time".into();
    cx.create(cx.core("configmaps"), &owned("child", &[reference])).await?;
    cx.until_gone(cx.core("configmaps/child")).await?;
    cx.read(cx.core("configmaps/parent")).await?;
    Ok(())
}

async fn chains(cx: Cx) -> Result {
    let first = cx.config_map("first", "1").await?;
    let second = cx.create(cx.core("configmaps"), &owned("second", &[owner(&first)])).await?;
    let third = cx
        .create(
            cx.core("secrets"),
            &json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "third", "ownerReferences": [owner(&second)]}}),
        )
        .await?;
    cx.create(cx.core("configmaps"), &owned("fourth", &[owner(&third)])).await?;
    cx.admin.delete(cx.core("configmaps/first")).await?.ok(200);
    for path in ["configmaps/second", "secrets/third", "configmaps/fourth"] {
        cx.until_gone(cx.core(path)).await?;
    }
    Ok(())
}

async fn custom_resources(cx: Cx) -> Result {
    establish(&cx, &definition(&cx, &json!({"type": "object"}))).await?;
    let parent = cx.create(cx.widgets(), &cx.widget("parent", &json!({}))).await?;
    let mut child = cx.widget("child", &json!({}));
    child["metadata"]["ownerReferences"] = json!([owner(&parent)]);
    cx.create(cx.widgets(), &child).await?;
    cx.create(cx.core("configmaps"), &owned("child", &[owner(&parent)])).await?;
    cx.admin.delete(cx.a_widget("parent")).await?.ok(200);
    cx.until_gone(cx.a_widget("child")).await?;
    cx.until_gone(cx.core("configmaps/child")).await
}

async fn owners_that_come_back(cx: Cx) -> Result {
    let parent = cx.config_map("parent", "1").await?;
    cx.create(cx.core("configmaps"), &owned("child", &[owner(&parent)])).await?;
    cx.admin.delete(cx.core("configmaps/parent")).await?.ok(200);
    cx.config_map("parent", "1").await?;
    cx.until_gone(cx.core("configmaps/child")).await
}

async fn blocking_needs_rights(cx: Cx) -> Result {
    // Only with the plugin switched on, which it is not by default; so anybody may block.
    let parent = cx.config_map("parent", "1").await?;
    let mut reference = owner(&parent);
    reference["blockOwnerDeletion"] = true.into();
    reference["controller"] = true.into();
    let created = cx.create(cx.core("configmaps"), &owned("child", &[reference.clone()])).await?;
    assert_eq!(created["metadata"]["ownerReferences"], json!([reference]));
    Ok(())
}

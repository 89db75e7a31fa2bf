//! Volumes, claims and classes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::context::Cx;
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    claims,
    claims_are_protected,
    claims_are_mostly_fixed,
    claims_can_grow_where_allowed,
    default_class,
    classes_are_fixed,
    volumes,
    volume_attachments,
];

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

fn claim(name: &str, class: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": class}})
}

fn class(name: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "example.com/p"})
}

async fn claims(cx: Cx) -> Result {
    let created = cx.create(cx.core("persistentvolumeclaims"), &claim("a", "none")).await?;
    has(
        &created,
        &json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]},
            "spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}),
    );
    let mut wrong = claim("b", "none");
    wrong["spec"]["accessModes"] = json!(["Sometimes"]);
    cx.admin.post(cx.core("persistentvolumeclaims"), &wrong).await?.fails(422, "Invalid");
    let mut wrong = claim("b", "none");
    wrong["spec"]["resources"] = json!({});
    let status = cx.admin.post(cx.core("persistentvolumeclaims"), &wrong).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.resources[storage]",
            "reason": "FieldValueRequired"}]}}),
    );
    Ok(())
}

async fn claims_are_protected(cx: Cx) -> Result {
    cx.create(cx.core("persistentvolumeclaims"), &claim("a", "none")).await?;
    let deleted = cx.admin.delete(cx.core("persistentvolumeclaims/a")).await?.ok(200);
    assert!(!text(&deleted, "/metadata/deletionTimestamp").is_empty(), "{deleted}");
    // Nobody uses it, so its protection ends by itself.
    cx.until_gone(cx.core("persistentvolumeclaims/a")).await
}

async fn claims_are_mostly_fixed(cx: Cx) -> Result {
    cx.create(cx.core("persistentvolumeclaims"), &claim("a", "none")).await?;
    let patch = json!({"spec": {"accessModes": ["ReadWriteMany"]}});
    let status =
        cx.admin.merge_patch(cx.core("persistentvolumeclaims/a"), &patch).await?.fails(422, "Invalid");
    assert!(
        text(&status, "/message").starts_with(
            "PersistentVolumeClaim \"a\" is invalid: spec: Forbidden: \
            spec is immutable after creation except resources.requests and volumeAttributesClassName for \
            bound claims\n"
        ),
        "{status}"
    );
    let status = cx
        .admin
        .merge_patch(
            cx.core("persistentvolumeclaims/a"),
            &json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
        )
        .await?;
    assert!(status.status == 422 || status.status == 403, "{status}");
    Ok(())
}

async fn claims_can_grow_where_allowed(cx: Cx) -> Result {
    let mut growing = class(&cx.unique);
    growing["allowVolumeExpansion"] = true.into();
    cx.create(CLASSES, &growing).await?;
    let mut object = claim("a", &cx.unique);
    object["spec"]["volumeName"] = format!("{}-volume", cx.unique).into();
    cx.create(cx.core("persistentvolumeclaims"), &object).await?;
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"]}});
    cx.admin.merge_patch(cx.core("persistentvolumeclaims/a/status"), &bound).await?.ok(200);
    let size = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    for attempt in 0.. {
        let answer = cx.admin.merge_patch(cx.core("persistentvolumeclaims/a"), &size("2Gi")).await?;
        if answer.status == 200 {
            break;
        }
        assert!(attempt < 100, "never allowed: {answer}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let status = cx
        .admin
        .merge_patch(cx.core("persistentvolumeclaims/a"), &size("500Mi"))
        .await?
        .fails(422, "Invalid");
    assert!(text(&status, "/message").contains("field can not be less than status.capacity"), "{status}");
    Ok(())
}

async fn default_class(cx: Cx) -> Result {
    // A default class is everybody's, so that this is the only scenario with one, and others name a class.
    let mut default = class(&cx.unique);
    default["metadata"]["annotations"] = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    cx.delete_at_the_end(format!("{CLASSES}/{}", cx.unique));
    cx.create(CLASSES, &default).await?;
    let mut object = claim("a", "");
    object["spec"].as_object_mut().map(|spec| spec.remove("storageClassName"));
    let mut chosen = String::new();
    for _ in 0..100 {
        let answer = cx.admin.post(cx.core("persistentvolumeclaims?dryRun=All"), &object).await?.ok(201);
        text(&answer, "/spec/storageClassName").clone_into(&mut chosen);
        if !chosen.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(chosen, cx.unique);
    // An empty class is a choice too.
    let created = cx.create(cx.core("persistentvolumeclaims"), &claim("b", "")).await?;
    assert_eq!(created["spec"]["storageClassName"], "");
    Ok(())
}

async fn classes_are_fixed(cx: Cx) -> Result {
    let created = cx.create(CLASSES, &class(&cx.unique)).await?;
    has(&created, &json!({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}));
    let path = format!("{CLASSES}/{}", cx.unique);
    for change in [
        json!({"provisioner": "other"}),
        json!({"parameters": {"a": "b"}}),
        json!({"reclaimPolicy": "Retain"}),
        json!({"volumeBindingMode": "WaitForFirstConsumer"}),
    ] {
        cx.admin.merge_patch(path.as_str(), &change).await?.fails(422, "Invalid");
    }
    cx.admin
        .merge_patch(path, &json!({"allowVolumeExpansion": true, "metadata": {"labels": {"x": "y"}}}))
        .await?
        .ok(200);
    Ok(())
}

async fn volumes(cx: Cx) -> Result {
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": cx.unique},
        "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": {"driver": "example.com",
            "volumeHandle": "x"}}});
    let created = cx.create("/api/v1/persistentvolumes", &volume).await?;
    has(
        &created,
        &json!({"metadata": {"finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
        "status": {"phase": "Pending"}}),
    );
    let path = format!("/api/v1/persistentvolumes/{}", cx.unique);
    let status = cx
        .admin
        .merge_patch(path.as_str(), &json!({"spec": {"csi": {"volumeHandle": "y"}}}))
        .await?
        .fails(422, "Invalid");
    assert!(
        text(&status, "/message").contains("spec.persistentvolumesource is immutable after creation"),
        "{status}"
    );
    cx.admin
        .merge_patch(path.as_str(), &json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}))
        .await?
        .ok(200);
    cx.admin.delete(path.as_str()).await?.ok(200);
    cx.until_gone(path).await
}

async fn volume_attachments(cx: Cx) -> Result {
    let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": cx.unique},
        "spec": {"attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "x"}}});
    let created = cx.create("/apis/storage.k8s.io/v1/volumeattachments", &attachment).await?;
    has(&created, &json!({"status": {"attached": false}}));
    let path = format!("/apis/storage.k8s.io/v1/volumeattachments/{}", cx.unique);
    let patched =
        cx.admin.merge_patch(format!("{path}/status"), &json!({"status": {"attached": true}})).await?.ok(200);
    has(&patched, &json!({"status": {"attached": true}}));
    cx.admin.merge_patch(path, &json!({"spec": {"nodeName": "other"}})).await?.fails(422, "Invalid");
    Ok(())
}

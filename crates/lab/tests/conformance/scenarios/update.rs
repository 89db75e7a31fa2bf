//! Replacing objects, status and scale.

use std::future::IntoFuture as _;

use serde_json::json;

use crate::context::{Cx, config_map, deployment};
use crate::support::Result;
use crate::support::json::{has, text, version};

scenarios![
    replaces_the_whole,
    stale_version,
    no_version,
    of_nothing,
    nothing_changes,
    other_uid,
    metadata_that_cannot_change,
    generation_counts_changes_of_the_spec,
    main_resource_keeps_status,
    status_keeps_the_rest,
    immutable_fields,
    lease_of_a_missing_name_is_created,
    scale_is_read_and_written,
    scale_conflicts,
    deletion_timestamp_is_no_clients_business,
    concurrent_writers_conflict,
];

async fn replaces_the_whole(cx: Cx) -> Result {
    let created = cx
        .create(
            cx.core("configmaps"),
            &json!({"metadata": {"name": "a", "labels": {"x": "1"}},
        "data": {"one": "1", "two": "2"}}),
        )
        .await?;
    let replaced = cx
        .admin
        .put(
            cx.core("configmaps/a"),
            &json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a"}, "data": {"three": "3"}}),
        )
        .await?
        .ok(200);
    has(
        &replaced,
        &json!({"data": {"three": "3", "one": null}, "metadata": {
            "labels": null, "uid": created["metadata"]["uid"],
            "creationTimestamp": created["metadata"]["creationTimestamp"],
        }}),
    );
    assert!(version(&replaced) > version(&created));
    Ok(())
}

async fn stale_version(cx: Cx) -> Result {
    let mut first = cx.config_map("a", "1").await?;
    cx.admin.put(cx.core("configmaps/a"), &config_map("a", "2")).await?.ok(200);
    first["data"]["key"] = "3".into();
    let answer = cx.admin.put(cx.core("configmaps/a"), &first).await?;
    let status = answer.fails_with(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your \
         changes to the latest version and try again",
    );
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
    first["metadata"]["resourceVersion"] = "not-a-number".into();
    let answer = cx.admin.put(cx.core("configmaps/a"), &first).await?;
    let status = answer.fails(500, "");
    assert_eq!(status["message"], "strconv.ParseUint: parsing \"not-a-number\": invalid syntax");
    Ok(())
}

async fn no_version(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let replaced = cx.admin.put(cx.core("configmaps/a"), &config_map("a", "2")).await?.ok(200);
    assert_eq!(replaced["data"]["key"], "2");
    // Some kinds insist on a version.
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"},
        "spec": {"holderIdentity": "x"}});
    cx.create(cx.apis("coordination.k8s.io/v1", "leases"), &lease).await?;
    cx.admin.put(cx.apis("coordination.k8s.io/v1", "leases/a"), &lease).await?.fails(422, "Invalid");
    let claim = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "a"},
        "spec": {"podSelector": {}}});
    cx.create(cx.apis("networking.k8s.io/v1", "networkpolicies"), &claim).await?;
    cx.admin.put(cx.apis("networking.k8s.io/v1", "networkpolicies/a"), &claim).await?.ok(200);
    Ok(())
}

async fn of_nothing(cx: Cx) -> Result {
    let answer = cx.admin.put(cx.core("configmaps/a"), &config_map("a", "1")).await?;
    let status = answer.fails_with(404, "NotFound", r#"configmaps "a" not found"#);
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
    Ok(())
}

async fn nothing_changes(cx: Cx) -> Result {
    let created = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let again = cx.admin.put(cx.apis("apps/v1", "deployments/a"), &created).await?.ok(200);
    assert_eq!(again, created);
    // Also without the defaults, and by somebody else.
    let again =
        cx.admin.put(cx.apis("apps/v1", "deployments/a?fieldManager=other"), &deployment("a")).await?.ok(200);
    assert_eq!(version(&again), version(&created));
    let patched = cx
        .admin
        .merge_patch(cx.apis("apps/v1", "deployments/a"), &json!({"spec": {"replicas": 1}}))
        .await?
        .ok(200);
    assert_eq!(version(&patched), version(&created));
    Ok(())
}

async fn other_uid(cx: Cx) -> Result {
    let mut created = cx.config_map("a", "1").await?;
    created["metadata"]["uid"] = "other".into();
    let answer = cx.admin.put(cx.core("configmaps/a"), &created).await?;
    let uid = cx.read(cx.core("configmaps/a")).await?["metadata"]["uid"].clone();
    answer.fails_with(
        409,
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, Key: \
             /registry/configmaps/{}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
             precondition: other, UID in object meta: {}",
            cx.ns,
            uid.as_str().unwrap_or_default()
        ),
    );
    Ok(())
}

async fn metadata_that_cannot_change(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    let mut changed = created.clone();
    changed["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    changed["metadata"]["generation"] = 12.into();
    changed["metadata"]["selfLink"] = "/x".into();
    changed["data"]["key"] = "2".into();
    let replaced = cx.admin.put(cx.core("configmaps/a"), &changed).await?.ok(200);
    has(
        &replaced,
        &json!({"data": {"key": "2"},
            "metadata": {"creationTimestamp": created["metadata"]["creationTimestamp"]}}),
    );
    Ok(())
}

async fn generation_counts_changes_of_the_spec(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a");
    cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let labelled =
        cx.admin.merge_patch(path.as_str(), &json!({"metadata": {"labels": {"x": "y"}}})).await?.ok(200);
    has(&labelled, &json!({"metadata": {"generation": 1}}));
    let scaled = cx.admin.merge_patch(path.as_str(), &json!({"spec": {"replicas": 3}})).await?.ok(200);
    has(&scaled, &json!({"metadata": {"generation": 2}}));
    let status = format!("{path}/status");
    let observed = cx.admin.merge_patch(status, &json!({"status": {"observedGeneration": 2}})).await?.ok(200);
    has(&observed, &json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 2}}));
    let renumbered = cx.admin.merge_patch(path, &json!({"metadata": {"generation": 9}})).await?.ok(200);
    has(&renumbered, &json!({"metadata": {"generation": 2}}));
    Ok(())
}

async fn main_resource_keeps_status(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a");
    let mut object = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    object["status"] = json!({"replicas": 9});
    object["spec"]["paused"] = true.into();
    let replaced = cx.admin.put(path.as_str(), &object).await?.ok(200);
    has(&replaced, &json!({"spec": {"paused": true}, "status": {"replicas": null}}));
    let patched = cx.admin.merge_patch(path, &json!({"status": {"replicas": 9}})).await?.ok(200);
    has(&patched, &json!({"status": {"replicas": null}}));
    assert_eq!(version(&patched), version(&replaced));
    Ok(())
}

async fn status_keeps_the_rest(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a/status");
    let mut object = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    object["spec"]["replicas"] = 9.into();
    object["metadata"]["labels"] = json!({"x": "y"});
    object["metadata"]["annotations"] = json!({"x": "y"});
    object["status"] = json!({"replicas": 2, "updatedReplicas": 1});
    let replaced = cx.admin.put(path.as_str(), &object).await?.ok(200);
    has(
        &replaced,
        &json!({
            "spec": {"replicas": 1}, "status": {"replicas": 2, "updatedReplicas": 1},
            "metadata": {"labels": null, "generation": 1},
        }),
    );
    let read = cx.read(path).await?;
    assert_eq!(read, replaced);
    // Pods are different: the status endpoint takes labels along.
    cx.until_pods_are_admitted().await?;
    let mut pod = cx.create(cx.core("pods"), &crate::context::pod("a")).await?;
    pod["metadata"]["annotations"] = json!({"x": "y"});
    pod["status"]["phase"] = "Running".into();
    pod["spec"]["containers"][0]["image"] = "other".into();
    let replaced = cx.admin.put(cx.core("pods/a/status"), &pod).await?.ok(200);
    has(
        &replaced,
        &json!({"status": {"phase": "Running"}, "metadata": {"annotations": {"x": "y"}},
            "spec": {"containers": [{"image": "example.com/image:1"}]}}),
    );
    Ok(())
}

async fn immutable_fields(cx: Cx) -> Result {
    let mut object = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    object["spec"]["selector"] = json!({"matchLabels": {"app": "b"}});
    object["spec"]["template"]["metadata"]["labels"] = json!({"app": "b"});
    let answer = cx.admin.put(cx.apis("apps/v1", "deployments/a"), &object).await?;
    let status = answer.fails(422, "Invalid");
    has(
        &status,
        &json!({
            "details": {"name": "a", "group": "apps", "kind": "Deployment", "causes": [{
                "reason": "FieldValueInvalid", "field": "spec.selector",
                "message": "Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable",
            }]},
            "message": "Deployment.apps \"a\" is invalid: spec.selector: Invalid value: \
                {\"matchLabels\":{\"app\":\"b\"}}: field is immutable",
        }),
    );
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "type": "x"});
    let mut secret = cx.create(cx.core("secrets"), &secret).await?;
    secret["type"] = "y".into();
    let status = cx.admin.put(cx.core("secrets/a"), &secret).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "type", "message": "Invalid value: \"y\": field is \
            immutable"}]}}),
    );
    Ok(())
}

async fn lease_of_a_missing_name_is_created(cx: Cx) -> Result {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}});
    let answer = cx.admin.put(cx.apis("coordination.k8s.io/v1", "leases/a"), &lease).await?;
    let created = answer.ok(201);
    assert!(text(&created, "/metadata/uid").len() == 36, "{answer}");
    Ok(())
}

async fn scale_is_read_and_written(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a/scale");
    let created = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let scale = cx.read(path.as_str()).await?;
    assert_eq!(
        scale,
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {
                "name": "a", "namespace": cx.ns, "uid": created["metadata"]["uid"],
                "resourceVersion": created["metadata"]["resourceVersion"],
                "creationTimestamp": created["metadata"]["creationTimestamp"],
            },
            "spec": {"replicas": 1}, "status": {"replicas": 0, "selector": "app=a"},
        })
    );
    let mut wanted = scale.clone();
    wanted["spec"]["replicas"] = 4.into();
    let scaled = cx.admin.put(path.as_str(), &wanted).await?.ok(200);
    has(&scaled, &json!({"kind": "Scale", "spec": {"replicas": 4}}));
    assert!(version(&scaled) > version(&scale));
    let patched = cx.admin.merge_patch(path.as_str(), &json!({"spec": {"replicas": 2}})).await?.ok(200);
    has(&patched, &json!({"spec": {"replicas": 2}}));
    let read = cx.read(cx.apis("apps/v1", "deployments/a")).await?;
    has(&read, &json!({"spec": {"replicas": 2}, "metadata": {"generation": 3}}));
    wanted["spec"]["replicas"] = (-1).into();
    wanted["metadata"]["resourceVersion"] = "".into();
    let status = cx.admin.put(path, &wanted).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"kind": "Scale", "group": "autoscaling",
            "causes": [{"field": "spec.replicas"}]}}),
    );
    Ok(())
}

async fn scale_conflicts(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments/a/scale");
    cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let mut scale = cx.read(path.as_str()).await?;
    cx.admin.merge_patch(path.as_str(), &json!({"spec": {"replicas": 2}})).await?.ok(200);
    scale["spec"]["replicas"] = 5.into();
    cx.admin.put(path.as_str(), &scale).await?.fails(409, "Conflict");
    // Without a version the last one wins.
    scale["metadata"].as_object_mut().map(|metadata| metadata.remove("resourceVersion"));
    cx.admin.put(path, &scale).await?.ok(200);
    cx.admin.get(cx.apis("apps/v1", "deployments/none/scale")).await?.fails(404, "NotFound");
    Ok(())
}

async fn deletion_timestamp_is_no_clients_business(cx: Cx) -> Result {
    let mut object = cx.config_map("a", "1").await?;
    object["metadata"]["deletionTimestamp"] = "2001-01-01T00:00:00Z".into();
    object["metadata"]["deletionGracePeriodSeconds"] = 5.into();
    object["data"]["key"] = "2".into();
    let status = cx.admin.put(cx.core("configmaps/a"), &object).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [
            {"field": "metadata.deletionTimestamp",
                "message": "Invalid value: \"2001-01-01T00:00:00Z\": field is immutable"},
            {"field": "metadata.deletionGracePeriodSeconds",
            "message": "Invalid value: 5: field is immutable"},
        ]}}),
    );
    Ok(())
}

async fn concurrent_writers_conflict(cx: Cx) -> Result {
    let created = cx.config_map("a", "0").await?;
    let writers = (0..8).map(|number| {
        let mut object = created.clone();
        object["data"]["key"] = number.to_string().into();
        object["data"]["own"] = number.to_string().into();
        cx.admin.put(cx.core("configmaps/a"), &object).into_future()
    });
    let mut statuses = Vec::new();
    for answer in futures::future::join_all(writers).await {
        statuses.push(answer?.status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409, 409, 409, 409, 409, 409]);
    // Patches without a version all get through.
    let writers = (0..8).map(|number: u32| {
        let patch = json!({"data": {format!("p{number}"): "x"}});
        cx.admin.merge_patch(cx.core("configmaps/a"), &patch).into_future()
    });
    for answer in futures::future::join_all(writers).await {
        answer?.ok(200);
    }
    let data = cx.read(cx.core("configmaps/a")).await?["data"].clone();
    assert_eq!(data.as_object().map(serde_json::Map::len), Some(10), "{data}");
    Ok(())
}

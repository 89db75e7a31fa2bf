//! Quotas and limits of a namespace.

use serde_json::{Value, json};

use crate::context::{Cx, config_map, pod};
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    quota_is_counted,
    quota_is_enforced,
    quota_of_pods,
    quota_demands_requests,
    quota_with_scopes,
    quota_frees_on_deletion,
    quota_of_custom_counts,
    quotas_count_each_write_once,
    limits_give_defaults,
    limits_are_enforced,
    limits_of_claims,
    bad_limits,
];

async fn quota(cx: &Cx, hard: &Value) -> Result<Value> {
    let object = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"},
        "spec": {"hard": hard}});
    cx.create(cx.core("resourcequotas"), &object).await?;
    let counted = cx
        .until(cx.core("resourcequotas/quota"), "the quota is counted", |_, quota| {
            quota["status"]["hard"] == *hard
        })
        .await?;
    // Who counts and who enforces may learn of it at different times.
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    Ok(counted)
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
}

async fn quota_is_counted(cx: Cx) -> Result {
    cx.create(cx.core("secrets"), &secret("a")).await?;
    let quota = quota(&cx, &json!({"secrets": "5", "services": "2"})).await?;
    has(
        &quota["status"],
        &json!({"hard": {"secrets": "5", "services": "2"}, "used": {"secrets": "1", "services": "0"}}),
    );
    cx.create(cx.core("secrets"), &secret("b")).await?;
    cx.until(cx.core("resourcequotas/quota"), "the second one is counted", |_, quota| {
        quota["status"]["used"]["secrets"] == "2"
    })
    .await?;
    Ok(())
}

async fn quota_is_enforced(cx: Cx) -> Result {
    quota(&cx, &json!({"secrets": "1"})).await?;
    cx.create(cx.core("secrets"), &secret("a")).await?;
    let answer = cx.admin.post(cx.core("secrets"), &secret("b")).await?;
    let status = answer.fails_with(
        403,
        "Forbidden",
        "secrets \"b\" is forbidden: exceeded quota: quota, requested: secrets=1, used: secrets=1, limited: \
            secrets=1",
    );
    assert_eq!(status["details"], json!({"name": "b", "kind": "secrets"}));
    cx.config_map("a", "1").await?;
    Ok(())
}

fn sized(name: &str, cpu: &str) -> Value {
    let mut object = pod(name);
    object["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu, "memory": "1Gi"}});
    object
}

async fn quota_of_pods(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    quota(&cx, &json!({"pods": "3", "requests.cpu": "1", "requests.memory": "4Gi"})).await?;
    cx.create(cx.core("pods"), &sized("a", "600m")).await?;
    let answer = cx.admin.post(cx.core("pods"), &sized("b", "500m")).await?;
    answer.fails_with(
        403,
        "Forbidden",
        "pods \"b\" is forbidden: exceeded quota: quota, requested: requests.cpu=500m, used: \
            requests.cpu=600m, limited: requests.cpu=1",
    );
    cx.create(cx.core("pods"), &sized("b", "400m")).await?;
    let quota = cx.read(cx.core("resourcequotas/quota")).await?;
    has(&quota["status"]["used"], &json!({"pods": "2", "requests.cpu": "1", "requests.memory": "2Gi"}));
    Ok(())
}

async fn quota_demands_requests(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    quota(&cx, &json!({"requests.cpu": "1", "limits.memory": "1Gi"})).await?;
    let answer = cx.admin.post(cx.core("pods"), &pod("a")).await?;
    answer.fails_with(
        403,
        "Forbidden",
        "pods \"a\" is forbidden: failed quota: quota: must specify limits.memory for: main; requests.cpu \
            for: main",
    );
    Ok(())
}

async fn quota_with_scopes(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let object = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"},
        "spec": {"hard": {"pods": "0"}, "scopes": ["BestEffort"]}});
    cx.create(cx.core("resourcequotas"), &object).await?;
    cx.until(cx.core("resourcequotas/quota"), "the quota is counted", |_, quota| {
        quota["status"]["hard"]["pods"] == "0"
    })
    .await?;
    cx.admin.post(cx.core("pods"), &pod("a")).await?.fails(403, "Forbidden");
    cx.create(cx.core("pods"), &sized("b", "100m")).await?;
    Ok(())
}

async fn quota_frees_on_deletion(cx: Cx) -> Result {
    quota(&cx, &json!({"secrets": "1"})).await?;
    cx.create(cx.core("secrets"), &secret("a")).await?;
    cx.admin.delete(cx.core("secrets/a")).await?.ok(200);
    cx.until(cx.core("resourcequotas/quota"), "the place is free", |_, quota| {
        quota["status"]["used"]["secrets"] == "0"
    })
    .await?;
    // Who counts may know it before who enforces.
    for attempt in 0.. {
        let answer = cx.admin.post(cx.core("secrets"), &secret("b")).await?;
        if answer.status == 201 {
            break;
        }
        assert!(attempt < 100, "the place is never free: {answer}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Ok(())
}

async fn quota_of_custom_counts(cx: Cx) -> Result {
    quota(&cx, &json!({"count/deployments.apps": "1"})).await?;
    cx.create(cx.apis("apps/v1", "deployments"), &crate::context::deployment("a")).await?;
    let answer = cx.admin.post(cx.apis("apps/v1", "deployments"), &crate::context::deployment("b")).await?;
    let status = answer.fails(403, "Forbidden");
    assert!(
        text(&status, "/message")
            .contains("requested: count/deployments.apps=1, used: count/deployments.apps=1"),
        "{status}"
    );
    Ok(())
}

async fn limits(cx: &Cx, limits: &Value) -> Result {
    let object = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"},
        "spec": {"limits": limits}});
    cx.create(cx.core("limitranges"), &object).await?;
    Ok(())
}

async fn limits_give_defaults(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    limits(
        &cx,
        &json!([{"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m",
        "memory": "64Mi"}}]),
    )
    .await?;
    let mut created = Value::Null;
    for _ in 0..100 {
        created = cx.admin.post(cx.core("pods?dryRun=All"), &pod("a")).await?.ok(201);
        if !created["spec"]["containers"][0]["resources"]["limits"].is_null() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(
        created["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m", "memory": "64Mi"}})
    );
    let note = text(&created, "/metadata/annotations/kubernetes.io~1limit-ranger");
    assert_eq!(
        note,
        "LimitRanger plugin set: cpu, memory request for container main; cpu limit for container main"
    );
    Ok(())
}

async fn limits_are_enforced(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    limits(
        &cx,
        &json!([{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "100m"}}, {"type": "Pod",
        "max": {"cpu": "1"}}]),
    )
    .await?;
    let with = |cpu: &str| {
        let mut object = pod("a");
        object["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": cpu}});
        object
    };
    for attempt in 0.. {
        let answer = cx.admin.post(cx.core("pods?dryRun=All"), &with("2")).await?;
        if answer.status == 403 {
            let status = answer.fails(403, "Forbidden");
            assert!(
                text(&status, "/message").contains("maximum cpu usage per Container is 1, but limit is 2"),
                "{status}"
            );
            break;
        }
        assert!(attempt < 100, "the limit never counts");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let status = cx.admin.post(cx.core("pods"), &with("50m")).await?.fails(403, "Forbidden");
    assert!(
        text(&status, "/message").contains("minimum cpu usage per Container is 100m, but request is 50m"),
        "{status}"
    );
    cx.create(cx.core("pods"), &with("500m")).await?;
    Ok(())
}

async fn limits_of_claims(cx: Cx) -> Result {
    limits(&cx, &json!([{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}])).await?;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}},
        "storageClassName": "none"}});
    for attempt in 0.. {
        let answer = cx.admin.post(cx.core("persistentvolumeclaims?dryRun=All"), &claim).await?;
        if answer.status == 403 {
            let status = answer.fails(403, "Forbidden");
            assert!(
                text(&status, "/message")
                    .ends_with("maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"),
                "{status}"
            );
            break;
        }
        assert!(attempt < 100, "the limit never counts");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Ok(())
}

async fn bad_limits(cx: Cx) -> Result {
    let object = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "bad"},
        "spec": {"limits": [
        {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}});
    let status = cx.admin.post(cx.core("limitranges"), &object).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.limits[0].min[cpu]",
            "message": "Invalid value: \"2\": min value 2 is greater than max value 1"},
        {"field": "spec.limits[0].defaultRequest[cpu]"}, {"field": "spec.limits[0].default[cpu]"}]}}),
    );
    let object = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "bad"},
        "spec": {"hard": {"pods": "-1"}}});
    let status = cx.admin.post(cx.core("resourcequotas"), &object).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "spec.hard[pods]"}]}}));
    cx.admin.post(cx.core("configmaps"), &config_map("a", "1")).await?.ok(201);
    Ok(())
}

async fn quotas_count_each_write_once(cx: Cx) -> Result {
    // Two quotas that count the same, and writers that get into each other's way.
    let hard = json!({"secrets": "14"});
    quota(&cx, &hard).await?;
    let second = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "second"},
        "spec": {"hard": hard}});
    cx.create(cx.core("resourcequotas"), &second).await?;
    cx.until(cx.core("resourcequotas/second"), "the second quota is counted", |_, quota| {
        quota["status"]["hard"] == hard
    })
    .await?;
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    let secrets: Vec<Value> = (0..12).map(|number| secret(&format!("s{number}"))).collect();
    let writes = secrets.iter().map(|secret| cx.create(cx.core("secrets"), secret));
    for created in futures::future::join_all(writes).await {
        created?;
    }
    for name in ["quota", "second"] {
        let path = cx.core(&format!("resourcequotas/{name}"));
        cx.until(path, "all are counted", |_, quota| quota["status"]["used"]["secrets"] == "12").await?;
    }
    cx.create(cx.core("secrets"), &secret("a")).await?;
    cx.create(cx.core("secrets"), &secret("b")).await?;
    let status = cx.admin.post(cx.core("secrets"), &secret("c")).await?.fails(403, "Forbidden");
    assert!(text(&status, "/message").contains("used: secrets=14"), "{status}");
    Ok(())
}

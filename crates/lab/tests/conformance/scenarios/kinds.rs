//! Other built-in kinds: events, leases, workloads, and what is particular about them.

use serde_json::{Value, json};

use crate::context::{Cx, deployment};
use crate::support::Result;
use crate::support::json::{has, text, version};

scenarios![
    events_of_both_groups,
    event_series,
    bad_events,
    leases_keep_microseconds,
    leader_election,
    stateful_sets,
    daemon_sets,
    replica_sets,
    jobs,
    suspended_jobs_can_change,
    cron_jobs,
    autoscalers_in_both_versions,
    disruption_budgets,
    network_policies,
    ingresses,
    nodes,
    quantities_are_canonical,
    times_are_canonical,
    controller_revisions,
    runtime_classes,
    config_map_binary_data,
];

async fn events_of_both_groups(cx: Cx) -> Result {
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "reason": "Started",
        "message": "it runs", "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": cx.ns}, "count": 3,
        "source": {"component": "c", "host": "h"},
        "firstTimestamp": "2020-01-01T00:00:00Z", "lastTimestamp": "2020-01-01T00:01:00Z"});
    let created = cx.create(cx.core("events"), &event).await?;
    has(&created, &json!({"eventTime": null, "reportingComponent": "", "reportingInstance": ""}));
    let same = cx.read(cx.apis("events.k8s.io/v1", "events/a")).await?;
    has(
        &same,
        &json!({"kind": "Event", "apiVersion": "events.k8s.io/v1", "note": "it runs",
            "regarding": {"kind": "Pod", "name": "p"},
        "deprecatedCount": 3, "deprecatedSource": {"component": "c"},
        "deprecatedFirstTimestamp": "2020-01-01T00:00:00Z",
        "metadata": {"uid": created["metadata"]["uid"]}}),
    );
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "b"},
        "eventTime": "2020-01-01T00:00:00.123456Z",
        "reportingController": "example.com/c", "reportingInstance": "i", "action": "Run", "reason": "Ran",
        "type": "Normal", "note": "done",
        "regarding": {"kind": "Pod", "name": "p", "namespace": cx.ns}});
    cx.create(cx.apis("events.k8s.io/v1", "events"), &event).await?;
    let same = cx.read(cx.core("events/b")).await?;
    has(
        &same,
        &json!({"apiVersion": "v1", "message": "done", "involvedObject": {"name": "p"},
            "eventTime": "2020-01-01T00:00:00.123456Z",
        "reportingComponent": "example.com/c", "source": {}}),
    );
    Ok(())
}

async fn event_series(cx: Cx) -> Result {
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "reason": "R",
        "message": "m", "type": "Warning", "count": 1,
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": cx.ns},
        "lastTimestamp": "2020-01-01T00:00:00Z"});
    cx.create(cx.core("events"), &event).await?;
    // As recorders do it.
    let patch = json!({"count": 2, "lastTimestamp": "2020-01-01T00:00:09Z", "message": "again"});
    let patched = cx.admin.strategic_patch(cx.core("events/a"), &patch).await?.ok(200);
    has(&patched, &json!({"count": 2, "lastTimestamp": "2020-01-01T00:00:09Z", "message": "again"}));
    let patch = json!({"series": {"count": 5, "lastObservedTime": "2020-01-01T00:00:10.000001Z"}});
    let patched = cx.admin.strategic_patch(cx.core("events/a"), &patch).await?.ok(200);
    has(&patched, &json!({"series": {"count": 5, "lastObservedTime": "2020-01-01T00:00:10.000001Z"}}));
    Ok(())
}

async fn bad_events(cx: Cx) -> Result {
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "elsewhere"}});
    let status = cx.admin.post(cx.core("events"), &event).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "involvedObject.namespace",
            "message": "Invalid value: \"elsewhere\": does not match event.namespace"}]}}),
    );
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"},
        "regarding": {"kind": "Pod", "namespace": cx.ns}});
    let status = cx.admin.post(cx.apis("events.k8s.io/v1", "events"), &event).await?.fails(422, "Invalid");
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    let fields: Vec<&str> = causes.iter().map(|cause| text(cause, "/field")).collect();
    assert_eq!(fields, ["eventTime", "type"], "{status}");
    Ok(())
}

fn lease(name: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {
        "holderIdentity": "one", "leaseDurationSeconds": 15, "acquireTime": "2020-01-01T00:00:00.000001Z",
        "renewTime": "2020-01-01T00:00:00.500000Z", "leaseTransitions": 0}})
}

async fn leases_keep_microseconds(cx: Cx) -> Result {
    let created = cx.create(cx.apis("coordination.k8s.io/v1", "leases"), &lease("a")).await?;
    has(
        &created["spec"],
        &json!({"acquireTime": "2020-01-01T00:00:00.000001Z", "renewTime": "2020-01-01T00:00:00.500000Z"}),
    );
    let mut wrong = lease("b");
    wrong["spec"]["leaseDurationSeconds"] = 0.into();
    let status =
        cx.admin.post(cx.apis("coordination.k8s.io/v1", "leases"), &wrong).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.leaseDurationSeconds",
            "message": "Invalid value: 0: must be greater than 0"}]}}),
    );
    Ok(())
}

async fn leader_election(cx: Cx) -> Result {
    let path = cx.apis("coordination.k8s.io/v1", "leases/a");
    let first = cx.create(cx.apis("coordination.k8s.io/v1", "leases"), &lease("a")).await?;
    let mut renewed = first.clone();
    renewed["spec"]["renewTime"] = "2020-01-01T00:00:02.000000Z".into();
    let renewed = cx.admin.put(path.as_str(), &renewed).await?.ok(200);
    assert!(version(&renewed) > version(&first));
    // Whoever comes with the old version has lost.
    let mut stolen = first.clone();
    stolen["spec"]["holderIdentity"] = "two".into();
    cx.admin.put(path.as_str(), &stolen).await?.fails(409, "Conflict");
    stolen["metadata"]["resourceVersion"] = renewed["metadata"]["resourceVersion"].clone();
    stolen["spec"]["leaseTransitions"] = 1.into();
    has(
        &cx.admin.put(path, &stolen).await?.ok(200),
        &json!({"spec": {"holderIdentity": "two", "leaseTransitions": 1}}),
    );
    Ok(())
}

fn template(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

async fn stateful_sets(cx: Cx) -> Result {
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"},
        "spec": {"serviceName": "s",
        "selector": {"matchLabels": {"app": "a"}}, "template": template("a"), "volumeClaimTemplates": [
            {"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}}]}});
    let created = cx.create(cx.apis("apps/v1", "statefulsets"), &set).await?;
    has(
        &created["spec"],
        &json!({"replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "volumeClaimTemplates": [{"kind": "PersistentVolumeClaim", "apiVersion": "v1",
        "spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}]}),
    );
    let status = cx
        .admin
        .merge_patch(cx.apis("apps/v1", "statefulsets/a"), &json!({"spec": {"serviceName": "other"}}))
        .await?
        .fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.serviceName",
        "message": "Invalid value: \"other\": field is immutable"}]}}),
    );
    let patch = json!({"spec": {"podManagementPolicy": "Parallel"}});
    cx.admin.merge_patch(cx.apis("apps/v1", "statefulsets/a"), &patch).await?.fails(422, "Invalid");
    Ok(())
}

async fn daemon_sets(cx: Cx) -> Result {
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template("a")}});
    let created = cx.create(cx.apis("apps/v1", "daemonsets"), &set).await?;
    has(
        &created,
        &json!({
            "metadata": {"annotations": {"deprecated.daemonset.template.generation": "1"}},
            "spec": {"revisionHistoryLimit": 10, "updateStrategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
            "status": {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0,
            "numberReady": 0},
        }),
    );
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}});
    let patched = cx.admin.strategic_patch(cx.apis("apps/v1", "daemonsets/a"), &patch).await?.ok(200);
    has(
        &patched,
        &json!({"metadata": {"annotations": {"deprecated.daemonset.template.generation": "2"},
            "generation": 2}}),
    );
    Ok(())
}

async fn replica_sets(cx: Cx) -> Result {
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template("a")}});
    let created = cx.create(cx.apis("apps/v1", "replicasets"), &set).await?;
    has(&created, &json!({"spec": {"replicas": 1}, "status": {"replicas": 0}}));
    let scale = cx.read(cx.apis("apps/v1", "replicasets/a/scale")).await?;
    has(
        &scale,
        &json!({"kind": "Scale", "spec": {"replicas": 1}, "status": {"replicas": 0, "selector": "app=a"}}),
    );
    Ok(())
}

fn job(name: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"suspend": true,
        "template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}}})
}

async fn jobs(cx: Cx) -> Result {
    let mut wrong = job("a");
    wrong["spec"]["template"]["spec"]["restartPolicy"] = "Always".into();
    let status = cx.admin.post(cx.apis("batch/v1", "jobs"), &wrong).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.template.spec.restartPolicy",
        "message": "Required value: valid values: \"OnFailure\", \"Never\""}]}}),
    );
    let created = cx.create(cx.apis("batch/v1", "jobs"), &job("a")).await?;
    has(
        &created,
        &json!({"metadata": {"generation": 1, "labels": {"job-name": "a"}},
            "spec": {"podReplacementPolicy": "TerminatingOrFailed"}}),
    );
    // Deleting a job without a word leaves its pods alone, for old times' sake, and says so.
    let answer = cx.admin.delete(cx.apis("batch/v1", "jobs/a")).await?;
    let deleted = answer.ok(200);
    assert_eq!(
        answer.warnings(),
        ["child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                remove them or set propagationPolicy=Orphan to suppress this warning"]
    );
    has(&deleted, &json!({"metadata": {"finalizers": ["orphan"]}}));
    cx.until_gone(cx.apis("batch/v1", "jobs/a")).await
}

async fn suspended_jobs_can_change(cx: Cx) -> Result {
    cx.create(cx.apis("batch/v1", "jobs"), &job("a")).await?;
    let path = cx.apis("batch/v1", "jobs/a");
    let selector = json!({"spec": {"template": {"spec": {"nodeSelector": {"x": "y"}}}}});
    cx.admin.strategic_patch(path.as_str(), &selector).await?.ok(200);
    let status = cx
        .admin
        .merge_patch(path.as_str(), &json!({"spec": {"completions": 5}}))
        .await?
        .fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "spec.completions"}]}}));
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}});
    let status = cx.admin.strategic_patch(path, &image).await?.fails(422, "Invalid");
    assert!(text(&status, "/message").contains("spec.template"), "{status}");
    Ok(())
}

async fn cron_jobs(cx: Cx) -> Result {
    let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"},
        "spec": {"schedule": "*/5 * * * *",
        "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}]}}}}}});
    let created = cx.create(cx.apis("batch/v1", "cronjobs"), &cron).await?;
    has(
        &created["spec"],
        &json!({"concurrencyPolicy": "Allow", "suspend": false, "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1}),
    );
    let status = cx
        .admin
        .merge_patch(cx.apis("batch/v1", "cronjobs/a"), &json!({"spec": {"schedule": "now and then"}}))
        .await?
        .fails(422, "Invalid");
    has(&status["details"]["causes"][0], &json!({"field": "spec.schedule"}));
    Ok(())
}

async fn autoscalers_in_both_versions(cx: Cx) -> Result {
    let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"}, "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 5,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization",
        "averageUtilization": 70}}}]}});
    let created = cx.create(cx.apis("autoscaling/v2", "horizontalpodautoscalers"), &scaler).await?;
    has(&created["spec"], &json!({"minReplicas": 1}));
    let older = cx.read(cx.apis("autoscaling/v1", "horizontalpodautoscalers/a")).await?;
    has(
        &older,
        &json!({"apiVersion": "autoscaling/v1", "spec": {"maxReplicas": 5,
            "targetCPUUtilizationPercentage": 70}}),
    );
    let patched = cx
        .admin
        .merge_patch(
            cx.apis("autoscaling/v1", "horizontalpodautoscalers/a"),
            &json!({"spec": {"targetCPUUtilizationPercentage": 50}}),
        )
        .await?
        .ok(200);
    has(&patched["spec"], &json!({"targetCPUUtilizationPercentage": 50}));
    let newer = cx.read(cx.apis("autoscaling/v2", "horizontalpodautoscalers/a")).await?;
    has(&newer["spec"], &json!({"metrics": [{"resource": {"target": {"averageUtilization": 50}}}]}));
    Ok(())
}

async fn disruption_budgets(cx: Cx) -> Result {
    let budget = |spec: Value| {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "a"}, "spec": spec})
    };
    let status = cx
        .admin
        .post(
            cx.apis("policy/v1", "poddisruptionbudgets"),
            &budget(json!({"minAvailable": 1, "maxUnavailable": 1})),
        )
        .await?
        .fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec", "message": "Invalid value: \
            {\"MinAvailable\":1,\"Selector\":null,\"MaxUnavailable\":1,\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set"}]}}),
    );
    let created = cx
        .create(cx.apis("policy/v1", "poddisruptionbudgets"), &budget(json!({"maxUnavailable": "30%"})))
        .await?;
    has(&created, &json!({"spec": {"maxUnavailable": "30%"}, "metadata": {"generation": 1}}));
    Ok(())
}

async fn network_policies(cx: Cx) -> Result {
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "a"}, "spec": {"podSelector": {},
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
        "ports": [{"port": 53}]}]}});
    let created = cx.create(cx.apis("networking.k8s.io/v1", "networkpolicies"), &policy).await?;
    has(
        &created["spec"],
        &json!({"policyTypes": ["Ingress", "Egress"], "egress": [{"ports": [{"port": 53,
            "protocol": "TCP"}]}]}),
    );
    let mut wrong = policy.clone();
    wrong["metadata"]["name"] = "b".into();
    wrong["spec"]["egress"][0]["to"][0]["ipBlock"]["except"] = json!(["192.168.0.0/16"]);
    cx.admin.post(cx.apis("networking.k8s.io/v1", "networkpolicies"), &wrong).await?.fails(422, "Invalid");
    Ok(())
}

async fn ingresses(cx: Cx) -> Result {
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "a"},
        "spec": {"rules": [{"host": "x.example.com",
        "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s",
        "port": {"number": 80}}}}]}}]}});
    cx.create(cx.apis("networking.k8s.io/v1", "ingresses"), &ingress).await?;
    let mut wrong = ingress.clone();
    wrong["metadata"]["name"] = "b".into();
    wrong["spec"]["rules"][0]["http"]["paths"][0].as_object_mut().map(|path| path.remove("pathType"));
    let status =
        cx.admin.post(cx.apis("networking.k8s.io/v1", "ingresses"), &wrong).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.rules[0].http.paths[0].pathType",
            "reason": "FieldValueRequired"}]}}),
    );
    Ok(())
}

async fn nodes(cx: Cx) -> Result {
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": cx.unique, "labels": {"x": "y"}}});
    let created = cx.create("/api/v1/nodes", &node).await?;
    // Nobody has said that it is ready.
    has(
        &created["spec"],
        &json!({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}),
    );
    let path = format!("/api/v1/nodes/{}", cx.unique);
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}],
        "capacity": {"cpu": "4", "memory": "8Gi"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}});
    let patched = cx.admin.strategic_patch(format!("{path}/status"), &status).await?.ok(200);
    has(&patched, &json!({"status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}}));
    let cordoned =
        cx.admin.strategic_patch(path.as_str(), &json!({"spec": {"unschedulable": true}})).await?.ok(200);
    has(&cordoned["spec"], &json!({"unschedulable": true}));
    let table = cx.admin.get(path).accept("application/json;as=Table;v=v1;g=meta.k8s.io").await?.ok(200);
    assert_eq!(table["rows"][0]["cells"][1], "Ready,SchedulingDisabled");
    Ok(())
}

async fn quantities_are_canonical(cx: Cx) -> Result {
    let mut object = deployment("a");
    object["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {
        "cpu": "0.1", "memory": "1024Ki", "ephemeral-storage": "1e3", "example.com/x": "2000m"},
            "limits": {"example.com/x": 2}});
    let created = cx.create(cx.apis("apps/v1", "deployments"), &object).await?;
    assert_eq!(
        created["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"],
        json!({"cpu": "100m", "memory": "1Mi", "ephemeral-storage": "1e3", "example.com/x": "2"})
    );
    Ok(())
}

async fn times_are_canonical(cx: Cx) -> Result {
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "type": "Normal",
        "reason": "R",
        "involvedObject": {"kind": "Pod", "namespace": cx.ns},
        "firstTimestamp": "2020-01-01T02:00:00+02:00", "lastTimestamp": null,
        "eventTime": "2020-01-01T02:00:00.100000+02:00", "reportingComponent": "c.example.com/x",
        "reportingInstance": "i", "action": "A"});
    let created = cx.create(cx.core("events"), &event).await?;
    has(
        &created,
        &json!({"firstTimestamp": "2020-01-01T00:00:00Z", "lastTimestamp": null,
            "eventTime": "2020-01-01T00:00:00.100000Z"}),
    );
    // Microseconds are written with six digits.
    let wrong = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "b"},
        "eventTime": "2020-01-01T00:00:00.1Z"});
    cx.admin.post(cx.core("events"), &wrong).await?.fails_with(
        400,
        "BadRequest",
        "Event in version \"v1\" cannot be handled as a Event: parsing time \"2020-01-01T00:00:00.1Z\" as \
         \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \".1Z\" as \".000000\"",
    );
    Ok(())
}

async fn controller_revisions(cx: Cx) -> Result {
    let revision = json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "a"},
        "revision": 1, "data": {"any": {"thing": [1, "x"]}}});
    let created = cx.create(cx.apis("apps/v1", "controllerrevisions"), &revision).await?;
    assert_eq!(created["data"], json!({"any": {"thing": [1, "x"]}}));
    let status = cx
        .admin
        .merge_patch(cx.apis("apps/v1", "controllerrevisions/a"), &json!({"data": {"other": 1}}))
        .await?
        .fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "data"}]}}));
    cx.admin.merge_patch(cx.apis("apps/v1", "controllerrevisions/a"), &json!({"revision": 2})).await?.ok(200);
    Ok(())
}

async fn runtime_classes(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": cx.unique}, "handler": "h",
        "overhead": {"podFixed": {"memory": "64Mi"}}, "scheduling": {"nodeSelector": {"runtime": "h"}}});
    cx.create("/apis/node.k8s.io/v1/runtimeclasses", &class).await?;
    let mut object = crate::context::pod("a");
    object["spec"]["runtimeClassName"] = cx.unique.clone().into();
    let mut created = Value::Null;
    for _ in 0..100 {
        let answer = cx.admin.post(cx.core("pods?dryRun=All"), &object).await?;
        created = answer.json();
        if answer.status == 201 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    has(&created["spec"], &json!({"overhead": {"memory": "64Mi"}, "nodeSelector": {"runtime": "h"}}));
    object["spec"]["runtimeClassName"] = "no-such-class".into();
    let status = cx.admin.post(cx.core("pods"), &object).await?.fails(403, "Forbidden");
    assert!(
        text(&status, "/message").contains("pod rejected: RuntimeClass \"no-such-class\" not found"),
        "{status}"
    );
    Ok(())
}

async fn config_map_binary_data(cx: Cx) -> Result {
    let object = json!({"metadata": {"name": "a"}, "data": {"x": "1"}, "binaryData": {"y": "AAEC"}});
    let created = cx.create(cx.core("configmaps"), &object).await?;
    has(&created, &json!({"binaryData": {"y": "AAEC"}}));
    let object = json!({"metadata": {"name": "b"}, "data": {"x": "1"}, "binaryData": {"x": "AAEC"}});
    cx.admin.post(cx.core("configmaps"), &object).await?.fails(422, "Invalid");
    let object = json!({"metadata": {"name": "b"}, "data": {"not a key": "1"}});
    let status = cx.admin.post(cx.core("configmaps"), &object).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "data[not a key]"}]}}));
    Ok(())
}

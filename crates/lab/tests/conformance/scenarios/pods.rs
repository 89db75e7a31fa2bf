//! Pods: what is done to them on the way in, eviction, binding.

use serde_json::{Value, json};

use crate::context::{Cx, pod};
use crate::support::Result;
use crate::support::client::Answer;
use crate::support::json::{has, names, text};

scenarios![
    defaults,
    service_account_is_mounted,
    service_account_must_exist,
    tolerations_are_added,
    image_pull_secrets_of_the_account,
    most_of_a_pod_is_fixed,
    what_may_change,
    binding,
    binding_by_collection,
    eviction,
    eviction_and_budgets,
    eviction_of_nothing,
    priority_classes,
    priority_class_defaults,
    security_levels,
    ephemeral_containers,
    bad_pods,
    quality_of_service,
    logs_of_a_pod_nowhere,
    readiness_by_status,
    mirror_of_host_ports,
];

async fn defaults(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let created = cx.create(cx.core("pods"), &pod("a")).await?;
    has(
        &created["spec"],
        &json!({
            "containers": [{"imagePullPolicy": "IfNotPresent", "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File"}],
            "dnsPolicy": "ClusterFirst", "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority", "priority": 0,
            "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {},
            "serviceAccount": "default", "serviceAccountName": "default", "terminationGracePeriodSeconds": 30,
        }),
    );
    has(
        &created,
        &json!({"metadata": {"generation": 1}, "status": {"phase": "Pending", "qosClass": "BestEffort"}}),
    );
    Ok(())
}

async fn service_account_is_mounted(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let created = cx.create(cx.core("pods"), &pod("a")).await?;
    let volume = &created["spec"]["volumes"][0];
    let name = text(volume, "/name");
    assert!(name.starts_with("kube-api-access-") && name.len() == "kube-api-access-".len() + 5, "{name}");
    assert_eq!(
        volume["projected"],
        json!({"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1",
            "fieldPath": "metadata.namespace"}}]}},
        ]})
    );
    assert_eq!(
        created["spec"]["containers"][0]["volumeMounts"],
        json!([{"name": name, "readOnly": true,
            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}])
    );
    let mut without = pod("b");
    without["spec"]["automountServiceAccountToken"] = false.into();
    let created = cx.create(cx.core("pods"), &without).await?;
    has(&created["spec"], &json!({"volumes": null, "containers": [{"volumeMounts": null}]}));
    Ok(())
}

async fn service_account_must_exist(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let mut object = pod("a");
    object["spec"]["serviceAccountName"] = "nobody".into();
    let answer = cx.admin.post(cx.core("pods"), &object).await?;
    answer.fails_with(
        403,
        "Forbidden",
        &format!(
            "pods \"a\" is forbidden: error looking up service account {}/nobody: serviceaccount \
            \"nobody\" not found",
            cx.ns
        ),
    );
    Ok(())
}

async fn tolerations_are_added(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let created = cx.create(cx.core("pods"), &pod("a")).await?;
    assert_eq!(
        created["spec"]["tolerations"],
        json!([
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 300},
        ])
    );
    let mut object = pod("b");
    object["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    let created = cx.create(cx.core("pods"), &object).await?;
    assert_eq!(created["spec"]["tolerations"], json!([{"operator": "Exists"}]));
    Ok(())
}

async fn image_pull_secrets_of_the_account(cx: Cx) -> Result {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"},
        "imagePullSecrets": [{"name": "pull"}], "automountServiceAccountToken": false});
    cx.create(cx.core("serviceaccounts"), &account).await?;
    let mut object = pod("a");
    object["spec"]["serviceAccountName"] = "robot".into();
    let created = cx.create(cx.core("pods"), &object).await?;
    has(&created["spec"], &json!({"imagePullSecrets": [{"name": "pull"}], "volumes": null}));
    Ok(())
}

async fn most_of_a_pod_is_fixed(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let mut created = cx.create(cx.core("pods"), &pod("a")).await?;
    created["spec"]["containers"][0]["command"] = json!(["other"]);
    let status = cx.admin.put(cx.core("pods/a"), &created).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "spec", "reason": "FieldValueForbidden"}]}}));
    assert!(
        text(&status, "/details/causes/0/message").starts_with(
            "Forbidden: pod updates may not change \
            fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
        ),
        "{status}"
    );
    let patch = json!({"spec": {"containers": [{"name": "new", "image": "x"}]}});
    let status = cx.admin.strategic_patch(cx.core("pods/a"), &patch).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.containers",
            "message": "Forbidden: pod updates may not add or remove containers"}]}}),
    );
    Ok(())
}

async fn what_may_change(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    cx.create(cx.core("pods"), &pod("a")).await?;
    let patch = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"activeDeadlineSeconds": 100,
        "containers": [{"name": "main", "image": "new:2"}]}});
    let patched = cx.admin.strategic_patch(cx.core("pods/a"), &patch).await?.ok(200);
    has(
        &patched,
        &json!({"metadata": {"labels": {"x": "y"}, "generation": 2}, "spec": {"activeDeadlineSeconds": 100,
            "containers": [{"image": "new:2"}]}}),
    );
    Ok(())
}

async fn bind(cx: &Cx, name: &str, node: &str) -> Result<Answer> {
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name,
        "annotations": {"bound": "yes"}},
        "target": {"kind": "Node", "name": node}});
    cx.admin.post(cx.core(&format!("pods/{name}/binding")), &binding).await
}

async fn binding(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    cx.create(cx.core("pods"), &pod("a")).await?;
    has(
        &bind(&cx, "a", "node-1").await?.ok(201),
        &json!({"kind": "Status", "status": "Success", "code": 201}),
    );
    let bound = cx.read(cx.core("pods/a")).await?;
    has(
        &bound,
        &json!({"spec": {"nodeName": "node-1"}, "metadata": {"annotations": {"bound": "yes"}},
        "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}),
    );
    let answer = bind(&cx, "a", "node-2").await?;
    answer.fails_with(
        409,
        "Conflict",
        "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"node-1\"",
    );
    bind(&cx, "none", "node-1").await?.fails(404, "NotFound");
    Ok(())
}

async fn binding_by_collection(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    cx.create(cx.core("pods"), &pod("a")).await?;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
        "target": {"kind": "Node", "name": "node-1"}});
    cx.admin.post(cx.core("bindings"), &binding).await?.ok(201);
    has(&cx.read(cx.core("pods/a")).await?, &json!({"spec": {"nodeName": "node-1"}}));
    let mut wrong = binding.clone();
    wrong["target"]["kind"] = "Pod".into();
    let status = cx.admin.post(cx.core("bindings"), &wrong).await?.fails(500, "");
    assert_eq!(
        status["message"],
        "target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\""
    );
    Ok(())
}

fn eviction_of(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
}

async fn eviction(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let mut placed = pod("a");
    placed["spec"]["nodeName"] = "some-node".into();
    cx.create(cx.core("pods"), &placed).await?;
    let mut trial = eviction_of("a");
    trial["deleteOptions"] = json!({"dryRun": ["All"]});
    cx.admin.post(cx.core("pods/a/eviction"), &trial).await?.ok(201);
    has(&cx.read(cx.core("pods/a")).await?, &json!({"metadata": {"deletionTimestamp": null}}));
    let answer = cx.admin.post(cx.core("pods/a/eviction"), &eviction_of("a")).await?;
    has(&answer.ok(201), &json!({"kind": "Status", "status": "Success", "code": 201}));
    let evicted = cx.read(cx.core("pods/a")).await?;
    has(&evicted, &json!({"metadata": {"deletionGracePeriodSeconds": 30}}));
    let conditions = evicted["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let why = conditions.iter().find(|one| one["type"] == "DisruptionTarget").cloned().unwrap_or_default();
    has(
        &why,
        &json!({"status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}),
    );
    Ok(())
}

async fn eviction_and_budgets(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    for name in ["a", "b"] {
        let mut object = pod(name);
        object["metadata"]["labels"] = json!({"app": "x"});
        object["spec"]["nodeName"] = "some-node".into();
        cx.create(cx.core("pods"), &object).await?;
        let ready =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        cx.admin.merge_patch(cx.core(&format!("pods/{name}/status")), &ready).await?.ok(200);
    }
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    cx.create(cx.apis("policy/v1", "poddisruptionbudgets"), &budget).await?;
    let counted = cx
        .until(cx.apis("policy/v1", "poddisruptionbudgets/budget"), "the pods are counted", |_, budget| {
            budget["status"]["disruptionsAllowed"] == 1
        })
        .await?;
    has(&counted["status"], &json!({"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}));
    cx.admin.post(cx.core("pods/a/eviction"), &eviction_of("a")).await?.ok(201);
    let answer = cx.admin.post(cx.core("pods/b/eviction"), &eviction_of("b")).await?;
    let status = answer.fails(429, "TooManyRequests");
    has(
        &status,
        &json!({"message": "Cannot evict pod as it would violate the pod's disruption budget.",
            "details": {"causes": [{
        "reason": "DisruptionBudget", "message": "The disruption budget budget needs 1 healthy pods and has \
            1 currently"}]}}),
    );
    cx.read(cx.core("pods/b")).await?;
    Ok(())
}

async fn eviction_of_nothing(cx: Cx) -> Result {
    cx.admin.post(cx.core("pods/none/eviction"), &eviction_of("none")).await?.fails(404, "NotFound");
    cx.until_pods_are_admitted().await?;
    cx.create(cx.core("pods"), &pod("a")).await?;
    let answer = cx.admin.post(cx.core("pods/a/eviction"), &eviction_of("b")).await?;
    answer.fails(400, "BadRequest");
    // A precondition that does not hold keeps the pod.
    let mut guarded = eviction_of("a");
    guarded["deleteOptions"] = json!({"preconditions": {"uid": "other"}});
    cx.admin.post(cx.core("pods/a/eviction"), &guarded).await?.fails(409, "Conflict");
    Ok(())
}

const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

async fn priority_classes(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": cx.unique}, "value": 1234, "preemptionPolicy": "Never"});
    cx.create(CLASSES, &class).await?;
    let mut object = pod("a");
    object["spec"]["priorityClassName"] = cx.unique.clone().into();
    let mut created = None;
    for _ in 0..100 {
        // The class may take a moment to be known.
        let answer = cx.admin.post(cx.core("pods"), &object).await?;
        if answer.status == 201 {
            created = Some(answer.json());
            break;
        }
        answer.fails(403, "Forbidden");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    has(&created.unwrap_or_default(), &json!({"spec": {"priority": 1234, "preemptionPolicy": "Never"}}));
    object["metadata"]["name"] = "b".into();
    object["spec"]["priorityClassName"] = "no-such-class".into();
    let answer = cx.admin.post(cx.core("pods"), &object).await?;
    answer.fails_with(
        403,
        "Forbidden",
        "pods \"b\" is forbidden: no PriorityClass with name no-such-class was found",
    );
    let mut object = pod("c");
    object["spec"]["priority"] = 7.into();
    let answer = cx.admin.post(cx.core("pods"), &object).await?;
    answer.fails_with(
        403,
        "Forbidden",
        "pods \"c\" is forbidden: the integer value of priority (7) must not be provided in pod spec; \
            priority admission controller computed 0 from the given PriorityClass name",
    );
    Ok(())
}

async fn priority_class_defaults(cx: Cx) -> Result {
    for (name, value) in
        [("system-cluster-critical", 2_000_000_000_u64), ("system-node-critical", 2_000_001_000)]
    {
        has(&cx.read(format!("{CLASSES}/{name}")).await?, &json!({"value": value}));
    }
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": cx.unique}, "value": 5});
    let created = cx.create(CLASSES, &class).await?;
    has(&created, &json!({"preemptionPolicy": "PreemptLowerPriority", "globalDefault": null}));
    let answer = cx.admin.merge_patch(format!("{CLASSES}/{}", cx.unique), &json!({"value": 6})).await?;
    has(&answer.fails(422, "Invalid"), &json!({"details": {"causes": [{"field": "value"}]}}));
    let mut system = class.clone();
    system["metadata"]["name"] = format!("system-{}", cx.unique).into();
    cx.admin.post(CLASSES, &system).await?.fails(422, "Invalid");
    Ok(())
}

async fn security_levels(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted"}}});
    cx.admin.merge_patch(format!("/api/v1/namespaces/{}", cx.ns), &labels).await?.ok(200);
    let mut privileged = pod("a");
    privileged["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    let status = cx.admin.post(cx.core("pods"), &privileged).await?.fails(403, "Forbidden");
    assert!(
        text(&status, "/message").starts_with(
            "pods \"a\" is forbidden: violates PodSecurity \
            \"restricted:latest\": privileged (container \"main\" must not set \
            securityContext.privileged=true), "
        ),
        "{status}"
    );
    let mut fine = pod("b");
    fine["spec"]["securityContext"] =
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    fine["spec"]["containers"][0]["securityContext"] =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    cx.create(cx.core("pods"), &fine).await?;
    // Workloads only get a warning.
    let answer = cx.admin.post(cx.apis("apps/v1", "deployments"), &crate::context::deployment("a")).await?;
    answer.ok(201);
    assert!(
        answer
            .warnings()
            .iter()
            .any(|warning| warning.starts_with("would violate PodSecurity \"restricted:latest\": ")),
        "{:?}",
        answer.warnings()
    );
    Ok(())
}

async fn ephemeral_containers(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let mut object = cx.create(cx.core("pods"), &pod("a")).await?;
    let debugger = json!([{"name": "debug", "image": "debug:1", "targetContainerName": "main"}]);
    object["spec"]["ephemeralContainers"] = debugger.clone();
    cx.admin.put(cx.core("pods/a"), &object).await?.fails(422, "Invalid");
    let patched = cx
        .admin
        .strategic_patch(
            cx.core("pods/a/ephemeralcontainers"),
            &json!({"spec": {"ephemeralContainers": debugger}}),
        )
        .await?
        .ok(200);
    has(
        &patched,
        &json!({"kind": "Pod", "spec": {"ephemeralContainers": [{"name": "debug",
            "terminationMessagePolicy": "File"}]}}),
    );
    let answer = cx
        .admin
        .json_patch(
            cx.core("pods/a/ephemeralcontainers"),
            &json!([{"op": "remove", "path": "/spec/ephemeralContainers"}]),
        )
        .await?;
    answer.fails(422, "Invalid");
    Ok(())
}

async fn bad_pods(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    for (change, field, message) in [
        (json!({"containers": []}), "spec.containers", "Required value"),
        (
            json!({"restartPolicy": "Sometimes"}),
            "spec.restartPolicy",
            "Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ),
        (json!({"containers": [{"name": "x"}]}), "spec.containers[0].image", "Required value"),
        (
            json!({"containers": [{"name": "x", "image": "i"}, {"name": "x", "image": "i"}]}),
            "spec.containers[1].name",
            "Duplicate value: \"x\"",
        ),
        (
            json!({"containers": [{"name": "x", "image": "i", "ports": [{"containerPort": 70000}]}]}),
            "spec.containers[0].ports[0].containerPort",
            "Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            json!({"containers": [{"name": "x", "image": "i", "volumeMounts": [{"name": "none",
                "mountPath": "/x"}]}]}),
            "spec.containers[0].volumeMounts[0].name",
            "Not found: \"none\"",
        ),
        (
            json!({"containers": [{"name": "x", "image": "i", "resources": {"requests": {"cpu": "2"},
                "limits": {"cpu": "1"}}}]}),
            "spec.containers[0].resources.requests",
            "Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
        (
            json!({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]}),
            "spec.volumes[0].hostPath",
            "Forbidden: may not specify more than 1 volume type",
        ),
    ] {
        let mut object = pod("bad");
        for (key, value) in change.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        let status = cx.admin.post(cx.core("pods"), &object).await?.fails(422, "Invalid");
        let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
        assert!(
            causes.iter().any(|cause| cause["field"] == field && cause["message"] == message),
            "{field}: {status}"
        );
    }
    Ok(())
}

async fn quality_of_service(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    for (name, resources, class) in [
        ("a", json!({}), "BestEffort"),
        ("b", json!({"requests": {"cpu": "100m"}}), "Burstable"),
        ("c", json!({"limits": {"cpu": "100m", "memory": "1Gi"}}), "Guaranteed"),
    ] {
        let mut object = pod(name);
        object["spec"]["containers"][0]["resources"] = resources;
        let created = cx.create(cx.core("pods"), &object).await?;
        has(&created, &json!({"status": {"qosClass": class}}));
        if name == "c" {
            // Limits without requests are requests too.
            has(
                &created["spec"],
                &json!({"containers": [{"resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}]}),
            );
        }
    }
    let mut object = pod("d");
    object["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": 0.5, "memory": "1024Mi"}});
    let created = cx.create(cx.core("pods"), &object).await?;
    has(
        &created["spec"],
        &json!({"containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]}),
    );
    Ok(())
}

async fn logs_of_a_pod_nowhere(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    cx.create(cx.core("pods"), &pod("a")).await?;
    cx.admin.get(cx.core("pods/none/log")).await?.fails(404, "NotFound");
    let answer = cx.admin.get(cx.core("pods/a/log?container=other")).await?;
    answer.fails_with(400, "BadRequest", "container other is not valid for pod a");
    Ok(())
}

async fn readiness_by_status(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let mut object = cx.create(cx.core("pods"), &pod("a")).await?;
    object["status"] = json!({"phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.0.1",
        "podIPs": [{"ip": "10.1.0.1"}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}],
        "containerStatuses": [{"name": "main", "ready": true, "restartCount": 2, "image": "i",
        "imageID": "x", "state": {"running": {"startedAt": "2020-01-01T00:00:00Z"}}}]});
    let replaced = cx.admin.put(cx.core("pods/a/status"), &object).await?.ok(200);
    has(
        &replaced,
        &json!({"status": {"phase": "Running", "podIPs": [{"ip": "10.1.0.1"}], "qosClass": "BestEffort"}}),
    );
    let table =
        cx.admin.get(cx.core("pods/a")).accept("application/json;as=Table;v=v1;g=meta.k8s.io").await?.ok(200);
    let cells = &table["rows"][0]["cells"];
    assert_eq!((&cells[1], &cells[2], &cells[3]), (&json!("1/1"), &json!("Running"), &json!("2")), "{cells}");
    Ok(())
}

async fn mirror_of_host_ports(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let mut object = pod("a");
    object["spec"]["hostNetwork"] = true.into();
    object["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
    let created = cx.create(cx.core("pods"), &object).await?;
    assert_eq!(
        created["spec"]["containers"][0]["ports"],
        json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}])
    );
    assert_eq!(names(&cx.read(cx.core("pods")).await?), ["a"]);
    Ok(())
}

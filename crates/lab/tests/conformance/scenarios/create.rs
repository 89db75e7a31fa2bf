//! Creating objects.

use serde_json::json;

use crate::context::{Cx, config_map, deployment, pod};
use crate::support::Result;
use crate::support::json::{has, text, version};

scenarios![
    sets_metadata,
    answers_what_is_stored,
    taken_name,
    no_name,
    bad_names,
    name_in_the_query_of_another_object,
    name_and_namespace_of_the_path,
    missing_namespace,
    wrong_kind_and_version,
    missing_kind_is_understood,
    generated_name,
    generated_name_of_a_long_base,
    status_is_dropped,
    resource_version_must_not_be_set,
    labels_and_annotations_are_checked,
    defaults_are_filled_in,
    immutable_config_map,
    secret_texts_become_data,
    null_and_empty_values,
    owner_references_are_checked,
];

async fn sets_metadata(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555".into();
    object["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    object["metadata"]["deletionTimestamp"] = "2001-01-01T00:00:00Z".into();
    object["metadata"]["selfLink"] = "/somewhere".into();
    let created = cx.create(cx.core("configmaps"), &object).await?;
    has(
        &created,
        &json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "1"},
            "metadata": {"name": "a", "namespace": cx.ns, "generation": null, "deletionTimestamp": null},
        }),
    );
    assert_ne!(text(&created, "/metadata/uid"), "11111111-2222-3333-4444-555555555555");
    assert_eq!(text(&created, "/metadata/uid").len(), 36);
    let time = text(&created, "/metadata/creationTimestamp");
    assert!(time > "2020" && time.len() == "2020-01-01T00:00:00Z".len() && time.ends_with('Z'), "{time}");
    assert!(version(&created) > 0);
    Ok(())
}

async fn answers_what_is_stored(cx: Cx) -> Result {
    let created = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    has(&created, &json!({"metadata": {"generation": 1}, "status": {}}));
    assert_eq!(cx.read(cx.apis("apps/v1", "deployments/a")).await?, created);
    Ok(())
}

async fn taken_name(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let answer = cx.admin.post(cx.core("configmaps"), &config_map("a", "2")).await?;
    let status = answer.fails_with(409, "AlreadyExists", r#"configmaps "a" already exists"#);
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
    cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let answer = cx.admin.post(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let status = answer.fails_with(409, "AlreadyExists", r#"deployments.apps "a" already exists"#);
    assert_eq!(status["details"], json!({"name": "a", "group": "apps", "kind": "deployments"}));
    Ok(())
}

async fn no_name(cx: Cx) -> Result {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "1"}});
    let status = cx.admin.post(cx.core("configmaps"), &object).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({
            "message": "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is \
                required",
            "details": {"kind": "ConfigMap", "causes": [{
                "reason": "FieldValueRequired", "field": "metadata.name",
                "message": "Required value: name or generateName is required",
            }]},
        }),
    );
    Ok(())
}

async fn bad_names(cx: Cx) -> Result {
    let status =
        cx.admin.post(cx.core("configmaps"), &config_map("Not_A_Name", "1")).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"name": "Not_A_Name", "causes": [
            {"reason": "FieldValueInvalid", "field": "metadata.name"},
        ]}}),
    );
    assert!(text(&status, "/message").starts_with(
        "ConfigMap \"Not_A_Name\" is invalid: metadata.name: Invalid value: \"Not_A_Name\": a lowercase RFC \
            1123 \
         subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end \
         with \
         an alphanumeric character (e.g. 'example.com', regex used for validation is "
    ));
    let long = "a".repeat(254);
    let status = cx.admin.post(cx.core("configmaps"), &config_map(&long, "1")).await?.fails(422, "Invalid");
    assert!(text(&status, "/message").ends_with("must be no more than 253 characters"), "{status}");
    // Services are names of the domain name system, which are shorter and have no dots.
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a.b"},
        "spec": {"ports": [{"port": 80}]}});
    let status = cx.admin.post(cx.core("services"), &service).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"reason": "FieldValueInvalid", "field": "metadata.name"}]}}),
    );
    // Roles may be called what a path segment may be called.
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "System:Some_Role"}, "rules": []});
    cx.create(cx.apis("rbac.authorization.k8s.io/v1", "roles"), &role).await?;
    Ok(())
}

async fn name_in_the_query_of_another_object(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let answer = cx.admin.put(cx.core("configmaps/a"), &config_map("b", "1")).await?;
    answer.fails_with(400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)");
    Ok(())
}

async fn name_and_namespace_of_the_path(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["namespace"] = "default".into();
    let answer = cx.admin.post(cx.core("configmaps"), &object).await?;
    answer.fails_with(
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    );
    object["metadata"]["namespace"] = cx.ns.clone().into();
    cx.create(cx.core("configmaps"), &object).await?;
    let namespaced_cluster_object = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": format!("{}-b", cx.unique), "namespace": "default"}});
    let created = cx.create("/api/v1/namespaces", &namespaced_cluster_object).await?;
    has(&created, &json!({"metadata": {"namespace": null}}));
    Ok(())
}

async fn missing_namespace(cx: Cx) -> Result {
    let path = format!("/api/v1/namespaces/{}-no/configmaps", cx.unique);
    let status = cx.admin.post(path.as_str(), &config_map("a", "1")).await?.fails(404, "NotFound");
    has(
        &status,
        &json!({
            "message": format!("namespaces \"{}-no\" not found", cx.unique),
            "details": {"kind": "namespaces", "name": format!("{}-no", cx.unique)},
        }),
    );
    // Reading from it finds nothing, but is no mistake.
    let list = cx.read(path).await?;
    assert_eq!(list["items"], json!([]));
    Ok(())
}

async fn wrong_kind_and_version(cx: Cx) -> Result {
    let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    let answer = cx.admin.post(cx.core("configmaps"), &object).await?;
    answer.fails_with(
        400,
        "BadRequest",
        "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to \
            (core.ConfigMap): unknown conversion",
    );
    object["kind"] = "ConfigMap".into();
    object["apiVersion"] = "apps/v1".into();
    let answer = cx.admin.post(cx.core("configmaps"), &object).await?;
    answer.fails(400, "BadRequest");
    object["apiVersion"] = "v1".into();
    object["kind"] = "Nothing".into();
    let answer = cx.admin.post(cx.core("configmaps"), &object).await?;
    answer.fails(400, "BadRequest");
    Ok(())
}

async fn missing_kind_is_understood(cx: Cx) -> Result {
    let object = json!({"metadata": {"name": "a"}, "data": {"x": "y"}});
    let created = cx.create(cx.core("configmaps"), &object).await?;
    has(&created, &json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "y"}}));
    Ok(())
}

async fn generated_name(cx: Cx) -> Result {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "some-"}});
    let first = cx.create(cx.core("configmaps"), &object).await?;
    let second = cx.create(cx.core("configmaps"), &object).await?;
    for created in [&first, &second] {
        let name = text(created, "/metadata/name");
        let ending = name.strip_prefix("some-").unwrap_or_default();
        assert_eq!(ending.len(), 5, "{name}");
        assert!(ending.chars().all(|letter| "bcdfghjklmnpqrstvwxz2456789".contains(letter)), "{name}");
        assert_eq!(text(created, "/metadata/generateName"), "some-");
    }
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    // A name wins over a base for one.
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-", "name": "a"}});
    let named = cx.create(cx.core("configmaps"), &object).await?;
    has(&named, &json!({"metadata": {"name": "a", "generateName": "x-"}}));
    Ok(())
}

async fn generated_name_of_a_long_base(cx: Cx) -> Result {
    let base = "b".repeat(80);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": base}});
    let created = cx.create(cx.core("configmaps"), &object).await?;
    let name = text(&created, "/metadata/name");
    assert_eq!(name.len(), 63, "{name}");
    assert!(name.starts_with(&"b".repeat(58)), "{name}");
    Ok(())
}

async fn status_is_dropped(cx: Cx) -> Result {
    let mut object = deployment("a");
    object["status"] = json!({"replicas": 7});
    let created = cx.create(cx.apis("apps/v1", "deployments"), &object).await?;
    assert_eq!(created["status"], json!({}));
    cx.until_pods_are_admitted().await?;
    let mut object = pod("a");
    object["status"] = json!({"phase": "Running", "podIP": "10.0.0.1"});
    let created = cx.create(cx.core("pods"), &object).await?;
    assert_eq!(created["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    Ok(())
}

async fn resource_version_must_not_be_set(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["resourceVersion"] = "5".into();
    let answer = cx.admin.post(cx.core("configmaps"), &object).await?;
    let status = answer.fails(500, "");
    assert_eq!(status["message"], "resourceVersion should not be set on objects to be created");
    Ok(())
}

async fn labels_and_annotations_are_checked(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["labels"] = json!({"ok": "-bad-", "bad/key/x": "v"});
    object["metadata"]["annotations"] = json!({"Also Bad": "v"});
    let status = cx.admin.post(cx.core("configmaps"), &object).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [
            {"field": "metadata.labels", "reason": "FieldValueInvalid"},
            {"field": "metadata.labels", "reason": "FieldValueInvalid"},
            {"field": "metadata.annotations", "reason": "FieldValueInvalid"},
        ]}}),
    );
    Ok(())
}

async fn defaults_are_filled_in(cx: Cx) -> Result {
    let created = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    assert_eq!(
        created["spec"],
        json!({
            "replicas": 1, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "a"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%",
            "maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {
                    "containers": [{
                        "name": "main", "image": "example.com/image:1", "imagePullPolicy": "IfNotPresent",
                        "resources": {}, "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                    }],
                    "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
                    "schedulerName": "default-scheduler",
                    "securityContext": {}, "terminationGracePeriodSeconds": 30,
                },
            },
        })
    );
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"},
        "spec": {"template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }}});
    let created = cx.create(cx.apis("batch/v1", "jobs"), &job).await?;
    let uid = text(&created, "/metadata/uid");
    has(
        &created["spec"],
        &json!({
            "backoffLimit": 6, "completions": 1, "parallelism": 1, "completionMode": "NonIndexed",
                "suspend": false,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
            "template": {"metadata": {"labels": {
                "controller-uid": uid, "job-name": "a", "batch.kubernetes.io/job-name": "a",
            }}, "spec": {"containers": [{"imagePullPolicy": "Always"}]}},
        }),
    );
    Ok(())
}

async fn immutable_config_map(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["immutable"] = true.into();
    let mut created = cx.create(cx.core("configmaps"), &object).await?;
    created["data"]["key"] = "2".into();
    let status = cx.admin.put(cx.core("configmaps/a"), &created).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "data", "reason": "FieldValueForbidden",
            "message": "Forbidden: field is immutable when `immutable` is set"}]}}),
    );
    created["data"]["key"] = "1".into();
    created["metadata"]["labels"] = json!({"still": "free"});
    cx.admin.put(cx.core("configmaps/a"), &created).await?.ok(200);
    Ok(())
}

async fn secret_texts_become_data(cx: Cx) -> Result {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"},
        "stringData": {"both": "text", "only": "x"}, "data": {"both": "AAAA", "other": "eA=="}});
    let created = cx.create(cx.core("secrets"), &secret).await?;
    has(
        &created,
        &json!({"type": "Opaque", "stringData": null, "data": {"both": "dGV4dA==", "only": "eA==",
            "other": "eA=="}}),
    );
    let bad = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}, "data": {"x": "%"}});
    let answer = cx.admin.post(cx.core("secrets"), &bad).await?;
    answer.fails_with(
        400,
        "BadRequest",
        "Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data at input byte 0",
    );
    let tls =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c"}, "type": "kubernetes.io/tls"});
    let status = cx.admin.post(cx.core("secrets"), &tls).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [
            {"field": "data[tls.crt]", "reason": "FieldValueRequired"},
            {"field": "data[tls.key]", "reason": "FieldValueRequired"},
        ]}}),
    );
    Ok(())
}

async fn null_and_empty_values(cx: Cx) -> Result {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "labels": {}, "annotations": null, "finalizers": []},
        "data": {"empty": "", "none": null}, "binaryData": {}});
    let created = cx.create(cx.core("configmaps"), &object).await?;
    has(
        &created,
        &json!({"metadata": {"labels": null, "annotations": null, "finalizers": null}, "binaryData": null}),
    );
    assert_eq!(created["data"], json!({"empty": "", "none": ""}));
    Ok(())
}

async fn owner_references_are_checked(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "", "uid": "x"},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": ""},
        {"apiVersion": "v1", "kind": "Event", "name": "b", "uid": "x"},
    ]);
    let status = cx.admin.post(cx.core("configmaps"), &object).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [
            {"field": "metadata.ownerReferences[0].name"}, {"field": "metadata.ownerReferences[1].uid"},
            {"field": "metadata.ownerReferences[2]", "message":
                "Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"b\",\"uid\":\"x\"}: \
                 /v1, Kind=Event is disallowed from being an owner"},
        ]}}),
    );
    let owner = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name,
        "controller": true})
    };
    object["metadata"]["ownerReferences"] = json!([owner("b"), owner("c")]);
    let status = cx.admin.post(cx.core("configmaps"), &object).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "metadata.ownerReferences", "message":
            "Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"b\",\"uid\":\"b\",\"controller\":true},\
             {\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"c\",\"uid\":\"c\",\"controller\":true}]: \
             Only one reference can \
             have Controller set to true. Found \"true\" in references for Pod/b and Pod/c"}]}}),
    );
    Ok(())
}

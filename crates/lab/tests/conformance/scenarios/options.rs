//! Options of writes: dry run, field validation, and the warnings that go with it.

use http::Method;
use serde_json::json;

use crate::context::{Cx, config_map, deployment, pod};
use crate::crds::{definition, establish, with_spec};
use crate::support::Result;
use crate::support::json::{has, text, version};

scenarios![
    dry_run_create,
    dry_run_create_finds_mistakes,
    dry_run_generates_no_address,
    dry_run_update,
    dry_run_patch,
    dry_run_status_and_scale,
    dry_run_of_custom_resources,
    unknown_fields_are_warned_of,
    unknown_fields_strictly,
    unknown_fields_ignored,
    duplicate_fields,
    unknown_fields_in_patches,
    unknown_fields_of_custom_resources,
    strict_update,
    case_matters,
    warnings_of_deprecated_things,
    options_of_subresources,
];

async fn dry_run_create(cx: Cx) -> Result {
    let path = cx.apis("apps/v1", "deployments?dryRun=All");
    let would = cx.admin.post(path.as_str(), &deployment("a")).await?.ok(201);
    has(
        &would,
        &json!({"spec": {"revisionHistoryLimit": 10}, "metadata": {"generation": 1,
            "resourceVersion": null}}),
    );
    assert_eq!(text(&would, "/metadata/uid").len(), 36);
    cx.admin.get(cx.apis("apps/v1", "deployments/a")).await?.fails(404, "NotFound");
    Ok(())
}

async fn dry_run_create_finds_mistakes(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    cx.admin.post(cx.core("configmaps?dryRun=All"), &config_map("a", "1")).await?.fails(409, "AlreadyExists");
    cx.admin.post(cx.core("configmaps?dryRun=All"), &config_map("Bad", "1")).await?.fails(422, "Invalid");
    let generated = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "some-"}});
    let would = cx.admin.post(cx.core("configmaps?dryRun=All"), &generated).await?.ok(201);
    assert!(text(&would, "/metadata/name").starts_with("some-"), "{would}");
    Ok(())
}

async fn dry_run_generates_no_address(cx: Cx) -> Result {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let would = cx.admin.post(cx.core("services?dryRun=All"), &service).await?.ok(201);
    assert!(text(&would, "/spec/clusterIP").starts_with("10.96."), "{would}");
    cx.admin.get(cx.core("services/a")).await?.fails(404, "NotFound");
    let created = cx.create(cx.core("services"), &service).await?;
    assert!(text(&created, "/spec/clusterIP").starts_with("10.96."), "{created}");
    Ok(())
}

async fn dry_run_update(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    let would = cx.admin.put(cx.core("configmaps/a?dryRun=All"), &config_map("a", "2")).await?.ok(200);
    has(
        &would,
        &json!({"data": {"key": "2"},
            "metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}}),
    );
    assert_eq!(cx.read(cx.core("configmaps/a")).await?, created);
    let mut stale = created.clone();
    stale["metadata"]["resourceVersion"] = "1".into();
    stale["data"]["key"] = "3".into();
    cx.admin.put(cx.core("configmaps/a?dryRun=All"), &stale).await?.fails(409, "Conflict");
    Ok(())
}

async fn dry_run_patch(cx: Cx) -> Result {
    let created = cx.config_map("a", "1").await?;
    let path = cx.core("configmaps/a?dryRun=All");
    let merge = cx.admin.merge_patch(path.as_str(), &json!({"data": {"key": "2"}})).await?.ok(200);
    let strategic = cx.admin.strategic_patch(path.as_str(), &json!({"data": {"key": "2"}})).await?.ok(200);
    let json = cx
        .admin
        .json_patch(path.as_str(), &json!([{"op": "replace", "path": "/data/key", "value": "2"}]))
        .await?
        .ok(200);
    for would in [merge, strategic, json] {
        has(&would, &json!({"data": {"key": "2"}}));
    }
    assert_eq!(cx.read(cx.core("configmaps/a")).await?, created);
    Ok(())
}

async fn dry_run_status_and_scale(cx: Cx) -> Result {
    let created = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let path = cx.apis("apps/v1", "deployments/a/status?dryRun=All");
    let would = cx.admin.merge_patch(path, &json!({"status": {"replicas": 5}})).await?.ok(200);
    has(&would, &json!({"status": {"replicas": 5}}));
    let path = cx.apis("apps/v1", "deployments/a/scale?dryRun=All");
    let would = cx.admin.merge_patch(path, &json!({"spec": {"replicas": 5}})).await?.ok(200);
    has(&would, &json!({"spec": {"replicas": 5}}));
    assert_eq!(cx.read(cx.apis("apps/v1", "deployments/a")).await?, created);
    Ok(())
}

async fn dry_run_of_custom_resources(cx: Cx) -> Result {
    let schema = with_spec(
        &json!({"type": "object", "properties": {"n": {"type": "integer", "default": 3, "maximum": 5}}}),
    );
    establish(&cx, &definition(&cx, &schema)).await?;
    let path = format!("{}?dryRun=All", cx.widgets());
    let would = cx.admin.post(path.as_str(), &cx.widget("a", &json!({}))).await?.ok(201);
    has(&would, &json!({"spec": {"n": 3}}));
    cx.admin.post(path, &cx.widget("a", &json!({"n": 9}))).await?.fails(422, "Invalid");
    cx.admin.get(cx.a_widget("a")).await?.fails(404, "NotFound");
    let mut crd = definition(&cx, &schema);
    crd["spec"]["names"] =
        json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"});
    crd["metadata"]["name"] = format!("gadgets.{}", cx.group).into();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
    cx.admin.post(path, &crd).await?.ok(201);
    Ok(())
}

async fn unknown_fields_are_warned_of(cx: Cx) -> Result {
    let mut object = deployment("a");
    object["spec"]["unknown"] = 1.into();
    object["spec"]["template"]["spec"]["containers"][0]["imagee"] = "x".into();
    let answer = cx.admin.post(cx.apis("apps/v1", "deployments"), &object).await?;
    let created = answer.ok(201);
    has(&created, &json!({"spec": {"unknown": null}}));
    let mut warnings = answer.warnings();
    warnings.sort();
    assert_eq!(
        warnings,
        [r#"unknown field "spec.template.spec.containers[0].imagee""#, r#"unknown field "spec.unknown""#]
    );
    let raw: Vec<&str> =
        answer.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect();
    assert!(raw.contains(&r#"299 - "unknown field \"spec.unknown\"""#), "{raw:?}");
    // The same is asked for by name.
    let mut object = config_map("a", "1");
    object["x"] = "y".into();
    let answer = cx.admin.post(cx.core("configmaps?fieldValidation=Warn"), &object).await?;
    answer.ok(201);
    assert_eq!(answer.warnings(), [r#"unknown field "x""#]);
    Ok(())
}

async fn unknown_fields_strictly(cx: Cx) -> Result {
    let mut object = deployment("a");
    object["spec"]["unknown"] = 1.into();
    object["metadata"]["labelz"] = json!({});
    let answer = cx.admin.post(cx.apis("apps/v1", "deployments?fieldValidation=Strict"), &object).await?;
    answer.fails_with(
        400,
        "BadRequest",
        "Deployment in version \"v1\" cannot be handled as a Deployment: strict decoding error: unknown \
            field \
         \"metadata.labelz\", unknown field \"spec.unknown\"",
    );
    Ok(())
}

async fn unknown_fields_ignored(cx: Cx) -> Result {
    let mut object = config_map("a", "1");
    object["unknown"] = 1.into();
    let answer = cx.admin.post(cx.core("configmaps?fieldValidation=Ignore"), &object).await?;
    answer.ok(201);
    assert_eq!(answer.warnings(), Vec::<String>::new());
    Ok(())
}

async fn duplicate_fields(cx: Cx) -> Result {
    let body = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "name": "a"},
        "data": {"x": "1", "x": "2"}}"#;
    let post = |validation: &str| {
        let path = cx.core(&format!("configmaps?fieldValidation={validation}"));
        cx.admin.request(Method::POST, path).body("application/json", body)
    };
    post("Strict").await?.fails_with(
        400,
        "BadRequest",
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate \
            field \
         \"metadata.name\", duplicate field \"data.x\"",
    );
    let answer = post("Warn").await?;
    let created = answer.ok(201);
    assert_eq!(answer.warnings(), [r#"duplicate field "metadata.name""#, r#"duplicate field "data.x""#]);
    // The last one counts.
    assert_eq!(created["data"], json!({"x": "2"}));
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\ndata:\n  x: \"1\"\n  x: \"2\"\n";
    let answer = cx
        .admin
        .request(Method::POST, cx.core("configmaps?fieldValidation=Strict"))
        .body("application/yaml", yaml)
        .await?;
    let status = answer.fails(400, "BadRequest");
    assert!(text(&status, "/message").contains("key \"x\" already set in map"), "{status}");
    Ok(())
}

async fn unknown_fields_in_patches(cx: Cx) -> Result {
    cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let patch = json!({"spec": {"unknown": 1, "replicas": 2}});
    let strict = cx.apis("apps/v1", "deployments/a?fieldValidation=Strict");
    let answer = cx.admin.merge_patch(strict.as_str(), &patch).await?;
    let status = answer.fails(422, "Invalid");
    assert!(
        text(&status, "/message").ends_with("strict decoding error: unknown field \"spec.unknown\""),
        "{status}"
    );
    let answer = cx.admin.strategic_patch(strict.as_str(), &patch).await?;
    let status = answer.fails(422, "Invalid");
    assert!(text(&status, "/message").contains("unknown field \"spec.unknown\""), "{status}");
    let warn = cx.apis("apps/v1", "deployments/a?fieldValidation=Warn");
    let answer = cx.admin.merge_patch(warn.as_str(), &patch).await?;
    has(&answer.ok(200), &json!({"spec": {"replicas": 2, "unknown": null}}));
    assert_eq!(answer.warnings(), [r#"unknown field "spec.unknown""#]);
    let answer = cx.admin.strategic_patch(warn, &patch).await?;
    answer.ok(200);
    assert_eq!(answer.warnings(), [r#"unknown field "spec.unknown""#]);
    Ok(())
}

async fn unknown_fields_of_custom_resources(cx: Cx) -> Result {
    let schema = with_spec(&json!({"type": "object", "properties": {"known": {"type": "string"}}}));
    establish(&cx, &definition(&cx, &schema)).await?;
    let object = cx.widget("a", &json!({"known": "x", "unknown": "y"}));
    let answer = cx.admin.post(format!("{}?fieldValidation=Strict", cx.widgets()), &object).await?;
    let status = answer.fails(400, "BadRequest");
    assert!(
        text(&status, "/message").ends_with("strict decoding error: unknown field \"spec.unknown\""),
        "{status}"
    );
    let answer = cx.admin.post(format!("{}?fieldValidation=Warn", cx.widgets()), &object).await?;
    has(&answer.ok(201), &json!({"spec": {"known": "x", "unknown": null}}));
    assert_eq!(answer.warnings(), [r#"unknown field "spec.unknown""#]);
    let patch = json!({"spec": {"other": "z"}});
    let answer = cx.admin.merge_patch(cx.a_widget("a?fieldValidation=Strict"), &patch).await?;
    let status = answer.fails(422, "Invalid");
    assert!(text(&status, "/message").contains("unknown field \"spec.other\""), "{status}");
    let mut object = cx.widget("a", &json!({"known": "x", "unknown": "y"}));
    object["metadata"]["unknown"] = 1.into();
    let answer = cx.admin.apply(cx.a_widget("a?fieldManager=m&fieldValidation=Strict"), &object).await?;
    assert_eq!(answer.status, 500, "{answer}");
    Ok(())
}

async fn strict_update(cx: Cx) -> Result {
    let mut object = cx.config_map("a", "1").await?;
    object["other"] = "x".into();
    let answer = cx.admin.put(cx.core("configmaps/a?fieldValidation=Strict"), &object).await?;
    answer.fails(400, "BadRequest");
    let answer = cx.admin.put(cx.core("configmaps/a"), &object).await?;
    assert_eq!(answer.warnings(), [r#"unknown field "other""#]);
    Ok(())
}

async fn case_matters(cx: Cx) -> Result {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "Data": {"x": "1"}});
    let answer = cx.admin.post(cx.core("configmaps"), &object).await?;
    has(&answer.ok(201), &json!({"data": null}));
    assert_eq!(answer.warnings(), [r#"unknown field "Data""#]);
    Ok(())
}

async fn warnings_of_deprecated_things(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let mut object = pod("a");
    object["metadata"]["annotations"] = json!({"scheduler.alpha.kubernetes.io/critical-pod": ""});
    let answer = cx.admin.post(cx.core("pods"), &object).await?;
    answer.ok(201);
    assert_eq!(
        answer.warnings(),
        ["metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; \
                use the \"priorityClassName\" field instead"]
    );
    let mut object = pod("b");
    object["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let answer = cx.admin.post(cx.core("pods"), &object).await?;
    answer.ok(201);
    assert_eq!(
        answer.warnings(),
        ["spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using \
                apply"]
    );
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "a"}});
    let answer = cx.admin.post(cx.core("endpoints"), &endpoints).await?;
    answer.ok(201);
    assert_eq!(
        answer.warnings(),
        ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"]
    );
    Ok(())
}

async fn options_of_subresources(cx: Cx) -> Result {
    let created = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let mut object = created.clone();
    object["status"] = json!({"replicas": 1, "unknown": 2});
    let answer = cx.admin.put(cx.apis("apps/v1", "deployments/a/status?fieldManager=m"), &object).await?;
    let replaced = answer.ok(200);
    assert_eq!(answer.warnings(), [r#"unknown field "status.unknown""#]);
    assert!(version(&replaced) > version(&created));
    let answer =
        cx.admin.put(cx.apis("apps/v1", "deployments/a/status?fieldValidation=Strict"), &object).await?;
    answer.fails(400, "BadRequest");
    Ok(())
}

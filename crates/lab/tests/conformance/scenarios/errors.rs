//! Requests that fail, and the bodies that say why.

use http::Method;
use serde_json::json;

use crate::context::{Cx, config_map};
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    not_found,
    no_such_resource,
    method_not_allowed,
    heads,
    broken_json,
    wrong_types,
    empty_body,
    unknown_media_type_of_the_body,
    unacceptable_media_type,
    too_large,
    unauthorized,
    forbidden_texts,
    invalid_lists_all_causes,
    unknown_verbs_of_subresources,
    bad_query_parameters,
    failures_have_the_right_headers,
    deep_nesting_is_refused,
];

async fn not_found(cx: Cx) -> Result {
    let status = cx.admin.get(cx.core("configmaps/none")).await?.fails(404, "NotFound");
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404,
            "message": "configmaps \"none\" not found", "reason": "NotFound",
            "details": {"name": "none", "kind": "configmaps"},
        })
    );
    let status = cx.admin.get(cx.apis("apps/v1", "deployments/none")).await?.fails(404, "NotFound");
    assert_eq!(status["details"], json!({"name": "none", "group": "apps", "kind": "deployments"}));
    cx.admin.get(cx.apis("apps/v1", "deployments/none/status")).await?.fails(404, "NotFound");
    cx.admin.delete(cx.core("configmaps/none")).await?.fails(404, "NotFound");
    cx.admin.merge_patch(cx.core("configmaps/none"), &json!({})).await?.fails(404, "NotFound");
    Ok(())
}

async fn no_such_resource(cx: Cx) -> Result {
    for path in [cx.core("nothings"), cx.apis("apps/v1", "nothings/a"), cx.core("configmaps/a/nothing")] {
        let answer = cx.admin.get(path).await?;
        answer.fails_with(404, "NotFound", "the server could not find the requested resource");
    }
    Ok(())
}

async fn method_not_allowed(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    let status =
        cx.admin.post(cx.core("configmaps/a"), &config_map("a", "1")).await?.fails(405, "MethodNotAllowed");
    has(
        &status,
        &json!({"message": "the server does not allow this method on the requested resource", "details": {}}),
    );
    cx.admin.put(cx.core("configmaps"), &config_map("a", "1")).await?.fails(405, "MethodNotAllowed");
    cx.admin.delete("/api/v1/namespaces").await?.fails(405, "MethodNotAllowed");
    cx.admin
        .get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        .await?
        .fails(405, "MethodNotAllowed");
    Ok(())
}

async fn broken_json(cx: Cx) -> Result {
    let answer =
        cx.admin.request(Method::POST, cx.core("configmaps")).body("application/json", "{\"a\": ").await?;
    let status = answer.fails(400, "BadRequest");
    assert!(text(&status, "/message").contains("unexpected end of JSON input"), "{status}");
    let answer =
        cx.admin.request(Method::POST, cx.core("configmaps")).body("application/json", "[1]").await?;
    answer.fails(400, "BadRequest");
    Ok(())
}

async fn wrong_types(cx: Cx) -> Result {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": 1}});
    let answer = cx.admin.post(cx.core("configmaps"), &object).await?;
    answer.fails_with(
        400,
        "BadRequest",
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go \
         struct field ConfigMap.data of type string",
    );
    let mut object = crate::context::deployment("a");
    object["spec"]["replicas"] = "three".into();
    let answer = cx.admin.post(cx.apis("apps/v1", "deployments"), &object).await?;
    answer.fails_with(
        400,
        "BadRequest",
        "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into \
            Go \
         struct field DeploymentSpec.spec.replicas of type int32",
    );
    object["spec"]["replicas"] = 3_000_000_000_u64.into();
    cx.admin.post(cx.apis("apps/v1", "deployments"), &object).await?.fails(400, "BadRequest");
    let mut object = crate::context::pod("a");
    object["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "lots"}});
    let answer = cx.admin.post(cx.core("pods"), &object).await?;
    answer.fails_with(
        400,
        "BadRequest",
        "Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
    Ok(())
}

async fn empty_body(cx: Cx) -> Result {
    let answer = cx.admin.request(Method::POST, cx.core("configmaps")).body("application/json", "").await?;
    answer.fails(400, "BadRequest");
    cx.config_map("a", "1").await?;
    let answer = cx.admin.request(Method::PUT, cx.core("configmaps/a")).body("application/json", "").await?;
    answer.fails(400, "BadRequest");
    Ok(())
}

async fn unknown_media_type_of_the_body(cx: Cx) -> Result {
    let answer = cx.admin.request(Method::POST, cx.core("configmaps")).body("text/plain", "hello").await?;
    let status = answer.fails(415, "UnsupportedMediaType");
    assert!(
        text(&status, "/message").starts_with(
            "the body of the request was in an unknown format - accepted media types include: \
                application/json, "
        ),
        "{status}"
    );
    cx.config_map("a", "1").await?;
    let answer =
        cx.admin.request(Method::PATCH, cx.core("configmaps/a")).body("application/json", "{}").await?;
    let status = answer.fails(415, "UnsupportedMediaType");
    has(&status, &json!({"message": "415: Unsupported Media Type", "details": {}}));
    Ok(())
}

async fn unacceptable_media_type(cx: Cx) -> Result {
    let answer = cx.admin.get(cx.core("configmaps")).accept("text/html").await?;
    let status = answer.fails(406, "NotAcceptable");
    has(
        &status,
        &json!({"message": "406: Not Acceptable\n\nAvailable representations: application/json, \
            application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, \
            application/vnd.kubernetes.protobuf;stream=watch", "details": {}}),
    );
    // A media type that is known, in a form that is not.
    let answer = cx.admin.get(cx.core("configmaps")).accept("application/json;as=Nothing;g=x;v=v1").await?;
    answer.fails_with(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf",
    );
    // One that fits is enough, wherever it stands.
    cx.admin.get(cx.core("configmaps")).accept("text/html, application/json;q=0.1").await?.ok(200);
    cx.admin.get(cx.core("configmaps")).accept("*/*").await?.ok(200);
    // A family of them does not.
    cx.admin.get(cx.core("configmaps")).accept("application/*").await?.fails(406, "NotAcceptable");
    Ok(())
}

async fn too_large(cx: Cx) -> Result {
    let object = config_map("a", &"x".repeat(4 << 20));
    let answer = cx.admin.post(cx.core("configmaps"), &object).await?;
    answer.fails_with(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728");
    let object = config_map("a", &"x".repeat(1_100_000));
    let status = cx.admin.post(cx.core("configmaps"), &object).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"reason": "FieldValueTooLong",
        "message": "Too long: may not be more than 1048576 bytes"}]}}),
    );
    Ok(())
}

async fn unauthorized(cx: Cx) -> Result {
    let status = cx.with_token("wrong")?.get(cx.core("configmaps")).await?.fails(401, "Unauthorized");
    assert_eq!(
        status,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Unauthorized", "reason": "Unauthorized", "code": 401})
    );
    cx.with_token("wrong")?.get("/healthz").await?.fails(401, "Unauthorized");
    Ok(())
}

async fn forbidden_texts(cx: Cx) -> Result {
    let status = cx.alice.get(cx.core("configmaps/a")).await?.fails(403, "Forbidden");
    assert_eq!(
        status,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden",
            "message": format!("configmaps \"a\" is forbidden: User \"alice\" cannot get resource \
                \"configmaps\" in \
                API group \"\" in the namespace \"{}\"", cx.ns),
            "details": {"name": "a", "kind": "configmaps"}, "code": 403,
        })
    );
    let status = cx.alice.get("/apis/apps/v1/deployments").await?.fails(403, "Forbidden");
    has(
        &status,
        &json!({
            "message": "deployments.apps is forbidden: User \"alice\" cannot list resource \"deployments\" \
                in API \
                group \"apps\" at the cluster scope",
            "details": {"group": "apps", "kind": "deployments"},
        }),
    );
    let status = cx.alice.get(cx.core("pods/a/log")).await?.fails(403, "Forbidden");
    assert_eq!(
        text(&status, "/message"),
        format!(
            "pods \"a\" is forbidden: User \"alice\" cannot get resource \"pods/log\" in API group \"\" in \
                the \
            namespace \"{}\"",
            cx.ns
        )
    );
    let status = cx.alice.get("/metrics").await?.fails(403, "Forbidden");
    assert_eq!(status["message"], "forbidden: User \"alice\" cannot get path \"/metrics\"");
    // Rights are looked at before the body.
    cx.alice
        .request(Method::POST, cx.core("configmaps"))
        .body("text/plain", "x")
        .await?
        .fails(403, "Forbidden");
    Ok(())
}

async fn invalid_lists_all_causes(cx: Cx) -> Result {
    let mut object = crate::context::deployment("a");
    object["spec"]["replicas"] = (-1).into();
    object["spec"]["template"]["spec"]["containers"][0]["name"] = "Bad Name".into();
    object["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Sometimes".into();
    object["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    let status = cx.admin.post(cx.apis("apps/v1", "deployments"), &object).await?.fails(422, "Invalid");
    has(
        &status["details"],
        &json!({"name": "a", "group": "apps", "kind": "Deployment", "causes": [
            {"reason": "FieldValueInvalid", "field": "spec.replicas",
                "message": "Invalid value: -1: must be greater than or equal to 0"},
            {"reason": "FieldValueInvalid", "field": "spec.template.metadata.labels",
                "message": "Invalid value: {\"app\":\"other\"}: `selector` does not match template `labels`"},
            {"reason": "FieldValueInvalid", "field": "spec.template.spec.containers[0].name"},
            {"reason": "FieldValueNotSupported", "field": "spec.template.spec.containers[0].imagePullPolicy",
                "message": "Unsupported value: \"Sometimes\": supported values: \"Always\", \
                    \"IfNotPresent\", \"Never\""},
        ]}),
    );
    assert!(text(&status, "/message").starts_with("Deployment.apps \"a\" is invalid: ["), "{status}");
    Ok(())
}

async fn unknown_verbs_of_subresources(cx: Cx) -> Result {
    cx.create(cx.apis("apps/v1", "deployments"), &crate::context::deployment("a")).await?;
    cx.admin.delete(cx.apis("apps/v1", "deployments/a/status")).await?.fails(405, "MethodNotAllowed");
    cx.admin
        .post(cx.apis("apps/v1", "deployments/a/scale"), &json!({}))
        .await?
        .fails(405, "MethodNotAllowed");
    cx.admin.get(cx.core("pods/a/eviction")).await?.fails(405, "MethodNotAllowed");
    Ok(())
}

async fn bad_query_parameters(cx: Cx) -> Result {
    let answer = cx.admin.get(cx.core("configmaps?limit=many")).await?;
    let status = answer.fails(400, "BadRequest");
    assert!(text(&status, "/message").contains("invalid syntax"), "{status}");
    cx.admin.get(cx.core("configmaps?labelSelector=a%20b%20c")).await?.fails(400, "BadRequest");
    let answer = cx.admin.post(cx.core("configmaps?dryRun=Some"), &config_map("a", "1")).await?;
    let status = answer.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "dryRun",
        "message": "Unsupported value: [\"Some\"]: supported values: \"All\""}]}}),
    );
    let answer = cx.admin.post(cx.core("configmaps?fieldValidation=Some"), &config_map("a", "1")).await?;
    let status = answer.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "fieldValidation"}]}}));
    // A limit below zero is no limit.
    cx.read(cx.core("configmaps?limit=-1")).await?;
    Ok(())
}

async fn failures_have_the_right_headers(cx: Cx) -> Result {
    let answer = cx.admin.get(cx.core("configmaps/none")).await?;
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "no-cache, private");
    assert!(!answer.header("audit-id").is_empty());
    let answer = cx.alice.get(cx.core("configmaps/none")).await?;
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    Ok(())
}

async fn deep_nesting_is_refused(cx: Cx) -> Result {
    let body = format!(
        r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "a"}}, "data": {}{}}}"#,
        "[".repeat(20_000),
        "]".repeat(20_000)
    );
    let answer = cx.admin.request(Method::POST, cx.core("configmaps")).body("application/json", body).await?;
    answer.fails(400, "BadRequest");
    Ok(())
}

async fn heads(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    for (path, code) in [
        ("/healthz", 200),
        ("/openapi/v2", 200),
        ("/version", 405),
        ("/api", 405),
        (&*cx.core("configmaps"), 405),
        (&*cx.core("configmaps/a"), 405),
    ] {
        for client in [cx.admin.clone(), cx.admin.http1()] {
            let answer = client.request(Method::HEAD, path).await?;
            assert_eq!((answer.status, answer.text().as_str()), (code, ""), "{path}");
        }
    }
    Ok(())
}

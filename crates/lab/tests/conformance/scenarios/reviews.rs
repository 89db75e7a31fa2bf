//! Asking what one may do, or who one is.

use serde_json::{Value, json};

use crate::context::Cx;
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    self_access,
    self_access_of_paths,
    access_of_others,
    local_access,
    rules,
    who_am_i,
    bad_reviews,
    reviews_are_not_kept,
];

const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

fn review(kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec})
}

/// Gives the scenario's own user a right in its namespace, and waits until it counts.
async fn grant(cx: &Cx) -> Result {
    let api = "rbac.authorization.k8s.io/v1";
    let role = json!({"apiVersion": api, "kind": "Role", "metadata": {"name": "role"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a"], "verbs": ["delete"]}]});
    cx.create(cx.apis(api, "roles"), &role).await?;
    let binding = json!({"apiVersion": api, "kind": "RoleBinding", "metadata": {"name": "binding"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "role"},
        "subjects": [{"kind": "User", "name": cx.unique, "apiGroup": "rbac.authorization.k8s.io"}]});
    cx.create(cx.apis(api, "rolebindings"), &binding).await?;
    let user = cx.admin.with_header("impersonate-user", &cx.unique)?;
    for _ in 0..200 {
        if user.get(cx.core("configmaps")).await?.status == 200 {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Err("the right never counts".into())
}

async fn self_access(cx: Cx) -> Result {
    grant(&cx).await?;
    let user = cx.admin.with_header("impersonate-user", &cx.unique)?;
    let ask = |attributes: Value| {
        user.post(
            format!("{REVIEWS}/selfsubjectaccessreviews"),
            &review("SelfSubjectAccessReview", &json!({"resourceAttributes": attributes})),
        )
    };
    let answer = ask(json!({"verb": "get", "resource": "configmaps", "namespace": cx.ns})).await?.ok(201);
    has(
        &answer,
        &json!({"kind": "SelfSubjectAccessReview", "status": {"allowed": true, "denied": null,
        "reason": format!("RBAC: allowed by RoleBinding \"binding/{0}\" of Role \"role\" to User \"{1}\"",
        cx.ns, cx.unique)}}),
    );
    let answer = ask(json!({"verb": "delete", "resource": "configmaps", "namespace": cx.ns})).await?.ok(201);
    has(&answer, &json!({"status": {"allowed": false}}));
    for (name, allowed) in [("a", true), ("b", false), ("", false)] {
        let answer = ask(json!({"verb": "delete", "group": "apps", "resource": "deployments", "name": name,
            "namespace": cx.ns}))
        .await?
        .ok(201);
        has(&answer, &json!({"status": {"allowed": allowed}}));
    }
    let answer =
        ask(json!({"verb": "get", "resource": "configmaps", "subresource": "status", "namespace": cx.ns}))
            .await?
            .ok(201);
    has(&answer, &json!({"status": {"allowed": false}}));
    let answer = cx
        .admin
        .post(
            format!("{REVIEWS}/selfsubjectaccessreviews"),
            &review(
                "SelfSubjectAccessReview",
                &json!({"resourceAttributes": {"verb": "*", "resource": "*", "group": "*"}}),
            ),
        )
        .await?
        .ok(201);
    has(&answer, &json!({"status": {"allowed": true}}));
    Ok(())
}

async fn self_access_of_paths(cx: Cx) -> Result {
    for (path, allowed) in [("/version", true), ("/api", true), ("/metrics", false)] {
        let spec = json!({"nonResourceAttributes": {"path": path, "verb": "get"}});
        let answer = cx
            .alice
            .post(format!("{REVIEWS}/selfsubjectaccessreviews"), &review("SelfSubjectAccessReview", &spec))
            .await?
            .ok(201);
        has(&answer, &json!({"status": {"allowed": allowed}}));
    }
    Ok(())
}

async fn access_of_others(cx: Cx) -> Result {
    grant(&cx).await?;
    let attributes = json!({"verb": "list", "resource": "configmaps", "namespace": cx.ns});
    let path = format!("{REVIEWS}/subjectaccessreviews");
    let answer = cx
        .create(
            path.as_str(),
            &review("SubjectAccessReview", &json!({"user": cx.unique, "resourceAttributes": attributes})),
        )
        .await?;
    has(&answer, &json!({"status": {"allowed": true}}));
    let answer = cx
        .create(
            path.as_str(),
            &review("SubjectAccessReview", &json!({"user": "nobody", "resourceAttributes": attributes})),
        )
        .await?;
    has(&answer, &json!({"status": {"allowed": false}}));
    let spec = json!({"user": "nobody", "groups": ["system:masters"], "resourceAttributes": attributes});
    let answer = cx.create(path.as_str(), &review("SubjectAccessReview", &spec)).await?;
    has(&answer, &json!({"status": {"allowed": true}}));
    cx.alice
        .post(path, &review("SubjectAccessReview", &json!({"user": "bob", "resourceAttributes": attributes})))
        .await?
        .fails(403, "Forbidden");
    Ok(())
}

async fn local_access(cx: Cx) -> Result {
    grant(&cx).await?;
    let path = format!("{REVIEWS}/namespaces/{}/localsubjectaccessreviews", cx.ns);
    let spec = |namespace: &str| {
        json!({"user": cx.unique, "resourceAttributes": {"verb": "get",
        "resource": "configmaps", "namespace": namespace}})
    };
    let mut object = review("LocalSubjectAccessReview", &spec(&cx.ns));
    object["metadata"] = json!({"namespace": cx.ns});
    has(&cx.create(path.as_str(), &object).await?, &json!({"status": {"allowed": true}}));
    let mut object = review("LocalSubjectAccessReview", &spec("default"));
    object["metadata"] = json!({"namespace": cx.ns});
    let status = cx.admin.post(path, &object).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.resourceAttributes.namespace",
        "message": "Invalid value: \"default\": must match metadata.namespace"}]}}),
    );
    Ok(())
}

async fn rules(cx: Cx) -> Result {
    grant(&cx).await?;
    let user = cx.admin.with_header("impersonate-user", &cx.unique)?;
    let answer = user
        .post(
            format!("{REVIEWS}/selfsubjectrulesreviews"),
            &review("SelfSubjectRulesReview", &json!({"namespace": cx.ns})),
        )
        .await?
        .ok(201);
    has(&answer, &json!({"kind": "SelfSubjectRulesReview", "status": {"incomplete": false}}));
    let rules = answer["status"]["resourceRules"].as_array().cloned().unwrap_or_default();
    assert!(
        rules.contains(&json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]})),
        "{rules:?}"
    );
    assert!(rules.iter().any(|rule| rule["resourceNames"] == json!(["a"])), "{rules:?}");
    let paths = answer["status"]["nonResourceRules"].as_array().cloned().unwrap_or_default();
    assert!(
        paths.iter().any(|rule| rule["nonResourceURLs"]
            .as_array()
            .is_some_and(|urls| urls.contains(&json!("/version")))),
        "{paths:?}"
    );
    let answer = user
        .post(format!("{REVIEWS}/selfsubjectrulesreviews"), &review("SelfSubjectRulesReview", &json!({})))
        .await?;
    answer.fails(400, "BadRequest");
    Ok(())
}

async fn who_am_i(cx: Cx) -> Result {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = cx
        .alice
        .post(path, &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}))
        .await?
        .ok(201);
    has(
        &answer,
        &json!({"kind": "SelfSubjectReview", "status": {"userInfo": {"username": "alice", "groups": ["devs",
            "system:authenticated"]}}}),
    );
    assert!(!text(&answer, "/metadata/creationTimestamp").is_empty(), "{answer}");
    Ok(())
}

async fn bad_reviews(cx: Cx) -> Result {
    let path = format!("{REVIEWS}/selfsubjectaccessreviews");
    let status = cx
        .admin
        .post(path.as_str(), &review("SelfSubjectAccessReview", &json!({})))
        .await?
        .fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec", "message":
        "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be \
            specified"}]}}),
    );
    let both =
        json!({"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get", "path": "/"}});
    cx.admin.post(path, &review("SelfSubjectAccessReview", &both)).await?.fails(422, "Invalid");
    let status = cx
        .admin
        .post(
            format!("{REVIEWS}/subjectaccessreviews"),
            &review("SubjectAccessReview", &json!({"resourceAttributes": {"verb": "get"}})),
        )
        .await?
        .fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "spec.user",
            "message": "Invalid value: \"\": at least one of user or group must be specified"}]}}),
    );
    Ok(())
}

async fn reviews_are_not_kept(cx: Cx) -> Result {
    cx.admin.get(format!("{REVIEWS}/subjectaccessreviews")).await?.fails(405, "MethodNotAllowed");
    cx.admin.get("/apis/authentication.k8s.io/v1/tokenreviews/x").await?.fails(404, "NotFound");
    Ok(())
}

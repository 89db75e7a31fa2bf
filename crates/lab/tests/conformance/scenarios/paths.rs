//! Which paths lead where, and which rights they need: nobody gets by a path what rights for it do not cover.

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::authorization::{bind, role, subject, until_status, user};
use crate::context::{Cx, config_map};
use crate::support::Result;
use crate::support::client::Client;
use crate::support::json::text;

scenarios![
    objects_of_the_cluster_are_in_no_namespace,
    objects_of_namespaces_are_nowhere_else,
    rights_in_a_namespace_are_none_to_others,
    nothing_comes_after_a_subresource,
    old_watches,
    old_watches_of_one_object,
    rights_to_one_name,
    names_in_selectors,
];

/// A path that is none.
async fn is_none(client: &Client, method: Method, path: &str) -> Result {
    let answer = client.request(method, path).await?;
    answer.fails_with(404, "NotFound", "the server could not find the requested resource");
    Ok(())
}

async fn is_not_allowed(client: &Client, method: Method, path: &str) -> Result {
    let message = "the server does not allow this method on the requested resource";
    client.request(method, path).await?.fails_with(405, "MethodNotAllowed", message);
    Ok(())
}

async fn objects_of_the_cluster_are_in_no_namespace(cx: Cx) -> Result {
    let own = format!("namespaces/{}", cx.ns);
    for resource in
        ["nodes", "nodes/a", "namespaces", "namespaces/default", "namespaces/default/status", &own]
    {
        is_none(&cx.admin, Method::GET, &cx.core(resource)).await?;
        is_none(&cx.admin, Method::DELETE, &cx.core(resource)).await?;
        is_none(&cx.admin, Method::GET, &format!("/api/v1/watch/namespaces/{}/{resource}", cx.ns)).await?;
    }
    let namespace = json!({"metadata": {"name": format!("{}-2", cx.unique)}});
    cx.admin.post(cx.core("namespaces"), &namespace).await?.fails(404, "NotFound");
    is_none(&cx.admin, Method::GET, &cx.apis("rbac.authorization.k8s.io/v1", "clusterroles")).await?;
    for path in ["", "/status", "/finalize"] {
        is_none(&cx.admin, Method::GET, &format!("/apis/apps/v1/namespaces/{}{path}", cx.ns)).await?;
    }
    cx.read("/api/v1/namespaces/default").await?;
    Ok(())
}

async fn objects_of_namespaces_are_nowhere_else(cx: Cx) -> Result {
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
        is_none(&cx.admin, method, "/api/v1/configmaps/a").await?;
    }
    is_none(&cx.admin, Method::GET, "/api/v1/pods/a/status").await?;
    for method in [Method::POST, Method::PUT, Method::DELETE] {
        is_not_allowed(&cx.admin, method, "/api/v1/configmaps").await?;
    }
    is_none(&cx.admin, Method::POST, "/api/v1/bindings").await?;
    is_none(&cx.admin, Method::POST, "/apis/authorization.k8s.io/v1/localsubjectaccessreviews").await?;
    Ok(())
}

/// Who may do everything to namespaces inside one namespace may do it to that namespace alone.
async fn rights_in_a_namespace_are_none_to_others(cx: Cx) -> Result {
    let user = user(&cx)?;
    role(
        &cx,
        &json!([{"apiGroups": [""], "resources": ["namespaces", "namespaces/finalize"], "verbs": ["*"]}]),
    )
    .await?;
    bind(&cx, "Role", "role", &subject(&cx)).await?;
    until_status(&user, format!("/api/v1/namespaces/{}", cx.ns), 200).await?;
    user.get("/api/v1/namespaces/default").await?.fails(403, "Forbidden");
    user.get("/api/v1/namespaces").await?.fails(403, "Forbidden");
    for path in ["namespaces", "namespaces/default", "namespaces/default/finalize"] {
        is_none(&user, Method::GET, &cx.core(path)).await?;
        is_none(&user, Method::DELETE, &cx.core(path)).await?;
    }
    let status = cx.alice.get(cx.core("namespaces/default")).await?.fails(403, "Forbidden");
    assert_eq!(
        text(&status, "/message"),
        format!(
            "namespaces \"default\" is forbidden: User \"alice\" cannot get resource \"namespaces\" in API group \
             \"\" in the namespace \"{}\"",
            cx.ns
        )
    );
    Ok(())
}

async fn nothing_comes_after_a_subresource(cx: Cx) -> Result {
    is_none(&cx.admin, Method::GET, &cx.core("pods/a/status/more")).await?;
    is_none(&cx.admin, Method::GET, &format!("/api/v1/namespaces/{}/status/more", cx.ns)).await?;
    Ok(())
}

async fn old_watches(cx: Cx) -> Result {
    let old = |rest: &str| format!("/api/v1/watch/namespaces/{}/{rest}", cx.ns);
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        is_not_allowed(&cx.admin, method.clone(), &old("configmaps")).await?;
        is_not_allowed(&cx.admin, method, &old("configmaps/a")).await?;
    }
    is_none(&cx.admin, Method::GET, &old("pods/a/status")).await?;
    is_none(&cx.admin, Method::GET, &old("status")).await?;
    is_none(&cx.admin, Method::GET, "/api/v1/watch/pods/a").await?;
    is_none(&cx.admin, Method::GET, &format!("/api/v1/proxy/namespaces/{}/pods/a", cx.ns)).await?;
    Ok(())
}

/// A selector does not widen a watch of one object, whose name is all that rights were checked for.
async fn old_watches_of_one_object(cx: Cx) -> Result {
    cx.config_map("a", "1").await?;
    cx.config_map("b", "1").await?;
    let old = format!("/api/v1/watch/namespaces/{}/configmaps/a", cx.ns);
    for selector in ["metadata.name!=x", "metadata.name!=a", "metadata.name=b", "metadata.namespace=x"] {
        let answer = cx.admin.get(format!("{old}?timeoutSeconds=1&fieldSelector={selector}")).await?;
        answer.fails_with(400, "BadRequest", "fieldSelector metadata.name doesn't match requested name");
    }
    for selector in ["", "metadata.name=a", "metadata.name=a,metadata.name!=b"] {
        let mut watch = cx.admin.watch(format!("{old}?fieldSelector={selector}")).await?;
        watch.expect_about("ADDED", "a").await?;
        watch.expect_silence(Duration::from_millis(200)).await?;
    }
    let both = "metadata.name=a,metadata.name=b";
    let mut watch = cx.admin.watch(format!("{old}?fieldSelector={both}&timeoutSeconds=1")).await?;
    assert!(watch.rest().await?.is_empty());
    Ok(())
}

async fn rights_to_one_name(cx: Cx) -> Result {
    let user = user(&cx)?;
    cx.config_map("a", "1").await?;
    cx.config_map("b", "1").await?;
    let verbs = ["get", "list", "watch", "deletecollection"];
    let rules =
        json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": verbs}]);
    role(&cx, &rules).await?;
    bind(&cx, "Role", "role", &subject(&cx)).await?;
    until_status(&user, cx.core("configmaps/a"), 200).await?;
    let list = user.get(cx.core("configmaps?fieldSelector=metadata.name=a")).await?.ok(200);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let old = format!("/api/v1/watch/namespaces/{}/configmaps", cx.ns);
    user.watch(format!("{old}/a")).await?.expect_about("ADDED", "a").await?;
    user.get(format!("{old}/a?timeoutSeconds=1&fieldSelector=metadata.name!=x"))
        .await?
        .fails(400, "BadRequest");
    let refused = [
        "configmaps?fieldSelector=metadata.name!=b",
        "configmaps?fieldSelector=metadata.name=b",
        "configmaps?fieldSelector=metadata.name=a&labelSelector=!x,,",
        "configmaps?watch=1&fieldSelector=metadata.name!=b",
        "configmaps",
    ];
    for path in refused {
        user.get(cx.core(path)).await?.fails(403, "Forbidden");
    }
    // Neither of these takes the name out of the selector.
    user.get(format!("{old}?fieldSelector=metadata.name=a")).await?.fails(403, "Forbidden");
    user.delete(cx.core("configmaps?fieldSelector=metadata.name=a")).await?.fails(403, "Forbidden");
    Ok(())
}

async fn names_in_selectors(cx: Cx) -> Result {
    for (selector, named) in [
        ("metadata.name=a", "configmaps \"a\""),
        ("metadata.name=a,metadata.name=b", "configmaps \"a\""),
        ("metadata.name!=a", "configmaps"),
        ("metadata.name=a/b", "configmaps"),
        ("metadata.name=..", "configmaps"),
        ("metadata.name=a%2525b", "configmaps"),
    ] {
        let path = cx.core(&format!("configmaps?fieldSelector={selector}"));
        let status = cx.alice.get(path).await?.fails(403, "Forbidden");
        assert_eq!(
            text(&status, "/message"),
            format!(
                "{named} is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \"\" in the \
                 namespace \"{}\"",
                cx.ns
            )
        );
    }
    // An escaped slash divides like any other.
    cx.create(cx.core("configmaps"), &config_map("a", "1")).await?;
    cx.read(cx.core("configmaps%2Fa")).await?;
    Ok(())
}

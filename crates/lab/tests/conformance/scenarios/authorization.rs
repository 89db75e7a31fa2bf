//! Who may do what: roles and their bindings.

use std::time::Duration;

use serde_json::{Value, json};

use crate::context::{Cx, config_map, deployment};
use crate::support::Result;
use crate::support::client::Client;
use crate::support::json::{has, names, text};

scenarios![
    role_in_a_namespace,
    cluster_role_in_a_namespace,
    cluster_role_everywhere,
    groups,
    service_accounts,
    resource_names,
    subresources,
    stars,
    non_resource_paths,
    verbs_are_apart,
    removing_a_binding,
    aggregated_roles,
    no_escalation_by_role,
    no_escalation_by_binding,
    escalation_by_right,
    role_reference_is_fixed,
    bad_roles,
    built_in_roles,
    built_in_roles_allow,
    namespaces_are_apart,
    patch_needs_patch_and_apply_may_create,
];

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A user nobody else is: alice would have the rights of all scenarios together.
pub(super) fn user(cx: &Cx) -> Result<Client> {
    cx.admin.with_header("impersonate-user", &cx.unique)
}

pub(super) fn subject(cx: &Cx) -> Value {
    json!([{"kind": "User", "name": cx.unique, "apiGroup": "rbac.authorization.k8s.io"}])
}

pub(super) async fn role(cx: &Cx, rules: &Value) -> Result<Value> {
    let role = json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "role"}, "rules": rules});
    cx.create(cx.apis(RBAC, "roles"), &role).await
}

async fn cluster_role(cx: &Cx, rules: &Value) -> Result<Value> {
    let role =
        json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": cx.unique}, "rules": rules});
    cx.create(format!("/apis/{RBAC}/clusterroles"), &role).await
}

pub(super) async fn bind(cx: &Cx, kind: &str, name: &str, subjects: &Value) -> Result<Value> {
    let binding = json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "binding"},
        "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}});
    cx.create(cx.apis(RBAC, "rolebindings"), &binding).await
}

async fn bind_everywhere(cx: &Cx, subjects: &Value) -> Result<Value> {
    let binding = json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": cx.unique},
        "subjects": subjects,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cx.unique}});
    cx.create(format!("/apis/{RBAC}/clusterrolebindings"), &binding).await
}

/// Asks until the answer has this status: rights take a moment to be known.
pub(super) async fn until_status(client: &Client, path: impl Into<String>, status: u16) -> Result<Value> {
    let path = path.into();
    let mut last = None;
    for _ in 0..200 {
        let answer = client.get(path.as_str()).await?;
        if answer.status == status {
            return Ok(answer.json());
        }
        last = Some(answer);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(format!("never {status}: {}", last.map(|answer| answer.to_string()).unwrap_or_default()).into())
}

async fn role_in_a_namespace(cx: Cx) -> Result {
    let user = user(&cx)?;
    user.get(cx.core("configmaps")).await?.fails(403, "Forbidden");
    role(&cx, &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create"]}]))
        .await?;
    bind(&cx, "Role", "role", &subject(&cx)).await?;
    until_status(&user, cx.core("configmaps"), 200).await?;
    user.post(cx.core("configmaps"), &config_map("a", "1")).await?.ok(201);
    user.get(cx.core("configmaps/a")).await?.ok(200);
    user.get("/api/v1/namespaces/default/configmaps").await?.fails(403, "Forbidden");
    user.get("/api/v1/configmaps").await?.fails(403, "Forbidden");
    user.get(cx.core("secrets")).await?.fails(403, "Forbidden");
    Ok(())
}

async fn cluster_role_in_a_namespace(cx: Cx) -> Result {
    let user = user(&cx)?;
    cluster_role(&cx, &json!([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]}]))
        .await?;
    bind(&cx, "ClusterRole", &cx.unique, &subject(&cx)).await?;
    until_status(&user, cx.apis("apps/v1", "deployments"), 200).await?;
    user.get("/apis/apps/v1/deployments").await?.fails(403, "Forbidden");
    Ok(())
}

async fn cluster_role_everywhere(cx: Cx) -> Result {
    let user = user(&cx)?;
    cluster_role(
        &cx,
        &json!([{"apiGroups": ["", "apps"], "resources": ["nodes", "deployments"], "verbs": ["list"]}]),
    )
    .await?;
    bind_everywhere(&cx, &subject(&cx)).await?;
    until_status(&user, "/api/v1/nodes", 200).await?;
    user.get("/apis/apps/v1/deployments").await?.ok(200);
    user.get(cx.apis("apps/v1", "deployments")).await?.ok(200);
    Ok(())
}

async fn groups(cx: Cx) -> Result {
    role(&cx, &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}])).await?;
    let members = json!([{"kind": "Group", "name": format!("group-{}", cx.unique),
        "apiGroup": "rbac.authorization.k8s.io"}]);
    bind(&cx, "Role", "role", &members).await?;
    let member = user(&cx)?.with_header("impersonate-group", &format!("group-{}", cx.unique))?;
    until_status(&member, cx.core("configmaps"), 200).await?;
    user(&cx)?.get(cx.core("configmaps")).await?.fails(403, "Forbidden");
    Ok(())
}

async fn service_accounts(cx: Cx) -> Result {
    role(&cx, &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}])).await?;
    bind(&cx, "Role", "role", &json!([{"kind": "ServiceAccount", "name": "robot", "namespace": cx.ns}]))
        .await?;
    let robot =
        cx.admin.with_header("impersonate-user", &format!("system:serviceaccount:{}:robot", cx.ns))?;
    until_status(&robot, cx.core("configmaps"), 200).await?;
    let other = cx.admin.with_header("impersonate-user", "system:serviceaccount:default:robot")?;
    other.get(cx.core("configmaps")).await?.fails(403, "Forbidden");
    Ok(())
}

async fn resource_names(cx: Cx) -> Result {
    let user = user(&cx)?;
    cx.config_map("a", "1").await?;
    cx.config_map("b", "1").await?;
    role(
        &cx,
        &json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"],
        "verbs": ["get", "list", "watch", "create", "delete"]}]),
    )
    .await?;
    bind(&cx, "Role", "role", &subject(&cx)).await?;
    until_status(&user, cx.core("configmaps/a"), 200).await?;
    user.get(cx.core("configmaps/b")).await?.fails(403, "Forbidden");
    user.get(cx.core("configmaps")).await?.fails(403, "Forbidden");
    // A list of one name is a request about that name.
    let list = user.get(cx.core("configmaps?fieldSelector=metadata.name%3Da")).await?.ok(200);
    assert_eq!(names(&list), ["a"]);
    user.get(cx.core("configmaps?fieldSelector=metadata.name%3Db")).await?.fails(403, "Forbidden");
    // Creation has no name yet when rights are checked.
    user.post(cx.core("configmaps"), &config_map("a", "1")).await?.fails(403, "Forbidden");
    user.delete(cx.core("configmaps/b")).await?.fails(403, "Forbidden");
    user.delete(cx.core("configmaps/a")).await?.ok(200);
    Ok(())
}

async fn subresources(cx: Cx) -> Result {
    let user = user(&cx)?;
    cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    role(
        &cx,
        &json!([{"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]}]),
    )
    .await?;
    bind(&cx, "Role", "role", &subject(&cx)).await?;
    until_status(&user, cx.apis("apps/v1", "deployments/a/scale"), 200).await?;
    user.merge_patch(cx.apis("apps/v1", "deployments/a/scale"), &json!({"spec": {"replicas": 2}}))
        .await?
        .ok(200);
    user.get(cx.apis("apps/v1", "deployments/a")).await?.fails(403, "Forbidden");
    let status = user.get(cx.apis("apps/v1", "deployments/a/status")).await?.fails(403, "Forbidden");
    assert!(
        text(&status, "/message")
            .contains("cannot get resource \"deployments/status\" in API group \"apps\""),
        "{status}"
    );
    Ok(())
}

async fn stars(cx: Cx) -> Result {
    let user = user(&cx)?;
    cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    role(
        &cx,
        &json!([{"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["get"]},
        {"apiGroups": ["batch"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["*"], "resources": ["configmaps"], "verbs": ["list"]}]),
    )
    .await?;
    bind(&cx, "Role", "role", &subject(&cx)).await?;
    until_status(&user, cx.apis("apps/v1", "deployments/a/scale"), 200).await?;
    user.get(cx.apis("apps/v1", "deployments/a")).await?.fails(403, "Forbidden");
    user.get(cx.apis("batch/v1", "jobs")).await?.ok(200);
    user.delete(cx.apis("batch/v1", "cronjobs")).await?.ok(200);
    user.get(cx.apis("batch/v1", "jobs/none/status")).await?.fails(404, "NotFound");
    user.get(cx.core("configmaps")).await?.ok(200);
    Ok(())
}

async fn non_resource_paths(cx: Cx) -> Result {
    let user = user(&cx)?;
    user.get("/metrics").await?.fails(403, "Forbidden");
    cluster_role(&cx, &json!([{"nonResourceURLs": ["/metrics", "/logs/*"], "verbs": ["get"]}])).await?;
    bind_everywhere(&cx, &subject(&cx)).await?;
    for attempt in 0.. {
        if user.get("/metrics").await?.status != 403 {
            break;
        }
        assert!(attempt < 200, "never allowed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_ne!(user.get("/logs/x").await?.status, 403);
    user.get("/debug/pprof/").await?.fails(403, "Forbidden");
    Ok(())
}

async fn verbs_are_apart(cx: Cx) -> Result {
    let user = user(&cx)?;
    cx.config_map("a", "1").await?;
    role(
        &cx,
        &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "delete", "update"]}]),
    )
    .await?;
    bind(&cx, "Role", "role", &subject(&cx)).await?;
    until_status(&user, cx.core("configmaps/a"), 200).await?;
    let refused = [
        ("list", user.get(cx.core("configmaps")).await?),
        ("watch", user.get(cx.core("configmaps?watch=1")).await?),
        ("create", user.post(cx.core("configmaps"), &config_map("b", "1")).await?),
        ("patch", user.merge_patch(cx.core("configmaps/a"), &json!({})).await?),
        ("deletecollection", user.delete(cx.core("configmaps")).await?),
    ];
    for (verb, answer) in refused {
        let status = answer.fails(403, "Forbidden");
        assert!(
            text(&status, "/message").contains(&format!("cannot {verb} resource \"configmaps\"")),
            "{status}"
        );
    }
    user.put(cx.core("configmaps/a"), &config_map("a", "2")).await?.ok(200);
    user.delete(cx.core("configmaps/a")).await?.ok(200);
    Ok(())
}

async fn removing_a_binding(cx: Cx) -> Result {
    let user = user(&cx)?;
    role(&cx, &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}])).await?;
    bind(&cx, "Role", "role", &subject(&cx)).await?;
    until_status(&user, cx.core("configmaps"), 200).await?;
    cx.admin.delete(cx.apis(RBAC, "rolebindings/binding")).await?.ok(200);
    until_status(&user, cx.core("configmaps"), 403).await?;
    Ok(())
}

async fn aggregated_roles(cx: Cx) -> Result {
    let path = format!("/apis/{RBAC}/clusterroles");
    let whole = json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": cx.unique},
        "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part-of": cx.unique}}]}});
    cx.create(path.as_str(), &whole).await?;
    let part = json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": format!("{}-part",
        cx.unique), "labels": {"part-of": cx.unique}},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]});
    cx.create(path.as_str(), &part).await?;
    cx.until(format!("{path}/{}", cx.unique), "the rules are gathered", |_, role| {
        role["rules"] == json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}])
    })
    .await?;
    cx.admin.delete(format!("{path}/{}-part", cx.unique)).await?.ok(200);
    cx.until(format!("{path}/{}", cx.unique), "the rules are gone", |_, role| {
        role["rules"].as_array().is_none_or(Vec::is_empty)
    })
    .await?;
    Ok(())
}

async fn no_escalation_by_role(cx: Cx) -> Result {
    let user = user(&cx)?;
    role(
        &cx,
        &json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["list",
        "create"]}, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]),
    )
    .await?;
    bind(&cx, "Role", "role", &subject(&cx)).await?;
    until_status(&user, cx.apis(RBAC, "roles"), 200).await?;
    let wanted = |resource: &str| {
        json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": resource},
        "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]})
    };
    user.post(cx.apis(RBAC, "roles"), &wanted("configmaps")).await?.ok(201);
    let status = user.post(cx.apis(RBAC, "roles"), &wanted("secrets")).await?.fails(403, "Forbidden");
    has(
        &status,
        &json!({"details": {"name": "secrets", "group": "rbac.authorization.k8s.io", "kind": "roles"}}),
    );
    assert_eq!(
        text(&status, "/message"),
        format!(
            "roles.rbac.authorization.k8s.io \"secrets\" is forbidden: user \"{}\" \
                (groups=[\"system:authenticated\"]) is \
            attempting to grant RBAC permissions not currently held:\n{{APIGroups:[\"\"], \
            Resources:[\"secrets\"], Verbs:[\"get\"]}}",
            cx.unique
        )
    );
    Ok(())
}

async fn no_escalation_by_binding(cx: Cx) -> Result {
    let user = user(&cx)?;
    role(
        &cx,
        &json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["*"]}]),
    )
    .await?;
    bind(&cx, "Role", "role", &subject(&cx)).await?;
    until_status(&user, cx.apis(RBAC, "rolebindings"), 200).await?;
    let wanted = json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "more"},
        "subjects": subject(&cx),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}});
    let status = user.post(cx.apis(RBAC, "rolebindings"), &wanted).await?.fails(403, "Forbidden");
    assert!(
        text(&status, "/message").contains("is attempting to grant RBAC permissions not currently held:\n"),
        "{status}"
    );
    // What one has oneself can be given away.
    let mut wanted = wanted;
    wanted["roleRef"]["kind"] = "Role".into();
    wanted["roleRef"]["name"] = "role".into();
    wanted["subjects"] =
        json!([{"kind": "User", "name": "somebody", "apiGroup": "rbac.authorization.k8s.io"}]);
    user.post(cx.apis(RBAC, "rolebindings"), &wanted).await?.ok(201);
    Ok(())
}

async fn escalation_by_right(cx: Cx) -> Result {
    let user = user(&cx)?;
    cluster_role(
        &cx,
        &json!([
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create", "list",
                "escalate"]},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["create"]},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
            "resourceNames": ["view"], "verbs": ["bind"]},
        ]),
    )
    .await?;
    bind_everywhere(&cx, &subject(&cx)).await?;
    until_status(&user, cx.apis(RBAC, "roles"), 200).await?;
    let role = json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "x"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    user.post(cx.apis(RBAC, "roles"), &role).await?.ok(201);
    let binding = |name: &str| {
        json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": name},
            "subjects": subject(&cx),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}})
    };
    user.post(cx.apis(RBAC, "rolebindings"), &binding("view")).await?.ok(201);
    user.post(cx.apis(RBAC, "rolebindings"), &binding("edit")).await?.fails(403, "Forbidden");
    Ok(())
}

async fn role_reference_is_fixed(cx: Cx) -> Result {
    role(&cx, &json!([])).await?;
    let mut binding = bind(&cx, "Role", "role", &subject(&cx)).await?;
    binding["roleRef"]["name"] = "other".into();
    let status = cx.admin.put(cx.apis(RBAC, "rolebindings/binding"), &binding).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "roleRef", "message":
        "Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"other\"}: \
            field is immutable"}]}}),
    );
    Ok(())
}

async fn bad_roles(cx: Cx) -> Result {
    let try_role = |rules: Value| {
        let role = json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "bad"}, "rules": rules});
        cx.admin.post(cx.apis(RBAC, "roles"), &role)
    };
    let status = try_role(json!([{"apiGroups": [""], "resources": ["pods"]}])).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "rules[0].verbs", "message": "Required value"}]}}));
    let status = try_role(json!([{"verbs": ["get"]}])).await?.fails(422, "Invalid");
    has(
        &status,
        &json!({"details": {"causes": [{"field": "rules[0].apiGroups"}, {"field": "rules[0].resources"}]}}),
    );
    let status =
        try_role(json!([{"nonResourceURLs": ["/x"], "verbs": ["get"]}])).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "rules[0].nonResourceURLs"}]}}));
    let binding = json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "bad"},
        "subjects": [{"kind": "Thing", "name": "x"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Nothing", "name": "x"}});
    let status = cx.admin.post(cx.apis(RBAC, "rolebindings"), &binding).await?.fails(422, "Invalid");
    has(&status, &json!({"details": {"causes": [{"field": "roleRef.kind"}, {"field": "subjects[0].kind"}]}}));
    Ok(())
}

async fn built_in_roles(cx: Cx) -> Result {
    let admin = cx.read(format!("/apis/{RBAC}/clusterroles/cluster-admin")).await?;
    has(
        &admin,
        &json!({"metadata": {"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"],
        "verbs": ["*"]}]}),
    );
    for name in [
        "admin",
        "edit",
        "view",
        "system:discovery",
        "system:basic-user",
        "system:public-info-viewer",
        "system:node",
        "system:kube-controller-manager",
        "system:kube-scheduler",
        "system:aggregate-to-view",
        "system:auth-delegator",
    ] {
        cx.read(format!("/apis/{RBAC}/clusterroles/{name}")).await?;
    }
    let binding = cx.read(format!("/apis/{RBAC}/clusterrolebindings/cluster-admin")).await?;
    has(&binding, &json!({"subjects": [{"kind": "Group", "name": "system:masters"}]}));
    let edit = cx
        .until(format!("/apis/{RBAC}/clusterroles/edit"), "its rules are gathered", |_, role| {
            role["rules"].as_array().is_some_and(|rules| rules.len() > 5)
        })
        .await?;
    has(
        &edit,
        &json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}]}}),
    );
    Ok(())
}

async fn built_in_roles_allow(cx: Cx) -> Result {
    let user = user(&cx)?;
    bind(&cx, "ClusterRole", "edit", &subject(&cx)).await?;
    until_status(&user, cx.core("configmaps"), 200).await?;
    user.post(cx.core("configmaps"), &config_map("a", "1")).await?.ok(201);
    user.get(cx.core("secrets")).await?.ok(200);
    user.get(cx.apis(RBAC, "roles")).await?.fails(403, "Forbidden");
    user.post(cx.apis("apps/v1", "deployments"), &deployment("a")).await?.ok(201);
    user.merge_patch(cx.apis("apps/v1", "deployments/a/status"), &json!({"status": {}}))
        .await?
        .fails(403, "Forbidden");
    Ok(())
}

async fn namespaces_are_apart(cx: Cx) -> Result {
    let user = user(&cx)?;
    role(&cx, &json!([{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}])).await?;
    bind(&cx, "Role", "role", &subject(&cx)).await?;
    // A namespace belongs to itself.
    until_status(&user, format!("/api/v1/namespaces/{}", cx.ns), 200).await?;
    user.get("/api/v1/namespaces/default").await?.fails(403, "Forbidden");
    user.get("/api/v1/namespaces").await?.fails(403, "Forbidden");
    Ok(())
}

async fn patch_needs_patch_and_apply_may_create(cx: Cx) -> Result {
    let user = user(&cx)?;
    role(&cx, &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "patch"]}]))
        .await?;
    bind(&cx, "Role", "role", &subject(&cx)).await?;
    until_status(&user, cx.core("configmaps"), 200).await?;
    // Applying something new is creating it.
    let status = user
        .apply(cx.core("configmaps/a?fieldManager=m"), &config_map("a", "1"))
        .await?
        .fails(403, "Forbidden");
    assert!(text(&status, "/message").contains("cannot create resource \"configmaps\""), "{status}");
    cx.config_map("a", "1").await?;
    user.merge_patch(cx.core("configmaps/a"), &json!({"data": {"key": "2"}})).await?.ok(200);
    Ok(())
}

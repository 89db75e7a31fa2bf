//! What the server says about itself: versions, health, and the resources it has.

use std::time::Duration;

use serde_json::{Value, json};

use crate::context::Cx;
use crate::crds::{definition, establish};
use crate::support::Result;
use crate::support::json::{has, text};

scenarios![
    version,
    health,
    root_paths,
    legacy_versions,
    core_resources,
    groups,
    one_group,
    resources_of_a_group,
    unknown_groups,
    aggregated_core,
    aggregated_groups,
    aggregated_beta,
    aggregated_is_cached_by_tag,
    every_resource_can_be_listed,
    custom_resources_come_and_go,
    custom_resources_aggregated,
    discovery_is_for_everybody_with_a_name,
];

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The entry of a list that has this name.
fn named<'list>(list: &'list Value, name: &str) -> &'list Value {
    list.as_array().and_then(|items| items.iter().find(|item| item["name"] == name)).unwrap_or(&Value::Null)
}

async fn version(cx: Cx) -> Result {
    let version = cx.anonymous()?.get("/version").await?.ok(200);
    has(&version, &json!({"major": "1", "minor": version["minor"]}));
    for field in ["gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "platform", "minor"] {
        assert!(version[field].is_string(), "{field} in {version}");
    }
    assert!(text(&version, "/gitVersion").starts_with("v1."), "{version}");
    Ok(())
}

async fn health(cx: Cx) -> Result {
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping", "/livez/ping", "/healthz/ping"] {
        let answer = cx.admin.get(path).await?;
        answer.ok(200);
        assert_eq!(answer.text(), "ok", "{path}");
        assert!(answer.header("content-type").starts_with("text/plain"), "{path}");
    }
    let answer = cx.admin.get("/readyz?verbose").await?;
    assert!(answer.text().starts_with("[+]ping ok\n"), "{answer}");
    assert!(answer.text().ends_with("readyz check passed\n"), "{answer}");
    cx.anonymous()?.get("/healthz").await?.ok(200);
    Ok(())
}

async fn root_paths(cx: Cx) -> Result {
    let root = cx.read("/").await?;
    let paths: Vec<&str> = root["paths"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for path in ["/api", "/api/v1", "/apis", "/apis/apps/v1", "/healthz", "/openapi/v3", "/version"] {
        assert!(paths.contains(&path), "{path} in {root}");
    }
    Ok(())
}

async fn legacy_versions(cx: Cx) -> Result {
    let answer = cx.admin.get("/api").await?;
    let versions = answer.ok(200);
    has(&versions, &json!({"kind": "APIVersions", "versions": ["v1"]}));
    has(&versions["serverAddressByClientCIDRs"], &json!([{"clientCIDR": "0.0.0.0/0"}]));
    assert_eq!(answer.header("content-type"), "application/json");
    Ok(())
}

async fn core_resources(cx: Cx) -> Result {
    let list = cx.read("/api/v1").await?;
    has(&list, &json!({"kind": "APIResourceList", "groupVersion": "v1"}));
    let resources = &list["resources"];
    has(
        named(resources, "pods"),
        &json!({
            "singularName": "pod", "namespaced": true, "kind": "Pod", "shortNames": ["po"],
                "categories": ["all"],
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        }),
    );
    assert!(!text(named(resources, "pods"), "/storageVersionHash").is_empty());
    has(
        named(resources, "namespaces"),
        &json!({"namespaced": false, "verbs": ["create", "delete", "get", "list", "patch", "update",
            "watch"]}),
    );
    assert_eq!(
        named(resources, "pods/status"),
        &json!({"name": "pods/status", "singularName": "", "namespaced": true, "kind": "Pod",
            "verbs": ["get", "patch", "update"]})
    );
    assert_eq!(
        named(resources, "pods/eviction"),
        &json!({"name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy",
            "version": "v1", "kind": "Eviction", "verbs": ["create"]})
    );
    has(named(resources, "serviceaccounts/token"), &json!({"kind": "TokenRequest", "verbs": ["create"]}));
    has(named(resources, "bindings"), &json!({"kind": "Binding", "verbs": ["create"]}));
    for (name, short) in
        [("configmaps", "cm"), ("services", "svc"), ("persistentvolumeclaims", "pvc"), ("nodes", "no")]
    {
        has(named(resources, name), &json!({"shortNames": [short]}));
    }
    Ok(())
}

async fn groups(cx: Cx) -> Result {
    let list = cx.read("/apis").await?;
    has(&list, &json!({"kind": "APIGroupList", "apiVersion": "v1"}));
    for group in [
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "admissionregistration.k8s.io",
    ] {
        let version = format!("{group}/v1");
        let found = named(&list["groups"], group);
        assert!(
            found["versions"].as_array().into_iter().flatten().any(|entry| entry["groupVersion"] == *version),
            "{group} in {list}"
        );
    }
    Ok(())
}

async fn one_group(cx: Cx) -> Result {
    let group = cx.read("/apis/apps").await?;
    assert_eq!(
        group,
        json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": "apps",
            "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
        })
    );
    let group = cx.read("/apis/autoscaling").await?;
    has(&group, &json!({"preferredVersion": {"groupVersion": "autoscaling/v2", "version": "v2"}}));
    Ok(())
}

async fn resources_of_a_group(cx: Cx) -> Result {
    let list = cx.read("/apis/apps/v1").await?;
    has(&list, &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apps/v1"}));
    has(
        named(&list["resources"], "deployments"),
        &json!({"kind": "Deployment", "shortNames": ["deploy"], "categories": ["all"],
            "singularName": "deployment"}),
    );
    assert_eq!(
        named(&list["resources"], "deployments/scale"),
        &json!({"name": "deployments/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
            "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]})
    );
    Ok(())
}

async fn unknown_groups(cx: Cx) -> Result {
    for path in ["/apis/none.example.com", "/apis/none.example.com/v1/things"] {
        let answer = cx.admin.get(path).await?;
        assert_eq!((answer.status, answer.text().as_str()), (404, "404 page not found\n"), "{path}");
    }
    // What is below a group of the server itself is answered in its own way.
    for path in ["/api/v7", "/apis/apps/v7", "/apis/apps/v1/things", "/api/v1/things"] {
        let answer = cx.admin.get(path).await?;
        let status = answer.fails_with(404, "NotFound", "the server could not find the requested resource");
        assert_eq!(status["details"], json!({}), "{path}");
    }
    Ok(())
}

async fn aggregated_core(cx: Cx) -> Result {
    let answer = cx.admin.get("/api").accept(&format!("{AGGREGATED},application/json")).await?;
    let list = answer.ok(200);
    assert_eq!(answer.header("content-type"), AGGREGATED);
    has(
        &list,
        &json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": [{
            "metadata": {"name": null}, "versions": [{"version": "v1", "freshness": "Current"}],
        }]}),
    );
    let resources = list["items"][0]["versions"][0]["resources"].as_array().cloned().unwrap_or_default();
    let pods = resources.iter().find(|entry| entry["resource"] == "pods").cloned().unwrap_or_default();
    has(
        &pods,
        &json!({
            "responseKind": {"group": "", "version": "", "kind": "Pod"}, "scope": "Namespaced",
            "singularResource": "pod", "shortNames": ["po"], "categories": ["all"],
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        }),
    );
    let eviction = pods["subresources"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|entry| entry["subresource"] == "eviction");
    assert_eq!(
        eviction,
        Some(&json!({"subresource": "eviction", "verbs": ["create"],
            "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"}}))
    );
    Ok(())
}

async fn aggregated_groups(cx: Cx) -> Result {
    let list = cx.admin.get("/apis").accept(AGGREGATED).await?.ok(200);
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let plain = cx.read("/apis").await?;
    for group in
        ["apps", "batch", "rbac.authorization.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io"]
    {
        let found = items.iter().find(|item| item["metadata"]["name"] == group);
        assert!(found.is_some(), "{group}");
        // The first version is the preferred one.
        let preferred = named(&plain["groups"], group)["preferredVersion"]["version"].clone();
        assert_eq!(found.map(|item| &item["versions"][0]["version"]), Some(&preferred), "{group}");
    }
    let policy = items.iter().find(|item| item["metadata"]["name"] == "rbac.authorization.k8s.io");
    let roles = policy.and_then(|item| item["versions"][0]["resources"].as_array()).into_iter().flatten();
    let scopes: Vec<_> = roles.map(|entry| (text(entry, "/resource"), text(entry, "/scope"))).collect();
    for expected in [("clusterroles", "Cluster"), ("roles", "Namespaced")] {
        assert!(scopes.contains(&expected), "{scopes:?}");
    }
    Ok(())
}

async fn aggregated_beta(cx: Cx) -> Result {
    let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    let answer = cx.admin.get("/apis").accept(&format!("{AGGREGATED},{beta},application/json")).await?;
    assert_eq!(answer.header("content-type"), AGGREGATED);
    // Who knows neither gets the plain form.
    let answer = cx.admin.get("/apis").accept("application/json").await?;
    assert_eq!(answer.json()["kind"], "APIGroupList");
    let answer = cx.admin.get("/apis").accept("*/*").await?;
    assert_eq!(answer.json()["kind"], "APIGroupList");
    Ok(())
}

async fn aggregated_is_cached_by_tag(cx: Cx) -> Result {
    // Other scenarios add groups all the time, so the core is looked at.
    let answer = cx.admin.get("/api").accept(AGGREGATED).await?;
    let tag = answer.header("etag").to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 10, "{tag}");
    assert_eq!(answer.header("vary"), "Accept");
    let again = cx.admin.get("/api").accept(AGGREGATED).header("if-none-match", &tag).await?;
    assert_eq!((again.status, again.body.len()), (304, 0));
    let other = cx.admin.get("/api").accept(AGGREGATED).header("if-none-match", "\"x\"").await?;
    other.ok(200);
    Ok(())
}

async fn every_resource_can_be_listed(cx: Cx) -> Result {
    let mut roots = vec!["/api/v1".to_owned()];
    for group in cx.read("/apis").await?["groups"].as_array().into_iter().flatten() {
        // Groups of other scenarios may go away at any time.
        if !text(group, "/name").ends_with(".example.com") {
            roots.push(format!("/apis/{}", text(group, "/preferredVersion/groupVersion")));
        }
    }
    let mut lists = 0;
    for root in roots {
        let resources = cx.read(root.as_str()).await?["resources"].clone();
        for resource in resources.as_array().into_iter().flatten() {
            let can = |verb: &str| {
                resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|has| has == verb))
            };
            let name = text(resource, "/name");
            if !can("list") || name.contains('/') {
                continue;
            }
            let list = cx.read(format!("{root}/{name}?limit=1")).await?;
            assert_eq!(text(&list, "/kind"), format!("{}List", text(resource, "/kind")), "{root}/{name}");
            assert!(list["items"].is_array(), "{root}/{name}");
            lists += 1;
        }
    }
    assert!(lists > 50, "only {lists} resources");
    Ok(())
}

async fn custom_resources_come_and_go(cx: Cx) -> Result {
    let mut crd = definition(&cx, &json!({"type": "object"}));
    crd["spec"]["names"]["shortNames"] = json!(["wi"]);
    crd["spec"]["names"]["categories"] = json!(["all", "things"]);
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    establish(&cx, &crd).await?;
    let group = cx.read(format!("/apis/{}", cx.group)).await?;
    let entry = json!({"groupVersion": format!("{}/v1", cx.group), "version": "v1"});
    has(&group, &json!({"kind": "APIGroup", "versions": [entry], "preferredVersion": entry}));
    let list = cx.read(format!("/apis/{}/v1", cx.group)).await?;
    has(
        named(&list["resources"], "widgets"),
        &json!({
            "singularName": "widget", "namespaced": true, "kind": "Widget",
            "shortNames": ["wi"], "categories": ["all", "things"],
            "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
        }),
    );
    has(
        named(&list["resources"], "widgets/status"),
        &json!({"kind": "Widget", "verbs": ["get", "patch", "update"]}),
    );
    cx.admin
        .delete(format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{}", cx.group))
        .await?
        .ok(200);
    cx.until(format!("/apis/{}/v1", cx.group), "the group is gone", |status, _| status == 404).await?;
    let group = cx.group.clone();
    cx.until("/apis", "the group is not listed", |_, list| named(&list["groups"], &group).is_null()).await?;
    Ok(())
}

async fn custom_resources_aggregated(cx: Cx) -> Result {
    let mut crd = definition(&cx, &json!({"type": "object"}));
    crd["spec"]["versions"][0]["subresources"] =
        json!({"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    establish(&cx, &crd).await?;
    for _ in 0..100 {
        let list = cx.admin.get("/apis").accept(AGGREGATED).await?.ok(200);
        let items = list["items"].as_array().into_iter().flatten();
        if let Some(group) = items.into_iter().find(|item| item["metadata"]["name"] == *cx.group) {
            has(
                &group["versions"],
                &json!([{"version": "v1", "freshness": "Current", "resources": [{
                    "resource": "widgets", "singularResource": "widget", "scope": "Namespaced",
                    "responseKind": {"group": cx.group, "version": "v1", "kind": "Widget"},
                    "subresources": [
                        {"subresource": "status", "verbs": ["get", "patch", "update"]},
                        {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1",
                        "kind": "Scale"}},
                    ],
                }]}]),
            );
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Err("the group never appears".into())
}

async fn discovery_is_for_everybody_with_a_name(cx: Cx) -> Result {
    for path in ["/api", "/apis", "/api/v1", "/apis/apps/v1", "/version", "/openapi/v3"] {
        cx.alice.get(path).await?.ok(200);
    }
    let status = cx.anonymous()?.get("/apis").await?.fails(403, "Forbidden");
    assert_eq!(status["message"], "forbidden: User \"system:anonymous\" cannot get path \"/apis\"");
    Ok(())
}

//! The end of namespaces, and what they begin with.

use serde_json::json;

use crate::{Cluster, condition, config_map, widget};

#[tokio::test(start_paused = true)]
async fn every_namespace_has_an_account_and_the_authority() {
    let cluster = Cluster::start().await;
    let path = cluster.namespace("a").await;
    cluster.until(&format!("{path}/serviceaccounts/default"), |code, _| code == 200).await;
    let map = format!("{path}/configmaps/kube-root-ca.crt");
    let first = cluster.until(&map, |code, _| code == 200).await;
    cluster.patch(&map, json!({"data": {"ca.crt": "other", "more": "x"}})).await;
    cluster.until(&map, |_, map| map["data"] == first["data"]).await;
    cluster.delete(&map).await;
    cluster.delete(&format!("{path}/serviceaccounts/default")).await;
    cluster.until(&map, |code, map| code == 200 && map["metadata"]["uid"] != first["metadata"]["uid"]).await;
    cluster.until(&format!("{path}/serviceaccounts/default"), |code, _| code == 200).await;
}

#[tokio::test(start_paused = true)]
async fn pods_go_first_and_nothing_is_said_about_the_rest() {
    let cluster = Cluster::start().await;
    cluster.define_widgets().await;
    let path = cluster.namespace("a").await;
    cluster.until(&format!("{path}/serviceaccounts/default"), |code, _| code == 200).await;
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "finalizers": ["example.com/p"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.create(&format!("{path}/pods"), pod.take()).await;
    let mut held = widget("w");
    held["metadata"]["finalizers"] = json!(["example.com/w"]);
    let widgets = "/apis/example.com/v1/namespaces/a/widgets";
    cluster.create(widgets, held).await;
    cluster.delete(&path).await;
    let waiting = cluster
        .until(&path, |_, namespace| !condition(namespace, "NamespaceContentRemaining").is_empty())
        .await;
    assert_eq!(condition(&waiting, "NamespaceContentRemaining"), "False");
    assert!(cluster.read(&format!("{widgets}/w")).await["metadata"]["deletionTimestamp"].is_null());
    cluster.patch(&format!("{path}/pods/p"), json!({"metadata": {"finalizers": null}})).await;
    let waiting = cluster
        .until(&path, |_, namespace| condition(namespace, "NamespaceContentRemaining") == "True")
        .await;
    assert_eq!(
        waiting["status"]["conditions"][3]["message"],
        "Some resources are remaining: widgets.example.com has 1 resource instances"
    );
    assert_eq!(cluster.post(widgets, &widget("new")).await.0, 403);
    cluster.patch(&format!("{widgets}/w"), json!({"metadata": {"finalizers": null}})).await;
    cluster.until_gone(&path).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_nobody_stops_is_told_of_when_its_time_is_over() {
    let cluster = Cluster::start().await;
    let path = cluster.namespace("a").await;
    cluster.until(&format!("{path}/serviceaccounts/default"), |code, _| code == 200).await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 20}});
    cluster.create(&format!("{path}/pods"), pod).await;
    cluster.delete(&path).await;
    cluster.quiet().await;
    assert_eq!(condition(&cluster.read(&path).await, "NamespaceDeletionContentFailure"), "False");
    let failed = cluster
        .until(&path, |_, namespace| condition(namespace, "NamespaceDeletionContentFailure") == "True")
        .await;
    assert_eq!(
        failed["status"]["conditions"][2]["message"],
        "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: a for gvr: /v1, Resource=pods"
    );
    cluster.delete(&format!("{path}/pods/p?gracePeriodSeconds=0")).await;
    cluster.until_gone(&path).await;
}

#[tokio::test(start_paused = true)]
async fn other_finalizers_keep_an_empty_namespace() {
    let cluster = Cluster::start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "finalizers": ["example.com/m"]},
        "spec": {"finalizers": ["example.com/s"]}});
    cluster.create("/api/v1/namespaces", namespace).await;
    let path = "/api/v1/namespaces/a";
    cluster.create(&format!("{path}/configmaps"), config_map("c")).await;
    cluster.delete(path).await;
    let left =
        cluster.until(path, |_, namespace| namespace["spec"]["finalizers"] == json!(["example.com/s"])).await;
    assert_eq!(condition(&left, "NamespaceContentRemaining"), "False");
    let mut left = cluster.read(path).await;
    left["spec"] = json!({});
    let (code, _) =
        cluster.send(http::Method::PUT, &format!("{path}/finalize"), "application/json", &left).await;
    assert_eq!(code, 200);
    cluster.quiet().await;
    cluster.patch(path, json!({"metadata": {"finalizers": null}})).await;
    cluster.until_gone(path).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_ends_while_a_definition_does() {
    let cluster = Cluster::start().await;
    cluster.define_widgets().await;
    let path = cluster.namespace("a").await;
    let widgets = "/apis/example.com/v1/namespaces/a/widgets";
    let mut held = widget("w");
    held["metadata"]["finalizers"] = json!(["example.com/w"]);
    cluster.create(widgets, held).await;
    let definition = format!("{}/widgets.example.com", crate::DEFINITIONS);
    cluster.delete(&definition).await;
    let ending =
        cluster.until(&definition, |_, definition| condition(definition, "Terminating") == "True").await;
    assert_eq!(ending["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    let (code, refused) = cluster.post(widgets, &widget("new")).await;
    assert_eq!(
        (code, &refused["message"]),
        (
            403,
            &json!(
                "widgets.example.com \"new\" is forbidden: create not allowed while custom resource definition is terminating"
            )
        )
    );
    cluster.delete(&path).await;
    cluster.quiet().await;
    cluster.patch(&format!("{widgets}/w"), json!({"metadata": {"finalizers": null}})).await;
    cluster.until_gone(&path).await;
    cluster.until_gone(&definition).await;
    assert_eq!(cluster.get(widgets).await.0, 404);
}

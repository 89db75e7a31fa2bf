//! The garbage collector.

use serde_json::{Value, json};

use crate::{Cluster, DEFINITIONS, config_map, widget};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn reference(owner: &Value, blocks: bool) -> Value {
    let mut reference = json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]});
    if blocks {
        reference["blockOwnerDeletion"] = true.into();
    }
    reference
}

fn owned(mut object: Value, owners: &[Value]) -> Value {
    object["metadata"]["ownerReferences"] = owners.to_vec().into();
    object
}

fn held(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object
}

fn at(name: &str) -> String {
    format!("{MAPS}/{name}")
}

async fn release(cluster: &Cluster, path: &str) {
    cluster.patch(path, json!({"metadata": {"finalizers": null}})).await;
}

#[tokio::test(start_paused = true)]
async fn circles_do_not_wait_for_each_other() {
    let cluster = Cluster::start().await;
    let one = cluster.create(MAPS, config_map("one")).await;
    let two = cluster.create(MAPS, owned(config_map("two"), &[reference(&one, true)])).await;
    let three = cluster.create(MAPS, owned(config_map("three"), &[reference(&two, true)])).await;
    cluster.patch(&at("one"), json!({"metadata": {"ownerReferences": [reference(&three, true)]}})).await;
    cluster.delete(&format!("{}?propagationPolicy=Foreground", at("one"))).await;
    for name in ["one", "two", "three"] {
        cluster.until_gone(&at(name)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_goes_down_to_the_last_dependent_first() {
    let cluster = Cluster::start().await;
    let one = cluster.create(MAPS, config_map("one")).await;
    let two = cluster.create(MAPS, owned(config_map("two"), &[reference(&one, true)])).await;
    cluster.create(MAPS, owned(held(config_map("three")), &[reference(&two, true)])).await;
    cluster.delete(&format!("{}?propagationPolicy=Foreground", at("one"))).await;
    cluster.quiet().await;
    let two = cluster.read(&at("two")).await;
    assert_eq!(two["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    // What comes while the owner waits is left alone until the owner is looked at again.
    let one = cluster.read(&at("one")).await;
    cluster.create(MAPS, owned(config_map("late"), &[reference(&one, true)])).await;
    cluster.quiet().await;
    assert!(cluster.read(&at("late")).await["metadata"]["deletionTimestamp"].is_null());
    release(&cluster, &at("three")).await;
    for name in ["one", "two", "three", "late"] {
        cluster.until_gone(&at(name)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_dependent_that_does_not_block_goes_with_an_owner_that_waits_for_others() {
    let cluster = Cluster::start().await;
    let owner = cluster.create(MAPS, config_map("owner")).await;
    cluster.create(MAPS, owned(held(config_map("blocks")), &[reference(&owner, true)])).await;
    cluster.create(MAPS, owned(config_map("free"), &[reference(&owner, false)])).await;
    let other = cluster.create(MAPS, config_map("other")).await;
    cluster
        .create(MAPS, owned(config_map("shared"), &[reference(&owner, true), reference(&other, false)]))
        .await;
    cluster.delete(&format!("{}?propagationPolicy=Foreground", at("owner"))).await;
    cluster.until_gone(&at("free")).await;
    let shared =
        cluster.until(&at("shared"), |_, shared| shared["metadata"]["ownerReferences"][1].is_null()).await;
    assert_eq!(shared["metadata"]["ownerReferences"][0]["name"], "other");
    assert_eq!(cluster.get(&at("owner")).await.0, 200);
    // Ceasing to block is enough.
    cluster.patch(&at("blocks"), json!({"metadata": {"ownerReferences": [reference(&owner, false)]}})).await;
    cluster.until_gone(&at("owner")).await;
    assert_eq!(cluster.get(&at("blocks")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn orphans_lose_their_owner_however_many_they_are() {
    let cluster = Cluster::start().await;
    let owner = cluster.create(MAPS, config_map("owner")).await;
    for number in 0..200 {
        cluster.create(MAPS, owned(config_map(&format!("child-{number}")), &[reference(&owner, true)])).await;
    }
    cluster.delete(&format!("{}?propagationPolicy=Orphan", at("owner"))).await;
    cluster.until_gone(&at("owner")).await;
    for number in 0..200 {
        let child = cluster.read(&at(&format!("child-{number}"))).await;
        assert!(child["metadata"].get("ownerReferences").is_none(), "{child}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_has_to_be_what_the_reference_says() {
    let cluster = Cluster::start().await;
    let elsewhere = cluster.namespace("elsewhere").await;
    let owner = cluster.create(&format!("{elsewhere}/configmaps"), config_map("owner")).await;
    let child = cluster.create(MAPS, owned(config_map("child"), &[reference(&owner, false)])).await;
    cluster.until_gone(&at("child")).await;
    let events = cluster.read("/api/v1/namespaces/default/events").await;
    let event = &events["items"][0];
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        event["message"],
        format!(
            "ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: {uid}] does not exist in namespace \"default\""
        )
    );
    assert_eq!(
        event["involvedObject"],
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "child",
        "namespace": "default", "uid": child["metadata"]["uid"]})
    );
    assert_eq!((&event["reason"], &event["type"]), (&json!("OwnerRefInvalidNamespace"), &json!("Warning")));

    // The uid of another kind is no owner either, nor is one of the same name from before.
    let here = cluster.create(MAPS, config_map("owner")).await;
    let mut wrong = reference(&here, false);
    wrong["kind"] = "Secret".into();
    cluster.create(MAPS, owned(config_map("child"), &[wrong])).await;
    cluster.until_gone(&at("child")).await;
    cluster.delete(&at("owner")).await;
    cluster.create(MAPS, config_map("owner")).await;
    cluster.create(MAPS, owned(config_map("child"), &[reference(&here, false)])).await;
    cluster.until_gone(&at("child")).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_of_the_cluster_cannot_be_owned_by_one_of_a_namespace() {
    let cluster = Cluster::start().await;
    let owner = cluster.create(MAPS, config_map("owner")).await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "child"}, "rules": []});
    cluster.create(roles, owned(role, &[reference(&owner, false)])).await;
    cluster.delete(&at("owner")).await;
    cluster.quiet().await;
    cluster.read(&format!("{roles}/child")).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_while_the_kind_of_an_owner_is_unknown() {
    let cluster = Cluster::start().await;
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "a", "uid": "0000"});
    let gone = json!({"apiVersion": "v1", "kind": "Secret", "name": "gone", "uid": "1111"});
    cluster.create(MAPS, owned(config_map("child"), &[unknown, gone])).await;
    tokio::time::sleep(std::time::Duration::from_mins(30)).await;
    cluster.read(&at("child")).await;
    cluster.define_widgets().await;
    cluster.until_gone(&at("child")).await;

    let owner = cluster.create(WIDGETS, widget("owner")).await;
    cluster.create(MAPS, owned(config_map("child"), &[reference(&owner, false)])).await;
    cluster.create(WIDGETS, owned(widget("other"), &[reference(&owner, false)])).await;
    cluster.delete(&format!("{WIDGETS}/owner")).await;
    cluster.until_gone(&at("child")).await;
    cluster.until_gone(&format!("{WIDGETS}/other")).await;
    cluster.delete(&format!("{DEFINITIONS}/widgets.example.com")).await;
    cluster.until_gone(&format!("{DEFINITIONS}/widgets.example.com")).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_is_tried_again() {
    let cluster = Cluster::start().await;
    let owner = cluster.create(MAPS, config_map("owner")).await;
    cluster.create(MAPS, owned(config_map("child"), &[reference(&owner, false)])).await;
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "nobody"},
        "webhooks": [{"name": "nobody.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["DELETE"]}],
            "matchConditions": [{"name": "controllers", "expression": "request.userInfo.username.startsWith('system:serviceaccount:')"}]}],
    });
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    cluster.create(hooks, hook).await;
    cluster.delete(&at("owner")).await;
    cluster.quiet().await;
    cluster.read(&at("child")).await;
    cluster.delete(&format!("{hooks}/nobody")).await;
    cluster.until_gone(&at("child")).await;
}

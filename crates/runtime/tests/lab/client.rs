//! What can be asked of a site, and what is learnt from how it answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use trellis_lab::faults::{Fault, Matching, When};
use trellis_runtime::client::{Delete, Deleted, Error, Evicted, FIELD_MANAGER, Health, Leads, Request, Verb};
use trellis_runtime::{Key, Resource, Selection};

use crate::support::{CONFIG_MAP, ConfigMap, World, key, map, site, until, within};

const POD: Resource = Resource::namespaced("", "v1", "pods", "Pod");
const NODE: Resource = Resource::cluster("", "v1", "nodes", "Node");
const SECRET: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const QUOTA: Resource = Resource::namespaced("", "v1", "resourcequotas", "ResourceQuota");
const BUDGET: Resource = Resource::namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget");

#[tokio::test(start_paused = true)]
async fn verbs_do_what_they_say_and_are_counted() {
    let world = World::new().await;
    let site = world.other();
    let made: ConfigMap = site.create(&CONFIG_MAP, "default", &map("a", "1")).await.unwrap();
    assert_eq!(made.data.text, "1");
    assert!(matches!(
        site.create::<Value>(&CONFIG_MAP, "default", &map("a", "1")).await,
        Err(Error::AlreadyExists(_))
    ));
    let merged: ConfigMap =
        site.merge_patch(&CONFIG_MAP, &key("a"), &json!({"data": {"text": "2"}})).await.unwrap();
    assert_eq!(merged.data.text, "2");
    let test = json!([{"op": "test", "path": "/data/text", "value": "2"},
        {"op": "replace", "path": "/data/text", "value": "3"}]);
    let patched: ConfigMap = site.json_patch(&CONFIG_MAP, &key("a"), &test).await.unwrap();
    assert_eq!(patched.data.text, "3");
    let again = site.json_patch::<Value>(&CONFIG_MAP, &key("a"), &test).await;
    assert!(matches!(again, Err(Error::Invalid(_))), "{again:?}");
    let mut whole: Value = site.get(&CONFIG_MAP, &key("a")).await.unwrap();
    whole["data"]["text"] = "4".into();
    site.replace::<Value>(&CONFIG_MAP, &key("a"), &whole).await.unwrap();
    let stale = site.replace::<Value>(&CONFIG_MAP, &key("a"), &whole).await;
    assert!(matches!(stale, Err(Error::Conflict(_))), "{stale:?}");
    assert_eq!(
        site.list::<Value>(&CONFIG_MAP, &Selection::namespace("default").labels("app=x"))
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(site.find::<Value>(&CONFIG_MAP, &key("b")).await.unwrap(), None);

    let counts: Vec<_> = site
        .traffic()
        .all()
        .into_iter()
        .map(|(request, result, count)| format!("{} {result} {count}", request.verb.word()))
        .collect();
    assert_eq!(
        counts,
        [
            "get not_found 1",
            "get ok 1",
            "list ok 1",
            "create already_exists 1",
            "create ok 1",
            "update conflict 1",
            "update ok 1",
            "patch invalid 1",
            "patch ok 2",
        ]
    );
    assert_eq!(site.traffic().of(Verb::Patch, &CONFIG_MAP), 3);
    assert_eq!(site.traffic().writes(), 7);
}

#[tokio::test(start_paused = true)]
async fn what_is_applied_is_owned_and_taken_only_with_force() {
    let world = World::new().await;
    let wish =
        |text: &str| json!({"metadata": {"name": "a", "namespace": "default"}, "data": {"text": text}});
    let made: Value = world.site.apply(&CONFIG_MAP, &key("a"), &wish("1"), false).await.unwrap();
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], FIELD_MANAGER);
    let patch = json!({"data": {"text": "theirs"}});
    let path = "/api/v1/namespaces/default/configmaps/a?fieldManager=other";
    let request = http_patch(path, &patch);
    world.site.client().request::<Value>(request).await.unwrap();
    let refused = world.site.apply::<Value>(&CONFIG_MAP, &key("a"), &wish("2"), false).await;
    assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
    let taken: ConfigMap = world.site.apply(&CONFIG_MAP, &key("a"), &wish("2"), true).await.unwrap();
    assert_eq!(taken.data.text, "2");
}

fn http_patch(path: &str, patch: &Value) -> http::Request<Vec<u8>> {
    http::Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(patch.to_string().into_bytes())
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_is_the_one_that_was_meant() {
    let world = World::new().await;
    let first: ConfigMap = world.site.create(&CONFIG_MAP, "default", &map("a", "1")).await.unwrap();
    let delete = |uid: String| {
        let site = world.site.clone();
        async move { site.delete(&CONFIG_MAP, &key("a"), &Delete::uid(&uid)).await.unwrap() }
    };
    assert_eq!(delete(first.metadata.uid.to_string()).await, Deleted::Gone);
    assert_eq!(delete(first.metadata.uid.to_string()).await, Deleted::Gone);
    let mut held = map("a", "2");
    held["metadata"]["finalizers"] = json!(["trellis.dev/test"]);
    let second: ConfigMap = world.site.create(&CONFIG_MAP, "default", &held).await.unwrap();
    assert_eq!(delete(first.metadata.uid.to_string()).await, Deleted::Replaced);
    let stale = Delete { resource_version: Some(1), ..Delete::uid(&second.metadata.uid) };
    let refused = world.site.delete(&CONFIG_MAP, &key("a"), &stale).await;
    assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
    let Deleted::Going(left) = delete(second.metadata.uid.to_string()).await else { panic!("it is held") };
    assert!(left["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_budget_refuses_an_eviction_with_its_reason() {
    let world = World::new().await;
    let site = &world.site;
    site.create::<Value>(&NODE, "", &json!({"metadata": {"name": "n"}})).await.unwrap();
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    let pod: Value = site.create(&POD, "default", &pod).await.unwrap();
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    site.merge_patch_status::<Value>(&POD, &key("p"), &ready).await.unwrap();
    let budget = json!({"metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    let budget: Value = site.create(&BUDGET, "default", &budget).await.unwrap();
    let Evicted::Refused { reason, .. } = site.evict(&key("p"), uid, None).await.unwrap() else {
        panic!("a budget is against it")
    };
    assert!(reason.contains("disruption budget"), "{reason}");
    let budget = budget["metadata"]["uid"].as_str().unwrap();
    site.delete(&BUDGET, &key("b"), &Delete::uid(budget)).await.unwrap();
    assert_eq!(site.evict(&key("p"), "another", None).await.unwrap(), Evicted::Gone);
    assert_eq!(site.evict(&key("p"), uid, Some(0)).await.unwrap(), Evicted::Accepted);
    assert_eq!(site.evict(&key("p"), uid, Some(0)).await.unwrap(), Evicted::Gone);
}

#[tokio::test(start_paused = true)]
async fn a_used_up_quota_is_told_from_a_ban() {
    let world = World::new().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "0"}}});
    world.site.create::<Value>(&QUOTA, "default", &quota).await.unwrap();
    until("the quota holds", || async {
        let created = world.site.create::<Value>(&CONFIG_MAP, "default", &map("a", "1")).await;
        if let Ok(made) = &created {
            let uid = made["metadata"]["uid"].as_str().unwrap();
            world.site.delete(&CONFIG_MAP, &key("a"), &Delete::uid(uid)).await.unwrap();
        }
        matches!(created, Err(Error::Quota(_)))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn rights_can_be_asked_for() {
    let world = World::new().await;
    assert!(world.site.may(&Request::new(Verb::Create, &POD, "eviction"), "default").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_down_and_up_again() {
    let world = World::new().await;
    let site = world.other();
    let attended = site.clone();
    tokio::spawn(async move { attended.attend().await });
    let mut health = site.health();
    world.lab.faults().add(Matching::default(), When::Always, Fault::Fail(503));
    let error = site.get::<Value>(&CONFIG_MAP, &key("a")).await.unwrap_err();
    assert!(error.is_retryable() && error.is_outcome_unknown(), "{error:?}");
    assert!(site.is_up(), "one failure is none");
    within(health.wait_for(|health| !health.is_up())).await.unwrap();
    let Health::Down(since) = *health.borrow() else { panic!("it is down") };
    let passed = since.elapsed();
    assert!(passed >= Duration::from_secs(15) && passed <= Duration::from_secs(20), "{passed:?}");
    world.lab.faults().clear();
    within(health.wait_for(Health::is_up)).await.unwrap();
    // Nobody asks while all is well.
    let before = world.lab.faults().fired();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(world.lab.faults().fired(), before);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_is_not_waited_for() {
    let world = World::new().await;
    let late = Fault::Delay(Duration::from_hours(1));
    world.lab.faults().add(Matching::new("get", "configmaps"), When::Always, late);
    let error = world.site.get::<Value>(&CONFIG_MAP, &key("a")).await.unwrap_err();
    assert_eq!(error, Error::Timeout);
}

#[tokio::test(start_paused = true)]
async fn another_connection_is_taken_at_once() {
    let (old, new) = (World::new().await, World::new().await);
    new.site.create::<Value>(&CONFIG_MAP, "default", &map("a", "new")).await.unwrap();
    let site = site(&old.lab);
    assert!(site.find::<ConfigMap>(&CONFIG_MAP, &key("a")).await.unwrap().is_none());
    site.swap(new.site.client(), Leads::Elsewhere);
    let found: ConfigMap = site.get(&CONFIG_MAP, &key("a")).await.unwrap();
    assert_eq!(found.data.text, "new");
}

#[tokio::test(start_paused = true)]
async fn no_secret_is_in_an_error() {
    let world = World::new().await;
    let secret = json!({"metadata": {"name": "s"}, "data": {"key": "hunter2!"}});
    let error = world.site.create::<Value>(&SECRET, "default", &secret).await.unwrap_err();
    let told = format!("{error} {error:?} {:?}", world.site);
    assert!(matches!(error, Error::Invalid(_)) && !told.contains("hunter2"), "{told}");
    assert!(world.site.find::<Value>(&SECRET, &Key::new("default", "s")).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn behind_a_fence_that_is_closed_nothing_is_written() {
    let world = World::new().await;
    let site = world.other();
    let open = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&open);
    let view = site.view("tenant", Arc::new(move || asked.load(Ordering::SeqCst)));
    view.create::<Value>(&CONFIG_MAP, "default", &map("a", "1")).await.unwrap();
    open.store(false, Ordering::SeqCst);
    let refused = view.merge_patch::<Value>(&CONFIG_MAP, &key("a"), &map("a", "2")).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    // Looking is still allowed, and says nothing bad of the server.
    let found: ConfigMap = view.get(&CONFIG_MAP, &key("a")).await.unwrap();
    assert_eq!((found.data.text.as_str(), view.is_up()), ("1", true));
    assert_eq!((view.name(), site.traffic().writes(), view.traffic().writes()), ("tenant", 0, 2));
    // A new connection of the one is that of the other.
    let elsewhere = World::new().await;
    site.swap(kube::Client::new(elsewhere.lab.service(), "default"), Leads::Elsewhere);
    assert!(view.find::<ConfigMap>(&CONFIG_MAP, &key("a")).await.unwrap().is_none());
}

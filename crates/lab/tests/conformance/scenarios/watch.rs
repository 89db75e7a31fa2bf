//! Watches: where they begin, what they tell, how they end.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::context::{Cx, config_map, deployment};
use crate::crds::{DEFINITIONS, definition, establish};
use crate::support::Result;
use crate::support::client::Watch;
use crate::support::json::{has, text, version};

scenarios![
    after_a_version,
    from_now_and_from_zero,
    replays_what_was_missed,
    deletion_tells_the_last_state,
    finalizers_are_changes,
    objects_enter_and_leave_a_selector,
    one_object_by_name,
    field_selectors_follow_changes,
    no_op_is_silent,
    ends_in_time,
    bookmarks_only_if_asked_for,
    initial_events,
    initial_events_of_nothing,
    initial_events_without_bookmark,
    initial_events_need_a_match,
    no_initial_events,
    too_old,
    version_of_the_future,
    events_come_in_order,
    all_namespaces,
    legacy_paths,
    custom_resources,
    custom_resources_end_with_their_definition,
    tables,
    partial_metadata,
    dry_runs_are_silent,
    headers,
    many_watchers_see_the_same,
    of_a_single_object_path,
    status_changes,
];

/// Watches secrets, of which a namespace has none of its own.
async fn secrets(cx: &Cx, query: &str) -> Result<Watch> {
    let watch = cx.admin.watch(cx.core(&format!("secrets?watch=true{query}"))).await?;
    assert_eq!(watch.status, 200);
    Ok(watch)
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
}

async fn label(cx: &Cx, name: &str, value: &str) -> Result<Value> {
    let patch = json!({"metadata": {"labels": {"l": value}}});
    Ok(cx.admin.merge_patch(cx.core(&format!("secrets/{name}")), &patch).await?.ok(200))
}

async fn after_a_version(cx: Cx) -> Result {
    let list = cx.read(cx.core("secrets")).await?;
    let mut watch = secrets(&cx, &format!("&resourceVersion={}", version(&list))).await?;
    let created = cx.create(cx.core("secrets"), &secret("a")).await?;
    assert_eq!(watch.expect("ADDED").await?, created);
    let changed = label(&cx, "a", "1").await?;
    assert_eq!(watch.expect("MODIFIED").await?, changed);
    cx.admin.delete(cx.core("secrets/a")).await?.ok(200);
    watch.expect_about("DELETED", "a").await?;
    watch.expect_silence(Duration::from_millis(300)).await
}

async fn from_now_and_from_zero(cx: Cx) -> Result {
    cx.create(cx.core("secrets"), &secret("b")).await?;
    cx.create(cx.core("secrets"), &secret("a")).await?;
    for query in ["", "&resourceVersion=0", "&resourceVersion="] {
        let mut watch = secrets(&cx, query).await?;
        let mut seen = Vec::new();
        for _ in 0..2 {
            seen.push(text(&watch.expect("ADDED").await?, "/metadata/name").to_owned());
        }
        seen.sort();
        assert_eq!(seen, ["a", "b"], "{query}");
        watch.expect_silence(Duration::from_millis(300)).await?;
    }
    Ok(())
}

async fn replays_what_was_missed(cx: Cx) -> Result {
    let start = version(&cx.read(cx.core("secrets")).await?);
    cx.create(cx.core("secrets"), &secret("a")).await?;
    label(&cx, "a", "1").await?;
    let middle = version(&label(&cx, "a", "2").await?);
    cx.admin.delete(cx.core("secrets/a")).await?.ok(200);
    cx.create(cx.core("secrets"), &secret("a")).await?;
    let mut watch = secrets(&cx, &format!("&resourceVersion={start}")).await?;
    for (kind, value) in
        [("ADDED", ""), ("MODIFIED", "1"), ("MODIFIED", "2"), ("DELETED", "2"), ("ADDED", "")]
    {
        let object = watch.expect(kind).await?;
        assert_eq!(text(&object, "/metadata/labels/l"), value);
    }
    let mut watch = secrets(&cx, &format!("&resourceVersion={middle}")).await?;
    watch.expect_about("DELETED", "a").await?;
    watch.expect_about("ADDED", "a").await?;
    Ok(())
}

async fn deletion_tells_the_last_state(cx: Cx) -> Result {
    let mut object = secret("a");
    object["stringData"] = json!({"x": "1"});
    let created = cx.create(cx.core("secrets"), &object).await?;
    let mut watch = secrets(&cx, &format!("&resourceVersion={}", version(&created))).await?;
    cx.admin.delete(cx.core("secrets/a")).await?.ok(200);
    let deleted = watch.expect("DELETED").await?;
    assert!(version(&deleted) > version(&created));
    let mut expected = created.clone();
    expected["metadata"]["resourceVersion"] = deleted["metadata"]["resourceVersion"].clone();
    assert_eq!(deleted, expected);
    Ok(())
}

async fn finalizers_are_changes(cx: Cx) -> Result {
    let mut object = secret("a");
    object["metadata"]["finalizers"] = json!(["example.com/f"]);
    let created = cx.create(cx.core("secrets"), &object).await?;
    let mut watch = secrets(&cx, &format!("&resourceVersion={}", version(&created))).await?;
    cx.admin.delete(cx.core("secrets/a")).await?.ok(200);
    let marked = watch.expect("MODIFIED").await?;
    assert!(!text(&marked, "/metadata/deletionTimestamp").is_empty());
    cx.admin.merge_patch(cx.core("secrets/a"), &json!({"metadata": {"finalizers": null}})).await?.ok(200);
    let gone = watch.expect("DELETED").await?;
    assert!(version(&gone) > version(&marked));
    Ok(())
}

async fn objects_enter_and_leave_a_selector(cx: Cx) -> Result {
    let start = version(&cx.create(cx.core("secrets"), &secret("a")).await?);
    let mut watch = secrets(&cx, &format!("&labelSelector=l%3Din&resourceVersion={start}")).await?;
    label(&cx, "a", "other").await?;
    let entered = label(&cx, "a", "in").await?;
    assert_eq!(watch.expect("ADDED").await?, entered);
    let patch = json!({"metadata": {"annotations": {"x": "y"}}});
    cx.admin.merge_patch(cx.core("secrets/a"), &patch).await?.ok(200);
    watch.expect("MODIFIED").await?;
    let left = label(&cx, "a", "out").await?;
    let seen = watch.expect("DELETED").await?;
    // What is told is the state that was last selected, at the version of the change.
    has(
        &seen,
        &json!({"metadata": {"labels": {"l": "in"}, "resourceVersion": left["metadata"]["resourceVersion"]}}),
    );
    cx.admin.delete(cx.core("secrets/a")).await?.ok(200);
    watch.expect_silence(Duration::from_millis(300)).await
}

async fn one_object_by_name(cx: Cx) -> Result {
    cx.create(cx.core("secrets"), &secret("b")).await?;
    let mut watch = secrets(&cx, "&fieldSelector=metadata.name%3Da").await?;
    cx.create(cx.core("secrets"), &secret("c")).await?;
    cx.create(cx.core("secrets"), &secret("a")).await?;
    watch.expect_about("ADDED", "a").await?;
    label(&cx, "b", "1").await?;
    watch.expect_silence(Duration::from_millis(300)).await
}

async fn field_selectors_follow_changes(cx: Cx) -> Result {
    cx.until_pods_are_admitted().await?;
    let mut watch = cx.admin.watch(cx.core("pods?watch=1&fieldSelector=status.phase%3DRunning")).await?;
    cx.create(cx.core("pods"), &crate::context::pod("a")).await?;
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    cx.admin.merge_patch(cx.core("pods/a/status"), &phase("Running")).await?.ok(200);
    watch.expect_about("ADDED", "a").await?;
    cx.admin.merge_patch(cx.core("pods/a/status"), &phase("Succeeded")).await?.ok(200);
    watch.expect_about("DELETED", "a").await?;
    Ok(())
}

async fn no_op_is_silent(cx: Cx) -> Result {
    let created = cx.create(cx.core("secrets"), &secret("a")).await?;
    let mut watch = secrets(&cx, &format!("&resourceVersion={}", version(&created))).await?;
    cx.admin.put(cx.core("secrets/a"), &created).await?.ok(200);
    cx.admin.merge_patch(cx.core("secrets/a"), &json!({})).await?.ok(200);
    watch.expect_silence(Duration::from_millis(400)).await
}

async fn ends_in_time(cx: Cx) -> Result {
    let start = Instant::now();
    let mut watch = secrets(&cx, "&timeoutSeconds=2").await?;
    cx.create(cx.core("secrets"), &secret("a")).await?;
    let events = watch.rest().await?;
    assert_eq!(events.len(), 1, "{events:?}");
    let took = start.elapsed();
    assert!(took > Duration::from_millis(1500) && took < Duration::from_secs(8), "{took:?}");
    Ok(())
}

async fn bookmarks_only_if_asked_for(cx: Cx) -> Result {
    let list = cx.read(cx.core("secrets")).await?;
    let mut watch = secrets(
        &cx,
        &format!("&timeoutSeconds=4&allowWatchBookmarks=true&resourceVersion={}", version(&list)),
    )
    .await?;
    let mut without = secrets(&cx, &format!("&timeoutSeconds=4&resourceVersion={}", version(&list))).await?;
    let created = cx.create(cx.core("secrets"), &secret("a")).await?;
    // The last one comes shortly before the watch ends.
    let events = watch.rest().await?;
    assert!(events.len() >= 2, "{events:?}");
    assert_eq!(events[0]["type"], "ADDED");
    let bookmark = &events[events.len() - 1];
    has(bookmark, &json!({"type": "BOOKMARK", "object": {"kind": "Secret", "apiVersion": "v1"}}));
    assert!(version(&bookmark["object"]) >= version(&created));
    assert_eq!(bookmark["object"]["metadata"]["creationTimestamp"], Value::Null);
    assert_eq!(without.rest().await?.len(), 1);
    Ok(())
}

async fn initial_events(cx: Cx) -> Result {
    cx.create(cx.core("secrets"), &secret("a")).await?;
    let last = cx.create(cx.core("secrets"), &secret("b")).await?;
    let query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for at in ["", "&resourceVersion=0", &format!("&resourceVersion={}", version(&last))] {
        let mut watch = secrets(&cx, &format!("{query}{at}")).await?;
        watch.expect_about("ADDED", "a").await?;
        watch.expect_about("ADDED", "b").await?;
        let bookmark = watch.expect("BOOKMARK").await?;
        has(
            &bookmark,
            &json!({"kind": "Secret", "metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}}),
        );
        assert!(version(&bookmark) >= version(&last), "{at}");
        let changed = label(&cx, "a", &version(&bookmark).to_string()).await?;
        let mut seen = watch.expect("MODIFIED").await?;
        while version(&seen) < version(&changed) {
            seen = watch.expect("MODIFIED").await?;
        }
        assert_eq!(seen, changed);
    }
    Ok(())
}

async fn initial_events_of_nothing(cx: Cx) -> Result {
    let query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=none";
    cx.create(cx.core("secrets"), &secret("a")).await?;
    let mut watch = secrets(&cx, query).await?;
    let bookmark = watch.expect("BOOKMARK").await?;
    has(&bookmark, &json!({"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}}));
    assert!(version(&bookmark) > 0);
    Ok(())
}

async fn initial_events_without_bookmark(cx: Cx) -> Result {
    cx.create(cx.core("secrets"), &secret("a")).await?;
    let mut watch =
        secrets(&cx, "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=2").await?;
    let events = watch.rest().await?;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["type"], "ADDED");
    Ok(())
}

async fn initial_events_need_a_match(cx: Cx) -> Result {
    let answer =
        cx.admin.get(cx.core("secrets?watch=1&sendInitialEvents=true&allowWatchBookmarks=true")).await?;
    has(
        &answer.fails(422, "Invalid"),
        &json!({"details": {"group": "meta.k8s.io", "kind": "ListOptions", "causes": [{
        "field": "resourceVersionMatch", "reason": "FieldValueForbidden",
        "message": "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"}]}}),
    );
    let answer =
        cx.admin.get(cx.core("secrets?watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=1")).await?;
    has(
        &answer.fails(422, "Invalid"),
        &json!({"details": {"causes": [{"field": "resourceVersionMatch",
        "message": "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is \
            provided"}]}}),
    );
    let answer = cx
        .admin
        .get(cx.core("secrets?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1"))
        .await?;
    answer.fails(422, "Invalid");
    Ok(())
}

async fn no_initial_events(cx: Cx) -> Result {
    cx.create(cx.core("secrets"), &secret("a")).await?;
    let mut watch =
        secrets(&cx, "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
            .await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    cx.create(cx.core("secrets"), &secret("b")).await?;
    watch.expect_about("ADDED", "b").await?;
    Ok(())
}

async fn too_old(cx: Cx) -> Result {
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a"}, "template":
        {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
    let created = cx.create(cx.core("podtemplates"), &template).await?;
    let path =
        cx.core(&format!("podtemplates?watch=1&timeoutSeconds=1&resourceVersion={}", version(&created)));
    let start = Instant::now();
    let mut round = 0;
    // History is kept for a minute and more, and ends only where something happens.
    loop {
        for number in 0..60 {
            let patch = json!({"metadata": {"labels": {"l": format!("{round}-{number}")}}});
            cx.admin.merge_patch(cx.core("podtemplates/a"), &patch).await?.ok(200);
        }
        let mut watch = cx.admin.watch(path.as_str()).await?;
        let event = watch.next().await?.unwrap_or_default();
        if event["type"] == "ERROR" {
            let status = &event["object"];
            has(
                status,
                &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired",
                    "code": 410}),
            );
            let message = text(status, "/message");
            assert!(
                message.starts_with(&format!("too old resource version: {} (", version(&created))),
                "{message}"
            );
            assert_eq!(watch.next().await?, None);
            return Ok(());
        }
        assert_eq!(event["type"], "MODIFIED");
        if start.elapsed() > Duration::from_mins(3) {
            return Err("history never ends".into());
        }
        round += 1;
        tokio::time::sleep(Duration::from_secs(if round < 3 { 35 } else { 5 })).await;
    }
}

async fn version_of_the_future(cx: Cx) -> Result {
    let now = version(&cx.read(cx.core("secrets")).await?);
    let path = cx.core(&format!("secrets?watch=1&timeoutSeconds=2&resourceVersion={}", now + 100_000_000));
    let mut watch = cx.admin.watch(path).await?;
    // It waits for that version, which does not come.
    assert_eq!(watch.status, 200);
    cx.create(cx.core("secrets"), &secret("a")).await?;
    let events = watch.rest().await?;
    assert!(events.is_empty(), "{events:?}");
    Ok(())
}

async fn events_come_in_order(cx: Cx) -> Result {
    let start = version(&cx.read(cx.core("secrets")).await?);
    let mut watch = secrets(&cx, &format!("&resourceVersion={start}")).await?;
    let writers = (0..5).map(|writer: u32| {
        let (admin, collection) = (cx.admin.clone(), cx.core("secrets"));
        async move {
            for number in 0..10 {
                admin.post(collection.as_str(), &secret(&format!("w{writer}-{number}"))).await?.ok(201);
            }
            crate::support::Result::Ok(())
        }
    });
    for done in futures::future::join_all(writers).await {
        done?;
    }
    let mut last = start;
    for _ in 0..50 {
        let object = watch.expect("ADDED").await?;
        assert!(version(&object) > last, "{} after {last}", version(&object));
        last = version(&object);
    }
    watch.expect_silence(Duration::from_millis(300)).await
}

async fn all_namespaces(cx: Cx) -> Result {
    let start = version(&cx.read(cx.core("configmaps")).await?);
    let path =
        format!("/api/v1/configmaps?watch=1&resourceVersion={start}&labelSelector=scenario%3D{}", cx.unique);
    let mut watch = cx.admin.watch(path).await?;
    let mut object = config_map("a", "1");
    object["metadata"]["labels"] = json!({"scenario": cx.unique});
    cx.create(cx.core("configmaps"), &object).await?;
    let seen = watch.expect_about("ADDED", "a").await?;
    has(&seen, &json!({"metadata": {"namespace": cx.ns}}));
    Ok(())
}

async fn legacy_paths(cx: Cx) -> Result {
    cx.create(cx.core("secrets"), &secret("a")).await?;
    let mut watch = cx.admin.watch(format!("/api/v1/watch/namespaces/{}/secrets", cx.ns)).await?;
    watch.expect_about("ADDED", "a").await?;
    let mut watch = cx.admin.watch(format!("/api/v1/watch/namespaces/{}/secrets/b", cx.ns)).await?;
    cx.create(cx.core("secrets"), &secret("b")).await?;
    watch.expect_about("ADDED", "b").await?;
    Ok(())
}

async fn custom_resources(cx: Cx) -> Result {
    establish(
        &cx,
        &definition(&cx, &json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
    )
    .await?;
    let list = cx.read(cx.widgets()).await?;
    let mut watch =
        cx.admin.watch(format!("{}?watch=1&resourceVersion={}", cx.widgets(), version(&list))).await?;
    let created = cx.create(cx.widgets(), &cx.widget("a", &json!({"x": 1}))).await?;
    assert_eq!(watch.expect("ADDED").await?, created);
    cx.admin.merge_patch(cx.a_widget("a"), &json!({"spec": {"x": 2}})).await?.ok(200);
    watch.expect("MODIFIED").await?;
    cx.admin.delete(cx.a_widget("a")).await?.ok(200);
    watch.expect("DELETED").await?;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = cx.admin.watch(format!("{}?{query}", cx.widgets())).await?;
    let bookmark = watch.expect("BOOKMARK").await?;
    has(&bookmark, &json!({"kind": "Widget", "apiVersion": format!("{}/v1", cx.group)}));
    Ok(())
}

async fn custom_resources_end_with_their_definition(cx: Cx) -> Result {
    let crd = establish(&cx, &definition(&cx, &json!({"type": "object"}))).await?;
    cx.create(cx.widgets(), &cx.widget("a", &json!({}))).await?;
    let mut watch = cx.admin.watch(format!("{}?watch=1", cx.widgets())).await?;
    watch.expect_about("ADDED", "a").await?;
    cx.admin.delete(format!("{DEFINITIONS}/{}", text(&crd, "/metadata/name"))).await?.ok(200);
    watch.expect_about("DELETED", "a").await?;
    assert_eq!(watch.next().await?, None);
    Ok(())
}

async fn tables(cx: Cx) -> Result {
    cx.create(cx.core("secrets"), &secret("a")).await?;
    let mut watch = cx
        .admin
        .get(cx.core("secrets?watch=1"))
        .accept("application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
        .watch()
        .await?;
    let first = watch.expect("ADDED").await?;
    has(
        &first,
        &json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": [
            {"object": {"kind": "PartialObjectMetadata", "metadata": {"name": "a"}}},
        ]}),
    );
    has(&first["columnDefinitions"][0], &json!({"name": "Name"}));
    cx.create(cx.core("secrets"), &secret("b")).await?;
    let second = watch.expect("ADDED").await?;
    // Columns are told once.
    has(&second, &json!({"columnDefinitions": null, "rows": [{"object": {"metadata": {"name": "b"}}}]}));
    Ok(())
}

async fn partial_metadata(cx: Cx) -> Result {
    cx.create(cx.core("secrets"), &secret("a")).await?;
    let mut watch = cx
        .admin
        .get(cx.core("secrets?watch=1"))
        .accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
        .watch()
        .await?;
    let first = watch.expect_about("ADDED", "a").await?;
    has(
        &first,
        &json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "data": null, "type": null}),
    );
    cx.admin.delete(cx.core("secrets/a")).await?.ok(200);
    let last = watch.expect_about("DELETED", "a").await?;
    has(&last, &json!({"kind": "PartialObjectMetadata"}));
    Ok(())
}

async fn dry_runs_are_silent(cx: Cx) -> Result {
    let mut watch = secrets(&cx, "").await?;
    cx.admin.post(cx.core("secrets?dryRun=All"), &secret("a")).await?.ok(201);
    watch.expect_silence(Duration::from_millis(300)).await
}

async fn headers(cx: Cx) -> Result {
    let watch = secrets(&cx, "").await?;
    let header =
        |name: &str| watch.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    assert_eq!(header("content-type"), "application/json");
    assert_eq!(header("cache-control"), "no-cache, private");
    assert_eq!(header("content-length"), "");
    // Also over the older protocol, in chunks.
    let mut watch = cx.admin.http1().watch(cx.core("secrets?watch=1")).await?;
    assert_eq!(watch.headers.get("transfer-encoding").and_then(|value| value.to_str().ok()), Some("chunked"));
    cx.create(cx.core("secrets"), &secret("a")).await?;
    watch.expect_about("ADDED", "a").await?;
    Ok(())
}

async fn many_watchers_see_the_same(cx: Cx) -> Result {
    let start = version(&cx.read(cx.core("secrets")).await?);
    let mut watches = Vec::new();
    for _ in 0..20 {
        watches.push(secrets(&cx, &format!("&resourceVersion={start}")).await?);
    }
    let created = cx.create(cx.core("secrets"), &secret("a")).await?;
    let changed = label(&cx, "a", "1").await?;
    for watch in &mut watches {
        assert_eq!(watch.expect("ADDED").await?, created);
        assert_eq!(watch.expect("MODIFIED").await?, changed);
    }
    Ok(())
}

async fn of_a_single_object_path(cx: Cx) -> Result {
    // A watch of a named path is one of its collection, restricted to the name.
    cx.create(cx.core("secrets"), &secret("a")).await?;
    let answer = cx.admin.get(cx.core("secrets/a?watch=true&timeoutSeconds=1")).await?;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["kind"], "Secret", "{answer}");
    Ok(())
}

async fn status_changes(cx: Cx) -> Result {
    let created = cx.create(cx.apis("apps/v1", "deployments"), &deployment("a")).await?;
    let path = cx.apis("apps/v1", &format!("deployments?watch=1&resourceVersion={}", version(&created)));
    let mut watch = cx.admin.watch(path).await?;
    let patched = cx
        .admin
        .merge_patch(cx.apis("apps/v1", "deployments/a/status"), &json!({"status": {"replicas": 1}}))
        .await?
        .ok(200);
    assert_eq!(watch.expect("MODIFIED").await?, patched);
    Ok(())
}

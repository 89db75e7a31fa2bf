//! Watchers, reflectors and waiting for conditions.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::time::timeout;

use super::{PATIENCE, World, config_map, of, until};
use crate::support::Result;

super::scenarios!["watching":
    lists_and_watches,
    streams_the_list,
    metadata_is_enough,
    reflects,
    waits_for_conditions,
    waits_for_deletion,
    outlives_the_watch,
];

/// The next event of a watcher.
async fn next(
    events: &mut (impl Stream<Item = watcher::Result<watcher::Event<ConfigMap>>> + Unpin),
) -> Result<String> {
    let event = timeout(PATIENCE, events.try_next()).await??.ok_or("the watcher has ended")?;
    Ok(match event {
        watcher::Event::Init => "init".to_owned(),
        watcher::Event::InitApply(map) => format!("first {}", map.name_any()),
        watcher::Event::InitDone => "done".to_owned(),
        watcher::Event::Apply(map) => {
            format!("apply {}={}", map.name_any(), map.data.unwrap_or_default()["key"])
        }
        watcher::Event::Delete(map) => format!("delete {}", map.name_any()),
    })
}

async fn sees_everything(world: World, config: watcher::Config) -> Result {
    let maps: Api<ConfigMap> = world.api();
    for name in ["a", "b", "c"] {
        let mut map = config_map(name, "1");
        map.labels_mut().insert("see".to_owned(), "me".to_owned());
        maps.create(&PostParams::default(), &map).await?;
    }
    let mut events = std::pin::pin!(watcher(maps.clone(), config.labels("see=me")));
    assert_eq!(next(&mut events).await?, "init");
    for expected in ["first a", "first b", "first c", "done"] {
        assert_eq!(next(&mut events).await?, expected);
    }
    maps.patch("b", &PatchParams::default(), &Patch::Merge(json!({"data": {"key": "2"}}))).await?;
    assert_eq!(next(&mut events).await?, "apply b=2");
    // What no longer matches is gone, and what matches again is there.
    maps.patch("b", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"labels": {"see": "not"}}})))
        .await?;
    assert_eq!(next(&mut events).await?, "delete b");
    maps.patch("b", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"labels": {"see": "me"}}})))
        .await?;
    assert_eq!(next(&mut events).await?, "apply b=2");
    maps.delete("a", &DeleteParams::default()).await?;
    assert_eq!(next(&mut events).await?, "delete a");
    Ok(())
}

async fn lists_and_watches(world: World) -> Result {
    sees_everything(world, watcher::Config::default().page_size(2)).await
}

async fn streams_the_list(world: World) -> Result {
    sees_everything(world, watcher::Config::default().streaming_lists()).await
}

async fn metadata_is_enough(world: World) -> Result {
    let maps: Api<ConfigMap> = world.api();
    maps.create(&PostParams::default(), &config_map("a", "1")).await?;
    let partial: Api<PartialObjectMeta<ConfigMap>> = world.api();
    let config = watcher::Config::default().fields("metadata.name=a");
    let mut objects = std::pin::pin!(watcher(partial, config).applied_objects());
    let first = timeout(PATIENCE, objects.try_next()).await??.ok_or("ended")?;
    assert_eq!(first.name_any(), "a");
    maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}})))
        .await?;
    let second = timeout(PATIENCE, objects.try_next()).await??.ok_or("ended")?;
    assert_eq!(second.labels().get("x").map(String::as_str), Some("y"));
    Ok(())
}

async fn reflects(world: World) -> Result {
    let maps: Api<ConfigMap> = world.api();
    for number in 0..20 {
        maps.create(&PostParams::default(), &config_map(&format!("m{number}"), "0")).await?;
    }
    let (store, writer) = reflector::store();
    let stream =
        reflector::reflector(writer, watcher(maps.clone(), watcher::Config::default())).default_backoff();
    let reflecting = tokio::spawn(stream.applied_objects().for_each(|_| async {}));
    timeout(PATIENCE, store.wait_until_ready()).await??;
    let names: BTreeSet<String> = store.state().iter().map(|map| map.name_any()).collect();
    assert!((0..20).all(|number| names.contains(&format!("m{number}"))), "{names:?}");
    let writers = (0..20).map(|number| {
        let maps = maps.clone();
        async move {
            let name = format!("m{number}");
            if number % 2 == 0 {
                maps.delete(&name, &DeleteParams::default()).await.map(drop)
            } else {
                let patch = Patch::Merge(json!({"data": {"key": "changed"}}));
                maps.patch(&name, &PatchParams::default(), &patch).await.map(drop)
            }
        }
    });
    futures::future::try_join_all(writers).await?;
    let ns = world.ns.clone();
    until("the store has caught up", || async {
        let caught = (0..20).all(|number| {
            let found = store.get(&ObjectRef::new(&format!("m{number}")).within(&ns));
            match found {
                None => number % 2 == 0,
                Some(map) => {
                    number % 2 == 1 && map.data.as_ref().is_some_and(|data| data["key"] == "changed")
                }
            }
        });
        Ok(caught.then_some(()))
    })
    .await?;
    reflecting.abort();
    Ok(())
}

async fn waits_for_conditions(world: World) -> Result {
    let accounts: Api<ServiceAccount> = world.api();
    timeout(PATIENCE, await_condition(accounts, "default", conditions::is_created())).await??;
    let pods: Api<Pod> = world.api();
    pods.create(&PostParams::default(), &of(crate::context::pod("p"))).await?;
    let waiting = tokio::spawn(await_condition_owned(pods.clone()));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    let status = json!({"status": {"phase": "Running"}});
    pods.patch_status("p", &PatchParams::default(), &Patch::Merge(status)).await?;
    timeout(PATIENCE, waiting).await???;
    Ok(())
}

async fn await_condition_owned(pods: Api<Pod>) -> std::result::Result<(), kube::runtime::wait::Error> {
    await_condition(pods, "p", conditions::is_pod_running()).await.map(drop)
}

async fn waits_for_deletion(world: World) -> Result {
    let maps: Api<ConfigMap> = world.api();
    let mut map = config_map("a", "1");
    map.finalizers_mut().push("example.com/hold".to_owned());
    maps.create(&PostParams::default(), &map).await?;
    kube::runtime::wait::delete::delete_and_finalize(maps.clone(), "b", &DeleteParams::default())
        .await
        .err()
        .ok_or("nothing to delete")?;
    let deleting = tokio::spawn({
        let maps = maps.clone();
        async move { kube::runtime::wait::delete::delete_and_finalize(maps, "a", &DeleteParams::default()).await }
    });
    until("it is going", || async { Ok(maps.get("a").await?.meta_deletion().then_some(())) }).await?;
    maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}})))
        .await?;
    timeout(PATIENCE, deleting).await???;
    Ok(())
}

trait Going {
    fn meta_deletion(&self) -> bool;
}

impl Going for ConfigMap {
    fn meta_deletion(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// Watches end after some time; what happens between them is not lost.
async fn outlives_the_watch(world: World) -> Result {
    let maps: Api<ConfigMap> = world.api();
    let config = watcher::Config::default().fields("metadata.name=a").timeout(1);
    let mut events = std::pin::pin!(watcher(maps.clone(), config));
    assert_eq!(next(&mut events).await?, "init");
    assert_eq!(next(&mut events).await?, "done");
    for round in 0..4 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": round.to_string()}});
        maps.patch("a", &PatchParams::apply("test"), &Patch::Apply(map)).await?;
        assert_eq!(next(&mut events).await?, format!("apply a={round}"));
    }
    Ok(())
}

//! Caches stay true whatever happens to their watch.

use std::time::Duration;

use serde_json::{Value, json};
use trellis_lab::faults::{Fault, Matching, When};
use trellis_runtime::client::{Delete, Leads, Verb};
use trellis_runtime::{Cache, Change, Key, Selection, Site};

use crate::support::{CONFIG_MAP, ConfigMap, World, contents, key, map, until, within};

async fn create(site: &Site, name: &str, text: &str) -> ConfigMap {
    site.create(&CONFIG_MAP, "default", &map(name, text)).await.unwrap()
}

async fn set(site: &Site, name: &str, text: &str) -> ConfigMap {
    site.merge_patch(&CONFIG_MAP, &key(name), &json!({"data": {"text": text}})).await.unwrap()
}

async fn delete(site: &Site, name: &str) {
    let found: ConfigMap = site.get(&CONFIG_MAP, &key(name)).await.unwrap();
    site.delete(&CONFIG_MAP, &key(name), &Delete::uid(&found.metadata.uid)).await.unwrap();
}

async fn becomes(cache: &Cache<ConfigMap>, wanted: &[&str]) {
    until(&format!("{wanted:?}"), || async { contents(cache) == wanted }).await;
}

fn told(change: &Change<ConfigMap>) -> String {
    let text = |map: &Option<std::sync::Arc<ConfigMap>>| {
        map.as_ref().map_or_else(|| "-".to_owned(), |map| map.summary())
    };
    format!("{} > {}", text(&change.old), text(&change.new))
}

#[tokio::test(start_paused = true)]
async fn a_cache_follows_its_selection() {
    let world = World::new().await;
    create(&world.site, "a", "1").await;
    let cache = world.maps(Selection::namespace("default").labels("app=x")).await;
    assert_eq!(contents(&cache), ["a=1"]);
    create(&world.site, "b", "1").await;
    set(&world.site, "a", "2").await;
    becomes(&cache, &["a=2", "b=1"]).await;
    let other = json!({"metadata": {"labels": {"app": "y"}}});
    world.site.merge_patch::<Value>(&CONFIG_MAP, &key("b"), &other).await.unwrap();
    delete(&world.site, "a").await;
    becomes(&cache, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn only_changes_of_what_is_kept_are_told() {
    let world = World::new().await;
    create(&world.site, "a", "1").await;
    let cache = world.maps(Selection::namespace("default").labels("app=x")).await;
    let mut changes = cache.changes();
    let note = json!({"metadata": {"annotations": {"noise": "1"}}});
    world.site.merge_patch::<Value>(&CONFIG_MAP, &key("a"), &note).await.unwrap();
    set(&world.site, "a", "2").await;
    delete(&world.site, "a").await;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(told(&within(changes.recv()).await.unwrap()));
    }
    assert_eq!(seen, ["- > a=1", "a=1 > a=2", "a=2 > -"]);
}

#[tokio::test(start_paused = true)]
async fn one_watch_and_no_list_is_all_it_takes() {
    let world = World::new().await;
    let before = world.site.traffic().sum(|request| request.verb.is_read());
    let cache = world.maps(Selection::namespace("default")).await;
    create(&world.site, "a", "1").await;
    becomes(&cache, &["a=1"]).await;
    let reads = world.site.traffic().sum(|request| request.verb.is_read()) - before;
    assert_eq!((reads, world.site.traffic().of(Verb::List, &CONFIG_MAP)), (1, 0));
    tokio::time::sleep(Duration::from_hours(1)).await;
    let watches = world.site.traffic().of(Verb::Watch, &CONFIG_MAP);
    assert!((7..=13).contains(&watches), "a watch is open for 5 to 10 minutes: {watches}");
    assert_eq!((cache.relists(), world.site.traffic().of(Verb::List, &CONFIG_MAP)), (0, 0));
    assert!(cache.news_age() <= Duration::from_secs(61), "{:?}", cache.news_age());
}

#[tokio::test(start_paused = true)]
async fn what_happened_while_the_watch_was_lost_is_told() {
    let world = World::new().await;
    create(&world.site, "a", "1").await;
    create(&world.site, "b", "1").await;
    let cache = world.maps(Selection::namespace("default").labels("app=x")).await;
    let mut changes = cache.changes();
    for _ in 0..2 {
        changes.recv().await.unwrap();
    }
    // The watch cannot be taken up again, and after its end everything is told anew.
    let faults = world.lab.faults();
    faults.add(Matching::new("watch", "configmaps"), When::Always, Fault::Fail(503));
    faults.add(Matching::new("list", "configmaps"), When::Always, Fault::Fail(503));
    world.site.swap(world.other().client(), Leads::Elsewhere);
    let other = world.other();
    delete(&other, "a").await;
    set(&other, "b", "2").await;
    create(&other, "c", "1").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(contents(&cache), ["a=1", "b=1"]);
    assert!(!world.site.is_up());
    faults.clear();
    becomes(&cache, &["b=2", "c=1"]).await;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(told(&within(changes.recv()).await.unwrap()));
    }
    seen.sort();
    assert_eq!(seen, ["- > c=1", "a=1 > -", "b=1 > b=2"]);
    assert!(world.site.is_up());
    assert!(cache.relists() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_not_fed_says_so_though_the_server_answers() {
    let world = World::new().await;
    create(&world.site, "a", "1").await;
    let cache = world.maps(Selection::namespace("default").labels("app=x")).await;
    assert!(cache.health().borrow().is_up());
    let faults = world.lab.faults();
    faults.add(Matching::new("watch", "configmaps"), When::Always, Fault::Fail(403));
    faults.add(Matching::new("list", "configmaps"), When::Always, Fault::Fail(403));
    world.site.swap(world.other().client(), Leads::Elsewhere);
    for round in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        set(&world.site, "a", &round.to_string()).await;
    }
    assert!(world.site.is_up() && !cache.health().borrow().is_up());
    faults.clear();
    becomes(&cache, &["a=59"]).await;
    assert!(cache.health().borrow().is_up());
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_begins_anew() {
    let world = World::new().await;
    create(&world.site, "a", "1").await;
    world.lab.faults().add(Matching::new("watch", "configmaps"), When::Occurrence(1), Fault::ExpireWatch(1));
    let cache = world.maps(Selection::namespace("default").labels("app=x")).await;
    set(&world.site, "a", "2").await;
    set(&world.site, "a", "3").await;
    create(&world.site, "b", "1").await;
    becomes(&cache, &["a=3", "b=1"]).await;
    assert_eq!(cache.relists(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cut_watch_goes_on_where_it_was() {
    let world = World::new().await;
    world.lab.faults().add(Matching::new("watch", "configmaps"), When::Between(1, 3), Fault::CutWatch(1));
    let cache = world.maps(Selection::namespace("default").labels("app=x")).await;
    for name in ["a", "b", "c", "d", "e"] {
        create(&world.site, name, "1").await;
    }
    becomes(&cache, &["a=1", "b=1", "c=1", "d=1", "e=1"]).await;
    assert_eq!(cache.relists(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_stream_is_listed_in_pages() {
    let world = World::new().await;
    for number in 0..1100 {
        create(&world.site, &format!("m{number}"), "1").await;
    }
    // It refuses the first watch, which asks for what is there, as an old server does.
    world.lab.faults().add(Matching::new("watch", "configmaps"), When::Occurrence(1), Fault::Fail(422));
    let cache = Cache::<ConfigMap>::new(CONFIG_MAP, Selection::namespace("default").labels("app=x"));
    let (feed, site) = (cache.clone(), OldServer::site(&world));
    tokio::spawn(async move { feed.run(&site, 1).await });
    within(cache.synced()).await;
    assert_eq!(cache.len(), 1100);
    create(&world.site, "more", "1").await;
    until("the new one is told", || async { cache.get(&key("more")).is_some() }).await;
}

/// A server that refuses to begin a watch with what is there.
struct OldServer;

impl OldServer {
    fn site(world: &World) -> Site {
        use futures::FutureExt as _;
        let lab = world.other().client();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let lab = lab.clone();
            async move {
                if request.uri().query().is_some_and(|query| query.contains("sendInitialEvents")) {
                    let body = json!({"kind": "Status", "code": 422, "reason": "Invalid", "message": "no"});
                    let body = kube::client::Body::from(body.to_string().into_bytes());
                    return Ok(http::Response::builder().status(422).body(body).unwrap());
                }
                lab.send(request).await
            }
            .boxed()
        });
        Site::new("old", kube::Client::new(service, "default"))
    }
}

#[tokio::test(start_paused = true)]
async fn own_writes_are_seen_at_once() {
    let world = World::new().await;
    // The watch says nothing for a while.
    let cache = world.maps(Selection::namespace("default").labels("app=x")).await;
    let made = create(&world.site, "a", "1").await;
    cache.written(made.clone());
    assert_eq!(contents(&cache), ["a=1"]);
    let changed = set(&world.site, "a", "2").await;
    delete(&world.site, "a").await;
    cache.removed(&key("a"), &made.metadata.uid);
    // The answer comes late.
    cache.written(changed);
    assert_eq!(contents(&cache), Vec::<String>::new());
    create(&world.site, "z", "1").await;
    becomes(&cache, &["z=1"]).await;
    assert_eq!(cache.get(&Key::new("default", "a")), None);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_random_histories_end_in_the_truth() {
    let world = World::new().await;
    let cache = world.maps(Selection::namespace("default").labels("app=x")).await;
    let mut dice = trellis_runtime::Dice::new(7);
    for (fault, number) in [(Fault::CutWatch(3), 2), (Fault::ExpireWatch(4), 4), (Fault::CutWatch(1), 6)] {
        world.lab.faults().add(Matching::new("watch", "configmaps"), When::Occurrence(number), fault);
    }
    for round in 0..300 {
        let name = format!("n{}", dice.roll() % 6);
        let found = world.site.find::<ConfigMap>(&CONFIG_MAP, &key(&name)).await.unwrap();
        match (found, dice.roll() % 3) {
            (None, _) => {
                let made = create(&world.site, &name, &round.to_string()).await;
                if dice.roll().is_multiple_of(2) {
                    cache.written(made);
                }
            }
            (Some(_), 0) => {
                let changed = set(&world.site, &name, &round.to_string()).await;
                if dice.roll().is_multiple_of(2) {
                    cache.written(changed);
                }
            }
            (Some(old), 1) => {
                delete(&world.site, &name).await;
                if dice.roll().is_multiple_of(2) {
                    cache.removed(&key(&name), &old.metadata.uid);
                }
                // An answer that was long under way.
                cache.written(old);
            }
            (Some(_), _) => tokio::time::sleep(Duration::from_secs(dice.roll() % 20)).await,
        }
    }
    let truth: Vec<ConfigMap> =
        world.site.list(&CONFIG_MAP, &Selection::namespace("default").labels("app=x")).await.unwrap();
    let truth: Vec<_> = truth.iter().map(ConfigMap::summary).collect();
    let truth: Vec<_> = truth.iter().map(String::as_str).collect();
    becomes(&cache, &truth).await;
}

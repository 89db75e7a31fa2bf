//! Watches that lose events, mix them up or end, and what bookmarks say meanwhile.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::json;
use trellis_lab::faults::{Fault, Matching, When};

use crate::{Cluster, MAPS, config_map, version};

fn plan(cluster: &Cluster, fault: Fault) {
    cluster.lab.faults().add(Matching::new("watch", "configmaps"), When::Occurrence(1), fault);
}

/// A watch with this fault from now on, of what is labelled `seen`, and a second one without it.
async fn watches(cluster: &Cluster, fault: Fault) -> (crate::Watching, crate::Watching) {
    plan(cluster, fault);
    let now = version(&cluster.get(MAPS).await.1);
    let query = format!("resourceVersion={now}&labelSelector=seen&allowWatchBookmarks=true");
    (cluster.watch(&query).await, cluster.watch(&query).await)
}

#[tokio::test(start_paused = true)]
async fn a_lost_event_is_one_the_watch_would_have_shown() {
    let cluster = Cluster::start().await;
    let (mut faulty, mut whole) = watches(&cluster, Fault::DropEvent(2)).await;
    for (name, labels) in [
        ("other", json!({})),
        ("a", json!({"seen": "1"})),
        ("another", json!({})),
        ("b", json!({"seen": "1"})),
        ("c", json!({"seen": "1"})),
    ] {
        cluster.create(name, labels).await;
    }
    for name in ["a", "c"] {
        assert_eq!(faulty.told().await, format!("ADDED {name}"));
    }
    assert!(faulty.is_quiet().await);
    for name in ["a", "b", "c"] {
        assert_eq!(whole.told().await, format!("ADDED {name}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_swapped_event_comes_after_the_next_of_another_object() {
    let cluster = Cluster::start().await;
    let (mut faulty, _) = watches(&cluster, Fault::SwapEvent(1)).await;
    let held = cluster.create("a", json!({"seen": "1"})).await;
    cluster.create("other", json!({})).await;
    assert!(faulty.is_quiet().await, "what the watch does not show sets nothing free");

    // However long it is held back, no bookmark says that it was sent.
    tokio::time::sleep(Duration::from_secs(130)).await;
    let bookmark = faulty.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert!(version(&bookmark["object"]) < held, "{bookmark}");

    cluster.create("b", json!({"seen": "1"})).await;
    loop {
        let told = faulty.told().await;
        if told != "BOOKMARK " {
            assert_eq!(told, "ADDED b");
            break;
        }
    }
    assert_eq!(faulty.told().await, "ADDED a");
    tokio::time::sleep(Duration::from_secs(70)).await;
    let bookmark = faulty.next().await.unwrap();
    assert!(version(&bookmark["object"]) > held, "{bookmark}");
}

#[tokio::test(start_paused = true)]
async fn events_of_one_object_are_never_swapped() {
    let cluster = Cluster::start().await;
    plan(&cluster, Fault::SwapEvent(1));
    let now = version(&cluster.get(MAPS).await.1);
    let mut faulty = cluster.watch(&format!("resourceVersion={now}")).await;
    cluster.create("a", json!({})).await;
    cluster.update("a", "2").await;
    assert_eq!(faulty.told().await, "ADDED a");
    assert_eq!(faulty.told().await, "MODIFIED a");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_after_so_many_events() {
    for (fault, says_so) in [(Fault::ExpireWatch(2), true), (Fault::CutWatch(2), false)] {
        let cluster = Cluster::start().await;
        let (mut faulty, mut whole) = watches(&cluster, fault).await;
        cluster.create("other", json!({})).await;
        for name in ["a", "b", "c"] {
            cluster.create(name, json!({"seen": "1"})).await;
        }
        assert_eq!(faulty.told().await, "ADDED a");
        assert_eq!(faulty.told().await, "ADDED b");
        if says_so {
            let error = faulty.next().await.unwrap();
            assert_eq!(
                (error["type"].as_str(), error["object"]["code"].as_u64()),
                (Some("ERROR"), Some(410))
            );
        }
        assert!(faulty.next().await.is_none());
        for name in ["a", "b", "c"] {
            assert_eq!(whole.told().await, format!("ADDED {name}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_far_behind_is_told_everything_in_order() {
    let cluster = Cluster::start().await;
    let now = version(&cluster.get(MAPS).await.1);
    let big = "x".repeat(20_000);
    cluster.create("a", json!({})).await;
    for round in 0..40 {
        cluster.update("a", &format!("{round}{big}")).await;
    }
    let mut watch = cluster.watch(&format!("resourceVersion={now}")).await;
    assert_eq!(watch.told().await, "ADDED a");
    for round in 0..40 {
        let event = watch.next().await.unwrap();
        assert_eq!(event["object"]["data"]["x"], format!("{round}{big}"));
    }
    assert!(watch.is_quiet().await);
}

/// Time passes whenever everybody waits for the disk, so bookmarks come at the worst of times.
#[tokio::test(start_paused = true)]
async fn a_bookmark_never_overtakes_an_event() {
    const WRITERS: usize = 8;
    const ROUNDS: usize = 40;
    let folder = tempfile::tempdir().unwrap();
    let cluster = Arc::new(Cluster::start_in(Some(folder.path())).await);
    let start = version(&cluster.get(MAPS).await.1);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let cluster = Arc::clone(&cluster);
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    // An answer may come too late in this time; the write is made all the same.
                    let map = config_map(&format!("m{writer}-{round}"), "1", &json!({}));
                    cluster.send(Method::POST, MAPS, &map).await;
                }
            })
        })
        .collect();
    let (mut known, mut bookmarks, mut seen) = (start, 0, 0);
    while seen < WRITERS * ROUNDS {
        let query = format!("resourceVersion={known}&allowWatchBookmarks=true&timeoutSeconds=100");
        let mut watch = cluster.watch(&query).await;
        while seen < WRITERS * ROUNDS
            && let Some(event) = watch.next().await
        {
            let version = version(&event["object"]);
            if event["type"] == "BOOKMARK" {
                bookmarks += 1;
                assert!(version >= known, "a bookmark goes back: {version} after {known}");
            } else {
                assert!(version > known, "an event of {version} after {known} was told");
                seen += 1;
            }
            known = version;
        }
    }
    assert!(bookmarks > 0);
    for writer in writers {
        writer.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn watches_that_name_no_time_end_at_various_ones() {
    let cluster = Cluster::start().await;
    let start = tokio::time::Instant::now();
    let mut ends = Vec::new();
    for _ in 0..3 {
        ends.push(async {
            let mut watch = cluster.watch("").await;
            while watch.next().await.is_some() {}
            start.elapsed().as_secs()
        });
    }
    let mut ends = futures::future::join_all(ends).await;
    ends.sort_unstable();
    ends.dedup();
    assert!(ends.len() == 3 && ends.iter().all(|end| (1800..=3605).contains(end)), "{ends:?}");
}

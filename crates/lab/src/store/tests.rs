use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::clock;

fn maps() -> GroupResource {
    GroupResource::new("", "configmaps")
}

fn object(name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "uid": format!("uid-{name}")}, "data": {"x": data}})
}

fn put(store: &Store, name: &str, data: &str, expect: Expect) -> Result<u64, Refusal> {
    let draft = Draft::new(&object(name, data), Vec::new(), 0);
    store.put(&maps(), &Key::new("ns", name), expect, draft).map(|record| record.version)
}

fn names(listing: &Listing) -> Vec<String> {
    let name = |record: &Arc<Record>| record.parse()["metadata"]["name"].as_str().unwrap().to_owned();
    listing.records.iter().map(name).collect()
}

#[test]
fn a_write_expects_what_it_has_seen() {
    let store = Store::in_memory(clock::system(), Retention::default());
    let first = put(&store, "a", "1", Expect::Absent).unwrap();
    assert!(
        matches!(put(&store, "a", "2", Expect::Absent), Err(Refusal::Changed(found)) if found.version == first)
    );
    let second = put(&store, "a", "2", Expect::Version(first)).unwrap();
    assert!(
        matches!(put(&store, "a", "3", Expect::Version(first)), Err(Refusal::Changed(found)) if found.version == second)
    );
    assert!(matches!(put(&store, "b", "1", Expect::Version(7)), Err(Refusal::Gone)));
}

#[test]
fn pages_show_the_state_at_the_first_page() {
    let store = Store::in_memory(clock::system(), Retention::default());
    for name in ["a", "b", "c", "d"] {
        put(&store, name, "1", Expect::Absent).unwrap();
    }
    let query = Query { namespace: Some("ns"), limit: 2, ..Query::default() };
    let first = store.list(&maps(), &query, |_, _| true);
    assert_eq!((names(&first), first.remaining), (vec!["a".to_owned(), "b".to_owned()], 2));

    // Between the pages one object goes, one changes and one comes.
    let c = store.get(&maps(), &Key::new("ns", "c")).unwrap();
    store.remove(&maps(), &Key::new("ns", "c"), c.version, Draft::new(&c.parse(), Vec::new(), 0)).unwrap();
    let d = store.get(&maps(), &Key::new("ns", "d")).unwrap();
    put(&store, "d", "2", Expect::Version(d.version)).unwrap();
    put(&store, "e", "1", Expect::Absent).unwrap();

    let rest = Query { after: first.next, ..query };
    let second = store.list_at(&maps(), first.version, &rest, |_, _| true).unwrap();
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second.records[1].parse()["data"]["x"], "1");
    assert_eq!(second.next, None);
    store.compact(&maps());
    assert_eq!(store.list_at(&maps(), first.version, &rest, |_, _| true).unwrap_err(), OutOfRange::Expired);
    assert!(matches!(store.list_at(&maps(), 1_000, &rest, |_, _| true), Err(OutOfRange::Future(7))));
}

#[test]
fn old_events_are_dropped_and_asking_for_them_expires() {
    let mut history = History::beginning_at(0);
    let retention = Retention { age: Duration::from_secs(10), least: 2, most: 4, most_bytes: usize::MAX };
    let event = |version: u64| {
        let record =
            Arc::new(Draft::new(&object("a", "1"), Vec::new(), 0).finish(&Key::new("ns", "a"), version));
        Arc::new(Event::new(EventKind::Modified, Key::new("ns", "a"), record, None))
    };
    let between = |history: &History, after, until| {
        let mut versions = Vec::new();
        let enough = history.visit(after, until, |event| {
            versions.push(event.record.version);
            ControlFlow::Continue(())
        });
        enough.map(|_| versions)
    };
    let start = Timestamp::UNIX_EPOCH;
    for version in 1..=3 {
        history.push(event(version), start, &retention);
    }
    assert_eq!(between(&history, 0, 9).unwrap(), [1, 2, 3], "young events are kept");
    history.push(event(4), start + Duration::from_mins(1), &retention);
    assert_eq!(between(&history, 2, 9).unwrap(), [3, 4], "old ones beyond the least are not");
    assert!(between(&history, 1, 9).is_none());
    for version in 5..=9 {
        history.push(event(version), start + Duration::from_mins(1), &retention);
    }
    assert!(between(&history, 4, 9).is_none(), "never more than the most");
    assert_eq!(between(&history, 5, 7).unwrap(), [6, 7]);
}

#[test]
fn events_take_no_more_memory_than_they_may_and_go_when_they_are_old() {
    let mut history = History::beginning_at(0);
    let event = |version: u64| {
        let big = object("a", &"x".repeat(10_000));
        let record = Arc::new(Draft::new(&big, Vec::new(), 0).finish(&Key::new("ns", "a"), version));
        Arc::new(Event::new(EventKind::Modified, Key::new("ns", "a"), record, None))
    };
    let versions = |history: &History, after| {
        let mut versions = Vec::new();
        let enough = history.visit(after, u64::MAX, |event| {
            versions.push(event.record.version);
            if versions.len() < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        enough.map(|enough| (versions, enough.is_break()))
    };
    let retention = Retention { age: Duration::from_secs(10), least: 1, most: 100, most_bytes: 70_000 };
    let start = Timestamp::UNIX_EPOCH;
    for version in 1..=8 {
        history.push(event(version), start, &retention);
    }
    assert!(versions(&history, 4).is_none());
    assert_eq!(versions(&history, 5).unwrap(), (vec![6, 7], true), "there is another one");
    assert_eq!(versions(&history, 6).unwrap(), (vec![7, 8], false), "and then there is none");
    history.trim(start + Duration::from_mins(1), &retention);
    assert!(versions(&history, 6).is_none(), "nothing was written, and still they are too old");
    assert_eq!(versions(&history, 7).unwrap(), (vec![8], false));
    history.push(event(9), start + Duration::from_mins(1), &Retention { most_bytes: 1, ..retention });
    assert_eq!(versions(&history, 8).unwrap(), (vec![9], false), "the newest one stays");
}

#[tokio::test]
async fn what_was_settled_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let open = || Store::open(&path, clock::system(), Retention::default(), |_, _| Vec::new()).unwrap();
    let store = open();
    let mut tap = store.tap();
    let seen = store.subscribe(&maps());
    let first = put(&store, "a", "1", Expect::Absent).unwrap();
    put(&store, "b", "1", Expect::Absent).unwrap();
    let b = store.get(&maps(), &Key::new("ns", "b")).unwrap();
    let gone = store
        .remove(&maps(), &Key::new("ns", "b"), b.version, Draft::new(&b.parse(), Vec::new(), 0))
        .unwrap();
    store.settled(gone.version).await.unwrap();
    assert_eq!(tap.recv().await.unwrap().event.record.version, first);
    seen.reaches(gone.version).await;
    let kinds: Vec<_> = store.events_after(&maps(), first).unwrap().iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Added, EventKind::Deleted]);
    drop(store);

    let store = open();
    assert_eq!(store.version(), gone.version, "the version of a removal is not used again");
    assert_eq!(names(&store.list(&maps(), &Query::default(), |_, _| true)), ["a"]);
    assert_eq!(store.get(&maps(), &Key::new("ns", "a")).unwrap().version, first);
    assert_eq!(store.by_uid("uid-a").unwrap().1, Key::new("ns", "a"));
    assert_eq!(store.events_after(&maps(), first).unwrap_err(), OutOfRange::Expired);
}

#[test]
fn an_object_is_there_once_after_reopening_however_often_it_was_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let open = || Store::open(&path, clock::system(), Retention::default(), |_, _| Vec::new()).unwrap();
    let store = open();
    let first = put(&store, "a", "1", Expect::Absent).unwrap();
    let second = put(&store, "a", "2", Expect::Version(first)).unwrap();
    drop(store);
    let store = open();
    assert_eq!(store.get(&maps(), &Key::new("ns", "a")).unwrap().version, second);
    assert_eq!(store.version(), second);
    // A version read from the disk is the one by which the object is found there again.
    let third = put(&store, "a", "3", Expect::Version(second)).unwrap();
    drop(store);
    let store = open();
    assert_eq!(store.get(&maps(), &Key::new("ns", "a")).unwrap().version, third);
    assert_eq!((store.count(&maps()), store.version()), (1, third));
}

#[test]
fn the_past_ends_at_the_compaction_before_the_last() {
    let store = Store::in_memory(clock::system(), Retention::default());
    put(&store, "a", "1", Expect::Absent).unwrap();
    let seen = store.version();
    let list =
        |version| store.list_at(&maps(), version, &Query::default(), |_, _| true).map(|list| names(&list));
    store.compact_past();
    assert_eq!(list(seen).unwrap(), ["a"]);
    store.compact_past();
    // Nothing was written since, and still it is too old; what is read now is not.
    assert_eq!(list(seen).unwrap_err(), OutOfRange::Expired);
    assert_eq!(list(store.version()).unwrap(), ["a"]);
    // A watch may go on from there all the same.
    assert!(store.events_after(&maps(), seen).unwrap().is_empty());
    assert_eq!(store.resources(), [maps()]);
}

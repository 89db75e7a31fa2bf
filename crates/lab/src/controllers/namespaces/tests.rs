use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::store::{Draft, Expect};
use crate::{Lab, Options};

fn maps() -> GroupResource {
    GroupResource::new("", "configmaps")
}

/// Stores a map as one whose writer was let in while all was well.
fn store_late(store: &Store, namespace: &str) -> Key {
    let key = Key::new(namespace, "late");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "late", "namespace": namespace, "uid": format!("late-{namespace}")}});
    store.put(&maps(), &key, Expect::Absent, Draft::new(&map, Vec::new(), 0)).unwrap();
    key
}

async fn until(done: impl Fn() -> bool) {
    tokio::time::timeout(Duration::from_secs(20), async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn what_is_stored_late_goes_too() {
    let lab = Lab::start(Options::default()).await.unwrap();
    let store = Arc::clone(lab.store());
    // The controllers are at work.
    let (accounts, account) = (GroupResource::new("", "serviceaccounts"), Key::new("default", "default"));
    until(|| store.get(&accounts, &account).is_some()).await;
    // Gone for good, and gone but for somebody else's finalizer: nobody clears that one any more.
    let key = Key::new("", "held");
    let held = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "held", "uid": "held",
        "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/held"]},
        "spec": {}, "status": {"phase": "Terminating"}});
    store.put(&resource(), &key, Expect::Absent, Draft::new(&held, Vec::new(), 0)).unwrap();
    for namespace in ["held", "gone"] {
        let late = store_late(&store, namespace);
        until(|| store.get(&maps(), &late).is_none()).await;
    }
    assert!(store.get(&resource(), &key).is_some());
}

#[tokio::test]
async fn what_a_stop_left_without_a_namespace_goes_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        |controllers| Options { folder: Some(folder.path().to_owned()), controllers, ..Options::default() };
    let lab = Lab::start(options(crate::Controllers::Outside)).await.unwrap();
    let late = store_late(lab.store(), "gone");
    lab.store().settled(lab.store().version()).await.unwrap();
    drop(lab);
    let lab = loop {
        // The last tasks of the one that ended may hold the folder for a moment.
        match Lab::start(options(crate::Controllers::Embedded)).await {
            Ok(lab) => break lab,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    until(|| lab.store().get(&maps(), &late).is_none()).await;
}

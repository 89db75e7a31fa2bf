//! Golden volumes: imported once, counted, and collected when nobody has used them for a while.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use trellis_model::Pool;
use trellis_platform::ImageState;
use trellis_platform_kubevirt::{GoldenPlan, Verb, clone_method, golden_name, golden_plan, seen};

use crate::builders::{cluster, merged, pool};
use crate::seeing::read;

const HOUR: Duration = Duration::from_hours(1);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn plan(pools: &[&Pool], volumes: &[&seen::DataVolume], now: &str) -> GoldenPlan {
    golden_plan(&cluster("demo", json!({})), pools, volumes, at(now), HOUR)
}

fn golden(name: &str, patch: Value) -> seen::DataVolume {
    let base = json!({
        "metadata": { "name": name, "namespace": "demo", "uid": "g-1", "labels": { "trellis.dev/cluster": "demo" } },
        "spec": { "source": { "http": { "url": "https://images.example/noble.img" } } },
        "status": { "phase": "Succeeded" },
    });
    read(merged(base, patch))
}

fn clone_of(name: &str) -> seen::DataVolume {
    read(json!({
        "metadata": { "name": "m-root-disk", "uid": "d-1", "labels": { "trellis.dev/cluster": "demo", "trellis.dev/machine": "m" } },
        "spec": { "source": { "pvc": { "namespace": "demo", "name": name } } },
        "status": { "phase": "Succeeded" },
    }))
}

#[test]
fn pools_with_the_same_image_and_storage_share_one_import() {
    let (a, b) = (pool("demo", "a", json!({})), pool("demo", "b", json!({})));
    let apart = pool("demo", "c", json!({ "template": { "image": { "delivery": "PerMachine" } } }));
    let other = pool("demo", "d", json!({ "template": { "rootDisk": { "storage": { "class": "fast" } } } }));
    assert_eq!(golden_name(&cluster("demo", json!({})), &apart), None);
    let plan = plan(&[&a, &b, &apart, &other], &[], "2026-01-01T00:00:00Z");
    assert_eq!(plan.uses.len(), 2);
    assert_eq!(plan.uses.iter().map(|uses| uses.pools).sum::<usize>(), 3);
    assert!(plan.uses.iter().all(|uses| uses.state == ImageState::Missing));
    assert!(plan.calls.iter().all(|call| call.verb == Verb::Create && call.plural == "datavolumes"));
    assert_eq!((plan.calls.len(), plan.deadline), (2, None));
}

#[test]
fn what_is_used_by_a_pool_or_a_machine_stays() {
    let a = pool("demo", "a", json!({}));
    let name = golden_name(&cluster("demo", json!({})), &a).unwrap();
    let volume = golden(&name, json!({}));
    let wanted = plan(&[&a], &[&volume], "2026-01-01T00:00:00Z");
    assert_eq!((wanted.calls.len(), wanted.deadline, wanted.uses[0].pools), (0, None, 1));
    let clone = clone_of(&name);
    let used = plan(&[], &[&volume, &clone], "2026-01-01T00:00:00Z");
    assert_eq!((used.calls.len(), used.uses.len(), used.uses[0].disks), (0, 1, 1));
    // Wanted again before its time was over: the mark goes.
    let marked = golden(
        &name,
        json!({ "metadata": { "annotations": { "trellis.dev/unused-since": "2026-01-01T00:00:00Z" } } }),
    );
    let again = plan(&[&a], &[&marked], "2027-01-01T00:00:00Z");
    assert_eq!(again.calls.len(), 1);
    assert_eq!(again.calls[0].verb, Verb::MergePatch);
    assert!(
        again.calls[0].body.as_ref().unwrap()["metadata"]["annotations"]["trellis.dev/unused-since"]
            .is_null()
    );
}

#[test]
fn what_is_unused_is_marked_and_collected_after_its_grace() {
    let volume = golden("demo-image-old", json!({}));
    let first = plan(&[], &[&volume], "2026-01-01T00:00:00Z");
    assert_eq!(first.calls[0].verb, Verb::MergePatch);
    let body = first.calls[0].body.as_ref().unwrap();
    assert_eq!(body["metadata"]["uid"], "g-1");
    assert_eq!(body["metadata"]["annotations"]["trellis.dev/unused-since"], "2026-01-01T00:00:00Z");
    assert_eq!(first.deadline, Some(at("2026-01-01T01:00:00Z")));
    let marked = golden(
        "demo-image-old",
        json!({ "metadata": { "annotations": { "trellis.dev/unused-since": "2026-01-01T00:00:00Z" } } }),
    );
    let waiting = plan(&[], &[&marked], "2026-01-01T00:59:59Z");
    assert_eq!((waiting.calls.len(), waiting.deadline), (0, Some(at("2026-01-01T01:00:00Z"))));
    let over = plan(&[], &[&marked], "2026-01-01T01:00:00Z");
    assert_eq!((over.calls[0].verb, over.calls[0].precondition_uid.as_deref()), (Verb::Delete, Some("g-1")));
    let going = golden(
        "demo-image-old",
        json!({ "metadata": {
        "annotations": { "trellis.dev/unused-since": "2026-01-01T00:00:00Z" }, "deletionTimestamp": "2026-01-01T01:00:00Z",
    } }),
    );
    assert_eq!(plan(&[], &[&going], "2026-01-02T00:00:00Z").calls, []);
}

#[test]
fn only_golden_volumes_of_this_cluster_are_collected() {
    let foreign =
        golden("other-image-1", json!({ "metadata": { "labels": { "trellis.dev/cluster": "other" } } }));
    let unlabelled = golden("handmade", json!({ "metadata": { "labels": null } }));
    let of_machine =
        golden("m-root-disk", json!({ "metadata": { "labels": { "trellis.dev/machine": "m" } } }));
    let blank = golden("data", json!({ "spec": { "source": { "http": null, "blank": {} } } }));
    assert_eq!(
        plan(&[], &[&foreign, &unlabelled, &of_machine, &blank], "2026-01-01T00:00:00Z"),
        GoldenPlan::default()
    );
}

#[test]
fn the_way_of_cloning_is_what_the_storage_profile_says() {
    let said = |strategy: Value| {
        let profile: seen::StorageProfile =
            read(json!({ "metadata": { "name": "fast" }, "status": { "cloneStrategy": strategy } }));
        clone_method(Some(&profile))
    };
    assert_eq!(said(json!("copy")), "copy of every byte");
    assert_eq!(said(json!("csi-clone")), "clone by the storage");
    assert_eq!(said(json!("snapshot")), "clone of a snapshot");
    assert_eq!(said(json!("teleport")), "unknown");
    assert_eq!(clone_method(None), "unknown: not allowed to look");
}

//! Cells against those of the real server.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::*;

/// One object per line with its kind, the cells the real server showed, and when it showed them.
#[test]
fn cells_are_those_of_the_real_server() {
    let mut seen = 0;
    for line in include_str!("golden.txt").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| case[key].as_str().unwrap();
        let kind = Gvk::new(text("group"), text("version"), text("kind"));
        let now: Timestamp = text("now").parse().unwrap();
        let cells = Value::from(row(&kind, &case["object"], now));
        assert_eq!(cells, case["cells"], "{} {}", kind.kind, case["object"]["metadata"]["name"]);
        let marks = case.get("conditions").cloned().unwrap_or_else(|| json!([]));
        assert_eq!(Value::from(conditions(&kind, &case["object"])), marks);
        seen += 1;
    }
    assert!(seen > 40, "{seen}");
}

#[test]
fn durations_have_two_or_three_figures() {
    for (seconds, text) in [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (10_860, "3h1m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (176_400, "2d1h"),
        (691_200, "8d"),
        (63_071_999, "729d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (252_288_000, "8y"),
    ] {
        assert_eq!(human_duration(SignedDuration::from_secs(seconds)), text);
    }
}

#[test]
fn the_default_class_is_told_only_among_all() {
    let class = |name: &str, created: &str| {
        json!({"metadata": {"name": name, "creationTimestamp": created,
               "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}})
    };
    let classes = [
        class("b", "2026-01-02T00:00:00Z"),
        class("a", "2026-01-02T00:00:00Z"),
        class("c", "2026-01-01T00:00:00Z"),
    ];
    let kind = Gvk::new("storage.k8s.io", "v1", "StorageClass");
    let all: Vec<&Value> = classes.iter().collect();
    let names: Vec<Value> =
        rows(&kind, &all, Timestamp::UNIX_EPOCH).into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(names, ["b", "a (default)", "c"]);
    assert_eq!(row(&kind, &classes[1], Timestamp::UNIX_EPOCH)[0], "a");
}

#[test]
fn every_kind_has_a_cell_for_every_column_whatever_the_object() {
    for resource in crate::schema::builtin::resources() {
        let kind = Gvk::new(resource.group, resource.version, resource.kind);
        for object in [json!({}), json!(null), json!({"spec": [], "status": "x", "metadata": 3})] {
            let cells = row(&kind, &object, Timestamp::UNIX_EPOCH).len();
            // The real server shows one cell more than it has columns for this kind.
            let more = usize::from(resource.kind == "IPAddress");
            assert_eq!(cells, columns(&kind).len() + more, "{}", resource.kind);
        }
    }
}

#[test]
fn columns_are_found_and_read() {
    let pods = columns(&Gvk::new("", "v1", "Pod"));
    assert_eq!(pods.len(), 9);
    assert_eq!((pods[0].name.as_str(), pods[0].format.as_str(), pods[0].priority), ("Name", "name", 0));
    assert_eq!(
        (pods[8].name.as_str(), pods[8].kind.as_str(), pods[8].priority),
        ("Readiness Gates", "string", 1)
    );
    let definitions = columns(&Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"));
    assert_eq!(definitions[3].kind, "date");
    assert_eq!(columns(&Gvk::new("", "v1", "LimitRange"))[1].name, "Created At");
}

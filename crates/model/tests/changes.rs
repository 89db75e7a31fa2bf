//! Every field has a class, a plan explains itself, and hashes follow meaning.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking"
)]

mod common;

use common::mk_estate;
use serde_json::{Value, json};
use trellis_model::canonical::{Revision, hash};
use trellis_model::change::{CLUSTER_FIELDS, Class, Fate, FieldRule, HeldBack, POOL_FIELDS, diff, rule_for};
use trellis_model::cluster::ClusterSpec;
use trellis_model::machine::{Compute, DedicatedCpus, Eviction, Shape};
use trellis_model::pool::{PoolSpec, UpdateStrategy};
use trellis_model::quantity::Bytes;
use trellis_model::{Estate, Pool};

/// All paths of a type, from its schema.
fn paths(root: &Value, schema: &Value, path: &str, out: &mut Vec<String>, depth: usize) {
    assert!(depth < 30, "{path}");
    if let Some(target) = schema["$ref"].as_str() {
        return paths(root, root.pointer(target.trim_start_matches('#')).unwrap(), path, out, depth + 1);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        out.push(path.clone());
        paths(root, property, &path, out, depth + 1);
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        for branch in schema[key].as_array().into_iter().flatten() {
            paths(root, branch, path, out, depth + 1);
        }
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            paths(root, &schema[key], path, out, depth + 1);
        }
    }
}

fn all_paths<T: schemars::JsonSchema>() -> Vec<String> {
    let schema = schemars::schema_for!(T).to_value();
    let mut out = Vec::new();
    paths(&schema, &schema, "", &mut out, 0);
    out
}

fn without_rule(paths: &[String], rules: &[FieldRule]) -> Vec<String> {
    // A field that only groups others needs no rule of its own.
    let is_group = |path: &str| paths.iter().any(|other| other.starts_with(&format!("{path}.")));
    paths.iter().filter(|path| !is_group(path) && rule_for(&[rules], path).is_none()).cloned().collect()
}

#[test]
fn every_field_of_clusters_and_pools_has_a_class() {
    let (cluster, pool) = (all_paths::<ClusterSpec>(), all_paths::<PoolSpec>());
    assert!(cluster.len() > 50 && pool.len() > 100, "{} {}", cluster.len(), pool.len());
    assert_eq!(without_rule(&cluster, CLUSTER_FIELDS), Vec::<String>::new());
    assert_eq!(without_rule(&pool, POOL_FIELDS), Vec::<String>::new());
}

#[test]
fn no_rule_is_about_a_field_that_does_not_exist() {
    for (rules, paths) in
        [(CLUSTER_FIELDS, all_paths::<ClusterSpec>()), (POOL_FIELDS, all_paths::<PoolSpec>())]
    {
        for rule in rules {
            assert!(paths.iter().any(|path| path == rule.path), "{} is no field", rule.path);
        }
    }
}

fn edited(edit: impl FnOnce(&mut Pool)) -> Estate {
    let mut estate = mk_estate();
    edit(&mut estate.pools[0]);
    estate
}

fn compute(pool: &mut Pool) -> &mut Compute {
    match &mut pool.spec.template.shape {
        Shape::Custom(compute) => compute,
        _ => panic!("the test's pool has a custom shape"),
    }
}

fn revision(estate: &Estate) -> Revision {
    Revision::of(&estate.clusters[0], &estate.pools[0])
}

#[test]
fn the_same_estate_needs_nothing() {
    assert!(diff(&mk_estate(), &mk_estate()).is_empty());
}

#[test]
fn scaling_and_policies_are_applied_in_place_and_keep_the_revision() {
    let new = edited(|pool| {
        pool.spec.replicas = 5;
        pool.spec.template.eviction = Eviction::LiveMigrate;
        pool.spec.node_labels.insert("a".parse().unwrap(), "b".parse().unwrap());
    });
    let plan = diff(&mk_estate(), &new);
    let pool = &plan.pools[0];
    assert_eq!((pool.fate, pool.replicas, pool.replaced), (Fate::Kept, (3, 5), 0));
    assert_eq!(pool.changes.len(), 3);
    assert!(pool.changes.iter().all(|change| change.class == Class::InPlace && !change.why.is_empty()));
    assert_eq!(revision(&mk_estate()), revision(&new));
}

#[test]
fn another_image_rolls_all_machines_and_says_why() {
    let new = edited(|pool| pool.spec.template.image.version = Some("24.04".to_owned()));
    let plan = diff(&mk_estate(), &new);
    assert_eq!(plan.pools[0].replaced, 3);
    let change = &plan.pools[0].changes[0];
    assert_eq!((change.path.as_str(), change.class), ("template.image.version", Class::Roll));
    assert_eq!(change.new.as_deref(), Some("24.04"));
    assert_ne!(revision(&mk_estate()), revision(&new));
}

#[test]
fn a_pool_that_updates_on_delete_is_not_rolled_but_says_so() {
    let set = |version: &str| {
        edited(|pool| {
            pool.spec.update.strategy = UpdateStrategy::OnDelete;
            pool.spec.template.image.version = Some(version.to_owned());
        })
    };
    let plan = diff(&set("1"), &set("2"));
    assert_eq!((plan.pools[0].replaced, plan.pools[0].held_back), (0, Some(HeldBack::OnDelete)));
}

#[test]
fn memory_grows_in_place_unless_cpus_are_pinned() {
    let grown = |pinned: bool, memory: u32| {
        edited(|pool| {
            compute(pool).memory.guest = Some(Bytes::gibi(memory));
            compute(pool).cpu.dedicated = pinned.then(DedicatedCpus::default);
        })
    };
    assert_eq!(diff(&grown(false, 4), &grown(false, 8)).pools[0].replaced, 0);
    assert_eq!(revision(&grown(false, 4)), revision(&grown(false, 8)));
    assert_eq!(diff(&grown(true, 4), &grown(true, 8)).pools[0].replaced, 3);
    assert_ne!(revision(&grown(true, 4)), revision(&grown(true, 8)));
}

#[test]
fn what_would_lose_data_or_identity_is_refused() {
    let with_disk = |size: u32, class: &str| {
        edited(|pool| {
            pool.spec.template.data_disks.push(
                serde_json::from_value(
                    json!({ "name": "data", "size": format!("{size}Gi"), "storage": { "class": class } }),
                )
                .unwrap(),
            );
        })
    };
    let refused =
        |old: &Estate, new: &Estate| diff(old, new).refused().map(|c| c.path.clone()).collect::<Vec<_>>();
    assert_eq!(refused(&with_disk(10, "a"), &with_disk(20, "a")), Vec::<String>::new());
    assert_eq!(refused(&with_disk(20, "a"), &with_disk(10, "a")), ["template.dataDisks[data].size"]);
    assert_eq!(refused(&with_disk(20, "a"), &with_disk(20, "b")), ["template.dataDisks[data].storage.class"]);
    let renamed = edited(|pool| pool.spec.role = trellis_model::pool::Role::ControlPlane);
    assert_eq!(refused(&mk_estate(), &renamed), ["role"]);
    let mut older = mk_estate();
    older.clusters[0].spec.version = Some("1.33.0".parse().unwrap());
    assert_eq!(refused(&mk_estate(), &older), ["version"]);
}

#[test]
fn a_change_of_the_cluster_rolls_just_the_pools_it_reaches() {
    let mut old = mk_estate();
    let mut pinned = old.pools[0].clone();
    pinned.name = "pinned".parse().unwrap();
    pinned.spec.kubelet_version = Some("1.34.2".parse().unwrap());
    old.pools.push(pinned);
    let mut new = old.clone();
    new.clusters[0].spec.version = Some("1.35.0".parse().unwrap());
    let plan = diff(&old, &new);
    let replaced = |name: &str| plan.pools.iter().find(|pool| pool.name.as_str() == name).unwrap().replaced;
    assert_eq!((replaced("workers"), replaced("pinned")), (3, 0));
}

/// An estate from a JSON edit of the small one.
fn patched(edit: impl FnOnce(&mut Value)) -> Estate {
    let mut value = serde_json::to_value(mk_estate()).unwrap();
    edit(&mut value);
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_region_replaces_machines_although_the_rest_of_the_placement_does_not() {
    let at = |region: &str| {
        patched(|v| v["pools"][0]["spec"]["template"]["placement"] = json!({ "region": region }))
    };
    assert_eq!(diff(&at("a"), &at("b")).pools[0].replaced, 3);
    assert_eq!(diff(&mk_estate(), &at("b")).pools[0].replaced, 3);
    assert_ne!(revision(&at("a")), revision(&at("b")));
}

#[test]
fn a_topology_where_there_was_none_replaces_machines() {
    let new = patched(|v| {
        v["pools"][0]["spec"]["template"]["shape"]["custom"]["cpu"]["topology"] = json!({ "sockets": 8 });
    });
    assert_eq!(diff(&mk_estate(), &new).pools[0].replaced, 3);
    assert_ne!(revision(&mk_estate()), revision(&new));
}

#[test]
fn zones_can_be_added_but_not_left() {
    let zones = |zones: Value| {
        patched(|v| v["pools"][0]["spec"]["template"]["placement"] = json!({ "zones": zones }))
    };
    assert_eq!(diff(&zones(json!(["a"])), &zones(json!(["b", "a"]))).refused().count(), 0);
    assert_eq!(diff(&zones(json!(["a", "b"])), &zones(json!(["b"]))).refused().count(), 1);
}

#[test]
fn what_no_machine_sees_replaces_none() {
    let image = |secret: &str| {
        patched(|v| {
            v["pools"][0]["spec"]["template"]["image"]["source"]["http"]["headers"] =
                json!({ "Authorization": secret });
        })
    };
    assert_eq!(diff(&image("one"), &image("two")).pools[0].replaced, 0);
    let flavor = |summary: &str| {
        patched(|v| {
            v["clusters"][0]["spec"]["flavors"] = json!({ "x": { "summary": summary, "compute": { "cpu": { "request": "1" }, "memory": { "guest": "1Gi" } } } });
            v["pools"][0]["spec"]["template"]["shape"] = json!({ "flavor": "x" });
        })
    };
    assert_eq!(revision(&flavor("one")), revision(&flavor("two")));
    let nic = |mac: &str| {
        patched(|v| {
            v["pools"][0]["spec"]["template"]["nics"] =
                json!([{ "name": "a", "network": { "pod": {} }, "mac": mac }]);
        })
    };
    assert_eq!(revision(&nic("02:aa:bb:cc:dd:ee")), revision(&nic("02:AA:BB:CC:DD:EE")));
}

#[test]
fn the_cluster_acts_through_its_pools_and_cannot_lose_their_data() {
    let stored = |class: &str| {
        patched(|v| {
            v["clusters"][0]["spec"]["platform"]["kubevirt"]["storage"] = json!({ "class": class });
            v["pools"][0]["spec"]["template"]["rootDisk"]["storage"] = json!({ "class": "own" });
            v["pools"][0]["spec"]["template"]["dataDisks"] = json!([{ "name": "d", "size": "1Gi" }]);
        })
    };
    let plan = diff(&stored("a"), &stored("b"));
    assert_eq!(plan.clusters[0].changes[0].class, Class::ThroughPools);
    let refused: Vec<_> = plan.refused().map(|change| change.path.as_str()).collect();
    assert_eq!(refused, ["template.dataDisks[d].storage.class"]);
}

#[test]
fn a_default_that_is_written_out_is_no_change() {
    let written = patched(|v| {
        v["clusters"][0]["spec"]["platform"]["kubevirt"]["namespace"] = json!("demo");
        v["pools"][0]["spec"]["kubeletVersion"] = json!("1.34.2");
        v["pools"][0]["spec"]["template"]["nics"] =
            json!([{ "name": "default", "network": { "pod": {} }, "binding": "Masquerade" }]);
        v["pools"][0]["spec"]["template"]["placement"] =
            json!({ "spread": [{ "over": "kubernetes.io/hostname" }] });
    });
    assert!(diff(&mk_estate(), &written).is_empty(), "{:#?}", diff(&mk_estate(), &written));
    assert_eq!(revision(&mk_estate()), revision(&written));
}

#[test]
fn ovirt_storage_and_networks_replace_machines_too() {
    let id = |n: u32| format!("11111111-2222-3333-4444-{n:012}");
    let engine = |domain: u32| {
        patched(|v| {
            v["clusters"][0]["spec"]["platform"] =
                json!({ "ovirt": { "clusterId": id(1), "storageDomainId": id(domain) } });
        })
    };
    assert_eq!(diff(&engine(2), &engine(3)).pools[0].replaced, 3);
}

#[test]
fn nothing_is_replaced_while_paused_or_while_something_is_refused() {
    let paused = |version: &str| {
        edited(|pool| {
            pool.spec.update.paused = true;
            pool.spec.template.image.version = Some(version.to_owned());
        })
    };
    let plan = diff(&paused("1"), &paused("2"));
    assert_eq!((plan.pools[0].replaced, plan.pools[0].held_back), (0, Some(HeldBack::Paused)));
    let new = patched(|v| {
        v["clusters"][0]["spec"]["version"] = json!("1.37.0");
        v["pools"][0]["spec"]["template"]["image"]["version"] = json!("2");
    });
    let plan = diff(&mk_estate(), &new);
    assert_eq!((plan.pools[0].replaced, plan.pools[0].held_back), (0, Some(HeldBack::Refused)));
    assert!(plan.refused().any(|change| change.why.contains("one minor version at a time")));
}

#[test]
fn passwords_in_addresses_are_not_shown() {
    let at = |url: &str| {
        patched(|v| v["pools"][0]["spec"]["template"]["image"]["source"]["http"]["url"] = json!(url))
    };
    let plan = format!("{:?}", diff(&at("https://u:hunter2@a/x"), &at("https://u:hunter3@a/x")));
    assert!(plan.contains("https://(hidden)@a/x") && !plan.contains("hunter"), "{plan}");
}

#[test]
fn secrets_are_never_shown() {
    let with = |text: &str| edited(|pool| pool.spec.template.user_data.inline = Some(text.to_owned()));
    let plan = diff(&with("password: one"), &with("password: two"));
    let shown = format!("{plan:?}");
    assert!(shown.contains("(hidden)") && !shown.contains("password"), "{shown}");
    let plan = format!("{:?}", diff(&mk_estate(), &with("password: two")));
    assert!(plan.contains("(hidden)") && !plan.contains("password"), "{plan}");
    let debugged = format!("{:?}", with("password: two"));
    assert!(!debugged.contains("password"), "{debugged}");
}

#[test]
fn pools_and_clusters_come_and_go() {
    let empty = Estate::default();
    let plan = diff(&empty, &mk_estate());
    assert_eq!((plan.clusters[0].fate, plan.pools[0].fate), (Fate::Created, Fate::Created));
    let plan = diff(&mk_estate(), &empty);
    assert_eq!((plan.clusters[0].fate, plan.pools[0].fate), (Fate::Removed, Fate::Removed));
}

#[test]
fn defaults_written_out_or_left_out_are_one_meaning() {
    let short = json!({
        "cluster": "demo",
        "template": {
            "shape": { "custom": { "cpu": { "request": "2" }, "memory": { "guest": "4Gi" } } },
            "image": { "os": "ubuntu" },
            "rootDisk": { "size": "20Gi" },
        }
    });
    let long = json!({
        "template": {
            "rootDisk": { "device": { "bus": "virtio", "dedicatedIoThread": false }, "storage": {}, "size": "20480Mi" },
            "image": { "delivery": "Golden", "os": "ubuntu", "version": null },
            "shape": { "custom": { "memory": { "guest": "4096Mi", "pageMerging": false }, "cpu": { "request": "2000m", "features": {} } } },
            "placement": { "apart": "Soft", "together": "None", "zones": [] },
            "eviction": "External", "stopGraceSeconds": 30, "firmware": "Bios", "architecture": "amd64",
        },
        "role": "worker", "replicas": 1,
        "update": { "maxSurge": 1, "maxUnavailable": 0, "strategy": "RollingUpdate", "progressDeadlineSeconds": 600 },
        "cluster": "demo",
    });
    let read = |value: Value| serde_json::from_value::<PoolSpec>(value).unwrap();
    assert_eq!(read(short.clone()), read(long.clone()));
    assert_eq!(hash(&read(short)), hash(&read(long)));
}

//! Each rule of the model finds what it is for, and a valid estate has no problem at all.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking"
)]

mod common;

use common::mk_estate;
use serde_json::{Value, json};
use trellis_model::{Estate, Severity, validate::validate};

/// Applies a JSON merge patch to the cluster's and the pool's spec.
fn patched(cluster: Value, pool: Value) -> Estate {
    fn merge(target: &mut Value, patch: Value) {
        match patch {
            Value::Object(patch) => {
                if !target.is_object() {
                    *target = json!({});
                }
                for (key, value) in patch {
                    if value.is_null() {
                        target.as_object_mut().unwrap().remove(&key);
                    } else {
                        merge(&mut target[key], value);
                    }
                }
            }
            other => *target = other,
        }
    }
    let mut value = serde_json::to_value(mk_estate()).unwrap();
    merge(&mut value["clusters"][0]["spec"], cluster);
    merge(&mut value["pools"][0]["spec"], pool);
    serde_json::from_value(value).unwrap()
}

fn codes(estate: &Estate) -> Vec<&'static str> {
    let mut codes: Vec<_> = validate(estate).into_iter().map(|problem| problem.code).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

fn custom(cpu: Value, memory: Value) -> Value {
    json!({ "template": { "shape": { "custom": { "cpu": cpu, "memory": memory } } } })
}

#[test]
fn a_valid_estate_has_no_problem() {
    assert_eq!(validate(&mk_estate()), []);
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table with a row for each rule")]
fn every_rule_finds_what_it_is_for() {
    let none = || json!({});
    let template = |value: Value| json!({ "template": value });
    let network = |value: Value| json!({ "network": value });
    let cases: Vec<(&str, Value, Value)> = vec![
        (
            "surge-and-unavailable-zero",
            none(),
            json!({ "update": { "maxSurge": "0%", "maxUnavailable": 0 } }),
        ),
        ("too-many-machines", none(), json!({ "replicas": 4_000_000_000_u32 })),
        (
            "password-in-address",
            none(),
            template(json!({ "image": { "source": { "http": { "url": "https://a:b@c/d" } } } })),
        ),
        (
            "too-many",
            network(json!({ "services": (0..40).map(|i| format!("10.{i}.0.0/16")).collect::<Vec<_>>() })),
            none(),
        ),
        ("autoscaling-bounds", none(), json!({ "autoscaling": { "min": 4, "max": 2 } })),
        ("replicas-outside-autoscaling", none(), json!({ "autoscaling": { "min": 4, "max": 9 } })),
        (
            "autoscaled-control-plane",
            none(),
            json!({ "role": "control-plane", "autoscaling": { "min": 1, "max": 3 } }),
        ),
        ("named-machine-replicas", none(), json!({ "machineName": "one" })),
        ("no-control-plane", none(), json!({ "role": "control-plane", "replicas": 0 })),
        ("even-control-plane", none(), json!({ "role": "control-plane", "replicas": 4 })),
        ("kubelet-too-new", none(), json!({ "kubeletVersion": "1.35.0" })),
        ("kubelet-too-old", none(), json!({ "kubeletVersion": "1.30.0" })),
        ("ovirt-settings", none(), template(json!({ "ovirt": { "vmType": "desktop" } }))),
        ("no-cpu", none(), custom(json!({ "request": null }), none())),
        ("too-many-cpus", none(), custom(json!({ "request": "600" }), none())),
        ("cpu-request-above-limit", none(), custom(json!({ "limit": "1" }), none())),
        ("pinned-fractional-cpu", none(), custom(json!({ "request": "1500m", "dedicated": {} }), none())),
        (
            "pinned-cpu-mismatch",
            none(),
            custom(json!({ "topology": { "sockets": 3 }, "dedicated": {} }), none()),
        ),
        ("no-memory", none(), custom(none(), json!({ "guest": null }))),
        ("too-little-memory", none(), custom(none(), json!({ "guest": "4" }))),
        ("memory-request-above-limit", none(), custom(none(), json!({ "request": "8Gi", "limit": "6Gi" }))),
        ("guest-memory-above-limit", none(), custom(none(), json!({ "limit": "2Gi" }))),
        ("hugepages-do-not-divide", none(), custom(none(), json!({ "guest": "4097Mi", "hugepages": "2Mi" }))),
        (
            "hugepages-with-page-merging",
            none(),
            custom(none(), json!({ "hugepages": "2Mi", "pageMerging": true })),
        ),
        ("hugepages-overcommitted", none(), custom(none(), json!({ "hugepages": "2Mi", "request": "2Gi" }))),
        (
            "hugepages-with-overcommit",
            none(),
            custom(none(), json!({ "hugepages": "2Mi", "overcommitGuestOverhead": true })),
        ),
        (
            "numa-without-hugepages",
            none(),
            custom(json!({ "dedicated": { "numaPassthrough": true } }), none()),
        ),
        ("unknown-flavor", none(), template(json!({ "shape": { "custom": null, "flavor": "huge-1" } }))),
        ("image-without-source", none(), template(json!({ "image": { "source": null } }))),
        ("disk-too-small", none(), template(json!({ "rootDisk": { "size": "20" } }))),
        ("root-disk-smaller-than-image", none(), template(json!({ "image": { "virtualSize": "30Gi" } }))),
        (
            "duplicate-serial",
            none(),
            template(
                json!({ "rootDisk": { "device": { "serial": "a" } }, "dataDisks": [{ "name": "d", "size": "1Gi", "device": { "serial": "a" } }] }),
            ),
        ),
        (
            "duplicate-disk",
            none(),
            template(json!({ "dataDisks": [{ "name": "root-disk", "size": "1Gi" }] })),
        ),
        (
            "duplicate-nic",
            none(),
            template(
                json!({ "nics": [{ "name": "a", "network": { "shared": { "name": "x" } } }, { "name": "a", "network": { "shared": { "name": "y" } } }] }),
            ),
        ),
        (
            "two-pod-nics",
            none(),
            template(
                json!({ "nics": [{ "name": "a", "network": { "pod": {} } }, { "name": "b", "network": { "pod": {} } }] }),
            ),
        ),
        (
            "masquerade-off-pod-network",
            none(),
            template(
                json!({ "nics": [{ "name": "a", "network": { "shared": { "name": "x" } }, "binding": "Masquerade" }] }),
            ),
        ),
        (
            "sriov-on-pod-network",
            none(),
            template(json!({ "nics": [{ "name": "a", "network": { "pod": {} }, "binding": "SRIOV" }] })),
        ),
        (
            "unknown-network",
            none(),
            template(json!({ "nics": [{ "name": "a", "network": { "machine": "nope" } }] })),
        ),
        (
            "one-mac-for-many",
            none(),
            template(
                json!({ "nics": [{ "name": "a", "network": { "pod": {} }, "mac": "02:00:00:00:00:01" }] }),
            ),
        ),
        (
            "too-few-addresses",
            none(),
            template(
                json!({ "nics": [{ "name": "a", "network": { "pod": {} }, "addresses": { "first": "10.0.0.5/29" } }] }),
            ),
        ),
        (
            "gateway-outside-network",
            none(),
            template(
                json!({ "nics": [{ "name": "a", "network": { "pod": {} }, "addresses": { "first": "10.0.0.5/24", "gateway": "10.0.1.1" } }] }),
            ),
        ),
        (
            "unusable-address",
            none(),
            template(
                json!({ "nics": [{ "name": "a", "network": { "pod": {} }, "addresses": { "first": "10.0.0.5/24", "nameservers": ["0.0.0.0"] } }] }),
            ),
        ),
        ("dns-none-without-nameserver", none(), template(json!({ "dns": { "policy": "None" } }))),
        (
            "too-many-nameservers",
            none(),
            template(json!({ "dns": { "nameservers": ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"] } })),
        ),
        (
            "placement-contradiction",
            none(),
            template(json!({ "placement": {
                "wantedHosts": [{ "strength": "Soft", "key": "k", "values": ["a", "b"] }],
                "avoidedHosts": [{ "strength": "Hard", "key": "k", "values": ["b"] }],
            } })),
        ),
        (
            "together-and-apart",
            none(),
            template(json!({ "placement": { "together": "Hard", "apart": "Hard" } })),
        ),
        ("duplicate-zone", none(), template(json!({ "placement": { "zones": ["a", "a"] } }))),
        (
            "duplicate-spread",
            none(),
            template(json!({ "placement": { "spread": [{ "over": "k" }, { "over": "k" }] } })),
        ),
        (
            "address-taken-twice",
            none(),
            template(
                json!({ "nics": [{ "name": "a", "network": { "pod": {} }, "addresses": { "first": "10.0.0.1/24", "gateway": "10.0.0.2" } }] }),
            ),
        ),
        (
            "mac-during-update",
            none(),
            json!({ "replicas": 1, "template": { "nics": [{ "name": "a", "network": { "pod": {} }, "mac": "02:00:00:00:00:01" }] } }),
        ),
        (
            "multicast-mac",
            none(),
            template(
                json!({ "nics": [{ "name": "a", "network": { "pod": {} }, "mac": "01:00:00:00:00:01" }] }),
            ),
        ),
        ("two-user-data", none(), template(json!({ "userData": { "secret": "s", "inline": "x" } }))),
        ("ranges-overlap", network(json!({ "services": ["10.0.0.0/16"], "nodes": ["10.0.3.0/24"] })), none()),
        ("node-prefix", network(json!({ "pods": [{ "cidr": "10.0.0.0/16", "nodePrefix": 12 }] })), none()),
        (
            "vip-outside-nodes",
            network(
                json!({ "nodes": ["10.0.0.0/24"], "apiVips": ["10.0.1.1"], "ingressVips": ["10.0.0.2"] }),
            ),
            none(),
        ),
        (
            "vip-families",
            network(json!({ "apiVips": ["10.0.0.1", "10.0.0.2"], "ingressVips": ["10.0.0.3"] })),
            none(),
        ),
        ("same-vip-twice", network(json!({ "apiVips": ["10.0.0.1"], "ingressVips": ["10.0.0.1"] })), none()),
        ("one-vip-missing", network(json!({ "apiVips": ["10.0.0.1"] })), none()),
        ("no-network", network(json!({ "attachPodNetwork": false })), none()),
        (
            "no-vip",
            network(
                json!({ "attachPodNetwork": false, "machineNetworks": [{ "name": "a", "source": { "shared": { "name": "x" } } }] }),
            ),
            none(),
        ),
        (
            "two-default-networks",
            network(json!({ "machineNetworks": [
                { "name": "a", "source": { "shared": { "name": "x" } }, "default": true },
                { "name": "b", "source": { "shared": { "name": "y" } }, "default": true },
            ] })),
            none(),
        ),
        (
            "nodes-outside-default-network",
            network(
                json!({ "nodes": ["10.1.0.0/16"], "machineNetworks": [{ "name": "a", "default": true, "source": { "tenant": {
                "config": r#"{"type":"bridge","ipam":{"subnet":"10.100.0.0/16"}}"# } } }] }),
            ),
            none(),
        ),
    ];
    for (code, cluster, pool) in cases {
        let estate = patched(cluster, pool);
        assert!(codes(&estate).contains(&code), "{code} was not found; found {:?}", codes(&estate));
    }
}

#[test]
fn all_problems_are_found_at_once_each_with_its_place() {
    let estate = patched(
        json!({ "network": { "apiVips": ["10.0.0.1"] } }),
        json!({ "update": { "maxSurge": 0 }, "kubeletVersion": "1.35.0", "template": { "rootDisk": { "size": "5" } } }),
    );
    let problems = validate(&estate);
    assert_eq!(problems.len(), 4, "{problems:#?}");
    for problem in &problems {
        assert_eq!(problem.severity, Severity::Error);
        assert!(
            !problem.path.is_empty() && !problem.message.is_empty() && problem.fix.is_some(),
            "{problem}"
        );
    }
}

#[test]
fn duplicates_and_strangers_are_named() {
    let mut estate = mk_estate();
    estate.pools.push(estate.pools[0].clone());
    estate.clusters.push(estate.clusters[0].clone());
    assert_eq!(codes(&estate), ["duplicate-cluster", "duplicate-pool"]);
    let mut estate = mk_estate();
    estate.clusters.clear();
    assert_eq!(codes(&estate), ["cluster-not-here"]);
}

#[test]
fn two_pools_cannot_hand_out_the_same_addresses_on_one_network() {
    let with = |first: &str, network: &str| {
        let nics = json!([{ "name": "a", "network": { "shared": { "name": network } }, "addresses": { "first": first } }]);
        let mut estate = patched(json!({}), json!({ "template": { "nics": nics } }));
        let mut other = patched(
            json!({}),
            json!({ "template": { "nics": [{ "name": "a", "network": { "shared": { "name": "x" } }, "addresses": { "first": "10.0.0.5/24" } }] } }),
        );
        other.pools[0].name = "other".parse().unwrap();
        estate.pools.append(&mut other.pools);
        codes(&estate).contains(&"address-taken-twice")
    };
    assert!(with("10.0.0.5/24", "x") && with("10.0.0.8/24", "x") && with("10.0.0.2/24", "x"));
    assert!(!with("10.0.0.9/24", "x") && !with("10.0.0.1/24", "x") && !with("10.0.0.5/24", "y"));
}

#[test]
fn every_flavor_of_the_catalogue_is_valid() {
    for name in trellis_model::flavor::catalogue().keys() {
        let flavor = serde_json::to_value(trellis_model::flavor::catalogue()[name].clone()).unwrap();
        let estate = patched(
            json!({ "flavors": { "mine": flavor } }),
            json!({ "template": { "shape": { "custom": null, "flavor": "mine" } } }),
        );
        assert_eq!(codes(&estate), Vec::<&str>::new(), "{name}");
    }
}

//! What holds for every estate that is without errors.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use trellis_model::{Estate, validate};
use trellis_platform_kubevirt::{Object, check, fresh_identity, missing, render, render_machine};

use crate::admission;
use crate::builders::{cluster, errors, merged, of_kind, pool};

const STANDARD: &[&str] = &["standard-2", "high-performance-4", "high-density-1", "database-4"];

fn one_of(choices: Vec<Value>) -> impl Strategy<Value = Value> {
    select(choices)
}

fn shape() -> impl Strategy<Value = Value> {
    let topology = (1_u32..4, 1_u32..3, 1_u32..3).prop_map(
        |(sockets, cores, threads)| json!({ "sockets": sockets, "cores": cores, "threads": threads }),
    );
    let cpu = prop_oneof![
        topology.clone().prop_map(|topology| json!({ "topology": topology })),
        topology
            .clone()
            .prop_map(|topology| json!({ "topology": topology, "request": "250m", "limit": "12" })),
        topology.prop_map(|topology| json!({ "topology": topology, "features": { "avx": "require" },
            "dedicated": { "isolateEmulatorThread": true } })),
        (1_u32..9).prop_map(|cpus| json!({ "request": format!("{}m", cpus * 700), "model": "host-model" })),
    ];
    let memory = one_of(vec![
        json!({ "guest": "4Gi" }),
        json!({ "request": "2Gi" }),
        json!({ "guest": "4Gi", "request": "1Gi", "limit": "6Gi", "overcommitGuestOverhead": true, "pageMerging": true }),
        json!({ "guest": "4Gi", "hugepages": "2Mi" }),
        json!({ "limit": "8Gi", "hugepages": "1Gi" }),
    ]);
    prop_oneof![
        4 => (cpu, memory).prop_map(|(cpu, memory)| json!({ "custom": { "cpu": cpu, "memory": memory } })),
        2 => select(STANDARD).prop_map(|name| json!({ "flavor": name })),
        1 => Just(json!({ "instancetype": { "name": "u1.small", "scope": "Namespace" } })),
    ]
}

fn image() -> impl Strategy<Value = Value> {
    let source = one_of(vec![
        json!({ "http": { "url": "https://images.example/a.img", "checksum": "sha256:00ff" } }),
        json!({ "http": { "url": "http://images.example/b.img", "headers": { "A": "b" } } }),
        json!({ "registry": { "url": "docker://quay.example/a", "pullMethod": "node" } }),
        json!({ "pvc": { "name": "golden", "namespace": "images" } }),
        json!({ "snapshot": { "name": "golden" } }),
        json!({ "dataSource": { "name": "golden" } }),
    ]);
    let os = select(vec!["ubuntu", "rockylinux", "flatcar", "rhcos"]);
    (source, os, select(vec!["Golden", "PerMachine"]))
        .prop_map(|(source, os, delivery)| json!({ "source": source, "os": os, "delivery": delivery }))
}

fn storage() -> impl Strategy<Value = Value> {
    one_of(vec![
        json!({}),
        json!({ "class": "fast", "accessMode": "ReadWriteMany", "volumeMode": "Block" }),
        json!({ "request": "Claim" }),
        json!({ "request": "Claim", "accessMode": "ReadWriteOnce", "volumeMode": "Filesystem" }),
    ])
}

fn disks() -> impl Strategy<Value = Value> {
    let device = one_of(vec![
        json!({}),
        json!({ "bus": "scsi" }),
        json!({ "bus": "sata", "cache": "writeback" }),
        json!({ "cache": "none", "dedicatedIoThread": true }),
    ]);
    let disk = (device, storage());
    prop::collection::vec(disk, 0..4).prop_map(|disks| {
        let disk = |(i, (device, storage)): (usize, (Value, Value))| {
            json!({ "name": format!("d{i}"), "size": format!("{}Gi", i + 1), "device": device, "storage": storage })
        };
        disks.into_iter().enumerate().map(disk).collect()
    })
}

/// Interfaces for a cluster that has the networks of [`estate`]; empty means those that it implies.
fn nics() -> impl Strategy<Value = Value> {
    let pod = json!({ "name": "default", "network": { "pod": {} }, "binding": "Masquerade" });
    let bridged = json!({ "name": "default", "network": { "pod": {} }, "binding": "Bridge" });
    let lan = json!({ "name": "lan", "network": { "machine": "vlan" },
        "addresses": { "first": "10.9.0.5/24", "gateway": "10.9.0.1" } });
    let dhcp = json!({ "name": "lan", "network": { "machine": "vlan" } });
    let fast = json!({ "name": "fast", "network": { "shared": { "namespace": "nets", "name": "f" } }, "binding": "SRIOV" });
    one_of(vec![json!([]), json!([pod, lan]), json!([bridged, dhcp, fast]), json!([lan, fast]), json!([pod])])
}

fn placement() -> impl Strategy<Value = Value> {
    let preset = || select(vec!["None", "Soft", "Hard"]);
    let rule = || {
        select(vec![
            json!([]),
            json!([{ "strength": "Hard", "key": "a", "values": ["x", "y"] }]),
            json!([{ "strength": "Soft", "key": "b" }]),
        ])
    };
    let zones = select(vec![json!([]), json!(["a"]), json!(["default", "b", "c"])]);
    (preset(), rule(), rule(), zones, any::<bool>()).prop_map(|(apart, wanted, avoided, zones, region)| {
        let mut placement = json!({ "apart": apart, "wantedHosts": wanted, "avoidedHosts": avoided, "zones": zones,
            "tolerations": [{ "key": "k", "effect": "NoSchedule" }], "hostSelector": { "h": "1" } });
        if region {
            placement["region"] = "default".into();
        }
        placement
    })
}

fn devices() -> impl Strategy<Value = Value> {
    one_of(vec![
        json!({}),
        json!({ "rng": true, "networkMultiQueue": true }),
        json!({ "blockMultiQueue": true, "ioThreads": "Auto", "tpm": {} }),
        json!({ "ioThreads": "Shared", "hostDevices": [{ "name": "gpu", "device": "a/b", "gpu": true }] }),
    ])
}

fn machine() -> impl Strategy<Value = Value> {
    let firmware = one_of(vec![
        json!({}),
        json!({ "firmware": "Uefi" }),
        json!({ "firmware": "UefiSecureBoot" }),
        json!({ "firmware": "Uefi", "architecture": "arm64" }),
        json!({ "architecture": "s390x" }),
    ]);
    let rest = one_of(vec![
        json!({}),
        json!({ "userData": { "inline": "#cloud-config\n{}" }, "eviction": "LiveMigrate" }),
        json!({ "userData": { "secret": "mine" }, "preference": { "name": "p" }, "eviction": "None" }),
        json!({ "dns": { "policy": "None", "nameservers": ["10.0.0.1"] }, "stopGraceSeconds": 600 }),
    ]);
    (shape(), image(), storage(), disks(), nics(), placement(), devices(), firmware, rest).prop_map(
        |(shape, image, storage, disks, nics, placement, devices, firmware, rest)| {
            let base = json!({ "shape": shape, "image": image, "rootDisk": { "size": "20Gi", "storage": storage },
                "dataDisks": disks, "nics": nics, "placement": placement, "devices": devices });
            merged(merged(base, firmware), rest)
        },
    )
}

/// Two clusters that may share a namespace, with a few pools each.
fn estate() -> impl Strategy<Value = Estate> {
    let settings = one_of(vec![
        json!({}),
        json!({ "publish": "Internal", "podNetworkBinding": "Bridge" }),
        json!({ "attachPodNetwork": false, "apiVips": ["10.9.0.2"], "ingressVips": ["10.9.0.3"] }),
    ]);
    let clusters = (select(vec![("a", "a-b"), ("prod", "test")]), any::<bool>(), settings);
    let pools = prop::collection::vec((0_usize..2, 0_u32..3, any::<bool>(), machine()), 0..4);
    (clusters, pools).prop_map(|(((first, second), shared, network), pools)| {
        let config = r#"{"cniVersion":"0.4.0","type":"bridge"}"#;
        let vlan = json!([{ "name": "vlan", "source": { "tenant": { "config": config } } }]);
        let network = merged(network, json!({ "machineNetworks": vlan }));
        let mut settings = json!({ "network": network, "sshKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA"] });
        if shared {
            settings["platform"] = json!({ "kubevirt": { "namespace": "tenants" } });
        }
        let clusters = [first, second];
        let pool = |(i, (of, replicas, master, template)): (usize, (usize, u32, bool, Value))| {
            let role = if master { "control-plane" } else { "worker" };
            let replicas = if master { replicas.max(1) } else { replicas };
            let spec = json!({ "role": role, "replicas": replicas, "template": template });
            pool(clusters[of], ["b-c", "c", "md-0", "x"][i], spec)
        };
        Estate {
            clusters: clusters.iter().map(|name| cluster(name, settings.clone())).collect(),
            pools: pools.into_iter().enumerate().map(pool).collect(),
        }
    })
}

fn is_good(estate: &Estate) -> bool {
    errors(&validate::validate(estate)).is_empty()
        && errors(&check(estate)).is_empty()
        && missing(estate).is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, max_global_rejects: 4096, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_without_errors_is_admitted_whole_and_unambiguous(
        estate in estate().prop_filter("without errors", is_good)
    ) {
        let rendered = render(&estate);
        prop_assert!(errors(&rendered.problems).is_empty(), "{:?}", rendered.problems);
        let objects: Vec<Value> = rendered.objects.iter().map(Object::to_json).collect();
        let refused = admission::refusals(&objects);
        prop_assert!(refused.is_empty(), "{refused:#?}");

        let mut names = BTreeSet::new();
        for object in &objects {
            let metadata = &object["metadata"];
            let name = format!("{} {} {}", object["kind"], metadata["namespace"], metadata["name"]);
            prop_assert!(names.insert(name.clone()), "{name} twice");
            let labels = &metadata["labels"];
            prop_assert!(labels["trellis.dev/cluster"].is_string(), "{name} without cluster");
            prop_assert_eq!(&labels["app.kubernetes.io/managed-by"], "trellis");
        }

        let replicas: u32 = estate.pools.iter().map(|pool| pool.spec.replicas).sum();
        prop_assert_eq!(u32::try_from(of_kind(&objects, "VirtualMachine").len()).unwrap(), replicas);

        let mut reversed = estate.clone();
        reversed.clusters.reverse();
        reversed.pools.reverse();
        let again: Vec<Value> = render(&reversed).objects.iter().map(Object::to_json).collect();
        prop_assert_eq!(serde_json::to_string(&objects).unwrap(), serde_json::to_string(&again).unwrap());
    }

    #[test]
    fn what_a_machine_refers_to_is_there_before_it(
        estate in estate().prop_filter("without errors", is_good)
    ) {
        let objects: Vec<Value> = render(&estate).objects.iter().map(Object::to_json).collect();
        for (at, vm) in objects.iter().enumerate().filter(|(_, object)| object["kind"] == "VirtualMachine") {
            let before = |kind: &str, name: &Value| {
                objects[..at].iter().any(|o| o["kind"] == kind && o["metadata"]["name"] == *name
                    && o["metadata"]["namespace"] == vm["metadata"]["namespace"])
            };
            let spec = &vm["spec"]["template"]["spec"];
            for volume in spec["volumes"].as_array().unwrap() {
                let drive = &volume["cloudInitConfigDrive"];
                // User data that is kept elsewhere is copied by a controller: its Secret is not rendered.
                let kept = |pool: &trellis_model::Pool| pool.spec.template.user_data.secret.is_some();
                let (user, network) = (&drive["secretRef"]["name"], &drive["networkDataSecretRef"]["name"]);
                let is_copied = estate.pools.iter().any(kept);
                prop_assert!(user.is_null() || is_copied || before("Secret", user), "{user} is missing");
                prop_assert!(network.is_null() || before("Secret", network), "{network} is missing");
            }
            for matcher in ["instancetype", "preference"] {
                let matcher = &vm["spec"][matcher];
                let theirs = ["u1.small", "p"].iter().any(|name| matcher["name"] == *name);
                if !matcher.is_null() && !theirs {
                    prop_assert!(before(matcher["kind"].as_str().unwrap(), &matcher["name"]), "{matcher}");
                }
            }
            let clone = &vm["spec"]["dataVolumeTemplates"][0]["spec"]["source"]["pvc"];
            if !clone.is_null() && clone["name"] != "golden" {
                prop_assert!(before("DataVolume", &clone["name"]), "{clone}");
            }
            let labels = &vm["spec"]["template"]["metadata"]["labels"];
            let affinity = serde_json::to_string(&spec["affinity"]).unwrap();
            for key in ["trellis.dev/pool", "trellis.dev/role"] {
                // Affinities select by labels of the template, or nothing would ever match.
                prop_assert!(!affinity.contains(key) || labels[key].is_string());
            }
        }
    }

    #[test]
    fn one_machine_alone_is_rendered_as_it_is_among_all(
        estate in estate().prop_filter("without errors", is_good)
    ) {
        let all = render(&estate).objects;
        for pool in &estate.pools {
            let cluster = estate.cluster(&pool.spec.cluster).unwrap();
            for ordinal in 0..pool.spec.replicas {
                let alone = render_machine(cluster, pool, &fresh_identity(cluster, pool, ordinal), None);
                prop_assert!(!alone.is_empty() && alone.iter().all(|object| all.contains(object)));
            }
        }
    }
}

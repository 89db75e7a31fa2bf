use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use trellis_model::names::PoolName;
use trellis_model::{Cluster, Pool};

use super::super::facts::{Attachment, Class, Host, Profile, Quota, Taken};
use super::super::{Verdict, needed};
use super::*;

fn cluster(network: &Value) -> Cluster {
    let spec = json!({"platform": {"kubevirt": {"namespace": "blue"}}, "network": network});
    Cluster { name: "blue".parse().unwrap(), namespace: None, spec: serde_json::from_value(spec).unwrap() }
}

fn pool(replicas: u32, template: &Value) -> Pool {
    let mut whole = json!({
        "shape": {"custom": {"cpu": {"topology": {"sockets": 2}}, "memory": {"guest": "4Gi"}}},
        "image": {"os": "ubuntu", "source": {"http": {"url": "http://me:pass@images.example/u.img?key=1"}}},
        "rootDisk": {"size": "20Gi", "storage": {"class": "fast"}},
    });
    json_patch::merge(&mut whole, template);
    let spec = json!({"cluster": "blue", "role": "worker", "replicas": replicas, "template": whole});
    Pool {
        name: "workers".parse::<PoolName>().unwrap(),
        namespace: None,
        spec: serde_json::from_value(spec).unwrap(),
    }
}

fn host(name: &str, memory: u64) -> Host {
    Host {
        name: name.to_owned(),
        zone: None,
        usable: true,
        allocatable: (8000, memory << 30),
        requested: Some((0, 0)),
        pods: vec!["10.64.0.0/24".parse().unwrap()],
    }
}

fn profile(modes: &[(&str, &str)], clones: &str) -> Asked<Profile> {
    let modes = modes.iter().map(|(access, volume)| ((*access).to_owned(), (*volume).to_owned()));
    Asked::Known(Profile { modes: modes.collect(), clones: clones.to_owned() })
}

/// An infra cluster that has everything.
fn facts() -> Facts {
    let installed = |version: &str| {
        Asked::Known(Installation {
            version: version.to_owned(),
            phase: "Deployed".to_owned(),
            ..Installation::default()
        })
    };
    Facts {
        server: Asked::Known("v1.37.1".to_owned()),
        user: Asked::Known("alice".to_owned()),
        namespace: Asked::Known(true),
        rights: needed().into_iter().map(|right| (right, Asked::Known(true))).collect(),
        groups: Asked::Known(["kubevirt.io", "cdi.kubevirt.io"].map(str::to_owned).into()),
        kubevirt: installed("v1.9.0"),
        cdi: installed("v1.66.0"),
        classes: Asked::Known(vec![Class {
            name: "fast".to_owned(),
            default: false,
            default_for_machines: false,
            waits_for_consumer: false,
            grows: true,
            profile: profile(&[("ReadWriteMany", "Block"), ("ReadWriteOnce", "Filesystem")], "csi-clone"),
        }]),
        attachments: BTreeMap::new(),
        hosts: Asked::Known(vec![host("a", 16), host("b", 16)]),
        service_ranges: Asked::Known(vec!["172.20.0.0/16".parse().unwrap()]),
        taken: Asked::Known(Vec::new()),
        quotas: Asked::Known(Vec::new()),
        images: [("http://me:pass@images.example/u.img?key=1".to_owned(), ImageFacts::There(Some(5 << 20)))]
            .into(),
    }
}

fn judged(network: &Value, pools: &[Pool], facts: &Facts) -> Vec<Check> {
    let pools: Vec<&Pool> = pools.iter().collect();
    judge(&cluster(network), &pools, facts)
}

/// What is said about something, with its verdict.
fn said<'a>(checks: &'a [Check], about: &str) -> (Verdict, &'a str, &'a str) {
    let found = checks.iter().find(|check| check.about.starts_with(about));
    let check = found.unwrap_or_else(|| panic!("nothing about {about} in {checks:#?}"));
    (check.verdict, &check.found, &check.fix)
}

#[test]
fn where_everything_is_there_nothing_has_to_be_mended() {
    let checks = judged(&json!({}), &[pool(3, &json!({}))], &facts());
    let wrong: Vec<&Check> = checks.iter().filter(|check| check.verdict != Verdict::Passed).collect();
    assert_eq!(wrong.len(), 1, "{wrong:#?}");
    let (verdict, found, _) = said(&checks, "image http://images.example/u.img");
    assert_eq!((verdict, found), (Verdict::Warning, "it is there, 5 MiB; no checksum is said"));
    assert!(checks.iter().all(|check| !format!("{check:?}").contains("pass@")));
}

#[test]
fn a_server_that_does_not_answer_is_all_that_is_said() {
    let facts = Facts { server: Asked::Failed("no answer in time".to_owned()), ..facts() };
    let checks = judged(&json!({}), &[], &facts);
    assert_eq!(checks.len(), 1);
    assert_eq!(said(&checks, "API server").0, Verdict::Failed);
}

#[test]
fn missing_rights_are_all_named_with_what_an_admin_does() {
    let mut facts = facts();
    for (right, answer) in &mut facts.rights {
        if right.request.plural == "virtualmachines" && right.request.subresource.is_empty() {
            *answer = Asked::Known(false);
        }
    }
    let checks = judged(&json!({}), &[], &facts);
    let (verdict, found, fix) = said(&checks, "rights");
    assert_eq!(verdict, Verdict::Failed);
    assert_eq!(found, "you may not list, watch, create, patch, delete virtualmachines.kubevirt.io");
    assert!(fix.contains("--site install --namespace blue --user 'alice'"), "{fix}");
}

#[test]
fn rights_that_only_some_clusters_need_are_a_warning() {
    let mut facts = facts();
    for (right, answer) in &mut facts.rights {
        *answer = Asked::Known(right.request.group != "rbac.authorization.k8s.io");
    }
    let checks = judged(&json!({}), &[], &facts);
    let (verdict, found, _) = said(&checks, "rights");
    assert_eq!(verdict, Verdict::Warning, "{found}");
    assert!(found.contains("list, watch, delete roles.rbac.authorization.k8s.io"), "{found}");
}

#[test]
fn what_may_not_be_looked_at_is_unknown_and_no_failure() {
    let facts = Facts {
        kubevirt: Asked::NotAllowed,
        classes: Asked::NotAllowed,
        hosts: Asked::NotAllowed,
        service_ranges: Asked::NotAllowed,
        quotas: Asked::NotAllowed,
        namespace: Asked::NotAllowed,
        ..facts()
    };
    let checks = judged(&json!({"pods": [{"cidr": "10.128.0.0/14"}]}), &[pool(1, &json!({}))], &facts);
    for about in ["namespace", "KubeVirt", "storage", "address ranges", "capacity", "quota"] {
        let (verdict, found, _) = said(&checks, about);
        assert_eq!(verdict, Verdict::Unknown, "{about}: {found}");
        assert!(found.contains("not allowed"), "{about}: {found}");
    }
}

#[test]
fn a_namespace_is_there_or_is_made_or_is_asked_for() {
    let mut facts = Facts { namespace: Asked::Absent, ..facts() };
    let (verdict, _, fix) = {
        let checks = judged(&json!({}), &[], &facts);
        let (verdict, found, fix) = said(&checks, "namespace blue");
        (verdict, found.to_owned(), fix.to_owned())
    };
    assert_eq!((verdict, fix.as_str()), (Verdict::Failed, "ask an admin: kubectl create namespace blue"));
    let namespaces = trellis_runtime::Resource::cluster("", "v1", "namespaces", "Namespace");
    let request = trellis_runtime::client::Request::new(Verb::Create, &namespaces, "");
    facts.rights.push((Right { request, needed: false }, Asked::Known(true)));
    assert_eq!(said(&judged(&json!({}), &[], &facts), "namespace blue").0, Verdict::Passed);
}

#[test]
fn operators_that_are_old_broken_or_missing_are_told() {
    let kubevirt = |version: &str, phase: &str| {
        let found =
            Installation { version: version.to_owned(), phase: phase.to_owned(), ..Installation::default() };
        let checks = judged(&json!({}), &[], &Facts { kubevirt: Asked::Known(found), ..facts() });
        said(&checks, "KubeVirt").0
    };
    assert_eq!(kubevirt("v1.2.9", "Deployed"), Verdict::Failed);
    assert_eq!(kubevirt("v1.3.0", "Deployed"), Verdict::Passed);
    assert_eq!(kubevirt("v1.9.0", "Deploying"), Verdict::Failed);
    assert_eq!(kubevirt("devel", "Deployed"), Verdict::Unknown);
    let without = Facts { groups: Asked::Known(BTreeSet::from(["kubevirt.io".to_owned()])), ..facts() };
    let checks = judged(&json!({}), &[], &without);
    let (verdict, found, _) = said(&checks, "CDI");
    assert_eq!((verdict, found), (Verdict::Failed, "the server does not know cdi.kubevirt.io"));
}

#[test]
fn storage_must_be_there_and_do_what_machines_need() {
    let check = |template: &Value, change: &dyn Fn(&mut Class)| {
        let mut facts = facts();
        if let Asked::Known(classes) = &mut facts.classes {
            change(&mut classes[0]);
        }
        let checks = judged(&json!({}), &[pool(1, template)], &facts);
        let (verdict, found, _) = said(&checks, "storage");
        (verdict, found.to_owned())
    };
    let live = json!({"eviction": "LiveMigrate"});
    assert_eq!(check(&live, &|_| {}).0, Verdict::Passed);
    let once = |class: &mut Class| class.profile = profile(&[("ReadWriteOnce", "Block")], "copy");
    assert_eq!(check(&live, &once).0, Verdict::Failed);
    assert_eq!(check(&json!({}), &once).0, Verdict::Warning);
    let many = json!({"rootDisk": {"storage": {"accessMode": "ReadWriteMany"}}});
    let (verdict, found) = check(&many, &once);
    assert_eq!(
        (verdict, found.as_str()),
        (Verdict::Failed, "ReadWriteMany is asked for; it can be ReadWriteOnce Block")
    );
    let nothing = |class: &mut Class| class.profile = profile(&[], "snapshot");
    assert_eq!(check(&json!({}), &nothing).0, Verdict::Failed);
    let other = json!({"rootDisk": {"storage": {"class": "slow"}}});
    assert_eq!(check(&other, &|_| {}), (Verdict::Failed, "there is no such storage class".to_owned()));
    let none = json!({"rootDisk": {"storage": {"class": null}}});
    assert_eq!(check(&none, &|_| {}).0, Verdict::Failed);
    assert_eq!(check(&none, &|class| class.default = true).0, Verdict::Passed);
}

#[test]
fn addresses_belong_to_one() {
    let network = json!({
        "attachPodNetwork": false,
        "nodes": ["192.168.7.0/24"],
        "pods": [{"cidr": "10.64.0.0/14"}],
        "apiVips": ["192.168.7.5"],
        "ingressVips": ["192.168.8.6"],
    });
    let taken = Taken { address: "192.168.7.5".parse().unwrap(), by: "the Service web".to_owned() };
    let checks = judged(&network, &[], &Facts { taken: Asked::Known(vec![taken]), ..facts() });
    let (verdict, found, _) = said(&checks, "API address");
    assert_eq!((verdict, found), (Verdict::Failed, "the Service web has it already"));
    let (verdict, found, _) = said(&checks, "ingress address");
    assert_eq!((verdict, found), (Verdict::Failed, "it is outside of the machines' network 192.168.7.0/24"));
    let (verdict, found, _) = said(&checks, "address ranges");
    assert_eq!(verdict, Verdict::Failed);
    assert_eq!(found, "10.64.0.0/14 of the tenant's pods overlaps 10.64.0.0/24 of the infra cluster's pods");
}

/// A guest whose own Services have the address of the infra cluster's name server cannot ask that.
#[test]
fn ranges_that_the_tenant_does_not_say_count_too() {
    let with = |network: &Value| {
        let theirs = Asked::Known(vec!["10.96.0.0/12".parse().unwrap()]);
        let checks = judged(network, &[], &Facts { service_ranges: theirs, ..facts() });
        let (verdict, found, _) = said(&checks, "address ranges");
        (verdict, found.to_owned())
    };
    let (verdict, found) = with(&json!({}));
    assert_eq!(verdict, Verdict::Failed);
    assert_eq!(
        found,
        "10.96.0.0/12 of the tenant's services overlaps 10.96.0.0/12 of the infra cluster's services"
    );
    assert_eq!(with(&json!({"services": ["172.30.0.0/16"]})).0, Verdict::Passed);
}

/// The first machine of a cluster that is grown from nothing.
fn masters() -> Pool {
    let mut pool = pool(1, &json!({}));
    pool.spec.role = trellis_model::pool::Role::ControlPlane;
    pool
}

#[test]
fn machines_of_a_cluster_that_is_grown_find_its_api() {
    let check = |spec: &Value, pool: Pool| {
        let mut cluster = cluster(&json!({}));
        let mut whole = serde_json::to_value(&cluster.spec).unwrap();
        json_patch::merge(&mut whole, spec);
        cluster.spec = serde_json::from_value(whole).unwrap();
        let checks = judge(&cluster, &[&pool], &facts());
        let found = checks.iter().find(|check| check.about == "names of the API");
        found.map(|check| (check.verdict, check.found.clone()))
    };
    assert_eq!(check(&json!({}), masters()), None, "it has the names of its Services");
    assert_eq!(check(&json!({"baseDomain": "svc.cluster.local"}), masters()).unwrap().0, Verdict::Passed);
    let (verdict, found) = check(&json!({"baseDomain": "example.com"}), masters()).unwrap();
    assert_eq!(verdict, Verdict::Failed);
    assert_eq!(
        found,
        "nothing makes api-int.blue.example.com resolve: the infra cluster's names are below blue.svc.cluster.local"
    );
    let shared = json!({"baseDomain": "svc.cluster.local", "platform": {"kubevirt": {"namespace": "team"}}});
    assert_eq!(check(&shared, masters()).unwrap().0, Verdict::Failed);
    let apart = json!({"network": {"attachPodNetwork": false, "apiVips": ["192.168.7.5"]}});
    assert_eq!(check(&apart, masters()).unwrap().0, Verdict::Failed);
    // Others saw to it where they bring the user data along, and where the control plane is somewhere else.
    let mut brought = masters();
    brought.spec.template.user_data.inline = Some("#cloud-config".to_owned());
    assert_eq!(check(&json!({"baseDomain": "example.com"}), brought), None);
    assert_eq!(check(&json!({"baseDomain": "example.com"}), pool(1, &json!({}))), None);
}

#[test]
fn a_network_plugin_needs_machines_with_addresses_of_their_own() {
    let check = |network: &Value| {
        let checks = judged(network, &[masters()], &facts());
        let found = checks.into_iter().find(|check| check.about.starts_with("network plugin"));
        found.map(|check| (check.verdict, check.about, check.fix))
    };
    let failed =
        (Verdict::Failed, "network plugin flannel".to_owned(), "podNetworkBinding: Bridge".to_owned());
    assert_eq!(check(&json!({"plugin": "flannel"})), Some(failed));
    assert_eq!(check(&json!({"plugin": "flannel", "podNetworkBinding": "Bridge"})), None);
    assert_eq!(check(&json!({"plugin": "none"})), None);
    assert_eq!(check(&json!({})), None, "the lab's stand-in, and what people bring");
}

#[test]
fn networks_are_there_and_large_enough() {
    let with = |attachment: Asked<Attachment>| {
        let key = ("blue".to_owned(), "vlan".to_owned());
        let checks = judged(&json!({}), &[], &Facts { attachments: [(key, attachment)].into(), ..facts() });
        let (verdict, found, _) = said(&checks, "network blue/vlan");
        (verdict, found.to_owned())
    };
    let mtu = |mtu| Asked::Known(Attachment { plugin: "bridge".to_owned(), mtu: Some(mtu), range: None });
    assert_eq!(
        with(mtu(1500)),
        (Verdict::Passed, "bridge, MTU 1500: pods of the tenant have 1450".to_owned())
    );
    assert_eq!(with(mtu(1300)).0, Verdict::Failed);
    assert_eq!(with(Asked::Absent).0, Verdict::Failed);
    assert_eq!(with(Asked::NotAllowed).0, Verdict::Unknown);
}

#[test]
fn machines_fit_or_the_first_that_does_not_is_told() {
    let check = |pools: &[Pool], hosts: Vec<Host>| {
        let checks = judged(&json!({}), pools, &Facts { hosts: Asked::Known(hosts), ..facts() });
        let (verdict, found, _) = said(&checks, "capacity");
        (verdict, found.to_owned())
    };
    // Four gibibytes and what KubeVirt needs beside: three fit into sixteen.
    let hosts = || vec![host("a", 16), host("b", 16)];
    assert_eq!(check(&[pool(6, &json!({}))], hosts()).0, Verdict::Passed);
    let (verdict, found) = check(&[pool(7, &json!({}))], hosts());
    assert_eq!(verdict, Verdict::Failed);
    assert!(found.starts_with("6 of 7 machines of pool workers fit: each needs 4.3 GiB"), "{found}");
    let apart = json!({"placement": {"apart": "Hard"}});
    assert_eq!(check(&[pool(3, &apart)], hosts()).0, Verdict::Failed);
    let cordoned = vec![Host { usable: false, ..host("a", 16) }];
    assert_eq!(check(&[pool(1, &json!({}))], cordoned).1, "none of 1 hosts takes machines");
    let unseen = vec![Host { requested: None, ..host("a", 16) }];
    assert_eq!(check(&[pool(1, &json!({}))], unseen).0, Verdict::Unknown);
    let full = vec![Host { requested: Some((0, 15 << 30)), ..host("a", 16) }];
    assert_eq!(check(&[pool(1, &json!({}))], full).0, Verdict::Failed);
}

#[test]
fn a_quota_leaves_room_or_says_what_is_short() {
    let quota = |limits: &[(&str, u128, u128)]| {
        let limits = limits.iter().map(|(what, hard, used)| ((*what).to_owned(), (*hard, *used)));
        let quota = Quota { name: "small".to_owned(), limits: limits.collect() };
        let facts = Facts { quotas: Asked::Known(vec![quota]), ..facts() };
        let disks = json!({"dataDisks": [{"name": "data", "size": "1Gi"}]});
        let checks = judged(&json!({}), &[pool(2, &disks)], &facts);
        let (verdict, found, _) = said(&checks, "quota small");
        (verdict, found.to_owned())
    };
    assert_eq!(quota(&[("pods", 5_000, 3_000), ("services", 0, 0)]).0, Verdict::Passed);
    let (verdict, found) = quota(&[("pods", 5_000, 4_000), ("requests.storage", 30 << 30, 0)]);
    assert_eq!(verdict, Verdict::Failed);
    // Two root disks and two of data, and the image they are cloned from.
    assert_eq!(found, "pods: 2 needed, 1 left; requests.storage: 62.0 GiB needed, 0.1 GiB left");
    let (verdict, found) = quota(&[("persistentvolumeclaims", 4_000, 0)]);
    assert_eq!((verdict, found.as_str()), (Verdict::Failed, "persistentvolumeclaims: 5 needed, 4 left"));
}

//! How a control plane comes up, and why it does not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trellis_infra::kinds::NODE;
use trellis_infra::object::Object as _;
use trellis_simulation::{Authority, Plane};

use crate::stage::{DOMAIN, Stage};

#[tokio::test(start_paused = true)]
async fn three_masters_come_up_from_user_data_alone() {
    let stage = Stage::with(3).await;
    // Their API answers over the network, and has their Nodes.
    let nodes = stage.tenant().list(&NODE, "").await.unwrap();
    let mut names: Vec<String> = nodes.iter().map(|node| node.name().to_owned()).collect();
    names.sort();
    let mut machines = stage.machines().await;
    machines.sort();
    assert_eq!(names, machines);
    assert!(nodes.iter().all(|node| node.condition_holds("Ready")));
    for machine in machines {
        let status = stage.etcd.status(&machine).await.unwrap();
        assert!(status.serves() && !status.learner, "{status:?}");
    }
    for member in stage.members().await {
        assert!(member.peer_urls[0].ends_with(&format!(".{DOMAIN}:2380")), "by name: {member:?}");
    }
}

/// A control plane with something wrong with the files of its first machine; what its console says in the end.
async fn spoiled(spoil: impl Fn(&mut BTreeMap<String, String>) + Send + Sync + 'static) -> String {
    let spoil = move |machine: &str, files: &mut BTreeMap<String, String>| {
        if machine.ends_with("-0") {
            spoil(files);
        }
    };
    let stage = Stage::start(Plane::new(DOMAIN).unwrap().spoiled(Arc::new(spoil))).await;
    stage.create(1).await;
    tokio::time::sleep(Duration::from_mins(15)).await;
    let machine = stage.machines().await.remove(0);
    let said = stage.console(&machine).await;
    assert!(stage.tenant().list(&NODE, "").await.is_err(), "its API must not answer: {said}");
    said
}

#[tokio::test(start_paused = true)]
async fn a_certificate_of_another_authority_keeps_it_down() {
    let other = Authority::new("another").unwrap();
    let client = other.issue("kube-apiserver-etcd-client", "", &[]).unwrap();
    let said = spoiled(move |files| {
        files.insert("/etc/kubernetes/pki/apiserver-etcd-client.crt".to_owned(), client.certificate.clone());
        files.insert("/etc/kubernetes/pki/apiserver-etcd-client.key".to_owned(), client.key.clone());
    })
    .await;
    assert!(said.contains("rejected connection on client endpoint"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_certificate_keeps_it_down() {
    let other = Authority::new("another").unwrap();
    let said = spoiled(move |files| {
        files.insert("/etc/kubernetes/pki/etcd/peer.key".to_owned(), other.pair.key.clone());
    })
    .await;
    assert!(said.contains("the certificates for peers cannot be used"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_missing_is_named() {
    let said = spoiled(|files| {
        files.remove("/etc/kubernetes/pki/sa.key");
    })
    .await;
    assert!(said.contains("--service-account-signing-key-file=/etc/kubernetes/pki/sa.key"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_master_that_its_peers_do_not_believe_stays_out() {
    let other = Authority::new("another").unwrap();
    let peer = other.issue("peer", "", &["localhost"]).unwrap();
    let spoil = move |machine: &str, files: &mut BTreeMap<String, String>| {
        if machine.ends_with("-2") {
            files.insert("/etc/kubernetes/pki/etcd/peer.crt".to_owned(), peer.certificate.clone());
            files.insert("/etc/kubernetes/pki/etcd/peer.key".to_owned(), peer.key.clone());
        }
    };
    let stage = Stage::start(Plane::new(DOMAIN).unwrap().spoiled(Arc::new(spoil))).await;
    stage.create(3).await;
    stage.furnish().await;
    stage.until(|pool| pool.condition("EtcdReady").text("/reason") == "MemberUnhealthy").await;
    let quorum = stage.quorums().last().copied().unwrap();
    assert_eq!((quorum.voting, quorum.serving), (3, 2), "two of three do without it");
    let machine = stage.machines().await.into_iter().find(|name| name.ends_with("-2")).unwrap();
    let said = stage.console(&machine).await;
    assert!(said.contains("is not reached"), "{said}");
}

//! Certificates: what they say, when they end, and that they can be made again.

use std::net::IpAddr;

use jiff::SignedDuration;
use trellis_bootstrap::Bundle;
use trellis_bootstrap::pki::Authority;
use trellis_model::image::OperatingSystem;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;

use crate::site::{Known, Mode, name, now, rng, site};

fn known() -> Known {
    Known::new(site(OperatingSystem::Flatcar, Mode::Secondary))
}

/// What a certificate says.
#[derive(Debug)]
struct Facts {
    subject: String,
    issuer: String,
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    server: bool,
    client: bool,
    authority: bool,
    not_after: i64,
}

fn facts(pem: &str) -> Facts {
    let (_, pem) = parse_x509_pem(pem.as_bytes()).unwrap();
    let certificate = pem.parse_x509().unwrap();
    let mut facts = Facts {
        subject: certificate.subject().to_string(),
        issuer: certificate.issuer().to_string(),
        names: Vec::new(),
        addresses: Vec::new(),
        server: false,
        client: false,
        authority: certificate.is_ca(),
        not_after: certificate.validity().not_after.timestamp(),
    };
    if let Some(names) = certificate.subject_alternative_name().unwrap() {
        for name in &names.value.general_names {
            match name {
                GeneralName::DNSName(name) => facts.names.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => facts.addresses.push(match bytes.len() {
                    4 => <[u8; 4]>::try_from(*bytes).unwrap().into(),
                    _ => <[u8; 16]>::try_from(*bytes).unwrap().into(),
                }),
                other => panic!("{other:?}"),
            }
        }
    }
    if let Some(usages) = certificate.extended_key_usage().unwrap() {
        (facts.server, facts.client) = (usages.value.server_auth, usages.value.client_auth);
    }
    facts
}

#[test]
fn servers_are_known_by_the_names_they_are_reached_at() {
    let known = known();
    let master = known.master("m0");
    let read = |file: &str| facts(master.content(&format!("/etc/kubernetes/pki/{file}")).unwrap());
    let server = read("apiserver.crt");
    let expected = [
        "kubernetes",
        "kubernetes.default.svc.cluster.local",
        "api.demo.svc.cluster.local",
        "api-int.demo.svc.cluster.local",
        "m0.demo.svc.cluster.local",
        "m0",
        "localhost",
    ];
    for name in expected {
        assert!(server.names.iter().any(|one| one == name), "{name} is not in {server:?}");
    }
    for address in ["127.0.0.1", "10.96.0.1", "192.0.2.10", "2001:db8::10"] {
        assert!(server.addresses.contains(&address.parse().unwrap()), "{address} is not in {server:?}");
    }
    assert!(server.server && !server.client && !server.authority);
    for file in ["etcd/server.crt", "etcd/peer.crt"] {
        let peer = read(file);
        assert!(peer.server && peer.client, "{peer:?}");
        assert!(peer.names.contains(&"m0.demo.svc.cluster.local".to_owned()), "{peer:?}");
        assert!(
            peer.addresses.iter().all(IpAddr::is_loopback),
            "members of etcd are known by name: {peer:?}"
        );
        assert_eq!(peer.issuer, "CN=etcd-ca");
    }
    assert_eq!(read("front-proxy-client.crt").issuer, "CN=front-proxy-ca");
    assert_eq!(
        read("apiserver-kubelet-client.crt").subject,
        "O=system:masters, CN=kube-apiserver-kubelet-client"
    );
    assert!(read("ca.crt").authority);
    let stub = facts(&known.bundle.machine_config_server().unwrap().certificate);
    assert_eq!(
        (stub.issuer.as_str(), stub.names),
        ("CN=machine-config", vec!["api-int.demo.svc.cluster.local".to_owned()])
    );
    assert_eq!(stub.addresses.len(), 2, "stubs on the machines' network ask by address");
}

#[test]
fn a_seed_gives_the_same_keys_again() {
    let (one, other) = (known(), known());
    let keys = |known: &Known| {
        let master = known.master("m1");
        let files = master.files.iter().filter(|file| file.path.contains("/pki/") && file.mode == 0o600);
        files.map(|file| file.content.expose().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&one), keys(&other));
    assert_eq!(one.token.expose(), other.token.expose());
    assert!(keys(&one).len() > 9);
}

#[test]
fn a_bundle_is_one_document_and_keeps_its_keys_to_itself() {
    let bundle = known().bundle;
    let text = serde_json::to_string(&bundle).unwrap();
    assert_eq!(serde_json::from_str::<Bundle>(&text).unwrap(), bundle);
    assert!(text.contains("PRIVATE KEY"));
    assert!(!format!("{bundle:?}").contains("PRIVATE KEY"));
    assert!(!format!("{:?}", known().master("m0")).contains("PRIVATE KEY"));
}

#[test]
fn what_ends_when_is_known_and_only_what_is_due_is_renewed() {
    let mut known = known();
    let expiries = known.bundle.expiries();
    // Three members with eleven certificates each, a worker, the administrator, the server, who asks etcd, and four
    // authorities.
    assert_eq!(expiries.len(), 3 * 11 + 1 + 3 + 4);
    let days = |days: i64| now() + SignedDuration::from_hours(24 * days);
    for expiry in &expiries {
        let expected = if expiry.name.starts_with("ca/") { days(3650) } else { days(365) };
        assert_eq!(expiry.not_after, expected, "{expiry:?}");
        assert!(expiry.not_before < now());
    }
    assert!(expiries.is_sorted_by_key(|expiry| expiry.not_after));
    let before = known.bundle.clone();
    assert!(known.bundle.renew(&mut rng(), days(300)).unwrap().is_empty());
    assert_eq!(known.bundle, before);

    let before = known.master("m0");
    let renewed = known.bundle.renew(&mut rng(), days(310)).unwrap();
    assert_eq!(renewed.len(), 3 * 11 + 1 + 3);
    let after = known.master("m0");
    let path = "/etc/kubernetes/pki/apiserver.crt";
    let (old, new) = (facts(before.content(path).unwrap()), facts(after.content(path).unwrap()));
    assert_eq!((&old.names, &old.issuer), (&new.names, &new.issuer));
    assert_eq!(new.not_after, days(310 + 365).as_second());
    assert_eq!(before.content("/etc/kubernetes/pki/ca.crt"), after.content("/etc/kubernetes/pki/ca.crt"));
    assert_ne!(
        before.content("/etc/kubernetes/pki/apiserver.key"),
        after.content("/etc/kubernetes/pki/apiserver.key")
    );
    assert!(known.bundle.renew(&mut rng(), days(311)).unwrap().is_empty());
}

#[test]
fn what_is_there_is_left_alone_until_its_names_change() {
    let mut known = known();
    let before = known.bundle.clone();
    let ensure = |known: &mut Known| {
        known.bundle.ensure_master(&known.site.names, &name("m0"), &mut rng(), now()).unwrap();
    };
    ensure(&mut known);
    assert_eq!(known.bundle, before);
    known.site.names.api_addresses.push("192.0.2.99".parse().unwrap());
    ensure(&mut known);
    assert_ne!(known.bundle, before);
    known.bundle.forget(&name("m0"));
    assert!(known.bundle.expiries().iter().all(|expiry| !expiry.name.starts_with("m0/")));
    assert!(known.bundle.expiries().iter().any(|expiry| expiry.name.starts_with("m1/")));
}

#[test]
fn no_certificate_outlives_its_authority() {
    let mut known = known();
    let late =
        known.bundle.authority(Authority::Kubernetes).unwrap().not_after - SignedDuration::from_hours(48);
    known.bundle.renew(&mut rng(), late).unwrap();
    let end = known.bundle.authority(Authority::Kubernetes).unwrap().not_after;
    assert!(known.bundle.expiries().iter().all(|expiry| expiry.not_after <= end));
}

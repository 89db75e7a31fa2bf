use proptest::prelude::*;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType, IsCa, KeyPair, SanType,
};

use super::*;

/// A request, with one thing after the other forged.
#[derive(Clone)]
struct Form {
    username: String,
    groups: Vec<String>,
    usages: Vec<String>,
    common_name: String,
    organizations: Vec<String>,
    unit: Option<String>,
    names: Vec<SanType>,
    authority: bool,
    extension: bool,
    label: &'static str,
    tail: &'static [u8],
    spoil: bool,
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

fn ip(address: &str) -> SanType {
    SanType::IpAddress(address.parse().unwrap())
}

impl Form {
    /// What a kubelet asks for.
    fn honest() -> Self {
        Self {
            username: "system:node:w1".to_owned(),
            groups: texts(&["system:nodes", "system:authenticated"]),
            usages: texts(&["digital signature", "server auth"]),
            common_name: "system:node:w1".to_owned(),
            organizations: texts(&["system:nodes"]),
            unit: None,
            names: vec![dns("w1"), ip("10.1.0.1")],
            authority: false,
            extension: false,
            label: "CERTIFICATE REQUEST",
            tail: b"",
            spoil: false,
        }
    }

    fn pem(&self) -> Vec<u8> {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::default();
        let mut name = DistinguishedName::new();
        for organization in &self.organizations {
            name.push(DnType::OrganizationName, organization.as_str());
        }
        name.push(DnType::CommonName, self.common_name.as_str());
        if let Some(unit) = &self.unit {
            name.push(DnType::OrganizationalUnitName, unit.as_str());
        }
        parameters.distinguished_name = name;
        parameters.subject_alt_names.clone_from(&self.names);
        if self.authority {
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        if self.extension {
            let content = vec![4, 2, 1, 2];
            parameters.custom_extensions.push(CustomExtension::from_oid_content(&[1, 2, 3, 4, 5], content));
        }
        let request = parameters.serialize_request(&key).unwrap();
        let mut der = request.der().to_vec();
        if self.spoil {
            // The last byte is of the signature.
            *der.last_mut().unwrap() ^= 1;
        }
        let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der);
        let mut pem = format!("-----BEGIN {0}-----\n{text}\n-----END {0}-----\n", self.label).into_bytes();
        pem.extend_from_slice(self.tail);
        pem
    }

    fn decision(&self) -> Decision {
        self.decision_with(|node| Ok(known(node)))
    }

    fn decision_with(&self, identity: impl FnOnce(&str) -> Result<Identity, String>) -> Decision {
        let pem = self.pem();
        let asked =
            Asked { username: &self.username, groups: &self.groups, usages: &self.usages, request: &pem };
        decide(&asked, identity)
    }
}

/// The machine w1, and another.
fn known(node: &str) -> Identity {
    assert_eq!(node, "w1");
    let addresses = |all: &[&str]| all.iter().map(|text| text.parse().unwrap()).collect();
    Identity {
        names: ["w1".to_owned()].into(),
        addresses: addresses(&["10.1.0.1", "fd00::1", "10.1.0.9"]),
        other_names: ["w2".to_owned()].into(),
        other_addresses: addresses(&["10.1.0.2", "10.1.0.9"]),
    }
}

#[test]
fn what_a_kubelet_asks_for_is_approved() {
    type Change = fn(&mut Form);
    let rows: [(&str, Change); 6] = [
        ("as it is", |_| {}),
        ("with an RSA key's usage", |form| form.usages.push("key encipherment".to_owned())),
        ("a name alone", |form| form.names = vec![dns("w1")]),
        ("in capitals", |form| form.names = vec![dns("W1")]),
        ("an address alone", |form| form.names = vec![ip("fd00::1")]),
        ("all of it, twice", |form| {
            form.names = vec![dns("w1"), dns("w1"), ip("10.1.0.1"), ip("fd00::1")];
        }),
    ];
    for (what, change) in rows {
        let mut form = Form::honest();
        change(&mut form);
        assert_eq!(form.decision(), Decision::Approve, "{what}");
    }
}

/// Whether a forged request is denied, or only left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Denied,
    Left,
}
use Expected::{Denied, Left};

#[test]
fn nothing_forged_is_approved() {
    type Change = fn(&mut Form);
    let rows: [(&str, Expected, Change); 33] = [
        ("a person asks", Left, |form| form.username = "admin".to_owned()),
        ("a service account asks", Left, |form| {
            form.username = "system:serviceaccount:kube-system:x".to_owned();
        }),
        ("a nameless node asks", Left, |form| form.username = "system:node:".to_owned()),
        ("no node's group", Left, |form| form.groups = texts(&["system:authenticated"])),
        ("a bootstrapper's group", Left, |form| form.groups = texts(&["system:bootstrappers"])),
        ("for another node", Denied, |form| form.common_name = "system:node:w2".to_owned()),
        ("for no node", Denied, |form| form.common_name = "w1".to_owned()),
        ("for the API server", Denied, |form| form.common_name = "kube-apiserver".to_owned()),
        ("for nobody", Denied, |form| form.common_name = String::new()),
        ("masters", Denied, |form| form.organizations = texts(&["system:masters"])),
        ("nodes and masters", Denied, |form| {
            form.organizations = texts(&["system:nodes", "system:masters"]);
        }),
        ("no organization", Denied, |form| form.organizations.clear()),
        ("a unit beside", Denied, |form| form.unit = Some("x".to_owned())),
        ("to be a client", Denied, |form| form.usages = texts(&["digital signature", "client auth"])),
        ("to be both", Denied, |form| form.usages.push("client auth".to_owned())),
        ("to sign", Denied, |form| form.usages.push("cert sign".to_owned())),
        ("for anything", Denied, |form| form.usages = texts(&["any"])),
        ("for nothing", Denied, |form| form.usages.clear()),
        ("to be an authority", Denied, |form| form.authority = true),
        ("an extension of its own", Denied, |form| form.extension = true),
        ("another's name", Denied, |form| form.names.push(dns("w2"))),
        ("another's address", Denied, |form| form.names.push(ip("10.1.0.2"))),
        ("an address two claim", Left, |form| form.names.push(ip("10.1.0.9"))),
        ("an unknown name", Left, |form| form.names.push(dns("kubernetes.default.svc"))),
        ("a longer name", Left, |form| form.names = vec![dns("w1.example.org")]),
        ("all names", Left, |form| form.names = vec![dns("*")]),
        ("names below", Left, |form| form.names = vec![dns("*.w1")]),
        ("an unknown address", Left, |form| form.names.push(ip("127.0.0.1"))),
        ("no names", Left, |form| form.names.clear()),
        ("an address of mail", Denied, |form| {
            form.names.push(SanType::Rfc822Name("w1@example.org".try_into().unwrap()));
        }),
        ("a place", Denied, |form| form.names.push(SanType::URI("https://w1".try_into().unwrap()))),
        ("another key's signature", Denied, |form| form.spoil = true),
        ("another kind of thing", Left, |form| form.label = "CERTIFICATE"),
    ];
    for (what, expected, change) in rows {
        let mut form = Form::honest();
        change(&mut form);
        let found = match form.decision() {
            Decision::Approve => panic!("{what}: approved"),
            Decision::Deny(_) => Denied,
            Decision::Leave(_) => Left,
        };
        assert_eq!(found, expected, "{what}");
    }
    let two = Form { tail: b"-----BEGIN X-----\n-----END X-----\n", ..Form::honest() };
    assert!(matches!(two.decision(), Decision::Leave(_)));
    let many = Form { names: vec![dns("w1"); 65], ..Form::honest() };
    assert!(matches!(many.decision(), Decision::Deny(_)));
}

#[test]
fn a_machine_that_is_not_known_proves_nothing() {
    let unknown = Form::honest().decision_with(|_| Err("there is no machine".to_owned()));
    assert_eq!(unknown, Decision::Leave("there is no machine".to_owned()));
    let nothing = Form::honest().decision_with(|_| Ok(Identity::default()));
    assert!(matches!(nothing, Decision::Leave(_)));
}

proptest! {
    /// Approved names are always among those that are the machine's own and nobody else's.
    #[test]
    fn nothing_but_own_names_is_ever_approved(picks in proptest::collection::vec(0_usize..8, 0..6)) {
        let all = ["w1", "w2", "w3", "10.1.0.1", "10.1.0.2", "10.1.0.9", "fd00::1", "fd00::2"];
        let own = [0, 3, 6];
        let names = picks.iter().map(|pick| if *pick < 3 { dns(all[*pick]) } else { ip(all[*pick]) });
        let form = Form { names: names.collect(), ..Form::honest() };
        let expected = !picks.is_empty() && picks.iter().all(|pick| own.contains(pick));
        prop_assert_eq!(form.decision() == Decision::Approve, expected);
    }

    /// No bytes make it panic, and none are approved.
    #[test]
    fn any_bytes_are_borne(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let groups = texts(&["system:nodes"]);
        let usages = texts(&["server auth"]);
        let asked = Asked { username: "system:node:w1", groups: &groups, usages: &usages, request: &bytes };
        prop_assert!(decide(&asked, |node| Ok(known(node))) != Decision::Approve);
    }
}

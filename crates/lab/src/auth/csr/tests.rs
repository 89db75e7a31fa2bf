use std::sync::Arc;

use rcgen::{CertificateParams, DnType, KeyPair};

use super::*;
use crate::auth::bootstrap_objects;
use crate::auth::pki;
use crate::names::GroupResource;
use crate::reader::Fixture;

fn now() -> Timestamp {
    "2026-11-16T05:53:16Z".parse().unwrap()
}

fn authority() -> Authority {
    Authority::generate("kubernetes", now()).unwrap()
}

fn request(user: &str, group: &str, names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, user);
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

fn ask(request: &str, signer: &str, usages: &[&str], seconds: Option<i64>) -> Result<String, SigningError> {
    let usages: Vec<String> = usages.iter().map(|usage| (*usage).to_owned()).collect();
    sign(&authority(), request.as_bytes(), signer, &usages, seconds, now())
}

fn refusal(request: &str, signer: &str, usages: &[&str]) -> String {
    match ask(request, signer, usages, None) {
        Err(SigningError::Refused(words)) => words,
        other => panic!("{other:?}"),
    }
}

fn facts(certificate: &str) -> pki::Facts {
    use rustls::pki_types::CertificateDer;
    pki::read(&CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()).unwrap()
}

#[test]
fn clients_get_certificates_for_as_long_as_they_ask() {
    let request = request("carol", "devs", &["foo", "1.2.3.4"]);
    let year = facts(&ask(&request, CLIENT, &["client auth"], None).unwrap());
    assert_eq!(year.subject.common_name(), "carol");
    assert_eq!(year.subject.organizations(), ["devs"]);
    assert_eq!(clock::seconds(year.not_before), "2026-11-16T05:48:16Z");
    assert_eq!(clock::seconds(year.not_after), "2027-11-16T05:48:16Z");
    assert!(!year.authority);
    let usages = ["client auth", "digital signature", "key encipherment"];
    let short = facts(&ask(&request, CLIENT, &usages, Some(600)).unwrap());
    assert_eq!(clock::seconds(short.not_after), "2026-11-16T06:03:16Z");
    let long = facts(&ask(&request, CLIENT, &usages, Some(1 << 40)).unwrap());
    assert_eq!(long.not_after, year.not_after);
}

#[test]
fn signers_have_their_rules() {
    let carol = request("carol", "devs", &["foo"]);
    assert_eq!(
        refusal(&carol, CLIENT, &["client auth", "server auth"]),
        "invalid usage for client certificate: server auth"
    );
    assert_eq!(
        refusal(&carol, CLIENT, &["digital signature"]),
        "missing required usage for client certificate: client auth"
    );
    for signer in [KUBELET_CLIENT, KUBELET_SERVING] {
        assert_eq!(refusal(&carol, signer, &["client auth"]), "subject organization is not system:nodes");
    }
    let node = request("system:node:n1", "system:nodes", &["foo", "1.2.3.4"]);
    assert!(ask(&node, KUBELET_SERVING, &["server auth", "digital signature"], None).is_ok());
    assert_eq!(
        refusal(&node, KUBELET_SERVING, &["server auth"]),
        "usages did not match [digital signature key encipherment server auth]"
    );
    assert_eq!(
        refusal(&node, KUBELET_CLIENT, &["client auth", "digital signature"]),
        "DNS subjectAltNames are not allowed"
    );
    let bare = request("system:node:n1", "system:nodes", &[]);
    assert_eq!(
        refusal(&bare, KUBELET_SERVING, &["server auth", "digital signature"]),
        "DNS or IP subjectAltName is required"
    );
    assert!(ask(&bare, KUBELET_CLIENT, &["client auth", "digital signature"], None).is_ok());
    assert_eq!(
        ask(&carol, "example.com/foo", &["client auth"], None),
        Err(SigningError::NotOurs("example.com/foo".to_owned()))
    );
    let unknown = ask(&carol, UNKNOWN, &["telepathy"], None);
    assert_eq!(unknown, Err(SigningError::Failed("unrecognized usage values: [\"telepathy\"]".to_owned())));
    for nonsense in
        ["", "x", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"]
    {
        assert!(matches!(ask(nonsense, CLIENT, &["client auth"], None), Err(SigningError::Failed(_))));
    }
}

#[expect(clippy::needless_pass_by_value, reason = "calls read better")]
fn object(request: &str, signer: &str, conditions: Value) -> Value {
    json!({
        "metadata": {"name": "x"},
        "spec": {
            "request": STANDARD.encode(request), "signerName": signer,
            "usages": ["client auth", "digital signature"], "username": "system:node:n1",
            "groups": ["system:nodes", "system:authenticated"],
        },
        "status": {"conditions": conditions},
    })
}

#[test]
fn approved_requests_become_certificates_or_fail_for_good() {
    let authority = authority();
    let approved = json!([{"type": "Approved", "status": "True"}]);
    let carol = request("carol", "devs", &[]);
    let done = signed(&object(&carol, CLIENT, approved.clone()), &authority, now()).unwrap();
    let certificate = STANDARD.decode(done["status"]["certificate"].as_str().unwrap()).unwrap();
    assert_eq!(facts(std::str::from_utf8(&certificate).unwrap()).subject.common_name(), "carol");
    assert_eq!(signed(&done, &authority, now()), None);
    assert_eq!(signed(&object(&carol, CLIENT, json!([])), &authority, now()), None);
    assert_eq!(signed(&object(&carol, "example.com/x", approved.clone()), &authority, now()), None);
    let failed = signed(&object(&carol, KUBELET_CLIENT, approved), &authority, now()).unwrap();
    assert_eq!(
        failed["status"]["conditions"][1],
        json!({
            "type": "Failed", "status": "True", "reason": "SignerValidationFailure",
            "message": "subject organization is not system:nodes",
            "lastUpdateTime": "2026-11-16T05:53:16Z", "lastTransitionTime": "2026-11-16T05:53:16Z",
        })
    );
    assert_eq!(signed(&failed, &authority, now()), None);
}

#[test]
fn kubelets_with_the_right_to_it_are_approved_at_once() {
    let mut reader = Fixture::default();
    let mut objects = bootstrap_objects(now());
    objects.push(json!({
        "kind": "ClusterRoleBinding", "metadata": {"name": "renew"},
        "roleRef": {
            "kind": "ClusterRole", "name": "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        },
        "subjects": [{"kind": "Group", "name": "system:nodes"}],
    }));
    for object in objects {
        let resource = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
        reader = reader.with(GroupResource::new("rbac.authorization.k8s.io", &resource), object);
    }
    let authorizer = Authorizer::new(Arc::new(reader));
    let own = object(&request("system:node:n1", "system:nodes", &[]), KUBELET_CLIENT, json!([]));
    let done = approved(&own, &authorizer, now()).unwrap();
    assert_eq!(done["status"]["conditions"][0]["reason"], "AutoApproved");
    assert!(signed(&done, &authority(), now()).unwrap()["status"]["certificate"].is_string());
    let other = object(&request("system:node:n2", "system:nodes", &[]), KUBELET_CLIENT, json!([]));
    assert_eq!(approved(&other, &authorizer, now()), None);
    let denied = json!([{"type": "Denied", "status": "True"}]);
    let denied = object(&request("system:node:n1", "system:nodes", &[]), KUBELET_CLIENT, denied);
    assert_eq!(approved(&denied, &authorizer, now()), None);
}

//! Serving certificates of the tenant's kubelets.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::{Value, json};
use trellis_engine::controllers::Settings;
use trellis_engine::families::TRELLIS;
use trellis_infra::kinds::{CERTIFICATE_REQUEST, EVENT, SECRET};
use trellis_infra::object::{Key, Object as _};
use trellis_simulation::Make;

use crate::families::pool;
use crate::stage::{CONTROL, POOL, Stage};

const SIGNER: &str = "kubernetes.io/kubelet-serving";

/// A pool of two machines whose kubelets ask for their serving certificates.
async fn with_asking_kubelets(settings: Settings) -> Stage {
    let stage = Stage::start_with(&TRELLIS, Make::default(), settings).await;
    let flags = "write_files:\n- path: /etc/default/kubelet\n  content: KUBELET_EXTRA_ARGS='--rotate-server-certificates=true'\n";
    let data = format!("{}{flags}", stage.tenant.user_data().unwrap());
    let secret =
        json!({"metadata": {"namespace": CONTROL, "name": "join"}, "stringData": {"userData": data}});
    stage.world.person.create(&SECRET, secret).await.unwrap();
    stage.create(&POOL, pool(2)).await;
    stage.until_nodes(2).await;
    stage
}

/// The requests for serving certificates.
async fn requests(stage: &Stage) -> Vec<Value> {
    let mut all = stage.tenant.person.list(&CERTIFICATE_REQUEST, "").await.unwrap();
    all.retain(|request| request.text("/spec/signerName") == SIGNER);
    all
}

fn condition(request: &Value) -> (&str, &str) {
    (request.text("/status/conditions/0/type"), request.text("/status/conditions/0/reason"))
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_gets_its_serving_certificate() {
    let stage = with_asking_kubelets(Settings::default()).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let requests = requests(&stage).await;
    assert_eq!(requests.len(), 2, "{requests:?}");
    for request in &requests {
        assert_eq!(condition(request), ("Approved", "MachineProven"), "{request}");
        assert!(!request.text("/status/certificate").is_empty(), "{request}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_approves_where_that_is_not_wished() {
    let stage = with_asking_kubelets(Settings { serving_certificates: false, ..Settings::default() }).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let requests = requests(&stage).await;
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|request| condition(request) == ("", "")));
}

/// Asks as a node, with its credentials, for a certificate of these names.
async fn ask(stage: &Stage, node: &str, subject: &str, name: &str, dns: &[&str], ips: &[&str]) -> Key {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    parameters.distinguished_name.push(DnType::CommonName, subject);
    parameters.subject_alt_names.extend(dns.iter().map(|name| SanType::DnsName((*name).try_into().unwrap())));
    parameters.subject_alt_names.extend(ips.iter().map(|ip| SanType::IpAddress(ip.parse().unwrap())));
    let request = parameters.serialize_request(&key).unwrap().pem().unwrap();
    let body = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(request), "signerName": SIGNER, "usages": ["digital signature", "server auth"],
        },
    });
    let sent = http::Request::post("/apis/certificates.k8s.io/v1/certificatesigningrequests")
        .header("content-type", "application/json")
        .header("impersonate-user", format!("system:node:{node}"))
        .header("impersonate-group", "system:nodes")
        .body(serde_json::to_vec(&body).unwrap())
        .unwrap();
    stage.tenant.client().request::<Value>(sent).await.unwrap();
    Key::cluster(name)
}

/// What it is about, the subject, names, addresses, and what becomes of it.
type Row<'a> = (&'a str, &'a str, &'a [&'a str], &'a [&'a str], &'a str);

#[tokio::test(start_paused = true)]
async fn a_node_cannot_get_a_certificate_of_another() {
    let stage = with_asking_kubelets(Settings::default()).await;
    let names = stage.vms().await;
    let (thief, victim) = (names[0].as_str(), names[1].as_str());
    let (own, other) = (format!("system:node:{thief}"), format!("system:node:{victim}"));
    let run = stage
        .world
        .person
        .get(&trellis_infra::kinds::VMI, &crate::health::vm(victim))
        .await
        .unwrap()
        .unwrap();
    let address = run.text("/status/interfaces/0/ipAddress");
    let rows: [Row<'_>; 6] = [
        ("subject", &other, &[thief], &[], "Denied"),
        ("name", &own, &[thief, victim], &[], "Denied"),
        ("address", &own, &[thief], &[address], "Denied"),
        ("api", &own, &["kubernetes.default.svc"], &[], ""),
        ("loopback", &own, &[thief], &["127.0.0.1"], ""),
        ("wildcard", &own, &["*"], &[], ""),
    ];
    for (name, subject, dns, ips, _) in rows {
        ask(&stage, thief, subject, name, dns, ips).await;
    }
    let honest = ask(&stage, thief, &own, "honest", &[thief], &[]).await;
    // A node whose machine nobody knows.
    let stranger = ask(&stage, "ghost", "system:node:ghost", "stranger", &["ghost"], &[]).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let kind = |request: &Value| condition(request).0.to_owned();
    for (name, _, _, _, expected) in rows {
        let now = stage.tenant.person.get(&CERTIFICATE_REQUEST, &Key::cluster(name)).await.unwrap().unwrap();
        assert_eq!(kind(&now), expected, "{name}");
        assert_eq!(now.text("/status/certificate"), "", "{name}");
    }
    let honest = stage.tenant.person.get(&CERTIFICATE_REQUEST, &honest).await.unwrap().unwrap();
    assert_eq!(kind(&honest), "Approved");
    let stranger = stage.tenant.person.get(&CERTIFICATE_REQUEST, &stranger).await.unwrap().unwrap();
    assert_eq!(kind(&stranger), "");
    let events = stage.tenant.person.list(&EVENT, "default").await.unwrap();
    let told = |name: &str, reason: &str| {
        let of =
            |event: &&Value| event.text("/involvedObject/name") == name && event.text("/reason") == reason;
        events.iter().any(|event| of(&event))
    };
    assert!(
        told("name", "MachineForged")
            && told("stranger", "MachineNotProven")
            && told("honest", "MachineProven")
    );
}

//! How a kubelet comes by its credentials: a kubeconfig that is there, a bootstrap kubeconfig, or `kubeadm join`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tower::Layer as _;
use x509_parser::pem::parse_x509_pem;

use super::super::wire::Connector;
use super::super::{Boot, Guest};
use super::KUBELET;
use super::flags::{Flags, Join};
use crate::client::Client;
use crate::kinds::{CERTIFICATE_REQUEST, CONFIG_MAP};
use crate::object::hex;
use crate::object::{Key, Object as _};

/// Where a kubeconfig of the node itself may be.
const OWN: &[&str] = &["/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/kubeconfig"];
/// Where a kubeconfig that only may ask for another is.
const BOOTSTRAP: &[&str] = &[
    "/etc/kubernetes/bootstrap-kubelet.conf",
    "/etc/kubernetes/kubeconfig",
    "/var/lib/kubelet/bootstrap-kubeconfig",
];

/// Whether it belongs to no cluster and never will: it was told of no credentials, and only runs static pods.
pub(super) fn is_alone(boot: &Boot, flags: &Flags) -> bool {
    let named = ["kubeconfig", "bootstrap-kubeconfig"].iter().any(|flag| !flags.get(flag).is_empty());
    let found = OWN.iter().chain(BOOTSTRAP).any(|path| boot.files.contains_key(*path));
    let by_unit = boot.units.get("kubelet.service").is_some_and(|unit| unit.contains("ExecStart="));
    by_unit && !named && !found && flags.join.is_none()
}

/// A client of a guest by a kubeconfig on its disk, through the network of the guest.
pub async fn client_of(guest: &Guest, kubeconfig: &str) -> Result<kube::Client, String> {
    connect(guest, parse(kubeconfig)?).await
}

/// A client with the node's own credentials.
pub(super) async fn join(guest: &Guest, flags: &Flags) -> Result<kube::Client, String> {
    let text = |flag: &str, places: &[&str]| {
        let named = Some(flags.get(flag)).filter(|path| !path.is_empty());
        let mut paths = named.into_iter().chain(places.iter().copied());
        paths.find_map(|path| guest.boot.text(path)).map(ToOwned::to_owned)
    };
    if let Some(own) = text("kubeconfig", OWN) {
        return connect(guest, parse(&own)?).await;
    }
    let bootstrap = match (text("bootstrap-kubeconfig", BOOTSTRAP), &flags.join) {
        (Some(bootstrap), _) => parse(&bootstrap)?,
        (None, Some(join)) => discover(guest, join).await?,
        (None, None) => return Err("there is neither a kubeconfig nor a bootstrap kubeconfig".to_owned()),
    };
    let node = flags.node_name(&guest.boot);
    let asking = Client::new(connect(guest, bootstrap.clone()).await?, KUBELET);
    let (certificate, key) = certificate(guest, &asking, &node).await?;
    let own = own(bootstrap, &certificate, &key)?;
    // After a restart it needs nobody's token any more.
    let text = serde_json::to_vec(&own).map_err(|error| error.to_string())?;
    guest.keep_file("/etc/kubernetes/kubelet.conf", text);
    connect(guest, own).await
}

fn parse(text: &str) -> Result<Kubeconfig, String> {
    Kubeconfig::from_yaml(text).map_err(|error| format!("the kubeconfig cannot be read: {error}"))
}

/// A client that goes over the guest's network.
async fn connect(guest: &Guest, kubeconfig: Kubeconfig) -> Result<kube::Client, String> {
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| format!("the kubeconfig cannot be used: {error}"))?;
    let told = |error: kube::Error| format!("the kubeconfig cannot be used: {error}");
    let connector =
        config.rustls_https_connector_with_connector(Connector(guest.network.clone())).map_err(told)?;
    let http = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let http = tower::util::MapErr::new(http, tower::BoxError::from);
    let service = tower::util::option_layer(config.auth_layer().map_err(told)?).layer(http);
    Ok(kube::Client::new(config.base_uri_layer().layer(service), "default"))
}

/// The kubeconfig a cluster tells everybody, if its authority is one of those that may be trusted, with the token.
async fn discover(guest: &Guest, join: &Join) -> Result<Kubeconfig, String> {
    let anybody = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {
            "server": format!("https://{}", join.endpoint), "insecure-skip-tls-verify": true,
        }}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    let client = Client::new(connect(guest, parse(&anybody.to_string())?).await?, KUBELET);
    let key = Key::new("kube-public", "cluster-info");
    let info = client.get(&CONFIG_MAP, &key).await.map_err(|error| format!("discovery failed: {error}"))?;
    let info = info.ok_or("discovery failed: there is no cluster-info in kube-public")?;
    let told = parse(info.text("/data/kubeconfig"))?;
    let cluster = told.clusters.into_iter().next().and_then(|named| named.cluster);
    let cluster = cluster.ok_or("discovery failed: cluster-info names no cluster")?;
    let authority = cluster.certificate_authority_data.clone().unwrap_or_default();
    if !join.hashes.is_empty() && !join.hashes.contains(&pin(&authority)?) {
        return Err("discovery failed: cluster CA found in cluster-info ConfigMap is invalid: none of the public keys are pinned".to_owned());
    }
    let with_token = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {
            "server": cluster.server, "certificate-authority-data": authority,
        }}],
        "users": [{"name": "u", "user": {"token": join.token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    parse(&with_token.to_string())
}

/// What kubeadm pins an authority by: the hash of its public key.
fn pin(authority: &str) -> Result<String, String> {
    let unreadable = || "discovery failed: the authority in cluster-info cannot be read".to_owned();
    let pem = STANDARD.decode(authority).map_err(|_| unreadable())?;
    let (_, pem) = parse_x509_pem(&pem).map_err(|_| unreadable())?;
    let certificate = pem.parse_x509().map_err(|_| unreadable())?;
    Ok(format!("sha256:{}", hex(&Sha256::digest(certificate.public_key().raw))))
}

/// Asks the cluster for a certificate of the node, and waits until somebody approves.
async fn certificate(guest: &Guest, client: &Client, node: &str) -> Result<(String, String), String> {
    let signer = "kubernetes.io/kube-apiserver-client-kubelet";
    ask(guest, client, node, signer, "client auth", Vec::new()).await
}

/// Asks the cluster for the certificate the node serves with, for its name and the addresses it sees.
pub(super) async fn serving_certificate(
    guest: &Guest,
    client: &Client,
    node: &str,
) -> Result<(String, String), String> {
    let name = node.try_into().map_err(|error| format!("{node} is no name: {error}"))?;
    let addresses = super::node::addresses(&guest.machine.plan()).into_iter().map(SanType::IpAddress);
    let names = std::iter::once(SanType::DnsName(name)).chain(addresses).collect();
    ask(guest, client, node, "kubernetes.io/kubelet-serving", "server auth", names).await
}

async fn ask(
    guest: &Guest,
    client: &Client,
    node: &str,
    signer: &str,
    usage: &str,
    names: Vec<SanType>,
) -> Result<(String, String), String> {
    let failed = |error: rcgen::Error| format!("no key could be made: {error}");
    let key = KeyPair::generate().map_err(failed)?;
    let mut parameters = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "system:nodes");
    name.push(DnType::CommonName, format!("system:node:{node}"));
    parameters.distinguished_name = name;
    parameters.subject_alt_names = names;
    let request = parameters.serialize_request(&key).and_then(|request| request.pem()).map_err(failed)?;
    let asked = json!({
        "metadata": {"generateName": "csr-"},
        "spec": {
            "request": STANDARD.encode(request), "signerName": signer,
            "usages": ["digital signature", usage],
        },
    });
    let asked = client.create(&CERTIFICATE_REQUEST, asked).await;
    let asked = asked.map_err(|error| format!("cannot create certificate signing request: {error}"))?;
    // Watched for as long as it takes: who may ask for a certificate may do that too.
    let (requests, _watching) =
        client.cache_where(&CERTIFICATE_REQUEST, &format!("metadata.name={}", asked.name()));
    let mut changes = requests.changes();
    loop {
        let now = changes.recv().await.and_then(|change| change.after);
        let now = now.ok_or("the certificate signing request is gone")?;
        guest.running().await;
        if let Some(certificate) = now.at("/status/certificate").as_str() {
            return Ok((certificate.to_owned(), STANDARD.encode(key.serialize_pem())));
        }
        if now.condition_holds("Denied") || now.condition_holds("Failed") {
            return Err("certificate signing request was denied".to_owned());
        }
    }
}

/// The kubeconfig of the node itself: the same cluster, with its own certificate.
fn own(bootstrap: Kubeconfig, certificate: &str, key: &str) -> Result<Kubeconfig, String> {
    let mut config: Value = serde_json::to_value(bootstrap).map_err(|error| error.to_string())?;
    let user = json!({"client-certificate-data": certificate, "client-key-data": key});
    let users = config["users"].as_array().cloned().unwrap_or_default();
    config["users"] = users.iter().map(|entry| json!({"name": entry["name"], "user": user})).collect();
    parse(&config.to_string())
}

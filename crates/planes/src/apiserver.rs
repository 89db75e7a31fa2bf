//! The API server in a guest: the lab of its cluster, behind the certificate of its own disk.

use std::convert::Infallible;
use std::sync::Arc;

use http::Method;
use jiff::Timestamp;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use trellis_infra::client::{self, Client};
use trellis_infra::guests::Guest;
use trellis_infra::kinds::{CLUSTER_ROLE_BINDING, NAMESPACE};
use trellis_lab::auth::{Credential, Given};
use trellis_lab::kinds::allocation::ServiceNetwork;
use trellis_lab::{Lab, Options, Secret};

use crate::etcd::{Cluster, Member, listen};
use crate::manifest::{CommandLine, text};
use crate::tls::Identity;
use crate::web::Caller;

/// Who it is to itself.
const APISERVER: client::Identity = client::Identity { program: "kube-apiserver", user: "" };
/// Where it listens if nothing else is said.
const PORT: u16 = 6443;

/// What all API servers of a cluster show: one store behind all of them.
#[derive(Debug, Default)]
pub(crate) struct Plane {
    lab: tokio::sync::Mutex<Option<Arc<Lab>>>,
    /// Who runs the controllers: one of all members.
    pub(crate) manager: Arc<tokio::sync::Mutex<()>>,
}

/// The time of a guest, for what it serves.
#[derive(Debug)]
struct GuestTime(trellis_infra::clock::Clock);

impl trellis_lab::clock::Clock for GuestTime {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// What is read from the disk.
struct Files {
    port: u16,
    pki: Given,
    etcd: Identity,
    /// The member of etcd it speaks to, if it is another guest's.
    etcd_host: String,
    /// Whether it gives nodes their rights.
    knows_nodes: bool,
    /// Where the addresses of Services are from.
    services: ServiceNetwork,
}

/// The network of IPv4 addresses among those of a flag; that of every lab where there is none.
fn services(ranges: &str) -> Result<ServiceNetwork, String> {
    let first = ranges.split(',').find(|range| !range.is_empty() && !range.contains(':'));
    first.map_or(Ok(ServiceNetwork::default()), |range| {
        range.parse().map_err(|why| format!("--service-cluster-ip-range={ranges}: {why}"))
    })
}

impl Files {
    fn read(guest: &Guest) -> Result<Self, String> {
        let boot = &guest.boot;
        let line = CommandLine::read(boot, "kube-apiserver")?;
        let pair = |certificate: &str, key: &str| {
            Ok::<_, String>(Credential {
                certificate: line.file(boot, certificate)?,
                key: Secret::new(line.file(boot, key)?),
            })
        };
        // The keys of the authorities are beside their certificates: the controllers sign with them.
        let authority = |flag: &str| {
            let certificate = line.file(boot, flag)?;
            let path = line.required(flag)?.trim_end_matches(".crt").to_owned() + ".key";
            let key = text(boot, &path).map_err(|why| format!("{path}: {why}"))?;
            Ok::<_, String>(Credential { certificate, key: Secret::new(key) })
        };
        let servers = line.required("etcd-servers")?;
        let first: http::Uri = servers
            .split(',')
            .next()
            .unwrap_or_default()
            .parse()
            .map_err(|_| format!("--etcd-servers={servers}: no URL"))?;
        let port = line.get("secure-port");
        Ok(Self {
            port: if port.is_empty() {
                PORT
            } else {
                port.parse().map_err(|_| format!("--secure-port={port}: no port"))?
            },
            pki: Given {
                cluster: authority("client-ca-file")?,
                front_proxy: authority("requestheader-client-ca-file")?,
                serving: pair("tls-cert-file", "tls-private-key-file")?,
                front_proxy_client: pair("proxy-client-cert-file", "proxy-client-key-file")?,
                kubelet_client: pair("kubelet-client-certificate", "kubelet-client-key")?,
                service_accounts: Secret::new(line.file(boot, "service-account-signing-key-file")?),
            },
            etcd: Identity {
                authority: line.file(boot, "etcd-cafile")?,
                certificate: line.file(boot, "etcd-certfile")?,
                key: line.file(boot, "etcd-keyfile")?,
            },
            services: services(line.get("service-cluster-ip-range"))?,
            knows_nodes: line.get("authorization-mode").split(',').any(|mode| mode == "Node"),
            etcd_host: first.host().unwrap_or_default().trim_matches(['[', ']']).to_owned(),
        })
    }
}

/// Serves the API while the member of etcd beside it serves; `up` tells the controllers.
pub(crate) async fn run(
    guest: &Guest,
    etcd: &watch::Sender<Option<Arc<Member>>>,
    up: &watch::Sender<Option<(Arc<Lab>, Arc<Cluster>)>>,
) -> Result<Infallible, String> {
    let files = Files::read(guest)?;
    let mut members = etcd.subscribe();
    loop {
        let Ok(member) = members.wait_for(Option::is_some).await.map(|member| member.clone()) else {
            return std::future::pending().await;
        };
        let Some(member) = member else { continue };
        let Some(cluster) = member.found().await else { continue };
        served(&cluster, &member, &mut members, true).await;
        if !is_up(&member, &members) {
            continue;
        }
        greet(guest, &files, &member).await.map_err(|why| format!("etcd: {why}"))?;
        let lab = plane(guest, &files, &cluster, member.id()).await?;
        let door = lab.door_with(&files.pki.serving).map_err(|error| error.to_string())?;
        guest.log("kube-apiserver", &format!("Serving securely on [::]:{}", files.port));
        up.send_replace(Some((Arc::clone(&lab), Arc::clone(&cluster))));
        tokio::select! {
            () = listen(guest, files.port, |stream| door.clone().serve(stream)) => {}
            () = served(&cluster, &member, &mut members, false) => {}
        }
        up.send_replace(None);
        guest.log("kube-apiserver", "etcd does not answer any more: not serving");
    }
}

/// Whether this is still the member that runs, and it serves.
fn is_up(member: &Arc<Member>, members: &watch::Receiver<Option<Arc<Member>>>) -> bool {
    members.borrow().as_ref().is_some_and(|now| Arc::ptr_eq(now, member)) && member.serves()
}

/// Waits until the member serves, or does not any more; or until it is no longer the one that runs.
async fn served(
    cluster: &Cluster,
    member: &Arc<Member>,
    members: &mut watch::Receiver<Option<Arc<Member>>>,
    wanted: bool,
) {
    let mut changes = cluster.changes();
    loop {
        changes.borrow_and_update();
        let same = members.borrow_and_update().as_ref().is_some_and(|now| Arc::ptr_eq(now, member));
        if !same || member.serves() == wanted {
            return;
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            changed = members.changed() => if changed.is_err() { return },
        }
    }
}

/// Speaks to etcd as the API server does: with its own certificate, and believing its authority alone.
async fn greet(guest: &Guest, files: &Files, member: &Arc<Member>) -> Result<(), String> {
    let host = &files.etcd_host;
    let name = ServerName::try_from(host.clone()).map_err(|_| format!("{host} is no name of a server"))?;
    let connector = TlsConnector::from(files.etcd.client(guest.clock)?);
    if !matches!(host.as_str(), "127.0.0.1" | "localhost" | "::1") {
        return Err(format!("{host} is not this machine: its own member is the only one it can use"));
    }
    let stream = connector.connect(name, member.loopback()).await.map_err(|error| error.to_string())?;
    let (code, answer) = Caller::new(stream, host).await?.call(Method::GET, "/health", &Value::Null).await?;
    if code == 200 { Ok(()) } else { Err(format!("it answers {code}: {answer}")) }
}

/// The server behind all API servers of a cluster. The first one brings its keys; who has others is of another cluster.
async fn plane(guest: &Guest, files: &Files, cluster: &Cluster, member: u64) -> Result<Arc<Lab>, String> {
    let mut lab = cluster.plane.lab.lock().await;
    if let Some(lab) = &*lab {
        let same = |one: &str, other: &str| one.split_whitespace().eq(other.split_whitespace());
        if !same(&lab.authority_pem(), &files.pki.cluster.certificate) {
            return Err("--client-ca-file is not the authority of the cluster's other API servers".to_owned());
        }
        return Ok(Arc::clone(lab));
    }
    let home = cluster.disks.home(member)?;
    let options = Options {
        folder: home.clone(),
        clock: Arc::new(GuestTime(guest.clock)),
        seed: Some(guest.stages.seed() ^ cluster.id),
        pki: Some(files.pki.clone()),
        services: files.services,
        ..Options::default()
    };
    let made = Arc::new(Lab::start(options).await.map_err(|error| error.to_string())?);
    if let Some(home) = &home {
        // Before anybody is served: what is promised then is on the disks of all members.
        cluster.disks.share(home)?;
    }
    if files.knows_nodes {
        give_nodes_their_rights(&made).await?;
    }
    *lab = Some(Arc::clone(&made));
    Ok(made)
}

/// Lets nodes do what the node authorizer would let them do; for the lab that is a role like any other.
async fn give_nodes_their_rights(lab: &Arc<Lab>) -> Result<(), String> {
    let client = Client::new(kube::Client::new(lab.service(), "default"), APISERVER);
    let binding = json!({
        "metadata": {"name": "trellis:lab:nodes"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    });
    let namespace = json!({"metadata": {"name": "kube-node-lease"}});
    let made = client.create_if_absent(&CLUSTER_ROLE_BINDING, binding).await;
    made.map_err(|error| error.to_string())?;
    client.create_if_absent(&NAMESPACE, namespace).await.map_err(|error| error.to_string())
}

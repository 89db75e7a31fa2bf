//! Machines of each kind, from what is known of their cluster.
//!
//! # How a cluster starts
//!
//! All keys and certificates are made before the first machine, and members of etcd know each other by names that are
//! known before as well. So the control plane needs no temporary one to grow from: its first members start one etcd
//! together, each from the same list, and no data is ever moved from machine to machine.
//!
//! What is left for the **bootstrap machine** is to hand out configurations: `bootkube.service` runs the machine config
//! server. Beside it, a kubelet that belongs to no cluster runs haproxy, which passes the API's port on to the members
//! of the control plane; so the names `api` and `api-int` may lead to the bootstrap machine for as long as it lives,
//! by Services or by an address it holds, and lead nowhere wrong. When every member has its configuration and the API
//! answers, the bootstrap machine is removed: that is the whole hand-over.
//!
//! **Members of the control plane** have what kubeadm would have made: certificates, kubeconfigs and static pods. They
//! serve configurations too, from a Secret of their own cluster, as soon as that is there: it holds the one ledger they
//! share, without which a token would be accepted twice.
//!
//! **Workers** have a kubelet with a certificate of its own, which the kubelet renews by itself. There are no bootstrap
//! tokens: whoever was given a configuration has proved who it is.

use std::net::IpAddr;

use jiff::Timestamp;
use rand::CryptoRng;
use serde_json::{Value, json};
use trellis_model::Pool;
use trellis_model::image::{FirstBoot, OperatingSystem};
use trellis_model::names::MachineName;
use trellis_model::pool::Role;

use crate::kubeconfig::{Server, kubeconfig};
use crate::machine::Config;
use crate::names::{API_PORT, API_PORT_BEHIND_BALANCER, Names, bracketed};
use crate::node::{INSTALL_UNIT, Node, TRELLIS};
use crate::pki::{
    Authority, Bundle, MACHINE_CONFIG, MACHINE_CONFIG_USER, MEMBER_CLIENTS, MEMBER_LEAVES, PkiError,
};
use crate::secret::Secret;
use crate::server::{folder, shared};
use crate::site::{Member, Site};
use crate::static_pods::{self, FOLDER, PKI};
use crate::tokens::{Redeemed, Token};
use crate::unit::UnitText;
use crate::version::UnknownVersion;
use crate::vip::{self, Part};
use crate::yaml::{to_yaml, to_yaml_documents};
use crate::{cloud_init, ignition, kubeadm};

/// Where the machine config server finds what it serves from.
const SERVED: &str = "/etc/trellis/machine-config";

/// Why a machine cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The operating system is not in the table.
    #[error(
        "machines with {0} cannot be bootstrapped: give them user data of your own, or take another image"
    )]
    System(&'static str),
    /// The version is not known.
    #[error(transparent)]
    Version(#[from] UnknownVersion),
    /// A certificate is missing or cannot be made.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// A machine that others must find by its address has none.
    #[error(
        "machine {0} has no fixed address in the family of the API's, which it needs where the API has addresses on the machines' network: give the control plane's interface fixed addresses"
    )]
    NoAddress(String),
    /// The cluster's virtual routers have no numbers.
    #[error("the cluster has addresses on the machines' network but no router ids: allocate them first")]
    NoRouterIds,
    /// Machines that serve configurations cannot get Trellis.
    #[error(
        "it is not known where machines get Trellis itself from: set `sources.trellis` to its URL and SHA-256"
    )]
    NoProgram,
    /// A machine is not one that was announced.
    #[error("{0} is not among the members of the control plane")]
    NotAMember(String),
    /// The cluster has no pool that the machine could be of.
    #[error("the cluster has no pool {0}")]
    NoPool(String),
}

/// What a machine reads at first boot: Ignition or cloud-init, whichever its operating system reads.
pub fn user_data(os: OperatingSystem, config: &Config) -> Secret {
    match os.first_boot() {
        FirstBoot::Ignition => ignition::write(config),
        FirstBoot::CloudInit => cloud_init::write(config),
    }
}

/// A member of the control plane. Its certificates must be in the bundle ([`Bundle::ensure_master`]).
pub fn master(
    site: &Site,
    pool: &Pool,
    bundle: &Bundle,
    machine: &MachineName,
) -> Result<Config, RenderError> {
    let member = site.masters.iter().find(|member| member.name == *machine);
    let member = member.ok_or_else(|| RenderError::NotAMember(machine.to_string()))?;
    let node = Node::new(site, pool, member)?;
    let mut config = node.config(true)?;
    node.add_kubelet(&mut config);
    add_certificates(&mut config, bundle, machine)?;
    add_kubeconfigs(&mut config, site, bundle, machine)?;
    let port = if site.has_addresses() { API_PORT_BEHIND_BALANCER } else { API_PORT };
    let pods = [
        static_pods::etcd(site, &node.version, member),
        static_pods::apiserver(site, &node.version, member, port),
        static_pods::controller_manager(site, &node.version),
        static_pods::scheduler(site, &node.version),
    ];
    for pod in pods {
        config.secret(format!("{FOLDER}/{}.yaml", pod.name), Secret::new(pod.manifest()));
    }
    let documents = [
        kubeadm::cluster_configuration(site, &node.version),
        kubeadm::init_configuration(site, member, &node.system, port),
        kubeadm::kubelet_configuration(&site.names, &node.system, pool),
    ];
    config.file(KUBEADM, to_yaml_documents(&documents));
    // The first member gives the tenant what every cluster has. Nothing happens when it is done twice.
    let first = site.masters.first() == Some(member) && !member.joins;
    add_addons(&mut config, node.system.bin, first);
    if site.has_addresses() {
        vip::add(&mut config, site, member, Part::Master, node.system.resolved)?;
        vip::add_balancer(&mut config, site, port);
    }
    add_server(&mut config, site, bundle, None);
    Ok(config)
}

/// A worker. Its certificate must be in the bundle ([`Bundle::ensure_node`]).
pub fn worker(
    site: &Site,
    pool: &Pool,
    bundle: &Bundle,
    machine: &MachineName,
) -> Result<Config, RenderError> {
    let member = Member::new(machine.clone());
    let node = Node::new(site, pool, &member)?;
    let mut config = node.config(false)?;
    node.add_kubelet(&mut config);
    config.file(format!("{PKI}/ca.crt"), bundle.authority(Authority::Kubernetes)?.certificate.clone());
    add_kubelet_kubeconfig(&mut config, site, bundle, machine)?;
    let join = kubeadm::join_configuration(machine, pool, &node.system);
    config.file("/etc/kubernetes/kubeadm-join.yaml", to_yaml(&join));
    if site.has_addresses() {
        vip::add(&mut config, site, &member, Part::Worker, node.system.resolved)?;
    }
    Ok(config)
}

/// The bootstrap machine, which hands configurations to the first members. Tokens count that were made after `opened`.
pub fn bootstrap(
    site: &Site,
    pool: &Pool,
    bundle: &Bundle,
    opened: Timestamp,
) -> Result<Config, RenderError> {
    let member =
        site.bootstrap.as_ref().ok_or_else(|| RenderError::NotAMember("the bootstrap machine".to_owned()))?;
    let node = Node::new(site, pool, member)?;
    let mut config = node.config(true)?;
    node.add_standalone_kubelet(&mut config);
    let port = if site.has_addresses() { API_PORT_BEHIND_BALANCER } else { API_PORT };
    vip::add_balancer(&mut config, site, port);
    if site.has_addresses() {
        vip::add(&mut config, site, member, Part::Bootstrap, node.system.resolved)?;
    }
    add_server(&mut config, site, bundle, Some(&Redeemed::opened(opened)));
    Ok(config)
}

/// The stub a machine boots with: who it is, and where it gets the rest with its token.
pub fn stub(
    site: &Site,
    pool: &Pool,
    bundle: &Bundle,
    machine: &MachineName,
    token: &Token,
) -> Result<Secret, RenderError> {
    let role = match pool.spec.role {
        Role::ControlPlane => "master",
        Role::Worker => "worker",
    };
    let url = site.names.machine_config_url(role);
    let authority = &bundle.authority(Authority::MachineConfig)?.certificate;
    let bearer = format!("Bearer {}", token.expose());
    let headers = [("Authorization", bearer.as_str()), (crate::server::MACHINE_HEADER, machine.as_str())];
    let os = pool.spec.template.image.os;
    Ok(match os.first_boot() {
        FirstBoot::Ignition => ignition::replaced_by(&url, authority, &headers),
        FirstBoot::CloudInit => {
            let member = Member::new(machine.clone());
            let config = Node::new(site, pool, &member)?.identity();
            cloud_init::replaced_by(&config, &url, authority, &headers)
        }
    })
}

/// Renders whatever machine was asked for, with certificates made where they are missing.
pub fn machine(
    site: &Site,
    bundle: &mut Bundle,
    pool: &Pool,
    machine: &MachineName,
    rng: &mut dyn CryptoRng,
    now: Timestamp,
) -> Result<Config, RenderError> {
    match pool.spec.role {
        Role::ControlPlane => {
            bundle.ensure_master(&site.names, machine, rng, now)?;
            master(site, pool, bundle, machine)
        }
        Role::Worker => {
            bundle.ensure_node(machine, rng, now)?;
            worker(site, pool, bundle, machine)
        }
    }
}

/// The kubeconfig of the cluster's administrator: `auth/kubeconfig`.
pub fn admin_kubeconfig(site: &Site, bundle: &Bundle) -> Result<Secret, RenderError> {
    let server = site.names.public_server();
    Ok(kubeconfig(bundle, &site.names.cluster, server.as_str(), "admin", bundle.admin()?)?)
}

/// The same for whoever reaches the API at an address, and not by its name. The certificate must have the name still.
pub fn admin_kubeconfig_at(names: &Names, bundle: &Bundle, address: IpAddr) -> Result<Secret, RenderError> {
    let url = format!("https://{}:{API_PORT}", bracketed(address));
    let server = Server { url: &url, name: Some(&names.api) };
    Ok(kubeconfig(bundle, &names.cluster, server, "admin", bundle.admin()?)?)
}

fn add_certificates(config: &mut Config, bundle: &Bundle, machine: &MachineName) -> Result<(), RenderError> {
    let authorities = [
        ("ca", Authority::Kubernetes),
        ("etcd/ca", Authority::Etcd),
        ("front-proxy-ca", Authority::FrontProxy),
    ];
    for (name, authority) in authorities {
        let credential = bundle.authority(authority)?;
        config.file(format!("{PKI}/{name}.crt"), credential.certificate.clone());
        config.secret(format!("{PKI}/{name}.key"), credential.key.clone());
    }
    for (name, _) in MEMBER_LEAVES {
        let credential = bundle.of_machine(machine, name)?;
        config.file(format!("{PKI}/{name}.crt"), credential.certificate.clone());
        config.secret(format!("{PKI}/{name}.key"), credential.key.clone());
    }
    let (private, public) = bundle.service_accounts();
    config.secret(format!("{PKI}/sa.key"), private.clone());
    config.file(format!("{PKI}/sa.pub"), public);
    Ok(())
}

fn add_kubeconfigs(
    config: &mut Config,
    site: &Site,
    bundle: &Bundle,
    machine: &MachineName,
) -> Result<(), RenderError> {
    let (cluster, server) = (site.names.cluster.as_str(), site.names.internal_server());
    let admin = kubeconfig(bundle, cluster, server.as_str(), "kubernetes-admin", bundle.admin()?)?;
    config.secret("/etc/kubernetes/admin.conf", admin);
    for (name, user) in MEMBER_CLIENTS {
        let credential = bundle.of_machine(machine, name)?;
        let text = kubeconfig(bundle, cluster, server.as_str(), user, credential)?;
        config.secret(format!("/etc/kubernetes/{name}.conf"), text);
    }
    add_kubelet_kubeconfig(config, site, bundle, machine)
}

fn add_kubelet_kubeconfig(
    config: &mut Config,
    site: &Site,
    bundle: &Bundle,
    machine: &MachineName,
) -> Result<(), RenderError> {
    let server = site.names.internal_server();
    let credential = bundle.of_machine(machine, "kubelet")?;
    let user = format!("system:node:{machine}");
    let text = kubeconfig(bundle, &site.names.cluster, server.as_str(), &user, credential)?;
    config.secret("/etc/kubernetes/kubelet.conf", text);
    Ok(())
}

const KUBEADM: &str = "/etc/kubernetes/kubeadm.yaml";

/// Where what every cluster is given by kubectl is.
const GIVEN: &str = "/etc/trellis/given.yaml";

/// A unit that gives the tenant what kubeadm gives every cluster: the label of this node, and on the first member the
/// cluster's settings, kube-proxy, cluster DNS, and the right of kubelets to renew their certificates.
fn add_addons(config: &mut Config, bin: &str, first: bool) {
    let (kubeadm, kubectl) = (format!("{bin}/kubeadm"), format!("{bin}/kubectl"));
    let mut unit = UnitText::default()
        .section("Unit")
        .set("Description", "Give the cluster and this node what every one has")
        .set("Wants", INSTALL_UNIT)
        .set("After", &format!("{INSTALL_UNIT} kubelet.service"))
        .set("StartLimitIntervalSec", "0")
        .set("ConditionPathExists", "!/var/lib/trellis/given")
        .section("Service")
        .set("Type", "oneshot")
        .set("Environment", "KUBECONFIG=/etc/kubernetes/admin.conf");
    let phases: &[&[&str]] = &[
        &["mark-control-plane"],
        &["upload-config", "all"],
        &["addon", "coredns"],
        &["addon", "kube-proxy"],
    ];
    for phase in phases.iter().take(if first { phases.len() } else { 1 }) {
        let words = [&[kubeadm.as_str(), "init", "phase"], *phase, &["--config", KUBEADM]].concat();
        unit = unit.command("ExecStart", &words);
    }
    if first {
        config.file(GIVEN, to_yaml_documents(&[vec![kubelets_renew()], servers_share()].concat()));
        unit = unit.command("ExecStart", &[&kubectl, "apply", "--server-side", "--filename", GIVEN]);
    }
    let unit = unit
        .command("ExecStart", &["/usr/bin/touch", "/var/lib/trellis/given"])
        .set("Restart", "on-failure")
        .set("RestartSec", "10")
        .section("Install")
        .set("WantedBy", "multi-user.target");
    config.unit("trellis-addons.service", unit.text());
}

/// Lets the controllers approve what kubelets ask for in their own name.
fn kubelets_renew() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "trellis:kubelets-renew-certificates"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    })
}

/// Lets the machine config servers of the members use the Secret they share, and nothing else.
fn servers_share() -> Vec<Value> {
    let metadata = json!({"namespace": shared::NAMESPACE, "name": MACHINE_CONFIG_USER});
    let rbac = "rbac.authorization.k8s.io";
    vec![
        json!({
            "apiVersion": format!("{rbac}/v1"),
            "kind": "Role",
            "metadata": metadata,
            "rules": [{
                "apiGroups": [""], "resources": ["secrets"], "resourceNames": [shared::NAME],
                "verbs": ["get", "patch"],
            }],
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"),
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": MACHINE_CONFIG_USER},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": MACHINE_CONFIG_USER}],
        }),
    ]
}

/// Adds the machine config server. With a ledger it is the bootstrap machine's; without, one of several that share
/// theirs.
fn add_server(config: &mut Config, site: &Site, bundle: &Bundle, ledger: Option<&Redeemed>) {
    let files = match ledger {
        Some(ledger) => folder::files(site, bundle, ledger).into(),
        None => vec![folder::keys(bundle)],
    };
    for (name, content) in files {
        config.secret(format!("{SERVED}/{name}"), content);
    }
    let kubeconfig = format!("/etc/kubernetes/{MACHINE_CONFIG}.conf");
    let mut command = vec![TRELLIS, "machine-config-server", "--config", SERVED];
    if ledger.is_none() {
        command.extend(["--shared-ledger", &kubeconfig]);
    }
    let service = UnitText::default()
        .section("Unit")
        .set("Description", "Hand configurations to machines")
        .set("Wants", &format!("network-online.target {INSTALL_UNIT}"))
        .set("After", &format!("network-online.target {INSTALL_UNIT}"))
        .set("StartLimitIntervalSec", "0")
        .section("Service")
        .command("ExecStart", &command)
        .set("Restart", "always")
        .set("RestartSec", "2")
        .section("Install")
        .set("WantedBy", "multi-user.target");
    let name = if ledger.is_some() { "bootkube" } else { "trellis-machine-config-server" };
    config.unit(&format!("{name}.service"), service.text());
}

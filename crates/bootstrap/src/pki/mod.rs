//! The keys and certificates of a cluster, kept as one bundle.
//!
//! Authorities live ten years, what they sign one year. Every certificate that was made is kept with what it says, so
//! that the same question gives the same bytes, and renewal is signing the same again with the same authority.

mod certificate;
mod key;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;
use rand::CryptoRng;
use serde::{Deserialize, Serialize};
use trellis_model::names::MachineName;

pub use certificate::{Credential, Subject};

use crate::names::Names;
use crate::secret::Secret;
use crate::tokens::TokenKey;

/// Why keys or certificates could not be had.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// What the bundle holds cannot be used.
    #[error("{0} in the bundle of certificates cannot be read: restore the bundle from a copy")]
    Corrupt(&'static str),
    /// A name cannot stand in a certificate.
    #[error("{0:?} cannot stand in a certificate: names of servers are ASCII")]
    Name(String),
    /// A key or certificate could not be made.
    #[error("{0}")]
    Crypto(String),
}

/// The authorities of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authority {
    /// Vouches for the API servers and their clients.
    Kubernetes,
    /// Vouches for the members of etcd and their clients.
    Etcd,
    /// Vouches for proxies that speak for others.
    FrontProxy,
    /// Vouches for the machine config server. Of its own, so that stubs trust nothing else.
    MachineConfig,
}

impl Authority {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Kubernetes, Self::Etcd, Self::FrontProxy, Self::MachineConfig];

    fn common_name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Etcd => "etcd-ca",
            Self::FrontProxy => "front-proxy-ca",
            Self::MachineConfig => "machine-config",
        }
    }
}

/// A certificate that an authority has signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Leaf {
    authority: Authority,
    subject: Subject,
    credential: Credential,
}

/// All keys and certificates of a cluster. It serialises to one document, for a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bundle {
    authorities: BTreeMap<Authority, Credential>,
    service_accounts: Secret,
    service_accounts_public: String,
    leaves: BTreeMap<String, Leaf>,
}

/// When a certificate ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiry {
    /// Its name in the bundle: `m0/apiserver` is the machine's, `admin` the cluster's.
    pub name: String,
    /// The beginning of its validity.
    pub not_before: Timestamp,
    /// From when on [`Bundle::renew`] makes a new one; nothing for an authority, which is never renewed by itself.
    pub renew_after: Option<Timestamp>,
    /// The end of its validity.
    pub not_after: Timestamp,
}

/// The certificates of the control plane's members, by their names below `/etc/kubernetes/pki`.
pub(crate) const MEMBER_LEAVES: &[(&str, Authority)] = &[
    ("apiserver", Authority::Kubernetes),
    ("apiserver-kubelet-client", Authority::Kubernetes),
    ("apiserver-etcd-client", Authority::Etcd),
    ("front-proxy-client", Authority::FrontProxy),
    ("etcd/server", Authority::Etcd),
    ("etcd/peer", Authority::Etcd),
    ("etcd/healthcheck-client", Authority::Etcd),
];
/// Clients of the cluster whose certificates are in kubeconfigs, on each member of the control plane.
pub(crate) const MEMBER_CLIENTS: &[(&str, &str)] = &[
    ("controller-manager", "system:kube-controller-manager"),
    ("scheduler", "system:kube-scheduler"),
    (MACHINE_CONFIG, MACHINE_CONFIG_USER),
];
/// Who the machine config server of a member is to the API.
pub(crate) const MACHINE_CONFIG_USER: &str = "trellis:machine-config-server";
const ADMIN: &str = "admin";
pub(crate) const MACHINE_CONFIG: &str = "machine-config-server";
const ETCD_CLIENT: &str = "etcd-client";

impl Bundle {
    /// New authorities, the key of service accounts, the administrator, and the machine config server of a cluster.
    pub fn new(names: &Names, rng: &mut dyn CryptoRng, now: Timestamp) -> Result<Self, PkiError> {
        let mut authorities = BTreeMap::new();
        for authority in Authority::ALL {
            authorities.insert(authority, certificate::authority(authority.common_name(), rng, now)?);
        }
        let signing = key::generate(rng)?;
        let mut bundle = Self {
            authorities,
            service_accounts: key::private_pem(&signing),
            service_accounts_public: key::public_pem(&signing),
            leaves: BTreeMap::new(),
        };
        let admin = Subject::client("kubernetes-admin", &["system:masters"]);
        bundle.ensure(ADMIN, Authority::Kubernetes, admin, rng, now)?;
        let server = Subject::server(MACHINE_CONFIG, &[&names.api_int], &names.api_addresses);
        bundle.ensure(MACHINE_CONFIG, Authority::MachineConfig, server, rng, now)?;
        bundle.ensure(ETCD_CLIENT, Authority::Etcd, Subject::client("trellis", &[]), rng, now)?;
        Ok(bundle)
    }

    /// Makes sure that a member of the control plane has all its certificates, with the names it has now.
    ///
    /// What is there and says the same is left alone.
    pub fn ensure_master(
        &mut self,
        names: &Names,
        machine: &MachineName,
        rng: &mut dyn CryptoRng,
        now: Timestamp,
    ) -> Result<(), PkiError> {
        let full = names.machine(machine);
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        for (leaf, authority) in MEMBER_LEAVES {
            let subject = match *leaf {
                "apiserver" => apiserver(names, machine, &full, &loopback),
                "apiserver-kubelet-client" => {
                    Subject::client("kube-apiserver-kubelet-client", &["system:masters"])
                }
                "apiserver-etcd-client" => Subject::client("kube-apiserver-etcd-client", &[]),
                "front-proxy-client" => Subject::client("front-proxy-client", &[]),
                "etcd/healthcheck-client" => Subject::client("kube-etcd-healthcheck-client", &[]),
                _ => Subject::server(machine.as_str(), &["localhost", machine.as_str(), &full], &loopback)
                    .and_client(),
            };
            self.ensure(&of_machine(machine, leaf), *authority, subject, rng, now)?;
        }
        for (client, user) in MEMBER_CLIENTS {
            let subject = Subject::client(*user, &[]);
            self.ensure(&of_machine(machine, client), Authority::Kubernetes, subject, rng, now)?;
        }
        self.ensure_node(machine, rng, now)
    }

    /// Makes sure that a machine's kubelet has a certificate.
    pub fn ensure_node(
        &mut self,
        machine: &MachineName,
        rng: &mut dyn CryptoRng,
        now: Timestamp,
    ) -> Result<(), PkiError> {
        let subject = Subject::client(format!("system:node:{machine}"), &["system:nodes"]);
        self.ensure(&of_machine(machine, "kubelet"), Authority::Kubernetes, subject, rng, now)
    }

    fn ensure(
        &mut self,
        name: &str,
        authority: Authority,
        subject: Subject,
        rng: &mut dyn CryptoRng,
        now: Timestamp,
    ) -> Result<(), PkiError> {
        if self.leaves.get(name).is_some_and(|leaf| leaf.authority == authority && leaf.subject == subject) {
            return Ok(());
        }
        let credential = certificate::issue(self.authority(authority)?, &subject, rng, now)?;
        self.leaves.insert(name.to_owned(), Leaf { authority, subject, credential });
        Ok(())
    }

    /// Forgets the certificates of a machine that is gone.
    pub fn forget(&mut self, machine: &MachineName) {
        let prefix = of_machine(machine, "");
        self.leaves.retain(|name, _| !name.starts_with(&prefix));
    }

    /// When each certificate ends, the first to end first.
    pub fn expiries(&self) -> Vec<Expiry> {
        let authorities = self.authorities.iter().map(|(authority, credential)| Expiry {
            name: format!("ca/{}", authority.common_name()),
            not_before: credential.not_before,
            renew_after: None,
            not_after: credential.not_after,
        });
        let leaves = self.leaves.iter().map(|(name, leaf)| Expiry {
            name: name.clone(),
            not_before: leaf.credential.not_before,
            renew_after: Some(renew_after(&leaf.credential)),
            not_after: leaf.credential.not_after,
        });
        let mut all: Vec<Expiry> = authorities.chain(leaves).collect();
        all.sort_by(|a, b| (a.not_after, &a.name).cmp(&(b.not_after, &b.name)));
        all
    }

    /// Signs anew what is due, with new keys and by the same authorities, and names what it was.
    pub fn renew(&mut self, rng: &mut dyn CryptoRng, now: Timestamp) -> Result<Vec<String>, PkiError> {
        let due = self.leaves.iter().filter(|(_, leaf)| renew_after(&leaf.credential) <= now);
        let due: Vec<String> = due.map(|(name, _)| name.clone()).collect();
        for name in &due {
            let Some(leaf) = self.leaves.get(name) else { continue };
            let credential = certificate::issue(self.authority(leaf.authority)?, &leaf.subject, rng, now)?;
            if let Some(leaf) = self.leaves.get_mut(name) {
                leaf.credential = credential;
            }
        }
        Ok(due)
    }

    /// The certificate and key of an authority.
    pub fn authority(&self, authority: Authority) -> Result<&Credential, PkiError> {
        self.authorities.get(&authority).ok_or(PkiError::Corrupt("an authority"))
    }

    /// The administrator's credential.
    pub fn admin(&self) -> Result<&Credential, PkiError> {
        self.leaf(ADMIN)
    }

    /// With what those who look after the members of etcd ask them.
    pub fn etcd_client(&self) -> Result<&Credential, PkiError> {
        self.leaf(ETCD_CLIENT)
    }

    /// What the machine config server shows.
    pub fn machine_config_server(&self) -> Result<&Credential, PkiError> {
        self.leaf(MACHINE_CONFIG)
    }

    /// The key that signs the tokens of machines: it follows from that of the authority their stubs trust, so that whoever
    /// may say what is served may also say to whom.
    pub fn token_key(&self) -> Result<TokenKey, PkiError> {
        Ok(TokenKey::of(&self.authority(Authority::MachineConfig)?.key))
    }

    /// A certificate of a machine, by its name below `/etc/kubernetes/pki` or that of a client.
    pub(crate) fn of_machine(&self, machine: &MachineName, leaf: &str) -> Result<&Credential, PkiError> {
        self.leaf(&of_machine(machine, leaf))
    }

    fn leaf(&self, name: &str) -> Result<&Credential, PkiError> {
        self.leaves.get(name).map(|leaf| &leaf.credential).ok_or(PkiError::Corrupt("a certificate"))
    }

    /// The key that signs tokens of service accounts, and its public half, both as PEM.
    pub(crate) fn service_accounts(&self) -> (&Secret, &str) {
        (&self.service_accounts, &self.service_accounts_public)
    }
}

fn of_machine(machine: &MachineName, leaf: &str) -> String {
    format!("{machine}/{leaf}")
}

fn renew_after(credential: &Credential) -> Timestamp {
    credential.not_after.checked_sub(certificate::RENEW_BEFORE).unwrap_or(credential.not_before)
}

/// An API server is reached as the cluster's Service, as the cluster's endpoints, and as the machine it runs on.
fn apiserver(names: &Names, machine: &MachineName, full: &str, loopback: &[IpAddr]) -> Subject {
    let service = names.cluster_domain.as_str();
    let long = [format!("kubernetes.default.svc.{service}")];
    let dns = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
    let own = [machine.as_str(), full, names.api.as_str(), names.api_int.as_str()];
    let dns: Vec<&str> = dns.into_iter().chain(long.iter().map(String::as_str)).chain(own).collect();
    let addresses: Vec<IpAddr> =
        loopback.iter().chain(&names.service_addresses).chain(&names.api_addresses).copied().collect();
    Subject::server("kube-apiserver", &dns, &addresses)
}

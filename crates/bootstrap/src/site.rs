//! What is known of a cluster when its machines are rendered.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use trellis_model::names::{MachineName, PoolName};
use trellis_model::pool::Role;
use trellis_model::{Cluster, Pool};

use crate::names::Names;
use crate::vip::RouterIds;

/// A cluster, its pools, and what was decided for it beside them. It serialises to one document without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Site {
    /// The cluster.
    pub cluster: Cluster,
    /// Its pools.
    pub pools: Vec<Pool>,
    /// Its names and addresses.
    pub names: Names,
    /// The members of the control plane, those that are about to be among them.
    pub masters: Vec<Member>,
    /// The bootstrap machine, while there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Member>,
    /// The numbers of its virtual routers, where it has addresses on the machines' network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router_ids: Option<RouterIds>,
    /// Where programs and images come from.
    #[serde(default)]
    pub sources: Sources,
}

/// A machine that others have to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Member {
    /// Its name.
    pub name: MachineName,
    /// Its address on the machines' network, where that keeps addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Whether it joins an etcd that is there, as a learner that was added before. The first members start it together.
    #[serde(default)]
    pub joins: bool,
}

impl Member {
    /// A machine known by its name.
    pub fn new(name: MachineName) -> Self {
        Self { name, address: None, joins: false }
    }
}

/// Where programs and images come from. A disconnected site names its own copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Sources {
    /// Below it, `v<version>/bin/linux/<architecture>/<program>` and the same with `.sha256`.
    pub kubernetes: String,
    /// The archive of the standard network plugins, with `{arch}` in it; the same with `.sha256` is its sum.
    pub cni_plugins: String,
    /// The registry of Kubernetes's own images.
    pub images: String,
    /// The image of the node exporter.
    pub node_exporter: String,
    /// The image of keepalived.
    pub keepalived: String,
    /// The image of haproxy.
    pub haproxy: String,
    /// The image of CoreDNS.
    pub coredns: String,
    /// Where Trellis itself is, for the machines that serve configurations.
    pub trellis: Option<Program>,
}

/// A program to download.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Program {
    /// Where it is.
    pub url: String,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            kubernetes: "https://dl.k8s.io".to_owned(),
            cni_plugins: "https://github.com/containernetworking/plugins/releases/download/v1.7.1/cni-plugins-linux-{arch}-v1.7.1.tgz".to_owned(),
            images: "registry.k8s.io".to_owned(),
            node_exporter: "quay.io/prometheus/node-exporter:v1.9.1".to_owned(),
            keepalived: "docker.io/osixia/keepalived:2.0.20".to_owned(),
            haproxy: "docker.io/library/haproxy:3.0".to_owned(),
            coredns: "registry.k8s.io/coredns/coredns:v1.14.6".to_owned(),
            trellis: None,
        }
    }
}

impl Site {
    /// A cluster with its pools, names derived, and nothing decided beside.
    pub fn new(cluster: Cluster, pools: Vec<Pool>) -> Self {
        let names = Names::of(&cluster);
        Self {
            cluster,
            pools,
            names,
            masters: Vec::new(),
            bootstrap: None,
            router_ids: None,
            sources: Sources::default(),
        }
    }

    /// Whether a machine is served from this. The bootstrap machine serves the members the cluster begins with and nobody
    /// else: what comes later the members serve, with a ledger of their own.
    pub(crate) fn serves(&self, role: Role, machine: &MachineName) -> bool {
        match role {
            Role::ControlPlane => self.masters.iter().any(|member| member.name == *machine),
            Role::Worker => self.bootstrap.is_none(),
        }
    }

    /// Whether the API has addresses on the machines' network, which the machines keep among themselves.
    pub fn has_addresses(&self) -> bool {
        !self.names.api_addresses.is_empty()
    }

    /// The pool with that name.
    pub fn pool(&self, name: &PoolName) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.name == *name)
    }

    /// The pool of the control plane.
    pub fn control_plane(&self) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.spec.role == Role::ControlPlane)
    }
}

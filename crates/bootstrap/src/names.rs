//! The names under which a cluster and its machines are found.
//!
//! All are stable. Behind masquerade every guest sees the same address as its own, and the address others see changes
//! when it restarts; so certificates, members of etcd and nodes are known by name, and addresses stand only where the
//! machines' own network keeps them.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use trellis_model::Cluster;
use trellis_model::names::MachineName;
use trellis_model::network::Cidr;

/// The port of the Kubernetes API.
pub const API_PORT: u16 = 6443;
/// The port machines fetch their configuration from.
pub const MACHINE_CONFIG_PORT: u16 = 22623;
/// Where the API servers listen when a balancer on the same machine has [`API_PORT`].
pub(crate) const API_PORT_BEHIND_BALANCER: u16 = 6444;

/// The range of Services where the cluster says none.
const DEFAULT_SERVICES: &str = "10.96.0.0/12";
/// The range of pods where the cluster says none.
const DEFAULT_PODS: &str = "10.244.0.0/16";

/// The names and well-known addresses of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Names {
    /// The cluster's own name.
    pub cluster: String,
    /// The domain below which its machines and endpoints are.
    pub domain: String,
    /// The API for everyone.
    pub api: String,
    /// The API and the machine config server for the cluster's own machines.
    pub api_int: String,
    /// The addresses of both on the machines' network, where there are such.
    pub api_addresses: Vec<IpAddr>,
    /// The address at which pods of the tenant reach the API, where no machine has one that others can reach: behind
    /// masquerade that is the address of the Service `api-int`. Every API server tells it as its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertised: Option<IpAddr>,
    /// The addresses of ingress on the machines' network, where there are such.
    pub ingress_addresses: Vec<IpAddr>,
    /// The domain of the tenant's Services.
    pub cluster_domain: String,
    /// The ranges of the tenant's Services.
    pub services: Vec<IpNet>,
    /// The ranges of the tenant's pods.
    pub pods: Vec<IpNet>,
    /// The addresses the Service `kubernetes` gets: the first of each range.
    pub service_addresses: Vec<IpAddr>,
}

impl Names {
    /// The names of a cluster: below its base domain, else below its namespace in the infra cluster.
    ///
    /// The second finds endpoints only where the namespace is named like the cluster; elsewhere whoever makes the
    /// Services knows what they are called, and sets `api` and `api_int`.
    pub fn of(cluster: &Cluster) -> Self {
        let domain = match &cluster.spec.base_domain {
            Some(base) => format!("{}.{base}", cluster.name),
            None => format!("{}.svc.cluster.local", cluster.infra_namespace()),
        };
        let network = &cluster.spec.network;
        let services =
            or_default(network.services.iter().map(|range| range.net()).collect(), DEFAULT_SERVICES);
        let pods = or_default(network.pods.iter().map(|range| range.cidr.net()).collect(), DEFAULT_PODS);
        Self {
            cluster: cluster.name.to_string(),
            api: format!("api.{domain}"),
            api_int: format!("api-int.{domain}"),
            api_addresses: network.api_vips.iter().map(|address| address.0).collect(),
            ingress_addresses: network.ingress_vips.iter().map(|address| address.0).collect(),
            advertised: None,
            cluster_domain: "cluster.local".to_owned(),
            service_addresses: services.iter().filter_map(|range| nth(*range, 1)).collect(),
            services,
            pods,
            domain,
        }
    }

    /// The full name of a machine.
    pub fn machine(&self, name: &MachineName) -> String {
        format!("{name}.{}", self.domain)
    }

    /// Where a machine that knows nothing yet gets its configuration. Without Services a name cannot be resolved that
    /// early, so there it is the address.
    pub fn machine_config_url(&self, role: &str) -> String {
        let host = match self.api_addresses.first() {
            Some(address) => bracketed(*address),
            None => self.api_int.clone(),
        };
        format!("https://{host}:{MACHINE_CONFIG_PORT}/config/{role}")
    }

    /// The API as the cluster's own machines reach it.
    pub fn internal_server(&self) -> String {
        format!("https://{}:{API_PORT}", self.api_int)
    }

    /// The API as everyone reaches it.
    pub fn public_server(&self) -> String {
        format!("https://{}:{API_PORT}", self.api)
    }

    /// The addresses of the tenant's name servers: the tenth of each range of Services.
    pub(crate) fn dns_addresses(&self) -> Vec<IpAddr> {
        self.services.iter().filter_map(|range| nth(*range, 10)).collect()
    }
}

fn or_default(ranges: Vec<IpNet>, default: &str) -> Vec<IpNet> {
    if ranges.is_empty() { default.parse::<Cidr>().map(Cidr::net).into_iter().collect() } else { ranges }
}

/// The address with that number in a range.
fn nth(range: IpNet, number: u8) -> Option<IpAddr> {
    let address = match range.network() {
        IpAddr::V4(first) => IpAddr::V4(u32::from(first).checked_add(u32::from(number))?.into()),
        IpAddr::V6(first) => IpAddr::V6(u128::from(first).checked_add(u128::from(number))?.into()),
    };
    range.contains(&address).then_some(address)
}

/// An address as the host of a URL.
pub(crate) fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    }
}

//! What an infra cluster is made of.

use std::net::IpAddr;

use ipnet::IpNet;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::stages::Profile;

/// What an infra cluster is made of. The default is a small one on which nothing takes time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// How many hosts there are.
    pub hosts: usize,
    /// How many zones they are spread over, evenly.
    pub zones: usize,
    /// How many racks each zone has.
    pub racks: usize,
    /// The region all zones are in.
    pub region: String,
    /// What each host has.
    pub capacity: Capacity,
    /// How time passes.
    pub profile: Profile,
    /// What all chance comes from.
    pub seed: u64,
    /// Where the clock starts when it follows tokio's paused time; the machine's clock is used without it.
    pub virtual_start: Option<Timestamp>,
    /// The addresses of pods.
    pub pod_networks: Vec<IpNet>,
    /// The addresses of hosts.
    pub host_network: IpNet,
    /// The addresses load balancers are given.
    pub load_balancers: IpNet,
    /// The domain of the cluster's names.
    pub cluster_domain: String,
    /// Whether load balancers and node ports are also reachable from this machine, by loopback sockets.
    pub sockets: bool,
    /// Who does what a kube-controller-manager does beyond the API server's own objects: nodes, volumes, endpoints.
    pub manager: Manager,
}

/// Who does the work of a controller manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Manager {
    /// The emulated cluster itself.
    #[default]
    Embedded,
    /// A kube-controller-manager beside the API server.
    Outside,
}

/// What a host has, as quantities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Capacity {
    /// Processors.
    pub cpu: String,
    /// Memory.
    pub memory: String,
    /// How many pods fit.
    pub pods: u32,
    /// How many machines with hardware virtualization fit.
    pub kvm: u32,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { cpu: "32".to_owned(), memory: "128Gi".to_owned(), pods: 250, kvm: 1000 }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hosts: 3,
            zones: 3,
            racks: 1,
            region: "lab".to_owned(),
            capacity: Capacity::default(),
            profile: Profile::Instant,
            seed: 0,
            virtual_start: None,
            pod_networks: vec![network([10, 64, 0, 0], 12)],
            host_network: network([172, 30, 0, 0], 16),
            load_balancers: network([127, 64, 0, 0], 16),
            cluster_domain: "cluster.local".to_owned(),
            sockets: false,
            manager: Manager::Embedded,
        }
    }
}

/// A network that is written down here and therefore is one.
fn network(address: [u8; 4], prefix: u8) -> IpNet {
    IpNet::new_assert(IpAddr::from(address), prefix)
}

//! A pool with everything filled in that its cluster says for it.

use crate::cluster::{Cluster, Platform};
use crate::flavor::Flavor;
use crate::machine::{Compute, MachineTemplate, Shape};
use crate::network::{MachineNetwork, NicNetwork};
use crate::pool::Pool;
use crate::version::KubernetesVersion;
use crate::volume::Storage;

/// A pool as its machines are made: nothing is left to look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPool {
    /// The template with storage, interfaces and keys filled in from the cluster.
    pub template: MachineTemplate,
    /// The flavor, where the shape is one.
    pub flavor: Option<Flavor>,
    /// The networks of the cluster that the machines are on.
    pub networks: Vec<MachineNetwork>,
    /// The version of the kubelet.
    pub kubelet_version: Option<KubernetesVersion>,
}

impl ResolvedPool {
    /// CPU and memory, unless an instance type of the infra platform holds them.
    pub fn compute(&self) -> Option<&Compute> {
        match (&self.template.shape, &self.flavor) {
            (Shape::Custom(compute), _) => Some(compute),
            (Shape::Flavor(_), Some(flavor)) => Some(&flavor.compute),
            _ => None,
        }
    }
}

/// Fills in what the pool leaves to its cluster.
pub fn resolve(cluster: &Cluster, pool: &Pool) -> ResolvedPool {
    let mut template = pool.spec.template.clone();
    if let Platform::Kubevirt(kubevirt) = &cluster.spec.platform {
        inherit_storage(&mut template.root_disk.storage, &kubevirt.storage);
        for disk in &mut template.data_disks {
            inherit_storage(&mut disk.storage, &kubevirt.storage);
        }
        if template.nics.is_empty() {
            template.nics = cluster.spec.network.implied_nics();
        }
    }
    template.ssh_keys.extend(cluster.spec.ssh_keys.iter().cloned());
    let networks = cluster.spec.network.machine_networks.iter();
    let is_used = |network: &&MachineNetwork| {
        template
            .nics
            .iter()
            .any(|nic| matches!(&nic.network, NicNetwork::Machine(name) if *name == network.name))
    };
    let networks = networks.filter(is_used).cloned().collect();
    let flavor = match &template.shape {
        Shape::Flavor(name) => cluster.flavor(name),
        _ => None,
    };
    let kubelet_version = pool.spec.kubelet_version.or(cluster.spec.version);
    ResolvedPool { template, flavor, networks, kubelet_version }
}

fn inherit_storage(storage: &mut Storage, default: &Storage) {
    if storage.class.is_none() {
        storage.class.clone_from(&default.class);
    }
    storage.access_mode = storage.access_mode.or(default.access_mode);
    storage.volume_mode = storage.volume_mode.or(default.volume_mode);
}

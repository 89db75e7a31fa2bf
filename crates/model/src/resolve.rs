//! A pool with everything filled in that its cluster says for it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::access::SshKey;
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
    let used: BTreeSet<_> = template
        .nics
        .iter()
        .filter_map(|nic| match &nic.network {
            NicNetwork::Machine(name) => Some(name),
            _ => None,
        })
        .collect();
    let networks =
        cluster.spec.network.machine_networks.iter().filter(|network| used.contains(&network.name));
    let networks = networks.cloned().collect();
    let flavor = match &template.shape {
        Shape::Flavor(name) => cluster.flavor(name),
        _ => None,
    };
    let kubelet_version = pool.spec.kubelet_version.or(cluster.spec.version);
    ResolvedPool { template, flavor, networks, kubelet_version }
}

/// Everything that makes the machines of a pool what they are, as plain data to compare and to hash.
pub(crate) struct MachineView {
    /// The pool's spec with everything filled in.
    pub(crate) spec: Value,
    /// What machines get from their cluster beside it: `flavor`, `networks` and `engine`.
    pub(crate) inherited: Value,
}

impl MachineView {
    /// The view of a pool. Without its cluster, the pool stands for itself.
    pub(crate) fn of(cluster: Option<&Cluster>, pool: &Pool) -> Self {
        let mut spec = pool.spec.clone();
        let mut inherited = serde_json::Map::new();
        if let Some(cluster) = cluster {
            let resolved = resolve(cluster, pool);
            spec.template = resolved.template;
            spec.kubelet_version = resolved.kubelet_version;
            // A default that is written out is the default.
            spec.template.placement.spread = Some(spec.template.placement.effective_spread());
            // What stands behind a key says whose it is and opens nothing.
            spec.template.ssh_keys = spec.template.ssh_keys.iter().map(SshKey::without_comment).collect();
            if let Some(flavor) = resolved.flavor {
                // What a flavor is for, in words, changes no machine.
                inherited.insert("flavor".to_owned(), json(&Flavor { summary: String::new(), ..flavor }));
            }
            let networks = resolved.networks.iter().map(|network| (network.name.to_string(), json(network)));
            let networks: serde_json::Map<String, Value> = networks.collect();
            if !networks.is_empty() {
                inherited.insert("networks".to_owned(), Value::Object(networks));
            }
            if let Platform::Ovirt(ovirt) = &cluster.spec.platform {
                let own_domain =
                    pool.spec.template.ovirt.as_ref().is_some_and(|own| own.storage_domain_id.is_some());
                let domain = (!own_domain).then_some(&ovirt.storage_domain_id);
                let engine = (domain, &ovirt.network_name, &ovirt.vnic_profile_id);
                inherited.insert("engine".to_owned(), json(&engine));
            }
        }
        Self { spec: json(&spec), inherited: Value::Object(inherited) }
    }
}

/// The model is made of strings, numbers, lists and string-keyed maps, which always serialise.
fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

fn inherit_storage(storage: &mut Storage, default: &Storage) {
    if storage.class.is_none() {
        storage.class.clone_from(&default.class);
    }
    storage.access_mode = storage.access_mode.or(default.access_mode);
    storage.volume_mode = storage.volume_mode.or(default.volume_mode);
}

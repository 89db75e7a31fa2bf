//! An install-config.

use serde_json::Value;
use trellis_api::common::{Metadata, Text};
use trellis_api::openshift::install::{
    AffinityGroup, ClusterNetwork, InstallConfig, KubevirtPlatform, LoadBalancer, LoadBalancerKind,
    MachineNetwork, Networking, OvirtPlatform, Platform,
};
use trellis_api::openshift::pools::{
    AutoPinning, KubevirtPool, MachinePool, OvirtDisk, OvirtPool, PoolPlatform,
};
use trellis_model::cluster::{KubevirtPlatform as Kubevirt, Platform as ModelPlatform};
use trellis_model::machine::Architecture;
use trellis_model::network::{
    Address, MachineNetwork as Network, NetworkSource, Networking as ModelNetworking,
};
use trellis_model::ovirt::OvirtPlatform as Ovirt;
use trellis_model::{Cluster, Pool};

use super::super::read::PLUGINS;
use super::super::{MASTER, WORKER};
use super::sizes;
use crate::shared::to_json;

/// The install-config of a cluster.
pub(super) fn install_config(cluster: &Cluster, control: &Pool, workers: &[&Pool]) -> Value {
    let spec = &cluster.spec;
    let keys: Vec<&str> = spec.ssh_keys.iter().map(trellis_model::access::SshKey::as_str).collect();
    let mut compute: Vec<MachinePool> = workers.iter().map(|pool| machine_pool(cluster, pool)).collect();
    if compute.is_empty() {
        // The installer makes three workers when nothing is said.
        compute.push(MachinePool {
            name: Some(WORKER.to_owned()),
            replicas: Some(0),
            ..MachinePool::default()
        });
    }
    to_json(&InstallConfig {
        api_version: "v1".to_owned(),
        metadata: Metadata {
            name: Some(cluster.name.to_string()),
            namespace: cluster.namespace.as_ref().map(ToString::to_string),
            ..Metadata::default()
        },
        base_domain: spec.base_domain.as_ref().map(ToString::to_string),
        ssh_key: (!keys.is_empty()).then(|| keys.join("\n")),
        // The control plane has a fixed name here.
        control_plane: Some(MachinePool { name: Some(MASTER.to_owned()), ..machine_pool(cluster, control) }),
        compute,
        platform: match &spec.platform {
            ModelPlatform::Kubevirt(kubevirt) => {
                Platform { kubevirt: Some(kubevirt_platform(kubevirt, &spec.network)), ..Platform::default() }
            }
            ModelPlatform::Ovirt(ovirt) => {
                Platform { ovirt: Some(ovirt_platform(ovirt, &spec.network)), ..Platform::default() }
            }
        },
        networking: Some(networking(&spec.network)),
        publish: Some(spec.network.publish),
        ..InstallConfig::default()
    })
}

fn first(vips: &[Address]) -> Option<String> {
    vips.first().map(ToString::to_string)
}

fn texts(vips: &[Address]) -> Vec<String> {
    vips.iter().map(ToString::to_string).collect()
}

/// The network attachment definition machines are on, if they are on nothing else.
pub(super) fn only_network(network: &ModelNetworking) -> Option<(&Network, String)> {
    match network.machine_networks.as_slice() {
        [only] if !network.uses_pod_network() => match &only.source {
            NetworkSource::Shared(shared) => Some((only, shared.name.to_string())),
            NetworkSource::Tenant(_) => None,
        },
        _ => None,
    }
}

fn kubevirt_platform(kubevirt: &Kubevirt, network: &ModelNetworking) -> KubevirtPlatform {
    let only = only_network(network);
    let own = |vips: &[Address]| only.as_ref().and_then(|_| first(vips));
    KubevirtPlatform {
        namespace: kubevirt.namespace.as_ref().map(ToString::to_string),
        api_vip: own(&network.api_vips),
        ingress_vip: own(&network.ingress_vips),
        storage_class: kubevirt.storage.class.as_ref().map(ToString::to_string),
        interface_binding_method: only.as_ref().map(|(network, _)| network.binding.into()),
        persistent_volume_access_mode: kubevirt.storage.access_mode,
        default_machine_platform: None,
        network_name: only.map(|(_, name)| name),
    }
}

fn ovirt_platform(ovirt: &Ovirt, network: &ModelNetworking) -> OvirtPlatform {
    let group = |group: &trellis_model::ovirt::OvirtAffinityGroup| AffinityGroup {
        name: group.name.clone(),
        priority: group.priority,
        description: group.description.clone(),
        enforcing: group.enforcing,
    };
    let balancer = LoadBalancer { kind: Some(LoadBalancerKind::UserManaged) };
    OvirtPlatform {
        ovirt_cluster_id: Some(ovirt.cluster_id.to_string()),
        ovirt_storage_domain_id: Some(ovirt.storage_domain_id.to_string()),
        ovirt_network_name: Some(ovirt.network_name.clone()),
        vnic_profile_id: ovirt.vnic_profile_id.as_ref().map(ToString::to_string),
        api_vips: texts(&network.api_vips),
        ingress_vips: texts(&network.ingress_vips),
        affinity_groups: Some(ovirt.affinity_groups.iter().map(group).collect()),
        load_balancer: ovirt.user_managed_load_balancer.then_some(balancer),
        ..OvirtPlatform::default()
    }
}

fn networking(network: &ModelNetworking) -> Networking {
    let plugin =
        |plugin| PLUGINS.iter().find(|(_, known)| *known == plugin).map(|(name, _)| (*name).to_owned());
    let range = |range: &trellis_model::network::PodRange| ClusterNetwork {
        cidr: range.cidr.to_string(),
        host_prefix: range.node_prefix,
        host_subnet_length: None,
    };
    Networking {
        network_type: network.plugin.and_then(plugin),
        cluster_network: network.pods.iter().map(range).collect(),
        service_network: network.services.iter().map(ToString::to_string).collect(),
        machine_network: network.nodes.iter().map(|cidr| MachineNetwork { cidr: cidr.to_string() }).collect(),
        ..Networking::default()
    }
}

fn machine_pool(cluster: &Cluster, pool: &Pool) -> MachinePool {
    let template = &pool.spec.template;
    let platform = match &cluster.spec.platform {
        ModelPlatform::Kubevirt(_) => {
            PoolPlatform { kubevirt: Some(kubevirt_pool(cluster, pool)), ..PoolPlatform::default() }
        }
        ModelPlatform::Ovirt(_) => {
            PoolPlatform { ovirt: Some(ovirt_pool(cluster, pool)), ..PoolPlatform::default() }
        }
    };
    MachinePool {
        name: Some(pool.name.to_string()),
        replicas: Some(pool.spec.replicas),
        architecture: (template.architecture != Architecture::default()).then_some(template.architecture),
        platform: Some(platform),
        ..MachinePool::default()
    }
}

fn kubevirt_pool(cluster: &Cluster, pool: &Pool) -> KubevirtPool {
    let compute = sizes::compute(Some(cluster), pool);
    KubevirtPool {
        cpu: compute.as_ref().and_then(sizes::requested_cpus),
        memory: compute.as_ref().and_then(sizes::requested_memory).as_ref().map(Text::from),
        storage_size: Some(Text::from(&pool.spec.template.root_disk.size)),
    }
}

fn ovirt_pool(cluster: &Cluster, pool: &Pool) -> OvirtPool {
    let compute = sizes::compute(Some(cluster), pool).unwrap_or_default();
    let machine = pool.spec.template.ovirt.clone().unwrap_or_default();
    let typed = machine.instance_type_id.is_some();
    OvirtPool {
        cpu: sizes::ovirt_cpu(&compute).filter(|_| !typed),
        memory_mb: compute.memory.guest_bytes().and_then(sizes::mebibytes).filter(|_| !typed),
        instance_type_id: machine.instance_type_id.map(|id| id.to_string()),
        os_disk: Some(OvirtDisk { size_gb: sizes::gibibytes(pool.spec.template.root_disk.size) }),
        vm_type: Some(machine.vm_type),
        affinity_groups_names: Some(machine.affinity_groups),
        auto_pinning_policy: machine.resize_and_pin.then_some(AutoPinning::ResizeAndPin),
        hugepages: sizes::hugepages(&compute),
        clone: machine.clone_disks,
        sparse: machine.sparse,
        format: machine.format,
    }
}

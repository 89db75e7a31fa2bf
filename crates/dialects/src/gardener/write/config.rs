//! The configurations of the KubeVirt extension inside a written Shoot, each only where it says something.

use serde_json::Value;
use trellis_api::common::Text;
use trellis_api::gardener::config::{CloudControllerManager, Networks, SharedNetwork, TenantNetwork};
use trellis_api::gardener::device::{
    Cpu, CpuFeature, CpuFeaturePolicy, Devices, Disk, DiskTarget, Empty, Hugepages, Memory, Numa,
};
use trellis_api::gardener::{ControlPlaneConfig, InfrastructureConfig, KUBEVIRT, WorkerConfig};
use trellis_model::cluster::CloudController;
use trellis_model::image::ImageDelivery;
use trellis_model::machine::{self, MachineTemplate};
use trellis_model::network::{Binding, DnsPolicy, MachineNetwork, NetworkSource, Networking};
use trellis_model::volume::{DiskBus, DiskDevice, ROOT_DISK};
use trellis_model::{Cluster, Pool};

use super::super::network::shared_name;
use super::super::shape::FEATURE_POLICIES;
use super::catalogue;
use crate::shared::dns_config;
use crate::shared::to_json;

/// The networks, as an InfrastructureConfig.
pub(super) fn infrastructure(network: &Networking) -> Option<Value> {
    let mut networks = Networks::default();
    for network in network.machine_networks.iter().filter(|network| network.binding == Binding::Bridge) {
        match &network.source {
            NetworkSource::Shared(_) => networks.shared_networks.extend(shared_network(network)),
            NetworkSource::Tenant(tenant) => networks.tenant_networks.push(TenantNetwork {
                name: Some(network.name.to_string()),
                config: Some(tenant.config.to_string()),
                default: network.default.then_some(true),
            }),
        }
    }
    (networks != Networks::default()).then(|| {
        to_json(&InfrastructureConfig {
            api_version: KUBEVIRT.to_owned(),
            kind: "InfrastructureConfig".to_owned(),
            networks: Some(networks),
        })
    })
}

/// A shared network, if it would be read back under the name it has and not in the pod network's place.
fn shared_network(network: &MachineNetwork) -> Option<SharedNetwork> {
    let NetworkSource::Shared(shared) = &network.source else { return None };
    let keeps_name = shared_name(&shared.name, None).as_ref() == Some(&network.name);
    (keeps_name && !network.default).then(|| SharedNetwork {
        name: Some(shared.name.to_string()),
        namespace: shared.namespace.as_ref().map(ToString::to_string),
    })
}

/// The settings of the cloud controller manager, as a ControlPlaneConfig.
pub(super) fn control_plane(controller: &CloudController) -> Option<Value> {
    (!controller.feature_gates.is_empty()).then(|| {
        to_json(&ControlPlaneConfig {
            api_version: KUBEVIRT.to_owned(),
            kind: "ControlPlaneConfig".to_owned(),
            cloud_controller_manager: Some(CloudControllerManager {
                feature_gates: controller.feature_gates.clone(),
            }),
        })
    })
}

/// The settings of a pool's VMs, as a WorkerConfig.
pub(super) fn worker(cluster: &Cluster, pool: &Pool) -> Option<Value> {
    let template = &pool.spec.template;
    let compute = catalogue::compute(cluster, pool);
    let overcommits = compute.is_some_and(|compute| compute.memory.overcommit_guest_overhead);
    let config = WorkerConfig {
        devices: said(devices(template)),
        cpu: compute.and_then(|compute| said(cpu(&compute.cpu))),
        memory: compute.and_then(|compute| said(memory(&compute.memory))),
        dns_policy: (template.dns.policy != DnsPolicy::default())
            .then(|| template.dns.policy.as_str().to_owned()),
        dns_config: said(dns_config(&template.dns)),
        disable_pre_allocated_data_volumes: (template.image.delivery == ImageDelivery::PerMachine)
            .then_some(true),
        overcommit_guest_overhead: overcommits.then_some(true),
        ..WorkerConfig::default()
    };
    said(config).map(|config| {
        to_json(&WorkerConfig { api_version: KUBEVIRT.to_owned(), kind: "WorkerConfig".to_owned(), ..config })
    })
}

/// A part, unless it says nothing.
fn said<T: Default + PartialEq>(part: T) -> Option<T> {
    (part != T::default()).then_some(part)
}

fn devices(template: &MachineTemplate) -> Devices {
    let root = (ROOT_DISK, &template.root_disk.device);
    let data = template.data_disks.iter().map(|disk| (disk.name.as_str(), &disk.device));
    let changed = |(_, device): &(&str, &DiskDevice)| **device != DiskDevice::default();
    Devices {
        disks: std::iter::once(root)
            .chain(data)
            .filter(changed)
            .map(|(name, device)| disk(name, device))
            .collect(),
        rng: template.devices.rng.then_some(Empty {}),
        block_multi_queue: template.devices.block_multi_queue.then_some(true),
        network_interface_multi_queue: template.devices.network_multi_queue.then_some(true),
    }
}

fn disk(name: &str, device: &DiskDevice) -> Disk {
    let target = DiskTarget {
        bus: (device.bus != DiskBus::default()).then(|| device.bus.as_str().to_owned()),
        readonly: None,
        pci_address: None,
    };
    Disk {
        name: Some(name.to_owned()),
        disk: Some(target),
        cache: device.cache.map(|cache| cache.as_str().to_owned()),
        dedicated_io_thread: device.dedicated_io_thread.then_some(true),
        serial: device.serial.as_ref().map(Text::from),
        ..Disk::default()
    }
}

fn cpu(cpu: &machine::Cpu) -> Cpu {
    let topology = cpu.topology.as_ref();
    let dedicated = cpu.dedicated.as_ref();
    Cpu {
        cores: topology.map(|topology| topology.cores.get()),
        sockets: topology.map(|topology| topology.sockets.get()),
        threads: topology.map(|topology| topology.threads.get()),
        model: cpu.model.clone(),
        features: cpu.features.iter().map(|(name, policy)| feature(name, *policy)).collect(),
        dedicated_cpu_placement: dedicated.map(|_| true),
        isolate_emulator_thread: dedicated
            .filter(|dedicated| dedicated.isolate_emulator_thread)
            .map(|_| true),
        numa: dedicated
            .filter(|dedicated| dedicated.numa_passthrough)
            .map(|_| Numa { guest_mapping_passthrough: Some(Empty {}) }),
        ..Cpu::default()
    }
}

/// In KubeVirt's form, which the extension understands; a name alone is only understood here.
fn feature(name: &str, policy: machine::CpuFeaturePolicy) -> CpuFeature {
    let policy =
        FEATURE_POLICIES.iter().find(|(_, other)| *other == policy).map(|(word, _)| (*word).to_owned());
    CpuFeature::Policy(CpuFeaturePolicy { name: Some(name.to_owned()), policy })
}

fn memory(memory: &machine::Memory) -> Memory {
    Memory {
        guest: memory.guest.as_ref().map(Text::from),
        hugepages: memory.hugepages.map(|page| Hugepages { page_size: Some(Text(page.bytes().to_string())) }),
        max_guest: None,
    }
}

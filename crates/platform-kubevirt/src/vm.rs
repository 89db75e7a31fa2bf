//! A machine as a virtual machine.

use k8s_openapi::api::core::v1::{PodDNSConfig, PodDNSConfigOption};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trellis_api::kubevirt::{
    Bootloader, Cpu, Devices, Domain, Efi, Empty, FeatureState, Features, Firmware, HostDevice, Resources,
    Tpm, VirtualMachine, VirtualMachineInstanceSpec, VirtualMachineInstanceTemplate, VirtualMachineSpec,
};
use trellis_model::machine::{self, Architecture, Eviction, IoThreads, MachineTemplate, Shape};
use trellis_model::network::Dns;

use crate::labels::{self, metadata};
use crate::machine::Machine;
use crate::{compute, disks, flavors, names, nics, placement};

/// The virtual machine of a machine.
pub(crate) fn virtual_machine(machine: &Machine<'_>) -> VirtualMachine {
    let template = machine.template();
    let (annotations, _) = labels::annotations(machine);
    let annotations = Some(annotations).filter(|annotations| !annotations.is_empty());
    let mut vm_metadata = metadata(machine.cluster, machine.name().to_owned(), labels::of_vm(machine));
    vm_metadata.annotations.clone_from(&annotations);
    let mut template_annotations = annotations.unwrap_or_default();
    if nics::bridges_pod_network(&template.nics) {
        template_annotations.extend(labels::owned([nics::ALLOW_BRIDGE_MIGRATION]));
    }
    VirtualMachine {
        metadata: vm_metadata,
        spec: VirtualMachineSpec {
            run_strategy: Some("Always".to_owned()),
            instancetype: flavors::instancetype_of(machine.cluster, template),
            preference: flavors::preference_of(machine.cluster, template),
            data_volume_templates: disks::data_volume_templates(machine),
            template: VirtualMachineInstanceTemplate {
                metadata: Some(ObjectMeta {
                    labels: Some(labels::of_vm(machine)),
                    annotations: Some(template_annotations).filter(|annotations| !annotations.is_empty()),
                    ..ObjectMeta::default()
                }),
                spec: instance(machine),
            },
        },
    }
}

fn instance(machine: &Machine<'_>) -> VirtualMachineInstanceSpec {
    let template = machine.template();
    let eviction = match template.eviction {
        Eviction::External => "External",
        Eviction::LiveMigrate => "LiveMigrate",
        Eviction::LiveMigrateIfPossible => "LiveMigrateIfPossible",
        Eviction::None => "None",
    };
    let (dns_policy, dns_config) = dns(&template.dns);
    VirtualMachineInstanceSpec {
        affinity: placement::affinity(machine),
        architecture: Some(template.architecture.as_str().to_owned()),
        dns_config,
        dns_policy,
        domain: domain(machine),
        eviction_strategy: Some(eviction.to_owned()),
        hostname: Some(machine.name().to_owned()),
        networks: nics::networks(machine),
        node_selector: placement::node_selector(machine),
        termination_grace_period_seconds: Some(i64::from(template.stop_grace_seconds)),
        tolerations: placement::tolerations(machine),
        topology_spread_constraints: placement::spread(machine),
        volumes: disks::volumes(machine),
    }
}

fn domain(machine: &Machine<'_>) -> Domain {
    let template = machine.template();
    let flavor = machine.resolved.flavor.as_ref();
    let inlined = flavors::inlined(template, flavor);
    let secure_boot = template.firmware == machine::Firmware::UefiSecureBoot;
    let (cpu, memory, resources) = match &template.shape {
        Shape::Custom(custom) => (
            Some(compute::cpu(&custom.cpu)),
            Some(compute::memory(&custom.memory)),
            compute::resources(custom),
        ),
        // CPU and memory are the instance type's: a machine that sets them too is refused.
        Shape::Flavor(_) | Shape::Instancetype(_) => {
            let overcommits = flavor.and_then(|f| compute::overcommits_overhead(&f.compute.memory));
            let cpu = inlined.cpu.map(|cpu| Cpu { features: compute::features(cpu), ..Cpu::default() });
            (cpu, None, Resources { overcommit_guest_overhead: overcommits, ..Resources::default() })
        }
    };
    let io_threads = template.devices.io_threads.or_else(|| flavor.and_then(|flavor| flavor.io_threads));
    Domain {
        cpu,
        memory,
        resources,
        devices: devices(machine, &inlined),
        // Secure boot keeps its variables in memory that only system management mode may write.
        features: secure_boot.then_some(Features { smm: Some(FeatureState { enabled: Some(true) }) }),
        firmware: Some(firmware(machine)),
        io_threads_policy: io_threads.map(|policy| {
            match policy {
                IoThreads::Shared => "shared",
                IoThreads::Auto => "auto",
            }
            .to_owned()
        }),
    }
}

fn firmware(machine: &Machine<'_>) -> Firmware {
    let template = machine.template();
    let uuid = names::firmware_uuid(machine.cluster, machine.name());
    Firmware { bootloader: bootloader(template), serial: Some(uuid.clone()), uuid: Some(uuid) }
}

fn bootloader(template: &MachineTemplate) -> Option<Bootloader> {
    // IBM Z machines start by other means and know neither.
    if template.architecture == Architecture::S390x {
        return None;
    }
    let efi = |secure_boot| Bootloader { bios: None, efi: Some(Efi { secure_boot: Some(secure_boot) }) };
    Some(match template.firmware {
        // 64-bit Arm has no BIOS.
        machine::Firmware::Bios if template.architecture == Architecture::Arm64 => efi(false),
        machine::Firmware::Bios => Bootloader { bios: Some(Empty {}), efi: None },
        machine::Firmware::Uefi => efi(false),
        machine::Firmware::UefiSecureBoot => efi(true),
    })
}

fn devices(machine: &Machine<'_>, inlined: &flavors::Inlined<'_>) -> Devices {
    let wished = &machine.template().devices;
    let host_devices = |gpu: bool| {
        let of_kind = wished.host_devices.iter().filter(move |device| device.gpu == gpu);
        of_kind
            .map(|device| HostDevice {
                name: device.name.to_string(),
                device_name: Some(device.device.clone()),
            })
            .collect()
    };
    Devices {
        block_multi_queue: (wished.block_multi_queue || inlined.block_multi_queue).then_some(true),
        network_interface_multi_queue: (wished.network_multi_queue || inlined.network_multi_queue)
            .then_some(true),
        disks: disks::disks(machine),
        interfaces: nics::interfaces(machine),
        gpus: host_devices(true),
        host_devices: host_devices(false),
        rng: wished.rng.then_some(Empty {}),
        tpm: wished.tpm.map(|tpm| Tpm { persistent: tpm.persistent.then_some(true) }),
    }
}

/// Name resolution of the pod; nothing where it is what every pod has.
fn dns(dns: &Dns) -> (Option<String>, Option<PodDNSConfig>) {
    if *dns == Dns::default() {
        return (None, None);
    }
    let list = |items: Vec<String>| (!items.is_empty()).then_some(items);
    let options: Vec<_> = dns
        .options
        .iter()
        .map(|option| PodDNSConfigOption { name: Some(option.name.clone()), value: option.value.clone() })
        .collect();
    let config = PodDNSConfig {
        nameservers: list(dns.nameservers.iter().map(ToString::to_string).collect()),
        searches: list(dns.searches.clone()),
        options: (!options.is_empty()).then_some(options),
    };
    (Some(dns.policy.as_str().to_owned()), (config != PodDNSConfig::default()).then_some(config))
}

//! Flavors as instance types and preferences of the infra cluster.
//!
//! An instance type holds what a machine may not change: CPU and memory. A preference holds defaults
//! for devices, which a machine's own settings win over. What neither can hold is written on the
//! machine: IO threads and the choice of hosts, because an instance type that sets them conflicts
//! with any machine that does.

use std::collections::BTreeMap;

use trellis_api::instancetype::{
    CpuPreferences, DevicePreferences, InstancetypeCpu, InstancetypeMatcher, InstancetypeMemory,
    InstancetypeSpec, PreferenceMatcher, PreferenceSpec, SpreadOptions, VirtualMachineInstancetype,
    VirtualMachinePreference,
};
use trellis_model::Cluster;
use trellis_model::flavor::Flavor;
use trellis_model::machine::{self, InfraScope, InfraShape, MachineTemplate, Shape, Topology};
use trellis_model::names::FlavorName;
use trellis_model::volume::DiskCache;

use crate::compute::{self, quantity};
use crate::labels::{self, metadata};
use crate::machine::PoolOf;
use crate::names;

/// The flavors machines of these pools are made from, once each and by name.
pub(crate) fn used<'a>(pools: &'a [PoolOf<'_>]) -> BTreeMap<&'a FlavorName, &'a Flavor> {
    let shape = |pool: &'a PoolOf<'_>| match (&pool.resolved.template.shape, &pool.resolved.flavor) {
        (Shape::Flavor(name), Some(flavor)) => Some((name, flavor)),
        _ => None,
    };
    pools.iter().filter_map(shape).collect()
}

/// The instance type of a flavor.
pub(crate) fn instancetype(
    cluster: &Cluster,
    name: &FlavorName,
    flavor: &Flavor,
) -> VirtualMachineInstancetype {
    let machine::Compute { cpu, memory } = &flavor.compute;
    VirtualMachineInstancetype {
        metadata: metadata(cluster, names::flavor(cluster, name), labels::of_cluster(cluster)),
        spec: InstancetypeSpec {
            cpu: InstancetypeCpu {
                guest: cpu.guest_cpus().unwrap_or(1),
                model: cpu.model.clone(),
                dedicated_cpu_placement: cpu.dedicated.map(|_| true),
                isolate_emulator_thread: compute::isolates_emulator(cpu.dedicated),
                numa: cpu.dedicated.and_then(compute::numa),
            },
            memory: InstancetypeMemory {
                guest: memory.guest_bytes().map(quantity).unwrap_or_default(),
                hugepages: compute::hugepages(memory),
                overcommit_percent: overcommit_percent(memory),
            },
            ..InstancetypeSpec::default()
        },
    }
}

/// The share of the guest's memory that is not set aside, in hundredths. Rounded down: never less is
/// set aside than was asked for. Huge pages are always set aside whole.
pub(crate) fn overcommit_percent(memory: &machine::Memory) -> Option<u32> {
    if memory.hugepages.is_some() {
        return None;
    }
    let (guest, request) = (memory.guest_bytes()?.get(), memory.request?.get());
    let missing = guest.checked_sub(request)?;
    let percent = u128::from(missing) * 100 / u128::from(guest.max(1));
    u32::try_from(percent).ok().filter(|percent| *percent > 0)
}

/// The preference of a flavor.
pub(crate) fn preference(cluster: &Cluster, name: &FlavorName, flavor: &Flavor) -> VirtualMachinePreference {
    let (topology, spread_options) = topology(flavor.compute.cpu.topology);
    VirtualMachinePreference {
        metadata: metadata(cluster, names::flavor(cluster, name), labels::of_cluster(cluster)),
        spec: PreferenceSpec {
            cpu: Some(CpuPreferences {
                preferred_cpu_topology: Some(topology.to_owned()),
                spread_options,
                preferred_cpu_features: compute::features(&flavor.compute.cpu),
            }),
            devices: Some(DevicePreferences {
                preferred_disk_cache: flavor.disk_cache.map(|cache| cache.as_str().to_owned()),
                preferred_disk_dedicated_io_thread: flavor.dedicated_io_threads.then_some(true),
                preferred_block_multi_queue: flavor.block_multi_queue.then_some(true),
                preferred_network_interface_multi_queue: flavor.network_multi_queue.then_some(true),
            })
            .filter(|devices| *devices != DevicePreferences::default()),
        },
    }
}

/// How a preference lays out the CPUs of an instance type.
fn topology(topology: Option<Topology>) -> (&'static str, Option<SpreadOptions>) {
    let Some(Topology { sockets, cores, threads }) = topology else { return ("sockets", None) };
    let spread = |across: &str, ratio: u32| {
        ("spread", Some(SpreadOptions { across: Some(across.to_owned()), ratio: Some(ratio) }))
    };
    match (sockets.get(), cores.get(), threads.get()) {
        (_, 1, 1) => ("sockets", None),
        (1, _, 1) => ("cores", None),
        (1, 1, _) => ("threads", None),
        (_, cores, 1) => spread("SocketsCores", cores),
        (1, _, 2) => spread("CoresThreads", 2),
        (_, cores, 2) => spread("SocketsCoresThreads", cores),
        _ => ("sockets", None),
    }
}

/// Whether a preference can lay out CPUs this way: threads come in pairs, or alone.
pub(crate) fn can_lay_out(topology: Topology) -> bool {
    let alone = topology.sockets.get() == 1 && topology.cores.get() == 1;
    alone || topology.threads.get() <= 2
}

/// What the machine refers to for CPU and memory.
pub(crate) fn instancetype_of(cluster: &Cluster, template: &MachineTemplate) -> Option<InstancetypeMatcher> {
    let (kind, name) = match &template.shape {
        Shape::Custom(_) => return None,
        Shape::Flavor(name) => ("VirtualMachineInstancetype", names::flavor(cluster, name)),
        Shape::Instancetype(InfraShape { name, scope: InfraScope::Cluster }) => {
            ("VirtualMachineClusterInstancetype", name.to_string())
        }
        Shape::Instancetype(InfraShape { name, scope: InfraScope::Namespace }) => {
            ("VirtualMachineInstancetype", name.to_string())
        }
    };
    Some(InstancetypeMatcher { kind: Some(kind.to_owned()), name })
}

/// What the machine refers to for device defaults: its own choice, else its flavor's.
pub(crate) fn preference_of(cluster: &Cluster, template: &MachineTemplate) -> Option<PreferenceMatcher> {
    let (kind, name) = match (&template.preference, &template.shape) {
        (Some(InfraShape { name, scope: InfraScope::Cluster }), _) => {
            ("VirtualMachineClusterPreference", name.to_string())
        }
        (Some(InfraShape { name, scope: InfraScope::Namespace }), _) => {
            ("VirtualMachinePreference", name.to_string())
        }
        (None, Shape::Flavor(name)) => ("VirtualMachinePreference", names::flavor(cluster, name)),
        (None, _) => return None,
    };
    Some(PreferenceMatcher { kind: Some(kind.to_owned()), name })
}

/// Device defaults that must be written on the machine itself.
#[derive(Default)]
pub(crate) struct Inlined<'a> {
    pub(crate) disk_cache: Option<DiskCache>,
    pub(crate) dedicated_io_threads: bool,
    pub(crate) block_multi_queue: bool,
    pub(crate) network_multi_queue: bool,
    pub(crate) cpu: Option<&'a machine::Cpu>,
}

/// A machine has one preference. Where it is the machine's own choice, the flavor's defaults take
/// effect by being written out.
pub(crate) fn inlined<'a>(template: &MachineTemplate, flavor: Option<&'a Flavor>) -> Inlined<'a> {
    match flavor {
        Some(flavor) if template.preference.is_some() => Inlined {
            disk_cache: flavor.disk_cache,
            dedicated_io_threads: flavor.dedicated_io_threads,
            block_multi_queue: flavor.block_multi_queue,
            network_multi_queue: flavor.network_multi_queue,
            cpu: Some(&flavor.compute.cpu).filter(|cpu| !cpu.features.is_empty()),
        },
        _ => Inlined::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trellis_model::machine::Memory;
    use trellis_model::quantity::Bytes;

    #[test]
    fn never_less_memory_is_set_aside_than_asked_for() {
        let memory = |request| Memory { guest: Some(Bytes::gibi(3)), request, ..Memory::default() };
        assert_eq!(overcommit_percent(&memory(Some(Bytes::gibi(2)))), Some(33));
        assert_eq!(overcommit_percent(&memory(Some(Bytes::gibi(3)))), None);
        assert_eq!(overcommit_percent(&memory(None)), None);
    }
}

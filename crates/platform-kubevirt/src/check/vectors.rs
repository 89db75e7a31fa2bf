//! Interrupt vectors: each queue of a virtual device takes one, and a guest has about two hundred.

use trellis_model::network::{Binding, Nic};
use trellis_model::problem::Problems;
use trellis_model::resolve::ResolvedPool;
use trellis_model::volume::{DiskBus, DiskDevice};

/// How many vectors there are for devices.
const MAX_VECTORS: u64 = 200;
/// The most queues KubeVirt gives a network interface.
const MAX_NETWORK_QUEUES: u64 = 256;
/// Vectors of a device without queues of its own: one for it and one for its configuration.
const PLAIN_DEVICE: u64 = 2;

/// Counts what a machine's devices take:
///
/// - a virtio disk: its queues and one for its configuration, where queues are the CPUs with
///   multi-queue and one without; the config drive is such a disk;
/// - a virtio interface: a receiving and a sending queue each, one for control and one for its
///   configuration;
/// - any other device (SCSI controller, SR-IOV function, host device, random numbers, serial port,
///   balloon): two.
pub(super) fn check(pool: &ResolvedPool, problems: &mut Problems<'_>) {
    let uses = uses(pool);
    let total: u64 = uses.iter().map(|(_, count)| count).sum();
    if total <= MAX_VECTORS {
        return;
    }
    let list: Vec<String> = uses.iter().map(|(what, count)| format!("{what} {count}")).collect();
    problems.error(
        "too-many-msi-vectors",
        "template.devices",
        format!(
            "the machine's devices need {total} interrupt vectors, and a guest has about {MAX_VECTORS}: {}",
            list.join(", ")
        ),
        "switch multi-queue off, or use fewer CPUs, disks or interfaces",
    );
}

fn uses(pool: &ResolvedPool) -> Vec<(&'static str, u64)> {
    let template = &pool.template;
    let devices = &template.devices;
    let flavor = pool.flavor.as_ref();
    // The CPUs of an instance type of the infra cluster are not known here.
    let cpus = u64::from(pool.compute().and_then(|compute| compute.cpu.guest_cpus()).unwrap_or(1));
    let queues = |many: bool| if many { cpus } else { 1 };
    let disk_queues = queues(devices.block_multi_queue || flavor.is_some_and(|f| f.block_multi_queue));
    let nic_queues = queues(devices.network_multi_queue || flavor.is_some_and(|f| f.network_multi_queue))
        .min(MAX_NETWORK_QUEUES);
    let data = template.data_disks.iter().map(|disk| &disk.device);
    let on_bus = |bus: DiskBus| {
        let has_bus = |device: &&DiskDevice| device.bus == bus;
        count(std::iter::once(&template.root_disk.device).chain(data.clone()).filter(has_bus))
    };
    let is_sriov = |nic: &&Nic| nic.binding == Binding::Sriov;
    let functions = count(template.nics.iter().filter(is_sriov));
    let virtio_nics = count(template.nics.iter()) - functions;
    let scsi_controllers = on_bus(DiskBus::Scsi).min(1);
    let others =
        scsi_controllers + functions + count(devices.host_devices.iter()) + u64::from(devices.rng) + 2;
    vec![
        ("virtio disks", (on_bus(DiskBus::Virtio) + 1) * (disk_queues + 1)),
        ("virtio interfaces", virtio_nics * (2 * nic_queues + 2)),
        ("other devices", others * PLAIN_DEVICE),
    ]
}

fn count(items: impl Iterator) -> u64 {
    u64::try_from(items.count()).unwrap_or(u64::MAX)
}

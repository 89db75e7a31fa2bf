//! What keeps a machine from moving while it runs.

use trellis_model::machine::{Eviction, MachineTemplate};
use trellis_model::problem::Problems;
use trellis_model::resolve::ResolvedPool;
use trellis_model::volume::{AccessMode, Storage, StorageRequest};

use crate::nics;

pub(super) fn check(pool: &ResolvedPool, problems: &mut Problems<'_>) {
    let template = &pool.template;
    if !matches!(template.eviction, Eviction::LiveMigrate | Eviction::LiveMigrateIfPossible) {
        return;
    }
    check_storage(template, problems);
    if !template.devices.host_devices.is_empty() {
        problems.warning(
            "device-not-migratable",
            "template.devices.hostDevices",
            "a machine that holds a device of its host cannot move while it runs",
            "set eviction to External",
        );
    }
    if nics::bridges_pod_network(&template.nics) {
        problems.warning(
            "pod-bridge-migration",
            "template.nics",
            "a machine that is bridged to the pod network gets another address when it moves",
            "use Masquerade on the pod network, or a machine network",
        );
    }
    let Some(cpu) = pool.compute().map(|compute| &compute.cpu) else { return };
    if cpu.model.as_deref() == Some("host-passthrough") {
        problems.warning(
            "host-passthrough-migration",
            "template.shape",
            "a guest that sees its host's very processor can only move to a host with the same one",
            "use host-model, or set eviction to External",
        );
    }
    if cpu.dedicated.is_some() {
        problems.notice(
            "pinned-migration",
            "template.shape",
            "a machine with pinned CPUs only moves to a host that has as many free to pin",
            "",
        );
    }
}

fn check_storage(template: &MachineTemplate, problems: &mut Problems<'_>) {
    let root = ("template.rootDisk".to_owned(), &template.root_disk.storage);
    let data =
        template.data_disks.iter().map(|disk| (format!("template.dataDisks[{}]", disk.name), &disk.storage));
    for (path, _) in std::iter::once(root).chain(data).filter(|(_, storage)| is_of_one_host(storage)) {
        problems.warning(
            "disk-not-migratable",
            format!("{path}.storage.accessMode"),
            "the machine is to move while it runs, but only one host at a time may use its disk",
            "use ReadWriteMany, or set eviction to External",
        );
    }
}

fn is_of_one_host(storage: &Storage) -> bool {
    match storage.access_mode {
        Some(mode) => mode != AccessMode::ReadWriteMany,
        // What a storage profile fills in is not known here; a plain claim gets ReadWriteOnce.
        None => storage.request == StorageRequest::Claim,
    }
}

//! Names, labels, annotations and disks of a machine's objects.

use std::collections::BTreeMap;

use trellis_model::machine::{Architecture, MachineTemplate};
use trellis_model::problem::Problems;
use trellis_model::volume::{DiskBus, DiskDevice};
use trellis_model::{Problem, Subject};

use crate::disks::MAX_VOLUMES;
use crate::labels;
use crate::machine::PoolOf;
use crate::object::Object;

/// How much of a serial number a virtio disk can show.
const VIRTIO_SERIAL_LENGTH: usize = 20;

pub(super) fn check(pool: &PoolOf<'_>, has_services: bool, problems: &mut Problems<'_>) {
    check_labels(pool, problems);
    check_disks(&pool.resolved.template, problems);
    let first = pool.fresh(0);
    if has_services && first.name().starts_with(|c: char| c.is_ascii_digit()) {
        problems.error(
            "service-name",
            if pool.pool.spec.machine_name.is_some() { "machineName" } else { "cluster" },
            format!("each machine gets a Service of its name, and {} begins with a digit", first.name()),
            "begin the name of the cluster, or of the machine, with a letter",
        );
    }
}

fn check_labels(pool: &PoolOf<'_>, problems: &mut Problems<'_>) {
    let spec = &pool.pool.spec;
    let ours = labels::of_vm(&pool.fresh(0));
    for (key, value) in &spec.machine_labels {
        let path = format!("machineLabels[{key}]");
        if labels::is_reserved(key.as_str()) {
            problems.error(
                "reserved-label",
                path,
                format!("the label {key} is set by Trellis or by KubeVirt, and by nobody else"),
                "remove it",
            );
        } else if ours.get(key.as_str()).is_some_and(|our| our != value.as_str()) {
            problems.warning(
                "label-replaced",
                path,
                format!("Trellis sets the label {key} itself, to another value"),
                "remove it",
            );
        }
    }
    if spec.machine_annotations.keys().any(|key| key.as_str() == labels::IGNITION_DATA) {
        problems.error(
            "ignition-annotation",
            format!("machineAnnotations[{}]", labels::IGNITION_DATA),
            "KubeVirt refuses user data in an annotation, and everyone who sees the machine could read it",
            "put it into userData",
        );
    }
}

fn check_disks(template: &MachineTemplate, problems: &mut Problems<'_>) {
    let count = template.data_disks.len() + 2;
    if count > MAX_VOLUMES {
        problems.error(
            "too-many-volumes",
            "template.dataDisks",
            format!("{count} volumes, root disk and config drive included, are more than the {MAX_VOLUMES} a machine can have"),
            "",
        );
    }
    check_disk(template, &template.root_disk.device, "template.rootDisk.device", problems);
    for disk in &template.data_disks {
        check_disk(template, &disk.device, &format!("template.dataDisks[{}].device", disk.name), problems);
    }
}

fn check_disk(template: &MachineTemplate, device: &DiskDevice, path: &str, problems: &mut Problems<'_>) {
    let is_virtio = device.bus == DiskBus::Virtio;
    let is_of_pcs = matches!(device.bus, DiskBus::Sata | DiskBus::Usb);
    if is_of_pcs && template.architecture != Architecture::Amd64 {
        problems.error(
            "bus-of-another-architecture",
            format!("{path}.bus"),
            format!("{} machines have no {} disks", template.architecture.as_str(), device.bus.as_str()),
            "use virtio or scsi",
        );
    }
    if device.dedicated_io_thread && !is_virtio {
        problems.error(
            "io-thread-without-virtio",
            format!("{path}.dedicatedIoThread"),
            format!(
                "only virtio disks can have a thread of their own; this one is on {}",
                device.bus.as_str()
            ),
            "use the bus virtio, or remove dedicatedIoThread",
        );
    }
    if let Some(serial) = &device.serial
        && is_virtio
        && serial.as_str().len() > VIRTIO_SERIAL_LENGTH
    {
        problems.warning(
            "serial-cut",
            format!("{path}.serial"),
            format!(
                "the guest sees the first {VIRTIO_SERIAL_LENGTH} characters of {serial} on a virtio disk"
            ),
            "use a shorter serial",
        );
    }
}

/// Leaves the first of several objects that would have one name, and says so.
pub(crate) fn check_names(objects: Vec<(Subject, Object)>, out: &mut Vec<Problem>) -> Vec<Object> {
    let mut taken = BTreeMap::<(&'static str, String, String), Subject>::new();
    let mut kept = Vec::with_capacity(objects.len());
    for (subject, object) in objects {
        let namespace = object.namespace().to_owned();
        let mut names = vec![(object.kind(), namespace.clone(), object.name().to_owned())];
        if let Object::VirtualMachine(machine) = &object {
            let volumes = machine.spec.data_volume_templates.iter();
            let volume_names = volumes.filter_map(|volume| volume.metadata.name.clone());
            names.extend(volume_names.map(|name| ("DataVolume", namespace.clone(), name)));
        }
        if let Some((kind, namespace, name)) = names.iter().find(|name| taken.contains_key(*name)) {
            let owner = taken.get(&(*kind, namespace.clone(), name.clone()));
            let owner = owner.map_or_else(String::new, |owner| format!(" of {owner}"));
            Problems::of(subject, out).error(
                "name-taken",
                "name",
                format!("another {kind}{owner} in namespace {namespace} is called {name} already"),
                "choose another name, or another namespace for one of the clusters",
            );
            continue;
        }
        taken.extend(names.into_iter().map(|name| (name, subject.clone())));
        kept.push(object);
    }
    kept
}

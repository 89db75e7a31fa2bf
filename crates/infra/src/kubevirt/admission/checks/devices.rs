//! Disks, and what else a machine has in it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names::{is_pci_address, is_serial, label};
use super::{Cause, Config, Field};
use crate::object::Object as _;

/// The longest serial of a device.
const LONGEST_SERIAL: usize = 256;

pub(super) fn check(field: &Field, spec: &Value, config: &Config, causes: &mut Vec<Cause>) {
    boot_order(field, spec, config, causes);
    inputs(field, spec, causes);
    io_threads(field, spec, causes);
    let disks_field = field.child("domain.devices.disks");
    let disks = spec.list("/domain/devices/disks");
    for (index, disk) in disks.iter().enumerate() {
        let before = disks[..index].iter().position(|other| other["name"] == disk["name"]);
        if let Some(other) = before {
            let message = format!(
                "{} and {} must not have the same Name.",
                disks_field.index(index),
                disks_field.index(other)
            );
            causes.push(Cause::invalid(disks_field.index(index).child("name"), message));
        }
        self::disk(&disks_field, index, disk, causes);
    }
    others(field, spec, causes);
}

/// Disks belong to volumes, and devices boot one after the other.
fn boot_order(field: &Field, spec: &Value, config: &Config, causes: &mut Vec<Cause>) {
    let mut orders = BTreeSet::new();
    let disks_field = field.child("domain.devices.disks");
    for (index, disk) in spec.list("/domain/devices/disks").iter().enumerate() {
        let place = disks_field.index(index);
        let volume = spec.list("/volumes").iter().find(|volume| volume["name"] == disk["name"]);
        match volume {
            None if disk["cdrom"].is_null() => {
                let message = format!("{} '{}' not found.", place.child("Name"), disk.text("/name"));
                causes.push(Cause::invalid(place.child("name"), message));
            }
            None if !config.gate("DeclarativeHotplugVolumes") => {
                let message =
                    "DeclarativeHotplugVolumes feature gate not enabled, cannot define an empty CD-ROM disk";
                causes.push(Cause::invalid(place.child("name"), message));
            }
            Some(volume)
                if disk["lun"].is_object()
                    && volume["persistentVolumeClaim"].is_null()
                    && volume["dataVolume"].is_null() =>
            {
                let lun = place.child("lun");
                let message =
                    format!("{lun} can only be mapped to a DataVolume or PersistentVolumeClaim volume.");
                causes.push(Cause::invalid(lun, message));
            }
            _ => {}
        }
        if let Some(order) = disk.number("/bootOrder")
            && !orders.insert(order)
        {
            taken(&place.child("bootOrder"), causes);
        }
    }
    let interfaces_field = field.child("domain.devices.interfaces");
    for (index, interface) in spec.list("/domain/devices/interfaces").iter().enumerate() {
        let Some(order) = interface.number("/bootOrder") else { continue };
        let place = interfaces_field.index(index);
        if order < 1 {
            let message = format!("{place} must have a boot order > 0, if supplied");
            causes.push(Cause::invalid(place.child("bootOrder"), message));
        } else if !orders.insert(order) {
            taken(&place.child("bootOrder"), causes);
        }
    }
}

fn taken(place: &Field, causes: &mut Vec<Cause>) {
    let message = format!("Boot order for {place} already set for a different device.");
    causes.push(Cause::invalid(place.clone(), message));
}

fn disk(field: &Field, index: usize, disk: &Value, causes: &mut Vec<Cause>) {
    let place = field.index(index);
    let targets: Vec<&str> =
        ["disk", "lun", "cdrom"].into_iter().filter(|target| disk[*target].is_object()).collect();
    if targets.len() > 1 {
        let message = format!("{place} can only have a single target type defined");
        causes.push(Cause::invalid(place.clone(), message));
    }
    let address = disk.text("/disk/pciAddress");
    if !address.is_empty() {
        if disk.text("/disk/bus") != "virtio" {
            let message =
                format!("disk {place} - setting a PCI address is only possible with bus type virtio.");
            causes.push(Cause::invalid(place.child("disk.pciAddress"), message));
        }
        if !is_pci_address(address) {
            let message = format!("disk {place} has malformed PCI address ({address}).");
            causes.push(Cause::invalid(place.child("disk.pciAddress"), message));
        }
    }
    if disk.number("/bootOrder").is_some_and(|order| order < 1) {
        let message = format!("{place} must have a boot order > 0, if supplied");
        causes.push(Cause::invalid(place.child("bootOrder"), message));
    }
    if let Some(target) = targets.first() {
        bus(&place, disk, target, causes);
    }
    settings(&place, disk, causes);
    for problem in label(disk.text("/name")) {
        causes.push(Cause::invalid(place.child("name"), problem));
    }
    block_size(&place, disk, causes);
}

fn bus(place: &Field, disk: &Value, target: &str, causes: &mut Vec<Cause>) {
    let bus = disk[target].text("/bus");
    let bus_field = place.child(target).child("bus");
    match bus {
        "" => return,
        "ide" => causes.push(Cause::invalid(bus_field, "IDE bus is not supported")),
        "virtio" if target == "cdrom" => {
            causes.push(Cause::invalid(bus_field, "Bus type virtio is invalid for CD-ROM device"));
        }
        "sata" if disk.flag("/disk/readonly") => {
            causes.push(Cause::invalid(bus_field, "sata hard-disks do not support read-only."));
        }
        "virtio" | "sata" | "scsi" | "usb" => {}
        _ => {
            let message = format!(
                "{place} is set with an unrecognized bus {bus}, must be one of: [virtio scsi sata usb]"
            );
            causes.push(Cause::invalid(bus_field, message));
        }
    }
    if disk.flag("/dedicatedIOThread") && bus != "virtio" {
        let message = format!("IOThreads are not supported for disks on a {bus} bus");
        causes.push(Cause::not_supported(place.clone(), message));
    }
}

fn settings(place: &Field, disk: &Value, causes: &mut Vec<Cause>) {
    let serial = disk.text("/serial");
    if !serial.is_empty() && !is_serial(serial) {
        let message =
            format!("{place} must be made up of the following characters [A-Za-z0-9_.+-], if specified");
        causes.push(Cause::invalid(place.child("serial"), message));
    }
    if serial.chars().count() > LONGEST_SERIAL {
        let message =
            format!("{place} must be less than or equal to {LONGEST_SERIAL} in length, if specified");
        causes.push(Cause::invalid(place.child("serial"), message));
    }
    let cache = disk.text("/cache");
    if !matches!(cache, "" | "none" | "writethrough" | "writeback") {
        let message = format!("{} has invalid value {cache}", place.child("cache"));
        causes.push(Cause::invalid(place.child("cache"), message));
    }
    if !matches!(disk.text("/io"), "" | "native" | "threads") {
        let message =
            format!("Disk IO mode for {place} is not supported. Supported modes are: native, threads.");
        causes.push(Cause::not_supported(place.child("io"), message));
    }
    let policy = disk.text("/errorPolicy");
    if !matches!(policy, "" | "stop" | "ignore" | "report" | "enospace") {
        let message = format!("{} has invalid value \"{policy}\"", place.child("errorPolicy"));
        causes.push(Cause::invalid(place.child("errorPolicy"), message));
    }
}

fn block_size(place: &Field, disk: &Value, causes: &mut Vec<Cause>) {
    const LEAST: i64 = 512;
    const MOST: i64 = 2_097_152;
    let custom = disk.at("/blockSize/custom");
    if !custom.is_object() {
        return;
    }
    let matched = disk.at("/blockSize/matchVolume");
    if matched.is_object() && matched["enabled"] != false {
        causes.push(Cause::invalid(
            place.child("blockSize"),
            "Block size matching can't be enabled together with a custom value",
        ));
        return;
    }
    let size = |name: &str| custom.number(&format!("/{name}")).unwrap_or_default();
    let (logical, physical) = (size("logical"), size("physical"));
    if logical > physical {
        let message =
            format!("Logical size {logical} must be the same or less than the physical size of {physical}");
        causes.push(Cause::invalid(place.child("blockSize.custom.logical"), message));
        return;
    }
    for (name, size) in [("logical", logical), ("physical", physical)] {
        let message = if size < LEAST {
            format!("Provided size of {size} is less than the supported minimum size of {LEAST}")
        } else if size > MOST {
            format!("Provided size of {size} is greater than the supported maximum size of {MOST}")
        } else if size & (size - 1) != 0 {
            format!("Provided size of {size} is not a power of 2")
        } else {
            continue;
        };
        causes.push(Cause::invalid(place.child("blockSize.custom").child(name), message));
    }
}

fn inputs(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    for (index, input) in spec.list("/domain/devices/inputs").iter().enumerate() {
        let place = field.child("domain.devices.inputs").index(index);
        if !matches!(input.text("/bus"), "" | "virtio" | "usb") {
            causes.push(Cause::invalid(place.child("bus"), "Input device can have only virtio or usb bus."));
        }
        if input.text("/type") != "tablet" {
            causes.push(Cause::invalid(place.child("type"), "Input device can have only tablet type."));
        }
    }
}

fn io_threads(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let policy = spec.text("/domain/ioThreadsPolicy");
    if !matches!(policy, "" | "shared" | "auto" | "supplementalPool") {
        let message = format!("Invalid IOThreadsPolicy ({policy})");
        causes.push(Cause::invalid(field.child("domain.ioThreadsPolicy"), message));
    }
    let count = spec.number("/domain/ioThreads/supplementalPoolThreadCount").unwrap_or_default();
    if policy == "supplementalPool" && count < 1 {
        causes.push(Cause::invalid(
            field.child("domain.ioThreads.count"),
            "the number of iothreads needs to be set and positive for the dedicated policy",
        ));
    }
}

fn others(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let sound = spec.at("/domain/devices/sound");
    if sound.is_object() {
        let place = field.child("Sound");
        if !matches!(sound.text("/model"), "" | "ich9" | "ac97") {
            let message = "Sound device type is not supported. Options: 'ich9' or 'ac97'";
            causes.push(Cause::invalid(place.clone(), message));
        }
        if sound.text("/name").is_empty() {
            causes.push(Cause::invalid(place, "Sound device requires a name field."));
        }
    }
    for (index, device) in spec.list("/domain/devices/panicDevices").iter().enumerate() {
        let model = device.text("/model");
        if !matches!(model, "" | "hyperv" | "isa" | "pvpanic") {
            let place = field.child("domain.devices.panicDevices").index(index).child("model");
            causes.push(Cause::invalid(place, format!("invalid PanicDeviceModel({model})")));
        }
    }
    let graphics = spec.at("/domain/devices/autoattachGraphicsDevice");
    if spec.at("/domain/devices/video").is_object() && *graphics == false {
        causes.push(Cause::invalid(
            field.child("video"),
            "Video configuration is not allowed when autoattachGraphicsDevice is set to false",
        ));
    }
}

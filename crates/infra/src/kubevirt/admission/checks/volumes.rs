//! Volumes.

use base64::Engine as _;
use serde_json::Value;

use super::{Cause, Config, Field};
use crate::object::Object as _;

/// How much a config drive may have inside of the object.
const MOST_INLINE: usize = 2048;

/// The kinds of volumes.
const SOURCES: &[&str] = &[
    "cloudInitConfigDrive",
    "cloudInitNoCloud",
    "configMap",
    "containerDisk",
    "containerPath",
    "dataVolume",
    "downwardAPI",
    "downwardMetrics",
    "emptyDisk",
    "ephemeral",
    "hostDisk",
    "memoryDump",
    "persistentVolumeClaim",
    "secret",
    "serviceAccount",
    "sysprep",
];

pub(super) fn check(field: &Field, volumes: &[Value], config: &Config, causes: &mut Vec<Cause>) {
    for (index, volume) in volumes.iter().enumerate() {
        let place = field.index(index);
        if let Some(other) = volumes[..index].iter().position(|other| other["name"] == volume["name"]) {
            let message = format!("{place} and {} must not have the same Name.", field.index(other));
            causes.push(Cause::invalid(place.child("name"), message));
        }
        if volume["dataVolume"].is_object() && volume.text("/dataVolume/name").is_empty() {
            causes.push(Cause::required(place.child("name"), "DataVolume 'name' must be set"));
        }
        if SOURCES.iter().filter(|source| volume[**source].is_object()).count() != 1 {
            let message = format!("{place} must have exactly one source type set");
            causes.push(Cause::invalid(place.clone(), message));
        }
        for kind in ["cloudInitNoCloud", "cloudInitConfigDrive"] {
            if volume[kind].is_object() {
                cloud_init(&place.child(kind), &volume[kind], causes);
            }
        }
        if volume["downwardMetrics"].is_object() && !config.gate("DownwardMetrics") {
            let message =
                "downwardMetrics disks are not allowed: DownwardMetrics feature gate is not enabled.";
            causes.push(Cause::invalid(place.clone(), message));
        }
        host_disk(&place, volume, config, causes);
        for (kind, name) in
            [("configMap", "name"), ("secret", "secretName"), ("serviceAccount", "serviceAccountName")]
        {
            if volume[kind].is_object() && volume[kind][name].as_str().unwrap_or_default().is_empty() {
                let named = place.child(kind).child(name);
                causes.push(Cause::invalid(named.clone(), format!("{named} is a required field")));
            }
        }
        let path = volume.text("/containerDisk/path");
        if !path.is_empty() {
            absolute(&place.child("containerDisk"), path, causes);
        }
    }
    for (kind, told) in [
        ("serviceAccount", "serviceAccount"),
        ("downwardMetrics", "downwardMetric"),
        ("memoryDump", "memory dump"),
    ] {
        if volumes.iter().filter(|volume| volume[kind].is_object()).count() > 1 {
            let message = format!("{field} must have max one {told} volume set");
            causes.push(Cause::invalid(field.clone(), message));
        }
    }
}

/// A path inside of an image: absolute, to a file, and without detours.
pub(super) fn absolute(place: &Field, path: &str, causes: &mut Vec<Cause>) {
    if path == "/" {
        causes.push(Cause::invalid(place.clone(), format!("{place} must not point to root")));
        return;
    }
    let trimmed = path.strip_suffix('/').unwrap_or(path);
    let plain = trimmed
        .strip_prefix('/')
        .is_some_and(|rest| rest.split('/').all(|step| !step.is_empty() && step != "." && step != ".."));
    if !plain {
        let message = format!("{place} must be an absolute path to a file without relative components");
        causes.push(Cause::invalid(place.clone(), message));
    }
}

fn cloud_init(place: &Field, source: &Value, causes: &mut Vec<Cause>) {
    let user = data(place, source, ("userData", "userDataBase64", "secretRef"), causes);
    if user.sources > 1 {
        let message = format!("{place} must have only one userdatasource set.");
        causes.push(Cause::invalid(place.clone(), message));
    }
    if user.length > MOST_INLINE {
        let message = format!(
            "{place} userdata exceeds {MOST_INLINE} byte limit. Should use UserDataSecretRef for larger data."
        );
        causes.push(Cause::invalid(place.clone(), message));
    }
    let network = data(place, source, ("networkData", "networkDataBase64", "networkDataSecretRef"), causes);
    if network.sources > 1 {
        let message = format!("{place} must have only one networkdata source set.");
        causes.push(Cause::invalid(place.clone(), message));
    }
    if network.length > MOST_INLINE {
        let message = format!(
            "{place} networkdata exceeds {MOST_INLINE} byte limit. Should use NetworkDataSecretRef for larger data."
        );
        causes.push(Cause::invalid(place.clone(), message));
    }
    if user.sources == 0 && network.sources == 0 {
        let message = format!("{place} must have at least one userdatasource or one networkdatasource set.");
        causes.push(Cause::invalid(place.clone(), message));
    }
}

/// How many sources some data has, and how long it is inside of the object.
struct Data {
    sources: usize,
    length: usize,
}

fn data(
    place: &Field,
    source: &Value,
    (plain, encoded, reference): (&str, &str, &str),
    causes: &mut Vec<Cause>,
) -> Data {
    let mut data = Data { sources: 0, length: 0 };
    if !source[reference].text("/name").is_empty() {
        data.sources += 1;
    }
    let text = source[encoded].as_str().unwrap_or_default();
    if !text.is_empty() {
        data.sources += 1;
        let decoded = base64::engine::general_purpose::STANDARD.decode(text.replace(['\n', '\r'], ""));
        if let Ok(bytes) = decoded {
            data.length = bytes.len();
        } else {
            let named = place.child(encoded);
            causes.push(Cause::invalid(named.clone(), format!("{named} is not a valid base64 value.")));
        }
    }
    let text = source[plain].as_str().unwrap_or_default();
    if !text.is_empty() {
        data.sources += 1;
        data.length = text.len();
    }
    data
}

fn host_disk(place: &Field, volume: &Value, config: &Config, causes: &mut Vec<Cause>) {
    let disk = &volume["hostDisk"];
    if !disk.is_object() {
        return;
    }
    if !config.gate("HostDisk") {
        causes.push(Cause::invalid(place.clone(), "HostDisk feature gate is not enabled"));
    }
    let place = place.child("hostDisk");
    if disk.text("/path").is_empty() {
        let path = place.child("path");
        let message = format!("{path} is required for hostDisk volume");
        causes.push(Cause { reason: "FieldValueNotFound", field: path.into(), message });
    }
    let kind = disk.text("/type");
    let kind_field = place.child("type");
    if !matches!(kind, "Disk" | "DiskOrCreate") {
        let message =
            format!("{kind_field} has invalid value '{kind}', allowed are 'Disk' or 'DiskOrCreate'");
        causes.push(Cause::invalid(kind_field.clone(), message));
    }
    let capacity = place.child("capacity");
    if kind == "Disk" && crate::quantity::of(&disk["capacity"]) != 0 {
        let message = format!("{capacity} is allowed to pass only with {kind_field} equal to 'DiskOrCreate'");
        causes.push(Cause::invalid(capacity, message));
    }
}

/// Every volume is a disk or a file system of the machine.
pub(super) fn have_disks(field: &Field, spec: &Value, causes: &mut Vec<Cause>) {
    let (disks, filesystems) = (spec.list("/domain/devices/disks"), spec.list("/domain/devices/filesystems"));
    for (index, volume) in spec.list("/volumes").iter().enumerate() {
        let used = disks.iter().chain(filesystems).any(|one| one["name"] == volume["name"]);
        if !used && volume["memoryDump"].is_null() {
            let place = field.child("domain.volumes").index(index).child("name");
            let message = format!("{place} '{}' not found.", volume.text("/name"));
            causes.push(Cause::invalid(place, message));
        }
    }
}

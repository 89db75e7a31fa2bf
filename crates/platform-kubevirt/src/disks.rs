//! Disks, and the volumes behind them.

use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, VolumeResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use trellis_api::cdi::{DataVolumeSource, DataVolumeSpec, StorageSpec};
use trellis_api::kubevirt::{DataVolumeTemplate, DataVolumeVolume, Disk, DiskTarget, Empty, Volume};
use trellis_model::quantity::Bytes;
use trellis_model::volume::{
    AccessMode, CONFIG_DRIVE, DiskBus, DiskCache, DiskDevice, ROOT_DISK, Storage, StorageRequest,
};

use crate::compute::quantity;
use crate::flavors::{self, Inlined};
use crate::images;
use crate::labels;
use crate::machine::Machine;
use crate::names;
use crate::user_data;

/// The most volumes a machine can have.
pub(crate) const MAX_VOLUMES: usize = 256;

/// The disks of a machine: the one it boots from, further ones, and the config drive.
pub(crate) fn disks(machine: &Machine<'_>) -> Vec<Disk> {
    let template = machine.template();
    let defaults = flavors::inlined(template, machine.resolved.flavor.as_ref());
    let mut disks = vec![disk(ROOT_DISK, &template.root_disk.device, &defaults)];
    disks.extend(template.data_disks.iter().map(|data| disk(data.name.as_str(), &data.device, &defaults)));
    if let Some(root) = disks.first_mut() {
        root.boot_order = Some(1);
    }
    disks.push(config_drive(flavors::preference_of(machine.cluster, template).is_some()));
    disks
}

fn disk(name: &str, device: &DiskDevice, defaults: &Inlined<'_>) -> Disk {
    let own_thread =
        device.dedicated_io_thread || (defaults.dedicated_io_threads && device.bus == DiskBus::Virtio);
    Disk {
        name: name.to_owned(),
        disk: Some(DiskTarget { bus: Some(device.bus.as_str().to_owned()) }),
        cache: device.cache.or(defaults.disk_cache).map(|cache| cache.as_str().to_owned()),
        dedicated_io_thread: own_thread.then_some(true),
        serial: device.serial.as_ref().map(ToString::to_string),
        boot_order: None,
    }
}

/// The disk with the user data. It is a small file beside the pod, often in memory: a preference for
/// uncached disks would keep the machine from starting, and one for IO threads would waste a thread.
fn config_drive(has_preference: bool) -> Disk {
    Disk {
        name: CONFIG_DRIVE.to_owned(),
        disk: Some(DiskTarget { bus: Some(DiskBus::Virtio.as_str().to_owned()) }),
        cache: has_preference.then(|| DiskCache::Writethrough.as_str().to_owned()),
        dedicated_io_thread: has_preference.then_some(false),
        ..Disk::default()
    }
}

/// The volumes behind the disks, in the same order.
pub(crate) fn volumes(machine: &Machine<'_>) -> Vec<Volume> {
    let data_volume = |name: &str, volume: String| Volume {
        name: name.to_owned(),
        data_volume: Some(DataVolumeVolume { name: volume }),
        ..Volume::default()
    };
    let mut volumes = vec![data_volume(ROOT_DISK, names::root_disk(machine.name()))];
    volumes.extend(
        machine
            .template()
            .data_disks
            .iter()
            .map(|disk| data_volume(disk.name.as_str(), names::data_disk(machine.name(), &disk.name))),
    );
    volumes.push(Volume {
        name: CONFIG_DRIVE.to_owned(),
        cloud_init_config_drive: Some(user_data::config_drive(machine)),
        ..Volume::default()
    });
    volumes
}

/// The volumes that are made with the machine and removed with it.
pub(crate) fn data_volume_templates(machine: &Machine<'_>) -> Vec<DataVolumeTemplate> {
    let template = machine.template();
    let mut root = DataVolumeSpec::default();
    images::fill_root_disk(&mut root, machine.cluster, template);
    place(&mut root, &template.root_disk.storage, template.root_disk.size);
    let mut templates = vec![made_with(machine, names::root_disk(machine.name()), root)];
    for disk in &template.data_disks {
        let blank = DataVolumeSource { blank: Some(Empty {}), ..DataVolumeSource::default() };
        let mut spec = DataVolumeSpec { source: Some(blank), ..DataVolumeSpec::default() };
        place(&mut spec, &disk.storage, disk.size);
        templates.push(made_with(machine, names::data_disk(machine.name(), &disk.name), spec));
    }
    templates
}

fn made_with(machine: &Machine<'_>, name: String, spec: DataVolumeSpec) -> DataVolumeTemplate {
    let (_, annotations) = labels::annotations(machine);
    let metadata = ObjectMeta {
        name: Some(name),
        labels: Some(labels::of_machine(machine)),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        ..ObjectMeta::default()
    };
    DataVolumeTemplate { metadata, spec }
}

/// Says where a volume lies and how large it is.
pub(crate) fn place(spec: &mut DataVolumeSpec, storage: &Storage, size: Bytes) {
    let resources = Some(VolumeResourceRequirements {
        requests: Some([("storage".to_owned(), quantity(size))].into()),
        ..VolumeResourceRequirements::default()
    });
    let class = storage.class.as_ref().map(ToString::to_string);
    let volume_mode = storage.volume_mode.map(|mode| mode.as_str().to_owned());
    match storage.request {
        StorageRequest::Profile => {
            spec.storage = Some(StorageSpec {
                access_modes: storage.access_mode.iter().map(|mode| mode.as_str().to_owned()).collect(),
                volume_mode,
                storage_class_name: class,
                resources,
            });
        }
        StorageRequest::Claim => {
            let mode = storage.access_mode.unwrap_or(AccessMode::ReadWriteOnce);
            spec.pvc = Some(PersistentVolumeClaimSpec {
                access_modes: Some(vec![mode.as_str().to_owned()]),
                volume_mode,
                storage_class_name: class,
                resources,
                ..PersistentVolumeClaimSpec::default()
            });
        }
    }
}

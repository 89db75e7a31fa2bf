//! Disks of a pool's machines: volumes of the Shoot, seen by the guest as the WorkerConfig says.

use std::collections::BTreeMap;

use trellis_api::common::Text;
use trellis_api::gardener::device::Disk;
use trellis_api::gardener::worker::{Volume, Worker};
use trellis_model::names::{DeviceName, ObjectName};
use trellis_model::quantity::Bytes;
use trellis_model::volume::{DataDisk, DiskBus, DiskCache, DiskDevice, ROOT_DISK, RootDisk, Storage};

use super::words::{missing, required, suggest};
use super::worker::Draft;
use crate::path::FieldPath;
use crate::shared::choose;

/// The volume type, and the class behind one, that stand for the infra cluster's default storage class.
pub(super) const DEFAULT_CLASS: &str = "default";

const BUSES: &[(&str, DiskBus)] =
    &[("virtio", DiskBus::Virtio), ("scsi", DiskBus::Scsi), ("sata", DiskBus::Sata), ("usb", DiskBus::Usb)];

const CACHES: &[(&str, DiskCache)] = &[
    ("none", DiskCache::None),
    ("writethrough", DiskCache::Writethrough),
    ("writeback", DiskCache::Writeback),
];

/// How the guest sees disks, by the disks' names.
pub(super) type DeviceTable = BTreeMap<String, (DiskDevice, FieldPath)>;

impl Draft<'_, '_> {
    /// Reads the root disk and the data disks of a pool.
    pub(super) fn disks(&mut self, worker: &Worker) -> (Option<RootDisk>, Vec<DataDisk>) {
        let mut devices = self.devices();
        self.check_device_names(worker, &devices);
        let root = self.root_disk(worker).map(|(size, storage)| {
            let device = self.device(&mut devices, ROOT_DISK, "template.rootDisk.device");
            RootDisk { size, storage, device }
        });
        let mut data = Vec::new();
        for (index, volume) in worker.data_volumes.iter().enumerate() {
            let at = self.at.child("dataVolumes").index(index);
            let name =
                required(self.cx, &at.child("name"), volume.name.as_deref(), "a data volume needs a name");
            let name = name.and_then(|name| self.cx.parse::<DeviceName>(&at.child("name"), name));
            let model = format!("template.dataDisks[{}]", name.as_ref().map_or("", |name| name.as_str()));
            let read = self.volume(&at, volume, &model);
            let (Some(name), Some((size, storage))) = (name, read) else { continue };
            let device = self.device(&mut devices, name.as_str(), &format!("{model}.device"));
            data.push(DataDisk { name, size, storage, device });
        }
        (root, data)
    }

    fn device(&mut self, devices: &mut DeviceTable, name: &str, model: &str) -> DiskDevice {
        let Some((device, at)) = devices.remove(name) else { return DiskDevice::default() };
        self.origin(model, &at);
        device
    }

    fn root_disk(&mut self, worker: &Worker) -> Option<(Bytes, Storage)> {
        let at = self.at.child("volume");
        if let Some(volume) = &worker.volume {
            if volume.name.as_deref().is_some_and(|name| name != ROOT_DISK) {
                let message = format!(
                    "the `name` of the root volume has no effect: its disk is always called {ROOT_DISK}"
                );
                self.cx.warning("no-effect", &at.child("name"), message, "remove it");
            }
            return self.volume(&at, volume, "template.rootDisk");
        }
        let machine_type = worker.machine.as_ref().and_then(|machine| machine.type_.as_deref());
        let found =
            self.profile.zip(machine_type).and_then(|(profile, name)| profile.machine_types.get(name));
        let Some((machine_type, storage)) = found.and_then(|found| Some((found, found.storage.as_ref()?)))
        else {
            let help = "add `volume` with a `type` (`default` is the default storage class) and a `size`";
            missing(self.cx, &at, "the machines need a root disk, and no machine type gives them one", help);
            return None;
        };
        if let Some(profile) = self.profile {
            self.origins.add("template.rootDisk", profile.document, &machine_type.at.child("storage"));
        }
        let type_at = self.at.child("machine").child("type");
        let class = storage.volume_type.as_deref().and_then(|name| self.storage_class(&type_at, name));
        Some((storage.size, Storage { class, ..Storage::default() }))
    }

    fn volume(&mut self, at: &FieldPath, volume: &Volume, model: &str) -> Option<(Bytes, Storage)> {
        self.origin(model, at);
        self.origin(format!("{model}.size"), &at.child("size"));
        self.origin(format!("{model}.storage"), &at.child("type"));
        if volume.encrypted == Some(true) {
            let help = "remove `encrypted`, and choose a volume type whose storage class encrypts";
            self.cx.error(
                "unsupported",
                &at.child("encrypted"),
                "volumes cannot be encrypted one by one",
                help,
            );
        }
        let type_at = at.child("type");
        let class = if let Some(name) = volume.type_.as_deref().filter(|name| !name.is_empty()) {
            self.storage_class(&type_at, name)
        } else {
            let help = "add `type`: `default` is the infra cluster's default storage class";
            missing(self.cx, &type_at, "a volume needs a type", help);
            None
        };
        let size = volume.size.as_ref().map(Text::as_str);
        let size = required(self.cx, &at.child("size"), size, "a volume needs a size")?;
        let size = self.cx.parse(&at.child("size"), size)?;
        Some((size, Storage { class, ..Storage::default() }))
    }

    /// The storage class behind a volume type.
    fn storage_class(&mut self, at: &FieldPath, name: &str) -> Option<ObjectName> {
        let Some(profile) = self.profile else {
            if name == DEFAULT_CLASS {
                return None;
            }
            self.needs
                .push(format!("which storage class volume type {name} is (taken for a class of that name)"));
            return self.cx.parse(at, name);
        };
        let Some(found) = profile.volume_types.get(name) else {
            if name != DEFAULT_CLASS {
                let names: Vec<&str> = profile.volume_types.keys().map(String::as_str).collect();
                let message = format!("the CloudProfile has no volume type `{name}`");
                self.cx.error("unknown-volume-type", at, message, &suggest(name, &names));
            }
            return None;
        };
        if !found.usable {
            let message = format!("volume type {name} is marked as not usable; Gardener would refuse it");
            self.cx.warning("not-usable", at, message, "choose another volume type");
        }
        let class = found.class.as_deref().filter(|class| *class != DEFAULT_CLASS)?;
        let parsed = ObjectName::new(class);
        if parsed.is_err() {
            let message =
                format!("volume type {name} has the class `{class}`, which is no name of a storage class");
            let help = format!("correct {}.class of the CloudProfile", found.at);
            self.cx.error("invalid-value", at, message, &help);
        }
        parsed.ok()
    }

    /// Reads `devices.disks` of the WorkerConfig.
    pub(super) fn devices(&mut self) -> DeviceTable {
        let mut read = DeviceTable::new();
        let disks =
            self.config.and_then(|config| config.devices.as_ref()).map(|devices| devices.disks.as_slice());
        for (index, disk) in disks.unwrap_or_default().iter().enumerate() {
            let at = self.config_at.child("devices").child("disks").index(index);
            let device = self.disk_device(&at, disk);
            let why = "it says which disk is meant";
            let Some(name) = required(self.cx, &at.child("name"), disk.name.as_deref(), why) else {
                continue;
            };
            if read.insert(name.to_owned(), (device, at.clone())).is_some() {
                let message = format!("the disk {name} is listed twice");
                self.cx.error("duplicate-name", &at.child("name"), message, "list each disk once");
            }
        }
        read
    }

    fn check_device_names(&mut self, worker: &Worker, devices: &DeviceTable) {
        let volumes = worker.data_volumes.iter().filter_map(|volume| volume.name.as_deref());
        let names: Vec<&str> = std::iter::once(ROOT_DISK).chain(volumes).collect();
        for (name, (_, at)) in devices.iter().filter(|(name, _)| !names.contains(&name.as_str())) {
            let message = format!("the pool has no disk `{name}`");
            self.cx.error("unknown-disk", &at.child("name"), message, &suggest(name, &names));
        }
    }

    fn disk_device(&mut self, at: &FieldPath, disk: &Disk) -> DiskDevice {
        let cx = &mut *self.cx;
        let refused = [
            ("cdrom", disk.cdrom.is_some()),
            ("lun", disk.lun.is_some()),
            ("floppy", disk.floppy.is_some()),
            ("bootOrder", disk.boot_order.is_some()),
            ("blockSize", disk.block_size.is_some()),
            ("shareable", disk.shareable == Some(true)),
        ];
        for (field, _) in refused.iter().filter(|(_, given)| *given) {
            let message = format!("`{field}` is not possible for the disks of a pool");
            cx.error("unsupported", &at.child(field), message, &format!("remove `{field}`"));
        }
        let target = disk.disk.clone().unwrap_or_default();
        let target_at = at.child("disk");
        if target.readonly == Some(true) {
            let message =
                "`readonly` is not possible: a disk that starts blank or is booted from must be writable";
            cx.error("unsupported", &target_at.child("readonly"), message, "remove `readonly`");
        }
        let without_effect = [
            (at.child("io"), disk.io.is_some()),
            (at.child("tag"), disk.tag.is_some()),
            (at.child("errorPolicy"), disk.error_policy.is_some()),
            (target_at.child("pciAddress"), target.pci_address.is_some()),
        ];
        for (at, _) in without_effect.iter().filter(|(_, given)| *given) {
            let message = format!("`{}` has no effect: KubeVirt chooses", at.last_key().unwrap_or_default());
            cx.warning("no-effect", at, message, "remove it");
        }
        let bus = target.bus.as_deref().filter(|bus| !bus.is_empty());
        let cache = disk.cache.as_deref().filter(|cache| !cache.is_empty());
        DiskDevice {
            bus: bus.and_then(|bus| choose(cx, &target_at.child("bus"), bus, BUSES)).unwrap_or_default(),
            cache: cache.and_then(|cache| choose(cx, &at.child("cache"), cache, CACHES)),
            dedicated_io_thread: disk.dedicated_io_thread.unwrap_or_default(),
            serial: cx.parse_opt(&at.child("serial"), disk.serial.as_ref().map(Text::as_str)),
        }
    }
}

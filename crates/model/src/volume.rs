//! Disks of a machine and the storage behind them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{DeviceName, DiskSerial, ObjectName};
use crate::quantity::Bytes;
use crate::util::is_default;

/// The name of the disk the operating system is on, in every machine.
pub const ROOT_DISK: &str = "root-disk";
/// The name of the disk with the user data, in every machine.
pub const CONFIG_DRIVE: &str = "config-drive";

/// The disk the operating system is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RootDisk {
    /// How large it is.
    pub size: Bytes,
    /// The storage it lies on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub storage: Storage,
    /// How the guest sees it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub device: DiskDevice,
}

/// A further disk, blank at first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DataDisk {
    /// Its name inside the machine.
    pub name: DeviceName,
    /// How large it is.
    pub size: Bytes,
    /// The storage it lies on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub storage: Storage,
    /// How the guest sees it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub device: DiskDevice,
}

/// The storage a disk lies on. What is left out comes from the storage profile of the class.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Storage {
    /// The storage class; the cluster's, then the infra cluster's default, when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ObjectName>,
    /// How many hosts may use the volume at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<AccessMode>,
    /// Whether the volume is a block device or a file system with a disk file on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<VolumeMode>,
    /// Whether CDI may fill gaps from the storage profile, or gets a plain claim.
    #[serde(default, skip_serializing_if = "is_default")]
    pub request: StorageRequest,
}

/// The form in which CDI is asked for a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum StorageRequest {
    /// The storage profile fills in what is left out, and overhead is added.
    #[default]
    Profile,
    /// A plain claim, exactly as written; needs an access mode, `ReadWriteOnce` when left out.
    Claim,
}

/// How many hosts may use a volume at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AccessMode {
    /// One host.
    ReadWriteOnce,
    /// Many hosts, reading only.
    ReadOnlyMany,
    /// Many hosts; live migration needs it.
    ReadWriteMany,
}

impl AccessMode {
    /// As Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadOnlyMany => "ReadOnlyMany",
            Self::ReadWriteMany => "ReadWriteMany",
        }
    }
}

/// What a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VolumeMode {
    /// A block device.
    Block,
    /// A file system with a disk file on it.
    Filesystem,
}

impl VolumeMode {
    /// As Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Block => "Block",
            Self::Filesystem => "Filesystem",
        }
    }
}

/// How the guest sees a disk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiskDevice {
    /// The kind of disk device to emulate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bus: DiskBus,
    /// The host's cache; left out, KubeVirt picks `none` where the storage allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<DiskCache>,
    /// A thread of its own for this disk's input and output.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dedicated_io_thread: bool,
    /// The serial number the guest sees; virtio shows its first 20 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<DiskSerial>,
}

/// The kind of disk device to emulate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskBus {
    /// Paravirtual; the fastest.
    #[default]
    Virtio,
    /// Paravirtual SCSI.
    Scsi,
    /// SATA.
    Sata,
    /// USB.
    Usb,
}

impl DiskBus {
    /// As KubeVirt spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Virtio => "virtio",
            Self::Scsi => "scsi",
            Self::Sata => "sata",
            Self::Usb => "usb",
        }
    }
}

/// The host's cache for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskCache {
    /// None: the guest has its own.
    None,
    /// Reads are cached, writes go through.
    Writethrough,
    /// Reads and writes are cached; a host crash loses data.
    Writeback,
}

impl DiskCache {
    /// As KubeVirt spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Writethrough => "writethrough",
            Self::Writeback => "writeback",
        }
    }
}

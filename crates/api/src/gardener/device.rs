//! The parts of a VM that a WorkerConfig describes, in KubeVirt's own words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{Present, Text};

/// Disks and other devices.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-trellis-aliases" = {"networkInterfaceMultiqueue": "networkInterfaceMultiQueue"}))]
pub struct Devices {
    /// How the guest sees the disks.
    ///
    /// Honoured: each changes the disk of its name: `root-disk`, or a data volume's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<Disk>,
    /// A random number generator fed by the host.
    ///
    /// Honoured: machines have one when it is given, even as `{}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rng: Option<Empty>,
    /// One queue for each virtual CPU on virtio disks.
    ///
    /// Honoured: off when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_multi_queue: Option<bool>,
    /// One queue for each virtual CPU on virtio network interfaces.
    ///
    /// Honoured: off when left out; the extension's own spelling `networkInterfaceMultiqueue` is read alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_interface_multi_queue: Option<bool>,
}

/// A mapping without fields: that it is there is all it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Empty {}

/// How the guest sees a disk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Disk {
    /// Which disk is meant.
    ///
    /// Honoured: `root-disk`, or the name of a data volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A disk, as opposed to the other kinds.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskTarget>,
    /// The host's cache.
    ///
    /// Honoured: `none`, `writethrough` or `writeback`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// A thread of its own for input and output.
    ///
    /// Honoured: when true.
    #[serde(rename = "dedicatedIOThread", skip_serializing_if = "Option::is_none")]
    pub dedicated_io_thread: Option<bool>,
    /// The serial number the guest sees.
    ///
    /// Honoured: letters, digits, `_`, `.`, `+` and `-`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<Text>,
    /// How the host does input and output.
    ///
    /// Warned about: KubeVirt chooses by the storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io: Option<String>,
    /// A tag the guest can read.
    ///
    /// Warned about: use `serial` to tell disks apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<Text>,
    /// What the guest is told on an input or output error.
    ///
    /// Warned about: KubeVirt's own choice, to stop the guest, holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_policy: Option<String>,
    /// The size of a block.
    ///
    /// Refused: disks have the block size of their storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_size: Option<Present>,
    /// Whether several machines may use the disk at once.
    ///
    /// Refused: when true; each machine has disks of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shareable: Option<bool>,
    /// The order in which devices are booted from.
    ///
    /// Refused: machines boot from the root disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_order: Option<u32>,
    /// A CD drive.
    ///
    /// Refused: the disks of a pool are disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cdrom: Option<Present>,
    /// A SCSI device handed through.
    ///
    /// Refused: the disks of a pool are disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lun: Option<Present>,
    /// A floppy drive.
    ///
    /// Refused: the disks of a pool are disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floppy: Option<Present>,
}

/// A disk device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskTarget {
    /// The kind of device to emulate.
    ///
    /// Honoured: `virtio`, `scsi`, `sata` or `usb`; virtio when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// Whether the guest may only read it.
    ///
    /// Refused: when true; a disk that starts blank or is booted from must be writable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readonly: Option<bool>,
    /// The place on the guest's PCI bus.
    ///
    /// Warned about: KubeVirt chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<Text>,
}

/// Processors.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Cpu {
    /// Cores in each socket.
    ///
    /// Honoured: 1 when `sockets` or `threads` is given without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Sockets.
    ///
    /// Honoured: 1 when `cores` or `threads` is given without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<u32>,
    /// Threads in each core.
    ///
    /// Honoured: 1 when `cores` or `sockets` is given without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// The most sockets the VM can grow to.
    ///
    /// Warned about: the platform decides how far machines can grow while they run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_sockets: Option<u32>,
    /// The processor model the guest sees.
    ///
    /// Honoured: for example `host-model` or `host-passthrough`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Processor features.
    ///
    /// Honoured: a name alone means that the guest must have it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<CpuFeature>,
    /// Pins every virtual CPU to a physical one of its own.
    ///
    /// Honoured: when true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedicated_cpu_placement: Option<bool>,
    /// One more physical CPU for the emulator itself.
    ///
    /// Honoured: only together with `dedicatedCpuPlacement`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolate_emulator_thread: Option<bool>,
    /// The NUMA layout of the guest.
    ///
    /// Honoured: only together with `dedicatedCpuPlacement`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa: Option<Numa>,
    /// Real-time scheduling of the virtual CPUs.
    ///
    /// Refused: Trellis makes no real-time machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime: Option<Present>,
}

/// A processor feature: its name, or its name and policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CpuFeature {
    /// Only the name.
    Name(String),
    /// Name and policy, as KubeVirt has it.
    Policy(CpuFeaturePolicy),
}

/// A processor feature and whether the guest must have it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CpuFeaturePolicy {
    /// The feature.
    ///
    /// Honoured: the name of the feature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the guest must have it.
    ///
    /// Honoured: `force`, `require`, `optional`, `disable` or `forbid`; require when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// The NUMA layout of the guest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Numa {
    /// Shows the guest the host's layout.
    ///
    /// Honoured: when it is given, even as `{}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_mapping_passthrough: Option<Empty>,
}

/// Memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// What the guest sees.
    ///
    /// Honoured: the memory of the machine type when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<Text>,
    /// Backs the guest with huge pages.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hugepages: Option<Hugepages>,
    /// The most memory the VM can grow to.
    ///
    /// Warned about: the platform decides how far machines can grow while they run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_guest: Option<Text>,
}

/// Huge pages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Hugepages {
    /// The size of one.
    ///
    /// Honoured: `2Mi` or `1Gi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<Text>,
}

//! What one machine is made of: its shape, devices, firmware and first-boot data.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::SshKey;
use crate::image::Image;
use crate::names::{DeviceName, FlavorName, ObjectName};
use crate::network::{Dns, Nic};
use crate::ovirt::OvirtMachine;
use crate::placement::Placement;
use crate::quantity::{Bytes, MilliCpu};
use crate::util::is_default;
use crate::volume::{DataDisk, RootDisk};

/// Everything that makes one machine of a pool. All machines of a pool share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineTemplate {
    /// How much CPU and memory a machine has, and how it gets them.
    pub shape: Shape,
    /// A preference object of the infra cluster that fills in device defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preference: Option<InfraShape>,
    /// The operating system a machine boots from.
    pub image: Image,
    /// The disk the image is written to.
    pub root_disk: RootDisk,
    /// Further disks, blank when the machine first starts. Each is a name and a size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_disks: Vec<DataDisk>,
    /// Network interfaces in order. Empty means those the cluster's networks imply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<Nic>,
    /// Where in the infra cluster machines may run, and how they keep apart.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placement: Placement,
    /// Virtual hardware beside disks and network interfaces.
    #[serde(default, skip_serializing_if = "is_default")]
    pub devices: Devices,
    /// Name resolution of the machine's pod, which the guest gets by DHCP.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dns: Dns,
    /// What happens to a machine when its host is drained.
    #[serde(default, skip_serializing_if = "is_default")]
    pub eviction: Eviction,
    /// How the machine's firmware starts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub firmware: Firmware,
    /// The processor architecture.
    #[serde(default, skip_serializing_if = "is_default")]
    pub architecture: Architecture,
    /// What the guest runs at first boot.
    #[serde(default, skip_serializing_if = "is_default")]
    pub user_data: UserData,
    /// Public keys that may log in over SSH, beside those of the cluster.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ssh_keys: BTreeSet<SshKey>,
    /// Seconds a guest has to shut down before it is stopped hard.
    #[serde(default = "default_stop_grace", skip_serializing_if = "is_default_stop_grace")]
    pub stop_grace_seconds: u32,
    /// What only oVirt knows; not allowed on KubeVirt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ovirt: Option<OvirtMachine>,
}

/// The seconds a guest gets to shut down when nothing is said.
pub const DEFAULT_STOP_GRACE_SECONDS: u32 = 30;

fn default_stop_grace() -> u32 {
    DEFAULT_STOP_GRACE_SECONDS
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_default_stop_grace(seconds: &u32) -> bool {
    *seconds == DEFAULT_STOP_GRACE_SECONDS
}

/// Where a machine's CPU and memory are described.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Shape {
    /// A flavor of Trellis's catalogue or of the cluster.
    Flavor(FlavorName),
    /// An instance type that exists on the infra platform.
    Instancetype(InfraShape),
    /// Written out.
    Custom(Box<Compute>),
}

/// An instance type or preference that exists on the infra platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InfraShape {
    /// Its name.
    pub name: ObjectName,
    /// Whether it belongs to the namespace or to the whole infra cluster.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scope: InfraScope,
}

/// Where an instance type or preference lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum InfraScope {
    /// One for the whole infra cluster.
    #[default]
    Cluster,
    /// One of the tenant's namespace.
    Namespace,
}

/// CPU and memory, written out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Compute {
    /// Processors.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cpu: Cpu,
    /// Memory.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory: Memory,
}

/// Processors of a machine. At least one of `topology`, `request` and `limit` is needed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.topology) || has(self.request) || has(self.limit)", "message": "one of topology, request and limit is needed" }
]))]
pub struct Cpu {
    /// Sockets, cores and threads as the guest sees them. Left out, the guest gets one socket for each CPU asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// CPU time the host sets aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<MilliCpu>,
    /// CPU time the machine may not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<MilliCpu>,
    /// The processor model the guest sees, for example `host-model` or `host-passthrough`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Processor features and whether the guest must, may or must not have them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub features: BTreeMap<String, CpuFeaturePolicy>,
    /// Pins every virtual CPU to a physical one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedicated: Option<DedicatedCpus>,
}

impl Cpu {
    /// How many virtual CPUs the guest sees; none when nothing says so.
    pub fn guest_cpus(&self) -> Option<u32> {
        match &self.topology {
            Some(topology) => Some(topology.total()),
            None => self.limit.or(self.request).map(MilliCpu::ceil),
        }
    }
}

/// The processors a guest sees: their product is the number of virtual CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Topology {
    /// Processor sockets.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1))]
    pub sockets: NonZeroU32,
    /// Cores in each socket.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1))]
    pub cores: NonZeroU32,
    /// Threads in each core.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1))]
    pub threads: NonZeroU32,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_one(n: &NonZeroU32) -> bool {
    *n == NonZeroU32::MIN
}

impl Topology {
    /// That many sockets of one core: the form that can grow while the machine runs.
    pub fn sockets(sockets: NonZeroU32) -> Self {
        Self { sockets, cores: one(), threads: one() }
    }

    /// The number of virtual CPUs.
    pub fn total(&self) -> u32 {
        self.sockets.get().saturating_mul(self.cores.get()).saturating_mul(self.threads.get())
    }
}

/// Whether a guest must have a processor feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CpuFeaturePolicy {
    /// The guest has it even if the host does not.
    Force,
    /// The guest has it; hosts without it are not used.
    #[default]
    Require,
    /// The guest has it if the host does.
    Optional,
    /// The guest does not have it.
    Disable,
    /// The guest does not have it; hosts with it are not used.
    Forbid,
}

/// Physical CPUs of one's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DedicatedCpus {
    /// One more physical CPU for the emulator itself, so that it never takes time from the guest.
    #[serde(default, skip_serializing_if = "is_default")]
    pub isolate_emulator_thread: bool,
    /// Shows the guest the host's NUMA layout; needs huge pages.
    #[serde(default, skip_serializing_if = "is_default")]
    pub numa_passthrough: bool,
}

/// Memory of a machine. At least one of `guest`, `request` and `limit` is needed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.guest) || has(self.request) || has(self.limit)", "message": "one of guest, request and limit is needed" },
    { "rule": "!(has(self.hugepages) && has(self.pageMerging) && self.pageMerging)", "message": "huge pages are never merged: keep one of hugepages and pageMerging" }
]))]
pub struct Memory {
    /// What the guest sees. Left out, the limit or the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<Bytes>,
    /// What the host sets aside. Less than the guest sees means overcommitment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Bytes>,
    /// What the machine may not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
    /// Backs the guest with huge pages of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hugepages: Option<HugepageSize>,
    /// Does not set aside memory for the emulator itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overcommit_guest_overhead: bool,
    /// Runs only on hosts that merge equal memory pages (KSM); cannot be had with huge pages.
    #[serde(default, skip_serializing_if = "is_default")]
    pub page_merging: bool,
}

impl Memory {
    /// How much memory the guest sees; none when nothing says so.
    pub fn guest_bytes(&self) -> Option<Bytes> {
        self.guest.or(self.limit).or(self.request)
    }
}

/// The size of a huge page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HugepageSize {
    /// Two mebibytes.
    #[serde(rename = "2Mi")]
    Mebi2,
    /// One gibibyte.
    #[serde(rename = "1Gi")]
    Gibi1,
}

impl HugepageSize {
    /// The size of one page.
    pub fn bytes(self) -> Bytes {
        match self {
            Self::Mebi2 => Bytes::mebi(2),
            Self::Gibi1 => Bytes::gibi(1),
        }
    }
}

/// Virtual hardware beside disks and network interfaces.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Devices {
    /// A random number generator fed by the host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rng: bool,
    /// One queue for each virtual CPU on virtio disks. A flavor may have it too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub block_multi_queue: bool,
    /// One queue for each virtual CPU on virtio network interfaces. A flavor may have it too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub network_multi_queue: bool,
    /// How disks share the threads that do their input and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_threads: Option<IoThreads>,
    /// A virtual TPM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpm: Option<Tpm>,
    /// Devices of the host handed to the guest: GPUs, NVMe disks, PCI cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_devices: Vec<HostDevice>,
}

/// How disks share their IO threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IoThreads {
    /// One thread for all disks that do not have one of their own.
    Shared,
    /// Threads are spread over the disks, at most two for each virtual CPU.
    Auto,
}

/// A virtual TPM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tpm {
    /// Keeps the TPM's state over restarts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub persistent: bool,
}

/// A device of the host handed to the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HostDevice {
    /// Its name inside the machine.
    pub name: DeviceName,
    /// The resource name hosts offer it under, for example `nvidia.com/GA102GL_A10`.
    pub device: String,
    /// Whether it is a GPU, which also gets a display for virtual GPUs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpu: bool,
}

/// What happens to a machine when its host is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Eviction {
    /// Trellis is told, drains the tenant node and replaces or moves the machine.
    #[default]
    External,
    /// The machine is moved while it runs; a drain waits until that has happened.
    LiveMigrate,
    /// Moved if it can be, else stopped.
    LiveMigrateIfPossible,
    /// Stopped with its host.
    None,
}

/// How the machine's firmware starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Firmware {
    /// Classic BIOS; UEFI where the architecture has none.
    #[default]
    Bios,
    /// UEFI.
    Uefi,
    /// UEFI that only starts signed code.
    UefiSecureBoot,
}

/// A processor architecture, in Kubernetes' spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// 64-bit x86.
    #[default]
    Amd64,
    /// 64-bit Arm.
    Arm64,
    /// IBM Z.
    S390x,
}

impl Architecture {
    /// As Kubernetes and KubeVirt spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
            Self::S390x => "s390x",
        }
    }
}

/// What the guest runs at first boot. Left empty, Trellis generates it.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "!(has(self.secret) && has(self.inline))", "message": "user data comes from a Secret or is written out, not both" }
]))]
pub struct UserData {
    /// A Secret of the control site whose key `userData` holds all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<ObjectName>,
    /// All of it, written out. Never shown in plans, events or logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// Upgrades all packages at first boot.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upgrade_packages: bool,
}

impl std::fmt::Debug for UserData {
    /// Leaves out the data itself: it holds tokens and keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { secret, inline, upgrade_packages } = self;
        f.debug_struct("UserData")
            .field("secret", secret)
            .field("inline", &inline.as_ref().map(|_| "(hidden)"))
            .field("upgrade_packages", upgrade_packages)
            .finish()
    }
}

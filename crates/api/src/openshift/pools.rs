//! Machine pools of an install-config.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trellis_model::machine::Architecture;
use trellis_model::network::Binding;
use trellis_model::ovirt::{OvirtDiskFormat, OvirtVmType};

use super::install::OtherPlatforms;
use crate::common::{Ignored, Text};

/// Equal machines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachinePool {
    /// The name of the pool.
    ///
    /// Honoured: `master` for the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many machines there are.
    ///
    /// Honoured: 3 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// The processor architecture.
    ///
    /// Honoured: arm64 machines start with UEFI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Architecture>,
    /// Whether processors show two threads for each core.
    ///
    /// Warned about: virtual processors show what their topology says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyperthreading: Option<Hyperthreading>,
    /// What the machines are on their platform.
    ///
    /// Honoured: it must be the platform of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<PoolPlatform>,
    /// How disks of machines are laid out.
    ///
    /// Ignored: it configures the operating system of OpenShift.
    #[serde(skip_serializing)]
    pub disk_setup: Ignored,
    /// How machines are cut off.
    ///
    /// Ignored: virtual machines are stopped through their platform.
    #[serde(skip_serializing)]
    pub fencing: Ignored,
}

/// Whether processors show two threads for each core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Hyperthreading {
    /// They do.
    Enabled,
    /// They do not.
    Disabled,
}

/// What the machines of a pool are on their platform.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolPlatform {
    /// On KubeVirt.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubevirt: Option<KubevirtPool>,
    /// On oVirt.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ovirt: Option<OvirtPool>,
    #[serde(flatten)]
    #[doc(hidden)]
    pub others: OtherPlatforms,
}

/// What machines are on KubeVirt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KubevirtPool {
    /// CPUs set aside for a machine.
    ///
    /// Honoured: as a request; 4 when left out everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Memory set aside for a machine.
    ///
    /// Honoured: as a request; 16G when left out everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Text>,
    /// The size of the boot volume.
    ///
    /// Honoured: 120Gi when left out everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_size: Option<Text>,
}

/// What machines are on oVirt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OvirtPool {
    /// An instance type of the engine, in place of CPU and memory.
    ///
    /// Honoured: cannot be given beside `cpu` or `memoryMB`.
    #[serde(rename = "instanceTypeID", skip_serializing_if = "Option::is_none")]
    pub instance_type_id: Option<String>,
    /// Processors.
    ///
    /// Honoured: 4 cores when left out everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<OvirtCpu>,
    /// Memory in mebibytes.
    ///
    /// Honoured: 16348 when left out everywhere.
    #[serde(rename = "memoryMB", skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
    /// The boot disk.
    ///
    /// Honoured: 120 gibibytes when left out everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_disk: Option<OvirtDisk>,
    /// What a machine is optimised for.
    ///
    /// Honoured: `high_performance` for the control plane and `server` for workers when left out everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_type: Option<OvirtVmType>,
    /// The affinity groups machines join.
    ///
    /// Honoured: that of their role when left out everywhere and the platform lists no groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity_groups_names: Option<Vec<String>>,
    /// Whether machines grow to, and are pinned to, the topology of their host.
    ///
    /// Honoured: not when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_pinning_policy: Option<AutoPinning>,
    /// The size of huge pages in kibibytes: 2048 or 1048576.
    ///
    /// Honoured: none when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hugepages: Option<u32>,
    /// Whether disks are copies of the template's.
    ///
    /// Honoured: the engine's default when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clone: Option<bool>,
    /// Whether disk space is allocated as it is used.
    ///
    /// Honoured: the engine's default when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse: Option<bool>,
    /// The format of disks.
    ///
    /// Honoured: the engine's default when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<OvirtDiskFormat>,
}

/// Processors of an oVirt machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OvirtCpu {
    /// Sockets.
    ///
    /// Honoured: 1 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<u32>,
    /// Cores in each socket.
    ///
    /// Honoured: 1 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Threads in each core.
    ///
    /// Honoured: 1 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
}

/// The boot disk of an oVirt machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OvirtDisk {
    /// Its size in gibibytes.
    ///
    /// Honoured: as it stands.
    #[serde(rename = "sizeGB", skip_serializing_if = "Option::is_none")]
    pub size_gb: Option<u32>,
}

/// Whether a machine is pinned to the topology of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AutoPinning {
    /// It is not.
    None,
    /// It grows to it and is pinned.
    ResizeAndPin,
}

/// How machines are connected to their network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BindingMethod {
    /// By a bridge.
    Bridge,
    /// By a virtual function of a network card.
    #[serde(rename = "SRIOV")]
    Sriov,
    /// By a bridge, in the spelling the installer writes.
    InterfaceBridge,
    /// By a virtual function of a network card, in the spelling the installer writes.
    #[serde(rename = "InterfaceSRIOV")]
    InterfaceSriov,
}

impl From<BindingMethod> for Binding {
    fn from(method: BindingMethod) -> Self {
        match method {
            BindingMethod::Bridge | BindingMethod::InterfaceBridge => Self::Bridge,
            BindingMethod::Sriov | BindingMethod::InterfaceSriov => Self::Sriov,
        }
    }
}

impl From<Binding> for BindingMethod {
    fn from(binding: Binding) -> Self {
        match binding {
            Binding::Sriov => Self::Sriov,
            Binding::Bridge | Binding::Masquerade => Self::Bridge,
        }
    }
}

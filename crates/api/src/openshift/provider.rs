//! What a machine of the machine API is on its platform.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trellis_model::ovirt::{OvirtDiskFormat, OvirtVmType};
use trellis_model::volume::AccessMode;

use super::pools::{AutoPinning, BindingMethod, OvirtCpu};
use crate::common::{ServerWritten, Text};

/// What a machine is on its platform; `kind` says which one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum MachineProviderSpec {
    /// On KubeVirt.
    Kubevirt(Box<KubevirtProviderSpec>),
    /// On oVirt.
    Ovirt(Box<OvirtProviderSpec>),
}

/// What a machine is on KubeVirt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KubevirtProviderSpec {
    /// The API group and version.
    ///
    /// Honoured: it tells what this is.
    pub api_version: String,
    /// The kind.
    ///
    /// Honoured: it tells what this is.
    pub kind: String,
    /// Metadata, which means nothing here.
    ///
    /// Ignored: a server writes it.
    #[serde(skip_serializing)]
    pub metadata: ServerWritten,
    /// The volume of the infra cluster that boot volumes are cloned from.
    ///
    /// Honoured: as the source of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_pvc_name: Option<String>,
    /// The Secret with the first-boot data.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignition_secret_name: Option<String>,
    /// The network attachment definition the machine is on.
    ///
    /// Honoured: on the pod network when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_name: Option<String>,
    /// Memory set aside.
    ///
    /// Honoured: as a request; 2048M when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_memory: Option<Text>,
    /// CPUs set aside.
    ///
    /// Honoured: as a request; one CPU without a request when left out.
    #[serde(rename = "requestedCPU", skip_serializing_if = "Option::is_none")]
    pub requested_cpu: Option<u32>,
    /// The size of the boot volume.
    ///
    /// Honoured: 35Gi when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_storage: Option<Text>,
    /// The storage class of the boot volume.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// How many hosts may use the boot volume at once.
    ///
    /// Honoured: `ReadWriteMany` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_access_mode: Option<AccessMode>,
    /// How the machine is connected to the network.
    ///
    /// Honoured: `Bridge` when left out; both spellings of SR-IOV are understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface_binding_method: Option<BindingMethod>,
    /// The Secret with the credentials of the infra cluster.
    ///
    /// Warned about: credentials belong to the cluster, and the actuator never read this either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_name: Option<String>,
}

/// What a machine is on oVirt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OvirtProviderSpec {
    /// The API group and version.
    ///
    /// Honoured: it tells what this is.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// The kind.
    ///
    /// Honoured: it tells what this is.
    pub kind: String,
    /// Metadata, which means nothing here.
    ///
    /// Ignored: a server writes it.
    #[serde(skip_serializing)]
    pub metadata: ServerWritten,
    /// The Secret with the first-boot data.
    ///
    /// Honoured: as it stands.
    #[serde(rename = "userDataSecret", skip_serializing_if = "Option::is_none")]
    pub user_data_secret: Option<SecretRef>,
    /// The Secret with the credentials of the engine.
    ///
    /// Honoured: as it stands, although the actuator always reads one of a fixed name.
    #[serde(rename = "credentialsSecret", skip_serializing_if = "Option::is_none")]
    pub credentials_secret: Option<SecretRef>,
    /// The engine's identifier of the machine.
    ///
    /// Warned about: the engine gives identifiers out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The engine's name of the machine.
    ///
    /// Warned about: Trellis names machines itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The template the machine is made from.
    ///
    /// Honoured: as the source of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_name: Option<String>,
    /// The engine's cluster of hosts.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// An instance type of the engine, in place of CPU and memory.
    ///
    /// Honoured: cannot be given beside `cpu` or `memory_mb`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_type_id: Option<String>,
    /// Processors.
    ///
    /// Honoured: as they stand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<OvirtCpu>,
    /// Memory in mebibytes.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
    /// Memory the host guarantees, in mebibytes.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guaranteed_memory_mb: Option<u32>,
    /// The boot disk.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_disk: Option<OsDisk>,
    /// What the machine is optimised for.
    ///
    /// Honoured: as it stands.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub vm_type: Option<OvirtVmType>,
    /// Network interfaces, in place of the template's.
    ///
    /// Honoured: in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<NetworkInterface>,
    /// The affinity groups the machine joins.
    ///
    /// Honoured: as they stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub affinity_groups_names: Vec<String>,
    /// Whether the machine grows to, and is pinned to, the topology of its host.
    ///
    /// Honoured: not when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_pinning_policy: Option<AutoPinning>,
    /// The size of huge pages in kibibytes: 2048 or 1048576; 0 for none.
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
    /// The storage domain of the disks.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_domain_id: Option<String>,
}

/// A Secret, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SecretRef {
    /// Its name.
    ///
    /// Honoured: as it stands.
    pub name: String,
}

/// The boot disk of an oVirt machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OsDisk {
    /// Its size in gibibytes.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_gb: Option<u32>,
}

/// A network interface of an oVirt machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NetworkInterface {
    /// The profile of its network.
    ///
    /// Honoured: as it stands.
    pub vnic_profile_id: String,
}

//! The kinds of Gardener's KubeVirt extension. They stand inside a Shoot or a CloudProfile.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::device::{Cpu, Devices, Memory};
use crate::common::{DnsConfig, Text};

/// Networks of a Shoot's machines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InfrastructureConfig {
    /// The version of the API.
    ///
    /// Honoured: it says which language the document is in.
    pub api_version: String,
    /// The kind of document.
    ///
    /// Honoured: it says what the document is.
    pub kind: String,
    /// Networks beside the infra cluster's pod network.
    ///
    /// Honoured: every machine is on all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks: Option<Networks>,
}

/// Networks beside the infra cluster's pod network.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Networks {
    /// Networks that exist already.
    ///
    /// Honoured: machines are attached to them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shared_networks: Vec<SharedNetwork>,
    /// Networks that live and die with the Shoot.
    ///
    /// Honoured: they are made, changed and removed with the tenant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenant_networks: Vec<TenantNetwork>,
}

/// A network that exists already.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SharedNetwork {
    /// The name of its NetworkAttachmentDefinition.
    ///
    /// Honoured: the network, and the name of the machines' interface on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The namespace of its NetworkAttachmentDefinition.
    ///
    /// Honoured: the infra namespace of the Shoot when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A network that lives and dies with the Shoot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TenantNetwork {
    /// Its name.
    ///
    /// Honoured: the name of the network and of the machines' interface on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its CNI configuration.
    ///
    /// Honoured: a JSON object that names a plugin or a chain of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Whether it takes the place of the pod network.
    ///
    /// Honoured: machines are then not on the pod network at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
}

/// Settings of a Shoot's control plane.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ControlPlaneConfig {
    /// The version of the API.
    ///
    /// Honoured: it says which language the document is in.
    pub api_version: String,
    /// The kind of document.
    ///
    /// Honoured: it says what the document is.
    pub kind: String,
    /// The cloud controller manager.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_controller_manager: Option<CloudControllerManager>,
}

/// The cloud controller manager.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudControllerManager {
    /// Features switched on or off by name.
    ///
    /// Honoured: handed to the tenant's cloud controller manager.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
}

/// Settings of the VMs of a worker pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkerConfig {
    /// The version of the API.
    ///
    /// Honoured: it says which language the document is in.
    pub api_version: String,
    /// The kind of document.
    ///
    /// Honoured: it says what the document is.
    pub kind: String,
    /// Disks and other devices.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<Devices>,
    /// Processors.
    ///
    /// Honoured: they refine the machine type; see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Memory.
    ///
    /// Honoured: it refines the machine type; see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Where name resolution comes from.
    ///
    /// Honoured: `ClusterFirst` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_policy: Option<String>,
    /// Name resolution beside what the policy gives.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_config: Option<DnsConfig>,
    /// Imports the image anew for each machine.
    ///
    /// Honoured: when true; otherwise the image is imported once and cloned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_pre_allocated_data_volumes: Option<bool>,
    /// Does not set aside memory for the emulator itself.
    ///
    /// Honoured: when true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overcommit_guest_overhead: Option<bool>,
}

/// Where images are, and limits of machine types.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudProfileConfig {
    /// The version of the API.
    ///
    /// Honoured: it says which language the document is in.
    pub api_version: String,
    /// The kind of document.
    ///
    /// Honoured: it says what the document is.
    pub kind: String,
    /// Where the machine images are.
    ///
    /// Honoured: the sources of the pools' images.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machine_images: Vec<ConfigImage>,
    /// Limits of the machine types.
    ///
    /// Honoured: limits of the pools that use them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machine_types: Vec<ConfigMachineType>,
}

/// A machine image.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigImage {
    /// Its name.
    ///
    /// Honoured: pools find the image by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its versions.
    ///
    /// Honoured: pools find the image by name and version.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<ConfigImageVersion>,
}

/// A version of a machine image.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigImageVersion {
    /// The version.
    ///
    /// Honoured: pools find the image by name and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Text>,
    /// Where the disk image is.
    ///
    /// Honoured: `http://`, `https://`, and beyond what the extension knows `docker://` and `oci-archive://`.
    #[serde(rename = "sourceURL", skip_serializing_if = "Option::is_none")]
    pub source_url: Option<String>,
}

/// Limits of a machine type.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigMachineType {
    /// The machine type's name.
    ///
    /// Honoured: the machine type of the CloudProfile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What its machines may not exceed.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
}

/// What machines may not exceed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// CPU time.
    ///
    /// Honoured: no limit when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Text>,
    /// Memory.
    ///
    /// Honoured: no limit when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Text>,
}

//! The CloudProfile: what machine types, images and volume types there are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::CloudProfileConfig;
use crate::common::{Embedded, Ignored, Metadata, ServerWritten, Text};

/// What an infrastructure offers to Shoots.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudProfile {
    /// The version of the API.
    ///
    /// Honoured: it says which language the document is in.
    pub api_version: String,
    /// The kind of document.
    ///
    /// Honoured: it says what the document is.
    pub kind: String,
    /// The profile's name.
    ///
    /// Honoured: Shoots find the profile by it.
    pub metadata: Metadata,
    /// What is offered.
    ///
    /// Honoured: see its fields.
    pub spec: CloudProfileSpec,
    /// What Gardener reports.
    #[serde(skip_serializing)]
    pub status: ServerWritten,
}

/// What a CloudProfile offers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudProfileSpec {
    /// The infrastructure.
    ///
    /// Refused: unless it is `kubevirt`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Machine types.
    ///
    /// Honoured: CPU and memory of the pools that use them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machine_types: Vec<MachineType>,
    /// Machine images.
    ///
    /// Mapped: `providerConfig` must say where each of them is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machine_images: Vec<ProfileImage>,
    /// Volume types.
    ///
    /// Honoured: storage classes of the disks that use them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume_types: Vec<VolumeType>,
    /// Regions and their zones.
    ///
    /// Mapped: a Shoot in a region or zone that is not listed gets a warning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<Region>,
    /// Where the images are, and limits of the machine types.
    ///
    /// Honoured: see CloudProfileConfig.
    #[serde(skip_serializing)]
    pub provider_config: Embedded<CloudProfileConfig>,
    /// Versions of Kubernetes.
    ///
    /// Ignored: Trellis has its own list of versions.
    #[serde(skip_serializing)]
    pub kubernetes: Ignored,
    /// Certificate authorities the machines trust.
    ///
    /// Ignored: put them into the machine image.
    #[serde(skip_serializing)]
    pub ca_bundle: Ignored,
    /// Which seed clusters may host control planes.
    ///
    /// Ignored: Trellis has no seed clusters.
    #[serde(skip_serializing)]
    pub seed_selector: Ignored,
    /// The machine people log in through.
    ///
    /// Ignored: Trellis makes no such machine.
    #[serde(skip_serializing)]
    pub bastion: Ignored,
    /// Limits of Shoots.
    ///
    /// Ignored: they are Gardener's quotas.
    #[serde(skip_serializing)]
    pub limits: Ignored,
    /// What machine types and images can be matched by.
    ///
    /// Ignored: a pool names its machine type and image.
    #[serde(skip_serializing)]
    pub machine_capabilities: Ignored,
}

/// A machine type.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineType {
    /// Its name.
    ///
    /// Honoured: pools find the type by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// CPUs.
    ///
    /// Honoured: what the host sets aside; 0 sets nothing aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Text>,
    /// Memory.
    ///
    /// Honoured: what the host sets aside; 0 sets nothing aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Text>,
    /// GPUs.
    ///
    /// Warned about: a number does not say which device of the host is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Text>,
    /// The root disk of pools that have no `volume`.
    ///
    /// Honoured: its size and volume type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<MachineTypeStorage>,
    /// The processor architecture.
    ///
    /// Honoured: that of pools that do not say theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Whether pools may use it.
    ///
    /// Warned about: when a pool uses a type that is marked as not usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usable: Option<bool>,
    /// What it can be matched by.
    ///
    /// Ignored: a pool names its machine type.
    #[serde(skip_serializing)]
    pub capabilities: Ignored,
}

/// The root disk of a machine type.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineTypeStorage {
    /// Its size.
    ///
    /// Honoured: the size of the root disk where a pool gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Text>,
    /// Its volume type.
    ///
    /// Honoured: the volume type of the root disk where a pool gives none.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// The class of the storage, such as `standard` or `premium`.
    ///
    /// Ignored: the volume type says which storage class is meant.
    #[serde(skip_serializing)]
    pub class: Ignored,
    /// The smallest size a pool may ask for.
    ///
    /// Ignored: a disk is as large as the pool says.
    #[serde(skip_serializing)]
    pub min_size: Ignored,
}

/// A machine image.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProfileImage {
    /// Its name.
    ///
    /// Honoured: `providerConfig` must have an image of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its versions.
    ///
    /// Honoured: `providerConfig` must say where each of them is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<ProfileImageVersion>,
    /// How far images are updated by themselves.
    ///
    /// Ignored: the Shoot's `maintenance` says whether images are updated.
    #[serde(skip_serializing)]
    pub update_strategy: Ignored,
}

/// A version of a machine image.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProfileImageVersion {
    /// The version.
    ///
    /// Honoured: `providerConfig` must say where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Text>,
    /// Whether it is supported, deprecated or a preview.
    ///
    /// Ignored: Trellis does not keep images' lives.
    #[serde(skip_serializing)]
    pub classification: Ignored,
    /// Until when it may be used.
    ///
    /// Ignored: Trellis does not keep images' lives.
    #[serde(skip_serializing)]
    pub expiration_date: Ignored,
    /// When which classification begins.
    ///
    /// Ignored: Trellis does not keep images' lives.
    #[serde(skip_serializing)]
    pub lifecycle: Ignored,
    /// Container runtimes in the image.
    ///
    /// Ignored: machines run the runtime that belongs to their version of Kubernetes.
    #[serde(skip_serializing)]
    pub cri: Ignored,
    /// Processor architectures the image is for.
    ///
    /// Ignored: the pool says which architecture its machines have.
    #[serde(skip_serializing)]
    pub architectures: Ignored,
    /// Kubelets the image works with.
    ///
    /// Ignored: Trellis installs the kubelet.
    #[serde(skip_serializing)]
    pub kubelet_version_constraint: Ignored,
    /// Whether machines can be updated to it in place.
    ///
    /// Ignored: machines are replaced, not updated in place.
    #[serde(skip_serializing)]
    pub in_place_updates: Ignored,
    /// What the image can be matched by.
    ///
    /// Ignored: a pool names its image.
    #[serde(skip_serializing)]
    pub capability_flavors: Ignored,
}

/// A volume type.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeType {
    /// Its name.
    ///
    /// Honoured: volumes find the type by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The storage class.
    ///
    /// Honoured: the storage class of the disks; `default` is the infra cluster's default class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Whether volumes may use it.
    ///
    /// Warned about: when a volume uses a type that is marked as not usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usable: Option<bool>,
    /// The smallest size a volume may ask for.
    ///
    /// Ignored: a disk is as large as the pool says.
    #[serde(skip_serializing)]
    pub min_size: Ignored,
}

/// A region.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Region {
    /// Its name.
    ///
    /// Mapped: a Shoot in another region gets a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its zones.
    ///
    /// Mapped: a pool in another zone gets a warning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<Zone>,
    /// Labels for choosing a seed cluster.
    ///
    /// Ignored: Trellis has no seed clusters.
    #[serde(skip_serializing)]
    pub labels: Ignored,
    /// Who may operate clusters of the region from where.
    ///
    /// Ignored: it is about Gardener's operators.
    #[serde(skip_serializing)]
    pub access_restrictions: Ignored,
}

/// A zone of a region.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Zone {
    /// Its name.
    ///
    /// Mapped: a pool in another zone gets a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Machine types the zone does not have.
    ///
    /// Ignored: the scheduler of the infra cluster finds out.
    #[serde(skip_serializing)]
    pub unavailable_machine_types: Ignored,
    /// Volume types the zone does not have.
    ///
    /// Ignored: the storage of the infra cluster finds out.
    #[serde(skip_serializing)]
    pub unavailable_volume_types: Ignored,
}

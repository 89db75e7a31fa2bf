//! CPUs, memory and disks of a machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config_var::ConfigVar;

/// CPUs, memory and disks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Template {
    /// CPUs the guest sees, without setting any aside.
    ///
    /// Honoured: as cores of one socket; cannot be given beside `cpus`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<Vcpus>,
    /// CPUs of the machine.
    ///
    /// Honoured: as request and limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<ConfigVar>,
    /// Memory of the machine.
    ///
    /// Honoured: as request and limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ConfigVar>,
    /// The disk the operating system is on.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_disk: Option<PrimaryDisk>,
    /// Further disks.
    ///
    /// Mapped: they are blank, as meant; the machine-controller writes the operating system on them too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secondary_disks: Vec<SecondaryDisk>,
}

/// CPUs the guest sees.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Vcpus {
    /// Cores of one socket.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
}

/// The disk the operating system is on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PrimaryDisk {
    /// Its size.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<ConfigVar>,
    /// Its storage class.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<ConfigVar>,
    /// How many hosts may use its volume at once.
    ///
    /// Honoured: left to the storage profile when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_access_type: Option<ConfigVar>,
    /// Whether the volume is a plain claim (`pvc`) or filled in from the storage profile (`storage`).
    ///
    /// Honoured: `storage` when left out, as the machine-controller does, though its documentation says `pvc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_target: Option<ConfigVar>,
    /// Where the disk image is: a URL, or a volume of the infra cluster as `[namespace/]name`.
    ///
    /// Honoured: imported once for all machines and then cloned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_image: Option<ConfigVar>,
    /// What the image is in: `http`, `registry` or `pvc`.
    ///
    /// Honoured: seen from the image's address when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<ConfigVar>,
    /// Who pulls an image from a registry: `node` or `pod`.
    ///
    /// Honoured: `node` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_method: Option<ConfigVar>,
    /// A Secret with the credentials of the web server or registry.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_volume_secret_ref: Option<ConfigVar>,
    /// Request headers for the web server, each as `Name: value`.
    ///
    /// Honoured: they are never shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-trellis-sensitive" = true))]
    pub extra_headers: Vec<String>,
    /// A Secret with request headers for the web server.
    ///
    /// Honoured: cannot be given beside `extraHeaders`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_headers_secret_ref: Option<ConfigVar>,
}

/// A further disk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SecondaryDisk {
    /// Its size.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<ConfigVar>,
    /// Its storage class.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<ConfigVar>,
    /// How many hosts may use its volume at once.
    ///
    /// Honoured: the machine-controller takes that of the first disk instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_access_type: Option<ConfigVar>,
}

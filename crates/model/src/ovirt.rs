//! What only oVirt knows of a cluster and of a machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{ObjectName, Uuid};
use crate::quantity::Bytes;
use crate::util::is_default;

/// Where on an oVirt engine a cluster's machines are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OvirtPlatform {
    /// The engine's cluster of hosts.
    pub cluster_id: Uuid,
    /// The storage domain disks lie on.
    pub storage_domain_id: Uuid,
    /// The network machines are on.
    #[serde(
        default = "OvirtPlatform::default_network",
        skip_serializing_if = "OvirtPlatform::is_default_network"
    )]
    pub network_name: String,
    /// The profile of that network; needed when it has more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnic_profile_id: Option<Uuid>,
    /// Groups whose machines keep apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affinity_groups: Vec<OvirtAffinityGroup>,
    /// Whether the load balancer in front of the API is somebody else's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub user_managed_load_balancer: bool,
}

impl OvirtPlatform {
    /// The network of an engine that nobody renamed.
    pub const DEFAULT_NETWORK: &'static str = "ovirtmgmt";

    fn default_network() -> String {
        Self::DEFAULT_NETWORK.to_owned()
    }

    fn is_default_network(name: &String) -> bool {
        name == Self::DEFAULT_NETWORK
    }
}

/// A group whose machines keep apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OvirtAffinityGroup {
    /// Its name.
    pub name: String,
    /// How it ranks among others, 0 to 5.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(range(max = 5))]
    pub priority: u8,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether a machine that cannot keep apart is not started at all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub enforcing: bool,
}

/// What only oVirt knows of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OvirtMachine {
    /// What the machine is optimised for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub vm_type: OvirtVmType,
    /// Memory the host guarantees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guaranteed_memory: Option<Bytes>,
    /// The affinity groups the machine joins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affinity_groups: Vec<String>,
    /// Grows and pins the machine to its host's topology.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resize_and_pin: bool,
    /// Copies the template's disks instead of layering on them; the engine's default when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clone_disks: Option<bool>,
    /// Allocates disk space as it is used; the engine's default when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparse: Option<bool>,
    /// The disks' format; the engine's default when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<OvirtDiskFormat>,
    /// The storage domain of the disks, when not the cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_domain_id: Option<Uuid>,
    /// An instance type of the engine, in place of CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_type_id: Option<Uuid>,
    /// The engine's cluster of hosts, when not the tenant cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<Uuid>,
    /// The Secret with the engine's credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<ObjectName>,
}

/// What an oVirt machine is optimised for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OvirtVmType {
    /// Desktops.
    Desktop,
    /// Servers.
    #[default]
    Server,
    /// As close to the hardware as possible.
    HighPerformance,
}

/// The format of an oVirt disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OvirtDiskFormat {
    /// Copy on write.
    Cow,
    /// Plain bytes.
    Raw,
}

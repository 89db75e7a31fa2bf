//! The KubeVirt part of a machine, in all its generations.
//!
//! Until March 2022 all settings stood side by side (the *flat* generation); then they moved into
//! `auth`, `virtualMachine` and `affinity` (the *nested* generations, of which the first had flavors
//! where today's has instance types). One type holds the fields of all of them; which generation a
//! manifest is of is seen from its keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::config_var::{ConfigVar, KeyRef};
pub use super::template::{PrimaryDisk, SecondaryDisk, Template, Vcpus};
use crate::common::DnsConfig;

/// The KubeVirt part of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-trellis-aliases" = { "nodeAntiAffinity": "nodeAntiAffinityPreset" }))]
pub struct CloudProviderSpec {
    /// The tenant cluster the machine belongs to.
    ///
    /// Honoured: pools of one cluster belong together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<ConfigVar>,
    /// The project the cluster belongs to.
    ///
    /// Warned about: Trellis knows no projects; put it in the labels of the template to keep it.
    #[serde(rename = "projectID", skip_serializing_if = "Option::is_none")]
    pub project_id: Option<ConfigVar>,
    /// How the infra cluster is reached.
    ///
    /// Mapped: a reference becomes the cluster's credentials; a kubeconfig that is written out is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// The virtual machine.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_machine: Option<Box<VirtualMachine>>,
    /// Where machines may run.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How evenly machines are spread over the infra cluster.
    ///
    /// Honoured: it replaces the spread over hosts that is in force otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<SpreadConstraint>,

    /// How the infra cluster is reached (flat generation).
    ///
    /// Mapped: a reference becomes the cluster's credentials; a kubeconfig that is written out is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-trellis-sensitive" = true))]
    pub kubeconfig: Option<ConfigVar>,
    /// CPUs of the machine (flat generation).
    ///
    /// Honoured: as request and limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<ConfigVar>,
    /// Memory of the machine (flat generation).
    ///
    /// Honoured: as request and limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ConfigVar>,
    /// The namespace of the infra cluster (flat generation).
    ///
    /// Honoured: everything of the cluster is there, so all pools must agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<ConfigVar>,
    /// The address of the disk image (flat generation).
    ///
    /// Honoured: as the source of the image.
    #[serde(rename = "sourceURL", skip_serializing_if = "Option::is_none")]
    pub source_url: Option<ConfigVar>,
    /// The size of the root disk (flat generation).
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_size: Option<ConfigVar>,
    /// The storage class of the root disk (flat generation).
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<ConfigVar>,
    /// Where name resolution comes from (flat generation).
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_policy: Option<ConfigVar>,
    /// Settings of name resolution (flat generation).
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_config: Option<DnsConfig>,
    /// Whether machines want to be on one host (flat generation).
    ///
    /// Honoured: as a wish or a demand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_affinity_preset: Option<ConfigVar>,
    /// Whether machines want to be on different hosts (flat generation).
    ///
    /// Honoured: as a wish or a demand; an empty text switches off what is in force otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity_preset: Option<ConfigVar>,
    /// Hosts that are wanted (flat generation).
    ///
    /// Honoured: as a wish or a demand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity_preset: Option<NodePreset>,
    /// Hosts that are avoided (flat generation).
    ///
    /// Honoured: as a wish or a demand, although the machine-controller never had it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_anti_affinity_preset: Option<NodePreset>,
}

/// How the infra cluster is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Auth {
    /// A kubeconfig, or where it is kept.
    ///
    /// Mapped: a reference becomes the cluster's credentials; a kubeconfig that is written out is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-trellis-sensitive" = true))]
    pub kubeconfig: Option<ConfigVar>,
}

/// The virtual machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualMachine {
    /// A flavor of the infra cluster, as KubeVirt once had them.
    ///
    /// Mapped: the name of a flavor of Trellis is used; any other is warned about and the template is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flavor: Option<Flavor>,
    /// An instance type of the infra cluster.
    ///
    /// Honoured: it takes the place of CPUs and memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instancetype: Option<Matcher>,
    /// A preference of the infra cluster.
    ///
    /// Honoured: it fills in device defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preference: Option<Matcher>,
    /// CPUs, memory and disks.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Template>,
    /// Where name resolution comes from.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_policy: Option<ConfigVar>,
    /// Settings of name resolution.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_config: Option<DnsConfig>,
    /// The region and zone of the infra cluster.
    ///
    /// Mapped: machines really run there; the machine-controller only puts labels on them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// A network of Kube-OVN.
    ///
    /// Mapped: its subnet becomes an annotation of the machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_network: Option<ProviderNetwork>,
    /// One queue for each virtual CPU on network interfaces.
    ///
    /// Honoured: true when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_network_multi_queue: Option<ConfigVar>,
    /// What happens to a machine when its host is drained.
    ///
    /// Honoured: `External` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_strategy: Option<EvictionStrategy>,
}

/// What happens to a machine when its host is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EvictionStrategy {
    /// The controller is told and replaces the machine.
    External,
    /// The machine is moved while it runs.
    LiveMigrate,
}

/// A flavor of the infra cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Flavor {
    /// Its name.
    ///
    /// Mapped: a flavor of Trellis, if there is one of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<ConfigVar>,
    /// A profile of it.
    ///
    /// Warned about: flavors of Trellis have no profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ConfigVar>,
}

/// An instance type or preference of the infra cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Matcher {
    /// Its name.
    ///
    /// Honoured: as it stands.
    pub name: String,
    /// Its kind, which says whether it belongs to the namespace or to the whole infra cluster.
    ///
    /// Honoured: the whole infra cluster when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The saved copy of it that a VM was made from.
    ///
    /// Warned about: KubeVirt saves such copies itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_name: Option<String>,
    /// A volume whose labels name it.
    ///
    /// Refused: what it is must be known before the machine is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infer_from_volume: Option<String>,
}

/// The region and zone of the infra cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Location {
    /// The region.
    ///
    /// Mapped: machines really run there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The zone.
    ///
    /// Mapped: machines really run there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// A network of Kube-OVN.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderNetwork {
    /// The name of the network.
    ///
    /// Warned about: only the subnet matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The virtual private cloud.
    ///
    /// Mapped: its subnet is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpc: Option<Vpc>,
}

/// A virtual private cloud of Kube-OVN.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Vpc {
    /// Its name.
    ///
    /// Warned about: only the subnet matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its subnet.
    ///
    /// Mapped: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet: Option<Subnet>,
}

/// A subnet of Kube-OVN.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Subnet {
    /// Its name.
    ///
    /// Mapped: it becomes the annotation `ovn.kubernetes.io/logical_switch` of the machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Where machines may run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// Whether machines want to be on one host.
    ///
    /// Honoured: although the machine-controller ignores it today.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_affinity_preset: Option<ConfigVar>,
    /// Whether machines want to be on different hosts.
    ///
    /// Honoured: although the machine-controller ignores it today.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_anti_affinity_preset: Option<ConfigVar>,
    /// Hosts that are wanted.
    ///
    /// Honoured: as a wish or a demand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity_preset: Option<NodePreset>,
}

/// Hosts by a label.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePreset {
    /// How strongly it holds: not at all (empty), `soft` or `hard`.
    ///
    /// Honoured: as it stands.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<ConfigVar>,
    /// The label's key.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<ConfigVar>,
    /// Its values; any value when empty.
    ///
    /// Honoured: as they stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<ConfigVar>,
}

/// How evenly machines are spread over the values of a host label.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SpreadConstraint {
    /// How many machines more than another a place may have.
    ///
    /// Honoured: 1 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_skew: Option<ConfigVar>,
    /// The host label whose values are the places.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_key: Option<ConfigVar>,
    /// What happens when it cannot be kept: `ScheduleAnyway` or `DoNotSchedule`.
    ///
    /// Honoured: `ScheduleAnyway` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_unsatisfiable: Option<ConfigVar>,
}

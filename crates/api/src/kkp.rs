//! Kubermatic's machine API: `cluster.k8s.io/v1alpha1` MachineDeployment, MachineSet and Machine.
//!
//! What a machine is on its platform is in [`provider`]; the KubeVirt part of it, which came in three
//! generations, in [`cloud`].

pub mod cloud;
pub mod config_var;
pub mod provider;
pub mod template;

use crate::machine_api::{LabelSelector, Taint};
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trellis_model::pool::DeletePolicy;

pub use self::provider::{Network, NetworkDns, OperatingSystemSpec, ProviderConfig, ProviderSpec};
use crate::common::{Ignored, IntOrText, Metadata, Present, ServerWritten, Text};

/// The API group and version of all kinds here.
pub const API_VERSION: &str = "cluster.k8s.io/v1alpha1";

/// A pool of machines whose template is rolled out step by step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeployment {
    /// The API group and version.
    ///
    /// Honoured: it tells what the document is.
    pub api_version: String,
    /// The kind of document.
    ///
    /// Honoured: it tells what the document is.
    pub kind: String,
    /// Name, namespace, labels and annotations.
    ///
    /// Mapped: the name is the pool's; the autoscaler's annotations become the pool's bounds.
    pub metadata: Metadata,
    /// What the pool is.
    ///
    /// Honoured: it becomes a pool of the model.
    pub spec: MachineDeploymentSpec,
    /// What a server says about the pool.
    ///
    /// Ignored: a server writes it.
    #[serde(skip_serializing)]
    pub status: ServerWritten,
}

/// What a MachineDeployment is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineDeploymentSpec {
    /// How many machines there are.
    ///
    /// Honoured: the pool has that many; 1 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Which machines belong to the deployment.
    ///
    /// Mapped: it must match the labels of the template; machines are found by their pool, not by it.
    pub selector: LabelSelector,
    /// What each machine is.
    ///
    /// Honoured: it becomes the template of the pool.
    pub template: MachineTemplate,
    /// How a changed template reaches the machines.
    ///
    /// Honoured: it becomes the update policy of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// Seconds a node must be ready before it counts as available.
    ///
    /// Honoured: an update goes on only after that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<u32>,
    /// How many old revisions are kept.
    ///
    /// Honoured: that many can be gone back to; 1 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<u32>,
    /// Stops updating.
    ///
    /// Honoured: only scaling goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Seconds without progress after which an update counts as failed.
    ///
    /// Honoured: Trellis keeps to it, although the machine-controller never looks at it; 600 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<u32>,
}

/// How a changed template reaches the machines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// The kind of update.
    ///
    /// Honoured: `RollingUpdate` is the only one there is.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<StrategyKind>,
    /// How many machines may be more or fewer meanwhile.
    ///
    /// Honoured: as bounds of the update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

/// The kind of update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StrategyKind {
    /// Step by step.
    RollingUpdate,
}

/// How many machines may be more or fewer during an update.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// How many machines more than `replicas` may exist.
    ///
    /// Honoured: machines being deleted are counted too; 1 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrText>,
    /// How many machines fewer than `replicas` may be available.
    ///
    /// Honoured: 0 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrText>,
}

/// A set of equal machines that are never replaced by themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSet {
    /// The API group and version.
    ///
    /// Honoured: it tells what the document is.
    pub api_version: String,
    /// The kind of document.
    ///
    /// Honoured: it tells what the document is.
    pub kind: String,
    /// Name, namespace, labels and annotations.
    ///
    /// Mapped: the name is the pool's.
    pub metadata: Metadata,
    /// What the set is.
    ///
    /// Mapped: it becomes a pool whose machines are only replaced when they are deleted.
    pub spec: MachineSetSpec,
    /// What a server says about the set.
    ///
    /// Ignored: a server writes it.
    #[serde(skip_serializing)]
    pub status: ServerWritten,
}

/// What a MachineSet is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSetSpec {
    /// How many machines there are.
    ///
    /// Honoured: the pool has that many; 1 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Seconds a node must be ready before it counts as available.
    ///
    /// Honoured: as for a MachineDeployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<u32>,
    /// Which machines go first when there are too many.
    ///
    /// Honoured: any when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_policy: Option<DeletePolicy>,
    /// Which machines belong to the set.
    ///
    /// Mapped: it must match the labels of the template; machines are found by their pool, not by it.
    pub selector: LabelSelector,
    /// What each machine is.
    ///
    /// Honoured: it becomes the template of the pool.
    pub template: MachineTemplate,
}

/// One machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Machine {
    /// The API group and version.
    ///
    /// Honoured: it tells what the document is.
    pub api_version: String,
    /// The kind of document.
    ///
    /// Honoured: it tells what the document is.
    pub kind: String,
    /// Name, namespace, labels and annotations.
    ///
    /// Honoured: the machine has that name, those labels and those annotations.
    pub metadata: Metadata,
    /// What the machine is.
    ///
    /// Mapped: it becomes a pool of exactly this machine.
    pub spec: MachineSpec,
    /// What a server says about the machine.
    ///
    /// Ignored: a server writes it.
    #[serde(skip_serializing)]
    pub status: ServerWritten,
}

/// What each machine of a set is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineTemplate {
    /// Labels and annotations of the machines.
    ///
    /// Honoured: they reach the machine objects and the VMs.
    pub metadata: Metadata,
    /// What each machine is.
    ///
    /// Honoured: it becomes the template of the pool.
    pub spec: MachineSpec,
}

/// What a machine is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSpec {
    /// Labels and annotations of the node.
    ///
    /// Honoured: they reach the tenant's node.
    pub metadata: Metadata,
    /// Taints of the node.
    ///
    /// Honoured: they are also taken away again, which the machine-controller does not do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// What the machine is on its platform.
    ///
    /// Honoured: see its fields.
    pub provider_spec: ProviderSpec,
    /// Versions of what runs on the machine.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versions: Option<Versions>,
    /// A dynamic configuration of the kubelet.
    ///
    /// Refused: Kubernetes has removed it.
    #[serde(skip_serializing)]
    pub config_source: Option<Present>,
    /// How the platform calls the machine.
    ///
    /// Refused: Trellis names machines itself; a template cannot name all of them alike.
    #[serde(rename = "providerID", skip_serializing)]
    pub provider_id: Option<String>,
}

/// Versions of what runs on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Versions {
    /// The version of the kubelet.
    ///
    /// Honoured: the machine runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<String>,
    /// The version of the control plane on the machine.
    ///
    /// Warned about: machines of this API are workers and have no control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<String>,
}

/// Settings that config variables refer to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigMap {
    /// The API group and version.
    ///
    /// Honoured: it tells what the document is.
    pub api_version: String,
    /// The kind of document.
    ///
    /// Honoured: it tells what the document is.
    pub kind: String,
    /// Name and namespace.
    ///
    /// Honoured: config variables find it by them.
    pub metadata: Metadata,
    /// The settings.
    ///
    /// Honoured: config variables that refer to one have its value.
    pub data: BTreeMap<String, Text>,
    /// Settings that are no text.
    ///
    /// Ignored: no setting of a machine is binary.
    #[serde(skip_serializing)]
    pub binary_data: Ignored,
    /// Whether it may change.
    ///
    /// Ignored: it is read once.
    #[serde(skip_serializing)]
    pub immutable: Ignored,
}

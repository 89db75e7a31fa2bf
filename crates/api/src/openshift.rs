//! OpenShift's manifests: the installer's `install-config.yaml` and the machine API
//! `machine.openshift.io/v1beta1`, each with its KubeVirt and oVirt part.

pub mod install;
pub mod pools;
pub mod provider;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trellis_model::pool::DeletePolicy;

use crate::common::{Embedded, Ignored, Metadata, ServerWritten};
use crate::machine_api::{LabelSelector, Taint};

/// The API group and version of MachineSet and Machine.
pub const API_VERSION: &str = "machine.openshift.io/v1beta1";

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
    /// Mapped: the name is the pool's; the autoscaler's annotations become the pool's bounds.
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
    /// Honoured: as it stands.
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
    /// Which of two APIs a machine is managed by.
    ///
    /// Ignored: Trellis manages the machine itself.
    #[serde(rename = "authoritativeAPI", skip_serializing)]
    pub authoritative_api: Ignored,
}

/// What each machine of a set is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineTemplate {
    /// Labels and annotations of the machines.
    ///
    /// Honoured: they reach the machine objects and the VMs; those that name cluster, role and set are understood.
    pub metadata: Metadata,
    /// What each machine is.
    ///
    /// Honoured: it becomes the template of the pool.
    pub spec: MachineSpec,
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
    /// Honoured: as they stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// What the machine is on its platform.
    ///
    /// Honoured: see its fields.
    pub provider_spec: ProviderSpec,
    /// How the platform calls the machine.
    ///
    /// Warned about: Trellis names machines itself.
    #[serde(rename = "providerID", skip_serializing)]
    pub provider_id: Option<String>,
    /// Whom to wait for before the machine is drained or deleted.
    ///
    /// Ignored: Trellis drains and deletes machines by its own order.
    #[serde(skip_serializing)]
    pub lifecycle_hooks: Ignored,
    /// Which of two APIs the machine is managed by.
    ///
    /// Ignored: Trellis manages the machine itself.
    #[serde(rename = "authoritativeAPI", skip_serializing)]
    pub authoritative_api: Ignored,
}

/// What a machine is on its platform.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderSpec {
    /// It, written out; its `kind` says for which platform.
    ///
    /// Honoured: see its fields.
    pub value: Embedded<provider::MachineProviderSpec>,
}

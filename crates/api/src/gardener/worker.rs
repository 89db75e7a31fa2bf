//! The worker pools of a Shoot.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::WorkerConfig;
use crate::common::{Embedded, Ignored, IntOrText, Text};

/// A worker pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Worker {
    /// The pool's name.
    ///
    /// Honoured: the name of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the machines are.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// The fewest machines.
    ///
    /// Honoured: the replicas, and the lower bound of autoscaling where `maximum` is higher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<u32>,
    /// The most machines.
    ///
    /// Honoured: the upper bound of autoscaling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<u32>,
    /// How many machines more there may be during an update.
    ///
    /// Honoured: a number or a percentage; 1 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrText>,
    /// How many machines fewer there may be during an update.
    ///
    /// Honoured: a number or a percentage; 0 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrText>,
    /// The disk with the operating system.
    ///
    /// Honoured: size and storage class of the root disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<Volume>,
    /// Further disks.
    ///
    /// Honoured: blank data disks, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data_volumes: Vec<Volume>,
    /// Zones of the infra cluster.
    ///
    /// Honoured: machines are shared out over them in this order; `default` means hosts without a zone label.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Settings of the VMs.
    ///
    /// Honoured: see WorkerConfig.
    #[serde(skip_serializing)]
    pub provider_config: Embedded<WorkerConfig>,
    /// Labels of the nodes.
    ///
    /// Honoured: labels of the tenant's nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the nodes.
    ///
    /// Honoured: annotations of the tenant's nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Taints of the nodes.
    ///
    /// Honoured: taints of the tenant's nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Kubernetes of this pool.
    ///
    /// Honoured: the version of the kubelet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<WorkerKubernetes>,
    /// How a changed pool reaches its machines.
    ///
    /// Warned about: machines are always replaced one after another; updates in place are not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<String>,
    /// The data volume the kubelet keeps its data on.
    ///
    /// Warned about: data disks stay blank; the kubelet keeps its data on the root disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_data_volume_name: Option<String>,
    /// Certificate authorities the machines trust.
    ///
    /// Ignored: put them into the machine image.
    #[serde(skip_serializing)]
    pub ca_bundle: Ignored,
    /// The container runtime.
    ///
    /// Ignored: machines run the runtime that belongs to their version of Kubernetes.
    #[serde(skip_serializing)]
    pub cri: Ignored,
    /// Whether Gardener's own programs may run there.
    ///
    /// Ignored: use taints to keep programs off a pool.
    #[serde(skip_serializing)]
    pub system_components: Ignored,
    /// Timeouts of Gardener's machine controller.
    ///
    /// Ignored: every phase of a machine has a deadline of Trellis's own.
    #[serde(skip_serializing)]
    pub machine_controller_manager: Ignored,
    /// Kernel settings.
    ///
    /// Ignored: put them into the machine image.
    #[serde(skip_serializing)]
    pub sysctls: Ignored,
    /// Settings of the cluster autoscaler for this pool.
    ///
    /// Ignored: Trellis keeps to `minimum` and `maximum` in its own way.
    #[serde(skip_serializing)]
    pub cluster_autoscaler: Ignored,
    /// Which pool the cluster autoscaler prefers.
    ///
    /// Ignored: each pool is scaled on its own.
    #[serde(skip_serializing)]
    pub priority: Ignored,
    /// Whether the pool runs the control plane of a self-hosted Shoot.
    ///
    /// Ignored: every pool of a Shoot is read as workers.
    #[serde(skip_serializing)]
    pub control_plane: Ignored,
}

/// What the machines of a pool are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Machine {
    /// The machine type.
    ///
    /// Honoured: CPU and memory of that type in the CloudProfile, else a flavor of that name.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// The machine image.
    ///
    /// Honoured: the operating system; its source is looked up in the CloudProfile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<MachineImage>,
    /// The processor architecture.
    ///
    /// Honoured: `amd64`, `arm64` or `s390x`; that of the machine type when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
}

/// The image of a pool's machines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineImage {
    /// The image's name.
    ///
    /// Mapped: the operating system of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The image's version.
    ///
    /// Honoured: with the name, it finds the image's source in the CloudProfile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Text>,
    /// Settings of the operating system.
    ///
    /// Ignored: they are in the language of Gardener's operating system extensions.
    #[serde(skip_serializing)]
    pub provider_config: Ignored,
}

/// A disk of a pool's machines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Its name.
    ///
    /// Warned about: for the root volume, whose disk is always called `root-disk`; honoured as the name of a data disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The volume type.
    ///
    /// Honoured: the storage class that the CloudProfile gives for it; `default` is the infra cluster's default class.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// How large it is.
    ///
    /// Honoured: the size of the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Text>,
    /// Whether it is encrypted.
    ///
    /// Refused: when true; encryption belongs to the storage class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Its key.
    ///
    /// Honoured: the key of the taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its value.
    ///
    /// Honoured: the value of the taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Text>,
    /// What it does.
    ///
    /// Honoured: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// When it was added.
    ///
    /// Ignored: only a server writes it.
    #[serde(skip_serializing)]
    pub time_added: Ignored,
}

/// Kubernetes of one pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkerKubernetes {
    /// The version of the kubelet.
    ///
    /// Honoured: the version of the pool's kubelets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Text>,
    /// Settings of the kubelet.
    ///
    /// Ignored: Trellis configures the kubelet itself.
    #[serde(skip_serializing)]
    pub kubelet: Ignored,
}

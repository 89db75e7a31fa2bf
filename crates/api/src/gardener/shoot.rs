//! The Shoot: a tenant cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::{ControlPlaneConfig, InfrastructureConfig};
use super::worker::Worker;
use crate::common::{Embedded, Ignored, Metadata, ServerWritten, Text};

/// A tenant cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Shoot {
    /// The version of the API.
    ///
    /// Honoured: it says which language the document is in.
    pub api_version: String,
    /// The kind of document.
    ///
    /// Honoured: it says what the document is.
    pub kind: String,
    /// Name and namespace.
    ///
    /// Honoured: name and namespace of the tenant cluster.
    pub metadata: Metadata,
    /// What the cluster is.
    ///
    /// Honoured: see its fields.
    pub spec: ShootSpec,
    /// What Gardener reports.
    #[serde(skip_serializing)]
    pub status: ServerWritten,
}

/// What a Shoot is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShootSpec {
    /// The CloudProfile that says what machine types, images and volume types there are.
    ///
    /// Honoured: shapes, image sources and storage classes are looked up in it when it is read together with the Shoot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_profile_name: Option<String>,
    /// The CloudProfile, with its kind.
    ///
    /// Mapped: like `cloudProfileName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_profile: Option<CloudProfileReference>,
    /// The SecretBinding that leads to the infra cluster's kubeconfig.
    ///
    /// Honoured: credentials and namespace of the infra cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_binding_name: Option<String>,
    /// The CredentialsBinding that leads to the infra cluster's kubeconfig.
    ///
    /// Mapped: like `secretBindingName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_binding_name: Option<String>,
    /// The region of the infra cluster the machines are in.
    ///
    /// Honoured: the region of every pool; `default` means hosts without a region label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// What runs the machines, and the machines themselves.
    ///
    /// Honoured: see its fields.
    pub provider: Provider,
    /// How the cluster is connected.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<ShootNetworking>,
    /// Which Kubernetes the cluster runs.
    ///
    /// Honoured: its version; see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<ShootKubernetes>,
    /// When and how far the cluster is updated without being asked.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<ShootMaintenance>,
    /// Programs Gardener installs in the cluster.
    ///
    /// Ignored: what runs in the tenant beside what nodes need is the tenant's own business.
    #[serde(skip_serializing)]
    pub addons: Ignored,
    /// The cluster's domain and who keeps its DNS records.
    ///
    /// Ignored: Trellis keeps no records with DNS providers.
    #[serde(skip_serializing)]
    pub dns: Ignored,
    /// Extensions of Gardener.
    ///
    /// Ignored: they are programs of Gardener.
    #[serde(skip_serializing)]
    pub extensions: Ignored,
    /// When the cluster sleeps.
    ///
    /// Ignored: Trellis does not put clusters to sleep; scale the pools instead.
    #[serde(skip_serializing)]
    pub hibernation: Ignored,
    /// Who is told about alerts.
    ///
    /// Ignored: it is about Gardener's monitoring.
    #[serde(skip_serializing)]
    pub monitoring: Ignored,
    /// What the cluster is used for.
    ///
    /// Ignored: Gardener sizes its own parts by it; machines do not depend on it.
    #[serde(skip_serializing)]
    pub purpose: Ignored,
    /// The seed cluster that hosts the control plane.
    ///
    /// Ignored: Trellis has no seed clusters.
    #[serde(skip_serializing)]
    pub seed_name: Ignored,
    /// Which seed clusters may host the control plane.
    ///
    /// Ignored: Trellis has no seed clusters.
    #[serde(skip_serializing)]
    pub seed_selector: Ignored,
    /// Objects that extensions refer to.
    ///
    /// Ignored: only extensions of Gardener refer to them.
    #[serde(skip_serializing)]
    pub resources: Ignored,
    /// Taints of seed clusters that are tolerated.
    ///
    /// Ignored: Trellis has no seed clusters.
    #[serde(skip_serializing)]
    pub tolerations: Ignored,
    /// How the API server is exposed.
    ///
    /// Ignored: exposure classes are made by operators of Gardener.
    #[serde(skip_serializing)]
    pub exposure_class_name: Ignored,
    /// Settings of programs Gardener runs in the cluster.
    ///
    /// Ignored: Trellis runs its own.
    #[serde(skip_serializing)]
    pub system_components: Ignored,
    /// How the hosted control plane survives failures.
    ///
    /// Ignored: Gardener hosts the control plane outside the machines described here.
    #[serde(skip_serializing)]
    pub control_plane: Ignored,
    /// Which scheduler chooses the seed cluster.
    ///
    /// Ignored: Trellis has no seed clusters.
    #[serde(skip_serializing)]
    pub scheduler_name: Ignored,
    /// Who may operate the cluster from where.
    ///
    /// Ignored: it is about Gardener's operators.
    #[serde(skip_serializing)]
    pub access_restrictions: Ignored,
}

/// A CloudProfile and its kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudProfileReference {
    /// Whether it is a CloudProfile or a NamespacedCloudProfile.
    ///
    /// Warned about: anything but `CloudProfile` is not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its name.
    ///
    /// Mapped: like `cloudProfileName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What runs the machines, and the machines themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Provider {
    /// The infrastructure.
    ///
    /// Refused: unless it is `kubevirt`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Networks of the machines.
    ///
    /// Honoured: shared and tenant networks; see InfrastructureConfig.
    #[serde(skip_serializing)]
    pub infrastructure_config: Embedded<InfrastructureConfig>,
    /// Settings of the cloud controller manager.
    ///
    /// Honoured: feature gates; see ControlPlaneConfig.
    #[serde(skip_serializing)]
    pub control_plane_config: Embedded<ControlPlaneConfig>,
    /// Worker pools.
    ///
    /// Honoured: each is a pool of machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<Worker>,
    /// Settings of all workers.
    ///
    /// Ignored: SSH access is decided by the keys a pool has.
    #[serde(skip_serializing)]
    pub workers_settings: Ignored,
}

/// How a Shoot is connected.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShootNetworking {
    /// The network plugin of the tenant.
    ///
    /// Honoured: `calico`, `cilium` and `flannel`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// The address range of the tenant's pods.
    ///
    /// Honoured: the range pods get their addresses from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<String>,
    /// The address range of the machines.
    ///
    /// Honoured: it must be given, and be that of the default tenant network or of the infra cluster's pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// The address range of the tenant's Services.
    ///
    /// Honoured: the range Services get their addresses from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<String>,
    /// Settings of the network plugin.
    ///
    /// Ignored: they are in the language of Gardener's network extensions.
    #[serde(skip_serializing)]
    pub provider_config: Ignored,
    /// Address families.
    ///
    /// Ignored: the families of the address ranges say the same.
    #[serde(skip_serializing)]
    pub ip_families: Ignored,
}

/// Which Kubernetes a Shoot runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShootKubernetes {
    /// The version.
    ///
    /// Honoured: the version of the control plane, and of the nodes where a pool says nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Text>,
    /// The controller manager.
    ///
    /// Mapped: the part of the pod range each node gets; nothing else of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_controller_manager: Option<KubeControllerManager>,
    /// The cluster autoscaler.
    ///
    /// Ignored: Trellis keeps to the bounds of the pools in its own way.
    #[serde(skip_serializing)]
    pub cluster_autoscaler: Ignored,
    /// The API server.
    ///
    /// Ignored: Gardener hosts it; Trellis configures its own.
    #[serde(rename = "kubeAPIServer", skip_serializing)]
    pub kube_api_server: Ignored,
    /// The scheduler.
    ///
    /// Ignored: Gardener hosts it; Trellis configures its own.
    #[serde(skip_serializing)]
    pub kube_scheduler: Ignored,
    /// The service proxy.
    ///
    /// Ignored: Trellis installs the proxy that the network plugin needs.
    #[serde(skip_serializing)]
    pub kube_proxy: Ignored,
    /// The kubelet.
    ///
    /// Ignored: Trellis configures the kubelet itself.
    #[serde(skip_serializing)]
    pub kubelet: Ignored,
    /// The vertical pod autoscaler.
    ///
    /// Ignored: it is a program inside the tenant.
    #[serde(skip_serializing)]
    pub vertical_pod_autoscaler: Ignored,
    /// Whether there is a kubeconfig with a fixed token.
    ///
    /// Ignored: Trellis hands out kubeconfigs with certificates.
    #[serde(skip_serializing)]
    pub enable_static_token_kubeconfig: Ignored,
    /// Whether containers may be privileged.
    ///
    /// Ignored: the tenant decides with pod security levels.
    #[serde(skip_serializing)]
    pub allow_privileged_containers: Ignored,
    /// The key-value store.
    ///
    /// Ignored: Gardener hosts it; Trellis configures its own.
    #[serde(skip_serializing)]
    pub etcd: Ignored,
}

/// The controller manager of a Shoot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeControllerManager {
    /// The prefix length of the part of the pod range each node gets.
    ///
    /// Honoured: the prefix length of a node's pods.
    #[serde(rename = "nodeCIDRMaskSize", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 8, max = 128))]
    pub node_cidr_mask_size: Option<u8>,
    /// The same for IPv6.
    ///
    /// Ignored: a Shoot has one pod range, and `nodeCIDRMaskSize` is for it.
    #[serde(rename = "nodeCIDRMaskSizeIPv6", skip_serializing)]
    pub node_cidr_mask_size_ipv6: Ignored,
    /// Features switched on or off by name.
    ///
    /// Ignored: Trellis configures its own controller manager.
    #[serde(skip_serializing)]
    pub feature_gates: Ignored,
    /// The horizontal pod autoscaler.
    ///
    /// Ignored: Trellis configures its own controller manager.
    #[serde(rename = "horizontalPodAutoscaler", skip_serializing)]
    pub horizontal_pod_autoscaler: Ignored,
    /// How long pods stay on a node that is gone.
    ///
    /// Ignored: Trellis configures its own controller manager.
    #[serde(skip_serializing)]
    pub pod_eviction_timeout: Ignored,
    /// How long a node may be silent.
    ///
    /// Ignored: Trellis configures its own controller manager.
    #[serde(skip_serializing)]
    pub node_monitor_grace_period: Ignored,
}

/// When and how far a Shoot is updated without being asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShootMaintenance {
    /// What is updated.
    ///
    /// Honoured: only what is set to true; Gardener's own default of true is not assumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_update: Option<AutoUpdate>,
    /// The daily window for it.
    ///
    /// Honoured: the window for updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_window: Option<TimeWindow>,
    /// Whether changes of the spec wait for the window.
    ///
    /// Ignored: Trellis applies a changed spec when it is told to.
    #[serde(skip_serializing)]
    pub confine_spec_update_rollout: Ignored,
    /// Which credentials are renewed.
    ///
    /// Ignored: Trellis renews the credentials it makes by itself.
    #[serde(skip_serializing)]
    pub auto_rotation: Ignored,
}

/// What of a Shoot is updated without being asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoUpdate {
    /// Patch versions of Kubernetes.
    ///
    /// Honoured: when true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<bool>,
    /// Versions of machine images.
    ///
    /// Honoured: when true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_image_version: Option<bool>,
}

/// A daily window of time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TimeWindow {
    /// When it begins.
    ///
    /// Honoured: hours, minutes, seconds and offset from UTC, `220000+0100`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-trellis-rule" = "a time with its offset from UTC such as 220000+0100"))]
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3])[0-5][0-9][0-5][0-9][+-](0[0-9]|1[0-4])[0-5][0-9]$"))]
    pub begin: Option<Text>,
    /// When it ends.
    ///
    /// Honoured: likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-trellis-rule" = "a time with its offset from UTC such as 220000+0100"))]
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3])[0-5][0-9][0-5][0-9][+-](0[0-9]|1[0-4])[0-5][0-9]$"))]
    pub end: Option<Text>,
}

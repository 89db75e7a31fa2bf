//! A tenant cluster: everything that is not a pool of machines.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::SshKey;
use crate::flavor::Flavor;
use crate::names::{ClusterName, DomainName, FlavorName, NamespaceName, ObjectName};
use crate::network::Networking;
use crate::ovirt::OvirtPlatform;
use crate::util::is_default;
use crate::version::KubernetesVersion;
use crate::volume::Storage;

/// A tenant cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its name.
    pub name: ClusterName,
    /// The namespace of the control site its record lives in.
    pub namespace: Option<NamespaceName>,
    /// What it is.
    pub spec: ClusterSpec,
}

/// What a tenant cluster is: where it runs, how it is connected, which Kubernetes it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.platform.kubevirt) == has(oldSelf.platform.kubevirt)", "message": "a cluster cannot move to another platform" },
    { "rule": "!has(oldSelf.baseDomain) || (has(self.baseDomain) && self.baseDomain == oldSelf.baseDomain)", "message": "the domain is in every certificate of the cluster and cannot change" }
]))]
pub struct ClusterSpec {
    /// Where the machines run.
    pub platform: Platform,
    /// The version of Kubernetes the control plane runs, and the nodes where a pool says nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<KubernetesVersion>,
    /// The domain below which the cluster's names live: `api.<cluster>.<baseDomain>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_domain: Option<DomainName>,
    /// How the cluster and its machines are connected.
    #[serde(default, skip_serializing_if = "is_default")]
    pub network: Networking,
    /// Public keys that may log in to every machine over SSH.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ssh_keys: BTreeSet<SshKey>,
    /// Flavors of this cluster, beside those of Trellis's catalogue.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flavors: BTreeMap<FlavorName, Flavor>,
    /// The cloud controller manager of the tenant.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cloud_controller: CloudController,
    /// When and how far Trellis updates the cluster by itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub maintenance: Maintenance,
}

/// Where machines run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Platform {
    /// An infra cluster with KubeVirt.
    Kubevirt(KubevirtPlatform),
    /// An oVirt engine.
    Ovirt(OvirtPlatform),
}

impl Platform {
    /// Its name in manifests and messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kubevirt(_) => "kubevirt",
            Self::Ovirt(_) => "ovirt",
        }
    }
}

/// Where on an infra cluster with KubeVirt machines are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubevirtPlatform {
    /// The namespace that holds everything of the cluster; named like the cluster when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<NamespaceName>,
    /// The storage of disks that do not say otherwise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub storage: Storage,
    /// How Trellis reaches the infra cluster; its own surroundings when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
}

/// Where a kubeconfig is kept. The kubeconfig itself never enters the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Credentials {
    /// What it is kept in.
    pub kind: CredentialsKind,
    /// The namespace of that object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<NamespaceName>,
    /// The name of that object.
    pub name: ObjectName,
    /// The key inside it.
    #[serde(default = "Credentials::default_key", skip_serializing_if = "Credentials::is_default_key")]
    pub key: String,
}

impl Credentials {
    /// The key a kubeconfig usually has.
    pub const DEFAULT_KEY: &'static str = "kubeconfig";

    fn default_key() -> String {
        Self::DEFAULT_KEY.to_owned()
    }

    fn is_default_key(key: &String) -> bool {
        key == Self::DEFAULT_KEY
    }
}

/// What credentials are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CredentialsKind {
    /// A Secret.
    Secret,
    /// A `ConfigMap`.
    ConfigMap,
}

/// The cloud controller manager of the tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CloudController {
    /// Features switched on or off by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
}

/// When and how far Trellis updates a cluster by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Maintenance {
    /// New patch versions of Kubernetes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub update_kubernetes: bool,
    /// New versions of machine images.
    #[serde(default, skip_serializing_if = "is_default")]
    pub update_images: bool,
    /// The daily window for it; any time when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<MaintenanceWindow>,
}

/// A daily window of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MaintenanceWindow {
    /// When it begins: hours, minutes, seconds and offset from UTC, `220000+0100`.
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3])[0-5][0-9][0-5][0-9][+-](0[0-9]|1[0-4])[0-5][0-9]$"))]
    pub begin: String,
    /// When it ends, likewise.
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3])[0-5][0-9][0-5][0-9][+-](0[0-9]|1[0-4])[0-5][0-9]$"))]
    pub end: String,
}

impl Cluster {
    /// The namespace of the infra cluster that holds the machines.
    ///
    /// Cluster names are valid namespace names, so the fallback always exists.
    pub fn infra_namespace(&self) -> &str {
        match &self.spec.platform {
            Platform::Kubevirt(KubevirtPlatform { namespace: Some(namespace), .. }) => namespace.as_str(),
            _ => self.name.as_str(),
        }
    }

    /// A flavor of the cluster, or of Trellis's catalogue.
    pub fn flavor(&self, name: &FlavorName) -> Option<Flavor> {
        self.spec.flavors.get(name).cloned().or_else(|| crate::flavor::catalogue().remove(name))
    }
}

//! `install-config.yaml`: what the installer is told of a whole cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trellis_model::network::Publish;
use trellis_model::volume::AccessMode;

use super::pools::{BindingMethod, KubevirtPool, MachinePool, OvirtPool};
use crate::common::{Ignored, IgnoredSecret, Metadata, Present};

/// What the installer is told of a whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallConfig {
    /// The version of the format.
    ///
    /// Honoured: it must be `v1`.
    pub api_version: String,
    /// The kind of document, which is usually left out.
    ///
    /// Honoured: it tells what the document is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The cluster's name.
    ///
    /// Honoured: the cluster has that name.
    pub metadata: Metadata,
    /// The domain below which the cluster's names live.
    ///
    /// Honoured: with `svc.cluster.local`, Services of the infra cluster are the names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_domain: Option<String>,
    /// Public SSH keys, one on each line.
    ///
    /// Honoured: they may log in to every machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_key: Option<String>,
    /// Credentials of the registries that OpenShift's own images come from.
    ///
    /// Ignored: Trellis installs no OpenShift, and does not keep secrets it does not need.
    #[serde(skip_serializing)]
    pub pull_secret: IgnoredSecret,
    /// The machines of the control plane.
    ///
    /// Honoured: they become a pool of that role; three machines when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<MachinePool>,
    /// The worker machines.
    ///
    /// Honoured: each becomes a pool; one pool of three machines when left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compute: Vec<MachinePool>,
    /// Where the machines run.
    ///
    /// Honoured: KubeVirt and oVirt; anything else is refused.
    pub platform: Platform,
    /// How the cluster and its machines are connected.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
    /// Who may reach the API from outside.
    ///
    /// Honoured: everyone when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish: Option<Publish>,
    /// Certificate authorities every machine trusts.
    ///
    /// Ignored: it configures the operating system, which the machine configs of Trellis do.
    #[serde(skip_serializing)]
    pub additional_trust_bundle: Ignored,
    /// When those certificate authorities are used.
    ///
    /// Ignored: it configures the operating system, which the machine configs of Trellis do.
    #[serde(skip_serializing)]
    pub additional_trust_bundle_policy: Ignored,
    /// A machine that only votes.
    ///
    /// Ignored: Trellis makes control planes of equal machines.
    #[serde(skip_serializing)]
    pub arbiter: Ignored,
    /// A cluster of one machine that bootstraps itself.
    ///
    /// Ignored: Trellis always bootstraps from a machine of its own.
    #[serde(skip_serializing)]
    pub bootstrap_in_place: Ignored,
    /// Optional components of OpenShift.
    ///
    /// Ignored: Trellis installs no OpenShift components.
    #[serde(skip_serializing)]
    pub capabilities: Ignored,
    /// Which CPUs are kept for the system.
    ///
    /// Ignored: it configures the kubelet of OpenShift.
    #[serde(skip_serializing)]
    pub cpu_partitioning_mode: Ignored,
    /// How OpenShift components get credentials of a cloud.
    ///
    /// Ignored: each tenant component gets a credential of its own.
    #[serde(skip_serializing)]
    pub credentials_mode: Ignored,
    /// Features of OpenShift that are switched on or off.
    ///
    /// Ignored: Trellis installs no OpenShift components.
    #[serde(skip_serializing)]
    pub feature_gates: Ignored,
    /// A set of features of OpenShift.
    ///
    /// Ignored: Trellis installs no OpenShift components.
    #[serde(skip_serializing)]
    pub feature_set: Ignored,
    /// Whether only certified cryptography is used.
    ///
    /// Ignored: that is decided by the image.
    #[serde(skip_serializing)]
    pub fips: Ignored,
    /// Mirrors of image registries, as they were once written.
    ///
    /// Ignored: OpenShift's own images are not used.
    #[serde(skip_serializing)]
    pub image_content_sources: Ignored,
    /// Mirrors of image registries.
    ///
    /// Ignored: OpenShift's own images are not used.
    #[serde(skip_serializing)]
    pub image_digest_sources: Ignored,
    /// Who may reach operators from outside.
    ///
    /// Ignored: Trellis installs no OpenShift components.
    #[serde(skip_serializing)]
    pub operator_publishing_strategy: Ignored,
    /// The proxy machines use, which may hold a password.
    ///
    /// Ignored: it configures the operating system, which the machine configs of Trellis do.
    #[serde(skip_serializing)]
    pub proxy: IgnoredSecret,
}

/// Where machines run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Platform {
    /// An infra cluster with KubeVirt.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubevirt: Option<KubevirtPlatform>,
    /// An oVirt engine.
    ///
    /// Honoured: see its fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ovirt: Option<OvirtPlatform>,
    #[serde(flatten)]
    #[doc(hidden)]
    pub others: OtherPlatforms,
}

macro_rules! other_platforms {
    ($($field:ident = $name:literal, $about:literal;)*) => {
        /// Platforms of the installer that Trellis does not have.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct OtherPlatforms {
            $(
                #[doc = $about]
                ///
                /// Refused: Trellis makes machines on KubeVirt and oVirt.
                #[serde(rename = $name, skip_serializing)]
                pub $field: Option<Present>,
            )*
        }

        impl OtherPlatforms {
            /// Their names in manifests.
            pub const NAMES: &'static [&'static str] = &[$($name),*];
        }
    };
}

other_platforms! {
    aws = "aws", "Amazon's cloud.";
    azure = "azure", "Microsoft's cloud.";
    alibabacloud = "alibabacloud", "Alibaba's cloud.";
    baremetal = "baremetal", "Machines without virtualization.";
    external = "external", "A platform that brings its own components.";
    gcp = "gcp", "Google's cloud.";
    ibmcloud = "ibmcloud", "IBM's cloud.";
    libvirt = "libvirt", "A single libvirt host.";
    none = "none", "No platform at all.";
    nutanix = "nutanix", "Nutanix.";
    openstack = "openstack", "OpenStack.";
    powervs = "powervs", "IBM's Power servers.";
    vsphere = "vsphere", "VMware's vSphere.";
}

/// Where on an infra cluster with KubeVirt machines are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KubevirtPlatform {
    /// The namespace that holds everything of the cluster.
    ///
    /// Honoured: the namespace is named like the cluster when left out, which the installer does not allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The network attachment definition in that namespace that machines are on.
    ///
    /// Honoured: machines are on that network only; on the pod network when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_name: Option<String>,
    /// The address where the API answers.
    ///
    /// Honoured: on a network of their own machines need it.
    #[serde(rename = "apiVIP", skip_serializing_if = "Option::is_none")]
    pub api_vip: Option<String>,
    /// The address where ingress answers.
    ///
    /// Honoured: on a network of their own machines need it.
    #[serde(rename = "ingressVIP", skip_serializing_if = "Option::is_none")]
    pub ingress_vip: Option<String>,
    /// The storage class of boot volumes.
    ///
    /// Honoured: the infra cluster's default when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// How machines are connected to the network.
    ///
    /// Honoured: `Bridge` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface_binding_method: Option<BindingMethod>,
    /// How many hosts may use a boot volume at once.
    ///
    /// Honoured: `ReadWriteMany` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_access_mode: Option<AccessMode>,
    /// What machines are that their pool says nothing about.
    ///
    /// Honoured: between the built-in values and those of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_machine_platform: Option<KubevirtPool>,
}

/// Where on an oVirt engine machines are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OvirtPlatform {
    /// The engine's cluster of hosts.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ovirt_cluster_id: Option<String>,
    /// The storage domain disks lie on.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ovirt_storage_domain_id: Option<String>,
    /// The network machines are on.
    ///
    /// Honoured: `ovirtmgmt` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ovirt_network_name: Option<String>,
    /// The profile of that network.
    ///
    /// Honoured: needed when the network has more than one.
    #[serde(rename = "vnicProfileID", skip_serializing_if = "Option::is_none")]
    pub vnic_profile_id: Option<String>,
    /// Addresses where the API answers.
    ///
    /// Honoured: one, or one of each family.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_vips: Vec<String>,
    /// Addresses where ingress answers.
    ///
    /// Honoured: one, or one of each family.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress_vips: Vec<String>,
    /// The address where the API answers, as it was once written.
    ///
    /// Mapped: to `api_vips`, with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_vip: Option<String>,
    /// The address where ingress answers, as it was once written.
    ///
    /// Mapped: to `ingress_vips`, with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress_vip: Option<String>,
    /// What machines are that their pool says nothing about.
    ///
    /// Honoured: between the built-in values and those of the pool.
    #[serde(rename = "defaultMachinePlatform", skip_serializing_if = "Option::is_none")]
    pub default_machine_platform: Option<OvirtPool>,
    /// Groups whose machines keep apart.
    ///
    /// Honoured: two groups, for control plane and workers, when left out; none when empty.
    #[serde(rename = "affinityGroups", skip_serializing_if = "Option::is_none")]
    pub affinity_groups: Option<Vec<AffinityGroup>>,
    /// The load balancer in front of the API.
    ///
    /// Honoured: see its fields.
    #[serde(rename = "loadBalancer", skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancer>,
}

/// A group whose machines keep apart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AffinityGroup {
    /// Its name.
    ///
    /// Honoured: as it stands.
    pub name: String,
    /// How it ranks among others, 0 to 5.
    ///
    /// Honoured: as it stands.
    #[schemars(range(max = 5))]
    pub priority: u8,
    /// What it is for.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether a machine that cannot keep apart is not started at all.
    ///
    /// Honoured: as it stands.
    pub enforcing: bool,
}

/// The load balancer in front of the API.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LoadBalancer {
    /// Whose it is.
    ///
    /// Honoured: the cluster's own when left out.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<LoadBalancerKind>,
}

/// Whose a load balancer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LoadBalancerKind {
    /// The cluster's own.
    OpenShiftManagedDefault,
    /// Somebody else's.
    UserManaged,
}

/// How the cluster and its machines are connected.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Networking {
    /// The network plugin.
    ///
    /// Honoured: `OVNKubernetes` when left out; one that Trellis does not know is the tenant's own to bring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_type: Option<String>,
    /// Address ranges of pods.
    ///
    /// Honoured: 10.128.0.0/14 when left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_network: Vec<ClusterNetwork>,
    /// Address ranges of Services.
    ///
    /// Honoured: 172.30.0.0/16 when left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub service_network: Vec<String>,
    /// Address ranges of machines.
    ///
    /// Honoured: the addresses of API and ingress must lie in them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machine_network: Vec<MachineNetwork>,
    /// The largest packet on the pod network.
    ///
    /// Ignored: the network plugin finds it itself.
    #[serde(rename = "clusterNetworkMTU", skip_serializing)]
    pub cluster_network_mtu: Ignored,
    /// Settings of OVN-Kubernetes.
    ///
    /// Ignored: the network plugin is installed with its own settings.
    #[serde(skip_serializing)]
    pub ovn_kubernetes_config: Ignored,
    /// The network plugin, as it was once written.
    ///
    /// Mapped: to `networkType`, with a warning.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub old_type: Option<String>,
    /// Address ranges of pods, as they were once written.
    ///
    /// Mapped: to `clusterNetwork`, with a warning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_networks: Vec<ClusterNetwork>,
    /// The address range of Services, as it was once written.
    ///
    /// Mapped: to `serviceNetwork`, with a warning.
    #[serde(rename = "serviceCIDR", skip_serializing_if = "Option::is_none")]
    pub service_cidr: Option<String>,
    /// The address range of machines, as it was once written.
    ///
    /// Mapped: to `machineNetwork`, with a warning.
    #[serde(rename = "machineCIDR", skip_serializing_if = "Option::is_none")]
    pub machine_cidr: Option<String>,
}

/// An address range of pods.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterNetwork {
    /// The range.
    ///
    /// Honoured: as it stands.
    pub cidr: String,
    /// The prefix length of the part each node gets.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_prefix: Option<u8>,
    /// The length of the rest of an address, as it was once written.
    ///
    /// Mapped: to `hostPrefix`, with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_subnet_length: Option<u8>,
}

/// An address range of machines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineNetwork {
    /// The range.
    ///
    /// Honoured: as it stands.
    pub cidr: String,
}

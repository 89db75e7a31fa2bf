//! The KubeVirt part of a machine, in all its generations.
//!
//! Until March 2022 all settings stood side by side (the *flat* generation); then they moved into
//! `auth`, `virtualMachine` and `affinity` (the *nested* generations, of which the first had flavors
//! where today's has instance types). One type holds the fields of all of them; which generation a
//! manifest is of is seen from its keys.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::common::Text;

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

/// Settings of name resolution, as a pod has them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsConfig {
    /// Addresses of name servers.
    ///
    /// Honoured: as they stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<String>,
    /// Domains that short names are looked up in.
    ///
    /// Honoured: as they stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<String>,
    /// Options of the resolver.
    ///
    /// Honoured: as they stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<DnsOption>,
}

/// An option of the resolver.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DnsOption {
    /// Its name.
    ///
    /// Honoured: as it stands.
    pub name: String,
    /// Its value.
    ///
    /// Honoured: as it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Text>,
}

/// A setting that is written out, or a reference to where it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct ConfigVar {
    /// It, written out.
    pub value: Option<String>,
    /// The key of a Secret it is kept under.
    pub secret_key_ref: Option<KeyRef>,
    /// The key of a ConfigMap it is kept under.
    pub config_map_key_ref: Option<KeyRef>,
}

impl ConfigVar {
    /// A setting that is written out.
    pub fn of(value: impl ToString) -> Self {
        Self { value: Some(value.to_string()), ..Self::default() }
    }
}

/// How a [`ConfigVar`] stands in a document.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Scalar(String),
    Long(LongForm),
}

/// A setting with a reference to where it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct LongForm {
    /// It, written out.
    ///
    /// Honoured: unless a reference stands beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Text>,
    /// The key of a Secret it is kept under.
    ///
    /// Refused: except for a kubeconfig, whose place is all that Trellis needs to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret_key_ref: Option<KeyRef>,
    /// The key of a ConfigMap it is kept under.
    ///
    /// Refused: except for a kubeconfig, whose place is all that Trellis needs to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    config_map_key_ref: Option<KeyRef>,
}

impl From<Form> for ConfigVar {
    fn from(form: Form) -> Self {
        match form {
            Form::Scalar(value) => Self::of(value),
            Form::Long(long) => Self {
                value: long.value.map(|text| text.0),
                secret_key_ref: long.secret_key_ref,
                config_map_key_ref: long.config_map_key_ref,
            },
        }
    }
}

impl From<ConfigVar> for Form {
    fn from(var: ConfigVar) -> Self {
        match var {
            ConfigVar { value: Some(value), secret_key_ref: None, config_map_key_ref: None } => {
                Self::Scalar(value)
            }
            ConfigVar { value, secret_key_ref, config_map_key_ref } => {
                Self::Long(LongForm { value: value.map(Text), secret_key_ref, config_map_key_ref })
            }
        }
    }
}

impl JsonSchema for ConfigVar {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ConfigVar".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let text = generator.subschema_for::<Text>();
        let long = generator.subschema_for::<LongForm>();
        json_schema!({ "anyOf": [text, long], "x-trellis-kind": "config variable" })
    }
}

/// A key of a Secret or ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KeyRef {
    /// The namespace of the object.
    ///
    /// Honoured: for a kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the object.
    ///
    /// Honoured: for a kubeconfig.
    pub name: String,
    /// The key inside it.
    ///
    /// Honoured: for a kubeconfig.
    pub key: String,
}

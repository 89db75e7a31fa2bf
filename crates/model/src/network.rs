//! Networks of a cluster and network interfaces of its machines.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{DeviceName, LabelKey, MacAddress, NamespaceName, ObjectName};
use crate::util::is_default;

/// How the cluster and its machines are connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "!has(self.machineNetworks) || self.machineNetworks.filter(n, has(n.default) && n.default).size() <= 1", "message": "at most one network can take the pod network's place" },
    { "rule": "has(self.apiVips) == has(self.ingressVips)", "message": "give apiVips and ingressVips, or neither" }
]))]
pub struct Networking {
    /// The network plugin of the tenant cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<NetworkPlugin>,
    /// Address ranges of the tenant's pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<PodRange>,
    /// Address ranges of the tenant's Services.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Cidr>,
    /// Address ranges the machines are in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Cidr>,
    /// Whether machines are on the infra cluster's pod network. A `default` network takes its place.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub attach_pod_network: bool,
    /// How machines are connected to the pod network.
    #[serde(default = "Binding::masquerade", skip_serializing_if = "Binding::is_masquerade")]
    pub pod_network_binding: Binding,
    /// Further networks every machine is on, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub machine_networks: Vec<MachineNetwork>,
    /// Addresses on the machines' network where the API answers; needed without the pod network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_vips: Vec<Address>,
    /// Addresses on the machines' network where ingress answers; needed without the pod network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ingress_vips: Vec<Address>,
    /// Who may reach the API from outside.
    #[serde(default, skip_serializing_if = "is_default")]
    pub publish: Publish,
    /// Infra addresses the tenant must reach although it is isolated, such as a private registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_egress: Vec<Cidr>,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

impl Default for Networking {
    fn default() -> Self {
        Self {
            plugin: None,
            pods: Vec::new(),
            services: Vec::new(),
            nodes: Vec::new(),
            attach_pod_network: true,
            pod_network_binding: Binding::Masquerade,
            machine_networks: Vec::new(),
            api_vips: Vec::new(),
            ingress_vips: Vec::new(),
            publish: Publish::default(),
            allowed_egress: Vec::new(),
        }
    }
}

impl Networking {
    /// The network that takes the pod network's place, if one does.
    pub fn default_network(&self) -> Option<&MachineNetwork> {
        self.machine_networks.iter().find(|network| network.default)
    }

    /// Whether machines are on the infra cluster's pod network.
    pub fn uses_pod_network(&self) -> bool {
        self.attach_pod_network && self.default_network().is_none()
    }

    /// The interfaces of a machine that does not list its own: the pod network or what takes its
    /// place first, then the others in order.
    pub fn implied_nics(&self) -> Vec<Nic> {
        let mut nics = Vec::new();
        if self.uses_pod_network() {
            nics.push(Nic::new(
                DeviceName::trusted("default"),
                NicNetwork::Pod(PodNetwork {}),
                self.pod_network_binding,
            ));
        }
        let (first, rest): (Vec<_>, Vec<_>) =
            self.machine_networks.iter().partition(|network| network.default);
        for network in first.into_iter().chain(rest) {
            nics.push(Nic::new(
                network.name.clone(),
                NicNetwork::Machine(network.name.clone()),
                network.binding,
            ));
        }
        nics
    }
}

/// The network plugin of a tenant cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NetworkPlugin {
    /// Calico.
    #[serde(rename = "calico")]
    Calico,
    /// Cilium.
    #[serde(rename = "cilium")]
    Cilium,
    /// Flannel.
    #[serde(rename = "flannel")]
    Flannel,
    /// OVN-Kubernetes.
    #[serde(rename = "OVNKubernetes")]
    OvnKubernetes,
    /// OpenShift SDN.
    #[serde(rename = "OpenShiftSDN")]
    OpenshiftSdn,
    /// None: the tenant brings its own.
    #[serde(rename = "none")]
    None,
}

/// An address range the tenant's pods get their addresses from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodRange {
    /// The range.
    pub cidr: Cidr,
    /// The prefix length of the part each node gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 8, max = 128))]
    pub node_prefix: Option<u8>,
}

/// An address range such as `10.0.0.0/16`; host bits are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "IpNet", into = "IpNet")]
pub struct Cidr(IpNet);

impl From<IpNet> for Cidr {
    fn from(net: IpNet) -> Self {
        Self::new(net)
    }
}

impl From<Cidr> for IpNet {
    fn from(cidr: Cidr) -> Self {
        cidr.0
    }
}

impl Cidr {
    /// The range an address with a prefix length lies in.
    pub fn new(net: IpNet) -> Self {
        Self(net.trunc())
    }

    /// The range.
    pub fn net(self) -> IpNet {
        self.0
    }

    /// Whether two ranges share an address.
    pub fn overlaps(self, other: Self) -> bool {
        self.0.contains(&other.0) || other.0.contains(&self.0)
    }

    /// Whether the address lies in the range.
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::str::FromStr for Cidr {
    type Err = ipnet::AddrParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self::new)
    }
}

/// An address with the prefix length of its network, such as `10.0.0.5/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InterfaceAddress(pub IpNet);

/// An IP address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Address(pub IpAddr);

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

macro_rules! string_schemas {
    ($($ty:ident: $rule:literal, $pattern:literal;)*) => {$(
        impl JsonSchema for $ty {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($ty).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": $pattern, "x-trellis-rule": $rule })
            }
        }
    )*};
}

string_schemas! {
    Cidr: "an address range such as 10.0.0.0/16 or fd00::/48", r"^[0-9A-Fa-f:.]+/[0-9]{1,3}$";
    InterfaceAddress: "an address with a prefix length such as 10.0.0.5/24", r"^[0-9A-Fa-f:.]+/[0-9]{1,3}$";
    Address: "an IP address such as 10.0.0.5 or fd00::5", r"^[0-9A-Fa-f:.]+$";
}

/// A network every machine of the cluster is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineNetwork {
    /// Its name inside the cluster, and the name of the machines' interface on it.
    pub name: DeviceName,
    /// Where the network is defined.
    pub source: NetworkSource,
    /// Takes the place of the pod network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub default: bool,
    /// How machines are connected to it.
    #[serde(default = "Binding::bridge", skip_serializing_if = "Binding::is_bridge")]
    pub binding: Binding,
}

/// Where a network is defined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NetworkSource {
    /// A network that exists in the infra cluster and may be used by several tenants.
    Shared(SharedNetwork),
    /// A network that is made, changed and removed with the tenant.
    Tenant(TenantNetwork),
}

/// A network attachment definition that exists already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SharedNetwork {
    /// Its namespace; the tenant's own when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<NamespaceName>,
    /// Its name.
    pub name: ObjectName,
}

/// A network made for the tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantNetwork {
    /// Its CNI configuration, a JSON object.
    pub config: crate::cni::CniConfig,
}

/// How an interface is connected to its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Binding {
    /// Behind an address translation of its own; only on the pod network.
    Masquerade,
    /// Bridged: the guest has the address the network gives.
    Bridge,
    /// A virtual function of a host's network card.
    #[serde(rename = "SRIOV")]
    Sriov,
}

impl Binding {
    fn masquerade() -> Self {
        Self::Masquerade
    }

    fn bridge() -> Self {
        Self::Bridge
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_masquerade(&self) -> bool {
        *self == Self::Masquerade
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_bridge(&self) -> bool {
        *self == Self::Bridge
    }
}

/// A network interface of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenNic", into = "WrittenNic")]
pub struct Nic {
    /// Its name inside the machine.
    pub name: DeviceName,
    /// The network it is on.
    pub network: NicNetwork,
    /// How it is connected.
    pub binding: Binding,
    /// A fixed hardware address; only for a pool of one machine.
    pub mac: Option<MacAddress>,
    /// Fixed addresses; DHCP when left out.
    pub addresses: Option<StaticAddresses>,
}

/// A network interface as it is written.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenNic {
    /// Its name inside the machine.
    name: DeviceName,
    /// The network it is on.
    network: NicNetwork,
    /// How it is connected: Masquerade on the pod network and Bridge on others when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    binding: Option<Binding>,
    /// A fixed hardware address; only for a pool of one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mac: Option<MacAddress>,
    /// Fixed addresses; DHCP when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    addresses: Option<StaticAddresses>,
}

impl From<WrittenNic> for Nic {
    fn from(written: WrittenNic) -> Self {
        let WrittenNic { name, network, binding, mac, addresses } = written;
        let binding = binding.unwrap_or_else(|| network.usual_binding());
        Self { name, network, binding, mac, addresses }
    }
}

impl From<Nic> for WrittenNic {
    fn from(nic: Nic) -> Self {
        let Nic { name, network, binding, mac, addresses } = nic;
        let binding = (binding != network.usual_binding()).then_some(binding);
        Self { name, network, binding, mac, addresses }
    }
}

impl JsonSchema for Nic {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Nic".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        WrittenNic::json_schema(generator)
    }
}

impl Nic {
    /// An interface with nothing special.
    pub fn new(name: DeviceName, network: NicNetwork, binding: Binding) -> Self {
        Self { name, network, binding, mac: None, addresses: None }
    }
}

/// The network an interface is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NicNetwork {
    /// The infra cluster's pod network.
    Pod(PodNetwork),
    /// A network of the cluster, by its name there.
    Machine(DeviceName),
    /// A network attachment definition that exists already.
    Shared(SharedNetwork),
    /// A virtual network of the oVirt engine, by its profile.
    OvirtProfile(crate::names::Uuid),
}

impl NicNetwork {
    /// How interfaces are connected to it when nothing is said.
    fn usual_binding(&self) -> Binding {
        match self {
            Self::Pod(_) => Binding::Masquerade,
            _ => Binding::Bridge,
        }
    }
}

/// The infra cluster's pod network. It has no settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PodNetwork {}

/// Fixed addresses for the machines of a pool: each takes the next one from the first on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticAddresses {
    /// The address of the pool's first machine, with the prefix length of the network.
    pub first: InterfaceAddress,
    /// The router for everything outside the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Address>,
    /// Name servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<Address>,
}

impl StaticAddresses {
    /// The address of the machine with that number, if the network still has one.
    pub fn address_of(&self, ordinal: u32) -> Option<IpNet> {
        let net = self.first.0;
        let address = match net.addr() {
            IpAddr::V4(v4) => IpAddr::V4(u32::from(v4).checked_add(ordinal)?.into()),
            IpAddr::V6(v6) => IpAddr::V6(u128::from(v6).checked_add(u128::from(ordinal))?.into()),
        };
        let is_broadcast =
            matches!(net, IpNet::V4(v4) if v4.prefix_len() < 31 && IpAddr::V4(v4.broadcast()) == address);
        (net.contains(&address) && !is_broadcast)
            .then(|| IpNet::new(address, net.prefix_len()).ok())
            .flatten()
    }
}

/// Who may reach the cluster's API from outside the infra cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Publish {
    /// Everyone the load balancer lets in.
    #[default]
    External,
    /// Only the infra cluster.
    Internal,
}

/// Name resolution of a machine's pod, as Kubernetes knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "!has(self.policy) || self.policy != 'None' || has(self.nameservers)", "message": "the policy None needs a name server" }
]))]
pub struct Dns {
    /// Where the settings come from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: DnsPolicy,
    /// Name servers, at most three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nameservers: Vec<Address>,
    /// Domains that short names are looked up in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<String>,
    /// Options of the resolver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<DnsOption>,
}

/// Where a pod's name resolution comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum DnsPolicy {
    /// The infra cluster's DNS.
    #[default]
    ClusterFirst,
    /// The infra cluster's DNS, also on the host's network.
    ClusterFirstWithHostNet,
    /// The host's own.
    Default,
    /// Only what is written here.
    None,
}

impl DnsPolicy {
    /// As Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterFirst => "ClusterFirst",
            Self::ClusterFirstWithHostNet => "ClusterFirstWithHostNet",
            Self::Default => "Default",
            Self::None => "None",
        }
    }
}

/// An option of the resolver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DnsOption {
    /// Its name, for example `ndots`.
    pub name: String,
    /// Its value, for those that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// A taint on the tenant's nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeTaint {
    /// Its key.
    pub key: LabelKey,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<crate::names::LabelValue>,
    /// What it does.
    pub effect: crate::placement::TaintEffect,
}

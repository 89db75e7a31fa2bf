//! How a Shoot and its machines are connected.

use std::collections::BTreeSet;

use trellis_api::gardener::shoot::{ShootKubernetes, ShootNetworking};
use trellis_api::gardener::{ControlPlaneConfig, InfrastructureConfig};
use trellis_model::cluster::CloudController;
use trellis_model::names::{DeviceName, ObjectName};
use trellis_model::network::{
    Binding, Cidr, MachineNetwork, NetworkPlugin, NetworkSource, Networking, PodRange, SharedNetwork,
    TenantNetwork,
};

use super::origins::Origins;
use super::words::{missing, required};
use crate::path::FieldPath;
use crate::reading::Cx;
use crate::shared::choose;

/// The network plugins a Shoot can name.
pub(super) const PLUGINS: &[(&str, NetworkPlugin)] = &[
    ("calico", NetworkPlugin::Calico),
    ("cilium", NetworkPlugin::Cilium),
    ("flannel", NetworkPlugin::Flannel),
];

/// Reads the plugin and the address ranges.
pub(super) fn ranges(
    cx: &mut Cx<'_>,
    origins: &mut Origins,
    networking: Option<&ShootNetworking>,
    kubernetes: Option<&ShootKubernetes>,
) -> Networking {
    let document = cx.document();
    let spec = FieldPath::root().child("spec");
    let at = spec.child("networking");
    let default = ShootNetworking::default();
    let text = networking.unwrap_or(&default);
    let mut read = Networking::default();
    for (model, field) in [
        ("plugin", "type"),
        ("pods", "pods"),
        ("services", "services"),
        ("nodes", "nodes"),
        ("machineNetworks", ""),
    ] {
        let source = if field.is_empty() {
            spec.child("provider").child("infrastructureConfig")
        } else {
            at.child(field)
        };
        origins.add(format!("network.{model}"), document, &source);
    }
    if let Some(plugin) = text.type_.as_deref().filter(|plugin| !plugin.is_empty()) {
        read.plugin = choose(cx, &at.child("type"), plugin, PLUGINS);
    }
    let manager = kubernetes.and_then(|kubernetes| kubernetes.kube_controller_manager.as_ref());
    let node_prefix = manager.and_then(|manager| manager.node_cidr_mask_size);
    if let Some(cidr) = cx.parse_opt(&at.child("pods"), text.pods.as_deref()) {
        read.pods.push(PodRange { cidr, node_prefix });
    }
    read.services.extend(cx.parse_opt::<Cidr>(&at.child("services"), text.services.as_deref()));
    if text.nodes.as_deref().is_none_or(str::is_empty) {
        missing(
            cx,
            &at.child("nodes"),
            "the machines need an address range",
            "add `nodes`: the range of the default tenant network if there is one, else that of the infra cluster's pods",
        );
    }
    read.nodes.extend(cx.parse_opt::<Cidr>(&at.child("nodes"), text.nodes.as_deref()));
    read
}

/// Reads the networks of an InfrastructureConfig that stands at `base`.
pub(super) fn machine_networks(
    cx: &mut Cx<'_>,
    origins: &mut Origins,
    base: &FieldPath,
    config: &InfrastructureConfig,
) -> Vec<MachineNetwork> {
    let document = cx.document();
    let at = base.child("networks");
    let Some(networks) = &config.networks else { return Vec::new() };
    let mut read: Vec<MachineNetwork> = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, shared) in networks.shared_networks.iter().enumerate() {
        let at = at.child("sharedNetworks").index(index);
        let why = "a shared network is found by its name";
        let Some(name) = required(cx, &at.child("name"), shared.name.as_deref(), why) else { continue };
        let Some(object) = cx.parse::<ObjectName>(&at.child("name"), name) else { continue };
        let namespace = cx.parse_opt(&at.child("namespace"), shared.namespace.as_deref());
        if !seen.insert((namespace.clone(), object.clone())) {
            cx.error("duplicate-network", &at, "this shared network is listed twice", "list it once");
            continue;
        }
        let taken = |name: &DeviceName| read.iter().any(|network| network.name == *name);
        let plain = shared_name(&object, None).filter(|name| !taken(name));
        let qualified = || shared_name(&object, namespace.as_ref().map(AsRef::as_ref));
        let Some(name) = plain.or_else(qualified) else {
            cx.error("invalid-value", &at.child("name"), "this name is too long for an interface", "");
            continue;
        };
        origins.add(format!("network.machineNetworks[{name}]"), document, &at);
        let source = NetworkSource::Shared(SharedNetwork { namespace, name: object });
        read.push(MachineNetwork { name, source, default: false, binding: Binding::Bridge });
    }
    for (index, tenant) in networks.tenant_networks.iter().enumerate() {
        let at = at.child("tenantNetworks").index(index);
        let why = "a tenant network needs a name";
        let name = required(cx, &at.child("name"), tenant.name.as_deref(), why);
        let name = name.and_then(|name| cx.parse::<DeviceName>(&at.child("name"), name));
        let why = "a tenant network needs a CNI configuration";
        let config = required(cx, &at.child("config"), tenant.config.as_deref(), why);
        let config = config.and_then(|config| match config.parse() {
            Ok(config) => Some(config),
            Err(error) => {
                let message = format!("the CNI configuration {error}");
                let help = "write a JSON object with a `type`, or with a list `plugins`";
                cx.error("invalid-cni-config", &at.child("config"), message, help);
                None
            }
        });
        let (Some(name), Some(config)) = (name, config) else { continue };
        origins.add(format!("network.machineNetworks[{name}]"), document, &at);
        origins.add(format!("network.machineNetworks[{name}].default"), document, &at.child("default"));
        let source = NetworkSource::Tenant(TenantNetwork { config });
        let default = tenant.default.unwrap_or_default();
        read.push(MachineNetwork { name, source, default, binding: Binding::Bridge });
    }
    read
}

/// The name of the interface on a shared network: the network's, with its namespace where that alone is taken.
pub(super) fn shared_name(network: &ObjectName, namespace: Option<&str>) -> Option<DeviceName> {
    let name = network.as_str().replace('.', "-");
    DeviceName::new(namespace.map_or(name.clone(), |namespace| format!("{namespace}-{name}"))).ok()
}

/// Reads a ControlPlaneConfig that stands at `base`.
pub(super) fn cloud_controller(
    cx: &Cx<'_>,
    origins: &mut Origins,
    base: &FieldPath,
    config: &ControlPlaneConfig,
) -> CloudController {
    let gates = base.child("cloudControllerManager").child("featureGates");
    origins.add("cloudController.featureGates", cx.document(), &gates);
    let manager = config.cloud_controller_manager.as_ref();
    CloudController {
        feature_gates: manager.map(|manager| manager.feature_gates.clone()).unwrap_or_default(),
    }
}

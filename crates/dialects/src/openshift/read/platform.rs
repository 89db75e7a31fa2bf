//! Where a cluster's machines are.

use trellis_api::openshift::install::{
    AffinityGroup, InstallConfig, KubevirtPlatform as KubevirtSettings, LoadBalancerKind,
    OvirtPlatform as OvirtSettings,
};
use trellis_model::cluster::{KubevirtPlatform, Platform};
use trellis_model::names::NamespaceName;
use trellis_model::network::{Address, Binding, MachineNetwork, NetworkSource, Networking, SharedNetwork};
use trellis_model::ovirt::{OvirtAffinityGroup, OvirtPlatform};
use trellis_model::volume::{AccessMode, Storage};

use super::super::{COMPUTE_GROUP, CONTROL_PLANE_GROUP};
use crate::path::FieldPath;
use crate::shared::{At, Reader, address, addresses};

/// The name machines have for the one network they are on.
const MAIN_NETWORK: &str = "main";

/// Reads the platform, and what of the network depends on it.
pub(super) fn platform(
    reader: &mut Reader<'_, '_>,
    config: &InstallConfig,
    network: &mut Networking,
) -> Option<Platform> {
    let at = FieldPath::root().child("platform");
    if let Some(settings) = &config.platform.kubevirt {
        return Some(Platform::Kubevirt(kubevirt(reader, &at.child("kubevirt"), settings, network)));
    }
    let settings = config.platform.ovirt.as_ref()?;
    ovirt(reader, &at.child("ovirt"), settings, network).map(Platform::Ovirt)
}

fn kubevirt(
    reader: &mut Reader<'_, '_>,
    at: &FieldPath,
    settings: &KubevirtSettings,
    network: &mut Networking,
) -> KubevirtPlatform {
    let field = |key: &str, text: &Option<String>| {
        text.clone().and_then(|text| At::new(at.child(key), text).filled())
    };
    let namespace = field("namespace", &settings.namespace);
    if namespace.is_none() {
        let message = "missing field `namespace`: the namespace that holds everything of the cluster; \
                       it is taken to be named like the cluster";
        reader.cx.notice("namespace-assumed", &at.child("namespace"), message, "add `namespace`");
    }
    let namespace: Option<NamespaceName> = reader.parse("platform.kubevirt.namespace", namespace.as_ref());
    let class = reader
        .parse("platform.kubevirt.storage.class", field("storageClass", &settings.storage_class).as_ref());
    reader.origin("platform.kubevirt.storage.accessMode", &at.child("persistentVolumeAccessMode"));
    let access_mode = settings.persistent_volume_access_mode.unwrap_or(AccessMode::ReadWriteMany);
    machine_network(reader, at, settings, namespace.as_ref(), network);
    let storage = Storage { class, access_mode: Some(access_mode), ..Storage::default() };
    KubevirtPlatform { namespace, storage, credentials: None }
}

/// The network attachment definition machines are on, or the pod network.
fn machine_network(
    reader: &mut Reader<'_, '_>,
    at: &FieldPath,
    settings: &KubevirtSettings,
    namespace: Option<&NamespaceName>,
    network: &mut Networking,
) {
    let vips = [("apiVIP", &settings.api_vip), ("ingressVIP", &settings.ingress_vip)];
    let vips = vips.map(|(key, vip)| (key, vip.as_deref().filter(|vip| !vip.is_empty())));
    let Some(name) = settings.network_name.as_deref().filter(|name| !name.is_empty()) else {
        let binding = settings.interface_binding_method.map(|_| "interfaceBindingMethod");
        let given = vips.iter().filter_map(|(key, vip)| vip.map(|_| *key)).chain(binding);
        for key in given {
            let message =
                format!("`{key}` is not used: without `networkName`, machines are on the pod network");
            reader.cx.warning("not-used", &at.child(key), message, "add `networkName`, or remove it");
        }
        return;
    };
    for (key, vip) in vips {
        let path = if key == "apiVIP" { "network.apiVips" } else { "network.ingressVips" };
        reader.origin(path, &at.child(key));
        match vip {
            Some(text) => {
                let read: Option<Address> = address(reader.cx, &at.child(key), text);
                let list = if key == "apiVIP" { &mut network.api_vips } else { &mut network.ingress_vips };
                list.extend(read);
            }
            None => {
                let message =
                    format!("missing field `{key}`: on a network of their own, machines need this address");
                reader.cx.error(
                    "missing-field",
                    &at.child(key),
                    message,
                    &format!("add `{key}`, a free address"),
                );
            }
        }
    }
    let name_at = at.child("networkName");
    reader.origin("network.machineNetworks", &name_at);
    network.attach_pod_network = false;
    let names = (reader.cx.parse(&name_at, MAIN_NETWORK), reader.cx.parse(&name_at, name));
    if let (Some(main), Some(name)) = names {
        network.machine_networks.push(MachineNetwork {
            name: main,
            source: NetworkSource::Shared(SharedNetwork { namespace: namespace.cloned(), name }),
            default: false,
            binding: settings.interface_binding_method.map_or(Binding::Bridge, Into::into),
        });
    }
}

fn ovirt(
    reader: &mut Reader<'_, '_>,
    at: &FieldPath,
    settings: &OvirtSettings,
    network: &mut Networking,
) -> Option<OvirtPlatform> {
    let cluster_id =
        required(reader, at, "ovirt_cluster_id", "clusterId", settings.ovirt_cluster_id.as_ref());
    let storage_domain_id = required(
        reader,
        at,
        "ovirt_storage_domain_id",
        "storageDomainId",
        settings.ovirt_storage_domain_id.as_ref(),
    );
    let profile = settings.vnic_profile_id.clone().map(|id| At::new(at.child("vnicProfileID"), id));
    let vnic_profile_id = reader.parse("platform.ovirt.vnicProfileId", profile.as_ref());
    reader.origin("platform.ovirt.networkName", &at.child("ovirt_network_name"));
    let network_name = settings.ovirt_network_name.clone().filter(|name| !name.is_empty());
    network.api_vips =
        vips(reader, at, ("api_vips", &settings.api_vips), ("api_vip", settings.api_vip.as_ref()));
    reader.origin("network.apiVips", &at.child("api_vips"));
    network.ingress_vips = vips(
        reader,
        at,
        ("ingress_vips", &settings.ingress_vips),
        ("ingress_vip", settings.ingress_vip.as_ref()),
    );
    reader.origin("network.ingressVips", &at.child("ingress_vips"));
    let affinity_groups = match &settings.affinity_groups {
        Some(groups) => affinity_groups(reader, &at.child("affinityGroups"), groups),
        None => default_groups(),
    };
    let balancer = settings.load_balancer.as_ref().and_then(|balancer| balancer.kind);
    Some(OvirtPlatform {
        cluster_id: cluster_id?,
        storage_domain_id: storage_domain_id?,
        network_name: network_name.unwrap_or_else(|| OvirtPlatform::DEFAULT_NETWORK.to_owned()),
        vnic_profile_id,
        affinity_groups,
        user_managed_load_balancer: balancer == Some(LoadBalancerKind::UserManaged),
    })
}

fn required<T>(
    reader: &mut Reader<'_, '_>,
    at: &FieldPath,
    key: &str,
    model_key: &str,
    text: Option<&String>,
) -> Option<T>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let at = at.child(key);
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        reader.cx.error(
            "missing-field",
            &at,
            format!("missing field `{key}`"),
            &format!("add `{key}`, a UUID"),
        );
        return None;
    };
    reader.parse(&format!("platform.ovirt.{model_key}"), Some(&At::new(at, text.clone())))
}

/// Addresses that are a list today and were one address before.
fn vips(
    reader: &mut Reader<'_, '_>,
    at: &FieldPath,
    (key, vips): (&str, &[String]),
    (old_key, old): (&str, Option<&String>),
) -> Vec<Address> {
    let mut out = addresses(reader.cx, &at.child(key), vips);
    if let Some(old) = old.filter(|old| !old.is_empty()) {
        let at = at.child(old_key);
        if vips.is_empty() {
            let message = format!("`{old_key}` is now the list `{key}`, and is read as that");
            reader.cx.warning("deprecated-field", &at, message, &format!("write `{key}: [{old}]`"));
            out.extend(address(reader.cx, &at, old));
        } else if vips.first() == Some(old) {
            let message = format!("`{old_key}` is not used: `{key}` says the same");
            reader.cx.warning("deprecated-field", &at, message, &format!("remove `{old_key}`"));
        } else {
            let message = format!("`{old_key}` contradicts `{key}`, which took its place");
            reader.cx.error("field-conflict", &at, message, &format!("remove `{old_key}`"));
        }
    }
    out
}

fn affinity_groups(
    reader: &mut Reader<'_, '_>,
    at: &FieldPath,
    groups: &[AffinityGroup],
) -> Vec<OvirtAffinityGroup> {
    reader.origin("platform.ovirt.affinityGroups", at);
    let mut out: Vec<OvirtAffinityGroup> = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let at = at.index(index);
        if group.name.is_empty() {
            reader.cx.error(
                "missing-field",
                &at.child("name"),
                "missing field `name`: the name of the group",
                "add `name`",
            );
            continue;
        }
        let group = OvirtAffinityGroup {
            name: group.name.clone(),
            priority: group.priority,
            description: group.description.clone(),
            enforcing: group.enforcing,
        };
        match out.iter().find(|other| other.name == group.name) {
            Some(same) if *same == group => {}
            Some(_) => {
                let message = format!("there are two groups named `{}` that differ", group.name);
                reader.cx.error("duplicate-name", &at.child("name"), message, "rename one");
            }
            None => out.push(group),
        }
    }
    out
}

/// The groups of a cluster that says nothing about groups.
fn default_groups() -> Vec<OvirtAffinityGroup> {
    let group = |(name, priority): (&str, u8), what: &str| OvirtAffinityGroup {
        name: name.to_owned(),
        priority,
        description: format!("Spreads {what} machines over hosts"),
        enforcing: true,
    };
    vec![group(COMPUTE_GROUP, "worker"), group(CONTROL_PLANE_GROUP, "control-plane")]
}

//! What a machine is on its platform, around the part of the platform itself.

use trellis_api::kkp::{Network, OperatingSystemSpec, ProviderConfig};
use trellis_model::image::OperatingSystem;
use trellis_model::machine::UserData;
use trellis_model::network::{Binding, InterfaceAddress, Nic, NicNetwork, PodNetwork, StaticAddresses};

use crate::path::FieldPath;
use crate::reading::Cx;
use crate::shared::{Reader, address, addresses};

/// Whether the machine is on a platform Trellis reads.
pub(super) fn is_kubevirt(cx: &mut Cx<'_>, at: &FieldPath, config: &ProviderConfig) -> bool {
    let at = at.child("cloudProvider");
    match config.cloud_provider.as_deref() {
        Some("kubevirt") => return true,
        Some(other) => {
            let message =
                format!("the machines are on `{other}`; of this API, Trellis reads machines on KubeVirt");
            cx.error(
                "unsupported-platform",
                &at,
                message,
                "write `cloudProvider: kubevirt`, or leave this document out",
            );
        }
        None => {
            let message = "missing field `cloudProvider`: the platform the machine is on";
            cx.error("missing-field", &at, message, "add `cloudProvider: kubevirt`");
        }
    }
    false
}

/// The operating system.
pub(super) fn operating_system(
    cx: &mut Cx<'_>,
    at: &FieldPath,
    config: &ProviderConfig,
) -> Option<OperatingSystem> {
    if config.operating_system.is_none() {
        let message = "missing field `operatingSystem`: the operating system of the image";
        let names: Vec<&str> = OperatingSystem::ALL.iter().map(|os| os.as_str()).collect();
        let help = format!("add `operatingSystem`, one of {}", names.join(", "));
        cx.error("missing-field", &at.child("operatingSystem"), message, &help);
    }
    config.operating_system
}

/// First-boot data.
pub(super) fn user_data(reader: &mut Reader<'_, '_>, at: &FieldPath, config: &ProviderConfig) -> UserData {
    if config.ca_public_key.as_deref().is_some_and(|key| !key.trim().is_empty()) {
        let message = "Trellis installs no certificate authority for SSH, so this is not used";
        reader.cx.warning("not-used", &at.child("caPublicKey"), message, "list the keys in `sshPublicKeys`");
    }
    let upgrade = config
        .operating_system_spec
        .as_ref()
        .and_then(|spec: &OperatingSystemSpec| spec.dist_upgrade_on_boot);
    let inline = config.overwrite_cloud_config.clone().filter(|text| !text.is_empty());
    if inline.is_some() {
        reader.origin("template.userData", &at.child("overwriteCloudConfig"));
    }
    UserData { secret: None, inline, upgrade_packages: upgrade.unwrap_or_default() }
}

/// The interfaces: none of their own, or one with fixed addresses.
pub(super) fn nics(reader: &mut Reader<'_, '_>, at: &FieldPath, config: &ProviderConfig) -> Vec<Nic> {
    let at = at.child("network");
    let Some(network) = &config.network else { return Vec::new() };
    if network.ip_family.as_deref().is_some_and(|family| !family.is_empty()) {
        let message = "the addresses say themselves of which family they are, so this is not used";
        reader.cx.warning("not-used", &at.child("ipFamily"), message, "remove `ipFamily`");
    }
    let Some(addresses) = static_addresses(reader, &at, network) else { return Vec::new() };
    reader.origin("template.nics", &at);
    for (part, key) in [("first", "cidr"), ("gateway", "gateway"), ("nameservers", "dns")] {
        reader.origin(&format!("template.nics[default].addresses.{part}"), &at.child(key));
    }
    let Some(name) = reader.cx.parse(&at, "default") else { return Vec::new() };
    let mut nic = Nic::new(name, NicNetwork::Pod(PodNetwork {}), Binding::Bridge);
    nic.addresses = Some(addresses);
    vec![nic]
}

fn static_addresses(
    reader: &mut Reader<'_, '_>,
    at: &FieldPath,
    network: &Network,
) -> Option<StaticAddresses> {
    let servers: &[String] = network.dns.as_ref().map_or(&[], |dns| &dns.servers);
    let gateway = network.gateway.as_deref().filter(|gateway| !gateway.is_empty());
    let Some(cidr) = network.cidr.as_deref().filter(|cidr| !cidr.is_empty()) else {
        if gateway.is_some() || !servers.is_empty() {
            let message =
                "missing field `cidr`: the address of the first machine; without it the rest is not used";
            reader.cx.warning("not-used", &at.child("cidr"), message, "add `cidr`, for example 10.0.0.5/24");
        }
        return None;
    };
    let nameservers = addresses(reader.cx, &at.child("dns").child("servers"), servers);
    let gateway = gateway.and_then(|gateway| address(reader.cx, &at.child("gateway"), gateway));
    let Ok(first) = cidr.parse() else {
        let message = format!("`{cidr}` is not an address with a prefix length");
        reader.cx.error("invalid-value", &at.child("cidr"), message, "write for example 10.0.0.5/24");
        return None;
    };
    Some(StaticAddresses { first: InterfaceAddress(first), gateway, nameservers })
}

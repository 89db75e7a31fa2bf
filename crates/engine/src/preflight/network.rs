//! Whether the networks are there, and nobody's addresses are anybody else's.

use trellis_bootstrap::Names;
use trellis_model::network::{Binding, Cidr, NetworkSource, NicNetwork};
use trellis_model::pool::Role;
use trellis_model::resolve::resolve;
use trellis_model::{Cluster, Pool};

use super::Check;
use super::facts::{Asked, Facts};
use crate::install::network_plugin::name_of;

/// Bytes that the encapsulation of a tenant's network takes from each packet.
const ENCAPSULATION: u64 = 50;
/// Less than that no network should carry.
const LEAST_MTU: u64 = 1280;

/// The shared networks that machines are attached to, by namespace and name.
pub(super) fn attached(cluster: &Cluster, pools: &[&Pool]) -> Vec<(String, String)> {
    let own = cluster.infra_namespace();
    let place = |network: &trellis_model::network::SharedNetwork| {
        let namespace = network.namespace.as_ref().map_or(own, |namespace| namespace.as_str());
        (namespace.to_owned(), network.name.to_string())
    };
    let mut found: Vec<(String, String)> = Vec::new();
    for pool in pools {
        let resolved = resolve(cluster, pool);
        let direct = resolved.template.nics.iter().filter_map(|nic| match &nic.network {
            NicNetwork::Shared(network) => Some(place(network)),
            _ => None,
        });
        let named = resolved.networks.iter().filter_map(|network| match &network.source {
            NetworkSource::Shared(network) => Some(place(network)),
            NetworkSource::Tenant(_) => None,
        });
        found.extend(direct.chain(named));
    }
    found.sort();
    found.dedup();
    found
}

/// The checks of networks and addresses.
pub(super) fn checks(cluster: &Cluster, pools: &[&Pool], facts: &Facts) -> Vec<Check> {
    let mut checks: Vec<Check> = facts
        .attachments
        .iter()
        .map(|((namespace, name), asked)| attachment(namespace, name, asked))
        .collect();
    checks.extend(vips(cluster, facts));
    checks.push(overlaps(cluster, facts));
    let is_grown = |pool: &&Pool| {
        let user_data = &pool.spec.template.user_data;
        pool.spec.role == Role::ControlPlane && user_data.secret.is_none() && user_data.inline.is_none()
    };
    if pools.iter().any(is_grown) {
        checks.extend([names(cluster), plugin(cluster)].into_iter().flatten());
    }
    checks
}

/// Whether machines of a cluster that is grown from nothing find its API.
fn names(cluster: &Cluster) -> Option<Check> {
    let about = "names of the API";
    if !cluster.spec.network.uses_pod_network() {
        let found = "a control plane without the pod network needs an address for each machine, which nobody chooses yet";
        return Some(Check::failed(about, found).fix(
            "leave the pod network attached, or bring the user data of the control plane's machines along",
        ));
    }
    let domain = cluster.spec.base_domain.as_ref()?;
    let (wished, served) =
        (format!("{}.{domain}", cluster.name), format!("{}.svc.cluster.local", cluster.infra_namespace()));
    if wished == served {
        return Some(Check::passed(about, format!("api and api-int below {served} are Services")));
    }
    let found =
        format!("nothing makes api-int.{wished} resolve: the infra cluster's names are below {served}");
    Some(Check::failed(about, found).fix(
        "leave the base domain out; or let it be svc.cluster.local and the namespace be called like the cluster",
    ))
}

/// Whether the network plugin can tell the nodes of a cluster apart.
fn plugin(cluster: &Cluster) -> Option<Check> {
    let network = &cluster.spec.network;
    let plugin = network.plugin.and_then(name_of)?;
    if !network.uses_pod_network() || network.pod_network_binding != Binding::Masquerade {
        return None;
    }
    let found = "behind masquerade every machine has the same address, and nodes cannot send each other pods' packets";
    Some(Check::failed(format!("network plugin {plugin}"), found).fix("podNetworkBinding: Bridge"))
}

fn attachment(namespace: &str, name: &str, asked: &Asked<super::Attachment>) -> Check {
    let about = format!("network {namespace}/{name}");
    match asked {
        Asked::Known(found) => {
            let plugin = if found.plugin.is_empty() { "unknown plugin" } else { &found.plugin };
            match found.mtu {
                None => Check::passed(about, format!("{plugin}; it says no MTU")),
                Some(mtu) if mtu < LEAST_MTU + ENCAPSULATION => Check::failed(
                    about,
                    format!("{plugin} with an MTU of {mtu}: too small for a tenant's network in it"),
                )
                .fix(format!("an admin must raise it to at least {}", LEAST_MTU + ENCAPSULATION)),
                Some(mtu) => Check::passed(
                    about,
                    format!("{plugin}, MTU {mtu}: pods of the tenant have {}", mtu - ENCAPSULATION),
                ),
            }
        }
        Asked::Absent => Check::failed(about, "there is no such NetworkAttachmentDefinition")
            .fix("ask an admin of the infra cluster to make it, or name another"),
        other => Check::unknown(about, format!("unknown: {}", other.why_not().unwrap_or_default())),
    }
}

fn vips(cluster: &Cluster, facts: &Facts) -> Vec<Check> {
    let network = &cluster.spec.network;
    let all = network.api_vips.iter().map(|vip| ("API", vip));
    let all = all.chain(network.ingress_vips.iter().map(|vip| ("ingress", vip)));
    let check = |(what, vip): (&str, &trellis_model::network::Address)| {
        let about = format!("{what} address {vip}");
        if !network.nodes.is_empty() && !network.nodes.iter().any(|range| range.contains(vip.0)) {
            let ranges: Vec<String> = network.nodes.iter().map(ToString::to_string).collect();
            return Check::failed(
                about,
                format!("it is outside of the machines' network {}", ranges.join(", ")),
            )
            .fix("take an address inside");
        }
        match &facts.taken {
            Asked::Known(taken) => match taken.iter().find(|taken| taken.address == vip.0) {
                Some(taken) => {
                    Check::failed(about, format!("{} has it already", taken.by)).fix("take another one")
                }
                None => Check::passed(about, "inside the machines' network, and nobody seen has it"),
            },
            other => Check::unknown(
                about,
                format!(
                    "inside the machines' network; whether it is free is unknown: {}",
                    other.why_not().unwrap_or_default()
                ),
            ),
        }
    };
    all.map(check).collect()
}

/// Tenant ranges that overlap each other are refused by the model; here it is about the infra cluster's.
fn overlaps(cluster: &Cluster, facts: &Facts) -> Check {
    // Those the cluster gets where it says none count as well.
    let names = Names::of(cluster);
    let pods = names.pods.iter().map(|range| ("pods", Cidr::new(*range)));
    let ours: Vec<(&str, Cidr)> =
        pods.chain(names.services.iter().map(|range| ("services", Cidr::new(*range)))).collect();
    let mut theirs: Vec<(&str, Cidr)> = Vec::new();
    let mut unknown = Vec::new();
    match &facts.service_ranges {
        Asked::Known(ranges) => theirs.extend(ranges.iter().map(|range| ("services", *range))),
        _ => unknown.push("services"),
    }
    match &facts.hosts {
        Asked::Known(hosts) => {
            theirs.extend(hosts.iter().flat_map(|host| &host.pods).map(|range| ("pods", *range)));
        }
        _ => unknown.push("pods"),
    }
    // Machines on the pod network reach infra addresses through the same routes as their own pods'.
    let clash = ours.iter().find_map(|(what, ours)| {
        let (whose, theirs) = theirs.iter().find(|(_, theirs)| theirs.overlaps(*ours))?;
        Some(format!("{ours} of the tenant's {what} overlaps {theirs} of the infra cluster's {whose}"))
    });
    let about = "address ranges";
    match clash {
        Some(clash) => Check::failed(about, clash)
            .fix("say other ranges for the tenant: `network.pods` and `network.services`"),
        None if !unknown.is_empty() => Check::unknown(
            about,
            format!("not allowed to see the infra cluster's ranges of {}", unknown.join(" and ")),
        ),
        None => Check::passed(about, "none of the tenant's overlaps the infra cluster's"),
    }
}

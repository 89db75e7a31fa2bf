//! Network data for the config drive, in the form OpenStack gave it and cloud-init reads.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Serialize;
use trellis_model::network::{Nic, StaticAddresses};

use crate::machine::Machine;
use crate::nics;

#[derive(Serialize)]
struct NetworkData {
    links: Vec<Link>,
    networks: Vec<Network>,
    services: Vec<Service>,
}

/// A network card, recognised by its hardware address.
#[derive(Serialize)]
struct Link {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    ethernet_mac_address: String,
}

#[derive(Serialize)]
struct Network {
    id: String,
    link: String,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip_address: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    netmask: Option<IpAddr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Route>,
}

#[derive(Serialize)]
struct Route {
    network: IpAddr,
    netmask: IpAddr,
    gateway: IpAddr,
}

#[derive(Serialize)]
struct Service {
    #[serde(rename = "type")]
    kind: &'static str,
    address: IpAddr,
}

/// The network data of a machine; none where DHCP says it all.
pub(crate) fn network_data(machine: &Machine<'_>) -> Option<String> {
    let nics = &machine.template().nics;
    if !nics::has_static_addresses(nics) {
        return None;
    }
    let link = |nic: &Nic| {
        Some(Link {
            id: nic.name.to_string(),
            kind: "phy",
            ethernet_mac_address: nics::mac_address(machine, nic)?,
        })
    };
    let mut services: Vec<Service> = Vec::new();
    for address in nics.iter().filter_map(|nic| nic.addresses.as_ref()).flat_map(|a| &a.nameservers) {
        if services.iter().all(|service| service.address != address.0) {
            services.push(Service { kind: "dns", address: address.0 });
        }
    }
    let data = NetworkData {
        links: nics.iter().filter_map(link).collect(),
        networks: nics.iter().filter_map(|nic| network(nic, machine.identity.ordinal)).collect(),
        services,
    };
    serde_json::to_string(&data).ok()
}

fn network(nic: &Nic, ordinal: u32) -> Option<Network> {
    let (id, link) = (nic.name.to_string(), nic.name.to_string());
    let Some(addresses) = &nic.addresses else {
        return Some(Network {
            id,
            link,
            kind: "ipv4_dhcp",
            ip_address: None,
            netmask: None,
            routes: Vec::new(),
        });
    };
    let address = addresses.address_of(ordinal)?;
    Some(Network {
        id,
        link,
        kind: if matches!(address, IpNet::V4(_)) { "ipv4" } else { "ipv6" },
        ip_address: Some(address.addr()),
        netmask: Some(address.netmask()),
        routes: default_route(addresses).into_iter().collect(),
    })
}

fn default_route(addresses: &StaticAddresses) -> Option<Route> {
    let gateway = addresses.gateway?.0;
    let anywhere = match gateway {
        IpAddr::V4(_) => IpAddr::from([0; 4]),
        IpAddr::V6(_) => IpAddr::from([0; 16]),
    };
    Some(Route { network: anywhere, netmask: anywhere, gateway })
}

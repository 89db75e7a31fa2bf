//! Addresses that machines keep among themselves, where there are no Services: keepalived holds them, haproxy spreads
//! requests, CoreDNS answers for the cluster's names. All three are static pods.
//!
//! The way of a request: `api` and `api-int` resolve to the API's address, which one machine holds. There haproxy takes
//! it on 6443 and passes it to an API server that is ready, on 6444 of any member of the control plane. No rule of a
//! firewall is involved.
//!
//! The address starts on the bootstrap machine and stays there while it lives: its priority is above all that a member
//! of the control plane can reach. Members of the control plane take over, the healthiest first, the moment it is gone.

mod coredns;
mod haproxy;
mod keepalived;

pub(crate) use keepalived::INTERFACE;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::machine::Config;
use crate::render::RenderError;
use crate::site::{Member, Site};
use crate::static_pods::{self, Mount, Pod, Probe};

/// The numbers of a cluster's virtual routers. They must be its own on its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterIds {
    /// Of the API's address.
    pub api: u8,
    /// Of the address of ingress.
    pub ingress: u8,
}

impl RouterIds {
    /// Two numbers that nobody on the network has. They begin at a place that follows from the cluster's name, so that
    /// two clusters made at the same moment seldom choose alike; nothing when all 255 are taken.
    pub fn allocate(cluster: &str, taken: &BTreeSet<u8>) -> Option<Self> {
        let start = Sha256::digest(cluster.as_bytes()).first().copied().unwrap_or_default();
        let mut free = (0..=u8::MAX)
            .map(|step| start.wrapping_add(step))
            .filter(|number| *number != 0 && !taken.contains(number));
        Some(Self { api: free.next()?, ingress: free.next()? })
    }
}

/// What a machine does for the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Holds the API's address first.
    Bootstrap,
    /// Takes the API's address over.
    Master,
    /// May hold the address of ingress.
    Worker,
}

pub(crate) const KEEPALIVED: &str = "/etc/keepalived/keepalived.conf";
const KEEPALIVED_CHECK: &str = "/etc/keepalived/check";
const HAPROXY: &str = "/etc/haproxy/haproxy.cfg";
const COREDNS: &str = "/etc/coredns/Corefile";

/// Adds the balancer of the API alone: the bootstrap machine has it on every network, because the API's name leads
/// there too while it lives.
pub(crate) fn add_balancer(config: &mut Config, site: &Site, backend_port: u16) {
    config.file(HAPROXY, haproxy::configuration(site, backend_port));
    let pod = Pod {
        name: "haproxy",
        image: site.sources.haproxy.clone(),
        command: ["haproxy", "-W", "-db", "-f", HAPROXY].map(ToOwned::to_owned).into(),
        mounts: vec![Mount::file(HAPROXY)],
        cpu: "50m",
        probes: Probe::usual(haproxy::HEALTH_PORT, "HTTP", "/haproxy", "/haproxy"),
        capabilities: &[],
    };
    place(config, &pod);
}

/// Adds what a machine needs to keep the addresses.
pub(crate) fn add(
    config: &mut Config,
    site: &Site,
    machine: &Member,
    part: Part,
    resolved: bool,
) -> Result<(), RenderError> {
    config.file(KEEPALIVED, keepalived::configuration(site, machine, part)?);
    config.program(KEEPALIVED_CHECK, keepalived::CHECK);
    let keepalived = Pod {
        name: "keepalived",
        image: site.sources.keepalived.clone(),
        command: ["keepalived", "--dont-fork", "--log-console", "--use-file", KEEPALIVED]
            .map(ToOwned::to_owned)
            .into(),
        mounts: vec![Mount::folder("/etc/keepalived")],
        cpu: "50m",
        probes: Vec::new(),
        capabilities: &["NET_ADMIN", "NET_BROADCAST", "NET_RAW"],
    };
    place(config, &keepalived);
    config.file(COREDNS, coredns::configuration(site, machine));
    let coredns = Pod {
        name: "coredns",
        image: site.sources.coredns.clone(),
        command: ["/coredns", "-conf", COREDNS].map(ToOwned::to_owned).into(),
        mounts: vec![Mount::file(COREDNS)],
        cpu: "50m",
        probes: Probe::usual(coredns::HEALTH_PORT, "HTTP", "/health", "/health"),
        capabilities: &["NET_BIND_SERVICE"],
    };
    place(config, &coredns);
    // What starts before CoreDNS must find the cluster as well.
    config.file("/etc/hosts", hosts(site, machine));
    if resolved {
        let text = format!("[Resolve]\nDNS=127.0.0.1\nDomains=~{}\n", site.names.domain);
        config.file("/etc/systemd/resolved.conf.d/10-trellis.conf", text);
    }
    Ok(())
}

fn place(config: &mut Config, pod: &Pod) {
    config.file(format!("{}/{}.yaml", static_pods::FOLDER, pod.name), pod.manifest());
}

/// The names of a cluster that have addresses of their own.
fn known_names(site: &Site) -> Vec<(IpAddr, String)> {
    let names = &site.names;
    let api = names
        .api_addresses
        .iter()
        .flat_map(|address| [&names.api, &names.api_int].map(|name| (*address, name.clone())));
    let members = site.masters.iter().chain(&site.bootstrap);
    let members = members.filter_map(|member| Some((member.address?, names.machine(&member.name))));
    api.chain(members).collect()
}

/// The hosts file of a machine.
fn hosts(site: &Site, machine: &Member) -> String {
    let own = site.names.machine(&machine.name);
    let mut text = format!("127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {own} {}\n", machine.name);
    for (address, name) in known_names(site).into_iter().filter(|(_, name)| *name != own) {
        let _ = writeln!(text, "{address} {name}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn router_ids_are_free_and_repeatable() {
        let ids = RouterIds::allocate("demo", &BTreeSet::new()).unwrap();
        assert_eq!(RouterIds::allocate("demo", &BTreeSet::new()), Some(ids));
        let others = RouterIds::allocate("demo", &[ids.api, ids.ingress].into()).unwrap();
        assert!(![ids.api, ids.ingress].contains(&others.api) && others.api != others.ingress);
        assert!(others.api != 0 && others.ingress != 0);
        assert_eq!(RouterIds::allocate("demo", &(1..=254).collect()), None, "one is not enough");
        assert!(RouterIds::allocate("demo", &(3..=255).collect()).is_some());
    }
}

//! The configuration of keepalived.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::{KEEPALIVED_CHECK, Part};
use crate::names::{API_PORT_BEHIND_BALANCER, MACHINE_CONFIG_PORT};
use crate::render::RenderError;
use crate::site::{Member, Site};

/// The priority of the bootstrap machine: above what any other can reach.
const BOOTSTRAP: u8 = 70;
/// The priority of a member of the control plane, and what each good sign adds: 40 + 20 + 5 + 3 at most.
const MASTER: u8 = 40;
const READY: u8 = 20;
const BALANCER: u8 = 5;
const MACHINE_CONFIG: u8 = 3;
// The bootstrap machine is above what others can reach, and a member whose API is ready above any whose API is not.
const _: () = assert!(MASTER + READY + BALANCER + MACHINE_CONFIG < BOOTSTRAP);
const _: () = assert!(READY > BALANCER + MACHINE_CONFIG);
/// The priority for ingress, and what a router that answers adds.
const INGRESS: u8 = 20;
const ROUTER: u8 = 50;

/// Stands for the interface on the machines' network, whose name a machine only knows once it runs.
pub(crate) const INTERFACE: &str = "@interface@";

/// Asks a port of this machine: `check SCHEME PORT PATH`.
pub(super) const CHECK: &str = "#!/bin/sh
exec curl --silent --fail --insecure --max-time 2 --output /dev/null \"$1://127.0.0.1:$2$3\"
";

/// Keepalived's configuration on a machine.
pub(super) fn configuration(site: &Site, machine: &Member, part: Part) -> Result<String, RenderError> {
    let ids = site.router_ids.ok_or(RenderError::NoRouterIds)?;
    let mut text = String::from("global_defs {\n    enable_script_security\n    script_user root\n");
    line(&mut text, &format!("    router_id {}", machine.name));
    line(&mut text, "    vrrp_garp_master_refresh 60\n}");
    let checks: &[(&str, String, u8)] = match part {
        Part::Bootstrap => &[],
        Part::Master => &[
            ("api", format!("https {API_PORT_BEHIND_BALANCER} /readyz"), READY),
            ("balancer", format!("http {} /haproxy", super::haproxy::HEALTH_PORT), BALANCER),
            ("machine_config", format!("https {MACHINE_CONFIG_PORT} /healthz"), MACHINE_CONFIG),
        ],
        Part::Worker => &[("router", "http 1936 /healthz/ready".to_owned(), ROUTER)],
    };
    for (name, arguments, weight) in checks {
        line(&mut text, &format!("vrrp_script {name} {{"));
        line(&mut text, &format!("    script \"{KEEPALIVED_CHECK} {arguments}\""));
        line(&mut text, "    interval 2\n    timeout 3\n    rise 3\n    fall 2");
        line(&mut text, &format!("    weight {weight}\n}}"));
    }
    let router = match part {
        Part::Bootstrap | Part::Master => Router {
            name: "api",
            id: ids.api,
            priority: if part == Part::Bootstrap { BOOTSTRAP } else { MASTER },
            machine,
            peers: site.masters.iter().chain(&site.bootstrap).collect(),
            addresses: &site.names.api_addresses,
            checks: checks.iter().map(|(name, ..)| *name).collect(),
        },
        // Workers come and go, and none has a list of the others: they tell everybody on their network.
        Part::Worker => Router {
            name: "ingress",
            id: ids.ingress,
            priority: INGRESS,
            machine,
            peers: Vec::new(),
            addresses: &site.names.ingress_addresses,
            checks: checks.iter().map(|(name, ..)| *name).collect(),
        },
    };
    router.write(&mut text)?;
    Ok(text)
}

/// A virtual router that is being written.
struct Router<'a> {
    name: &'a str,
    id: u8,
    priority: u8,
    machine: &'a Member,
    /// Those it tells; everybody on the network when there are none.
    peers: Vec<&'a Member>,
    addresses: &'a [IpAddr],
    checks: Vec<&'a str>,
}

impl Router<'_> {
    fn write(&self, text: &mut String) -> Result<(), RenderError> {
        let no_address = |member: &Member| RenderError::NoAddress(member.name.to_string());
        let peers: Vec<&&Member> = self.peers.iter().filter(|peer| peer.name != self.machine.name).collect();
        let own = if peers.is_empty() {
            None
        } else {
            Some(self.machine.address.ok_or_else(|| no_address(self.machine))?)
        };
        // Routers talk in one family. Addresses of the other one move along.
        let talks_v4 = own.or(self.addresses.first().copied()).is_none_or(|address| address.is_ipv4());
        let (held, along): (Vec<&IpAddr>, Vec<&IpAddr>) =
            self.addresses.iter().partition(|address| address.is_ipv4() == talks_v4);
        if held.is_empty() {
            return Err(no_address(self.machine));
        }
        line(text, &format!("vrrp_instance {} {{", self.name));
        line(text, &format!("    state BACKUP\n    interface {INTERFACE}"));
        line(
            text,
            &format!("    virtual_router_id {}\n    priority {}\n    advert_int 1", self.id, self.priority),
        );
        if let Some(own) = own {
            line(text, &format!("    unicast_src_ip {own}\n    unicast_peer {{"));
            for peer in peers {
                let address = peer.address.filter(|address| address.is_ipv4() == talks_v4);
                line(text, &format!("        {}", address.ok_or_else(|| no_address(peer))?));
            }
            line(text, "    }");
        }
        for (block, addresses) in [("virtual_ipaddress", held), ("virtual_ipaddress_excluded", along)] {
            if !addresses.is_empty() {
                line(text, &format!("    {block} {{"));
                for address in addresses {
                    line(text, &format!("        {address}/{}", if address.is_ipv4() { 32 } else { 128 }));
                }
                line(text, "    }");
            }
        }
        if !self.checks.is_empty() {
            line(text, "    track_script {");
            for check in &self.checks {
                line(text, &format!("        {check}"));
            }
            line(text, "    }");
        }
        line(text, "}");
        Ok(())
    }
}

fn line(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

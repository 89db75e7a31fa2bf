//! The configuration of CoreDNS on machines.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::known_names;
use crate::site::{Member, Site};

/// Where it answers.
const PORT: u16 = 53;
/// Where it tells how it is.
pub(super) const HEALTH_PORT: u16 = 18080;

/// CoreDNS's configuration: the cluster's own names, and nobody else's.
pub(super) fn configuration(site: &Site, machine: &Member) -> String {
    let names = &site.names;
    // Only on addresses of its own: a resolver of the system may have the same port on another one.
    let own = machine.address.map(|address| format!(" {address}")).unwrap_or_default();
    let mut text = format!(
        "{}:{PORT} {{
    bind 127.0.0.1{own}
    errors
    health 127.0.0.1:{HEALTH_PORT}
    reload
    cache 30
",
        names.domain
    );
    for (family, is_family) in [("A", IpAddr::is_ipv4 as fn(&IpAddr) -> bool), ("AAAA", IpAddr::is_ipv6)] {
        let answers: Vec<&IpAddr> =
            names.ingress_addresses.iter().filter(|address| is_family(address)).collect();
        if answers.is_empty() {
            continue;
        }
        let domain = names.domain.replace('.', "\\.");
        let _ = writeln!(
            text,
            "    template IN {family} apps.{} {{\n        match ^(.+\\.)?apps\\.{domain}\\.$",
            names.domain
        );
        for address in answers {
            let _ = writeln!(text, "        answer \"{{{{ .Name }}}} 60 IN {family} {address}\"");
        }
        text += "        fallthrough\n    }\n";
    }
    text += "    hosts {\n";
    for (address, name) in known_names(site) {
        let _ = writeln!(text, "        {address} {name}");
    }
    text += "        ttl 60\n    }\n}\n";
    text
}

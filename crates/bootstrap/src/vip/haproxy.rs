//! The configuration of haproxy.

use crate::names::API_PORT;
use crate::site::Site;
use std::fmt::Write as _;

/// Where haproxy tells how it is.
pub(super) const HEALTH_PORT: u16 = 9444;

/// Haproxy's configuration: the API's port of this machine, passed to whichever API server is ready.
pub(super) fn configuration(site: &Site, backend_port: u16) -> String {
    let mut text = format!(
        "global
    maxconn 20000
    log stdout format raw local0

defaults
    mode tcp
    log global
    option dontlognull
    retries 3
    timeout connect 10s
    timeout client 86400s
    timeout server 86400s
    timeout tunnel 86400s
    timeout check 5s
    default-server init-addr last,libc,none resolvers machine

resolvers machine
    parse-resolv-conf
    hold valid 10s

frontend api
    bind :::{API_PORT} v4v6
    default_backend masters

frontend health
    mode http
    bind 127.0.0.1:{HEALTH_PORT}
    monitor-uri /haproxy
    monitor fail if {{ nbsrv(masters) lt 1 }}

backend masters
    balance roundrobin
    option httpchk GET /readyz
    http-check expect status 200
"
    );
    for master in &site.masters {
        let host = match master.address {
            Some(address) => crate::names::bracketed(address),
            None => site.names.machine(&master.name),
        };
        // Only whether it is ready is asked; requests pass through with their own TLS.
        let _ = writeln!(
            text,
            "    server {} {host}:{backend_port} check check-ssl verify none inter 2s fall 3 rise 2",
            master.name
        );
    }
    text
}

//! The static pod haproxy in a guest: passes a port of its machine on to whichever server behind it is reached.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{BoxFuture, join_all};
use trellis_infra::guests::boot::Boot;
use trellis_infra::guests::kubelet::Kubelet;
use trellis_infra::guests::{Guest, Program};

use crate::etcd::listen;
use crate::manifest;

/// The static pod.
const POD: &str = "haproxy";

/// Balancers of guests that have haproxy as a static pod.
#[derive(Debug)]
pub struct Balancers;

impl Program for Balancers {
    fn name(&self) -> &'static str {
        POD
    }

    fn is_started_by(&self, boot: &Boot) -> bool {
        Kubelet.is_started_by(boot) && manifest::exists(boot, POD)
    }

    fn run(&self, guest: Guest) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async move {
            let words = manifest::words(&guest.boot, POD)?;
            let path = words.iter().skip_while(|word| *word != "-f").nth(1);
            let path = path.ok_or("haproxy: no configuration is named with -f")?;
            let text = manifest::text(&guest.boot, path).map_err(|why| format!("{path}: {why}"))?;
            let passed = parse(&text);
            if passed.is_empty() {
                return Err(format!("{path}: nothing is passed on"));
            }
            join_all(passed.into_iter().map(|(port, servers)| pass_on(&guest, port, servers))).await;
            Ok(())
        })
    }
}

/// The ports of a configuration, each with the servers behind it. What speaks HTTP is for health checks and left out.
fn parse(text: &str) -> Vec<(u16, Vec<(String, u16)>)> {
    let mut frontends: Vec<(u16, String)> = Vec::new();
    let mut backends: BTreeMap<String, Vec<(String, u16)>> = BTreeMap::new();
    let (mut section, mut port) = (("", ""), None);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let (first, second, third) = (words.next(), words.next(), words.next());
        let second = second.unwrap_or_default();
        match (line.starts_with(char::is_whitespace), first.unwrap_or_default()) {
            (false, kind) => (section, port) = ((kind, second), None),
            (true, "bind") => port = second.rsplit(':').next().and_then(|port| port.parse().ok()),
            (true, "default_backend") if section.0 == "frontend" => {
                frontends.extend(port.map(|port| (port, second.to_owned())));
            }
            (true, "server") if section.0 == "backend" => {
                let server = third.and_then(|server| server.rsplit_once(':'));
                let server = server.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
                backends.entry(section.1.to_owned()).or_default().extend(server);
            }
            _ => {}
        }
    }
    frontends
        .into_iter()
        .map(|(port, name)| (port, backends.get(&name).cloned().unwrap_or_default()))
        .collect()
}

/// Passes connections on, to each server in turn; one that is not reached is passed over.
async fn pass_on(guest: &Guest, port: u16, servers: Vec<(String, u16)>) {
    let servers: Arc<[(String, u16)]> = servers.into();
    let turn = Arc::new(AtomicUsize::new(0));
    listen(guest, port, |mut stream| {
        let (guest, servers, turn) = (guest.clone(), Arc::clone(&servers), Arc::clone(&turn));
        async move {
            let first = turn.fetch_add(1, Ordering::Relaxed);
            for number in 0..servers.len() {
                let Some((host, port)) = servers.get((first + number) % servers.len()) else { return };
                if let Ok(mut behind) = guest.network.connect(host, *port).await {
                    // Whoever hangs up first ends both.
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut behind).await;
                    return;
                }
            }
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_lead_to_the_servers_of_their_backend() {
        let text = "defaults\n    mode tcp\n\nfrontend api\n    bind :::6443 v4v6\n    default_backend masters\n\n\
                    frontend health\n    mode http\n    bind 127.0.0.1:9444\n    monitor-uri /haproxy\n\n\
                    backend masters\n    balance roundrobin\n    server m0 m0.blue.example:6443 check\n    \
                    server m1 m1.blue.example:6444 check\n";
        let servers = vec![("m0.blue.example".to_owned(), 6443), ("m1.blue.example".to_owned(), 6444)];
        assert_eq!(parse(text), [(6443, servers)]);
        assert_eq!(parse("frontend x\n  bind :a\n  default_backend y\nbackend y\n  server z nowhere\n"), []);
    }
}

//! Real sockets of this machine that lead into the fabric, so that programs here reach load balancers and node ports.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::balancers::given;
use super::ends::{Protocol, Source};
use super::fabric::Fabric;
use crate::client::{Cache, Identity};
use crate::context::Context;
use crate::events::Recorder;
use crate::kinds::{NODE, SERVICE};
use crate::object::Object as _;

/// How long to wait before a socket somebody else has is tried again.
const TAKEN: Duration = Duration::from_secs(1);

/// Where a socket leads: to the address of a load balancer, or to a port on whichever host is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Aim {
    Balancer(SocketAddr),
    Host(u16),
}

/// The numbers at a pointer of those ports of a service that are for streams.
pub(super) fn stream_ports(service: &Value, pointer: &str) -> Vec<u16> {
    let ports = service.list("/spec/ports").iter();
    ports
        .filter(|port| Protocol::parse(port.text("/protocol")) == Some(Protocol::Tcp))
        .filter_map(|port| port.number(pointer).and_then(|port| u16::try_from(port).ok()))
        .filter(|port| *port > 0)
        .collect()
}

/// The sockets that should be open, where they lead, and for which service.
fn wanted(services: &[Arc<Value>]) -> BTreeMap<SocketAddr, (Aim, Arc<Value>)> {
    let mut wanted = BTreeMap::new();
    for service in services.iter().filter(|service| !service.is_deleting()) {
        for number in stream_ports(service, "/port") {
            // Only what is this machine's own can be listened on.
            for address in given(service).into_iter().filter(IpAddr::is_loopback) {
                let socket = SocketAddr::new(address, number);
                wanted.insert(socket, (Aim::Balancer(socket), Arc::clone(service)));
            }
        }
        for number in stream_ports(service, "/nodePort") {
            let socket = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), number);
            wanted.insert(socket, (Aim::Host(number), Arc::clone(service)));
        }
    }
    wanted
}

/// Keeps the sockets open that services ask for, until it is dropped.
pub async fn run(context: Context) {
    let client = context.client(Identity::LOAD_BALANCER);
    let (services, nodes) = (client.cache(&SERVICE), client.cache(&NODE));
    let recorder = Recorder::new(&client, context.clock, "service-controller");
    let mut changes = services.changes();
    let mut open: BTreeMap<SocketAddr, JoinSet<()>> = BTreeMap::new();
    while changes.recv().await.is_some() {
        let wanted = wanted(&services.list(""));
        open.retain(|socket, _| wanted.contains_key(socket));
        for (socket, (aim, service)) in wanted {
            open.entry(socket).or_insert_with(|| {
                let door = Door {
                    aim,
                    service,
                    recorder: recorder.clone(),
                    fabric: Arc::clone(&context.world.fabric),
                    nodes: Arc::clone(&nodes),
                };
                let mut tasks = JoinSet::new();
                tasks.spawn(door.serve(socket));
                tasks
            });
        }
    }
}

/// One socket.
#[derive(Clone)]
struct Door {
    aim: Aim,
    /// The service it was opened for.
    service: Arc<Value>,
    recorder: Recorder,
    fabric: Arc<Fabric>,
    nodes: Arc<Cache>,
}

impl Door {
    async fn serve(self, socket: SocketAddr) {
        let mut told = false;
        let listener = loop {
            match TcpListener::bind(socket).await {
                Ok(listener) => break listener,
                Err(failure) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(%socket, %failure, "a load balancer cannot be reached from this machine");
                        let message = format!("{socket} cannot be reached from this machine: {failure}");
                        self.recorder.warning(&SERVICE, &self.service, "ListenFailed", &message).await;
                    }
                    tokio::time::sleep(TAKEN).await;
                }
            }
        };
        // The connections end with the socket.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                accepted = listener.accept() => match accepted {
                    Ok((client, _)) => drop(connections.spawn(self.clone().forward(client))),
                    Err(failure) => {
                        tracing::debug!(%socket, %failure, "a connection was lost before it began");
                        tokio::time::sleep(TAKEN).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn forward(self, mut client: TcpStream) {
        for address in self.addresses() {
            let connected = self.fabric.connect(&Source::Outside, address.ip(), address.port()).await;
            if let Ok(mut inside) = connected {
                // However it ends, both sides are told by the end of their streams.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut inside).await;
                return;
            }
        }
    }

    /// The addresses on the fabric to try, in order.
    fn addresses(&self) -> Vec<SocketAddr> {
        match self.aim {
            Aim::Balancer(address) => vec![address],
            Aim::Host(port) => {
                let nodes = self.nodes.list("");
                let addresses = nodes.iter().flat_map(|node| node.list("/status/addresses"));
                let internal = addresses.filter(|one| one.text("/type") == "InternalIP");
                internal
                    .filter_map(|one| Some(SocketAddr::new(one.text("/address").parse().ok()?, port)))
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_own_addresses_and_streams_become_sockets() {
        let service = json!({
            "spec": {"ports": [
                {"port": 6443, "nodePort": 30_001, "protocol": "TCP"},
                {"port": 53, "nodePort": 30_002, "protocol": "UDP"},
            ]},
            "status": {"loadBalancer": {"ingress": [{"ip": "127.64.0.1"}, {"ip": "10.0.0.1"}]}},
        });
        let sockets: Vec<String> = wanted(&[Arc::new(service)]).keys().map(ToString::to_string).collect();
        assert_eq!(sockets, ["127.0.0.1:30001", "127.64.0.1:6443"]);
    }
}

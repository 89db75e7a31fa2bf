//! The way from a source to an address: the one decision behind connecting and behind the question who reaches whom.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use serde_json::Value;

use super::directory::Directory;
use super::ends::{End, Member, OUTSIDE, Protocol, Source};
use super::fabric::Fabric;
use super::plugs::{POD_NETWORK, Place};
use super::policy::{self, Aim};
use super::services::{self, Door};
use crate::object::{Key, Object as _};

/// The addresses every guest behind masquerade believes to be its own.
const GUESTS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 0, 2, 2)), IpAddr::V6(Ipv6Addr::new(0xfd10, 0, 2, 0, 0, 0, 0, 2))];

/// A way that is open.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) from: End,
    pub(super) to: End,
    /// The address the other end sees.
    pub(super) source: IpAddr,
    /// What was asked for, before any service.
    pub(super) address: IpAddr,
    pub(super) asked: u16,
    /// Who has to listen, on which port.
    pub(super) place: Place,
    pub(super) port: u16,
    /// The real socket, for what is outside.
    pub(super) socket: Option<SocketAddr>,
    /// Why it is open.
    pub(super) why: String,
}

/// Why a way is not open, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Blocked {
    /// The source has no network.
    NoNetwork(String),
    /// Nothing comes back. What is sent again goes to the same endpoint behind a service.
    Silence(String, Option<(IpAddr, u16)>),
    /// Somebody says no.
    Refused(String),
}

impl Blocked {
    pub(super) fn silence(why: impl Into<String>) -> Self {
        Self::Silence(why.into(), None)
    }

    pub(super) fn why(&self) -> &str {
        match self {
            Self::NoNetwork(why) | Self::Silence(why, _) | Self::Refused(why) => why,
        }
    }
}

/// Where an address leads.
struct Target {
    end: End,
    place: Place,
    port: u16,
    socket: Option<SocketAddr>,
    /// Whether the policies of the pod network are asked.
    policed: bool,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
struct Ask {
    address: IpAddr,
    port: u16,
    protocol: Protocol,
    /// Whether a turn among endpoints is used up.
    take: bool,
}

impl Fabric {
    pub(super) fn route(
        &self,
        from: &Source,
        address: IpAddr,
        port: u16,
        protocol: Protocol,
        take: bool,
    ) -> Result<Route, Blocked> {
        let end = self.end_of(from)?;
        let ask = Ask { address, port, protocol, take };
        let target = self.target(&end, ask)?;
        let behind = target.end.addresses().iter().find(|one| one.is_ipv4() == address.is_ipv4());
        let behind = behind.map(|one| (*one, target.port));
        let silence = |why| Blocked::Silence(why, behind);
        self.path(&end, &target.end).map_err(silence)?;
        let why = if target.policed {
            let verdict = self.police(&end, &target.end, Aim { port: target.port, protocol });
            verdict.map_err(silence)?
        } else {
            "policies do not reach there".to_owned()
        };
        let fitting = end.addresses().iter().find(|one| one.is_ipv4() == address.is_ipv4());
        let source = fitting.or(end.addresses().first()).copied().unwrap_or(OUTSIDE);
        Ok(Route {
            from: end,
            to: target.end,
            source,
            address,
            asked: port,
            place: target.place,
            port: target.port,
            socket: target.socket,
            why,
        })
    }

    /// What the policies say.
    pub(super) fn police(&self, from: &End, to: &End, aim: Aim) -> Result<String, String> {
        let Some(directory) = self.directory() else { return Ok("there are no policies".to_owned()) };
        let mut namespaces: Vec<&str> =
            [from, to].into_iter().filter_map(End::pod).map(|pod| pod.key.namespace.as_str()).collect();
        namespaces.dedup();
        // An empty namespace would be all of them.
        namespaces.retain(|namespace| !namespace.is_empty());
        let verdict = policy::verdict(&directory.policies(&namespaces), from, to, aim);
        if verdict.allowed { Ok(verdict.why) } else { Err(verdict.why) }
    }

    /// Who a source is.
    pub(super) fn end_of(&self, source: &Source) -> Result<End, Blocked> {
        let end = match source {
            Source::Pod(uid) => self
                .member(uid)
                .map(End::Pod)
                .ok_or_else(|| Blocked::NoNetwork(format!("pod {uid} is on no network")))?,
            Source::Host(name) => self.host_end(name),
            Source::Outside => End::Outside(OUTSIDE),
        };
        if self.hosts.get(end.node()).is_some_and(|host| !host.powered) {
            return Err(Blocked::NoNetwork(format!("host {} has no power", end.node())));
        }
        Ok(end)
    }

    /// A pod that is plugged in.
    fn member(&self, uid: &str) -> Option<Member> {
        let plugs = self.plugs.read();
        if !plugs.has(uid) {
            return None;
        }
        let addresses =
            plugs.port(uid, POD_NETWORK).map(|plugged| plugged.port.addresses.clone()).unwrap_or_default();
        let node = plugs.node(uid).to_owned();
        drop(plugs);
        let known = self.directory().and_then(|directory| directory.member(uid, addresses.clone()));
        let mut member =
            known.unwrap_or_else(|| Member { uid: uid.to_owned(), addresses, ..Member::default() });
        if !node.is_empty() {
            member.node = node;
        }
        Some(member)
    }

    pub(super) fn host_end(&self, name: &str) -> End {
        let node = self.directory().and_then(|directory| directory.node(name));
        let listed = node.as_deref().map(|node| node.list("/status/addresses")).unwrap_or_default();
        let addresses = listed
            .iter()
            .filter(|one| one.text("/type") == "InternalIP")
            .filter_map(|one| one.text("/address").parse().ok())
            .collect();
        End::Host { name: name.to_owned(), addresses }
    }

    fn target(&self, from: &End, ask: Ask) -> Result<Target, Blocked> {
        if let End::Pod(member) = from {
            let own = ask.address.is_loopback() || GUESTS.contains(&ask.address);
            let plugs = self.plugs.read();
            let ports = plugs.ports_of(&member.uid);
            if own || ports.iter().any(|plugged| plugged.port.addresses.contains(&ask.address)) {
                return Ok(at_pod(member.clone(), ask.port, false));
            }
            // A wire of its own goes before the way around.
            let near = ports.iter().filter(|plugged| plugged.up && plugged.segment != POD_NETWORK);
            let near = near.filter_map(|plugged| {
                let uid = plugs.holder(&plugged.segment, ask.address)?;
                Some((uid.to_owned(), plugged.segment.clone()))
            });
            let near = near.collect::<Vec<_>>().into_iter().next();
            let connected = plugs.port(&member.uid, POD_NETWORK).is_some_and(|plugged| plugged.up);
            drop(plugs);
            if let Some((uid, segment)) = near {
                return self.neighbour(&uid, &segment, ask.port);
            }
            if !connected {
                return Err(Blocked::NoNetwork(format!("{} has no way to {}", member.key, ask.address)));
            }
        }
        if ask.address.is_loopback()
            && let End::Host { .. } = from
        {
            return Ok(on_host(from.clone(), ask.port));
        }
        let Some(directory) = self.directory() else { return self.plain(ask.address, ask.port) };
        if let Some(service) = directory.service_at(ask.address, ask.port, ask.protocol) {
            return self.behind(&directory, &service, from, ask);
        }
        if let Some(node) = directory.node_at(ask.address) {
            return self.at_host(&directory, &node, from, ask);
        }
        let target = self.plain(ask.address, ask.port)?;
        if matches!((from, &target.end), (End::Outside(_), End::Pod(_))) {
            return Err(Blocked::silence("the addresses of pods are not known outside"));
        }
        Ok(target)
    }

    /// Somebody on the same wire.
    fn neighbour(&self, uid: &str, segment: &str, port: u16) -> Result<Target, Blocked> {
        let up = self.plugs.read().ports_of(uid).iter().any(|one| one.segment == segment && one.up);
        let member = self.member(uid).filter(|_| up);
        let member = member.ok_or_else(|| Blocked::silence("its link is down".to_owned()))?;
        Ok(at_pod(member, port, false))
    }

    /// An address that is no service's.
    fn plain(&self, address: IpAddr, port: u16) -> Result<Target, Blocked> {
        let holder = self.plugs.read().holder(POD_NETWORK, address).map(ToOwned::to_owned);
        if let Some(uid) = holder {
            let up = self.plugs.read().port(&uid, POD_NETWORK).is_some_and(|plugged| plugged.up);
            let member = self.member(&uid).filter(|_| up);
            return member
                .map(|member| at_pod(member, port, true))
                .ok_or_else(|| Blocked::silence(format!("the link of {address} is down")));
        }
        if let Some(directory) = self.directory() {
            if is_api(&directory, address) {
                return Ok(at_api(address, port));
            }
            if let Some(node) = directory.node_at(address) {
                return Ok(on_host(self.host_end(node.name()), port));
            }
        }
        let externals = self.externals.read();
        let named = externals.iter().find(|(_, external)| external.address == address);
        let Some((name, external)) = named else {
            let inside = self.directory().is_none_or(|directory| directory.is_inside(address));
            return Err(if address.is_loopback() || !inside {
                // The world outside has nothing but what was named.
                Blocked::Refused(format!("there is nothing at {address}"))
            } else {
                Blocked::silence(format!("nobody has the address {address}"))
            });
        };
        let sockets = self.directory().is_some_and(|directory| directory.sockets);
        let socket = external.socket.filter(|_| sockets).map(|socket| {
            SocketAddr::new(socket.ip(), if socket.port() == 0 { port } else { socket.port() })
        });
        let place = Place::Outside(name.clone());
        Ok(Target { end: End::Outside(address), place, port, socket, policed: true })
    }

    /// What is behind the address of a service.
    fn behind(
        &self,
        directory: &Directory,
        service: &Arc<Value>,
        from: &End,
        ask: Ask,
    ) -> Result<Target, Blocked> {
        let key = Key::of(service);
        let Some(port) = services::port_of(service, ask.port, ask.protocol) else {
            return Err(Blocked::silence(format!("service {key} has no port {}", ask.port)));
        };
        let own = service.list("/spec/clusterIPs").iter().any(|one| is_address(one, ask.address));
        if own && matches!(from, End::Outside(_)) {
            return Err(Blocked::silence("the addresses of the cluster are not known outside"));
        }
        let door = if own { Door::Cluster(from.node()) } else { Door::Balancer };
        if !own && !welcome(service, from) {
            return Err(Blocked::silence(format!("service {key} lets only some ranges in")));
        }
        self.backend(directory, service, port, from, (ask, door))
    }

    /// What is at an address of a host: a port of a service, or the host itself.
    fn at_host(&self, directory: &Directory, node: &Value, from: &End, ask: Ask) -> Result<Target, Blocked> {
        let services = directory.services_on(ask.port);
        let found = services
            .iter()
            .find_map(|service| Some((service, services::node_port_of(service, ask.port, ask.protocol)?)));
        if let Some((service, port)) = found {
            let host = self.host_end(node.name());
            // The host has to be there for what enters through it.
            self.path(from, &host).map_err(Blocked::silence)?;
            return self.backend(directory, service, port, from, (ask, Door::Node(node.name())));
        }
        Ok(on_host(self.host_end(node.name()), ask.port))
    }

    fn backend(
        &self,
        directory: &Directory,
        service: &Value,
        port: &Value,
        from: &End,
        (ask, door): (Ask, Door<'_>),
    ) -> Result<Target, Blocked> {
        let key = Key::of(service);
        let backends = services::backends(service, &directory.slices(&key), port, ask.address, door);
        let client = from.addresses().first().copied().unwrap_or(OUTSIDE);
        let start = directory.chance(&key.to_string());
        let backend = self.turns.lock().pick(service, port, client, &backends, (start, ask.take));
        match backend {
            Some(backend) if is_api_service(service) => Ok(at_api(backend.address, backend.port)),
            Some(backend) => self.plain(backend.address, backend.port),
            // Packets for a policy that keeps to the host are dropped; without any endpoint they are rejected.
            None if matches!(door, Door::Node(_))
                && service.text("/spec/externalTrafficPolicy") == "Local" =>
            {
                Err(Blocked::silence(format!("service {key} has no endpoint on that host")))
            }
            None => Err(Blocked::Refused(format!("service {key} has no ready endpoint"))),
        }
    }

    /// Whether bytes can pass between two ends at all: power, cables and cuts.
    pub(super) fn path(&self, from: &End, to: &End) -> Result<(), String> {
        let apart = from.node() != to.node() || from.node().is_empty();
        for end in [from, to] {
            let Some(host) = self.hosts.get(end.node()) else { continue };
            if !host.powered {
                return Err(format!("host {} has no power", end.node()));
            }
            if apart && !host.connected {
                return Err(format!("host {} is cut off", end.node()));
            }
        }
        let cuts = self.cuts.read();
        let cut = cuts
            .iter()
            .find(|(one, other)| (one.has(from) && other.has(to)) || (one.has(to) && other.has(from)));
        cut.map_or(Ok(()), |(one, other)| Err(format!("the link between {one} and {other} is cut")))
    }
}

fn at_pod(member: Member, port: u16, policed: bool) -> Target {
    let place = Place::Pod(member.uid.clone());
    Target { end: End::Pod(member), place, port, socket: None, policed }
}

fn at_api(address: IpAddr, port: u16) -> Target {
    Target { end: End::Api(address), place: Place::Api, port, socket: None, policed: true }
}

fn on_host(end: End, port: u16) -> Target {
    let place = Place::Host(end.node().to_owned());
    Target { end, place, port, socket: None, policed: true }
}

fn is_address(text: &Value, address: IpAddr) -> bool {
    text.as_str().and_then(|text| text.parse().ok()) == Some(address)
}

/// Whether a service is the API server's own.
pub(super) fn is_api_service(service: &Value) -> bool {
    service.namespace() == "default" && service.name() == "kubernetes"
}

/// Whether an address is one of the API server's.
fn is_api(directory: &Directory, address: IpAddr) -> bool {
    let slices = directory.slices(&Key::new("default", "kubernetes"));
    let mut endpoints = slices.iter().flat_map(|slice| slice.list("/endpoints"));
    endpoints.any(|endpoint| endpoint.list("/addresses").iter().any(|one| is_address(one, address)))
}

/// Whether the load balancer of a service lets somebody in. Who is inside never passes it.
fn welcome(service: &Value, from: &End) -> bool {
    let ranges = service.list("/spec/loadBalancerSourceRanges");
    let End::Outside(address) = from else { return true };
    ranges.is_empty()
        || ranges
            .iter()
            .filter_map(|range| range.as_str()?.trim().parse::<IpNet>().ok())
            .any(|range| range.contains(address))
}

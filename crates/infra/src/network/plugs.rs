//! Which pod is plugged into which segment with which addresses, and who listens where.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::ends::{Port, Protocol};
use super::stream::Stream;

/// The segment of the pod network.
pub(super) const POD_NETWORK: &str = "";

/// A port that is plugged in.
#[derive(Debug, Clone)]
pub(super) struct Plugged {
    pub(super) port: Port,
    /// The segment it leads to.
    pub(super) segment: String,
    /// Whether the machine's side of it has a link.
    pub(super) up: bool,
}

/// All ports, and who has an address on a segment.
#[derive(Debug, Default)]
pub(super) struct Plugs {
    ports: BTreeMap<(String, String), Plugged>,
    /// Per segment and address the pods that claim it: the last one is heard.
    holders: HashMap<(String, IpAddr), Vec<String>>,
    /// The hosts of the pods, as it was when they were plugged in.
    nodes: HashMap<String, String>,
}

impl Plugs {
    pub(super) fn plug(&mut self, port: Port, segment: String, node: Option<String>) {
        // Plugged in again, a machine's link is as it was.
        let up = self.port(&port.pod, &port.network).is_none_or(|plugged| plugged.up);
        self.take_out(&port.pod, Some(&port.network));
        for address in &port.addresses {
            self.hold(&segment, *address, &port.pod);
        }
        if let Some(node) = node {
            self.nodes.insert(port.pod.clone(), node);
        }
        let place = (port.pod.clone(), port.network.clone());
        self.ports.insert(place, Plugged { port, segment, up });
    }

    /// Takes a pod off one network, or off all.
    pub(super) fn take_out(&mut self, pod: &str, network: Option<&str>) {
        let places: Vec<(String, String)> = match network {
            Some(network) => vec![(pod.to_owned(), network.to_owned())],
            None => self.ports_of(pod).iter().map(|one| (pod.to_owned(), one.port.network.clone())).collect(),
        };
        let gone: Vec<Plugged> = places.iter().filter_map(|place| self.ports.remove(place)).collect();
        let left = gone.iter().flat_map(|plugged| {
            plugged.port.addresses.iter().map(|address| (plugged.segment.as_str(), *address))
        });
        for (segment, address) in left {
            self.let_go(segment, address, pod);
        }
        if network.is_none() {
            self.nodes.remove(pod);
        }
    }

    /// Adds an address to a port; false where there is no such port.
    pub(super) fn add(&mut self, pod: &str, network: &str, address: IpAddr) -> bool {
        let Some(plugged) = self.ports.get_mut(&(pod.to_owned(), network.to_owned())) else { return false };
        if !plugged.port.addresses.contains(&address) {
            plugged.port.addresses.push(address);
        }
        let segment = plugged.segment.clone();
        self.hold(&segment, address, pod);
        true
    }

    /// Takes an address off a port.
    pub(super) fn remove(&mut self, pod: &str, network: &str, address: IpAddr) {
        if let Some(plugged) = self.ports.get_mut(&(pod.to_owned(), network.to_owned())) {
            plugged.port.addresses.retain(|one| *one != address);
            let segment = plugged.segment.clone();
            self.let_go(&segment, address, pod);
        }
    }

    pub(super) fn set_link(&mut self, pod: &str, network: &str, up: bool) {
        if let Some(plugged) = self.ports.get_mut(&(pod.to_owned(), network.to_owned())) {
            plugged.up = up;
        }
    }

    fn hold(&mut self, segment: &str, address: IpAddr, pod: &str) {
        let holders = self.holders.entry((segment.to_owned(), address)).or_default();
        holders.retain(|uid| uid != pod);
        holders.push(pod.to_owned());
    }

    fn let_go(&mut self, segment: &str, address: IpAddr, pod: &str) {
        let place = (segment.to_owned(), address);
        if let Some(holders) = self.holders.get_mut(&place) {
            holders.retain(|uid| uid != pod);
            if holders.is_empty() {
                self.holders.remove(&place);
            }
        }
    }

    /// The pod that answers for an address on a segment.
    pub(super) fn holder(&self, segment: &str, address: IpAddr) -> Option<&str> {
        self.holders.get(&(segment.to_owned(), address))?.last().map(String::as_str)
    }

    /// The port of a pod on a network.
    pub(super) fn port(&self, pod: &str, network: &str) -> Option<&Plugged> {
        self.ports.get(&(pod.to_owned(), network.to_owned()))
    }

    /// All ports of a pod, that of the pod network first.
    pub(super) fn ports_of(&self, pod: &str) -> Vec<&Plugged> {
        let from = (pod.to_owned(), String::new());
        self.ports.range(from..).take_while(|((uid, _), _)| uid == pod).map(|(_, plugged)| plugged).collect()
    }

    /// The host a pod was on when it was plugged in.
    pub(super) fn node(&self, pod: &str) -> &str {
        self.nodes.get(pod).map(String::as_str).unwrap_or_default()
    }

    /// Whether a pod is plugged in anywhere.
    pub(super) fn has(&self, pod: &str) -> bool {
        !self.ports_of(pod).is_empty()
    }
}

/// Where somebody can listen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In a pod, by uid.
    Pod(String),
    /// On a host.
    Host(String),
    /// The API server.
    Api,
    /// Outside, under a name.
    Outside(String),
}

/// A datagram that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// Where it came from, as the network sees it: an answer goes there.
    pub from: std::net::SocketAddr,
    /// What it holds.
    pub bytes: Bytes,
}

/// Who listens.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    streams: BTreeMap<(Place, u16), mpsc::UnboundedSender<Stream>>,
    datagrams: BTreeMap<(Place, u16), mpsc::UnboundedSender<Datagram>>,
}

impl Listeners {
    pub(super) fn listen(&mut self, place: Place, port: u16) -> mpsc::UnboundedReceiver<Stream> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.streams.insert((place, port), sender);
        receiver
    }

    pub(super) fn bind(&mut self, place: Place, port: u16) -> mpsc::UnboundedReceiver<Datagram> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.datagrams.insert((place, port), sender);
        receiver
    }

    pub(super) fn leave(&mut self, place: &Place) {
        leave(&mut self.streams, place);
        leave(&mut self.datagrams, place);
    }

    /// Who accepts connections there; port 0 of a place accepts what nobody else there does.
    pub(super) fn stream(&self, place: &Place, port: u16) -> Option<mpsc::UnboundedSender<Stream>> {
        find(&self.streams, place, port)
    }

    pub(super) fn datagram(&self, place: &Place, port: u16) -> Option<mpsc::UnboundedSender<Datagram>> {
        find(&self.datagrams, place, port)
    }

    pub(super) fn has(&self, place: &Place, port: u16, protocol: Protocol) -> bool {
        match protocol {
            Protocol::Tcp => self.stream(place, port).is_some(),
            Protocol::Udp => self.datagram(place, port).is_some(),
            Protocol::Sctp => false,
        }
    }
}

fn leave<T>(table: &mut BTreeMap<(Place, u16), T>, place: &Place) {
    let all = (place.clone(), 0)..=(place.clone(), u16::MAX);
    let ports: Vec<u16> = table.range(all).map(|((_, port), _)| *port).collect();
    for port in ports {
        table.remove(&(place.clone(), port));
    }
}

fn find<T>(
    table: &BTreeMap<(Place, u16), mpsc::UnboundedSender<T>>,
    place: &Place,
    port: u16,
) -> Option<mpsc::UnboundedSender<T>> {
    [port, 0]
        .into_iter()
        .filter_map(|port| table.get(&(place.clone(), port)))
        .find(|sender| !sender.is_closed())
        .cloned()
}

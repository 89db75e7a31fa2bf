//! The fabric: from an address and a port to a byte stream.
//!
//! Pods and the machines in them are plugged into it, and reach each other, services, hosts and the API server
//! through nothing else. What the API says (services, policies, names) comes from the [`Directory`]; what is
//! physical (cables, power, links broken on purpose) is here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::directory::Directory;
use super::ends::End;
pub use super::ends::{FabricError, Party, Port, Protocol, Source, Verdict};
pub use super::plugs::Datagram;
use super::plugs::{Listeners, Place, Plugs};
use super::route::{Blocked, Route};
use super::segments;
use super::services::Turns;
pub use super::stream::Stream;
use super::stream::{self, Line};
use crate::object::Object as _;
use crate::world::hosts::Hosts;

/// The ports of who calls, beyond those of services.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 32768..=60999;

/// The first port a connection may come from.
const FIRST_PORT: u16 = 32_768;
/// How long to wait for an answer before asking again; it doubles from there.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Something outside that has a name: reached by an address that is nobody else's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct External {
    pub(super) address: IpAddr,
    /// The real socket of this machine, if it is that; its port may be 0 for the one that is asked for.
    pub(super) socket: Option<SocketAddr>,
}

/// A connection that stands, for breaking it.
#[derive(Debug)]
struct Standing {
    line: Weak<Line>,
    from: End,
    to: End,
}

/// The network below everything.
#[derive(Debug, Default)]
pub struct Fabric {
    pub(super) hosts: Arc<Hosts>,
    pub(super) plugs: RwLock<Plugs>,
    pub(super) listeners: RwLock<Listeners>,
    pub(super) cuts: RwLock<BTreeSet<(Party, Party)>>,
    pub(super) externals: RwLock<BTreeMap<String, External>>,
    pub(super) turns: Mutex<Turns>,
    directory: RwLock<Option<Arc<Directory>>>,
    standing: Mutex<Vec<Standing>>,
    next_port: AtomicU16,
}

impl Fabric {
    /// A fabric between these hosts.
    pub fn new(hosts: &Arc<Hosts>) -> Self {
        Self { hosts: Arc::clone(hosts), ..Self::default() }
    }

    /// Tells the fabric what the API says.
    pub fn inform(&self, directory: Directory) {
        *self.directory.write() = Some(Arc::new(directory));
    }

    pub(super) fn directory(&self) -> Option<Arc<Directory>> {
        self.directory.read().clone()
    }

    /// Plugs a pod into a network.
    pub fn plug(&self, port: Port) {
        let directory = self.directory();
        let segment = if port.network.is_empty() {
            String::new()
        } else {
            let attachment = directory.as_ref().and_then(|directory| directory.network(&port.network));
            segments::segment(&port.network, attachment.as_deref())
        };
        let pod = directory.and_then(|directory| directory.pod(&port.pod));
        let node = pod.map(|pod| pod.text("/spec/nodeName").to_owned());
        self.plugs.write().plug(port, segment, node);
    }

    /// Takes a pod off all networks. Its connections end.
    pub fn unplug(&self, pod: &str) {
        self.plugs.write().take_out(pod, None);
        self.listeners.write().leave(&Place::Pod(pod.to_owned()));
        self.review(|end| end.pod().is_some_and(|member| member.uid == pod));
    }

    /// Takes a pod off one network.
    pub fn unplug_from(&self, pod: &str, network: &str) {
        self.plugs.write().take_out(pod, Some(network));
        self.review(|end| end.pod().is_some_and(|member| member.uid == pod));
    }

    /// Takes away or gives back the link of a machine's interface; the pod around it keeps its address.
    pub fn set_link(&self, pod: &str, network: &str, up: bool) {
        self.plugs.write().set_link(pod, network, up);
    }

    /// Gives a machine one more address on a network, such as a virtual one it answers for from now on. False where
    /// it is not on that network.
    pub fn add_address(&self, pod: &str, network: &str, address: IpAddr) -> bool {
        self.plugs.write().add(pod, network, address)
    }

    /// Takes an address from a machine.
    pub fn remove_address(&self, pod: &str, network: &str, address: IpAddr) {
        self.plugs.write().remove(pod, network, address);
    }

    /// Listens on a port of a pod, on all its addresses.
    pub fn listen(&self, pod: &str, port: u16) -> mpsc::UnboundedReceiver<Stream> {
        self.listeners.write().listen(Place::Pod(pod.to_owned()), port)
    }

    /// Listens on a port of a host.
    pub fn listen_on_host(&self, host: &str, port: u16) -> mpsc::UnboundedReceiver<Stream> {
        self.listeners.write().listen(Place::Host(host.to_owned()), port)
    }

    /// Listens for datagrams on a port of a pod.
    pub fn bind(&self, pod: &str, port: u16) -> mpsc::UnboundedReceiver<Datagram> {
        self.listeners.write().bind(Place::Pod(pod.to_owned()), port)
    }

    /// Listens for datagrams on a free port of a host, as who sends some from there does: answers come to it.
    pub fn bind_on_host(&self, host: &str) -> (u16, mpsc::UnboundedReceiver<Datagram>) {
        let (mut listeners, place) = (self.listeners.write(), Place::Host(host.to_owned()));
        let free = EPHEMERAL.into_iter().find(|port| !listeners.has(&place, *port, Protocol::Udp));
        // Where all are taken, the first one changes hands.
        let port = free.unwrap_or(*EPHEMERAL.start());
        (port, listeners.bind(place, port))
    }

    /// Takes the connections to the infra cluster's own API server, whatever port they name.
    pub fn serve_api(&self) -> mpsc::UnboundedReceiver<Stream> {
        self.listeners.write().listen(Place::Api, 0)
    }

    /// Gives a name to a real socket of this machine; with port 0 the port asked for is the port connected to. Only
    /// reachable where real sockets may be used.
    pub fn external(&self, name: &str, socket: SocketAddr) {
        self.name_outside(name, Some(socket));
    }

    /// Serves a name outside the cluster in memory.
    pub fn serve_external(&self, name: &str, port: u16) -> mpsc::UnboundedReceiver<Stream> {
        self.name_outside(name, None);
        self.listeners.write().listen(Place::Outside(name.to_owned()), port)
    }

    fn name_outside(&self, name: &str, socket: Option<SocketAddr>) {
        let mut externals = self.externals.write();
        let count = u32::try_from(externals.len()).unwrap_or(u32::MAX);
        // A range set aside for tests of networks.
        let next = Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 1).to_bits().saturating_add(count));
        let external =
            externals.entry(name.to_owned()).or_insert(External { address: IpAddr::V4(next), socket: None });
        if socket.is_some() {
            external.socket = socket;
        }
    }

    /// Breaks all links between two parties, in both directions. Standing connections stall.
    pub fn cut(&self, one: Party, other: Party) {
        self.cuts.write().insert(ordered(one, other));
        self.recheck();
    }

    /// Repairs what was cut; false where nothing was.
    pub fn mend(&self, one: Party, other: Party) -> bool {
        let mended = self.cuts.write().remove(&ordered(one, other));
        self.recheck();
        mended
    }

    /// The links that are cut.
    pub fn cuts(&self) -> Vec<(Party, Party)> {
        self.cuts.read().iter().cloned().collect()
    }

    /// Connects to an address. While nothing comes back it is tried again, with longer and longer waits, until
    /// patience ends.
    pub async fn connect(&self, from: &Source, address: IpAddr, port: u16) -> Result<Stream, FabricError> {
        let until = Instant::now() + self.patience("fabric.connect");
        let (mut aim, mut wait) = ((address, port), FIRST_WAIT);
        loop {
            match self.route(from, aim.0, aim.1, Protocol::Tcp, true) {
                Ok(route) => return self.open(Route { address, asked: port, ..route }).await,
                Err(Blocked::NoNetwork(_)) => return Err(FabricError::Unreachable),
                Err(Blocked::Refused(_)) => return Err(FabricError::Refused),
                Err(Blocked::Silence(_, behind)) => {
                    let now = Instant::now();
                    if now >= until {
                        return Err(FabricError::TimedOut);
                    }
                    // A service has chosen once for all attempts of one connection.
                    aim = behind.unwrap_or(aim);
                    tokio::time::sleep_until(until.min(now + wait)).await;
                    wait *= 2;
                }
            }
        }
    }

    /// Connects to a name: to the first of its addresses that answers.
    pub async fn connect_name(&self, from: &Source, host: &str, port: u16) -> Result<Stream, FabricError> {
        let mut failure = FabricError::NoSuchHost;
        for address in self.resolve(from, host).await? {
            match self.connect(from, address, port).await {
                Ok(stream) => return Ok(stream),
                Err(other) => failure = other,
            }
        }
        Err(failure)
    }

    /// Sends a datagram from a port. Nobody is told whether it arrives, save who has no network at all.
    pub fn send(
        &self,
        from: &Source,
        own_port: u16,
        to: SocketAddr,
        bytes: Bytes,
    ) -> Result<(), FabricError> {
        match self.route(from, to.ip(), to.port(), Protocol::Udp, true) {
            Ok(route) => {
                if let Some(listener) = self.listeners.read().datagram(&route.place, route.port) {
                    let from = SocketAddr::new(route.source, own_port);
                    // A datagram to who has gone is lost.
                    let _ = listener.send(Datagram { from, bytes });
                }
                Ok(())
            }
            Err(Blocked::NoNetwork(_)) => Err(FabricError::Unreachable),
            Err(_) => Ok(()),
        }
    }

    /// Whether an address can be reached, by the same decision that [`Fabric::connect`] makes.
    pub fn reach_address(&self, from: &Source, address: IpAddr, port: u16, protocol: Protocol) -> Verdict {
        match self.route(from, address, port, protocol, false) {
            Ok(route) => {
                let listening =
                    route.socket.is_some() || self.listeners.read().has(&route.place, route.port, protocol);
                let why = if listening {
                    route.why
                } else {
                    format!("{}, but nobody listens there on port {}", route.why, route.port)
                };
                Verdict { allowed: true, listening, why }
            }
            Err(blocked) => Verdict::deny(blocked.why()),
        }
    }

    /// Whether one pod or host can reach another on a port, at any of its addresses.
    pub fn reach(&self, from: &Source, to: &Source, port: u16, protocol: Protocol) -> Verdict {
        let addresses = self.addresses_of(to);
        let mut verdicts: Vec<Verdict> =
            addresses.iter().map(|address| self.reach_address(from, *address, port, protocol)).collect();
        // The best of them; of equal ones the first.
        verdicts.sort_by_key(|verdict| u8::from(!verdict.allowed) + u8::from(!verdict.listening));
        verdicts.into_iter().next().unwrap_or_else(|| Verdict::deny("it has no address"))
    }

    /// The addresses somebody is reached by, those on the pod network first.
    pub fn addresses_of(&self, whom: &Source) -> Vec<IpAddr> {
        match whom {
            Source::Pod(uid) => {
                let plugs = self.plugs.read();
                plugs.ports_of(uid).iter().flat_map(|plugged| plugged.port.addresses.clone()).collect()
            }
            Source::Host(name) => self.host_end(name).addresses().to_vec(),
            Source::Outside => Vec::new(),
        }
    }

    async fn open(&self, route: Route) -> Result<Stream, FabricError> {
        let line = Line::new();
        let from = SocketAddr::new(route.source, self.own_port());
        let to = SocketAddr::new(route.address, route.asked);
        let stream = if let Some(socket) = route.socket {
            let real = TcpStream::connect(socket).await.map_err(|_| FabricError::Refused)?;
            Stream::real(real, from, to, &line)
        } else {
            let (near, far) = stream::pair(from, to, &line);
            let listener = self.listeners.read().stream(&route.place, route.port);
            listener.ok_or(FabricError::Refused)?.send(far).map_err(|_| FabricError::Refused)?;
            near
        };
        let mut standing = self.standing.lock();
        // Now and then those that are over are swept out.
        if standing.len().is_power_of_two() {
            standing.retain(|one| one.line.strong_count() > 0);
        }
        standing.push(Standing { line: Arc::downgrade(&line), from: route.from, to: route.to });
        Ok(stream)
    }

    fn own_port(&self) -> u16 {
        FIRST_PORT + self.next_port.fetch_add(1, Ordering::Relaxed) % (u16::MAX - FIRST_PORT)
    }

    /// Waits as long as somebody waits who hears nothing.
    pub(super) async fn give_up(&self, blocked: &Blocked) -> FabricError {
        match blocked {
            Blocked::NoNetwork(_) => FabricError::Unreachable,
            Blocked::Refused(_) => FabricError::Refused,
            Blocked::Silence(..) => {
                let patience = self.patience("fabric.connect");
                if !patience.is_zero() {
                    tokio::time::sleep(patience).await;
                }
                FabricError::TimedOut
            }
        }
    }

    fn patience(&self, stage: &str) -> Duration {
        self.directory().map(|directory| directory.patience(stage)).unwrap_or_default()
    }

    /// Looks at all standing connections again, after something physical has changed.
    pub fn recheck(&self) {
        self.review(|_| true);
    }

    /// Looks at the standing connections that have such an end.
    fn review(&self, concerned: impl Fn(&End) -> bool) {
        let patience = self.patience("fabric.stall");
        self.standing.lock().retain(|standing| {
            let Some(line) = standing.line.upgrade() else { return false };
            if !concerned(&standing.from) && !concerned(&standing.to) {
                return true;
            }
            if self.path(&standing.from, &standing.to).is_err() {
                line.stall(patience);
            } else if [&standing.from, &standing.to].into_iter().any(|end| self.is_gone(end)) {
                line.reset();
            } else {
                line.open();
            }
            true
        });
    }

    fn is_gone(&self, end: &End) -> bool {
        end.pod().is_some_and(|member| !self.plugs.read().has(&member.uid))
    }
}

fn ordered(one: Party, other: Party) -> (Party, Party) {
    if one <= other { (one, other) } else { (other, one) }
}

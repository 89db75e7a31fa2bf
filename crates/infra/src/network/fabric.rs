//! The fabric: from an address and a port to a byte stream.

use std::collections::BTreeMap;
use std::net::IpAddr;

use parking_lot::RwLock;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;

/// A connection.
pub type Stream = DuplexStream;

/// Who wants to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A pod (and a machine in it) by uid.
    Pod(String),
    /// A host by name.
    Host(String),
    /// Anybody outside the cluster.
    Outside,
}

/// What a pod is plugged in with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Port {
    /// The uid of the pod.
    pub pod: String,
    /// The network: empty for the pod network, else the key of a network attachment.
    pub network: String,
    /// The hardware address.
    pub mac: String,
    /// The addresses.
    pub addresses: Vec<IpAddr>,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// Nobody listens there.
    #[error("connect: connection refused")]
    Refused,
    /// Nothing comes back: nobody has that address, or a policy drops what is sent.
    #[error("connect: connection timed out")]
    TimedOut,
    /// The source has no network.
    #[error("connect: network is unreachable")]
    Unreachable,
    /// There is no such name.
    #[error("no such host")]
    NoSuchHost,
}

/// The network below everything.
#[derive(Debug, Default)]
pub struct Fabric {
    ports: RwLock<BTreeMap<(String, String), Port>>,
    listeners: RwLock<BTreeMap<(String, u16), mpsc::UnboundedSender<Stream>>>,
}

impl Fabric {
    /// Plugs a pod into a network.
    pub fn plug(&self, port: Port) {
        self.ports.write().insert((port.pod.clone(), port.network.clone()), port);
    }

    /// Takes a pod off all networks.
    pub fn unplug(&self, pod: &str) {
        self.ports.write().retain(|(uid, _), _| uid != pod);
        self.listeners.write().retain(|(uid, _), _| uid != pod);
    }

    /// Listens on a port of a pod, on all its addresses.
    pub fn listen(&self, pod: &str, port: u16) -> mpsc::UnboundedReceiver<Stream> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.listeners.write().insert((pod.to_owned(), port), sender);
        receiver
    }
}

impl Fabric {
    /// Shim until the network lands.
    pub async fn connect_name(&self, _: &Source, _: &str, _: u16) -> Result<Stream, FabricError> {
        Err(FabricError::Refused)
    }
}

//! Who talks to whom on the fabric.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

use crate::object::Key;

/// Where somebody outside the cluster comes from: an address that is set aside for examples.
pub const OUTSIDE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

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

/// How bytes are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// Streams.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
    /// Streams of messages. Nothing carries them here, but policies and services name them.
    Sctp,
}

impl Protocol {
    /// As objects of the API spell it; an empty text is TCP.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }

    /// As objects of the API spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

/// A pod as the network sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Member {
    /// The uid.
    pub uid: String,
    /// The pod.
    pub key: Key,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The labels of its namespace.
    pub namespace_labels: BTreeMap<String, String>,
    /// The host it is on; may be empty.
    pub node: String,
    /// Its addresses on the pod network.
    pub addresses: Vec<IpAddr>,
    /// The ports its containers give names to.
    pub ports: Vec<(String, Protocol, u16)>,
}

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// A pod.
    Pod(Member),
    /// A host.
    Host {
        /// Its name.
        name: String,
        /// Its addresses.
        addresses: Vec<IpAddr>,
    },
    /// The infra cluster's own API server.
    Api(IpAddr),
    /// An address that is nobody's here.
    Outside(IpAddr),
}

impl End {
    /// The pod, where it is one.
    pub fn pod(&self) -> Option<&Member> {
        match self {
            Self::Pod(member) => Some(member),
            _ => None,
        }
    }

    /// The host the end is on, or is; empty where that is nowhere or unknown.
    pub fn node(&self) -> &str {
        match self {
            Self::Pod(member) => &member.node,
            Self::Host { name, .. } => name,
            Self::Api(_) | Self::Outside(_) => "",
        }
    }

    /// The addresses of the end.
    pub fn addresses(&self) -> &[IpAddr] {
        match self {
            Self::Pod(member) => &member.addresses,
            Self::Host { addresses, .. } => addresses,
            Self::Api(address) | Self::Outside(address) => std::slice::from_ref(address),
        }
    }
}

/// One side of a link that can be broken from outside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Party {
    /// Everybody.
    Everybody,
    /// The infra cluster's own API server.
    Api,
    /// Everything outside the cluster.
    Outside,
    /// One pod, and the machine in it, by uid.
    Pod(String),
    /// All pods of a namespace.
    Namespace(String),
    /// All pods with a label, wherever they are.
    Labelled(String, String),
    /// A host and all pods on it.
    Host(String),
}

impl std::fmt::Display for Party {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Everybody => formatter.write_str("everybody"),
            Self::Api => formatter.write_str("api"),
            Self::Outside => formatter.write_str("outside"),
            Self::Pod(uid) => write!(formatter, "pod/{uid}"),
            Self::Namespace(name) => write!(formatter, "namespace/{name}"),
            Self::Labelled(name, value) => write!(formatter, "label/{name}={value}"),
            Self::Host(name) => write!(formatter, "host/{name}"),
        }
    }
}

impl Party {
    /// Whether an end belongs to it.
    pub fn has(&self, end: &End) -> bool {
        match (self, end) {
            (Self::Everybody, _) | (Self::Api, End::Api(_)) | (Self::Outside, End::Outside(_)) => true,
            (Self::Pod(uid), End::Pod(member)) => member.uid == *uid,
            (Self::Namespace(name), End::Pod(member)) => member.key.namespace == *name,
            (Self::Labelled(name, value), End::Pod(member)) => member.labels.get(name) == Some(value),
            (Self::Host(name), end) => end.node() == name,
            _ => false,
        }
    }
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

/// Whether one can reach another, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Whether what is sent arrives.
    pub allowed: bool,
    /// Whether somebody listens there; always false where nothing arrives.
    #[serde(default)]
    pub listening: bool,
    /// Why, in words.
    pub why: String,
}

impl Verdict {
    /// It arrives.
    pub fn allow(why: impl Into<String>) -> Self {
        Self { allowed: true, listening: false, why: why.into() }
    }

    /// It does not arrive.
    pub fn deny(why: impl Into<String>) -> Self {
        Self { allowed: false, listening: false, why: why.into() }
    }
}

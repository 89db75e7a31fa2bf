//! The power and the cables of the hosts.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use tokio::sync::watch;

/// How a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// Whether it has power. Without, everything on it is gone at once.
    pub powered: bool,
    /// Whether it reaches the API server. Without, everything on it goes on but nobody hears of it.
    pub connected: bool,
}

impl Host {
    /// A host as it should be.
    pub const UP: Self = Self { powered: true, connected: true };

    /// Whether what runs there can tell the API server.
    pub fn is_heard(self) -> bool {
        self.powered && self.connected
    }
}

/// The hosts by name.
#[derive(Debug)]
pub struct Hosts {
    hosts: RwLock<BTreeMap<String, Host>>,
    changed: watch::Sender<()>,
}

impl Default for Hosts {
    fn default() -> Self {
        Self { hosts: RwLock::default(), changed: watch::Sender::new(()) }
    }
}

impl Hosts {
    /// Adds a host, or changes how it is.
    pub fn set(&self, name: &str, host: Host) {
        self.hosts.write().insert(name.to_owned(), host);
        self.changed.send_replace(());
    }

    /// Takes a host away.
    pub fn remove(&self, name: &str) {
        self.hosts.write().remove(name);
        self.changed.send_replace(());
    }

    /// How a host is; nothing where there is no such host here, such as a real one beside the emulated.
    pub fn get(&self, name: &str) -> Option<Host> {
        self.hosts.read().get(name).copied()
    }

    /// All hosts by name.
    pub fn all(&self) -> BTreeMap<String, Host> {
        self.hosts.read().clone()
    }

    /// Tells when any host has changed.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

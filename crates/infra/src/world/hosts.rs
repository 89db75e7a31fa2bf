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
    known: RwLock<BTreeMap<String, Host>>,
    /// How often each was switched on or off.
    boots: RwLock<BTreeMap<String, u64>>,
    changed: watch::Sender<()>,
}

impl Default for Hosts {
    fn default() -> Self {
        Self { known: RwLock::default(), boots: RwLock::default(), changed: watch::Sender::new(()) }
    }
}

impl Hosts {
    /// Adds a host, or changes how it is.
    pub fn set(&self, name: &str, host: Host) {
        let before = self.known.write().insert(name.to_owned(), host);
        if before.is_some_and(|before| before.powered != host.powered) {
            *self.boots.write().entry(name.to_owned()).or_default() += 1;
        }
        self.changed.send_replace(());
    }

    /// Takes a host away.
    pub fn remove(&self, name: &str) {
        self.known.write().remove(name);
        self.changed.send_replace(());
    }

    /// How a host is; nothing where there is no such host here, such as a real one beside the emulated.
    pub fn get(&self, name: &str) -> Option<Host> {
        self.known.read().get(name).copied()
    }

    /// How often a host was switched on or off: whatever ran there before the last time is gone.
    pub fn boots(&self, name: &str) -> u64 {
        self.boots.read().get(name).copied().unwrap_or_default()
    }

    /// All hosts by name.
    pub fn all(&self) -> BTreeMap<String, Host> {
        self.known.read().clone()
    }

    /// Tells when any host has changed.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

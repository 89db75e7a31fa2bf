//! Programs: what a guest's user data starts.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use futures::future::BoxFuture;

use super::boot::Boot;
use super::wire::Network;
use crate::clock::Clock;
use crate::stages::Stages;
use crate::world::machine::{Machine, State};
use crate::world::store::StoreError;
use crate::world::volumes::{Kept, Volumes};

/// A program that guests can run.
///
/// It is known by what user data starts: a unit, a command, a file. Who builds the cluster registers the programs; a
/// guest runs all that its user data starts.
pub trait Program: Send + Sync + std::fmt::Debug {
    /// What it is called, on the console too.
    fn name(&self) -> &'static str;

    /// Whether a guest that booted like this starts it.
    fn is_started_by(&self, boot: &Boot) -> bool;

    /// Runs it until it ends by itself or the machine goes; the error is told on the console, and the program is
    /// started again after a while, as systemd would.
    fn run(&self, guest: Guest) -> BoxFuture<'static, Result<(), String>>;
}

/// What a program is given. Clones share it.
#[derive(Debug, Clone)]
pub struct Guest {
    /// What the user's data made of the guest.
    pub boot: Arc<Boot>,
    /// The machine it runs on.
    pub machine: Arc<Machine>,
    /// Its network.
    pub network: Network,
    /// The time.
    pub clock: Clock,
    /// How long things take and how they end.
    pub stages: Stages,
    /// What is on the disks.
    pub volumes: Arc<Volumes>,
}

impl Guest {
    /// Writes a file onto the disk it boots from, to be found after a restart.
    pub fn keep_file(&self, path: &str, bytes: Vec<u8>) {
        if let Some(root) = self.root_disk() {
            root.write_file(path, bytes);
        }
    }

    /// Writes a line onto the console, as a unit's log.
    pub fn log(&self, unit: &str, line: &str) {
        tracing::debug!(machine = self.boot.hostname, unit, "{line}");
        self.machine.console.show(&format!("{unit}[{}]: {line}\r\n", 1000 + unit.len()));
    }

    /// Keeps something at a path of the disk the machine boots from; it is there after a restart, and goes with the
    /// disk. A machine that boots from a container image has no such disk.
    pub fn keep(&self, path: &str, what: Kept) {
        if let Some(volume) = self.root() {
            self.volumes.keep(&volume, path, what);
        }
    }

    /// What was kept at a path of the disk the machine boots from.
    pub fn kept(&self, path: &str) -> Option<Kept> {
        self.root().and_then(|volume| self.volumes.kept(&volume, path))
    }

    /// The disk the machine boots from, for what outlives the guest. A machine that boots from a container image has
    /// none.
    pub fn root_disk(&self) -> Option<RootDisk> {
        Some(RootDisk::new(&self.volumes, &self.root()?))
    }

    fn root(&self) -> Option<String> {
        super::root_volume(&self.machine.plan()).map(str::to_owned)
    }

    /// Waits while the machine is held: nothing runs then.
    pub async fn running(&self) {
        let mut state = self.machine.state();
        // The guest ends before its machine does.
        let _ = state.wait_for(|state| *state != State::Paused).await;
    }

    /// Waits before something is tried again that would be after so long on a real cluster.
    pub async fn pause(&self, usual: std::time::Duration) {
        self.sleep(self.stages.pause(usual)).await;
    }

    /// Waits for a while of the guest's own time, which stands still while the machine is held.
    pub async fn sleep(&self, duration: std::time::Duration) {
        tokio::time::sleep(duration).await;
        self.running().await;
    }
}

/// The disk of a machine, whether or not the machine runs. It does not keep the disk from being removed.
#[derive(Debug, Clone)]
pub struct RootDisk {
    // What is kept on a disk may hold this: the disks would never go otherwise.
    volumes: Weak<Volumes>,
    handle: String,
}

impl RootDisk {
    /// The volume of a handle as a machine's disk.
    pub fn new(volumes: &Arc<Volumes>, handle: &str) -> Self {
        Self { volumes: Arc::downgrade(volumes), handle: handle.to_owned() }
    }

    /// Whether it is the same disk.
    pub fn is(&self, other: &Self) -> bool {
        self.handle == other.handle && Weak::ptr_eq(&self.volumes, &other.volumes)
    }

    /// Writes a file, which is safe when this returns. Nothing happens where the disk is gone.
    pub fn write_file(&self, path: &str, bytes: Vec<u8>) {
        if let Some(volumes) = self.volumes.upgrade() {
            volumes.write_file(&self.handle, path, bytes);
        }
    }

    /// A folder of this machine that stands for one of the disk, for bytes nobody else reads; it goes with the disk.
    /// Nothing where the disk is gone, or in memory.
    pub fn folder(&self, path: &str) -> Result<Option<PathBuf>, StoreError> {
        let there = self.volumes.upgrade().filter(|volumes| volumes.get(&self.handle).is_some());
        there.map_or(Ok(None), |volumes| volumes.folder(&self.handle, path))
    }
}

/// The programs there are.
#[derive(Debug)]
pub struct Programs(Vec<Arc<dyn Program>>);

impl Default for Programs {
    /// The programs every infra cluster knows.
    fn default() -> Self {
        use super::servers::{Sshd, Web};
        Self(vec![Arc::new(super::kubelet::Kubelet), Arc::new(Sshd), Arc::new(Web)])
    }
}

impl Programs {
    /// The same with one more.
    #[must_use]
    pub fn with(mut self, program: impl Program + 'static) -> Self {
        self.0.push(Arc::new(program));
        self
    }

    /// The programs a guest that booted like this starts.
    pub(super) fn started_by(&self, boot: &Boot) -> Vec<Arc<dyn Program>> {
        self.0.iter().filter(|program| program.is_started_by(boot)).cloned().collect()
    }
}

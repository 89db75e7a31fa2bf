//! Programs: what a guest's user data starts.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::boot::Boot;
use super::wire::Network;
use crate::clock::Clock;
use crate::stages::Stages;
use crate::world::machine::{Machine, State};

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
}

impl Guest {
    /// Writes a line onto the console, as a unit's log.
    pub fn log(&self, unit: &str, line: &str) {
        self.machine.console.show(&format!("{unit}[{}]: {line}\r\n", 1000 + unit.len()));
    }

    /// Waits while the machine is held: nothing runs then.
    pub async fn running(&self) {
        let mut state = self.machine.state();
        // The guest ends before its machine does.
        let _ = state.wait_for(|state| *state != State::Paused).await;
    }

    /// Waits for a while of the guest's own time, which stands still while the machine is held.
    pub async fn sleep(&self, duration: std::time::Duration) {
        tokio::time::sleep(duration).await;
        self.running().await;
    }
}

/// The programs there are.
#[derive(Debug)]
pub struct Programs(Vec<Arc<dyn Program>>);

impl Default for Programs {
    /// The programs every infra cluster knows.
    fn default() -> Self {
        Self(vec![Arc::new(super::kubelet::Kubelet)])
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

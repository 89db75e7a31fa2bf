//! Whether a server can be counted on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// Whether what is known through a server is to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It answers.
    Up,
    /// It has not answered since then: nothing may be concluded from what it does not say.
    Down(Instant),
}

impl Health {
    /// Whether it answers.
    pub fn is_up(&self) -> bool {
        matches!(self, Self::Up)
    }
}

/// Draws the conclusion from single requests: a server is down after failures without a success between them for a
/// while, and up with the first success.
#[derive(Debug)]
pub(crate) struct Pulse {
    grace: Duration,
    /// Whether the last request failed: spares the lock where all is well.
    failing: AtomicBool,
    since: Mutex<Option<Instant>>,
    health: watch::Sender<Health>,
    trouble: watch::Sender<bool>,
}

impl Pulse {
    pub(crate) fn new(grace: Duration) -> Self {
        Self {
            grace,
            failing: AtomicBool::new(false),
            since: Mutex::new(None),
            health: watch::Sender::new(Health::Up),
            trouble: watch::Sender::new(false),
        }
    }

    pub(crate) fn succeeded(&self) {
        if !self.failing.load(Ordering::Acquire) {
            return;
        }
        let mut since = self.since.lock();
        *since = None;
        self.failing.store(false, Ordering::Release);
        self.trouble.send_replace(false);
        self.health.send_if_modified(|health| !std::mem::replace(health, Health::Up).is_up());
    }

    pub(crate) fn failed(&self) {
        let mut since = self.since.lock();
        let began = *since.get_or_insert_with(Instant::now);
        self.failing.store(true, Ordering::Release);
        self.trouble.send_if_modified(|trouble| !std::mem::replace(trouble, true));
        if began.elapsed() >= self.grace {
            self.health
                .send_if_modified(|health| health.is_up().then(|| *health = Health::Down(began)).is_some());
        }
    }

    pub(crate) fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// Whether the last request failed.
    pub(crate) fn trouble(&self) -> watch::Receiver<bool> {
        self.trouble.subscribe()
    }

    pub(crate) fn grace(&self) -> Duration {
        self.grace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_is_down_only_after_the_grace() {
        let pulse = Pulse::new(Duration::from_secs(15));
        let mut health = pulse.health();
        let began = Instant::now();
        pulse.failed();
        tokio::time::advance(Duration::from_secs(14)).await;
        pulse.failed();
        assert_eq!(*health.borrow_and_update(), Health::Up);
        tokio::time::advance(Duration::from_secs(1)).await;
        pulse.failed();
        assert_eq!(*health.borrow_and_update(), Health::Down(began));
        pulse.succeeded();
        assert!(health.has_changed().unwrap());
        assert_eq!(*health.borrow_and_update(), Health::Up);
    }

    #[tokio::test(start_paused = true)]
    async fn one_success_starts_the_count_anew() {
        let pulse = Pulse::new(Duration::from_secs(15));
        pulse.failed();
        tokio::time::advance(Duration::from_secs(14)).await;
        pulse.succeeded();
        tokio::time::advance(Duration::from_secs(14)).await;
        pulse.failed();
        assert_eq!(*pulse.health().borrow(), Health::Up);
    }
}

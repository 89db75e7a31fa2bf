//! The one source of time.

use std::sync::Arc;

use jiff::Timestamp;

/// Says what time it is. Everything in the lab that depends on time asks this.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The time of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Time that advances with tokio's own, so that a paused runtime drives it.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    start: Timestamp,
    origin: tokio::time::Instant,
}

impl TokioClock {
    /// A clock that shows `start` now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, origin: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.start.checked_add(self.origin.elapsed()).unwrap_or(Timestamp::MAX)
    }
}

/// The clock everybody uses unless told otherwise.
pub fn system() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

/// A moment as `metav1.Time` writes it: whole seconds.
pub fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A moment as `metav1.MicroTime` writes it.
pub fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

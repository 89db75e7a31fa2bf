//! The one source of time: the machine's, or tokio's own, which a paused runtime drives.

use jiff::Timestamp;
use tokio::time::Instant;

/// Says what time it is. Waiting is always tokio's, so that paused time passes for everybody alike.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// The time of the machine.
    System,
    /// Time that showed `start` at `origin` and advances with tokio's.
    Virtual {
        /// What the clock showed first.
        start: Timestamp,
        /// When that was.
        origin: Instant,
    },
}

impl Clock {
    /// A clock that shows `start` now, and advances with tokio's time.
    pub fn starting_at(start: Timestamp) -> Self {
        Self::Virtual { start, origin: Instant::now() }
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::now(),
            Self::Virtual { start, origin } => start.checked_add(origin.elapsed()).unwrap_or(Timestamp::MAX),
        }
    }

    /// The time now as `metav1.Time` writes it: whole seconds.
    pub fn seconds(&self) -> String {
        seconds(self.now())
    }

    /// The time now as `metav1.MicroTime` writes it.
    pub fn micros(&self) -> String {
        self.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    }
}

/// A moment as `metav1.Time` writes it: whole seconds.
pub fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

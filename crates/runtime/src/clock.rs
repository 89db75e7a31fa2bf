//! The one source of time.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Wall-clock time that runs with tokio's: under paused time it is virtual, and a test decides when it passes.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    began: Instant,
    at: Timestamp,
}

impl Clock {
    /// A clock that shows the machine's time now.
    pub fn of_machine() -> Self {
        Self::from(Timestamp::now())
    }

    /// A clock that shows that time now.
    pub fn from(at: Timestamp) -> Self {
        Self { began: Instant::now(), at }
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        let passed = self.began.elapsed();
        self.at.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// How long it is until then; nothing if then is past.
    pub fn until(&self, then: Timestamp) -> Duration {
        Duration::try_from(then.duration_since(self.now())).unwrap_or_default()
    }

    /// Waits until then.
    pub async fn reach(&self, then: Timestamp) {
        tokio::time::sleep(self.until(then)).await;
    }
}

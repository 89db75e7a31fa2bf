//! The tasks of a daemon: each has a name, and none dies unnoticed.

use std::fmt::Display;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

/// How long tasks have to end when the daemon does.
const GRACE: Duration = Duration::from_secs(30);

/// Why a daemon ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the task `{task}` {reason}")]
pub struct Ended {
    /// The task that ended.
    pub task: String,
    /// How it ended.
    pub reason: String,
}

/// How a task may end.
pub trait Ending: Send + 'static {
    /// What went wrong, if anything did.
    fn trouble(self) -> Option<String>;
}

impl Ending for () {
    fn trouble(self) -> Option<String> {
        None
    }
}

impl<E: Display + Send + 'static> Ending for Result<(), E> {
    fn trouble(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

struct End {
    name: String,
    essential: bool,
    trouble: Option<String>,
}

/// The tasks of a daemon. If one of the essential ones ends, all do.
pub struct Tasks {
    set: JoinSet<End>,
    stop: CancellationToken,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tasks").field("tasks", &self.set.len()).finish_non_exhaustive()
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new(CancellationToken::new())
    }
}

impl Tasks {
    /// No tasks yet, to be stopped by this token.
    pub fn new(stop: CancellationToken) -> Self {
        Self { set: JoinSet::new(), stop }
    }

    /// What tells the tasks to end.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Starts a task without which the daemon is of no use: it ends only when it is told to.
    pub fn essential<E: Ending>(&mut self, name: &str, task: impl Future<Output = E> + Send + 'static) {
        self.start(name, true, task);
    }

    /// Starts a task that may end.
    pub fn spawn<E: Ending>(&mut self, name: &str, task: impl Future<Output = E> + Send + 'static) {
        self.start(name, false, task);
    }

    /// Starts a task that has nothing to finish: when the daemon ends it just stops.
    pub fn background<E: Ending>(&mut self, name: &str, task: impl Future<Output = E> + Send + 'static) {
        let stop = self.stop.clone();
        self.start(name, false, async move {
            tokio::select! {
                () = stop.cancelled() => Ok(()),
                end = task => end.trouble().map_or(Ok(()), Err),
            }
        });
    }

    fn start<E: Ending>(
        &mut self,
        name: &str,
        essential: bool,
        task: impl Future<Output = E> + Send + 'static,
    ) {
        let name = name.to_owned();
        let span = tracing::info_span!("task", name);
        let watched = async move {
            let trouble = match AssertUnwindSafe(task).catch_unwind().await {
                Ok(end) => end.trouble(),
                Err(_) => Some("panicked".to_owned()),
            };
            End { name, essential, trouble }
        };
        self.set.spawn(watched.instrument(span));
    }

    /// Has the tasks told to end when the system asks this process to.
    pub fn stop_on_signals(&mut self) {
        let stop = self.stop.clone();
        self.spawn("signals", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = asked() => {
                    tracing::info!("asked to end");
                    stop.cancel();
                }
            }
        });
    }

    /// Waits until the tasks are told to end or an essential one does, and then until all have.
    pub async fn wait(mut self) -> Result<(), Ended> {
        let mut first = None;
        while first.is_none() && !self.stop.is_cancelled() {
            tokio::select! {
                () = self.stop.cancelled() => {}
                ended = self.set.join_next() => match ended {
                    None => break,
                    Some(ended) => first = self.judged(ended.ok()),
                },
            }
        }
        self.stop.cancel();
        let rest = async {
            while let Some(ended) = self.set.join_next().await {
                if let Some(trouble) = ended.ok().and_then(|end| Some((end.name, end.trouble?))) {
                    tracing::warn!(task = trouble.0, trouble = trouble.1, "a task ended badly");
                }
            }
        };
        if timeout(GRACE, rest).await.is_err() {
            tracing::warn!("some tasks did not end in time");
        }
        first.map_or(Ok(()), Err)
    }

    /// Whether the end of a task is the end of all.
    fn judged(&self, end: Option<End>) -> Option<Ended> {
        let end = end?;
        if let Some(trouble) = &end.trouble {
            tracing::error!(task = end.name, trouble, "a task ended");
        }
        if !end.essential || self.stop.is_cancelled() {
            return None;
        }
        let reason = match end.trouble {
            Some(trouble) => format!("ended: {trouble}"),
            None => "ended by itself".to_owned(),
        };
        Some(Ended { task: end.name, reason })
    }
}

/// Waits until the system asks this process to end.
async fn asked() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = terminate.recv() => {}
        result = tokio::signal::ctrl_c() => {
            if result.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_of_an_essential_task_ends_all_with_its_reason() {
        let mut tasks = Tasks::default();
        let stop = tasks.stop().clone();
        tasks.essential("lease", async { Err::<(), _>("the lease is lost") });
        tasks.essential("rest", async move { stop.cancelled().await });
        let ended = tasks.wait().await.unwrap_err();
        assert_eq!(ended.to_string(), "the task `lease` ended: the lease is lost");
    }

    #[tokio::test(start_paused = true)]
    async fn panics_and_quiet_ends_are_noticed_too() {
        for (panics, reason) in [(true, "ended: panicked"), (false, "ended by itself")] {
            let mut tasks = Tasks::default();
            tasks.essential("watch", async move {
                assert!(!panics, "on purpose");
            });
            assert_eq!(tasks.wait().await.unwrap_err().reason, reason);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn told_to_end_all_end_well_and_the_stubborn_are_left() {
        let mut tasks = Tasks::default();
        let stop = tasks.stop().clone();
        let token = stop.clone();
        tasks.essential("good", async move { token.cancelled().await });
        tasks.spawn("brief", async {});
        tasks.spawn("stubborn", std::future::pending::<()>());
        stop.cancel();
        tasks.wait().await.unwrap();
    }
}

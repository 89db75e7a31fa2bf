//! What is looked at, in which order, and the tasks that keep caches true.

use parking_lot::Mutex;
use tokio::task::JoinSet;
use trellis_runtime::queue::{Lane, LaneNumber};
use trellis_runtime::{Cache, Key, Narrow, Site};

use super::health::Ward;

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Task {
    /// What all machines of the tenant share, and the images.
    Cluster,
    /// A pool that rolls its machines.
    Pool(Key),
    /// A set that stands alone.
    Set(Key),
    /// A machine, by its name.
    Machine(String),
    /// A group of machines: which of them are sick, and may be replaced.
    Ward(Ward),
    /// A request for a serving certificate, by its name.
    Certificate(String),
    /// What is left of machines that are gone.
    Leftovers,
}

impl Task {
    /// What kind of thing it is, and what that is called, for traces and logs.
    pub(crate) fn title(&self) -> (&'static str, &str) {
        match self {
            Self::Cluster => ("cluster", ""),
            Self::Pool(key) => ("pool", key.name()),
            Self::Set(key) => ("set", key.name()),
            Self::Machine(name) => ("machine", name),
            Self::Ward(ward) => ("ward", ward.name()),
            Self::Certificate(name) => ("certificate", name),
            Self::Leftovers => ("leftovers", ""),
        }
    }
}

/// What is made or changed.
pub(crate) const COMING: LaneNumber = 0;
/// What goes: a thousand machines that are drained never keep a new one waiting.
pub(crate) const GOING: LaneNumber = 1;

/// The ways through the queue.
pub(crate) const LANES: [Lane; 2] =
    [Lane { name: "coming", weight: 4, at_most: usize::MAX }, Lane { name: "going", weight: 1, at_most: 16 }];

/// The tasks that keep caches true; they end when this is dropped.
pub(crate) struct Watches {
    seed: u64,
    tasks: Mutex<JoinSet<()>>,
}

impl Watches {
    /// No tasks yet; the seed decides what is left to chance.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, tasks: Mutex::default() }
    }

    /// Keeps a cache true from now on.
    pub(crate) fn watch<T: Narrow>(&self, cache: &Cache<T>, site: &Site) {
        let (cache, site, seed) = (cache.clone(), site.clone(), self.seed);
        self.spawn(async move { cache.run(&site, seed).await });
    }

    /// Runs something beside.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> tokio::task::AbortHandle {
        let mut tasks = self.tasks.lock();
        // What has ended is not kept: drains come and go for as long as this runs.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;
    use trellis_runtime::queue::{Outcome, Setup};
    use trellis_runtime::{Clock, Queue};

    use super::*;
    use crate::controllers::Settings;

    #[tokio::test(start_paused = true)]
    async fn a_thousand_machines_that_go_keep_no_new_one_waiting() {
        let clock = Clock::from("2026-01-01T00:00:00Z".parse().unwrap());
        let queue: Queue<Task> = Queue::new(clock, Setup::new(&LANES, 1));
        let machine = |number: usize| Task::Machine(format!("m{number}"));
        for number in 0..1000 {
            queue.add(&machine(number), GOING);
        }
        let looked: Arc<Mutex<Vec<(Task, Instant)>>> = Arc::default();
        let (stop, log) = (CancellationToken::new(), Arc::clone(&looked));
        let (running, token) = (queue.clone(), stop.clone());
        tokio::spawn(async move {
            let look = move |task: Task| {
                let log = Arc::clone(&log);
                async move {
                    log.lock().push((task.clone(), Instant::now()));
                    // A drain asks and waits; whoever does so for long must not hold up others.
                    tokio::time::sleep(Duration::from_secs(30)).await;
                    Outcome::Done
                }
            };
            running.run(Settings::default().workers, &token, look).await;
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(queue.running(), LANES[GOING].at_most, "what goes takes a part of the workers only");
        let named = Instant::now();
        queue.add(&machine(5000), COMING);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = |task: &Task| looked.lock().iter().find(|(one, _)| one == task).map(|(_, at)| *at);
        let waited = began(&machine(5000)).unwrap() - named;
        assert!(waited < Duration::from_millis(10), "{waited:?}");
        while !queue.is_idle() {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        assert_eq!(looked.lock().len(), 1001, "what goes is not starved either");
        stop.cancel();
    }
}

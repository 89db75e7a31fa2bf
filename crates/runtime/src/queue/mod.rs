//! Keys that have to be looked at.
//!
//! A key is in the queue once however many changes name it, and is looked at by one worker at a time; what comes while
//! it is looked at makes it be looked at again. Keys wait in lanes, each with a guaranteed share of the workers, so that
//! a thousand machines that go never keep a new one waiting. A look ends with an [`Outcome`]: done, a deadline at which to
//! look again, or a failure after which it is repeated later and later.
//!
//! There is no other timer: a key that is not named and has no deadline is not looked at.

mod driver;
mod gauges;
mod state;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use gauges::{Gauges, LaneGauges};

use crate::Clock;
use crate::backoff::{Backoff, Dice};
use state::State;

/// What names something to look at.
pub trait Name: Clone + Ord + Hash + fmt::Debug + Send + Sync + 'static {}

impl<K: Clone + Ord + Hash + fmt::Debug + Send + Sync + 'static> Name for K {}

/// A way through the queue.
#[derive(Debug, Clone, Copy)]
pub struct Lane {
    /// What metrics call it.
    pub name: &'static str,
    /// Its share of the looks that begin while other lanes are waiting too.
    pub weight: u32,
    /// How many of its keys are looked at together at most, so that slow looks of one lane leave workers to others.
    pub at_most: usize,
}

/// Which lane a key takes: the place in the list the queue was made with. A lane before another is the more urgent one
/// for a key that is named in both.
pub type LaneNumber = usize;

/// What a look comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// There is nothing to do until something changes.
    Done,
    /// There is nothing to do until something changes or this time comes.
    At(Timestamp),
    /// It has to be tried again, later than the last time.
    Retry,
    /// It has to be tried again after this time, and is no failure of ours.
    After(Duration),
}

/// How a queue is set up.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The lanes, the most urgent one first.
    pub lanes: Vec<Lane>,
    /// How long to wait after failures.
    pub backoff: Backoff,
    /// What decides what is left to chance.
    pub seed: u64,
}

impl Setup {
    /// These lanes with the usual waits.
    pub fn new(lanes: &[Lane], seed: u64) -> Self {
        let backoff = Backoff { first: Duration::from_millis(20), cap: Duration::from_mins(2) };
        Self { lanes: lanes.to_vec(), backoff, seed }
    }
}

/// Keys that have to be looked at. Copies are cheap and share everything.
pub struct Queue<K> {
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    clock: Clock,
    state: Mutex<State<K>>,
    changed: Notify,
    gauges: Gauges,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl<K: Name> Queue<K> {
    /// An empty queue.
    pub fn new(clock: Clock, setup: Setup) -> Self {
        let gauges = Gauges::new(&setup.lanes);
        let dice = Dice::named(setup.seed, "queue");
        Self {
            inner: Arc::new(Inner {
                clock,
                state: Mutex::new(State::new(setup.lanes, setup.backoff, dice)),
                changed: Notify::new(),
                gauges,
            }),
        }
    }

    /// Names a key to look at as soon as a worker is free. A key that waits already takes the more urgent of the two
    /// lanes.
    pub fn add(&self, key: &K, lane: LaneNumber) {
        self.change(|state| state.add(key, lane, Instant::now()));
    }

    /// Names a key to look at when a time comes, unless it is looked at before. The earliest of several counts, and a look
    /// replaces all that were named before it.
    pub fn wake_at(&self, key: &K, lane: LaneNumber, then: Timestamp) {
        let then = Instant::now() + self.inner.clock.until(then);
        self.change(|state| state.wake_at(key, lane, then));
    }

    /// How many keys of a lane wait for a worker.
    pub fn depth(&self, lane: LaneNumber) -> usize {
        self.inner.state.lock().depth(lane)
    }

    /// How many keys are looked at now.
    pub fn running(&self) -> usize {
        self.inner.state.lock().running()
    }

    /// When a key will be looked at next for a deadline or a retry.
    pub fn next_wake(&self, key: &K) -> Option<Instant> {
        self.inner.state.lock().next_wake(key)
    }

    /// Whether nothing waits for a worker and nothing is looked at: all that is left are deadlines.
    pub fn is_idle(&self) -> bool {
        self.inner.state.lock().is_idle()
    }

    /// What is counted, to be registered with the metrics.
    pub fn gauges(&self) -> &Gauges {
        &self.inner.gauges
    }

    fn change(&self, change: impl FnOnce(&mut State<K>)) {
        let mut state = self.inner.state.lock();
        change(&mut state);
        self.inner.gauges.depths(&state);
        drop(state);
        self.inner.changed.notify_one();
    }
}

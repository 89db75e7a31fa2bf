//! The workers.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::state::{Then, Turn};
use super::{LaneNumber, Name, Outcome, Queue};

/// How long looks under way have to end when the daemon does.
const GRACE: Duration = Duration::from_secs(20);
/// Further away than any deadline that matters.
const FAR: Duration = Duration::from_hours(24 * 365);

impl<K: Name> Queue<K> {
    /// Looks at the keys of the queue, at most `workers` of them together, until `stop` says so; then no look begins, and
    /// those under way are waited for. A look that panics is a failure of that key and of nothing else.
    pub async fn run<F, L>(&self, workers: usize, stop: &CancellationToken, look: F)
    where
        F: Fn(K) -> L,
        L: Future<Output = Outcome> + Send + 'static,
    {
        let mut looks = JoinSet::new();
        loop {
            let wake = self.begin(workers, &mut looks, &look);
            let wake = wake.unwrap_or_else(|| Instant::now() + FAR);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = looks.join_next() => {}
                () = self.inner.changed.notified() => {}
                () = sleep_until(wake) => {}
            }
        }
        let ended = timeout(GRACE, async { while looks.join_next().await.is_some() {} }).await;
        if ended.is_err() {
            tracing::warn!(looks = looks.len(), "looks did not end in time");
        }
    }

    /// Begins as many looks as may be, and says when the next deadline is.
    fn begin<F, L>(&self, workers: usize, looks: &mut JoinSet<()>, look: &F) -> Option<Instant>
    where
        F: Fn(K) -> L,
        L: Future<Output = Outcome> + Send + 'static,
    {
        let now = Instant::now();
        let mut state = self.inner.state.lock();
        let wake = state.wake(now);
        let mut turns = Vec::new();
        while state.running() < workers
            && let Some(turn) = state.next(now)
        {
            turns.push(turn);
        }
        self.inner.gauges.depths(&state);
        drop(state);
        for Turn { key, lane, waited } in turns {
            self.inner.gauges.waited(lane, waited);
            let pass = look(key.clone());
            looks.spawn(self.clone().look(key, lane, pass));
        }
        wake
    }

    async fn look(self, key: K, lane: LaneNumber, pass: impl Future<Output = Outcome>) {
        let began = Instant::now();
        let outcome = AssertUnwindSafe(pass).catch_unwind().await;
        let now = Instant::now();
        let panicked = outcome.is_err();
        if panicked {
            tracing::error!(?key, "a look panicked");
        }
        let outcome = outcome.unwrap_or(Outcome::Retry);
        let then = match outcome {
            Outcome::Done => Then::Rest,
            Outcome::At(then) => Then::Wake(now + self.inner.clock.until(then)),
            Outcome::After(wait) => Then::Wake(now + wait),
            Outcome::Retry => Then::Retry,
        };
        self.inner.gauges.worked(lane, now - began, outcome == Outcome::Retry, panicked);
        self.change(|state| state.done(&key, lane, then, now));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use parking_lot::Mutex;

    use super::super::{Lane, Setup};
    use super::*;
    use crate::Clock;

    const CREATE: Lane = Lane { name: "create", weight: 4, at_most: usize::MAX };
    const DELETE: Lane = Lane { name: "delete", weight: 1, at_most: 4 };

    fn queue() -> (Queue<u32>, Clock) {
        let clock = Clock::from("2026-01-01T00:00:00Z".parse().unwrap());
        (Queue::new(clock, Setup::new(&[CREATE, DELETE], 1)), clock)
    }

    type Log = Arc<Mutex<Vec<(u32, Timestamp)>>>;

    /// Runs a queue beside the test.
    fn start<L: Future<Output = Outcome> + Send + 'static>(
        queue: &Queue<u32>,
        workers: usize,
        look: impl Fn(u32) -> L + Send + Sync + 'static,
    ) -> (CancellationToken, tokio::task::JoinHandle<()>) {
        let stop = CancellationToken::new();
        let (queue, token) = (queue.clone(), stop.clone());
        (stop, tokio::spawn(async move { queue.run(workers, &token, look).await }))
    }

    async fn idle(queue: &Queue<u32>) {
        while !queue.is_idle() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_is_kept_to_the_moment_and_only_once() {
        let (queue, clock) = queue();
        let log = Log::default();
        let then = clock.now() + jiff::SignedDuration::from_secs(3600);
        let seen = Arc::clone(&log);
        let (_stop, _task) = start(&queue, 2, move |key| {
            let mut seen = seen.lock();
            seen.push((key, clock.now()));
            let outcome = if seen.len() == 1 { Outcome::At(then) } else { Outcome::Done };
            async move { outcome }
        });
        queue.add(&1, 0);
        tokio::time::sleep(Duration::from_hours(10)).await;
        let times: Vec<_> = log.lock().iter().map(|(_, time)| *time).collect();
        assert_eq!(times.len(), 2);
        assert!((times[1].duration_since(then)).as_millis() <= 1, "{times:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_retried_and_hurts_nobody_else() {
        let (queue, _) = queue();
        let tries = Arc::new(Mutex::new(0));
        let count = Arc::clone(&tries);
        let (_stop, _task) = start(&queue, 2, move |key| {
            let count = Arc::clone(&count);
            async move {
                if key == 1 {
                    *count.lock() += 1;
                    assert!(*count.lock() > 2, "on purpose");
                }
                Outcome::Done
            }
        });
        queue.add(&1, 0);
        queue.add(&2, 0);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!((*tries.lock(), queue.is_idle()), (3, true));
        assert_eq!(queue.gauges().lanes()[0].panics.get(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_slow_deletions_do_not_keep_a_creation_waiting() {
        let (queue, clock) = queue();
        let log = Log::default();
        let seen = Arc::clone(&log);
        let (_stop, _task) = start(&queue, 8, move |key| {
            let seen = Arc::clone(&seen);
            async move {
                tokio::time::sleep(Duration::from_secs(10)).await;
                seen.lock().push((key, clock.now()));
                Outcome::Done
            }
        });
        for key in 0..1000 {
            queue.add(&key, 1);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = clock.now();
        queue.add(&5000, 0);
        idle(&queue).await;
        let log = log.lock();
        let (_, end) = log.iter().find(|(key, _)| *key == 5000).unwrap();
        let took = end.duration_since(began).as_secs();
        assert!(took <= 10, "it took {took} s");
        assert_eq!(log.len(), 1001);
    }

    #[tokio::test(start_paused = true)]
    async fn looks_under_way_end_before_the_queue_does() {
        let (queue, _) = queue();
        let log = Arc::new(Mutex::new(0));
        let count = Arc::clone(&log);
        let (stop, task) = start(&queue, 1, move |_| {
            let count = Arc::clone(&count);
            async move {
                tokio::time::sleep(Duration::from_secs(5)).await;
                *count.lock() += 1;
                Outcome::Done
            }
        });
        queue.add(&1, 0);
        queue.add(&2, 0);
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
        task.await.unwrap();
        assert_eq!((*log.lock(), queue.depth(0)), (1, 1));
    }
}

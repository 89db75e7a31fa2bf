//! What a controller has to look at: each thing once, failures again after a while.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// How long a failure waits at first; each further one waits twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(5);

/// Things to be done in order. A thing that is queued already is not queued again.
#[derive(Debug)]
pub(crate) struct Queue<K> {
    ready: VecDeque<K>,
    queued: HashSet<K>,
    /// What waits, by the time it is due; the number tells apart what is due at the same time.
    waiting: BTreeMap<(Instant, u64), K>,
    /// When something that waits is due.
    due: HashMap<K, (Instant, u64)>,
    failures: HashMap<K, u32>,
    longest_wait: Duration,
    counter: u64,
}

impl<K: Clone + Eq + Hash + Debug> Queue<K> {
    /// An empty queue whose failures wait at most so long.
    pub(crate) fn new(longest_wait: Duration) -> Self {
        Self {
            ready: VecDeque::new(),
            queued: HashSet::new(),
            waiting: BTreeMap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            longest_wait,
            counter: 0,
        }
    }

    /// Queues a thing, unless it is.
    pub(crate) fn add(&mut self, item: K) {
        if self.queued.insert(item.clone()) {
            self.ready.push_back(item);
        }
    }

    /// Queues several things.
    pub(crate) fn extend(&mut self, items: impl IntoIterator<Item = K>) {
        items.into_iter().for_each(|item| self.add(item));
    }

    /// Queues a thing after a while, unless it is due earlier anyway.
    pub(crate) fn add_after(&mut self, item: K, wait: Duration) {
        let Some(at) = Instant::now().checked_add(wait) else { return };
        match self.due.get(&item) {
            Some((earlier, _)) if *earlier <= at => return,
            Some(later) => {
                self.waiting.remove(later);
            }
            None => {}
        }
        self.counter += 1;
        self.due.insert(item.clone(), (at, self.counter));
        self.waiting.insert((at, self.counter), item);
    }

    /// Queues a thing that failed, later the more often it did.
    pub(crate) fn retry(&mut self, item: K) {
        let failures = self.failures.entry(item.clone()).or_default();
        let wait = FIRST_WAIT.saturating_mul(1_u32.checked_shl(*failures).unwrap_or(u32::MAX));
        *failures = failures.saturating_add(1);
        self.add_after(item, wait.min(self.longest_wait));
    }

    /// Forgets that a thing failed before.
    pub(crate) fn forget(&mut self, item: &K) {
        self.failures.remove(item);
    }

    /// The next thing that is to be done now.
    pub(crate) fn pop(&mut self) -> Option<K> {
        let now = Instant::now();
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 <= now) {
            let item = first.remove();
            self.due.remove(&item);
            self.add(item);
        }
        let item = self.ready.pop_front()?;
        self.queued.remove(&item);
        Some(item)
    }

    /// Waits until something is due; for ever if nothing waits.
    pub(crate) async fn due(&self) {
        match self.waiting.keys().next() {
            Some((at, _)) => tokio::time::sleep_until(*at).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn things_come_once_and_failures_later_each_time() {
        let mut queue = Queue::new(Duration::from_millis(15));
        queue.add("a");
        queue.add("b");
        queue.add("a");
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some("a"), Some("b"), None]);
        let mut waits = Vec::new();
        for _ in 0..4 {
            queue.retry("a");
            let before = Instant::now();
            assert_eq!(queue.pop(), None);
            queue.due().await;
            assert_eq!(queue.pop(), Some("a"));
            waits.push(before.elapsed().as_millis());
        }
        assert_eq!(waits, [5, 10, 15, 15]);
        queue.forget(&"a");
        queue.retry("a");
        queue.add_after("a", Duration::from_millis(1));
        queue.due().await;
        assert_eq!([queue.pop(), queue.pop()], [Some("a"), None]);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(queue.pop(), None);
    }
}

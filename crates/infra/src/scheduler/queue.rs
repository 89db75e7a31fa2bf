//! The pods that wait for a node.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::filter::Cause;
use crate::object::Key;

/// After so long every pod is looked at again, whatever has changed.
const FLUSH: Duration = Duration::from_mins(5);

/// Where in the queue a pod is: the important first, then the older.
type Place = (Reverse<i64>, u64);

#[derive(Debug)]
struct Entry {
    priority: i64,
    attempts: u32,
    /// Its place, while it is to be looked at.
    place: Option<Place>,
    /// While it waits: what for, since when, not before when, and whether that has happened.
    waits: Option<Waits>,
}

#[derive(Debug)]
struct Waits {
    causes: BTreeSet<Cause>,
    since: Instant,
    not_before: Instant,
    woken: bool,
}

/// The pods that wait for a node.
#[derive(Debug)]
pub(crate) struct Queue {
    active: BTreeMap<Place, Key>,
    entries: HashMap<Key, Entry>,
    /// The keys of those that wait, in order.
    waiting: BTreeSet<Key>,
    next: u64,
    first_wait: Duration,
    longest_wait: Duration,
}

impl Queue {
    /// A queue in which a pod that did not fit is looked at again not before a while.
    pub(crate) fn new(first_wait: Duration, longest_wait: Duration) -> Self {
        Self {
            active: BTreeMap::new(),
            entries: HashMap::new(),
            waiting: BTreeSet::new(),
            next: 0,
            first_wait,
            longest_wait,
        }
    }

    /// Whether a pod is in the queue.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    /// Adds a pod, or lets one that waits be looked at now.
    pub(crate) fn add(&mut self, key: &Key, priority: i64) {
        let entry = self.entries.entry(key.clone()).or_insert(Entry {
            priority,
            attempts: 0,
            place: None,
            waits: None,
        });
        if entry.place.is_none() {
            let place = (Reverse(entry.priority), self.next);
            self.next += 1;
            entry.place = Some(place);
            entry.waits = None;
            self.waiting.remove(key);
            self.active.insert(place, key.clone());
        }
    }

    /// Removes a pod.
    pub(crate) fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            if let Some(place) = entry.place {
                self.active.remove(&place);
            }
            self.waiting.remove(key);
        }
    }

    /// The next pod to look at. It stays known until it is removed or has failed.
    pub(crate) fn take(&mut self) -> Option<Key> {
        let (_, key) = self.active.pop_first()?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.place = None;
            entry.attempts += 1;
        }
        Some(key)
    }

    /// Notes that a pod fits nowhere, and what has to change.
    pub(crate) fn failed(&mut self, key: &Key, causes: BTreeSet<Cause>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let factor = 2_u32.saturating_pow(entry.attempts.saturating_sub(1));
        let now = Instant::now();
        let not_before = now + self.first_wait.saturating_mul(factor).min(self.longest_wait);
        entry.waits = Some(Waits { causes, since: now, not_before, woken: false });
        self.waiting.insert(key.clone());
    }

    /// Something has changed that some pods wait for.
    pub(crate) fn wake(&mut self, cause: Cause) {
        for key in &self.waiting {
            if let Some(waits) = self.entries.get_mut(key).and_then(|entry| entry.waits.as_mut()) {
                waits.woken |= waits.causes.contains(&cause);
            }
        }
    }

    /// Lets those be looked at whose time has come.
    pub(crate) fn tick(&mut self, now: Instant) {
        let ready: Vec<Key> =
            self.waiting.iter().filter(|key| self.due_at(key).is_some_and(|at| at <= now)).cloned().collect();
        for key in ready {
            let priority = self.entries.get(&key).map_or(0, |entry| entry.priority);
            self.add(&key, priority);
        }
    }

    /// When the next pod is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|key| self.due_at(key)).min()
    }

    fn due_at(&self, key: &Key) -> Option<Instant> {
        let waits = self.entries.get(key)?.waits.as_ref()?;
        Some(if waits.woken { waits.not_before } else { waits.since + FLUSH })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("a", name)
    }

    #[tokio::test(start_paused = true)]
    async fn the_important_go_first() {
        let mut queue = Queue::new(Duration::from_secs(1), Duration::from_secs(10));
        for (name, priority) in [("old", 0), ("young", 0), ("important", 5)] {
            queue.add(&key(name), priority);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.take()).map(|key| key.name).collect();
        assert_eq!(order, ["important", "old", "young"]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_did_not_fit_waits_for_the_cause() {
        let mut queue = Queue::new(Duration::from_secs(1), Duration::from_secs(10));
        queue.add(&key("a"), 0);
        queue.take();
        queue.failed(&key("a"), BTreeSet::from([Cause::Nodes]));
        queue.wake(Cause::Volumes);
        tokio::time::advance(Duration::from_secs(2)).await;
        queue.tick(Instant::now());
        assert_eq!(queue.take(), None);
        queue.wake(Cause::Nodes);
        queue.tick(Instant::now());
        assert_eq!(queue.take(), Some(key("a")));
        queue.failed(&key("a"), BTreeSet::from([Cause::Nodes]));
        queue.wake(Cause::Nodes);
        queue.tick(Instant::now());
        assert_eq!(queue.take(), None, "it has to wait twice as long now");
        tokio::time::advance(Duration::from_secs(2)).await;
        queue.tick(Instant::now());
        assert_eq!(queue.take(), Some(key("a")));
    }
}

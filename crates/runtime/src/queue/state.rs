//! Which key is next: the rules of the queue, without waiting.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::{Lane, LaneNumber, Name};
use crate::backoff::{Backoff, Dice};

/// What one look of a lane of weight 1 costs.
const STRIDE: u64 = 1 << 20;

/// What is known of a key. A key of which nothing is known has no entry.
#[derive(Debug)]
struct Entry {
    lane: LaneNumber,
    place: Place,
    /// The time to look at it although nothing names it.
    wake: Option<Instant>,
    failures: u32,
}

/// Where a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It has only a deadline.
    Resting,
    /// It waits for a worker since then. The ticket tells its place in the lane from those it left.
    Waiting { ticket: u64, since: Instant },
    /// It is looked at.
    Running,
    /// It is looked at and was named again since then.
    Again { since: Instant },
}

/// A lane and what waits in it.
#[derive(Debug)]
struct Line<K> {
    lane: Lane,
    waiting: VecDeque<(K, u64)>,
    depth: usize,
    running: usize,
    /// How much the lane has had; the one with the least is next.
    had: u64,
}

/// A key that is to be looked at.
#[derive(Debug)]
pub(super) struct Turn<K> {
    pub(super) key: K,
    pub(super) lane: LaneNumber,
    pub(super) waited: Duration,
}

/// How a key goes on after a look.
#[derive(Debug, Clone, Copy)]
pub(super) enum Then {
    Rest,
    Wake(Instant),
    Retry,
}

#[derive(Debug)]
pub(super) struct State<K> {
    lines: Vec<Line<K>>,
    entries: HashMap<K, Entry>,
    wakes: BTreeSet<(Instant, K)>,
    backoff: Backoff,
    dice: Dice,
    tickets: u64,
    running: usize,
}

impl<K: Name> State<K> {
    pub(super) fn new(lanes: Vec<Lane>, backoff: Backoff, dice: Dice) -> Self {
        let line = |lane| Line { lane, waiting: VecDeque::new(), depth: 0, running: 0, had: 0 };
        Self {
            lines: lanes.into_iter().map(line).collect(),
            entries: HashMap::new(),
            wakes: BTreeSet::new(),
            backoff,
            dice,
            tickets: 0,
            running: 0,
        }
    }

    pub(super) fn add(&mut self, key: &K, lane: LaneNumber, now: Instant) {
        let lane = lane.min(self.lines.len().saturating_sub(1));
        let entry = self.entry(key, lane);
        let (place, old) = (entry.place, entry.lane);
        match place {
            Place::Resting => {
                entry.lane = lane;
                self.wait(key, lane, now);
            }
            Place::Waiting { since, .. } if lane < old => {
                entry.lane = lane;
                self.line(old, |line| line.depth -= 1);
                self.wait(key, lane, since);
            }
            Place::Running => {
                entry.place = Place::Again { since: now };
                entry.lane = lane;
            }
            Place::Again { .. } => entry.lane = old.min(lane),
            Place::Waiting { .. } => {}
        }
    }

    pub(super) fn wake_at(&mut self, key: &K, lane: LaneNumber, then: Instant) {
        let lane = lane.min(self.lines.len().saturating_sub(1));
        let entry = self.entry(key, lane);
        if entry.wake.is_none_or(|wake| then < wake) {
            self.set_wake(key, Some(then));
        }
    }

    /// Lets those wait for a worker whose time has come, and says when the next one's does.
    pub(super) fn wake(&mut self, now: Instant) -> Option<Instant> {
        while let Some((then, key)) = self.wakes.first().cloned() {
            if then > now {
                return Some(then);
            }
            self.set_wake(&key, None);
            let lane = self.entries.get(&key).map(|entry| entry.lane).unwrap_or_default();
            self.add(&key, lane, now);
        }
        None
    }

    /// The next key, if any may be looked at.
    pub(super) fn next(&mut self, now: Instant) -> Option<Turn<K>> {
        loop {
            let (number, line) = self
                .lines
                .iter_mut()
                .enumerate()
                .filter(|(_, line)| line.depth > 0 && line.running < line.lane.at_most)
                .min_by_key(|(_, line)| line.had)?;
            let (key, ticket) = line.waiting.pop_front()?;
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            match entry.place {
                Place::Waiting { ticket: valid, since } if valid == ticket => {
                    entry.place = Place::Running;
                    line.depth -= 1;
                    line.running += 1;
                    line.had += STRIDE / u64::from(line.lane.weight.max(1));
                    self.running += 1;
                    // The look sees all there is: what was to wake it has done so.
                    self.set_wake(&key, None);
                    return Some(Turn { key, lane: number, waited: now.saturating_duration_since(since) });
                }
                // It went to another lane.
                _ => {}
            }
        }
    }

    /// A look has ended.
    pub(super) fn done(&mut self, key: &K, lane: LaneNumber, then: Then, now: Instant) {
        self.running = self.running.saturating_sub(1);
        self.line(lane, |line| line.running = line.running.saturating_sub(1));
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.failures = if matches!(then, Then::Retry) { entry.failures.saturating_add(1) } else { 0 };
        let failures = entry.failures;
        let again = if let Place::Again { since } = entry.place { Some(since) } else { None };
        entry.place = Place::Resting;
        let (named, lane) = (entry.wake, entry.lane);
        let wake = match then {
            Then::Rest => None,
            Then::Wake(then) => Some(then),
            Then::Retry => Some(now + self.backoff.after(failures, &mut self.dice)),
        };
        // What was named while it was looked at may be news to it.
        let wake = match (wake, named) {
            (Some(wake), Some(named)) => Some(wake.min(named)),
            (wake, named) => wake.or(named),
        };
        self.set_wake(key, wake);
        match again {
            Some(since) => self.wait(key, lane, since),
            None if wake.is_none() => {
                self.entries.remove(key);
            }
            None => {}
        }
    }

    pub(super) fn depth(&self, lane: LaneNumber) -> usize {
        self.lines.get(lane).map_or(0, |line| line.depth)
    }

    pub(super) fn running(&self) -> usize {
        self.running
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running == 0 && self.lines.iter().all(|line| line.depth == 0)
    }

    pub(super) fn next_wake(&self, key: &K) -> Option<Instant> {
        self.entries.get(key).and_then(|entry| entry.wake)
    }

    pub(super) fn lanes(&self) -> usize {
        self.lines.len()
    }

    fn entry(&mut self, key: &K, lane: LaneNumber) -> &mut Entry {
        self.entries.entry(key.clone()).or_insert(Entry {
            lane,
            place: Place::Resting,
            wake: None,
            failures: 0,
        })
    }

    fn line(&mut self, lane: LaneNumber, change: impl FnOnce(&mut Line<K>)) {
        if let Some(line) = self.lines.get_mut(lane) {
            change(line);
        }
    }

    /// Puts a key at the end of a lane.
    fn wait(&mut self, key: &K, lane: LaneNumber, since: Instant) {
        self.tickets += 1;
        let ticket = self.tickets;
        // A lane that had nothing to do has not saved up looks for later.
        let least = self.lines.iter().filter(|line| line.depth > 0).map(|line| line.had).min();
        self.line(lane, |line| {
            if line.depth == 0 {
                line.had = line.had.max(least.unwrap_or(line.had));
            }
            line.depth += 1;
            line.waiting.push_back((key.clone(), ticket));
        });
        if let Some(entry) = self.entries.get_mut(key) {
            entry.place = Place::Waiting { ticket, since };
        }
    }

    fn set_wake(&mut self, key: &K, wake: Option<Instant>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if let Some(old) = std::mem::replace(&mut entry.wake, wake) {
            self.wakes.remove(&(old, key.clone()));
        }
        if let Some(new) = wake {
            self.wakes.insert((new, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Lane = Lane { name: "first", weight: 3, at_most: usize::MAX };
    const SECOND: Lane = Lane { name: "second", weight: 1, at_most: 2 };

    fn state() -> State<u32> {
        let backoff = Backoff { first: Duration::from_secs(1), cap: Duration::from_mins(1) };
        State::new(vec![FIRST, SECOND], backoff, Dice::new(1))
    }

    fn turns(state: &mut State<u32>, now: Instant) -> Vec<u32> {
        std::iter::from_fn(|| state.next(now).map(|turn| turn.key)).collect()
    }

    #[test]
    fn a_key_is_looked_at_once_for_many_names_and_never_twice_at_once() {
        let (mut state, now) = (state(), Instant::now());
        for _ in 0..3 {
            state.add(&7, 0, now);
        }
        assert_eq!(turns(&mut state, now), [7]);
        state.add(&7, 0, now);
        assert!(turns(&mut state, now).is_empty());
        state.done(&7, 0, Then::Rest, now);
        assert_eq!(turns(&mut state, now), [7]);
        state.done(&7, 0, Then::Rest, now);
        assert!(state.entries.is_empty() && state.is_idle());
    }

    #[test]
    fn lanes_share_by_weight() {
        let (mut state, now) = (state(), Instant::now());
        state.lines[1].lane.at_most = usize::MAX;
        for key in 0..1000 {
            state.add(&key, 1, now);
        }
        for key in 1000..1030 {
            state.add(&key, 0, now);
        }
        let order = turns(&mut state, now);
        let last = order.iter().position(|key| *key == 1029).unwrap();
        // 30 of the urgent lane, and 1 in 4 of the other between them.
        assert!(last <= 42, "{last}");
        assert!(order[..20].iter().any(|key| *key < 1000), "the other lane is not starved either");
    }

    #[test]
    fn a_lane_that_rested_has_saved_nothing_up() {
        let (mut state, now) = (state(), Instant::now());
        for key in 0..100 {
            state.add(&key, 0, now);
            state.next(now).unwrap();
            state.done(&key, 0, Then::Rest, now);
        }
        for key in 0..10 {
            state.add(&key, 0, now);
            state.add(&(key + 100), 1, now);
        }
        let order: Vec<_> = (0..4).map(|_| state.next(now).unwrap().key).collect();
        assert!(order.iter().filter(|key| **key < 100).count() >= 2, "{order:?}");
    }

    #[test]
    fn a_lane_leaves_workers_to_others() {
        let (mut state, now) = (state(), Instant::now());
        for key in 0..5 {
            state.add(&key, 1, now);
        }
        assert_eq!(turns(&mut state, now).len(), 2);
        state.add(&9, 0, now);
        assert_eq!(turns(&mut state, now), [9]);
        state.done(&0, 1, Then::Rest, now);
        assert_eq!(turns(&mut state, now).len(), 1);
    }

    #[test]
    fn a_key_in_two_lanes_takes_the_urgent_one() {
        let (mut state, now) = (state(), Instant::now());
        state.add(&1, 1, now);
        state.add(&2, 1, now);
        state.add(&2, 0, now);
        state.add(&2, 1, now);
        assert_eq!((state.depth(0), state.depth(1)), (1, 1));
        assert_eq!(state.next(now).unwrap().lane, 0);
        assert_eq!(turns(&mut state, now), [1]);
    }

    #[test]
    fn the_earliest_wake_counts_and_a_look_replaces_all() {
        let (mut state, now) = (state(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        state.wake_at(&1, 0, at(20));
        state.wake_at(&1, 0, at(10));
        state.wake_at(&1, 0, at(30));
        assert_eq!(state.wake(now), Some(at(10)));
        assert_eq!(state.wake(at(10)), None);
        assert_eq!(turns(&mut state, at(10)), [1]);
        state.done(&1, 0, Then::Wake(at(50)), at(10));
        assert_eq!(state.next_wake(&1), Some(at(50)));
        // Named before its time, and then without a deadline of its own.
        state.add(&1, 0, at(15));
        assert_eq!(turns(&mut state, at(15)), [1]);
        state.done(&1, 0, Then::Rest, at(15));
        assert_eq!(state.wake(at(100)), None);
        assert!(turns(&mut state, at(100)).is_empty() && state.entries.is_empty());
    }

    #[test]
    fn failures_wait_longer_and_longer_until_a_success() {
        let (mut state, now) = (state(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..4 {
            state.add(&1, 0, now);
            state.next(now).unwrap();
            state.done(&1, 0, Then::Retry, now);
            waits.push(state.next_wake(&1).unwrap() - now);
        }
        assert!(
            waits.windows(2).all(|pair| pair[0] < pair[1]) && waits[3] >= Duration::from_secs(4),
            "{waits:?}"
        );
        state.add(&1, 0, now);
        state.next(now).unwrap();
        state.done(&1, 0, Then::Rest, now);
        state.add(&1, 0, now);
        state.next(now).unwrap();
        state.done(&1, 0, Then::Retry, now);
        assert!(state.next_wake(&1).unwrap() - now <= Duration::from_secs(1));
    }
}

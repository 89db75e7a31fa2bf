//! The recent events of one resource.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

use super::objects::Undone;
use super::{Key, Record};

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was removed.
    Deleted,
}

impl EventKind {
    /// The word in a watch.
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// Something that happened to an object.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// To which object.
    pub key: Key,
    /// The object after it; for a removal its last state, with the version of the removal.
    pub record: Arc<Record>,
    /// The object before it.
    pub before: Option<Arc<Record>>,
    /// The line of a plain JSON watch, written by the first watcher that needs it and shared by all.
    line: OnceLock<Bytes>,
}

impl Event {
    pub(super) fn new(kind: EventKind, key: Key, record: Arc<Record>, before: Option<Arc<Record>>) -> Self {
        Self { kind, key, record, before, line: OnceLock::new() }
    }

    /// The line of a plain JSON watch: the event with the object as it is stored.
    pub fn line(&self) -> &Bytes {
        self.line.get_or_init(|| line(self.kind.word(), &self.record.body))
    }
}

/// One line of a watch.
pub(crate) fn line(word: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + word.len() + 24);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(word.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}

/// How long events are kept.
#[derive(Debug, Clone)]
pub struct Retention {
    /// Events younger than this are kept, up to `most`.
    pub age: Duration,
    /// So many are kept however old they are.
    pub least: usize,
    /// More than this are never kept.
    pub most: usize,
    /// Events take no more memory than about this many bytes, but for the newest one.
    pub most_bytes: usize,
}

impl Default for Retention {
    fn default() -> Self {
        // Five minutes is what etcd's compaction leaves; the bounds keep quiet resources resumable for long
        // and busy ones from filling the memory.
        Self { age: Duration::from_mins(5), least: 1_000, most: 100_000, most_bytes: 64 << 20 }
    }
}

/// The recent events of one resource, oldest first.
#[derive(Debug)]
pub(super) struct History {
    events: VecDeque<Kept>,
    /// What they take of the memory.
    bytes: usize,
    /// Events up to this version may be missing.
    floor: u64,
    newest: u64,
}

/// An event, and what is looked at without looking into it.
#[derive(Debug)]
struct Kept {
    version: u64,
    at: Timestamp,
    event: Arc<Event>,
}

impl Kept {
    /// About how much memory the event takes: the object, and once more when a watcher has its line written.
    fn bytes(&self) -> usize {
        2 * self.event.record.body.len() + size_of::<Event>() + size_of::<Record>()
    }
}

impl History {
    /// The version of the newest event there ever was.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// A history whose past, up to `version`, is unknown.
    pub(super) fn beginning_at(version: u64) -> Self {
        Self { events: VecDeque::new(), bytes: 0, floor: version, newest: version }
    }

    pub(super) fn push(&mut self, event: Arc<Event>, now: Timestamp, retention: &Retention) {
        let version = event.record.version;
        self.newest = version;
        let kept = Kept { version, at: now, event };
        self.bytes += kept.bytes();
        self.events.push_back(kept);
        self.trim(now, retention);
    }

    /// Drops what is too old, and what is too much.
    pub(super) fn trim(&mut self, now: Timestamp, retention: &Retention) {
        while let Some(oldest) = self.events.front() {
            let many = self.events.len();
            let old = now.duration_since(oldest.at).unsigned_abs() >= retention.age;
            let goes = (many > retention.least && (old || many > retention.most))
                || (many > 1 && self.bytes > retention.most_bytes);
            if !goes {
                break;
            }
            self.floor = oldest.version;
            self.bytes -= oldest.bytes();
            self.events.pop_front();
        }
    }

    /// Drops everything up to `version`.
    pub(super) fn forget(&mut self, version: u64) {
        self.floor = version;
        self.events.retain(|kept| kept.version > version);
        self.bytes = self.events.iter().map(Kept::bytes).sum();
    }

    /// Where the events after `version` begin.
    fn start_after(&self, version: u64) -> usize {
        let newer = |place: usize| self.events.get(place).is_some_and(|kept| kept.version > version);
        // Nearly everybody who asks knows all but the last few, so the search begins at the end.
        let mut reach = 1;
        while reach < self.events.len() && newer(self.events.len() - reach) {
            reach *= 2;
        }
        let (mut low, mut high) = (self.events.len().saturating_sub(reach), self.events.len());
        while low < high {
            let middle = low.midpoint(high);
            if newer(middle) { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// Shows the events after `after` up to and with `until`, as long as they are wanted; none when some of them are
    /// gone. Breaks when there was another one.
    pub(super) fn visit(
        &self,
        after: u64,
        until: u64,
        mut show: impl FnMut(&Arc<Event>) -> ControlFlow<()>,
    ) -> Option<ControlFlow<()>> {
        if after < self.floor {
            return None;
        }
        let newer = self.events.range(self.start_after(after)..);
        let mut enough = ControlFlow::Continue(());
        for kept in newer.take_while(|kept| kept.version <= until) {
            if enough.is_break() {
                return Some(enough);
            }
            enough = show(&kept.event);
        }
        Some(ControlFlow::Continue(()))
    }

    /// What differed at `version`: for each object changed since, what it was then. None when that is gone.
    pub(super) fn undo_to(&self, version: u64) -> Option<Undone> {
        if version < self.floor {
            return None;
        }
        let mut then = Undone::new();
        for kept in self.events.range(self.start_after(version)..) {
            then.entry(kept.event.key.clone()).or_insert_with(|| kept.event.before.clone());
        }
        Some(then)
    }
}

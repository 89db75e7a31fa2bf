//! Telling people what happens to an object: Kubernetes Events.
//!
//! Recording never waits. What says the same of the same object again becomes a greater count of the first Event, at most
//! once in a few seconds; who has too much to tell is cut short, and what is not told is counted.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::backoff::hash;
use crate::client::{Error, Result, Site};
use crate::{Clock, Key, Resource};

const EVENT: Resource = Resource::namespaced("", "v1", "events", "Event");
/// How many may wait to be told.
const WAITING: usize = 1024;
/// How often a count is written at most.
const TOGETHER: Duration = Duration::from_secs(5);
/// After this long without a repetition an Event is begun anew.
const SERIES: Duration = Duration::from_mins(10);
/// How many Events an object may have at once, and how long it takes until it may have one more.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_mins(1);
/// The longest message the server takes.
const LONGEST: usize = 1024;
/// How many series are remembered.
const REMEMBERED: usize = 4096;

/// Whether an Event is good news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// All goes its way.
    Normal,
    /// Somebody should look.
    Warning,
}

/// The object an Event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Regarding {
    /// Its kind.
    pub resource: Resource,
    /// What it is called.
    pub key: Key,
    /// Which one of that name it is.
    pub uid: Arc<str>,
}

/// What happened to an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Note {
    /// The object.
    pub regarding: Regarding,
    /// Whether it is good news.
    pub kind: Kind,
    /// One word that machines understand, such as `Created`.
    pub reason: &'static str,
    /// What people read. No secrets.
    pub message: String,
}

/// Records Events without waiting. Copies are cheap and share everything.
#[derive(Debug, Clone)]
pub struct Recorder {
    sender: mpsc::Sender<Note>,
    dropped: Arc<AtomicU64>,
}

impl Recorder {
    /// A recorder, and the one who tells the server what is recorded. `component` is who says so.
    pub fn new(site: &Site, clock: Clock, component: &'static str) -> (Self, Teller) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let teller = Teller {
            site: site.clone(),
            clock,
            component,
            receiver,
            dropped: Arc::clone(&dropped),
            series: HashMap::new(),
            due: BTreeSet::new(),
            budgets: HashMap::new(),
        };
        (Self { sender, dropped }, teller)
    }

    /// Records what happened.
    pub fn record(&self, note: Note) {
        if self.sender.try_send(note).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many were not told.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// An Event that may be repeated.
#[derive(Debug)]
struct Series {
    name: String,
    count: u64,
    written: u64,
    last: Timestamp,
    /// When it was last written, by our own clock.
    at: Instant,
}

/// Tells the server what is recorded.
#[derive(Debug)]
pub struct Teller {
    site: Site,
    clock: Clock,
    component: &'static str,
    receiver: mpsc::Receiver<Note>,
    dropped: Arc<AtomicU64>,
    series: HashMap<Note, Series>,
    /// What has a count to be written, and when.
    due: BTreeSet<(Instant, Note)>,
    /// How many Events each object had lately.
    budgets: HashMap<Arc<str>, (u32, Instant)>,
}

impl Teller {
    /// Tells what is recorded until `stop` says so; what is recorded by then is still told.
    pub async fn run(mut self, stop: &CancellationToken) {
        loop {
            let next = self.due.first().map_or_else(|| Instant::now() + SERIES, |(then, _)| *then);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = sleep_until(next) => self.counts(Instant::now()).await,
                note = self.receiver.recv() => match note {
                    Some(note) => self.tell(note).await,
                    None => break,
                },
            }
        }
        let rest = async {
            while let Ok(note) = self.receiver.try_recv() {
                self.tell(note).await;
            }
            self.counts(Instant::now() + TOGETHER).await;
        };
        // The end of the daemon does not wait for news of it.
        let _ = tokio::time::timeout(Duration::from_secs(5), rest).await;
    }

    async fn tell(&mut self, mut note: Note) {
        shorten(&mut note.message);
        let now = Instant::now();
        if let Some(series) = self.series.get_mut(&note) {
            series.count += 1;
            series.last = self.clock.now();
            let then = series.at + TOGETHER;
            self.due.insert((then, note));
            return;
        }
        if !self.affordable(&note.regarding.uid, now) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.begin(note, 1).await;
    }

    /// Makes the first Event of a series.
    async fn begin(&mut self, note: Note, count: u64) {
        let time = self.clock.now();
        let name = name(&note, time);
        let event = event(&note, &name, count, time, self.component);
        let created = self.site.create::<Value>(&EVENT, namespace(&note), &event).await;
        if self.told(&created) {
            self.forget_old();
            let series = Series { name, count, written: count, last: time, at: Instant::now() };
            self.series.insert(note, series);
        }
    }

    /// Writes the counts that are due.
    async fn counts(&mut self, now: Instant) {
        while let Some((then, note)) = self.due.first().cloned() {
            if then > now {
                break;
            }
            self.due.remove(&(then, note.clone()));
            let Some(series) = self.series.get_mut(&note).filter(|series| series.count > series.written)
            else {
                continue;
            };
            series.at = Instant::now();
            series.written = series.count;
            let patch = json!({"count": series.count, "lastTimestamp": seconds(series.last)});
            let key = Key::new(namespace(&note), &series.name);
            let count = series.count;
            match self.site.merge_patch::<Value>(&EVENT, &key, &patch).await {
                // The server forgets Events after an hour.
                Err(Error::NotFound(_)) => {
                    self.series.remove(&note);
                    self.begin(note, count).await;
                }
                result => {
                    self.told(&result);
                }
            }
        }
        self.series.retain(|_, series| series.at + SERIES > now || series.count > series.written);
        self.budgets.retain(|_, (used, since)| now < *since + REFILL * *used);
    }

    fn told<T>(&self, result: &Result<T>) -> bool {
        if let Err(error) = result {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%error, "an event is not told");
        }
        result.is_ok()
    }

    /// Whether an object may have one more Event.
    fn affordable(&mut self, uid: &Arc<str>, now: Instant) -> bool {
        let (used, since) = self.budgets.entry(Arc::clone(uid)).or_insert((0, now));
        let back = now.saturating_duration_since(*since).as_secs() / REFILL.as_secs().max(1);
        let back = u32::try_from(back).unwrap_or(u32::MAX);
        if back > 0 {
            *used = used.saturating_sub(back);
            *since = now;
        }
        if *used >= BURST {
            return false;
        }
        *used += 1;
        true
    }

    /// Makes room for one more series.
    fn forget_old(&mut self) {
        if self.series.len() < REMEMBERED {
            return;
        }
        let oldest = self.series.iter().min_by_key(|(_, series)| series.at).map(|(note, _)| note.clone());
        if let Some(note) = oldest {
            self.series.remove(&note);
        }
    }
}

/// Events of objects that live in no namespace are in the default one.
fn namespace(note: &Note) -> &str {
    let namespace = note.regarding.key.namespace();
    if namespace.is_empty() { "default" } else { namespace }
}

/// The name of the first Event of a series: the same for the same news at the same time, so that a repeated request makes
/// no second one.
fn name(note: &Note, time: Timestamp) -> String {
    let mut mark = hash(0, note.regarding.uid.as_bytes());
    for part in [note.reason.as_bytes(), note.message.as_bytes(), &time.as_microsecond().to_be_bytes()] {
        mark = hash(mark, part);
    }
    format!("{}.{mark:016x}", note.regarding.key.name())
}

fn seconds(time: Timestamp) -> String {
    format!("{time:.0}")
}

fn shorten(message: &mut String) {
    if message.len() > LONGEST {
        let end = (0..=LONGEST - 3).rev().find(|end| message.is_char_boundary(*end)).unwrap_or_default();
        message.truncate(end);
        message.push('…');
    }
}

fn event(note: &Note, name: &str, count: u64, time: Timestamp, component: &str) -> Value {
    let regarding = &note.regarding;
    let kind = match note.kind {
        Kind::Normal => "Normal",
        Kind::Warning => "Warning",
    };
    let mut involved = json!({
        "apiVersion": regarding.resource.api_version(), "kind": regarding.resource.kind,
        "name": regarding.key.name(), "uid": &*regarding.uid,
    });
    if !regarding.key.namespace().is_empty() {
        involved["namespace"] = regarding.key.namespace().into();
    }
    json!({
        "metadata": {"name": name, "namespace": namespace(note)},
        "involvedObject": involved,
        "type": kind, "reason": note.reason, "message": note.message, "count": count,
        "firstTimestamp": seconds(time), "lastTimestamp": seconds(time),
        "source": {"component": component}, "reportingComponent": component, "reportingInstance": component,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_letters() {
        let mut message = "ä".repeat(1000);
        shorten(&mut message);
        assert!(message.len() <= LONGEST && message.ends_with('…'));
        let mut short = "fine".to_owned();
        shorten(&mut short);
        assert_eq!(short, "fine");
    }
}

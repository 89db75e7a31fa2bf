//! Watches: the events of a resource as a stream.
//!
//! A watch has no queue of its own. It remembers the version it has sent, and reads what is newer from the
//! store's history whenever the store says there is something. A slow client costs nothing; one that falls
//! behind the history is told so.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use serde_json::json;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, Sleep};

use super::filter::Filter;
use super::present::Presenter;
use crate::faults::{Passed, WatchFaults};
use crate::status::Status;
use crate::store::{Event, EventKind, OutOfRange, Record, Store};

/// How often a quiet watch says how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// A bookmark comes this long before a watch ends, so that the next one starts fresh.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Events are put together into pieces of about this size.
const PIECE: usize = 64 * 1024;

/// What a watch starts with.
#[derive(Debug)]
pub(crate) struct Start {
    /// Everything up to this version is known to the client.
    pub(crate) version: u64,
    /// Objects that are sent first.
    pub(crate) initial: Vec<Arc<Record>>,
    /// True when a bookmark marks the end of those.
    pub(crate) announce_end: bool,
}

/// What a watch is about.
pub(crate) struct Watch {
    pub(crate) store: Arc<Store>,
    pub(crate) presenter: Presenter,
    pub(crate) filter: Filter,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Duration,
    pub(crate) faults: Option<WatchFaults>,
    /// For custom resources: told of changes of definitions, and whether the resource is still served.
    pub(crate) served: Option<StillServed>,
}

/// Watches over whether a custom resource is still there.
pub(crate) struct StillServed {
    pub(crate) definitions: Receiver<u64>,
    pub(crate) check: Box<dyn Fn() -> bool + Send + Sync>,
}

impl StillServed {
    /// Ends when the resource is no longer served.
    async fn gone(served: &mut Option<Self>) {
        let Some(served) = served else { return std::future::pending().await };
        while served.definitions.changed().await.is_ok() {
            if !(served.check)() {
                return;
            }
        }
    }
}

/// The state of a running watch.
struct Running {
    watch: Watch,
    published: Receiver<u64>,
    version: u64,
    /// What is sent before any event.
    start: Option<Start>,
    /// Pieces that are ready to be sent.
    ready: VecDeque<Bytes>,
    end: std::pin::Pin<Box<Sleep>>,
    next_bookmark: std::pin::Pin<Box<Sleep>>,
    finished: bool,
}

impl Watch {
    /// The stream of encoded events.
    pub(crate) fn run(self, start: Start) -> impl Stream<Item = Bytes> + Send {
        let published = self.store.subscribe(self.presenter.stored_as());
        let now = Instant::now();
        let end = now + self.timeout;
        let first_bookmark = (now + BOOKMARK_EVERY)
            .min(end.checked_sub(BOOKMARK_BEFORE_END).filter(|at| *at > now).unwrap_or(end));
        let running = Running {
            published,
            version: start.version,
            start: Some(start),
            ready: VecDeque::new(),
            end: Box::pin(tokio::time::sleep_until(end)),
            next_bookmark: Box::pin(tokio::time::sleep_until(first_bookmark)),
            finished: false,
            watch: self,
        };
        futures::stream::unfold(running, |mut running| async move {
            let piece = running.next().await?;
            Some((piece, running))
        })
    }
}

impl Running {
    /// Sends what the client is to know first.
    async fn begin(&mut self, start: Start) {
        let mut piece = BytesMut::new();
        for record in &start.initial {
            match self.watch.presenter.event("ADDED", record).await {
                Ok(bytes) => self.collect(&mut piece, &bytes),
                Err(status) => return self.fail(&status),
            }
        }
        if start.announce_end {
            let bookmark = self.bookmark(start.version, true);
            self.collect(&mut piece, &bookmark);
        }
        if !piece.is_empty() {
            self.ready.push_back(piece.freeze());
        }
    }

    /// Adds an event to a piece, and begins another when it is full.
    fn collect(&mut self, piece: &mut BytesMut, event: &[u8]) {
        if piece.len() + event.len() > PIECE && !piece.is_empty() {
            self.ready.push_back(std::mem::take(piece).freeze());
        }
        piece.extend_from_slice(event);
    }

    /// The next piece, or nothing when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(start) = self.start.take() {
            self.begin(start).await;
        }
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            if self.finished {
                return None;
            }
            self.published.borrow_and_update();
            self.read_events().await;
            if !self.ready.is_empty() || self.finished {
                continue;
            }
            tokio::select! {
                biased;
                () = &mut self.end => self.finished = true,
                () = StillServed::gone(&mut self.watch.served) => {
                    // What happened to the last objects is told before the end.
                    self.read_events().await;
                    self.finished = true;
                }
                changed = self.published.changed() => {
                    if changed.is_err() {
                        self.finished = true;
                    }
                }
                () = &mut self.next_bookmark => {
                    self.next_bookmark.as_mut().reset(Instant::now() + BOOKMARK_EVERY);
                    if self.watch.bookmarks {
                        // Nothing of this resource is on its way between what was sent and what is safe.
                        self.version = self.version.max(self.watch.store.safe_version());
                        let bookmark = self.bookmark(self.version, false);
                        self.ready.push_back(bookmark);
                    }
                }
            }
        }
    }

    /// Encodes what happened since the last time.
    async fn read_events(&mut self) {
        let events = match self.watch.store.events_after(self.watch.presenter.stored_as(), self.version) {
            Ok(events) => events,
            // A client may know a version of another life of this server; it waits for what is newer.
            Err(OutOfRange::Future(_)) => return,
            Err(OutOfRange::Expired) => return self.fail(&expired(self.version, self.watch.store.version())),
        };
        let (events, then) = match self.watch.faults.as_mut().map(|faults| faults.pass(&events)) {
            None => (events, None),
            Some(Passed::Events(passed)) => {
                // What was dropped or held back is not read again.
                self.version = events.last().map_or(self.version, |event| event.record.version);
                (passed, None)
            }
            Some(Passed::Expired(passed)) => {
                (passed, Some(Some(expired(self.version, self.watch.store.version()))))
            }
            Some(Passed::Cut(passed)) => (passed, Some(None)),
        };
        let mut lines = Vec::with_capacity(events.len());
        for event in &events {
            self.version = self.version.max(event.record.version);
            match self.encode(event).await {
                Ok(Some(bytes)) => lines.push(bytes),
                Ok(None) => {}
                Err(status) => return self.fail(&status),
            }
        }
        if let Some(then) = then {
            self.ready.extend(lines);
            match then {
                Some(status) => self.fail(&status),
                None => self.finished = true,
            }
            return;
        }
        // One event alone is sent as it is, shared with all other watches.
        if lines.len() == 1 {
            self.ready.extend(lines);
            return;
        }
        let mut piece = BytesMut::new();
        for bytes in &lines {
            self.collect(&mut piece, bytes);
        }
        if !piece.is_empty() {
            self.ready.push_back(piece.freeze());
        }
    }

    /// The event as this watch sees it: an object that begins to match is added, one that ceases to is deleted.
    async fn encode(&self, event: &Arc<Event>) -> Result<Option<Bytes>, Status> {
        let filter = &self.watch.filter;
        let matched = event.before.as_ref().is_some_and(|before| filter.matches(&event.key, before));
        let matches = event.kind != EventKind::Deleted && filter.matches(&event.key, &event.record);
        let presenter = &self.watch.presenter;
        match (matched, matches) {
            (false, false) => Ok(None),
            (true, true) if presenter.is_plain(&event.record) && event.kind == EventKind::Modified => {
                Ok(Some(event.line().clone()))
            }
            (false, true) if presenter.is_plain(&event.record) && event.kind == EventKind::Added => {
                Ok(Some(event.line().clone()))
            }
            (true, true) => presenter.event("MODIFIED", &event.record).await.map(Some),
            (false, true) => presenter.event("ADDED", &event.record).await.map(Some),
            (true, false) if event.kind == EventKind::Deleted => {
                if presenter.is_plain(&event.record) {
                    return Ok(Some(event.line().clone()));
                }
                presenter.event("DELETED", &event.record).await.map(Some)
            }
            (true, false) => {
                // The last state that matched, under the version of what made it cease to.
                let Some(before) = &event.before else { return Ok(None) };
                presenter.event("DELETED", &before.at_version(event.record.version)).await.map(Some)
            }
        }
    }

    fn bookmark(&self, version: u64, end_of_initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if end_of_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        self.watch.presenter.bookmark(metadata)
    }

    /// Ends the watch with an error.
    fn fail(&mut self, status: &Status) {
        self.ready.push_back(self.watch.presenter.error(&status.to_value()));
        self.finished = true;
    }
}

/// What a client is told whose version is too old.
pub(crate) fn expired(version: u64, oldest: u64) -> Status {
    Status::new(410, "Expired", format!("too old resource version: {version} ({oldest})"))
}

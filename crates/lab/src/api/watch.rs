//! Watches: the events of a resource as a stream.
//!
//! A watch has no queue of its own. It remembers the version it has sent, and reads what is newer from the
//! store's history whenever the store says there is something. A slow client costs nothing; one that falls
//! behind the history is told so.
//!
//! Most watches send what is stored as it is stored, and all of them at once. What they do for an event is
//! therefore little: no future is made, nothing is copied, and the line they send is the same for all.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::time::{Instant, Sleep};

use super::filter::Filter;
use super::present::Presenter;
use crate::faults::{Passed, WatchFaults};
use crate::status::Status;
use crate::store::{Event, EventKind, OutOfRange, Record, Store, Subscription};
use crate::together::side_by_side;

/// How often a quiet watch says how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// How long a bookmark waits for events that are on their way.
const BOOKMARK_DELAYED: Duration = Duration::from_millis(10);
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
    definitions: Subscription,
    /// The version of the definitions when it was last looked.
    seen: u64,
    check: Box<dyn Fn() -> bool + Send + Sync>,
}

impl StillServed {
    /// `definitions` tells when to `check` whether the resource is still there.
    pub(crate) fn new(definitions: Subscription, check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { seen: definitions.version(), definitions, check: Box::new(check) }
    }

    fn is_gone(&mut self) -> bool {
        let version = self.definitions.version();
        let changed = version != self.seen;
        self.seen = version;
        changed && !(self.check)()
    }
}

/// Something to send.
#[derive(Debug)]
enum Line {
    /// As it is.
    Written(Bytes),
    /// An object that has to be brought into the form of the client first.
    Object(&'static str, Arc<Record>),
}

/// How a watch ends.
#[derive(Debug)]
enum End {
    Silently,
    With(Status),
}

/// The state of a running watch.
struct Running {
    store: Arc<Store>,
    presenter: Arc<Presenter>,
    filter: Filter,
    bookmarks: bool,
    faults: Option<WatchFaults>,
    served: Option<StillServed>,
    news: Subscription,
    /// The task that is woken when there is news.
    listening: Option<Waker>,
    /// What was visible when the history was last read; none when there is more to read.
    seen: Option<u64>,
    /// True when the resource is no longer served: the watch ends once all is told.
    leaving: bool,
    /// The version up to which everything was sent.
    version: u64,
    /// Objects that are still to be sent before any event.
    initial: std::vec::IntoIter<Arc<Record>>,
    /// True when a bookmark is to follow them.
    announce_end: bool,
    /// Pieces that are ready to be sent.
    ready: VecDeque<Bytes>,
    /// What is being brought into the form of the client.
    working: Option<BoxFuture<'static, Result<Vec<Bytes>, Status>>>,
    /// How the watch ends when that is sent.
    then: Option<End>,
    /// Rings for the next bookmark, or for the end.
    alarm: Pin<Box<Sleep>>,
    end: Instant,
    finished: bool,
}

impl Watch {
    /// The stream of encoded events.
    pub(crate) fn run(self, start: Start) -> impl Stream<Item = Bytes> + Send {
        let now = Instant::now();
        let end = now + self.timeout;
        let first_bookmark = (now + BOOKMARK_EVERY)
            .min(end.checked_sub(BOOKMARK_BEFORE_END).filter(|at| *at > now).unwrap_or(end));
        Running {
            news: self.store.subscribe(self.presenter.stored_as()),
            listening: None,
            seen: None,
            leaving: false,
            version: start.version,
            initial: start.initial.into_iter(),
            announce_end: start.announce_end,
            ready: VecDeque::new(),
            working: None,
            then: None,
            alarm: Box::pin(tokio::time::sleep_until(first_bookmark)),
            end,
            finished: false,
            store: self.store,
            presenter: Arc::new(self.presenter),
            filter: self.filter,
            bookmarks: self.bookmarks,
            faults: self.faults,
            served: self.served,
        }
    }
}

impl Stream for Running {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        loop {
            if let Some(working) = &mut this.working {
                let Poll::Ready(written) = working.as_mut().poll(context) else { return Poll::Pending };
                this.working = None;
                match written {
                    Ok(lines) => this.send(&lines),
                    Err(status) => this.then = Some(End::With(status)),
                }
                this.end_if_over();
            }
            if let Some(piece) = this.ready.pop_front() {
                return Poll::Ready(Some(piece));
            }
            if this.finished {
                return Poll::Ready(None);
            }
            if this.begin() {
                continue;
            }
            this.listen(context.waker());
            let visible = this.news.version();
            if this.served.as_mut().is_some_and(StillServed::is_gone) {
                // What happened to the last objects is told before the end.
                this.leaving = true;
                this.seen = None;
            }
            if this.seen != Some(visible) {
                this.seen = Some(visible);
                this.read_events();
            } else if this.alarm.as_mut().poll(context).is_ready() {
                this.alarm_rang();
            } else {
                return Poll::Pending;
            }
        }
    }
}

impl Running {
    /// Leaves word where there is news, once for all.
    fn listen(&mut self, waker: &Waker) {
        if self.listening.as_ref().is_some_and(|listening| listening.will_wake(waker)) {
            return;
        }
        self.news.listen(waker);
        if let Some(served) = &self.served {
            served.definitions.listen(waker);
        }
        self.listening = Some(waker.clone());
    }

    /// Sends some of what the client is to know first; false when it knows all of that.
    fn begin(&mut self) -> bool {
        let mut lines = Vec::new();
        let mut size = 0;
        while size < PIECE
            && let Some(record) = self.initial.next()
        {
            size += record.body.len();
            lines.push(Line::Object("ADDED", record));
        }
        if !lines.is_empty() {
            self.take(lines);
            return true;
        }
        if std::mem::take(&mut self.announce_end) {
            let bookmark = self.bookmark(self.version, true);
            self.ready.push_back(bookmark);
            return true;
        }
        false
    }

    /// Reads what happened since the last time, or as much of it as makes a piece. So a client that is far behind
    /// costs no more memory than one that is not.
    fn read_events(&mut self) {
        let faults = self.faults.take();
        let read = match faults {
            None => self.read_all(),
            Some(mut faults) => {
                let read = self.read_with(&mut faults);
                self.faults = Some(faults);
                read
            }
        };
        match read {
            Ok((lines, enough)) => {
                if enough.is_break() {
                    self.seen = None;
                } else if self.leaving {
                    self.then.get_or_insert(End::Silently);
                }
                self.take(lines);
            }
            // A client may know a version of another life of this server; it waits for what is newer.
            Err(OutOfRange::Future(_)) => self.finished |= self.leaving,
            Err(OutOfRange::Expired) => {
                self.then = Some(End::With(expired(self.version, self.store.version())));
                self.end_if_over();
            }
        }
    }

    fn read_all(&mut self) -> Result<(Vec<Line>, ControlFlow<()>), OutOfRange> {
        let (mut lines, mut version, mut size) = (Vec::new(), self.version, 0);
        let enough = self.store.visit_after(self.presenter.stored_as(), self.version, |event| {
            version = event.record.version;
            if let Some(line) = self.line(event) {
                size += event.record.body.len();
                lines.push(line);
            }
            if size < PIECE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        self.version = version;
        Ok((lines, enough))
    }

    /// Reads what the fault plan leaves of it.
    fn read_with(&mut self, faults: &mut WatchFaults) -> Result<(Vec<Line>, ControlFlow<()>), OutOfRange> {
        let events = self.store.events_after(self.presenter.stored_as(), self.version)?;
        let passed = match faults.pass(&events, |event| self.kind_of(event).is_some()) {
            Passed::Events(passed) => passed,
            Passed::Expired(passed) => {
                self.then = Some(End::With(expired(self.version, self.store.version())));
                passed
            }
            Passed::Cut(passed) => {
                self.then = Some(End::Silently);
                passed
            }
        };
        // What was dropped or held back is not read again.
        self.version = events.last().map_or(self.version, |event| event.record.version);
        let lines = passed.iter().filter_map(|event| self.line(event)).collect();
        Ok((lines, ControlFlow::Continue(())))
    }

    /// What an event is for this watch: an object that begins to match is added, one that ceases to is deleted.
    fn kind_of(&self, event: &Event) -> Option<EventKind> {
        let filter = &self.filter;
        let matched = event.before.as_ref().is_some_and(|before| filter.matches(&event.key, before));
        let matches = event.kind != EventKind::Deleted && filter.matches(&event.key, &event.record);
        match (matched, matches) {
            (false, false) => None,
            (true, true) => Some(EventKind::Modified),
            (false, true) => Some(EventKind::Added),
            (true, false) => Some(EventKind::Deleted),
        }
    }

    /// The event as this watch sees it.
    fn line(&self, event: &Event) -> Option<Line> {
        let kind = self.kind_of(event)?;
        if kind == event.kind && self.presenter.is_plain(&event.record) {
            return Some(Line::Written(event.line().clone()));
        }
        if kind == EventKind::Deleted && event.kind != EventKind::Deleted {
            // The last state that matched, under the version of what made it cease to.
            let last = event.before.as_ref()?.at_version(event.record.version);
            return Some(Line::Object(kind.word(), Arc::new(last)));
        }
        Some(Line::Object(kind.word(), Arc::clone(&event.record)))
    }

    /// Sends lines, now or as soon as all of them are in the form of the client.
    fn take(&mut self, lines: Vec<Line>) {
        // One event alone is sent as it is, shared with all other watches.
        if let [Line::Written(line)] = lines.as_slice() {
            self.ready.push_back(line.clone());
        } else if lines.iter().all(|line| matches!(line, Line::Written(_))) {
            let written = lines.iter().map(|line| match line {
                Line::Written(line) => line.as_ref(),
                Line::Object(..) => &[],
            });
            join(written, &mut self.ready);
        } else {
            let presenter = Arc::clone(&self.presenter);
            self.working = Some(Box::pin(async move {
                let presenter = &presenter;
                side_by_side(&lines, |line| async move {
                    match line {
                        Line::Written(line) => Ok(line.clone()),
                        Line::Object(word, record) => presenter.event(word, record).await,
                    }
                })
                .await
            }));
            return;
        }
        self.end_if_over();
    }

    fn send(&mut self, lines: &[Bytes]) {
        join(lines.iter().map(Bytes::as_ref), &mut self.ready);
    }

    /// Ends the watch, if it is to end after what was sent.
    fn end_if_over(&mut self) {
        match self.then.take() {
            None => return,
            Some(End::Silently) => {}
            Some(End::With(status)) => self.ready.push_back(self.presenter.error(&status.to_value())),
        }
        self.finished = true;
    }

    /// It is time for a bookmark, or to end.
    fn alarm_rang(&mut self) {
        let now = Instant::now();
        if now >= self.end {
            self.finished = true;
            return;
        }
        self.alarm.as_mut().reset((now + BOOKMARK_EVERY).min(self.end));
        if !self.bookmarks {
            return;
        }
        // Everything up to here is in the history by now, so after reading it nothing is missing.
        let safe = self.store.safe_version();
        self.read_events();
        if self.working.is_some() || self.seen.is_none() {
            // First what happened; the bookmark comes in a moment.
            self.alarm.as_mut().reset((now + BOOKMARK_DELAYED).min(self.end));
        } else if !self.finished {
            self.version = self.version.max(safe);
            // What is held back was not sent.
            let held = self.faults.as_ref().and_then(WatchFaults::held_from);
            let told = held.map_or(self.version, |held| self.version.min(held.saturating_sub(1)));
            let bookmark = self.bookmark(told, false);
            self.ready.push_back(bookmark);
        }
    }

    fn bookmark(&self, version: u64, end_of_initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if end_of_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        self.presenter.bookmark(&metadata)
    }
}

/// Puts lines together into pieces of a good size.
fn join<'a>(lines: impl Iterator<Item = &'a [u8]>, ready: &mut VecDeque<Bytes>) {
    let mut piece = BytesMut::new();
    for line in lines {
        if piece.len() + line.len() > PIECE && !piece.is_empty() {
            ready.push_back(std::mem::take(&mut piece).freeze());
        }
        piece.extend_from_slice(line);
    }
    if !piece.is_empty() {
        ready.push_back(piece.freeze());
    }
}

/// What a client is told whose version is too old.
pub(crate) fn expired(version: u64, oldest: u64) -> Status {
    Status::new(410, "Expired", format!("too old resource version: {version} ({oldest})"))
}

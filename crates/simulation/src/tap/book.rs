//! What was asked and told, in order and numbered, and what is still to go wrong.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::names_uid;
use crate::plan::{Fault, Perturbation};
use crate::point::{Asked, Point, Verb};
use crate::trace::Trace;

/// How late is what comes late.
pub const LAG: Duration = Duration::from_secs(30);
/// When a watch that lost an event has to begin anew.
pub const RESYNC: Duration = Duration::from_mins(1);

/// Which of the controllers of a run it is, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(pub u32);

/// Something that was asked or told.
#[derive(Debug, Clone)]
pub struct Seen {
    /// When, since the beginning of the run.
    pub at: Duration,
    /// By or to whom.
    pub who: Incarnation,
    /// The point it is.
    pub point: Point,
    /// What was done; nothing for an event.
    pub verb: Option<Verb>,
    /// Whether it is one of the points at which things may go wrong.
    pub counted: bool,
    /// What went wrong.
    pub fault: Option<Perturbation>,
    /// The code of the answer, where one came.
    pub code: Option<u16>,
    /// Whether it is a delete that does not say which object of a name it means.
    pub blind: bool,
}

/// A line of a run's history.
#[derive(Debug, Clone)]
pub enum Line {
    /// Something was asked or told.
    Seen(Seen),
    /// A controller began.
    Began(Incarnation),
    /// A controller was killed.
    Killed(Incarnation),
    /// A person or the world did something.
    Done(String),
}

/// What was asked and told, and what is still to go wrong.
#[derive(Debug)]
pub struct Book {
    pages: Mutex<Pages>,
    deaths: mpsc::UnboundedSender<Incarnation>,
    /// Which sites nobody reaches.
    parted: watch::Sender<BTreeSet<&'static str>>,
    /// Counts how often all watches ended at once.
    cuts: watch::Sender<u64>,
    /// What happens to objects is written down in the same order.
    trace: Trace,
}

#[derive(Debug, Default)]
struct Pages {
    counting: bool,
    counts: HashMap<(&'static str, String), u32>,
    faults: Vec<Fault>,
    fired: Vec<Fault>,
    lines: Vec<(Duration, usize, Line)>,
    alive: BTreeSet<Incarnation>,
    begun: u32,
    /// Watches that cannot go on from where they were.
    expired: HashSet<(&'static str, String)>,
    /// From when a site shows what it shows whoever begins.
    lagging: HashMap<&'static str, (u64, Instant)>,
    /// The version of a site before the last write of a controller.
    written: HashMap<&'static str, u64>,
}

impl Book {
    /// An empty book, and who is told of controllers that are killed.
    pub fn new(faults: Vec<Fault>, trace: Trace) -> (Self, mpsc::UnboundedReceiver<Incarnation>) {
        let (deaths, told) = mpsc::unbounded_channel();
        let pages = Pages { faults, ..Pages::default() };
        let (parted, cuts) = (watch::Sender::default(), watch::Sender::default());
        (Self { pages: Mutex::new(pages), deaths, parted, cuts, trace }, told)
    }

    /// From now on things may go wrong.
    pub fn count(&self) {
        self.pages.lock().counting = true;
    }

    /// How long the run has been going on.
    pub fn now(&self) -> Duration {
        self.trace.now()
    }

    /// One more controller.
    pub fn begin(&self) -> Incarnation {
        let mut pages = self.pages.lock();
        pages.begun += 1;
        let who = Incarnation(pages.begun);
        pages.alive.insert(who);
        self.write(&mut pages, Line::Began(who));
        who
    }

    /// Whether a controller lives.
    pub fn lives(&self, who: Incarnation) -> bool {
        self.pages.lock().alive.contains(&who)
    }

    /// Kills a controller.
    pub fn kill(&self, who: Incarnation) {
        let mut pages = self.pages.lock();
        if pages.alive.remove(&who) {
            self.write(&mut pages, Line::Killed(who));
            // Nobody has to listen.
            let _ = self.deaths.send(who);
        }
    }

    /// A controller has ended in good order.
    pub fn retire(&self, who: Incarnation) {
        self.pages.lock().alive.remove(&who);
    }

    /// From now on nobody reaches a site, or everybody does again.
    pub fn part(&self, site: &'static str, parted: bool) {
        self.parted.send_modify(|all| {
            if parted {
                all.insert(site)
            } else {
                all.remove(site)
            };
        });
    }

    /// Whether nobody reaches a site, and when that changes.
    pub(super) fn parted(&self) -> watch::Receiver<BTreeSet<&'static str>> {
        self.parted.subscribe()
    }

    /// Ends all watches.
    pub fn cut_all(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }

    /// How often all watches ended, and when that changes.
    pub(super) fn cuts(&self) -> watch::Receiver<u64> {
        self.cuts.subscribe()
    }

    /// Writes down what a person or the world does.
    pub fn done(&self, what: String) {
        let mut pages = self.pages.lock();
        self.write(&mut pages, Line::Done(what));
    }

    /// Everything that was written down: when, after how many changes of objects, and what.
    pub fn lines(&self) -> Vec<(Duration, usize, Line)> {
        self.pages.lock().lines.clone()
    }

    /// What went wrong so far.
    pub fn fired(&self) -> Vec<Fault> {
        self.pages.lock().fired.clone()
    }

    /// When something went wrong at a point for the last time.
    pub fn last_fault(&self) -> Option<Duration> {
        let pages = self.pages.lock();
        pages.lines.iter().rev().find_map(|(_, _, line)| match line {
            Line::Seen(seen) if seen.fault.is_some() => Some(seen.at),
            _ => None,
        })
    }

    fn write(&self, pages: &mut Pages, line: Line) -> usize {
        let after = self.trace.drain();
        pages.lines.push((self.trace.now(), after, line));
        pages.lines.len() - 1
    }

    /// A request: its number, and what goes wrong with it.
    pub(super) fn asked(
        &self,
        who: Incarnation,
        site: &'static str,
        asked: &Asked,
        method: &Method,
        body: &[u8],
        version: u64,
    ) -> (usize, Option<Perturbation>) {
        let mut pages = self.pages.lock();
        if asked.verb.writes() {
            pages.written.insert(site, version);
        }
        let blind = !names_uid(method, body);
        self.meet(&mut pages, who, site, asked.words(), Some(asked.verb), blind)
    }

    /// An event: what goes wrong with it.
    pub(super) fn told(&self, who: Incarnation, site: &'static str, words: String) -> Option<Perturbation> {
        let mut pages = self.pages.lock();
        self.meet(&mut pages, who, site, words, None, false).1
    }

    fn meet(
        &self,
        pages: &mut Pages,
        who: Incarnation,
        site: &'static str,
        what: String,
        verb: Option<Verb>,
        blind: bool,
    ) -> (usize, Option<Perturbation>) {
        let counted = pages.counting;
        let mut occurrence = 0;
        if counted {
            let count = pages.counts.entry((site, what.clone())).or_default();
            *count += 1;
            occurrence = *count;
        }
        let point = Point { site: site.to_owned(), what, occurrence };
        let place = pages.faults.iter().position(|fault| fault.at == point).filter(|_| counted);
        let fault = place.map(|place| pages.faults.remove(place));
        let what = fault.as_ref().map(|fault| fault.what);
        pages.fired.extend(fault);
        let at = self.trace.now();
        let seen = Seen { at, who, point, verb, counted, fault: what, code: None, blind };
        (self.write(pages, Line::Seen(seen)), what)
    }

    /// The answer to a request.
    pub(super) fn answered(&self, number: usize, code: u16) {
        if let Some((_, _, Line::Seen(seen))) = self.pages.lock().lines.get_mut(number) {
            seen.code = Some(code);
        }
        self.trace.drain();
    }

    /// The version of a site before the last write of a controller.
    pub(super) fn last_write(&self, site: &'static str) -> Option<u64> {
        self.pages.lock().written.get(site).copied()
    }

    /// Whoever begins on a site within a while is shown what was there at a version.
    pub(super) fn lag(&self, site: &'static str, version: u64) {
        self.pages.lock().lagging.insert(site, (version, Instant::now() + LAG));
    }

    pub(super) fn lagging(&self, site: &'static str) -> Option<u64> {
        let pages = self.pages.lock();
        pages.lagging.get(site).filter(|(_, until)| Instant::now() < *until).map(|(version, _)| *version)
    }

    /// A watch cannot go on from where it was, the next time it tries.
    pub(super) fn expire(&self, site: &'static str, path: &str) {
        self.pages.lock().expired.insert((site, path.to_owned()));
    }

    pub(super) fn is_expired(&self, site: &'static str, path: &str) -> bool {
        self.pages.lock().expired.remove(&(site, path.to_owned()))
    }
}

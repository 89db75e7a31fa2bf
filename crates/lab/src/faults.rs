//! Faults on purpose: what a test makes the server do wrong, and when.
//!
//! A [`FaultPlan`] is a list of faults, each with the requests it is meant for and the occurrence it fires at.
//! Nothing here is random: the same plan and the same requests give the same faults.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use crate::attributes::Attributes;
use crate::status::Status;
use crate::store::Event;

/// Which requests a fault is meant for; empty texts mean any.
#[derive(Debug, Clone, Default)]
pub struct Matching {
    /// The verb, such as `update` or `watch`.
    pub verb: String,
    /// The group; `core` for the group without a name.
    pub group: String,
    /// The resource, such as `pods`, or with a subresource `pods/status`.
    pub resource: String,
    /// The namespace.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The user.
    pub user: String,
}

impl Matching {
    /// Requests with a verb for a resource.
    pub fn new(verb: &str, resource: &str) -> Self {
        Self { verb: verb.to_owned(), resource: resource.to_owned(), ..Self::default() }
    }

    fn fits(&self, request: &Attributes) -> bool {
        let any = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let group = if request.group.is_empty() { "core" } else { &request.group };
        let resource = if request.subresource.is_empty() {
            any(&self.resource, &request.resource)
        } else {
            any(&self.resource, &format!("{}/{}", request.resource, request.subresource))
        };
        resource
            && any(&self.verb, &request.verb)
            && any(&self.group, group)
            && any(&self.namespace, &request.namespace)
            && any(&self.name, &request.name)
            && any(&self.user, &request.user.name)
    }
}

/// At which of the matching requests a fault fires.
#[derive(Debug, Clone)]
pub enum When {
    /// Every time.
    Always,
    /// Only at this one, counted from 1.
    Occurrence(u64),
    /// At these, counted from 1.
    Between(u64, u64),
}

impl When {
    fn fires(&self, occurrence: u64) -> bool {
        match self {
            Self::Always => true,
            Self::Occurrence(at) => occurrence == *at,
            Self::Between(first, last) => (*first..=*last).contains(&occurrence),
        }
    }
}

/// What goes wrong.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The request is handled late.
    Delay(Duration),
    /// The request is refused with this code (409, 429, 500, 503) and nothing happens.
    Fail(u16),
    /// No answer comes and nothing happens: the client sees a 504 after this time.
    TimeoutBefore(Duration),
    /// The request takes effect, but the client sees a 504 after this time.
    TimeoutAfter(Duration),
    /// A list or get shows the state of this many versions ago, as far as history reaches.
    Stale(u64),
    /// A watch loses this event. Events are counted per watch from 1: those it would show, without the objects it
    /// begins with.
    DropEvent(u64),
    /// A watch gets this event (counted per watch from 1) only after the next one of another object.
    SwapEvent(u64),
    /// A watch ends with 410 after this many events.
    ExpireWatch(u64),
    /// A watch ends without a word after this many events.
    CutWatch(u64),
}

/// One fault of a plan.
#[derive(Debug)]
struct Planned {
    matching: Matching,
    when: When,
    fault: Fault,
    seen: AtomicU64,
    fired: AtomicU64,
}

/// The faults of a server. Empty by default; it can be filled and emptied while the server runs.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    faults: Arc<RwLock<Vec<Arc<Planned>>>>,
}

/// What is to go wrong with one request.
#[derive(Debug, Default, Clone)]
pub(crate) struct Trouble {
    pub(crate) delay: Option<Duration>,
    pub(crate) fail: Option<u16>,
    pub(crate) timeout_before: Option<Duration>,
    pub(crate) timeout_after: Option<Duration>,
    pub(crate) stale: Option<u64>,
    pub(crate) watch: Option<WatchFaults>,
}

impl FaultPlan {
    /// Adds a fault.
    pub fn add(&self, matching: Matching, when: When, fault: Fault) {
        let planned = Planned { matching, when, fault, seen: AtomicU64::new(0), fired: AtomicU64::new(0) };
        self.faults.write().push(Arc::new(planned));
    }

    /// Removes all faults.
    pub fn clear(&self) {
        self.faults.write().clear();
    }

    /// How often faults have fired.
    pub fn fired(&self) -> u64 {
        self.faults.read().iter().map(|planned| planned.fired.load(Ordering::Relaxed)).sum()
    }

    /// What is to go wrong with this request. Counts it for every fault it fits.
    pub(crate) fn trouble(&self, request: &Attributes) -> Option<Trouble> {
        let faults = self.faults.read();
        if faults.is_empty() {
            return None;
        }
        let mut trouble = Trouble::default();
        let mut any = false;
        for planned in faults.iter().filter(|planned| planned.matching.fits(request)) {
            let occurrence = planned.seen.fetch_add(1, Ordering::Relaxed) + 1;
            if !planned.when.fires(occurrence) {
                continue;
            }
            any = true;
            planned.fired.fetch_add(1, Ordering::Relaxed);
            match &planned.fault {
                Fault::Delay(time) => trouble.delay = Some(*time),
                Fault::Fail(code) => trouble.fail = Some(*code),
                Fault::TimeoutBefore(time) => trouble.timeout_before = Some(*time),
                Fault::TimeoutAfter(time) => trouble.timeout_after = Some(*time),
                Fault::Stale(versions) => trouble.stale = Some(*versions),
                watch => trouble.watch.get_or_insert_default().add(watch),
            }
        }
        any.then_some(trouble)
    }
}

/// The failure a fault answers with.
pub(crate) fn failure(code: u16, request: &Attributes) -> Status {
    let (group, resource, name) = (&request.group, &request.resource, &request.name);
    match code {
        409 => Status::conflict(
            group,
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        ),
        429 => {
            let mut status = Status::new(429, "TooManyRequests", "too many requests, please try again later");
            status.details.retry_after_seconds = Some(1);
            status
        }
        503 => Status::new(503, "ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => timeout(),
        _ => Status::internal("a fault of the plan"),
    }
}

/// What a client sees when its request took too long.
pub(crate) fn timeout() -> Status {
    Status::new(504, "Timeout", "Timeout: request did not complete within the allotted timeout")
        .with_empty_details()
}

/// The faults of one watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchFaults {
    drop: Vec<u64>,
    swap: Vec<u64>,
    expire_after: Option<u64>,
    cut_after: Option<u64>,
    seen: u64,
    /// Events waiting for the next one of another object.
    held: VecDeque<Arc<Event>>,
}

/// What a watch does with the events it was given.
#[derive(Debug)]
pub(crate) enum Passed {
    /// Sends these.
    Events(Vec<Arc<Event>>),
    /// Sends these, then says that its version is too old.
    Expired(Vec<Arc<Event>>),
    /// Sends these, then ends.
    Cut(Vec<Arc<Event>>),
}

impl WatchFaults {
    fn add(&mut self, fault: &Fault) {
        match fault {
            Fault::DropEvent(at) => self.drop.push(*at),
            Fault::SwapEvent(at) => self.swap.push(*at),
            Fault::ExpireWatch(after) => self.expire_after = Some(*after),
            Fault::CutWatch(after) => self.cut_after = Some(*after),
            _ => {}
        }
    }

    /// The version of the oldest event that is held back.
    pub(crate) fn held_from(&self) -> Option<u64> {
        self.held.front().map(|event| event.record.version)
    }

    /// The events the watch gets to see, out of those it `shows`. Events of one object never overtake each other.
    pub(crate) fn pass(&mut self, events: &[Arc<Event>], shows: impl Fn(&Event) -> bool) -> Passed {
        let mut passed = Vec::with_capacity(events.len());
        for event in events.iter().filter(|event| shows(event)).map(Arc::clone) {
            if self.expire_after.is_some_and(|after| self.seen >= after) {
                return Passed::Expired(passed);
            }
            if self.cut_after.is_some_and(|after| self.seen >= after) {
                return Passed::Cut(passed);
            }
            self.seen += 1;
            if self.drop.contains(&self.seen) {
                continue;
            }
            if self.swap.contains(&self.seen) {
                self.held.push_back(event);
                continue;
            }
            let same = self.held.iter().any(|held| held.key == event.key);
            if same {
                passed.extend(self.held.drain(..));
                passed.push(event);
            } else {
                passed.push(event);
                passed.extend(self.held.drain(..));
            }
        }
        if self.expire_after.is_some_and(|after| self.seen >= after) {
            return Passed::Expired(passed);
        }
        if self.cut_after.is_some_and(|after| self.seen >= after) {
            return Passed::Cut(passed);
        }
        Passed::Events(passed)
    }
}

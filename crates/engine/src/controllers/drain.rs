//! The drain of one Node that somebody points at, step by step: for the command line.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use trellis_runtime::client::{self, Error};
use trellis_runtime::{Clock, Key, Site};

use super::guests::{Guests, NODE};
use super::machine::on_tenant;
use super::nodes::Node;
use super::work::Watches;
use crate::Deadline;
use crate::machines::{Deadlines, DrainMark, PodSeen, drain_node};

/// How long what was just asked for may take to show before the next plan.
const TO_SHOW: Duration = Duration::from_millis(200);
/// How long a failed request is left alone.
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// A Node that is being emptied by the same plan as the Node of a machine that goes.
pub struct NodeDrain {
    guests: Guests,
    /// They end with this.
    _watches: Watches,
    clock: Clock,
    node: String,
    deadlines: Deadlines,
    mark: DrainMark,
    news: Arc<Notify>,
    wake: Option<Deadline>,
    acted: bool,
    failure: Option<String>,
}

/// How far a drain is.
#[derive(Debug, Clone)]
pub struct DrainProgress {
    /// Why the Node is not empty yet: in one word, and for people. Nothing when it is.
    pub waits: Option<(&'static str, String)>,
    /// The pods that are waited for, with the refusals of their budgets; nothing as long as they are not known.
    pub pods: Option<Vec<PodSeen>>,
    /// Why a request failed that is tried again.
    pub failure: Option<String>,
}

impl NodeDrain {
    /// Begins to look at a Node, and at those of its pods whose labels fit. Fails where there is no such Node.
    pub async fn begin(site: Site, node: &str, labels: &str, deadlines: Deadlines) -> client::Result<Self> {
        let _there: Node = site.get(&NODE, &Key::cluster(node)).await?;
        let clock = Clock::of_machine();
        let guests = Guests::of_node(site, node);
        let watches = Watches::new(0);
        watches.watch(&guests.nodes, &guests.site);
        guests.nodes.synced().await;
        let news = Arc::new(Notify::new());
        let (of_node, of_pods) = (Arc::clone(&news), Arc::clone(&news));
        guests.nodes.listen(move |_| of_node.notify_one());
        guests.attend_some(node, labels, &watches, move || of_pods.notify_one());
        let mark = DrainMark { started: clock.now(), emptied: None };
        let (node, wake, failure) = (node.to_owned(), None, None);
        Ok(Self {
            guests,
            _watches: watches,
            clock,
            node,
            deadlines,
            mark,
            news,
            wake,
            acted: false,
            failure,
        })
    }

    /// Does what is to be done now, and says how far it is. What may work later is tried again; what will not is a
    /// failure.
    pub async fn advance(&mut self) -> client::Result<DrainProgress> {
        let Some(node) = self.guests.node(&self.node) else {
            return Ok(DrainProgress { waits: None, pods: Some(Vec::new()), failure: None });
        };
        let pods = self.guests.pods(&self.node);
        let now = self.clock.now();
        let plan = drain_node(&node.seen, pods.as_deref(), &self.deadlines, self.mark, now);
        self.mark = plan.mark;
        self.wake = plan.wake;
        self.acted = !plan.steps.is_empty();
        self.failure = None;
        for step in &plan.steps {
            match on_tenant(&self.guests, &self.node, step, now).await {
                Ok(()) => {}
                Err(error) if is_passing(&error) => {
                    self.failure = Some(error.to_string());
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        // With what has become known by doing it.
        let pods = self
            .guests
            .pods(&self.node)
            .map(|pods| pods.into_iter().filter(|pod| !(pod.daemon || pod.mirror || pod.finished)).collect());
        Ok(DrainProgress { waits: plan.waits, pods, failure: self.failure.clone() })
    }

    /// Waits until something has changed or is due.
    pub async fn news(&self) {
        let now = Instant::now();
        let due = self.wake.as_ref().map(|wake| now + self.clock.until(wake.at));
        let soon = match (&self.failure, self.acted) {
            (Some(_), _) => Some(now + AFTER_FAILURE),
            (None, true) => Some(now + TO_SHOW),
            (None, false) => None,
        };
        match [due, soon].into_iter().flatten().min() {
            Some(until) => drop(tokio::time::timeout_at(until, self.news.notified()).await),
            None => self.news.notified().await,
        }
    }
}

impl Drop for NodeDrain {
    fn drop(&mut self) {
        self.guests.leave(&self.node);
    }
}

/// Whether a request may succeed when it is made again.
fn is_passing(error: &Error) -> bool {
    error.is_retryable() && *error != Error::Unauthorized
}

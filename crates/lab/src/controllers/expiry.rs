//! Events are kept for an hour after the last thing that happened to them.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::agent::Agent;
use super::{Controller, Interest, Next, Queue};
use crate::api::options::DeleteOptions;
use crate::names::GroupResource;
use crate::status::Status;
use crate::store::{Change, EventKind, Key, Query};

/// How long an event is kept.
const LIFE: SignedDuration = SignedDuration::from_hours(1);
/// The clock may be another one than that of the timers, and stand still.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

/// Lets events go.
#[derive(Debug)]
pub(super) struct Expiry {
    agent: Agent,
    /// Every state of an event and when it goes, the first to go first. All live equally long.
    ends: VecDeque<(Timestamp, Key, u64)>,
}

fn resource() -> GroupResource {
    GroupResource::new("", "events")
}

/// The last time anything happened to an object, as far as it tells.
fn changed_at(object: &Value) -> Timestamp {
    let metadata = &object["metadata"];
    let writes = metadata["managedFields"].as_array().into_iter().flatten().map(|entry| &entry["time"]);
    let times = writes.chain([&metadata["creationTimestamp"]]);
    times.filter_map(|time| time.as_str()?.parse().ok()).max().unwrap_or(Timestamp::MIN)
}

impl Controller for Expiry {
    /// The first event that goes.
    type Item = ();

    fn interest(&self) -> Interest {
        Box::new(|change| {
            change.of.resource == "events"
                && change.of.group.is_empty()
                && change.event.kind != EventKind::Deleted
        })
    }

    fn begin(&mut self, queue: &mut Queue<()>) {
        let Some(server) = self.agent.server() else { return };
        let records = server.store().list(&resource(), &Query::default(), |_, _| true).records;
        let mut known: Vec<_> = records
            .iter()
            .map(|record| (end(changed_at(&record.parse())), record.key.clone(), record.version))
            .collect();
        known.sort();
        self.ends.extend(known);
        queue.add(());
    }

    fn observe(&mut self, change: &Change, queue: &mut Queue<()>) {
        let Some(server) = self.agent.server() else { return };
        let event = &change.event;
        self.ends.push_back((end(server.clock().now()), event.key.clone(), event.record.version));
        if self.ends.len() == 1 {
            queue.add(());
        }
    }

    async fn work(&mut self, (): &(), _: &mut Queue<()>) -> Result<Next, Status> {
        let Some(server) = self.agent.server() else { return Ok(Next::Done) };
        while let Some((at, key, version)) = self.ends.front() {
            let left = at.duration_since(server.clock().now());
            if left.is_positive() {
                return Ok(Next::After(Duration::try_from(left).unwrap_or_default().max(SHORTEST_WAIT)));
            }
            // A state that was replaced went already; the one after it has its own time.
            if server.store().get(&resource(), key).is_some_and(|record| record.version == *version) {
                // The store lets go of them by itself, so nobody is asked.
                let options = DeleteOptions {
                    version: Some(version.to_string()),
                    unasked: true,
                    ..DeleteOptions::default()
                };
                if let Err(status) = self.agent.delete(&resource(), key, &options).await {
                    tracing::debug!(?key, error = status.message, "the event changed meanwhile");
                }
            }
            self.ends.pop_front();
        }
        Ok(Next::Done)
    }
}

impl Expiry {
    pub(super) fn new(agent: Agent) -> Self {
        Self { agent, ends: VecDeque::new() }
    }
}

fn end(from: Timestamp) -> Timestamp {
    from.saturating_add(LIFE).unwrap_or(Timestamp::MAX)
}

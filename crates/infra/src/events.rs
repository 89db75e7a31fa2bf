//! Events about objects, repeated ones counted.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hasher as _;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::Client;
use crate::clock::Clock;
use crate::kinds::{EVENT, Kind};
use crate::object::{Key, Object as _};
use crate::stages::Fnv;

/// What an event is about, for finding the one to count up.
type About = (String, String, String, String);

/// Writes events in the name of a component. Writing never fails for the caller: events are told on the side.
#[derive(Debug, Clone)]
pub struct Recorder {
    client: Client,
    clock: Clock,
    /// Which component the events come from.
    component: &'static str,
    written: Arc<Mutex<HashMap<About, Written>>>,
    similar: Arc<Mutex<HashMap<About, Similar>>>,
}

/// How many events are remembered for counting them up; of more, those told last.
const REMEMBERED: usize = 4096;

/// An event that was written.
#[derive(Debug)]
struct Written {
    key: Key,
    count: i64,
    last: Instant,
}

/// Remembers an event; of too many, the half that was told earlier is forgotten.
fn remember(written: &mut HashMap<About, Written>, about: About, key: Key) {
    if written.len() >= REMEMBERED {
        let mut times: Vec<Instant> = written.values().map(|one| one.last).collect();
        times.sort_unstable();
        let middle = times[times.len() / 2];
        written.retain(|_, one| one.last > middle);
    }
    written.insert(about, Written { key, count: 1, last: Instant::now() });
}

/// Events about one object that differ in nothing but their message.
#[derive(Debug, Default)]
struct Similar {
    /// When the last one was.
    last: Timestamp,
    /// The different messages since there was a pause.
    messages: BTreeSet<String>,
}

/// How many different messages of similar events are told one by one; from then on they are one event.
const SIMILAR: usize = 10;
/// After how long a pause similar events are told one by one again.
const PAUSE: SignedDuration = SignedDuration::from_mins(10);

impl Recorder {
    /// A recorder in the name of a component.
    pub fn new(client: &Client, clock: Clock, component: &'static str) -> Self {
        Self { client: client.clone(), clock, component, written: Arc::default(), similar: Arc::default() }
    }

    /// Something went as it should.
    pub async fn normal(&self, kind: &Kind, object: &Value, reason: &str, message: &str) {
        self.record(kind, object, "Normal", reason, message).await;
    }

    /// Something went wrong.
    pub async fn warning(&self, kind: &Kind, object: &Value, reason: &str, message: &str) {
        self.record(kind, object, "Warning", reason, message).await;
    }

    /// Whether there were so many similar events that this one is told together with the last ones.
    fn is_one_of_many(&self, object: &Value, severity: &str, reason: &str, message: &str) -> bool {
        let about = (object.uid().to_owned(), severity.to_owned(), reason.to_owned(), String::new());
        let now = self.clock.now();
        let mut similar = self.similar.lock();
        if similar.len() >= REMEMBERED {
            // What is older than a pause counts for nothing; of too many at once none does.
            similar.retain(|_, one| now.duration_since(one.last) <= PAUSE);
            if similar.len() >= REMEMBERED {
                similar.clear();
            }
        }
        let similar = similar.entry(about).or_default();
        if now.duration_since(similar.last) > PAUSE {
            similar.messages.clear();
        }
        similar.last = now;
        if similar.messages.len() < SIMILAR {
            similar.messages.insert(message.to_owned());
        }
        similar.messages.len() >= SIMILAR
    }

    async fn record(&self, kind: &Kind, object: &Value, severity: &str, reason: &str, message: &str) {
        let together = self.is_one_of_many(object, severity, reason, message);
        let combined = format!("(combined from similar events): {message}");
        let (message, word) = if together { (combined.as_str(), "") } else { (message, message) };
        let about = (object.uid().to_owned(), severity.to_owned(), reason.to_owned(), word.to_owned());
        let now = self.clock.seconds();
        let known = {
            let mut written = self.written.lock();
            let known = written.get_mut(&about);
            known.map(|known| {
                known.count += 1;
                known.last = Instant::now();
                (known.key.clone(), known.count)
            })
        };
        if let Some((key, count)) = known {
            let patch = json!({"count": count, "lastTimestamp": now, "message": message});
            if self.client.merge(&EVENT, &key, &patch).await.is_ok() {
                return;
            }
        }
        let namespace = if object.namespace().is_empty() { "default" } else { object.namespace() };
        // The moment and what is told: two events of one moment must not share a name.
        let mut stamp = Fnv::new(u64::try_from(self.clock.now().as_millisecond()).unwrap_or_default());
        for part in [self.component, reason, message] {
            stamp.write(part.as_bytes());
        }
        let stamp = stamp.finish();
        let event = json!({
            "metadata": {"namespace": namespace, "name": format!("{}.{stamp:016x}", object.name())},
            "involvedObject": {
                "apiVersion": kind.api_version(), "kind": kind.kind, "namespace": object.namespace(),
                "name": object.name(), "uid": object.uid(),
                "resourceVersion": object["metadata"]["resourceVersion"],
            },
            "type": severity, "reason": reason, "message": message, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": self.component},
            "reportingComponent": self.component, "reportingInstance": "",
        });
        match self.client.create(&EVENT, event).await {
            Ok(event) => {
                remember(&mut self.written.lock(), about, Key::of(&event));
            }
            Err(failure) => tracing::debug!(reason, %failure, "an event could not be written"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_told_long_ago_is_forgotten() {
        let mut written = HashMap::new();
        let about = |number: usize| (number.to_string(), String::new(), String::new(), String::new());
        for number in 0..3 * REMEMBERED {
            tokio::time::advance(std::time::Duration::from_millis(1)).await;
            remember(&mut written, about(number), Key::default());
            assert!(written.len() <= REMEMBERED);
        }
        assert!(written.contains_key(&about(3 * REMEMBERED - 1)) && !written.contains_key(&about(0)));
    }
}

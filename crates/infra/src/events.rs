//! Events about objects, repeated ones counted.

use std::collections::HashMap;
use std::hash::Hasher as _;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

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
    written: Arc<Mutex<HashMap<About, (Key, i64)>>>,
}

impl Recorder {
    /// A recorder in the name of a component.
    pub fn new(client: &Client, clock: Clock, component: &'static str) -> Self {
        Self { client: client.clone(), clock, component, written: Arc::default() }
    }

    /// Something went as it should.
    pub async fn normal(&self, kind: &Kind, object: &Value, reason: &str, message: &str) {
        self.record(kind, object, "Normal", reason, message).await;
    }

    /// Something went wrong.
    pub async fn warning(&self, kind: &Kind, object: &Value, reason: &str, message: &str) {
        self.record(kind, object, "Warning", reason, message).await;
    }

    async fn record(&self, kind: &Kind, object: &Value, severity: &str, reason: &str, message: &str) {
        let about = (object.uid().to_owned(), severity.to_owned(), reason.to_owned(), message.to_owned());
        let now = self.clock.seconds();
        let known = {
            let mut written = self.written.lock();
            let known = written.get_mut(&about);
            known.map(|(key, count)| {
                *count += 1;
                (key.clone(), *count)
            })
        };
        if let Some((key, count)) = known {
            let patch = json!({"count": count, "lastTimestamp": now});
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
                self.written.lock().insert(about, (Key::of(&event), 1));
            }
            Err(failure) => tracing::debug!(reason, %failure, "an event could not be written"),
        }
    }
}

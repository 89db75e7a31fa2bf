//! Says of a record how it is served: a condition of its object, and an Event when that changes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use trellis_runtime::client::{Error, Result};
use trellis_runtime::events::{Kind, Note, Recorder, Regarding};
use trellis_runtime::{Clock, Site};

use super::clusters::CLUSTERS;
use super::record::About;
use crate::Condition;
use crate::families::{Object, cluster_condition};

/// The condition of a TenantCluster that says whether its machines are looked after.
pub(super) const SERVED: &str = "Served";
/// How long to wait after a failure at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Says of one record how it is served.
pub(super) struct Report {
    pub(super) name: String,
    pub(super) about: Option<About>,
    pub(super) control: Site,
    pub(super) recorder: Recorder,
    pub(super) clock: Clock,
}

/// What is said now, and is to be written.
pub(super) type Said = watch::Sender<Option<Condition>>;

/// Says something, unless it was the last thing said.
pub(super) fn say(said: &Said, holds: bool, reason: &'static str, message: String) {
    let condition = Condition { kind: SERVED, holds: Some(holds), reason, message };
    said.send_if_modified(|last| {
        let news = last.as_ref() != Some(&condition);
        *last = Some(condition);
        news
    });
}

impl Report {
    /// Writes what is said, until nobody says anything any more.
    pub(super) async fn run(self, mut said: watch::Receiver<Option<Condition>>) {
        loop {
            let condition = said.borrow_and_update().clone();
            if let Some(condition) = condition {
                let unserved = condition.holds != Some(true);
                if unserved {
                    let Condition { reason, message, .. } = &condition;
                    tracing::warn!(tenant = self.name, reason, message, "it cannot be looked after");
                }
                self.write_until_done(&condition, &mut said).await;
            }
            if said.changed().await.is_err() {
                return;
            }
        }
    }

    /// Writes a condition, again and again until it is there or something else is to be said.
    async fn write_until_done(&self, condition: &Condition, said: &mut watch::Receiver<Option<Condition>>) {
        let mut wait = AGAIN.0;
        while let Err(error) = self.write(condition).await {
            tracing::debug!(tenant = self.name, %error, "how it is served cannot be said");
            tokio::select! {
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(AGAIN.1),
                _ = said.changed() => {
                    said.mark_changed();
                    return;
                }
            }
        }
    }

    async fn write(&self, condition: &Condition) -> Result {
        let Some(about) = &self.about else { return Ok(()) };
        let Some(object) = self.control.find::<Object>(&CLUSTERS, &about.key).await? else { return Ok(()) };
        if object.metadata.uid != about.uid {
            return Ok(());
        }
        let Some(patch) = cluster_condition(&object, condition, self.clock.now()) else { return Ok(()) };
        match self.control.merge_patch_status::<Value>(&CLUSTERS, &about.key, &patch).await {
            Err(Error::NotFound(_)) => return Ok(()),
            result => drop(result?),
        }
        let kind = if condition.holds == Some(true) { Kind::Normal } else { Kind::Warning };
        self.recorder.record(Note {
            regarding: Regarding { resource: CLUSTERS, key: about.key.clone(), uid: Arc::clone(&about.uid) },
            kind,
            reason: condition.reason,
            message: condition.message.clone(),
        });
        Ok(())
    }
}

//! Telling people on the infra site and on the tenant what happens to objects there.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use trellis_runtime::events::{Kind as Weight, Note, Recorder, Regarding, Teller};
use trellis_runtime::{Clock, Key, Resource, Site};

use super::work::Watches;
use crate::Happening;

/// Where something is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the infra site.
    Infra,
    /// On the tenant.
    Tenant,
}

/// Tells the sites what happens to their objects.
pub(crate) struct Voices {
    infra: Recorder,
    tenant: Option<Recorder>,
    tellers: Mutex<Vec<Teller>>,
}

impl Voices {
    /// Nothing is told yet.
    pub(crate) fn new(infra: &Site, tenant: Option<&Site>, clock: Clock) -> Self {
        let (infra, teller) = Recorder::new(infra, clock, "trellis");
        let mut tellers = vec![teller];
        let tenant = tenant.map(|site| {
            let (recorder, teller) = Recorder::new(site, clock, "trellis");
            tellers.push(teller);
            recorder
        });
        Self { infra, tenant, tellers: Mutex::new(tellers) }
    }

    /// Tells what is recorded, from now on.
    pub(crate) fn begin(&self, watches: &Watches, stop: &CancellationToken) {
        for teller in self.tellers.lock().drain(..) {
            let stop = stop.clone();
            watches.spawn(async move { teller.run(&stop).await });
        }
    }

    /// Tells what happened to an object.
    pub(crate) fn tell(
        &self,
        place: Place,
        resource: Resource,
        key: Key,
        uid: &Arc<str>,
        happening: Happening,
    ) {
        let Happening { warning, reason, message } = happening;
        tracing::info!(kind = resource.kind, name = key.name(), warning, reason, message, "it happened");
        let recorder = match place {
            Place::Infra => Some(&self.infra),
            Place::Tenant => self.tenant.as_ref(),
        };
        if let Some(recorder) = recorder {
            recorder.record(Note {
                regarding: Regarding { resource, key, uid: Arc::clone(uid) },
                kind: if warning { Weight::Warning } else { Weight::Normal },
                reason,
                message,
            });
        }
    }
}

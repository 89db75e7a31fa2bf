//! One of several replicas acts.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{Decision, LEASE, Lease, Seen, Terms, at_version, claim, decide};
use crate::client::{Error, Result, Selection, Site};
use crate::{Cache, Clock, Key};

/// Who leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leadership {
    /// Another, or nobody.
    Follows,
    /// This one.
    Leads {
        /// The number of this reign: greater than that of any before.
        epoch: u64,
        /// It ends then, unless the lease is renewed.
        until: Instant,
    },
}

impl Leadership {
    /// The number of the reign, if it holds now.
    pub fn epoch(&self) -> Option<u64> {
        match self {
            Self::Leads { epoch, until } if Instant::now() < *until => Some(*epoch),
            _ => None,
        }
    }
}

/// Takes part in the election of a leader by a Lease.
#[derive(Debug, Clone)]
pub struct Election {
    site: Site,
    key: Key,
    me: Arc<str>,
    clock: Clock,
    terms: Terms,
    state: Arc<watch::Sender<Leadership>>,
}

impl Election {
    /// An election by the lease of this name. `me` must be a name that nobody else has or had, such as that of the pod
    /// with something random.
    pub fn new(site: &Site, key: Key, me: &str, clock: Clock, terms: Terms) -> Self {
        let state = Arc::new(watch::Sender::new(Leadership::Follows));
        Self { site: site.clone(), key, me: me.into(), clock, terms, state }
    }

    /// Who leads, and when that changes. Whether it still does is [`Leadership::epoch`]'s to say.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.state.subscribe()
    }

    /// The number of this one's reign, if it leads now.
    pub fn epoch(&self) -> Option<u64> {
        self.state.borrow().epoch()
    }

    /// Takes part until `stop` says so; then gives the lease back, so that another need not wait for its end. Whoever acts
    /// under it has to have stopped by then.
    pub async fn run(&self, stop: &CancellationToken) {
        let fields = format!("metadata.name={}", self.key.name());
        let cache = Cache::<Lease>::new(LEASE, Selection::namespace(self.key.namespace()).fields(&fields));
        let since = Arc::new(Mutex::new(Instant::now()));
        let (changed, changes) = watch::channel(());
        let seen = Arc::clone(&since);
        cache.listen(move |_| {
            *seen.lock() = Instant::now();
            changed.send_replace(());
        });
        let take_part = async {
            cache.synced().await;
            self.take_part(&cache, &since, changes).await;
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = cache.run(&self.site, crate::backoff::hash(0, self.me.as_bytes())) => {}
            () = take_part => {}
        }
        self.release(&cache).await;
    }

    async fn take_part(
        &self,
        cache: &Cache<Lease>,
        since: &Mutex<Instant>,
        mut changes: watch::Receiver<()>,
    ) {
        loop {
            changes.borrow_and_update();
            let lease = cache.get(&self.key);
            let seen = lease.as_ref().map(|lease| Seen { spec: lease.spec.clone(), since: *since.lock() });
            let began = Instant::now();
            let pause = match decide(&self.me, seen.as_ref(), &self.terms, began) {
                Decision::Wait(then) => {
                    self.state.send_if_modified(|state| {
                        std::mem::replace(state, Leadership::Follows) != Leadership::Follows
                    });
                    then
                }
                decision => match self.write(lease.as_deref(), decision, began).await {
                    Ok(written) => {
                        let epoch = written.spec.lease_transitions.unwrap_or_default();
                        cache.written(written);
                        let until = began + self.terms.deadline;
                        self.state.send_replace(Leadership::Leads { epoch, until });
                        began + self.terms.renew
                    }
                    Err(error) => {
                        tracing::debug!(lease = %self.key, %error, "a lease is not to be had now");
                        Instant::now() + self.terms.retry
                    }
                },
            };
            self.pause(pause, &mut changes).await;
        }
    }

    /// Waits until then, or until the lease changes hands, and notes if the reign ends meanwhile.
    async fn pause(&self, then: Instant, changes: &mut watch::Receiver<()>) {
        let state = *self.state.borrow();
        match state {
            Leadership::Leads { until, .. } if until <= then => {
                sleep_until(until).await;
                self.state.send_replace(Leadership::Follows);
                sleep_until(then).await;
            }
            Leadership::Leads { .. } => sleep_until(then).await,
            Leadership::Follows => {
                tokio::select! {
                    () = sleep_until(then) => {}
                    Ok(()) = changes.changed() => {}
                }
            }
        }
    }

    async fn write(&self, lease: Option<&Lease>, decision: Decision, began: Instant) -> Result<Lease> {
        let transitions = match decision {
            Decision::Make => Some(0),
            Decision::Take(transitions) => Some(transitions),
            Decision::Renew | Decision::Wait(_) => None,
        };
        let spec = claim(&self.me, transitions, &self.terms, self.clock.now());
        let write = async {
            if let Some(lease) = lease {
                let patch = json!({"metadata": at_version(lease), "spec": spec});
                return self.site.merge_patch(&LEASE, &self.key, &patch).await;
            }
            let object = json!({"metadata": {"name": self.key.name()}, "spec": spec});
            self.site.create(&LEASE, self.key.namespace(), &object).await
        };
        // An answer that comes later than this is of no use any more.
        timeout_at(began + self.terms.renew, write).await.unwrap_or(Err(Error::Timeout))
    }

    async fn release(&self, cache: &Cache<Lease>) {
        let state = self.state.send_replace(Leadership::Follows);
        let Some(lease) = cache.get(&self.key).filter(|_| state != Leadership::Follows) else { return };
        if lease.spec.holder() != Some(&*self.me) {
            return;
        }
        let patch = json!({"metadata": at_version(&lease), "spec": {"holderIdentity": null}});
        let write = self.site.merge_patch::<Lease>(&LEASE, &self.key, &patch);
        // If it does not work out, the lease runs out.
        let _ = timeout_at(Instant::now() + self.terms.renew, write).await;
    }
}

//! Each of several replicas acts for its share.
//!
//! Every member holds a Lease of its own. What belongs to whom is decided by rendezvous hashing: each member has a number
//! for each name, and the greatest wins, so that a member that comes or goes moves only its own share.
//!
//! No name is ever acted for by two: a member writes into its lease *which members it counts on* before it acts on that
//! view, and acts for a name only if, as of that write or later, no other living member's view gives the name to that
//! member. Of two members that change their views at once, the one that wrote later sees the other's. And a member first
//! ends what it does for a name, then writes a view that gives the name away.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{GROUP, LEASE, Lease, Terms, VIEW, at_version, claim};
use crate::backoff::hash;
use crate::client::{Delete, Error, Result, Selection, Site};
use crate::{Cache, Clock, Key};

/// How often is looked whether the watch has told of an own writing.
const MOMENT: Duration = Duration::from_millis(20);

/// A group of members that share out names, and this process's membership in it.
#[derive(Debug, Clone)]
pub struct Shards {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    site: Site,
    namespace: String,
    group: String,
    me: Arc<str>,
    clock: Clock,
    terms: Terms,
    leases: Cache<Lease>,
    seen: Mutex<BTreeMap<Key, Instant>>,
    state: Mutex<State>,
    ended: Notify,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// The members this one counts on, as written into its lease.
    view: BTreeSet<Arc<str>>,
    /// The version of that writing; nothing while it is not known what is written.
    written: Option<u64>,
    /// The version of the first writing since the lease last ran out. What is under way has been claimed ever since.
    claimed: Option<u64>,
    /// The view that is prepared: what it gives away is not begun any more.
    coming: Option<BTreeSet<Arc<str>>>,
    /// Until when the own lease counts.
    until: Option<Instant>,
    epoch: u64,
    /// What is under way, by name.
    passes: BTreeMap<Arc<str>, usize>,
}

/// The right to act for a name. While it lives the name is given to nobody else, as long as [`is_valid`](Self::is_valid).
#[derive(Debug)]
pub struct Pass {
    inner: Arc<Inner>,
    name: Arc<str>,
    epoch: u64,
}

impl Pass {
    /// Whether it still counts: to be asked before each write. It ends when the own lease could not be renewed.
    pub fn is_valid(&self) -> bool {
        self.inner.state.lock().until.is_some_and(|until| Instant::now() < until)
    }

    /// The number of the reign of this member's lease.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.inner.state.lock();
        if let Some(count) = state.passes.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                state.passes.remove(&self.name);
            }
        }
        drop(state);
        self.inner.ended.notify_waiters();
    }
}

/// Whose a name is among these members.
fn owner<'a>(name: &str, members: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let weight = |member: &str| hash(hash(0, member.as_bytes()), name.as_bytes());
    members.into_iter().max_by_key(|member| (weight(member), *member))
}

impl Shards {
    /// Membership of `me`, a name that nobody else has or had, in a group whose leases are in a namespace.
    pub fn new(site: &Site, namespace: &str, group: &str, me: &str, clock: Clock, terms: Terms) -> Self {
        let selection = Selection::namespace(namespace).labels(&format!("{GROUP}={group}"));
        let inner = Arc::new(Inner {
            site: site.clone(),
            namespace: namespace.to_owned(),
            group: group.to_owned(),
            me: me.into(),
            clock,
            terms,
            leases: Cache::new(LEASE, selection),
            seen: Mutex::default(),
            state: Mutex::default(),
            ended: Notify::new(),
            changed: watch::Sender::new(0),
        });
        let weak = Arc::downgrade(&inner);
        inner.leases.listen(move |change| {
            if let (Some(inner), Some(lease)) = (weak.upgrade(), change.latest()) {
                let mut seen = inner.seen.lock();
                match &change.new {
                    Some(_) => seen.insert(lease.metadata.key.clone(), Instant::now()),
                    None => seen.remove(&lease.metadata.key),
                };
                drop(seen);
                inner.changed.send_modify(|count| *count += 1);
            }
        });
        Self { inner }
    }

    /// Tells when shares may have changed: then ask [`owns`](Self::owns) again for all names.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// Whether this member acts for a name now.
    pub fn owns(&self, name: &str) -> bool {
        self.inner.owns(name, &self.inner.state.lock())
    }

    /// Begins to act for a name, if it is this member's.
    pub fn enter(&self, name: &str) -> Option<Pass> {
        let mut state = self.inner.state.lock();
        if !self.inner.owns(name, &state) {
            return None;
        }
        let name: Arc<str> = name.into();
        *state.passes.entry(Arc::clone(&name)).or_default() += 1;
        Some(Pass { inner: Arc::clone(&self.inner), name, epoch: state.epoch })
    }

    /// Whether this process is a member now.
    pub fn is_member(&self) -> bool {
        self.inner.state.lock().until.is_some_and(|until| Instant::now() < until)
    }

    /// The members that live, as far as is known here.
    pub fn members(&self) -> Vec<String> {
        self.inner.living(Instant::now()).iter().map(ToString::to_string).collect()
    }

    /// Is a member until `stop` says so; then ends what is under way and gives its share away.
    pub async fn run(&self, stop: &CancellationToken) {
        let seed = hash(0, self.inner.me.as_bytes());
        let member = async {
            self.inner.leases.synced().await;
            self.inner.member().await;
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.inner.leases.run(&self.inner.site, seed) => {}
            () = member => {}
        }
        self.inner.leave().await;
    }
}

impl Inner {
    fn key(&self) -> Key {
        Key::new(&self.namespace, &format!("{}-{}", self.group, self.me))
    }

    /// Whether a lease counts, as far as is known here.
    fn lives(&self, lease: &Lease, now: Instant) -> bool {
        let since = self.seen.lock().get(&lease.metadata.key).copied();
        lease.spec.holder().is_some()
            && since.is_some_and(|since| now < since + lease.spec.duration(&self.terms))
    }

    fn living(&self, now: Instant) -> BTreeSet<Arc<str>> {
        let leases = self.leases.all();
        let living = leases.iter().filter(|lease| self.lives(lease, now));
        living.filter_map(|lease| lease.spec.holder().map(Arc::from)).collect()
    }

    fn owns(&self, name: &str, state: &State) -> bool {
        let now = Instant::now();
        let mine =
            |view: &BTreeSet<Arc<str>>| owner(name, view.iter().map(|member| &**member)) == Some(&*self.me);
        // What others wrote before our own writing must be known here. What is under way stays so under a new view that
        // has it too: both views claim it, so nobody else can have begun in between.
        let since = if state.passes.contains_key(name) { state.claimed } else { state.written };
        state.until.is_some_and(|until| now < until)
            && since.is_some_and(|version| self.leases.seen() >= version)
            && mine(&state.view)
            && state.coming.as_ref().is_none_or(mine)
            && !self.leases.all().iter().any(|lease| self.claims(name, lease, now))
    }

    /// Whether another living member's view gives it the name.
    fn claims(&self, name: &str, lease: &Lease, now: Instant) -> bool {
        let Some(holder) = lease.spec.holder().filter(|holder| **holder != *self.me) else { return false };
        let view = lease.metadata.annotations.get(VIEW).unwrap_or_default();
        self.lives(lease, now) && owner(name, view.split(',')) == Some(holder)
    }

    async fn member(&self) {
        let mut changes = self.changed.subscribe();
        let mut renew = Instant::now();
        loop {
            changes.borrow_and_update();
            let now = Instant::now();
            let mut wanted = self.living(now);
            wanted.insert(Arc::clone(&self.me));
            let stale = {
                let state = self.state.lock();
                state.written.is_none()
                    || state.view != wanted
                    || state.until.is_none_or(|until| until <= now)
            };
            if stale || renew <= now {
                renew = match self.publish(wanted).await {
                    Ok(began) => began + self.terms.renew,
                    Err(error) => {
                        tracing::debug!(member = %self.me, %error, "the membership is not renewed");
                        let then = Instant::now() + self.terms.retry;
                        sleep_until(then).await;
                        then
                    }
                };
                self.changed.send_modify(|count| *count += 1);
                continue;
            }
            let caught_up = self.has_caught_up();
            tokio::select! {
                () = sleep_until(renew.min(self.next_end(now))) => {}
                Ok(()) = changes.changed() => {}
                // The own writing is no news to the cache when the watch tells of it.
                () = self.catch_up(), if !caught_up => self.changed.send_modify(|count| *count += 1),
            }
            self.sweep().await;
        }
    }

    /// Whether what others wrote before our own writing is known here.
    fn has_caught_up(&self) -> bool {
        self.state.lock().written.is_none_or(|version| self.leases.seen() >= version)
    }

    /// Waits until it is, which takes a moment after each new view.
    async fn catch_up(&self) {
        while !self.has_caught_up() {
            sleep_until(Instant::now() + MOMENT).await;
        }
    }

    /// When the next lease of another runs out if it is not renewed.
    fn next_end(&self, now: Instant) -> Instant {
        let far = now + self.terms.duration;
        let seen = self.seen.lock();
        let ends = self.leases.all().into_iter().filter_map(|lease| {
            let end = *seen.get(&lease.metadata.key)? + lease.spec.duration(&self.terms);
            (end > now).then_some(end)
        });
        ends.min().unwrap_or(far)
    }

    /// Renews the lease with a view, after what the view gives away has ended.
    async fn publish(&self, view: BTreeSet<Arc<str>>) -> Result<Instant> {
        let renewal = {
            let mut state = self.state.lock();
            let renewal = state.view == view;
            state.coming = (!renewal).then(|| view.clone());
            renewal
        };
        if !renewal {
            self.changed.send_modify(|count| *count += 1);
            if !self.drained(&view).await {
                // The lease has to be renewed under the old view; the new one comes when what is under way has ended.
                let old = self.state.lock().view.clone();
                return self.write(old).await;
            }
        }
        self.write(view).await
    }

    async fn write(&self, view: BTreeSet<Arc<str>>) -> Result<Instant> {
        let began = Instant::now();
        let lease = self.leases.get(&self.key());
        let text: Vec<_> = view.iter().map(|member| &**member).collect();
        let metadata = json!({"annotations": {VIEW: text.join(",")}});
        let write = self.send(lease.as_deref(), metadata);
        let written = timeout_at(began + self.terms.renew, write).await.unwrap_or(Err(Error::Timeout));
        let mut state = self.state.lock();
        match written {
            Ok(written) => {
                state.epoch = written.spec.lease_transitions.unwrap_or_default();
                // A renewal in time of what was written before changes nothing: what was known as of then still counts.
                let in_time = state.until.is_some_and(|until| began < until);
                let version = Some(written.metadata.resource_version);
                if !in_time || state.view != view || state.written.is_none() {
                    state.written = version;
                }
                if !in_time || state.claimed.is_none() {
                    state.claimed = version;
                }
                state.until = Some(began + self.terms.deadline);
                if state.coming.as_ref() == Some(&view) {
                    state.coming = None;
                }
                state.view = view;
                drop(state);
                self.leases.written(written);
                Ok(began)
            }
            Err(error) => {
                // What is written now is not known if the view was to change.
                if state.view != view {
                    state.written = None;
                }
                Err(error)
            }
        }
    }

    async fn send(&self, lease: Option<&Lease>, mut metadata: serde_json::Value) -> Result<Lease> {
        let key = self.key();
        let transitions = match lease {
            Some(lease) if lease.spec.holder() == Some(&*self.me) => None,
            Some(lease) => Some(lease.spec.lease_transitions.unwrap_or_default() + 1),
            None => Some(0),
        };
        let spec = claim(&self.me, transitions, &self.terms, self.clock.now());
        if let Some(lease) = lease {
            // A write that is late must not undo a later one: only one of those made for a version takes effect.
            let mut version = at_version(lease);
            metadata["uid"] = version["uid"].take();
            metadata["resourceVersion"] = version["resourceVersion"].take();
            let patch = json!({"metadata": metadata, "spec": spec});
            return self.site.merge_patch(&LEASE, &key, &patch).await;
        }
        metadata["name"] = key.name().into();
        metadata["labels"] = json!({GROUP: self.group});
        match self.site.create(&LEASE, &self.namespace, &json!({"metadata": metadata, "spec": spec})).await {
            // An earlier try took effect, which the watch has not told yet.
            Err(Error::AlreadyExists(_)) => {
                self.leases.written(self.site.get(&LEASE, &key).await?);
                Err(Error::Conflict("the lease is there already".to_owned()))
            }
            result => result,
        }
    }

    /// Waits until nothing is under way that a view gives away, but not beyond the next renewal.
    async fn drained(&self, view: &BTreeSet<Arc<str>>) -> bool {
        let limit = Instant::now() + self.terms.renew;
        loop {
            let ended = self.ended.notified();
            let busy = self
                .state
                .lock()
                .passes
                .keys()
                .any(|name| owner(name, view.iter().map(|member| &**member)) != Some(&*self.me));
            if !busy {
                return true;
            }
            if timeout_at(limit, ended).await.is_err() {
                return false;
            }
        }
    }

    /// Removes leases of members that are long gone.
    async fn sweep(&self) {
        let now = Instant::now();
        let long = self.terms.duration * 100;
        let gone: Vec<_> = {
            let seen = self.seen.lock();
            let is_long =
                |lease: &Arc<Lease>| seen.get(&lease.metadata.key).is_some_and(|since| *since + long <= now);
            self.leases.all().into_iter().filter(is_long).collect()
        };
        for lease in gone {
            let how = Delete {
                resource_version: Some(lease.metadata.resource_version),
                ..Delete::uid(&lease.metadata.uid)
            };
            if self.site.delete(&LEASE, &lease.metadata.key, &how).await.is_ok() {
                self.leases.removed(&lease.metadata.key, &lease.metadata.uid);
            }
        }
    }

    async fn leave(&self) {
        let none = BTreeSet::new();
        self.state.lock().coming = Some(none.clone());
        self.changed.send_modify(|count| *count += 1);
        if !self.drained(&none).await {
            // What does not end is left to the end of the lease.
            return;
        }
        self.state.lock().until = None;
        if let Some(lease) = self.leases.get(&self.key()) {
            let key = self.key();
            let how = Delete::uid(&lease.metadata.uid);
            let delete = self.site.delete(&LEASE, &key, &how);
            let _ = timeout_at(Instant::now() + self.terms.renew, delete).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_goes_moves_only_its_own_share() {
        let all = ["a", "b", "c"];
        let names: Vec<_> = (0..300).map(|number| format!("tenant-{number}")).collect();
        let mut shares = BTreeMap::new();
        for name in &names {
            let before = owner(name, all).unwrap();
            *shares.entry(before).or_insert(0) += 1;
            let after = owner(name, ["a", "b"]).unwrap();
            assert!(before == "c" || before == after);
        }
        assert!(shares.values().all(|share| *share > 60), "{shares:?}");
        assert_eq!(owner("x", []), None);
    }
}

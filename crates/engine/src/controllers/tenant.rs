//! One tenant: its three sites, what is known of them, and what has to be looked at.

mod listening;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use trellis_model::Cluster;
use trellis_model::canonical;
use trellis_platform_kubevirt::seen::Scope;
use trellis_runtime::client::{Delete, Health};
use trellis_runtime::events::{Kind as Weight, Note, Recorder, Regarding, Teller};
use trellis_runtime::queue::{Outcome, Setup};
use trellis_runtime::{Cache, Clock, Key, Metrics, Narrow, Queue, Resource, Site};

use super::certificates::{self, Certificates};
use super::control::{Control, Failed, Found, Standing, Thing};
use super::founder::{Founder, Growing};
use super::guests::Guests;
use super::health::{self, Opinions};
use super::infra::Infra;
use super::machine::{FailureWeight, Trouble};
use super::masters::{self, MasterUserData, Masters};
use super::saying::Sayings;
use super::sweep::{self, Leftovers, Sweep};
use super::voices::Voices;
use super::work::{LANES, Task, Watches};
use super::{cluster, machine, phases, pool};
use crate::Happening;
use crate::families::{Family, HistoryObject, Object, Reading, Readings, TRELLIS, Unreadable, member};
use crate::machines::{Deadlines, MachinePlan, SiteHealth, Sites};
use crate::pools::{Member, Starts};
use crate::rights::Place;

/// How often the status of a pool is written at most.
const SAYING: SignedDuration = SignedDuration::from_secs(1);

/// How a tenant is looked after.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long each part of a machine's life may take.
    pub deadlines: Deadlines,
    /// How long an image is kept that nobody uses.
    pub image_grace: Duration,
    /// How many looks go on together.
    pub workers: usize,
    /// How many healthy machines of the tenant may be disrupted at once because their hosts are emptied.
    pub disruptions: usize,
    /// Of how many hundredths of a pool's machines something may be wrong for any to be replaced.
    pub max_unhealthy_percent: usize,
    /// Whether requests of kubelets for serving certificates are approved, where their machines vouch for them.
    pub serving_certificates: bool,
    /// What becomes of what is left of machines that are gone.
    pub leftovers: Leftovers,
    /// How long something must have looked left over before it is removed.
    pub leftover_grace: Duration,
    /// What decides what is left to chance.
    pub seed: u64,
    /// How clusters are grown whose control planes are pools of ours.
    pub growing: Growing,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deadlines: Deadlines::default(),
            image_grace: Duration::from_hours(24),
            workers: 64,
            disruptions: 1,
            max_unhealthy_percent: 40,
            serving_certificates: true,
            leftovers: Leftovers::default(),
            leftover_grace: sweep::GRACE,
            seed: 0,
            growing: Growing::default(),
        }
    }
}

/// Where a tenant is, and whose machines it has.
pub struct Spec {
    /// The cluster: its name is on everything that is made for it.
    pub cluster: Arc<Cluster>,
    /// The family of its machine objects.
    pub family: &'static Family,
    /// Where the machine objects live.
    pub control: Site,
    /// The namespace they live in.
    pub control_namespace: String,
    /// Where the Nodes live; nothing for a tenant that has no API server yet.
    pub tenant: Option<Site>,
    /// Where the VMs live.
    pub infra: Site,
    /// Whether the user of the infra site may look at its Nodes.
    pub sees_hosts: bool,
}

/// The disruption budget has no place left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetUsedUp;

/// One tenant that is looked after.
pub struct Tenant {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) control: Control,
    pub(crate) infra: Infra,
    pub(crate) guests: Option<Guests>,
    pub(crate) queue: Queue<Task>,
    pub(crate) watches: Watches,
    pub(crate) masters: Masters,
    pub(crate) health: Opinions,
    /// Where we approve the serving certificates of the tenant's kubelets.
    pub(crate) certificates: Option<Certificates>,
    pub(crate) sweep: Sweep,
    pub(crate) voices: Voices,
    cluster: Arc<Cluster>,
    readings: Readings,
    pub(crate) sayings: Sayings,
    memory: Mutex<Memory>,
    recorder: Recorder,
    teller: Mutex<Option<Teller>>,
}

/// What is remembered between looks and can be lost: it is found again, or begins anew.
#[derive(Default)]
struct Memory {
    starts: BTreeMap<String, Starts>,
    /// How often making a machine failed in a row, when, and why; by uid.
    failures: BTreeMap<String, (u32, Option<Timestamp>, String)>,
    /// What of a machine was refused and is tried again; by name.
    troubles: BTreeMap<String, String>,
    /// The machines that have a place in the disruption budget, written or not; by name.
    disrupted: BTreeSet<String>,
    /// What was applied last for all machines: hashes by kind and name.
    applied: BTreeMap<(String, String), String>,
    prepared: Option<Result<(), String>>,
    /// Machines as their pools look at them, by name, with the uid and the version they were read from.
    members: HashMap<String, (Arc<str>, u64, Member)>,
    /// When the status of a pool or a set was last written; by uid.
    said: HashMap<Arc<str>, Timestamp>,
    /// Since when all sites have answered.
    calm_since: Option<Timestamp>,
}

impl Tenant {
    /// A tenant that nobody looks after yet.
    pub fn new(spec: Spec, settings: Settings, clock: Clock) -> Arc<Self> {
        let Spec { cluster, family, control, control_namespace, tenant, infra, sees_hosts } = spec;
        let scope = if *family == TRELLIS { Scope::Cluster(cluster.name.as_str()) } else { Scope::Namespace };
        let (recorder, teller) = Recorder::new(&control, clock, "trellis");
        let infra = Infra::new(infra, cluster.infra_namespace(), cluster.name.as_str(), scope, sees_hosts);
        let approving = tenant.as_ref().filter(|_| settings.serving_certificates);
        Arc::new(Self {
            certificates: approving.map(|_| Certificates::new()),
            sweep: Sweep::default(),
            voices: Voices::new(&infra.site, tenant.as_ref(), clock),
            control: Control::new(control, family, &control_namespace),
            guests: tenant.map(Guests::new),
            queue: Queue::new(clock, Setup::new(&LANES, settings.seed)),
            watches: Watches::new(settings.seed),
            readings: Readings::new(family, Some(Arc::clone(&cluster)), Vec::new()),
            sayings: Sayings::default(),
            memory: Mutex::default(),
            masters: Masters::default(),
            health: Opinions::default(),
            recorder,
            teller: Mutex::new(Some(teller)),
            infra,
            cluster,
            settings,
            clock,
        })
    }

    /// Looks after the tenant until `stop` says so. Boxed, so that the controllers are compiled here, and not anew in every
    /// program that runs them.
    pub fn run<'a>(self: &'a Arc<Self>, stop: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(self.look_after(stop))
    }

    async fn look_after(self: &Arc<Self>, stop: &CancellationToken) {
        self.listen();
        self.begin_watching();
        if let Some(teller) = self.teller.lock().take() {
            let stop = stop.clone();
            self.watches.spawn(async move { teller.run(&stop).await });
        }
        self.voices.begin(&self.watches, stop);
        tokio::select! {
            () = self.known() => {}
            () = stop.cancelled() => return,
        }
        self.name_all();
        let this = Arc::clone(self);
        self.queue
            .run(self.settings.workers, stop, move |task| {
                let this = Arc::clone(&this);
                let span = this.span(&task);
                async move { this.look(&task).await }.instrument(span)
            })
            .await;
    }

    /// Has the user data of control-plane machines made by this, for each of them apart. Without it they read what
    /// their pool says. Only the first one counts; false for any other.
    pub fn make_masters_with(&self, source: Arc<dyn MasterUserData>) -> bool {
        self.masters.set_source(source)
    }

    /// Grows the cluster too, until `stop` says so, if its control plane is a pool without user data of its own.
    pub fn grow<'a>(self: &'a Arc<Self>, stop: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let founder = Arc::new(Founder::new(self.settings.growing.clone(), self));
            if self.make_masters_with(Arc::<Founder>::clone(&founder)) {
                founder.run(self, stop).await;
            }
        })
    }

    /// What the queue is doing, for those who wait until nothing is left to do.
    pub fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Has its queue and its sites counted.
    pub fn measure(&self, metrics: &Metrics) {
        metrics.add_queue("machines", &self.queue);
        let machines = &self.control.machines.cache;
        metrics.add_durations(phases::measure(machines, self.control.family, self.clock));
        metrics.add_site(&self.control.site);
        metrics.add_site(&self.infra.site);
        if let Some(guests) = &self.guests {
            metrics.add_site(&guests.site);
        }
    }

    /// Why it cannot do its work yet.
    pub fn not_ready(&self) -> Result<(), String> {
        fn known<T: Narrow>(site: &str, cache: &Cache<T>) -> Result<(), String> {
            if cache.is_synced() {
                return Ok(());
            }
            let why = cache.trouble().map(|why| format!(": {why}")).unwrap_or_default();
            Err(format!("{} of the {site} site are not known yet{why}", cache.resource().label()))
        }
        for things in self.control.things() {
            known("control", &things.cache)?;
        }
        if let Some(history) = &self.control.history {
            known("control", history)?;
        }
        let infra = &self.infra;
        known("infra", &infra.machines.cache)?;
        known("infra", &infra.instances.cache)?;
        known("infra", &infra.volumes.cache)?;
        known("infra", &infra.migrations.cache)?;
        known("infra", &infra.pods.cache)?;
        known("infra", &infra.secrets.cache)?;
        known("infra", &infra.services.cache)?;
        infra.hosts.as_ref().map_or(Ok(()), |hosts| known("infra", &hosts.cache))
    }

    /// What a look is called in traces and logs.
    fn span(&self, task: &Task) -> tracing::Span {
        let (kind, name) = task.title();
        let (namespace, cluster) = (&self.control.namespace, &self.cluster.name);
        tracing::info_span!("look", tenant = format_args!("{namespace}/{cluster}"), task = kind, name)
    }

    async fn look(&self, task: &Task) -> Outcome {
        match task {
            Task::Cluster => {
                let outcome = cluster::look(self).await;
                self.name_machines();
                outcome
            }
            Task::Pool(key) => pool::look(self, key).await,
            Task::Set(key) => pool::look_at_set(self, key).await,
            Task::Machine(name) => machine::look(self, name).await,
            Task::Ward(ward) => health::look(self, ward).await,
            Task::Certificate(name) => certificates::look(self, name).await,
            Task::Leftovers => sweep::look(self).await,
        }
    }

    /// Whether what decisions are made from is fed, by the site it comes from: a server may answer, and yet tell one kind
    /// no more.
    fn feeds(&self) -> Vec<(Place, watch::Receiver<Health>)> {
        let (control, infra) = (&self.control, &self.infra);
        let mut feeds = vec![
            (Place::Control, control.machines.cache.health()),
            (Place::Infra, infra.machines.cache.health()),
            (Place::Infra, infra.instances.cache.health()),
            (Place::Infra, infra.volumes.cache.health()),
        ];
        feeds.extend(self.guests.as_ref().map(|guests| (Place::Tenant, guests.nodes.health())));
        feeds
    }

    /// Whether the sites can be counted on.
    pub(crate) fn sites(&self) -> Sites {
        let feeds = self.feeds();
        let health = |place: Place, site: &Site| {
            let fed = feeds.iter().filter(|(of, _)| *of == place).map(|(_, health)| *health.borrow());
            let down = fed.chain([*site.health().borrow()]).filter_map(|health| match health {
                Health::Up => None,
                Health::Down(since) => Some(since),
            });
            match down.min() {
                None => SiteHealth::Up,
                Some(since) => {
                    let ago = jiff::SignedDuration::try_from(since.elapsed()).unwrap_or_default();
                    SiteHealth::Down(self.clock.now() - ago)
                }
            }
        };
        Sites {
            control: health(Place::Control, &self.control.site),
            tenant: match &self.guests {
                Some(guests) if guests.nodes.is_synced() => health(Place::Tenant, &guests.site),
                Some(_) if masters::is_unborn(self) => SiteHealth::Absent,
                Some(_) => SiteHealth::Down(self.clock.now()),
                None => SiteHealth::Absent,
            },
            infra: health(Place::Infra, &self.infra.site),
        }
    }

    pub(crate) fn calm_since(&self) -> Option<Timestamp> {
        self.memory.lock().calm_since
    }

    // What templates mean.

    /// What a machine is, by its own spec or by its revision of its pool.
    pub(crate) fn reading_of(&self, machine: &Thing) -> Result<Arc<Reading>, Unreadable> {
        if *self.control.family != TRELLIS {
            let pool = self.pool_name_of(machine);
            let pool = pool.or_else(|| machine.metadata.owner.as_ref().map(|owner| owner.name.to_string()));
            return self.readings.machine(machine, pool.as_deref());
        }
        let revision = crate::families::recorded_revision(&TRELLIS, machine).unwrap_or_default();
        let owner = machine.metadata.owner.as_ref();
        let pool = owner.and_then(|owner| {
            let key = Key::new(machine.metadata.namespace(), &owner.name);
            self.control.pools.as_ref()?.get(&key)
        });
        let present = pool.map(|pool| self.readings.pool(&pool));
        if let Some(Ok(reading)) = &present
            && reading.revision.as_str() == revision
        {
            return Ok(Arc::clone(reading));
        }
        let old = owner.and_then(|owner| self.kept_reading(&owner.uid, &revision));
        match (old, present) {
            (Some(reading), _) => Ok(reading),
            (None, Some(present)) => present,
            (None, None) => Err(Unreadable::new("its pool is gone, and so is the revision it was made from")),
        }
    }

    pub(crate) fn reading_of_pool(&self, pool: &Thing) -> Result<Arc<Reading>, Unreadable> {
        self.readings.pool(pool)
    }

    pub(crate) fn reading_of_set(&self, set: &Thing) -> Result<Arc<Reading>, Unreadable> {
        let pool = set.metadata.owner.as_ref().map(|owner| owner.name.to_string());
        self.readings.set(set, pool.as_deref())
    }

    /// What the pool (or the set that stands alone) a machine belongs to is now.
    pub(crate) fn reading_of_its_pool(&self, machine: &Thing) -> Option<Arc<Reading>> {
        let owner = machine.metadata.owner.as_ref()?;
        let namespace = machine.metadata.namespace();
        let pools = self.control.pools.as_ref();
        let pool = |name: &str| {
            pools?.get(&Key::new(namespace, name)).and_then(|pool| self.readings.pool(&pool).ok())
        };
        match self.set_of(machine) {
            Some(set) => match &set.metadata.owner {
                Some(owner) => pool(&owner.name),
                None => self.reading_of_set(&set).ok(),
            },
            None => pool(&owner.name),
        }
    }

    /// All pools and sets that stand alone, as far as they can be read.
    pub(crate) fn readings(&self) -> Vec<Arc<Reading>> {
        let pools = self.control.pools.iter().flat_map(|pools| pools.cache.all());
        let pools = pools.filter(|pool| self.is_ours(pool)).filter_map(|pool| self.readings.pool(&pool).ok());
        let sets = self.control.sets.iter().flat_map(|sets| sets.cache.all());
        let sets = sets.filter_map(|set| self.reading_of_set(&set).ok());
        pools.chain(sets).collect()
    }

    /// Whether an object is of this tenant: of our own family several tenants may have theirs in one namespace.
    pub(crate) fn is_ours(&self, object: &Object) -> bool {
        #[derive(serde::Deserialize)]
        struct Belongs {
            cluster: String,
        }
        *self.control.family != TRELLIS
            || object.spec_as::<Belongs>().is_none_or(|spec| spec.cluster == self.cluster.name.as_str())
    }

    /// The cluster its machines belong to.
    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// The set a machine belongs to.
    pub(crate) fn set_of(&self, machine: &Thing) -> Option<Thing> {
        let owner = machine.metadata.owner.as_ref()?;
        let sets = self.control.sets.as_ref().filter(|sets| sets.resource.kind == &*owner.kind)?;
        sets.get(&Key::new(machine.metadata.namespace(), &owner.name))
    }

    /// The pool a machine belongs to, by way of its set or not.
    pub(crate) fn pool_of(&self, machine: &Thing) -> Option<Thing> {
        let set = self.set_of(machine);
        let owner = set.as_ref().unwrap_or(machine).metadata.owner.as_ref()?;
        let pools = self.control.pools.as_ref().filter(|pools| pools.resource.kind == &*owner.kind)?;
        pools.get(&Key::new(machine.metadata.namespace(), &owner.name))
    }

    /// The name of the pool a machine belongs to by way of its set.
    pub(crate) fn pool_name_of(&self, machine: &Thing) -> Option<String> {
        let set = self.set_of(machine)?;
        set.metadata.owner.as_ref().map(|owner| owner.name.to_string())
    }

    /// A Secret with user data, as far as it is known.
    pub(crate) fn secret(&self, key: &Key, machine: &str) -> Found {
        self.control.secret(&self.watches, key, machine, &self.queue)
    }

    // What is remembered.

    pub(crate) fn starts(&self, owner: &str) -> Starts {
        self.memory.lock().starts.get(owner).copied().unwrap_or_default()
    }

    pub(crate) fn count_start(&self, owner: &str, made: bool) {
        let starts = pool::after_start(self.starts(owner), made, self.clock.now());
        self.memory.lock().starts.insert(owner.to_owned(), starts);
    }

    pub(crate) fn failures(&self, machine: &str) -> Option<(u32, Option<Timestamp>, String)> {
        self.memory.lock().failures.get(machine).cloned()
    }

    /// What of a machine was refused last, in words.
    pub(crate) fn step_trouble(&self, machine: &str) -> Option<String> {
        self.memory.lock().troubles.get(machine).cloned()
    }

    /// Nothing of a machine is refused any more.
    pub(crate) fn step_done(&self, machine: &str) {
        self.memory.lock().troubles.remove(machine);
    }

    /// A step of a machine failed; whether it is to be tried again without anything changing.
    pub(crate) fn machine_failed(&self, machine: &Object, trouble: &Trouble) -> bool {
        tracing::debug!(machine = machine.metadata.name(), %trouble, "a step failed");
        let Trouble::Step { action, failure } = trouble else { return true };
        let why = match machine::weight_of(failure) {
            FailureWeight::None => return true,
            FailureWeight::Status => {
                self.memory.lock().troubles.insert(machine.metadata.name().to_owned(), trouble.to_string());
                return true;
            }
            FailureWeight::Event(why) => why,
        };
        let making = machine::makes(action);
        let mut memory = self.memory.lock();
        let (reason, message) = if making {
            // The next try has its time in the plan.
            let failures = memory.failures.entry(machine.metadata.uid.to_string()).or_default();
            *failures = (failures.0.saturating_add(1), Some(self.clock.now()), why.to_owned());
            ("FailedCreate", why.to_owned())
        } else {
            // No plan knows of it: it is tried again later and later, and said until it works.
            memory.troubles.insert(machine.metadata.name().to_owned(), trouble.to_string());
            ("FailedStep", trouble.to_string())
        };
        drop(memory);
        self.tell(&self.control.machines.resource, machine, &Happening { warning: true, reason, message });
        !making
    }

    pub(crate) fn machine_made(&self, machine: &Object) {
        self.memory.lock().failures.remove(&*machine.metadata.uid);
    }

    pub(crate) fn forget_machine(&self, name: &str) {
        masters::forget(self, name);
        self.sayings.forget(name);
        let mut memory = self.memory.lock();
        if let Some((uid, ..)) = memory.members.remove(name) {
            memory.failures.remove(&*uid);
        }
        memory.troubles.remove(name);
        memory.disrupted.remove(name);
        drop(memory);
        if let Some(guests) = &self.guests {
            guests.leave(name);
        }
    }

    /// A machine as its pool looks at it. Pools look at all of theirs whenever one changes: each is read once.
    pub(crate) fn member(&self, machine: &Thing) -> Member {
        let (uid, version) = (&machine.metadata.uid, machine.metadata.resource_version);
        let name = machine.metadata.name();
        if let Some((of, at, member)) = self.memory.lock().members.get(name)
            && (of, *at) == (uid, version)
        {
            return member.clone();
        }
        let read = member(self.control.family, machine);
        let entry = (Arc::clone(uid), version, read.clone());
        self.memory.lock().members.insert(name.to_owned(), entry);
        read
    }

    /// When the status of a pool or a set may be written, if that was done a moment ago. Who is told nothing writes it
    /// now.
    pub(crate) fn said_lately(&self, uid: &Arc<str>) -> Option<Timestamp> {
        let now = self.clock.now();
        let mut memory = self.memory.lock();
        let next = memory.said.get(uid).map(|last| *last + SAYING).filter(|next| *next > now);
        if next.is_none() {
            memory.said.retain(|_, last| *last + SAYING > now);
            memory.said.insert(Arc::clone(uid), now);
        }
        next
    }

    /// Why machines cannot be made yet.
    pub(crate) fn not_prepared(&self) -> Option<String> {
        match &self.memory.lock().prepared {
            Some(Ok(())) => None,
            Some(Err(why)) => Some(why.clone()),
            None => Some("what its machines share is being made".to_owned()),
        }
    }

    pub(crate) fn prepared(&self, outcome: Result<(), String>) {
        self.memory.lock().prepared = Some(outcome);
    }

    pub(crate) fn is_applied(&self, object: &Value) -> bool {
        self.memory.lock().applied.get(&kind_and_name(object)) == Some(&canonical::hash(object))
    }

    pub(crate) fn applied(&self, object: &Value) {
        self.memory.lock().applied.insert(kind_and_name(object), canonical::hash(object));
    }

    /// Something that machines share is not as it was applied: it is applied again.
    fn shared_changed(&self, kind: &str, name: &str) {
        let was_ours = self.memory.lock().applied.remove(&(kind.to_owned(), name.to_owned())).is_some();
        if was_ours {
            self.queue.add(&Task::Cluster, super::work::COMING);
        }
    }

    // Rights that need all machines.

    /// Whether one more healthy machine may be disrupted because its host is emptied, as far as it can be seen.
    pub(crate) fn may_disrupt(&self, machine: &Thing) -> bool {
        self.has_room(&self.memory.lock(), machine)
    }

    fn has_room(&self, memory: &Memory, machine: &Thing) -> bool {
        let written = self.control.standing.get(&Standing::Disrupted);
        let written = written.iter().filter(|one| self.is_ours(one)).map(|one| one.metadata.name());
        let mut others: BTreeSet<&str> = written.chain(memory.disrupted.iter().map(String::as_str)).collect();
        others.remove(machine.metadata.name());
        others.len() < self.settings.disruptions
    }

    /// Gives a machine its place in the disruption budget, if its plan needs one: statuses are written after many looks
    /// have begun, so that counting them alone would promise one place to all of them. A plan that needs none any more
    /// gives its place back.
    pub(crate) fn disrupts(&self, machine: &Thing, plan: &MachinePlan) -> Result<(), BudgetUsedUp> {
        let record = &plan.status.record;
        let name = machine.metadata.name();
        let mut memory = self.memory.lock();
        if record.evacuation_started.is_none() || record.drain_started.is_none() {
            memory.disrupted.remove(name);
            return Ok(());
        }
        let began =
            crate::families::machine_seen(self.control.family, machine).record.drain_started.is_some();
        if !began && !memory.disrupted.contains(name) && !self.has_room(&memory, machine) {
            return Err(BudgetUsedUp);
        }
        memory.disrupted.insert(name.to_owned());
        Ok(())
    }

    // History of our own pools.

    /// Revisions that are kept of a pool.
    pub(crate) fn history_of(&self, pool: &str) -> Vec<(Arc<HistoryObject>, Arc<Reading>)> {
        let Some(history) = &self.control.history else { return Vec::new() };
        let of_pool =
            |one: &HistoryObject| one.metadata.owner.as_ref().is_some_and(|owner| &*owner.uid == pool);
        let read = |one: Arc<HistoryObject>| self.readings.history(&one).ok().map(|reading| (one, reading));
        history.filter(of_pool).into_iter().filter_map(read).collect()
    }

    /// What machines of a revision of a pool are, if it is kept.
    pub(crate) fn kept_reading(&self, pool: &str, revision: &str) -> Option<Arc<Reading>> {
        let mut kept = self.history_of(pool).into_iter().map(|(_, reading)| reading);
        kept.find(|reading| reading.revision.as_str() == revision)
    }

    /// Forgets a revision of a pool.
    pub(crate) async fn forget_revision(&self, pool: &str, name: &str) -> Result<(), Failed> {
        let Some(history) = &self.control.history else { return Ok(()) };
        for (one, _) in self.history_of(pool) {
            if one.metadata.name() == name {
                let key = one.metadata.key.clone();
                let how = Delete::uid(&one.metadata.uid);
                self.control.site.delete(history.resource(), &key, &how).await?;
                history.removed(&key, &one.metadata.uid);
            }
        }
        Ok(())
    }

    /// Takes in a machine as a server answered it.
    pub(crate) fn take_in_machine(&self, machine: Value) {
        if let Ok(machine) = Object::from_json(machine) {
            self.control.machines.cache.written(machine);
        }
    }

    /// Tells what happened to an object.
    pub(crate) fn tell(&self, resource: &Resource, object: &Object, happening: &Happening) {
        let Happening { warning, reason, message } = happening;
        let name = object.metadata.name();
        tracing::info!(kind = resource.kind, name, warning, reason, message, "it happened");
        self.recorder.record(Note {
            regarding: Regarding {
                resource: *resource,
                key: object.metadata.key.clone(),
                uid: Arc::clone(&object.metadata.uid),
            },
            kind: if *warning { Weight::Warning } else { Weight::Normal },
            reason,
            message: message.clone(),
        });
    }
}

/// What tells an object of one namespace from every other.
fn kind_and_name(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&object["kind"]), text(&object["metadata"]["name"]))
}

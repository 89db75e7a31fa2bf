//! Grows a tenant cluster: carries out what [`install`](crate::install) plans, and makes what its machines read at first
//! boot.
//!
//! It grows clusters whose control plane is a MachinePool without user data of its own; for all others it does nothing.
//! What it makes once is kept in Secrets beside the record: `<cluster>-pki`, `-founding`, `-etcd` and `-kubeconfig`.
//! Only the replica that serves the record writes them, and each is created and never overwritten. What the members
//! serve configurations from is a Secret of the tenant itself.

mod inquiry;
mod kept;
mod plugin;
mod saying;
mod service;
mod user_data;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use trellis_bootstrap::site::Sources;
use trellis_bootstrap::{Bundle, Secret, render};
use trellis_model::canonical::Revision;
use trellis_model::pool::Role;
use trellis_model::{Cluster, Pool};
use trellis_platform::Failure;
use trellis_platform_kubevirt::seen::Phase;
use trellis_platform_kubevirt::{self as kubevirt, MachineIdentity};
use trellis_runtime::client::{Delete, Error, Selection, Site};
use trellis_runtime::{Cache, Clock, Key, Resource};

use super::tenant::Tenant;
use crate::families::Object;
use crate::install::founding::{self, Founding, FoundingError, Ground};
use crate::install::{self, Facts, Milestone, Presence, Progress, Step};
pub use plugin::GivenPlugin;
use saying::Said;
use service::Service;

const SECRETS: Resource = Resource::namespaced("", "v1", "secrets", "Secret");
const SERVICES: Resource = Resource::namespaced("", "v1", "services", "Service");
const MACHINES: Resource = Resource::namespaced("kubevirt.io", "v1", "virtualmachines", "VirtualMachine");

/// How long to wait after a failure at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How often it is asked why a cluster does not get on.
const ASK: SignedDuration = SignedDuration::from_mins(1);

/// How clusters are grown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Growing {
    /// Where machines get their programs from.
    pub sources: Sources,
    /// Which network plugin tenants are given.
    pub plugin: GivenPlugin,
}

/// Why growing does not go on.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Founding(#[from] FoundingError),
    #[error(transparent)]
    Request(#[from] Error),
    #[error(transparent)]
    Platform(#[from] Failure),
    #[error("the Secret {0} cannot be read: {1}")]
    Secret(String, &'static str),
    #[error("the ConfigMap {0}: {1}")]
    Plugin(String, String),
    #[error(transparent)]
    NotGiven(#[from] install::network_plugin::PluginError),
}

impl From<trellis_bootstrap::render::RenderError> for Trouble {
    fn from(error: trellis_bootstrap::render::RenderError) -> Self {
        Self::Founding(error.into())
    }
}

impl From<trellis_bootstrap::pki::PkiError> for Trouble {
    fn from(error: trellis_bootstrap::pki::PkiError) -> Self {
        Self::Founding(error.into())
    }
}

/// What is known of what was made.
#[derive(Default)]
struct State {
    loaded: bool,
    bundle: Option<Arc<Bundle>>,
    founding: Option<Arc<Founding>>,
    handed_over: bool,
    /// There has been a bootstrap machine.
    bootstrap_made: bool,
    /// From when on tokens count that the bootstrap machine is shown.
    opened: Option<Timestamp>,
    etcd_credentials: bool,
    kubeconfig: bool,
    plugged: bool,
    /// What the members serve configurations from, once that was read or written.
    published: Option<Arc<trellis_bootstrap::Site>>,
    /// The bootstrap machine was made or removed by us, which the watch may not have told yet.
    bootstrap: Option<Presence>,
    /// When the tokens of machines were made that have not joined yet.
    issued: BTreeMap<String, Timestamp>,
    /// The next milestone, and since when.
    since: Option<(Milestone, Timestamp)>,
    /// Since when everything is there.
    complete: Option<Timestamp>,
    /// Why it is not reached, and when that was asked.
    stuck: Option<(Timestamp, (&'static str, String))>,
    said: Option<Said>,
}

/// Grows one tenant cluster.
pub(crate) struct Founder {
    growing: Growing,
    control: Site,
    namespace: String,
    infra: Site,
    /// The tenant's own API, once it is known.
    guests: Option<Site>,
    cluster: Arc<Cluster>,
    clock: Clock,
    services: Cache<Service>,
    state: Mutex<State>,
    changed: Notify,
}

impl Founder {
    /// Who grows the cluster of a tenant.
    pub(crate) fn new(growing: Growing, tenant: &Tenant) -> Self {
        let cluster = Arc::clone(tenant.cluster());
        let selection = Selection::namespace(&tenant.infra.namespace).labels(&format!(
            "{}={}",
            kubevirt::CLUSTER_LABEL,
            cluster.name
        ));
        Self {
            growing,
            control: tenant.control.site.clone(),
            namespace: tenant.control.namespace.clone(),
            infra: tenant.infra.site.clone(),
            guests: tenant.guests.as_ref().map(|guests| guests.site.clone()),
            cluster,
            clock: tenant.clock,
            services: Cache::new(SERVICES, selection),
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Grows it until `stop` says so.
    pub(crate) async fn run(self: &Arc<Self>, tenant: &Arc<Tenant>, stop: &CancellationToken) {
        self.listen(tenant);
        let work = async {
            tenant.known().await;
            // Nothing is asked for a cluster that others have grown.
            while control_plane(tenant).is_none() {
                self.changed.notified().await;
            }
            tokio::select! {
                () = self.services.run(&self.infra, tenant.settings.seed) => {}
                () = self.grow(tenant) => {}
            }
        };
        tokio::select! {
            () = work => {}
            () = stop.cancelled() => {}
        }
    }

    fn listen(self: &Arc<Self>, tenant: &Tenant) {
        let told = || {
            let weak = Arc::downgrade(self);
            move || {
                if let Some(founder) = weak.upgrade() {
                    founder.changed.notify_one();
                }
            }
        };
        if let Some(things) = &tenant.control.pools {
            let tell = told();
            things.cache.listen(move |_| tell());
        }
        let tell = told();
        tenant.infra.machines.cache.listen(move |_| tell());
        let tell = told();
        tenant.infra.instances.cache.listen(move |_| tell());
        let tell = told();
        self.services.listen(move |_| tell());
        if let Some(guests) = &tenant.guests {
            let tell = told();
            guests.nodes.listen(move |_| tell());
        }
    }

    async fn grow(&self, tenant: &Tenant) {
        self.services.synced().await;
        let mut wait = AGAIN.0;
        loop {
            match self.look(tenant).await {
                Ok(wake) => {
                    wait = AGAIN.0;
                    let due = async {
                        match wake {
                            Some(then) => self.clock.reach(then).await,
                            None => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        () = self.changed.notified() => {}
                        () = due => {}
                    }
                }
                Err(trouble) => {
                    tracing::warn!(cluster = %self.cluster.name, %trouble, "the cluster cannot be grown");
                    self.told_trouble(&trouble).await;
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(AGAIN.1);
                }
            }
        }
    }

    /// Brings it as far as it goes now; when to look again.
    async fn look(&self, tenant: &Tenant) -> Result<Option<Timestamp>, Trouble> {
        self.load().await?;
        loop {
            let Some(pool) = control_plane(tenant) else { return Ok(None) };
            self.read_published(tenant).await?;
            let facts = self.facts(tenant);
            if facts.bootstrap == Presence::Present && !self.state.lock().bootstrap_made {
                // Whoever made it did not come to it.
                self.remember_bootstrap().await?;
            }
            let plan = install::plan(&facts);
            let wake = self.judge(tenant, &facts, &plan.progress).await?;
            if plan.steps.is_empty() {
                let tokens = self.renew_tokens(tenant).await?;
                return Ok([wake, tokens, self.renewal()].into_iter().flatten().min());
            }
            for step in plan.steps {
                self.carry_out(step, tenant, &pool).await?;
            }
        }
    }

    /// Says how far it is; and where that takes too long, why. When it will have taken too long, or is asked again.
    async fn judge(
        &self,
        tenant: &Tenant,
        facts: &Facts,
        progress: &Progress,
    ) -> Result<Option<Timestamp>, Trouble> {
        let now = self.clock.now();
        let (since, stuck) = {
            let mut state = self.state.lock();
            match (progress.next, state.since) {
                (Some(next), Some((before, since))) if next == before => (since, state.stuck.clone()),
                (next, _) => {
                    state.since = next.map(|next| (next, now));
                    (state.stuck, state.complete) = (None, state.complete.filter(|_| next.is_none()));
                    (now, None)
                }
            }
        };
        let Some(next) = progress.next else {
            // Since when all is there does not change with every look.
            let since = self.state.lock().complete_since(now);
            self.say(progress, since, None).await?;
            return Ok(None);
        };
        let due = since + next.patience();
        if now < due {
            self.say(progress, since, None).await?;
            return Ok(Some(due));
        }
        let (asked, why) = match stuck {
            Some((asked, why)) if now < asked + ASK => (asked, why),
            _ => {
                let findings = self.inquire(tenant, facts).await;
                (now, install::milestones::why_stuck(facts, next, &findings))
            }
        };
        self.say(progress, since, Some(&why)).await?;
        self.state.lock().stuck = Some((asked, why));
        Ok(Some(asked + ASK))
    }

    fn facts(&self, tenant: &Tenant) -> Facts {
        let wished = self.wished_site(tenant);
        let state = self.state.lock();
        let machine = self.bootstrap_machine(tenant);
        let seen = match &machine {
            Some((_, true)) => Presence::Going,
            Some((_, false)) => Presence::Present,
            None => Presence::Absent,
        };
        let bootstrap = match (state.bootstrap, seen) {
            (Some(Presence::Present), Presence::Absent) => Presence::Present,
            (Some(Presence::Going), Presence::Present) => Presence::Going,
            (_, seen) => seen,
        };
        let nodes = tenant.guests.as_ref().filter(|guests| guests.nodes.is_synced());
        let names = nodes.iter().flat_map(|guests| guests.nodes.all());
        let pools = tenant.control.pools.iter().flat_map(|pools| pools.cache.all());
        let pools: Vec<_> = pools.into_iter().filter(|pool| tenant.is_ours(pool)).collect();
        let available = |pool: &Arc<Object>| {
            let count = pool.status_json().get("availableReplicas").and_then(Value::as_u64);
            u32::try_from(count.unwrap_or_default()).unwrap_or(u32::MAX)
        };
        let wanted = tenant.readings().iter().map(|reading| reading.pool.spec.replicas).sum();
        // Who was removed since need not join.
        let stays = |name: &String| {
            let machine = tenant.control.machines.get(&Key::new(&self.namespace, name));
            machine.is_some_and(|machine| machine.metadata.deleting.is_none())
        };
        let founders = state.founding.as_ref().map(|founding| founding.founders());
        Facts {
            keys: state.bundle.is_some(),
            renewal_due: state
                .bundle
                .as_deref()
                .and_then(renewal_of)
                .is_some_and(|then| then <= self.clock.now()),
            etcd_credentials: state.etcd_credentials,
            address: self.service("api").is_some_and(|service| service.address().is_some()),
            kubeconfig: state.kubeconfig,
            founders: founders.map(|all| all.into_iter().filter(stays).collect()),
            bootstrap,
            bootstrap_runs: is_running(tenant, &founding::bootstrap_name(&self.cluster)),
            answers: nodes.is_some(),
            plugged: state.plugged || self.gives_no_plugin(),
            nodes: names.map(|node| node.seen.name.clone()).collect(),
            handed_over: state.handed_over,
            serves: state.published.is_some(),
            serves_the_newest: wished.is_some() && state.published.as_deref() == wished.as_ref(),
            machines: (wanted, pools.iter().map(available).sum()),
        }
    }

    /// The bootstrap machine's VM: its uid, and whether it is going.
    fn bootstrap_machine(&self, tenant: &Tenant) -> Option<(String, bool)> {
        let key = Key::new(&tenant.infra.namespace, &founding::bootstrap_name(&self.cluster));
        let machine = tenant.infra.machines.cache.get(&key)?;
        Some((machine.meta.uid.to_string(), machine.meta.deleting.is_some()))
    }

    fn service(&self, endpoint: &str) -> Option<Arc<Service>> {
        let name = kubevirt::endpoint_service(&self.cluster, endpoint);
        self.services.get(&Key::new(self.cluster.infra_namespace(), &name))
    }

    async fn carry_out(&self, step: Step, tenant: &Tenant, pool: &Pool) -> Result<(), Trouble> {
        tracing::info!(cluster = %self.cluster.name, ?step, "growing");
        match step {
            Step::MakeKeys => self.make_keys().await?,
            Step::RenewCertificates => self.renew_certificates().await?,
            Step::StoreEtcdCredentials => {
                let data = founding::etcd_credentials(&*self.bundle()?)?;
                self.store("etcd", &data, &json!({})).await?;
                self.state.lock().etcd_credentials = true;
                tenant.name_all();
            }
            Step::StoreKubeconfig => {
                let Some(text) = self.admin_kubeconfig(&*self.bundle()?)? else { return Ok(()) };
                self.store("kubeconfig", &json!({kept::KUBECONFIG: text.expose()}), &json!({})).await?;
                self.state.lock().kubeconfig = true;
            }
            Step::MakeBootstrap => self.make_bootstrap(tenant, pool).await?,
            Step::PlugIn => self.plug_in().await?,
            Step::HandOver => {
                self.note(&json!({kept::HANDED_OVER: self.clock.now().to_string()})).await?;
                self.state.lock().handed_over = true;
            }
            Step::Publish => {
                if let Some(site) = self.wished_site(tenant) {
                    self.publish(site).await?;
                    // Workers may be made now.
                    tenant.name_all();
                }
            }
            Step::RemoveBootstrap => self.remove_bootstrap(tenant).await?,
        }
        Ok(())
    }

    /// The administrator's kubeconfig, as soon as the API has an address.
    fn admin_kubeconfig(&self, bundle: &Bundle) -> Result<Option<Secret>, Trouble> {
        let Some(address) = self.service("api").and_then(|service| service.address()) else {
            return Ok(None);
        };
        let names = founding::names(&self.cluster);
        Ok(Some(render::admin_kubeconfig_at(&names, bundle, address)?))
    }

    /// When certificates are renewed next.
    fn renewal(&self) -> Option<Timestamp> {
        self.state.lock().bundle.as_deref().and_then(renewal_of)
    }

    async fn make_keys(&self) -> Result<(), Trouble> {
        let names = founding::names(&self.cluster);
        let bundle = Bundle::new(&names, &mut chance(), self.clock.now())?;
        self.store("pki", &json!({kept::BUNDLE: json!(bundle).to_string()}), &json!({})).await?;
        // Whatever is kept counts, whoever made it.
        self.state.lock().loaded = false;
        self.load().await
    }

    async fn make_bootstrap(&self, tenant: &Tenant, pool: &Pool) -> Result<(), Trouble> {
        let (founding, again, opened) = {
            let state = self.state.lock();
            let Some(founding) = state.founding.clone() else { return Ok(()) };
            (founding, state.bootstrap_made, state.opened)
        };
        let now = self.clock.now();
        // A machine that takes the place of another one does not know what that one has accepted.
        let opened = if again { now } else { opened.unwrap_or(now) };
        if again {
            self.note(&json!({kept::OPENED: opened.to_string()})).await?;
            self.state.lock().opened = Some(opened);
        }
        let pool = founding::bootstrap_pool(pool)?;
        let user_data = founding.bootstrap(&pool, &*self.bundle()?, opened)?;
        let identity = MachineIdentity {
            name: founding::bootstrap_name(&self.cluster),
            ordinal: 0,
            revision: Revision::of(&self.cluster, &pool),
            zone: None,
        };
        for object in kubevirt::render_machine(&self.cluster, &pool, &identity, Some(user_data.expose())) {
            let json = object.to_json();
            let resource = match json["kind"].as_str() {
                Some("Secret") => SECRETS,
                Some("Service") => SERVICES,
                _ => MACHINES,
            };
            let key = Key::new(&tenant.infra.namespace, object.name());
            let _: Value = self.infra.apply(&resource, &key, &json, true).await?;
        }
        self.state.lock().bootstrap = Some(Presence::Present);
        self.remember_bootstrap().await
    }

    /// Notes that there has been a bootstrap machine: another one is not the first.
    async fn remember_bootstrap(&self) -> Result<(), Trouble> {
        self.note(&json!({kept::BOOTSTRAP_MADE: "true"})).await?;
        self.state.lock().bootstrap_made = true;
        Ok(())
    }

    /// Removes the machine last: while it is there it is known that something has to be removed. What it reads has the keys
    /// of all authorities of the cluster, and must not be forgotten by whoever is interrupted.
    async fn remove_bootstrap(&self, tenant: &Tenant) -> Result<(), Trouble> {
        let name = founding::bootstrap_name(&self.cluster);
        let namespace = &tenant.infra.namespace;
        let is_its = |machine: &Option<Box<str>>| machine.as_deref() == Some(name.as_str());
        for secret in tenant.infra.secrets.cache.all().iter().filter(|secret| is_its(&secret.meta.machine)) {
            let key = Key::new(namespace, &secret.meta.name);
            self.infra.delete(&SECRETS, &key, &Delete::uid(&secret.meta.uid)).await?;
        }
        for service in
            tenant.infra.services.cache.all().iter().filter(|service| is_its(&service.meta.machine))
        {
            let key = Key::new(namespace, &service.meta.name);
            self.infra.delete(&SERVICES, &key, &Delete::uid(&service.meta.uid)).await?;
        }
        if let Some((uid, false)) = self.bootstrap_machine(tenant) {
            self.infra.delete(&MACHINES, &Key::new(namespace, &name), &Delete::uid(&uid)).await?;
        }
        self.state.lock().bootstrap = Some(Presence::Going);
        Ok(())
    }

    fn ground<'a>(&'a self, tenant_pools: Vec<Pool>, pool: &'a Pool) -> Ground<'a> {
        Ground {
            cluster: &self.cluster,
            pools: tenant_pools,
            pool,
            internal: self.service("api-int").and_then(|service| service.internal()),
            sources: &self.growing.sources,
        }
    }
}

impl State {
    /// Since when everything is there, as far as is known.
    fn complete_since(&mut self, now: Timestamp) -> Timestamp {
        *self.complete.get_or_insert(now)
    }
}

/// When the first certificate of a bundle has to be signed anew.
fn renewal_of(bundle: &Bundle) -> Option<Timestamp> {
    bundle.expiries().into_iter().filter_map(|expiry| expiry.renew_after).min()
}

/// Whether a machine runs.
fn is_running(tenant: &Tenant, machine: &str) -> bool {
    let key = Key::new(&tenant.infra.namespace, machine);
    tenant.infra.instances.cache.get(&key).is_some_and(|instance| instance.phase == Phase::Running)
}

/// The pool of the control plane, if its machines are to be given what they boot with.
fn control_plane(tenant: &Tenant) -> Option<Arc<Pool>> {
    let readings = tenant.readings();
    let pools = readings.iter().map(|reading| &reading.pool);
    let mut planes = pools.filter(|pool| pool.spec.role == Role::ControlPlane && needs_user_data(pool));
    planes.next().map(Arc::clone)
}

/// Whether machines of a pool read what we make.
fn needs_user_data(pool: &Pool) -> bool {
    let wished = &pool.spec.template.user_data;
    wished.secret.is_none() && wished.inline.is_none()
}

/// Where keys come from: never from a seed.
fn chance() -> StdRng {
    StdRng::from_rng(&mut rand::rng())
}

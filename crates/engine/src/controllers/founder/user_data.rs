//! What machines read at first boot: where they get the rest, with a token that is fresh when they start.
//!
//! Before the hand-over the bootstrap machine serves the members it was told of. After it the members serve everybody
//! else, from a Secret of their own cluster that is written here: what is known of the cluster, and the ledger they share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use trellis_bootstrap::server::shared;
use trellis_bootstrap::site::Member;
use trellis_bootstrap::tokens::Redeemed;
use trellis_bootstrap::{Bundle, Site};
use trellis_model::Pool;
use trellis_model::names::MachineName;
use trellis_model::pool::Role;
use trellis_platform::{Action, Platform as _};
use trellis_platform_kubevirt::seen::Phase;
use trellis_runtime::Key;
use trellis_runtime::client::Error;

use super::kept::{Kept, OPENED};
use super::{Founder, SECRETS, Trouble, chance, control_plane, founding, needs_user_data};
use crate::controllers::control::has_joined;
use crate::controllers::masters::{EtcdBirth, MasterUserData, NewMaster};
use crate::controllers::tenant::Tenant;
use crate::install::Founding;
use crate::install::tokens::{self, TokenStep, Waiting};

/// The key under which KubeVirt looks for user data in a Secret.
const USER_DATA: &str = "userdata";
/// How long after something was done for machines they are looked at again.
const SOON: SignedDuration = SignedDuration::from_secs(10);

impl Founder {
    /// What is known of the cluster now, for those who serve configurations after the hand-over. Who the members are
    /// changes only when one is about to join.
    pub(super) fn wished_site(&self, tenant: &Tenant) -> Option<Site> {
        let (founding, published) = {
            let state = self.state.lock();
            (state.founding.clone()?, state.published.clone())
        };
        let pool = control_plane(tenant)?;
        let readings = tenant.readings();
        let pools = readings.iter().map(|reading| &reading.pool).filter(|pool| needs_user_data(pool));
        let mut pools: Vec<Pool> = pools.map(|pool| (**pool).clone()).collect();
        pools.sort_by(|one, other| one.name.cmp(&other.name));
        let mut site = self.ground(pools, &pool).site();
        site.masters = published.map_or_else(|| founding.site.masters.clone(), |site| site.masters.clone());
        Some(site)
    }

    /// The Secret of the tenant that its members serve from.
    fn shelf() -> Key {
        Key::new(shared::NAMESPACE, shared::NAME)
    }

    async fn shelved(&self) -> Result<Option<Kept>, Trouble> {
        let Some(guests) = &self.guests else { return Ok(None) };
        let Some(secret) = guests.find::<Value>(&SECRETS, &Self::shelf()).await? else { return Ok(None) };
        Ok(Some(Kept::of(&secret).map_err(|what| Trouble::Secret(shared::NAME.to_owned(), what))?))
    }

    /// Reads what the members serve from, unless that is known.
    pub(super) async fn read_published(&self, tenant: &Tenant) -> Result<(), Trouble> {
        let answers = tenant.guests.as_ref().is_some_and(|guests| guests.nodes.is_synced());
        {
            let state = self.state.lock();
            if !state.handed_over || !answers || state.published.is_some() {
                return Ok(());
            }
        }
        let Some(kept) = self.shelved().await? else { return Ok(()) };
        // What cannot be read is written anew.
        let site = kept.data.get(shared::SITE).and_then(|bytes| serde_json::from_slice(bytes).ok());
        self.state.lock().published = site.map(Arc::new);
        Ok(())
    }

    /// Whether somebody took away what the members serve from. Then it is published anew.
    pub(super) async fn is_unpublished(&self) -> bool {
        let gone = matches!(self.shelved().await, Ok(None));
        if gone {
            self.state.lock().published = None;
            self.changed.notify_one();
        }
        gone
    }

    /// Gives the members what they serve from. The ledger is opened once, and is theirs from then on.
    pub(super) async fn publish(&self, site: Site) -> Result<(), Trouble> {
        let Some(guests) = &self.guests else { return Ok(()) };
        let key = Self::shelf();
        let text = json!(site).to_string();
        let ledger = json!(Redeemed::opened(self.clock.now())).to_string();
        let secret = json!({
            "metadata": {"name": key.name()}, "type": "Opaque",
            "stringData": {shared::SITE: text, shared::LEDGER: ledger},
        });
        match guests.create::<Value>(&SECRETS, key.namespace(), &secret).await {
            Ok(_) => {}
            Err(Error::AlreadyExists(_)) => {
                let patch = json!({"data": {shared::SITE: STANDARD.encode(text)}});
                let _: Value = guests.merge_patch(&SECRETS, &key, &patch).await?;
            }
            Err(error) => return Err(error.into()),
        }
        self.state.lock().published = Some(Arc::new(site));
        Ok(())
    }

    /// Where a machine gets its configuration, with a new token.
    fn stub(&self, site: &Site, bundle: &Bundle, pool: &Pool, machine: &str) -> Result<String, Trouble> {
        let now = self.clock.now();
        let stub = founding::stub(site, pool, bundle, machine, &mut chance(), now)?;
        self.state.lock().issued.insert(machine.to_owned(), now);
        Ok(stub.expose().to_owned())
    }

    /// What a member of the control plane reads at first boot.
    async fn master(&self, master: &NewMaster) -> Result<String, String> {
        let bundle = self.bundle().map_err(|_| "waiting for the keys of the cluster".to_owned())?;
        let site = match &master.etcd {
            EtcdBirth::New(urls) => {
                let members: BTreeSet<String> = urls.keys().cloned().collect();
                let kept = self.state.lock().founding.clone();
                let founding = match kept {
                    Some(founding) => founding,
                    None => self.found(master, &members).await?,
                };
                if !founding.founders().contains(&master.machine) {
                    let machine = &master.machine;
                    return Err(format!("{machine} is not among the machines the cluster was founded with"));
                }
                founding.site.clone()
            }
            EtcdBirth::Existing(urls) => self.announce(master, urls).await?,
        };
        self.stub(&site, &bundle, &master.pool, &master.machine).map_err(|trouble| trouble.to_string())
    }

    /// Tells those who serve configurations of a member that joins the others: its peers at that moment are part of its
    /// configuration.
    async fn announce(&self, master: &NewMaster, urls: &BTreeMap<String, String>) -> Result<Site, String> {
        let published = self.state.lock().published.clone();
        let published = published.ok_or("waiting for the control plane to serve configurations")?;
        let mut site = (*published).clone();
        site.masters.clear();
        for machine in urls.keys() {
            let name = MachineName::new(machine.clone()).map_err(|error| error.to_string())?;
            site.masters.push(Member { joins: *machine == master.machine, ..Member::new(name) });
        }
        match site.pools.iter_mut().find(|pool| pool.name == master.pool.name) {
            Some(pool) => *pool = (*master.pool).clone(),
            None => site.pools.push((*master.pool).clone()),
        }
        if site != *published {
            self.publish(site.clone()).await.map_err(|trouble| trouble.to_string())?;
        }
        Ok(site)
    }

    async fn found(&self, master: &NewMaster, members: &BTreeSet<String>) -> Result<Arc<Founding>, String> {
        let ground = self.ground(vec![(*master.pool).clone()], &master.pool);
        if ground.internal.is_none() && self.cluster.spec.network.uses_pod_network() {
            return Err("waiting for the address of the Service api-int".to_owned());
        }
        let made = Founding::new(&ground, members).map_err(|error| error.to_string())?;
        let notes = json!({OPENED: self.clock.now().to_string()});
        self.store("founding", &made.to_secret(), &notes).await.map_err(|error| error.to_string())?;
        self.state.lock().loaded = false;
        self.load().await.map_err(|trouble| trouble.to_string())?;
        self.changed.notify_one();
        let kept = self.state.lock().founding.clone();
        kept.ok_or_else(|| "the founding is not kept".to_owned())
    }

    /// Gives new tokens to machines that wait for their configuration and need one; when to look again.
    pub(super) async fn renew_tokens(&self, tenant: &Tenant) -> Result<Option<Timestamp>, Trouble> {
        let now = self.clock.now();
        let opened = {
            let state = self.state.lock();
            state.opened.filter(|_| !state.handed_over)
        };
        let mut plan = tokens::plan(&self.waiting(tenant, Some(&BTreeMap::new())), opened, now);
        if plan.steps.iter().any(|step| matches!(step, TokenStep::Restart(_))) {
            // Only who was not served starts again.
            let served = self.served(tenant).await;
            plan = tokens::plan(&self.waiting(tenant, served.as_ref()), opened, now);
        }
        for step in &plan.steps {
            match step {
                TokenStep::Renew(machine) => self.renew_token(tenant, machine).await?,
                TokenStep::Restart(machine) => {
                    self.renew_token(tenant, machine).await?;
                    self.start_again(tenant, machine).await?;
                }
            }
        }
        let soon = (!plan.steps.is_empty()).then(|| now + SOON);
        Ok([plan.wake, soon].into_iter().flatten().min())
    }

    /// When machines had their configuration, as far as those tell who serve it.
    async fn served(&self, tenant: &Tenant) -> Option<BTreeMap<String, Timestamp>> {
        if !self.state.lock().handed_over {
            return Some(self.ask_bootstrap(tenant).await?.ok()?.served);
        }
        let kept = self.shelved().await.ok()??;
        let ledger: Redeemed = serde_json::from_slice(kept.data.get(shared::LEDGER)?).ok()?;
        Some(ledger.machines.into_iter().map(|(name, how)| (name.to_string(), how.used)).collect())
    }

    /// The machines with a VM that boot with a stub of ours and have not joined. Who was served may not be known.
    fn waiting(&self, tenant: &Tenant, served: Option<&BTreeMap<String, Timestamp>>) -> Vec<Waiting> {
        let infra = &tenant.infra;
        let issued = self.state.lock().issued.clone();
        let mut waiting = Vec::new();
        for machine in tenant.control.machines.cache.all() {
            let name = machine.metadata.name();
            let key = Key::new(&infra.namespace, name);
            let Some(vm) = infra.machines.cache.get(&key).filter(|vm| vm.meta.deleting.is_none()) else {
                continue;
            };
            let has_node = tenant.guests.as_ref().is_some_and(|guests| guests.node(name).is_some());
            if has_node
                || !tenant.is_ours(&machine)
                || machine.metadata.deleting.is_some()
                || has_joined(tenant.control.family, &machine)
            {
                continue;
            }
            let reading = tenant.reading_of_its_pool(&machine);
            let Some(reading) = reading.filter(|one| needs_user_data(&one.pool)) else { continue };
            let instance = infra.instances.cache.get(&key).filter(|one| one.phase == Phase::Running);
            waiting.push(Waiting {
                machine: name.to_owned(),
                runs_since: instance.map(|one| one.running_since.unwrap_or(one.meta.created)),
                issued: issued.get(name).copied(),
                // An earlier machine of this name had its own.
                served: served.map(|served| served.get(name).is_some_and(|used| *used >= vm.meta.created)),
                is_master: reading.pool.spec.role == Role::ControlPlane,
            });
        }
        waiting
    }

    /// Writes a new token into the user data of a machine.
    async fn renew_token(&self, tenant: &Tenant, machine: &str) -> Result<(), Trouble> {
        let infra = &tenant.infra;
        // Whatever comes of it, it is not tried all the time.
        self.state.lock().issued.insert(machine.to_owned(), self.clock.now());
        let key = Key::new(&self.namespace, machine);
        let Some(object) = tenant.control.machines.get(&key) else { return Ok(()) };
        let Some(reading) = tenant.reading_of_its_pool(&object) else { return Ok(()) };
        let site = {
            let state = self.state.lock();
            let founding = state.founding.as_ref().filter(|_| !state.handed_over);
            founding.map(|founding| founding.site.clone()).or_else(|| state.published.as_deref().cloned())
        };
        let Some(site) = site else { return Ok(()) };
        let vm = infra.machines.cache.get(&Key::new(&infra.namespace, machine));
        let Some(name) = vm.and_then(|vm| vm.user_data.clone()) else { return Ok(()) };
        let key = Key::new(&infra.namespace, &name);
        let Some(secret) = infra.secrets.cache.get(&key).filter(|secret| !secret.erased) else {
            return Ok(());
        };
        let text = self.stub(&site, &*self.bundle()?, &reading.pool, machine)?;
        let patch =
            json!({"metadata": {"uid": &*secret.meta.uid}, "data": {USER_DATA: STANDARD.encode(text)}});
        let _: Value = self.infra.merge_patch(&SECRETS, &key, &patch).await?;
        tracing::info!(cluster = %self.cluster.name, machine, "it has a new token");
        Ok(())
    }

    /// Has a machine read its user data once more.
    async fn start_again(&self, tenant: &Tenant, machine: &str) -> Result<(), Trouble> {
        let key = Key::new(&tenant.infra.namespace, machine);
        let Some(instance) = tenant.infra.instances.cache.get(&key) else { return Ok(()) };
        tracing::info!(cluster = %self.cluster.name, machine, "its token ended unused: it starts again");
        let instance_uid = instance.meta.uid.to_string();
        let stop = Action::StopInstance { machine: machine.to_owned(), instance_uid, force: false };
        tenant.infra.act(stop).await?;
        Ok(())
    }
}

impl MasterUserData for Founder {
    fn user_data<'a>(&'a self, master: &'a NewMaster) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(self.master(master))
    }

    fn worker(&self, pool: &Pool, machine: &str) -> Option<Result<String, String>> {
        if !needs_user_data(pool) {
            return None;
        }
        let published = self.state.lock().published.clone();
        let Some(site) = published.filter(|site| site.pool(&pool.name) == Some(pool)) else {
            return Some(Err("waiting for the control plane to serve its configuration".to_owned()));
        };
        let made = || {
            let bundle = self.bundle()?;
            self.stub(&site, &bundle, pool, machine)
        };
        Some(made().map_err(|trouble: Trouble| trouble.to_string()))
    }
}

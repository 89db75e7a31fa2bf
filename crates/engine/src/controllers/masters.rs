//! The controller of control-plane pools: machines that carry members of etcd. Everything it does is a step of
//! [`pools::control_plane`]; the rules of workers do not hold here.
//!
//! What members say of themselves nobody can watch: they are asked whenever something changes that can be watched, a
//! few seconds after a change that is under way, and once a minute otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use futures::future::{BoxFuture, join_all};
use jiff::SignedDuration;
use parking_lot::Mutex;
use trellis_model::pool::Role;
use trellis_model::{Cluster, Pool};
use trellis_platform_kubevirt::machine_domain;
use trellis_runtime::Key;
use trellis_runtime::client::{Delete, Deleted};
use trellis_runtime::queue::Outcome;

use super::control::{Failed, Found, Standing, Thing, Things, has_joined};
use super::pool;
use super::tenant::Tenant;
use super::work::{GOING, Task};
use crate::etcd::{self, Credentials, Etcd, PEER_PORT, PortForward, Status};
use crate::families::make::{self, NewMachine};
use crate::families::{Reading, annotate, keys, member, recorded_revision};
use crate::machines::Blocked;
use crate::pools::control_plane::{
    self, ControlPlaneMachine, ControlPlanePlan, EtcdMember, EtcdSeen, Step, Waits,
};
use crate::pools::report::conditions;
use crate::pools::{PoolWish, RolloutPlan};
use crate::{Condition, Happening};

/// How long after a step it is looked at again.
const SOON: SignedDuration = SignedDuration::from_secs(1);
/// How often a change that is under way is looked at.
const CHANGING: SignedDuration = SignedDuration::from_secs(5);
/// How often members are asked while all is as wished.
const SETTLED: SignedDuration = SignedDuration::from_mins(1);

/// Makes what a machine of a control plane reads at first boot. Each machine has certificates of its own, and has to be
/// told whether it begins etcd or joins it, so that one text for a whole pool does not do.
pub trait MasterUserData: Send + Sync {
    /// The user data of a new machine; the error is for people, and the machine waits.
    fn user_data<'a>(&'a self, master: &'a NewMaster) -> BoxFuture<'a, Result<String, String>>;

    /// The user data of another machine of the cluster, or why it waits; nothing where its pool says it all.
    fn worker(&self, _pool: &Pool, _machine: &str) -> Option<Result<String, String>> {
        None
    }
}

/// A machine of a control plane that is about to be made.
#[derive(Debug, Clone)]
pub struct NewMaster {
    /// Its cluster.
    pub cluster: Arc<Cluster>,
    /// Its pool.
    pub pool: Arc<Pool>,
    /// Its name.
    pub machine: String,
    /// The name that other machines know it by for as long as it is there.
    pub host: String,
    /// How its member of etcd comes into being.
    pub etcd: EtcdBirth,
}

/// How a member of etcd comes into being.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EtcdBirth {
    /// It begins the cluster, with the others that do: peer URLs by machine, its own among them.
    New(BTreeMap<String, String>),
    /// It joins the cluster there is, to which it was added as a learner: peer URLs by machine, its own among them.
    Existing(BTreeMap<String, String>),
}

/// What is remembered of control planes between looks, and found again when it is lost.
#[derive(Default)]
pub(crate) struct Masters {
    source: OnceLock<Arc<dyn MasterUserData>>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// What machines that are about to be made read at first boot. Never shown.
    user_data: BTreeMap<String, Arc<str>>,
    /// Why a machine has none.
    missing: BTreeMap<String, String>,
    /// The machines that may be shut down.
    may_go: BTreeSet<String>,
    /// Why a pool does not move, by its uid.
    waits: BTreeMap<String, String>,
}

impl Masters {
    pub(crate) fn set_source(&self, source: Arc<dyn MasterUserData>) -> bool {
        self.source.set(source).is_ok()
    }
}

/// Whether machines of these are members of a control plane.
pub(crate) fn is_control_plane(reading: &Reading) -> bool {
    reading.pool.spec.role == Role::ControlPlane
}

/// Whether a machine belongs to a control plane that is looked after.
pub(crate) fn is_master(tenant: &Tenant, machine: &Thing) -> bool {
    machine.metadata.owner.is_some()
        && tenant.reading_of_its_pool(machine).is_some_and(|reading| is_control_plane(&reading))
}

/// Why a machine must not be shut down yet. Where the pool itself goes, so does all of it.
pub(crate) fn held(tenant: &Tenant, machine: &Thing) -> Option<String> {
    if machine.metadata.deleting.is_none() || !is_master(tenant, machine) {
        return None;
    }
    let owner = tenant.pool_of(machine).or_else(|| tenant.set_of(machine))?;
    if owner.metadata.deleting.is_some() {
        return None;
    }
    let memory = tenant.masters.memory.lock();
    if memory.may_go.contains(machine.metadata.name()) {
        return None;
    }
    let waits = memory.waits.get(&*owner.metadata.uid);
    let why = waits.map_or("it is about to", String::as_str);
    Some(format!("its member of etcd leaves before it is shut down: {why}"))
}

/// What a machine of a control plane reads at first boot; nothing where it is what its pool says.
pub(crate) fn user_data(tenant: &Tenant, machine: &Thing) -> Option<Result<Arc<str>, Blocked>> {
    let source = tenant.masters.source.get()?;
    // What it is, and not what its pool has become since.
    let pool = tenant.reading_of(machine).ok()?.pool.clone();
    let wished = &pool.spec.template.user_data;
    if wished.secret.is_some() || wished.inline.is_some() {
        return None;
    }
    let name = machine.metadata.name();
    let is_made = has_vm(tenant, name);
    if pool.spec.role != Role::ControlPlane {
        // Where no control plane is ours to grow, somebody else says what workers read.
        let is_grown = |reading: &Arc<Reading>| reading.pool.spec.role == Role::ControlPlane;
        if !tenant.readings().iter().any(is_grown) {
            return None;
        }
        let own = source.worker(&pool, name)?;
        // It has read its own; where that was kept is all that still counts.
        return Some(if is_made {
            Ok(Arc::from(""))
        } else {
            own.map(Arc::from).map_err(Blocked::UserDataMissing)
        });
    }
    if is_made {
        return Some(Ok(Arc::from("")));
    }
    let memory = tenant.masters.memory.lock();
    Some(memory.user_data.get(name).cloned().ok_or_else(|| {
        let why = memory.missing.get(name).cloned();
        Blocked::UserDataMissing(
            why.unwrap_or_else(|| "waiting for its turn in the control plane".to_owned()),
        )
    }))
}

fn has_vm(tenant: &Tenant, machine: &str) -> bool {
    tenant.infra.machines.cache.get(&Key::new(&tenant.infra.namespace, machine)).is_some()
}

/// Whether there is a control plane whose etcd was never seen, and no machine has ever joined: its tenant does not answer
/// because it is not there yet.
pub(crate) fn is_unborn(tenant: &Tenant) -> bool {
    // Whoever has joined has joined something: what is silent now was there.
    if tenant.control.standing.get(&Standing::Joined).iter().any(|machine| tenant.is_ours(machine)) {
        return false;
    }
    let pools = tenant.control.pools.iter().flat_map(|pools| pools.cache.all());
    pools.into_iter().any(|pool| {
        !pool.metadata.annotations.is_on(keys::ETCD_FORMED)
            && tenant.reading_of_pool(&pool).is_ok_and(|reading| is_control_plane(&reading))
    })
}

/// The control plane that keeps another one of the same cluster from acting: of several the oldest counts, so that two
/// never change the members of one etcd.
pub(crate) fn earlier(tenant: &Tenant, things: &Things, owner: &Thing) -> Option<String> {
    let reading = |thing: &Thing| match &tenant.control.pools {
        Some(pools) if pools.resource == things.resource => tenant.reading_of_pool(thing).ok(),
        _ if thing.metadata.owner.is_some() => None,
        _ => tenant.reading_of_set(thing).ok(),
    };
    let age = |thing: &Thing| (thing.metadata.created, thing.metadata.name().to_owned());
    let own = age(owner);
    let mut others: Vec<_> = things
        .cache
        .all()
        .into_iter()
        .filter(|thing| thing.metadata.deleting.is_none() && tenant.is_ours(thing) && age(thing) < own)
        .filter(|thing| reading(thing).is_some_and(|reading| is_control_plane(&reading)))
        .map(|thing| age(&thing))
        .collect();
    others.sort();
    others.into_iter().next().map(|(_, name)| name)
}

/// How long a control plane that must not act waits before it looks whether it may.
pub(crate) fn later(tenant: &Tenant) -> Outcome {
    Outcome::At(tenant.clock.now() + SETTLED)
}

/// A control plane: what its machines belong to, and what they are to be.
struct Plane<'a> {
    tenant: &'a Tenant,
    things: &'a Things,
    owner: Thing,
    reading: &'a Arc<Reading>,
    wish: &'a PoolWish,
    machines: Vec<Thing>,
    /// Those of the whole cluster, whatever they belong to: any of them may carry a member.
    masters: Vec<Thing>,
    domain: String,
}

/// What was asked of the members.
struct Asked {
    client: Option<Etcd>,
    seen: EtcdSeen,
    members: Vec<etcd::Member>,
    /// A member that votes and serves.
    serving: Vec<String>,
    /// Why nobody could be asked.
    trouble: Option<String>,
}

/// Brings a control plane one step further; when to look again, and what is said of its etcd.
pub(crate) async fn bring(
    tenant: &Tenant,
    things: &Things,
    owner: &Thing,
    reading: &Arc<Reading>,
    wish: &PoolWish,
    rollout: Option<&RolloutPlan>,
) -> Result<(Outcome, Condition), Failed> {
    let plane = Plane {
        tenant,
        things,
        owner: Arc::clone(owner),
        reading,
        wish,
        machines: tenant.control.machines.of_owner(&owner.metadata.uid),
        masters: tenant
            .control
            .machines
            .cache
            .all()
            .into_iter()
            .filter(|machine| tenant.is_ours(machine) && is_master(tenant, machine))
            .collect(),
        domain: machine_domain(tenant.cluster()),
    };
    let asked = plane.ask().await;
    let plan = control_plane::plan(wish, &plane.seen(), &asked.seen, tenant.clock.now());
    plane.remember(&plan);
    plane.mark_formed(&asked).await?;
    let mut trouble = asked.trouble.clone();
    let mut moved = false;
    if let Some(step) = &plan.step {
        match plane.take(step, &asked).await {
            Ok(()) => moved = true,
            Err(Stuck::Site(failed)) => return Err(failed),
            Err(Stuck::Etcd(error)) => trouble = Some(error.to_string()),
        }
    }
    if !matches!(plan.waits, Some(Waits::QuorumLost { .. } | Waits::EtcdUnknown)) {
        trouble = plane.prepare(&asked).await?.or(trouble);
    }
    let condition = said(&plan, &asked.seen, trouble.as_deref());
    let settled = rollout.is_none_or(|rollout| rollout.mark.done) && condition.holds == Some(true);
    let pause = match (moved, settled) {
        (true, _) => SOON,
        (false, true) => SETTLED,
        (false, false) => CHANGING,
    };
    Ok((Outcome::At(tenant.clock.now() + pause), condition))
}

/// What is said of etcd.
fn said(plan: &ControlPlanePlan, etcd: &EtcdSeen, trouble: Option<&str>) -> Condition {
    let (holds, reason, message) = match (&plan.waits, etcd) {
        (Some(waits), _) => {
            let reason = match waits {
                Waits::QuorumLost { .. } => "QuorumLost",
                Waits::EtcdUnknown => "EtcdUnknown",
                Waits::MemberUnhealthy { .. } => "MemberUnhealthy",
                Waits::Changing { .. } => "OneAtATime",
                Waits::TooFewVoting { .. } => "TooFewVoting",
            };
            let because = trouble.map(|why| format!(": {why}")).unwrap_or_default();
            (false, reason, format!("{waits}{because}"))
        }
        (None, EtcdSeen::Absent | EtcdSeen::Unknown) => {
            let because = trouble.map(|why| format!(": {why}")).unwrap_or_default();
            (false, "NotFormedYet", format!("etcd has no members yet{because}"))
        }
        (None, EtcdSeen::Members(members)) => match trouble {
            Some(why) => (false, "Trouble", why.to_owned()),
            None => (true, "AsWished", format!("{} members, all of them answer", members.len())),
        },
    };
    Condition { kind: conditions::ETCD_READY, holds: Some(holds), reason, message }
}

/// Why a step was not taken.
enum Stuck {
    Site(Failed),
    Etcd(etcd::Error),
}

impl From<Failed> for Stuck {
    fn from(failed: Failed) -> Self {
        Self::Site(failed)
    }
}

impl From<trellis_runtime::client::Error> for Stuck {
    fn from(error: trellis_runtime::client::Error) -> Self {
        Self::Site(error.into())
    }
}

impl From<etcd::Error> for Stuck {
    fn from(error: etcd::Error) -> Self {
        Self::Etcd(error)
    }
}

impl Plane<'_> {
    fn machine(&self, name: &str) -> Option<&Thing> {
        self.machines.iter().find(|machine| machine.metadata.name() == name)
    }

    fn peer_url(&self, machine: &str) -> String {
        format!("https://{machine}.{}:{PEER_PORT}", self.domain)
    }

    fn seen(&self) -> Vec<ControlPlaneMachine> {
        let family = self.tenant.control.family;
        let seen = |machine: &Thing| ControlPlaneMachine {
            member: member(family, machine),
            // Where revisions are not kept, a changed template holds for new machines only.
            revision: recorded_revision(family, machine).unwrap_or_else(|| self.wish.revision.clone()),
            left: machine.metadata.annotations.get(keys::MEMBER_LEFT).is_some(),
        };
        self.machines.iter().map(seen).collect()
    }

    /// A client of the members, by the credentials of the cluster.
    fn client(&self) -> Result<Etcd, String> {
        let name = format!("{}-etcd", self.tenant.cluster().name);
        let key = Key::new(&self.tenant.control.namespace, &name);
        let first = self.machines.first().map_or("", |machine| machine.metadata.name());
        let secret = match self.tenant.secret(&key, first) {
            Found::Here(secret) => secret,
            Found::Absent => {
                return Err(format!(
                    "there is no Secret {name} with credentials for etcd (ca.crt, tls.crt, tls.key)"
                ));
            }
            Found::Unknown => return Err(format!("looking at the Secret {name} with credentials for etcd")),
        };
        let told = |error: etcd::Error| format!("the Secret {name}: {error}");
        let credentials = Credentials::of_secret(&secret.0.data).map_err(told)?;
        let infra = &self.tenant.infra;
        let dial = PortForward { site: infra.site.clone(), namespace: infra.namespace.clone() };
        Etcd::new(Arc::new(dial), &credentials, &self.domain).map_err(told)
    }

    /// Asks every machine that runs how its member is, and one that votes who the members are.
    async fn ask(&self) -> Asked {
        let annotations = &self.owner.metadata.annotations;
        let formed = annotations.is_on(keys::ETCD_FORMED);
        let began = annotations.get(keys::ETCD_BEGAN_WITH).is_some();
        let family = self.tenant.control.family;
        let joined = self.masters.iter().chain(&self.machines).any(|machine| has_joined(family, machine));
        let nobody = |client: Option<Etcd>, trouble| Asked {
            // Who cannot ask does not know either whether those that were to begin have begun; and a master that has
            // joined has joined what etcd holds.
            seen: if formed || joined || (began && client.is_none()) {
                EtcdSeen::Unknown
            } else {
                EtcdSeen::Absent
            },
            client,
            members: Vec::new(),
            serving: Vec::new(),
            trouble,
        };
        let client = match self.client() {
            Ok(client) => client,
            Err(why) => return nobody(None, Some(why)),
        };
        let infra = &self.tenant.infra;
        let runs = |name: &str| infra.instances.cache.get(&Key::new(&infra.namespace, name)).is_some();
        let names = self.masters.iter().chain(&self.machines).map(|machine| machine.metadata.name());
        let running: BTreeSet<&str> = names.filter(|name| runs(name)).collect();
        let answers = join_all(running.iter().map(|name| client.status(name))).await;
        let mut trouble = None;
        let mut statuses: BTreeMap<&str, Status> = BTreeMap::new();
        for (name, answer) in running.iter().zip(answers) {
            match answer {
                Ok(status) => drop(statuses.insert(name, status)),
                Err(error) => trouble = Some(error.to_string()),
            }
        }
        // Who serves knows best; without a quorum whoever answers is asked.
        let mut voters: Vec<&str> =
            statuses.iter().filter(|(_, one)| !one.learner).map(|(name, _)| *name).collect();
        voters.sort_by_key(|name| !statuses.get(name).is_some_and(Status::serves));
        for name in &voters {
            match client.members(name).await {
                Ok(members) => {
                    let seen = members.iter().filter_map(|member| {
                        let machine = member.machine()?;
                        let status = statuses.get(machine);
                        let healthy = status.is_some_and(|status| {
                            if member.learner { status.has_caught_up() } else { status.serves() }
                        });
                        let own = self.machine(machine).is_some();
                        let key = Key::new(&self.tenant.control.namespace, machine);
                        let exists = self.tenant.control.machines.get(&key).is_some() || runs(machine);
                        let elsewhere = !own && exists;
                        let voting = !member.learner;
                        Some(EtcdMember { machine: machine.to_owned(), healthy, voting, elsewhere })
                    });
                    let seen = EtcdSeen::Members(seen.collect());
                    let serves = |name: &&&str| statuses.get(**name).is_some_and(Status::serves);
                    let serving = voters.iter().filter(serves).map(|name| (*name).to_owned()).collect();
                    return Asked { client: Some(client.clone()), seen, members, serving, trouble: None };
                }
                Err(error) => trouble = Some(error.to_string()),
            }
        }
        nobody(Some(client), trouble)
    }

    /// Keeps what machines are asked about before the next look, and wakes those that may go.
    fn remember(&self, plan: &ControlPlanePlan) {
        let names: BTreeSet<&str> = self.machines.iter().map(|machine| machine.metadata.name()).collect();
        let mut memory = self.tenant.masters.memory.lock();
        // What was secret is not kept longer than it is needed.
        memory.user_data.retain(|name, _| !has_vm(self.tenant, name));
        let uid = self.owner.metadata.uid.to_string();
        let waits = plan.waits.as_ref().map(ToString::to_string);
        let changed = memory.waits.get(&uid) != waits.as_ref();
        match waits {
            Some(waits) => drop(memory.waits.insert(uid, waits)),
            None => drop(memory.waits.remove(&uid)),
        }
        let before: BTreeSet<String> =
            memory.may_go.iter().filter(|name| names.contains(name.as_str())).cloned().collect();
        let now: BTreeSet<String> = plan.may_go.iter().cloned().collect();
        memory.may_go.retain(|name| !names.contains(name.as_str()));
        memory.may_go.extend(now.iter().cloned());
        drop(memory);
        let going = self.machines.iter().filter(|machine| machine.metadata.deleting.is_some());
        for machine in going {
            let name = machine.metadata.name();
            if changed || before.contains(name) != now.contains(name) {
                self.tenant.queue.add(&Task::Machine(name.to_owned()), GOING);
            }
        }
    }

    /// Records that etcd has been there: from then on its silence is no absence.
    async fn mark_formed(&self, asked: &Asked) -> Result<(), Failed> {
        if !matches!(asked.seen, EtcdSeen::Members(_)) {
            return Ok(());
        }
        self.annotate(self.things, &self.owner, keys::ETCD_FORMED, "true").await
    }

    async fn annotate(&self, things: &Things, object: &Thing, key: &str, value: &str) -> Result<(), Failed> {
        // Another step may have changed it since.
        let Some(object) = things.get(&object.metadata.key) else { return Ok(()) };
        match annotate(&object, &[(key, Some(value.to_owned()))]) {
            Some(patch) => self.tenant.control.patch(things, &object.metadata.key, &patch).await,
            None => Ok(()),
        }
    }

    fn tell(&self, reason: &'static str, message: String) {
        self.tenant.tell(&self.things.resource, &self.owner, &Happening { warning: false, reason, message });
    }

    /// Whoever can be asked to change the members, other than the one it is about.
    fn via<'a>(asked: &'a Asked, but: &str) -> Result<(&'a Etcd, &'a str), Stuck> {
        let unknown = || {
            Stuck::Etcd(etcd::Error::Unreachable {
                machine: but.to_owned(),
                why: "no other member serves".to_owned(),
            })
        };
        let client = asked.client.as_ref().ok_or_else(unknown)?;
        let via = asked.serving.iter().find(|name| *name != but).or(asked.serving.first());
        Ok((client, via.ok_or_else(unknown)?))
    }

    async fn take(&self, step: &Step, asked: &Asked) -> Result<(), Stuck> {
        let control = &self.tenant.control;
        match step {
            Step::Make(count) => {
                for new in self.new_machines(*count) {
                    let new = NewMachine { ordinal: new.0, zone: new.1.as_deref() };
                    let object = make::machine(control.family, &self.owner, self.reading, new);
                    let made = control.create(&control.machines, &object).await;
                    self.tenant.count_start(&self.owner.metadata.uid, made.is_ok());
                    made?;
                }
            }
            Step::Promote(machine) => {
                let (client, via) = Self::via(asked, machine)?;
                for id in ids(asked, machine) {
                    client.promote(via, id).await?;
                    self.tell("MemberPromoted", format!("the member of etcd on {machine} votes from now on"));
                }
            }
            Step::RemoveMember(machine) => {
                let (client, via) = Self::via(asked, machine)?;
                for id in ids(asked, machine) {
                    // Written first: who dies in between finds that the machine is not to be counted on.
                    if let Some(object) = self.machine(machine) {
                        self.annotate(&control.machines, object, keys::MEMBER_LEFT, &format!("{id:x}"))
                            .await?;
                    }
                    client.remove(via, id).await?;
                    self.tell("MemberRemoved", format!("the member of etcd on {machine} has left"));
                }
            }
            Step::Delete(machine) => {
                let Some(object) = self.machine(machine) else { return Ok(()) };
                let (key, how) = (&object.metadata.key, Delete::uid(&object.metadata.uid));
                match control.site.delete(&control.machines.resource, key, &how).await? {
                    Deleted::Going(left) => self.tenant.take_in_machine(left),
                    Deleted::Gone | Deleted::Replaced => {
                        control.machines.cache.removed(key, &object.metadata.uid);
                    }
                }
            }
        }
        Ok(())
    }

    /// Numbers and zones of new machines: numbers nobody has, and the zones with the fewest machines.
    fn new_machines(&self, count: u32) -> Vec<(u32, Option<String>)> {
        let seen: Vec<_> = self.seen().into_iter().map(|machine| machine.member).collect();
        let mut taken: BTreeSet<u32> = seen.iter().filter_map(|member| member.ordinal).collect();
        let mut zones: BTreeMap<&str, usize> =
            self.wish.zones.iter().map(|zone| (zone.as_str(), 0)).collect();
        for zone in seen.iter().filter(|member| member.stays()).filter_map(|member| member.zone.as_deref()) {
            if let Some(count) = zones.get_mut(zone) {
                *count += 1;
            }
        }
        let mut new = Vec::new();
        for _ in 0..count {
            let Some(ordinal) = (0..u32::MAX).find(|number| !taken.contains(number)) else { break };
            taken.insert(ordinal);
            let zone = zones.iter_mut().min_by_key(|(_, count)| **count).map(|(zone, count)| {
                *count += 1;
                (*zone).to_owned()
            });
            new.push((ordinal, zone));
        }
        new
    }

    /// Makes the user data of machines that come next: all that begin etcd, or the one that joins it, which is added
    /// as a learner before. Why that does not go on, if it does not.
    async fn prepare(&self, asked: &Asked) -> Result<Option<String>, Failed> {
        let Some(source) = self.tenant.masters.source.get() else { return Ok(None) };
        let waiting: Vec<&Thing> = self
            .machines
            .iter()
            .filter(|machine| {
                machine.metadata.deleting.is_none() && !has_vm(self.tenant, machine.metadata.name())
            })
            .collect();
        match &asked.seen {
            EtcdSeen::Unknown => Ok(None),
            EtcdSeen::Absent => {
                let began = self.begins_with().await?;
                let urls: BTreeMap<String, String> =
                    began.iter().map(|name| (name.clone(), self.peer_url(name))).collect();
                for machine in waiting {
                    if urls.contains_key(machine.metadata.name()) {
                        self.render(source, machine, EtcdBirth::New(urls.clone())).await;
                    }
                }
                Ok(None)
            }
            EtcdSeen::Members(_) => {
                let joins = |machine: &&&Thing| machine.metadata.annotations.get(keys::MEMBER_LEFT).is_none();
                let Some(machine) = waiting.iter().find(joins) else { return Ok(None) };
                let name = machine.metadata.name();
                let mut members = asked.members.clone();
                if !members.iter().any(|member| member.machine() == Some(name)) {
                    let Ok((client, via)) = Self::via(asked, name) else { return Ok(None) };
                    members = match client.add_learner(via, &self.peer_url(name)).await {
                        Ok(members) => members,
                        Err(error) => return Ok(Some(error.to_string())),
                    };
                    self.tell("LearnerAdded", format!("{name} was added to etcd as a learner"));
                }
                let url = |member: &etcd::Member| {
                    Some((member.machine()?.to_owned(), member.peer_urls.first()?.clone()))
                };
                let urls = members.iter().filter_map(url).collect();
                self.render(source, machine, EtcdBirth::Existing(urls)).await;
                Ok(None)
            }
        }
    }

    /// The machines etcd begins with: decided once, as soon as all of them exist, and recorded.
    async fn begins_with(&self) -> Result<Vec<String>, Failed> {
        if let Some(began) = self.owner.metadata.annotations.get(keys::ETCD_BEGAN_WITH) {
            return Ok(began.split(',').map(str::to_owned).collect());
        }
        // Those made just now are among them.
        let all = self.tenant.control.machines.of_owner(&self.owner.metadata.uid);
        let staying: Vec<String> = all
            .iter()
            .filter(|machine| machine.metadata.deleting.is_none())
            .map(|machine| machine.metadata.name().to_owned())
            .collect();
        if staying.len() < usize::try_from(self.wish.replicas).unwrap_or(usize::MAX) {
            return Ok(Vec::new());
        }
        self.annotate(self.things, &self.owner, keys::ETCD_BEGAN_WITH, &staying.join(",")).await?;
        Ok(staying)
    }

    async fn render(&self, source: &Arc<dyn MasterUserData>, machine: &Thing, etcd: EtcdBirth) {
        let name = machine.metadata.name();
        if self.tenant.masters.memory.lock().user_data.contains_key(name) {
            return;
        }
        let master = NewMaster {
            cluster: Arc::clone(&self.reading.cluster),
            pool: Arc::clone(&self.reading.pool),
            machine: name.to_owned(),
            host: format!("{name}.{}", self.domain),
            etcd,
        };
        let made = source.user_data(&master).await;
        let mut memory = self.tenant.masters.memory.lock();
        match made {
            Ok(text) => {
                memory.missing.remove(name);
                memory.user_data.insert(name.to_owned(), text.into());
            }
            Err(why) => drop(memory.missing.insert(name.to_owned(), why)),
        }
        drop(memory);
        self.tenant.queue.add(&Task::Machine(name.to_owned()), super::work::COMING);
    }
}

/// The ids of the members on a machine.
fn ids(asked: &Asked, machine: &str) -> Vec<u64> {
    let members = asked.members.iter().filter(|member| member.machine() == Some(machine));
    members.map(|member| member.id).collect()
}

/// Forgets what was kept of machines that have been made, or are gone.
pub(crate) fn forget(tenant: &Tenant, machine: &str) {
    let mut memory = tenant.masters.memory.lock();
    memory.user_data.remove(machine);
    memory.missing.remove(machine);
    memory.may_go.remove(machine);
}

/// Looks at a pool whose machines are a control plane.
pub(crate) async fn look(tenant: &Tenant, pool: &Thing, reading: &Arc<Reading>) -> Outcome {
    match pool::bring_masters(tenant, pool, reading).await {
        Ok(outcome) => outcome,
        Err(failed) => {
            tracing::debug!(pool = pool.metadata.name(), %failed, "a control plane could not be brought further");
            Outcome::Retry
        }
    }
}

//! The controller of pools and of sets that stand alone: sizes of revisions, machines made and let go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use trellis_runtime::Key;
use trellis_runtime::client::{Delete, Deleted};
use trellis_runtime::queue::Outcome;

use super::adoption;
use super::control::{Failed, Thing, Things};
use super::hints;
use super::masters;
use super::tenant::Tenant;
use crate::families::make::{self, NewMachine, NewSet};
use crate::families::{
    self, PoolStatus, Reading, TRELLIS, annotate, history_seen, number_of, pool_wish, recorded_revision,
    scale, set_seen, set_size,
};
use crate::pools::{self, Member, PoolWish, RolloutPlan, SetSeen, SetWish, Sizing, Starts};
use crate::{Condition, Deadline, Happening};

/// Why a template cannot be used.
const BAD_TEMPLATE: &str = "InvalidConfiguration";
/// Why machines cannot be made.
const CREATE_ERROR: &str = "CreateError";

/// Looks at a pool: brings its revisions to their sizes, and says how far it is.
pub(crate) async fn look(tenant: &Tenant, key: &Key) -> Outcome {
    let Some(pools) = &tenant.control.pools else { return Outcome::Done };
    let Some(pool) = pools.get(key) else { return Outcome::Done };
    if pool.metadata.deleting.is_some() || !tenant.is_ours(&pool) || adoption::is_handed_back(tenant, &pool) {
        return Outcome::Done;
    }
    let reading = match tenant.reading_of_pool(&pool) {
        Ok(reading) => reading,
        Err(unreadable) => return unusable(tenant, pools, &pool, &unreadable.to_string()).await,
    };
    if masters::is_control_plane(&reading) && *tenant.control.family == TRELLIS {
        if let Some(first) = masters::earlier(tenant, pools, &pool) {
            return second_plane(tenant, pools, &pool, &first).await;
        }
        return masters::look(tenant, &pool, &reading).await;
    }
    match bring(tenant, &pool, &reading).await {
        Ok(deadline) => deadline.map_or(Outcome::Done, |deadline| Outcome::At(deadline.at)),
        Err(failed) => {
            tracing::debug!(pool = %key.name(), %failed, "a pool could not be brought to its wish");
            failed.outcome()
        }
    }
}

/// A cluster has one control plane: its members of etcd are changed by one plan, and no other.
async fn second_plane(tenant: &Tenant, things: &Things, pool: &Thing, first: &str) -> Outcome {
    let why =
        format!("{first} is the control plane of this cluster, which has only one; nothing is done here");
    match unusable(tenant, things, pool, &why).await {
        Outcome::Done => masters::later(tenant),
        outcome => outcome,
    }
}

/// Says that nothing can be made from a template; machines that exist stay as they are.
async fn unusable(tenant: &Tenant, things: &Things, pool: &Thing, why: &str) -> Outcome {
    let said = PoolStatus { error: Some((BAD_TEMPLATE, why.to_owned())), ..counted(tenant, pool) };
    let patch = if tenant.control.pools.as_ref().is_some_and(|pools| pools.resource == things.resource) {
        families::pool_status(tenant.control.family, pool, &said, tenant.clock.now())
    } else {
        families::set_status(tenant.control.family, pool, &said, tenant.clock.now())
    };
    let Some(patch) = patch else { return Outcome::Done };
    tenant.tell(
        &things.resource,
        pool,
        &Happening { warning: true, reason: BAD_TEMPLATE, message: why.to_owned() },
    );
    match tenant.control.patch_status(things, &key_of(pool), &patch).await {
        Ok(()) => Outcome::Done,
        Err(_) => Outcome::Retry,
    }
}

/// The machines there are, without a wish to compare them with.
fn counted(tenant: &Tenant, owner: &Thing) -> PoolStatus {
    let sets = tenant.control.sets.iter().flat_map(|sets| sets.of_owner(&owner.metadata.uid));
    let of_sets = sets.flat_map(|set| members(tenant, &set));
    let seen = SetSeen {
        name: owner.metadata.name().to_owned(),
        revision: String::new(),
        number: 0,
        wished: set_size(owner),
        members: members(tenant, owner).into_iter().chain(of_sets).collect(),
    };
    PoolStatus { revision: None, ..PoolStatus::of_set(&seen, 0, tenant.clock.now()) }
}

/// The machines a set, or a pool of our own family, controls.
fn members(tenant: &Tenant, owner: &Thing) -> Vec<Member> {
    let control = &tenant.control;
    control.machines.of_owner(&owner.metadata.uid).iter().map(|one| tenant.member(one)).collect()
}

async fn bring(tenant: &Tenant, pool: &Thing, reading: &Arc<Reading>) -> Result<Option<Deadline>, Failed> {
    let wish = pool_wish(tenant.control.family, pool, reading);
    let sets = sets(tenant, pool);
    let seen: Vec<SetSeen> = sets.iter().map(|set| set.seen.clone()).collect();
    let mark = families::mark(pool);
    let plan = pools::rollout::plan(&wish, &seen, mark.as_ref(), tenant.clock.now());
    let mut deadline = plan.deadline.clone();
    let mut trouble = None;
    let mut taken = taken(&sets);
    for sizing in &plan.sets {
        match size(tenant, pool, reading, &wish, &sets, sizing, &plan, &mut taken).await {
            Ok(later) => deadline = Deadline::earlier(deadline, later),
            Err(failed) => trouble = Some(failed),
        }
    }
    prune(tenant, pool, &plan.prune).await?;
    if let Some(pools) = &tenant.control.pools {
        hints::write(tenant, pools, pool, reading).await?;
    }
    deadline = Deadline::earlier(deadline, say(tenant, pool, &wish, &plan, trouble.as_ref()).await?);
    match trouble {
        Some(failed) => Err(failed),
        None => Ok(deadline),
    }
}

/// Brings a pool of a control plane further. The plan of workers says how far it is, and does nothing.
pub(super) async fn bring_masters(
    tenant: &Tenant,
    pool: &Thing,
    reading: &Arc<Reading>,
) -> Result<Outcome, Failed> {
    let Some(pools) = &tenant.control.pools else { return Ok(Outcome::Done) };
    let wish = pool_wish(tenant.control.family, pool, reading);
    let sets = sets(tenant, pool);
    let seen: Vec<SetSeen> = sets.iter().map(|set| set.seen.clone()).collect();
    let mark = families::mark(pool);
    let mut plan = pools::rollout::plan(&wish, &seen, mark.as_ref(), tenant.clock.now());
    for sizing in plan.sets.iter().filter(|sizing| sizing.revision == wish.revision) {
        let known = sizing.name.as_ref().and_then(|name| sets.iter().find(|set| set.seen.name == *name));
        if known.is_none_or(|set| set.seen.number != sizing.number) {
            keep_revision(tenant, pool, reading, sizing.number).await?;
        }
    }
    let (outcome, etcd) = masters::bring(tenant, pools, pool, reading, &wish, Some(&plan)).await?;
    prune(tenant, pool, &plan.prune).await?;
    plan.conditions.push(etcd);
    let later = say(tenant, pool, &wish, &plan, None).await?;
    Ok(sooner(outcome, later))
}

/// The same, but not later than that.
fn sooner(outcome: Outcome, later: Option<Deadline>) -> Outcome {
    match (outcome, later) {
        (Outcome::Done, Some(later)) => Outcome::At(later.at),
        (Outcome::At(at), Some(later)) => Outcome::At(at.min(later.at)),
        (outcome, _) => outcome,
    }
}

/// Machines of one revision, and the object they belong to where there is one.
struct Set {
    seen: SetSeen,
    object: Option<Thing>,
}

fn sets(tenant: &Tenant, pool: &Thing) -> Vec<Set> {
    let control = &tenant.control;
    if let Some(sets) = &control.sets {
        let of_set = |set: Thing| {
            let members = members(tenant, &set);
            let seen = match tenant.reading_of_set(&set) {
                Ok(reading) => set_seen(control.family, &set, &reading, members),
                // What cannot be read is no revision of anything.
                Err(_) => SetSeen {
                    name: set.metadata.name().to_owned(),
                    revision: set.metadata.name().to_owned(),
                    number: number_of(control.family, &set),
                    wished: set_size(&set),
                    members,
                },
            };
            Set { seen, object: Some(set) }
        };
        return sets.of_owner(&pool.metadata.uid).into_iter().map(of_set).collect();
    }
    // Our own family has no sets: machines of one revision are one.
    let machines = control.machines.of_owner(&pool.metadata.uid);
    let mut of_revision: BTreeMap<String, Vec<Member>> = BTreeMap::new();
    for machine in &machines {
        let revision = recorded_revision(control.family, machine).unwrap_or_default();
        of_revision.entry(revision).or_default().push(tenant.member(machine));
    }
    let mut sets: Vec<Set> = tenant
        .history_of(&pool.metadata.uid)
        .into_iter()
        .map(|(history, reading)| {
            let members = of_revision.remove(reading.revision.as_str()).unwrap_or_default();
            Set { seen: history_seen(&history, &reading, members), object: None }
        })
        .collect();
    // Machines whose revision is not kept any more are all the same of one.
    sets.extend(of_revision.into_iter().map(|(revision, members)| {
        let stay = members.iter().filter(|member| member.stays()).count();
        let wished = u32::try_from(stay).unwrap_or(u32::MAX);
        Set { seen: SetSeen { name: revision.clone(), revision, number: 0, wished, members }, object: None }
    }));
    sets
}

/// Brings one revision to its size; when to look at it again.
#[expect(clippy::too_many_arguments, reason = "one call, with what a revision is sized by")]
async fn size(
    tenant: &Tenant,
    pool: &Thing,
    reading: &Arc<Reading>,
    wish: &PoolWish,
    sets: &[Set],
    sizing: &Sizing,
    plan: &RolloutPlan,
    taken: &mut BTreeSet<u32>,
) -> Result<Option<Deadline>, Failed> {
    let control = &tenant.control;
    let newest = sizing.revision == wish.revision;
    let known = sizing.name.as_ref().and_then(|name| sets.iter().find(|set| set.seen.name == *name));
    if *control.family == TRELLIS {
        if newest && known.is_none_or(|set| set.seen.number != sizing.number) {
            keep_revision(tenant, pool, reading, sizing.number).await?;
        }
        let members = known.map(|set| set.seen.members.clone()).unwrap_or_default();
        // A paused pool grows by machines of its old revisions, as those were.
        let old = (!newest).then(|| tenant.kept_reading(&pool.metadata.uid, &sizing.revision)).flatten();
        let limit = if newest || old.is_some() { sizing.limit } else { 0 };
        let reading = old.as_ref().unwrap_or(reading);
        return fill(tenant, pool, reading, &members, wish, Fill::of(sizing, limit, wish), taken).await;
    }
    let Some(things) = &control.sets else { return Ok(None) };
    let most = pools::Bounds::of(wish).most();
    let numbers = NewSet { number: sizing.number, replicas: sizing.size, desired: wish.replicas, most };
    let Some(set) = known.and_then(|set| set.object.clone()) else {
        if let Some(object) = make::set(control.family, pool, reading, numbers) {
            control.create(things, &object).await?;
            let message = format!("made the set of revision {}", sizing.revision);
            let pools = control.pools.as_ref().map_or(things, |pools| pools);
            tenant.tell(
                &pools.resource,
                pool,
                &Happening { warning: false, reason: "SuccessfulCreate", message },
            );
        }
        return Ok(None);
    };
    // Whoever removes a set with its machines waits for it to make none: its place is taken when it is gone.
    if set.metadata.deleting.is_some() {
        return Ok(None);
    }
    let mut patch = scale(&set, sizing.size);
    let annotations: Vec<(&str, Option<String>)> =
        make::numbers(control.family, numbers).into_iter().collect();
    if let Some(more) = annotate(&set, &annotations) {
        patch = Some(patch.map_or(more.clone(), |first| super::machine::merged(first, more)));
    }
    if let Some(patch) = patch {
        control.patch(things, &key_of(&set), &patch).await?;
    }
    let reading = if newest { Ok(Arc::clone(reading)) } else { tenant.reading_of_set(&set) };
    let members = known.map(|set| set.seen.members.clone()).unwrap_or_default();
    let mut deadline = None;
    if let Ok(reading) = reading {
        let to = Fill::of(sizing, sizing.limit, wish);
        deadline = fill(tenant, &set, &reading, &members, wish, to, taken).await?;
    }
    let later = say_of_set(tenant, &set, plan.conditions.clone(), None).await?;
    Ok(Deadline::earlier(deadline, later))
}

/// Numbers that machines of all revisions have: addresses are dealt out by them.
fn taken(sets: &[Set]) -> BTreeSet<u32> {
    sets.iter().flat_map(|set| &set.seen.members).filter_map(|member| member.ordinal).collect()
}

/// What a set is to be filled to.
struct Fill {
    size: u32,
    limit: Option<u32>,
    /// An update replaces all of its machines.
    leaving: bool,
}

impl Fill {
    fn of(sizing: &Sizing, limit: u32, wish: &PoolWish) -> Self {
        Self { size: sizing.size, limit: Some(limit), leaving: wish.replaces(&sizing.revision) }
    }
}

/// Makes and removes machines until there are as many as wished. Numbers that are handed out are taken from then on.
async fn fill(
    tenant: &Tenant,
    owner: &Thing,
    reading: &Reading,
    members: &[Member],
    wish: &PoolWish,
    Fill { size, limit, leaving }: Fill,
    taken: &mut BTreeSet<u32>,
) -> Result<Option<Deadline>, Failed> {
    let control = &tenant.control;
    let uid = &owner.metadata.uid;
    let set_wish = SetWish {
        size,
        limit,
        zones: wish.zones.clone(),
        leaving,
        delete_policy: wish.delete_policy,
        min_ready_seconds: wish.update.min_ready_seconds,
        taken: taken.clone(),
        starts: tenant.starts(uid),
    };
    let has_name = |ordinal: u32| {
        let name = make::machine_name(control.family, owner, reading, ordinal);
        control.machines.get(&Key::new(owner.metadata.namespace(), &name)).is_some()
    };
    let plan = pools::set::plan_around(set_wish, members, has_name, tenant.clock.now());
    taken.extend(plan.make.iter().map(|new| new.ordinal));
    for name in &plan.delete {
        let key = Key::new(owner.metadata.namespace(), name);
        let Some(machine) = control.machines.get(&key) else { continue };
        let how = Delete::uid(&machine.metadata.uid);
        match control.site.delete(&control.machines.resource, &key, &how).await? {
            Deleted::Going(left) => tenant.take_in_machine(left),
            Deleted::Gone | Deleted::Replaced => control.machines.cache.removed(&key, &machine.metadata.uid),
        }
    }
    for new in &plan.make {
        let new = NewMachine { ordinal: new.ordinal, zone: new.zone.as_deref() };
        let object: Value = make::machine(control.family, owner, reading, new);
        let made = control.create(&control.machines, &object).await;
        tenant.count_start(uid, made.is_ok());
        made?;
    }
    Ok(plan.deadline)
}

async fn keep_revision(tenant: &Tenant, pool: &Thing, reading: &Reading, number: u64) -> Result<(), Failed> {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    tenant.control.keep(&make::history(pool, reading, number)).await
}

/// Removes sets that are no longer kept.
async fn prune(tenant: &Tenant, pool: &Thing, names: &[String]) -> Result<(), Failed> {
    let control = &tenant.control;
    for name in names {
        let key = Key::new(pool.metadata.namespace(), name);
        if let Some(sets) = &control.sets
            && let Some(set) = sets.get(&key)
        {
            control.site.delete(&sets.resource, &key, &Delete::uid(&set.metadata.uid)).await?;
        } else {
            tenant.forget_revision(&pool.metadata.uid, name).await?;
        }
    }
    Ok(())
}

/// Says how far a pool is; when to say it, if that was done a moment ago.
async fn say(
    tenant: &Tenant,
    pool: &Thing,
    wish: &PoolWish,
    plan: &RolloutPlan,
    trouble: Option<&Failed>,
) -> Result<Option<Deadline>, Failed> {
    let Some(pools) = &tenant.control.pools else { return Ok(None) };
    let error = trouble.map(create_error);
    // Another look may have written since this one began.
    let Some(pool) = pools.get(&key_of(pool)) else { return Ok(None) };
    tell_trouble(tenant, pools, &pool, error.as_ref());
    let said = PoolStatus { error, ..PoolStatus::of(wish, plan) };
    let patch = families::pool_status(tenant.control.family, &pool, &said, tenant.clock.now());
    write(tenant, pools, &pool, patch).await
}

fn create_error(failed: &Failed) -> (&'static str, String) {
    (CREATE_ERROR, failed.to_string())
}

/// Tells that machines cannot be made, once for each reason.
fn tell_trouble(tenant: &Tenant, things: &Things, thing: &Thing, error: Option<&(&'static str, String)>) {
    let Some((reason, message)) = error else { return };
    let stands = serde_json::to_string(message).is_ok_and(|message| thing.status.contains(&message));
    if !stands {
        let happening = Happening { warning: true, reason, message: message.clone() };
        tenant.tell(&things.resource, thing, &happening);
    }
}

async fn say_of_set(
    tenant: &Tenant,
    set: &Thing,
    conditions: Vec<Condition>,
    trouble: Option<&Failed>,
) -> Result<Option<Deadline>, Failed> {
    let Some(sets) = &tenant.control.sets else { return Ok(None) };
    let Some(set) = sets.get(&key_of(set)) else { return Ok(None) };
    let counted = counted(tenant, &set);
    let error = trouble.map(create_error);
    tell_trouble(tenant, sets, &set, error.as_ref());
    let said = PoolStatus { updated: counted.replicas, conditions, error, ..counted };
    let patch = families::set_status(tenant.control.family, &set, &said, tenant.clock.now());
    write(tenant, sets, &set, patch).await
}

/// Writes a status, unless that was done a moment ago: a thousand machines that come are not a thousand writes.
async fn write(
    tenant: &Tenant,
    things: &Things,
    thing: &Thing,
    patch: Option<Value>,
) -> Result<Option<Deadline>, Failed> {
    let Some(patch) = patch else { return Ok(None) };
    if let Some(at) = tenant.said_lately(&thing.metadata.uid) {
        return Ok(Some(Deadline { at, of: "Status" }));
    }
    tenant.control.patch_status(things, &key_of(thing), &patch).await?;
    Ok(None)
}

/// Looks at a set that belongs to no pool: a changed template holds for new machines only.
pub(crate) async fn look_at_set(tenant: &Tenant, key: &Key) -> Outcome {
    let Some(sets) = &tenant.control.sets else { return Outcome::Done };
    let Some(set) = sets.get(key) else { return Outcome::Done };
    let leave = set.metadata.owner.is_some() || set.metadata.deleting.is_some();
    if leave || adoption::is_handed_back(tenant, &set) {
        return Outcome::Done;
    }
    let reading = match tenant.reading_of_set(&set) {
        Ok(reading) => reading,
        Err(unreadable) => return unusable(tenant, sets, &set, &unreadable.to_string()).await,
    };
    let wish = pool_wish(tenant.control.family, &set, &reading);
    if masters::is_control_plane(&reading) {
        if let Some(first) = masters::earlier(tenant, sets, &set) {
            return second_plane(tenant, sets, &set, &first).await;
        }
        let brought = masters::bring(tenant, sets, &set, &reading, &wish, None).await;
        let said = match &brought {
            Ok((_, etcd)) => say_of_set(tenant, &set, vec![etcd.clone()], None).await,
            Err(failed) => say_of_set(tenant, &set, Vec::new(), Some(failed)).await,
        };
        return match (brought, said) {
            (Ok((outcome, _)), Ok(later)) => sooner(outcome, later),
            _ => Outcome::Retry,
        };
    }
    let members = members(tenant, &set);
    let mut taken = BTreeSet::new();
    let to = Fill { size: wish.replicas, limit: None, leaving: false };
    let filled = fill(tenant, &set, &reading, &members, &wish, to, &mut taken).await;
    let said = match hints::write(tenant, sets, &set, &reading).await {
        Ok(()) => say_of_set(tenant, &set, Vec::new(), filled.as_ref().err()).await,
        Err(failed) => Err(failed),
    };
    match (filled, said) {
        (Ok(deadline), Ok(later)) => {
            Deadline::earlier(deadline, later).map_or(Outcome::Done, |deadline| Outcome::At(deadline.at))
        }
        (Err(failed), _) | (_, Err(failed)) => {
            tracing::debug!(set = %key.name(), %failed, "a set could not be brought to its wish");
            failed.outcome()
        }
    }
}

fn key_of(thing: &Thing) -> Key {
    thing.metadata.key.clone()
}

/// How making machines went, after one more.
pub(crate) fn after_start(starts: Starts, made: bool, now: jiff::Timestamp) -> Starts {
    if made { starts.made(1) } else { starts.failed(now) }
}

//! Health: which machines are sick, and which of them may be replaced now.
//!
//! A *ward* is a group of machines that is looked at as a whole: those a MachineHealthCheck selects, those of a
//! MachinePool whose annotations say what unhealthy means, or else those of one pool or set. Only a ward gives a machine
//! the right to be replaced, so that two machines which fail at the same moment cannot both take what was left of a limit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use trellis_model::quantity::Count;
use trellis_runtime::queue::Outcome;
use trellis_runtime::{Change, Key, Resource};

use super::cached::Cached;
use super::control::{Failed, Thing, Things};
use super::machine::lane;
use super::nodes::Node;
use super::tenant::Tenant;
use super::work::{COMING, Task};
use crate::families::health::{BadHealthCheck, HealthCheck};
use crate::families::{self, Object, TRELLIS, machine_seen, member};
use crate::machines::{Deadlines, MachineSeen, Phase, Record, SiteHealth};
use crate::pools::checkup::{Finding, NodeFound, Subject, examine};
use crate::pools::remedy::{self, Limits, Patient, REMEDIATION_ALLOWED, Remedies, Verdict};
use crate::pools::{MachineState, Member};
use crate::{Condition, Happening};

/// Why a check cannot be used.
const BAD_CHECK: &str = "InvalidConfiguration";
/// A machine is replaced because of a check.
const REMEDIATION: &str = "RemediationStarted";
/// What is said of a machine that failed, in every family.
const FAILED: &str = r#""phase":"Failed""#;
/// What stands for "never": far beyond the life of any machine.
const NEVER: SignedDuration = SignedDuration::from_hours(24 * 3650);

/// A group of machines that is looked at as a whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Ward {
    /// The machines of a MachineHealthCheck, or of a MachinePool with annotations.
    Check(Key),
    /// The machines of a pool, or of a set that stands alone, by its uid.
    Owner(String),
}

impl Ward {
    /// The name of the check, or the uid of the owner.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Check(key) => key.name(),
            Self::Owner(uid) => uid,
        }
    }
}

/// What a check comes to.
#[derive(Debug, Clone)]
enum Said {
    /// What unhealthy means, and how many may be.
    Check(Arc<HealthCheck>),
    /// Nothing now: it is paused, or cannot be read. Whoever wrote it wants no other rule for its machines.
    Withheld,
    /// It is none.
    None,
}

/// The version of a check that was read, and what it comes to.
type Read = (u64, Said);

/// What wards think of machines. It can be lost: it is found again.
#[derive(Default)]
pub(crate) struct Opinions {
    verdicts: Mutex<BTreeMap<Ward, BTreeMap<String, Verdict>>>,
    checks: Mutex<BTreeMap<Key, Read>>,
    /// What was last told of a ward.
    told: Mutex<BTreeMap<Ward, &'static str>>,
}

impl Opinions {
    /// Whether a machine may be replaced, or why not as far as that is known.
    pub(crate) fn rights(&self, uid: &str) -> (bool, Option<&'static str>) {
        let opinions = self.verdicts.lock();
        let mut all = opinions.values().filter_map(|ward| ward.get(uid)).peekable();
        let any = all.peek().is_some();
        match all.find(|verdict| **verdict != Verdict::Replace) {
            Some(verdict) => (false, verdict.held()),
            None => (any, None),
        }
    }

    /// Whether a health check has it replaced.
    pub(crate) fn is_sick(&self, uid: &str) -> bool {
        let opinions = self.verdicts.lock();
        let by_check = |(ward, machines): (&Ward, &BTreeMap<String, Verdict>)| {
            matches!(ward, Ward::Check(_)) && machines.get(uid) == Some(&Verdict::Replace)
        };
        opinions.iter().any(by_check)
    }

    fn concerns(&self, ward: &Ward) -> bool {
        self.verdicts.lock().contains_key(ward)
    }

    /// Takes in what a ward thinks now; whose verdict is another than before.
    fn think(&self, ward: &Ward, now: BTreeMap<String, Verdict>) -> Vec<String> {
        let mut opinions = self.verdicts.lock();
        let empty = BTreeMap::new();
        let before = opinions.get(ward).unwrap_or(&empty);
        let said = |verdict: Option<&Verdict>| verdict.map(Verdict::reason);
        let differs = |uid: &&String| said(before.get(*uid)) != said(now.get(*uid));
        let changed = before.keys().chain(now.keys()).filter(differs).cloned().collect();
        if now.is_empty() {
            opinions.remove(ward);
        } else {
            opinions.insert(ward.clone(), now);
        }
        changed
    }

    /// Forgets a check that is gone.
    pub(crate) fn forget(&self, check: &Key) {
        self.checks.lock().remove(check);
    }

    /// Whether this is news of a ward.
    fn is_news(&self, ward: &Ward, reason: &'static str) -> bool {
        self.told.lock().insert(ward.clone(), reason) != Some(reason)
    }

    /// What a check says, read once for each version of it.
    fn read(&self, family: &families::Family, object: &Object) -> Said {
        let meta = &object.metadata;
        let mut checks = self.checks.lock();
        if let Some((version, said)) = checks.get(&meta.key)
            && *version == meta.resource_version
        {
            return said.clone();
        }
        let said = said(family, object);
        checks.insert(meta.key.clone(), (meta.resource_version, said.clone()));
        said
    }
}

fn said(family: &families::Family, object: &Object) -> Said {
    match read(family, object) {
        Ok(Some(check)) => Said::Check(Arc::new(check)),
        Ok(None) if is_paused(family, object) => Said::Withheld,
        Ok(None) => Said::None,
        Err(_) => Said::Withheld,
    }
}

fn is_paused(family: &families::Family, object: &Object) -> bool {
    let paused = family.paused.iter().any(|key| object.metadata.annotations.is_on(key));
    paused && object.metadata.deleting.is_none()
}

fn read(family: &families::Family, object: &Object) -> Result<Option<HealthCheck>, BadHealthCheck> {
    if is_paused(family, object) || object.metadata.deleting.is_some() {
        return Ok(None);
    }
    if *family == TRELLIS { HealthCheck::of_pool(object) } else { HealthCheck::of_object(object).map(Some) }
}

/// The objects that hold checks: the family's own kind, or our pools.
fn checks(tenant: &Tenant) -> Option<&Things> {
    let control = &tenant.control;
    if *control.family == TRELLIS { control.pools.as_ref() } else { control.checks.as_ref() }
}

/// The checks that are about a machine.
fn checks_on(tenant: &Tenant, machine: &Object) -> Vec<(Key, Arc<HealthCheck>)> {
    let Some(things) = checks(tenant) else { return Vec::new() };
    let family = tenant.control.family;
    let read = |object: &Object| match tenant.health.read(family, object) {
        Said::Check(check) => Some((object.metadata.key.clone(), check)),
        Said::Withheld | Said::None => None,
    };
    if *family == TRELLIS {
        let Some(owner) = &machine.metadata.owner else { return Vec::new() };
        let pool = things.get(&Key::new(machine.metadata.namespace(), &owner.name));
        return pool.iter().filter_map(|pool| read(pool)).collect();
    }
    let all = things.cache.all();
    all.iter()
        .filter_map(|object| read(object))
        .filter(|(_, check)| check.selects(&machine.metadata.labels))
        .collect()
}

/// Whether a check is about a machine and says nothing now. It is not for the rules of all others to replace it then.
fn is_withheld(tenant: &Tenant, machine: &Object) -> bool {
    let Some(things) = checks(tenant) else { return false };
    let family = tenant.control.family;
    let withholds = |object: &Object| matches!(tenant.health.read(family, object), Said::Withheld);
    if *family == TRELLIS {
        let Some(owner) = &machine.metadata.owner else { return false };
        let pool = things.get(&Key::new(machine.metadata.namespace(), &owner.name));
        return pool.is_some_and(|pool| withholds(&pool));
    }
    let labels = &machine.metadata.labels;
    things.cache.all().iter().any(|object| withholds(object) && HealthCheck::may_select(object, labels))
}

/// How long each part of a machine's life may take: what a check says goes before what holds for all.
pub(crate) fn deadlines(tenant: &Tenant, machine: &Object) -> Deadlines {
    let mut deadlines = tenant.settings.deadlines;
    let Some((_, check)) = checks_on(tenant, machine).into_iter().next() else { return deadlines };
    let limit = |limit: Duration| SignedDuration::try_from(limit).unwrap_or(NEVER).min(NEVER);
    let unready = check.unhealthy.iter().filter(|rule| rule.kind == "Ready" && rule.status != "True");
    if let Some(longest) = unready.map(|rule| rule.timeout).max() {
        deadlines.unready = limit(longest);
    }
    deadlines.joining = check.startup.map_or(NEVER, limit);
    deadlines
}

// What changes concern.

/// A machine has changed: its wards are looked at.
pub(crate) fn machine_changed(tenant: &Tenant, change: &Change<Object>) {
    for machine in change.both().filter(|machine| tenant.is_ours(machine)) {
        name_checks(tenant, machine);
        let Some((_, owner)) = root(tenant, machine) else { continue };
        let ward = Ward::Owner(owner);
        if machine.status.contains(FAILED) || tenant.health.concerns(&ward) {
            tenant.queue.add(&Task::Ward(ward), COMING);
        }
    }
}

/// The Node of a machine has changed.
pub(crate) fn node_changed(tenant: &Tenant, machine: &str) {
    if let Some(machine) = tenant.control.machines.get(&Key::new(&tenant.control.namespace, machine)) {
        name_checks(tenant, &machine);
    }
}

/// Names all wards: at the start, and when a site comes back or goes away.
pub(crate) fn name_all(tenant: &Tenant) {
    if let Some(things) = checks(tenant) {
        for object in things.cache.all() {
            tenant.queue.add(&Task::Ward(Ward::Check(object.metadata.key.clone())), COMING);
        }
    }
    let known: Vec<Ward> = tenant.health.verdicts.lock().keys().cloned().collect();
    let is_failed = |machine: &Object| machine.status.contains(FAILED) && tenant.is_ours(machine);
    let failed = tenant.control.machines.cache.filter(is_failed);
    let owners = failed.iter().filter_map(|machine| root(tenant, machine)).map(|(_, uid)| Ward::Owner(uid));
    for ward in known.into_iter().chain(owners) {
        tenant.queue.add(&Task::Ward(ward), COMING);
    }
}

fn name_checks(tenant: &Tenant, machine: &Object) {
    for (key, _) in checks_on(tenant, machine) {
        tenant.queue.add(&Task::Ward(Ward::Check(key)), COMING);
    }
}

/// Names all wards of owners that think something: what a check withholds is not theirs to give, and what it held back
/// may be.
fn name_owners(tenant: &Tenant) {
    let opinions = tenant.health.verdicts.lock();
    for ward in opinions.keys().filter(|ward| matches!(ward, Ward::Owner(_))) {
        tenant.queue.add(&Task::Ward(ward.clone()), COMING);
    }
}

/// The pool or set that a machine belongs to in the end: the object where it is known, and its uid.
fn root(tenant: &Tenant, machine: &Object) -> Option<(Option<(Resource, Thing)>, String)> {
    let control = &tenant.control;
    let owner = machine.metadata.owner.as_ref()?;
    let key = Key::new(machine.metadata.namespace(), &owner.name);
    let of_kind = |things: &Option<Things>, kind: &str, key: &Key| {
        let things = things.as_ref().filter(|things| things.resource.kind == kind)?;
        things.get(key).map(|thing| (things.resource, thing))
    };
    let Some((resource, set)) = of_kind(&control.sets, &owner.kind, &key) else {
        return Some((of_kind(&control.pools, &owner.kind, &key), owner.uid.to_string()));
    };
    match &set.metadata.owner {
        Some(pool) => {
            let key = Key::new(machine.metadata.namespace(), &pool.name);
            Some((of_kind(&control.pools, &pool.kind, &key), pool.uid.to_string()))
        }
        None => Some((Some((resource, Arc::clone(&set))), set.metadata.uid.to_string())),
    }
}

// Looking at wards.

/// Looks at a ward: examines its machines, decides which may be replaced, and says so.
pub(crate) async fn look(tenant: &Tenant, ward: &Ward) -> Outcome {
    let looked = match ward {
        Ward::Check(key) => look_at_check(tenant, ward, key).await,
        Ward::Owner(uid) => {
            look_at_owner(tenant, ward, uid);
            Ok(None)
        }
    };
    match looked {
        Ok(next) => next.map_or(Outcome::Done, Outcome::At),
        Err(failed) => {
            tracing::debug!(?ward, %failed, "the status of a health check cannot be written");
            failed.outcome()
        }
    }
}

async fn look_at_check(tenant: &Tenant, ward: &Ward, key: &Key) -> Result<Option<Timestamp>, Failed> {
    let control = &tenant.control;
    let Some(things) = checks(tenant) else { return Ok(None) };
    // A namespace may hold several tenants, each with pools of its own.
    let Some(object) = things.get(key).filter(|object| tenant.is_ours(object)) else {
        publish(tenant, ward, &[], &BTreeMap::new());
        return Ok(None);
    };
    let check = match read(control.family, &object) {
        Ok(Some(check)) => check,
        Ok(None) => {
            publish(tenant, ward, &[], &BTreeMap::new());
            name_owners(tenant);
            return withdraw(tenant, things, &object).await.map(|()| None);
        }
        Err(bad) => {
            publish(tenant, ward, &[], &BTreeMap::new());
            name_owners(tenant);
            let condition = Condition {
                kind: REMEDIATION_ALLOWED,
                holds: Some(false),
                reason: BAD_CHECK,
                message: bad.to_string(),
            };
            return say(tenant, things, ward, &object, Err(&condition)).await.map(|()| None);
        }
    };
    let machines = if *control.family == TRELLIS {
        control.machines.of_owner(&object.metadata.uid)
    } else {
        control.machines.cache.filter(|machine| check.selects(&machine.metadata.labels))
    };
    let now = tenant.clock.now();
    let mut next: Option<Timestamp> = None;
    let mut cases: Vec<(Member, bool, bool)> = Vec::new();
    let mut whys = BTreeMap::new();
    for machine in &machines {
        let finding = found(tenant, &check, machine, now);
        let paused = families::flags(control.family, machine).paused;
        if let Finding::Ailing { due: Some(due) } = finding {
            next = Some(next.map_or(due, |next| next.min(due)));
        }
        let well = finding == Finding::Well;
        if let Finding::Sick { why } = finding {
            whys.insert(machine.metadata.name().to_owned(), why);
        }
        let sick = !paused && whys.contains_key(machine.metadata.name());
        cases.push((member(control.family, machine), sick, !well));
    }
    let limits = Limits { max_unhealthy: check.max_unhealthy, ..Limits::default() };
    let remedies = decided(tenant, &limits, &cases);
    let new = publish(tenant, ward, &machines, &remedies.verdicts);
    for machine in new {
        let name = machine.metadata.name();
        if remedies.verdicts.get(name) == Some(&Verdict::Replace) {
            let why = whys.get(name).map(String::as_str).unwrap_or_default();
            let message = format!("machine {name} is replaced: {why}");
            let happening = Happening { warning: true, reason: REMEDIATION, message };
            tenant.tell(&things.resource, &object, &happening);
        }
    }
    say(tenant, things, ward, &object, Ok(&remedies)).await?;
    Ok(next)
}

/// Machines that failed by themselves and that no check is about.
fn look_at_owner(tenant: &Tenant, ward: &Ward, uid: &str) {
    let control = &tenant.control;
    let mut machines = control.machines.of_owner(uid);
    for set in control.sets.iter().flat_map(|sets| sets.of_owner(uid)) {
        machines.extend(control.machines.of_owner(&set.metadata.uid));
    }
    let case = |machine: &Thing| {
        let member = member(control.family, machine);
        let failed = member.state == MachineState::Failed;
        let ready = matches!(member.state, MachineState::Ready(_));
        (member, failed, !ready)
    };
    let cases: Vec<(Member, bool, bool)> = machines.iter().map(case).collect();
    let counted = cases.iter().filter(|(member, ..)| !member.preserved).count();
    let most = (counted * tenant.settings.max_unhealthy_percent / 100).max(1);
    let max_unhealthy = Count::Absolute(u32::try_from(most).unwrap_or(u32::MAX));
    let remedies = decided(tenant, &Limits { max_unhealthy, ..Limits::default() }, &cases);
    let mut verdicts = remedies.verdicts;
    for machine in &machines {
        if !checks_on(tenant, machine).is_empty() || is_withheld(tenant, machine) {
            verdicts.remove(machine.metadata.name());
        }
    }
    let held = verdicts.values().find(|verdict| verdict.held().is_some() && **verdict != Verdict::Preserved);
    let held = held.map(|verdict| (verdict.reason(), verdict.to_string()));
    publish(tenant, ward, &machines, &verdicts);
    let Some((reason, message)) = held else {
        tenant.health.told.lock().remove(ward);
        return;
    };
    if tenant.health.is_news(ward, reason)
        && let Some((Some((resource, owner)), _)) = machines.first().and_then(|one| root(tenant, one))
    {
        tenant.tell(&resource, &owner, &Happening { warning: true, reason, message });
    }
}

fn decided(tenant: &Tenant, limits: &Limits, cases: &[(Member, bool, bool)]) -> Remedies {
    let patients: Vec<Patient<'_>> =
        cases.iter().map(|(member, sick, ailing)| Patient { member, sick: *sick, ailing: *ailing }).collect();
    remedy::plan(limits, &tenant.sites(), &patients)
}

/// Makes known what a ward thinks, and has the machines looked at for whom that is news; gives them.
fn publish(
    tenant: &Tenant,
    ward: &Ward,
    machines: &[Thing],
    verdicts: &BTreeMap<String, Verdict>,
) -> Vec<Thing> {
    let of = |machine: &Thing| {
        let verdict = verdicts.get(machine.metadata.name())?;
        Some((machine.metadata.uid.to_string(), verdict.clone()))
    };
    let changed = tenant.health.think(ward, machines.iter().filter_map(of).collect());
    let is_news = |machine: &&Thing| changed.iter().any(|uid| **uid == *machine.metadata.uid);
    let news: Vec<Thing> = machines.iter().filter(is_news).cloned().collect();
    for machine in &news {
        tenant.queue.add(&Task::Machine(machine.metadata.name().to_owned()), lane(machine));
    }
    news
}

/// What a check finds of one machine.
fn found(tenant: &Tenant, check: &HealthCheck, machine: &Thing, now: Timestamp) -> Finding {
    let family = tenant.control.family;
    let seen = machine_seen(family, machine);
    if seen.deleting.is_some() {
        return Finding::Well;
    }
    let node = node_of(tenant, &seen);
    let asked = tenant.sites().tenant == SiteHealth::Up;
    let node = match (&node, asked) {
        (_, false) => NodeFound::NotAsked,
        (Some(node), true) => NodeFound::Here(&node.conditions),
        (None, true) if seen.record.node.is_some() => NodeFound::Gone,
        (None, true) => NodeFound::Never,
    };
    let subject = Subject {
        state: member(family, machine).state,
        stage: seen.record.stage,
        created: seen.created,
        in_doubt: seen.record.phase.is_some_and(|(phase, _)| phase == Phase::Unknown),
        node,
        calm_since: tenant.calm_since(),
    };
    examine(check, &subject, now)
}

/// The Node of a machine: the one it was linked to, or one that its firmware's identifier vouches for.
fn node_of(tenant: &Tenant, seen: &MachineSeen) -> Option<Arc<Cached<Node>>> {
    let Record { node: linked, firmware_uuid, .. } = &seen.record;
    let guests = tenant.guests.as_ref()?;
    let linked =
        linked.as_ref().and_then(|(name, uid)| guests.node(name).filter(|node| node.seen.uid == *uid));
    linked.or_else(|| guests.node_of_system(firmware_uuid.as_ref()?))
}

/// Writes the status of a check, or the condition of a pool, if it differs; and tells when it cannot act.
async fn say(
    tenant: &Tenant,
    things: &Things,
    ward: &Ward,
    object: &Thing,
    said: Result<&Remedies, &Condition>,
) -> Result<(), Failed> {
    let now = tenant.clock.now();
    let condition = match said {
        Ok(remedies) => &remedies.condition,
        Err(condition) => condition,
    };
    let patch = match said {
        Ok(remedies) if *tenant.control.family != TRELLIS => families::check_status(object, remedies, now),
        _ => families::condition_status(object, condition, now),
    };
    let Some(patch) = patch else { return Ok(()) };
    tenant.control.patch_status(things, &object.metadata.key, &patch).await?;
    let (reason, warning) = (condition.reason, condition.reason != remedy::WITHIN_LIMITS);
    if tenant.health.is_news(ward, reason) && warning {
        let message = condition.message.clone();
        tenant.tell(&things.resource, object, &Happening { warning, reason, message });
    }
    Ok(())
}

/// Takes back what was said of a pool that says no longer what unhealthy means.
async fn withdraw(tenant: &Tenant, things: &Things, object: &Thing) -> Result<(), Failed> {
    let Some(patch) = families::without_condition(object, REMEDIATION_ALLOWED) else { return Ok(()) };
    tenant.control.patch_status(things, &object.metadata.key, &patch).await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::families::KKP;

    fn check(annotations: &Value, spec: &Value) -> Object {
        let metadata = json!({
            "name": "workers", "namespace": "kube-system", "uid": "u", "resourceVersion": "1",
            "creationTimestamp": "2026-11-16T10:00:00Z", "annotations": annotations,
        });
        Object::from_json(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn a_check_that_is_paused_or_cannot_be_read_withholds_what_others_would_do() {
        let good = json!({"selector": {"matchLabels": {"pool": "workers"}}, "maxUnhealthy": "40%"});
        let bad = json!({"selector": {"matchLabels": {"pool": "workers"}}, "maxUnhealthy": "many"});
        let elsewhere = json!({"selector": {}, "remediationTemplate": {"name": "reboot"}});
        let on = json!({KKP.paused[0]: "true"});
        assert!(matches!(said(&KKP, &check(&json!({}), &good)), Said::Check(_)));
        for (annotations, spec) in [(&on, &good), (&json!({}), &bad), (&json!({}), &elsewhere)] {
            assert!(matches!(said(&KKP, &check(annotations, spec)), Said::Withheld), "{spec}");
        }
        let pool = check(&json!({}), &json!({}));
        assert!(
            matches!(said(&TRELLIS, &pool), Said::None),
            "a pool that says nothing has the rules of all others"
        );
    }
}

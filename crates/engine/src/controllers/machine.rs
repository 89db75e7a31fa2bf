//! The controller of single machines: observe, plan, execute.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use trellis_platform::{Action, Failure, Observation, Platform as _, Wish};
use trellis_runtime::Key;
use trellis_runtime::client::{Delete, Deleted};
use trellis_runtime::queue::Outcome;

use super::adoption;
use super::control::{self, Failed, Found, Thing};
use super::health;
use super::masters;
use super::nodes::VmName;
use super::saying::{self, News};
use super::tenant::{BudgetUsedUp, Tenant};
use super::work::{COMING, GOING, Task};
use crate::families::user_data::{self, Source};
use crate::families::{
    self, Object, Reading, add_finalizer, machine_seen, remove_finalizer, set_provider_id,
};
use crate::machines::{
    Blocked, Input, MachinePlan, MachineSeen, NodeSeen, OwnedNodeMeta, Phase, PodSeen, Rights, Step, plan,
};

/// How often a machine is planned in one look: what one plan made possible the next one does at once, so that phases
/// that pass within a moment are written once.
const ROUNDS: usize = 6;

/// Why a look did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// A site did not do what was asked.
    #[error(transparent)]
    Site(#[from] trellis_runtime::client::Error),
    /// The platform did not do what was asked.
    #[error(transparent)]
    Platform(#[from] Failure),
    /// The platform did not do a step of a machine.
    #[error("{}: {failure}", doing(action))]
    Step {
        /// What was asked.
        action: Box<Action>,
        /// Why it was not done.
        failure: Failure,
    },
}

/// What an action does, for people.
pub(crate) fn doing(action: &Action) -> &'static str {
    match action {
        Action::StoreUserData(_) => "storing its user data",
        Action::Create(_) => "making its VM",
        Action::Update(_) => "changing its VM",
        Action::Migrate { .. } => "moving it to another host",
        Action::CancelMigration { .. } => "taking back its move",
        Action::StopInstance { .. } => "stopping its run",
        Action::Delete { .. } => "removing its VM",
        Action::DeleteVolume { .. } => "removing a volume of it",
        Action::EraseUserData { .. } => "erasing its user data",
    }
}

/// Whether an action is part of making a machine: its plan says when that is tried again.
pub(crate) fn makes(action: &Action) -> bool {
    matches!(action, Action::StoreUserData(_) | Action::Create(_))
}

impl Trouble {
    /// When the server wants to be asked again, if it said so.
    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Site(error) => error.retry_after(),
            Self::Platform(_) | Self::Step { .. } => None,
        }
    }
}

/// Where it is said that a step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureWeight<'a> {
    /// Nowhere: it is decided anew.
    None,
    /// In the status, until it works. It may work the next time, but a webhook that is down is so for long.
    Status,
    /// In an Event, too: somebody has to do something.
    Event(&'a str),
}

/// How much the failure of a step is worth saying.
pub(crate) fn weight_of(failure: &Failure) -> FailureWeight<'_> {
    match failure {
        Failure::Refused(why) | Failure::NoRoom(why) | Failure::Forbidden(why) => FailureWeight::Event(why),
        Failure::Unclear(_) => FailureWeight::Status,
        Failure::Outdated(_) => FailureWeight::None,
    }
}

impl From<Failed> for Trouble {
    fn from(failed: Failed) -> Self {
        Self::Site(failed.0)
    }
}

/// Looks at a machine: brings it one step or several further, and says where it is.
pub(crate) async fn look(tenant: &Tenant, name: &str) -> Outcome {
    let key = Key::new(&tenant.control.namespace, name);
    let Some(mut machine) = tenant.control.machines.get(&key) else {
        tenant.forget_machine(name);
        return Outcome::Done;
    };
    if !tenant.is_ours(&machine) {
        return Outcome::Done;
    }
    if let Some(outcome) = adoption::look(tenant, &machine).await {
        return outcome;
    }
    tenant.infra.prove_hosts(name).await;
    let Some(now) = tenant.control.machines.get(&key) else { return Outcome::Done };
    machine = now;
    let mut retry = false;
    let mut asked = None;
    let mut rounds = 0;
    let mut news = News::default();
    let plan = loop {
        rounds += 1;
        let plan = decide(tenant, &machine);
        news.add(&plan);
        let outcome = carry_out(tenant, &machine, &plan).await;
        let Some(now) = tenant.control.machines.get(&key) else {
            tenant.forget_machine(name);
            return Outcome::Done;
        };
        machine = now;
        if outcome.is_ok() {
            tenant.step_done(name);
        }
        match outcome {
            Ok(false) => break plan,
            Ok(true) if rounds < ROUNDS => {}
            Ok(true) => break decide(tenant, &machine),
            Err(trouble) => {
                retry = tenant.machine_failed(&machine, &trouble);
                asked = trouble.retry_after();
                break decide(tenant, &machine);
            }
        }
    };
    news.add(&plan);
    attend_drain(tenant, &machine, &plan, retry);
    let due = saying::say(tenant, &machine, &plan, &news).await.unwrap_or_else(|trouble| {
        tracing::debug!(machine = name, %trouble, "the status cannot be written");
        retry = true;
        None
    });
    match plan.wake.map(|deadline| deadline.at).into_iter().chain(due).min() {
        _ if retry => control::again(asked),
        Some(then) => Outcome::At(then),
        None => Outcome::Done,
    }
}

/// Which lane a machine takes.
pub(crate) fn lane(machine: &Object) -> usize {
    if machine.metadata.deleting.is_some() { GOING } else { COMING }
}

/// Everything a plan looks at, held while it does.
struct Seen {
    machine: MachineSeen,
    wish: Result<Arc<Wish>, Blocked>,
    may_change: bool,
    node_wish: OwnedNodeMeta,
    observation: Observation,
    node: Option<NodeSeen>,
    pods: Option<Vec<PodSeen>>,
}

fn decide(tenant: &Tenant, machine: &Thing) -> MachinePlan {
    let family = tenant.control.family;
    let now = tenant.clock.now();
    let reading = tenant.reading_of(machine);
    let wish = wish(tenant, machine, &reading);
    let said = tenant.sayings.with(machine);
    let mut seen = machine_seen(family, said.as_ref().unwrap_or(machine));
    seen.recorded = said.is_none();
    if let Some((times, last, why)) = tenant.failures(&machine.metadata.uid) {
        seen.record.create_failures = (times, last);
        seen.create_trouble = Some(why);
    }
    seen.flags.unhealthy |= tenant.health.is_sick(&machine.metadata.uid);
    let observation = tenant.infra.observe(&seen.name, wish.as_ref().ok().map(Arc::as_ref));
    let node = tenant.guests.as_ref().and_then(|guests| {
        let linked = seen.record.node.as_ref().map(|(name, _)| name.as_str());
        let shown = observation.vm.as_ref().and_then(|vm| vm.firmware_uuid.as_deref());
        let uuid = shown.or(seen.record.firmware_uuid.as_deref());
        // A kubelet may call itself by another name than its machine's, such as one with its domain.
        let by_firmware = || uuid.and_then(|uuid| guests.node_of_system(uuid));
        linked.and_then(|name| guests.node(name)).or_else(by_firmware).or_else(|| guests.node(&seen.name))
    });
    let node = node.map(|node| node.seen.clone());
    let pods = node.as_ref().and_then(|node| tenant.guests.as_ref()?.pods(&node.name));
    let pool = tenant.reading_of_its_pool(machine);
    let may_change = reading.as_ref().is_ok_and(|own| families::is_present(machine, own, pool.as_deref()));
    let node_wish = match (&reading, &node) {
        (Ok(reading), _) => families::node_wish(family, machine, reading, pool.as_deref()),
        // What cannot be read changes nothing.
        (Err(_), Some(node)) => node.ours.clone(),
        (Err(_), None) => OwnedNodeMeta::default(),
    };
    let all = Seen { machine: seen, wish, may_change, node_wish, observation, node, pods };
    let mut plan = plan_of(tenant, machine, &all, tenant.may_disrupt(machine), now);
    if tenant.disrupts(machine, &plan) == Err(BudgetUsedUp) {
        // Somebody else was quicker: what two looks were both promised only one may have.
        plan = plan_of(tenant, machine, &all, false, now);
    }
    if let Some(trouble) = tenant.step_trouble(machine.metadata.name()) {
        plan.status.message = format!("{}; {trouble}", plan.status.message);
    }
    plan
}

fn plan_of(tenant: &Tenant, machine: &Thing, seen: &Seen, may_disrupt: bool, now: Timestamp) -> MachinePlan {
    let held = masters::held(tenant, machine);
    let (may_replace, kept) = tenant.health.rights(&machine.metadata.uid);
    let deadlines = health::deadlines(tenant, machine);
    let input = Input {
        machine: &seen.machine,
        wish: seen.wish.as_ref(),
        node_wish: &seen.node_wish,
        platform: &seen.observation,
        node: seen.node.as_ref(),
        pods: seen.pods.as_deref(),
        sites: tenant.sites(),
        calm_since: tenant.calm_since(),
        deadlines: &deadlines,
        provider_id: tenant.control.family.provider_id,
        cluster: &tenant.infra.cluster,
        infra_namespace: &tenant.infra.namespace,
        rights: Rights {
            in_set: machine.metadata.owner.is_some(),
            // Which machine of a control plane goes, its own plan decides.
            may_replace: may_replace && !masters::is_master(tenant, machine),
            held: kept,
            may_disrupt,
            may_change: seen.may_change,
        },
        held: held.as_deref(),
    };
    plan(&input, now)
}

/// What the machine is to be, or why nothing can be made.
fn wish(
    tenant: &Tenant,
    machine: &Thing,
    reading: &Result<Arc<Reading>, families::Unreadable>,
) -> Result<Arc<Wish>, Blocked> {
    let reading = reading.as_ref().map_err(|unreadable| Blocked::BadSpec(unreadable.to_string()))?;
    if let Some(missing) = tenant.not_prepared() {
        return Err(Blocked::ClusterMissing(missing));
    }
    let family = tenant.control.family;
    if let Some(own) = masters::user_data(tenant, machine) {
        let pool = tenant.reading_of_its_pool(machine);
        return Ok(Arc::new(families::wish(family, machine, reading, pool.as_deref(), Some(own?))));
    }
    let set = tenant.set_of(machine);
    let pool = tenant.pool_name_of(machine);
    let source = user_data::source(family, machine, set.as_deref(), pool.as_deref(), reading);
    let secret = match &source {
        Source::Pool => None,
        Source::Secret { namespace, name, .. } => {
            let key = Key::new(namespace, name);
            match tenant.secret(&key, machine.metadata.name()) {
                Found::Here(secret) => Some(secret),
                Found::Absent => None,
                Found::Unknown => {
                    let message = format!("looking at the Secret {name} with the user data");
                    return Err(Blocked::UserDataMissing(message));
                }
            }
        }
    };
    let user_data = user_data::user_data(
        family,
        machine.metadata.name(),
        &source,
        secret.as_ref().map(|secret| &secret.0),
    )
    .map_err(|missing| Blocked::UserDataMissing(missing.to_string()))?;
    let pool = tenant.reading_of_its_pool(machine);
    Ok(Arc::new(families::wish(family, machine, reading, pool.as_deref(), user_data)))
}

/// Does the steps of a plan, in order; whether there were any.
async fn carry_out(tenant: &Tenant, machine: &Thing, plan: &MachinePlan) -> Result<bool, Trouble> {
    let mut steps = plan.steps.iter().peekable();
    let any = steps.peek().is_some();
    while let Some(step) = steps.next() {
        // The finalizer and the provider id are one request.
        let joined = match (step, steps.peek()) {
            (Step::AddFinalizer, Some(Step::SetProviderId(id))) => Some(id.clone()),
            _ => None,
        };
        match joined {
            Some(id) => {
                steps.next();
                claim(tenant, machine, &id).await?;
            }
            None => take(tenant, machine, plan, step).await?,
        }
    }
    Ok(any)
}

async fn claim(tenant: &Tenant, machine: &Thing, id: &str) -> Result<(), Trouble> {
    let control = &tenant.control;
    let key = machine.metadata.key.clone();
    let mut patch = serde_json::json!({});
    for part in [add_finalizer(machine), set_provider_id(machine, id)].into_iter().flatten() {
        merge(&mut patch, part);
    }
    Ok(control.patch(&control.machines, &key, &patch).await?)
}

/// Lays one patch over another.
fn merge(patch: &mut serde_json::Value, other: serde_json::Value) {
    match (patch, other) {
        (serde_json::Value::Object(patch), serde_json::Value::Object(other)) => {
            for (key, value) in other {
                merge(patch.entry(key).or_insert(serde_json::Value::Null), value);
            }
        }
        (patch, other) => *patch = other,
    }
}

async fn take(tenant: &Tenant, machine: &Thing, plan: &MachinePlan, step: &Step) -> Result<(), Trouble> {
    let control = &tenant.control;
    let meta = &machine.metadata;
    let key = meta.key.clone();
    match step {
        Step::AddFinalizer | Step::RemoveFinalizer => {
            // Another step may have changed it since.
            let Some(machine) = control.machines.get(&key) else { return Ok(()) };
            let patch = if matches!(step, Step::AddFinalizer) {
                add_finalizer(&machine)
            } else {
                remove_finalizer(&machine)
            };
            if let Some(patch) = patch {
                control.patch(&control.machines, &key, &patch).await?;
            }
        }
        Step::SetProviderId(id) => {
            if let Some(patch) = set_provider_id(machine, id) {
                control.patch(&control.machines, &key, &patch).await?;
            }
        }
        Step::Platform(action) => {
            let acted = tenant.infra.act(action.clone()).await;
            acted.map_err(|failure| Trouble::Step { action: Box::new(action.clone()), failure })?;
            if matches!(action, Action::Create(_)) {
                tenant.machine_made(machine);
            }
        }
        Step::DeleteMachine => {
            let deleted =
                control.site.delete(&control.machines.resource, &key, &Delete::uid(&meta.uid)).await?;
            if let Deleted::Going(left) = deleted {
                tenant.take_in_machine(left);
            }
        }
        tenants => {
            if let Some(guests) = &tenant.guests {
                let node = plan.status.record.node.as_ref().map_or("", |(name, _)| name.as_str());
                on_tenant(guests, node, tenants, tenant.clock.now()).await?;
            }
        }
    }
    Ok(())
}

pub(super) async fn on_tenant(
    guests: &super::guests::Guests,
    drained: &str,
    step: &Step,
    now: Timestamp,
) -> trellis_runtime::client::Result<()> {
    match step {
        Step::UpdateNode { node, provider_id, vm_uid, infra_namespace, wish, before, .. } => {
            let vm = VmName { uid: vm_uid, namespace: infra_namespace };
            guests.link(node, provider_id.as_deref(), vm, wish, before).await
        }
        Step::Cordon { node, uid, cordoned, vm_uid } => {
            guests.cordon(node, uid, *cordoned, vm_uid.as_deref()).await
        }
        Step::Evict { namespace, pod, uid } => {
            guests.evict(drained, &Key::new(namespace, pod), uid, now).await
        }
        Step::DeletePod { namespace, pod, uid, force } => {
            guests.delete_pod(drained, &Key::new(namespace, pod), uid, *force).await
        }
        Step::DeleteNode { node, uid } => {
            guests.leave(node);
            guests.delete_node(node, uid).await
        }
        _ => Ok(()),
    }
}

/// Looks at the pods of a Node for as long as it is drained; and on while a step after that fails: whoever had to learn
/// them anew for each try would not wait between tries.
fn attend_drain(tenant: &Tenant, machine: &Object, plan: &MachinePlan, failing: bool) {
    let Some(guests) = &tenant.guests else { return };
    let Some((node, _)) = &plan.status.record.node else { return };
    if plan.status.phase == Phase::Draining {
        let (queue, task) = (tenant.queue.clone(), Task::Machine(machine.metadata.name().to_owned()));
        guests.attend(node, &tenant.watches, move || queue.add(&task, GOING));
    } else if !failing {
        guests.leave(node);
    }
}

/// Two patches as one.
pub(crate) fn merged(mut patch: serde_json::Value, other: serde_json::Value) -> serde_json::Value {
    merge(&mut patch, other);
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_a_server_failed_over_is_said_without_an_event() {
        let why = || "virtualmachine m: failed calling webhook".to_owned();
        assert_eq!(weight_of(&Failure::Unclear(why())), FailureWeight::Status);
        assert_eq!(weight_of(&Failure::Refused(why())), FailureWeight::Event(&why()));
        assert_eq!(weight_of(&Failure::Outdated(why())), FailureWeight::None);
    }
}

//! Machines of other controllers: taken over as they are, and handed back as they were.

use trellis_platform::Platform as _;
use trellis_runtime::queue::Outcome;

use super::control::Thing;
use super::machine::Trouble;
use super::tenant::Tenant;
use crate::Happening;
use crate::families::{Object, adoption, machine_seen};
use crate::machines::{SiteHealth, owns};

/// A machine that others made is not taken over.
const NOT_ADOPTED: &str = "NotAdopted";

/// Whether people gave a set or a pool back to the controller of its family.
pub(crate) fn is_handed_back(tenant: &Tenant, thing: &Object) -> bool {
    // There is nobody else to look after machines of our own family.
    !tenant.control.family.foreign_finalizers.is_empty() && adoption::is_handed_back([thing])
}

/// Takes a machine over that another controller made, or hands it back; nothing where it is to be looked after.
pub(crate) async fn look(tenant: &Tenant, machine: &Thing) -> Option<Outcome> {
    // No finalizer can be put on what is going: whoever has it, keeps it.
    if machine.metadata.deleting.is_some() {
        return None;
    }
    let done = if belongs_to_others(tenant, machine) {
        hand_back(tenant, machine).await.map(|()| Some(Outcome::Done))
    } else {
        take_over(tenant, machine).await
    };
    done.unwrap_or_else(|trouble| {
        tracing::debug!(machine = machine.metadata.name(), %trouble, "it could not change hands");
        Some(Outcome::Retry)
    })
}

/// Whether people gave a machine back, or its set, or its pool.
fn belongs_to_others(tenant: &Tenant, machine: &Thing) -> bool {
    let set = tenant.set_of(machine);
    let pool = tenant.pool_of(machine);
    let all = [Some(machine), set.as_ref(), pool.as_ref()];
    all.into_iter().flatten().any(|thing| is_handed_back(tenant, thing))
}

/// Takes a machine over that is recognised. One that is not keeps the finalizers of whoever made it: they alone know
/// what to remove when it goes.
async fn take_over(tenant: &Tenant, machine: &Thing) -> Result<Option<Outcome>, Trouble> {
    let control = &tenant.control;
    let Some(patch) = adoption::take_over(control.family, machine) else { return Ok(None) };
    if let Some(why) = stranger(tenant, machine) {
        let message = format!("it stays with {}: {why}", control.family.foreign_controller);
        let happening = Happening { warning: true, reason: NOT_ADOPTED, message };
        tenant.tell(&control.machines.resource, machine, &happening);
        return Ok(Some(Outcome::Done));
    }
    control.patch(&control.machines, &machine.metadata.key, &patch).await?;
    Ok(None)
}

/// Why a machine that others made cannot be looked after here.
fn stranger(tenant: &Tenant, machine: &Thing) -> Option<String> {
    if let Err(unreadable) = tenant.reading_of(machine) {
        return Some(unreadable.to_string());
    }
    let (family, infra) = (tenant.control.family, &tenant.infra);
    let seen = machine_seen(family, machine);
    match infra.observe(&seen.name, None).vm {
        Some(vm) if owns(&seen, &vm, &infra.cluster, &infra.namespace, family.provider_id) => None,
        Some(_) => Some(format!("the VM of its name in {} is not its own", infra.namespace)),
        // What is not seen is not there only if somebody answers, and if nothing says that it must be somewhere.
        None if tenant.sites().infra != SiteHealth::Up => Some("the infra site does not answer".to_owned()),
        None if seen.record.node.is_some() => {
            Some(format!("it has a Node, and there is no VM of its name in {}", infra.namespace))
        }
        None => None,
    }
}

/// The finalizers come last: as long as ours is there, something may be left to do.
async fn hand_back(tenant: &Tenant, machine: &Thing) -> Result<(), Trouble> {
    let control = &tenant.control;
    let key = machine.metadata.key.clone();
    tenant.infra.hand_back(machine.metadata.name()).await?;
    if let Some(patch) = adoption::forget(machine) {
        control.patch_status(&control.machines, &key, &patch).await?;
    }
    let Some(machine) = control.machines.get(&key) else { return Ok(()) };
    if let Some(patch) = adoption::hand_back(control.family, &machine) {
        control.patch(&control.machines, &key, &patch).await?;
    }
    Ok(())
}

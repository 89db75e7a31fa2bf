//! The bounds of a pool: how many machines there may be, and how many there have to be.

use trellis_infra::object::Object as _;

use super::making::is_vm;
use super::removing::{host_of, node_of};
use crate::trace::{Change, Place, Snapshot, State};

/// The label of the pool a machine belongs to.
const POOL: &str = "trellis.dev/pool";

/// A pool's bounds: how many machines it is to have, how many more it may, and how many may be missing.
struct Bounds {
    replicas: usize,
    surge: usize,
    unavailable: usize,
}

fn bounds(state: &State, pool: &str) -> Option<Bounds> {
    let pool = state.named(Place::World, "machinepools", pool).filter(|pool| !pool.deleting())?.json();
    let number = |pointer: &str| pool.number(pointer).and_then(|number| usize::try_from(number).ok());
    Some(Bounds {
        replicas: number("/spec/replicas")?,
        surge: number("/spec/update/maxSurge")?,
        unavailable: number("/spec/update/maxUnavailable")?,
    })
}

/// The pool of a Machine.
fn pool_of(machine: &Snapshot) -> Option<&str> {
    machine.record.index.owners.iter().find(|owner| owner.kind == "MachinePool").map(|owner| &*owner.name)
}

/// Nothing is made beyond what a pool may have; what is going still takes its place.
pub(super) fn surge(state: &State, change: &Change) -> Option<String> {
    let made = change.made()?;
    let (pool, count) = match made.resource {
        "machines" => {
            let pool = pool_of(made)?;
            let of_pool = |one: &&std::sync::Arc<Snapshot>| pool_of(one) == Some(pool);
            (pool, state.all(Place::World, "machines").filter(of_pool).count())
        }
        "virtualmachines" if is_vm(made) => {
            let pool = made.label(POOL);
            let of_pool = |one: &&std::sync::Arc<Snapshot>| one.label(POOL) == pool;
            (pool, state.all(Place::World, "virtualmachines").filter(of_pool).count())
        }
        _ => return None,
    };
    let bounds = bounds(state, pool)?;
    let most = bounds.replicas + bounds.surge;
    (count > most).then(|| format!("{} {} is number {count} of at most {most}", made.resource, made.name()))
}

/// Whether a Machine serves its pool.
fn is_available(state: &State, machine: &Snapshot) -> bool {
    !machine.deleting()
        && node_of(state, machine.name()).is_some_and(|node| node.json().condition_holds("Ready"))
}

/// A Machine that serves is taken away only where enough others do. One whose host is emptied has to go in any case:
/// those are taken one at a time.
pub(super) fn availability(state: &State, change: &Change) -> Option<String> {
    let machine = change.doomed().filter(|one| one.place == Place::World && one.resource == "machines")?;
    let before = change.before.as_ref()?;
    let pool = pool_of(machine)?;
    let bounds = bounds(state, pool)?;
    if !is_available(state, before) {
        return None;
    }
    let emptied = host_of(state, machine.name()).is_some_and(|host| host.json().flag("/spec/unschedulable"));
    let missing = bounds.unavailable.max(usize::from(emptied));
    let least = bounds.replicas.saturating_sub(missing);
    let left = state
        .all(Place::World, "machines")
        .filter(|one| one.uid() != machine.uid() && pool_of(one) == Some(pool) && is_available(state, one))
        .count();
    (left < least).then(|| format!("Machine {} goes and leaves {left} of at least {least}", machine.name()))
}

//! What of a machine differs from what is wished and can be changed while it exists.

use trellis_model::quantity::Bytes;
use trellis_platform::{Drift, Wish};

use crate::applied::Applied;
use crate::check::is_renderable;
use crate::machine::{Machine, PoolOf};
use crate::seen::VirtualMachine;
use crate::{names, vm};

/// What differs, in a fixed order.
pub(super) fn drift(seen: &VirtualMachine, wish: &Wish) -> Vec<Drift> {
    // What others made stays as it is, and so does what is another cluster's.
    if !seen.is_of(&wish.cluster) || seen.meta.deleting.is_some() {
        return Vec::new();
    }
    let pool = PoolOf::new(&wish.cluster, &wish.pool);
    if !is_renderable(&pool) {
        return Vec::new();
    }
    let machine = pool.machine(wish.identity.clone(), None);
    let drift = Differences::between(seen, &pool, &machine).names();
    drift.into_iter().map(|what| Drift { what: what.to_owned() }).collect()
}

/// What differs between a machine and what it is to be.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    /// The memory it is to have.
    pub(crate) memory: Option<u64>,
    /// The sockets it is to have.
    pub(crate) sockets: Option<u32>,
    /// Data disks it is to get, by their place in the template.
    pub(crate) plug: Vec<usize>,
    /// Data disks it is to lose, by their names within the machine.
    pub(crate) unplug: Vec<String>,
    /// What else would be written otherwise now.
    pub(crate) parts: Vec<&'static str>,
}

impl Differences {
    /// Compares.
    ///
    /// A machine that was taken over has nothing written on it by us: only what it says itself in the form we use
    /// is compared.
    pub(crate) fn between(seen: &VirtualMachine, pool: &PoolOf<'_>, machine: &Machine<'_>) -> Self {
        let compute = pool.resolved.compute().filter(|_| super::grows(pool));
        let wished_memory = compute.and_then(|compute| compute.memory.guest_bytes()).map(Bytes::get);
        let wished_sockets = compute.and_then(|compute| crate::compute::cpu(&compute.cpu).sockets);
        let differing =
            |have: Option<u64>, want: Option<u64>| want.filter(|want| have.is_some_and(|have| have != *want));
        let mut differences = Self {
            memory: differing(seen.memory, wished_memory),
            sockets: wished_sockets.filter(|want| seen.sockets.is_some_and(|have| have != *want)),
            ..Self::default()
        };
        let Some(written) = &seen.applied else { return differences };
        let disks = &machine.template().data_disks;
        let has = |volume: &str| seen.volumes.iter().any(|used| used.data_volume.as_deref() == Some(volume));
        let missing =
            disks.iter().enumerate().filter(|(_, disk)| !has(&names::data_disk(machine.name(), &disk.name)));
        differences.plug = missing.map(|(place, _)| place).collect();
        let is_wished = |name: &str| disks.iter().any(|disk| disk.name.as_str() == name);
        let of_disk = |name: &str| {
            let device = trellis_model::names::DeviceName::new(name).ok()?;
            Some(names::data_disk(machine.name(), &device))
        };
        // Volumes that others plugged have names of their own and are none of ours to take away.
        let surplus = seen.volumes.iter().filter(|used| {
            used.name.as_ref() != trellis_model::volume::ROOT_DISK
                && !is_wished(&used.name)
                && used.data_volume.is_some()
                && used.data_volume.as_deref() == of_disk(&used.name).as_deref()
        });
        differences.unplug = surplus.map(|used| used.name.to_string()).collect();
        differences.parts = Applied::of(&vm::virtual_machine(machine)).differences(written);
        differences
    }

    /// What differs, for people.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        let mut note = |differs: bool, name| names.extend(differs.then_some(name));
        note(self.memory.is_some(), "memory");
        note(self.sockets.is_some(), "sockets");
        note(!self.plug.is_empty() || !self.unplug.is_empty(), "disks");
        names.extend(&self.parts);
        names
    }
}

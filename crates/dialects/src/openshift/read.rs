//! From documents to clusters and pools.

mod install;
mod machines;
mod networking;
mod ovirt;
mod platform;
mod pools;
mod provider;

pub(super) use self::networking::PLUGINS;

use super::Object;
use crate::reading::{DocumentId, Reading};

/// Reads the documents of this dialect into the estate: clusters first, for machines refer to them.
pub fn read(objects: Vec<(DocumentId, Object)>, reading: &mut Reading) {
    let mut machines = Vec::new();
    for (document, object) in objects {
        match object {
            Object::InstallConfig(config) => install::read(&mut reading.within(document), &config),
            other => machines.push((document, other)),
        }
    }
    for (document, object) in machines {
        match object {
            Object::MachineSet(set) => machines::set(reading, document, &set),
            Object::Machine(machine) => machines::machine(reading, document, &machine),
            Object::InstallConfig(_) => {}
        }
    }
}

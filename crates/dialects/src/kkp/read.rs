//! From documents to pools, and to the clusters the pools imply.

mod cluster;
mod envelope;
mod generations;
mod image;
mod kubeconfig;
mod placement;
mod pool;
mod shape;
mod values;

use super::Object;
use crate::reading::{DocumentId, Reading};

/// Reads the documents of this dialect into the estate.
pub fn read(objects: Vec<(DocumentId, Object)>, reading: &mut Reading) {
    for (document, object) in objects {
        let mut cx = reading.within(document);
        match object {
            Object::MachineDeployment(deployment) => pool::deployment(&mut cx, &deployment),
            Object::MachineSet(set) => pool::set(&mut cx, &set),
            Object::Machine(machine) => pool::machine(&mut cx, &machine),
            // Looked at where a setting refers to it.
            Object::ConfigMap(_) => {}
        }
    }
}

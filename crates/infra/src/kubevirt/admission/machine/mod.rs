//! Virtual machines: what they get when they are made, and what they may not be.

mod fill;
mod judge;

pub use fill::mutate;
pub use judge::{judge, spec, validate};

use serde_json::Value;

use crate::object::Object as _;

/// The machine with the namespace it is going to have.
fn namespaced(vm: &Value, namespace: &str) -> Value {
    let mut vm = vm.clone();
    if vm.namespace().is_empty() {
        vm.set("/metadata/namespace", namespace.into());
    }
    vm
}

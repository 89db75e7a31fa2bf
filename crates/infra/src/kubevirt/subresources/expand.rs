//! Machines with their instancetypes and preferences worked in.

use serde_json::Value;

use super::{Answer, Asked, Refusal, told};
use crate::kinds::VM;
use crate::kubevirt::shapes;
use crate::object::Object as _;

impl Asked {
    pub(super) async fn expand_spec(&self) -> Answer {
        let vm = self.vm().await?;
        self.expanded(vm).await
    }

    pub(super) async fn expand_given(&self, vm: &Value) -> Answer {
        if !vm.is_object() {
            return Err(Refusal::bad("empty request body"));
        }
        if vm["kind"] != VM.kind {
            let message = "Object is not a valid VirtualMachine";
            return Err(Refusal::bad(message));
        }
        let mut vm = vm.clone();
        match vm.namespace() {
            "" => vm.set("/metadata/namespace", self.place.namespace.as_str().into()),
            namespace if namespace == self.place.namespace => {}
            namespace => {
                return Err(Refusal::bad(&format!(
                    "VM namespace must be empty or {}, not {namespace}",
                    self.place.namespace
                )));
            }
        }
        self.expanded(vm).await
    }

    async fn expanded(&self, vm: Value) -> Answer {
        let expanded = shapes::expand_spec(&self.context, &vm).await;
        let mut vm = expanded.map_err(|problem| self.vm_conflict(&problem.to_string()))?;
        vm["apiVersion"] = VM.api_version().into();
        vm["kind"] = VM.kind.into();
        Ok(told(&vm))
    }
}

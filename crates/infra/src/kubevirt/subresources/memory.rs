//! Dumping the memory of a machine onto a claim.

use serde_json::{Value, json};

use super::{Answer, Asked, Refusal, accepted};
use crate::kinds::{PVC, VM};
use crate::object::{Key, Object as _};
use crate::quantity;

/// What a dump is larger than the memory by.
const OVERHEAD: i128 = 100 * 1024 * 1024;

/// What a machine's status becomes when a dump is asked for.
fn requested(vm: &Value, claim: &str) -> Result<Value, String> {
    let old = vm.at("/status/memoryDumpRequest");
    match old.text("/phase") {
        "" | "Completed" | "Failed" => {}
        "Dissociating" => {
            return Err(format!(
                "can't dump memory for pvc [{claim}] a remove memory dump request is in progress"
            ));
        }
        _ => return Err(format!("memory dump request for pvc [{claim}] already in progress")),
    }
    Ok(json!({"claimName": claim, "phase": "Associating"}))
}

/// What a machine's status becomes when a dump is to be forgotten.
fn removed(vm: &Value) -> Result<Value, String> {
    let old = vm.at("/status/memoryDumpRequest");
    if old.is_null() {
        return Err(format!(
            "can't remove memory dump association for vm {}, no association found",
            vm.name()
        ));
    }
    let claim = old.text("/claimName");
    if old.flag("/remove") {
        return Err(format!("memory dump remove request for pvc [{claim}] already exists"));
    }
    Ok(json!({"claimName": claim, "phase": "Dissociating", "remove": true}))
}

impl Asked {
    pub(super) async fn memory_dump(&self, body: &Value) -> Answer {
        let vm = self.vm().await?;
        let known = vm.text("/status/memoryDumpRequest/claimName");
        let claim = match (body.text("/claimName"), known) {
            ("", "") => return Err(Refusal::bad("Memory dump requires claim name to be set")),
            ("", known) => known,
            (claim, "") => claim,
            (claim, known) if claim == known => claim,
            (claim, known) => {
                return Err(self.vm_conflict(&format!(
                    "can't request memory dump for pvc [{claim}] while pvc [{known}] is still associated as the memory dump pvc"
                )));
            }
        };
        let vmi = self.vmi().await?;
        if vmi.text("/status/phase") != "Running" {
            return Err(self.vmi_conflict("VMI is not running"));
        }
        self.check_claim(&vmi, claim).await?;
        let request = requested(&vm, claim).map_err(|why| self.vm_conflict(&why))?;
        self.set_dump(&vm, request).await
    }

    pub(super) async fn remove_memory_dump(&self) -> Answer {
        let vm = self.vm().await?;
        let request = removed(&vm).map_err(|why| self.vm_conflict(&why))?;
        self.set_dump(&vm, request).await
    }

    async fn set_dump(&self, vm: &Value, request: Value) -> Answer {
        let path = "/status/memoryDumpRequest";
        let old = vm.at(path);
        let op = if old.is_null() { "add" } else { "replace" };
        let patch =
            json!([{"op": "test", "path": path, "value": old}, {"op": op, "path": path, "value": request}]);
        self.patch(&VM, "status", patch, false).await?;
        Ok(accepted())
    }

    /// Whether a claim can take the memory of an instance.
    async fn check_claim(&self, vmi: &Value, name: &str) -> Result<(), Refusal> {
        let found = self.client.get(&PVC, &Key::new(&self.place.namespace, name)).await;
        let claim = found
            .map_err(Refusal::of_api)?
            .ok_or_else(|| Refusal::not_found("persistentvolumeclaim", name))?;
        let conflict = |why: &str| Err(Refusal::conflict("persistentvolumeclaim", name, why));
        if claim.text("/spec/volumeMode") == "Block" {
            return conflict("pvc should be filesystem pvc");
        }
        let modes = claim.list("/spec/accessModes");
        if !modes.is_empty() && modes.iter().all(|mode| mode == "ReadOnlyMany") {
            return conflict("pvc access mode can't be read only");
        }
        let memory = [vmi.at("/spec/domain/memory/guest"), vmi.at("/spec/domain/resources/requests/memory")];
        let memory = memory.into_iter().map(quantity::whole).find(|bytes| *bytes > 0).unwrap_or_default();
        let needed = memory + OVERHEAD;
        let asked = claim.at("/spec/resources/requests/storage");
        if quantity::whole(asked) < needed {
            let asked = asked.as_str().unwrap_or("0");
            return conflict(&format!("pvc size [{asked}] should be bigger then [{needed}]"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dump_at_a_time() {
        let vm =
            |request: Value| json!({"metadata": {"name": "m"}, "status": {"memoryDumpRequest": request}});
        assert_eq!(requested(&json!({}), "c"), Ok(json!({"claimName": "c", "phase": "Associating"})));
        assert!(requested(&vm(json!({"claimName": "c", "phase": "InProgress"})), "c").is_err());
        assert!(requested(&vm(json!({"claimName": "c", "phase": "Completed"})), "c").is_ok());
        assert!(removed(&json!({"metadata": {"name": "m"}})).unwrap_err().contains("no association"));
        let gone = removed(&vm(json!({"claimName": "c", "phase": "Completed"}))).unwrap();
        assert_eq!(gone, json!({"claimName": "c", "phase": "Dissociating", "remove": true}));
        assert!(removed(&vm(gone)).is_err());
    }
}

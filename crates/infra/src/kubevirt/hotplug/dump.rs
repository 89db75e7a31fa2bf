//! Dumps of a machine's memory onto a claim: asked for in the machine's status, carried out step by step.

use serde_json::{Value, json};

use crate::client::{Client, Identity};
use crate::context::Context;
use crate::controller::{Controller, Looked, Next, Watch};
use crate::kinds::{VM, VMI};
use crate::object::{Key, Object as _};
use crate::waits::{Waited, Waits};

/// What a request becomes next; null where it is over with. `failed` says why the dump could not be made.
fn next(request: &Value, runs: bool, now: &str, name: &str, failed: Option<&str>) -> Option<Value> {
    let mut new = request.clone();
    match request.text("/phase") {
        _ if request.flag("/remove") => return Some(Value::Null),
        "Associating" if runs => {
            new["phase"] = "InProgress".into();
            new["startTimestamp"] = now.into();
        }
        "InProgress" => {
            new["endTimestamp"] = now.into();
            if let Some(message) = failed {
                new["phase"] = "Failed".into();
                new["message"] = message.into();
            } else {
                new["phase"] = "Unmounting".into();
                let claim = request.text("/claimName");
                let stamp: String = now.chars().filter(char::is_ascii_digit).collect();
                new["fileName"] = format!("{name}-{claim}-{stamp}.memory.dump").into();
            }
        }
        "Unmounting" => new["phase"] = "Completed".into(),
        _ => return None,
    }
    Some(new)
}

/// Carries dumps out.
#[derive(Debug)]
pub(super) struct Dump {
    context: Context,
    client: Client,
    /// By the uid of the machine.
    waits: Waits,
}

impl Dump {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            client: context.client(Identity::VIRT_CONTROLLER),
            waits: Waits::new(&context.stages),
        }
    }
}

impl Controller for Dump {
    const NAME: &'static str = "memory-dump";

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::each(&self.client.cache(&VM)), Watch::each(&self.client.cache(&VMI))]
    }

    async fn look(&self, key: &Key) -> Looked {
        let Some(vm) = self.client.cache(&VM).get(key) else {
            let there = self.client.cache(&VM).list("");
            self.waits.keep(|uid| there.iter().any(|vm| vm.uid() == uid));
            return Ok(Next::Done);
        };
        let request = vm.at("/status/memoryDumpRequest");
        if !request.is_object() {
            return Ok(Next::Done);
        }
        let mut failed = None;
        if request.text("/phase") == "InProgress" {
            match self.waits.ask(vm.uid(), "memory.dump", &vm) {
                Waited::Passed => {}
                Waited::NotYet(wait) => return Ok(Next::After(wait)),
                Waited::Failed(message) => failed = Some(message),
            }
        } else {
            self.waits.forget(vm.uid());
        }
        let vmi = self.client.cache(&VMI).get(key);
        let runs = vmi.is_some_and(|vmi| vmi.text("/status/phase") == "Running");
        let now = self.context.clock.seconds();
        if let Some(new) = next(request, runs, &now, vm.name(), failed.as_deref()) {
            let patch = json!([
                {"op": "test", "path": "/status/memoryDumpRequest", "value": request},
                if new.is_null() {
                    json!({"op": "remove", "path": "/status/memoryDumpRequest"})
                } else {
                    json!({"op": "replace", "path": "/status/memoryDumpRequest", "value": new})
                },
            ]);
            self.client.json_patch_status(&VM, key, &patch).await?;
        }
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_goes_through_its_phases() {
        let mut request = json!({"claimName": "c", "phase": "Associating"});
        assert_eq!(next(&request, false, "1", "m", None), None);
        for phase in ["InProgress", "Unmounting", "Completed"] {
            request = next(&request, true, "2026-01-01T00:00:00Z", "m", None).unwrap();
            assert_eq!(request["phase"], phase);
        }
        assert_eq!(request["fileName"], "m-c-20260101000000.memory.dump");
        assert_eq!(next(&request, true, "3", "m", None), None);
        assert_eq!(
            next(&json!({"phase": "Dissociating", "remove": true}), true, "3", "m", None),
            Some(Value::Null)
        );
        let failed = next(&json!({"phase": "InProgress"}), true, "3", "m", Some("no room")).unwrap();
        assert_eq!(failed["phase"], "Failed");
    }
}

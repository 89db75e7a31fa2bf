//! The volumes a machine brings along.

use serde_json::Value;

use super::Machines;
use super::make;
use super::strategy::Strategy;
use crate::client::ApiError;
use crate::kinds::{DATA_SOURCE, DATA_VOLUME, VM};
use crate::kubevirt::names::IMMEDIATE_VOLUMES_ANNOTATION;
use crate::object::{Key, Object as _, owned_by};

/// What went wrong: in one word, and what the API server said.
type Failure = (&'static str, ApiError);

/// How a volume is on its way to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A machine can be started with it.
    Ready,
    /// Not yet.
    Waiting,
    /// It will never be.
    Failed,
}

/// How a data volume is. One that waits for its first consumer is bound by the instance itself.
fn way(volume: &Value) -> Way {
    match volume.text("/status/phase") {
        "Succeeded" | "WaitForFirstConsumer" | "PendingPopulation" => Way::Ready,
        "Failed" => Way::Failed,
        _ => Way::Waiting,
    }
}

/// Whether the volumes of a machine are made before it is started.
fn are_made_at_once(vm: &Value) -> bool {
    vm.annotation(IMMEDIATE_VOLUMES_ANNOTATION) != "false" || Strategy::of(vm) != Strategy::Halted
}

impl Machines {
    /// Makes the data volumes of a machine's templates that are missing. True when all are ready.
    pub(super) async fn fill(&self, vm: &Value) -> Result<bool, Failure> {
        let mut ready = true;
        for template in vm.list("/spec/dataVolumeTemplates") {
            let key = Key::new(vm.namespace(), template.name());
            match self.volumes.get(&key) {
                Some(volume) => ready &= self.check(vm, &volume).await?,
                // A claim that was filled before needs no data volume any more.
                None if self.claims.get(&key).is_some_and(|claim| is_filled(&claim)) => {}
                None => {
                    ready = false;
                    if are_made_at_once(vm) {
                        self.make_volume(vm, template).await?;
                    }
                }
            }
        }
        Ok(ready)
    }

    /// Whether a data volume is ready; one that nobody controls becomes the machine's.
    async fn check(&self, vm: &Value, volume: &Value) -> Result<bool, Failure> {
        if volume.controller().is_none() && !volume.is_deleting() {
            let patch = serde_json::json!({"metadata": {
                "uid": volume.uid(), "ownerReferences": [owned_by(&VM, vm)],
            }});
            let adopted = self.client.merge(&DATA_VOLUME, &Key::of(volume), &patch).await;
            adopted.map_err(|failure| ("FailedCreate", failure))?;
        }
        let way = way(volume);
        if way == Way::Failed {
            let message = format!("DataVolume {} failed to import disk image", volume.name());
            self.recorder.warning(&VM, vm, "FailedDataVolumeImport", &message).await;
        }
        Ok(way == Way::Ready)
    }

    async fn make_volume(&self, vm: &Value, template: &Value) -> Result<(), Failure> {
        let source = self.source(vm, template);
        match self.client.create(&DATA_VOLUME, make::data_volume(vm, template, source)).await {
            Ok(volume) => {
                let message = format!("Created DataVolume {}", volume.name());
                self.recorder.normal(&VM, vm, "SuccessfulDataVolumeCreate", &message).await;
                Ok(())
            }
            Err(failure) if failure.is_already_there() => Ok(()),
            Err(failure) => {
                let reason = if failure.code == 403 {
                    "UnauthorizedDataVolumeCreate"
                } else {
                    "FailedDataVolumeCreate"
                };
                let message = format!("Error creating DataVolume {}: {failure}", template.name());
                self.recorder.warning(&VM, vm, reason, &message).await;
                Err(("FailedCreate", failure))
            }
        }
    }

    /// What the `sourceRef` of a template stands for now; nothing where it has none or it is not known, in which
    /// case CDI finds out.
    fn source(&self, vm: &Value, template: &Value) -> Option<Value> {
        let reference = template.at("/spec/sourceRef");
        let name = reference["name"].as_str()?;
        let namespace = reference["namespace"].as_str().unwrap_or(vm.namespace());
        let found = self.client.cache(&DATA_SOURCE).get(&Key::new(namespace, name))?;
        let concrete = ["/status/source", "/spec/source"].map(|place| found.at(place).clone());
        concrete.into_iter().find(|source| source["pvc"].is_object() || source["snapshot"].is_object())
    }
}

/// Whether a claim says that it was filled.
fn is_filled(claim: &Value) -> bool {
    !claim.annotation("cdi.kubevirt.io/storage.populatedFor").is_empty()
        || claim.annotation("cdi.kubevirt.io/storage.pod.phase") == "Succeeded"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_waits_for_its_consumer_does_not_keep_it_waiting() {
        for (phase, expected) in [
            ("", Way::Waiting),
            ("ImportInProgress", Way::Waiting),
            ("WaitForFirstConsumer", Way::Ready),
            ("PendingPopulation", Way::Ready),
            ("Succeeded", Way::Ready),
            ("Failed", Way::Failed),
        ] {
            assert_eq!(way(&json!({"status": {"phase": phase}})), expected, "{phase}");
        }
    }

    #[test]
    fn volumes_can_wait_for_the_start() {
        let mut vm = json!({"spec": {"runStrategy": "Halted"}});
        assert!(are_made_at_once(&vm));
        vm.set_annotation("kubevirt.io/immediate-data-volume-creation", "false");
        assert!(!are_made_at_once(&vm));
        vm.set("/spec/runStrategy", "Always".into());
        assert!(are_made_at_once(&vm));
    }
}
